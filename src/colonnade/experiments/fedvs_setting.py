"""The setting of the experiments with FedVS: data, polynomial networks, and who straggles how long.

Data are divided among the parties as in the paper's appendix C, and bottoms are polynomial networks
of its degrees; batches are its, but for Parkinson, of which there is a reduced file. What it does
not say is chosen: the width of embeddings, numbers brought to [0, 1], and epochs; of pictures a
third of the rows are used. Rates are not the paper's, but each way's best on validation rows
(``fedvs-rates``). Top models are plain layers, where it has batch and weight normalisation for the
credit card clients.

Delays are the paper's: half of the parties lose seconds that are exponentially distributed with a
mean of .1, the others, i = 1, 2, ..., with a mean of 2 + i, in every round before they compute
embeddings; who they are is drawn by the seed. Where weights are shared they lose ln(N)^2 / B of
that, of B rows. Everybody's messages pass a connection of 300 Mbit/s. Other work takes no
time, and nor does evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch

from colonnade.assembly import Blueprint, Bottom, Layers, PolynomialBottom, VerticalData, assemble
from colonnade.channels import Gateway, Network
from colonnade.costs import CostModel, Delayed, Modelled
from colonnade.datasets import (
    PartitionName,
    VerticalDataset,
    credit_default,
    fashion_mnist,
    handwritten,
    mnist_anywhere,
    parkinson,
)
from colonnade.delays import Delay, Exponential
from colonnade.drivers import Simulate
from colonnade.experiments.experiment import Scale, Trial
from colonnade.federation import Federation
from colonnade.kernels.philox import permutation
from colonnade.methods import Method
from colonnade.models import Fusion
from colonnade.objectives import Classification
from colonnade.streams import StreamKey
from colonnade.tables import HashSplit
from colonnade.training import Training
from colonnade.wire import Purpose

__all__ = [
    "BANDWIDTH",
    "CREDIT",
    "FASHION",
    "HANDWRITTEN",
    "MNIST",
    "PARKINSON",
    "QUICK",
    "SLOW",
    "SOME",
    "Setting",
    "coded_delays",
    "delays_of",
]

BANDWIDTH = 300e6
QUICK, SLOW = 0.1, 2.0  # mean seconds of who is no straggler, and of stragglers less their number
FREE = Modelled(otherwise=0.0)


@dataclass(frozen=True)
class Setting:
    """A data set cut for so many parties, their models, and how these are trained.

    Parameters
    ----------
    name
        ``"handwritten"``, ``"credit"``, ``"parkinson"``, ``"mnist"`` or ``"fashion-mnist"``.
    parties
        N.
    classes
        Of the labels.
    degree, width
        D and E, of the polynomial networks.
    rate, batch, epochs
        Of SGD.
    segments
        K, as FedVS trains.
    hidden
        The layers of the top model before its outputs.
    bottom
        Another bottom model in place of the polynomial network.
    rows
        Of pictures, how many to train and to test on; None for all.
    flat
        Whether pictures are flattened.
    validation
        The share of the training rows that models are chosen by.
    """

    name: str
    parties: int
    classes: int
    degree: int
    width: int
    rate: float
    batch: int
    epochs: int
    segments: int = 1
    hidden: tuple[int, ...] = (64, 64)
    bottom: Bottom | None = None
    rows: tuple[int, int] | None = None
    flat: bool = True
    validation: float = 0.0

    @property
    def label(self) -> str:
        """How its trials are labelled."""
        return f"{self.name}, N = {self.parties}"

    def data(self, scale: Scale, seed: int) -> VerticalData:
        """Return the data."""
        if self.name in ("mnist", "fashion-mnist"):
            rows = (600, 200) if scale.quick else self.rows
            pictures = _pictures(self.name, self.parties, scale.folder, rows, self.flat)
            return self._divided(pictures)
        if self.name == "credit":
            split = HashSplit(0.7 * self.validation, 0.3, seed)
            return _credit(self.parties, scale.folder, split)
        return self._divided(_table(self.name, self.parties, scale.folder, seed))

    def _divided(self, data: VerticalDataset) -> VerticalDataset:
        return data.with_validation(self.validation) if self.validation else data

    def federation(self, scale: Scale, fusion: Fusion, seed: int) -> Federation:
        """Return who takes part, from a seed."""
        blueprint = Blueprint(
            Classification(self.classes),
            "server",
            bottom=self.bottom or PolynomialBottom(self.width, self.degree),
            top=Layers(self.hidden, "relu"),
            fusion=fusion,
            optimiser=partial(torch.optim.SGD, lr=self.rate),
            seed=seed,
        )
        return assemble(self.data(scale, seed), blueprint)

    def trial(
        self,
        scale: Scale,
        label: tuple[str, ...],
        seed: int,
        method: Method,
        costs: CostModel = FREE,
        times: int = 1,
        evaluations: int = 10,
    ) -> Trial:
        """Return the trial of a method that is trained so many times as long as usual."""
        data = self.data(scale, seed)
        epochs = 1 if scale.quick else self.epochs * times
        batch = max(self.batch, len(data.train) // 8) if scale.quick else self.batch
        rounds = epochs * -(-len(data.train) // batch)
        training = Training(
            epochs=epochs,
            batch_size=batch,
            evaluate_every=max(1, rounds // (3 if scale.quick else evaluations)),
            evaluation_rows=5000,
            checkpoint_every=max(1, rounds // 2),
            secrets="seed",
        )
        names = (*data.features, "server")
        everybody = {name: Gateway(BANDWIDTH, BANDWIDTH) for name in names}
        driver = Simulate(Network(gateways=everybody), costs, untimed={Purpose.EVALUATION})
        make = partial(self.federation, scale, method.fusion)
        return Trial((self.label, *label), seed, make, method, training, driver)

    def stragglers(self, scale: Scale, seed: int) -> dict[str, Delay]:
        """Return the delay of each party."""
        return delays_of(tuple(self.data(scale, seed).features), seed)


SOME = (20_000, 4000)  # rows of pictures
HANDWRITTEN = Setting("handwritten", 6, 10, 2, 32, 0.2, 32, 20)
CREDIT = Setting("credit", 11, 2, 2, 16, 0.6, 32, 3)
PARKINSON = Setting("parkinson", 10, 2, 2, 16, 0.2, 16, 40)
MNIST = Setting("mnist", 28, 10, 1, 32, 1.5, 256, 5, segments=4, rows=SOME)
FASHION = Setting("fashion-mnist", 28, 10, 1, 32, 1.5, 256, 5, segments=4, rows=SOME)


def delays_of(
    parties: tuple[str, ...], seed: int, stragglers: int | None = None
) -> dict[str, Delay]:
    """Return the delay of each party, of whom the seed draws the stragglers: half, rounded up.

    >>> delays = delays_of(("a", "b", "c"), seed=1)
    >>> sorted(delay.mean for delay in delays.values())
    [0.1, 3.0, 4.0]
    """
    count = -(-len(parties) // 2) if stragglers is None else stragglers
    drawn = permutation(StreamKey(seed, "", "stragglers", 0), len(parties))[:count]
    slow = {parties[place]: SLOW + number for number, place in enumerate(sorted(drawn), start=1)}
    return {party: Exponential(slow.get(party, QUICK)) for party in parties}


def coded_delays(
    delays: Mapping[str, Delay], rows: int, seed: int, costs: CostModel = FREE
) -> Delayed:
    """Return the costs under FedVS: all of a delay at the answer, and a part at the weights.

    Parameters
    ----------
    delays
        Of each party, when it computes embeddings.
    rows
        B, of a batch, whatever the number of coded rows that stand for them.
    seed
        What delays are drawn from.
    costs
        Of work besides.
    """
    share = math.log(len(delays)) ** 2 / rows
    return Delayed(costs, delays, seed, {"encode": share, "coded": 1.0})


@cache
def _credit(parties: int, folder: Path | None, split: HashSplit) -> VerticalData:
    return credit_default(folder, parties=parties, scale="unit", split=split)


@cache
def _table(name: str, parties: int, folder: Path | None, seed: int) -> VerticalDataset:
    if name == "handwritten":
        return handwritten(folder, scale="unit", test=0.4, seed=seed)
    assert name == "parkinson", name
    return parkinson(folder, parties=parties, scale="unit", seed=seed)


@cache
def _pictures(
    name: str, parties: int, folder: Path | None, rows: tuple[int, int] | None, flat: bool
) -> VerticalDataset:
    cut: PartitionName = "quadrants" if parties == 4 else "strips"
    if name == "mnist":
        pictures = mnist_anywhere(folder, partition=cut, parties=parties)
    else:
        assert name == "fashion-mnist", name
        pictures = fashion_mnist(folder, partition=cut, parties=parties, flatten=flat)
    return pictures if rows is None else pictures.head(*rows)
