"""What tells somebody's functions and classes from others: code, and what it looks up.

Python lets code depend on anything; what is told here is what people write: defaults, what is
closed over, globals, settings in modules and objects, attributes of classes and functions. All that
a function reads counts, but for two things. What it only writes, as a list in which it notes
losses, changes no result of its own. What each of its calls binds anew, as a count, has grown when
a run goes on, and the run is the same: so where it began is not told, though results hang on it
(``bound_anew.py`` has it).
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import Enum, EnumMeta
from functools import cached_property, partialmethod, singledispatchmethod
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from colonnade.lookups import (
    WHOLE,
    Attribute,
    How,
    Item,
    Use,
    imports,
    rebound,
    used,
    used_of_own,
)
from colonnade.own_code import closure_of, is_own, is_own_class, is_own_module, variables_of

__all__ = ["Named", "made_with", "settings_of", "written_in"]


class Named(dict[Any, Any]):
    """Values by the names that they are looked up by, whose order means nothing.

    >>> Named(a=1, b=2) == Named(b=2, a=1)
    True
    """


def made_with(function: FunctionType) -> Named:
    """Return what a function's name does not say of it."""
    code, closure = function.__code__, closure_of(function)
    uses = {name: {WHOLE} for name in closure} | used(code)
    anew = rebound(code)
    held = {
        "defaults": [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()],
        "closure": _read_of(closure, uses, anew),
        "attributes": _attributes_read(function, variables_of(function), uses),
    }
    if function.__name__ == "<lambda>" or is_own(function):
        held["code"] = [code]
        read = _read_of(function.__globals__, uses, anew | closure.keys())
        held["globals"] = Named((k, type(v) if _is_iterator(v) else v) for k, v in read.items())
        held["imported"] = [*_imported(function)]
    return Named((name, each) for name, each in held.items() if each)


def written_in(kind: type) -> list[object]:
    """Return what somebody may edit in a class: nothing of one that was installed."""
    if not is_own_class(kind):
        return []
    kept = [(k, v) for k, v in vars(kind).items() if not _is_note_of_pythons(kind, k, v)]
    told = Named((name, _beneath(value)) for name, value in kept)
    meta = [] if type(kind) in (type, ABCMeta, EnumMeta) else [type(kind)]
    return [told, *meta, list(kind.__bases__)]


def settings_of(module: ModuleType) -> Named:
    """Return what somebody may edit in a module: nothing of one that was installed."""
    if not is_own_module(module):
        return Named()
    return Named((name, value) for name, value in vars(module).items() if not _is_reserved(name))


# What a function reads

_NOTHING = object()


def _read_of(variables: Mapping[str, object], uses: Mapping[str, Set[Use]], but: Set[str]) -> Named:
    """Return what is read of variables, but of some, by their names."""
    names = (uses.keys() & variables.keys()) - but
    read = [(name, _read(variables[name], uses[name])) for name in names]
    return Named((name, each) for name, each in read if each is not _NOTHING)


def _read(value: Any, uses: Iterable[Use]) -> object:
    """Return what of a value is read: all of it, some parts by how they are found, ``_NOTHING``.

    Where a method of the value is used, that is what the method uses.
    """
    waiting = [*uses]
    followed: set[CodeType] = set()
    parts: dict[Attribute | Item, list[Use]] = defaultdict(list)
    while waiting:
        use = waiting.pop()
        if use.how is How.WRITTEN or _is_but_told(value, use):
            continue
        if not use.path or _is_installed(value):
            return value
        step = use.path[0]
        method = _method(value, step)
        if method is not None:
            waiting += used_of_own(method) if method not in followed else ()
            followed.add(method)
        elif _holds(value, step):
            parts[step].append(use.beyond())
        else:
            return value
    found = [(str(step), _read(_part(value, step), each)) for step, each in parts.items()]
    read = Named((name, each) for name, each in found if each is not _NOTHING)
    if not (read or followed):
        return _NOTHING
    return read if type(value) in (dict, ModuleType) else [type(value), read]


_WRITE = {
    *("add", "append", "appendleft", "clear", "extend", "insert", "put", "update"),
    *("critical", "debug", "error", "exception", "info", "log", "warning", "write", "writelines"),
}
"""Methods that do no more than write into their object, in every class that was installed."""


def _is_but_told(value: Any, use: Use) -> bool:
    """Whether something is told to a list, a log or the like, and nothing asked of it."""
    if use.how is not How.TOLD or len(use.path) != 1:
        return False
    method, kind = use.path[0], type(value)
    if isinstance(method, Item) or method.name not in _WRITE or _has(value, method):
        return False
    return hasattr(kind, method.name) and not is_own_class(kind)


def _is_installed(value: object) -> bool:
    return isinstance(value, ModuleType) and not is_own_module(value)


