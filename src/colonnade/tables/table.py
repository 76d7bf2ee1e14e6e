"""A table as its readers see it: one column at a time, or a batch of rows at a time.

Fitting a transformer needs one column with all its rows, transforming needs some rows with all
their columns, and neither needs the whole. So neither asks for it: a table may lie on disk
(``StoredTable``), or be a selection of rows of another, in another order (``SelectedRows``), and
no copy of it comes into being.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import InvalidInput
from colonnade.tables.columns import only, values_of
from colonnade.tables.frames import as_column, as_frame, as_series, index_of
from colonnade.tables.names import check_present

__all__ = [
    "Batch",
    "FrameTable",
    "SelectedRows",
    "Table",
    "as_table",
    "identified",
    "keyed",
    "keyed_tables",
    "label_table",
    "whole",
]


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a table.

    Parameters
    ----------
    frame
        Their columns.
    places
        Which rows of the table they are, shape ``[len(frame)]``.
    """

    frame: pl.DataFrame
    places: NDArray[np.int64]


@runtime_checkable
class Table(Protocol):
    """Columns by name, all with the same number of rows."""

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and what they hold, in order."""
        ...

    @property
    def height(self) -> int:
        """The number of rows."""
        ...

    def column(self, name: str) -> pl.Series:
        """Return the values of a column, all rows, without its name."""
        ...

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Batch]:
        """Yield all rows, about ``size`` at a time, in whatever order is quickest."""
        ...

    def number(self, row: int) -> int:
        """Return the row number to show for a row: the one in the owner's own table."""
        ...


@dataclass(frozen=True, eq=False)
class FrameTable:
    """A frame in memory.

    Parameters
    ----------
    frame
        The frame.
    index
        What its rows are called, where pandas knows more than a count.

    Examples
    --------
    >>> table = FrameTable(pl.DataFrame({"age": [41, 37, 59]}))
    >>> table.column("age").to_list(), [len(b.places) for b in table.batches(["age"], 2)]
    ([41, 37, 59], [2, 1])
    """

    frame: pl.DataFrame
    index: pl.Series | None = None

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and what they hold, in order."""
        return dict(self.frame.schema)

    @property
    def height(self) -> int:
        """The number of rows."""
        return self.frame.height

    def column(self, name: str) -> pl.Series:
        """Return the values of a column, without its name; nothing is copied."""
        return values_of(self.frame, name)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Batch]:
        """Yield slices of the frame; nothing is copied."""
        chosen = only(self.frame, columns)
        for first in range(0, chosen.height, size):
            part = chosen[first : first + size]
            yield Batch(part, np.arange(first, first + part.height))

    def number(self, row: int) -> int:
        """Return the row itself."""
        return row


@dataclass(frozen=True, eq=False)
class SelectedRows:
    """Rows of another table, in an order of their own: row i is row ``rows[i]`` of the other.

    Parameters
    ----------
    table
        The other table.
    rows
        Rows of it, no row twice.
    columns
        The columns to keep; all by default.

    Examples
    --------
    >>> people = FrameTable(pl.DataFrame({"age": [41, 37, 59], "sex": ["f", "m", "f"]}))
    >>> chosen = SelectedRows(people, np.array([2, 0]), ("age",))
    >>> chosen.column("age").to_list(), list(chosen.schema), chosen.number(0)
    ([59, 41], ['age'], 2)
    """

    table: Table
    rows: NDArray[np.int64]
    columns: tuple[str, ...] | None = None

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and what they hold, in order."""
        schema = self.table.schema
        return schema if self.columns is None else {name: schema[name] for name in self.columns}

    @property
    def height(self) -> int:
        """The number of rows selected."""
        return len(self.rows)

    def column(self, name: str) -> pl.Series:
        """Return the selected rows of a column."""
        values = self.table.column(name)
        return values if self._is_everything else values[self.rows]

    def only(self, rows: NDArray[np.int64]) -> SelectedRows:
        """Return some of the selected rows, as rows of the other table: columns are read once."""
        return SelectedRows(self.table, self.rows[rows], self.columns)

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Batch]:
        """Yield the selected rows in the order of the other table, which reads them but once."""
        for batch in self.table.batches(columns, size):
            places = self._places[batch.places]
            kept = places >= 0
            if kept.all():
                yield Batch(batch.frame, places)
            elif kept.any():
                yield Batch(batch.frame.filter(pl.Series(kept)), places[kept])

    def number(self, row: int) -> int:
        """Return the row number in the other table."""
        return self.table.number(int(self.rows[row]))

    @cached_property
    def _is_everything(self) -> bool:
        return len(self.rows) == self.table.height and bool((self.rows[1:] > self.rows[:-1]).all())

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """For each row of the other table, which row it is here, or -1."""
        places = np.full(self.table.height, -1, dtype=np.int64)
        places[self.rows] = np.arange(len(self.rows))
        return places


