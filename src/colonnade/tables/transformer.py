"""Features from an ordinary table: numbers scaled, categories in columns of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor

from colonnade.errors import ConfigurationError, DataError
from colonnade.models import Features
from colonnade.tables.categorical import Choices, Hashed, fit_category
from colonnade.tables.cells import check_text, check_whole, rounded_categories
from colonnade.tables.columns import values_of
from colonnade.tables.dates import fit_day
from colonnade.tables.kinds import check_kind, is_number
from colonnade.tables.names import check_present, listed
from colonnade.tables.notes import tell
from colonnade.tables.numeric import Number, Scale, fit_number
from colonnade.tables.parameters import Missing, Output, Unseen, check_parameters
from colonnade.tables.place import Place, refuse_missing
from colonnade.tables.spellings import told_apart
from colonnade.tables.state import packed, unpacked
from colonnade.tables.table import Batch, SelectedRows, Table, as_table
from colonnade.tables.tally import Tally
from colonnade.tables.unused import check_unused

__all__ = ["TableTransformer"]

_ROWS = 2**14  # a batch's features stay in the second-level cache


class TableTransformer(  # type: ignore[call-arg]  # scikit-learn ships no types
    TransformerMixin,  # type: ignore[misc]  # the same
    BaseEstimator,  # type: ignore[misc]  # the same
    auto_wrap_output_keys=None,  # tensors are not to be made into frames
):
    """Columns of a table to features of a bottom model; a scikit-learn estimator.

    Numbers: a missing value becomes the median, and where training values were missing a second
    column says which (1) and which not (0); then each column is scaled to mean 0 and variance 1.
    Categories: with few distinct values each gets a column of 0 and 1, a missing value counting as
    a category if there was one in training; with many they are hashed. All of it is learned from
    the rows that ``fit`` is given: give it training rows only.

    Parameters
    ----------
    numeric, categorical
        Columns to treat as numbers, or as categories. Columns in neither go by their type:
        integers, floats and decimals are numbers; text, truth values, categoricals and enums are
        categories.
    ignore
        Columns to leave out.
    scale
        "standard"; "unit" for each column from 0 to 1 over the training rows, where others may lie
        beyond; or "none" for numbers as they are.
    missing
        "median", or "error" to refuse missing values, also of categories.
    one_hot_up_to
        Up to so many distinct training values a category gets a column for each.
    hash_buckets
        How many columns the others are hashed into.
    unseen
        What happens to a category that did not occur in training: "zeros" sets all its columns to
        0; "warn" does so too, and a ``DataWarning`` tells how many there are; "error" refuses it.
        Hashing knows no unseen category, except a missing one.
    output
        "tensor" for float32 ``[N, d]``. "dict" for models with embedding tables: "numeric",
        float32 ``[N, n]``, and "categorical", int64 ``[N, c]``, the number of each category or
        hash; 0 stands for unseen and the others start at 1, unless ``unseen="error"``. What has no
        column is not in the dictionary.
    dates
        Columns of dates, or of text that is dates as 2024-01-31 is one: they become numbers, the
        days since 1970. Dates in no list are refused, as an age may say more than a day.

    Attributes
    ----------
    feature_names_
        What the output columns are, numbers first.
    cardinalities_
        For each categorical column, how many different codes there are in the dictionary.
    feature_names_in_
        The columns it was fitted on, which it looks for by name. It ignores others.

    Notes
    -----
    Rows are taken a batch at a time, so transforming takes no memory but the result's. A column
    that is constant in training becomes 0.

    Examples
    --------
    >>> train = pl.DataFrame({"age": [30, None, 50, 40], "city": ["Rome", "Oslo", None, "Rome"]})
    >>> transformer = TableTransformer().fit(train)
    >>> transformer.feature_names_
    ('age', 'age is missing', 'city=Oslo', 'city=Rome', 'city is missing')
    >>> transformer.transform({"city": ["Rome"], "age": [40]})
    tensor([[0., 0., 0., 1., 0.]])
    """

    def __init__(
        self,
        numeric: Sequence[str] | None = None,
        categorical: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        scale: Scale = "standard",
        missing: Missing = "median",
        one_hot_up_to: int = 16,
        hash_buckets: int = 32,
        unseen: Unseen = "warn",
        output: Output = "tensor",
        dates: Sequence[str] = (),
    ) -> None:
        self.numeric = numeric
        self.categorical = categorical
        self.ignore = ignore
        self.scale = scale
        self.missing = missing
        self.one_hot_up_to = one_hot_up_to
        self.hash_buckets = hash_buckets
        self.unseen = unseen
        self.output = output
        self.dates = dates

    def fit(self, frame: Any, y: Any = None) -> Self:
        """Learn medians, scales and categories from training rows.

        Parameters
        ----------
        frame
            What ``as_frame`` takes.
        y
            Not used; scikit-learn passes it.

        Raises
        ------
        ConfigurationError
            If a parameter cannot be used.
        DataError
            If the table has no rows or no column to use, or a column cannot be used: it is all
            missing, or holds dates and is not named in ``dates``, or infinite numbers, text among
            numbers, or whole numbers beyond 2^53; or it is text that seems to be numbers or dates,
            and not named in ``categorical``.

        Warns
        -----
        DataWarning
            If a column of text is hashed and may be one of numbers, or hardly a value occurs twice;
            or categories differ only in case or spaces.
        """
        tell(self.check(frame))
        return self.learn(frame)

    def learn(self, frame: Any) -> Self:
        """Learn as ``fit`` does, from rows of a table that ``check`` has seen."""
        check_parameters(self)
        table = as_table(frame)
        if table.height == 0:
            raise DataError("the table has no rows to fit on")
        numeric, categorical = self._by_kind(table.schema)
        used, named, dates = {*numeric, *categorical}, {*(self.numeric or ())}, {*self.dates}
        place = _row_of(table)
        fill = self.missing == "median"

        def number(name: str) -> Number:
            values = table.column(name)
            if name in dates:
                return fit_day(values, name, self.scale, fill, place)
            if name not in named:
                check_whole(name, values, place)
            return fit_number(values, name, self.scale, fill, place)

        most, buckets = int(self.one_hot_up_to), int(self.hash_buckets)
        self._learned(
            [number(name) for name in numeric],
            [
                fit_category(table.column(name), name, most, buckets, fill, place)
                for name in categorical
            ],
            [name for name in table.schema if name in used],
        )
        return self

    def check(self, frame: Any) -> tuple[str, ...]:
        """Raise unless the columns can be what they are taken for, also beyond training rows.

        What should be known of them is returned, as ``fit`` would warn of it.

        Parameters
        ----------
        frame
            All rows that there are.

        Raises
        ------
        ConfigurationError
            If a parameter cannot be used.
        DataError
            If a column of text, not named in ``categorical``, seems to be one of numbers or dates,
            or is text by a row that is left out.
        """
        check_parameters(self)
        table = as_table(frame)
        categorical = {*(self.categorical or ())}
        named = {*(self.numeric or ()), *categorical, *self.ignore, *self.dates}
        notes: list[str | None] = []
        for name, dtype in table.schema.items():
            if dtype == pl.String and name not in named:
                values = table.column(name)
                if isinstance(table, SelectedRows):
                    notes.append(check_unused(name, values, table))
                notes.append(check_text(name, values, self.one_hot_up_to, _row_of(table)))
                notes.append(told_apart(f"column {name!r}", values))
            elif name in categorical and (dtype.is_float() or dtype.is_decimal()):
                notes.append(rounded_categories(name, table.column(name)))
        return tuple(note for note in notes if note)

    def transform(self, frame: Any) -> Features:
        """Return the features of a table with the columns that it was fitted on.

        Parameters
        ----------
        frame
            What ``as_frame`` takes.

        Raises
        ------
        ConfigurationError
            If it was not fitted.
        DataError
            If a column is missing or of another kind than in training, a number is not finite or
            a whole one beyond 2^53 in a column not named in ``numeric``, or a category is unseen
            and ``unseen="error"``.
        """
        features, notes = self.features_and_notes(frame)
        tell(notes)
        return features

    def features_and_notes(self, frame: Any) -> tuple[Features, tuple[str, ...]]:
        """Return the features of a table, and what ``transform`` would warn of."""
        self._check_fitted()
        table, tally = as_table(frame), Tally()
        check_present("the table", self.feature_names_in_, list(table.schema))
        features = self._features(table, tally)
        unseen = tally.unseen(table.height) if self.unseen == "warn" else ()
        return features, (*tally.wholly_filled(table.height), *unseen)

    def read(self) -> Iterator[tuple[str, str, int]]:
        """Yield each column of the fit, what it was read as, and how many features it makes.

        Columns that are ignored make none.

        Raises
        ------
        ConfigurationError
            If it was not fitted.

        Examples
        --------
        >>> people = {"name": ["Ann", "Bob"], "age": [41, 37], "member": [True, False]}
        >>> list(TableTransformer(ignore=["name"]).fit(people).read())
        [('age', 'number', 1), ('member', '2 categories', 2), ('name', 'ignored', 0)]
        """
        for column in self._columns():
            whole = self.output == "dict" and not isinstance(column, Number)
            yield column.name, column.kind, 1 if whole else column.width
        for name in self.ignore:
            yield name, "ignored", 0

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of categories that were text in training: new rows are to have text there.

        >>> TableTransformer().fit({"code": ["250.00", "V12"], "age": [41, 37]}).text_columns
        ('code',)
        """
        self._check_fitted()
        return tuple(
            column.name for column in self._categories if column.written and column.written.as_text
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return ``feature_names_`` as scikit-learn wants them."""
        self._check_fitted()
        return np.array(self.feature_names_, dtype=object)

    def state(self) -> dict[str, Any]:
        """Return all there is to know, as what JSON can hold; it names the training categories.

        Raises
        ------
        ConfigurationError
            If it was not fitted.

        Examples
        --------
        >>> state = TableTransformer().fit({"age": [30, 50]}).state()
        >>> state["columns"]
        [{'type': 'number', 'name': 'age', 'median': 40.0, 'mean': 40.0, 'deviation': 10.0, 'had_missing': False}]
        >>> TableTransformer.from_state(state).transform({"age": [60]})
        tensor([[2.]])
        """  # noqa: E501 - a result is one line
        return packed(self.get_params(deep=False), self._columns())

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted transformer that has this state; its features are the same bits.

        Raises
        ------
        DataError
            If this is not the state of a table transformer.
        """
        parameters, columns = unpacked(state)
        transformer = cls(**parameters)
        transformer._learned(
            [column for column in columns if isinstance(column, Number)],
            [column for column in columns if not isinstance(column, Number)],
            [column.name for column in columns],
        )
        return transformer

    def _columns(self) -> list[Number | Choices | Hashed]:
        """Return what was learned of each column, in the table's order."""
        self._check_fitted()
        columns = {column.name: column for column in (*self._numbers, *self._categories)}
        return [columns[name] for name in self.feature_names_in_]

    def _learned(
        self, numbers: list[Number], categories: list[Choices | Hashed], names: list[str]
    ) -> None:
        self._numbers = tuple(numbers)
        self._categories = tuple(categories)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        indicators = [column.name for column in numbers if column.had_missing]
        self._numeric_width = len(numbers) + len(indicators)
        first = int(self.unseen != "error")
        self.cardinalities_ = tuple(first + column.width for column in categories)
        self.feature_names_ = (
            *(column.name for column in numbers),
            *(f"{name} is missing" for name in indicators),
            *(
                (column.name for column in categories)
                if self.output == "dict"
                else (label for column in categories for label in column.labels)
            ),
        )

    def _features(self, table: Table, tally: Tally) -> Features:
        if self.output == "dict":
            return self._dictionary(table, tally)
        width = self._numeric_width + sum(column.width for column in self._categories)
        features = np.zeros((table.height, width), dtype=np.float32)
        for batch in table.batches(list(self.feature_names_in_), _ROWS):
            with _Part(features, batch.places) as part:
                self._write(batch, table, part, tally)
        return torch.from_numpy(features)

    def _dictionary(self, table: Table, tally: Tally) -> dict[str, Tensor]:
        numeric = np.zeros((table.height, self._numeric_width), dtype=np.float32)
        codes = np.zeros((table.height, len(self._categories)), dtype=np.int64)
        first = int(self.unseen != "error")
        for batch in table.batches(list(self.feature_names_in_), _ROWS):
            place = _place(batch, table)
            with _Part(numeric, batch.places) as part:
                self._write_numbers(batch.frame, part, place, tally)
            for j, column in enumerate(self._categories):
                values = self._category(batch, column, place)
                found = column.codes(values, place, self.unseen != "error")
                tally.add(column.name, values, found, place)
                codes[batch.places, j] = first + found
        tensors = {"numeric": torch.from_numpy(numeric), "categorical": torch.from_numpy(codes)}
        return {name: values for name, values in tensors.items() if values.shape[1]}

    def _write(self, batch: Batch, table: Table, out: NDArray[np.float32], tally: Tally) -> None:
        place = _place(batch, table)
        self._write_numbers(batch.frame, out, place, tally)
        left = self._numeric_width
        for column in self._categories:
            part = out[:, left : left + column.width]
            values = self._category(batch, column, place)
            found = column.write(values, part, place, self.unseen != "error")
            tally.add(column.name, values, found, place)
            left += column.width

    def _category(self, batch: Batch, column: Choices | Hashed, place: Place) -> pl.Series:
        values = values_of(batch.frame, column.name)
        if column.written:
            values = column.written.with_missing(values)
        if self.missing == "error" and values.has_nulls():
            refuse_missing(column.name, int(values.is_null().arg_true()[0]), place)
        return values

    def _write_numbers(
        self, frame: pl.DataFrame, out: NDArray[np.float32], place: Place, tally: Tally
    ) -> None:
        indicator, named = len(self._numbers), {*(self.numeric or ())}
        for j, column in enumerate(self._numbers):
            second = out[:, indicator] if column.had_missing else None
            fill = self.missing == "median"
            values = values_of(frame, column.name)
            if column.name not in named:
                check_whole(column.name, values, place)
            absent = column.write(values, out[:, j], second, place, fill)
            tally.filled(column.name, absent)
            indicator += column.had_missing

    def _by_kind(self, schema: Mapping[str, pl.DataType]) -> tuple[list[str], list[str]]:
        """Return the columns of numbers and those of categories, in the table's order."""
        numeric, categorical = {*(self.numeric or ()), *self.dates}, set(self.categorical or ())
        ignored, dates = set(self.ignore), set(self.dates)
        for named in (self.numeric or (), self.categorical or (), self.ignore, self.dates):
            check_present("the table", named, list(schema))
        used = [name for name in schema if name not in ignored]
        if not used:
            raise DataError(f"the table has no column to make features of (has {listed(schema)})")
        for name in used:
            if name not in dates:
                check_kind(name, schema[name])
            if name not in numeric and name not in categorical:
                (numeric if _goes_as_number(schema[name]) else categorical).add(name)
        return [n for n in used if n in numeric], [n for n in used if n in categorical]

    def _check_fitted(self) -> None:
        if not hasattr(self, "feature_names_in_"):
            raise ConfigurationError("the table transformer was not fitted; call fit first")


def _goes_as_number(dtype: pl.DataType) -> bool:
    return is_number(dtype) or dtype == pl.Null


def _row_of(table: Table) -> Place:
    return lambda row: f"row {table.number(row)}"


def _place(batch: Batch, table: Table) -> Place:
    return lambda row: f"row {table.number(int(batch.places[row]))}"


class _Part:
    """The rows of a result that a batch fills: a view where they lie together, else a scratch.

    The rows hold zeros before.
    """

    def __init__(self, whole: NDArray[np.float32], places: NDArray[np.int64]) -> None:
        self._whole = whole
        self._places = places
        self._together = bool((np.diff(places) == 1).all())

    def __enter__(self) -> NDArray[np.float32]:
        if self._together:
            first = int(self._places[0])
            self._rows = self._whole[first : first + len(self._places)]
        else:
            self._rows = np.zeros((len(self._places), self._whole.shape[1]), dtype=np.float32)
        return self._rows

    def __exit__(self, *_: object) -> None:
        if not self._together:
            self._whole[self._places] = self._rows