def _method(value: object, step: Attribute | Item) -> CodeType | None:
    """Return the code of a method or property that is looked up; None of what is no such thing."""
    if isinstance(step, Item) or not _is_plain(value):
        return None
    found = _in_class(type(value), step.name)
    if isinstance(found, property):
        found = found.fget
    elif _has(value, step):  # it goes before a method of that name
        return None
    return found.__code__ if isinstance(found, FunctionType) else None


def _holds(value: Any, step: Attribute | Item) -> bool:
    """Whether it is known that ``_part`` is what is looked up."""
    if isinstance(step, Item):
        is_usual = isinstance(value, dict) and type(value).__getitem__ is dict.__getitem__
        return is_usual and step.key in value
    if isinstance(value, ModuleType):
        return True
    of_class = _in_class(type(value), step.name)
    return _is_plain(value) and _has(value, step) and not hasattr(type(of_class), "__set__")


def _part(value: Any, step: Attribute | Item) -> object:
    if isinstance(step, Item):
        return value[step.key]
    return vars(value).get(step.name, vars(value).get("__getattr__"))  # of a module


def _has(value: object, attribute: Attribute) -> bool:
    """Whether an object has an attribute of its own, besides those of its class."""
    return attribute.name in getattr(value, "__dict__", {})


def _in_class(kind: type, name: str) -> Any:
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)


def _is_plain(value: object) -> bool:
    """Whether an object is its attributes, which are looked up and copied in the usual way."""
    if callable(value) or not hasattr(value, "__dict__"):
        return False
    ways = ("__getattribute__", "__reduce_ex__", "__reduce__", "__getstate__")
    kind = type(value)
    return kind is SimpleNamespace or all(
        getattr(kind, way, None) is getattr(object, way, None) for way in ways
    )


def _attributes_read(
    function: FunctionType, variables: Mapping[str, object], uses: Mapping[str, Set[Use]]
) -> Named:
    """Return a function's attributes, but those that it only writes itself."""
    own = [use for name in uses if variables.get(name) is function for use in uses[name]]
    kept = Named()
    for name, value in vars(function).items():
        if name.startswith("_torchdynamo"):  # torch.compile's, which functools.wraps takes over
            continue
        its = [use.beyond() for use in own if use.path[:1] == (Attribute(name),)]
        if not its or _read(value, its) is not _NOTHING:
            kept[name] = value
    return kept


def _is_iterator(value: object) -> bool:
    """Whether it is one of Python's own iterators, which is another with each call."""
    return hasattr(value, "__next__") and not hasattr(value, "__dict__")


def _imported(function: FunctionType) -> Iterator[object]:
    """Yield what a function imports when it runs, of modules that somebody may edit."""
    package = str(function.__globals__.get("__package__") or "").split(".")
    for each in imports(function.__code__):
        above = package[: len(package) + 1 - each.level] if each.level else []
        module = sys.modules.get(".".join([*above, *filter(None, [each.module])]))
        if isinstance(module, ModuleType) and is_own_module(module):
            yield [vars(module).get(name) for name in each.names] if each.names else module


# What somebody writes in a class


def _beneath(value: object) -> object:
    """Return what a class's attribute was made of, where that cannot be told of itself."""
    match value:
        case staticmethod() | classmethod():
            return [type(value), _beneath(value.__func__)]
        case property():
            return [property, value.fget, value.fset, value.fdel]
        case cached_property():
            return [cached_property, value.func]
        case singledispatchmethod():
            return [singledispatchmethod, Named(value.dispatcher.registry)]
        case partialmethod():
            return [partialmethod, _beneath(value.func), value.args, Named(value.keywords)]
    return value


_PYTHONS = {
    *("__abstractmethods__", "__annotations__", "__dict__", "__doc__", "__module__", "__weakref__"),
    *("__firstlineno__", "__static_attributes__", "__type_params__"),
    *("__annotate__", "__annotate_func__", "__annotations_cache__", "__conditional_annotations__"),
    *("__orig_bases__", "__parameters__", "__hash__", "__match_args__"),
    *("__slots__", "__slotnames__", "__dataclass_fields__", "__dataclass_params__"),
    *("__protocol_attrs__", "__non_callable_proto_members__", "__callable_proto_members_only__"),
    *("__class_vars__", "__private_attributes__", "__signature__"),  # pydantic's, as more below
}


def _is_note_of_pythons(kind: type, name: str, value: object) -> bool:
    """Whether Python, or pydantic, keeps an attribute in a class for itself."""
    if issubclass(kind, Enum):
        return name.startswith("_") and not isinstance(value, FunctionType)
    bound = (classmethod, property, partialmethod, singledispatchmethod)
    is_method = callable(value) or isinstance(value, bound)
    is_note = name in _PYTHONS or name.startswith("__pydantic_")
    return is_note and not (is_method and "annotate" not in name)


def _is_reserved(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
