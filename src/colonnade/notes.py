"""What should be known of models, losses and optimisers as people bring them: told in summaries.

Nothing of it is wrong, so training goes on; where it matters, a sentence says what to do.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from colonnade.descriptions import content_of, kept_by, unsaved
from colonnade.models import (
    Learner,
    OptimiserFactory,
    SchedulerFactory,
    copied,
    drawing_alike,
    evaluating,
    go_on_alike,
    put_into_training,
    put_state,
    state_of,
    stepped_and_new,
    trained_parameters,
)
from colonnade.organisations import Loss
from colonnade.own_code import attributes_of
from colonnade.telling import named

__all__ = [
    "before_loss",
    "notes_of_draws",
    "notes_of_loss",
    "notes_of_mode",
    "notes_of_optimiser",
    "notes_of_unsaved",
]

_TIMES = 5  # that a model is trained: what it keeps may be another thing from the second on only
_GRADIENT = 1e-3


def notes_of_unsaved(whose: str, module: nn.Module, inputs: Any) -> list[str]:
    """Return what a model changes, as it computes or is trained, that no checkpoint has.

    Parameters
    ----------
    whose
        Which model it is.
    module
        The model; a copy is tried.
    inputs
        Some of its inputs.

    Examples
    --------
    >>> class Counts(nn.Module):
    ...     calls = 0
    ...     def forward(self, x):
    ...         self.calls += 1
    ...         return x
    >>> notes_of_unsaved("the top model of 'bank'", Counts(), torch.ones(2, 3))[0].partition(":")[0]
    "the top model of 'bank' changes what it does not save when it computes (calls)"
    """
    own, gone_on = copied(module).cpu(), copied(module).cpu()
    notes = []
    if trained := _trained_and_unsaved(own):
        notes.append(
            f"{whose} trains what it does not save ({', '.join(trained)}), or not as it is: a run "
            "that goes on from a checkpoint, and models that come back from another process, have "
            "it otherwise; save it as it is, or freeze it by requires_grad_(False)"
        )
    put_into_training(own)
    before, unseeded = unsaved(own), _unseeded()
    try:
        for _ in range(_TIMES):
            _train(own, inputs)
        after, shared = unsaved(own), unsaved(gone_on)
        put_state(gone_on, state_of(own))
    except Exception:  # it may take no such batch in training; others tell
        return notes
    there = unsaved(gone_on)  # as some is saved under another name, or computed from what is
    if changed := [
        name
        for name, held in after.items()
        if held != before.get(name) and (held != there.get(name) or held == shared.get(name))
    ]:
        notes.append(
            f"{whose} changes what it does not save when it computes ({', '.join(changed)}): where "
            "that matters make it a buffer, as a run that goes on from a checkpoint, and models "
            "that come back from another process, are without it"
        )
    return [*notes, *_notes_of_unseeded(whose, unseeded)]


def _unseeded() -> tuple[object, str]:
    """Return the states of generators that no run seeds."""
    return random.getstate(), content_of(np.random.get_state())


def _notes_of_unseeded(whose: str, before: tuple[object, str]) -> list[str]:
    """Return that something has drawn from such, where their states were others before."""
    if _unseeded() == before:
        return []
    return [
        f"{whose} draws from a generator of Python's or numpy's, which no run seeds: let it draw "
        "from torch's, or no run repeats"
    ]


def _train(module: nn.Module, inputs: Any) -> None:
    """Let a module compute, forth and back, and take a step."""
    trained = trained_parameters(module)
    with torch.enable_grad():
        output = module(inputs)
    if not trained or not output.requires_grad:
        return
    output.backward(torch.full_like(output, _GRADIENT))
    with torch.no_grad():
        for p in trained:
            if p.grad is not None:
                p.sub_(p.grad.to_dense() if p.grad.is_sparse else p.grad)
                p.grad = None


def _trained_and_unsaved(module: nn.Module) -> list[str]:
    """Return the parameters that are trained, and are others where what a module saves is loaded.

    It is loaded into a copy that was trained otherwise.
    """
    other = copied(module)
    with torch.no_grad():
        for p in trained_parameters(other):
            p.add_(1)
    put_state(other, state_of(module))
    loaded = dict(other.named_parameters())
    return [
        name
        for name, p in module.named_parameters()
        if p.requires_grad and content_of(p.detach()) != content_of(loaded[name].detach())
    ]


def notes_of_mode(whose: str, module: nn.Module) -> list[str]:
    """Return that a model is trained as in evaluation, where it was handed over so.

    >>> notes_of_mode("the top model of 'bank'", nn.Linear(2, 1).eval())[0].partition(":")[0]
    "the top model of 'bank' was handed over in evaluation mode, and is trained in it"
    """
    if module.training or not any(p.requires_grad for p in module.parameters()):
        return []
    return [
        f"{whose} was handed over in evaluation mode, and is trained in it: without dropout, and "
        "with the statistics that batch normalisation has; call its train() before, unless that is "
        "meant"
    ]


def notes_of_draws(whose: str, module: nn.Module, inputs: Any) -> list[str]:
    """Return that a model draws numbers in evaluation, where it does.

    So does one that asks the model that was handed in, which nobody puts into evaluation, whether
    it is trained.

    Parameters
    ----------
    whose
        Which model it is.
    module
        The model; a copy is tried.
    inputs
        Some of its inputs.

    Examples
    --------
    >>> class Always(nn.Module):
    ...     def forward(self, x):
    ...         return nn.functional.dropout(x, 0.5)
    >>> notes_of_draws("the top model of 'bank'", Always(), torch.ones(2, 3))[0].partition(",")[0]
    "the top model of 'bank' draws numbers in evaluation"
    """
    own, unseeded = copied(module).cpu(), _unseeded()
    with evaluating(own), torch.no_grad(), drawing_alike() as any_drawn:
        own(inputs)
        if not any_drawn():
            return _notes_of_unseeded(whose, unseeded)
    return [
        f"{whose} draws numbers in evaluation, and what is measured and predicted may hang on "
        "them: where that is not meant, as with dropout, give it self.training, and take that self "
        "in a method, as a lambda has the model that was handed in, of which each run trains a copy"
    ]


def before_loss(loss: Loss) -> tuple[str, tuple[object, str]]:
    """Return what ``notes_of_loss`` compares with: what a loss keeps, and generators' states."""
    return kept_by(loss), _unseeded()


