"""Where results are written, and the one rule by which they may take the place of what is there.

Nothing is overwritten that Colonnade did not write. Its files say that they are its own, near the
beginning or the end, in whatever way their format has for it. A format that has none, CSV, is known
by its first line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from colonnade import __version__
from colonnade.errors import ConfigurationError

__all__ = ["MARK", "SIGNATURE", "check_output", "check_outputs", "is_ours"]

MARK = "Written by Colonnade"
"""What every file of Colonnade's has in it."""

SIGNATURE = f"{MARK} {__version__}"
"""What is written into a file."""

_LOOKED_AT = 2**13  # bytes at either end


def is_ours(path: Path, first_line: str | None = None) -> bool:
    """Return whether a file may be written over: there is nothing in it, or we wrote it.

    Parameters
    ----------
    path
        The file; it must be there.
    first_line
        By which a file without a mark is known.
    """
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT)
        file.seek(max(0, path.stat().st_size - _LOOKED_AT))
        tail = file.read()
    if not head or MARK.encode() in head or MARK.encode() in tail:
        return True
    return first_line is not None and head.splitlines()[0] == first_line.encode()


def check_output(path: Path, first_line: str | None = None) -> None:
    """Raise ``ConfigurationError`` where a file would be written over that is not Colonnade's.

    Parameters
    ----------
    path
        Where the file is to be written.
    first_line
        By which an earlier file of ours is known, in a format that holds no mark.

    Raises
    ------
    ConfigurationError
        If there is something else.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name a file in it")
    try:
        strange = path.is_file() and not is_ours(path, first_line)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if strange:
        raise ConfigurationError(
            f"{path} is there already and was not written by Colonnade; choose another name, or "
            "move it away"
        )


def check_outputs(folder: Path, names: Iterable[str]) -> None:
    """Raise ``ConfigurationError`` where one of these files in a folder may not be written.

    To be asked before the work whose results they will hold.
    """
    for name in names:
        check_output(folder / name)