def as_table(data: Any, columns: Sequence[str] | None = None, by_place: bool = False) -> Table:
    """Return what ``as_frame`` accepts, or a table already, as a table.

    With ``by_place`` what pandas calls the rows is left out.

    Raises
    ------
    DataError
        If it is none, a column is missing, or the index has no value in a row.
    """
    # Polars first: to ask a lazy frame for its schema, as isinstance would, is not for free.
    if not isinstance(data, pl.DataFrame | pl.LazyFrame) and isinstance(data, Table):
        if columns is None:
            return data
        check_present("the table", columns, list(data.schema))
        if isinstance(data, FrameTable):
            return FrameTable(only(data.frame, columns), data.index)
        return SelectedRows(data, np.arange(data.height), tuple(columns))
    return FrameTable(as_frame(data, columns), None if by_place else index_of(data))


def label_table(data: Any) -> Table:
    """Return a table of labels: categories of pandas are the numbers that they stand for."""
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return FrameTable(as_frame(data, column=as_series), index_of(data))
    return as_table(data)


def keyed(table: Table, id: str | None) -> Table:
    """Return a table with the column of ids, which may be the name of its index.

    >>> index = pl.Series("who", ["ann", "bob"])
    >>> keyed(FrameTable(pl.DataFrame({"age": [41, 37]}), index), "who").column("who").to_list()
    ['ann', 'bob']
    """
    if id is None or id in table.schema or not isinstance(table, FrameTable):
        return table
    if table.index is None or table.index.name != id:
        return table
    return FrameTable(table.frame.clone().insert_column(0, table.index), table.index)


def identified(data: Any, id: str | None) -> Table:
    """Return what ``as_frame`` accepts as a table with the column of ids; see ``keyed``.

    Ids that are categories of pandas are the numbers that they stand for, as labels are.
    """
    if id is None or not (hasattr(data, "iloc") and hasattr(data, "columns")):
        return keyed(as_table(data), id)

    def column(values: Any, name: str) -> pl.Series:
        whole = name == id and not values.isna().any()
        return (as_series if whole else as_column)(values, name)

    return keyed(FrameTable(as_frame(data, column=column), index_of(data)), id)


def keyed_tables(tables: Mapping[str, Any], id: str | None) -> dict[str, Table]:
    """Return everybody's table, each with the column of ids.

    Raises
    ------
    DataError
        If one of them is no table; its owner is named.

    Examples
    --------
    >>> keyed_tables({"shop": {"spent": [3, "four"]}}, None)
    Traceback (most recent call last):
    colonnade.errors.DataError: 'shop': column 'spent' mixes values of the kinds int and str; make \
them alike
    """
    made = {}
    for owner, data in tables.items():
        try:
            made[owner] = identified(data, id)
        except InvalidInput as error:
            raise type(error)(f"{owner!r}: {error}") from error
    return made


def whole(table: Table) -> pl.DataFrame:
    """Return the table as one frame in memory, for those who can read no other."""
    if isinstance(table, FrameTable):
        return table.frame
    return pl.DataFrame({name: table.column(name) for name in table.schema})
