"""What tells a model, a loss or a tensor from others: descriptions that a checkpoint is tied to."""

from __future__ import annotations

import copyreg
import gc
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping, Set
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache, partial
from inspect import CO_VARARGS, CO_VARKEYWORDS
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from colonnade.bound_anew import bound_anew
from colonnade.functions_told import Named, made_with, settings_of, written_in
from colonnade.models import Learner
from colonnade.own_code import attributes_of, is_ours

__all__ = ["content_of", "described", "device_told", "kept_by", "unsaved"]


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def described(learner: Learner) -> dict[str, Any]:
    """Return a model's structure, its start, and its optimiser's settings."""
    optimiser = learner.optimiser
    return {
        "model": _ADDRESS.sub("", str(learner.module)),
        "start": _digest(content_of(learner.module).encode()),
        "optimiser": type(optimiser).__name__ if optimiser else "none",
        "settings": {k: content_of(v) for k, v in getattr(optimiser, "defaults", {}).items()},
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
    otherwise. So are classes, by the code of their methods and by their attributes. A module is
    told by its settings, parameters and buffers, those of its parts included, any other object by
    its type and its state, as it would be copied. The order of a dict counts, and that of no names.

    >>> content_of({"b": 1, "a": 0.5})
    "{'b': 1, 'a': 0.5}"
    >>> content_of(partial(content_of, {"b": 1}))
    "partial(colonnade.descriptions.content_of, [{'b': 1}], {})"
    """
    return _Teller().tell(value)


_PLAIN = (int, float, complex, str, range, slice, type(None), type(...))
_CONTAINERS = (list, tuple, set, frozenset)
_USUAL = {"torch.Tensor", "torch.nn.parameter.Parameter", "numpy.ndarray", "numpy.memmap"}
_SHORT = 400  # characters; of what is longer a digest stands in what it is a part of
_LONG = 1000  # values of a list that are not told one by one, if all are plain
_DEEP = 100  # levels; what is deeper is told by its type


class _Teller:
    """Tells a value; each object once, however often it is met, and alike wherever it is met."""

    def __init__(self) -> None:
        self._told: dict[int, str] = {}
        self._met: list[object] = []  # kept, so that no other gets the number of one of them
        self._around: set[int] = set()

    def tell(self, value: object) -> str:
        if isinstance(value, _PLAIN) and not isinstance(value, Enum) and not _has_more(value):
            return repr(value)
        if id(value) in self._around:  # as of a function that calls itself
            return "..."
        if len(self._around) > _DEEP:
            return f"{_name(type(value))}..."
        self._around.add(id(value))
        text = self._text(value)
        self._around.discard(id(value))
        return text

    def _part(self, part: object) -> str:
        told = self._told.get(id(part))
        if told is None:
            told = self.tell(part)
            if len(told) > _SHORT:
                told = _digest(told.encode(errors="surrogatepass"))
            if id(part) not in self._around and not isinstance(part, _PLAIN):
                self._met.append(part)
                self._told[id(part)] = told
        return told

    def _kind(self, values: object) -> str:
        """Tell the class of a tensor or array, unless it is a usual one."""
        kind = type(values)
        return "" if _name(kind) in _USUAL else self._part(kind)

    def _alone(self, member: object) -> str:
        """Tell a member of a set, the same in whatever order they are gone through."""
        apart = _Teller()
        apart._around |= self._around
        return apart.tell(member)

    def _text(self, value: object) -> str:
        inside = self._part
        if is_dataclass(value) and not isinstance(value, (type, nn.Module)):
            named = {e.name: getattr(value, e.name, None) for e in fields(value)}
            if is_ours(type(value).__module__):
                named = {e.name: named[e.name] for e in fields(value) if e.compare}
            else:  # what it computes of its fields is an attribute
                named |= attributes_of(value)
            return f"{inside(type(value))}{inside(_held_by(value, named))}"
        if isinstance(value, (*_PLAIN, *_CONTAINERS)) and _has_more(value):
            more = Named(getattr(value, "__dict__", {}))
            return f"{inside(type(value))}{inside(_without_more(value))}{inside(more)}"
        match value:
            case Named():
                # What is told first must not hang on the order in which a set was gone through.
                items = sorted(((inside(key), each) for key, each in value.items()), key=_first)
                return f"{{{', '.join(f'{key}: {inside(each)}' for key, each in items)}}}"
            case Mapping():
                told = ", ".join(f"{inside(key)}: {inside(each)}" for key, each in value.items())
                if type(value) is dict:
                    return f"{{{told}}}"
                return f"{inside(type(value))}{{{told}}}{inside(_state(value))}"
            case list() | tuple():
                if len(value) > _LONG and all(isinstance(each, _PLAIN) for each in value):
                    return f"{len(value)} values {_digest(repr(value).encode())}"
                return f"[{', '.join(map(inside, value))}]"
            case Set():
                return f"{{{', '.join(sorted(map(self._alone, value)))}}}"
            case Tensor() if value.is_nested:
                return f"nested{inside(value.unbind())}"
            case Tensor():
                return f"{self._kind(value)}{_tensor(value)}"
            case np.ndarray():
                told = f"{self._kind(value)}{value.dtype}{list(value.shape)}"
                if value.dtype.hasobject:
                    return f"{told} {inside(value.tolist())}"
                return f"{told} {_digest(value.tobytes())}"
            case memoryview():
                return f"memoryview{inside([value.format, value.shape, value.tobytes()])}"
            case bytes() | bytearray():
                return f"{len(value)} bytes {_digest(value)}"
            case partial():
                made = (value.func, value.args, Named(value.keywords))
                return f"partial({', '.join(map(inside, made))})"
            case nn.Module():
                return f"[{', '.join(f'{name}: {inside(own)}' for name, own in _settings(value))}]"
            case staticmethod() | classmethod():
                return f"{type(value).__name__}({inside(value.__func__)})"
            case MethodType():
                return f"{inside(value.__self__)}.{value.__name__}"
            case FunctionType() if _is_compiled(value):
                return f"compiled {inside(vars(value)['__wrapped__'])}"
            case FunctionType():
                inner = made_with(value)
                return f"{_name(value)}{inside(inner) if inner else ''}"
            case CodeType():
                return inside(_of_code(value))
            case type():
                written = written_in(value)
                return f"{_name(value)}{inside(written) if written else ''}"
            case ModuleType():
                held = settings_of(value)
                return f"module {value.__name__}{inside(held) if held else ''}"
            case BuiltinFunctionType():
                bound = value.__self__
                of = "" if bound is None or isinstance(bound, ModuleType) else inside(bound)
                return f"{value.__module__}.{value.__qualname__}{of}"
            case _Cached():
                return inside(value.__wrapped__)
            case Enum():
                return f"{inside(type(value))}.{value.name} {inside(value.value)}"
            case RemovableHandle():  # of a hook, which is told where it is; torch numbers them
                return _name(type(value))
            case ContextVar():
                return f"ContextVar {value.name} {inside(_current(value))}"
            case torch.device() | torch.dtype() | np.generic() | np.dtype():
                return repr(value)
            case _ if _is_of_the_process(value):  # all draw from it, whatever is trained
                return f"{_name(type(value))} of the process"
            case torch.Generator():
                return f"Generator {_tensor(value.get_state())}"
        return f"{inside(type(value))}{inside(_state(value))}"


def _held_by(holder: object, held: Mapping[str, Any]) -> Named:
    """Return what an object holds by names; what ours hold of dicts is in no order either."""
    if is_ours(type(holder).__module__):
        held = {key: Named(own) if isinstance(own, Mapping) else own for key, own in held.items()}
    return Named(held)


def _of_code(code: CodeType) -> list[object]:
    """Return what tells code; not its local names and line numbers, as they change no result."""
    by_name = code.co_argcount + code.co_kwonlyargcount
    takes = [
        *(code.co_posonlyargcount, code.co_argcount, code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)),
        code.co_varnames[:by_name],
    ]
    does = _digest(code.co_code + code.co_exceptiontable)
    return [takes, does, code.co_names, code.co_consts]


def _first(pair: tuple[str, object]) -> str:
    return pair[0]


def _has_more(value: object) -> bool:
    """Whether a number, text or container is of a class that somebody may edit, or has more."""
    if type(value) in (*_PLAIN, *_CONTAINERS):
        return False
    of_own = bool(getattr(value, "__dict__", None) or written_in(type(value)))
    return of_own and not isinstance(value, type)


def _without_more(value: Any) -> object:
    kinds: list[Any] = [kind for kind in type(value).__mro__ if kind in (*_PLAIN, *_CONTAINERS)]
    return kinds[0](value)


def _current(variable: ContextVar[Any]) -> object:
    """Return the value of a variable where this runs; None where it has none."""
    try:
        return variable.get()
    except LookupError:
        return None


def _tensor(values: Tensor) -> str:
    told = f"{values.dtype}{list(values.shape)}"
    if values.layout is not torch.strided:
        values = values.to_dense()
    if values.is_meta:
        return told
    return f"{told} {_digest(_bytes_of(values.resolve_conj().resolve_neg()))}"


_OF_THE_PROCESS = (
    *(("random", "_inst"), ("torch", "default_generator")),
    *(("numpy.random.mtrand", "_rand"), ("numpy.random.mtrand", "_rand._bit_generator")),
)


def _is_of_the_process(value: object) -> bool:
    """Whether it is a generator that Python, numpy or torch keeps for all who have none."""
    loaded = [(sys.modules.get(module), name) for module, name in _OF_THE_PROCESS]
    return any(value is attrgetter(name)(module) for module, name in loaded if module)


def _state(value: object) -> object:
    """Return what an object would be copied by; nothing where it cannot be."""
    try:
        how = copyreg.dispatch_table.get(type(value))
        made = how(value) if how else value.__reduce_ex__(4)
    except Exception:  # as of a lock, or a generator that is running
        return None
    if isinstance(made, str):
        if _is_known_by(made, value):
            return made
        made = type(value), (made, *_around(value)), object.__getstate__(value)
    _, arguments, *state = made
    # Items of a list or dict come as iterators.
    rest = [list(each) if isinstance(each, Iterator) else each for each in state]
    match rest:
        case [dict() as held, *items]:
            rest = [_held_by(value, held), *items]
        case [(None | dict() as held, dict() as slots), *items]:
            rest = [[held and _held_by(value, held), _held_by(value, slots)], *items]
    return [each for each in arguments if each is not type(value)], rest


def _is_compiled(function: FunctionType) -> bool:
    """Whether torch.compile, or what keeps it away, made it around another function."""
    module = str(function.__globals__.get("__name__"))
    return _is_dynamos(module) and hasattr(function, "__wrapped__")


def _is_dynamos(module: str) -> bool:
    return module.startswith("torch._dynamo")


def _is_known_by(name: str, value: object) -> bool:
    """Whether a name tells all of an object, as its module has it by that."""
    if isinstance(value, np.ufunc):  # compiled ones do not say of which module they are
        return not _around(value)
    return getattr(sys.modules.get(getattr(value, "__module__", "")), name, None) is value


def _around(function: object) -> list[object]:
    """Return what np.frompyfunc made a function of, which it keeps in no attribute."""
    held = gc.get_referents(function) if isinstance(function, np.ufunc) else []
    return [each for each in held if callable(each)]


def _counts(name: str, module: nn.Module) -> bool:
    """Whether an attribute of a module is its author's, and not what torch keeps in it."""
    author = type(module).__module__
    if _is_dynamos(author):  # made of another by torch.compile, and around it
        return False
    return name not in _TORCHS and not (author.startswith("torch.") and name.startswith("_"))


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Return a module's own attributes, as far as they are its author's."""
    return {key: own for key, own in vars(module).items() if _counts(key, module)}


_TORCHS = vars(nn.Module()).keys() - {"training"}
"""What torch keeps in every module: parameters, buffers, parts and hooks, told apart."""

_HOOKS = sorted(name for name in _TORCHS if name.endswith("_hooks"))
_Cached = type(lru_cache(_counts))


def _settings(module: nn.Module) -> list[tuple[str, object]]:
    """Return what a module and each of its parts hold, by the names of the parts, in their order.

    Of what two parts share, the second says so: a copy would be trained apart.
    """
    first: dict[int, str] = {}
    told: list[tuple[str, object]] = []
    for name, part in module.named_modules(remove_duplicate=False):
        if first.setdefault(id(part), name) != name:
            told.append((name, ["as", first[id(part)]]))
            continue
        weights: list[object] = []
        for key, own in part.named_parameters(recurse=False, remove_duplicate=False):
            place = first.setdefault(id(own), f"{name}.{key}")
            if place == f"{name}.{key}":
                weights += [key, own, own.requires_grad, []]  # no hooks: so fingerprints have it
            else:
                weights += [key, "as", place]
        attributes = _held_by(part, _attributes(part))
        code = part.code if isinstance(part, torch.fx.GraphModule) else None
        buffers = Named(part.named_buffers(recurse=False))
        held = [type(part), attributes, weights, buffers, _hooks(part), code]
        told.append((name, held))
    return told


def _hooks(module: nn.Module) -> list[tuple[str, list[Any]]]:
    """Return the functions that torch calls beside a module."""
    return [(kind, [*hooks.values()]) for kind in _HOOKS if (hooks := getattr(module, kind, None))]


def kept_by(called: object) -> str:
    """Return what tells all that a loss, or whatever is called, keeps from one call to the next.

    >>> kept_by(nn.functional.mse_loss).partition("{")[0]
    '[torch.nn.functional.mse_loss'
    """
    return content_of([called, *bound_anew(called)])


def unsaved(module: nn.Module) -> dict[str, str]:
    """Return what tells all that a module holds besides what it saves, by the names of its places.

    Tensors that are computed from others are left out, as those of ``weight_norm`` are. Of each
    parameter it is whether that is trained, which no state says.

    >>> model = nn.Linear(3, 2)
    >>> model.seen = 0
    >>> unsaved(model)["seen"]
    '0'
    """
    held: dict[str, str] = {}
    saved = module.state_dict().keys()
    for name, part in module.named_modules():
        own = _attributes(part) | dict(part.named_buffers(recurse=False))
        own.pop("training", None)
        called = {kind.strip("_"): hooks for kind, hooks in _hooks(part)}
        called["__class__"] = [type(part)]  # what is kept there, and by its code
        own |= {key: [each, [*map(bound_anew, each)]] for key, each in called.items()}
        for key, value in own.items():
            place = f"{name}.{key}" if name else key
            if place not in saved and not (isinstance(value, Tensor) and not value.is_leaf):
                held[place] = content_of(value)
    for name, p in module.named_parameters():
        held[f"{name}.requires_grad"] = str(p.requires_grad)
    return held


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _digest(data: bytes | bytearray | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _bytes_of(values: Tensor) -> memoryview:
    """Return the bytes of a tensor, whatever its type."""
    # Of a copy: no tensor can be resized any more that an array shares its memory with.
    own = values.detach().cpu().clone(memory_format=torch.contiguous_format)
    return own.flatten().view(torch.uint8).numpy().data
