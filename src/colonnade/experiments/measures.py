"""What experiments measure of a run: its best metric, and what it cost to reach a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np

from colonnade.experiments.experiment import Result, mean_and_deviation
from colonnade.reports import Chart, Curve, human_bytes
from colonnade.runs import Run
from colonnade.sent import sent_until

__all__ = [
    "accuracy_chart",
    "accuracy_curve",
    "at_times",
    "best",
    "best_cell",
    "bodies_along",
    "bodies_up_along",
    "bytes_both",
    "bytes_framed",
    "cost",
    "cost_cell",
    "counted_cell",
    "final_points",
    "framed_along",
    "held_back",
    "last_second",
    "mean_cell",
    "reached",
    "reaching_cell",
    "repetitions",
    "rounds",
    "seconds_along",
    "share_cell",
    "target_below",
    "training_seconds_along",
    "value_at",
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
    return bodies_along(run)[place]


def bytes_framed(run: Run, place: int) -> float:
    """Return the same, envelopes included: all that training sent until then."""
    return framed_along(run)[place]


def framed_along(run: Run) -> list[float]:
    """Return the framed bytes that training had sent at each place of the history."""
    rounds = run.history["round"].to_list()
    sent = np.zeros(1 + max(rounds, default=0))
    for entry in run.ledger:
        if entry.purpose.trains and not entry.lost and entry.round + 1 < len(sent):
            sent[entry.round + 1] += entry.framed_bytes
    total = np.cumsum(sent)
    return [float(total[before]) for before in rounds]


def bodies_along(run: Run) -> list[float]:
    """Return the bytes of bodies that training had sent, in all directions, at each place."""
    sent = sent_until(run.history)
    return [] if sent is None else [float(value) for value in sent.to_list()]


def bodies_up_along(run: Run) -> list[float]:
    """Return those that it had sent up."""
    return [float(value) for value in run.history["bytes_up"].to_list()]


def seconds_along(run: Run) -> list[float]:
    """Return the seconds on the run's clock at each place of the history."""
    return [float(seconds) for seconds in run.history["seconds"].to_list()]


def training_seconds_along(run: Run) -> list[float]:
    """Return the same less what went into evaluations, of a run in which those take no time."""
    spent = run.history["seconds"] - run.history["seconds_evaluation"]
    return [float(seconds) for seconds in spent.to_list()]


def value_at(run: Run, seconds: float) -> float:
    """Return the metric, in %, of the last evaluation within so much training; nan before any."""
    values = run.history[run.summary["metric"]].to_list()
    known = [v for v, at in zip(values, training_seconds_along(run), strict=True) if at <= seconds]
    return 100 * known[-1] if known else math.nan


def final_points(run: Run) -> float:
    """Return the metric at the end, in %; nan where it is no number."""
    final = run.summary["final"]
    return math.nan if final is None else 100 * final


def last_second(results: Sequence[Result]) -> float:
    """Return how many seconds training took, in the mean of some runs."""
    return fmean(training_seconds_along(result.run)[-1] for result in results)


def at_times(name: str, results: Sequence[Result], until: float, points: int = 60) -> Curve:
    """Return the mean metric in % after so much training, where all runs have been evaluated.

    Times are spread over three decades.
    """
    times, means, spread = [], [], []
    for time in np.geomspace(until / 1000, until, points):
        values = [value_at(result.run, time) for result in results]
        if not any(map(math.isnan, values)):
            times.append(float(time))
            means.append(fmean(values))
            spread.append(float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
    return Curve(name, times, means, spread if len(results) > 1 else [])


def held_back(run: Run) -> float:
    """Return the largest share of an organisation's training in which it was held back."""
    return max(run.summary["held_back"].values(), default=0.0)


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
    return counted_cell([cost(result.run, target, of) for result in results])


def counted_cell(
    values: Sequence[float | None], show: Callable[[float], str] = human_bytes
) -> tuple[float, str]:
    """Return the mean of what is known, with its deviation, and of how many that is.

    The mean is not a number unless at least nine of ten are known.
    """
    known = [value for value in values if value is not None]
    count = f"{len(known)} of {len(values)}"
    if not known:
        return math.nan, f"reached by {count}"
    mean, cell = mean_cell(known, show)
    return (mean if 10 * len(known) >= 9 * len(values) else math.nan), f"{cell}, {count}"


def share_cell(cost: float, of: float) -> str:
    """Return what part a cost is of another, or how many times it; nothing where one is unknown.

    >>> share_cell(2.0, 45.0), share_cell(2.0, 2.0), share_cell(3.0, 2.0), share_cell(math.nan, 2.0)
    ('1/22.5', '1', '1.5 x', '')
    """
    if math.isnan(cost) or math.isnan(of):
        return ""
    if cost == of:
        return "1"
    return f"1/{of / cost:.3g}" if cost < of else f"{cost / of:.3g} x"


def repetitions(results: Sequence[Result]) -> str:
    """Return what the cells of a table are, in words."""
    count = len(results)
    return f"{count} seeds, mean and deviation" if count > 1 else "one seed"


def accuracy_chart(
    name: str,
    title: str,
    results: Mapping[str, Sequence[Result]],
    along: Callable[[Run], Sequence[float]] = bodies_along,
) -> Chart:
    """Return the accuracy of some runs, by name, against the bytes they sent for training.

    ``along`` says which bytes: ``bodies_along``, ``bodies_up_along`` or ``framed_along``.
    """

    def sent(run: Run) -> list[float]:
        return [value / 1e6 for value in along(run)]

    metric = next(iter(results.values()))[0].run.summary["metric"]
    return Chart(
        name,
        title,
        _AXES[along],
        f"{metric.replace('_', ' ')} (%)",
        [accuracy_curve(label, found, sent) for label, found in results.items()],
        log_x=True,
    )


_AXES: Mapping[Callable[[Run], Sequence[float]], str] = {
    bodies_along: "training bytes, up and down (MB)",
    bodies_up_along: "bytes sent up (MB)",
    framed_along: "training bytes, up and down, with envelopes (MB)",
}


def accuracy_curve(
    name: str, results: Sequence[Result], x: Callable[[Run], Sequence[float]]
) -> Curve:
    """Return the mean accuracy in % of runs of several seeds, with its deviation, at mean x.

    Seeds that divide the rows otherwise may be evaluated a little more often than others: the curve
    ends where the first of them does.
    """
    histories = [result.run.history[result.run.summary["metric"]].to_list() for result in results]
    pairs = [
        mean_and_deviation([100 * value for value in at]) for at in zip(*histories, strict=False)
    ]
    spread = [deviation for _, deviation in pairs] if len(results) > 1 else []
    places = [fmean(at) for at in zip(*(x(result.run) for result in results), strict=False)]
    return Curve(name, places, [mean for mean, _ in pairs], spread)
