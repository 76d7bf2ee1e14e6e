"""From several organisations' tables to what a federation trains on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_kind
from colonnade.errors import ConfigurationError, DataError
from colonnade.models import Features, take
from colonnade.tables.align import align_ids, checked_ids, only
from colonnade.tables.fitted import FittedTransformer, fitted_and_notes
from colonnade.tables.frames import as_series, index_of
from colonnade.tables.id_form import IdForm
from colonnade.tables.labels import EncodedLabels, Task, check_spread, encode_labels
from colonnade.tables.names import check_present, listed
from colonnade.tables.new_rows import Absent, features_of_new_rows
from colonnade.tables.notes import kept, tell
from colonnade.tables.spellings import told_apart
from colonnade.tables.splitting import HashSplit, Parts, Splitting
from colonnade.tables.table import (
    FrameTable,
    SelectedRows,
    Table,
    keyed,
    keyed_tables,
    label_table,
)
from colonnade.tables.together import LABELS, by_place, rows_together
from colonnade.tables.truth import check_index, with_ids

__all__ = ["OwnTables", "VerticalTables", "own_tables", "vertical_tables"]


@dataclass(frozen=True, eq=False, repr=False)
class VerticalTables:
    """Features and labels of the same people, row by row, and which rows are for what.

    Parameters
    ----------
    ids
        Who the rows are about, sorted; where an index said so, in the first table's order; None
        where rows were aligned already.
    features
        For every party, in party order, what its transformer made of its columns.
    labels
        Classes, int64 ``[N]``, or numbers, float32 ``[N]``.
    classes
        The label that each class stands for, sorted; None for numbers.
    train, validation, test
        Row numbers, int64; validation and test may be empty.
    transformers
        For every party its transformer, fitted on its training rows.
    columns
        For every party the columns that its transformer takes.
    left_out
        For every party, and for "labels", how many rows of its table are of people whom some
        other table does not know.
    absent
        For every party, of how many people of the table of labels it has no row.
    id, normalise, aligned
        How rows were found to belong together; see ``vertical_tables``.
    warnings
        What should be known of the tables, as ``DataWarning`` has told it, without examples.
    """

    ids: pl.Series | None
    features: dict[str, Features]
    labels: Tensor
    classes: tuple[Any, ...] | None
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    transformers: dict[str, FittedTransformer]
    columns: dict[str, tuple[str, ...]]
    left_out: dict[str, int]
    absent: dict[str, int]
    id: str | None = None
    normalise: IdForm | None = None
    aligned: bool = False
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        kind = f"{len(self.classes)} classes" if self.classes else "regression"
        return (
            f"VerticalTables({len(self.features)} parties, {len(self.train)} + "
            f"{len(self.validation)} + {len(self.test)} rows, {kind})"
        )

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of the parties, in party order."""
        return tuple(self.features)

    @property
    def people(self) -> dict[str, Any] | None:
        """How many people of the table of labels were left out, and of how many who has no row.

        None where rows were not found by ids, so that nobody was.
        """
        if self.id is None:
            return None
        return {"left_out": self.left_out[LABELS], "absent": dict(self.absent)}

    def describe(self) -> pl.DataFrame:
        """Return how each column was read: whose it is, as what, and how many features it makes.

        Examples
        --------
        >>> shop = {"spent": [3.5, None, 4.0] * 30, "town": ["Rome", "Oslo", "Bern"] * 30}
        >>> data = vertical_tables({"shop": shop}, [i % 2 for i in range(90)], aligned=True)
        >>> for column in data.describe().rows():
        ...     print(*column, sep=", ")
        shop, spent, number; missing ones are filled in with 3.5, 2
        shop, town, 3 categories, 3
        """
        rows = [
            (party, *column) for party in self.parties for column in self.transformers[party].read()
        ]
        schema = {"party": pl.String, "column": pl.String, "as": pl.String, "features": pl.Int64}
        return pl.DataFrame(rows, schema, orient="row")

    def without_rows(self) -> VerticalTables:
        """Return what ``transform`` needs and no more: nobody's row, id or label.

        Transformers keep what they learned: those of Colonnade means, deviations, medians and the
        names of categories; of others, what they keep.
        """
        none = np.zeros(0, dtype=np.int64)
        return replace(
            self,
            ids=None if self.ids is None else self.ids.clear(),
            features={party: take(values, none) for party, values in self.features.items()},
            labels=take(self.labels, none),
            train=none,
            validation=none,
            test=none,
            warnings=(),
        )

    def transform(
        self,
        tables: Mapping[str, Any],
        id: str | None = None,
        absent: Absent = "error",
        aligned: bool | None = None,
    ) -> tuple[pl.Series | None, dict[str, Features]]:
        """Return ids and features of new rows, for prediction, in the order of the first table.

        Parameters
        ----------
        tables
            A table for every party.
        id
            The column of ids; by default that of the training tables.
        absent
            What becomes of people of whom some party has no row: "error", or "drop" to leave them
            out. The ids that are returned are those that are kept.
        aligned
            Whether row i is the same person everywhere; by default as in training.

        Raises
        ------
        ConfigurationError
            If a party's table is missing, somebody has a table who is no party, or ``absent`` is
            neither.
        DataError
            If a table lacks a column or a person whom another one knows, cannot be transformed, or
            nothing says which rows belong together.
        """
        _check_parties("tables", tables, self.parties)
        key = id or self.id  # the user's first table is first
        ids, features, notes = features_of_new_rows(
            keyed_tables(tables, key),
            self.transformers,
            key,
            aligned=self.aligned if aligned is None else aligned,
            normalise=self.normalise,
            absent=absent,
        )
        tell(notes)
        return ids, {party: features[party] for party in self.parties}


