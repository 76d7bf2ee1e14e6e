"""Trying a user's modules before anything is trained: what they refuse, they refuse now.

A module may be anything that torch lets somebody write, so whether it takes what it will be given
is learned by giving it that. It is a copy that is tried, and what it draws no work of a run will
miss, as each is seeded anew: trying changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from colonnade.errors import ConfigurationError
from colonnade.faults import blamed, of_the_disk
from colonnade.models.copies import copied
from colonnade.models.hooks import check_hooks
from colonnade.models.lookbacks import looking_at_itself
from colonnade.models.modes import evaluating, put_into_training
from colonnade.telling import class_of, first_line

__all__ = [
    "check_module",
    "check_one_row",
    "check_steady",
    "has_some",
    "made",
    "shown",
    "tried",
    "useless",
]

_EXAMPLES = {
    "optimiser": "partial(torch.optim.Adam, lr=1e-3)",
    "scheduler": "partial(torch.optim.lr_scheduler.StepLR, step_size=10)",
}

_NEEDED = {
    "optimiser": ("zero_grad", "state_dict", "load_state_dict"),
    "scheduler": ("state_dict", "load_state_dict"),
}


def shown(value: object) -> str:
    """Return what a value is, for a message: a tensor's kind and shape, or its type."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {list(value.shape)}"
    return class_of(value)


def check_module(whose: str, module: object) -> None:
    """Raise ``ConfigurationError`` unless it is a torch module that a run can train a copy of.

    Its parameters must have their shapes, and torch must be able to copy it, with all that it has.

    Parameters
    ----------
    whose
        Which model it is: "the bottom model of 'bank'".
    module
        The model.

    Examples
    --------
    >>> check_module("the bottom model of 'bank'", nn.Linear)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the bottom model of 'bank' must be a torch.nn.Module, not the class Linear
    """  # noqa: E501 - a message is one line
    if not isinstance(module, nn.Module):
        raise ConfigurationError(f"{whose} must be a torch.nn.Module, not {shown(module)}")
    for name, values in (*module.named_parameters(), *module.named_buffers()):
        if is_lazy(values):
            raise ConfigurationError(
                f"{whose} does not know yet of which shape its {name!r} is: call it once on a few "
                "rows before, or say how many inputs it has"
            )
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        raise ConfigurationError(
            f"{whose} is compiled by torch.jit, and a copy of that cannot be trained: give the "
            "module that it was made of"
        )
    check_hooks(whose, module)
    with blamed(f"{whose} cannot be copied, and each run trains a copy of its own"):
        copied(module)


def check_steady(whose: str, module: nn.Module, inputs: Any) -> None:
    """Raise ``ConfigurationError`` if computing changes which tensors a module saves, or their shapes.

    What is saved in one process is loaded in another that has computed nothing yet.

    Examples
    --------
    >>> class Lazy(nn.Module):
    ...     def forward(self, x):
    ...         self.register_buffer("mask", torch.ones(len(x)))
    ...         return x
    >>> check_steady("the bottom model of 'bank'", Lazy(), torch.ones(2, 3))
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the bottom model of 'bank' makes or resizes what it saves when it computes (mask): make it before, or register_buffer it with persistent=False
    """  # noqa: E501 - a message is one line
    own = copied(module).cpu()
    with blamed(f"{whose} cannot be saved"):
        before = _shapes(own)
    with looking_at_itself(whose, module, own):
        for put in (put_into_training, nn.Module.eval):
            put(own)
            try:
                with torch.set_grad_enabled(False):
                    own(inputs)
            except Exception:  # it may take no such batch in training; others tell
                continue
    after = _shapes(own)
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    if changed:
        raise ConfigurationError(
            f"{whose} makes or resizes what it saves when it computes ({', '.join(changed)}): make "
            "it before, or register_buffer it with persistent=False"
        )


def _shapes(module: nn.Module) -> dict[str, object]:
    return {
        name: value.shape if isinstance(value, Tensor) else None
        for name, value in module.state_dict().items()
    }


def tried(
    module: nn.Module,
    inputs: Any,
    training: bool = False,
    graph: bool = False,
    shared: Iterable[Tensor] = (),
) -> Any:
    """Return what a copy of a module makes of inputs, on the CPU; whatever it raises comes out.

    It can be differentiated where that is in training, or the graph is asked for. What is shared
    with the copy, as large tables of embeddings, must be on the CPU.
    """
    own = copied(module, shared).cpu()
    put_into_training(own)
    mode = nullcontext() if training else evaluating(own)
    with mode, torch.set_grad_enabled(training or graph):
        return own(inputs)


