"""The setting of the experiments with CELU-VFL: data, models, targets, what is measured.

The paper's clicks come from 41 million rows and more. Here its questions are put to three sets: the
halves of MNIST's pictures, one of which the label holder has itself; the default of credit card
clients, whose bank holds the labels; and a million made-up clicks of Criteo's form, the counts at
the label holder. Bottoms are two layers, of clicks those of the paper's WDL, and the top model is
linear in their embeddings side by side. All train by AdaGrad with the rate that is best for vanilla
(``celu-rates``). Each seed is another start, another order and, but for MNIST, another division of
the rows. The target of a seed is on its validation rows, too: its own vanilla's best value, less
.002.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean

import polars as pl
import torch

from colonnade.assembly import Blueprint, Bottom, Layers, VerticalData, WideAndDeepBottom, assemble
from colonnade.datasets import credit_default, mnist_anywhere, synthetic_clicks
from colonnade.drivers import Driver
from colonnade.experiments.experiment import Result, Results, Scale, Trial
from colonnade.experiments.measures import best, cost
from colonnade.federation import Federation
from colonnade.methods import Method
from colonnade.objectives import Classification
from colonnade.reports import Curve, Sheet
from colonnade.runs import Run
from colonnade.tables import HashSplit, RowSplit
from colonnade.training import Training

__all__ = [
    "BELOW",
    "SETTINGS",
    "Setting",
    "costs_of",
    "in_digits",
    "metric_of",
    "paired",
    "target_curve",
    "targets_of",
    "told",
    "trials_sheet",
]

BELOW = 0.002
"""How far below vanilla's best validation metric the target is."""


@dataclass(frozen=True)
class Setting:
    """A data set, its models and how they are trained.

    Parameters
    ----------
    name
        ``"mnist"``, ``"credit"`` or ``"clicks"``.
    holds
        Whose columns the label holder has.
    width
        E, of each embedding.
    batch, epochs
        Of training.
    rate
        Of AdaGrad.
    """

    name: str
    holds: str
    width: int
    batch: int
    epochs: int
    rate: float

    def federation(self, scale: Scale, seed: int) -> Federation:
        """Return who takes part, from a seed."""
        blueprint = Blueprint(
            Classification(10 if self.name == "mnist" else 2),
            "registry",
            self.holds,
            self._bottom(),
            top=Layers(()),
            optimiser=partial(torch.optim.Adagrad, lr=self.rate),
            seed=seed,
        )
        return assemble(_data(self.name, scale.folder, scale.quick, seed), blueprint)

    def _bottom(self) -> Bottom:
        if self.name == "clicks":
            return WideAndDeepBottom((256, self.width), embedding=8, wide=0, sparse_gradients=True)
        return Layers((256, self.width), "relu")

    def trial(
        self,
        scale: Scale,
        label: tuple[str, ...],
        seed: int,
        method: Method,
        driver: Driver,
        evaluations: int = 60,
    ) -> Trial:
        """Return the trial of a method."""
        rows = len(_data(self.name, scale.folder, scale.quick, seed).train)
        epochs = 2 if scale.quick else self.epochs
        rounds = epochs * -(-rows // self.batch)
        training = Training(
            epochs,
            self.batch,
            evaluate_every=max(1, rounds // (4 if scale.quick else evaluations)),
            evaluation_rows=5000,
            checkpoint_every=max(1, rounds // 4),
        )
        make = partial(self.federation, scale)
        return Trial((self.name, *label), seed, make, method, training, driver)


SETTINGS = (
    Setting("mnist", "party_2", 64, 256, 10, 0.03),
    Setting("credit", "bank", 32, 256, 8, 0.03),
    Setting("clicks", "counts", 256, 4096, 2, 0.01),
)


@cache
def _data(name: str, folder: Path | None, quick: bool, seed: int) -> VerticalData:
    if name == "mnist":
        return _pictures(folder, quick)
    if name == "credit":
        return credit_default(folder, split=HashSplit(0.15, 0.15, seed))
    rows, split = 20_000 if quick else 1_000_000, RowSplit(0.05, 0.05, seed)
    return synthetic_clicks(rows=rows, buckets=4096, split=split)


@cache
def _pictures(folder: Path | None, quick: bool) -> VerticalData:
    pictures = mnist_anywhere(folder, partition="strips", parties=2, normalise=(0.1307, 0.3081))
    return (pictures.head(train=600, test=200) if quick else pictures).with_validation(1 / 6)


def targets_of(vanilla: Sequence[Result]) -> dict[int, float]:
    """Return the value of the validation metric that each seed is to reach, as a share."""
    return {seed_of(result): best(result.run) / 100 - BELOW for result in vanilla}


def seed_of(result: Result) -> int:
    """Return which repetition it is of."""
    return int(result.run.summary["seed"])


def paired(results: Sequence[Result], others: Sequence[Result]) -> list[Result]:
    """Return those results whose seeds are among the others', so that both can be compared."""
    seeds = {seed_of(result) for result in others}
    return [result for result in results if seed_of(result) in seeds]


def costs_of(
    results: Sequence[Result],
    targets: Mapping[int, float],
    of: Callable[..., float],
    further: float = 0.0,
) -> list[float | None]:
    """Return what it cost each seed to reach its target less ``further``; None if it did not."""
    return [cost(result.run, targets[seed_of(result)] - further, of) for result in results]


def trials_sheet(
    results: Results,
    settings: Sequence[Setting],
    names: Sequence[str],
    vanilla: str,
    columns: Mapping[str, Callable[[Run, float], str]],
) -> Sheet:
    """Return a line for each trial: what was seen of it alone, by column, with its target."""
    rows = []
    for setting in settings:
        targets = targets_of(results.of(setting.name, vanilla))
        for name in names:
            for result in results.of(setting.name, name):
                target, run = targets[seed_of(result)], result.run
                shown = (show(run, target) for show in columns.values())
                device = ", ".join(dict.fromkeys(run.summary["devices"].values()))
                start = (setting.name, name, str(seed_of(result)))
                rows.append((*start, f"{best(run):.3f}", f"{100 * target:.3f}", *shown, device))
    head = ("data", "method", "seed", "best, %", "target, %", *columns, "computed on")
    return Sheet("Every trial", head, rows)


def in_digits(value: float | None, form: str = ".0f") -> str:
    """Return a number as text; nothing where there is none."""
    return "" if value is None else format(value, form)


def metric_of(results: Sequence[Result]) -> str:
    """Return what the metric is called."""
    return str(results[0].run.summary["metric"]).replace("_", " ")


def target_curve(targets: Mapping[int, float], last: float) -> Curve:
    """Return the mean target as a line to the end of an axis."""
    return Curve("target", [0.0, last], [100 * fmean(targets.values())] * 2, dashed=True)


def told(results: Sequence[Result], what: str) -> Mapping[str, float]:
    """Return the mean of what organisations report of their local steps, by organisation.

    Empty where nothing was reported.
    """
    found: dict[str, list[float]] = {}
    for result in results:
        reports = result.run.reported(what)
        for name, mean in (
            reports.group_by("organisation", maintain_order=True).agg(pl.mean(what)).rows()
        ):
            found.setdefault(name, []).append(mean)
    return {name: fmean(values) for name, values in found.items()}
