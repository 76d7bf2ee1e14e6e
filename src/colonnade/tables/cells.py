"""Cells that make text of a column of numbers: one of them would have all numbers hashed."""

from __future__ import annotations

import polars as pl

from colonnade.errors import DataError
from colonnade.tables.numerals import MISSING
from colonnade.tables.place import Place

__all__ = ["check_text", "check_whole", "is_code"]

_MOSTLY = 0.9  # of the different values that are numbers, in a column that should be one of numbers
_CODE = r"^[+-]?0[0-9]+$"  # a number would lose the zero
_COMMA = r"^[+-]?[0-9]+,[0-9]+$"
_THOUSANDS = r"^[+-]?[0-9]{1,3}(,[0-9]{3})+$"
_EXACT = 2**53


def is_code(text: pl.Series) -> pl.Series:
    """Return which texts are digits with a zero in front, as numbers are not written.

    >>> is_code(pl.Series(["007", "0.7", "0", "70"])).to_list()
    [True, False, False, False]
    """
    return text.str.contains(_CODE)


def check_text(name: str, values: pl.Series, few: int, place: Place) -> None:
    """Raise ``DataError`` if a column of text seems to be one of numbers.

    It does if more than 90 % of its different values, names of missing ones aside, are numbers, or
    would be with a decimal point for a comma; or if all are, more than ``few``, and some of them
    fractions. Digits with a zero in front are codes, and a column that has some is text.

    >>> check_text("age", pl.Series([*map(str, range(40)), "old"]), 16, str)
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: 40, column 'age': 'old' is no number, and 40 of the 41 different values are: correct it, read the table with missing=['old'] (YAML: missing: [old]) if it stands for none, or name the column in categorical if it is text
    """  # noqa: E501 - a message is one line
    distinct = values.drop_nulls().unique(maintain_order=True)
    text = distinct.str.strip_chars()
    if is_code(text).any():
        return
    absent = text.is_in(list(MISSING))
    number = text.cast(pl.Float64, strict=False).is_not_null() & ~absent
    comma = text.str.contains(_COMMA)
    all_of_them = len(distinct) - int(absent.sum())  # that say anything
    if comma.any() and (number | comma).sum() > _MOSTLY * all_of_them:
        found = distinct.filter(comma)[0]
        where = _where(name, values, found, place)
        if text.filter(comma).str.contains(_THOUSANDS).all():
            raise DataError(
                f"{where}: {found!r} is no number as it is written; take the comma out if it "
                "separates thousands, or read the table with decimal=',' (YAML: decimal: ',') if "
                "it is a decimal one"
            )
        raise DataError(
            f"{where}: {found!r} seems to be a number with a decimal comma; read the table with "
            "decimal=',' (YAML: decimal: ','), or name the column in categorical if it is text"
        )
    if number.sum() == all_of_them and not (number.any() and absent.any()):
        fractions = text.str.contains(".", literal=True)
        if all_of_them > few and fractions.any():
            found = distinct.filter(fractions)[0]
            raise DataError(
                f"{_where(name, values, found, place)}: {found!r} is a number written as text, as "
                f"all {all_of_them} different values are; make numbers of them, or name the column "
                "in categorical if it is text"
            )
        return
    if number.sum() > _MOSTLY * all_of_them:
        found = distinct.filter(~number & ~absent if number.sum() < all_of_them else absent)[0]
        raise DataError(
            f"{_where(name, values, found, place)}: {found!r} is no number, and {number.sum()} of "
            f"the {len(distinct)} different values are: correct it, read the table with "
            f"missing=[{found!r}] (YAML: missing: [{found}]) if it stands for none, or name the "
            "column in categorical if it is text"
        )


def check_whole(name: str, values: pl.Series, place: Place) -> None:
    """Raise ``DataError`` if whole numbers are too large to stay apart in floating point.

    >>> check_whole("account", pl.Series([2**53 + 1]), str)
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: 0, column 'account': 9007199254740993 is beyond 2^53, where different whole numbers become the same in floating point; name the column in categorical or ignore, or in numeric if that does not matter
    """  # noqa: E501 - a message is one line
    if not values.dtype.is_integer() or not values.len():
        return
    low, high = values.min(), values.max()
    if low is None or (low >= -_EXACT and high <= _EXACT):  # type: ignore[operator]  # whole
        return
    row = int(((values > _EXACT) | (values < -_EXACT)).arg_true()[0])
    raise DataError(
        f"{place(row)}, column {name!r}: {values[row]} is beyond 2^53, where different whole "
        "numbers become the same in floating point; name the column in categorical or ignore, or "
        "in numeric if that does not matter"
    )


def _where(name: str, values: pl.Series, found: str, place: Place) -> str:
    return f"{place(int((values == found).arg_true()[0]))}, column {name!r}"
