"""Paths that FLARE can use: it writes its folders and Python into commands, and splits these."""

from __future__ import annotations

import shlex
from os.path import realpath
from pathlib import Path

from colonnade.errors import ConfigurationError

__all__ = ["check_folder", "check_program"]


def check_folder(path: Path) -> None:
    """Raise ``ConfigurationError`` where FLARE's commands would not name a folder as one word.

    Both as it is given and as links lead to it, since FLARE's scripts have the one and a federation
    of one machine the other.

    Parameters
    ----------
    path
        A kit of FLARE's, or a folder for some.

    Raises
    ------
    ConfigurationError
        If there is white space in either, a quote, # or a backslash.

    Examples
    --------
    >>> check_folder(Path("/srv/kit"))
    >>> check_folder(Path("/srv/my kit"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: '/srv/my kit' has white space, ...
    """
    for each in (str(path.absolute()), realpath(path)):  # which knows links that go round
        _check_word(each)


def check_program(path: Path) -> None:
    """Raise ``ConfigurationError`` where FLARE's commands would not name a program as one word.

    Links are not followed: FLARE starts the program by the path that it has.

    Parameters
    ----------
    path
        What FLARE starts: Python.

    Raises
    ------
    ConfigurationError
        If there is white space in it, a quote, # or a backslash.

    Examples
    --------
    >>> check_program(Path("/my env/bin/python"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: '/my env/bin/python' has white space, ...
    """
    _check_word(str(path.absolute()))


def _check_word(path: str) -> None:
    try:
        is_one = shlex.split(path, comments=True) == [path]
    except ValueError:  # a quote that nobody closes
        is_one = False
    if not is_one:
        raise ConfigurationError(
            f"{path!r} has white space, a quote, # or a backslash in it, by which FLARE splits the "
            "commands of its jobs; choose a path without them"
        )
