"""A Parquet file left on disk: its columns are read when they are needed, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from colonnade.errors import DataError
from colonnade.forked import check_not_forked
from colonnade.paths import as_path
from colonnade.tables.columns import only, values_of
from colonnade.tables.names import check_named_once, check_path, check_present
from colonnade.tables.table import Batch
from colonnade.tables.there import check_is_file, check_is_here, stamp_of

__all__ = ["StoredTable"]

_CELLS = 2**21  # of a batch that is read at a time: 16 MiB of float64


class StoredTable:
    """A table in a Parquet file, which is never in memory as a whole.

    Ids are read alone, a transformer is fitted column by column, and rows are transformed some at
    a time. So a million rows become features in hardly more memory than those features.

    Parameters
    ----------
    path
        The file; it must not change while it is in use.
    columns
        The columns to know of; by default all.
    empty
        Whether it may have no rows, as one file of several.

    Raises
    ------
    DataError
        If there is no such file, it is not a Parquet file with rows, or it lacks a column.

    Examples
    --------
    >>> pl.DataFrame({"id": [7, 9], "age": [41, 37]}).write_parquet("people.parquet")
    >>> people = StoredTable("people.parquet")
    >>> people, people.column("age").to_list()
    (StoredTable('people.parquet', 2 rows, 2 columns), [41, 37])
    """

    def __init__(
        self, path: str | Path, columns: Sequence[str] | None = None, *, empty: bool = False
    ) -> None:
        self.path = as_path("a stored table is read from the path of a file", path)
        check_is_here(str(path))
        check_path(str(self.path))
        check_is_file(self.path)
        self._stamp = stamp_of(self.path)
        schema = self._read(pl.LazyFrame.collect_schema)
        self._schema: dict[str, pl.DataType] = dict(schema)
        if columns is not None:
            check_named_once(str(self.path), columns)
            check_present(str(self.path), columns, list(schema))
            self._schema = {name: schema[name] for name in columns}
        self._height = int(self._read(lambda scan: scan.select(pl.len()).collect()).item())
        if self._height == 0 and not empty:
            raise DataError(f"{self.path} has no rows")

    def __repr__(self) -> str:
        return f"StoredTable({str(self.path)!r}, {self.height} rows, {len(self._schema)} columns)"

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and what they hold, in order."""
        return dict(self._schema)

    @property
    def height(self) -> int:
        """The number of rows."""
        return self._height

    def column(self, name: str) -> pl.Series:
        """Read the values of a column, all rows.

        Raises
        ------
        DataError
            If the file has changed, or is damaged where polars sees it: it reads no page checksums.
        """
        return values_of(self.frame([name]), name)

    def frame(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Read the given columns, or all.

        Raises
        ------
        DataError
            If there is no such column, or the file has changed or is damaged.
        """
        names = list(self._schema) if columns is None else list(columns)
        check_present(str(self.path), names, list(self._schema))
        frame: pl.DataFrame = self._read(lambda scan: only(scan, names).collect())
        return frame

    def batches(self, columns: Sequence[str], size: int) -> Iterator[Batch]:
        """Read the rows in order, and yield them about ``size`` at a time.

        Raises
        ------
        DataError
            If the file has changed, or is damaged where polars sees it: it reads no page checksums.
        """
        names = list(columns)
        # Reading many rows at once is quicker; handing out few at a time keeps them in the cache.
        at_once = max(1, _CELLS // max(1, len(names)) // size) * size
        for first in range(0, self.height, at_once):
            part = self._read(_rows(names, first, at_once))
            for start in range(0, part.height, size):
                batch = part[start : start + size]
                yield Batch(batch, np.arange(first + start, first + start + batch.height))

    def number(self, row: int) -> int:
        """Return the row itself."""
        return row

    def _read(self, what: Callable[[pl.LazyFrame], Any]) -> Any:
        check_not_forked()
        if stamp_of(self.path) != self._stamp:
            raise DataError(f"{self.path} has changed while it was in use; start again")
        try:
            return what(pl.scan_parquet(self.path, glob=False, hive_partitioning=False))
        except pl.exceptions.PanicException as error:  # it has said what of, on the terminal
            raise DataError(f"{self.path} cannot be read as a Parquet file: damaged") from error
        except (pl.exceptions.PolarsError, OSError) as error:
            line = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(f"{self.path} cannot be read as a Parquet file: {line}") from error


def _rows(names: list[str], first: int, count: int) -> Callable[[pl.LazyFrame], pl.DataFrame]:
    return lambda scan: only(scan, names).slice(first, count).collect()
