"""What Python warns of, which is set for all threads, and so by one at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.turns import Turns

__all__ = ["warning_otherwise"]

_turns = Turns()


@contextmanager
def warning_otherwise() -> Iterator[None]:
    """Let filters of warnings be changed meanwhile, and be as they were after.

    Two threads that did so at once by ``warnings.catch_warnings`` could leave one's filters to all.
    Nothing within it may wait for another thread, or call what holds ``drawing``.

    >>> with warning_otherwise():
    ...     warnings.simplefilter("ignore")
    ...     warnings.warn("nobody hears it")
    """
    with _turns.taken(), warnings.catch_warnings():
        yield
