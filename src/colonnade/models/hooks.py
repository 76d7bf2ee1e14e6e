"""What torch leaves out where it copies a parameter, or pickles it: hooks, and attributes.

A hook changes what a parameter learns, as one that holds some weights fast by a mask, or clips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

__all__ = ["put_back", "what_torch_leaves_out"]

_Hooks = Sequence[Callable[..., Any]]


def what_torch_leaves_out(p: Tensor) -> tuple[_Hooks, _Hooks, Mapping[str, Any]] | None:
    """Return the hooks of a parameter's gradient, those after it is there, and its attributes.

    None where it has none of them.

    >>> import torch
    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> what_torch_leaves_out(p)
    >>> handle = p.register_hook(abs)
    >>> what_torch_leaves_out(p)
    ([<built-in function abs>], [], {})
    """
    kinds = (p._backward_hooks, getattr(p, "_post_accumulate_grad_hooks", None))
    before, after = ([*(hooks or {}).values()] for hooks in kinds)
    attributes = dict(vars(p))
    return (before, after, attributes) if before or after or attributes else None


def put_back(p: Tensor, left_out: tuple[_Hooks, _Hooks, Mapping[str, Any]]) -> None:
    """Let a copy of a parameter have what ``what_torch_leaves_out`` returned."""
    before, after, attributes = left_out
    vars(p).update(attributes)
    if not before and not after:
        return
    is_trained = p.requires_grad
    p.requires_grad_()  # torch registers none with what is frozen, where they may be
    for hook in before:
        p.register_hook(hook)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for hook in after:
        p.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
    p.requires_grad_(is_trained)
