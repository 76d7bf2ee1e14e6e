"""What tells a model and a tensor from others: descriptions that a checkpoint is tied to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from colonnade.models import Learner

__all__ = ["bytes_of", "content_of", "described", "device_told"]


def described(learner: Learner) -> dict[str, Any]:
    """Return a model's structure, its start, and its optimiser's settings."""
    digest = hashlib.blake2b(digest_size=8)
    for name, value in learner.module.state_dict().items():
        digest.update(name.encode())
        digest.update(bytes_of(value))
    optimiser = learner.optimiser
    return {
        "model": str(learner.module),
        "start": digest.hexdigest(),
        "optimiser": type(optimiser).__name__ if optimiser else "none",
        "settings": {k: repr(v) for k, v in optimiser.defaults.items()} if optimiser else {},
        "scheduler": repr(learner.scheduler and _plain(learner.scheduler.state_dict())),
        "device": str(learner.device),
    }


def device_told(device: str | torch.device) -> str:
    """Return a device in words: as torch names it, and of a GPU of Nvidia's what it is.

    >>> device_told("cpu")
    'cpu'
    """
    where = torch.device(device)
    if where.type != "cuda":
        return str(where)
    return f"{where} ({torch.cuda.get_device_name(where)})"


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a scheduler's state says the same in every process: no addresses."""
    return {k: v for k, v in state.items() if isinstance(v, (int, float, str, list, dict))}


def content_of(value: object) -> str:
    """Return what tells a value from others like it, the same in every process.

    >>> content_of({"b": 1, "a": 0.5})
    "{'a': 0.5, 'b': 1}"
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {each.name: getattr(value, each.name) for each in fields(value) if each.compare}
        return f"{type(value).__qualname__}{content_of(named)}"
    if isinstance(value, Mapping):
        inside = sorted(f"{content_of(key)}: {content_of(each)}" for key, each in value.items())
        return f"{{{', '.join(inside)}}}"
    if type(value).__repr__ is object.__repr__:  # which has an address
        return type(value).__qualname__
    return repr(value)


def bytes_of(values: Tensor) -> memoryview:
    """Return the bytes of a tensor, whatever its type."""
    return values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
