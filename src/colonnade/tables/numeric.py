"""Columns of numbers: missing values filled in, then scaled."""

from __future__ import annotations

from typing import Literal, NoReturn

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import DataError
from colonnade.tables.columns import hold_nothing
from colonnade.tables.kinds import check_kind
from colonnade.tables.numerals import plain_cells
from colonnade.tables.place import Place, refuse_missing
from colonnade.tables.remedies import named_in

__all__ = ["Number", "Scale", "fit_number", "numbers"]

Scale = Literal["standard", "unit", "none"]


class Number(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="number"):
    """What training told about a column of numbers.

    x becomes (x - mean) / deviation; a missing x is the median first.

    Parameters
    ----------
    name
        The column.
    median
        Of the training values that were there.
    mean, deviation
        Of the training values, missing ones filled in; 0 and 1 without scaling; the lowest value
        and how far it is to the highest for the unit interval. A deviation of 0 stands for a
        column that was constant: it becomes 0 throughout, since a model that never saw it vary has
        learned nothing about it.
    had_missing
        Whether a training value was missing; then a second column says which are: 1, others 0.
    """

    name: str
    median: float
    mean: float
    deviation: float
    had_missing: bool

    @property
    def width(self) -> int:
        """How many columns it becomes."""
        return 1 + self.had_missing

    @property
    def kind(self) -> str:
        """What it was read as, in words."""
        if not self.had_missing:
            return "number"
        return f"number; missing ones are filled in with {self.median:.6g}"

    def read(self, values: pl.Series, place: Place) -> NDArray[np.float64]:
        """Return values as float64, missing ones as nan; see ``numbers``."""
        return numbers(self.name, values, place)

    def write(
        self,
        values: pl.Series,
        out: NDArray[np.float32],
        indicator: NDArray[np.float32] | None,
        place: Place,
        fill: bool,
    ) -> int:
        """Write the scaled values of a batch, and which were missing; return how many were.

        Raises
        ------
        DataError
            If a value is no number, infinite, or too large for float32 once scaled, or missing
            and not to be filled in.
        """
        x = self.read(values, place)
        missing = np.isnan(x)
        if absent := int(missing.sum()):
            if not fill:
                refuse_missing(self.name, int(missing.argmax()), place)
            x = np.where(missing, self.median, x)
        if indicator is not None:
            indicator[:] = missing
        if self.deviation == 0:
            out[:] = 0
            return absent
        with np.errstate(over="ignore"):
            out[:] = (x - self.mean) / self.deviation
        if not np.isfinite(out).all():
            row = int(np.argmin(np.isfinite(out)))
            raise DataError(
                f"{place(row)}, column {self.name!r}: {x[row]} is too large; "
                f"training values were around {self.mean:.4g}, give or take {self.deviation:.4g}"
            )
        return absent


def fit_number(values: pl.Series, name: str, scale: Scale, fill: bool, place: Place) -> Number:
    """Return what training values tell about their column.

    Parameters
    ----------
    values
        The training values.
    name
        The column.
    scale
        "standard": to mean 0 and variance 1; "unit": to [0, 1]; "none": as they are.
    fill
        Whether missing values may be filled in; otherwise they are refused.
    place
        Tells a row for a message.

    Raises
    ------
    DataError
        If a value is no number or infinite, no value is there, or they are too far from each other
        or too near for double precision.

    Examples
    --------
    >>> fit_number(pl.Series([1, 2, None, 9]), "age", "none", True, str)
    Number(name='age', median=2.0, mean=0.0, deviation=1.0, had_missing=True)
    """
    x = numbers(name, values, place)
    missing = np.isnan(x)
    had_missing = bool(missing.any())
    if missing.all():
        raise DataError(
            f"column {name!r} has no value in any of {len(x)} training rows; "
            f"leave it out, or {named_in('ignore', name, it='it')}"
        )
    if had_missing and not fill:
        refuse_missing(name, int(missing.argmax()), place)
    observed = x[~missing] if had_missing else x
    with np.errstate(over="ignore", invalid="ignore"):
        low, high, median = observed.min(), observed.max(), float(np.median(observed))
        if had_missing:
            x = np.where(missing, median, x)
        if scale == "none":
            mean, deviation = 0.0, 1.0
        elif low == high:  # exactly, where rounding may leave a tiny deviation
            mean, deviation = float(low), 0.0
        elif scale == "unit":
            mean, deviation = float(low), float(high - low)
        else:
            mean, deviation = float(x.mean()), float(x.std())
    too_near = low != high and deviation == 0  # a square that is no double
    if too_near or not np.isfinite([median, mean, deviation]).all():
        raise DataError(
            f"column {name!r} ranges from {low:.4g} to {high:.4g}, too "
            f"{'near' if too_near else 'far'} for its mean and deviation in double precision; give "
            "it in another unit"
        )
    return Number(name, median, mean, deviation, had_missing)


def numbers(name: str, values: pl.Series, place: Place) -> NDArray[np.float64]:
    """Return values as float64, missing ones as nan; the array may be a view, for reading.

    A column without a value is one of missing numbers, whatever it holds: nothing in it says that
    they would be numbers. So is one of text that holds but names of missing values.

    Raises
    ------
    DataError
        If a value is no number, or infinite.
    """
    dtype = values.dtype
    if hold_nothing(values):
        return np.full(len(values), np.nan)
    check_kind(name, dtype)
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        text = values.cast(pl.String)
        if plain_cells(text).null_count() < len(text):
            _refuse_text(name, text, place)
        return np.full(len(values), np.nan)
    x: NDArray[np.float64] = values.cast(pl.Float64).to_numpy()
    infinite = np.isinf(x)
    if infinite.any():
        row = int(infinite.argmax())
        raise DataError(
            f"{place(row)}, column {name!r}: the value is {x[row]}; "
            "expected finite numbers; correct it, or leave it empty to be filled in"
        )
    return x


def _refuse_text(name: str, text: pl.Series, place: Place) -> NoReturn:
    """Raise ``DataError`` that names the first text that is no number, or the first of all."""
    there = plain_cells(text).is_not_null()
    no_number = (there & text.cast(pl.Float64, strict=False).is_null()).arg_true()
    row = int((no_number if len(no_number) else there.arg_true())[0])
    remedy = (
        "correct the value"
        if len(no_number)
        else "make numbers of it (astype(float)), or correct the row that made text of all, which "
        "may be one that is left out"
    )
    raise DataError(
        f"{place(row)}, column {name!r}: found the text {text[row]!r} where numbers were expected; "
        f"{remedy}, or before fitting {named_in('categorical', name)}"
    )
