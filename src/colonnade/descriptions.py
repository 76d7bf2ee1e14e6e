"""What tells a model, a loss or a tensor from others: descriptions that a checkpoint is tied to."""

from __future__ import annotations

import copyreg
import hashlib
import re
import sys
import sysconfig
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from dis import get_instructions
from enum import Enum, EnumMeta
from functools import lru_cache, partial, partialmethod
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.models import Learner

__all__ = ["content_of", "described", "device_told", "unsaved"]


_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def described(learner: Learner) -> dict[str, Any]:
    """Return a model's structure, its start, and its optimiser's settings."""
    optimiser = learner.optimiser
    return {
        "model": _ADDRESS.sub("", str(learner.module)),
        "start": _digest(content_of(learner.module).encode()),
        "optimiser": type(optimiser).__name__ if optimiser else "none",
        "settings": {k: content_of(v) for k, v in optimiser.defaults.items()} if optimiser else {},
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
    its type and its state, as it would be copied.

    >>> content_of({"b": 1, "a": 0.5})
    "{'a': 0.5, 'b': 1}"
    >>> content_of(partial(content_of, {"b": 1}))
    "partial(colonnade.descriptions.content_of, [{'b': 1}], {})"
    """
    return _Teller().tell(value)


_PLAIN = (int, float, complex, str, range, slice, type(None), type(...))
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

    def _alone(self, member: object) -> str:
        """Tell a member of a set, the same in whatever order they are gone through."""
        apart = _Teller()
        apart._around |= self._around
        return apart.tell(member)

    def _text(self, value: object) -> str:
        inside = self._part
        if is_dataclass(value) and not isinstance(value, (type, nn.Module)):
            named = {e.name: getattr(value, e.name, None) for e in fields(value)}
            if _is_ours(type(value)):
                named = {e.name: named[e.name] for e in fields(value) if e.compare}
            else:  # what it computes of its fields is an attribute
                named |= getattr(value, "__dict__", {})
            return f"{inside(type(value))}{inside(named)}"
        if isinstance(value, (*_PLAIN, *_CONTAINERS)) and _has_more(value):
            return f"{inside(type(value))}{inside(_without_more(value))}{inside(vars(value))}"
        match value:
            case Mapping():
                # What is told first must not hang on the order in which a set was gone through.
                items = sorted(((inside(key), each) for key, each in value.items()), key=_first)
                return f"{{{', '.join(f'{key}: {inside(each)}' for key, each in items)}}}"
            case list() | tuple():
                if len(value) > _LONG and all(isinstance(each, _PLAIN) for each in value):
                    return f"{len(value)} values {_digest(repr(value).encode())}"
                return f"[{', '.join(map(inside, value))}]"
            case Set():
                return f"{{{', '.join(sorted(map(self._alone, value)))}}}"
            case Tensor():
                return _tensor(value)
            case np.ndarray() if value.dtype.hasobject:
                return f"{value.dtype}{list(value.shape)} {inside(value.tolist())}"
            case np.ndarray():
                return f"{value.dtype}{list(value.shape)} {_digest(value.tobytes())}"
            case bytes() | bytearray():
                return f"{len(value)} bytes {_digest(value)}"
            case partial():
                return (
                    f"partial({', '.join(map(inside, (value.func, value.args, value.keywords)))})"
                )
            case nn.Module():
                return f"[{', '.join(f'{name}: {inside(own)}' for name, own in _settings(value))}]"
            case MethodType():
                return f"{inside(value.__self__)}.{value.__name__}"
            case FunctionType():
                made_with = _made_with(value)
                return f"{_name(value)}{inside(made_with) if made_with else ''}"
            case CodeType():
                # Local names and line numbers are left out, as they change no result.
                return inside([_digest(value.co_code), value.co_names, value.co_consts])
            case type():
                written = _written(value)
                return f"{_name(value)}{inside(written) if written else ''}"
            case BuiltinFunctionType():
                bound = value.__self__
                of = "" if bound is None or isinstance(bound, ModuleType) else inside(bound)
                return f"{value.__module__}.{value.__qualname__}{of}"
            case _Cached():
                return inside(value.__wrapped__)
            case Enum():
                return f"{inside(type(value))}.{value.name} {inside(value.value)}"
            case torch.device() | torch.dtype() | np.generic() | np.dtype():
                return repr(value)
            case torch.Generator():
                return f"Generator {_tensor(value.get_state())}"
        return f"{inside(type(value))}{inside(_state(value))}"


def _first(pair: tuple[str, object]) -> str:
    return pair[0]


def _has_more(value: object) -> bool:
    """Whether a number, text or container is of a class of somebody's, and has attributes."""
    return bool(getattr(value, "__dict__", None)) and not isinstance(value, type)


def _without_more(value: Any) -> object:
    kinds: list[Any] = [kind for kind in type(value).__mro__ if kind in (*_PLAIN, *_CONTAINERS)]
    return kinds[0](value)


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _tensor(values: Tensor) -> str:
    told = f"{values.dtype}{list(values.shape)}"
    if values.layout is not torch.strided:
        values = values.to_dense()
    return told if values.is_meta else f"{told} {_digest(_bytes_of(values.resolve_conj()))}"


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
                weights += [key, own, own.requires_grad, _hooks(own, _HOOKS_OF_WEIGHTS)]
            else:
                weights += [key, "as", place]
        attributes = {key: own for key, own in vars(part).items() if _counts(key, part)}
        code = part.code if isinstance(part, torch.fx.GraphModule) else None
        buffers = dict(part.named_buffers(recurse=False))
        held = [type(part), attributes, weights, buffers, _hooks(part, _HOOKS), code]
        told.append((name, held))
    return told


_HOOKS_OF_WEIGHTS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _hooks(owner: object, kinds: Iterable[str]) -> list[object]:
    """Return the functions that torch calls beside a module, or with a parameter's derivative."""
    return [[kind, list(hooks.values())] for kind in kinds if (hooks := getattr(owner, kind, None))]


def unsaved(module: nn.Module) -> dict[str, str]:
    """Return what tells all that a module holds besides what it saves, by the names of its places.

    Tensors that are computed from others are left out, as those of ``weight_norm`` are.

    >>> model = nn.Linear(3, 2)
    >>> model.seen = 0
    >>> unsaved(model)["seen"]
    '0'
    """
    held: dict[str, str] = {}
    saved = module.state_dict().keys()
    for name, part in module.named_modules():
        own = {key: value for key, value in vars(part).items() if _counts(key, part)}
        own.pop("training", None)
        own |= dict(part.named_buffers(recurse=False))
        for key, value in own.items():
            place = f"{name}.{key}" if name else key
            if place not in saved and not (isinstance(value, Tensor) and not value.is_leaf):
                held[place] = content_of(value)
    return held


def _made_with(function: FunctionType) -> dict[str, Any]:
    """Return what a function's name does not say of it."""
    stored = _stored(function)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    held = {
        "defaults": [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()],
        "closure": {name: _held(cell) for name, cell in cells if name not in stored},
        "attributes": {k: v for k, v in vars(function).items() if k not in stored},
        "code": [],
        "globals": {},
    }
    if function.__name__ == "<lambda>" or _is_own(function):
        held["code"] = [function.__code__]
        held["globals"] = _globals(function)
    return {name: each for name, each in held.items() if each}


def _written(kind: type) -> list[object]:
    """Return what somebody may edit in a class: nothing of one that was installed."""
    if not _may_be_edited(kind.__module__, _file_of(kind.__module__)):
        return []
    told: dict[str, object] = {}
    for name, value in vars(kind).items():
        if isinstance(value, partialmethod):
            value = partial(value.func, *value.args, **value.keywords)
        elif not isinstance(value, partial):
            for inner in ("fget", "__func__", "func"):  # of properties, static methods, cached ones
                value = getattr(value, inner, value)
        # Python keeps notes of its own in classes, some of them only later.
        is_kept = name.startswith(("__", "_abc_", "_member", "_value")) or name in _OF_ENUMS
        if isinstance(value, FunctionType) or not (is_kept or isinstance(value, ModuleType)):
            told[name] = value
    meta = [] if type(kind) in (type, ABCMeta, EnumMeta) else [type(kind)]
    return [told, *meta, list(kind.__bases__)]


_OF_ENUMS = {"_generate_next_value_", "_new_member_", "_unhashable_values_", "_use_args_"}


def _file_of(module: str) -> str | None:
    """Return the file of a module; None of one that is built in, nothing where it has none."""
    if module in sys.builtin_module_names:
        return None
    return getattr(sys.modules.get(module), "__file__", None) or ""


_CONTAINERS = (list, tuple, dict, set, frozenset)
_LOOKS_UP = {"getattr", "vars", "__dict__"}
_CHANGES = {"add", "append", "appendleft", "clear", "extend", "insert", "pop", "popleft"}
_CHANGES |= {"setdefault", "update"}


def _globals(function: FunctionType) -> dict[str, object]:
    """Return the globals that a function reads; of an object what the function may look up of it.

    What it may itself change, such as a list in which it notes losses, is left out: that has grown
    when a run goes on, and the run is the same.
    """
    names = {*_names(function.__code__)}
    stored = _stored(function)
    read: dict[str, object] = {}
    for name in names & function.__globals__.keys() - stored:
        value = function.__globals__[name]
        if value is None or hasattr(value, "__next__"):  # which is another with each call
            continue
        if isinstance(value, ModuleType):
            read |= {f"{name}.{key}": own for key, own in _looked_up(value, names).items()}
            continue
        if hasattr(value, "__dict__") and not callable(value) and _is_copied_plainly(type(value)):
            value = [type(value), _attributes(value, names, stored)]
        read[name] = value
    return read


def _attributes(value: object, names: Set[str], stored: Set[str]) -> dict[str, object]:
    """Return of an object what a function may look up of it, itself or by the object's methods."""
    own = {key: each for key, each in vars(value).items() if key not in stored}
    if names & _LOOKS_UP:
        return own
    known = set(names)
    for kind in type(value).__mro__:
        for key in names & vars(kind).keys():
            method = getattr(vars(kind)[key], "fget", None) or vars(kind)[key]
            if isinstance(method, FunctionType):
                known |= {*_names(method.__code__)}
    return {key: each for key, each in own.items() if key in known}


def _stored(function: FunctionType) -> set[str]:
    """Return the names of what a function may itself change: of others, or in what they hold."""
    stored: set[str] = set()
    codes = [function.__code__]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        last: list[Any] = []
        for step in get_instructions(code):
            if step.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"):
                stored.add(step.argval)
            if step.opname in ("LOAD_METHOD", "LOAD_ATTR") and step.argval in _CHANGES:
                stored.update(each.argval for each in last[-1:])  # as of NOTED.append(...)
                if len(last) > 2 and last[-1].opname == "BINARY_SUBSCR":  # NOTED["a"].append(...)
                    stored.add(last[-3].argval)
            if step.opname in ("STORE_SUBSCR", "COPY") and len(last) > 1:
                stored.add(last[-2].argval)  # as of SEEN["n"] = ...
            last = [*last, step][-3:]
    return {name for name in stored if isinstance(name, str)}


def _looked_up(module: ModuleType, names: Set[str]) -> dict[str, object]:
    """Return what a function may look up in a module of its author's; modules in it are left."""
    file = getattr(module, "__file__", None) or _file_of(module.__name__)
    if not _may_be_edited(module.__name__, file):
        return {}
    found = {key: own for key, own in vars(module).items() if key in names}
    return {key: own for key, own in found.items() if not isinstance(own, ModuleType)}


_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def _is_copied_plainly(kind: type) -> bool:
    """Whether an object is copied by its attributes alone."""
    if kind is SimpleNamespace:
        return True
    ways = ("__reduce_ex__", "__reduce__", "__getstate__")
    return all(getattr(kind, way, None) is getattr(object, way, None) for way in ways)


def _is_own(function: FunctionType) -> bool:
    """Whether a function is of a file that somebody may edit."""
    return _may_be_edited(function.__module__ or "", function.__code__.co_filename)


def _may_be_edited(module: str, file: str | None) -> bool:
    """Whether what is of a module and file was not installed; None is of no file, as built in."""
    if file is None or module.partition(".")[0] == __name__.partition(".")[0]:
        return False
    return not file.startswith(_INSTALLED)


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


def _digest(data: bytes | bytearray | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _bytes_of(values: Tensor) -> memoryview:
    """Return the bytes of a tensor, whatever its type."""
    # Of a copy: no tensor can be resized any more that an array shares its memory with.
    return values.detach().cpu().clone().contiguous().flatten().view(torch.uint8).numpy().data
