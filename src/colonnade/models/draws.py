"""Drawing the same numbers again, so that what two trials of a model come to can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

__all__ = ["drawing_alike"]


@contextmanager
def drawing_alike() -> Iterator[Callable[[], bool]]:
    """Let torch's generator of the CPU draw the same numbers each time, and be as it was after.

    Yields what tells whether anything was drawn from it so far.

    >>> with drawing_alike() as drawn:
    ...     before, first = drawn(), torch.rand(3)
    >>> with drawing_alike() as drawn:
    ...     again, after = torch.rand(3), drawn()
    >>> torch.equal(first, again), before, after
    (True, False, True)
    """
    generator = torch.default_generator
    before, start = generator.get_state(), torch.Generator().manual_seed(0).get_state()
    generator.set_state(start)
    try:
        yield lambda: not torch.equal(start, generator.get_state())
    finally:
        generator.set_state(before)
