"""Everything a role may ask of the world, as values to await.

A role is an object whose ``async def run(self)`` awaits the effects below and nothing else. No
event loop drives it: a driver steps the coroutine with ``coro.send(answer)``, sees the effect that
the role asks for, and answers when the answer is due — by a virtual clock, by a socket, or from
a trace. That is why one role's code runs unchanged in a simulator and between organisations, and
why it can be tested without either. ``await`` is typed, so ``got = await Receive(...)`` is
``Arrivals`` to a type checker.

All durable state of a role is in its attributes (``state_dict``/``load_state_dict``), and ``run``
re-enters at ``self.round``: no local variable survives a ``Boundary``. What must survive even going
back to an older checkpoint is committed (``Commit``, ``Recall``).

A round of a party, with every habit that the effects ask for::

    await Boundary(self.round)
    await Close(self.round)  # whatever is still under way of earlier rounds comes too late
    embedding = await Work("forward", self._forward, self.round)
    await Send("hospital", "embedding", self.round, encode(embedding))
    got = await Receive(Expect("derivative", self.round, ("hospital",)))
    await Work("update", lambda: self._update(got.only.body), self.round)
    self.round += 1
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from colonnade.errors import LocalProtocolError
from colonnade.wire import Message, Purpose

__all__ = [
    "HELD_BACK",
    "KINDS_OF_SERVICE",
    "KINDS_OF_WAITING",
    "KINDS_OF_WORK",
    "Arrivals",
    "Attempt",
    "Boundary",
    "Close",
    "Commit",
    "Effect",
    "Expect",
    "Notes",
    "Purpose",
    "Ready",
    "Recall",
    "Receive",
    "Report",
    "Role",
    "Send",
    "Since",
    "Work",
    "sets_up",
]

T = TypeVar("T")

KINDS_OF_WORK: Mapping[str, str] = MappingProxyType(
    {
        "forward": "a bottom model's outputs of some rows",
        "encode": "values into the body of a message",
        "decode": "the body of a message into values",
        "top": "the top model's outputs of some rows and, in training, their derivatives",
        "update": "the label holder's step, after its derivatives have left",
        "backward": "a party's step with the derivatives that it received",
        "local_step": "a step without an exchange of its own; under the relay exchange, every step",
        "metrics": "what is reported of an evaluation, from its outputs",
        "coded": "what all parties' bottom models come to, computed on shares of some rows",
    }
)
"""What each kind of ``Work`` does. Other organisations' own roles may have more kinds."""

KINDS_OF_SERVICE: Mapping[str, str] = MappingProxyType(
    {
        "listen": "whether somebody asks for predictions",
        "release": "counting what a prediction discloses, before anything of it leaves",
        "answer": "handing predictions to whoever asked for them",
    }
)
"""What work does besides where predictions are served: no run has it, so no model has its price.

It computes with no model and draws nothing, and may wait for whoever asks."""

HELD_BACK = "held back"
"""What waiting is called while more local steps could be taken but for a bound on them."""

KINDS_OF_WAITING: Mapping[str, str] = MappingProxyType(
    {
        "wait": "for messages, or for room in a queue, with nothing else to do",
        HELD_BACK: "for messages, although a batch is left that a local step could have used",
    }
)
"""What the time is called that a role spends without work."""


class Effect(Generic[T]):
    """A request to the driver; awaiting it gives the driver's answer of type ``T``."""

    __slots__ = ()

    def __await__(self) -> Generator[Effect[Any], Any, T]:
        """Hand this effect to whoever steps the coroutine, and return what it answers."""
        answer: T = yield self
        return answer


class Since(Enum):
    """From when the seconds of ``Expect.within`` count."""

    FIRST_ARRIVAL = "first arrival"
    NOW = "now"