def vertical_tables(
    tables: Mapping[str, Any],
    labels: Any,
    *,
    id: str | None = None,
    normalise: IdForm | None = None,
    aligned: bool = False,
    split: Splitting | None = None,
    transformers: Any = None,
    task: Task = "auto",
    label_column: str | None = None,
    people: pl.Series | None = None,
) -> VerticalTables:
    """Align tables, divide their people, and make features by what training rows teach.

    Parameters
    ----------
    tables
        For every party its table: what ``as_frame`` takes, or a ``StoredTable``.
    labels
        A table with the ids and a column of labels; where ``id`` is None, an array of labels.
    id
        The column that says who a row is about, called the same in all tables; the index of a
        pandas frame, or of a series of labels, that is called so will do. Without it tables must
        be of pandas and share an index that has a name or is no whole numbers, by which rows are
        found, or be ``aligned``. Of an index of several levels each that is whole numbers must
        have a name.
        An array of labels goes with a single table by position; labels of pandas that are in
        another order than the table are refused.
    normalise
        The form in which ids are compared, where different hands have written them: ``IdForm()``.
        By default they are as they are written; a ``DataWarning`` tells where more than 1 % differ
        in writing only.
    aligned
        Whether row i is about the same person in all tables already.
    split
        Who is for training, validation and test; ``HashSplit()`` by default. Without ids or an
        index it is by row number.
    transformers
        A scikit-learn transformer for all parties, or a mapping from party to transformer;
        ``TableTransformer()`` by default, and for parties not in the mapping. Each party gets its
        own copy, fitted on its own training rows.
    task
        "classification", "regression", or "auto": see ``encode_labels``.
    label_column
        The column of labels, where there are several.
    people
        The ids to keep, as ``align_privately`` found them; by default all that every table has.

    Raises
    ------
    ConfigurationError
        If the arguments do not fit together.
    DataError
        If nothing says which rows belong together, tables cannot be aligned, one lacks somebody of
        ``people``, a label is missing, a class does not occur in training, a party has no column,
        or one that is called like the labels, or a column cannot be used.

    Examples
    --------
    >>> bank = pl.DataFrame({"id": range(100), "income": [i % 7 for i in range(100)]})
    >>> shop = pl.DataFrame({"id": range(50, 200), "city": ["Rome", "Oslo", "Bern"] * 50})
    >>> answers = pl.DataFrame({"id": range(100), "bought": ["yes", "no"] * 50})
    >>> people = vertical_tables({"bank": bank, "shop": shop}, answers, id="id")
    >>> people
    VerticalTables(2 parties, 36 + 6 + 8 rows, 2 classes)
    >>> people.classes, people.features["shop"].shape
    (('no', 'yes'), torch.Size([50, 3]))
    >>> people.left_out, people.absent
    ({'bank': 50, 'shop': 100, 'labels': 50}, {'bank': 0, 'shop': 50})
    """
    if not tables:
        raise ConfigurationError("tables are empty; give at least one party's table")
    if LABELS in tables:
        raise ConfigurationError(f"a party cannot be called {LABELS!r}; give it another name")
    if aligned and id is not None:
        raise ConfigurationError("say id=... or aligned=True, not both: either finds the rows")
    if people is not None and id is None:
        raise ConfigurationError("people are ids: say id=..., the column that they are in")
    check_kind("split", split, Splitting | None)
    given = keyed_tables(tables, id)
    answers, column = _label_table(labels, id, label_column)
    _check_columns(given, id, column)
    everyone = {**given, LABELS: answers}
    if id is None and not aligned and by_place(everyone):
        check_index(labels, tables)
    found = _found(everyone, id, normalise, aligned, people)
    encoded = _encoded(answers, column, found, task)
    people = pl.Series(range(len(found.rows[LABELS]))) if found.ids is None else found.ids
    train, validation, test = _divided(split, people, id)
    if encoded.classes is not None:
        _check_classes(encoded.values, encoded.classes, train)
    made = _features(given, id, found.rows, train, transformers)
    notes = (*found.notes, *encoded.notes, *_of_classes(encoded.classes), *made.notes)
    tell(notes)
    return VerticalTables(
        ids=found.ids,
        features=made.features,
        labels=encoded.values,
        classes=encoded.classes,
        train=train,
        validation=validation,
        test=test,
        transformers={
            party: replace(each, id=id, normalise=normalise)
            for party, each in made.transformers.items()
        },
        columns=made.columns,
        left_out={name: found.left_out[name] for name in everyone},
        absent={party: found.absent[party] for party in given},
        id=id,
        normalise=normalise,
        aligned=aligned,
        warnings=kept(notes),
    )


