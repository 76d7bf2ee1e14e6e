"""Which packages brought the parts of a value: what was installed is told by its version.

The code of an installed class is not looked at, and two versions of a package may have a class of
one name that encodes otherwise. So organisations whose parts come from another package compare its
versions, as they compare Colonnade's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import packages_distributions, version
from types import (
    BuiltinFunctionType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)

import numpy as np

from colonnade.own_code import attributes_of, is_ours

__all__ = ["packages_of"]

_NEEDED = {"builtins", "numpy", "torch"}  # what everybody has, of whatever version


def packages_of(value: object) -> dict[str, str]:
    """Return the versions of the packages that brought a value's parts, by their names.

    Parts are what it holds, and classes with those that they are made from, functions and modules.
    Not told are Colonnade's own, Python's and those of ``numpy`` and ``torch``, nor what a module
    holds, nor what code of one's own imports: that code counts itself.

    >>> from colonnade import methods
    >>> packages_of(methods.svfl())
    {}
    """
    modules = {name for part in _parts(value) for name in _modules_of(part)}
    others = {name.partition(".")[0] for name in modules if not is_ours(name)} - _NEEDED
    brought = others - sys.stdlib_module_names
    return {name: version(name) for package in sorted(brought) for name in _names_of(package)}


def _parts(value: object) -> Iterator[object]:
    """Go through a value and all that it holds, each once."""
    waiting = [value]
    met: dict[int, object] = {}  # kept, so that no other gets the number of one of them
    while waiting:
        part = waiting.pop()
        if id(part) not in met:
            met[id(part)] = part
            waiting += _held(part)
            yield part


def _modules_of(part: object) -> list[str]:
    """Return the names of the modules that a part, its class and what that is made from are of."""
    if isinstance(part, ModuleType):
        return [part.__name__]
    kinds = (part if isinstance(part, type) else type(part)).__mro__
    names = [getattr(part, "__module__", None), *(kind.__module__ for kind in kinds)]
    if isinstance(part, np.ufunc):
        names += _compiled_with(part)
    return [name for name in names if isinstance(name, str)]


def _compiled_with(function: np.ufunc) -> list[str]:
    """Return which compiled modules have a function that does not say of which module it is."""
    held = {name: getattr(module, "__dict__", {}) for name, module in [*sys.modules.items()]}
    having = {name: own for name, own in held.items() if own.get(function.__name__) is function}
    compiled = tuple(EXTENSION_SUFFIXES)
    return [name for name, own in having.items() if str(own.get("__file__")).endswith(compiled)]


def _held(part: object) -> list[object]:
    if isinstance(part, type | FunctionType | ModuleType):
        return []
    if is_dataclass(part) and is_ours(type(part).__module__):
        return [getattr(part, each.name, None) for each in fields(part) if each.compare]
    return [*attributes_of(part).values(), *_in_slots(part), *_made_of(part)]


def _in_slots(part: object) -> list[object]:
    return [
        getattr(part, name, None)
        for kind in type(part).__mro__
        if "__slots__" in vars(kind)
        for name, own in vars(kind).items()
        if isinstance(own, MemberDescriptorType)
    ]


def _made_of(part: object) -> list[object]:
    """Return what something of one of Python's own types holds."""
    match part:
        case partial():
            return [part.func, *part.args, *part.keywords.values()]
        case MethodType():
            return [part.__self__, part.__func__]
        case BuiltinFunctionType():
            return [part.__self__]
        case MethodDescriptorType():
            return [part.__objclass__]
        case Mapping():
            return [*part.values()]
        case list() | tuple() | set() | frozenset():
            return [*part]
    return []


@cache
def _names_of(package: str) -> list[str]:
    """Return by which names a package was installed; none of code that was not."""
    return sorted(set(packages_distributions().get(package, [])))
