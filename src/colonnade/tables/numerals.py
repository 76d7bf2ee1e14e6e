"""Columns of text that are numbers but for names of missing ones, or but for decimal commas."""

from __future__ import annotations

import polars as pl

__all__ = ["MISSING", "plain_cells", "settled"]

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "Null", "null")
"""What stands for a missing value in a column whose other cells are numbers."""

_TRIED = 256  # values; where none of them is a number, all need not be tried


def settled(text: pl.Series, comma: bool = False) -> pl.Series:
    """Return numbers if all cells are, spaces around them and names of missing ones aside.

    Text that is not all numbers stays as it is: "NA" among the names of countries is one.

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
    """
    some = text.head(_TRIED).drop_nulls()
    if len(some) and _numbers(_plain(some, comma)).null_count() == len(some):
        return text
    plain = _plain(text, comma)
    if plain.null_count() == len(plain):
        return text
    numbers = _numbers(plain)
    return numbers if numbers.null_count() == plain.null_count() else text


def plain_cells(text: pl.Series) -> pl.Series:
    """Return text without spaces around it, null where it stands for a missing value.

    >>> plain_cells(pl.Series([" 7", "NA"])).to_list()
    ['7', None]
    """
    stripped = text.str.strip_chars()
    there = stripped.is_in(list(MISSING)).not_()
    return stripped.zip_with(there.fill_null(False), pl.Series([None], dtype=pl.String))


def _plain(text: pl.Series, comma: bool) -> pl.Series:
    plain = plain_cells(text)
    return plain.str.replace(",", ".", literal=True) if comma else plain


def _numbers(text: pl.Series) -> pl.Series:
    whole = text.cast(pl.Int64, strict=False)
    return whole if whole.null_count() == text.null_count() else text.cast(pl.Float64, strict=False)
