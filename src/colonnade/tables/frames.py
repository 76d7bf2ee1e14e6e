"""Frames from what people have at hand: polars, pandas, dictionaries of arrays, matrices.

pandas is recognised by what it offers and never imported; nothing goes through pyarrow. The index
of a pandas frame is no column; ``index_of`` returns it where it is more than a count. What pandas
and numpy use for a missing value (NaN, None, NA, NaT, a mask) becomes polars' null. Categories of
pandas stay categories in a frame, also those of numbers; a series alone is of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import DataError
from colonnade.forked import check_not_forked
from colonnade.tables.columns import only
from colonnade.tables.decimals import kind_of, without_decimals
from colonnade.tables.names import check_named_once, check_present
from colonnade.tables.written import texts
from colonnade.telling import first_line

__all__ = [
    "absent_in",
    "as_array",
    "as_column",
    "as_frame",
    "as_series",
    "called_rows",
    "counts_by_kind",
    "index_of",
    "is_count",
    "is_unnamed_count",
    "whole_numbers",
]

_MOST_NAMED = 5  # kinds of values in one sentence
_UNITS = {"M": ("D", "ms", "us", "ns"), "m": ("ms", "us", "ns")}  # that polars takes from numpy


def as_frame(
    data: Any,
    columns: Sequence[str] | None = None,
    column: Callable[[Any, str], pl.Series] | None = None,
) -> pl.DataFrame:
    """Return the table as a polars frame; a polars frame is not copied.

    Parameters
    ----------
    data
        A polars frame (eager or lazy), a pandas frame, a mapping from names to arrays, or a
        matrix, whose columns are then called "0", "1", ...
    columns
        The columns to keep, in this order; all by default.
    column
        What makes one of what is not of polars; by default ``as_series``, but that categories of
        pandas stay such.

    Raises
    ------
    DataError
        If this is no table, a column is missing or named twice, or values cannot be understood.

    Examples
    --------
    >>> as_frame({"id": [3, 1], "age": np.array([41.0, np.nan])})
    shape: (2, 2)
    ┌─────┬──────┐
    │ id  ┆ age  │
    │ --- ┆ ---  │
    │ i64 ┆ f64  │
    ╞═════╪══════╡
    │ 3   ┆ 41.0 │
    │ 1   ┆ null │
    └─────┴──────┘
    >>> as_frame(np.zeros((5, 2))).columns
    ['0', '1']
    """
    check_not_forked()
    if columns is not None:
        check_named_once("columns", columns)
    if isinstance(data, pl.LazyFrame):
        if columns is not None:
            check_present("the table", columns, _collected(data.head(0)).columns)
            data = only(data, columns)
        return _collected(data)
    if isinstance(data, pl.DataFrame):
        if columns is None:
            return data
        check_present("the table", columns, data.columns)
        return only(data, columns)
    arrays = _arrays(data)
    if columns is not None:
        check_present("the table", columns, list(arrays))
        arrays = {name: arrays[name] for name in columns}
    made = column or as_column
    series = [made(values, name) for name, values in arrays.items()]
    if not series:
        raise DataError("the table has no columns")
    for one in series:
        if len(one) != len(series[0]):
            raise DataError(
                f"column {one.name!r} has {len(one)} values, but column {series[0].name!r} has "
                f"{len(series[0])}; all columns of a table have the same length"
            )
    return pl.DataFrame(dict(zip(arrays, series, strict=True)))  # also one that is called ""


def as_series(values: Any, name: str = "") -> pl.Series:
    """Return one column as a polars series, whatever holds it; ``name`` is for one without.

    A frame of one column is that column.

    Raises
    ------
    DataError
        If the values are not one column, or are of a kind that no column can hold.

    Examples
    --------
    >>> as_series([1, None, 3], "visits").to_list()
    [1, None, 3]
    >>> as_series(np.array(["a", None, float("nan")], dtype=object)).to_list()
    ['a', None, None]
    """
    check_not_forked()
    if isinstance(values, pl.Series):
        return values if not name or values.name == name else _called(name, values)
    what = f"column {name!r}" if name else "the column"
    if isinstance(values, pl.LazyFrame) or _is_frame(values):
        return as_series(_alone(values, what), name)
    if isinstance(values, Tensor):
        values = as_array(values, what)
    elif hasattr(values, "to_numpy"):  # a column of pandas
        own = getattr(values, "name", None)
        name = name or ("" if own is None else str(own))
        if hasattr(values, "levels"):  # an index of several, which ids are called by as well
            return _called(name, _from_values([*map(_called_row, values)], what))
        values = _of_pandas(values)
    elif not isinstance(values, np.ndarray):
        if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
            raise DataError(f"{what} must be an array of values, not a {type(values).__name__}")
        values = list(values)
        if any(isinstance(value, Sequence) and not isinstance(value, str) for value in values):
            raise DataError(f"{what} must hold one value a row, not sequences")
        return _called(name, _from_values(values, what))
    if values.ndim != 1:
        raise DataError(f"{what} must have the shape [N], not {list(values.shape)}")
    return _called(name, _from_array(values, what))


def as_column(values: Any, name: str) -> pl.Series:
    """Return one column as ``as_series`` does, but of pandas' categories as categories."""
    categories = getattr(getattr(values, "dtype", None), "categories", None)
    if isinstance(values, pl.Series) or categories is None or not hasattr(values, "cat"):
        return as_series(values, name)
    numbers = categories.dtype.kind in "iufb"
    words = texts(name, pl.Series(categories.to_numpy())) if numbers else map(str, categories)
    known = pl.Series([*words], dtype=pl.String)
    codes = pl.Series(values.cat.codes.to_numpy().astype(np.int64))
    found = known.gather(codes.set(codes < 0, None))
    return _called(name, found).cast(pl.Categorical)


