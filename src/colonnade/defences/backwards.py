"""Whether a top model keeps rows apart on the way back, where derivatives are what is released.

Going forward it may: a hook, or a function with a backward of its own, can scale derivatives by
those of all rows. So what is tried is what is sent, the derivatives of a mean over rows in the
embeddings, with each row's label changed in turn; and where any of it happens by a draw, with half
of the labels changed under many draws, as some may mix rows and most not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from colonnade.defences.losses import changed_in_turn, elsewhere
from colonnade.errors import ConfigurationError
from colonnade.models import (
    MANY_DRAWS,
    alike,
    copied,
    drawing_alike,
    half_of,
    put_into_training,
    without_dropout,
)
from colonnade.organisations import Loss, copied_loss

__all__ = ["check_derivatives_apart"]

_Computes = Callable[..., tuple[Tensor, bool]]


def check_derivatives_apart(
    name: str, loss: Loss, top: nn.Module, fused: Tensor, labels: Tensor
) -> None:
    """Raise ``ConfigurationError`` if by a top model a label changes the derivatives of other rows.

    So it does if it raises on the way back: what cannot be tried is not taken for private.

    Parameters
    ----------
    name
        Whose model it is.
    loss
        From predictions and labels to a mean over rows, of which ``check_labels_apart`` found that
        it is one.
    top
        The top model.
    fused
        Fused embeddings, of as many rows as there are labels.
    labels
        Of the rows: each is changed in turn to the greatest or the least.

    Examples
    --------
    >>> top, of = nn.Linear(4, 2), (torch.ones(3, 4), torch.tensor([0, 1, 1]))
    >>> check_derivatives_apart("bank", nn.CrossEntropyLoss(), top, *of)
    >>> _ = top.register_full_backward_hook(lambda _, given, came: (given[0] / given[0].norm(),))
    >>> check_derivatives_apart("bank", nn.CrossEntropyLoss(), top, *of)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the top model of 'bank' computes the derivatives of a row \
by those of other rows, by which a label reaches them, more than noise on its own hides: let hooks \
and backward functions scale or clip each row's by itself, and keep nothing
    """
    for model in (copied(top).cpu(), elsewhere(top).cpu()):
        try:
            apart = _keeps_apart(name, loss, model, fused, labels)
        except Exception as error:
            raise ConfigurationError(
                f"the top model of {name!r} raises {type(error).__name__} where a loss of "
                f"{len(labels)} rows is differentiated, so whether it keeps their derivatives "
                f"apart cannot be tried, without which noise hides no label: {error}"
            ) from error
        if not apart:
            raise ConfigurationError(
                f"the top model of {name!r} computes the derivatives of a row by those of other "
                "rows, by which a label reaches them, more than noise on its own hides: let hooks "
                "and backward functions scale or clip each row's by itself, and keep nothing"
            )


def _keeps_apart(name: str, loss: Loss, top: nn.Module, fused: Tensor, labels: Tensor) -> bool:
    """Return whether a label reaches no other row, whatever it is changed to and drawn."""
    values: Tensor = torch.unique(labels, dim=0)
    least, greatest = values[:1], values[-1:]
    low, high = (torch.cat([each] * len(labels)) for each in (least, greatest))
    computes = partial(_derivatives, name, loss, top, fused)
    undropped = copied(top)
    without_dropout(undropped)
    return all(
        _are_apart(computes, given, to)
        for given, to in ((labels, greatest), (low, greatest), (high, least))
    ) and _are_always_apart(partial(_derivatives, name, loss, undropped, fused), low, high)


def _are_apart(computes: _Computes, labels: Tensor, to: Tensor) -> bool:
    """Return whether no other row hears of a label that is changed, each in its turn."""
    before, _ = computes([labels, labels])
    return all(
        _alike(before, computes([changed, labels])[0], torch.arange(len(labels)) != row)
        for row, changed in changed_in_turn(labels, to)
    )


def _are_always_apart(computes: _Computes, labels: Tensor, to: Tensor) -> bool:
    """Return whether under none of many draws a half hears of the other half's labels."""
    _, draws = computes([labels])
    for which in MANY_DRAWS if draws else ():
        kept = torch.from_numpy(half_of(len(labels), which))
        changed = to.clone()
        changed[kept] = labels[kept]
        before, after = (computes([first, labels], which)[0] for first in (labels, changed))
        if not _alike(before, after, kept):
            return False
    return True


def _alike(before: Tensor, after: Tensor, kept: Tensor) -> bool:
    """Return whether rows that are kept have the same derivatives, and all of a later batch."""
    return alike(before[0][kept], after[0][kept], 1e-5) and alike(before[1], after[1], 1e-5)


def _derivatives(
    name: str, loss: Loss, top: nn.Module, fused: Tensor, labels: Sequence[Tensor], which: int = 0
) -> tuple[Tensor, bool]:
    """Return the derivatives in embeddings with each of these labels, of which it is told in turn.

    They are those of training; what is no finite number counts as 0. Beside them, whether anything
    was drawn for the last.
    """
    own, objective, found = copied(top, top.parameters()), copied_loss(name, loss), []
    put_into_training(own)
    with torch.enable_grad():
        for each in labels:
            of = fused.clone().requires_grad_()
            with drawing_alike(which) as drawn:
                found.append(torch.autograd.grad(objective(own(of).float(), each), of)[0])
                draws = drawn()
    return torch.stack(found).detach().double().nan_to_num(0, 0, 0), draws
