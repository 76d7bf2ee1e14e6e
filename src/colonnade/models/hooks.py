"""Hooks that a model brings, at work in its copy: torch copies none of those of parameters.

A hook changes what a parameter learns, as one that holds some weights fast by a mask, or clips. Its
copy has to be that of the copy: a function that looks at the model by its closure would look at the
one that was handed in, whose values no training changes.
"""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable, Mapping
from types import CellType, FunctionType
from typing import Any

from torch import Tensor, nn

from colonnade.errors import ConfigurationError

__all__ = ["look_at_copies", "put_back", "what_torch_leaves_out"]

_LeftOut = tuple[Any, Any, Mapping[str, Any]]


def what_torch_leaves_out(p: Tensor) -> _LeftOut | None:
    """Return the hooks of a parameter's gradient, those after it is there, and its attributes.

    None where it has none of them. Handles of hooks, which a model may keep, refer to the same
    dictionaries: whoever copies or pickles these with the model keeps that so.

    >>> import torch
    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> what_torch_leaves_out(p)
    >>> handle = p.register_hook(abs)
    >>> before, after, attributes = what_torch_leaves_out(p)
    >>> list(before.values()), after, attributes
    ([<built-in function abs>], None, {})
    """
    before, after = p._backward_hooks, getattr(p, "_post_accumulate_grad_hooks", None)
    attributes = dict(vars(p))
    return (before, after, attributes) if before or after or attributes else None


def put_back(p: Tensor, left_out: _LeftOut) -> None:
    """Let a copy of a parameter have what ``what_torch_leaves_out`` returned."""
    before, after, attributes = left_out
    vars(p).update(attributes)
    if before:
        p._backward_hooks = before
    if after:
        p._post_accumulate_grad_hooks = after


def look_at_copies(module: nn.Module, copies: Mapping[int, Any]) -> None:
    """Let hooks in a copied module look at the copies of what their closures hold.

    Parameters
    ----------
    module
        The copy, which has the hooks.
    copies
        Copies of the original's modules, parameters and buffers, by the ``id`` of what they are of.

    Raises
    ------
    ConfigurationError
        If a hook of a parameter looks at one of the original's by a global name.
    """
    for owner in (*module.modules(), *module.parameters()):
        for name in _HOOKS:
            hooks = getattr(owner, name, None) or {}
            for number, hook in hooks.items():
                if isinstance(owner, Tensor):
                    _check_globals(hook, copies)
                if (other := _looking_at(hook, copies)) is not hook:
                    hooks[number] = other


_HOOKS = (
    *sorted(name for name in vars(nn.Module()) if name.endswith("_hooks")),
    "_post_accumulate_grad_hooks",
)


def _check_globals(hook: Callable[..., Any], copies: Mapping[int, Any]) -> None:
    if not isinstance(hook, FunctionType):
        return
    for step in dis.get_instructions(hook):
        if step.opname == "LOAD_GLOBAL" and id(hook.__globals__.get(step.argval)) in copies:
            raise ConfigurationError(
                f"a hook of a parameter looks at the global {step.argval!r}, which is of the model "
                "that is handed in and not of the copy: give it to the hook by functools.partial"
            )


def _looking_at(hook: Callable[..., Any], copies: Mapping[int, Any]) -> Callable[..., Any]:
    """Return a function as one is, whose closure and defaults are copies where there are some."""
    if not isinstance(hook, FunctionType):
        return hook
    closure, usual = hook.__closure__ or (), hook.__defaults__ or ()
    cells = tuple(_cell(cell, copies) for cell in closure)
    defaults = tuple(copies.get(id(each), each) for each in usual)
    if all(map(operator.is_, (*cells, *defaults), (*closure, *usual))):
        return hook
    other = FunctionType(hook.__code__, hook.__globals__, hook.__name__, defaults, cells or None)
    other.__kwdefaults__, other.__qualname__ = hook.__kwdefaults__, hook.__qualname__
    other.__module__ = hook.__module__
    vars(other).update(vars(hook))
    return other


def _cell(cell: CellType, copies: Mapping[int, Any]) -> CellType:
    try:
        held = cell.cell_contents
    except ValueError:  # it holds nothing yet
        return cell
    return CellType(copies[id(held)]) if id(held) in copies else cell
