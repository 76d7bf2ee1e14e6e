"""A scikit-learn transformer fitted on one party's training rows, checked as it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import ConfigurationError, DataError, InvalidInput
from colonnade.models import Features
from colonnade.tables.frames import as_array
from colonnade.tables.id_form import IdForm
from colonnade.tables.names import check_present
from colonnade.tables.notes import about, tell
from colonnade.tables.table import SelectedRows, Table, as_table, whole
from colonnade.telling import first_line

if TYPE_CHECKING:
    from colonnade.tables.transformer import TableTransformer

__all__ = ["FittedTransformer", "fitted", "fitted_and_notes"]

_ROWS = 2**14


def fitted(
    transformer: Any, frame: Any, rows: NDArray[np.int64], name: str = ""
) -> FittedTransformer:
    """Fit a copy of a transformer on training rows only.

    Parameters
    ----------
    transformer
        A ``TableTransformer``, or any scikit-learn transformer; it is cloned, not changed.
    frame
        The party's table, what ``as_frame`` takes; every column is used.
    rows
        The training rows.
    name
        The party, for messages.

    Raises
    ------
    ConfigurationError
        If this is no transformer.
    DataError
        If the transformer cannot be fitted on these rows.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> people = pl.DataFrame({"age": [20.0, 40.0, 80.0]})
    >>> fitted(MinMaxScaler(), people, np.array([0, 1])).transform(people).flatten()
    tensor([0., 1., 3.])
    """
    found, notes = fitted_and_notes(transformer, frame, rows, name)
    tell(notes)
    return found


def fitted_and_notes(
    transformer: Any, frame: Any, rows: NDArray[np.int64], name: str = ""
) -> tuple[FittedTransformer, tuple[str, ...]]:
    """Return what ``fitted`` does, and what it would warn of."""
    for method in ("fit", "transform"):
        if isinstance(transformer, type) or not callable(getattr(transformer, method, None)):
            raise ConfigurationError(
                f"{_of(name)}a transformer must have fit and transform, as scikit-learn's have, "
                f"not {transformer!r}"
            )
    from sklearn.base import clone  # only here: whoever has no table should not wait

    try:
        own = clone(transformer)
    except TypeError as error:
        raise ConfigurationError(
            f"{_of(name)}{_called(transformer)} cannot be cloned, as scikit-learn's can: {error}"
        ) from error
    table = as_table(frame)
    notes: tuple[str, ...] = ()
    if len(rows) == 0:
        raise DataError(f"{_of(name)}there are no training rows to fit {_called(own)} on")
    rows = np.asarray(rows, dtype=np.int64)
    training = table.only(rows) if isinstance(table, SelectedRows) else SelectedRows(table, rows)
    if _is_ours(own):
        notes = _attempt(own, "check", table, name)
        _attempt(own, "learn", training, name)
    else:
        _attempt(own, "fit", whole(training), name)
    learned = FittedTransformer(own, tuple(table.schema), name)
    return learned, about(_of(name), notes)


@dataclass(frozen=True, eq=False)
class FittedTransformer:
    """A transformer that learned from training rows, and gives features that can be trained on.

    Parameters
    ----------
    transformer
        The fitted transformer.
    columns
        The columns it was fitted on.
    name
        The party, for messages.
    id, normalise
        The column by which rows were found to belong together, and the form in which ids are
        compared; None where there was none.
    """

    transformer: Any
    columns: tuple[str, ...]
    name: str = ""
    id: str | None = None
    normalise: IdForm | None = None

    def transform(self, frame: Any) -> Features:
        """Return the features of a table: dense, finite float32, a row for each row.

        Columns are found by name; others are ignored.

        Raises
        ------
        DataError
            If a column is missing, the transformer fails, or what it returns cannot be trained on.
        """
        features, notes = self.features_and_notes(frame)
        tell(notes)
        return features

    def features_and_notes(self, frame: Any) -> tuple[Features, tuple[str, ...]]:
        """Return the features of a table, and what ``transform`` would warn of."""
        table = as_table(frame, by_place=True)
        where = f"the table of {self.name!r}" if self.name else "the table"
        check_present(where, self.columns, list(table.schema))
        if _is_ours(self.transformer):
            # It checks what it returns, and reads a batch at a time.
            features, notes = _attempt(self.transformer, "features_and_notes", table, self.name)
            return features, about(_of(self.name), notes)
        data = whole(as_table(table, self.columns))
        return self._checked(_attempt(self.transformer, "transform", data, self.name), table), ()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """What the features are called, if the transformer can tell."""
        try:
            return tuple(map(str, self.transformer.get_feature_names_out()))
        except Exception:  # a foreign transformer may not know, each in its own way
            return None

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of categories that were text in training; of a foreign transformer none."""
        return self.transformer.text_columns if _is_ours(self.transformer) else ()

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many codes each categorical column of the features has; empty for a tensor."""
        return tuple(getattr(self.transformer, "cardinalities_", None) or ())

    def read(self) -> Iterator[tuple[str, str, int | None]]:
        """Yield each column, as what it was read, and how many features it makes, where known."""
        if _is_ours(self.transformer):
            yield from self.transformer.read()
            return
        for column in self.columns:
            yield column, f"left to {_called(self.transformer)}", None

    def state(self) -> dict[str, Any] | None:
        """Return the state of a ``TableTransformer``; None for a foreign one."""
        if _is_ours(self.transformer):
            return self.transformer.state()
        return None

    def _checked(self, result: Any, table: Table) -> Tensor:
        what = f"{_of(self.name)}{_called(self.transformer)}"
        if isinstance(result, pl.DataFrame):
            _check_times(what, result)
        if isinstance(result, pl.DataFrame) or hasattr(result, "iloc"):
            result = result.to_numpy()
        elif isinstance(result, Tensor):
            result = as_array(result, f"{what}: what it returned")
        sparse = hasattr(result, "tocsr")
        rows: Any = result.tocsr() if sparse else np.asarray(result)
        if isinstance(result, np.ma.MaskedArray) or rows.dtype.kind in "mMc":
            kind = "a masked array" if isinstance(result, np.ma.MaskedArray) else rows.dtype
            _refuse_kind(what, kind)
        if rows.ndim != 2 or rows.shape[0] != table.height or rows.shape[1] == 0:
            raise DataError(
                f"{what} returned an array of shape {list(rows.shape)} for {table.height} rows; "
                f"expected [{table.height}, features]"
            )
        features = np.empty(rows.shape, dtype=np.float32)
        for first in range(0, table.height, _ROWS):
            part = rows[first : first + _ROWS]
            block = features[first : first + _ROWS]
            try:
                with np.errstate(over="ignore"):
                    block[:] = part.toarray() if sparse else part
            except (TypeError, ValueError) as error:
                raise DataError(
                    f"{what} returned values that are no numbers: {error}; "
                    "encode categories, for example by OneHotEncoder"
                ) from error
            finite = np.isfinite(block)
            if not finite.all():
                row, column = np.argwhere(~finite)[0]
                names = self.feature_names
                shown = repr(names[column]) if names and column < len(names) else int(column)
                raise DataError(
                    f"{what} returned {block[row, column]} in row "
                    f"{table.number(first + int(row))}, column {shown}; "
                    "fill in missing values, for example by SimpleImputer"
                )
        return torch.from_numpy(features)


def _check_times(what: str, frame: pl.DataFrame) -> None:
    """Raise ``DataError`` if a column holds dates or times: beside numbers they become such."""
    for name, dtype in frame.schema.items():
        if dtype.is_temporal():
            _refuse_kind(what, f"{dtype} in column {name!r}")


def _refuse_kind(what: str, kind: Any) -> NoReturn:
    raise DataError(
        f"{what} returned {kind}, which is more than numbers; let it return finite floats"
    )


def _attempt(transformer: Any, method: str, data: Any, name: str) -> Any:
    """Call a method; what it raises becomes an error that names the party."""
    try:
        return getattr(transformer, method)(data)
    except InvalidInput as error:
        if not name:
            raise
        raise type(error)(f"{_of(name)}{error}") from error
    except Exception as error:  # a foreign transformer may raise anything
        if _is_ours(transformer):
            raise  # our own mistake, not one of the data
        line = first_line(error)
        advice = ""
        if isinstance(error, AttributeError | KeyError | TypeError | ImportError):
            advice = (
                "; it was given a frame of polars, so if it needs pandas, put a "
                "FunctionTransformer before it that converts"
            )
        raise DataError(
            f"{_of(name)}{_called(transformer)} cannot {method} the table: {line}{advice}"
        ) from error


def _is_ours(transformer: Any) -> TypeGuard[TableTransformer]:
    from colonnade.tables.transformer import TableTransformer  # only here: it needs scikit-learn

    return isinstance(transformer, TableTransformer)


def _called(transformer: Any) -> str:
    return type(transformer).__name__


def _of(name: str) -> str:
    return f"{name!r}: " if name else ""
