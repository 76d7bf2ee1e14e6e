"""An organisation's own ids, as it brings them to an alignment in which nobody shows any.

They are checked as those of an open alignment are (``align.py``). What is wrong with them is told
by the organisation and the row, and without the id: others of the alignment may hear of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import DataError
from colonnade.tables.align import first_twice, plain_ids
from colonnade.tables.id_form import IdForm
from colonnade.tables.notes import tell
from colonnade.tables.table import keyed_tables

__all__ = ["OwnIds"]


class OwnIds:
    """The ids of one organisation: of its table, or those that all of its tables have.

    Parameters
    ----------
    name
        The organisation.
    tables
        Its tables by their names; each is what ``as_table`` takes.
    id
        The column of ids.
    normalise
        The form in which they are compared; by default they are as they are written.

    Raises
    ------
    DataError
        If an id is missing or occurs twice, ids are not whole numbers or text, or not of one kind
        in all of its tables, or no id is in all of them.

    Examples
    --------
    >>> own = OwnIds("bank", {"bank": {"id": [7, 3, 5]}, "labels": {"id": [3, 7]}}, "id")
    >>> own.kind, own.texts(np.arange(2)), own.rows, own.in_order(np.arange(2))
    ('whole numbers', ['7', '3'], {'bank': 3, 'labels': 2}, array([1, 0]))
    """

    def __init__(
        self, name: str, tables: Mapping[str, Any], id: str, normalise: IdForm | None = None
    ) -> None:
        of_tables = {
            table: _ids(_told(name, table, len(tables)), data, id, normalise)
            for table, data in tables.items()
        }
        self.name = name
        self.rows = {table: len(ids) for table, ids in of_tables.items()}
        first, *others = of_tables.values()
        for other in others:
            if other.dtype != first.dtype:
                raise DataError(
                    f"the ids of {name!r} are whole numbers in one of its tables and text in "
                    "another; give both the same type"
                )
            first = first.filter(first.is_in(other.implode()))
        if first.is_empty():
            raise DataError(f"no id occurs in all tables of {name!r}; check what the ids mean")
        self.values = first
        # Whoever plays a role may be a fork of this process, in which polars' threads are not.
        self._rank = np.empty(len(first), dtype=np.int64)
        self._rank[first.arg_sort().to_numpy()] = np.arange(len(first))
        self._texts = _Texts(first.cast(pl.String))
        if normalise is not None and normalise.pad is None:
            tell(_of_several_lengths(name, first))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kind(self) -> str:
        """What ids are: ``whole numbers`` or ``text``."""
        return "text" if self.values.dtype == pl.String else "whole numbers"

    def texts(self, places: NDArray[np.int64]) -> list[str]:
        """Return the ids at these places, written out: whole numbers by their digits."""
        return self._texts.at(places)

    def in_order(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return these places in the order of their ids: by size, or text by its bytes."""
        ordered: NDArray[np.int64] = places[np.argsort(self._rank[places])]
        return ordered


class _Texts:
    """Texts end to end, in a third of the memory that a list of them takes."""

    def __init__(self, values: pl.Series) -> None:
        self._end_to_end = str(values.str.join("").item()).encode()
        self._ends = values.str.len_bytes().cast(pl.Int64).cum_sum().to_numpy()

    def at(self, places: NDArray[np.int64]) -> list[str]:
        ends = self._ends[places]
        starts = np.where(places > 0, self._ends[places - 1], 0)
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        return [self._end_to_end[start:end].decode() for start, end in spans]


def _of_several_lengths(name: str, ids: pl.Series) -> list[str]:
    """Return what should be known of ids made text that may have lost zeros in front.

    A spreadsheet takes them off. In the open the others' ids would show it; here nobody sees those.
    """
    lengths = ids.str.len_bytes().to_numpy()
    fewest, most = lengths.min(), lengths.max()
    if not ids.str.contains("^[0-9]+$").all() or fewest == most:
        return []
    return [
        f"the ids of {name!r} are digits, {fewest} to {most} of them: where others write zeros in "
        f"front, nobody is found by these; say IdForm(pad={most}) (YAML: ids: {{pad: {most}}}) if "
        "all mean numbers of so many digits"
    ]


def _told(name: str, table: str, tables: int) -> str:
    """Return the name by which a table's owner is told of it."""
    return name if tables == 1 else f"{name}, {table}"


def _ids(name: str, data: Any, id: str, normalise: IdForm | None) -> pl.Series:
    table = keyed_tables({name: data}, id)[name]
    ids = plain_ids(name, table, id, normalise)
    if (twice := first_twice(ids)) is not None:
        first, again = (table.number(row) for row in twice)
        raise DataError(
            f"{name!r} has the same id in row {first} and in row {again} (column {id!r}); "
            "a person may have one row in a table"
        )
    return ids
