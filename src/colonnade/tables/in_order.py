"""Whether tables whose rows are joined by place contradict it, by their ids or pandas' indices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import polars as pl

from colonnade.errors import DataError
from colonnade.tables.align import plain_ids
from colonnade.tables.frames import (
    absent_in,
    called_rows,
    counts_by_kind,
    is_unnamed_count,
    whole_numbers,
)
from colonnade.tables.id_form import IdForm
from colonnade.tables.table import Table

__all__ = ["check_ids_in_order", "check_indices_in_order", "counts_apart"]


def check_ids_in_order(
    tables: Mapping[str, Table], id: str, normalise: IdForm | None = None
) -> bool:
    """Refuse tables of which a row is about another person than that row of another table.

    Tables of different lengths are not compared. Whether all tables have ids is returned.

    Parameters
    ----------
    tables
        For each organisation its table, with or without the column of ids.
    id
        The column of ids.
    normalise
        The form in which ids are compared.

    Raises
    ------
    DataError
        If ids differ in a row, are missing, or are neither whole numbers nor text.

    Examples
    --------
    >>> from colonnade.tables.table import as_table
    >>> bank, shop = as_table({"id": [7, 8, 9]}), as_table({"id": [7, 9, 8]})
    >>> check_ids_in_order({"bank": bank, "shop": shop}, "id")
    Traceback (most recent call last):
    colonnade.errors.DataError: row 1 of 'bank' has the id 8, but that row of 'shop' has 9, and a run predicts row i of all tables as one person; bring the tables in one order, or predict by the estimator or by `colonnade predict`, which find rows by 'id'
    """  # noqa: E501 - a message is one line
    owners = {name: table for name, table in tables.items() if id in table.schema}
    if len(owners) > 1:
        ids = {name: plain_ids(name, table, id, normalise) for name, table in owners.items()}
        for (one, own), (other, its) in itertools.combinations(ids.items(), 2):
            _check_alike(one, own, other, its, id)
    return len(owners) == len(tables)


def check_indices_in_order(tables: Mapping[str, Any]) -> None:
    """Refuse tables of pandas whose indices say that a row is not the same person everywhere.

    Indices of two names, or of more and fewer levels, say nothing of each other, and neither do two
    counts of rows, from 0 or 1, or such a count and an index of other values. One in which a value
    is missing says nothing. Tables of different lengths are not compared. Whole numbers and their
    text are the same, and so is one time in two zones.

    Parameters
    ----------
    tables
        For each organisation its table, as the user gave it.

    Raises
    ------
    DataError
        If indices differ in a row, or hold what no column can.

    Examples
    --------
    >>> import pandas as pd
    >>> bank, shop = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [3, 4]})
    >>> check_indices_in_order({"bank": bank, "shop": shop})
    >>> check_indices_in_order({"bank": bank, "shop": shop[::-1]})
    Traceback (most recent call last):
    colonnade.errors.DataError: row 0 of 'bank' has the index '0', but that row of 'shop' has '1', and a run predicts row i of all tables as one person; bring the tables in one order (tables['shop'].loc[tables['bank'].index]), predict by the estimator, or take the indices away (reset_index(drop=True)) if row i is the same person already
    """  # noqa: E501 - a message is one line
    frames = {name: each for name, each in tables.items() if hasattr(each, "iloc")}
    for (one, frame), (other, its) in itertools.combinations(frames.items(), 2):
        row = _row_apart(frame, its)
        if row is not None:
            by = f" (tables[{other!r}].loc[tables[{one!r}].index])"
            raise DataError(
                f"{_told_apart(row, one, frame, other, its)}, and a run predicts row i of all "
                "tables as one person; bring the tables in one order"
                f"{by if _same_rows(frame, its) else ''}, predict by the estimator, or take the "
                "indices away (reset_index(drop=True)) if row i is the same person already"
            )


def counts_apart(tables: Mapping[str, Any]) -> str | None:
    """Return where indices of pandas are the same whole numbers in two orders, None if nowhere.

    They are without a name: one that has a name is compared where rows are joined by it.

    Parameters
    ----------
    tables
        By name a table or labels, as the user gave them.

    Examples
    --------
    >>> import pandas as pd
    >>> bank, shop = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [3, 4]})
    >>> counts_apart({"bank": bank, "shop": shop[::-1]})
    "row 0 of 'bank' has the index '0', but that row of 'shop' has '1'"
    """
    counted = {name: each for name, each in tables.items() if _is_counted(each)}
    for (one, own), (other, its) in itertools.combinations(counted.items(), 2):
        row = _row_apart(own, its)
        if row is not None and set(own.index) == set(its.index):
            return _told_apart(row, one, own, other, its)
    return None


def _is_counted(table: Any) -> bool:
    if not hasattr(table, "iloc"):
        return False
    return not any(table.index.names) and getattr(table.index.dtype, "kind", "") in "iu"


def _told_apart(row: int, one: str, own: Any, other: str, its: Any) -> str:
    return (
        f"row {row} of {one!r} has the index {str(own.index[row])!r}, but that row of {other!r} "
        f"has {str(its.index[row])!r}"
    )


def _check_alike(one: str, own: pl.Series, other: str, its: pl.Series, id: str) -> None:
    if len(own) != len(its):
        return
    apart = (own != its) if own.dtype == its.dtype else own.cast(pl.String) != its.cast(pl.String)
    if apart.any():
        row = int(apart.arg_true()[0])
        raise DataError(
            f"row {row} of {one!r} has the id {own[row]!r}, but that row of {other!r} has "
            f"{its[row]!r}, and a run predicts row i of all tables as one person; bring the tables "
            "in one order, or predict by the estimator or by `colonnade predict`, which find rows "
            f"by {id!r}"
        )


def _row_apart(one: Any, other: Any) -> int | None:
    """Return the first row that the indices of two frames say is not the same; None without one."""
    own, its = one.index, other.index
    named_apart = any(own.names) and any(its.names) and own.names != its.names
    if len(own) != len(its) or own.nlevels != its.nlevels or named_apart or own.equals(its):
        return None
    if absent_in(own).any() or absent_in(its).any():
        return None
    called = called_rows(own), called_rows(its)
    counted = [is_unnamed_count(each) for each in called]
    if all(counted):
        return None
    left, right = _comparable(*called)
    counts = [counts_by_kind(own) or counted[0], counts_by_kind(its) or counted[1]]
    if counts[0] != counts[1] and set(left) != set(right):
        return None
    apart = (left != right).arg_true()
    return int(apart[0]) if len(apart) else None


def _comparable(own: pl.Series, its: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return two indices as whole numbers where both are such, else as text."""
    numbers = whole_numbers(own), whole_numbers(its)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0], numbers[1]
    return own.cast(pl.String), its.cast(pl.String)


def _same_rows(one: Any, other: Any) -> bool:
    """Return whether each row of a frame is one of another by its index, and the reverse."""
    own, its = one.index, other.index
    return bool(own.is_unique and its.is_unique) and set(own) == set(its)
