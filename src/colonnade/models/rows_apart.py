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
from colonnade.models.draws import MANY_DRAWS, drawing_alike, without_dropout
from colonnade.models.learner import Features, take
from colonnade.models.modes import put_into_training
from colonnade.models.sampled import changed, different_rows, row_count
from colonnade.models.trial import tried
from colonnade.telling import first_line

__all__ = ["alike", "check_rows_apart", "half_of"]

_BatchNorm = nn.modules.batchnorm._BatchNorm
_TRIED = 32  # rows, no more than there are triples of batches
_ENOUGH = 16  # different ones
_FEW = 6  # rows that are tried under many draws
_BATCHES = 7
_SAME_PLACE, _ROUNDED = 1e-6, 1e-2  # kernels may round otherwise in another place of a batch
_Rows = NDArray[np.int64]
_Computes = Callable[..., tuple[Tensor, bool]]


def check_rows_apart(
    whose: str, model: nn.Module, reaches: str, inputs: Features | None = None
) -> None:
    """Raise ``ConfigurationError`` if a model computes a row by others of its batch.

    Batch normalisation does, but where it stays in evaluation mode as the model is trained and has
    statistics to go by. Other modules are tried: each row must come to the same whatever is beside
    it, before it or behind, and wherever it stands, as with a layer of attention, which takes a
    batch of rows for one sequence, it does not. They are different rows from all over the table, a
    little changed where it has few, and torch's generator draws the same for each trial. Of what
    draws a few rows are tried under many draws, as some may mix and most not. What cannot be tried
    is refused; what a module does to other rows than are tried is not seen.

    Parameters
    ----------
    whose
        Which model it is: "the top model".
    model
        The model.
    reaches
        What would reach what of other rows: "a label reaches the derivatives".
    inputs
        Rows to try it on, of which different ones are taken; None tries nothing.

    Examples
    --------
    >>> check_rows_apart("the model", nn.Sequential(nn.GroupNorm(2, 4)), "a row reaches all")
    """
    _refuse_batch_norm(whose, model, reaches)
    if inputs is None:
        return
    different = different_rows(inputs, _TRIED)
    few = np.resize(different, min(_TRIED, row_count(inputs)))
    _try(whose, model, reaches, take(inputs, few))
    if len(different) < _ENOUGH:
        others = changed(take(inputs, np.resize(different, _TRIED)))
        if others is not None and _takes(model, others):  # they are no rows of the table
            _try(whose, model, reaches, others)


def _try(whose: str, model: nn.Module, reaches: str, inputs: Features) -> None:
    """Raise if some row comes to something else beside other rows, or in another place."""
    own, usual, rows = _moved(model), None, row_count(inputs)
    for training in (False, True):
        computes = partial(_computed, own, inputs, training)
        try:
            first, why = _found(computes, np.arange(rows), usual)
        except Exception as error:
            raise ConfigurationError(
                f"{whose} raises {type(error).__name__} of {rows} of its rows, or of the same in "
                "another order, so whether it keeps rows apart cannot be tried, without which "
                f"{reaches} of other rows: let it take batches of any length and of any of its "
                f"rows ({first_line(error)})"
            ) from error
        if why:
            raise ConfigurationError(f"{whose} {why.format(reaches=reaches)}")
        usual = first


def _found(computes: _Computes, rows: _Rows, usual: Tensor | None) -> tuple[Tensor, str]:
    """Return what rows come to, and what is wrong with it, unless it is what is usual."""
    (first, draws), (again, _) = computes(rows), computes(rows)
    if _apart(first, again, _SAME_PLACE):
        return first, _UNSTEADY
    if not draws and usual is not None and torch.equal(first, usual):
        return first, ""  # it computes in training as in evaluation
    mixes = _differ(computes, rows, first, draws) or (draws and _differ_at_times(computes, rows))
    return first, _MIXES if mixes else ""


_MIXES = (
    "computes a row by others of its batch, or by its place in it, by which {reaches} of other "
    "rows, more than noise on its own hides: attention and recurrent layers take a batch of rows "
    "for one sequence, unless each row is a sequence of its own, [rows, steps, width] with "
    "batch_first=True; what draws should draw for all rows at once, or be torch's own nn.Dropout"
)
_UNSTEADY = (
    "makes something else of the same rows each time it is asked, so whether it keeps rows apart "
    "cannot be tried, without which {reaches} of other rows: let it draw from torch's generator "
    "alone, which draws the same in each trial"
)


def _takes(model: nn.Module, inputs: Features) -> bool:
    """Return whether a model computes something of such rows, in evaluation and in training."""
    try:
        for training in (False, True):
            _computed(model, inputs, training, np.arange(row_count(inputs)))
    except Exception:  # a user's module may raise anything
        return False
    return True


def _moved(model: nn.Module) -> nn.Module:
    """Return a copy whose parameters are a little larger: a branch that begins at 0 is trained.

    Torch's own modules drop nothing out of it, and have one slope: for each place it is another.
    """
    own = copied(model).cpu()
    without_dropout(own)
    with torch.no_grad():
        for each in own.parameters():
            if each.requires_grad:
                more = torch.arange(float(each.numel())).sin_().add_(1).mul_(1e-3)
                each.add_(more.view_as(each))
    return own


def _computed(
    model: nn.Module, inputs: Features, training: bool, rows: _Rows, which: int = 0
) -> tuple[Tensor, bool]:
    """Return what a batch of rows comes to, and whether anything was drawn for it.

    What is no finite number counts as 0.
    """
    trained = [each for each in model.parameters() if each.requires_grad]
    with drawing_alike(which) as drawn:
        made: Tensor = tried(model, take(inputs, rows), training, shared=trained)
        draws = drawn()
    return made.detach().reshape(len(rows), -1).double().nan_to_num(0, 0, 0), draws


def _differ(computes: _Computes, rows: _Rows, first: Tensor, draws: bool) -> bool:
    """Return whether rows come to something else beside others, or in another place.

    What is drawn is drawn by place, so rows for which something is drawn stay in theirs.
    """
    places = 1 + len(rows) // 2
    return any(
        _apart(first[kept], computes(np.where(kept, rows, rows[kept][0]))[0][kept], _SAME_PLACE)
        for kept in _kept(len(rows))
    ) or (
        not draws and _apart(first, computes(np.roll(rows, places))[0].roll(-places, 0), _ROUNDED)
    )


def _differ_at_times(computes: _Computes, rows: _Rows) -> bool:
    """Return whether under some of many draws a few rows come to something else beside others."""
    few = rows[:_FEW]
    for which in MANY_DRAWS if len(few) > 1 else ():
        kept = half_of(len(few), which)
        first, _ = computes(few, which)
        other, _ = computes(np.where(kept, few, few[kept][0]), which)
        if _apart(first[kept], other[kept], _SAME_PLACE):
            return True
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


def half_of(rows: int, turned: int) -> NDArray[np.bool_]:
    """Return about half of the rows, next to each other, in another place for another turn.

    They are odd in number, so no batch of even length that is shifted or reversed has them where
    they were, and of six rows one permutation in 20.

    >>> half_of(6, 0).astype(int), half_of(6, 2).astype(int)
    (array([1, 1, 1, 0, 0, 0]), array([0, 0, 1, 1, 1, 0]))
    """
    return np.roll(np.arange(rows) < rows // 2 | 1, turned)


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
