"""Interactive figures of runs: pure functions from runs to plotly's figures.

Axes name their quantity and its unit; a unit is chosen for a figure, so that its numbers are short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from colonnade.reports.curves import (
    against_bytes,
    against_epochs,
    against_epsilon,
    against_time,
    epsilon_by_round,
    frontier,
    late_by_round,
    loss_by_epoch,
    losses,
    metrics_by_epoch,
    missing_by_round,
    staleness,
)
from colonnade.reports.groups import by_metric, is_classifier
from colonnade.reports.plots import Figure
from colonnade.reports.shares import bytes_by_party, bytes_by_purpose, bytes_by_run, time_shares
from colonnade.reports.words import words
from colonnade.runs import Run

__all__ = ["comparison_figures", "run_figures"]


def run_figures(run: Run) -> list[Figure]:
    """Return the figures of one run; those that it has nothing for are left out."""
    name = words(str(run.summary["metric"]))
    runs = {name: run}
    figures = [
        metrics_by_epoch(run),
        against_bytes(runs, list(runs)),
        against_time(runs, list(runs)),
        losses(run),
        staleness(run),
        epsilon_by_round(run),
        missing_by_round(run),
        late_by_round(run),
        bytes_by_party(run),
        bytes_by_purpose(run),
        time_shares({"": run}),
    ]
    return [figure for figure in figures if figure is not None]


def comparison_figures(runs: Mapping[str, Run]) -> list[Figure]:
    """Return the figures that put several runs side by side."""
    groups, order = by_metric(runs), list(runs)
    classes = {name: run for name, run in runs.items() if is_classifier(run)}
    numbers = {name: run for name, run in runs.items() if name not in classes}
    figures = [
        *_of_each(groups.values(), order, against_epochs, against_bytes, against_time),
        *_of_each((classes, numbers), order, loss_by_epoch),
        *_of_each(groups.values(), order, frontier, against_epsilon),
        bytes_by_run(runs),
        time_shares(runs),
    ]
    return [figure for figure in figures if figure is not None]


def _of_each(
    groups: Iterable[Mapping[str, Run]],
    order: Sequence[str],
    *make: Callable[[Mapping[str, Run], Sequence[str]], Figure | None],
) -> Iterator[Figure]:
    """Yield the figures of each group of runs that can be compared, each with a key of its own."""
    for number, group in enumerate(group for group in groups if group):
        for figure in (each(group, order) for each in make):
            if figure is not None:
                yield replace(figure, key=f"{figure.key}-{number}") if number else figure
