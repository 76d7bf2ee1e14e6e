"""A column of a database, which arrives in parts as Python's values."""

from __future__ import annotations

import datetime
import ipaddress
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from colonnade.errors import DataError
from colonnade.tables.decimals import kind_of, without_decimals
from colonnade.telling import first_line, shown

__all__ = ["Gathered"]

_REMEDY = "cast it in a query, or name the columns to read without it"
_NUMBERS = {int, float, Decimal}
_AS_TEXT = {
    uuid.UUID,
    *(ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
    *(ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network),
}
_KINDS: dict[type, pl.DataType] = {
    bool: pl.Boolean(),
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
    bytes: pl.Binary(),
    datetime.date: pl.Date(),
    datetime.datetime: pl.Datetime("us"),
    datetime.time: pl.Time(),
    datetime.timedelta: pl.Duration("us"),
}


class Gathered:
    """A column that arrives in parts, whose kind is known when all have come.

    Decimals without a fraction are whole numbers, as their text would be in a file, where 64 bits
    hold them. A moment with a zone is that of UTC. Addresses and UUIDs are text.

    Parameters
    ----------
    name, what
        The column, and what it is of, for messages.
    padded
        Whether text is filled up with blanks that mean nothing.

    Attributes
    ----------
    bytes
        How much memory all that came takes.

    Raises
    ------
    DataError
        If values are of several kinds, or of one that is no cell of a table's, such as a list, or a
        time of day with a zone, which is no moment.

    Examples
    --------
    >>> visits = Gathered("visits", "table 'people'")
    >>> visits.add([3, None])
    >>> visits.add([Decimal("2.5")])
    >>> visits.series().to_list()
    [3.0, None, 2.5]
    """

    def __init__(self, name: str, what: str, padded: bool = False) -> None:
        self._name = name
        self._what = what
        self._padded = padded
        self._parts: list[pl.Series] = []
        self._first: dict[str, tuple[int, Any]] = {}  # the first row of each kind of value
        self._count = 0
        self.bytes = 0

    def add(self, values: Sequence[Any]) -> None:
        """Take the values of some more rows."""
        kinds = set(map(type, values)) - {type(None)}
        for kind in kinds:
            family = "number" if kind in _NUMBERS else kind.__name__
            family = "text" if kind in _AS_TEXT else family
            if family not in self._first:
                row = next(i for i, value in enumerate(values) if type(value) is kind)
                self._first[family] = (self._count + row, values[row])
        if len(self._first) > 1:
            (row, value), (other_row, other) = sorted(self._first.values(), key=lambda at: at[0])[
                :2
            ]
            raise DataError(
                f"{self._column} holds {shown(value)} in row {row} and {shown(other)} in row "
                f"{other_row}; cast it to one type in a query"
            )
        if kinds and not kinds <= {*_KINDS, *_NUMBERS, *_AS_TEXT}:
            row, value = next(iter(self._first.values()))
            raise DataError(
                f"{self._column} holds {shown(value)} in row {row}, a {type(value).__name__}, "
                f"which is no number, text, truth value or date; {_REMEDY}"
            )
        if datetime.time in kinds:
            self._refuse_zones(values)
        self._count += len(values)
        self._parts.append(self._series(values, kinds))
        self.bytes += int(self._parts[-1].estimated_size())

    def _refuse_zones(self, values: Sequence[Any]) -> None:
        for row, value in enumerate(values, self._count):
            if value is not None and value.tzinfo is not None:
                raise DataError(
                    f"{self._column} holds {value.isoformat()} in row {row}, a time of day with a "
                    f"zone, which is no moment; {_REMEDY}"
                )

    def series(self) -> pl.Series:
        """Return all that came."""
        if not self._parts:
            return pl.Series(self._name, [], dtype=pl.Null)
        kinds = {part.dtype for part in self._parts} - {pl.Null()}
        if kinds == {pl.Int64(), pl.Float64()} and not any(map(_beyond_floats, self._parts)):
            kinds = {pl.Float64()}
        if len(kinds) > 1 and all(kind.is_numeric() for kind in kinds):
            values = without_decimals([value for part in self._parts for value in part.to_list()])
            return self._made(values, lambda: kind_of(values))
        if len(kinds) == 1:
            kind = kinds.pop()
            self._parts = [part.cast(kind) for part in self._parts]
        return pl.concat(self._parts, how="vertical")

    @property
    def _column(self) -> str:
        return f"column {self._name!r} of {self._what}"

    def _series(self, values: Sequence[Any], kinds: set[type]) -> pl.Series:
        if kinds & _AS_TEXT:
            values, kinds = _each(str, values), {str}
        elif Decimal in kinds or len(kinds) > 1:
            values = without_decimals(values)
            return self._made(values, lambda: kind_of(values))
        elif self._padded:
            values = _each(lambda text: text.rstrip(" "), values)
        kind = _KINDS[next(iter(kinds))] if kinds else pl.Null()
        if kinds == {datetime.datetime} and any(value and value.tzinfo for value in values):
            values = _each(lambda when: when.astimezone(datetime.UTC), values)
            kind = pl.Datetime("us", "UTC")
        return self._made(values, lambda: kind)

    def _made(self, values: Sequence[Any], kind: Callable[[], Any]) -> pl.Series:
        try:
            return pl.Series(self._name, values, dtype=kind(), strict=True)
        except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
            raise DataError(
                f"{self._column} holds values that cannot be used: {first_line(error)}; cast it in "
                "a query"
            ) from error


def _beyond_floats(part: pl.Series) -> bool:
    """Return whether floats would make some of these whole numbers the same."""
    return part.dtype == pl.Int64 and bool((part.cast(pl.Int128).abs() > 2**53).any())


def _each(made: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    return [None if value is None else made(value) for value in values]
