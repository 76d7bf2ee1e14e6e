"""One user of a folder at a time."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from colonnade.errors import ConfigurationError
from colonnade.locks import locked, unlock

__all__ = ["Lock", "unused"]

# By device and inode of the lock file, which stay when its folder is moved.
_held: weakref.WeakValueDictionary[tuple[int, int], Lock] = weakref.WeakValueDictionary()


@contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Keep a folder from others, if nobody has it; tell whether that is so for certain.

    Where there is no lock yet, or a file system has none, nobody can tell.
    """
    with ExitStack() as opened:
        try:
            file, other = (_opened(folder / "lock", opened) for _ in range(2))
        except (FileNotFoundError, PermissionError):
            yield False
            return
        status = os.fstat(file)
        holder = _held.get((status.st_dev, status.st_ino))
        yield (holder is None or not holder.held) and locked(file) and not locked(other)


def _opened(path: Path, until: ExitStack) -> int:
    file = os.open(path, os.O_RDWR)
    until.callback(os.close, file)
    return file


class Lock:
    """Keep a folder from every other process, until released or collected.

    In the same process the newest wins, and the one before is no longer ``held``: what is left over
    of a run that failed (a traceback keeps it alive) is not in the way of the next.

    Parameters
    ----------
    folder
        Gets a file named ``lock``, which stays.

    Raises
    ------
    ConfigurationError
        If another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._process = os.getpid()
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._close = weakref.finalize(self, os.close, self._file)
        status = os.fstat(self._file)
        place = (status.st_dev, status.st_ino)
        older = _held.get(place)
        if older is not None:
            older.release()
        if not locked(self._file):
            self._close()
            raise ConfigurationError(
                f"another process is using the surrogate table in {folder}: wait until it is done, "
                "or give this run a folder of its own"
            )
        _held[place] = self

    @property
    def held(self) -> bool:
        """Whether the folder is still ours."""
        return self._close.alive and self._process == os.getpid()

    def release(self) -> None:
        """Let others have the folder."""
        if self.held:
            # A forked child may have a copy of the descriptor, which closing ours does not unlock.
            unlock(self._file)
        self._close()
