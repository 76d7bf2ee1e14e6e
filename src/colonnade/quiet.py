"""What Python warns of, which is set for all threads, and so by one at a time."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["warning_otherwise"]

_one = threading.RLock()


@contextmanager
def warning_otherwise() -> Iterator[None]:
    """Let filters of warnings be changed meanwhile, and be as they were after.

    Two threads that did so at once by ``warnings.catch_warnings`` could leave one's filters to all.
    Nothing within it may wait for another thread, or call what holds ``drawing``.

    >>> with warning_otherwise():
    ...     warnings.simplefilter("ignore")
    ...     warnings.warn("nobody hears it")
    """
    with _one, warnings.catch_warnings():
        yield


def _fresh_lock() -> None:
    """Let no process inherit a lock that a thread holds which it has not."""
    global _one
    _one = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)
