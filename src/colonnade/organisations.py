"""Who takes part: parties with columns, and the label holder."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.annotated import check_kind
from colonnade.errors import ConfigurationError, DataError
from colonnade.layout import check_names
from colonnade.models import (
    Features,
    Learner,
    OptimiserFactory,
    SchedulerFactory,
    check_bottom_learns,
    check_module,
    check_optimiser,
    check_schedule,
    copied,
    take,
)
from colonnade.secure import Secrets
from colonnade.telling import first_line, shown

__all__ = [
    "LabelHolder",
    "Loss",
    "Party",
    "Transformer",
    "check_everybody",
    "check_rows",
    "copied_loss",
    "squared_error",
]

Loss = Callable[[Tensor, Tensor], Tensor]
"""From predictions and labels of a batch to its mean loss."""


class Transformer(Protocol):
    """Turns a table of an organisation's own columns into features; already fitted."""

    def transform(self, frame: Any) -> Features:
        """Return the features of each row."""
        ...

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns that were text in training: new rows are read with text there."""
        ...

    def state(self) -> dict[str, Any] | None:
        """Return what it learned, as JSON values; None where it cannot say."""
        ...


def _adam() -> OptimiserFactory:
    return partial(torch.optim.Adam, lr=1e-3)


@dataclass(frozen=True)
class Party:
    """An organisation with feature columns.

    Parameters
    ----------
    name
        Its name, unique in the federation.
    features
        Its columns: a tensor ``[N, ...]``, or a dict of such tensors; row i is the same sample in
        every organisation.
    bottom
        Its bottom model, from a batch of features to embeddings ``[B, E]``. Parts of it that are in
        evaluation mode, as a frozen backbone's, stay in it in training.
    optimiser
        Makes the bottom's optimiser, by default Adam with learning rate 0.001.
    scheduler
        Makes the scheduler of its learning rate, which takes a step an epoch; by default the rate
        is constant.
    device
        Where its bottom model computes, as torch names it.
    transformer
        What made the features from its table, so that ``Run.predict`` can take tables too.
    secrets
        What it draws keys, masks and private noise from, where the method has any; its identity
        comes from them. By default new ones for each run. Those made of a seed are refused, but in
        a declared simulation.
    """

    name: str
    features: Features
    bottom: nn.Module
    optimiser: OptimiserFactory = field(default_factory=_adam)
    scheduler: SchedulerFactory | None = None
    device: str | torch.device = "cpu"
    transformer: Transformer | None = None
    secrets: Secrets | None = None

    def learner(self, width: int | None = None) -> Learner:
        """Return a copy of the bottom model with its optimiser and scheduler.

        Parameters
        ----------
        width
            Of its embeddings, as was agreed; None for whatever it is.

        Raises
        ------
        ConfigurationError
            If the bottom model is no module or cannot be trained, its embeddings are of another
            width, or optimiser or scheduler cannot be made or take a step.
        """
        check_module(f"the bottom model of {self.name!r}", self.bottom)
        self.check_learns(width)
        return Learner(copied(self.bottom), self.optimiser, self.scheduler, self.device, width)

    def check_learns(self, width: int | None = None) -> None:
        """Raise ``ConfigurationError`` unless bottom model, optimiser and scheduler can train.

        They are tried, where the optimiser will be at work.
        """
        check_optimiser(self.name, self.bottom, self.optimiser, self.scheduler, self.device)
        two = take(self.features, np.zeros(2, dtype=np.int64))
        check_bottom_learns(self.name, self.bottom, two, width)

    def check_schedule(self, steps: int) -> None:
        """Raise ``ConfigurationError`` unless its scheduler takes so many steps."""
        check_schedule(self.name, self.bottom, self.optimiser, self.scheduler, steps)


@dataclass(frozen=True)
class LabelHolder:
    """The organisation with the labels, and possibly columns of its own.

    Parameters
    ----------
    name
        Its name, unique in the federation.
    labels
        A label for each sample, ``[N]``: classes 0, 1, ... as int64, or numbers as float32; others,
        as soft or multi-label targets, where loss and metrics take them.
    top
        The top model, from fused embeddings to predictions; of its parts the same holds as of a
        bottom model's.
    loss
        From predictions and labels of a batch to the mean loss; by default cross entropy, or the
        mean squared error when the labels are floating point.
    features, bottom
        Its own columns and bottom model; both or neither.
    optimiser
        Makes the optimisers of top and bottom, by default Adam with learning rate 0.001.
    scheduler
        Makes the schedulers of their learning rates, which take a step an epoch.
    device
        Where top and bottom compute, as torch names it.
    transformer
        What made the features from its table.
    secrets
        What it draws private noise from, where the method has any. By default new ones for each
        run.
    learned
        What loss and top model know of the labels of all training rows, such as their mean: by it
        a label reaches the derivatives of other rows, which no defence of labels covers.
    """

    name: str
    labels: Tensor
    top: nn.Module
    loss: Loss | None = None
    features: Features | None = None
    bottom: nn.Module | None = None
    optimiser: OptimiserFactory = field(default_factory=_adam)
    scheduler: SchedulerFactory | None = None
    device: str | torch.device = "cpu"
    transformer: Transformer | None = None
    secrets: Secrets | None = None
    learned: Mapping[str, Any] = field(default_factory=dict)

    def objective(self) -> Loss:
        """Return the loss: the one given, or that which fits the labels."""
        if self.loss is not None:
            return self.loss
        return squared_error if self.labels.is_floating_point() else nn.functional.cross_entropy

    def learners(self, width: int | None = None) -> tuple[Learner, Learner | None]:
        """Return copies of the top model and of the bottom model, if any, to be trained.

        Parameters
        ----------
        width
            Of its own embeddings, as was agreed; None for whatever it is.

        Raises
        ------
        ConfigurationError
            If one is no module or cannot be trained, its embeddings are of another width, or
            optimiser or scheduler cannot be made or take a step.
        """
        party = self.as_party()
        own = None if party is None else party.learner(width)
        check_module(f"the top model of {self.name!r}", self.top)
        self.check_apart()
        check_optimiser(self.name, self.top, self.optimiser, self.scheduler, self.device)
        top = Learner(copied(self.top), self.optimiser, self.scheduler, self.device)
        return top, own

    def check_apart(self) -> None:
        """Raise ``ConfigurationError`` if top and bottom model share what is trained.

        Each is copied, and its copy trained, by itself.
        """
        of_bottom = {} if self.bottom is None else dict(self.bottom.named_parameters())
        names = {id(p): name for name, p in of_bottom.items() if p.requires_grad}
        for name, p in self.top.named_parameters():
            if id(p) in names:
                raise ConfigurationError(
                    f"the bottom and the top model of {self.name!r} share a parameter "
                    f"({names[id(p)]!r} of the one, {name!r} of the other), and each is trained by "
                    "itself: give each its own (copy.deepcopy)"
                )

    def check_schedules(self, steps: int) -> None:
        """Raise ``ConfigurationError`` unless its schedulers take so many steps."""
        check_schedule(self.name, self.top, self.optimiser, self.scheduler, steps)
        if own := self.as_party():
            own.check_schedule(steps)

    def as_party(self) -> Party | None:
        """Return what it is besides: an organisation with columns; None if it has none."""
        if self.bottom is None or self.features is None:
            return None
        return Party(
            self.name,
            self.features,
            self.bottom,
            self.optimiser,
            self.scheduler,
            self.device,
            self.transformer,
            self.secrets,
        )


def copied_loss(name: str, loss: Loss, copies: dict[int, Any] | None = None) -> Loss:
    """Return a copy of a loss, as each role has one: it may keep something, as a running mean.

    A function is its own copy. What an object holds is copied with it, into ``copies``, by the id
    of what it is of.

    Raises
    ------
    ConfigurationError
        If it cannot be copied; it names whose it is.
    """
    try:
        return copied(loss) if isinstance(loss, nn.Module) else copy.deepcopy(loss, copies)
    except Exception as error:  # a user's object may hold anything
        raise ConfigurationError(
            f"the loss of {name!r} cannot be copied, and each run computes by a copy of its own: "
            f"{first_line(error)}"
        ) from error


def squared_error(predictions: Tensor, labels: Tensor) -> Tensor:
    """Return the mean squared error of predictions ``[B]`` or ``[B, 1]`` for labels ``[B]``.

    >>> squared_error(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
    tensor(2.)
    """
    # Without the common shape, torch would compare every prediction with every label.
    return nn.functional.mse_loss(predictions.reshape(labels.shape), labels)


def check_rows(name: str, values: Features, rows: int) -> None:
    """Raise ``DataError`` unless there are as many rows as were aligned."""
    for part in [values] if isinstance(values, Tensor) else values.values():
        if len(part) != rows:
            raise DataError(f"{name!r} has {len(part)} rows, but {rows} are aligned")


def check_everybody(parties: Sequence[Party], holder: LabelHolder) -> None:
    """Raise ``ConfigurationError`` unless these can take part together.

    There must be a party, names must be fit (``layout.check_names``), the label holder needs both
    features and a bottom model, or neither, and what transforms and is secret must be that.
    """
    if not parties:
        raise ConfigurationError("a federation needs a party besides the label holder")
    check_names([*(party.name for party in parties), holder.name])
    for party in parties:
        _check_brought(party)
    _check_brought(holder)
    check_kind(f"learned of {holder.name!r}", holder.learned, Mapping[str, Any])
    if (holder.features is None) != (holder.bottom is None):
        lacks = "bottom" if holder.bottom is None else "features"
        raise ConfigurationError(
            f"label holder {holder.name!r} needs both features and a bottom model, "
            f"or neither: it has no {lacks}"
        )


def _check_brought(organisation: Party | LabelHolder) -> None:
    name, transformer = organisation.name, organisation.transformer
    check_kind(f"secrets of {name!r}", organisation.secrets, Secrets | None)
    answers = [callable(getattr(transformer, each, None)) for each in ("transform", "state")]
    if transformer is not None and (isinstance(transformer, type) or not all(answers)):
        raise ConfigurationError(
            f"the transformer of {name!r} is a fitted one, with transform() and state(), or None, "
            f"not {shown(transformer)}"
        )
