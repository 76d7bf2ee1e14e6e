"""Whether a loss is a mean over rows, each of its own label: only then is noise on a row enough.

Where it is, the derivative of one row's prediction changes with the label of that row alone. That
is tried: a few rows with labels as they occur, each of which is changed in turn, to each of the
others; and rows that all have the least label or the greatest, one of which has the other, as a
largest label that several rows have hides that one of them had a part in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.descriptions import kept_by
from colonnade.errors import ConfigurationError
from colonnade.models import (
    alike,
    all_finite,
    copied,
    drawing_alike,
    parameter_count,
    parameter_vector,
    put_parameters,
    tried,
)
from colonnade.organisations import Loss, copied_loss

__all__ = [
    "TRIED",
    "changed_in_turn",
    "check_labels_apart",
    "check_mean",
    "different_labels",
    "elsewhere",
]

TRIED = 16  # rows
_LOOKED_THROUGH = 2**12  # labels of several numbers, among which different ones are searched


def check_mean(loss: Loss) -> None:
    """Raise ``ConfigurationError`` for losses of torch that divide by what a batch's labels say.

    >>> check_mean(nn.CrossEntropyLoss())
    """
    if not isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) or loss.reduction != "mean":
        return
    if loss.weight is not None or loss.ignore_index >= 0:
        raise ConfigurationError(
            "class weights (or ignored classes) are made up for over the batch, by which a label "
            "reaches the derivatives of other rows, more than noise on its own hides: leave "
            "class_weights out, or give a loss that is a mean over rows, such as lambda p, y: "
            'cross_entropy(p, y, weights, reduction="none").mean()'
        )


def different_labels(labels: Tensor) -> Tensor:
    """Return ``TRIED`` labels, the least to the greatest that there are, over and over.

    >>> different_labels(torch.tensor([1, 0, -100, 1]))[:5]
    tensor([-100,    0,    1, -100,    0])
    """
    known = labels if labels.dim() == 1 else labels[:_LOOKED_THROUGH]
    values: Tensor = torch.unique(known.detach().cpu(), dim=0)
    chosen = np.unique(np.linspace(0, len(values) - 1, TRIED).round().astype(np.int64))
    return values[torch.from_numpy(np.resize(chosen, TRIED))]


def check_labels_apart(
    name: str, loss: Loss, top: nn.Module, fused: Tensor, labels: Tensor
) -> None:
    """Raise ``ConfigurationError`` if a label changes the derivatives of other rows' predictions.

    So it does if the loss raises, draws or goes on changing: what cannot be tried is not taken for
    private.

    Parameters
    ----------
    name
        Whose loss it is.
    loss
        From predictions and labels to a mean.
    top
        The top model, whose predictions it takes.
    fused
        Fused embeddings, of as many rows as there are labels.
    labels
        Of the rows: each is changed in turn to each of the others.

    Examples
    --------
    Of predictions ``[rows, 1]`` and labels ``[rows]`` torch compares each with each.

    >>> of = nn.Linear(4, 1), torch.ones(3, 4), torch.arange(3.0)
    >>> check_labels_apart("bank", lambda p, y: ((p[:, 0] - y) ** 2).mean(), *of)
    >>> check_labels_apart("bank", lambda p, y: ((p - y) ** 2).mean(), *of)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: by the loss of 'bank' a label reaches the derivatives of \
