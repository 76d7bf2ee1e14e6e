"""Whether the data of a run, read again later, are what it was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from colonnade.agreement import digest_of_rows
from colonnade.assembly import VerticalData
from colonnade.models import Features
from colonnade.prediction import Predictor
from colonnade.traces import are_alike, trace_of

__all__ = ["changes_since"]

_ROUNDING = 1e-6  # by which means of the same numbers may differ on another computer
_NEAR_0 = 1e-12
_PARTS = {"train": "training", "validation": "validation", "test": "test"}


def changes_since(
    summary: Mapping[str, Any], predictor: Predictor, data: VerticalData, holds: str | None
) -> list[str]:
    """Return in a few words each what of a run's data is not what it was trained on.

    Which rows are for what, what columns become and which classes there are hangs on all rows, and
    is made anew as data are read: a trained part would take it for what it was. What a run of an
    earlier version does not say is not compared.

    Parameters
    ----------
    summary
        The run's.
    predictor
        Its trained parts.
    data
        As they are now.
    holds
        Which part of the data is the label holder's own, if any is.
    """
    changes = []
    divided = {part: getattr(data, part) for part in _PARTS}
    for part, called in _PARTS.items():
        before, now = summary.get(f"rows_{part}"), len(divided[part])
        if before is not None and before != now:
            changes.append(f"{before:,} {called} rows became {now:,}")
    digest = digest_of_rows(*divided.values())
    if not changes and summary.get("rows_digest", digest) != digest:
        changes.append(
            "other rows are for training, validation and test, as of people of other ids"
        )
    classes = [str(each) for each in data.classes] if isinstance(data.classes, tuple) else []
    if classes and classes != [str(each) for each in summary.get("classes") or classes]:
        changes.append("there are other classes")
    elif _are_others(predictor, predictor.label_holder, "labels", data.labels):
        changes.append("the labels are others, or of other rows")
    for name, features in data.features.items():
        owner = predictor.label_holder if name == holds else name
        was, made = predictor.transformers.get(owner), data.transformers.get(name)
        if was is not None and made is not None and (how := _changed(was.state(), made.state())):
            changes.append(f"the columns of {name!r} {how}")
        elif _are_others(predictor, owner, "features", features):
            changes.append(f"the rows of {name!r} hold other values, or are in another order")
    return changes


def _are_others(predictor: Predictor, owner: str, what: str, data: Features) -> bool:
    """Whether what an organisation has is seen not to be what it had; where nothing is said, no."""
    before = predictor.traces.get(owner, {}).get(what)
    return before is not None and not are_alike(before, trace_of(data))


def _changed(one: Any, other: Any) -> str:
    """Return how columns that become these features differ from such as became those, if so."""
    if _alike(one, other):
        return ""
    if _alike(_sorted(one), _sorted(other)):
        return "are in another order: put them in the former one"
    return "become other features"


def _sorted(state: Any) -> Any:
    """Return the state of a transformer with its columns sorted by their names."""
    columns = state.get("columns")
    if not isinstance(columns, list):  # those of streamed rows are named by the configuration
        return state
    return {**state, "columns": sorted(columns, key=lambda column: str(column["name"]))}


def _alike(one: Any, other: Any) -> bool:
    """Whether JSON values are the same but for the rounding of numbers."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
        case list() | tuple(), list() | tuple():
            return len(one) == len(other) and all(map(_alike, one, other))
        case float(), float():
            return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_NEAR_0) or (
                one != one and other != other
            )
    return bool(one == other)