def made(what: str, owner: str, factory: Callable[[Any], Any], of: Any) -> Any:
    """Return the optimiser or the scheduler that a function of somebody's makes.

    Parameters
    ----------
    what
        Which of the two.
    owner
        Whose it is, for the message.
    factory
        Makes it.
    of
        The parameters, or the optimiser.

    Raises
    ------
    ConfigurationError
        If it does not, or makes a scheduler of another optimiser than this.
    Unwritten
        If it cannot, since the disk does not take what it writes.

    Examples
    --------
    >>> made("scheduler", "bank", lambda optimiser: None, None)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the scheduler of 'bank' is a NoneType; give what makes one, as partial(torch.optim.lr_scheduler.StepLR, step_size=10) does
    """  # noqa: E501 - a message is one line
    remedy = f"give what makes one, as {_EXAMPLES[what]} does"
    with blamed(f"the {what} of {owner!r} cannot be made", f"; {remedy}"):
        result = factory(of)
    if isinstance(result, type) or not callable(getattr(result, "step", None)):
        raise ConfigurationError(f"the {what} of {owner!r} is {shown(result)}; {remedy}")
    if lacking := [each for each in _NEEDED[what] if not callable(getattr(result, each, None))]:
        raise ConfigurationError(
            f"the {what} {type(result).__name__} of {owner!r} has no {' and no '.join(lacking)}, "
            "without which no run can be kept and gone on with: give it all that torch's have"
        )
    if what == "optimiser" and not hasattr(result, "param_groups"):
        raise useless(
            what, owner, result, "has no param_groups, so none of the parameters that it was handed"
        )
    if what == "scheduler" and not _goes_with(result, of):
        raise useless(
            *(what, owner, result),
            "is of another optimiser than it was handed, and changes no rate of that one",
        )
    return result


def useless(what: str, owner: str, it: object, why: str) -> ConfigurationError:
    """Return the error of an optimiser or scheduler that does nothing to what it was handed."""
    return ConfigurationError(
        f"the {what} {type(it).__name__} of {owner!r} {why}: use what is handed over, as "
        f"{_EXAMPLES[what]} does"
    )


def has_some(optimiser: object, parameters: Iterable[nn.Parameter]) -> bool:
    """Return whether an optimiser has some of these parameters: who wants may leave others out."""
    handed = {id(p) for p in parameters}
    return any(id(p) in handed for group in _groups(optimiser) for p in group["params"])


def _goes_with(scheduler: object, optimiser: object) -> bool:
    """Return whether a scheduler is of an optimiser, or of one within it; of some nobody knows."""
    its = getattr(scheduler, "optimizer", None)
    if its is None or its is optimiser:
        return True
    return any(own is one for own in _groups(its) for one in _groups(optimiser))


def _groups(optimiser: object) -> Iterable[Any]:
    groups: Iterable[Any] = getattr(optimiser, "param_groups", ())
    return groups


def check_one_row(whose: str, module: nn.Module, row: Any, training: bool, reason: str) -> None:
    """Raise ``ConfigurationError`` unless a module takes one row alone.

    Batch normalisation takes none in training: its variance would be 0. What squeezes all axes of
    length 1 returns another shape for one.

    Parameters
    ----------
    whose
        Which model it is: "the top model of 'insurer'".
    module
        The model.
    row
        Inputs of one row.
    training
        Whether it meets one in training, or in evaluation.
    reason
        Where it meets one, and what to change there.

    Examples
    --------
    >>> model, row = nn.BatchNorm1d(2), torch.zeros(1, 2)
    >>> check_one_row("the model", model, row, training=False, reason="")
    >>> check_one_row("the model", model, row, training=True, reason="batches have one")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the model does not take one row alone (Expected more than 1 value per channel when training, got input size torch.Size([1, 2])): batches have one; nn.LayerNorm and nn.GroupNorm take one
    """  # noqa: E501 - a message is one line
    try:
        output = tried(module, row, training)
    except Exception as error:  # a user's module may raise anything
        why = f"{whose} does not take one row alone"
        raise of_the_disk(why, error) or ConfigurationError(
            f"{why} ({first_line(error)}): {reason}; nn.LayerNorm and nn.GroupNorm take one"
        ) from error
    if not isinstance(output, Tensor) or output.shape[:1] != (1,):
        raise ConfigurationError(
            f"{whose} must return [1, ...] for one row alone, but it returned {shown(output)}: "
            f"{reason}; squeeze no axis but one that is named"
        )
