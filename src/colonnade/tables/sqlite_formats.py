"""SQLite's functions that format, which take long for a wide or precise place, whatever comes out.

``printf('%.*c', 900000000, 'a')`` takes minutes within one call, which nothing can end, and makes a
text that is too long. So a place is a million wide or precise at most.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from typing import TypeAlias

__all__ = ["add_formats"]

_MOST = 1_000_000
_PLACE = re.compile(r"%[-+ #!0,]*(\d+|\*)?(?:\.(\d+|\*)?)?")

_Value: TypeAlias = str | bytes | int | float | None


def add_formats(connection: sqlite3.Connection) -> None:
    """Put these functions in the place of SQLite's own, which they answer as.

    >>> connection = sqlite3.connect(":memory:")
    >>> add_formats(connection)
    >>> connection.execute("select printf('%05d|%.*f', 42, 1, 2.5)").fetchone()
    ('00042|2.5',)
    """
    for name in ("printf", "format"):
        connection.create_function(name, -1, partial(_formatted, name), deterministic=True)


def _formatted(name: str, *values: _Value) -> _Value:
    if any(size > _MOST for size in _sizes(values)):
        raise ValueError("too wide or precise a place")  # nobody sees its text
    with closing(sqlite3.connect(":memory:")) as own:
        # By its older name, which every version knows.
        asked = f"select printf({', '.join('?' * len(values))})"
        return own.execute(asked, values).fetchone()[0]  # type: ignore[no-any-return]


def _sizes(values: tuple[_Value, ...]) -> Iterator[float]:
    """Yield how wide and precise the places of a format are, or may be by what stands for ``*``."""
    if not values or not isinstance(values[0], str | bytes):
        return
    pattern = values[0] if isinstance(values[0], str) else values[0].decode(errors="replace")
    sizes = [size for place in _PLACE.findall(pattern) for size in place if size]
    yield from (float(size) for size in sizes if size != "*")
    if "*" in sizes:
        for value in values[1:]:
            with suppress(TypeError, ValueError):  # it is no number
                yield abs(float(value or 0))
