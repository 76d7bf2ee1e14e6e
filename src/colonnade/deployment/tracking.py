"""What organisations report goes to FLARE's own trackers: TensorBoard, MLflow, Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping

from nvflare.apis.analytix import ANALYTIC_EVENT_TYPE, AnalyticsData, AnalyticsDataType
from nvflare.apis.fl_constant import EventScope, FedEventHeader, FLContextKey, ReservedKey
from nvflare.apis.fl_context import FLContext

__all__ = ["track"]

_NO_CURVE = ("round", "organisation")


def track(values: Mapping[str, float | int | str], fl_ctx: FLContext) -> None:
    """Tell the server's receivers what an organisation reports, each number as a point of a curve.

    They are told as if the organisation's site had sent it by FLARE's own writers, so that any
    receiver takes it; where there is none, nobody does.

    Parameters
    ----------
    values
        What is reported: the round, the organisation, and numbers.
    fl_ctx
        Of the server's job.
    """
    if "round" not in values:  # how far an alignment is, say
        return
    for key, value in values.items():
        if isinstance(value, str) or key in _NO_CURVE:
            continue
        point = AnalyticsData(
            key, float(value), AnalyticsDataType.SCALAR, global_step=int(values["round"])
        )
        shareable = point.to_dxo().to_shareable()
        shareable.set_header(FedEventHeader.DIRECTION, "in")  # else FLARE tells it to all sites
        shareable.set_peer_props({ReservedKey.IDENTITY_NAME: str(values["organisation"])})
        for prop, told in (
            (FLContextKey.EVENT_DATA, shareable),
            (FLContextKey.EVENT_SCOPE, EventScope.FEDERATION),
        ):
            fl_ctx.set_prop(prop, told, private=True, sticky=False)
        fl_ctx.get_engine().fire_event(f"fed.{ANALYTIC_EVENT_TYPE}", fl_ctx)
