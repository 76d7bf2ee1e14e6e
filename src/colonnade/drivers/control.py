"""What players and their gatekeeper tell each other, and how it is written.

On one machine as between several they are msgpack: what crosses is data, never code.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from colonnade.drivers.course import Decision
from colonnade.ledger import Entry
from colonnade.tallies import Tally
from colonnade.wire import Message

__all__ = [
    "MANY",
    "Abort",
    "Ask",
    "Begin",
    "Cast",
    "Failed",
    "FromGatekeeper",
    "FromPlayer",
    "Gate",
    "Left",
    "Played",
    "Reached",
    "Recorded",
    "Reported",
    "Save",
    "Saved",
    "Standing",
    "Stop",
    "Waiting",
    "encode",
    "from_gatekeeper",
    "from_player",
]

MANY = msgspec.Meta(max_length=2**16)  # it is seen before memory is taken for so many
Entries = Annotated[list[Entry], MANY]
Decisions = Annotated[list[Decision], MANY]
_Clock = Annotated[int, msgspec.Meta(ge=-(2**61), le=2**61)]  # what is added to it is in 64 bits
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=2.0**33)]
Received = Annotated[dict[str, Tally], MANY]  # by who sent it
_Counts = Annotated[dict[str, _Count], MANY]
_Discarded = Annotated[list[tuple[str, _Count]], msgspec.Meta(max_length=2**22)]


class Begin(msgspec.Struct, tag=True):
    """Every role is there: play, from this reading of the player's clock, in nanoseconds.

    Between computers, whose clocks differ, it is how long the run had taken, as a negative number,
    and each transport adds its own clock.
    """

    origin: _Clock


class Gate(msgspec.Struct, tag=True):
    """Nobody may enter this round yet."""

    round: int


class Save(msgspec.Struct, tag=True):
    """All roles are at the gate: wait for these numbers of messages by sender, then save."""

    received: _Counts


class Stop(msgspec.Struct, tag=True):
    """The run ends at this gate, or every role has played to its end.

    Before it leaves, a role waits for these numbers of messages by sender: what comes too late
    arrives all the same.
    """

    received: _Counts = {}  # msgspec copies defaults


class Abort(msgspec.Struct, tag=True):
    """Another role failed."""

    reason: str


class Ask(msgspec.Struct, tag=True):
    """How does it stand? Asked when nothing was heard for a while."""

    number: int


class Standing(msgspec.Struct, tag=True):
    """The answer to the question of that number, at one moment.

    ``waits`` says what the role waits for that only others can bring, such as ``"waits for
    embedding of round 3 from 'shop', which is missing"``; it is empty when the role has played to
    its end, and None when it is at work, or time alone may bring it further. ``sent`` and
    ``received`` count messages to and from each peer; of those in ``lost`` nothing can come any
    more. ``came`` are bytes, those of messages that have not come whole too.
    """

    number: int
    waits: Annotated[str, msgspec.Meta(max_length=2**16)] | None
    sent: _Counts
    received: _Counts
    lost: Annotated[list[str], MANY]
    came: _Counts = {}  # msgspec copies defaults


class Reached(msgspec.Struct, tag=True):
    """The role is at the boundary before this round, having sent so many messages to each role.

    ``sent_bytes`` are those of all their bodies, since the start or the resume.
    """

    round: _Count
    sent: _Counts
    sent_bytes: _Count


class Recorded(msgspec.Struct, tag=True):
    """What the role has sent, and its awaits were given, told in pieces before it is asked.

    ``before`` says that it was sent before the round that the run goes on from.
    """

    entries: Entries
    decisions: Decisions = []  # msgspec copies defaults
    before: bool = False


class Reported(msgspec.Struct, tag=True):
    """The role reported something for the history."""

    values: Annotated[dict[str, float | int | str], MANY]


class Cast(msgspec.Struct, tag=True):
    """The role is there, cast from the agreement with this digest."""

    agreed: Annotated[str, msgspec.Meta(max_length=1024)]


class Waiting(msgspec.Struct, tag=True):
    """The role is there, and waits for the others to be.

    ``peers`` are the roles with which it exchanges messages.
    """

    peers: Annotated[list[str], MANY]


class Saved(msgspec.Struct, tag=True):
    """What the role contributes to the cut at the gate.

    State, account and mail are empty where no checkpoint is written.
    """

    state: bytes
    account: msgspec.Raw
    mail: Annotated[list[tuple[Message, int]], msgspec.Meta(max_length=2**20)]
    entries: Entries
    discarded: _Discarded
    cpu_seconds: _Seconds


class Played(msgspec.Struct, tag=True):
    """The role has played to its end, or stopped at the gate; all it sent has left.

    ``notes`` are its incarnation and what it remembered as it began, packed; None where they stay
    with it.
    """

    finished: bool
    round: _Count
    state: bytes
    account: msgspec.Raw
    entries: Entries
    decisions: Decisions
    sent: _Counts
    notes: tuple[int, bytes] | None


class Left(msgspec.Struct, tag=True):
    """The player is done: bytes that came from each role by its transport, and its CPU seconds.

    ``received`` is how much came of each role in the whole run, see ``Account``.
    """

    transport_bytes: _Counts
    discarded: _Discarded
    cpu_seconds: _Seconds
    received: Received | None = None


class Failed(msgspec.Struct, tag=True):
    """The role raised an error."""

    error: str
    message: str
    traceback: str


_T = TypeVar("_T")
FromGatekeeper = Begin | Gate | Save | Stop | Abort | Ask
FromPlayer = (
    Cast | Waiting | Standing | Reached | Recorded | Reported | Saved | Played | Left | Failed
)

_encode = msgspec.msgpack.Encoder().encode
_from_gatekeeper: msgspec.msgpack.Decoder[FromGatekeeper] = msgspec.msgpack.Decoder(FromGatekeeper)
_from_player: msgspec.msgpack.Decoder[FromPlayer] = msgspec.msgpack.Decoder(FromPlayer)


def encode(message: FromGatekeeper | FromPlayer) -> bytes:
    """Return a message as bytes."""
    return _encode(message)


def from_gatekeeper(data: bytes) -> FromGatekeeper:
    """Return the message of a gatekeeper that ``encode`` made these bytes of.

    Raises
    ------
    msgspec.DecodeError
        If it made no such bytes.
    """
    return _decoded(_from_gatekeeper, data)


def from_player(data: bytes) -> FromPlayer:
    """Return the message of a player that ``encode`` made these bytes of.

    Raises
    ------
    msgspec.DecodeError
        If it made no such bytes.
    """
    return _decoded(_from_player, data)


def _decoded(decoder: msgspec.msgpack.Decoder[_T], data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from None
