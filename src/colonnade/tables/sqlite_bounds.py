"""When a statement of SQLite's is ended: after many steps or long work, or when it fills the disk.

A step may take long, so steps alone are no bound. What counts is the work of the thread, which does
not hang on what else the machine does.

What it sorts, or keeps to tell rows apart, goes to files that no folder names, before a row comes.
Linux and macOS list what a process has open, so there the bytes of such files are known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from stat import S_ISREG
from time import thread_time

__all__ = ["Bounds"]

_OPEN = "/dev/fd"
_BETWEEN = 20  # times that it asks, in which little is written


class Bounds:
    """What SQLite asks as it works, whether it is to stop: its progress handler.

    Parameters
    ----------
    steps, seconds
        The most that all statements may take, and work.
    each
        After so many steps it asks.
    """

    def __init__(self, steps: int, seconds: float, each: int) -> None:
        self._left, self.each = steps, each
        self._until = thread_time() + seconds
        self._asked = 0
        self._others = {file for file, _ in _unnamed()}
        self.most = inf
        """Bytes of files that no folder names."""
        self.is_full = False
        """Whether there were more."""
        self.is_over = False
        """Whether a statement was ended, for whatever of these."""

    def __call__(self) -> bool:
        """Return whether to stop."""
        self._left -= self.each
        if self._asked % _BETWEEN == 0:
            own = sum(size for file, size in _unnamed() if file not in self._others)
            self.is_full = own > self.most
        self._asked += 1
        self.is_over = self.is_full or self._left < 0 or thread_time() > self._until
        return self.is_over


def _unnamed() -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the files that this process has open and no folder names, and their bytes."""
    with suppress(OSError):
        for number in map(int, os.listdir(_OPEN)):  # noqa: PTH208 - a path each is dear
            with suppress(OSError):
                told = os.fstat(number)
                if S_ISREG(told.st_mode) and not told.st_nlink:
                    yield (told.st_dev, told.st_ino), told.st_size
