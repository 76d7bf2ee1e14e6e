"""One run at a time in a folder."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.errors import ConfigurationError
from colonnade.faults import misnamed_or_unwritten
from colonnade.locks import locked, unlock

__all__ = ["ELSEWHERE", "alone_in"]

ELSEWHERE = "choose another folder"
"""What whoever is kept out of a folder should do, unless who asks knows better."""
_DYING = 1.0  # seconds that a process which was killed may take until it has let go


@contextmanager
def alone_in(folder: Path, elsewhere: str = ELSEWHERE) -> Iterator[None]:
    """Make a folder, and keep all others who ask for it so out of it until it is left.

    The folder itself is locked: no file is left in it, and a process that is killed lets go.

    Parameters
    ----------
    folder
        The folder.
    elsewhere
        What who is kept out should do, so that it is in another.

    Raises
    ------
    ConfigurationError
        If another run is at work in it, or something else is in its place.
    Unwritten
        If it cannot be made.

    Examples
    --------
    >>> with alone_in(Path("deployed")):
    ...     Path("deployed").is_dir()
    True
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder, elsewhere)
    except OSError as error:
        raise misnamed_or_unwritten(f"the folder {folder}", error) from None
    except ValueError as error:  # a byte that no name may have
        raise ConfigurationError(f"{str(folder)!r} is no name of a folder: {error}") from None
    try:
        yield
    finally:
        _unlock(lock)


def _lock(folder: Path, elsewhere: str) -> int | None:
    """Return the descriptor by which a folder is locked; None where folders cannot be opened.

    Where folders have no locks journals may have, each for itself.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    deadline = time.monotonic() + _DYING
    while not (is_ours := locked(descriptor)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not is_ours:
        os.close(descriptor)
        raise ConfigurationError(
            f"another run is at work in {folder}; wait until it has ended, or {elsewhere}"
        )
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        unlock(descriptor)
        os.close(descriptor)
