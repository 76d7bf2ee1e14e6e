"""What the top model is to predict: classes or a number; its outputs, its loss, its metrics."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from colonnade.annotated import is_number, make_plain
from colonnade.errors import ConfigurationError, DataError
from colonnade.metrics import (
    ACCURACY,
    AUC,
    F1,
    LOG_LOSS,
    MACRO_F1,
    RMSE,
    Metric,
    at_threshold,
)
from colonnade.tables.labels import check_spread
from colonnade.telling import shown

__all__ = ["Classification", "Objective", "Regression", "Rescaled", "balanced_weights"]

_HEAVIEST = 1e20  # a class; sums of as heavy losses are float32

Loss = Callable[[Tensor, Tensor], Tensor]

_MOST_ROWS = 2**40  # of a table


class Objective(Protocol):
    """What is predicted; a frozen value."""

    @property
    def outputs(self) -> int:
        """How many numbers the top model returns for a row."""
        ...

    def learned(self, labels: Tensor) -> dict[str, Any]:
        """Return what loss and top model know of the training rows' labels, as JSON values."""
        ...

    def loss(self, learned: Mapping[str, Any]) -> Loss:
        """Return the loss of a batch, given what was learned of the training rows.

        Raises
        ------
        InvalidInput
            If nothing of the kind can have been learned of labels: another may have told it.
        """
        ...

    def finished(self, top: nn.Module, learned: Mapping[str, Any]) -> nn.Module:
        """Return the top model with what belongs behind it."""
        ...

    def metrics(self) -> list[Metric]:
        """Return what evaluations report, the deciding one first."""
        ...


@dataclass(frozen=True)
class Classification:
    """One of several classes, by cross entropy.

    Parameters
    ----------
    classes
        How many, 2 or more.
    class_weights
        What a row of each class counts in the loss; ``"balanced"`` for the inverse of how frequent
        the class is among the training rows; None for equal.
    threshold
        With two classes: from which probability class 1 is predicted. It moves accuracy and F1, not
        training, AUC or log-loss.
    chosen_metrics
        Reported instead of the usual ones.

    Examples
    --------
    >>> [metric.name for metric in Classification(2).metrics()]
    ['auc', 'log_loss', 'accuracy', 'f1']
    """

    classes: int
    class_weights: Literal["balanced"] | tuple[float, ...] | None = None
    threshold: float | None = None
    chosen_metrics: tuple[Metric, ...] = ()

    def __post_init__(self) -> None:
        make_plain(Classification, self)
        if self.classes < 2:
            raise ConfigurationError(f"there must be 2 classes or more, not {self.classes}")
        weights = self.class_weights
        if weights is not None and weights != "balanced" and not isinstance(weights, tuple):
            raise ConfigurationError(
                f"class weights are 'balanced' or a number for each class, not {weights!r}"
            )
        if isinstance(weights, tuple):
            if not all(is_number(weight) for weight in weights):
                raise ConfigurationError(f"class weights are numbers, not {shown([*weights])}")
            if len(weights) != self.classes:
                raise ConfigurationError(
                    f"class_weights has {len(weights)} numbers for {self.classes} classes"
                )
            if not all(0 < weight < float("inf") for weight in weights):
                raise ConfigurationError(f"class weights must be above 0, not {shown([*weights])}")
            if not all(1 / _HEAVIEST <= weight <= _HEAVIEST for weight in weights):
                raise ConfigurationError(
                    f"class weights are numbers from {1 / _HEAVIEST:g} to {_HEAVIEST:g}, not "
                    f"{shown([*weights])}"
                )
        if self.threshold is not None:
            if self.classes != 2:
                raise ConfigurationError(
                    f"a threshold decides between two classes, and there are {self.classes}"
                )
            at_threshold(ACCURACY, self.threshold)  # refuses what is no probability

    @property
    def outputs(self) -> int:
        """A logit for each class."""
        return self.classes

    def learned(self, labels: Tensor) -> dict[str, Any]:
        """Return how many training rows are of each class, where classes are balanced by that."""
        if self.class_weights != "balanced":
            return {}
        return {"counts": torch.bincount(labels, minlength=self.classes).tolist()}

    def loss(self, learned: Mapping[str, Any]) -> Loss:
        """Return the cross entropy, weighted as was asked for.

        Raises
        ------
        ConfigurationError
            If classes are balanced by what is no count of rows for each.
        DataError
            If they are, and one of them has no row.
        """
        weights = self.class_weights
        if weights is None:
            return nn.functional.cross_entropy
        if isinstance(weights, tuple):
            return nn.CrossEntropyLoss(weight=torch.tensor(weights, dtype=torch.float32))
        counts = learned.get("counts")
        if not isinstance(counts, list) or not all(_is_count(each) for each in counts):
            raise ConfigurationError(
                f"classes are balanced by how many rows each has, not by {shown(counts)}"
            )
        if len(counts) != self.classes:
            raise ConfigurationError(
                f"classes are balanced by {len(counts)} counts of rows, and there are "
                f"{self.classes} classes"
            )
        return nn.CrossEntropyLoss(weight=balanced_weights(counts))

    def finished(self, top: nn.Module, learned: Mapping[str, Any]) -> nn.Module:
        """Return the top model as it is: logits are what the loss takes."""
        return top

    def metrics(self) -> list[Metric]:
        """Return AUC, log-loss, accuracy and F1 of two classes; without AUC of more."""
        usual = (
            (AUC, LOG_LOSS, ACCURACY, F1) if self.classes == 2 else (ACCURACY, LOG_LOSS, MACRO_F1)
        )
        chosen = self.chosen_metrics or usual
        if self.threshold is None:
            return list(chosen)
        decided = (ACCURACY.name, F1.name, MACRO_F1.name)
        return [at_threshold(m, self.threshold) if m.name in decided else m for m in chosen]


