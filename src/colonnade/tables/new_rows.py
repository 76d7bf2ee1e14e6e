"""Which rows of several tables are the same people, for prediction: in the first table's order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.errors import ConfigurationError, DataError
from colonnade.models import Features
from colonnade.tables.align import align_ids, checked_ids, only
from colonnade.tables.id_form import IdForm
from colonnade.tables.table import SelectedRows, Table, keyed_tables
from colonnade.tables.together import Together, rows_together

__all__ = ["Absent", "features_of_new_rows", "features_of_people", "same_people"]

Absent: TypeAlias = Literal["error", "drop"]
"""What becomes of people of whom some party has no row."""


def same_people(
    tables: Mapping[str, Table],
    id: str | None,
    *,
    aligned: bool = False,
    normalise: IdForm | None = None,
    absent: Absent = "error",
) -> Together:
    """Return ids, and which row of each table they are, in the order of the first table.

    Parameters
    ----------
    tables
        A table for every party.
    id
        The column of ids; None where an index or the user says that rows belong together.
    aligned
        Whether the user says that row i is the same person everywhere.
    normalise
        The form in which ids are compared.
    absent
        "error", or "drop" to leave out whom some party does not know.

    Raises
    ------
    ConfigurationError
        If ``absent`` is neither.
    DataError
        If rows cannot be told to belong together, or somebody is absent somewhere.

    Examples
    --------
    >>> from colonnade.tables.table import as_table
    >>> bank, shop = as_table({"id": [9, 7, 8]}), as_table({"id": [7, 9]})
    >>> found = same_people({"bank": bank, "shop": shop}, "id", absent="drop")
    >>> found.ids.to_list(), found.rows["shop"]
    ([9, 7], array([1, 0]))
    """
    if absent not in ("error", "drop"):
        raise ConfigurationError(f"absent must be 'error' or 'drop', not {absent!r}")
    if id is None and absent == "drop":
        raise ConfigurationError(
            "absent='drop' leaves people out by their id, and these tables have none; "
            "train with id=..."
        )
    if id is None:
        return rows_together(tables, aligned, new=True)
    ids = {party: checked_ids(party, table, id, normalise) for party, table in tables.items()}
    found = align_ids(ids)
    if absent == "error" and any(found.left_out.values()):
        _refuse_absent(ids)
    first = next(iter(ids))
    order = np.argsort(found.rows[first])  # from sorted by id to the first table's own order
    rows: dict[str, NDArray[np.int64]] = {party: found.rows[party][order] for party in ids}
    return Together(found.ids[order].alias(id), rows, found.notes)


def features_of_new_rows(
    tables: Mapping[str, Table],
    transformers: Mapping[str, Any],
    id: str | None,
    *,
    aligned: bool = False,
    normalise: IdForm | None = None,
    absent: Absent = "error",
) -> tuple[pl.Series | None, dict[str, Features], tuple[str, ...]]:
    """Return the ids of new rows, every party's features of them, and what should be known.

    Parameters
    ----------
    tables
        A table for every party; rows come back in the order of the first.
    transformers
        Every party's ``FittedTransformer``.
    id, aligned, normalise, absent
        As for ``same_people``.

    Raises
    ------
    ConfigurationError
        If ``absent`` is neither.
    DataError
        If rows cannot be told to belong together, or a table cannot be transformed.
    """
    found = same_people(tables, id, aligned=aligned, normalise=normalise, absent=absent)
    made = {
        party: transformers[party].features_and_notes(SelectedRows(table, found.rows[party]))
        for party, table in tables.items()
    }
    notes = (*found.notes, *(note for _, told in made.values() for note in told))
    return found.ids, {party: features for party, (features, _) in made.items()}, notes


def features_of_people(
    party: str,
    table: Any,
    transformer: Any,
    people: pl.Series,
    *,
    id: str,
    normalise: IdForm | None = None,
) -> tuple[Features, tuple[str, ...]]:
    """Return an organisation's features of people whom all know, and what should be known.

    Parameters
    ----------
    party
        What messages call it.
    table
        What ``as_table`` takes.
    transformer
        Its ``FittedTransformer``.
    people
        The ids, in the order of the rows.
    id, normalise
        As for ``same_people``.

    Raises
    ------
    DataError
        If the table lacks somebody, or cannot be transformed.
    """
    given = keyed_tables({party: table}, id)[party]
    found = only(align_ids({party: checked_ids(party, given, id, normalise)}), people)
    features, told = transformer.features_and_notes(SelectedRows(given, found.rows[party]))
    return features, (*found.notes, *told)


def _refuse_absent(ids: Mapping[str, pl.Series]) -> None:
    """Raise ``DataError`` that says of how many people each party has no row, and of whom first."""
    everybody = pl.concat([each.rename("") for each in ids.values()]).unique(maintain_order=True)
    lacking = {
        party: everybody.filter(everybody.is_in(each.implode()).not_())
        for party, each in ids.items()
    }
    party = next(party for party in reversed(lacking) if len(lacking[party]))
    first = lacking[party][0]
    owner = next(name for name, each in ids.items() if first in each)
    counts = " and ".join(f"{len(lost)} at {name!r}" for name, lost in lacking.items() if len(lost))
    raise DataError(
        f"{party!r} has no row for the id {first!r}, which {owner!r} has, and a prediction needs "
        f"every party's columns: add the rows that are absent ({counts}), or say absent='drop' "
        "(--absent drop) to leave such people out"
    )
