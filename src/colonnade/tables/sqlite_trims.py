"""SQLite's functions that trim a text by characters, which take long where there are many of these.

SQLite compares each character of the text with each of those to trim, which of two long texts takes
hours, and within one call nothing can end it. So there may be a thousand characters and no more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TypeAlias

__all__ = ["RAISED", "add_trims"]

RAISED = "user-defined function raised exception"
"""What SQLite says where there are more."""

_MOST_CHARACTERS = 1000
_MOST_BYTES = 2**16  # of what is not trimmed here
_STRIPS = {"trim": str.strip, "ltrim": str.lstrip, "rtrim": str.rstrip}

_Value: TypeAlias = str | bytes | int | float | None


def add_trims(connection: sqlite3.Connection) -> None:
    """Put these functions in the place of SQLite's own, which they answer as.

    >>> connection = sqlite3.connect(":memory:")
    >>> add_trims(connection)
    >>> connection.execute("select trim('xxaxyx', 'yx'), rtrim(100, 0), trim(null, 'x')").fetchone()
    ('a', '1', None)
    """
    for name, strip in _STRIPS.items():
        call = partial(_trimmed, name, strip)
        connection.create_function(name, 2, call, deterministic=True)


def _trimmed(
    name: str, strip: Callable[[str, str], str], text: _Value, characters: _Value
) -> str | None:
    if text is None or characters is None:
        return None
    if isinstance(characters, str | bytes) and len(characters) > _MOST_CHARACTERS:
        raise ValueError("too many characters to trim")  # nobody sees its text
    if isinstance(text, str | int) and isinstance(characters, str | int):
        return strip(str(text), str(characters).partition("\0")[0])  # where SQLite's end
    return _by_sqlite(name, text, characters)


def _by_sqlite(name: str, text: _Value, characters: _Value) -> str:
    """Return what SQLite makes of bytes and fractions: they are not written as in Python."""
    if isinstance(text, str | bytes) and len(text) > _MOST_BYTES:
        raise ValueError("too many bytes to trim")
    with closing(sqlite3.connect(":memory:")) as own:
        return str(own.execute(f"select {name}(?, ?)", (text, characters)).fetchone()[0])
