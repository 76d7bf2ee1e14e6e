"""The setting of the experiments with PBM-VFL: data, models, and how often what is looked at.

The paper's data sets take days a run on a CPU (their configurations are in ``examples/papers/``);
its questions are put to MNIST and Fashion-MNIST, in small networks: a layer of 16 and tanh at every
party, as embeddings must be bounded by 1, and a linear top model on their sum. SGD with a rate of
.01, as in the paper, which is low for five epochs: higher ones stand beside it. Batches of 128.

Test rows are evaluated through the mechanism, like those that are trained on. The authors evaluate
exact sums, without noise: a probe does the same with the finished parts, so that no training is
repeated for it. In earnest exact sums would be released without any bound on what they disclose,
so that figure is flagged wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from colonnade.costs import Modelled
from colonnade.datasets import PartitionName, VerticalDataset, fashion_mnist, mnist_anywhere
from colonnade.drivers import Simulate
from colonnade.experiments.experiment import Scale, Trial
from colonnade.experiments.shallow import rounds_of, shallow_federation, shallow_training
from colonnade.federation import Federation
from colonnade.method import Method
from colonnade.methods import pbm_vfl
from colonnade.models import Sum
from colonnade.uplinks import Plain

__all__ = [
    "BATCH",
    "NONE",
    "RATE",
    "WIDTH",
    "Noise",
    "Setting",
    "exact_accuracy",
    "label_of",
    "trial",
]

WIDTH, BATCH, RATE = 16, 128, 0.01
NONE = "none"


class Noise(NamedTuple):
    """One mechanism: b and beta."""

    trials: int
    beta: float

    @property
    def label(self) -> tuple[str, str]:
        """How its trials are labelled."""
        return f"b = {self.trials}", f"beta = {self.beta:g}"


class Setting(NamedTuple):
    """A data set, cut for so many parties, and how long and at which rate it is trained on."""

    data: Literal["mnist", "fashion-mnist"]
    parties: int
    epochs: int
    rate: float = RATE

    @property
    def name(self) -> str:
        """How its trials are labelled; the paper's rate goes without saying."""
        rate = "" if self.rate == RATE else f", rate = {self.rate:g}"
        return f"{self.data}, M = {self.parties}{rate}"

    def load(self, scale: Scale) -> VerticalDataset:
        """Return the data."""
        return _data(self.data, self.parties, scale.folder, scale.quick)


@cache
def _data(name: str, parties: int, folder: Path | None, quick: bool) -> VerticalDataset:
    partition: PartitionName = "quadrants" if parties == 4 else "strips"
    if name == "mnist":
        data = mnist_anywhere(
            folder, partition=partition, parties=parties, normalise=(0.1307, 0.3081)
        )
    else:
        data = fashion_mnist(
            folder, partition=partition, parties=parties, normalise=(0.2860, 0.3530)
        )
    return data.head(train=600, test=200) if quick else data


def _federation(data: VerticalDataset, rate: float, seed: int) -> Federation:
    sgd = partial(torch.optim.SGD, lr=rate)
    return shallow_federation(data, seed, WIDTH, "tanh", Sum(), sgd)


def exact_accuracy(
    federation: Federation, method: Method, models: Mapping[str, Any]
) -> dict[str, float]:
    """Return the accuracy on the test rows at exact sums of embeddings, as the authors evaluate."""
    rows = torch.from_numpy(federation.test_rows)
    holder = federation.label_holder
    total = torch.zeros(len(rows), WIDTH)
    with torch.no_grad():
        for party in federation.parties:
            features = party.features
            assert isinstance(features, torch.Tensor)
            total += models[party.name]["bottom"].eval()(features[rows])
        right = models[holder.name]["top"].eval()(total).argmax(dim=1) == holder.labels[rows]
    return {"exact_accuracy": float(right.double().mean())}


def label_of(setting: Setting, noise: Noise | None) -> tuple[str, ...]:
    """Return the label of the trials of a mechanism in a setting."""
    return (setting.name, *((NONE,) if noise is None else noise.label))


def trial(setting: Setting, scale: Scale, noise: Noise | None, seed: int) -> Trial:
    """Return the trial of a mechanism in a setting; without noise, of the exact sum."""
    data = setting.load(scale)
    epochs = 1 if scale.quick else setting.epochs
    method = Method(NONE, Sum(), Plain()) if noise is None else pbm_vfl(*noise)
    training = shallow_training(data, epochs, BATCH, evaluations=epochs, checkpoints=2)
    return Trial(
        label_of(setting, noise),
        seed,
        partial(_federation, data, setting.rate),
        method,
        replace(training, secrets="seed"),
        Simulate(costs=Modelled(otherwise=0.0)),
        [rounds_of(data, epochs, BATCH)],
        exact_accuracy,
    )
