"""What an experiment is: trials, each an ordinary run, and what their results are put together to.

Trials are listed before any is run, so that progress can be shown; each is a run in a folder of its
own, so that an interrupted experiment goes on where it was, and every figure in a table leads to a
ledger. ``one_trial`` runs one, ``workers`` several at once, ``reproducing`` a whole experiment.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.drivers import Driver, Simulate
from colonnade.federation import Federation
from colonnade.methods import Method
from colonnade.reports import Chart, Sheet
from colonnade.runs import Run
from colonnade.training import Training

__all__ = ["Experiment", "Findings", "Result", "Results", "Scale", "Trial"]


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is done.

    Parameters
    ----------
    folder
        Where the data are; None for where ``COLONNADE_DATA`` says.
    seeds
        How many repetitions; None for the paper's, or as many as the experiment says.
    quick
        Whether to try everything once on little data: the figures mean nothing then.
    device
        Where all organisations' models compute, as torch names it.
    """

    folder: Path | None = None
    seeds: int | None = None
    quick: bool = False
    device: str = "cpu"

    def repetitions(self, usual: int) -> range:
        """Return the seeds, of which there are usually so many."""
        return range(1 if self.quick else self.seeds or usual)


Label = tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """One run of an experiment.

    Parameters
    ----------
    label
        What is varied, such as ``("efvfl", "top-k 1 %")``.
    seed
        Which repetition it is; also the run's seed.
    federation
        Makes who takes part, from the seed.
    method, training
        How they train; the training's seed is this trial's.
    driver
        What it runs under.
    probes
        Rounds before which the models are looked at, by ``probe``.
    probe
        From the federation, the method and the models to named numbers.
    """

    label: Label
    seed: int
    federation: Callable[[int], Federation]
    method: Method
    training: Training
    driver: Driver = field(default_factory=Simulate)
    probes: Sequence[int] = ()
    probe: Callable[[Federation, Method, Mapping[str, Any]], dict[str, float]] | None = None

    @property
    def name(self) -> str:
        """What it is called where it is spoken of."""
        return f"{' '.join(self.label)}, seed {self.seed}"

    @property
    def folder(self) -> str:
        """A name for its folder."""
        words = (re.sub(r"[^A-Za-z0-9.=]+", "-", word).strip("-") for word in self.label)
        return f"{'_'.join(words)}_seed-{self.seed}"


@dataclass(frozen=True)
class Result:
    """A trial's run, and what its probes saw by round."""

    run: Run
    probed: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


class Results:
    """The results of all trials, by label."""

    def __init__(self) -> None:
        self._results: dict[Label, list[Result]] = {}

    def add(self, trial: Trial, result: Result) -> None:
        """Keep the result of a trial."""
        self._results.setdefault(trial.label, []).append(result)

    def of(self, *label: str) -> list[Result]:
        """Return the results of all seeds of a label; none if it was not tried."""
        return self._results.get(label, [])

    def labels(self) -> list[Label]:
        """Return all labels, in the order of the trials."""
        return list(self._results)

    def devices(self) -> list[str]:
        """Return in words where models computed, each place once."""
        told = [
            device
            for results in self._results.values()
            for result in results
            for device in result.run.summary["devices"].values()
        ]
        return list(dict.fromkeys(told))

    def values(self, measure: Callable[[Run], float | None], *label: str) -> list[float]:
        """Return a number for each seed, of those runs that have it."""
        found = [measure(result.run) for result in self.of(*label)]
        return [value for value in found if value is not None]


@dataclass(frozen=True)
class Findings:
    """What an experiment found.

    Parameters
    ----------
    sheets
        Its tables, the main one first.
    charts
        Its figures.
    notes
        What a reader should know: where it differs from the paper, what was not run.
    trials
        A line for each trial, for a file alone; None where the tables are enough.
    """

    sheets: Sequence[Sheet]
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    trials: Sheet | None = None


@dataclass(frozen=True)
class Experiment:
    """A paper's table or figure.

    Parameters
    ----------
    name
        What the command calls it.
    title
        What it shows, in a line.
    source
        The paper, and which table or figure it is there.
    data
        The public data sets that it needs, by their names in the catalogue.
    trials
        What is run at a scale.
    findings
        What the results are put together to.
    minutes
        About how long it takes on two cores.
    """

    name: str
    title: str
    source: str
    data: tuple[str, ...]
    trials: Callable[[Scale], Sequence[Trial]]
    findings: Callable[[Results], Findings]
    minutes: int = 1


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation (n - 1) of some numbers; 0 of a single one.

    >>> mean_and_deviation([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
