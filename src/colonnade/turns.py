"""Threads of one process that take turns, as what they share is one for all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turns"]


class Turns:
    """Lets one thread at a time do something; the same thread may come again.

    No process that is forked inherits the turn of a thread that it has not.

    Examples
    --------
    >>> turns = Turns()
    >>> with turns.taken(), turns.taken():
    ...     turns.is_mine
    True
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._whose: int | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a turn, and keep it meanwhile."""
        with self._lock:
            before, self._whose = self._whose, threading.get_ident()
            try:
                yield
            finally:
                self._whose = before

    @property
    def is_mine(self) -> bool:
        """Whether it is this thread's turn."""
        return self._whose == threading.get_ident()
