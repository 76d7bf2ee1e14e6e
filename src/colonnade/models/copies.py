"""Copies of users' models: each run trains its own, and what was handed in stays as it was."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import Tensor, nn

__all__ = ["copied"]

_Module = TypeVar("_Module", bound=nn.Module)


def copied(module: _Module) -> _Module:
    """Return a copy of a module that shares nothing with it.

    Torch copies no tensor that was computed from parameters, as modules with
    ``torch.nn.utils.weight_norm`` or ``prune`` hold one until they compute it anew; the copy holds
    its values.

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
    """
    computed = (
        value
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, Tensor) and not value.is_leaf
    )
    return copy.deepcopy(module, {id(value): value.detach().clone() for value in computed})
