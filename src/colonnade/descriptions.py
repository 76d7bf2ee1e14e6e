"""What tells a model, a loss or a tensor from others: descriptions that a checkpoint is tied to."""

from __future__ import annotations

import copyreg
import hashlib
import sysconfig
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.models import Learner

__all__ = ["bytes_of", "content_of", "described", "device_told"]


def described(learner: Learner) -> dict[str, Any]:
    """Return a model's structure, its start, and its optimiser's settings."""
    optimiser = learner.optimiser
    return {
        "model": str(learner.module),
        "start": _digest(content_of(learner.module).encode()),
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
    One without a name, or from a file that no installed package brought, is told by its code too,
    and by the values of the globals that this names; another version of Python may compile it
    otherwise. A module is told by its settings, parameters and buffers, those of its parts
    included, any other object by its type and its state, as it would be copied.

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
        case Enum() | torch.device() | torch.dtype() | np.generic() | np.dtype():
            return repr(value)
    if isinstance(value, _PLAIN):
        return repr(value)
    return f"{_name(type(value))}{inside(_state(value))}"


_PLAIN = (int, float, complex, str, bytes, bytearray, range, slice, type(None), type(...))


def _state(value: object) -> object:
    """Return what an object would be copied by; nothing where it cannot be."""
    try:
        how = copyreg.dispatch_table.get(type(value))
        made = how(value) if how else value.__reduce_ex__(4)
    except Exception:  # as of a lock, or a generator that is running
        return None
    if isinstance(made, str):  # it is one of its kind
        return made
    _, arguments, *state = made
    # Items of a list or dict come as iterators.
    rest = [list(each) if isinstance(each, Iterator) else each for each in state]
    return [each for each in arguments if each is not type(value)], rest


def _counts(name: str, module: nn.Module) -> bool:
    """Whether an attribute of a module is its author's, and not what torch keeps in it."""
    author = type(module).__module__
    if author.startswith("torch._dynamo"):  # made of another by torch.compile, and around it
        return False
    return name not in _TORCHS and not (author.startswith("torch.") and name.startswith("_"))


_TORCHS = vars(nn.Module()).keys() - {"training"}
"""What torch keeps in every module: parameters and buffers, told apart, and hooks."""


def _settings(module: nn.Module) -> dict[str, Any]:
    """Return what a module and each of its parts hold, by the names of the parts."""
    return {
        name: [
            _name(type(part)),
            {key: own for key, own in vars(part).items() if _counts(key, part)},
            {key: [own, own.requires_grad] for key, own in part.named_parameters(recurse=False)},
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
        "code": [],
        "globals": {},
    }
    if function.__name__ == "<lambda>" or _is_own(function):
        held["code"] = [function.__code__]
        named = {name: function.__globals__.get(name) for name in _names(function.__code__)}
        held["globals"] = {k: v for k, v in named.items() if not isinstance(v, _TOLD_BY_NAME)}
    return {name: each for name, each in held.items() if each}


# A class's name says no more than a module's, and neither is gone into.
_TOLD_BY_NAME = (type(None), type, ModuleType)
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def _is_own(function: FunctionType) -> bool:
    """Whether a function is of a file that somebody may edit: of none that was installed."""
    if (function.__module__ or "").partition(".")[0] == __name__.partition(".")[0]:
        return False
    return not function.__code__.co_filename.startswith(_INSTALLED)


def _names(code: CodeType) -> Iterator[str]:
    """Return the names that a function's code looks up, that of functions in it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


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
