"""Columns of dates: read where they are written as 2024-01-31, and counted in days.

No other writing is read: 03/01/2024 is the third of January to some, and the first of March to
others.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import DataError
from colonnade.tables.columns import hold_nothing
from colonnade.tables.numerals import plain_cells
from colonnade.tables.numeric import Number, Scale, fit_number, numbers
from colonnade.tables.place import Place

__all__ = ["Day", "as_dates", "days", "fit_day"]

_TRIED = 256  # values; where none of them is a date, all need not be tried
_BEGINNING = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(:[0-5][0-9](?:\.[0-9]{1,6})?)?"
_ZONE = "(Z|[+-][0-9]{2}:?[0-9]{2})$"
_PER_DAY = {"ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


class Day(Number, frozen=True, forbid_unknown_fields=True, tag="day"):
    """What training told about a column of dates: that of their days since 1970, as of numbers."""

    @property
    def kind(self) -> str:
        """What it was read as, in words."""
        if not self.had_missing:
            return "days since 1970"
        return f"days since 1970; missing ones are filled in with {self.median:.6g}"

    def read(self, values: pl.Series, place: Place) -> NDArray[np.float64]:
        """Return the days of dates, missing ones as nan; see ``days``."""
        return numbers(self.name, days(self.name, values, place), place)


def fit_day(values: pl.Series, name: str, scale: Scale, fill: bool, place: Place) -> Day:
    """Return what training values tell about their column; see ``fit_number``.

    >>> fit_day(pl.Series(["1970-01-03", "1970-01-05"]), "since", "none", True, str).kind
    'days since 1970'
    """
    fitted = fit_number(days(name, values, place), name, scale, fill, place)
    return Day(**msgspec.structs.asdict(fitted))


def as_dates(text: pl.Series) -> pl.Series:
    """Return dates, or times of dates, if all cells are, names of missing ones aside; else text.

    They are as ISO 8601 writes them, a time behind a T or a space: to the minute, the second or a
    part of it, and with a zone or without one.

    Parameters
    ----------
    text
        A column as it is written.

    Examples
    --------
    >>> as_dates(pl.Series(["2024-01-31", "NA", "1969-12-31"])).to_list()
    [datetime.date(2024, 1, 31), None, datetime.date(1969, 12, 31)]
    >>> as_dates(pl.Series(["2024-01-31 10:30", "2024-01-31T10:30:15.5"])).dtype
    Datetime(time_unit='us', time_zone=None)
    >>> as_dates(pl.Series(["31.01.2024", "01.02.2024"])).to_list()
    ['31.01.2024', '01.02.2024']
    """
    some = plain_cells(text.head(_TRIED)).drop_nulls()
    if len(some) and not some.str.contains(_BEGINNING).any():
        return text
    plain = plain_cells(text)
    read = _best(plain)
    whole = read.null_count() == plain.null_count() < len(plain)
    return read if whole else text


def days(name: str, values: pl.Series, place: Place) -> pl.Series:
    """Return dates as days since the first of January 1970, a time as a part of its day.

    A time with a zone is that of UTC, and one without is taken for it; a date alone is its
    midnight. Text is read as by ``as_dates``, but that one column may hold all of these.

    Parameters
    ----------
    name
        The column.
    values
        Its values.
    place
        Tells a row for a message.

    Raises
    ------
    DataError
        If they are no dates.

    Examples
    --------
    >>> days("since", pl.Series(["1970-01-03", None]), str).to_list()
    [2.0, None]
    >>> days("since", pl.Series(["1970-01-03 06:00", "1970-01-03"]), str).to_list()
    [2.25, 2.0]
    """
    dtype = values.dtype
    if hold_nothing(values):
        return pl.repeat(None, len(values), dtype=pl.Float64, eager=True)
    if dtype == pl.String:
        plain = plain_cells(values)
        read = _best(plain)
        if read.null_count() == plain.null_count():
            return days(name, read, place)
        found = _by_any(plain)
        wrong = found.is_null() & plain.is_not_null()
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise DataError(
                f"{place(row)}, column {name!r}: {values[row]!r} is no date as 2024-01-31 is one, "
                "or with a time 2024-01-31 10:30; write it so, or leave it empty"
            )
        return found
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        return _counted(values)
    raise DataError(
        f"column {name!r} is named in dates, and holds {dtype}; make dates of it, or take "
        "it out there before fitting"
    )


def _counted(values: pl.Series) -> pl.Series:
    """Return the days of dates or times."""
    if not isinstance(values.dtype, pl.Datetime):
        return values.to_physical().cast(pl.Float64)
    # Both parts are whole in floating point, so that each unit gives the same bits; polars would
    # multiply by what one is of the other, rounded.
    ticks, per_day = values.to_physical(), _PER_DAY[values.dtype.time_unit]
    rest = (ticks % per_day).fill_null(0).cast(pl.Float64).to_numpy() / per_day
    return (ticks // per_day).cast(pl.Float64) + pl.Series(rest)


def _date(plain: pl.Series) -> pl.Series:
    return plain.set(~plain.str.contains(_DATE), None).str.to_date("%Y-%m-%d", strict=False)


def _time(plain: pl.Series) -> pl.Series:
    return _with_seconds(plain, f"{_TIME}$").str.to_datetime(
        "%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us"
    )


def _time_with_zone(plain: pl.Series) -> pl.Series:
    zoned = plain.str.replace("Z$", "+00:00")
    zone = zoned.str.extract(_ZONE)
    return (_with_seconds(zoned, _TIME + _ZONE) + zone).str.to_datetime(
        "%Y-%m-%dT%H:%M:%S%.f%#z", strict=False, time_unit="us"
    )


def _with_seconds(plain: pl.Series, form: str) -> pl.Series:
    """Return times of one form with their seconds, which need not have been written."""
    of_form = plain.set(~plain.str.contains(form), None)
    seconds = of_form.str.extract(_TIME, 3).fill_null(":00")
    return of_form.str.extract(_TIME, 1) + "T" + of_form.str.extract(_TIME, 2) + seconds


_READERS: tuple[Callable[[pl.Series], pl.Series], ...] = (_date, _time, _time_with_zone)


def _best(plain: pl.Series) -> pl.Series:
    """Return what the reader finds that finds the most."""
    return min((read(plain) for read in _READERS), key=pl.Series.null_count)


def _by_any(plain: pl.Series) -> pl.Series:
    """Return the days of texts that one reader or another takes; null of those that none does."""
    first, *others = (_counted(read(plain)) for read in _READERS)
    for other in others:
        first = first.zip_with(first.is_not_null(), other)
    return first
