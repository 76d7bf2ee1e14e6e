"""Where a user says that a file or folder is: a text, or one of pathlib's paths."""

from __future__ import annotations

from os import PathLike, fsencode, fspath
from pathlib import Path

from colonnade.errors import ConfigurationError
from colonnade.telling import sort_of

__all__ = ["as_path", "place_of"]


def as_path(said: str, given: object) -> Path:
    """Return the path that was given.

    Parameters
    ----------
    said
        What it is to be: how the sentence begins that refuses anything else.
    given
        A text or a path.

    Raises
    ------
    ConfigurationError
        As ``place_of``.

    Examples
    --------
    >>> as_path("a run is read from the path of its folder", "runs/credit").name
    'credit'
    >>> as_path("a run is read from the path of its folder", None)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: a run is read from the path of its folder, not None
    """
    return Path(place_of(said, given))


def place_of(said: str, given: object) -> str:
    """Return the text of a path, or of what else says where something is, as a URL.

    Raises
    ------
    ConfigurationError
        If it is none. What stands in its place may be somebody's table, and is not quoted.

    Examples
    --------
    >>> place_of("a table is read from a file", {"age": [41, 37]})
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: a table is read from a file, not a dict
    """
    text = fspath(given) if isinstance(given, str | PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or not _can_be_asked_for(text):
        raise ConfigurationError(f"{said}, not {sort_of(given)}")
    return text


def _can_be_asked_for(text: str) -> bool:
    """Whether the system has bytes for a path, as it has not for half of a pair of surrogates."""
    try:
        fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
