"""Whether a file that a user has named is there, and here."""

from __future__ import annotations

from pathlib import Path

from colonnade.errors import ConfigurationError, DataError
from colonnade.tables.urls import parts_of
from colonnade.telling import short

__all__ = ["check_is_file", "check_is_here", "is_file", "stamp_of"]

_OF_FILES = {
    *("http", "https", "ftp", "ftps", "sftp", "hdfs", "webhdfs", "file"),
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hf"),
}


def is_file(path: Path) -> bool:
    """Return whether it is a file; what the system takes for no name of one is none.

    >>> is_file(Path("x" * 5000))
    False
    """
    try:
        return path.is_file()
    except OSError:
        return False


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return by what it is seen that a file has changed: its size and time; None where none is.

    >>> stamp_of(Path("absent.csv"))
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def check_is_here(source: str) -> None:
    """Raise ``ConfigurationError`` if it is the URL of a file, which may be signed and is not said.

    >>> check_is_here("sqlite:///people.db")
    >>> check_is_here("https://shop.example/people.csv?sig=hunter2")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: files are read from this computer alone, not from https://: copy it here, and name its path
    """  # noqa: E501 - a message is one line
    parts = parts_of(source)
    if parts is None or parts.scheme.lower() not in _OF_FILES:
        return
    raise ConfigurationError(
        "files are named by their paths, without file://"
        if parts.scheme.lower() == "file"
        else f"files are read from this computer alone, not from {parts.scheme}://: copy it here, "
        "and name its path"
    )


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
        raise DataError(f"there is no file {short(str(path))}")
    if not is_one:
        raise DataError(f"{short(str(path))} is not a file")
