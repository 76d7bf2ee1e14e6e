"""Columns of text that are numbers but for names of missing ones, or but for decimal commas."""

from __future__ import annotations

import polars as pl

__all__ = ["CODE", "MISSING", "WHOLE", "has_points", "plain_cells", "settled"]

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "Null", "null")
"""What stands for a missing value in a column whose other cells are numbers."""

_TRIED = 256  # values; where none of them is a number, all need not be tried
CODE = r"^[+-]?0[0-9]+$"
"""Digits with a zero in front, which a number would lose."""

WHOLE = r"^(?:0|-?[1-9][0-9]*)$"
"""A whole number as it is written: what it is read as is what was written."""

_LONG = r"^[+-]?[0-9]{16,}$"  # 2^53 has as many digits


def settled(text: pl.Series, comma: bool = False) -> pl.Series:
    """Return numbers if all cells are, spaces around them and names of missing ones aside.

    Text that is not all numbers stays as it is: "NA" among the names of countries is one. So does
    what numbers would not say as it was written: digits behind a zero, long whole numbers that
    64 bits do not hold or that are among fractions, and a point where the decimal one is a comma.

    Parameters
    ----------
    text
        A column as it is written.
    comma
        Whether the decimal point is a comma.

    Examples
    --------
    >>> settled(pl.Series(["41", " 7", "NA"])).to_list()
    [41, 7, None]
    >>> settled(pl.Series(["1,5", "2"]), comma=True).to_list()
    [1.5, 2.0]
    >>> settled(pl.Series(["FR", "NA"])).to_list()
    ['FR', 'NA']
    >>> settled(pl.Series([" 007", " 70"])).to_list()
    [' 007', ' 70']
    """
    some = plain_cells(text.head(_TRIED)).drop_nulls()
    if len(some) and _numbers(some, comma).null_count() == len(some):
        return text
    plain = plain_cells(text)
    if plain.null_count() == len(plain) or plain.str.contains(CODE).any():
        return text
    numbers = _numbers(plain, comma)
    exact = numbers.dtype.is_integer() or not plain.str.contains(_LONG).any()
    return numbers if exact and numbers.null_count() == plain.null_count() else text


def plain_cells(text: pl.Series) -> pl.Series:
    """Return text without spaces around it, null where it stands for a missing value.

    >>> plain_cells(pl.Series([" 7", "NA"])).to_list()
    ['7', None]
    """
    stripped = text.str.strip_chars()
    there = stripped.is_in(list(MISSING)).not_()
    return stripped.zip_with(there.fill_null(False), pl.Series([None], dtype=pl.String))


def has_points(text: pl.Series) -> bool:
    """Return whether all cells are numbers, with points or with commas, and some with points.

    >>> has_points(pl.Series(["1.234", "12,5", "7"])), has_points(pl.Series(["1.234,5", "12,5"]))
    (True, False)
    """
    plain = plain_cells(text)
    pointed = plain.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    whole = pointed.null_count() == plain.null_count()
    return whole and bool(plain.str.contains(".", literal=True).any())


def _numbers(text: pl.Series, comma: bool) -> pl.Series:
    """Return the numbers that cells are, null where one is none."""
    if comma:
        text = text.set(text.str.contains(".", literal=True), None)
        text = text.str.replace(",", ".", literal=True)
    whole = text.cast(pl.Int64, strict=False)
    return whole if whole.null_count() == text.null_count() else text.cast(pl.Float64, strict=False)
