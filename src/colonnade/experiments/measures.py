"""What experiments measure of a run: its best metric, and what it cost to reach a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from colonnade.experiments.experiment import Result, mean_and_deviation
from colonnade.ledger import Entry
from colonnade.reports import Chart, Curve, human_bytes
from colonnade.runs import Run
from colonnade.wire import Purpose

__all__ = [
    "accuracy_chart",
    "accuracy_curve",
    "best",
    "best_cell",
    "bytes_both",
    "bytes_framed",
    "cost",
    "cost_cell",
    "mean_cell",
    "reached",
    "reaching_cell",
    "repetitions",
    "rounds",
    "target_below",
]


def best(run: Run) -> float:
    """Return the best value of the run's metric, in %."""
    return math.nan if run.summary["best"] is None else 100 * run.summary["best"]


def target_below(results: Sequence[Result], points: float) -> float:
    """Return the mean best accuracy of some runs less some points, as a share."""
    mean, _ = mean_and_deviation([best(result.run) for result in results])
    return (mean - points) / 100


def reached(run: Run, target: float) -> int | None:
    """Return the place in the history where the metric first reaches a target; None if never."""
    values = run.history[run.summary["metric"]].to_list()
    places = [i for i, value in enumerate(values) if value is not None and value >= target]
    return places[0] if places else None


def cost(run: Run, target: float, of: Callable[[Run, int], float]) -> float | None:
    """Return what it cost to reach a target, where ``of`` says what it cost to get to a place."""
    place = reached(run, target)
    return None if place is None else of(run, place)


def bytes_both(run: Run, place: int) -> float:
    """Return the bytes of bodies sent for training, up and down, until a place of the history."""
    return float(run.history["bytes_up"][place] + run.history["bytes_down"][place])


def bytes_framed(run: Run, place: int) -> float:
    """Return the same, envelopes included: all that training sent until then."""
    before = run.history["round"][place]

    def counts(entry: Entry) -> bool:
        return entry.purpose is Purpose.TRAINING and not entry.lost and entry.round < before

    return float(run.ledger.framed_bytes(counts))


def rounds(run: Run, place: int) -> float:
    """Return the rounds until a place of the history."""
    return float(run.history["round"][place])


def mean_cell(
    values: Sequence[float | None], show: Callable[[float], str] = human_bytes
) -> tuple[float, str]:
    """Return the mean, and it with its deviation as text; not a number where one is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return math.nan, f"not reached by {len(values) - len(known)} of {len(values)}"
    mean, spread = mean_and_deviation(known)
    return mean, f"{show(mean)} ± {show(spread)}" if len(known) > 1 else show(mean)


def best_cell(results: Sequence[Result]) -> str:
    """Return the mean best metric in %, with its deviation."""
    return mean_cell([best(result.run) for result in results], lambda value: f"{value:.2f}")[1]


def cost_cell(
    results: Sequence[Result], target: float, of: Callable[[Run, int], float]
) -> tuple[float, str]:
    """Return what it cost to reach a target in bytes: the mean, and it with its deviation."""
    return mean_cell([cost(result.run, target, of) for result in results])


def reaching_cell(
    results: Sequence[Result], target: float, of: Callable[[Run, int], float]
) -> tuple[float, str]:
    """Return what it cost those that reached a target, and how many did.

    The mean stands for all only where at least nine of ten reached it: else it is not a number, so
    that no ratio hides a miss.
    """
    costs = [cost(result.run, target, of) for result in results]
    known = [value for value in costs if value is not None]
    count = f"{len(known)} of {len(costs)}"
    if not known:
        return math.nan, f"reached by {count}"
    mean, cell = mean_cell(known)
    return (mean if 10 * len(known) >= 9 * len(costs) else math.nan), f"{cell}, {count}"


def repetitions(results: Sequence[Result]) -> str:
    """Return what the cells of a table are, in words."""
    count = len(results)
    return f"{count} seeds, mean and deviation" if count > 1 else "one seed"


def accuracy_chart(
    name: str, title: str, results: Mapping[str, Sequence[Result]], ways: str = "both"
) -> Chart:
    """Return the accuracy of some runs, by name, against the bytes they sent for training.

    ``ways`` is ``"both"`` for up and down, or ``"up"``.
    """

    def sent(run: Run) -> list[float]:
        total = run.history["bytes_up"]
        if ways == "both":
            total = total + run.history["bytes_down"]
        return [value / 1e6 for value in total.to_list()]

    metric = next(iter(results.values()))[0].run.summary["metric"]
    return Chart(
        name,
        title,
        "bytes sent up (MB)" if ways == "up" else "training bytes, up and down (MB)",
        f"{metric.replace('_', ' ')} (%)",
        [accuracy_curve(label, found, sent) for label, found in results.items()],
        log_x=True,
    )


def accuracy_curve(
    name: str, results: Sequence[Result], x: Callable[[Run], Sequence[float]]
) -> Curve:
    """Return the mean accuracy in % of runs of several seeds, with its deviation."""
    histories = [result.run.history[result.run.summary["metric"]].to_list() for result in results]
    pairs = [
        mean_and_deviation([100 * value for value in at]) for at in zip(*histories, strict=True)
    ]
    spread = [deviation for _, deviation in pairs] if len(results) > 1 else []
    return Curve(name, x(results[0].run), [mean for mean, _ in pairs], spread)
