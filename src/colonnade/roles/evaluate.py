"""Evaluation on held-out rows: real messages, through the same uplink as training.

Parties evaluate their bottom models on the held-out rows and upload the embeddings, in pieces; the
label holder fuses, applies the top model, and reports the metrics. No derivative returns. The
messages carry the purpose EVALUATION, so that the ledger keeps them apart from training.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from colonnade.effects import Purpose, Work
from colonnade.evaluation import HeldOut
from colonnade.links import Rows
from colonnade.metrics import Metric
from colonnade.models import Learner
from colonnade.uplinks import Collected, Collector, Moment, Uploader

__all__ = ["Own", "TopAnswer", "asked_top", "evaluated", "upload"]

Own = Callable[[Rows, Moment], Awaitable[Tensor | None]]
"""The label holder's own embedding of some rows; None where it has no columns."""


@dataclass(frozen=True, eq=False)
class TopAnswer:
    """What the top model says of some rows, and of which embeddings.

    Parameters
    ----------
    outputs
        The top model's.
    collected
        What the parties' embeddings of these rows came to.
    own
        The label holder's own; None where it has no columns.
    """

    outputs: Tensor
    collected: Collected
    own: Tensor | None


async def upload(
    uploader: Uploader,
    bottom: Learner,
    held_out: HeldOut,
    round: int,
    purpose: Purpose = Purpose.EVALUATION,
) -> None:
    """Play the party's part: embed the rows and send the embeddings."""
    for rows, moment in held_out.moments(round, purpose):
        await uploader.upload(bottom, rows, moment)


async def asked_top(
    collector: Collector, own: Own, top: Learner, rows: Rows, moment: Moment
) -> TopAnswer:
    """Play the label holder's part for one piece of the rows: collect, fuse, apply the top model.

    ``own`` gives the label holder's own embedding of some rows.
    """
    embedding = await own(rows, moment)
    collected = await collector.collect(rows, moment)
    predict = partial(_outputs, collected, embedding, top)
    return TopAnswer(
        await Work("top", predict, moment.round, moment.purpose, rows=len(rows)),
        collected,
        embedding,
    )


def _outputs(collected: Collected, own: Tensor | None, top: Learner) -> Tensor:
    return top(collected.fuse(own).clone(), training=False)  # which it may write into


async def evaluated(
    collector: Collector,
    own: Own,
    top: Learner,
    labels: Tensor,
    metrics: Sequence[Metric],
    held_out: HeldOut,
    round: int,
) -> dict[str, float]:
    """Return the metrics on held-out rows, each named after them: ``test_accuracy``."""
    pieces = [
        (await asked_top(collector, own, top, rows, moment)).outputs
        for rows, moment in held_out.moments(round, Purpose.EVALUATION)
    ]
    predictions = torch.cat(pieces)
    truth = labels[torch.from_numpy(held_out.rows)]
    values = await Work(
        "metrics",
        lambda: {metric.name: metric(predictions, truth) for metric in metrics},
        round,
        Purpose.EVALUATION,
        rows=len(truth),
    )
    return {f"{held_out.name}_{metric}": value for metric, value in values.items()}
