"""What came of a run, as the sites tell it: checked as it is told, and kept for the label holder.

A site speaks for itself alone: what it has sent, what its awaits were given, what came to it too
late. The server knows none of it but from them. So it refuses what cannot be, and what is more than
a run can bring; and what one says that it has sent is compared, at the end, with what the others
say has come from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import polars as pl

from colonnade.deployment import meeting
from colonnade.drivers import control
from colonnade.drivers.account import Account
from colonnade.drivers.driver import Discarded
from colonnade.drivers.player import batched
from colonnade.errors import RemoteProtocolError
from colonnade.ledger import Entry, Ledger

__all__ = ["WhatCame", "contradictions"]

_TOGETHER = 4096  # messages, or decisions, that the label holder is told of together
_OF_A_ROUND = 2**22  # bytes that a site may tell of a round, and for each row besides
_OF_A_ROW = 2**10
_KEPT = (control.Recorded, control.Saved, control.Played)
_WHILE_IT_PLAYS = (control.Reached, *_KEPT)

_decisions = msgspec.msgpack.Decoder(control.Decisions).decode


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
        self._decided: dict[str, list[bytes]] = {name: [] for name in self.names}
        self._reached = dict.fromkeys(self.names, 0)
        self._told = dict.fromkeys(self.names, 0)  # bytes

    @property
    def everybody_has_left(self) -> bool:
        """Whether nothing more is to be told."""
        return len(self.left) == len(self.names)

    def admit(self, name: str, size: int, rows: int) -> None:
        """Refuse ``size`` bytes more of a site that has told as much as there can be.

        How much that is grows with the rounds that it has come to, and with the rows.

        Raises
        ------
        RemoteProtocolError
            If it is too much.
        """
        most = (self._reached[name] + 2) * (_OF_A_ROUND + rows * _OF_A_ROW)
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
            case control.Recorded(entries, decisions):
                self._enter(name, entries)
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
                self.played[name] = message
            case control.Left():
                self._discard(name, message.discarded)
                self.left[name] = message

    def pieces(self) -> Iterator[meeting.Came]:
        """Yield what was told, each piece with an end; what ``End`` tells is the rest."""
        for entries in batched(self._ledger, _TOGETHER):
            yield meeting.Came(entries)
        for discarded in batched(sorted(self._discarded), _TOGETHER):
            yield meeting.Came(discarded=discarded)
        for role, pieces in self._decided.items():
            for piece in pieces:
                for some in batched(_decisions(piece), _TOGETHER):
                    yield meeting.Came(decided=(role, some))

    def _enter(self, name: str, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.sender != name:
                raise RemoteProtocolError(f"{name!r} tells what {entry.sender!r} has sent")
            if entry.receiver == name or entry.receiver not in self.names:
                raise RemoteProtocolError(f"{name!r} tells of a message to {entry.receiver!r}")
        if self.recorded:
            self._ledger.extend(entries)

    def _decide(self, name: str, decisions: control.Decisions) -> None:
        if self.recorded and decisions:
            self._decided[name].append(msgspec.msgpack.encode(decisions))

    def _discard(self, receiver: str, messages: list[tuple[str, int]]) -> None:
        for sender, _ in messages:
            if sender == receiver or sender not in self.names:
                raise RemoteProtocolError(f"{receiver!r} tells of a message of {sender!r}")
        if self.recorded:
            for sender, sequence in messages:
                self._ledger.discard(sender, sequence)
                self._discarded.append((receiver, sender, sequence))

    def _refuse_other_end(self, name: str, played: control.Played) -> None:
        """Refuse an end that is not that of the others."""
        for other, told in self.played.items():
            if told.finished and played.finished and told.round != played.round:
                raise RemoteProtocolError(
                    f"{name!r} tells that the run is over before round {played.round}, and "
                    f"{other!r} that it is before round {told.round}"
                )


def contradictions(ledger: Ledger, received: Mapping[str, control.Received | None]) -> list[str]:
    """Return in a sentence each how what was sent, as told, is not what came, as told.

    >>> from colonnade.wire import Purpose
    >>> ledger = Ledger([Entry("bank", "shop", "embedding", Purpose.TRAINING, 0, 0, 100, 117, 5)])
    >>> contradictions(ledger, {"shop": {"bank": (1, 100)}, "bank": {}})
    []
    >>> contradictions(ledger, {"shop": {"bank": (1, 96)}, "bank": None})
    ["'bank' tells that it sent 'shop' 1 messages of 100 bytes, and 'shop' that 1 of 96 came"]
    """
    frame = ledger.frame().filter(~pl.col("lost"))
    sent = {
        (sender, receiver): (messages, size)
        for sender, receiver, messages, size in frame.group_by("sender", "receiver")
        .agg(pl.len(), pl.col("body_bytes").sum())
        .rows()
    }
    came = {
        (sender, receiver): tuple(counted)
        for receiver, all_of_it in received.items()
        for sender, counted in (all_of_it or {}).items()
    }
    known = {pair for pair in sent.keys() | came.keys() if received.get(pair[1]) is not None}
    found = []
    for sender, receiver in sorted(known):
        told, counted = sent.get((sender, receiver), (0, 0)), came.get((sender, receiver), (0, 0))
        if told != counted:
            found.append(
                f"{sender!r} tells that it sent {receiver!r} {told[0]} messages of {told[1]} "
                f"bytes, and {receiver!r} that {counted[0]} of {counted[1]} came"
            )
    return found
