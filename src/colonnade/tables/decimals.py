"""Decimals, as databases give them, become numbers that columns hold.

Polars has decimals of 38 digits in all: beside one of many fractional digits a large one would be
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

__all__ = ["without_decimals"]


def without_decimals(
    values: Sequence[int | float | Decimal | None],
) -> list[int | None] | list[float | None]:
    """Return numbers as whole ones where nothing is lost in 128 bits by that, else all as floats.

    >>> without_decimals([Decimal("2.0"), None]), without_decimals([Decimal("3E2"), 7])
    ([2.0, None], [300, 7])
    """
    if all(value is None or _is_whole(value) for value in values):
        return [None if value is None else int(value) for value in values]
    return [None if value is None else float(value) for value in values]


def _is_whole(value: float | Decimal) -> bool:
    if not isinstance(value, Decimal):
        return isinstance(value, int)
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0 and -(2**127) <= value < 2**127
