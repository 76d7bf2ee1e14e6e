"""Copies of users' models: each run trains its own, and what was handed in stays as it was."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from torch import Tensor, nn

__all__ = ["copied"]

_Module = TypeVar("_Module", bound=nn.Module)


def copied(module: _Module, shared: Iterable[Tensor] = ()) -> _Module:
    """Return a copy of a module that shares nothing with it but the tensors that are given.

    Torch copies no tensor that was computed from parameters, as modules with
    ``torch.nn.utils.weight_norm`` or ``prune`` hold one until they compute it anew; the copy holds
    its values. Nor does torch copy attributes of parameters, by which an optimiser's function may
    tell them apart; the copy has them. Hooks of parameters it has not (``hooks.py``).

    Raises
    ------
    Exception
        As whatever the module holds may, where it cannot be copied.

    Examples
    --------
    >>> from torch.nn.utils import prune
    >>> model = prune.l1_unstructured(nn.Linear(3, 2), "weight", amount=0.5)
    >>> bool((copied(model).weight == model.weight).all())
    True
    >>> copied(model, shared=[model.bias]).bias is model.bias
    True
    """
    memo = {**dict(_copies(module)), **{id(each): each for each in shared}}
    other = copy.deepcopy(module, memo)
    for p in module.parameters():
        if (attributes := vars(p)) and (own := memo.get(id(p), p)) is not p:
            vars(own).update(copy.deepcopy(attributes, memo))
    return other


_CONTAINERS = (dict, set, OrderedDict)


def _copies(module: nn.Module) -> Iterator[tuple[int, Any]]:
    """Yield the copies of what a module holds that ``deepcopy`` refuses, or is slow at.

    A module has a dozen empty tables of hooks, most of the time of copying a small one.
    """
    for part in module.modules():
        for value in vars(part).values():
            if type(value) in _CONTAINERS:
                if not value:
                    yield id(value), type(value)()
            elif isinstance(value, Tensor) and not value.is_leaf:
                yield id(value), value.detach().clone()
