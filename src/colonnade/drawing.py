"""Torch's generator, from which all threads draw, and so one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.turns import Turns

__all__ = ["drawing"]

_turns = Turns()


@contextmanager
def drawing() -> Iterator[None]:
    """Keep other threads from seeding torch's generator, or drawing from it, meanwhile.

    Whatever is somebody's own, as a model, a loss, an optimiser, a scheduler or a metric, is called
    within it: as a whole where a run is prepared, piece by piece where roles play. Nothing within
    it may wait for another thread.

    >>> with drawing(), drawing():  # the same thread may come again
    ...     pass
    """
    with _turns.taken():
        yield
