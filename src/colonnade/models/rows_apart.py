"""Whether a model keeps the rows of a batch apart, as every account of single rows takes it to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.errors import ConfigurationError
from colonnade.models.copies import copied
from colonnade.models.learner import Features, take
from colonnade.models.modes import put_into_training
from colonnade.models.trial import tried

__all__ = ["alike", "check_rows_apart"]

_BatchNorm = nn.modules.batchnorm._BatchNorm
_TRIED = 32  # rows


def check_rows_apart(
    whose: str, model: nn.Module, reaches: str, inputs: Features | None = None
) -> None:
    """Raise ``ConfigurationError`` if a model computes a row by others of its batch.

    Batch normalisation does, but where it stays in evaluation mode as the model is trained and has
    statistics to go by. Other modules are tried: a row must come to the same whatever is beside
    it, as with a layer of attention, which takes a batch of rows for one sequence, it does not.
    What a module does by chance, or to other rows than are tried, is not seen.

    Parameters
    ----------
    whose
        Which model it is: "the top model".
    model
        The model.
    reaches
        What would reach what of other rows: "a label reaches the derivatives".
    inputs
        Rows to try it on, of which the first are taken; None tries nothing.

    Examples
    --------
    >>> check_rows_apart("the model", nn.Sequential(nn.GroupNorm(2, 4)), "a row reaches all")
    """
    _refuse_batch_norm(whose, model, reaches)
    if inputs is not None and _mixes(model, inputs):
        raise ConfigurationError(
            f"{whose} computes a row by others of its batch, by which {reaches} of other rows, "
            "more than noise on its own hides: attention and recurrent layers take a batch of rows "
            "for one sequence, unless each row is a sequence of its own, [rows, steps, width] with "
            "batch_first=True"
        )


def _mixes(model: nn.Module, inputs: Features) -> bool:
    """Return whether the last of some rows comes to something else where others are beside it."""
    columns = inputs if isinstance(inputs, Tensor) else next(iter(inputs.values()))
    rows = np.arange(min(_TRIED, len(columns)))
    alone = np.where(rows == rows[-1], rows, 0)  # beside the first row, over and over
    together, beside = (take(inputs, chosen) for chosen in (rows, alone))
    return any(_differ(model, together, beside, training) for training in (False, True))


def _differ(model: nn.Module, together: Any, beside: Any, training: bool) -> bool:
    before = torch.default_generator.get_state()
    try:
        first, again, other = (
            tried(model, batch, training).detach()[-1].double()
            for batch in (together, together, beside)
        )
    except Exception:  # it may take no such rows; others tell
        return False
    drawn = not torch.equal(before, torch.default_generator.get_state())
    if drawn or not torch.equal(first, again):
        return False  # by chance it may come to anything, and nothing can be told
    return not alike(first, other, 1e-6)


def alike(one: Tensor, other: Tensor, within: float) -> bool:
    """Return whether numbers differ by no more than a share of themselves, and of the largest.

    >>> alike(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1e-7]), 1e-6)
    True
    """
    least = within * float(one.abs().max()) if one.numel() else 0.0
    return torch.allclose(one, other, rtol=within, atol=least)


def _refuse_batch_norm(whose: str, model: nn.Module, reaches: str) -> None:
    if not any(isinstance(part, _BatchNorm) for part in model.modules()):
        return
    own = copied(model)
    put_into_training(own)
    for name, part in own.named_modules():
        if isinstance(part, _BatchNorm) and (part.training or not part.track_running_stats):
            raise ConfigurationError(
                f"{whose} has batch normalisation ({name or 'itself'}), by which {reaches} of "
                "other rows of its batch, more than noise on its own hides: take nn.GroupNorm or "
                "nn.LayerNorm in its place"
            )
