"""Flows: which messages will travel, from whom to whom, and what is known of their bytes before.

An uplink and an exchange each list their flows. Everything that has to be known of a run's messages
before it begins is derived from these lists and from nothing else: the largest body that is
accepted, what is compiled beforehand, whether the bytes of a plan are exact, what links remember. A
flow that is not listed is therefore refused by the receiver, not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from colonnade.errors import RemoteProtocolError
from colonnade.wire import MAX_BODY_BYTES, Message, Purpose

__all__ = ["Bundle", "FixedSize", "Flow", "Format", "Limits", "UpTo", "largest_body"]

_ROUNDS = 64  # by which one organisation may be ahead of another, at the very most
_OF_A_ROUND = 16  # messages of one sender besides those that follow each other


class Format(Protocol):
    """What is known of messages before they are made; every link is a format."""

    @property
    def fixed_size(self) -> bool:
        """Whether every message of so many rows has just ``at(round).bytes_at_most`` bytes."""
        ...

    def at(self, round: int) -> Format:
        """Return the format of ``round``; without a schedule the format itself."""
        ...

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the largest number of bytes of a message of ``rows`` rows."""
        ...

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return what each end keeps in memory for a table of ``rows`` rows."""
        ...

    def warm_up(self, width: int) -> None:
        """Encode and decode a little, so that nothing is compiled later."""
        ...


@dataclass(frozen=True)
class Flow:
    """Messages of one kind, for one purpose, that one organisation makes.

    Parameters
    ----------
    sender, receivers
        From whom, and to whom: several where each gets the same body.
    kind, purpose
        As in the header of a message.
    format
        What is known of its messages.
    rows
        The most rows that one message is about.
    width
        Components of a row.
    table
        Rows of the table that both ends may remember something of.
    forwarded
        Whether the sender passes on what others have encoded, and so remembers nothing of it.

    Examples
    --------
    >>> from colonnade.links import Direct
    >>> flow = Flow(
    ...     "bank", ("shop",), "embedding", Purpose.TRAINING, Direct(), rows=128, width=16, table=9
    ... )
    >>> flow.bytes_at_most
    8192
    """

    sender: str
    receivers: tuple[str, ...]
    kind: str
    purpose: Purpose
    format: Format
    rows: int
    width: int
    table: int
    forwarded: bool = False

    @property
    def bytes_at_most(self) -> int:
        """The largest number of bytes of one of its messages."""
        return self.format.bytes_at_most(self.rows, self.width)

    def bytes_remembered(self, name: str) -> int:
        """Return what the ends at an organisation keep in memory."""
        ends = self.receivers.count(name) + (self.sender == name and not self.forwarded)
        return ends * self.format.bytes_remembered(self.table, self.width)


@dataclass(frozen=True)
class UpTo:
    """Messages that are so long at most, whatever is in them.

    >>> UpTo(8).bytes_at_most(rows=0, width=0)
    8
    """

    size: int

    @property
    def fixed_size(self) -> bool:
        """Never."""
        return False

    def at(self, round: int) -> Self:
        """Return itself."""
        return self

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the size."""
        return self.size

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return 0."""
        return 0

    def warm_up(self, width: int) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class FixedSize(UpTo):
    """Messages that are just so long, whatever is in them.

    >>> FixedSize(1).fixed_size, UpTo(1).fixed_size
    (True, False)
    """

    @property
    def fixed_size(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class Bundle:
    """Messages that hold one message of each of several formats, each behind some bytes of length.

    Parameters
    ----------
    parts
        Each format, with the width of its rows.
    overhead
        Bytes before each part.

    Examples
    --------
    >>> from colonnade.links import Direct
    >>> Bundle(((Direct(), 2), (Direct(), 3)), overhead=4).bytes_at_most(rows=10, width=5)
    208
    """

    parts: tuple[tuple[Format, int], ...]
    overhead: int

    @property
    def fixed_size(self) -> bool:
        """If it is with each part."""
        return all(part.fixed_size for part, _ in self.parts)

    def at(self, round: int) -> Bundle:
        """Return the bundle of the parts of ``round``."""
        parts = tuple((part.at(round), width) for part, width in self.parts)
        return Bundle(parts, self.overhead)

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the sum over the parts; the parts have widths of their own."""
        return sum(self.overhead + part.bytes_at_most(rows, own) for part, own in self.parts)

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return the sum over the parts."""
        return sum(part.bytes_remembered(rows, own) for part, own in self.parts)

    def warm_up(self, width: int) -> None:
        """Warm each part up."""
        for part, own in self.parts:
            part.warm_up(own)


def largest_body(flows: Iterable[Flow]) -> int:
    """Return the largest body that any message of these flows may have."""
    return max((flow.bytes_at_most for flow in flows), default=0)


@dataclass(frozen=True)
class Limits:
    """What a role accepts of the others, so that none fills its memory.

    Parameters
    ----------
    body
        The largest body.
    messages, bytes
        How many messages of one sender may wait to be taken, and of how many bytes.
    of_a_round
        How many of one sender may be too late for each round that is over, besides ``messages``.
    flows
        (sender, receiver, kind, purpose) of all that may come; None where that is not known.

    Examples
    --------
    >>> Limits(body=100).messages
    65536
    """

    body: int = MAX_BODY_BYTES
    messages: int = 2**16
    bytes: int = 2**31
    of_a_round: int = _OF_A_ROUND
    flows: frozenset[tuple[str, str, str, Purpose]] | None = None

    @classmethod
    def of(cls, flows: Sequence[Flow], pieces: int) -> Limits:
        """Return the limits of a run in which just these flows travel.

        ``pieces`` is the number of messages that a sender may send before it waits for anybody, as
        those in which held-out rows travel: all of them may wait to be taken.
        """
        body = largest_body(flows)
        return cls(
            body,
            max(cls.messages, 4 * pieces),
            max(2**28, (_ROUNDS + 4 * pieces) * body),
            _OF_A_ROUND + 4 * pieces,
            frozenset((f.sender, to, f.kind, f.purpose) for f in flows for to in f.receivers),
        )

    def admit(self, message: Message) -> None:
        """Raise ``RemoteProtocolError`` unless a message may come, whoever waits for it."""
        flow = (message.sender, message.receiver, message.kind, message.purpose)
        if self.flows is not None and flow not in self.flows:
            raise RemoteProtocolError(f"{_told(message)}, which nobody awaits")
        if len(message.body) > self.body:
            raise RemoteProtocolError(
                f"{_told(message)}, a body of {len(message.body)} bytes, at most {self.body} are "
                "accepted"
            )

    def check(self, message: Message, messages: int, bytes: int) -> None:
        """Raise ``RemoteProtocolError`` unless a message may wait, as one of so many of its sender.

        ``messages`` and ``bytes`` are counted with it.
        """
        if messages > self.messages or bytes > self.bytes:
            raise RemoteProtocolError(
                f"{message.sender!r} has sent {message.receiver!r} {messages:,} messages of "
                f"{bytes:,} bytes that nobody has taken, more than there can be by what was "
                f"agreed; the last is {_what(message)}"
            )

    def check_late(self, message: Message, late: int, closed: int) -> None:
        """Raise ``RemoteProtocolError`` unless a message may be too late, as one of so many.

        ``late`` counts those of its sender with it, ``closed`` the rounds that are over.
        """
        if late > self.messages + self.of_a_round * closed:
            raise RemoteProtocolError(
                f"{message.sender!r} has sent {message.receiver!r} {late:,} messages too late, "
                f"more than there can be of {closed:,} rounds by what was agreed; the last is "
                f"{_what(message)}"
            )


def _told(message: Message) -> str:
    return f"{message.sender!r} has sent {message.receiver!r} {_what(message)}"


def _what(message: Message) -> str:
    return f"{message.kind} of round {message.round} ({message.purpose.label})"