other rows, more than noise on its own hides: give one that is a mean over rows, each of its own \
prediction and label; labels that are ignored, weights that the batch makes up for and predictions \
[rows, 1] beside labels [rows] are the usual reasons
    """
    for model in (top, elsewhere(top)):
        try:
            predictions = tried(model, fused).detach().float()
        except Exception:  # it may take no such embeddings; others tell
            return
        try:
            _check_labels_apart(name, loss, predictions, labels)
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(
                f"the loss of {name!r} raises {type(error).__name__} of {len(labels)} rows, so "
                "whether it is a mean over rows cannot be tried, without which noise hides no "
                f"label: {error}"
            ) from error


def elsewhere(top: nn.Module) -> nn.Module:
    """Return a copy with other parameters: of those that are 0 all rows come to the same.

    >>> bool(elsewhere(nn.PReLU(2, init=0.0)).weight[1] > 0)
    True
    """
    moved = copied(top)
    put_parameters(
        moved, parameter_vector(moved) + 0.1 * torch.arange(parameter_count(moved)).sin()
    )
    return moved


def _check_labels_apart(name: str, loss: Loss, predictions: Tensor, labels: Tensor) -> None:
    values: Tensor = torch.unique(labels, dim=0)
    least, greatest = values[:1], values[-1:]
    rows = len(labels)
    _check_batch(name, loss, predictions, labels, values)
    _check_batch(name, loss, predictions, torch.cat([least] * rows), greatest)
    _check_batch(name, loss, predictions, torch.cat([greatest] * rows), least)
    _check_keeps_nothing(name, loss, predictions, labels)


def _check_batch(name: str, loss: Loss, predictions: Tensor, labels: Tensor, to: Tensor) -> None:
    """Raise if other rows, or later batches, hear of a label that is changed to one of those."""
    (before, draws), (again, _) = (
        _slopes(name, loss, predictions, labels, labels) for _ in range(2)
    )
    _refuse_draws(name, draws)
    if not all_finite(before):
        raise ConfigurationError(
            f"the loss of {name!r} has derivatives that are no finite numbers, of rows that are "
            "tried: give one that is smooth there, or another top model"
        )
    if not torch.equal(before, again):
        raise ConfigurationError(
            f"the loss of {name!r} says something else each time it is asked, so whether it is a "
            "mean over rows cannot be tried, without which noise hides no label"
        )
    for row, changed in changed_in_turn(labels, to):
        after, draws = _slopes(name, loss, predictions, changed, labels)
        _refuse_draws(name, draws)
        others = torch.arange(len(labels)) != row
        if not alike(before[0][others], after[0][others], 1e-5):
            raise ConfigurationError(
                f"by the loss of {name!r} a label reaches the derivatives of other rows, more than "
                "noise on its own hides: give one that is a mean over rows, each of its own "
                "prediction and label; labels that are ignored, weights that the batch makes up "
                "for and predictions [rows, 1] beside labels [rows] are the usual reasons"
            )
        if not alike(before[1], after[1], 1e-5):
            raise ConfigurationError(
                f"the loss of {name!r} remembers labels, by which one reaches the derivatives of "
                "other rows in later batches, more than noise on its own hides: give one that "
                "keeps nothing"
            )


def _refuse_draws(name: str, draws: bool) -> None:
    if draws:
        raise ConfigurationError(
            f"the loss of {name!r} draws, so whether it is a mean over rows cannot be tried, "
            "without which noise hides no label: give one that draws nothing"
        )


def _check_keeps_nothing(name: str, loss: Loss, predictions: Tensor, labels: Tensor) -> None:
    """Raise if a loss goes on changing: it may remember labels, and show that in later batches.

    What it keeps of its first batch, as a mask of a shape, does not go on.
    """
    own, told = copied_loss(name, loss), []
    for _ in range(2):
        with torch.enable_grad():
            own(predictions.clone().requires_grad_(), labels)
        told.append(kept_by(own))
    if told[0] != told[1]:
        raise ConfigurationError(
            f"the loss of {name!r} changes each time it is computed, so what it makes of later "
            "batches cannot be tried, without which noise hides no label: give one that keeps "
            "nothing, or a function, which may add to a list that it does not read"
        )


def changed_in_turn(labels: Tensor, to: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield each row, and the labels in which it alone has one of those instead.

    >>> [(row, labels.tolist()) for row, labels in changed_in_turn(torch.zeros(2), torch.ones(1))]
    [(0, [1.0, 0.0]), (1, [0.0, 1.0])]
    """
    for row in range(len(labels)):
        for label in to:
            changed = labels.clone()
            changed[row] = label
            yield row, changed


def _slopes(name: str, loss: Loss, predictions: Tensor, *labels: Tensor) -> tuple[Tensor, bool]:
    """Return the derivatives of rows with each of these labels, of which it is told in turn.

    Beside them, whether anything was drawn for them.
    """
    own, slopes = copied_loss(name, loss), []
    with torch.enable_grad(), drawing_alike() as drawn:
        for each in labels:
            of = predictions.clone().requires_grad_()
            slopes.append(torch.autograd.grad(own(of, each), of)[0])
        draws = drawn()
    return torch.stack(slopes).detach().double(), draws