class Expect(NamedTuple):
    """Describes the messages a role waits for: one from each source.

    It is satisfied when every source's message is there; or, earlier, when at least ``quorum`` are
    there *and* ``within`` seconds have passed. A ``quorum`` alone needs no time to pass, a
    ``within`` alone needs no number (but with ``Since.FIRST_ARRIVAL`` one message). Only messages
    of exactly this round count: a later round's message never satisfies an earlier Expect.

    Where sources count rounds of their own, ``round`` is a tuple with one for each::

        Expect("embedding", (7, 3), ("bank", "shop"), quorum=1)  # the next of either

    Parameters
    ----------
    kind
        The kind of message, or a tuple of kinds of which either will do.
    round
        The round the messages belong to, or a tuple of one for each source.
    sources
        Names of the senders, in the order in which the messages shall be returned.
    purpose
        Why they are sent.
    quorum
        How many suffice, of ``len(sources)``; None for all.
    within
        Seconds to wait for the rest; None for no limit.
    since
        From when those seconds count.
    part
        Which of several pieces of the round they belong to, where ``Send`` says so.
    """

    kind: str | tuple[str, ...]
    round: int | tuple[int, ...]
    sources: tuple[str, ...]
    purpose: Purpose = Purpose.TRAINING
    quorum: int | None = None
    within: float | None = None
    since: Since = Since.FIRST_ARRIVAL
    part: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that will do, always as a tuple."""
        return (self.kind,) if isinstance(self.kind, str) else self.kind

    @property
    def earliest(self) -> int:
        """The round, or the first of them."""
        return self.round if isinstance(self.round, int) else min(self.round)

    def round_of(self, source: str) -> int:
        """Return the round that the message of a source belongs to.

        >>> Expect("embedding", (7, 3), ("bank", "shop")).round_of("shop")
        3
        """
        if isinstance(self.round, int):
            return self.round
        return self.round[self.sources.index(source)]

    def __str__(self) -> str:
        sources = ", ".join(self.sources)
        rounds = (self.round,) if isinstance(self.round, int) else self.round
        told, kinds = ", ".join(map(str, rounds)), " or ".join(self.kinds)
        piece = f", piece {self.part}" if self.part else ""
        return f"{kinds} of round {told} ({self.purpose.label}{piece}) from {sources}"


@dataclass(slots=True)
class Arrivals:
    """What a ``Receive`` took: messages in the order of the sources, and who is missing."""

    messages: tuple[Message, ...]
    missing: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def only(self) -> Message:
        """The single message of an Expect with a single source."""
        (message,) = self.messages
        return message


# Neither arrivals nor effects are frozen: that would cost more than handling them.


@dataclass(slots=True, eq=False)
class Send(Effect[None]):
    """Queue a message; waits only while the queue to that receiver is full.

    ::

        await Send("hospital", "embedding", self.round, body)
        await Send("hospital", "embedding", self.round, body, Purpose.EVALUATION)
    """

    receiver: str
    kind: str
    round: int
    body: bytes
    purpose: Purpose = Purpose.TRAINING
    part: int = 0


@dataclass(slots=True, eq=False)
class Receive(Effect[Arrivals]):
    """Wait until ``expect`` is satisfied, and take the messages that are there.

    ::

        got = await Receive(Expect("embedding", self.round, ("bank", "shop"), within=2.0))
        for message in got:  # in the order of the sources
            ...
        got.missing  # names of those whose message is not there

    Expecting a round that this role has closed is a ``LocalProtocolError``; see ``Close``.
    ``waiting`` is what the time until then is called in accounts, one of ``KINDS_OF_WAITING``.
    """

    expect: Expect
    waiting: str = "wait"


@dataclass(slots=True, eq=False)
class Ready(Effect[bool]):
    """Whether a ``Receive`` of ``expect`` would return at once; takes nothing.

    So computing goes on while messages are under way::

        expect = Expect("derivative", self.round, ("hospital",))
        while not await Ready(expect):
            if not await self.local_step():
                break
        got = await Receive(expect)
    """

    expect: Expect


@dataclass(slots=True, eq=False)
class Work(Effect[T]):
    """Run ``function`` and return its result; the time it takes is measured or modelled.

    Torch's generators are seeded before from (seed, role, purpose, round, step), so that dropout
    draws the same numbers under every driver and after a resume; only work of ``KINDS_OF_SERVICE``
    draws none. ``kind`` says what is done, one of ``KINDS_OF_WORK``, by which a model of costs
    knows its price, and ``rows`` on how many. ::

        embedding = await Work("forward", lambda: self.bottom(x), self.round, rows=len(x))
    """

    kind: str
    function: Callable[[], T]
    round: int
    purpose: Purpose = Purpose.TRAINING
    step: int = 0
    rows: int = 0


@dataclass(slots=True, eq=False)
class Attempt(Effect[T | None]):
    """Do a piece of work, unless a message makes it superfluous; its result, or None then.

    It is not begun where the message is there. Where time is modelled it ends when the message
    comes; in a real process it goes on to its end once it was begun, so long work is better
    attempted in pieces. ``unless`` has neither quorum nor ``within``. ::

        enough = Expect("enough", self.round, ("hospital",))
        answer = await Attempt(Work("coded", self._answer, self.round), unless=enough)
        if answer is not None:
            await Send("hospital", "answer", self.round, answer)
    """

    work: Work[T]
    unless: Expect

    def __post_init__(self) -> None:
        if self.unless.quorum is not None or self.unless.within is not None:
            raise LocalProtocolError(f"{self.work.kind} is attempted unless {self.unless} in time")


@dataclass(slots=True, eq=False)
class Report(Effect[None]):
    """Add a row to the run's history; the driver stamps who reported (``organisation``) and when.

    ::

        await Report({"round": self.round, "train_loss": 0.3})

    becomes ``{"round": 3, "train_loss": 0.3, "organisation": "hospital", "seconds": 1.25}``.
    """

    values: Mapping[str, float | int | str]


@dataclass(slots=True, eq=False)
class Boundary(Effect[None]):
    """The point between rounds: checkpoints, interruption and stopping happen here only.

    ::

        while self.round < self.rounds:
            await Boundary(self.round)
            ...
            self.round += 1
        await Boundary(self.round)
    """

    round: int


@dataclass(slots=True, eq=False)
class Close(Effect[None]):
    """Declare that no message of a round before ``before`` will be received any more.

    Those in the mailbox are discarded, and those that come later are on arrival, so that what is
    late does not stay for ever in memory and in checkpoints. It holds for every purpose but
    ``SETUP``, and for good: it is kept in checkpoints, and closing less than that does nothing.
    The ledger says of each message whether it was discarded. ::

        await Boundary(self.round)
        await Close(self.round)  # once a round; where nothing is late it costs next to nothing

    A ``Receive`` or ``Ready`` that expects a closed round is a ``LocalProtocolError``.
    """

    before: int


@dataclass(slots=True, eq=False)
class Commit(Effect[None]):
    """Write a record down for good: on the disk before anything that is sent after it leaves.

    A checkpoint goes back to an earlier state; a record stays. It is a dict of numbers, strings,
    bytes, booleans, None, lists and dicts, of 64 MiB at most and nested at most 100 deep, in a
    journal that is this organisation's own. Without a run folder it lives as long as the run. ::

        await Commit({"round": self.round, "revealed": ["bank"]})
        await Send("hospital", "share", self.round, share)  # not before the record is safe
    """

    record: dict[str, Any]


@dataclass(frozen=True)
class Notes:
    """What an organisation remembers in spite of any going back.

    Parameters
    ----------
    incarnation
        How often it was started or resumed in this run's folder before. The number is written down
        before the role starts and never given twice: what is derived from a root secret and from
        it is drawn only once. Without a folder it is 0.
    records
        Everything it ever committed in this run's folder, in order, also after the checkpoint that
        the run was resumed from. The records are copies.
    """

    incarnation: int
    records: tuple[dict[str, Any], ...] = ()


class Recall(Effect[Notes]):
    """Ask for everything this organisation ever committed, and for its incarnation number.

    ::

        notes = await Recall()
        key = derive(self.root_secret, self.round, notes.incarnation)
        revealed = {name for record in notes.records for name in record["revealed"]}
    """

    __slots__ = ()


class Role(Protocol):
    """One organisation's part in a protocol.

    One that was cast from something that all organisations agreed on has the digest of that as an
    attribute ``agreed``: a driver runs only roles that have the same.
    """

    name: str
    round: int

    async def run(self) -> None:
        """Play the role from ``self.round`` to the end."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state, as tensors, numbers, strings and containers of them."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...

    @property
    def peers(self) -> Sequence[str]:
        """Names of the roles that this one exchanges messages with."""
        ...


def sets_up(effect: Effect[Any]) -> bool:
    """Return whether an effect is for what precedes a role's first round.

    It is a message or work of the purpose ``SETUP``, or takes place on a role's own disk.
    """
    if isinstance(effect, (Send, Work)):
        return effect.purpose is Purpose.SETUP
    if isinstance(effect, (Receive, Ready)):
        return effect.expect.purpose is Purpose.SETUP
    return isinstance(effect, (Commit, Recall))
