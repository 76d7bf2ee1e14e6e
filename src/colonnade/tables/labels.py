"""Labels of a table as what a loss takes: classes 0, 1, ... or numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import ConfigurationError, DataError
from colonnade.tables.columns import values_alone
from colonnade.tables.frames import as_series
from colonnade.tables.kinds import is_category
from colonnade.tables.names import listed
from colonnade.tables.place import Place

__all__ = ["EncodedLabels", "Task", "check_spread", "encode_labels"]

Task = Literal["auto", "classification", "regression"]

_COARSE = 0.01  # of the deviation of numbers, beyond which what rounds them is told of
_LEAST = np.finfo(np.float32).smallest_normal  # deviation by which float32 is divided
_FEW = 20  # whole numbers with more different values than this need not be classes


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """Labels, and what they stand for.

    Parameters
    ----------
    values
        Classes, int64 ``[N]``, or numbers, float32 ``[N]``.
    classes
        For classes, the value that each stands for: 0 for the first. None for numbers.
    notes
        What should be known of them.
    """

    values: Tensor
    classes: tuple[Any, ...] | None
    notes: tuple[str, ...] = field(default=(), repr=False)


def encode_labels(
    labels: Any,
    task: Task = "auto",
    classes: tuple[Any, ...] | None = None,
    place: Place | None = None,
) -> EncodedLabels:
    """Return labels as classes or numbers.

    "auto" means classes for text, truth values and categoricals, and for whole numbers with at
    most 20 different values; numbers for other floats. Integers with more different values may be
    either, so one must say which.

    Parameters
    ----------
    labels
        What ``as_series`` takes, one value a row.
    task
        Whether the labels are classes or numbers.
    classes
        The classes, where they are known already, for labels of further rows; then ``task`` is
        classification.
    place
        Tells a row for a message.

    Raises
    ------
    ConfigurationError
        If the task is none, or the labels may be for either.
    DataError
        If a label is missing, not finite, or not among the given classes, there is one class only,
        or labels cannot be classes or cannot be numbers.

    Examples
    --------
    >>> encode_labels(["no", "yes", "no"])
    EncodedLabels(values=tensor([0, 1, 0]), classes=('no', 'yes'))
    >>> encode_labels([0.5, 2.0]).values
    tensor([0.5000, 2.0000])
    >>> encode_labels(["yes"], classes=("no", "yes")).values
    tensor([1])
    """
    if task not in ("auto", "classification", "regression"):
        raise ConfigurationError(
            f"task must be 'auto', 'classification' or 'regression', not {task!r}"
        )
    place = place or (lambda row: f"row {row}")
    values = values_alone(as_series(labels))
    if values.dtype.is_float():
        values = values.fill_nan(None)
    if values.is_empty():
        raise DataError("there are no labels")
    if values.has_nulls():
        row = int(values.is_null().arg_true()[0])
        raise DataError(
            f"the label of {place(row)} is missing; leave the row out, or find its label"
        )
    values = _simple(values, place)
    if classes is None and _is_regression(values, task):
        return _as_numbers(values, place)
    return _as_classes(values, classes, place)


def _simple(values: pl.Series, place: Place) -> pl.Series:
    """Return labels as text, truth values, int64 or float64."""
    dtype = values.dtype
    if dtype == pl.Boolean:
        return values
    if is_category(dtype):
        return values.cast(pl.String)
    if dtype.is_integer():
        whole = values.cast(pl.Int64, strict=False)
        if whole.has_nulls():
            row = int(whole.is_null().arg_true()[0])
            raise DataError(
                f"the label of {place(row)} is {values[row]}, which is beyond 64 bits with a sign; "
                "if it names a class, give it as text"
            )
        return whole
    if dtype.is_numeric():
        return values.cast(pl.Float64)
    raise DataError(
        f"the labels hold {dtype}; expected text, truth values, whole numbers or floats; "
        "make one of these of them first, such as days since a day, or text of a class"
    )


def _is_regression(values: pl.Series, task: Task) -> bool:
    if task != "auto":
        return task == "regression"
    if not values.dtype.is_numeric():
        return False
    few = values.n_unique() <= _FEW
    if values.dtype.is_integer():
        if not few:
            raise ConfigurationError(
                f"the labels are whole numbers with {values.n_unique()} different values; "
                "say task='classification' or task='regression' (YAML: data: {task: ...})"
            )
        return False
    return not (few and _all_whole(values))


def _as_numbers(values: pl.Series, place: Place) -> EncodedLabels:
    if not values.dtype.is_numeric():
        comma = values.dtype == pl.String and values.str.contains(r"^[+-]?[0-9]+,[0-9]+$").any()
        first = "read the table with decimal=','" if comma else "convert them"
        raise DataError(
            f"the labels are like {values[0]!r}, and regression needs numbers; {first}, or learn "
            "classes (task='classification', in YAML data: {task: classification}; of the "
            "estimators, VerticalClassifier)"
        )
    numbers = values.cast(pl.Float64).to_numpy()
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float32)
    if not np.isfinite(small).all():
        row = int(np.argmin(np.isfinite(small)))
        raise DataError(
            f"the label of {place(row)} is {numbers[row]}; expected finite numbers within float32"
        )
    return EncodedLabels(torch.from_numpy(small), None, tuple(_rounded(numbers, small)))


def check_spread(numbers: NDArray[np.float64]) -> None:
    """Refuse labels to be learned whose deviation is below what float32 can be divided by.

    Raises
    ------
    DataError
        If they are too near each other, and not all the same.

    Examples
    --------
    >>> check_spread(np.array([0.5, 2.0]))
    >>> check_spread(np.array([0.0, 1e-40]))
    Traceback (most recent call last):
    colonnade.errors.DataError: the labels range from 0 to 1e-40, too near for their deviation \