def _is_frame(values: Any) -> bool:
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def _alone(frame: Any, what: str) -> Any:
    """Return the one column of a frame.

    Raises
    ------
    DataError
        If it has several, or none.
    """
    if isinstance(frame, pl.LazyFrame):
        frame = _collected(frame)
    names = [*map(str, frame.columns)]
    if len(names) != 1:
        which = f"; give one: frame[{names[0]!r}]" if names else ""
        raise DataError(f"{what} is a frame of {len(names)} columns, and must be one{which}")
    return frame.to_series() if isinstance(frame, pl.DataFrame) else frame.iloc[:, 0]


def _of_pandas(values: Any) -> NDArray[Any]:
    """Return the values of a column of pandas; of whole numbers, missing ones as a mask."""
    whole = getattr(values.dtype, "numpy_dtype", None)
    if whole is None or whole.kind not in "iu":
        return np.asarray(values.to_numpy())
    absent = np.asarray(values.isna(), dtype=bool)
    if not absent.any():
        return np.asarray(values.to_numpy())
    return np.ma.MaskedArray(values.to_numpy(dtype=whole, na_value=0), absent)  # no float has all


def _called(name: str, values: pl.Series) -> pl.Series:
    try:
        return values.alias(name)
    except UnicodeEncodeError:
        raise DataError(
            f"a column is called {name!r}, with a lone surrogate, half a character; give it "
            "another name"
        ) from None


def _from_array(values: NDArray[Any], what: str) -> pl.Series:
    """Return a series of the values of an array [N]."""
    kind = values.dtype.kind
    if values.dtype.names:
        raise DataError(f"{what} must hold one value a row, not records")
    if isinstance(values, np.ma.MaskedArray):
        return _from_masked(values, what)
    if kind == "f":
        known = np.float32 if values.dtype.itemsize <= 4 else np.float64  # polars has no others
        return pl.Series(values.astype(known)).fill_nan(None)
    if kind in "mM" and np.datetime_data(values.dtype)[0] not in _UNITS[kind]:
        values = values.astype(f"{kind}8[ms]")
    if kind in "biumM":
        return pl.Series(np.ascontiguousarray(values))
    return _from_values(values.tolist(), what)


def _from_masked(values: np.ma.MaskedArray[Any, Any], what: str) -> pl.Series:
    """Return a series in which what is masked is missing; what is under a mask is not looked at."""
    known = ~np.ma.getmaskarray(values)
    places = pl.Series(np.cumsum(known) - 1)
    nowhere = pl.Series([None], dtype=places.dtype)
    there = _from_array(np.asarray(values.data)[known], what)
    return there.gather(places.zip_with(pl.Series(known), nowhere))


