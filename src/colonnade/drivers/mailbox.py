"""Messages that have arrived at a role and were not taken yet, and when an Expect is satisfied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from colonnade.channels import nanoseconds
from colonnade.effects import Arrivals, Expect, Since
from colonnade.errors import LocalProtocolError
from colonnade.flows import Limits
from colonnade.wire import Message, Purpose

__all__ = ["Mailbox", "is_closed"]

_Shelf = tuple[str, str, int, Purpose, int]


def is_closed(message: Message, closed: int) -> bool:
    """Whether a receiver that has closed all rounds before ``closed`` discards the message."""
    return message.round < closed and message.purpose is not Purpose.SETUP


class Mailbox:
    """Arrived messages by sender, kind, round, purpose and part, each with its time of arrival.

    All times are nanoseconds on the clock of whoever calls.

    Parameters
    ----------
    closed
        Messages of rounds before this one are not kept, except those with the purpose ``SETUP``.
    limits
        What is accepted.
    """

    def __init__(self, closed: int = 0, limits: Limits | None = None) -> None:
        self.closed = closed
        self._limits = limits or Limits()
        self._shelves: dict[_Shelf, list[tuple[Message, int]]] = {}
        # The shelves that can be closed, by their round, numbered in the order they were made: to
        # close a round must not cost more for all that is kept besides.
        self._by_round: dict[int, dict[_Shelf, int]] = {}
        self._made = 0
        self._unread: dict[str, list[int]] = {}  # messages and bytes, by sender
        self._late = Counter[str]()  # messages, by sender
        self._awaited: tuple[Expect, int] | None = None

    def put(self, message: Message, now: int) -> bool:
        """Add a message that arrives ``now``; False if its round is closed, and it is discarded.

        Raises
        ------
        RemoteProtocolError
            If it is above the limits.
        """
        self._limits.admit(message)
        if is_closed(message, self.closed):
            self._count_late(message)
            return False
        unread = self._unread.setdefault(message.sender, [0, 0])
        unread[0] += 1
        unread[1] += len(message.body)
        self._limits.check(message, *unread)
        key = _shelf(message)
        shelf = self._shelves.get(key)
        if shelf is None:
            self._shelves[key] = [(message, now)]
            if message.purpose is not Purpose.SETUP:
                self._made += 1
                self._by_round.setdefault(message.round, {})[key] = self._made
        else:
            shelf.append((message, now))
        return True

    def close(self, before: int) -> list[Message]:
        """Close all rounds before ``before``; remove and return the messages of those.

        Raises
        ------
        RemoteProtocolError
            If so many of one sender are too late as cannot be.
        """
        if before <= self.closed:
            return []
        # Nothing is here of the rounds closed earlier; look at whichever are fewer.
        rounds: Iterable[int] = range(self.closed, before)
        if before - self.closed > len(self._by_round):
            rounds = [round for round in self._by_round if round < before]
        self.closed = before
        late: dict[_Shelf, int] = {}
        for round in rounds:
            late |= self._by_round.pop(round, {})
        keys = sorted(late, key=late.__getitem__)
        messages = [message for key in keys for message, _ in self._shelves.pop(key)]
        for message in messages:
            self._read(message)
            self._count_late(message)
        return messages

    def check(self, expect: Expect, name: str) -> None:
        """Raise LocalProtocolError if the role ``name`` expects what it has closed."""
        if expect.earliest < self.closed and expect.purpose is not Purpose.SETUP:
            raise LocalProtocolError(
                f"{name} expects {expect}, but has closed all rounds before {self.closed}"
            )

    def satisfied(self, expect: Expect, since: int, now: int) -> bool:
        """Whether a wait for ``expect`` that began at ``since`` is over at ``now``.

        A wait begins when it is first asked for, and until its messages are taken it is the same
        wait, however often one asks whether it is over.
        """
        if expect.quorum is None and expect.within is None:
            # From the end: messages tend to arrive in order, so the last source tells most often.
            for source in reversed(expect.sources):
                if self._first(expect, source) is None:
                    return False
            return True
        since = self._begun(expect, since)
        arrivals = [self._first(expect, source) for source in expect.sources]
        here = sum(arrival is not None for arrival in arrivals)
        if here == len(expect.sources):
            return True
        if here < (expect.quorum or 0):
            return False
        if expect.within is None:
            return True
        deadline = self.deadline(expect, since)
        return deadline is not None and now >= deadline

    def deadline(self, expect: Expect, since: int) -> int | None:
        """Return when the seconds of ``expect.within`` are over, None while that is not known."""
        if expect.quorum is not None and not 0 < expect.quorum <= len(expect.sources):
            raise LocalProtocolError(
                f"a quorum of {expect.quorum} of {len(expect.sources)} sources cannot be: {expect}"
            )
        if expect.within is None:
            return None
        if expect.since is Since.NOW:
            return self._begun(expect, since) + nanoseconds(expect.within)
        arrivals = (self._first(expect, source) for source in expect.sources)
        times = [arrival[1] for arrival in arrivals if arrival is not None]
        return min(times) + nanoseconds(expect.within) if times else None

    def _begun(self, expect: Expect, since: int) -> int:
        if self._awaited is None or self._awaited[0] != expect:
            self._awaited = (expect, since)
        return self._awaited[1]

    def lacks(self, expect: Expect) -> str:
        """Say what a wait for ``expect`` lacks, and what is here of those sources instead."""
        missing = [source for source in expect.sources if self._first(expect, source) is None]
        told = f"waits for {expect}, of which {', '.join(missing)} is missing"
        others = [key for key in self._shelves if key[0] in missing]
        if others:
            sender, kind, round, purpose, part = others[0]
            piece = f", piece {part}" if part else ""
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            told += f" (not awaited: {kind} of round {round} ({purpose.label}{piece}) from {sender}"
            told += f"{more})"
        return told

    def take(self, expect: Expect) -> Arrivals:
        """Remove and return the messages for ``expect`` that are here, in order of the sources."""
        self._awaited = None
        messages: list[Message] = []
        missing: list[str] = []
        for source in expect.sources:
            first = self._first(expect, source)
            if first is None:
                missing.append(source)
            else:
                messages.append(first[0])
                self._remove(first[0])
        return Arrivals(tuple(messages), tuple(missing))

    def take_exactly(
        self, identities: Iterable[tuple[str, int]], expect: Expect
    ) -> Arrivals | None:
        """Remove and return the messages of these (sender, sequence); None if one is not here.

        None, too, if one is named twice.
        """
        here = {(m.sender, m.sequence): m for m, _ in self if m.sender in expect.sources}
        wanted = list(identities)
        if len(here.keys() & wanted) < len(wanted):
            return None
        taken = tuple(here[identity] for identity in wanted)
        for message in taken:
            self._remove(message)
        senders = {message.sender for message in taken}
        return Arrivals(taken, tuple(s for s in expect.sources if s not in senders))

    def __iter__(self) -> Iterator[tuple[Message, int]]:
        """Go through all messages and the times they arrived."""
        for shelf in self._shelves.values():
            yield from shelf

    def _first(self, expect: Expect, source: str) -> tuple[Message, int] | None:
        """Return the earliest message of the source that will do."""
        round = expect.round_of(source)
        if isinstance(expect.kind, str):
            shelf = self._shelves.get((source, expect.kind, round, expect.purpose, expect.part))
            return shelf[0] if shelf else None
        shelves = (
            self._shelves.get((source, kind, round, expect.purpose, expect.part))
            for kind in expect.kind
        )
        return min(
            (shelf[0] for shelf in shelves if shelf),
            key=lambda arrival: arrival[0].sequence,
            default=None,
        )

    def _read(self, message: Message) -> None:
        unread = self._unread[message.sender]
        unread[0] -= 1
        unread[1] -= len(message.body)

    def _count_late(self, message: Message) -> None:
        self._late[message.sender] += 1
        self._limits.check_late(message, self._late[message.sender], self.closed)

    def _remove(self, message: Message) -> None:
        self._read(message)
        key = _shelf(message)
        shelf = self._shelves[key]
        if len(shelf) == 1:
            del self._shelves[key]
            if message.purpose is not Purpose.SETUP:
                of_round = self._by_round[message.round]
                del of_round[key]
                if not of_round:
                    del self._by_round[message.round]
        else:
            shelf.remove(next(entry for entry in shelf if entry[0] is message))


def _shelf(message: Message) -> _Shelf:
    return message.sender, message.kind, message.round, message.purpose, message.part
