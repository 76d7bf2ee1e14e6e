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
from importlib.metadata import packages_distributions, version
from types import FunctionType, MethodType

from colonnade.functions_told import is_ours

__all__ = ["packages_of"]

_NEEDED = {"builtins", "numpy", "torch"}  # what everybody has, of whatever version


def packages_of(value: object) -> dict[str, str]:
    """Return the versions of the packages that brought a value's parts, by their names.

    Parts are what it holds, and classes with those that they are made from, and functions. Not told
    are Colonnade's own, Python's and those of ``numpy`` and ``torch``, nor what code of one's own
    imports: that code counts itself.

    >>> from colonnade import methods
    >>> packages_of(methods.svfl())
    {}
    """
    modules = {kind.__module__ for kind in _kinds(value, [], set())}
    others = {name.partition(".")[0] for name in modules if name and not is_ours(name)} - _NEEDED
    brought = others - sys.stdlib_module_names
    return {name: version(name) for package in sorted(brought) for name in _names_of(package)}


def _kinds(value: object, kept: list[object], met: set[int]) -> Iterator[type | FunctionType]:
    """Go through the classes and functions of a value and of what it holds.

    ``kept`` keeps what was met, so that no other gets the number of one of it.
    """
    if id(value) in met:
        return
    met.add(id(value))
    kept.append(value)
    if isinstance(value, FunctionType):
        yield value
    else:
        yield from (value if isinstance(value, type) else type(value)).__mro__
    for each in _held(value):
        yield from _kinds(each, kept, met)


def _held(value: object) -> list[object]:
    if isinstance(value, type | FunctionType):
        return []
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, Mapping):
        return [*value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return [*value]
    if is_dataclass(value):
        return [getattr(value, each.name, None) for each in fields(value) if each.compare]
    return [*getattr(value, "__dict__", {}).values()]


@cache
def _names_of(package: str) -> list[str]:
    """Return by which names a package was installed; none of code that was not."""
    return sorted(set(packages_distributions().get(package, [])))