def as_array(values: Tensor, what: str) -> NDArray[Any]:
    """Return a tensor as an array, of whatever layout it is; of what numpy has not, as float32.

    Parameters
    ----------
    values
        The tensor.
    what
        What an error calls it.

    Raises
    ------
    DataError
        If it has no numbers to read, such as one on the device "meta".

    Examples
    --------
    >>> as_array(torch.tensor([0.5, 2.0]).bfloat16(), "the matrix")
    array([0.5, 2. ], dtype=float32)
    """
    try:
        dense = values.detach().cpu().to_dense().resolve_conj().resolve_neg()
        known = dense.dtype in (torch.float16, torch.float32, torch.float64)
        return (dense.float() if dense.is_floating_point() and not known else dense).numpy()
    except (TypeError, RuntimeError) as error:
        raise DataError(
            f"{what} is a tensor that has no numbers to read ({first_line(error)}); expected a "
            "dense one of whole numbers, truth values or floats"
        ) from error


def _collected(data: pl.LazyFrame) -> pl.DataFrame:
    try:
        return data.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"the lazy frame cannot be collected: {first_line(error)}") from error


def index_of(data: Any) -> pl.Series | None:
    """Return what pandas calls the rows of a frame or column, None where that is but a count.

    A count is an index without a name that is a ``RangeIndex``, or 0, 1, 2, ... or 1, 2, 3, ..., as
    numbers or text; or one of several levels, of which one is whole numbers without a name, as a
    count of rows within groups. What is no whole number is called by its text; so is what an index
    of several levels says of a row, and its name is that of all levels.

    >>> index_of({"age": [41, 37]}) is None
    True
    """
    index: Any = getattr(data, "index", None)
    if not hasattr(index, "to_numpy"):
        return None
    if counts_by_kind(index):
        return None
    called = called_rows(index)
    return None if is_unnamed_count(called) else called


def counts_by_kind(index: Any) -> bool:
    """Return whether an index of pandas counts rows, or those within groups, by its kind alone."""
    is_range = not _name_of(index) and type(index).__name__ == "RangeIndex"
    return is_range or _counts_within(index)


def called_rows(index: Any) -> pl.Series:
    """Return what an index of pandas calls rows, by its name: whole numbers, or text of the rest.

    One time in two zones is called the same.

    Raises
    ------
    DataError
        If a row has no value, or one that no column can hold.
    """
    name = _name_of(index)
    if getattr(index, "tz", None) is not None:
        index = index.tz_convert("UTC")
    return _series_of(index, index.to_numpy(), name)


def absent_in(index: Any) -> NDArray[np.bool_]:
    """Return of which rows an index of pandas has no value, or not that of each of its levels."""
    if hasattr(index, "levels"):
        return np.array([*map(_lacks, index.to_numpy())], dtype=bool)
    return np.asarray(index.isna(), dtype=bool)


def whole_numbers(index: pl.Series) -> pl.Series | None:
    """Return an index as whole numbers if it is such, written as numbers or text, else None.

    >>> [whole_numbers(pl.Series(each)) is None for each in ([7, 2], ["1.0", "0.0"], ["07", "2"])]
    [False, False, True]
    """
    if index.dtype.is_integer():
        return index
    plain = index.cast(pl.String).str.strip_suffix(".0")
    numbers = plain.cast(pl.Int64, strict=False)
    return None if numbers.null_count() or not numbers.cast(pl.String).equals(plain) else numbers


def is_count(values: pl.Series) -> bool:
    """Return whether values are 0, 1, 2, ... or 1, 2, 3, ..., as numbers or text.

    >>> [is_count(pl.Series(each)) for each in ([0, 1], ["1", "2"], [1, 0], ["a", "b"])]
    [True, True, False, False]
    """
    numbers = whole_numbers(values)
    if numbers is None:
        return False
    first = np.arange(len(numbers))
    return any(np.array_equal(numbers.to_numpy(), first + start) for start in (0, 1))


def is_unnamed_count(called: pl.Series) -> bool:
    """Return whether what an index calls rows is a count that nobody gave a name.

    >>> [is_unnamed_count(pl.Series(name, [0, 1])) for name in ("", "customer")]
    [True, False]
    """
    return not called.name and is_count(called)


