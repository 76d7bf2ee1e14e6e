"""Whether the data of a run, read again later, are what it was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from colonnade.assembly import VerticalData
from colonnade.organisations import Transformer

__all__ = ["changes_since"]

_ROUNDING = 1e-6  # by which means of the same numbers may differ on another computer
_NEAR_0 = 1e-12
_PARTS = {"train": "training", "validation": "validation", "test": "test"}


def changes_since(
    summary: Mapping[str, Any], trained: Mapping[str, Transformer], data: VerticalData
) -> list[str]:
    """Return in a few words each what of a run's data is not what it was trained on.

    Which rows are for what, what columns become and which classes there are hangs on all rows, and
    is made anew as data are read: a trained part would take it for what it was.

    Parameters
    ----------
    summary
        The run's.
    trained
        What made features of tables then, by the part of the data.
    data
        As they are now.
    """
    changes = []
    for part, called in _PARTS.items():
        before, now = summary.get(f"rows_{part}"), len(getattr(data, part))
        if before is not None and before != now:
            changes.append(f"{before:,} {called} rows became {now:,}")
    classes = [str(each) for each in data.classes] if isinstance(data.classes, tuple) else []
    if classes and classes != [str(each) for each in summary.get("classes") or classes]:
        changes.append("there are other classes")
    for name in data.features:
        was, made = trained.get(name), data.transformers.get(name)
        if was is not None and made is not None and not _alike(was.state(), made.state()):
            changes.append(f"the columns of {name!r} become other features")
    return changes


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
