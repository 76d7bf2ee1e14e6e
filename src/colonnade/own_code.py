"""Code that somebody may edit, as no installed package brought it, and what such code holds."""

from __future__ import annotations

import sys
import sysconfig
from collections import ChainMap
from collections.abc import Mapping
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

__all__ = [
    "attributes_of",
    "closure_of",
    "is_ours",
    "is_own",
    "is_own_class",
    "is_own_module",
    "variables_of",
]

_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def is_ours(module: str) -> bool:
    """Whether a module is Colonnade's, by its name.

    >>> is_ours("colonnade.models"), is_ours("torch.nn")
    (True, False)
    """
    return module.partition(".")[0] == __name__.partition(".")[0]


def is_own(function: FunctionType) -> bool:
    """Whether somebody may edit a function, as no installed package brought it."""
    return _may_be_edited(function.__module__ or "", function.__code__.co_filename)


def is_own_class(kind: type) -> bool:
    """Whether somebody may edit a class."""
    return _may_be_edited(kind.__module__, _file_of(kind.__module__))


def is_own_module(module: ModuleType) -> bool:
    """Whether somebody may edit a module."""
    file = getattr(module, "__file__", None) or _file_of(module.__name__)
    return _may_be_edited(module.__name__, file)


def _file_of(module: str) -> str | None:
    """Return the file of a module; None of one that is built in, nothing where it has none."""
    if module in sys.builtin_module_names:
        return None
    return getattr(sys.modules.get(module), "__file__", None) or ""


def _may_be_edited(module: str, file: str | None) -> bool:
    """Whether what is of a module and file was not installed; None is of no file, as built in."""
    if file is None or is_ours(module):
        return False
    return not file.startswith(_INSTALLED)


def attributes_of(value: object) -> dict[str, Any]:
    """Return an object's attributes; not what is computed when it is first asked for.

    >>> from types import SimpleNamespace
    >>> attributes_of(SimpleNamespace(rate=0.1))
    {'rate': 0.1}
    """
    held: dict[str, Any] = getattr(value, "__dict__", {})
    late = {key for key in held if isinstance(getattr(type(value), key, None), cached_property)}
    return {key: own for key, own in held.items() if key not in late}


def closure_of(function: FunctionType) -> dict[str, Any]:
    """Return what a function closes over, by its names; None of what is not there yet."""
    names = function.__code__.co_freevars
    return dict(zip(names, map(_held, function.__closure__ or ()), strict=True))


def variables_of(function: FunctionType) -> Mapping[str, Any]:
    """Return all variables that a function looks up, which are not its own."""
    return ChainMap(closure_of(function), function.__globals__)


def _held(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it holds nothing yet
        return None