def _counts_within(index: Any) -> bool:
    """Return whether one of the levels of an index is whole numbers without a name."""
    return any(
        name is None and _are_whole(level)
        for name, level in zip(index.names, getattr(index, "levels", ()), strict=False)
    )


def _are_whole(level: Any) -> bool:
    values = _from_values([*map(_called_row, level)], "the index")
    return whole_numbers(values) is not None


def _name_of(index: Any) -> str:
    """Return the name of an index, or those of its levels, empty where there is none."""
    if hasattr(index, "levels"):
        return str(tuple(index.names)) if any(each is not None for each in index.names) else ""
    return "" if index.name is None else str(index.name)


def _series_of(index: Any, values: NDArray[Any], name: str) -> pl.Series:
    whole = values.dtype.kind in "iu"
    if not whole or (values.dtype == np.uint64 and (values > np.iinfo(np.int64).max).any()):
        absent = absent_in(index)
        if absent.any():
            raise DataError(
                f"the index has no value in row {int(np.argmax(absent))}, so it does not say whose "
                "that is; give it one, or reset the index"
            )
        return _called(name, _from_values([_called_row(value) for value in values], "the index"))
    return _called(name, pl.Series(values.astype(np.int64)))


def _lacks(levels: tuple[Any, ...]) -> bool:
    """Return whether one of the levels says nothing of a row."""
    return any(map(_is_missing, levels))


def _called_row(value: Any) -> str:
    """Return the text of what an index says of a row, of numpy's numbers as of Python's."""
    text = str(tuple(map(_plain, value)) if isinstance(value, tuple) else value)
    if isinstance(value, np.datetime64) and "." in text:  # in whatever unit
        return text.rstrip("0").rstrip(".")
    return text


def _arrays(data: Any) -> dict[str, Any]:
    """Return the columns of a table that is not of polars, by name."""
    if hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas
        names = [str(name) for name in data.columns]
        check_named_once("the table", names)
        return {name: data.iloc[:, place] for place, name in enumerate(names)}
    if isinstance(data, Mapping):
        names = [str(name) for name in data]
        check_named_once("the table", names)
        return dict(zip(names, data.values(), strict=True))
    if isinstance(data, Tensor):
        data = as_array(data, "the matrix")
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise DataError(f"a matrix must have the shape [N, columns], not {list(data.shape)}")
        return {str(place): data[:, place] for place in range(data.shape[1])}
    raise DataError(
        f"a table must be a frame of polars or pandas, a mapping from names to arrays, or a "
        f"matrix, not a {type(data).__name__}; a file or database is read by read_table"
    )


def _from_values(values: list[Any], what: str) -> pl.Series:
    """Return a series of Python values, all of one kind, or whole and other numbers."""
    values = [None if _is_missing(value) else _plain(value) for value in values]
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) > 1 and kinds != {int, float}:
        names = sorted({kind.__name__ for kind in kinds})
        told = " and ".join(
            names if len(names) <= _MOST_NAMED else [*names[:_MOST_NAMED], "others"]
        )
        raise DataError(f"{what} mixes values of the kinds {told}; make them alike")
    try:
        if kinds == {int, float} or any(issubclass(kind, Decimal) for kind in kinds):
            values = [*without_decimals(values)]
        series = pl.Series(values, dtype=kind_of(values), strict=True)
    except UnicodeEncodeError:  # whose message would show what is in the table
        raise DataError(f"{what} holds text with a lone surrogate, half a character") from None
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{what} holds values that no column can hold: {first_line(error)}"
        ) from error
    if series.dtype == pl.Object:
        raise DataError(
            f"{what} holds values of the kind {kinds.pop().__name__}; expected numbers, text, "
            "truth values or dates"
        )
    return series


def _is_missing(value: Any) -> bool:
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(value != value)


def _plain(value: Any) -> Any:
    """Return numpy's scalars as Python's; a time beyond Python's is left, for polars to take."""
    if not isinstance(value, np.generic):
        return value
    plain = value.item()
    if isinstance(value, np.datetime64 | np.timedelta64) and isinstance(plain, int):
        # Of nanoseconds, or of durations in months: Python has microseconds.
        plain = value.astype(f"{value.dtype.kind}8[us]").item()
        return value if isinstance(plain, int) else plain
    return plain
