"""Sections about the models: their layers, what they predict, and what trains them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import pydantic
import torch
from pydantic import AfterValidator, Field
from torch.optim import lr_scheduler

from colonnade import defaults
from colonnade.assembly import Bottom, BoundedBottom, SparseBottom
from colonnade.config.bottoms import MlpConfig, TopConfig
from colonnade.config.choices import chosen
from colonnade.config.sections import Chosen, Count, Name, Number, Section
from colonnade.errors import ConfigurationError
from colonnade.metrics import ACCURACY, AUC, F1, LOG_LOSS, MACRO_F1, RMSE, Metric, top_k
from colonnade.models import OptimiserFactory, SchedulerFactory
from colonnade.objectives import Classification, Objective, Regression

__all__ = [
    "LabelHolderConfig",
    "ModelConfig",
    "ObjectiveConfig",
    "OptimiserConfig",
    "SchedulerConfig",
]

_OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}


if TYPE_CHECKING:
    _Bottom: TypeAlias = Chosen
    _Top: TypeAlias = Chosen
else:
    _Bottom = chosen("models")
    _Top = chosen("tops")


class ModelConfig(Section):
    """Each party's bottom model, and the label holder's top model without its output layer."""

    bottom: _Bottom = Field(
        MlpConfig(), description="what each party turns its columns into embeddings by"
    )
    bottoms: dict[Name, _Bottom] = Field({}, description="bottom models of parties that differ")
    top: _Top = Field(
        TopConfig(), description="what the label holder predicts by, from all embeddings"
    )
    sparsity: Number = Field(
        0.0,
        ge=0,
        lt=math.inf,
        description="strength of a penalty on the L1 norm of embeddings, which makes their entropy "
        "codes shorter; see ``Sparse``",
    )
    bound: Number | None = Field(
        None,
        gt=0,
        lt=math.inf,
        description="keeps components of embeddings between -bound and bound by a tanh after each "
        "bottom model, as the method pbm_vfl needs of one that does not end in tanh; see "
        "``Bounded``",
    )
    device: str = Field(
        "cpu", description="where models compute, as torch names it: cpu, cuda, cuda:1, mps"
    )

    def bottom_models(self) -> tuple[Bottom, dict[str, Bottom]]:
        """Return the bottom model, and those of parties that differ, without their inputs."""
        made: list[Bottom] = [config.build() for config in (self.bottom, *self.bottoms.values())]
        if self.bound is not None:
            made = [BoundedBottom(inner, self.bound) for inner in made]
        if self.sparsity:
            made = [SparseBottom(inner, self.sparsity) for inner in made]
        return made[0], dict(zip(self.bottoms, made[1:], strict=True))


class SchedulerConfig(Section):
    """How the learning rate changes from epoch to epoch."""

    name: Literal["cosine", "step", "milestones", "exponential"]
    epochs: Count | None = Field(None, description="cosine: until the lowest; all by default")
    lowest: Number = Field(0.0, ge=0, lt=math.inf, description="cosine: the rate it ends with")
    every: Count | None = Field(None, description="step: epochs between two steps")
    milestones: list[Count] = Field([], description="milestones: epochs after which it changes")
    factor: Number = Field(0.1, gt=0, le=1, description="what a step multiplies the rate by")

    @pydantic.model_validator(mode="after")
    def _fits(self) -> SchedulerConfig:
        needed = {"step": ("every", self.every), "milestones": ("milestones", self.milestones)}
        key, value = needed.get(self.name, ("", True))
        if not value:
            raise ValueError(f"{self.name} needs {key}")
        return self

    def build(self, epochs: int) -> SchedulerFactory:
        """Return what makes the scheduler of an optimiser, for training of ``epochs``."""
        match self.name:
            case "cosine":
                return partial(
                    lr_scheduler.CosineAnnealingLR,
                    T_max=self.epochs or epochs,
                    eta_min=self.lowest,
                )
            case "step":
                assert self.every is not None
                return partial(lr_scheduler.StepLR, step_size=self.every, gamma=self.factor)
            case "milestones":
                return partial(
                    lr_scheduler.MultiStepLR, milestones=self.milestones, gamma=self.factor
                )
            case "exponential":
                return partial(lr_scheduler.ExponentialLR, gamma=self.factor)


class OptimiserConfig(Section):
    """The optimiser that every organisation uses; settings left out are torch's."""

    name: Literal["sgd", "adam", "adamw", "adagrad", "rmsprop"] = "adam"
    lr: Number = Field(defaults.LEARNING_RATE, gt=0, lt=math.inf)
    momentum: Number | None = Field(None, ge=0, lt=math.inf)
    weight_decay: Number | None = Field(None, ge=0, lt=math.inf)
    scheduler: SchedulerConfig | None = Field(None, description="a constant rate by default")

    @pydantic.model_validator(mode="after")
    def _fits(self) -> OptimiserConfig:
        if self.momentum is not None and self.name not in ("sgd", "rmsprop"):
            raise ValueError(f"{self.name} has no momentum")
        return self

    def build(self) -> OptimiserFactory:
        """Return what makes the optimiser of some parameters."""
        settings = self.model_dump(exclude={"name", "scheduler"}, exclude_none=True)
        return partial(_OPTIMISERS[self.name], **settings)

    def build_scheduler(self, epochs: int) -> SchedulerFactory | None:
        """Return what makes the scheduler of an optimiser, if there is one."""
        return None if self.scheduler is None else self.scheduler.build(epochs)


