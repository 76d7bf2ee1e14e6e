"""Everything a role may ask of the world, as values to await.

A role is an object whose ``async def run(self)`` awaits the effects below and nothing else. No
event loop drives it: a driver steps the coroutine with ``coro.send(answer)``, sees the effect that
the role asks for, and answers when the answer is due — by a virtual clock, by a socket, or from
a trace. That is why one role's code runs unchanged in a simulator and between organisations, and
why it can be tested without either. ``await`` is typed, so ``got = await Receive(...)`` is
``Arrivals`` to a type checker.

All durable state of a role is in its attributes (``state_dict``/``load_state_dict``), and ``run``
re-enters at ``self.round``: no local variable survives a ``Boundary``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from colonnade.wire import Message, Purpose

__all__ = [
    "KINDS_OF_WORK",
    "Arrivals",
    "Boundary",
    "Effect",
    "Expect",
    "Purpose",
    "Ready",
    "Receive",
    "Report",
    "Role",
    "Send",
    "Since",
    "Work",
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
    }
)
"""What each kind of ``Work`` does. Other organisations' own roles may have more kinds."""


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

    Parameters
    ----------
    kind
        The kind of message, or a tuple of kinds of which either will do.
    round
        The round the messages belong to.
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
    """

    kind: str | tuple[str, ...]
    round: int
    sources: tuple[str, ...]
    purpose: Purpose = Purpose.TRAINING
    quorum: int | None = None
    within: float | None = None
    since: Since = Since.FIRST_ARRIVAL

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that will do, always as a tuple."""
        return (self.kind,) if isinstance(self.kind, str) else self.kind

    def __str__(self) -> str:
        sources = ", ".join(self.sources)
        return (
            f"{' or '.join(self.kinds)} of round {self.round} ({self.purpose.label}) from {sources}"
        )


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
    """Queue a message; waits only while the queue to that receiver is full."""

    receiver: str
    kind: str
    round: int
    body: bytes
    purpose: Purpose = Purpose.TRAINING


@dataclass(slots=True, eq=False)
class Receive(Effect[Arrivals]):
    """Wait until ``expect`` is satisfied, and take the messages that are there."""

    expect: Expect


@dataclass(slots=True, eq=False)
class Ready(Effect[bool]):
    """Whether a ``Receive`` of ``expect`` would return at once; takes nothing."""

    expect: Expect


@dataclass(slots=True, eq=False)
class Work(Effect[T]):
    """Run ``function`` and return its result; the time it takes is measured or modelled.

    Torch's generators are seeded before from (seed, role, purpose, round, step), so that dropout
    draws the same numbers under every driver and after a resume. ``kind`` says what is done, one
    of ``KINDS_OF_WORK``, by which a model of costs knows its price.
    """

    kind: str
    function: Callable[[], T]
    round: int
    purpose: Purpose = Purpose.TRAINING
    step: int = 0
    rows: int = 0


@dataclass(slots=True, eq=False)
class Report(Effect[None]):
    """Add a row to the run's history; the driver stamps the time."""

    values: Mapping[str, float | int | str]


@dataclass(slots=True, eq=False)
class Boundary(Effect[None]):
    """The point between rounds: checkpoints, interruption and stopping happen here only."""

    round: int


class Role(Protocol):
    """One organisation's part in a protocol."""

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
