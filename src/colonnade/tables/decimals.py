"""Decimals, as databases give them, become numbers that columns hold.

Polars has decimals of 38 digits in all: beside one of many fractional digits a large one would be
missing. So they are whole numbers or floats, unless floats would make different ones the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl

__all__ = ["kind_of", "without_decimals"]

_EXACT = 2**53  # up to here each whole number has a float of its own
_MOST_DIGITS = 38
_Number = int | float | Decimal


def without_decimals(values: Sequence[_Number | None]) -> Sequence[_Number | None]:
    """Return numbers as whole ones or as floats, all alike, where none beyond 2^53 is another then.

    Else all are decimals. Of places after the point a float has as many as make 15 digits in all.

    >>> without_decimals([Decimal("2.0"), None]), without_decimals([Decimal("3E2"), 7])
    ([2.0, None], [300, 7])
    >>> without_decimals([Decimal("9007199254740993.00"), 7])
    [9007199254740993, 7]
    >>> without_decimals([2**53 + 1, 0.5])
    [Decimal('9007199254740993'), Decimal('0.5')]
    """
    given = [value for value in values if value is not None]
    rounded = any(map(_is_rounded, given))
    if all(_is_whole(value, at_all=rounded) for value in given):
        return [None if value is None else int(value) for value in values]
    if not rounded:
        return [None if value is None else float(value) for value in values]
    return [
        None if value is None else Decimal(repr(value) if isinstance(value, float) else value)
        for value in values
    ]


def kind_of(values: Sequence[Any]) -> pl.DataType | None:
    """Return the kind of a column that holds numbers to their last digit.

    None where polars sees it by itself, which goes by the first value.

    Raises
    ------
    OverflowError
        If no column does.

    Examples
    --------
    >>> kind_of([7, 2**70]), kind_of([Decimal("12345.5"), None]), kind_of([7, None])
    (Int128, Decimal(precision=38, scale=1), None)
    """
    if any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in values):
        return pl.Int128()
    decimals = [value for value in values if isinstance(value, Decimal)]
    if not decimals:
        return None
    if not all(value.is_finite() for value in decimals):
        raise OverflowError("what is not finite, beside numbers that floating point would round")
    places = max(0, *(-int(value.as_tuple().exponent) for value in decimals))
    if places + max(0, *(value.adjusted() + 1 for value in decimals)) > _MOST_DIGITS:
        raise OverflowError(f"numbers of more than {_MOST_DIGITS} digits in all")
    return pl.Decimal(_MOST_DIGITS, places)


def _is_whole(value: _Number, at_all: bool) -> bool:
    """Return whether a number is whole as it is written, or at all, and 128 bits hold it."""
    if isinstance(value, int):
        return True
    if isinstance(value, float) or not value.is_finite():
        return False
    written = int(value.as_tuple().exponent) >= 0
    fits = -(2**127) <= value < 2**127
    return fits and (written or (at_all and value == value.to_integral_value()))


def _is_rounded(value: _Number) -> bool:
    """Return whether a float that is written as short as can be is another large number."""
    if isinstance(value, float):
        return False
    exact = Decimal(value)
    if not exact.is_finite() or -_EXACT <= exact <= _EXACT:
        return False
    nearest = Decimal(repr(float(exact)))
    return nearest.is_finite() and nearest != exact
