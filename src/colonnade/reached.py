"""What somebody's code reaches when it is called: what it looks up, and what that is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial, partialmethod
from types import FunctionType, MethodType, ModuleType
from typing import Any

from colonnade.lookups import Attribute, used
from colonnade.own_code import attributes_of, is_own, is_own_class, variables_of

__all__ = ["parts_held", "reached"]

_MANY = 1000  # of so many in one place none is looked at


def reached(called: Iterable[object]) -> Iterator[object]:
    """Yield these, and all that they look up or hold, once each; what was installed is not entered.

    >>> rate = [0.1]
    >>> rate in reached([partial(max, {"rate": rate})])
    True
    """
    waiting = [*called]
    seen = {id(each): each for each in waiting}
    while waiting:
        one = waiting.pop(0)
        yield one
        for each in _from(one):
            if id(each) not in seen:
                seen[id(each)] = each
                waiting.append(each)


def parts_held(value: Any) -> list[Any] | None:
    """Return what a partial function or a container holds; None where it is neither.

    >>> parts_held(partial(max, 1, key=abs)), parts_held({"a": 2}), parts_held(3)
    ([<built-in function max>, 1, <built-in function abs>], [2], None)
    """
    match value:
        case partial() | partialmethod():
            return [value.func, *value.args, *value.keywords.values()]
        case Mapping():
            return [*value.values()] if len(value) <= _MANY else []
        case list() | tuple() | set() | frozenset():
            return [*value] if len(value) <= _MANY else []
    return None


def _from(one: Any) -> list[Any]:
    """Return what may be called with something, or is part of it."""
    match one:
        case FunctionType():
            return _looked_up(one) if is_own(one) else [vars(one).get("__wrapped__")]
        case MethodType():
            return [one.__func__, one.__self__]
        case staticmethod() | classmethod():
            return [one.__func__]
        case property():
            return [one.fget]
        case type():
            return [
                part for kind in one.__mro__ if is_own_class(kind) for part in vars(kind).values()
            ]
        case ModuleType():
            return []
    held = parts_held(one)
    if held is not None:
        return held
    return [type(one), *attributes_of(one).values()] if is_own_class(type(one)) else []


def _looked_up(function: FunctionType) -> list[Any]:
    """Return the values of a function's variables, of modules what it looks up in them."""
    known = variables_of(function)
    found = [vars(function).get("__wrapped__"), *_defaults(function)]
    for name, uses in used(function.__code__).items():
        value = known.get(name)
        if isinstance(value, ModuleType):
            steps = [use.path[0] for use in uses if use.path]
            found += [vars(value).get(s.name) for s in steps if isinstance(s, Attribute)]
        else:
            found.append(value)
    return found


def _defaults(function: FunctionType) -> list[Any]:
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
