"""Torch's generators, from which all threads draw, and so one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from colonnade.turns import Turns

__all__ = ["drawing", "drawing_apart", "drawing_by"]

_turns = Turns()


@contextmanager
def drawing() -> Iterator[None]:
    """Keep other threads from seeding torch's generators, or drawing from them, meanwhile.

    Whatever is somebody's own, as a model, a loss, an optimiser, a scheduler or a metric, is called
    within it: as a whole where a run is prepared, piece by piece where roles play. Nothing within
    it may wait for another thread.

    >>> with drawing(), drawing():  # the same thread may come again
    ...     pass
    """
    with _turns.taken():
        yield


@contextmanager
def drawing_apart() -> Iterator[list[torch.Generator]]:
    """Leave torch's generators as if nothing had been drawn from them, or seeded, meanwhile.

    Other threads wait meanwhile. Yields the generators: that of the CPU, and behind it those of all
    devices where torch has begun to use any.

    >>> before = torch.get_rng_state()
    >>> with drawing_apart() as [cpu, *_]:
    ...     first = torch.rand(3, generator=cpu)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    with drawing():
        generators = [torch.default_generator]
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
            generators += torch.cuda.default_generators
        before = [generator.get_state() for generator in generators]
        try:
            yield generators
        finally:
            for generator, state in zip(generators, before, strict=True):
                generator.set_state(state)


@contextmanager
def drawing_by(seed: int) -> Iterator[None]:
    """Let torch's generators draw what a seed decides meanwhile, and be as they were after.

    Other threads wait meanwhile.

    >>> with drawing_by(3):
    ...     first = torch.rand(3)
    >>> with drawing_by(3):
    ...     torch.equal(first, torch.rand(3))
    True
    """
    with drawing_apart() as generators:
        for generator in generators:
            generator.manual_seed(seed)
        yield
