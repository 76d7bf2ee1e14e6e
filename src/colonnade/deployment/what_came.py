"""What came of a run, as the sites tell it: checked as it is told, and kept for the label holder.

A site speaks for itself alone: what it has sent, what its awaits were given, what came to it too
late. The server knows none of it but from them. So it refuses what cannot be, and what is more than
a run can bring; and what one says that it has sent is compared, at the end, with what the others
say has come from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from colonnade.deployment import meeting
from colonnade.drivers import control
from colonnade.drivers.account import Account
from colonnade.drivers.course import Course
from colonnade.drivers.driver import Discarded
from colonnade.drivers.player import batched
from colonnade.errors import RemoteProtocolError
from colonnade.ledger import Entry, Ledger
from colonnade.tallies import Tally, tallies

__all__ = ["Bounded", "WhatCame", "contradictions", "known", "never_sent"]

_TOGETHER = 4096  # messages, or decisions, that the label holder is told of together
_OF_A_ROUND = 2**22  # bytes that a site may tell of a round, and for each row besides
_OF_A_ROW = 2**10
_LOST = 2**28  # bytes that a site may tell of what it sent in vain
_ENVELOPE = 128  # bytes; a message has fewer besides its body
_AHEAD = 64  # rounds
_SENDINGS = 4  # of a message, by limits of messages that are late; and of one lost by crashes
_LOOKS = 2**16  # that a role has, in a round, for whether something has come
_ROWS_A_LOOK = 64
_WHILE_IT_PLAYS = (control.Reached, control.Recorded, control.Saved, control.Played)
_KEPT = (control.Recorded, control.Saved, control.Played, control.Left)


class WhatCame:
    """What the sites of a job have told of their run.

    Parameters
    ----------
    names
        The roles.
    recorded
        Whether it is kept.
    """

    def __init__(self, names: Iterable[str], recorded: bool) -> None:
        self.names, self.recorded = tuple(names), recorded
        self.played: dict[str, control.Played] = {}
        self.left: dict[str, control.Left] = {}
        self._ledger = Ledger()
        self._discarded: list[Discarded] = []
        self._courses = {name: Course() for name in self.names}
        self._reached = dict.fromkeys(self.names, 0)
        self._told = dict.fromkeys(self.names, 0)  # bytes
        self._newest = dict.fromkeys(self.names, -1)  # the number of the last message told
        self._sent: dict[str, Counter[str]] = {name: Counter() for name in self.names}
        self._before: frozenset[str] = frozenset()

    def begin(self, first: int, before: Iterable[str]) -> None:
        """Know from which round the run goes on, and who may tell what it had sent before that."""
        self._reached = dict.fromkeys(self.names, first)
        self._before = frozenset(before)

    def admit(self, name: str, size: int, rows: int) -> None:
        """Refuse ``size`` bytes more of a site that has told as much as there can be.

        How much that is grows with the rounds that it has come to, and with the rows.

        Raises
        ------
        RemoteProtocolError
            If it is too much.
        """
        most = (self._reached[name] + 2) * (_OF_A_ROUND + rows * _OF_A_ROW)
        if name in self._before:  # and what crashes have lost besides
            most += _LOST
        if self._told[name] + size > most:
            raise RemoteProtocolError(
                f"{name!r} tells more of the run than there can be: before round "
                f"{self._reached[name]}, {self._told[name] + size} bytes"
            )

    def note(self, name: str, message: control.FromPlayer, size: int) -> None:
        """Keep what a site tells of its part of the run, in a message of so many bytes.

        Raises
        ------
        RemoteProtocolError
            If it speaks for another, or contradicts one.
        TypeError, ValueError
            If it makes no sense.
        """
        if name in self.played and isinstance(message, _WHILE_IT_PLAYS):
            told = type(message).__name__
            raise RemoteProtocolError(f"{name!r} told {told} after it had played to its end")
        if self.recorded and isinstance(message, _KEPT):
            self._told[name] += size
        match message:
            case control.Reached():
                self._reached[name] = message.round
            case control.Recorded(entries, decisions, before):
                if before and (name not in self._before or self._sent[name]):
                    raise RemoteProtocolError(f"{name!r} tells too late what it had sent before")
                self._enter(name, entries, before)
                self._ledger.settle()
                self._decide(name, decisions)
            case control.Saved():
                self._enter(name, message.entries)
                self._discard(name, message.discarded)
            case control.Played():
                self._enter(name, message.entries)
                Account.told(message.account)  # the label holder reads it
                self._decide(name, message.decisions)
                self._refuse_other_end(name, message)
                self._refuse_other_counts(name, message.sent)
                self.played[name] = message
            case control.Left():
                if name not in self.played or name in self.left:
                    raise RemoteProtocolError(f"{name!r} told that it left, and is not to leave")
                self._discard(name, message.discarded)
                self.left[name] = message

    def pieces(self) -> Iterator[meeting.Came]:
        """Yield what was told, each piece with an end; what ``End`` tells is the rest."""
        for _, sender, sequence in known(self._discarded, self._ledger):
            self._ledger.discard(sender, sequence)
        for entries in batched(self._ledger, _TOGETHER):
            yield meeting.Came(entries)
        for discarded in batched(sorted(self._discarded), _TOGETHER):
            yield meeting.Came(discarded=discarded)
        for role, course in self._courses.items():
            for some in batched(course, _TOGETHER):
                yield meeting.Came(decided=(role, some))

    def _enter(self, name: str, entries: list[Entry], before: bool = False) -> None:
        for entry in entries:
            if entry.sender != name:
                raise RemoteProtocolError(f"{name!r} tells what {entry.sender!r} has sent")
            if entry.receiver == name or entry.receiver not in self.names:
                raise RemoteProtocolError(f"{name!r} tells of a message to {entry.receiver!r}")
            if entry.discarded or (entry.lost and not before):
                raise RemoteProtocolError(f"{name!r} tells what became of what it has sent")
            if not 0 < entry.framed_bytes - entry.body_bytes <= _ENVELOPE:
                raise RemoteProtocolError(
                    f"{name!r} tells that {entry.body_bytes} bytes took {entry.framed_bytes}"
                )
            if not entry.lost:
                if entry.sequence <= self._newest[name]:
                    raise RemoteProtocolError(
                        f"{name!r} tells of message {entry.sequence} after {self._newest[name]}"
                    )
                self._newest[name] = entry.sequence
                if not before:
                    self._sent[name][entry.receiver] += 1
        if self.recorded:
            self._ledger.extend(entries)

    def _decide(self, name: str, decisions: control.Decisions) -> None:
        if self.recorded:
            self._courses[name].extend(decisions)

    def _discard(self, receiver: str, messages: list[tuple[str, int]]) -> None:
        for sender, _ in messages:
            if sender == receiver or sender not in self.names:
                raise RemoteProtocolError(f"{receiver!r} tells of a message of {sender!r}")
        if self.recorded:
            for sender, sequence in messages:
                self._discarded.append((receiver, sender, sequence))

    def _refuse_other_end(self, name: str, played: control.Played) -> None:
        """Refuse an end that is none, or not that of the others."""
        if not played.finished:
            raise RemoteProtocolError(f"{name!r} tells that it was stopped, and nobody stopped it")
        for other, told in self.played.items():
            if told.round != played.round:
                raise RemoteProtocolError(
                    f"{name!r} tells that the run is over before round {played.round}, and "
                    f"{other!r} that it is before round {told.round}"
                )

    def _refuse_other_counts(self, name: str, sent: Mapping[str, int]) -> None:
        """Refuse numbers of messages that are not those of the messages told."""
        told = self._sent[name]
        for receiver in sorted(told.keys() | sent.keys()):
            if sent.get(receiver, 0) != told[receiver]:
                raise RemoteProtocolError(
                    f"{name!r} tells of {told[receiver]} messages to {receiver!r}, and that it has "
                    f"sent {sent.get(receiver, 0)}"
                )


class Bounded:
    """What the server tells the label holder of a run, as it comes: no more than there can be.

    Parameters
    ----------
    names
        The roles.
    of_a_round
        How many messages one may send another in a round; see ``Limits``.
    rounds
        Of the run.
    rows
        Of each one's table.

    Examples
    --------
    >>> bounded = Bounded(["bank", "shop"], of_a_round=1, rounds=1, rows=100)
    >>> bounded.admit(meeting.Came(discarded=[("bank", "shop", 0)] * 521))
    Traceback (most recent call last):
    colonnade.errors.RemoteProtocolError: the server tells of more messages than there can be in 1 rounds
    """  # noqa: E501 - a message is one line

    def __init__(self, names: Sequence[str], of_a_round: int, rounds: int, rows: int) -> None:
        self._rounds = rounds
        pairs, at_most = len(names) * (len(names) - 1), rounds + _AHEAD
        self._messages = pairs * at_most * of_a_round * _SENDINGS
        self._looks = len(names) * at_most * (_LOOKS + rows // _ROWS_A_LOOK)
        self._told: Counter[str] = Counter()

    def admit(self, came: meeting.Came) -> None:
        """Count a piece.

        Raises
        ------
        RemoteProtocolError
            If that is too much.
        """
        decisions = [] if came.decided is None else came.decided[1]
        taken = sum(len(each) for each in decisions if not isinstance(each, bool))
        together = {"sent": len(came.entries), "discarded": len(came.discarded), "taken": taken}
        self._told.update(together, looks=len(decisions))
        if max(self._told[each] for each in together) > self._messages:
            what = "messages"
        elif self._told["looks"] > self._looks:
            what = "looks for messages"
        else:
            return
        raise RemoteProtocolError(
            f"the server tells of more {what} than there can be in {self._rounds} rounds"
        )


def known(discarded: Sequence[Discarded], ledger: Iterable[Entry]) -> list[Discarded]:
    """Return which of the messages that receivers tell to have discarded were sent to them.

    >>> from colonnade.wire import Purpose
    >>> ledger = Ledger([Entry("bank", "shop", "embedding", Purpose.TRAINING, 0, 0, 100, 117, 5)])
    >>> known([("shop", "bank", 0), ("clinic", "bank", 0), ("shop", "bank", 7)], ledger)
    [('shop', 'bank', 0)]
    """
    if not discarded:  # as in most runs: a ledger may be long
        return []
    told, sent = {*discarded}, set[Discarded]()
    for entry in ledger:
        number = (entry.receiver, entry.sender, entry.sequence)
        if number in told and not entry.lost:
            sent.add(number)
    return [each for each in discarded if each in sent]


def never_sent(discarded: Iterable[Discarded]) -> list[str]:
    """Return in a sentence each what receivers tell to have discarded, and no sender to have sent.

    >>> never_sent([("shop", "bank", 7), ("shop", "bank", 9)])
    ["'shop' tells that it discarded 2 messages of 'bank', who tells of no such sent to it"]
    """
    count = Counter((receiver, sender) for receiver, sender, _ in discarded)
    return [
        f"{receiver!r} tells that it discarded {many} messages of {sender!r}, who tells of no such "
        "sent to it"
        for (receiver, sender), many in sorted(count.items())
    ]


def contradictions(ledger: Ledger, received: Mapping[str, control.Received | None]) -> list[str]:
    """Return in a sentence each how what was sent, as told, is not what came, as told.

    >>> from colonnade.wire import Purpose
    >>> ledger = Ledger([Entry("bank", "shop", "embedding", Purpose.TRAINING, 0, 0, 100, 117, 5)])
    >>> came = tallies(ledger)["bank", "shop"]
    >>> contradictions(ledger, {"shop": {"bank": came}, "bank": {}})
    []
    >>> contradictions(ledger, {"shop": {"bank": Tally(1, 96)}, "bank": None})
    ["'bank' tells that it sent 'shop' 1 messages of 100 bytes, and 'shop' that 1 of 96 came"]
    """
    sent = tallies(ledger)
    came = {
        (sender, receiver): tally
        for receiver, all_of_it in received.items()
        for sender, tally in (all_of_it or {}).items()
    }
    known = {pair for pair in sent.keys() | came.keys() if received.get(pair[1]) is not None}
    found = []
    for sender, receiver in sorted(known):
        told, counted = (of.get((sender, receiver), Tally()) for of in (sent, came))
        if told[:2] != counted[:2]:
            found.append(
                f"{sender!r} tells that it sent {receiver!r} {told.messages} messages of "
                f"{told.body_bytes} bytes, and {receiver!r} that {counted.messages} of "
                f"{counted.body_bytes} came"
            )
        elif told != counted:
            found.append(
                f"{sender!r} tells that it sent {receiver!r} {told.messages} messages otherwise "
                f"than they came, as {receiver!r} tells: in kind, purpose, round, number or size"
            )
    return found
