"""Alignment: the people whom all tables know, in one order, so that row i is the same person.

Order is that of the ids, numbers by size and text by its bytes, so it depends on nobody's order of
rows. Ids are whole numbers or text, the same of the two everywhere; a person has one row in a
table. Ids that would be the same in one form, and are not as they are written, are told of; see
``IdForm``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import ConfigurationError, DataError
from colonnade.forked import check_not_forked
from colonnade.tables.columns import without
from colonnade.tables.id_form import IdForm
from colonnade.tables.names import check_present
from colonnade.tables.near_ids import most_digits, near_miss
from colonnade.tables.notes import tell
from colonnade.tables.numerals import WHOLE
from colonnade.tables.table import Table, keyed_tables, whole

__all__ = [
    "Aligned",
    "Alignment",
    "align",
    "align_ids",
    "checked_ids",
    "first_twice",
    "only",
    "plain_ids",
]


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which row of each table a person is.

    Parameters
    ----------
    ids
        The people whom all tables know, sorted.
    rows
        For each table, the row of each person: int64, shape ``[len(ids)]``.
    left_out
        For each table, how many of its rows some other table lacks.
    absent
        For each table, how many people of the first one it has no row of.
    notes
        What should be known: which tables have ids, more than 1 %, that differ from the first one's
        in writing only.
    """

    ids: pl.Series
    rows: dict[str, NDArray[np.int64]]
    left_out: dict[str, int]
    absent: dict[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Aligned:
    """Tables whose row i is the same person.

    Parameters
    ----------
    ids
        The people whom all tables know, sorted.
    frames
        The tables, rows in the order of ``ids``, without the id column.
    left_out
        For each table, how many of its rows some other table lacks.
    """

    ids: pl.Series
    frames: dict[str, pl.DataFrame]
    left_out: dict[str, int]


def align(frames: Mapping[str, Any], id: str, normalise: IdForm | None = None) -> Aligned:
    """Return the rows of the people whom all tables know, in the order of their ids.

    Parameters
    ----------
    frames
        A table for each organisation: what ``as_frame`` takes.
    id
        The column that says who a row is about.
    normalise
        The form in which ids are compared; by default they are as they are written.

    Raises
    ------
    DataError
        If an id is missing or occurs twice in a table, ids are not whole numbers or text, or not
        of one kind in all tables, or nobody is in all of them.

    Examples
    --------
    >>> aligned = align(
    ...     {
    ...         "bank": pl.DataFrame({"id": [3, 1, 2], "income": [30, 10, 20]}),
    ...         "shop": pl.DataFrame({"id": [1, 3, 9], "visits": [4, 5, 6]}),
    ...     },
    ...     id="id",
    ... )
    >>> aligned.ids.to_list(), aligned.frames["bank"]["income"].to_list(), aligned.left_out
    ([1, 3], [10, 30], {'bank': 1, 'shop': 1})
    """
    if not frames:
        raise ConfigurationError("there is no table to align")
    tables = keyed_tables(frames, id)
    found = align_ids({n: checked_ids(n, table, id, normalise) for n, table in tables.items()})
    tell(found.notes)
    return Aligned(
        ids=found.ids,
        frames={
            name: _in_order(without(whole(table), id), found.rows[name])
            for name, table in tables.items()
        },
        left_out=found.left_out,
    )


def align_ids(ids: Mapping[str, pl.Series]) -> Alignment:
    """Return which row of each table a person is, given every table's checked ids.

    Raises
    ------
    DataError
        If ids are not of one kind in all tables, or nobody is in all of them.

    Examples
    --------
    >>> found = align_ids({"bank": pl.Series([3, 1, 2]), "shop": pl.Series([1, 3, 9])})
    >>> found.rows["bank"], found.rows["shop"], found.absent
    (array([1, 0]), array([0, 1]), {'bank': 0, 'shop': 1})
    """
    _check_alike(ids)
    orders = {name: values.arg_sort() for name, values in ids.items()}
    everyone = {name: values.gather(orders[name]) for name, values in ids.items()}
    first = next(iter(everyone.values()))
    shared = pl.repeat(True, len(first), dtype=pl.Boolean, eager=True)
    absent, misses = {}, {}
    for name, other in everyone.items():
        if _equal(first, other):
            absent[name] = 0
            continue
        known = first.is_in(other.implode())
        absent[name] = len(first) - int(known.sum())
        shared &= known
        if absent[name] and (miss := near_miss(first, other)):
            misses[name] = miss
    common = first if shared.all() else first.filter(shared)
    notes = tuple(miss.sentence(next(iter(ids)), name) for name, miss in misses.items())
    if common.is_empty():
        examples = ", ".join(f"{name!r} has {_example(values)}" for name, values in ids.items())
        advice = notes[0] if notes else _points(ids) or "check what the ids mean"
        raise DataError(f"no id occurs in all tables ({examples}); {advice}")
    rows = {}
    for name, values in everyone.items():
        kept = orders[name]
        if len(values) != len(common):
            kept = kept.filter(values.is_in(common.implode()))
        rows[name] = kept.to_numpy().astype(np.int64)
    left_out = {name: len(ids[name]) - len(common) for name in ids}
    return Alignment(common, rows, left_out, absent, notes)


def only(found: Alignment, people: pl.Series) -> Alignment:
    """Return an alignment of some of its people alone, in its order.

    Raises
    ------
    DataError
        If somebody is not in it, or ids are of another kind.

    Examples
    --------
    >>> found = align_ids({"bank": pl.Series([3, 1, 2]), "shop": pl.Series([1, 3, 9])})
    >>> some = only(found, pl.Series([3]))
    >>> some.ids.to_list(), some.rows["bank"], some.left_out
    ([3], array([0]), {'bank': 2, 'shop': 2})
    """
    if people.dtype != found.ids.dtype:
        raise DataError(
            f"the ids of the tables are {_kind(found.ids)}, and those that were aligned "
            f"{_kind(people)}; align again"
        )
    kept = found.ids.is_in(people.implode())
    if kept.sum() != len(people):
        raise DataError(
            f"{len(people) - int(kept.sum())} of the {len(people)} people that were aligned are "
            "not in all tables any more; align again"
        )
    chosen = kept.to_numpy()
    return Alignment(
        found.ids.filter(kept),
        {name: rows[chosen] for name, rows in found.rows.items()},
        {name: n + len(found.ids) - len(people) for name, n in found.left_out.items()},
        found.absent,
        found.notes,
    )


def checked_ids(name: str, table: Table, id: str, normalise: IdForm | None = None) -> pl.Series:
    """Return the ids of a table, as int64 or text, every row's given and given once.

    With ``normalise`` they are in that form, as text.

    Raises
    ------
    DataError
        If the column is missing or of another kind, or an id is missing or occurs twice.

    Examples
    --------
    >>> from colonnade.tables.table import as_table
    >>> checked_ids("bank", as_table({"id": [7, 8, 7]}), "id")
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: 'bank' has the id 7 in row 0 and again in row 2; a person may have one row in a table
    """  # noqa: E501 - a message is one line
    ids = plain_ids(name, table, id, normalise)
    if (twice := first_twice(ids)) is not None:
        first, again = twice
        raise DataError(
            f"{name!r} has the id {ids[again]!r} in row {table.number(first)} and again in row "
            f"{table.number(again)}; a person may have one row in a table"
        )
    return ids


def plain_ids(name: str, table: Table, id: str, normalise: IdForm | None = None) -> pl.Series:
    """Return the ids of a table, as int64 or text, every row's given, and maybe given twice.

    With ``normalise`` they are in that form, as text. No id is in what it raises.

    Raises
    ------
    DataError
        If the column is missing or of another kind, or an id is missing.
    """
    check_not_forked()
    check_present(f"the table of {name!r}", [id], list(table.schema))
    values = table.column(id)
    if values.is_empty():
        raise DataError(f"the table of {name!r} has no rows")
    ids = _plain(name, id, values)
    if normalise is not None:
        ids = normalise.apply(ids)
    missing = ids.is_null()
    if ids.dtype == pl.String:
        missing |= ids.str.len_bytes() == 0
        missing = missing.fill_null(True)
    if missing.any():
        row = int(missing.arg_true()[0])
        raise DataError(
            f"{name!r} has no id in row {table.number(row)} (column {id!r}); "
            "give every row an id, or drop the row"
        )
    return ids


def first_twice(ids: pl.Series) -> tuple[int, int] | None:
    """Return the first row whose id an earlier one has, after that one; None if there is none.

    >>> first_twice(pl.Series([7, 8, 9, 8]))
    (1, 3)
    """
    if ids.n_unique() == len(ids):
        return None
    again = int(ids.is_first_distinct().not_().arg_true()[0])
    return int((ids == ids[again]).arg_true()[0]), again


def _plain(name: str, id: str, values: pl.Series) -> pl.Series:
    """Return ids as int64 or text."""
    if values.dtype.is_float() and _lack_some(values.fill_nan(None)):
        return values.fill_nan(None).cast(pl.Int64)
    if values.dtype.is_integer():
        try:
            return values.cast(pl.Int64)
        except pl.exceptions.InvalidOperationError as error:
            raise DataError(
                f"{name!r} has ids beyond 64 bits in column {id!r}; give them as text"
            ) from error
    if values.dtype == pl.String or isinstance(values.dtype, pl.Categorical | pl.Enum):
        return values.cast(pl.String)
    advice = "cast the column to whole numbers or text first"
    if values.dtype == pl.Null:
        advice = "fill it in"
    raise DataError(
        f"column {id!r} of {name!r} holds {values.dtype}, and ids must be whole numbers or text; "
        f"{advice}"
    )


def _lack_some(values: pl.Series) -> bool:
    """Return whether floats are but whole numbers of which some are missing, as pandas has them."""
    known = values.drop_nulls()
    whole = known.is_finite() & (known == known.floor()) & (known.abs() < 2.0**53)
    return 0 < len(known) < len(values) and bool(whole.all())


def _check_alike(ids: Mapping[str, pl.Series]) -> None:
    first, *others = ids
    for name in others:
        if ids[name].dtype != ids[first].dtype:
            raise DataError(
                f"the ids of {first!r} are {_kind(ids[first])} ({_reason(ids[first])}), those of "
                f"{name!r} are {_kind(ids[name])} ({_reason(ids[name])}); "
                + (_points(ids) or _as_text(ids))
            )


def _as_text(ids: Mapping[str, pl.Series]) -> str:
    """Return how numbers and text become alike, zeros in front and all."""
    text = pl.concat([each.rename("") for each in ids.values() if each.dtype == pl.String])
    if not text.str.strip_chars().str.contains("^0[0-9]{1,63}$").any():
        return (
            "give both the same type, or say normalise=IdForm() (YAML: ids: {}), by which numbers "
            "are text"
        )
    pad = most_digits(text)
    return (
        f"say normalise=IdForm(pad={pad}) (YAML: ids: {{pad: {pad}}}), by which numbers are text "
        f"of {pad} digits with zeros in front, or give both the same type"
    )


def _points(ids: Mapping[str, pl.Series]) -> str | None:
    """Return what to do where whole numbers have become text with a point; None where not."""
    for name, values in ids.items():
        if values.dtype == pl.String and values.str.contains(r"^[0-9]+\.0$").all():
            return (
                f"the ids of {name!r} have '.0' behind them, as whole numbers have that were "
                "floats; make whole numbers of them first (in pandas: "
                ".astype(float).astype('Int64'))"
            )
    return None


def _kind(ids: pl.Series) -> str:
    return "text" if ids.dtype == pl.String else "whole numbers"


def _example(ids: pl.Series) -> str:
    return f"{ids[0]!r}"


def _reason(ids: pl.Series) -> str:
    """Return an id that says of which kind all are: the text among others that are numbers."""
    if ids.dtype == pl.String:
        words = ids.str.contains(WHOLE).not_()
        if 0 < words.sum() < len(ids):
            row = int(words.arg_true()[0])
            return f"{ids[row]!r} in row {row}"
    return _example(ids)


def _equal(one: pl.Series, other: pl.Series) -> bool:
    return len(one) == len(other) and bool((one == other).all())


def _in_order(frame: pl.DataFrame, rows: NDArray[np.int64]) -> pl.DataFrame:
    if len(rows) == frame.height and bool((rows[1:] > rows[:-1]).all()):
        return frame  # already in order: no copy
    return frame[rows]
