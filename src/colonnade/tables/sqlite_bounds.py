"""When a statement of SQLite's is ended: after many steps, or when it fills the disk.

What it sorts, or keeps to tell rows apart, goes to files that no folder names, before a row comes.
Linux and macOS list what a process has open, so there the bytes of such files are known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from stat import S_ISREG

__all__ = ["Bounds"]

_OPEN = "/dev/fd"


class Bounds:
    """What SQLite asks as it works, whether it is to stop: its progress handler.

    Parameters
    ----------
    steps
        The most that all statements may take.
    each
        After so many steps it asks.
    """

    def __init__(self, steps: int, each: int) -> None:
        self._left, self.each = steps, each
        self._others = {file for file, _ in _unnamed()}
        self.most = inf
        """Bytes of files that no folder names."""
        self.is_full = False
        """Whether there were more."""

    def __call__(self) -> bool:
        """Return whether to stop."""
        self._left -= self.each
        own = sum(size for file, size in _unnamed() if file not in self._others)
        self.is_full = own > self.most
        return self.is_full or self._left < 0


def _unnamed() -> Iterator[tuple[tuple[int, int], int]]:
    """Yield the files that this process has open and no folder names, and their bytes."""
    with suppress(OSError):
        for number in map(int, os.listdir(_OPEN)):  # noqa: PTH208 - a path each is dear
            with suppress(OSError):
                told = os.fstat(number)
                if S_ISREG(told.st_mode) and not told.st_nlink:
                    yield (told.st_dev, told.st_ino), told.st_size
