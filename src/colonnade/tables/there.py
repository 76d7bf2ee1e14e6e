"""Whether a file that a user has named is there."""

from __future__ import annotations

from pathlib import Path

from colonnade.errors import DataError
from colonnade.telling import short

__all__ = ["check_is_file", "is_file"]


def is_file(path: Path) -> bool:
    """Return whether it is a file; what the system takes for no name of one is none.

    >>> is_file(Path("x" * 5000))
    False
    """
    try:
        return path.is_file()
    except OSError:
        return False


def check_is_file(path: Path) -> None:
    """Raise ``DataError`` unless it is a file, also where the system takes no such name.

    Examples
    --------
    >>> check_is_file(Path("absent.csv"))
    Traceback (most recent call last):
    colonnade.errors.DataError: there is no file absent.csv
    """
    try:
        there, is_one = path.exists(), path.is_file()
    except OSError as error:
        raise DataError(f"{short(str(path))} cannot be read: {error.strerror}") from error
    if not there:
        raise DataError(f"there is no file {path}")
    if not is_one:
        raise DataError(f"{path} is not a file")
