"""Whether a model keeps the rows of a batch apart, as every account of single rows takes it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from colonnade.errors import ConfigurationError
from colonnade.models.copies import copied
from colonnade.models.learner import Features, take
from colonnade.models.modes import put_into_training
from colonnade.models.trial import tried

__all__ = ["alike", "check_rows_apart"]

_BatchNorm = nn.modules.batchnorm._BatchNorm
_TRIED = 32  # rows, no more than there are triples of batches
_BATCHES = 7
_SAME_PLACE, _ROUNDED = 1e-6, 1e-2  # kernels may round otherwise in another place of a batch
_Rows = NDArray[np.int64]
_Computes = Callable[[_Rows], Tensor]


def check_rows_apart(
    whose: str, model: nn.Module, reaches: str, inputs: Features | None = None
) -> None:
    """Raise ``ConfigurationError`` if a model computes a row by others of its batch.

    Batch normalisation does, but where it stays in evaluation mode as the model is trained and has
    statistics to go by. Other modules are tried: each row must come to the same whatever is beside
    it, before it or behind, and wherever it stands, as with a layer of attention, which takes a
    batch of rows for one sequence, it does not. What a module does by chance, or to other rows than
    are tried, is not seen.

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
            f"{whose} computes a row by others of its batch, or by its place in it, by which "
            f"{reaches} of other rows, more than noise on its own hides: attention and recurrent "
            "layers take a batch of rows for one sequence, unless each row is a sequence of its "
            "own, [rows, steps, width] with batch_first=True"
        )


def _mixes(model: nn.Module, inputs: Features) -> bool:
    """Return whether some row comes to something else beside other rows, or in another place."""
    columns = inputs if isinstance(inputs, Tensor) else next(iter(inputs.values()))
    rows = np.arange(min(_TRIED, len(columns)))
    own, usual = _moved(model), None
    for training in (False, True):
        computes = partial(_computed, own, inputs, training)
        first = _steady(computes, rows)
        if first is None or (usual is not None and torch.equal(first, usual)):
            continue  # nothing can be told, or it computes in training as in evaluation
        if _differ(computes, rows, first):
            return True
        usual = first
    return False


def _moved(model: nn.Module) -> nn.Module:
    """Return a copy whose parameters are a little larger: a branch that begins at 0 is trained."""
    own = copied(model).cpu()
    with torch.no_grad():
        for each in own.parameters():
            if each.requires_grad:
                more = torch.arange(float(each.numel())).sin_().add_(1).mul_(1e-3)
                each.add_(more.view_as(each))
    return own


def _computed(model: nn.Module, inputs: Features, training: bool, rows: _Rows) -> Tensor:
    """Return what a batch of rows comes to; what is no finite number counts as 0."""
    trained = [each for each in model.parameters() if each.requires_grad]
    made: Tensor = tried(model, take(inputs, rows), training, shared=trained)
    return made.detach().reshape(len(rows), -1).double().nan_to_num(0, 0, 0)


def _steady(computes: _Computes, rows: _Rows) -> Tensor | None:
    """Return what rows come to; None if that is by chance, or they come to nothing."""
    before = torch.default_generator.get_state()
    try:
        first, again = computes(rows), computes(rows)
    except Exception:  # it may take no such rows; others tell
        return None
    drawn = not torch.equal(before, torch.default_generator.get_state())
    return None if drawn or not torch.equal(first, again) else first


def _differ(computes: _Computes, rows: _Rows, first: Tensor) -> bool:
    """Return whether rows come to something else beside others, or in another place."""
    places = 1 + len(rows) // 2
    try:
        return any(
            _apart(first[kept], computes(np.where(kept, rows, rows[kept][0]))[kept], _SAME_PLACE)
            for kept in _kept(len(rows))
        ) or _apart(first, computes(np.roll(rows, places)).roll(-places, 0), _ROUNDED)
    except Exception:  # it may take no such rows; others tell
        return False


def _kept(rows: int) -> Iterator[NDArray[np.bool_]]:
    """Yield which rows stay, so that of any two each stays at least once where the other does not.

    Each row stays in three of seven batches, no two in the same three.
    """
    stays = np.array(list(combinations(range(_BATCHES), 3)))[:rows]
    for batch in range(_BATCHES):
        kept = (stays == batch).any(axis=1)
        if kept.any() and not kept.all():
            yield kept


def _apart(one: Tensor, other: Tensor, within: float) -> bool:
    """Return whether some row differs by more than a share of itself, or of a usual row."""
    size, off = (each.abs().amax(dim=1) for each in (one, one - other))
    return bool((off > within * size.clamp(min=float(size.median()))).any())


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