def notes_of_loss(name: str, loss: Loss, before: tuple[str, tuple[object, str]]) -> list[str]:
    """Return that a loss is another one when it was computed, or draws what no run seeds.

    Parameters
    ----------
    name
        Whose loss it is.
    loss
        The loss, computed once or more. What a function keeps cannot be copied, so no call of it
        is made for this alone.
    before
        What ``before_loss`` said of it.

    Examples
    --------
    >>> class Counts:
    ...     calls = 0
    ...     def __call__(self, predictions, labels):
    ...         self.calls += 1
    ...         return predictions.mean()
    >>> loss = Counts()
    >>> before = before_loss(loss)
    >>> mean = loss(torch.ones(2), torch.ones(2))
    >>> notes_of_loss("bank", loss, before)[0].partition(",")[0]
    "the loss of 'bank' changes as it is computed"
    """
    kept, unseeded = before
    notes = _notes_of_unseeded(f"the loss of {name!r}", unseeded)
    if kept_by(loss) != kept:
        notes.append(
            f"the loss of {name!r} changes as it is computed, and no checkpoint has what it then "
            "is: a run that goes on from one may end otherwise"
        )
    return notes


def notes_of_optimiser(
    name: str,
    module: nn.Module,
    optimiser: OptimiserFactory,
    scheduler: SchedulerFactory | None = None,
) -> list[str]:
    """Return what an optimiser has that no step trains, or changes and does not save.

    It is told, too, if another one, with its scheduler, that has loaded what they save goes on
    otherwise, whatever that is due to.

    >>> class Counts(torch.optim.SGD):
    ...     steps = 0
    ...     def step(self, closure=None):
    ...         self.steps += 1
    ...         return super().step(closure)
    >>> notes_of_optimiser("bank", nn.Linear(2, 1), Counts)[0].partition(":")[0]
    "the optimiser Counts of 'bank' changes what it does not save when it takes a step (steps)"
    """
    try:
        stepped, new = stepped_and_new(name, module, optimiser, scheduler)
    except Exception:  # it has nothing to train, or others tell
        return []
    whose = f"the optimiser {type(stepped.optimiser).__name__} of {name!r}"
    try:
        new.load_state_dict(stepped.state_dict())
    except Exception as error:
        return [
            f"{whose}, or its scheduler, cannot load what it saves ({named(error)}): a run that is "
            "interrupted cannot go on from a checkpoint"
        ]
    notes = []
    if _has_others(stepped):
        notes.append(
            f"{whose} has parameters besides that no step trains, as those of a model are that a "
            "run trains a copy of: use those that are handed over alone"
        )
    before, after = _held(new.optimiser), _held(stepped.optimiser)
    are_alike = go_on_alike(name, module, stepped, new)
    if changed := [
        key
        for key in before | after
        if before.get(key) != after.get(key)
        and not (are_alike and _are_optimisers(attributes_of(stepped.optimiser).get(key)))
    ]:
        notes.append(
            f"{whose} changes what it does not save when it takes a step ({', '.join(changed)}): "
            "where that matters let state_dict save it, and load_state_dict restore it as it is, "
            "as a run that goes on from a checkpoint is without it"
        )
    elif not are_alike:
        notes.append(
            f"{whose}, with its scheduler, goes on otherwise once it has loaded what it saves, and "
            "so does a run that goes on from a checkpoint: have state_dict save, and "
            "load_state_dict restore, all that a step uses, as it is, copies of parameters too"
        )
    return notes


def _has_others(learner: Learner) -> bool:
    """Return whether an optimiser has parameters beside those of the learner's module."""
    own = {id(p) for p in learner.module.parameters()}
    groups = [] if learner.optimiser is None else learner.optimiser.param_groups
    are_own = {id(p) in own for group in groups for p in group["params"]}
    return are_own == {True, False}


_SAVED = {"state", "param_groups"}
_TORCHS = {"defaults", "_opt_called", "_need_device_dtype_check_for_fused"}  # no step uses them


def _held(optimiser: object) -> dict[str, str]:
    """Return what tells what an optimiser holds besides what it saves, by name."""
    return {
        key: content_of([*own.values()] if _are_hooks(key, own) else own)
        for key, own in attributes_of(optimiser).items()
        if key not in _SAVED | _TORCHS
    }


def _are_hooks(key: str, held: object) -> bool:
    """Whether they are hooks as torch has them, by numbers that are new in each process."""
    return key.endswith("_hooks") and isinstance(held, Mapping)


def _are_optimisers(held: object) -> bool:
    """Whether something is an optimiser, or some of them, whose state may be saved as one."""
    several = [*held.values()] if isinstance(held, Mapping) else held
    if isinstance(several, list | tuple):
        return bool(several) and all(map(_are_optimisers, several))
    return hasattr(held, "param_groups")
