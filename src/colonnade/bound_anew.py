"""What somebody's code binds anew with each call: what it remembers from one to the next.

A count, or a running mean, has grown when a run goes on, and is no sign of another run: so what
tells functions leaves it out (``functions_told.py``). Who asks whether something remembers at all
looks here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial, partialmethod
from types import FunctionType, MethodType, ModuleType
from typing import Any

from colonnade.functions_told import Named
from colonnade.lookups import Attribute, rebound, used
from colonnade.own_code import attributes_of, is_own, is_own_class, variables_of

__all__ = ["bound_anew"]

_PLAIN = (int, float, complex, str, bytes, type(None))  # of which nothing is called
_MANY = 1000  # of so many in one place none is looked at


def bound_anew(called: object) -> list[Named]:
    """Return what is bound to other values when something is called, as it is now.

    It is what ``made_with`` leaves out: of a function, of those of a class or an object, and of all
    that these look up or hold.

    >>> bound_anew(lambda: None)
    []
    """
    found, seen, waiting = [], {id(called): called}, deque([called])
    while waiting:
        one = waiting.popleft()
        if isinstance(one, FunctionType) and is_own(one) and (values := _rebound_of(one)):
            found.append(values)
        for each in _reached_from(one):
            if id(each) not in seen and not isinstance(each, _PLAIN):
                seen[id(each)] = each
                waiting.append(each)
    return found


def _rebound_of(function: FunctionType) -> Named:
    code, known = function.__code__, variables_of(function)
    return Named((name, known.get(name)) for name in rebound(code) - {*code.co_cellvars})


def _reached_from(one: Any) -> list[Any]:
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
        case partial() | partialmethod():
            return [one.func, *one.args, *one.keywords.values()]
        case type():
            return [
                part for kind in one.__mro__ if is_own_class(kind) for part in vars(kind).values()
            ]
        case Mapping():
            return [*one.values()] if len(one) <= _MANY else []
        case list() | tuple() | set() | frozenset():
            return [*one] if len(one) <= _MANY else []
        case ModuleType():
            return []
    return [type(one), *attributes_of(one).values()] if is_own_class(type(one)) else []


def _looked_up(function: FunctionType) -> list[Any]:
    """Return the values of a function's variables, of modules what it looks up in them."""
    known = variables_of(function)
    found = [vars(function).get("__wrapped__")]
    for name, uses in used(function.__code__).items():
        value = known.get(name)
        if isinstance(value, ModuleType):
            steps = [use.path[0] for use in uses if use.path]
            found += [vars(value).get(s.name) for s in steps if isinstance(s, Attribute)]
        else:
            found.append(value)
    return found
