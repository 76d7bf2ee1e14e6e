"""Drawing the same numbers again, so that what two trials of a model come to can be compared.

What happens by a draw shows under some numbers alone, so a model that draws is tried under many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["MANY_DRAWS", "drawing_alike", "without_dropout"]

MANY_DRAWS = range(140)
"""Under one of these happens what happens once in ten draws, but in 4 of 10 million cases."""


@contextmanager
def drawing_alike(which: int = 0) -> Iterator[Callable[[], bool]]:
    """Let torch's generator of the CPU draw the same numbers each time, and be as it was after.

    Yields what tells whether anything was drawn from it so far.

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
    generator = torch.default_generator
    before, start = generator.get_state(), torch.Generator().manual_seed(which).get_state()
    generator.set_state(start)
    try:
        yield lambda: not torch.equal(start, generator.get_state())
    finally:
        generator.set_state(before)


def without_dropout(model: nn.Module) -> None:
    """Let torch's own modules drop nothing out, and give each negative number the same slope.

    They stay in training, as others may ask them whether they are. What has hooks, or computes
    otherwise than torch's modules do, goes on as it was.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> without_dropout(model)
    >>> with drawing_alike() as drawn:
    ...     _, any_drawn = model(torch.ones(3, 2)), drawn()
    >>> any_drawn
    False
    """
    for part in model.modules():
        if not _is_torchs_own(part):
            continue
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
        elif isinstance(part, nn.RReLU):
            part.lower = part.upper = (part.lower + part.upper) / 2
        elif isinstance(part, nn.MultiheadAttention | nn.RNNBase):
            part.dropout = 0.0


def _is_torchs_own(part: nn.Module) -> bool:
    """Return whether a module computes by torch's code alone."""
    forward = getattr(part.forward, "__module__", None) or ""
    return forward.startswith("torch.") and not any(
        (
            part._forward_hooks,
            part._forward_pre_hooks,
            part._backward_hooks,
            part._backward_pre_hooks,
        )
    )
