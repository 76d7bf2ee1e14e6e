"""Labels that come apart from the tables, in the order of the rows that they are true of.

Whose a label is, is told by an id, or else by its place. A place is believed only where nothing
contradicts it: no index of pandas, no table in another order, no other number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from colonnade.errors import DataError
from colonnade.tables.align import checked_ids
from colonnade.tables.columns import values_alone, values_of
from colonnade.tables.frames import as_frame, as_series, index_of
from colonnade.tables.id_form import IdForm
from colonnade.tables.names import check_present, listed
from colonnade.tables.notes import tell
from colonnade.tables.table import FrameTable, Table, as_table, label_table, whole
from colonnade.tables.together import LABELS, by_place, rows_together

__all__ = ["check_index", "has_ids", "truth", "with_ids"]


def with_ids(labels: Any, id: str | None) -> Any:
    """Return labels of pandas whose index is the ids as a table; others as they are.

    >>> import pandas as pd
    >>> with_ids(pd.Series([1, 0], pd.Index(["ann", "bob"], name="who"), name="buys"), "who").rows()
    [('ann', 1), ('bob', 0)]
    """
    if id is None or not _is_pandas(labels) or labels.index.name != id:
        return labels
    ids = as_series(labels.index, id)
    if not hasattr(labels, "columns"):
        named = labels.name if labels.name not in (None, id) else "label"
        return pl.DataFrame([ids, as_series(labels, str(named)).alias(str(named))])
    return (
        labels if id in labels.columns else as_frame(labels, column=as_series).insert_column(0, ids)
    )


def has_ids(labels: Any, id: str | None) -> bool:
    """Return whether labels of pandas come with ids, so that their order says nothing."""
    if id is None or not _is_pandas(labels):
        return False
    return labels.index.name == id or id in getattr(labels, "columns", ())


def check_index(labels: Any, tables: Mapping[str, Any]) -> None:
    """Refuse labels of pandas whose index is in another order than that of tables of pandas.

    Parameters
    ----------
    labels
        As the user gave them.
    tables
        Each party's table, as the user gave it.

    Raises
    ------
    DataError
        If there are tables of pandas with as many rows, and none has the index of the labels.
    """
    if not _is_pandas(labels):
        return
    own = labels.index
    others = {
        name: table.index
        for name, table in tables.items()
        if _is_pandas(table) and len(table) == len(own)
    }
    if others and not any(own.equals(index) for index in others.values()):
        name, index = next(iter(others.items()))
        row = next(row for row in range(len(own)) if own[row] != index[row])
        raise DataError(
            f"the label in row {row} has the index {str(own[row])!r}, but that row of {name!r} has "
            f"{str(index[row])!r}; order the labels as the table (y.loc[X.index]), or give "
            "y.to_numpy() where row i is the same person already"
        )


def truth(
    labels: Any,
    tables: Mapping[str, Any],
    id: str | None,
    ids: pl.Series | None,
    aligned: bool = False,
    normalise: IdForm | None = None,
) -> pl.Series:
    """Return the label of each row that was predicted.

    Parameters
    ----------
    labels
        A table of ids and labels; or a label for each row of the tables.
    tables
        The tables that were predicted from.
    id
        The column of ids; None where an index or the user says which rows belong together.
    ids
        Whom the rows are about.
    aligned
        Whether the user says that row i is the same person everywhere.
    normalise
        The form in which ids are compared.

    Raises
    ------
    DataError
        If a row has no label or several, a label is missing, or labels without ids may be in
        another order.

    Warns
    -----
    DataWarning
        If labels that are said to be aligned have an index in another order than the tables.

    Examples
    --------
    >>> bank = pl.DataFrame({"who": ["bob", "ann"], "income": [20, 30]})
    >>> answers = {"who": ["ann", "bob", "eve"], "buys": ["yes", "no", "no"]}
    >>> truth(answers, {"bank": bank}, "who", bank["who"]).to_list()
    ['no', 'yes']
    """
    if id is None or ids is None:
        given = {name: as_table(table) for name, table in tables.items()}
        only = _of_each(_only(labels, None), next(iter(given.values())).height)
        lone = FrameTable(pl.DataFrame([only.alias(LABELS)]), index_of(labels))
        if isinstance(labels, FrameTable):
            lone = FrameTable(lone.frame, labels.index)
        everyone = {**given, LABELS: lone}
        if not aligned and by_place(everyone):
            check_index(labels, tables)
        found = rows_together(everyone, aligned)
        told = rows_together(given, aligned).notes if found.notes else ()
        tell(note for note in found.notes if note not in told)
        return _given(only.gather(found.rows[LABELS]))
    if not _is_table(labels):
        for name, table in tables.items():
            if not ids.equals(checked_ids(name, as_table(table), id, normalise)):
                raise DataError(
                    "these labels have no ids, and the tables are not all of the same people in "
                    f"the same order ({name!r} differs); give a table with the column {id!r} and "
                    "the labels"
                )
        return _given(_of_each(_only(labels, id), len(ids)))
    frame = whole(label_table(labels))
    check_present("the table of labels", [id], frame.columns)
    known = checked_ids("labels", as_table(frame), id, normalise)
    if known.dtype != ids.dtype:
        raise DataError(
            f"the ids of the labels are like {known[0]!r}, those of the tables like {ids[0]!r}; "
            "give both the same type"
        )
    own = pl.DataFrame({"id": known, "row": pl.int_range(len(known), eager=True)})
    rows_of = pl.DataFrame({"id": ids}).join(own, on="id", how="left", maintain_order="left")["row"]
    if rows_of.has_nulls():
        raise DataError(
            f"there is no label for the id {ids[int(rows_of.is_null().arg_true()[0])]!r} "
            f"({rows_of.null_count()} of {len(ids)} rows have none); add it, or drop the person"
        )
    return _given(_only(frame, id).gather(rows_of))


def _is_pandas(data: Any) -> bool:
    return hasattr(data, "iloc") and hasattr(data, "index")


def _is_table(labels: Any) -> bool:
    return isinstance(labels, pl.LazyFrame | Mapping | Table) or hasattr(labels, "columns")


def _only(labels: Any, id: str | None) -> pl.Series:
    """Return the one column of labels."""
    if not _is_table(labels):
        return values_alone(as_series(labels))
    frame = whole(label_table(labels))
    names = [name for name in frame.columns if name != id]
    if len(names) != 1:
        raise DataError(
            f"the table of labels must have one column{' beside the id' if id else ''}, not "
            f"{len(names)} ({listed(names)}); keep the one that is predicted"
        )
    return values_of(frame, names[0])


def _of_each(labels: pl.Series, rows: int) -> pl.Series:
    if len(labels) != rows:
        raise DataError(f"there are {len(labels)} labels for {rows} rows; give each row its own")
    return labels


def _given(labels: pl.Series) -> pl.Series:
    if labels.has_nulls():
        raise DataError(
            f"the label of row {labels.is_null().arg_true()[0]} is missing; leave the row out, or "
            "find its label"
        )
    return labels
