"""Whether what a part was given is of the kinds that its annotations say.

An annotation is looked at as far as it is understood: numbers, texts, switches, literals, classes,
protocols that can be asked, and unions, lists and mappings of these. Any other lets all pass, so a
part of somebody else may annotate as it likes.

Numbers and arrays of numpy are taken, and kept as Python's own: a part is the same, and is written
down the same, whoever computed its numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, wraps
from inspect import BoundArguments, Signature, signature
from numbers import Integral, Real
from operator import is_
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    ParamSpec,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from colonnade.errors import ConfigurationError
from colonnade.telling import class_of, shown

__all__ = [
    "check_arguments",
    "check_fields",
    "check_kind",
    "either",
    "is_number",
    "is_whole",
    "make_plain",
    "members_of",
    "parts_of",
]

_NO_NUMBERS = (bool, np.timedelta64)  # though numpy takes its times for whole numbers

P = ParamSpec("P")
R = TypeVar("R")


def check_fields(kind: type, part: object) -> None:
    """Raise ``ConfigurationError`` unless the fields of a dataclass are what it annotates.

    Those that are keep Python's own numbers, see ``make_plain``.

    Parameters
    ----------
    kind
        The class whose fields are looked at: those that a derived one adds are its own matter.
    part
        What was made of it.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> Scalar(bits=4, dither="no")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: dither of Scalar is True or False, not 'no'
    """
    for name, annotation in _annotations(kind).items():
        check_kind(f"{name} of {type(part).__name__}", getattr(part, name), annotation)
    make_plain(kind, part)


def make_plain(kind: type, part: object) -> None:
    """Put Python's own numbers in place of numpy's where the fields of a dataclass are of numbers.

    What is no number is left to the comparisons of the part itself; what is no dict, where there
    should be one, is refused.

    Parameters
    ----------
    kind
        As for ``check_fields``.
    part
        What was made of it; it may be frozen.

    Examples
    --------
    >>> from colonnade.stragglers import Fastest
    >>> Fastest(np.int64(2))
    Fastest(count=2, absent='left_out')
    """
    for name, annotation in _annotations(kind).items():
        given = getattr(part, name, None)
        if _is_dict(annotation) and not isinstance(given, Mapping):
            check_kind(f"{name} of {type(part).__name__}", given, annotation)
        if _fits(given, annotation) and (own := _plain(given, annotation)) is not given:
            object.__setattr__(part, name, own)


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that refuses arguments which are not what it annotates.

    It is given Python's own numbers in place of numpy's, and lists in place of arrays.

    Raises
    ------
    ConfigurationError
        When it is called, of the first argument of another kind.

    Examples
    --------
    >>> from colonnade.methods import celu
    >>> celu(overlap="no")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: overlap of celu is True or False, not 'no'
    """
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @wraps(function)
    def refusing(*args: P.args, **kwargs: P.kwargs) -> R:
        given = _bound(function, args, kwargs)
        if given is None:  # Python says why, in its own words
            return function(*args, **kwargs)
        annotations = _annotations(function)
        for name, value in given.arguments.items():
            annotation = annotations.get(name, Any)
            check_kind(f"{name} of {called}", value, annotation)
            given.arguments[name] = _plain(value, annotation)
        return function(*given.args, **given.kwargs)

    return refusing


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, of Python's or numpy's; no switch is one, and no time.

    >>> is_number(0.5), is_number(np.float32(1)), is_number(True), is_number("3")
    (True, True, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, _NO_NUMBERS)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, of Python's or numpy's; no switch is one, and no time.

    >>> is_whole(np.int64(3)), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, _NO_NUMBERS)


def check_kind(what: str, value: object, annotation: Any) -> None:
    """Raise ``ConfigurationError`` unless a value is of the kind that an annotation says.

    >>> check_kind("the depth of a tree", 3, int | None)
    >>> check_kind("the depth of a tree", "3", int | None)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the depth of a tree is a whole number or None, not '3'
    """
    if _fits(value, annotation):
        return
    if isinstance(value, type):
        raise ConfigurationError(f"{what} is a value, not a class: write {value.__name__}(...)")
    is_table = hasattr(value, "columns")  # of somebody's data
    found = class_of(value) if is_table else shown(value)
    said = f"{what} is {_said(annotation)}, not {found}"
    raise ConfigurationError(said + _lacking(value, annotation))


def members_of(protocol: type) -> set[str]:
    """Return the names of all that a protocol of ours asks for.

    >>> from colonnade.links import Delivery, Link
    >>> sorted(members_of(Link))[:3]
    ['at', 'bytes_at_most', 'bytes_remembered']
    """
    return {
        name
        for cls in protocol.__mro__
        if cls.__module__.startswith("colonnade.")
        for name in vars(cls)
        if not name.startswith("_") or name == "__call__"
    }


def parts_of(room: Any, members: set[str]) -> list[str]:
    """Return how the parts of a room that have all these members are made.

    >>> from colonnade import surrogates
    >>> parts_of(surrogates, {"table", "bytes_on_disk"})
    ['Disk(...)', 'Memory(...)']
    """
    return [
        f"{name}({'...' if fields(part) else ''})"
        for name, part in vars(room).items()
        if name in room.__all__
        and isinstance(part, type)
        and is_dataclass(part)
        and members <= {*dir(part), *(each.name for each in fields(part))}
    ]


def either(words: Sequence[str]) -> str:
    """Return one or more words, the last after an "or".

    >>> either(["red", "green", "blue"])
    'red, green or blue'
    """
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


@cache
def _annotations(of: Any) -> dict[str, Any]:
    try:
        return get_type_hints(of)
    except Exception:  # a name that is known to type checkers alone
        return {}


@cache
def _signature(of: Callable[..., Any]) -> Signature:
    return signature(of)


