"""Columns by name: polars takes ``*`` and ``^...$`` for patterns, and people call columns so.

Whoever picks columns of a table asks here, and what comes is what was named (LAW:
``tests/test_structure.py``). Values alone have no name: polars finds what is asked of a series,
such as ``is_null``, by its name, as a pattern too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

import polars as pl

from colonnade.forked import check_not_forked

__all__ = ["hold_nothing", "only", "values_alone", "values_of", "without"]

_Frame = TypeVar("_Frame", pl.DataFrame, pl.LazyFrame)


def hold_nothing(values: pl.Series) -> bool:
    """Return whether all values are missing: then their type says nothing of what they would be.

    >>> hold_nothing(pl.Series([None], dtype=pl.String)), hold_nothing(pl.Series([float("nan")]))
    (True, True)
    """
    if values.dtype.is_float():
        values = values.fill_nan(None)
    return values.null_count() == len(values)


def only(frame: _Frame, names: Iterable[str]) -> _Frame:
    """Return the columns of these names, which are all there, in this order; nothing is copied.

    >>> frame = pl.DataFrame({"age": [41], "*": [1], "^age$": [2]})
    >>> only(frame, ["^age$", "*"]).rows(named=True)
    [{'^age$': 2, '*': 1}]
    """
    check_not_forked()
    return frame.select([_called(name) for name in names])


def values_of(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return the values of a column, without its name."""
    return values_alone(frame.get_column(name))


def values_alone(values: pl.Series) -> pl.Series:
    """Return values without a name, by which polars would find them or others.

    >>> values_alone(pl.Series("^a$", [0.5, None])).is_null().to_list()
    [False, True]
    """
    return values.alias("") if values.name else values


def without(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return all columns but that of this name; where there is no other, as many rows of none.

    >>> without(pl.DataFrame({"age": [41], "*": [1]}), "*").columns
    ['age']
    >>> without(pl.DataFrame({"age": [41]}), "age").shape
    (1, 0)
    """
    others = frame.clone()  # no data is copied
    others.drop_in_place(name)
    return others


def _called(name: str) -> pl.Expr:
    """Return the column of this name; one that is a pattern becomes the pattern of itself alone."""
    is_pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    return pl.col(f"^{re.escape(name)}$" if is_pattern else name)