within float32; give them in another unit
    """
    low, high = numbers.min(), numbers.max()
    if low != high and numbers.std() < _LEAST:
        raise DataError(
            f"the labels range from {low:.4g} to {high:.4g}, too near for their deviation within "
            "float32; give them in another unit"
        )


def _rounded(numbers: NDArray[np.float64], small: NDArray[np.float32]) -> Iterator[str]:
    """Yield a sentence if float32 rounds numbers by more than is small beside how they differ.

    >>> numbers = 1e9 + np.array([-2.0, 2.0])
    >>> print(*_rounded(numbers, numbers.astype(np.float32)))
    the labels are kept as float32, which rounds them by up to 2, and their standard deviation is \
2; subtract their mean, 1000000000, from them first, and add it to what is predicted
    """
    most = float(np.abs(numbers - small).max())
    spread = float(numbers.std())
    if most > _COARSE * spread > 0:
        yield (
            f"the labels are kept as float32, which rounds them by up to {most:.3g}, and their "
            f"standard deviation is {spread:.3g}; subtract their mean, {numbers.mean():.10g}, from "
            "them first, and add it to what is predicted"
        )


def _as_classes(values: pl.Series, classes: tuple[Any, ...] | None, place: Place) -> EncodedLabels:
    if values.dtype.is_float():
        if _all_whole(values):
            values = values.cast(pl.Int64)
        elif values.n_unique() > _FEW or not values.is_finite().all():
            raise DataError(
                f"the labels are fractions with {values.n_unique()} different values, which "
                "cannot be classes; learn numbers (task='regression'; of the estimators, "
                "VerticalRegressor), or cut them into classes"
            )
    if classes is None:
        classes = tuple(values.unique().sort())
        if len(classes) < 2:
            raise DataError(
                f"all {len(values)} labels are {classes[0]!r}; classification needs two classes "
                "or more"
            )
    number = {value: code for code, value in enumerate(classes)}
    found = values.unique(maintain_order=True)
    unknown = found.filter([value not in number for value in found])
    if len(unknown):
        row = int((values == unknown[0]).arg_true()[0])
        raise DataError(f"the label of {place(row)} is {unknown[0]!r}; expected {listed(classes)}")
    codes = values.replace_strict(found, [number[value] for value in found], return_dtype=pl.Int64)
    return EncodedLabels(torch.from_numpy(codes.to_numpy().copy()), classes)


def _all_whole(values: pl.Series) -> bool:
    return (
        bool(values.is_finite().all())
        and bool((values == values.floor()).all())
        and bool((values.abs() < 2.0**53).all())
    )
