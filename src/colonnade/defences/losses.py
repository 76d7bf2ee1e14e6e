"""Whether a loss is a mean over rows, each of its own label: only then is noise on a row enough.

Where it is, the derivative of one row's prediction changes with the label of that row alone. That
is tried: a few rows with labels as they occur, one of which is changed, to each of the others.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.errors import ConfigurationError
from colonnade.models import (
    alike,
    all_finite,
    copied,
    parameter_count,
    parameter_vector,
    put_parameters,
    tried,
)
from colonnade.organisations import Loss, copied_loss

__all__ = ["TRIED", "check_labels_apart", "check_mean", "different_labels"]

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

    So it does if the loss raises or draws: what cannot be tried is not taken for private.

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
        Of the rows: the first is changed to each of the others.

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
    for model in (top, _elsewhere(top)):
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


def _elsewhere(top: nn.Module) -> nn.Module:
    """Return a copy with other parameters: of those that are 0 all rows come to the same."""
    moved = copied(top)
    put_parameters(
        moved, parameter_vector(moved) + 0.1 * torch.arange(parameter_count(moved)).sin()
    )
    return moved


def _check_labels_apart(name: str, loss: Loss, predictions: Tensor, labels: Tensor) -> None:
    others: Tensor = torch.unique(labels[1:], dim=0)
    changed = [torch.cat([label[None], labels[1:]]) for label in others]
    before, again = (_slopes(name, loss, predictions, labels) for _ in range(2))
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
    slopes = (_slopes(name, loss, predictions, each) for each in changed)
    if not all(alike(before[1:], after[1:], 1e-5) for after in slopes):
        raise ConfigurationError(
            f"by the loss of {name!r} a label reaches the derivatives of other rows, more than "
            "noise on its own hides: give one that is a mean over rows, each of its own prediction "
            "and label; labels that are ignored, weights that the batch makes up for and "
            "predictions [rows, 1] beside labels [rows] are the usual reasons"
        )
    later = [_slopes(name, loss, predictions, each, labels) for each in (labels, *changed)]
    if not all(alike(later[0], after, 1e-5) for after in later[1:]):
        raise ConfigurationError(
            f"the loss of {name!r} remembers labels, by which one reaches the derivatives of other "
            "rows in later batches, more than noise on its own hides: give one that keeps nothing"
        )


def _slopes(name: str, loss: Loss, predictions: Tensor, *labels: Tensor) -> Tensor:
    """Return the derivatives of rows with the last of these labels, when it was told the others."""
    own, of = copied_loss(name, loss), predictions.clone().requires_grad_()
    with torch.enable_grad():
        for each in labels:
            value = own(of, each)
        slopes: Tensor = torch.autograd.grad(value, of)[0]
    return slopes.detach().double()