@dataclass(frozen=True, eq=False)
class OwnTables:
    """What one organisation makes of its own tables, where all know who the people are.

    Parameters
    ----------
    ids
        Who the rows are about.
    features
        For every table, what its transformer made of its columns.
    transformers
        For every table its transformer, fitted on the training rows.
    labels
        Classes, int64 ``[N]``, or numbers, float32 ``[N]``; None at whoever has none.
    classes
        The label that each class stands for, sorted; None for numbers, and without labels.
    train, validation, test
        Row numbers, int64, the same at everybody who has these ids.
    warnings
        What should be known of the tables, as ``DataWarning`` has told it, without examples.
    """

    ids: pl.Series
    features: dict[str, Features]
    transformers: dict[str, FittedTransformer]
    labels: Tensor | None
    classes: tuple[Any, ...] | None
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    warnings: tuple[str, ...]


def own_tables(
    tables: Mapping[str, Any],
    labels: Any,
    people: pl.Series,
    *,
    id: str,
    normalise: IdForm | None = None,
    split: Splitting | None = None,
    transformers: Any = None,
    task: Task = "auto",
    label_column: str | None = None,
) -> OwnTables:
    """Return what ``vertical_tables`` makes of the tables of one organisation, by these alone.

    Parameters
    ----------
    tables
        Its tables, none where it has labels alone.
    labels
        Its table of labels; None at whoever has none.
    people
        The ids that all organisations have, in order, as ``align_privately`` found them.
    id, normalise, split, transformers, task, label_column
        See ``vertical_tables``.

    Raises
    ------
    ConfigurationError, DataError
        As ``vertical_tables`` does.

    Examples
    --------
    >>> bank = pl.DataFrame({"id": range(100), "income": [i % 7 for i in range(100)]})
    >>> own = own_tables({"bank": bank}, None, pl.Series(range(50, 100)), id="id")
    >>> own.features["bank"].shape, len(own.train), own.labels
    (torch.Size([50, 1]), 36, None)
    """
    check_kind("split", split, Splitting | None)
    given, answers, column = keyed_tables(tables, id), None, None
    if labels is not None:
        answers, column = _label_table(labels, id, label_column)
    _check_columns(given, id, column)
    everyone = given if answers is None else {LABELS: answers, **given}
    found = _found(everyone, id, normalise, aligned=False, people=people)
    train, validation, test = _divided(split, people, id)
    values, classes = None, None
    told: tuple[str, ...] = ()
    if answers is not None and column is not None:
        encoded = _encoded(answers, column, found, task)
        values, classes, told = encoded.values, encoded.classes, encoded.notes
        if classes is not None:
            _check_classes(values, classes, train)
    made = _features(given, id, found.rows, train, transformers)
    notes = (*found.notes, *told, *_of_classes(classes), *made.notes)
    tell(notes)
    return OwnTables(
        people,
        made.features,
        made.transformers,
        values,
        classes,
        train,
        validation,
        test,
        kept(notes),
    )


