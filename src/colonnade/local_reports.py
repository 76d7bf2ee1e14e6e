"""What each organisation reported of its local steps, put together over a whole run."""

from __future__ import annotations

import math

import polars as pl

__all__ = ["local_columns", "local_reports"]

_OF_LOCAL_STEPS = "local_"  # how their columns begin
_STEPS = f"{_OF_LOCAL_STEPS}steps"


def local_columns(history: pl.DataFrame) -> list[str]:
    """Return the columns that tell of local steps; none where their number is not told."""
    if _STEPS not in history.columns:
        return []
    return [name for name in history.columns if name.startswith(_OF_LOCAL_STEPS)]


def local_reports(*histories: pl.DataFrame) -> dict[str, dict[str, int | float]]:
    """Return, for each organisation that told of local steps, what it told, by column.

    Whole numbers are counts, and added; others are means over the reports. Which columns there are
    is up to the policy of local updates, but for ``local_steps``.

    >>> told = pl.DataFrame(
    ...     {"organisation": ["bank"] * 2, "local_steps": [5, 7], "local_drift": [0.75, 0.25]}
    ... )
    >>> local_reports(told)
    {'bank': {'local_steps': 12, 'local_drift': 0.5}}
    """
    reports: dict[str, dict[str, int | float]] = {}
    for history in histories:
        columns = local_columns(history)
        told = history.drop_nulls(_STEPS) if columns else history[:0]
        if not len(told):
            continue
        for (name,), own in told.group_by("organisation", maintain_order=True):
            values = {column: _of_all(own[column]) for column in columns}
            reports[str(name)] = {
                column: value for column, value in values.items() if value is not None
            }
    return reports


def _of_all(values: pl.Series) -> int | float | None:
    """Return the sum of counts, or the mean of other numbers; None where there are none."""
    known = values.drop_nulls()
    if not known.dtype.is_numeric() or not len(known):
        return None
    if known.dtype.is_integer():
        return int(known.sum())
    mean = float(known.cast(pl.Float64).mean())  # type: ignore[arg-type]  # a number
    return mean if math.isfinite(mean) else None
