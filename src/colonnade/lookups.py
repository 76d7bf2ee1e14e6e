"""How code uses what it looks up: what it reads of it, by which names, and what it only writes.

It is told from bytecode, as source is not always there. What is not understood counts as read, and
as read whole: under another Python that costs a refusal where none was needed, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dis import Instruction, get_instructions, hasjabs, hasjrel, stack_effect
from enum import Enum, auto
from itertools import pairwise
from types import CodeType

__all__ = [
    "WHOLE",
    "Attribute",
    "How",
    "Import",
    "Item",
    "Use",
    "imports",
    "rebound",
    "used",
    "used_of_own",
]


@dataclass(frozen=True)
class Attribute:
    """What is looked up by ``value.name``."""

    name: str


@dataclass(frozen=True)
class Item:
    """What is looked up by ``value[key]``, where code says the key."""

    key: object


class How(Enum):
    """What becomes of what was looked up."""

    READ = auto()
    TOLD = auto()  # a method of it was called with no argument by its name, the answer dropped
    WRITTEN = auto()  # into, and read no more than to be written again, as by += 1


@dataclass(frozen=True)
class Use:
    """One way in which code uses a variable.

    Parameters
    ----------
    path
        What it looks up of the variable's value, one thing after another.
    how
        What becomes of that.
    """

    path: tuple[Attribute | Item, ...]
    how: How = How.READ

    def beyond(self) -> Use:
        """Return how what its first step leads to is used."""
        return Use(self.path[1:], self.how)


WHOLE = Use(())
"""Of what is handed on, computed with, or used in a way that is not understood."""


@dataclass(frozen=True)
class Import:
    """What code imports when it runs.

    Parameters
    ----------
    module
        As it is written.
    level
        How many dots were before that.
    names
        What is taken of it; nothing for the module itself.
    """

    module: str
    level: int
    names: tuple[str, ...]


_OF_OTHERS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"}
_OF_OTHERS |= {"LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS"}


def used(code: CodeType) -> dict[str, set[Use]]:
    """Return how code, and that of functions in it, uses each variable that is not its own.

    >>> used(compile("print(options.rate)", "", "eval"))["options"]
    {Use(path=(Attribute(name='rate'),), how=<How.READ: 1>)}
    """
    found: dict[str, set[Use]] = defaultdict(set)
    for steps in _all_steps(code):
        for place, step in enumerate(steps):
            if step.opname in _OF_OTHERS:
                found[step.argval].add(_use(steps, place + 1))
    return dict(found)


def used_of_own(code: CodeType) -> set[Use]:
    """Return how a method uses the object that it is of, which is its first argument."""
    if not code.co_argcount:
        return {WHOLE}
    name = code.co_varnames[0]
    found = set()
    for steps in _all_steps(code):
        for place, step in enumerate(steps):
            if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and step.argval == name:
                found.add(_use(steps, place + 1))
            elif "FAST" in step.opname and isinstance(step.argval, tuple) and name in step.argval:
                found.add(WHOLE)  # two variables by one instruction
    return found


def rebound(code: CodeType) -> set[str]:
    """Return the variables, not its own, that every call of a function binds to other values.

    Those that an ``if`` may pass over are not among them.
    """
    found = set()
    met = 0  # up to where what comes may be passed over
    for step in _steps(code):
        if step.opname in ("STORE_GLOBAL", "STORE_DEREF") and step.offset >= met:
            found.add(step.argval)
        if _jumps(step):
            met = max(met, step.argval)
        if step.opname.startswith("RETURN"):
            break
    return found - {*code.co_cellvars}


def imports(code: CodeType) -> list[Import]:
    """Return what code, and that of functions in it, imports when it runs."""
    found = []
    for steps in _all_steps(code):
        for place, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                level, names = (before.argval for before in steps[place - 2 : place])
                found.append(Import(step.argval, level, names or ()))
    return found


def _use(steps: Sequence[Instruction], place: int) -> Use:
    """Return how a value is used that was just put onto the stack."""
    path: list[Attribute | Item] = []
    while True:
        step, following = steps[place : place + 2]
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            path.append(Attribute(step.argval))
            if _effect(step):  # the method and its object: a call will follow
                return Use(tuple(path), How.TOLD if _is_dropped(steps, place + 1) else How.READ)
            place += 1
        elif (step.opname, following.opname) == ("LOAD_CONST", "BINARY_SUBSCR"):
            path.append(Item(step.argval))
            place += 2
        else:
            break
    written = _written(steps, place)
    if written is None:
        return Use(tuple(path))
    return Use((*path, *written), How.WRITTEN)


def _written(steps: Sequence[Instruction], place: int) -> tuple[Attribute] | tuple[()] | None:
    """Return what is written of a value on top of the stack; None where it may be read."""
    step, following = steps[place : place + 2]
    if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
        return (Attribute(step.argval),)
    if _is_copy(step, 1) and following.opname == "LOAD_ATTR":  # value.name += 1
        return (Attribute(following.argval),)
    height = 1
    for step, following in pairwise(steps[place:]):
        if height == 2 and step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            return ()
        if height == 2 and _is_copy(step, 2) and _is_copy(following, 2):  # value[key] += 1
            return ()
        if _jumps(step) or (step.opname == "SWAP" and (step.arg or 0) >= height):
            return None
        height += _effect(step)
        if height < 2:  # it was taken, with or without what is beside it
            return None
    return None


def _is_dropped(steps: Sequence[Instruction], place: int) -> bool:
    """Whether a method, on the stack with its object, is but called: its answer is used no more.

    An argument by its name may be what the answer is written into, as numpy's ``out``.
    """
    height = 2
    before = ""
    for step, following in pairwise(steps[place:]):
        if _jumps(step):
            return False
        height += _effect(step)
        if height == 1:
            is_by_name = step.opname != "CALL" or before == "KW_NAMES"
            return following.opname == "POP_TOP" and not is_by_name
        before = before if step.opname == "PRECALL" else step.opname
    return False


def _all_steps(code: CodeType) -> Iterator[list[Instruction]]:
    """Yield the instructions of code, and those of each function in it; after each comes one."""
    steps = [*_steps(code)]
    yield [*steps, steps[-1]]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_steps(constant)


def _steps(code: CodeType) -> Iterator[Instruction]:
    return (each for each in get_instructions(code) if each.opname != "EXTENDED_ARG")


def _jumps(step: Instruction) -> bool:
    return step.opcode in hasjrel or step.opcode in hasjabs


def _is_copy(step: Instruction, of: int) -> bool:
    return step.opname == "COPY" and step.arg == of


def _effect(step: Instruction) -> int:
    """Return by how much an instruction that does not jump makes the stack higher."""
    return stack_effect(step.opcode, step.arg, jump=False)
