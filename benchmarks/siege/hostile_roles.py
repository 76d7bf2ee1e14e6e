"""A role that keeps to its protocol but for one message, under every method and driver.

Whatever that message is, the others go on, or the run ends with one of the library's own errors;
where bytes were at fault it names who sent them. Under ``Processes`` the role is a process, and the
bytes go through sockets.
"""

from __future__ import annotations

import multiprocessing
import random
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from colonnade.costs import Modelled
from colonnade.drivers import Driver, Processes, Simulate
from colonnade.drivers.around import Around, Before
from colonnade.effects import Effect, Role, Send
from colonnade.errors import ColonnadeError, RoleFailed
from colonnade.wire import Purpose
from siege.attack import Attack, Found
from siege.subjects import METHODS, TRAINING, federation_of

__all__ = ["MESSAGES", "ROLES"]

Change = Callable[[Send, Sequence[Send], random.Random], list[Send]]


def _with(send: Send, **fields: Any) -> Send:
    names = ("receiver", "kind", "round", "body", "purpose", "part")
    return Send(**{name: getattr(send, name) for name in names} | fields)


def _flipped(body: bytes, source: random.Random) -> bytes:
    if not body:
        return b"\0"
    changed = bytearray(body)
    for _ in range(source.choice((1, 1, 1, 8, len(body)))):
        changed[source.randrange(len(body))] ^= 1 << source.randrange(8)
    return bytes(changed)


CHANGES: dict[str, Change] = {
    "random": lambda s, _, r: [_with(s, body=r.randbytes(len(s.body)))],
    "flipped": lambda s, _, r: [_with(s, body=_flipped(s.body, r))],
    "cut": lambda s, _, r: [_with(s, body=s.body[: r.randrange(len(s.body) + 1)])],
    "longer": lambda s, _, r: [_with(s, body=s.body + r.randbytes(r.choice((1, 7, 4096))))],
    "empty": lambda s, _, r: [_with(s, body=b"")],
    "zeros": lambda s, _, r: [_with(s, body=bytes(len(s.body)))],
    "ones": lambda s, _, r: [_with(s, body=b"\xff" * len(s.body))],
    "not numbers": lambda s, _, r: [_with(s, body=(b"\0\0\xc0\x7f" * len(s.body))[: len(s.body)])],
    "huge numbers": lambda s, _, r: [
        _with(s, body=(b"\xff\xff\x7f\x7f" * len(s.body))[: len(s.body)])
    ],
    "another's": lambda s, sent, r: [_with(s, body=r.choice(sent).body)] if sent else [s],
    "a megabyte": lambda s, _, r: [_with(s, body=r.randbytes(2**20))],
    "other kind": lambda s, _, r: [_with(s, kind=r.choice(("embedding", "derivative", "x")))],
    "other round": lambda s, _, r: [_with(s, round=max(0, s.round + r.choice((-1, 1, 10**9))))],
    "other purpose": lambda s, _, r: [_with(s, purpose=r.choice(list(Purpose)))],
    "other part": lambda s, _, r: [_with(s, part=s.part + 1)],
    "twice": lambda s, _, r: [s, s],
    "again, an old one": lambda s, sent, r: [s, r.choice(sent)] if sent else [s],
    "never": lambda s, _, r: [],
}


class _Hostile(Before):
    """Plays a role, and changes one of its messages."""

    def __init__(self, role: Role, how: _Besieged) -> None:
        super().__init__(role)
        self._how = how
        self._sent: list[Send] = []
        self._source = random.Random(how.seed)

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        if not isinstance(effect, Send):
            return (yield effect)
        out = [effect]
        if len(self._sent) == self._how.which:
            out = self._how.change(effect, self._sent, self._source)
        self._sent.append(effect)
        yield from out  # which nothing comes of


@dataclass(frozen=True)
class _Besieged(Around):
    """A driver one of whose roles is hostile."""

    name: str
    which: int
    change: Change
    seed: int

    def instead(self, role: Role) -> Role:
        return _Hostile(role, self) if role.name == self.name else role


def _judged(error: BaseException, name: str) -> str | None:
    """Say how an error keeps the promise; None if it does not."""
    if isinstance(error, RoleFailed) and " failed" in str(error):
        return None  # of what is not Colonnade's own, and nothing else is at work here
    if not isinstance(error, ColonnadeError):
        return None
    kind = type(error).__name__
    if kind == "RemoteProtocolError" and name not in str(error):
        return None
    return f"{kind}"


def _trial(found: Found, method: str, driver: Driver, seed: int) -> None:
    source = random.Random(seed)
    composed, federation = federation_of(method)
    names = [party.name for party in federation.parties] + [federation.label_holder.name]
    name, change = source.choice(names), source.choice(list(CHANGES))
    besieged = _Besieged(driver, name, source.randrange(24), CHANGES[change], seed)
    what = f"{method}, {driver.label}, {name}, {change}, seed {seed}"
    training = replace(TRAINING, epochs=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            federation.train(composed, training, besieged, report=False)
    except Exception as error:
        how = _judged(error, name)
        if how is None:
            found.fail(f"{what}: {type(error).__name__}: {str(error)[:200]}")
        else:
            found.hold(how)
    else:
        found.hold("the run went on")
    if multiprocessing.active_children():
        found.fail(f"{what}: a process is left")


def _siege(driver: Driver) -> Callable[[int, int], Found]:
    def run(trials: int, seed: int) -> Found:
        found = Found()
        for number, method in zip(range(trials), _forever(), strict=False):
            _trial(found, method, driver, seed + number)
        return found

    return run


def _forever() -> Iterator[str]:
    while True:
        yield from METHODS


PROMISE = "the others go on, or the run ends with an error of the library's own that names who sent"
MESSAGES = Attack(
    "one hostile message of any method",
    PROMISE,
    4000,
    _siege(Simulate(costs=Modelled(otherwise=0.001))),
)
ROLES = Attack("a hostile process on real sockets", PROMISE, 160, _siege(Processes()))
