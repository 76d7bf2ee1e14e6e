"""Whether rows of several tables are about the same people where no column of ids is named.

That row i means the same person everywhere is seen from an index that the tables share, or said by
the user; it is never taken for granted. Whole numbers without a name are no such index, since any
two tables have some in common, whoever their rows are about. A table and an array of labels go
together by position, as everywhere in Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import DataError
from colonnade.tables.columns import values_alone
from colonnade.tables.frames import is_count, whole_numbers
from colonnade.tables.id_form import IdForm
from colonnade.tables.kinds import is_category
from colonnade.tables.names import listed
from colonnade.tables.table import FrameTable, Table

__all__ = ["LABELS", "Together", "by_place", "likely_id", "rows_together"]

LABELS = "labels"  # what the table of labels is called beside the parties

_LARGELY = 0.5  # of the values of the smaller column that are in the other, of two columns of ids


@dataclass(frozen=True, eq=False)
class Together:
    """Which row of each table a person is, found without a column of ids.

    Parameters
    ----------
    ids
        What the shared index calls them; None without one.
    rows
        For each table, the row of each person, in the order of the first table.
    notes
        What should be known.
    """

    ids: pl.Series | None
    rows: dict[str, NDArray[np.int64]]
    notes: tuple[str, ...] = ()


def rows_together(
    tables: Mapping[str, Table], aligned: bool = False, new: bool = False
) -> Together:
    """Return the rows of each person, by the tables' index, or by position where that is right.

    Parameters
    ----------
    tables
        For each party its table; what is called "labels" may be a lone column.
    aligned
        Whether the user says that row i is the same person everywhere.
    new
        Whether these are new rows, for prediction, of tables that were trained on without ids.

    Raises
    ------
    DataError
        If nothing says that rows belong together, or what says so contradicts itself.

    Examples
    --------
    >>> bank, shop = (FrameTable(pl.DataFrame({"id": [7, 9], name: [1, 2]})) for name in "ab")
    >>> rows_together({"bank": bank, "shop": shop})
    Traceback (most recent call last):
    ...
    colonnade.errors.DataError: nothing says that row i of 'bank' and 'shop' is the same person; say id='id', a column of theirs that looks like one, or aligned=True if the rows are in one order already
    """  # noqa: E501 - a message is one line
    if aligned:
        return Together(None, _by_position(tables), tuple(_contradictions(tables)))
    indices = {
        name: index for name, table in tables.items() if (index := _index(table)) is not None
    }
    proven = [name for name in tables if name != LABELS or len(tables[name].schema) > 1]
    if len(proven) > 1 and not all(name in indices and _names(indices[name]) for name in proven):
        raise DataError(
            _apart(proven) + (_for_new() if new else _by(tables) + _unnamed(indices, proven))
        )
    first = next(iter(tables))
    if first not in indices or len(indices) == 1:
        return Together(indices.get(first), _by_position(tables))
    rows = {name: _rows(first, indices[first], name, index) for name, index in indices.items()}
    _check_likely(tables, rows)
    count = np.arange(len(indices[first]))
    for name in tables:
        if name not in indices:  # a lone column of labels, in the order that all tables have
            _by_position({first: tables[first], name: tables[name]})
            if not all(np.array_equal(each, count) for each in rows.values()):
                raise DataError(
                    f"the tables of {listed(rows)} have the same index in different orders, and "
                    f"{name!r} have none; give them as a pandas Series with that index"
                )
            rows[name] = count
    return Together(indices[first], rows)


def by_place(tables: Mapping[str, Table]) -> bool:
    """Return whether rows go by their place, and no index says who they are.

    An index that is a count in order is none (``index_of``), so whoever has the tables as they were
    given must see whether another one's is that count, too.

    >>> left, named = pl.Series([4, 2]), pl.Series("who", [4, 2])
    >>> shop = FrameTable(pl.DataFrame({"age": [41, 37]}))
    >>> [by_place({"bank": FrameTable(shop.frame, index), "shop": shop}) for index in (left, named)]
    [True, False]
    """
    first, *others = map(_index, tables.values())
    joined = first is not None and any(each is not None for each in others)
    return not joined and not any(each is not None and _names(each) for each in (first, *others))


def likely_id(tables: Mapping[str, Table]) -> str | None:
    """Return the name of a column that looks like the id of some tables, if there is one.

    It is called the same in two tables or more, holds whole numbers or text, no value twice in a
    table, and largely the same ones in those tables. A count of rows, 0, 1, 2, ... or 1, 2, 3, ...,
    in one of them looks like none: pandas writes one with a table.

    >>> bank = FrameTable(pl.DataFrame({"age": [41, 41], "customer": ["a", "b"]}))
    >>> shop = FrameTable(pl.DataFrame({"customer": ["b", "a"], "age": [3, 5]}))
    >>> likely_id({"bank": bank, "shop": shop})
    'customer'
    """
    return next(
        (
            column
            for column, values in _likely(tables).items()
            if not any(is_count(each) for each in values.values())
        ),
        None,
    )


def _likely(tables: Mapping[str, Table]) -> dict[str, dict[str, pl.Series]]:
    """Return the columns that look like ids, and their values in each table that has them."""
    found = {}
    for column, kinds_of in _columns_of(tables).items():
        owners = [name for name, dtype in kinds_of.items() if _may_be_id(dtype)]
        if len(owners) < 2:
            continue
        values = {name: tables[name].column(column) for name in owners}
        kinds = {each.dtype.is_integer() for each in values.values()}
        if len(kinds) > 1 or any(each.null_count() for each in values.values()):
            continue
        if all(map(is_count, values.values())):  # as pandas writes beside a table
            continue
        if all(each.n_unique() == len(each) > 1 for each in values.values()) and _much_alike(
            values
        ):
            found[column] = values
    return found


def _columns_of(tables: Mapping[str, Table]) -> dict[str, dict[str, pl.DataType]]:
    """Return for each column what it holds in each table that has it."""
    columns: dict[str, dict[str, pl.DataType]] = {}
    for name, table in tables.items():
        for column, dtype in table.schema.items():
            columns.setdefault(column, {})[name] = dtype
    return columns


def _may_be_id(dtype: pl.DataType) -> bool:
    return dtype.is_integer() or (is_category(dtype) and dtype != pl.Boolean)


def _much_alike(columns: Mapping[str, pl.Series]) -> bool:
    """Return whether any two of the columns have largely the same values."""
    plain = [
        values if values.dtype.is_integer() else values.cast(pl.String)
        for values in columns.values()
    ]
    return all(
        one.is_in(other.implode()).sum() >= _LARGELY * min(len(one), len(other))
        for one, other in itertools.combinations(plain, 2)
    )


def _apart(proven: list[str]) -> str:
    """Return that nothing says which rows belong together."""
    shown = " and ".join(map(repr, proven[:2])) + (" and others" if len(proven) > 2 else "")
    return f"nothing says that row i of {shown} is the same person; "


def _by(tables: Mapping[str, Table]) -> str:
    """Return what could say it."""
    column = likely_id(tables)
    by = (
        f"say id={column!r}, a column of theirs that looks like one"
        if column
        else "name the column of ids by id=..."
    )
    return f"{by}, or aligned=True if the rows are in one order already"


def _for_new() -> str:
    return (
        "give all tables of new rows an index of one name (rename_axis) that says who they are, or "
        "say aligned=True if they are in one order already (of an estimator by "
        "set_params(aligned=True))"
    )


def _unnamed(indices: Mapping[str, pl.Series], proven: list[str]) -> str:
    """Return how an index says who rows are, where each table has one and some lack but a name."""
    if not all(name in indices for name in proven):
        return ""
    counted = listed(name for name in proven if not _names(indices[name]))
    return (
        f"; the index of {counted} is whole numbers without a name, as what is left of a count of "
        "rows: if they are ids, name it alike in all tables (rename_axis)"
    )


def _names(index: pl.Series) -> bool:
    """Return whether an index says who rows are: whole numbers do so if it has a name."""
    return bool(index.name) or whole_numbers(index) is None


def _index(table: Table) -> pl.Series | None:
    return table.index if isinstance(table, FrameTable) else None


def _rows(first: str, wanted: pl.Series, name: str, index: pl.Series) -> NDArray[np.int64]:
    """Return where a table has the rows that the first table's index names."""
    for owner, values in ((first, values_alone(wanted)), (name, values_alone(index))):
        if values.n_unique() != len(values):
            twice = values.filter(values.is_duplicated())[0]
            raise DataError(
                f"the index of {owner!r} names {twice!r} twice, so it cannot say which rows belong "
                "together; name a column of ids by id=..., or say aligned=True if the rows are in "
                "one order already"
            )
    if wanted.name and index.name and wanted.name != index.name:
        raise DataError(
            f"the index of {first!r} is called {wanted.name} and that of {name!r} {index.name}, so "
            "nothing says that their rows belong together; give both one name (rename_axis, and "
            "reorder_levels where they have several) if they mean the same, or name a column of "
            "ids by id=..."
        )
    if wanted.dtype != index.dtype or set(wanted) != set(index):
        lacking = sorted(set(map(str, wanted)) ^ set(map(str, index)))
        raise DataError(
            f"{first!r} and {name!r} have different indices, of which {lacking[0]!r} is in one "
            f"only; {_by_index(wanted, index)}, or keep the rows whose index is in all of them"
            if lacking
            else f"the indices of {first!r} and {name!r} are numbers here and text there; give "
            "both the same type"
        )
    named = wanted.name and index.name
    if not named and whole_numbers(wanted) is not None and not wanted.equals(index):
        raise DataError(
            f"the indices of {first!r} and {name!r} are numbers of rows in different orders, as "
            "any two tables have when they were shuffled; name a column of ids by id=..., or say "
            "aligned=True if the rows are in one order already"
        )
    rows = np.empty(len(wanted), dtype=np.int64)
    order, its = (values_alone(each).arg_sort().to_numpy() for each in (wanted, index))
    rows[order] = its
    return rows


