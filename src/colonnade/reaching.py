"""What a run had cost when its metric first reached a target."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from colonnade.annotated import check_kind
from colonnade.errors import ConfigurationError
from colonnade.telling import shown

__all__ = ["Reached", "check_value", "reached"]

_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Reached:
    """Where a run first reached a target, and what its training had cost by then.

    Parameters
    ----------
    round, epoch
        The rounds and epochs behind it.
    seconds
        On the run's clock; None where that has none. Evaluations are in them, unless they take no
        time on that clock (``Simulate(untimed=...)``).
    bytes_up, bytes_down, bytes_between
        Bytes of bodies sent for training: to the label holder, by it, and from party to party.
    """

    round: int
    epoch: float
    seconds: float | None
    bytes_up: int
    bytes_down: int
    bytes_between: int = 0

    @property
    def bytes_both(self) -> int:
        """The bytes of all directions."""
        return self.bytes_up + self.bytes_down + self.bytes_between


def reached(summary: Mapping[str, Any], history: pl.DataFrame, target: float) -> Reached | None:
    """Return what it cost until the deciding metric was as good as a target; None if it never was.

    Where less is better, as good is as small.

    Raises
    ------
    ConfigurationError
        If the target is no finite number.
    """
    check_value(target)
    metric = str(summary["metric"])
    if metric not in history.columns:
        return None
    score = pl.col(metric).cast(pl.Float64)
    target = float(target)
    good = score >= target if summary["greater_is_better"] else score <= target
    # Polars takes what is not a number for the greatest of all.
    places = history.filter(score.is_finite() & good)
    if not len(places):
        return None
    row = places.row(0, named=True)
    return Reached(
        round=row["round"],
        epoch=row["epoch"],
        seconds=row.get("seconds"),
        bytes_up=row["bytes_up"],
        bytes_down=row["bytes_down"],
        bytes_between=row.get("bytes_between", 0),
    )


def check_value(target: float) -> None:
    """Raise ``ConfigurationError`` unless a target is a value that a metric may have.

    Examples
    --------
    >>> check_value(float("nan"))
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: target is a value of the metric, not nan
    """
    check_kind("target", target, float)
    if not -_LARGEST <= target <= _LARGEST:
        raise ConfigurationError(f"target is a value of the metric, not {shown(target)}")
