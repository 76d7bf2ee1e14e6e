"""What players have told of themselves: who is there, how far each has come, what it has sent.

What nobody could tell truly is refused as it is entered: what was told before, a round that was
left behind, fewer messages than there were, or any to somebody with whom none are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from colonnade.drivers.driver import refuse_disagreement
from colonnade.errors import RemoteProtocolError

__all__ = ["Roll", "out_of_turn", "sent_to"]


class Roll:
    """What the players of a run have told so far.

    Parameters
    ----------
    names
        The roles.
    first_round
        The round that they go on from.

    Attributes
    ----------
    agreed
        The digest of the agreement that each was cast from, of those who told it.
    peers
        With whom each exchanges messages, of those who are there.
    reached
        The round that each is before.
    sent
        How many messages each had sent to whom, of those who were at a boundary.
    saved
        Who has saved, while a save is under way; None while none is.
    played
        How many messages those had sent to whom who came to their end.
    may_leave
        Whether those may leave who have played.
    left
        Of whom nothing more is to be heard.
    """

    def __init__(self, names: Iterable[str], first_round: int) -> None:
        self.names = tuple(names)
        self.agreed: dict[str, str] = {}
        self.peers: dict[str, frozenset[str]] = {}
        self.reached = dict.fromkeys(self.names, first_round)
        self.sent: dict[str, dict[str, int]] = {}
        self.saved: set[str] | None = None
        self.played: dict[str, dict[str, int]] = {}
        self.may_leave = False
        self.left: set[str] = set()

    @property
    def everybody_is_there(self) -> bool:
        """Whether all have told that they wait for the others."""
        return len(self.peers) == len(self.names)

    @property
    def everybody_has_played(self) -> bool:
        """Whether all have come to their end, or to the gate where the run stops."""
        return len(self.played) == len(self.names)

    @property
    def everybody_has_left(self) -> bool:
        """Whether nothing more is to be heard of anybody."""
        return len(self.left) == len(self.names)

    @property
    def everybody_has_saved(self) -> bool:
        """Whether all have saved who were asked to."""
        return self.saved is not None and len(self.saved) == len(self.names)

    @property
    def foremost(self) -> int:
        """The round that somebody is before, and nobody before a later one."""
        return max(self.reached.values())

    def everybody_is_before(self, round: int) -> bool:
        """Whether all were at a boundary, and that of this round or of a later one."""
        return len(self.sent) == len(self.names) and min(self.reached.values()) >= round

    def staying(self) -> list[str]:
        """Return who has not left."""
        return [name for name in self.names if name not in self.left]

    # What is told

    def cast(self, name: str, agreed: str) -> None:
        """Enter from what agreement a role was cast."""
        self.agreed[name] = agreed
        refuse_disagreement(self.agreed)

    def waits(self, name: str, peers: Iterable[str]) -> None:
        """Enter that a role is there, and with whom it exchanges messages."""
        self.peers[name] = frozenset(peers)
        if self.everybody_is_there:
            self._refuse_one_sided()

    def reaches(self, name: str, round: int, sent: dict[str, int], gate: int) -> None:
        """Enter that a role is before a round, and what it has sent."""
        self._refuse_leap(name, round, gate)
        if name in self.sent and round == self.reached[name]:
            raise RemoteProtocolError(f"{name!r} told before that it is before round {round}")
        self.refuse_strangers(name, sent)
        self.refuse_fewer(name, sent)
        self.reached[name] = round
        self.sent[name] = sent

    def saves(self, name: str) -> None:
        """Enter that a role has saved."""
        if self.saved is None or name in self.saved:
            raise RemoteProtocolError(f"{name!r} has saved, which nobody asked it to")
        self.saved.add(name)

    def ends(self, name: str, round: int, sent: dict[str, int], gate: int) -> None:
        """Enter that a role has come to its end, and what it has sent."""
        self._refuse_leap(name, round, gate)
        if name in self.played:
            raise RemoteProtocolError(f"{name!r} has told its end before")
        self.refuse_strangers(name, sent)
        self.refuse_fewer(name, sent)
        self.played[name] = sent

    def leaves(self, name: str) -> None:
        """Enter that a role is done."""
        if not self.may_leave or name not in self.played or name in self.left:
            raise RemoteProtocolError(f"{name!r} told that it left, and is not to leave")
        self.left.add(name)

    # What is refused

    def refuse_strangers(self, name: str, told_of: Iterable[str]) -> None:
        """Refuse messages to, or of, somebody with whom the player of ``name`` exchanges none."""
        strangers = sorted({*told_of} - self.peers.get(name, {*self.names}))
        if strangers:
            raise RemoteProtocolError(
                f"{name!r} tells of messages to or of {strangers[0]!r}, with whom it exchanges none"
            )

    def refuse_fewer(self, name: str, sent: Mapping[str, int]) -> None:
        """Refuse fewer messages than the player of ``name`` told of at a boundary before."""
        for receiver, before in self.sent.get(name, {}).items():
            if sent.get(receiver, 0) < before:
                raise RemoteProtocolError(
                    f"{name!r} tells that it has sent {receiver!r} {sent.get(receiver, 0)} "
                    f"messages, and told of {before} before"
                )

    def _refuse_leap(self, name: str, round: int, gate: int) -> None:
        """Refuse a round that the player of ``name`` has left behind, or may not be at yet."""
        if not self.reached[name] <= round <= gate:
            raise RemoteProtocolError(
                f"{name!r} tells that it is before round {round}, and it was before round "
                f"{self.reached[name]}, with a gate at round {gate}"
            )

    def _refuse_one_sided(self) -> None:
        """Refuse an exchange of messages of which one tells, and the other does not."""
        for one, peers in self.peers.items():
            for other in sorted(peers):
                if one not in self.peers.get(other, ()):
                    raise RemoteProtocolError(
                        f"{one!r} tells that it exchanges messages with {other!r}, who tells of "
                        f"none with {one!r}"
                    )


def out_of_turn(name: str, message: object) -> RemoteProtocolError:
    """Return the error of who told something when it was not to."""
    return RemoteProtocolError(f"{name!r} told {type(message).__name__} out of turn")


def sent_to(receiver: str, sent: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return how many messages each sender has sent to ``receiver``.

    >>> sent_to("shop", {"bank": {"shop": 3}, "shop": {"bank": 2}})
    {'bank': 3}
    """
    return {sender: counts[receiver] for sender, counts in sent.items() if receiver in counts}
