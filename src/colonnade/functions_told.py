"""What tells somebody's functions and classes from others: code, and what it looks up.

Python lets code depend on anything; what is told here is what people write: defaults, what is
closed over, globals, settings in modules and objects, attributes of classes and functions. What a
function may itself change, such as a list in which it notes losses, is left out: that has grown
when a run goes on, and the run is the same.
"""

from __future__ import annotations

import sys
import sysconfig
from abc import ABCMeta
from collections.abc import Iterator, Set
from dis import get_instructions
from enum import EnumMeta
from functools import partial, partialmethod
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

__all__ = ["is_ours", "made_with", "written_in"]


def made_with(function: FunctionType) -> dict[str, Any]:
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
        held["globals"] = _globals(function, stored)
    return {name: each for name, each in held.items() if each}


def written_in(kind: type) -> list[object]:
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


_LOOKS_UP = {"getattr", "vars", "__dict__"}
_CHANGES = {"add", "append", "appendleft", "clear", "extend", "insert", "pop", "popleft"}
_CHANGES |= {"setdefault", "update"}


def _globals(function: FunctionType, stored: Set[str]) -> dict[str, object]:
    """Return the globals that a function reads; of an object what the function may look up."""
    names = {*_names(function.__code__)}
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


def is_ours(module: str) -> bool:
    """Whether a module is Colonnade's, by its name.

    >>> is_ours("colonnade.models"), is_ours("torch.nn")
    (True, False)
    """
    return module.partition(".")[0] == __name__.partition(".")[0]


def _may_be_edited(module: str, file: str | None) -> bool:
    """Whether what is of a module and file was not installed; None is of no file, as built in."""
    if file is None or is_ours(module):
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
