"""What an estimator is given, as each party's table and the labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from colonnade.errors import ConfigurationError, DataError
from colonnade.tables.in_order import counts_apart
from colonnade.tables.names import check_named_once, check_present, meant
from colonnade.tables.notes import tell
from colonnade.tables.table import Table, as_table, identified, keyed_tables, whole
from colonnade.tables.together import LABELS
from colonnade.tables.truth import check_index, has_ids, with_ids
from colonnade.telling import shown

__all__ = ["Given", "given", "party_tables", "tell_order"]


class Given(NamedTuple):
    """Tables and labels.

    Parameters
    ----------
    tables
        By party, without the labels.
    labels
        As the user gave them, or a table of ids and labels.
    owner
        Who had the column of labels; None where they came apart.
    """

    tables: dict[str, Table]
    labels: Any
    owner: str | None


def given(
    X: Any,  # noqa: N803  # scikit-learn's name
    y: Any,
    parties: Mapping[str, Sequence[str]] | None,
    id: str | None,
    aligned: bool,
) -> Given:
    """Return each party's table, the labels, and who had the column of labels, if anybody.

    Parameters
    ----------
    X
        A table for each party, or one table where ``parties`` says whose the columns are.
    y
        Labels, or the name of the column of a table that holds them.
    parties
        Whose the columns are, where there is one table.
    id
        The column of ids.
    aligned
        Whether the user says that row i is the same person everywhere, labels included.

    Raises
    ------
    ConfigurationError
        If there is one table, and nothing says whose its columns are.
    DataError
        If a column is not there, or labels are in another order than the tables.

    Examples
    --------
    >>> bank = {"income": [20, 30], "default": ["no", "yes"]}
    >>> found = given({"bank": bank}, "default", None, None, aligned=True)
    >>> list(found.tables["bank"].schema), list(found.labels.schema), found.owner
    (['income'], ['default'], 'bank')
    """
    tables = party_tables(X, parties, id)
    beside = [] if id is None else [id]
    if not isinstance(y, str):
        if not aligned and not has_ids(y, id):
            check_index(y, X if isinstance(X, Mapping) and parties is None else {"X": X})
        return Given(tables, with_ids(y, id), None)
    owners = [name for name, table in tables.items() if y in table.schema]
    if not owners and parties is not None and y in (both := identified(X, id)).schema:
        return Given(tables, as_table(both, [*beside, y]), None)  # a column of nobody's
    if len(owners) != 1:
        if owners:
            raise DataError(
                f"the column of labels {y!r} is in the tables of {' and '.join(owners)}; it must "
                "be in one"
            )
        names = [*as_table(X).schema] if parties is not None else []
        names += [name for table in tables.values() for name in table.schema]
        raise DataError(f"the column of labels {y!r} is in no table; {meant(y, names)}")
    owner = owners[0]
    table = tables[owner]
    check_present(f"the table of {owner!r}", beside, list(table.schema))
    labels = as_table(table, [*beside, y])
    tables[owner] = as_table(table, [name for name in table.schema if name != y])
    return Given(tables, labels, owner)


def party_tables(
    X: Any,  # noqa: N803  # scikit-learn's name
    parties: Mapping[str, Sequence[str]] | None,
    id: str | None,
) -> dict[str, Table]:
    """Return each party's table, which is cut out of one where ``parties`` says whose columns are.

    Raises
    ------
    ConfigurationError
        If there is one table, and nothing says whose its columns are.
    DataError
        If it has not all the columns.

    Examples
    --------
    >>> both = {"id": [1, 2], "income": [20, 30], "visits": [4, 5]}
    >>> found = party_tables(both, {"bank": ["income"], "shop": ["visits"]}, "id")
    >>> {name: list(table.schema) for name, table in found.items()}
    {'bank': ['id', 'income'], 'shop': ['id', 'visits']}
    """
    if id is not None and not isinstance(id, str):
        raise ConfigurationError(f"id is the name of one column, not {id!r}")
    if isinstance(X, Mapping) and parties is None:
        return keyed_tables(X, id)
    if parties is None:
        raise ConfigurationError(
            "give each party's table in a dict, or one table and parties={name: columns}"
        )
    parties = _checked(parties)
    _refuse_divided(X, parties)
    frame = whole(identified(X, id))
    key, there = [] if id is None else [id], frozenset(frame.columns)
    divided: dict[str, Table] = {}
    for name, columns in parties.items():
        absent = [column for column in (*key, *columns) if column not in there]
        check_named_once(f"parties[{name!r}]", [*key, *columns])
        if absent:
            called = str(absent[0])
            raise DataError(
                f"the table has no column {absent[0]!r}, which {name!r} is to hold"
                + (f"; it is called {called!r}" if called in there else "")
            )
        divided[name] = as_table(frame.select([*key, *columns]))
    return divided


def tell_order(
    X: Any,  # noqa: N803  # scikit-learn's name
    y: Any = None,
    parties: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Warn where tables and labels that are said to be aligned have indices in two orders.

    Parameters
    ----------
    X, y, parties
        As for ``given``; no labels where rows are predicted.

    Warns
    -----
    DataWarning
        If two have the same whole numbers as indices, in two orders.

    Examples
    --------
    >>> tell_order({"bank": {"income": [20, 30]}, "shop": {"visits": [4, 5]}})
    """
    tables = X if isinstance(X, Mapping) and parties is None else {"X": X}
    apart = counts_apart({**tables, LABELS: y})
    if apart is not None:
        tell(
            [
                f"{apart}, though they are said to be aligned; bring them in one order, or take "
                "the indices away (reset_index(drop=True)) if they say nothing"
            ]
        )


def _refuse_divided(table: Any, parties: Mapping[str, Sequence[str]]) -> None:
    """Refuse tables of parties where one is expected that ``parties`` divides."""
    columns = {column for its in parties.values() for column in its}
    if isinstance(table, Mapping) and table and table.keys() <= parties.keys() - columns:
        raise DataError(
            f"there is a table each for {', '.join(map(repr, table))}, and parties says how one is "
            "divided: give one table with all columns, or no parties when fitting"
        )


def _checked(parties: Any) -> Mapping[str, Sequence[str]]:
    """Return whose the columns are.

    Raises
    ------
    ConfigurationError
        If no names have columns, or one has no list of them: of a text its letters would be taken,
        and an iterator is at its end when a prediction asks.
    """
    if not isinstance(parties, Mapping):
        raise ConfigurationError(
            f"parties must be a dict from names to columns, not a {type(parties).__name__}"
        )
    for name, columns in parties.items():
        if isinstance(columns, str) or not isinstance(columns, Iterable):
            raise ConfigurationError(
                f"parties[{name!r}] must be a list of columns, not {columns!r}"
                + (f": say [{columns!r}]" if isinstance(columns, str) else "")
            )
        if isinstance(columns, Iterator):
            raise ConfigurationError(
                f"parties[{name!r}] must be a list of columns, not a {type(columns).__name__}, "
                "which gives them once, and they are needed for predictions again: say list(...)"
            )
        if unnamed := [column for column in columns if not isinstance(column, Hashable)]:
            raise ConfigurationError(
                f"parties[{name!r}] must be a list of columns, of which {shown(unnamed[0])} is none"
            )
    return parties
