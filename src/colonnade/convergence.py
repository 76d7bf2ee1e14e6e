"""Whether training ended because the model no longer improved, or because its epochs were over."""

from __future__ import annotations

import math
import warnings

import polars as pl
from sklearn.exceptions import ConvergenceWarning

from colonnade.reports.words import words
from colonnade.runs import Run

__all__ = ["best_epoch", "epochs_done", "warn_if_improving"]

_PATIENCE = 5  # epochs, where the user has none
_WORTH = 0.01  # of all that was gained


def epochs_done(run: Run) -> int:
    """Return how many epochs a run had when it ended; one that was begun counts."""
    if "epoch" not in run.history.columns:  # interrupted before the first evaluation
        return 0
    return math.ceil(run.history["epoch"].max())  # type: ignore[arg-type]  # a number


def best_epoch(run: Run) -> int | None:
    """Return the epoch after which the metric was best; None of a run that was not evaluated."""
    if run.summary["best_round"] is None:
        return None
    at = run.history.filter(pl.col("round") == run.summary["best_round"])
    return math.ceil(at["epoch"][0]) if len(at) else None


def warn_if_improving(run: Run, epochs: int, patience: int | None) -> None:
    """Warn where training had all its epochs, and its metric was still getting better.

    That is where it was best within ``patience`` epochs of the end (without patience: within five),
    and those epochs brought more than a hundredth of all that the metric gained since it was first
    evaluated.

    Parameters
    ----------
    run
        The run, evaluated an epoch.
    epochs
        How many it might have had.
    patience
        Epochs without improvement after which it would have ended.
    """
    s, best = run.summary, best_epoch(run)
    if best is None or s["best"] is None or not s["completed"] or s["stopped_early"]:
        return
    last = patience or _PATIENCE
    if epochs - best < last and _gained(run, epochs - last):
        warnings.warn(
            f"training ran out of its {epochs} epochs with the {words(str(s['metric']))} still "
            f"getting better ({s['best']:.4g} after epoch {best}); allow more, such as "
            f"epochs={2 * epochs}",
            ConvergenceWarning,
            stacklevel=3,
        )


def _gained(run: Run, epoch: int) -> bool:
    """Whether a good part of what the metric gained came after an epoch."""
    s = run.summary
    sign = 1 if s["greater_is_better"] else -1
    seen = run.history.select("epoch", value=sign * pl.col(s["metric"])).drop_nulls()
    seen = seen.filter(pl.col("value").is_finite())
    first = seen["value"][0]
    before = seen.filter(pl.col("epoch") <= epoch)["value"]
    best, then = sign * s["best"], before.max() if len(before) else first
    return bool(best - then > _WORTH * (best - first))