def _bound(
    of: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> BoundArguments | None:
    with suppress(TypeError):
        return _signature(of).bind(*args, **kwargs)
    return None


def _fits(value: object, annotation: Any) -> bool:
    inner = get_args(annotation)
    match get_origin(annotation):
        case None:
            return _is_one(value, annotation)
        case origin if origin is Literal:
            return any(_fits(value, type(each)) and value == each for each in inner)
        case origin if origin in (Union, UnionType):
            return any(_fits(value, each) for each in inner)
        case origin if _is_list(origin, inner):
            return _is_listed(value, origin) and all(_fits(each, inner[0]) for each in value)
        case origin if origin is tuple:
            return (
                _is_listed(value, tuple)
                and len(value) == len(inner)
                and all(map(_fits, value, inner))
            )
        case origin if _is_dict(annotation):
            return isinstance(value, origin) and all(
                _fits(key, inner[0]) and _fits(each, inner[1]) for key, each in value.items()
            )
        case origin if origin is Callable:
            return callable(value)
    return True


def _is_list(origin: Any, inner: tuple[Any, ...]) -> bool:
    """Return whether an annotation is of as many as there are, all of one kind."""
    if origin is tuple:
        return inner[1:] == (...,)
    return isinstance(origin, type) and issubclass(origin, Collection) and len(inner) == 1


def _is_dict(annotation: Any) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_listed(value: object, origin: type) -> TypeGuard[Collection[object]]:
    """Return whether a value has members, and an order of them unless it is to be a set."""
    unordered = (Mapping,) if issubclass(origin, Set) else (Mapping, Set)
    if getattr(value, "shape", None) == ():  # an array of one number
        return False
    return isinstance(value, Collection) and not isinstance(value, (str, bytes, *unordered))


def _plain(value: Any, annotation: Any) -> Any:
    """Return a value that fits an annotation with Python's own numbers, and lists of them."""
    inner = get_args(annotation)
    match get_origin(annotation):
        case None if annotation is int or annotation is float:
            return _number(value)
        case origin if origin is Literal:
            return next(each for each in inner if _fits(value, type(each)) and value == each)
        case origin if origin in (Union, UnionType):
            return _plain(value, next(each for each in inner if _fits(value, each)))
        case origin if _is_list(origin, inner):
            return _listed(value, [_plain(each, inner[0]) for each in value])
        case origin if origin is tuple:
            return _listed(value, [*map(_plain, value, inner)])
        case origin if _is_dict(annotation):
            items = [(_plain(key, inner[0]), _plain(each, inner[1])) for key, each in value.items()]
            same = all(map(_are_same, items, value.items()))
            return value if same else dict(items)
    return value


def _number(value: Any) -> Any:
    """Return a number as Python's own."""
    if type(value) in (int, float):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _listed(value: Any, members: list[Any]) -> Any:
    """Return what was given if its members are these and it is no array; else a list of them."""
    if hasattr(value, "__array__"):
        return tuple(members)
    if all(map(is_, members, value)):
        return value
    return type(value)(members) if type(value) in (list, set, frozenset) else tuple(members)


def _are_same(pair: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    return all(map(is_, pair, other))


_NUMBERS = {int: is_whole, float: is_number}


def _is_one(value: object, kind: Any) -> bool:
    if kind is None:
        return value is None
    if not isinstance(kind, type):
        return True
    if kind in _NUMBERS:
        return _NUMBERS[kind](value)
    try:
        return isinstance(value, kind) and not (isinstance(value, type) and _is_protocol(kind))
    except TypeError:  # a protocol that cannot be asked
        return True


def _is_protocol(kind: Any) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    Any: "anything",
    NoneType: "None",
}


def _said(annotation: Any) -> str:
    """Return in words what may be given."""
    return either(list(dict.fromkeys(_alternatives(annotation))))


def _alternatives(annotation: Any) -> list[str]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return [repr(each) for each in inner]
    if origin in (Union, UnionType):
        return [said for each in inner for said in _alternatives(each)]
    if origin is Callable:
        return ["a function"]
    if _is_dict(annotation):
        return [f"a dict from {_said(inner[0])} to {_said(inner[1])}"]
    if _is_list(origin, inner):
        return ["a list" if inner[0] is Any else f"a list, each {_said(inner[0])}"]
    if origin is tuple:
        return [f"({', '.join(map(_said, inner))})"]
    if annotation in _WORDS:
        return [_WORDS[annotation]]
    if _is_protocol(annotation):
        return parts_of(_room(annotation), members_of(annotation)) or [_asked(annotation)]
    made = _made(annotation) if is_dataclass(annotation) else ""
    return [getattr(annotation, "__name__", str(annotation)) + made]


def _made(kind: Any) -> str:
    """Return how one is made, by what it must be given."""
    given = fields(kind)
    needed = [each.name for each in given if each.default is each.default_factory is MISSING]
    return f"({', '.join(needed or ['...'])})" if given else ""


def _room(protocol: type) -> Any:
    """Return where the parts are that keep a protocol of ours: its package, or its module."""
    module = protocol.__module__
    package = module.rpartition(".")[0]
    return sys.modules[package if "." in package else module]


def _asked(protocol: type) -> str:
    return f"a {protocol.__name__} (with {', '.join(sorted(members_of(protocol)))})"


def _lacking(value: object, annotation: Any) -> str:
    """Return a clause about what a part of somebody's own lacks, if it has most of a protocol."""
    for each in (annotation, *get_args(annotation)):
        if _is_protocol(each):
            members = members_of(each)
            missing = sorted(name for name in members if not hasattr(value, name))
            if 2 * len(missing) < len(members):
                return f"; a part of your own would answer {', '.join(missing)} too"
    return ""
