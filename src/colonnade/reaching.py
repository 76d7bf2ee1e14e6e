"""What a run had cost when its metric first reached a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from colonnade.ledger import Ledger
from colonnade.wire import Purpose

__all__ = ["Reached", "reached", "training_seconds"]


@dataclass(frozen=True)
class Reached:
    """Where a run first reached a target, and what its training had cost by then.

    Parameters
    ----------
    round, epoch
        The rounds and epochs behind it.
    seconds
        Of training, on the run's clock; None where that has none. Evaluations are left out.
    bytes_up, bytes_down
        Bytes of bodies sent for training.
    """

    round: int
    epoch: float
    seconds: float | None
    bytes_up: int
    bytes_down: int

    @property
    def bytes_both(self) -> int:
        """The bytes of both directions."""
        return self.bytes_up + self.bytes_down


def reached(
    summary: Mapping[str, Any], history: pl.DataFrame, ledger: Ledger, target: float
) -> Reached | None:
    """Return what it cost until the deciding metric was as good as a target; None if it never was.

    Where less is better, as good is as small.
    """
    metric = str(summary["metric"])
    if metric not in history.columns:
        return None
    score = pl.col(metric).cast(pl.Float64)
    good = score >= target if summary["greater_is_better"] else score <= target
    # Polars takes what is not a number for the greatest of all.
    places = history.with_row_index("place").filter(score.is_finite() & good)
    if not len(places):
        return None
    row = places.row(0, named=True)
    return Reached(
        round=row["round"],
        epoch=row["epoch"],
        seconds=training_seconds(history, ledger)[row["place"]],
        bytes_up=row["bytes_up"],
        bytes_down=row["bytes_down"],
    )


def training_seconds(history: pl.DataFrame, ledger: Ledger) -> list[float | None]:
    """Return the seconds that training had taken at each row of a history, by the run's clock.

    Evaluations are left out: what counts is the time from each of them, or from the start, to the
    last training message before the next.
    """
    if "seconds" not in history.columns:
        return [None] * len(history)
    trained = ledger.frame().filter(
        pl.col("purpose").is_in(Purpose.training_labels()) & ~pl.col("lost")
    )
    sent = trained.group_by("round").agg(pl.col("nanoseconds").max()).drop_nulls()
    last = {round + 1: nanoseconds / 1e9 for round, nanoseconds in sent.rows()}
    total, begun, places = 0.0, 0.0, list[float | None]()
    for round, seconds in history.select("round", "seconds").iter_rows():
        total += max(0.0, last.get(round, begun) - begun)
        begun = float(seconds)
        places.append(total)
    return places
