"""What the experiments on small networks share: a layer at every party, and how it is trained."""

from __future__ import annotations

import torch
from torch import nn

from colonnade.datasets import VerticalDataset
from colonnade.federation import Federation
from colonnade.models import Fusion, OptimiserFactory, SchedulerFactory, Sparse, mlp
from colonnade.organisations import LabelHolder, Party
from colonnade.training import Training

__all__ = ["rounds_of", "shallow_federation", "shallow_training"]


def shallow_federation(
    data: VerticalDataset,
    seed: int,
    width: int,
    activation: str,
    fusion: Fusion,
    optimiser: OptimiserFactory,
    scheduler: SchedulerFactory | None = None,
    penalty: float = 0.0,
    top_optimiser: OptimiserFactory | None = None,
) -> Federation:
    """Return parties with a layer of ``width`` each, and a linear top model on their fusion.

    Parameters
    ----------
    data
        What they hold.
    seed
        Decides how the models start.
    width, activation
        Of each party's layer.
    fusion
        What the method will fuse embeddings by; it decides the top model's inputs.
    optimiser, scheduler
        Everybody's.
    penalty
        On the L1 norm of embeddings; see ``Sparse``.
    top_optimiser
        The label holder's, where it has another one.
    """
    torch.manual_seed(seed)
    parties = []
    for name, x in data.features.items():
        bottom = mlp(x.shape[1], [width], activation)
        if penalty:
            bottom.append(Sparse(penalty))
        parties.append(Party(name, x, bottom, optimiser, scheduler))
    top = nn.Linear(fusion.width([width] * len(parties)), data.classes)
    own = top_optimiser or optimiser
    holder = LabelHolder("server", data.labels, top, optimiser=own, scheduler=scheduler)
    return Federation(parties, holder, data.train, data.test, validation_rows=data.validation)


def rounds_of(data: VerticalDataset, epochs: int, batch: int) -> int:
    """Return the rounds of training in batches of so many rows."""
    return epochs * -(-len(data.train) // batch)


def shallow_training(
    data: VerticalDataset, epochs: int, batch: int, evaluations: int, checkpoints: int = 4
) -> Training:
    """Return training that is evaluated and kept so many times at even distances, or more."""
    rounds = rounds_of(data, epochs, batch)
    return Training(
        epochs=epochs,
        batch_size=batch,
        evaluate_every=max(1, rounds // evaluations),
        evaluation_rows=5000,
        checkpoint_every=max(1, rounds // checkpoints),
    )
