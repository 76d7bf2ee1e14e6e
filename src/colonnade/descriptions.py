"""What tells a model, a loss or a tensor from others: descriptions that a checkpoint is tied to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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

    A function is told by its name and by what it was made with: defaults, and what it closes over.
    One without a name is told by its code too, which another version of Python may compile
    otherwise. A module is told by its settings, parameters and buffers, those of its parts
    included.

    >>> content_of({"b": 1, "a": 0.5})
    "{'a': 0.5, 'b': 1}"
    >>> content_of(partial(content_of, {"b": 1}))
    "partial(colonnade.descriptions.content_of, [{'b': 1}], {})"
    """
    return _content(value, ())


def _content(value: object, around: tuple[int, ...]) -> str:
    if id(value) in around:  # as of a function that calls itself
        return "..."

    def inside(part: object) -> str:
        return _content(part, (*around, id(value)))

    if is_dataclass(value) and not isinstance(value, type):
        named = {each.name: getattr(value, each.name) for each in fields(value) if each.compare}
        return f"{type(value).__qualname__}{inside(named)}"
    match value:
        case Mapping():
            return f"{{{', '.join(sorted(f'{inside(k)}: {inside(v)}' for k, v in value.items()))}}}"
        case list() | tuple():
            return f"[{', '.join(map(inside, value))}]"
        case Set():
            return f"{{{', '.join(sorted(map(inside, value)))}}}"
        case Tensor():
            return f"{value.dtype}{list(value.shape)} {_digest(bytes_of(value))}"
        case np.ndarray():
            return f"{value.dtype}{list(value.shape)} {_digest(value.tobytes())}"
        case partial():
            return f"partial({', '.join(map(inside, (value.func, value.args, value.keywords)))})"
        case nn.Module():
            return inside(_settings(value))
        case MethodType():
            return f"{inside(value.__self__)}.{value.__name__}"
        case FunctionType():
            made_with = _made_with(value)
            return f"{_name(value)}{inside(made_with) if made_with else ''}"
        case CodeType():
            # Local names and line numbers are left out, as they change no result.
            return inside([_digest(value.co_code), value.co_names, value.co_consts])
        case type() | BuiltinFunctionType():
            return _name(value)
    if type(value).__repr__ is object.__repr__:  # which has an address
        return f"{_name(type(value))}{inside(getattr(value, '__dict__', {}))}"
    return repr(value)


def _settings(module: nn.Module) -> dict[str, Any]:
    """Return what a module and each of its parts hold, by the names of the parts."""
    return {
        name: [
            _name(type(part)),
            {key: own for key, own in vars(part).items() if not key.startswith("_")},
            dict(part.named_parameters(recurse=False)),
            dict(part.named_buffers(recurse=False)),
        ]
        for name, part in module.named_modules()
    }


def _made_with(function: FunctionType) -> dict[str, Any]:
    """Return what a function's name does not say of it."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    held = {
        "defaults": [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()],
        "closure": {name: _held(cell) for name, cell in cells},
        "code": [function.__code__] if function.__name__ == "<lambda>" else [],
    }
    return {name: each for name, each in held.items() if each}


def _held(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it holds nothing yet
        return None


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _digest(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def bytes_of(values: Tensor) -> memoryview:
    """Return the bytes of a tensor, whatever its type."""
    return values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
