"""The setting of the experiments with CELU-VFL: data, models, the target, what is measured.

The paper's clicks come from 41 million rows and more; its questions are put to two sets that are
smaller: the halves of MNIST's pictures, one of which the label holder has itself, and the default
of credit card clients, whose bank holds the labels. Bottoms are two layers, the top model is linear
in their embeddings side by side. All train by AdaGrad with a rate that was chosen for vanilla on
validation rows, as in the paper, and the target is on validation rows, too: the best value of
vanilla, less .002, the mean over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean

import polars as pl
import torch

from colonnade.assembly import Blueprint, Layers, VerticalData, assemble
from colonnade.datasets import credit_default, mnist_anywhere
from colonnade.drivers import Driver
from colonnade.experiments.experiment import Result, Scale, Trial
from colonnade.experiments.measures import best
from colonnade.federation import Federation
from colonnade.methods import Method
from colonnade.objectives import Classification
from colonnade.reports import Curve
from colonnade.tables import HashSplit
from colonnade.training import Training

__all__ = ["SETTINGS", "Setting", "target_curve", "target_of", "told"]

BELOW = 0.002
"""How far below vanilla's best validation metric the target is."""


@dataclass(frozen=True)
class Setting:
    """A data set, its models and how they are trained.

    Parameters
    ----------
    name
        ``"mnist"`` or ``"credit"``.
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
        data = _data(self.name, scale.folder, scale.quick)
        classes = 2 if self.name == "credit" else 10
        layers = Layers((256, self.width), "relu")
        adagrad = partial(torch.optim.Adagrad, lr=self.rate)
        blueprint = Blueprint(
            Classification(classes),
            "registry",
            self.holds,
            layers,
            top=Layers(()),
            optimiser=adagrad,
            seed=seed,
        )
        return assemble(data, blueprint)

    def trial(
        self,
        scale: Scale,
        label: tuple[str, ...],
        seed: int,
        method: Method,
        driver: Driver,
        evaluations: int = 80,
    ) -> Trial:
        """Return the trial of a method."""
        rows = len(_data(self.name, scale.folder, scale.quick).train)
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
    Setting("mnist", "party_2", 64, 256, 10, 0.01),
    Setting("credit", "bank", 32, 256, 8, 0.01),
)


@cache
def _data(name: str, folder: Path | None, quick: bool) -> VerticalData:
    if name == "credit":
        data: VerticalData = credit_default(folder, split=HashSplit(0.1, 0.2, 0))
        return data
    pictures = mnist_anywhere(folder, partition="strips", parties=2, normalise=(0.1307, 0.3081))
    return (pictures.head(train=600, test=200) if quick else pictures).with_validation(1 / 6)


def target_of(vanilla: Sequence[Result]) -> float:
    """Return the value of the validation metric that is to be reached, as a share."""
    return fmean(best(result.run) for result in vanilla) / 100 - BELOW


def target_curve(target: float, last: float) -> Curve:
    """Return the target as a line to the end of an axis."""
    return Curve("target", [0.0, last], [100 * target] * 2, dashed=True)


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
