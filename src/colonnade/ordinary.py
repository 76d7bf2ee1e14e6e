"""Files of ours that are ordinary ones: a pipe in the place of one would be waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["NOT_ORDINARY", "open_ordinary", "read_ordinary"]

NOT_ORDINARY = "it is no ordinary file"


def open_ordinary(path: Path, flags: int = 0) -> int:
    """Return a descriptor from which an ordinary file is read.

    Raises
    ------
    OSError
        As ``open``, as of a folder.
    ValueError
        If it is a pipe, or anything else that is none.

    Examples
    --------
    >>> open_ordinary(Path(os.devnull))
    Traceback (most recent call last):
    ValueError: it is no ordinary file
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | flags)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise ValueError(NOT_ORDINARY)


def read_ordinary(path: Path) -> bytes:
    """Return what an ordinary file holds; errors are those of ``open_ordinary``."""
    with os.fdopen(open_ordinary(path), "rb") as file:
        return file.read()
