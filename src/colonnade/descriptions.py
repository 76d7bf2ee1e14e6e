"""What tells a model and a tensor from others: descriptions that a checkpoint is tied to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from colonnade.models import Learner

__all__ = ["bytes_of", "described"]


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


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a scheduler's state says the same in every process: no addresses."""
    return {k: v for k, v in state.items() if isinstance(v, (int, float, str, list, dict))}


def bytes_of(values: Tensor) -> memoryview:
    """Return the bytes of a tensor, whatever its type."""
    return values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
