"""Cells that make text of a column of numbers: one of them would have all numbers hashed."""

from __future__ import annotations

import polars as pl

from colonnade.errors import DataError
from colonnade.tables.notes import Note
from colonnade.tables.numerals import CODE, MISSING
from colonnade.tables.place import Place
from colonnade.tables.remedies import as_missing, as_text, named_in, setting
from colonnade.tables.writings import is_date, is_written_number, share_of

__all__ = ["MOSTLY", "are_codes", "check_text", "check_whole", "is_code", "rounded_categories"]

MOSTLY = 0.9
"""Of the different values that are numbers, in a column that should be one of numbers."""

_PARTLY = 0.5  # of them, in a column of which it is told
_CODES = 0.05  # of the numbers that have a zero in front, in a column of codes of any length
_COMMA = r"^[+-]?[0-9]+,[0-9]+$"
_THOUSANDS = r"^[+-]?[0-9]{1,3}(,[0-9]{3})+$"
_EXACT = 2**53
_MANY = 100  # different values; of fewer rows it says little that each occurs once


def is_code(text: pl.Series) -> pl.Series:
    """Return which texts are digits with a zero in front, as numbers are not written.

    >>> is_code(pl.Series(["007", "0.7", "0", "70"])).to_list()
    [True, False, False, False]
    """
    return text.str.contains(CODE)


def check_text(name: str, values: pl.Series, few: int, place: Place) -> str | None:
    """Raise ``DataError`` if a column of text seems to be one of numbers or dates.

    It seems to be one of numbers if more than 90 % of its different values, names of missing ones
    aside, are numbers, or would be with a decimal point for a comma; if all are, more than ``few``,
    and some of them fractions; or if they are so many and written with marks between thousands or
    with a unit. More than ``few`` dates are refused as typed ones are. Digits with a zero in front
    are codes if more than 5 % of the numbers have one or all numbers are of one length, and a
    column of codes is text.

    Where it may be text all the same, what should be known is returned: that of more than ``few``
    different values all are whole numbers or more than half are numbers; or that of more than 100
    nearly all occur once.

    >>> check_text("age", pl.Series([*map(str, range(40)), "old"]), 16, str)
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: 40, column 'age': 'old' is no number, and 40 of the 41 different values are: correct it, read the table with missing=['old'] (YAML: missing: ["old"]) if it stands for none, or, if it is text, name the column in categorical: TableTransformer(categorical=["age"]) in transformers (YAML: features: {categorical: ["age"]})
    >>> print(check_text("name", pl.Series([f"Ann {'i' * i}" for i in range(200)]), 16, str))
    column 'name': 200 of 200 values are different, and hashed they teach next to nothing of new rows; make a number or a few categories of it, or, if it is a name or an id, name it in ignore: TableTransformer(ignore=["name"]) in transformers (YAML: features: {ignore: ["name"]})
    """  # noqa: E501 - a message is one line
    distinct = values.drop_nulls().unique(maintain_order=True)
    text = distinct.str.strip_chars()
    absent = text.is_in(list(MISSING))
    number = text.cast(pl.Float64, strict=False).is_not_null() & ~absent
    comma = text.str.contains(_COMMA)
    all_of_them = len(distinct) - int(absent.sum())  # that say anything
    mostly = MOSTLY * all_of_them
    codes = is_code(text)
    if codes.any():
        if are_codes(text.filter(number | comma)):
            return _hardly_repeated(name, values, distinct, few)
        if (number | comma).sum() > mostly:
            found = distinct.filter(codes)[0]
            raise DataError(
                f"{_where(name, values, found, place)}: {found!r} has a zero in front, as "
                f"{codes.sum()} of the {len(distinct)} different values have: take it away if they "
                f"are numbers, or, if they are codes, {named_in('categorical', name)}"
            )
    if all_of_them > few and number.sum() <= mostly:
        _refuse_other_writings(name, values, distinct, place)
    if comma.any() and (number | comma).sum() > mostly:
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
            "decimal=',' (YAML: decimal: ','), or, if it is text, "
            f"{named_in('categorical', name)}"
        )
    if number.sum() == all_of_them and not (number.any() and absent.any()):
        fractions = text.str.contains(".", literal=True)
        if all_of_them > few and fractions.any():
            found = distinct.filter(fractions)[0]
            raise DataError(
                f"{_where(name, values, found, place)}: {found!r} is a number written as text, as "
                f"all {all_of_them} different values are; make numbers of them, or, if it is text, "
                f"{named_in('categorical', name)}"
            )
        return _hashed_numbers(name, distinct) if all_of_them > few else None
    if number.sum() > mostly:
        found = distinct.filter(~number & ~absent if number.sum() < all_of_them else absent)[0]
        raise DataError(
            f"{_where(name, values, found, place)}: {found!r} is no number, and {number.sum()} of "
            f"the {len(distinct)} different values are: correct it, {as_missing(found)}, or, if it "
            f"is text, {named_in('categorical', name)}"
        )
    if all_of_them > few and number.sum() > _PARTLY * all_of_them:
        found = distinct.filter(~number & ~absent)[0]
        return Note(
            f"column {name!r}: {number.sum()} of the {len(distinct)} different values are numbers, "
            "and others are not",
            f", such as {found!r} in {_row(values, found, place)}",
            ", so all are hashed as text; correct those if the column is one of numbers, or, if it "
            f"is text, {named_in('categorical', name, it='it')}",
        )
    return _hardly_repeated(name, values, distinct, few)


