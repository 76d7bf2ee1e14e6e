"""Trying a user's optimiser and scheduler before anything is trained.

Both are made by functions of the user's, and may be of any class, so whether they can train a model
is learned by letting them: on small parameters of the same kinds, as many as the model has.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from colonnade.drawing import drawing
from colonnade.errors import ConfigurationError
from colonnade.faults import blamed, of_the_disk
from colonnade.models.draws import drawing_alike
from colonnade.models.gradients import check_gradients, sparse_parameters
from colonnade.models.learner import (
    Learner,
    OptimiserFactory,
    SchedulerFactory,
    trained_parameters,
    unshared,
)
from colonnade.models.trial import has_some, made, useless
from colonnade.quiet import warning_otherwise
from colonnade.telling import first_line

__all__ = ["check_optimiser", "check_schedule", "go_on_alike", "stepped_and_new"]

_MOST = 1000  # steps of a scheduler, which are some milliseconds
_MOST_ADDED = 100  # steps of an optimiser that adds up what comes before it changes anything
_STEPS = 2  # many remember something from the second step on only
_EPOCHS, _STEPS_OF_AN_EPOCH = 3, 4  # in which most that wait for a few steps do something
_AS = "take one that needs nothing at a step, as StepLR, CosineAnnealingLR or OneCycleLR"


def check_optimiser(
    owner: str,
    module: nn.Module,
    optimiser: OptimiserFactory,
    scheduler: SchedulerFactory | None = None,
    device: str | torch.device = "cpu",
) -> None:
    """Refuse an optimiser or a scheduler that cannot train a module.

    Parameters
    ----------
    owner
        Whose they are, for the message.
    module
        What is to be trained; it is not changed.
    optimiser, scheduler
        What makes them.
    device
        Where they will be at work: some know one device only.

    Raises
    ------
    ConfigurationError
        If one cannot be made, cannot take a step, or does nothing to what it was handed.
    Unwritten
        If the disk does not take what one writes.

    Examples
    --------
    >>> check_optimiser("bank", nn.Linear(2, 1), torch.optim.SGD)
    >>> check_optimiser("bank", nn.Linear(2, 1), torch.optim.LBFGS)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the optimiser LBFGS of 'bank' wants to evaluate the loss anew at every step, which takes an exchange with the others: take one whose step needs gradients alone, as Adam or SGD
    """  # noqa: E501 - a message is one line
    if not trained_parameters(module):
        return
    learner = _small(owner, module, optimiser, device)
    small = [*learner.module.parameters()]
    before = [p.detach().clone() for p in small]
    check_gradients(owner, module, optimiser)
    with drawing(), warning_otherwise():  # what it warns of, it warns of in training
        warnings.simplefilter("ignore")
        if scheduler is not None:
            learner.scheduler = made("scheduler", owner, scheduler, learner.optimiser)
        _take_steps(owner, learner, module)
        _advance(owner, learner)
        if has_some(learner.optimiser, small):
            return
        for _ in range(_MOST_ADDED):  # it may train copies, and put them back
            if not all(map(torch.equal, before, small)):
                return
            _take_steps(owner, learner, module, 1)
    raise useless(
        *("optimiser", owner, learner.optimiser),
        "has in its param_groups none of the parameters that it was handed, those of the copy of "
        "the model that is trained",
    )


def check_schedule(
    owner: str,
    module: nn.Module,
    optimiser: OptimiserFactory,
    scheduler: SchedulerFactory | None,
    steps: int,
) -> None:
    """Refuse a scheduler that takes fewer steps than there will be, or than 1000.

    Parameters
    ----------
    owner, module, optimiser, scheduler
        As for ``check_optimiser``, which comes before.
    steps
        How many there will be.

    Raises
    ------
    ConfigurationError
        If one of them raises.
    """
    if scheduler is None or not trained_parameters(module):
        return
    learner = _small(owner, module, optimiser, "cpu")
    with drawing(), warning_otherwise():
        warnings.simplefilter("ignore")
        learner.scheduler = made("scheduler", owner, scheduler, learner.optimiser)
        whose = f"the scheduler {type(learner.scheduler).__name__} of {owner!r}"
        for step in range(min(steps, _MOST)):
            why = f"{whose} fails at step {step + 1} of the {steps} that training has"
            with blamed(why, "; make it for as many"):
                learner.advance_schedule()


def stepped_and_new(
    owner: str, module: nn.Module, optimiser: OptimiserFactory, scheduler: SchedulerFactory | None
) -> tuple[Learner, Learner]:
    """Return a small learner that took some steps, and another that took none.

    Raises
    ------
    Exception
        As whatever optimiser and scheduler hold may.
    """
    stepped, new = (_small(owner, module, optimiser, "cpu") for _ in range(2))
    with drawing(), warning_otherwise():
        warnings.simplefilter("ignore")
        for each in (stepped, new):
            if scheduler is not None:
                each.scheduler = made("scheduler", owner, scheduler, each.optimiser)
        _train(owner, stepped, module)
    return stepped, new


def go_on_alike(owner: str, module: nn.Module, one: Learner, other: Learner) -> bool:
    """Return whether two small learners of a module come to the same by the same gradients.

    What their optimisers draw is the same too, as it is in a run that goes on.
    """
    with warning_otherwise():
        warnings.simplefilter("ignore")
        try:
            for each in (one, other):
                with drawing_alike():
                    _train(owner, each, module)
        except Exception:  # as whatever one that has loaded a state may raise
            return False
    return all(map(torch.equal, one.module.parameters(), other.module.parameters()))


def _train(owner: str, learner: Learner, module: nn.Module) -> None:
    """Take as many steps as an optimiser may wait for, and some of the scheduler."""
    for _ in range(_EPOCHS):
        _take_steps(owner, learner, module, _STEPS_OF_AN_EPOCH)
        learner.advance_schedule()


def _small(
    owner: str, module: nn.Module, optimiser: OptimiserFactory, device: str | torch.device
) -> Learner:
    """Return a learner of small parameters, of the kinds that a module trains, and as many."""
    shapes = [([min(n, 2) for n in p.shape], p.dtype) for p in trained_parameters(module)]
    small = [nn.Parameter(_filled(shape, dtype, device)) for shape, dtype in shapes]
    learner = Learner(nn.ParameterList(small), device=device)
    learner.optimiser = unshared(made("optimiser", owner, optimiser, small))
    return learner


def _filled(shape: Sequence[int], dtype: torch.dtype, device: str | torch.device) -> Tensor:
    """Return different numbers near 1: as a matrix they are not singular."""
    numbers = torch.linspace(0.5, 1.5, math.prod(shape), device=device)
    return numbers.to(dtype).reshape(tuple(shape))


def _take_steps(owner: str, learner: Learner, module: nn.Module, steps: int = _STEPS) -> None:
    sparse = {id(p) for p in sparse_parameters(module)}
    for step in range(steps):
        for p, original in zip(
            learner.module.parameters(), trained_parameters(module), strict=True
        ):
            if not p.requires_grad:  # some freeze what they are handed
                continue
            gradient = _filled(p.shape, p.dtype, p.device) * (1 + step % 3)  # means of them differ
            added = gradient.to_sparse(1) if id(original) in sparse else gradient
            try:
                torch.autograd.backward([p], [added])  # so hooks of theirs are called
            except Exception:  # one may be made for another shape
                p.grad = added if p.grad is None else p.grad + added
        _step(owner, learner)


def _step(owner: str, learner: Learner) -> None:
    try:
        learner.step()
    except Exception as error:  # an optimiser of the user's own may raise anything
        name = type(learner.optimiser).__name__
        if "closure" in str(error):
            raise ConfigurationError(
                f"the optimiser {name} of {owner!r} wants to evaluate the loss anew at every step, "
                "which takes an exchange with the others: take one whose step needs gradients "
                "alone, as Adam or SGD"
            ) from error
        why = f"the optimiser {name} of {owner!r} cannot take a step"
        raise of_the_disk(why, error) or ConfigurationError(
            f"{why}: {first_line(error)}; give it other settings, as a smaller learning rate, or "
            "take another"
        ) from error


def _advance(owner: str, learner: Learner) -> None:
    scheduler: object = learner.scheduler
    name = type(scheduler).__name__
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise ConfigurationError(
            f"the scheduler {name} of {owner!r} wants a metric at every step, which a party never "
            f"learns: {_AS}"
        )
    with blamed(f"the scheduler {name} of {owner!r} cannot take a step", f"; {_AS}"):
        learner.advance_schedule()