class LabelHolderConfig(Section):
    """Who has the labels."""

    name: Name = "label_holder"
    holds: Name | None = Field(
        None, description="a part of the data that is its own, not a party's"
    )


_METRICS = {m.name: m for m in (ACCURACY, AUC, F1, LOG_LOSS, MACRO_F1, RMSE)}
_TOP_K = re.compile(r"top_([1-9][0-9]{0,5})_accuracy")


def _metric(name: str) -> Metric:
    if match := _TOP_K.fullmatch(name):
        return top_k(int(match[1]))
    return _METRICS[name]


def _known_metric(name: str) -> str:
    if name not in _METRICS and not _TOP_K.fullmatch(name):
        raise ValueError(
            f"there is no such metric; there are {', '.join(_METRICS)} and top_5_accuracy"
        )
    return name


class ObjectiveConfig(Section):
    """What is predicted, and how it is judged; classes or a number is decided by the labels."""

    metrics: list[Annotated[str, AfterValidator(_known_metric)]] = Field(
        [], description="the deciding one first; the usual ones by default"
    )
    class_weights: Literal["balanced"] | list[Number] | None = Field(
        None, description="what a row of each class counts in the loss; equal by default"
    )
    threshold: Number | None = Field(
        None, gt=0, lt=1, description="the probability from which class 1 of two is predicted"
    )

    mean: Number | None = Field(
        None, description="of numbers: about where they lie; by default that of the training rows"
    )
    scale: Number | None = Field(
        None, gt=0, description="of numbers: about how far apart; by default as the mean"
    )

    def build(self, classes: int | None) -> Objective:
        """Return the objective for so many classes, or for numbers.

        Raises
        ------
        ConfigurationError
            If the settings do not fit the labels.
        """
        metrics = tuple(map(_metric, self.metrics))
        try:
            if classes is None:
                if self.class_weights is not None or self.threshold is not None:
                    raise ConfigurationError(
                        "class_weights and threshold are for classes, not numbers"
                    )
                return Regression(metrics, self.mean, self.scale)
            if self.mean is not None or self.scale is not None:
                raise ConfigurationError("mean and scale are for numbers, not classes")
            weights: Any = self.class_weights
            if isinstance(weights, list):
                weights = tuple(weights)
            return Classification(classes, weights, self.threshold, metrics)
        except ConfigurationError as error:
            raise ConfigurationError(f"objective: {error}") from None
