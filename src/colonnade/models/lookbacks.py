"""Whether a copy of a model would still hang on the model that it is of.

Each run trains copies. Torch copies a module, what it holds and methods that it holds; but it
copies no function, which looks where it did, and no hooks of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any

from torch import Tensor, nn

from colonnade.errors import ConfigurationError
from colonnade.own_code import attributes_of, is_own_class
from colonnade.reached import parts_held, reached

__all__ = ["check_looks_at_itself", "check_loss_looks_at_none", "unhooked"]


def check_looks_at_itself(whose: str, module: nn.Module) -> None:
    """Raise ``ConfigurationError`` if a copy of a module would look at the module, or lack hooks.

    Parameters
    ----------
    whose
        Which model it is: "the bottom model of 'bank'".
    module
        The model.

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> handle = model.register_forward_hook(lambda own, given, output: output + own.bias)
    >>> check_looks_at_itself("the bottom model of 'bank'", model)
    >>> handle = model.bias.register_hook(abs)
    >>> check_looks_at_itself("the bottom model of 'bank'", model)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the bottom model of 'bank' has a hook on the derivative of 'bias', and each run trains a copy, which torch makes without: let the function that makes the optimiser register it, as that is handed the parameters that are trained
    """  # noqa: E501 - a message is one line
    for name, p in module.named_parameters():
        if any(getattr(p, kind, None) for kind in _HOOKS):
            raise ConfigurationError(
                f"{whose} has a hook on the derivative of {name!r}, and each run trains a copy, "
                "which torch makes without: let the function that makes the optimiser register it, "
                "as that is handed the parameters that are trained"
            )
    parts = {id(part): name for name, part in _parts(module)}
    for part in module.modules():
        for function in _uncopied(vars(part).values()):
            found = _looked_at([function], parts)
            if found is not None:
                raise ConfigurationError(
                    f"{whose} holds the function {function.__qualname__}, which looks at "
                    f"{_shown(found)} that is handed in, of which each run trains a copy: let it "
                    "be a method, which goes with a copy, or bind what it looks at by "
                    "functools.partial"
                )


def check_loss_looks_at_none(
    name: str, loss: Callable[..., Any], models: Iterable[nn.Module]
) -> None:
    """Raise ``ConfigurationError`` if a loss looks at what is trained of models that are handed in.

    Parameters
    ----------
    name
        Whose loss it is.
    loss
        The loss.
    models
        The models of whoever has it.

    Examples
    --------
    >>> from functools import partial
    >>> top = nn.Linear(3, 2)
    >>> check_loss_looks_at_none("bank", partial(max, top), [top])
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the loss of 'bank' looks at the model that is handed in, of which each run trains a copy: what holds weights down, or looks at them otherwise, is the optimiser's (weight_decay)
    """  # noqa: E501 - a message is one line
    parts = {id(part): of for module in models for of, part in _parts(module) if _is_trained(part)}
    held = loss.modules() if isinstance(loss, nn.Module) else ()
    weights = loss.parameters() if isinstance(loss, nn.Module) else ()
    found = _looked_at([loss, *held, *weights], parts)
    if found is not None:
        raise ConfigurationError(
            f"the loss of {name!r} looks at {_shown(found)} that is handed in, of which each run "
            "trains a copy: what holds weights down, or looks at them otherwise, is the "
            "optimiser's (weight_decay)"
        )


def unhooked(module: nn.Module) -> nn.Module:
    """Return a module, whose parameters have no hooks any more.

    >>> model = nn.Linear(3, 2)
    >>> handle = model.bias.register_hook(abs)
    >>> check_looks_at_itself("the bottom model of 'bank'", unhooked(model))
    """
    for p in module.parameters():
        for kind in _HOOKS:
            if getattr(p, kind, None):
                setattr(p, kind, None)
    return module


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _parts(module: nn.Module) -> Iterator[tuple[str, nn.Module | Tensor]]:
    """Yield what training changes of a module, by name: those of its parts that hold something."""
    for name, part in module.named_modules():
        if next(part.parameters(), None) is not None or next(part.buffers(), None) is not None:
            yield name, part
    yield from module.named_parameters()
    yield from module.named_buffers()


def _is_trained(part: nn.Module | Tensor) -> bool:
    own = part.parameters() if isinstance(part, nn.Module) else [part]
    return any(p.requires_grad for p in own)


def _looked_at(called: Iterable[object], parts: dict[int, str]) -> str | None:
    """Return which of some parts is reached when something is called; None for none."""
    return next((parts[id(one)] for one in reached(called) if id(one) in parts), None)


def _shown(part: str) -> str:
    return f"{part!r} of the model" if part else "the model"


def _uncopied(held: Iterable[Any]) -> Iterator[FunctionType]:
    """Yield the functions that a copy of what is held would share with it."""
    waiting, seen = [*held], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, nn.Module | Tensor):
            continue
        seen.add(id(one))
        if isinstance(one, FunctionType):
            yield one
        elif isinstance(one, MethodType):
            waiting += [one.__func__, one.__self__]
        else:
            waiting += parts_held(one) or ()
            waiting += attributes_of(one).values() if is_own_class(type(one)) else ()
