"""Where in a table a value is, for messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeAlias

from colonnade.errors import DataError
from colonnade.tables.remedies import setting

__all__ = ["Place", "refuse_missing"]

Place: TypeAlias = Callable[[int], str]
"""Tells the place of a row of a batch, such as "row 17"."""


def refuse_missing(column: str, row: int, place: Place) -> NoReturn:
    """Raise ``DataError`` about a missing value."""
    raise DataError(
        f"{place(row)}, column {column!r}: the value is missing; fill it in, "
        f"or use {setting('missing', 'median')}"
    )