class _Features(NamedTuple):
    """What transformers made of tables, by party."""

    features: dict[str, Features]
    transformers: dict[str, FittedTransformer]
    columns: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]


def _features(
    given: Mapping[str, Table],
    id: str | None,
    rows: Mapping[str, NDArray[np.int64]],
    train: NDArray[np.int64],
    transformers: Any,
) -> _Features:
    """Fit everybody's transformer on the training rows, and make the features of all rows."""
    own = _transformer_of_each(transformers, tuple(given))
    columns = {
        party: tuple(name for name in table.schema if name != id) for party, table in given.items()
    }
    used = {party: SelectedRows(given[party], rows[party], columns[party]) for party in given}
    taught = {party: fitted_and_notes(own[party], used[party], train, party) for party in given}
    learned = {party: transformer for party, (transformer, _) in taught.items()}
    made = {party: learned[party].features_and_notes(used[party]) for party in given}
    notes = tuple(note for _, told in (*taught.values(), *made.values()) for note in told)
    return _Features(
        {party: features for party, (features, _) in made.items()}, learned, columns, notes
    )


def _encoded(answers: Table, column: str, found: _Found, task: Task) -> EncodedLabels:
    """Return the labels of the people who were found."""
    chosen, ids = SelectedRows(answers, found.rows[LABELS]), found.ids

    def place(row: int) -> str:
        return f"row {chosen.number(row)}" + ("" if ids is None else f" (id {ids[row]!r})")

    given = chosen.column(column)
    encoded = encode_labels(given, task, place=place)
    if encoded.classes is None:
        check_spread(given.cast(pl.Float64).to_numpy())
    return encoded


def _check_columns(given: Mapping[str, Table], id: str | None, column: str | None) -> None:
    for party, table in given.items():
        if column in table.schema:
            raise DataError(
                f"the table of {party!r} has the column {column!r}, which is what is to be "
                "predicted; drop it from the table"
            )
        if not set(table.schema) - {id}:
            raise DataError(f"the table of {party!r} has no column but the id; leave it out")


class _Found(NamedTuple):
    """Which row of each table a person is, and who was left out."""

    ids: pl.Series | None
    rows: dict[str, NDArray[np.int64]]
    left_out: dict[str, int]
    absent: dict[str, int]
    notes: tuple[str, ...]


