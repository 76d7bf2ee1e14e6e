"""Which packages brought the parts of a value: what was installed is told by its version.

The code of an installed class is not looked at, and two versions of a package may have a class of
one name that encodes otherwise. So organisations whose parts come from another package compare its
versions, as they compare Colonnade's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import packages_distributions, version

from colonnade.functions_told import is_installed, is_ours

__all__ = ["packages_of"]

_NEEDED = {"builtins", "numpy", "torch"}  # what everybody has, of whatever version


def packages_of(value: object) -> dict[str, str]:
    """Return the versions of the packages that brought a value's parts, by their names.

    Colonnade's own, Python's and those of ``numpy`` and ``torch`` are not among them.

    >>> from colonnade import methods
    >>> packages_of(methods.svfl())
    {}
    """
    modules = {kind.__module__ for kind in _kinds(value, set())}
    others = {name.partition(".")[0] for name in modules if not is_ours(name)} - _NEEDED
    brought = others - sys.stdlib_module_names
    return {name: version(name) for package in sorted(brought) for name in _names_of(package)}


def _kinds(value: object, met: set[int]) -> Iterator[type]:
    """Go through the classes of a value and of what it holds."""
    if id(value) in met:
        return
    met.add(id(value))
    if is_installed(type(value)):
        yield type(value)
    for each in _held(value):
        yield from _kinds(each, met)


def _held(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [*value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return [*value]
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name, None) for each in fields(value) if each.compare]
    return [*getattr(value, "__dict__", {}).values()]


@cache
def _names_of(package: str) -> list[str]:
    """Return by which names a package was installed."""
    return sorted(set(packages_distributions().get(package, [])))
