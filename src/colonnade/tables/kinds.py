"""What a column may hold: numbers or categories; anything else is refused with advice."""

from __future__ import annotations

import polars as pl

from colonnade.errors import DataError
from colonnade.tables.remedies import named_in, setting

__all__ = ["check_kind", "is_category", "is_number"]


def is_number(dtype: pl.DataType) -> bool:
    """Return whether values are numbers by nature: integers, floats, decimals."""
    return dtype.is_numeric()


def is_category(dtype: pl.DataType) -> bool:
    """Return whether values are categories by nature: text, truth values, categoricals, enums."""
    return dtype in (pl.String, pl.Boolean) or isinstance(dtype, pl.Categorical | pl.Enum)


def check_kind(column: str, dtype: pl.DataType) -> None:
    """Raise ``DataError`` if a column holds neither numbers nor categories.

    >>> check_kind("born", pl.Date())
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: column 'born' holds Date; make a number of it first, such as an age in years, or name it in dates, which takes days since 1970, or in ignore: TableTransformer(dates=["born"]) in transformers (YAML: features: {dates: ["born"]})
    """  # noqa: E501 - a message is one line
    if dtype == pl.Null or is_number(dtype) or is_category(dtype):
        return
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        raise DataError(
            f"column {column!r} holds {dtype}; make a number of it first, such as an age in years, "
            "or name it in dates, which takes days since 1970, or in ignore: "
            f"{setting('dates', [column])}"
        )
    if dtype.is_temporal():
        raise DataError(
            f"column {column!r} holds {dtype}; make numbers of it first, such as hours, or "
            f"{named_in('ignore', column, it='it')}"
        )
    raise DataError(
        f"column {column!r} holds {dtype}; expected numbers, text, truth values or categories; "
        f"turn it into those, or {named_in('ignore', column, it='it')}"
    )