def _found(
    tables: Mapping[str, Table],
    id: str | None,
    normalise: IdForm | None,
    aligned: bool,
    people: pl.Series | None,
) -> _Found:
    if id is None:
        together = rows_together(tables, aligned)
        nobody = dict.fromkeys(tables, 0)
        return _Found(together.ids, together.rows, nobody, nobody, together.notes)
    first = [LABELS] if LABELS in tables else []  # whose people are counted first
    names = [*first, *(name for name in tables if name != LABELS)]
    found = align_ids({name: checked_ids(name, tables[name], id, normalise) for name in names})
    if people is not None:
        found = only(found, people)
    return _Found(found.ids.alias(id), found.rows, found.left_out, found.absent, found.notes)


def _divided(split: Splitting | None, people: pl.Series, id: str | None) -> Parts:
    """Return which people are for what.

    Raises
    ------
    ConfigurationError
        If that hangs on an order of rows, and they have none.
    """
    if id is not None and getattr(split, "by_order", False):
        raise ConfigurationError(
            f"{type(split).__name__} goes by the order of rows, and rows that are found by an id "
            "have none; give the tables in one order, with aligned=True and no id, or say by "
            "IdSplit which ids are for test"
        )
    return (split or HashSplit()).rows(people)


def _label_table(labels: Any, id: str | None, column: str | None) -> tuple[Table, str]:
    """Return the table of labels, and which column they are."""
    labels = with_ids(labels, id)
    if not isinstance(labels, pl.LazyFrame | Mapping | Table) and not hasattr(labels, "columns"):
        if id is not None:
            raise ConfigurationError(
                f"labels must be a table with the column {id!r}, by which rows are aligned, "
                f"not a {type(labels).__name__}"
            )
        values = as_series(labels)
        values = values.alias(column or values.name or "label")
        return FrameTable(pl.DataFrame([values]), index_of(labels)), values.name
    table = keyed(label_table(labels), id)
    names = list(table.schema)
    check_present("the table of labels", [name for name in (id, column) if name], names)
    others = [name for name in names if name != id]
    if column is None:
        if len(others) != 1:
            raise ConfigurationError(
                f"the table of labels must have one column beside the id, not {len(others)}"
                + (f" ({listed(others)})" if others else "")
                + "; keep the one to predict, or name it by label_column=... (of vertical_tables)"
                + ("; or say id=... if another one is the ids" if id is None else "")
            )
        column = others[0]
    if column == id:
        raise ConfigurationError(f"label_column is {column!r}, the column of ids; name another")
    return table, column


def _check_parties(what: str, given: Mapping[str, Any], parties: tuple[str, ...]) -> None:
    missing = [party for party in parties if party not in given]
    strange = [party for party in given if party not in parties]
    if missing or strange:
        found = f"lack {listed(missing)}" if missing else f"name {listed(strange)}"
        raise ConfigurationError(f"{what} {found}; the parties are {listed(parties)}")


def _check_classes(labels: Tensor, classes: tuple[Any, ...], train: NDArray[np.int64]) -> None:
    count = np.bincount(labels.numpy()[train], minlength=len(classes))
    absent = [value for value, found in zip(classes, count, strict=True) if not found]
    if absent:
        raise DataError(
            f"no training row is of class {listed(absent)}, so no model can learn it; "
            "leave its rows out, or divide by another seed"
        )


def _of_classes(classes: tuple[Any, ...] | None) -> tuple[str, ...]:
    if not classes or not isinstance(classes[0], str):
        return ()
    note = told_apart("the labels", pl.Series(classes))
    return () if note is None else (note,)


def _transformer_of_each(transformers: Any, parties: tuple[str, ...]) -> dict[str, Any]:
    from colonnade.tables.transformer import TableTransformer  # only here: it needs scikit-learn

    if transformers is None:
        transformers = {}
    if not isinstance(transformers, Mapping):
        return dict.fromkeys(parties, transformers)
    strange = [party for party in transformers if party not in parties]
    if strange:
        raise ConfigurationError(
            f"transformers name {listed(strange)}; the parties are {listed(parties)}"
        )
    return {party: transformers.get(party, TableTransformer()) for party in parties}
