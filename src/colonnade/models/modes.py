"""Which parts of a module compute as in training: those that whoever handed it over left so.

A part that somebody has put into evaluation, as a pretrained backbone whose batch normalisation is
to stay as it is, stays in it while the rest is trained. One that puts parts of its own into
evaluation whenever it is put into training (by a ``train`` of its own) is listened to as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

__all__ = ["evaluating", "put_into_training"]


def put_into_training(module: nn.Module) -> None:
    """Let a module compute as in training, but for the parts that are to stay in evaluation.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval())
    >>> put_into_training(model)
    >>> [part.training for part in model]
    [True, False]
    """
    handed_over = [(part, part.training) for part in module.modules()]
    module.train()
    for part, training in handed_over:
        part.training = part.training and training


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Let all of a module compute as in evaluation, as long as the context lasts.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval())
    >>> with evaluating(model):
    ...     [part.training for part in model]
    [False, False]
    >>> [part.training for part in model]
    [True, False]
    """
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training
