"""Where FLARE can run: it splits its own command lines, in which its folders stand as they are."""

from __future__ import annotations

import shlex
from pathlib import Path

from colonnade.errors import ConfigurationError

__all__ = ["check_place"]


def check_place(path: Path) -> None:
    """Raise ``ConfigurationError`` where FLARE's command lines would not name a path as one word.

    Parameters
    ----------
    path
        A folder of FLARE's, or a program that it starts; links are followed.

    Raises
    ------
    ConfigurationError
        If there is white space in it, a quote, # or a backslash.

    Examples
    --------
    >>> check_place(Path("/srv/kit"))
    >>> check_place(Path("/srv/my kit"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: '/srv/my kit' has white space, ...
    """
    word = str(path.resolve())
    try:
        is_one = shlex.split(word, comments=True) == [word]
    except ValueError:  # a quote that nobody closes
        is_one = False
    if not is_one:
        raise ConfigurationError(
            f"{word!r} has white space, a quote, # or a backslash in it, by which FLARE splits the "
            "commands of its jobs; choose a path without them"
        )