@dataclass(frozen=True)
class Regression:
    """A number, by squared error.

    The network learns the standardised target, (y - mean) / scale; predictions and RMSE are in the
    target's own unit.

    Parameters
    ----------
    chosen_metrics
        Reported instead of RMSE.
    mean, scale
        About where targets lie and how far apart, as is known whatever they are; by default the
        mean and standard deviation of those of the training rows. By these every label has its
        part in the derivatives of all rows, so a defence of labels wants them given.

    Raises
    ------
    ConfigurationError
        If one is given and not the other, or they are no finite numbers with a scale above 0, or
        float32 does not hold them.

    Examples
    --------
    >>> Regression().learned(torch.tensor([1.0, 3.0]))
    {'mean': 2.0, 'scale': 1.0}
    >>> Regression(mean=50, scale=20).learned(torch.tensor([1.0, 3.0]))
    {}
    """

    chosen_metrics: tuple[Metric, ...] = ()
    mean: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        make_plain(Regression, self)
        if self.mean is None and self.scale is None:
            return
        if self.mean is None or self.scale is None:
            raise ConfigurationError("mean and scale belong together: give both, or neither")
        _unit_of(self.mean, self.scale)

    @property
    def outputs(self) -> int:
        """One number a row."""
        return 1

    def learned(self, labels: Tensor) -> dict[str, Any]:
        """Return mean and standard deviation of the training rows' targets, unless given.

        Raises
        ------
        DataError
            If they are not all the same, and their deviation is below what float32 can be divided
            by.
        """
        if self.scale is not None:
            return {}
        values = labels.double()
        check_spread(values.cpu().numpy())
        scale = float(values.std(correction=0))
        return {"mean": float(values.mean()), "scale": scale if scale > 0 else 1.0}

    def loss(self, learned: Mapping[str, Any]) -> Loss:
        """Return the mean of ((prediction - y) / scale)^2.

        Raises
        ------
        ConfigurationError
            If mean and scale that were learned are none that could be given.
        """
        _, scale = self._unit(learned)

        def squared_error(predictions: Tensor, truth: Tensor) -> Tensor:
            errors = predictions.reshape(truth.shape) - truth
            return (errors / scale).square().mean()

        return squared_error

    def finished(self, top: nn.Module, learned: Mapping[str, Any]) -> nn.Module:
        """Return the top model followed by the way back to the target's unit."""
        return nn.Sequential(top, Rescaled(*self._unit(learned)))

    def metrics(self) -> list[Metric]:
        """Return RMSE, or what was chosen."""
        return list(self.chosen_metrics or (RMSE,))

    def _unit(self, learned: Mapping[str, Any]) -> tuple[float, float]:
        if self.mean is None or self.scale is None:
            return _unit_of(learned.get("mean"), learned.get("scale"))
        return float(self.mean), float(self.scale)


def _is_count(value: object) -> bool:
    """Whether a value counts rows of a table."""
    return type(value) is int and 0 <= value <= _MOST_ROWS


def _unit_of(mean: Any, scale: Any) -> tuple[float, float]:
    """Return a mean and a scale as models take them; refuse what are none."""
    given = (mean, scale)
    middle, apart = (_as_float(each) if is_number(each) else math.nan for each in given)
    if not abs(middle) < math.inf > apart > 0:
        raise ConfigurationError(
            f"mean and scale must be finite numbers, the scale above 0, not {shown(given)}"
        )
    held = torch.finfo(torch.float32)
    if not abs(middle) <= held.max >= apart >= held.smallest_normal:
        raise ConfigurationError(
            f"mean and scale are {shown(mean)} and {shown(scale)}, but models compute in "
            f"float32, which has numbers to {held.max:.2g} and a scale from "
            f"{held.smallest_normal:.2g}: give both, and the labels, in another unit"
        )
    return middle, apart


def _as_float(number: float) -> float:
    """Return a number as a float; the largest float of a whole number beyond it."""
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max


class Rescaled(nn.Module):
    """mean + scale * x: from standardised values to those of the target.

    >>> Rescaled(10.0, 2.0)(torch.tensor([0.0, 1.0]))
    tensor([10., 12.])
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: float, scale: float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Return values in the target's unit."""
        return self.mean + self.scale * x


def balanced_weights(counts: Sequence[int]) -> Tensor:
    """Return n / (classes * n_c) for each class c of n_c among n rows, float32 ``[classes]``.

    Raises
    ------
    DataError
        If a class has no row.

    Examples
    --------
    >>> balanced_weights([3, 1])
    tensor([0.6667, 2.0000])
    """
    if 0 in counts:
        empty = list(counts).index(0)
        raise DataError(f"class {empty} has no training row, so it cannot be balanced")
    weights: Tensor = sum(counts) / (len(counts) * torch.tensor(counts)).float()
    return weights
