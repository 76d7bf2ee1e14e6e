"""Torch's generator, from which all threads draw, and so one at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["drawing"]

_one = threading.RLock()


@contextmanager
def drawing() -> Iterator[None]:
    """Keep other threads from seeding torch's generator, or drawing from it, meanwhile.

    Whatever is somebody's own, as a model, a loss, an optimiser, a scheduler or a metric, is called
    within it: as a whole where a run is prepared, piece by piece where roles play. Nothing within
    it may wait for another thread.

    >>> with drawing(), drawing():  # the same thread may come again
    ...     pass
    """
    with _one:
        yield


def _fresh_lock() -> None:
    """Let no process inherit a lock that a thread holds which it has not."""
    global _one
    _one = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)
