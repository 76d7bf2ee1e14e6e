"""Tables from files and databases.

::

    read_table("people.csv", id="id")                      .csv, .tsv, also .gz
    read_table("people.parquet", columns=["age", "sex"])
    read_table("sqlite:///people.db", table="people")
    read_table("postgresql://ann@db.example/crm", query="select id, age from people")

What is wrong with a source is a ``DataError`` of one sentence that names it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from colonnade.errors import ConfigurationError, DataError
from colonnade.forked import check_not_forked
from colonnade.paths import place_of
from colonnade.tables.database import read_database
from colonnade.tables.delimited import read_delimited, separator_of
from colonnade.tables.names import check_named_once
from colonnade.tables.stored import StoredTable
from colonnade.tables.there import check_is_here, is_file
from colonnade.tables.urls import login_in, settings_in
from colonnade.telling import short

__all__ = ["is_called_like_a_table", "is_text_file", "read_table"]


def read_table(
    source: str | Path,
    *,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    query: str | None = None,
    table: str | None = None,
    missing: Sequence[str] = (),
    names: Sequence[str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    text: Sequence[str] = (),
) -> pl.DataFrame:
    r"""Return a table of a file or database.

    Parameters
    ----------
    source
        A file (.csv, .tsv, either also with .gz, or .parquet) or the URL of a database: SQLite, or
        PostgreSQL and what else SQLAlchemy has a driver for. Needs ``pip install
        'colonnade[sql]'``. A database has no order of rows but that of a query's ``order by``.
    id
        The column of ids; it comes first. In a text file, ids that are not all written as plain
        whole numbers stay text: "007" does not become 7.
    columns
        The other columns to read; all by default. Nothing else is read.
    query, table
        Of a database: the query to run, or the table or view to read, such as "people" or
        "crm.people". A query itself says which columns are read; ``columns`` picks from them;
        of SQLite, either may take 10^11 of its steps, more than half an hour, and an hour of work.
        Of PostgreSQL no query comes from an account that may write the server's files, as a
        superuser may, or may call a function that does.
    missing
        What a text file writes for a missing value, such as "unknown". An empty cell always is one;
        so are NA, N/A, n/a, #N/A, NaN, nan, NULL, Null and null where all other cells of the column
        are numbers. Among texts they are texts, unless they are named here.
    names
        The columns of a text file whose first line does not name them.
    separator
        What a text file has between columns; by default "," for .csv and a tab for .tsv.
    decimal
        What a text file writes for the decimal point: "." by default, or ",".
    text
        The columns of a text file that stay as they are written: in a column of codes 250.00 and
        250.0 are two, and as numbers would be one.

    Raises
    ------
    ConfigurationError
        If the arguments do not fit the source, or SQLAlchemy is not installed.
    DataError
        If the source is not there or no table, has no rows, has no such columns or one twice, or a
        row of a text file has fewer or more cells than there are columns.

    Notes
    -----
    In a text file a column is text if one of its cells is digits that begin with a zero, such as
    007, or a whole number beyond 64 bits: as numbers they would not be what was written.

    Examples
    --------
    >>> _ = Path("people.csv").write_text("id,age,city\n7,41,Rome\n9,,Oslo\n")
    >>> read_table("people.csv", id="id", columns=["age"])
    shape: (2, 2)
    ┌─────┬──────┐
    │ id  ┆ age  │
    │ --- ┆ ---  │
    │ i64 ┆ i64  │
    ╞═════╪══════╡
    │ 7   ┆ 41   │
    │ 9   ┆ null │
    └─────┴──────┘
    """
    check_not_forked()
    where = place_of("a table is read from a file or the URL of a database", source)
    wanted = _wanted(id, columns)
    is_text = is_text_file(source)
    check_is_here(where)
    if not is_text and (missing or names or separator is not None or decimal or text):
        raise ConfigurationError(
            "missing, names, separator, decimal and text are for text files; leave them out"
        )
    if "://" in where:
        return read_database(where, id=id, columns=wanted, query=query, table=table)
    if settings_in(where):
        raise ConfigurationError(
            "a database is named by its URL, such as postgresql://ann@db.example/crm, not by "
            "settings one after the other; write its user, password, host and name in that form"
        )
    if query is not None or table is not None:
        raise ConfigurationError(
            f"query and table are for databases, and {_told(source)} is a file; leave them out"
        )
    path = Path(source)
    if not is_called_like_a_table(path):
        raise DataError(
            f"{_told(source)} is not called like a table; expected .csv, .tsv, .csv.gz, "
            ".tsv.gz or .parquet, or the URL of a database"
        )
    if not is_text:
        stored = StoredTable(path)
        return stored.frame(
            [id, *(n for n in stored.schema if n != id)] if id and not wanted else wanted
        )
    between = separator_of(path.name) if separator is None else separator
    return read_delimited(path, between, id, wanted, missing, names, decimal, text)


def is_called_like_a_table(source: str | Path) -> bool:
    """Return whether a source is read as a file, by its name.

    >>> is_called_like_a_table("a@b/people.csv"), is_called_like_a_table("ann/hunter2@h:1521/x")
    (True, False)
    """
    return is_text_file(source) or str(source).lower().endswith(".parquet")


def is_text_file(source: str | Path) -> bool:
    """Return whether a source is read as a text file, by its name.

    >>> is_text_file("people.csv.gz"), is_text_file("people.parquet")
    (True, False)
    """
    return str(source).lower().removesuffix(".gz").endswith((".csv", ".tsv"))


def _told(source: str | Path) -> str:
    """Return how a message says a source, without a login before a host."""
    text = str(source)
    if login_in(text) and not (is_called_like_a_table(source) or is_file(Path(source))):
        return f"...@{short(unicodedata.normalize('NFKC', text).rpartition('@')[2])}"
    return short(text)


def _wanted(id: str | None, columns: Sequence[str] | None) -> list[str] | None:
    """Return the columns to read, the id first; None for all."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise ConfigurationError(f"columns must be a list of names, not {columns!r}")
    check_named_once("columns", columns)
    wanted = [*([] if id is None else [id]), *(name for name in columns if name != id)]
    if not wanted:
        raise ConfigurationError("columns are empty; name at least one, or leave them out")
    return wanted
