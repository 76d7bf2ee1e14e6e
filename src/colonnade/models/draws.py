"""Drawing the same numbers again, so that what two trials of a model come to can be compared.

What happens by a draw shows under some numbers alone, so a model that draws is tried under many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import nn

from colonnade.drawing import drawing_by

__all__ = ["MANY_DRAWS", "drawing_alike", "without_dropout"]

MANY_DRAWS = range(140)
"""Under one of these happens what happens once in ten draws, but in 4 of 10 million cases."""


@contextmanager
def drawing_alike(which: int = 0) -> Iterator[Callable[[], bool]]:
    """Let torch's generators draw the same numbers each time, and be as they were after.

    Other threads wait meanwhile. Yields what tells whether anything was drawn so far from that of
    the CPU.

    Parameters
    ----------
    which
        Which numbers: for another whole number they are others.

    Examples
    --------
    >>> with drawing_alike() as drawn:
    ...     before, first = drawn(), torch.rand(3)
    >>> with drawing_alike() as drawn:
    ...     again, after = torch.rand(3), drawn()
    >>> torch.equal(first, again), before, after
    (True, False, True)
    >>> with drawing_alike(1):
    ...     torch.equal(first, torch.rand(3))
    False
    """
    with drawing_by(which):
        start = torch.get_rng_state()
        yield lambda: not torch.equal(start, torch.get_rng_state())


def without_dropout(model: nn.Module) -> None:
    """Let torch's own modules drop nothing out, and give each negative number the same slope.

    They are as they were but while they compute, so who asks whether they are trained, or for the
    share that they drop out, hears what is so in training. What computes otherwise than torch's
    modules do goes on as it was.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    >>> without_dropout(model)
    >>> with drawing_alike() as drawn:
    ...     _, any_drawn = model(torch.ones(3, 2)), drawn()
    >>> any_drawn, model[1].p, model[1].training
    (False, 0.5, True)
    """
    for part in model.modules():
        settings = _still(part)
        if settings and settings.keys() <= vars(part).keys() and _computes_as_torch(part):
            part.forward = MethodType(_computed_still, part)


def _still(part: nn.Module) -> dict[str, float]:
    """Return by which settings a module of torch's draws nothing, or nothing that counts."""
    match part:
        case nn.modules.dropout._DropoutNd():
            return {"p": 0.0}
        case nn.RReLU():
            return {"training": False}
        case nn.MultiheadAttention() | nn.RNNBase():
            return {"dropout": 0.0}
    return {}


def _computes_as_torch(part: nn.Module) -> bool:
    """Return whether the code is torch's by which a module computes."""
    whose = next(each for each in type(part).__mro__ if "forward" in vars(each))
    return whose.__module__.startswith("torch.") and "forward" not in vars(part)


def _computed_still(part: nn.Module, *given: Any, **named: Any) -> Any:
    settings = _still(part)
    usual = {name: getattr(part, name) for name in settings}
    vars(part).update(settings)
    try:
        return type(part).forward(part, *given, **named)
    finally:
        vars(part).update(usual)
