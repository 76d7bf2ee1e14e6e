"""How a category is written: its text, whatever it was read as, and what training values were.

A category is known by its text: the number 5, the number 5.0 and the text "5" are one category, so
it does not matter that a file lets a column of numbers be read as text one day. Truth values are
"true" and "false". The other way it does matter: what was text in training may have been 5.00 or
007, and numbers do not say so.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import polars as pl

from colonnade.errors import DataError
from colonnade.tables.columns import hold_nothing
from colonnade.tables.kinds import check_kind, is_number
from colonnade.tables.numerals import CODE, WHOLE, plain_cells
from colonnade.tables.remedies import as_text

__all__ = ["Written", "texts"]

_COMMA = r"[+-]?[0-9]+,[0-9]+"
_NUMERAL = r"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?\s*$"


class Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the training values of a column of categories were.

    Parameters
    ----------
    as_text
        Whether they were text.
    otherwise
        Whether some of that text is a whole number otherwise than numbers are written, such as 007.
    """

    as_text: bool
    otherwise: bool = False

    @classmethod
    def of(cls, values: pl.Series) -> Written:
        """Return what these training values are.

        >>> Written.of(pl.Series(["007", "V12"])), Written.of(pl.Series([7, 12]))
        (Written(as_text=True, otherwise=True), Written(as_text=False, otherwise=False))
        """
        if is_number(values.dtype) or values.dtype == pl.Boolean:
            return cls(as_text=False)
        distinct = values.cast(pl.String).unique().drop_nulls()
        if values.dtype != pl.String and all(map(_is_value, distinct)):
            return cls(as_text=False)  # categories that are numbers, as pandas has them
        numerals = distinct.filter(distinct.str.contains(_NUMERAL) & ~distinct.str.contains(WHOLE))
        return cls(True, any(float(each).is_integer() for each in numerals))

    def with_missing(self, values: pl.Series) -> pl.Series:
        """Return new values, null where text names a missing one and training had no text.

        A text file with "NA" among numbers has them read as numbers, and "NA" alone as text.

        >>> Written(as_text=False).with_missing(pl.Series(["NA", "5"])).to_list()
        [None, '5']
        """
        if self.as_text or values.dtype != pl.String:
            return values
        return values.set(plain_cells(values).is_null(), None)

    def texts(self, name: str, values: pl.Series) -> pl.Series:
        """Return new values as those of training were written, missing ones as null.

        Raises
        ------
        DataError
            If they may have been written otherwise: numbers where there was text, or 007 where
            there were numbers.

        Examples
        --------
        >>> Written(as_text=False).texts("n", pl.Series(["5.0", " 0.50", "True", "Rome"])).to_list()
        ['5', '0.5', 'true', 'Rome']
        >>> Written(as_text=True).texts("code", pl.Series([250.0]))
        Traceback (most recent call last):
        ...
        colonnade.errors.DataError: column 'code' was text in training and holds Float64 here, and of 250.0 nobody knows whether 250.00 was written; make text of it, by a cast where it comes from (of a text file by read_table(..., text=["code"]))
        """  # noqa: E501 - a message is one line
        if hold_nothing(values):
            return pl.repeat(None, len(values), dtype=pl.String, eager=True)
        if self.as_text:
            self._check(name, values.dtype)
        elif values.dtype == pl.String:
            return _as_values(name, values)
        return texts(name, values)

    def _check(self, name: str, dtype: pl.DataType) -> None:
        """Raise ``DataError`` where values of a type may have been written otherwise."""
        if dtype.is_integer() and self.otherwise:
            here, written = "7", "007"
        elif dtype.is_float() or dtype.is_decimal():
            here, written = "250.0", "250.00"
        elif dtype == pl.Boolean:
            here, written = "True", "TRUE"
        else:
            return
        raise DataError(
            f"column {name!r} was text in training and holds {dtype} here, and of {here} nobody "
            f"knows whether {written} was written; {as_text(name)}"
        )


def texts(name: str, values: pl.Series) -> pl.Series:
    """Return categories as text, missing ones as null.

    >>> texts("zip", pl.Series([5.0, None, 0.5])).to_list()
    ['5', None, '0.5']
    >>> texts("member", pl.Series([True, False])).to_list()
    ['true', 'false']

    Raises
    ------
    DataError
        If the column holds something else than categories or numbers.
    """
    dtype = values.dtype
    check_kind(name, dtype)
    if dtype == pl.String:
        return values
    if dtype.is_float() or dtype.is_decimal():
        if dtype.is_float():
            values = values.fill_nan(None)
        distinct = values.unique().drop_nulls()
        if distinct.is_empty():
            return values.cast(pl.String)
        return values.replace_strict(
            distinct, [_text(value) for value in distinct], return_dtype=pl.String
        )
    return values.cast(pl.String)


def _as_values(name: str, text: pl.Series) -> pl.Series:
    """Return text in which numbers and truth values are as ``texts`` has those."""
    named = {}
    for each in text.unique().drop_nulls():
        plain = each.strip()
        if re.fullmatch(CODE, plain):
            raise DataError(
                f"column {name!r} held numbers in training, and holds {each!r} here, which begins "
                "with a zero as no number does; make numbers of the column, or have it be text in "
                "training too"
            )
        if re.fullmatch(_COMMA, plain):
            raise DataError(
                f"column {name!r} held numbers in training, and holds {each!r} here, which seems "
                "to be one with a decimal comma; read the table with decimal=',' "
                "(YAML: decimal: ',')"
            )
        if plain.lower() in ("true", "false"):
            named[each] = plain.lower()
        elif re.fullmatch(_NUMERAL, plain):
            whole = re.fullmatch("[+-]?[0-9]+", plain)
            named[each] = plain.removeprefix("+") if whole else _text(float(plain))
    return text.replace(named) if named else text


def _is_value(text: str) -> bool:
    """Return whether a text is that of a number or a truth value, as ``texts`` has it."""
    if text in ("true", "false") or re.fullmatch(WHOLE, text):
        return True
    return bool(re.fullmatch(_NUMERAL, text)) and _text(float(text)) == text


def _text(value: Any) -> str:
    """Return the text of a number, without a point where it is whole."""
    as_float = float(value)
    return str(int(value)) if as_float.is_integer() else repr(as_float)