def _by_index(one: pl.Series, other: pl.Series) -> str:
    if one.name and one.name == other.name:
        return f"say id={one.name!r}, by which people whom all tables know are found"
    return "name a column of ids by id=..."


def _check_likely(tables: Mapping[str, Table], rows: Mapping[str, NDArray[np.int64]]) -> None:
    """Refuse an index that joins rows whose ids, in a column that looks like some, differ."""
    for column, values in _likely(tables).items():
        first, *others = (each[rows[name]] for name, each in values.items() if name in rows)
        if any(not _equal(first, other) for other in others):
            raise DataError(
                f"the tables have an index in common, and by it rows belong together whose "
                f"{column!r} differs; say id={column!r}, or aligned=True if the rows are in one "
                "order already"
            )


def _contradictions(tables: Mapping[str, Table]) -> Iterator[str]:
    """Yield what seems to be ids in tables that are aligned, and differs."""
    for column, values in (_likely(tables) | _texts_apart(tables)).items():
        first, *others = values.values()
        if any(not _equal(first, other) for other in others):
            yield (
                f"{listed(values)} have the column {column!r}, which looks like an id, with other "
                f"values in the same rows, though they are said to be aligned; say id={column!r} "
                "in place of aligned if it is one"
            )
    indices = {
        name: index
        for name, table in tables.items()
        if (index := _index(table)) is not None and (index.name or index.dtype == pl.String)
    }
    for (one, index), (other, its) in itertools.combinations(indices.items(), 2):
        if index.name != its.name or index.dtype != its.dtype or _equal(index, its):
            continue
        row = int(values_alone(index).ne_missing(its).arg_true()[0])
        instead = f"say id={index.name!r} in place of aligned" if index.name else "drop aligned"
        yield (
            f"the index of {one!r} and {other!r} differs in row {row}, though they are said to be "
            f"aligned; {instead}, by which rows are found by the index, or take it away "
            "(reset_index(drop=True)) if it says nothing"
        )
        return


