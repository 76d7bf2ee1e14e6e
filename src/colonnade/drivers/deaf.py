"""Processes that do not hear Ctrl-C: whoever started them decides what it means."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

__all__ = ["deaf"]


@contextmanager
def deaf() -> Iterator[None]:
    """Let processes that are started here not hear Ctrl-C, which this one passes on to them.

    A terminal sends it to all of them, and one that still imports what it needs would end by it.

    Examples
    --------
    >>> with deaf():
    ...     pass  # start them
    """
    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    resource_tracker.ensure_running()  # it is started with the first process, and lets all be heard
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
