"""The setting of the experiments with C-VFL: data, models, compressors.

The paper's own data (MIMIC-III, ModelNet10, CIFAR-10) cannot be had here or take a day a run; its
questions are put to MNIST's quadrants and to the six views of UCI's Handwritten, in small networks:
a layer of 32 and tanh at every party, a linear top model on their concatenation. C_0, the top
model's compressor, is that of the embeddings, at the same bits.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import torch

from colonnade.codecs import Codec, Float, Lattice, Scalar, TopK
from colonnade.costs import Modelled
from colonnade.datasets import PartitionName, VerticalDataset, handwritten, mnist_anywhere
from colonnade.drivers import Simulate
from colonnade.experiments.experiment import Scale, Trial
from colonnade.experiments.shallow import rounds_of, shallow_federation, shallow_training
from colonnade.federation import Federation
from colonnade.methods import Method, cvfl
from colonnade.models import Concat
from colonnade.training import Training

__all__ = ["COMPRESSORS", "Setting", "compressed", "compressors", "trial"]

COMPRESSORS = ("scalar", "lattice", "top-k")
WIDTH = 32


def compressors(kind: str, bits: int) -> tuple[Codec, Codec]:
    """Return the compressor of embeddings, which are in [-1, 1], and that of the top model."""
    match kind:
        case "scalar":
            return Scalar(bits, -1.0, 1.0), Scalar(bits)
        case "lattice":
            return Lattice(bits, -1.0, 1.0), Lattice(bits)
        case "top-k":
            return TopK(bits / 32, "columns", "saliency"), TopK(bits / 32)
    return Float(32), Float(32)


def compressed(kind: str, bits: int, steps: int) -> Method:
    """Return C-VFL's Algorithm 1 with a compressor at so many bits, and Q local steps."""
    codec, top = compressors(kind, bits)
    return cvfl(codec, steps, labels="shared", top_codec=top)


@cache
def _data(name: str, folder: Path | None, parties: int, quick: bool) -> VerticalDataset:
    if name == "handwritten":
        data = handwritten(folder)
    else:
        partition: PartitionName = "quadrants" if parties == 4 else "strips"
        data = mnist_anywhere(
            folder, partition=partition, parties=parties, normalise=(0.1307, 0.3081)
        )
    return data.head(train=300, test=100) if quick else data


class Setting:
    """One of the data sets with its batches.

    Parameters
    ----------
    name
        ``"mnist"`` or ``"handwritten"``.
    batch
        Rows of a batch.
    rounds
        Rounds of training with ten local steps.
    parties
        How many there are; Handwritten has six.
    rate
        The learning rate of all.
    """

    def __init__(
        self, name: str, batch: int, rounds: int, parties: int = 4, rate: float = 0.05
    ) -> None:
        self.name = name
        self.batch = batch
        self.rounds = rounds
        self.parties = parties
        self.rate = rate

    def federation(self, scale: Scale, seed: int) -> Federation:
        """Return who takes part, from a seed."""
        data = _data(self.name, scale.folder, self.parties, scale.quick)
        sgd = partial(torch.optim.SGD, lr=self.rate)
        return shallow_federation(data, seed, WIDTH, "tanh", Concat(), sgd)

    def training(self, scale: Scale, rounds: int) -> Training:
        """Return training of about so many rounds."""
        data = _data(self.name, scale.folder, self.parties, scale.quick)
        epochs = 1 if scale.quick else max(1, round(rounds / rounds_of(data, 1, self.batch)))
        return shallow_training(data, epochs, self.batch, evaluations=40)


def trial(
    setting: Setting, scale: Scale, label: tuple[str, ...], seed: int, method: Method, rounds: int
) -> Trial:
    """Return the trial of a method in a setting."""
    return Trial(
        label,
        seed,
        partial(setting.federation, scale),
        method,
        setting.training(scale, rounds),
        Simulate(costs=Modelled(otherwise=0.0)),
    )
