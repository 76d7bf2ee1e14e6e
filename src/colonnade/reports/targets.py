"""The value of a metric that runs are compared by: what each had cost when it was reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from colonnade.errors import ConfigurationError
from colonnade.reaching import check_value
from colonnade.reports.groups import by_metric
from colonnade.reports.words import is_score, words
from colonnade.runs import Run

__all__ = ["Target", "check_target", "target_of"]

_MARGIN = 0.002
"""How far from the best of the first run: it is a peak of a noisy curve, which others may miss."""


@dataclass(frozen=True)
class Target:
    """A value of the metric that decides, and where it is from, in a sentence."""

    value: float
    told: str


def target_of(runs: Mapping[str, Run], asked: float | None = None) -> Target | None:
    """Return the target of runs that are judged by one metric.

    It is what was asked for, or else a little short of the best of the first of them that has one.
    There is none for a single run, unless one was asked for, or where no run was evaluated.
    """
    first = next(iter(runs.values())).summary
    metric = words(str(first["metric"]))
    if asked is not None:
        return Target(asked, f"target: {metric} {asked:.6g}")
    bests = {name: run.summary["best"] for name, run in runs.items()}
    name, best = next(((n, b) for n, b in bests.items() if b is not None), ("", None))
    if best is None or len(runs) < 2:
        return None
    score = is_score(str(first["metric"]))
    margin = _MARGIN if score else _MARGIN * abs(best)
    short = f"{_MARGIN}" if score else f"{_MARGIN:.1%}"
    value = best - margin if first["greater_is_better"] else best + margin
    side = "below" if first["greater_is_better"] else "above"
    return Target(value, f"target: {metric} {value:.6g}, {short} {side} the best of {name}")


def check_target(runs: Mapping[str, Run], asked: float | None) -> None:
    """Refuse a target that no metric has, or of runs that are judged by several.

    Raises
    ------
    ConfigurationError
        If it is no finite number, or would be one of several metrics.
    """
    if asked is None:
        return
    check_value(asked)
    if len(metrics := by_metric(runs)) > 1:
        raise ConfigurationError(
            f"a target is a value of one metric, but these runs are judged by "
            f"{' and '.join(map(words, metrics))}; compare those of one metric"
        )
