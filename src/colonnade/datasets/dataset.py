"""A data set cut vertically: the same people, different columns in different organisations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import ConfigurationError, DataError
from colonnade.kernels.philox import permutation
from colonnade.models import all_finite
from colonnade.streams import StreamKey

__all__ = ["VerticalDataset"]


@dataclass(frozen=True, eq=False, repr=False)
class VerticalDataset:
    """Rows already aligned, features by party, labels, and which rows are for what.

    Parameters
    ----------
    name
        What the data set is called in reports.
    features
        For every party, in party order, its columns: float32, shape ``[N, ...]``, all finite.
    labels
        Classes ``0 ... classes - 1``: int64, shape ``[N]``.
    classes
        How many classes there are, at least 2.
    train, test
        Row numbers to train on and to evaluate on: int64, not empty, no row twice or in both.
    notes
        What a reader of a result should know about where the data come from.
    validation
        Row numbers to choose the model by, of which none is in the others: int64, may be empty.

    Raises
    ------
    DataError
        If one of these does not hold.

    Examples
    --------
    >>> dataset = VerticalDataset(
    ...     name="toy",
    ...     features={"bank": torch.zeros(6, 3), "shop": torch.ones(6, 2)},
    ...     labels=torch.tensor([0, 1, 0, 1, 0, 1]),
    ...     classes=2,
    ...     train=np.arange(4),
    ...     test=np.arange(4, 6),
    ... )
    >>> dataset
    VerticalDataset('toy', 2 parties, 4 + 2 rows, 2 classes)
    >>> dataset.head(train=2)
    VerticalDataset('toy', 2 parties, 2 + 2 rows, 2 classes)
    """

    name: str
    features: dict[str, Tensor]
    labels: Tensor
    classes: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    notes: str = ""
    validation: NDArray[np.int64] = field(default_factory=lambda: np.arange(0, dtype=np.int64))

    def __post_init__(self) -> None:
        self._check_labels()
        self._check_features()
        self._check_rows("train", self.train)
        self._check_rows("test", self.test)
        if len(self.validation):
            self._check_rows("validation", self.validation)
        for one, other in combinations(("train", "validation", "test"), 2):
            shared = np.intersect1d(getattr(self, one), getattr(self, other))
            if len(shared):
                raise DataError(
                    f"{self.name}: {len(shared)} rows are both in {one} and in {other}, the first "
                    f"is row {shared[0]}; a row may be in one of them only"
                )

    def __repr__(self) -> str:
        parts = [self.train, *([self.validation] if len(self.validation) else []), self.test]
        return (
            f"VerticalDataset({self.name!r}, {len(self.features)} parties, "
            f"{' + '.join(str(len(rows)) for rows in parts)} rows, {self.classes} classes)"
        )

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of the parties, in party order."""
        return tuple(self.features)

    @property
    def rows(self) -> int:
        """How many rows every party holds, N."""
        return len(self.labels)

    @property
    def people(self) -> None:
        """Nobody was left out: rows come aligned."""
        return None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Nothing has to be known of the data."""
        return ()

    @property
    def transformers(self) -> Mapping[str, Any]:
        """Nothing: the features were never a table."""
        return {}

    def with_validation(self, share: float) -> VerticalDataset:
        """Return the data set with a share of the training rows set aside to choose the model by.

        Which rows is decided by a permutation that is the same everywhere.

        Parameters
        ----------
        share
            Of the training rows; 0 for none.

        Raises
        ------
        ConfigurationError
            If the share is not from 0 to below 1, or leaves no row for one of the two.

        Examples
        --------
        >>> dataset = VerticalDataset(
        ...     "toy", {"bank": torch.zeros(10, 1)}, torch.tensor([0, 1] * 5),
        ...     classes=2, train=np.arange(8), test=np.arange(8, 10),
        ... )
        >>> divided = dataset.with_validation(0.25)
        >>> len(divided.train), len(divided.validation), divided
        (6, 2, VerticalDataset('toy', 1 parties, 6 + 2 + 2 rows, 2 classes))
        """
        if share == 0:
            return self
        count = round(share * len(self.train))
        if not 0 < share < 1 or not 0 < count < len(self.train):
            raise ConfigurationError(
                f"a share of {share} of {len(self.train)} training rows leaves none for training "
                "or for validation; choose one between 0 and 1"
            )
        order = permutation(StreamKey(0, "", "validation", 0), len(self.train))
        return replace(
            self,
            train=np.sort(self.train[order[count:]]),
            validation=np.sort(self.train[order[:count]]),
        )

    def head(self, train: int | None = None, test: int | None = None) -> VerticalDataset:
        """Return the first ``train`` training rows and the first ``test`` test rows.

        All other rows are left out and the rest renumbered: training rows first, then test rows,
        each in their old order. The values are copies.

        Parameters
        ----------
        train, test
            How many rows to keep; ``None`` keeps all.

        Raises
        ------
        ConfigurationError
            If a number is below 1 or more than there are.

        Examples
        --------
        >>> dataset = VerticalDataset(
        ...     "toy", {"bank": torch.arange(4.0).reshape(4, 1)}, torch.tensor([0, 1, 1, 0]),
        ...     classes=2, train=np.array([1, 3]), test=np.array([0, 2]),
        ... )
        >>> small = dataset.head(train=1)
        >>> small.features["bank"].flatten(), small.train, small.test
        (tensor([1., 0., 2.]), array([0]), array([1, 2]))
        """
        kept_train = _first("train", self.train, train)
        kept_test = _first("test", self.test, test)
        kept = torch.from_numpy(np.concatenate([kept_train, kept_test]))
        order = np.arange(len(kept), dtype=np.int64)
        return replace(
            self,
            features={party: values[kept] for party, values in self.features.items()},
            labels=self.labels[kept],
            train=order[: len(kept_train)],
            test=order[len(kept_train) :],
            validation=order[:0],
        )

    def _check_labels(self) -> None:
        if self.classes < 2:
            raise DataError(f"{self.name}: needs at least 2 classes, not {self.classes}")
        if self.labels.dtype != torch.int64 or self.labels.ndim != 1:
            raise DataError(
                f"{self.name}: labels must be int64 of shape [N], not {_kind(self.labels)}"
            )
        wrong = ((self.labels < 0) | (self.labels >= self.classes)).nonzero().flatten()
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"{self.name}: the label of row {row} is {int(self.labels[row])}; "
                f"expected 0 to {self.classes - 1}"
            )

    def _check_features(self) -> None:
        if not self.features:
            raise DataError(f"{self.name}: no party has features; at least one must")
        for party, values in self.features.items():
            if not party:
                raise DataError(f"{self.name}: a party has an empty name")
            if values.dtype != torch.float32 or values.ndim < 2 or values.numel() == 0:
                raise DataError(
                    f"{self.name}: the features of {party} must be float32 of shape [N, ...] "
                    f"and not empty, not {_kind(values)}"
                )
            if len(values) != self.rows:
                raise DataError(
                    f"{self.name}: {party} has {len(values)} rows, but there are {self.rows} "
                    "labels; align the rows first"
                )
            if not all_finite(values):
                row = int((~values.isfinite()).flatten(1).any(1).nonzero()[0])
                raise DataError(
                    f"{self.name}: row {row} of {party} holds a value that is not a finite "
                    "number; fill in missing values first"
                )

    def _check_rows(self, what: str, rows: NDArray[np.int64]) -> None:
        if rows.dtype != np.int64 or rows.ndim != 1:
            raise DataError(
                f"{self.name}: {what} must be int64 row numbers of shape [n], not "
                f"{rows.dtype} of shape {list(rows.shape)}"
            )
        if len(rows) == 0:
            raise DataError(f"{self.name}: {what} has no row")
        if rows.min() < 0 or rows.max() >= self.rows:
            raise DataError(
                f"{self.name}: {what} names rows {rows.min()} to {rows.max()}; "
                f"expected 0 to {self.rows - 1}"
            )
        if len(np.unique(rows)) != len(rows):
            raise DataError(f"{self.name}: {what} names a row twice")


def _first(what: str, rows: NDArray[np.int64], count: int | None) -> NDArray[np.int64]:
    if count is None:
        return rows
    if not 1 <= count <= len(rows):
        raise ConfigurationError(
            f"asked for the first {count} {what} rows; expected 1 to {len(rows)}"
        )
    return rows[:count]


def _kind(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} of shape {list(values.shape)}"