def _texts_apart(tables: Mapping[str, Table]) -> dict[str, dict[str, pl.Series]]:
    """Return columns of text that several tables have and no value of which occurs twice in one."""
    found: dict[str, dict[str, pl.Series]] = {}
    for column, kinds_of in _columns_of(tables).items():
        for name, dtype in kinds_of.items():
            if dtype == pl.String and len(kinds_of) > 1:
                values = IdForm().apply(tables[name].column(column))
                if not values.null_count() and values.n_unique() == len(values) > 1:
                    found.setdefault(column, {})[name] = values
    return {column: values for column, values in found.items() if len(values) > 1}


def _equal(one: pl.Series, other: pl.Series) -> bool:
    if len(one) != len(other):
        return False
    if not one.dtype.is_integer():
        one, other = one.cast(pl.String), other.cast(pl.String)
    return bool((one == other).all())


def _by_position(tables: Mapping[str, Table]) -> dict[str, NDArray[np.int64]]:
    """Return all rows of each table, all of which have the same number of them."""
    first, *others = tables
    for name in others:
        if tables[name].height != tables[first].height:
            raise DataError(
                f"{first!r} has {tables[first].height} rows and {name!r} has "
                f"{tables[name].height}; without ids row i must be the same person everywhere, "
                "so align the tables, or name their id column"
            )
    if tables[first].height == 0:
        raise DataError("the tables have no rows")
    return {name: np.arange(tables[first].height) for name in tables}