def check_whole(name: str, values: pl.Series, place: Place) -> None:
    """Raise ``DataError`` if whole numbers, or decimals, are too large to stay apart as floats.

    >>> check_whole("account", pl.Series([2**53 + 1]), str)
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: 0, column 'account': 9007199254740993 is beyond 2^53, where different whole numbers become the same in floating point; correct it, or, before fitting, name the column in categorical or ignore, or in numeric if that does not matter: TableTransformer(categorical=["account"]) in transformers (YAML: features: {categorical: ["account"]})
    """  # noqa: E501 - a message is one line
    if not (values.dtype.is_integer() or values.dtype.is_decimal()) or not values.len():
        return
    low, high = values.min(), values.max()
    if low is None or (low >= -_EXACT and high <= _EXACT):  # type: ignore[operator]  # whole
        return
    beyond = values > _EXACT
    if not values.dtype.is_unsigned_integer():
        beyond |= values < -_EXACT
    row = int(beyond.arg_true()[0])
    raise DataError(
        f"{place(row)}, column {name!r}: {values[row]} is beyond 2^53, where different whole "
        "numbers become the same in floating point; correct it, or, before fitting, name the "
        "column in categorical or ignore, or in numeric if that does not matter: "
        f"{setting('categorical', [name])}"
    )


def rounded_categories(name: str, values: pl.Series) -> str | None:
    """Return that numbers with a fraction are categories, if some are: 1.10 and 1.1 are one.

    >>> rounded_categories("grade", pl.Series([1.0, None, 2.0])) is None
    True
    """
    numbers = values.cast(pl.Float64)
    if not (numbers != numbers.floor()).any():
        return None
    return (
        f"column {name!r} holds numbers with a fraction, of which 1.10 and 1.1 are one category; "
        f"if it is one of codes, {as_text(name)}"
    )


def are_codes(numbers: pl.Series) -> bool:
    """Return whether numbers of which some have a zero in front are codes.

    >>> are_codes(pl.Series(["007", "123"])), are_codes(pl.Series([*map(str, range(99)), "07"]))
    (True, False)
    """
    enough = share_of(is_code(numbers), len(numbers)) > _CODES
    return enough or numbers.str.len_chars().n_unique() == 1


def _refuse_other_writings(name: str, values: pl.Series, distinct: pl.Series, place: Place) -> None:
    """Refuse dates, and numbers with marks between thousands or a unit."""
    text = distinct.str.strip_chars()
    said = ~text.is_in(list(MISSING))
    dates = is_date(text)
    if share_of(dates, int(said.sum())) > MOSTLY:
        found = distinct.filter(dates)[0]
        raise DataError(
            f"{_where(name, values, found, place)}: {found!r} is a date or time written as text, "
            "which would be hashed; make a number of the column first, such as an age in years; or "
            "name it in dates, which takes days since 1970 of dates such as 2024-01-31, or in "
            f"ignore: {setting('dates', [name])}"
        )
    written = is_written_number(text)
    plain = text.cast(pl.Float64, strict=False).is_not_null() | text.str.contains(_COMMA)
    if written.any() and share_of((written | plain) & said, int(said.sum())) > MOSTLY:
        found = distinct.filter(written)[0]
        raise DataError(
            f"{_where(name, values, found, place)}: {found!r} seems to be a number with marks "
            "between thousands, a unit or a sign; make plain numbers of the column, or, if it is "
            f"text, {named_in('categorical', name, it='it')}"
        )


# The next two name no value: it may be somebody's name or id, and what they say of tables is shown
# on the page of the run.


def _hashed_numbers(name: str, distinct: pl.Series) -> str:
    return (
        f"column {name!r}: all {len(distinct)} different values are whole numbers written as text, "
        "and are hashed as categories; make numbers of them, or name the column in categorical if "
        f"they are codes, in ignore if they are ids: {setting('ignore', [name])}"
    )


def _hardly_repeated(name: str, values: pl.Series, distinct: pl.Series, few: int) -> str | None:
    """Return that nearly no value occurs twice, so that hashing tells nothing of new rows."""
    count = len(values) - values.null_count()
    if len(distinct) <= max(few, _MANY, MOSTLY * count):
        return None
    return (
        f"column {name!r}: {len(distinct)} of {count} values are different, and hashed they teach "
        "next to nothing of new rows; make a number or a few categories of it, or, if it is a name "
        f"or an id, {named_in('ignore', name, it='it')}"
    )


def _where(name: str, values: pl.Series, found: str, place: Place) -> str:
    return f"{_row(values, found, place)}, column {name!r}"


def _row(values: pl.Series, found: str, place: Place) -> str:
    return place(int((values == found).arg_true()[0]))
