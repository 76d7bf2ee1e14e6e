"""Whether a top model keeps rows apart on the way back, where derivatives are what is released.

Going forward it may: a hook, or a function with a backward of its own, can scale derivatives by
those of all rows. So what is tried is what is sent, the derivatives of a mean over rows in the
embeddings, with each row's label changed in turn.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from colonnade.defences.losses import changed_in_turn, elsewhere
from colonnade.errors import ConfigurationError
from colonnade.models import alike, copied, drawing_alike, put_into_training
from colonnade.organisations import Loss, copied_loss

__all__ = ["check_derivatives_apart"]


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
    values: Tensor = torch.unique(labels, dim=0)
    least, greatest = values[:1], values[-1:]
    rows = len(labels)
    for model in (copied(top).cpu(), elsewhere(top).cpu()):
        for given, to in (
            (labels, greatest),
            (torch.cat([least] * rows), greatest),
            (torch.cat([greatest] * rows), least),
        ):
            try:
                apart = _are_apart(name, loss, model, fused, given, to)
            except Exception as error:
                raise ConfigurationError(
                    f"the top model of {name!r} raises {type(error).__name__} where a loss of "
                    f"{rows} rows is differentiated, so whether it keeps their derivatives apart "
                    f"cannot be tried, without which noise hides no label: {error}"
                ) from error
            if not apart:
                raise ConfigurationError(
                    f"the top model of {name!r} computes the derivatives of a row by those of "
                    "other rows, by which a label reaches them, more than noise on its own hides: "
                    "let hooks and backward functions scale or clip each row's by itself, and keep "
                    "nothing"
                )


def _are_apart(
    name: str, loss: Loss, top: nn.Module, fused: Tensor, labels: Tensor, to: Tensor
) -> bool:
    """Return whether neither other rows nor a later batch hear of a label that is changed."""
    before = _derivatives(name, loss, top, fused, labels, labels)
    for row, changed in changed_in_turn(labels, to):
        after = _derivatives(name, loss, top, fused, changed, labels)
        others = torch.arange(len(labels)) != row
        if not alike(before[0][others], after[0][others], 1e-5):
            return False
        if not alike(before[1], after[1], 1e-5):
            return False
    return True


def _derivatives(name: str, loss: Loss, top: nn.Module, fused: Tensor, *labels: Tensor) -> Tensor:
    """Return the derivatives in embeddings with each of these labels, of which it is told in turn.

    They are those of training; what is no finite number counts as 0.
    """
    own, objective, found = copied(top, top.parameters()), copied_loss(name, loss), []
    put_into_training(own)
    with torch.enable_grad():
        for each in labels:
            of = fused.clone().requires_grad_()
            with drawing_alike():
                found.append(torch.autograd.grad(objective(own(of).float(), each), of)[0])
    return torch.stack(found).detach().double().nan_to_num(0, 0, 0)
