"""Who has come how far, and who may go on: the gate that keeps players together.

The gatekeeper hears from each player which round it has reached, and answers with a *gate*, the
round that nobody may enter yet. Checkpoints and interruptions happen at a gate: every player waits
there, has received all that was sent to it before, and saves its state, so that what lies in the
mailboxes completes a consistent cut.

When nothing was heard for a while it asks how it stands. If every role waits for what only others
can bring, and has received all that was sent to it, nobody will ever go on: each tells what it has
sent and received at a moment at which it waits, so these numbers could not be equal if anything
were still to be taken (the argument of Mattern, "Algorithms for distributed termination detection",
1987). If all wait, and of what one tells that it has sent not a byte comes for long, it was not
sent, or is lost.

It knows neither processes nor networks: whoever has these passes on what players tell, and is told
what to say to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from colonnade import errors
from colonnade.drivers import control
from colonnade.drivers.driver import Assignment, nobody_goes_on, refuse_disagreement
from colonnade.errors import Deadlock, RemoteProtocolError, RoleFailed, Unwritten
from colonnade.telling import plain

__all__ = ["Gatekeeper", "out_of_turn", "rebuilt"]

_GATE_AHEAD = 32  # rounds that roles may run before they hear from the gatekeeper again
_ASKED_IN_VAIN = 5  # times, after which what has not come does not come
_SLOWEST = 4096  # bytes a second, of what one tells before it answers
_LONG = (control.Recorded, control.Saved, control.Played)
_OF_WHO_MAY_WAIT = (control.Reported, control.Recorded)  # no sign that it goes on
_LONGEST = 2000  # characters of what a player says that it waits for
_QUIET = 1.0  # seconds in which nothing is heard, after which the gatekeeper asks how it stands


class _Short(NamedTuple):
    """Messages that a sender tells to have sent, and other numbers of them came."""

    sender: str
    receiver: str
    told: int
    came: int

    def refusal(self) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"{self.sender!r} tells that it has sent {self.receiver!r} {self.told} messages, and "
            f"{self.receiver!r} that {self.came} came"
        )


class Gatekeeper:
    """Keeps the gate for the players of a run.

    Parameters
    ----------
    names
        The roles.
    assignment
        When there are checkpoints, and when to stop.
    tell
        Sends a message to the player of a role; it says nothing of one who is gone.
    begin
        Makes what players are told when all are there.
    keep
        Called with the round at whose gate everybody has saved, before anybody goes on.
    patience
        Seconds in which something comes of what was sent, where all wait for it.
    answers_within
        Seconds in which who is there answers how it stands, and leaves when all has come; None
        where a player may be stopped for as long as anybody likes.
    """

    def __init__(
        self,
        names: Iterable[str],
        assignment: Assignment,
        tell: Callable[[str, control.FromGatekeeper], None],
        begin: Callable[[], control.Begin],
        keep: Callable[[int], None],
        patience: float,
        answers_within: float | None = None,
    ) -> None:
        self.names = tuple(names)
        self.gate = 0
        self._assignment = assignment
        self._tell, self._begin, self._keep = tell, begin, keep
        self._patience, self._answers_within = patience, answers_within
        self._due = self._next_due(assignment.first_round)
        self.gate = self._gate_from(assignment.first_round)
        self._stop_at = assignment.stop_before
        self._reached = dict.fromkeys(self.names, assignment.first_round)
        self._sent: dict[str, dict[str, int]] = {}  # of those who were at a boundary
        self._agreed: dict[str, str] = {}
        self._peers: dict[str, frozenset[str]] = {}  # of those who are there
        self._saved: set[str] | None = None  # who has, while a save is under way
        self._played: dict[str, dict[str, int]] = {}  # what those had sent who came to their end
        self._may_leave = False  # who has played
        self._left: set[str] = set()
        self._heard = time.monotonic()  # when a player last told anything of its own accord
        self._asked = 0  # a number for each question, and for each word by which answers are void
        self._question = 0  # the number of the last question
        self._short = 0  # how often it was answered that less came than was sent
        self._came = (-1, -1)  # messages, and bytes, that had come as all waited for more
        self._came_at = 0.0
        self._standings: dict[str, control.Standing] = {}  # answers to it
        self._owing: dict[str, float] = {}  # who has not answered the last one, for how long
        self._looked = self._heard  # when it was last looked who does not answer, or leave
        self._stayed = 0.0  # seconds in which nobody left, and nothing came
        self._behind: set[str] = set()  # who then told that less came than was sent

    @property
    def everybody_is_there(self) -> bool:
        """Whether all have been told to play."""
        return len(self._peers) == len(self.names)

    @property
    def everybody_has_played(self) -> bool:
        """Whether all have come to their end, or to the gate where the run stops."""
        return len(self._played) == len(self.names)

    @property
    def everybody_has_left(self) -> bool:
        """Whether nothing more is to be heard of anybody."""
        return len(self._left) == len(self.names)

    def broadcast(self, message: control.FromGatekeeper) -> None:
        """Tell all who are there something."""
        self._void()
        for name in self.names:
            if name not in self._left:
                self._tell(name, message)

    def let_leave(self) -> None:
        """Tell everybody to leave when all that was sent has come."""
        self._may_leave = True
        for name in self.names:
            if name not in self._left:
                self._tell(name, control.Stop(_sent_to(name, self._played)))

    def heed(self, name: str, message: control.FromPlayer, size: int = 0) -> None:
        """Take note of what the player of ``name`` tells, in so many bytes.

        Raises
        ------
        ColonnadeError
            As which the player failed.
        ConfigurationError
            If roles were cast from different agreements.
        Deadlock
            If nobody will ever go on.
        RemoteProtocolError
            If it tells what it was not asked for.
        """
        if name in self._owing and isinstance(message, _LONG):  # its answer comes after it
            self._owing[name] = max(0.0, self._owing[name] - size / _SLOWEST)
        if isinstance(message, control.Standing):
            if name in self._left:  # it was asked before that was known
                return
            if name not in self._owing or message.number != self._question:
                raise out_of_turn(name, message)
            del self._owing[name]
            if message.waits == "" and name not in self._played:
                raise RemoteProtocolError(f"{name!r} is at its end, and has told none")
            told_of = message.sent.keys() | message.received.keys() | {*message.lost}
            self._refuse_strangers(name, told_of)
            if message.number == self._asked:
                self._refuse_fewer(name, message.sent)
                self._standings[name] = message
                self._refuse_deadlock()
            return
        self._refuse_out_of_turn(name, message)
        if not isinstance(message, _OF_WHO_MAY_WAIT):
            self._void()
            self._short, self._came = 0, (-1, -1)
        match message:
            case control.Cast(agreed):
                self._agreed[name] = agreed
                refuse_disagreement(self._agreed)
            case control.Waiting(peers):
                self._peers[name] = frozenset(peers)
                if self.everybody_is_there:
                    self._refuse_one_sided()
                    self.broadcast(self._begin())
            case control.Reached(round, sent, sent_bytes):
                self._refuse_leap(name, round)
                if name in self._sent and round == self._reached[name]:
                    raise RemoteProtocolError(
                        f"{name!r} told before that it is before round {round}"
                    )
                self._refuse_strangers(name, sent)
                self._refuse_fewer(name, sent)
                self._reached[name] = round
                self._sent[name] = sent
                self._assignment.on_round(name, round, sent_bytes)
            case control.Reported(values):
                self._assignment.on_report({**values, "organisation": name})  # whose word it is
            case control.Saved():
                if self._saved is None or name in self._saved:
                    raise RemoteProtocolError(f"{name!r} has saved, which nobody asked it to")
                self._saved.add(name)
                if len(self._saved) == len(self.names):
                    self._go_on()
            case control.Played():
                self._refuse_leap(name, message.round)
                if name in self._played:
                    raise RemoteProtocolError(f"{name!r} has told its end before")
                self._refuse_strangers(name, message.sent)
                self._refuse_fewer(name, message.sent)
                self._played[name] = message.sent
            case control.Left():
                if not self._may_leave or name not in self._played or name in self._left:
                    raise RemoteProtocolError(f"{name!r} told that it left, and is not to leave")
                self._left.add(name)
                self._owing.pop(name, None)
                self._stayed = 0.0
            case control.Failed():
                raise rebuilt(name, message)

    def _refuse_out_of_turn(self, name: str, message: control.FromPlayer) -> None:
        """Refuse what is told twice as players come together, and what before all are there."""
        match message:
            case control.Cast():
                in_turn = name not in self._agreed and name not in self._peers
            case control.Waiting():
                in_turn = name not in self._peers
            case control.Failed():
                in_turn = True
            case _:
                in_turn = self.everybody_is_there
        if not in_turn:
            raise out_of_turn(name, message)

    def _refuse_leap(self, name: str, round: int) -> None:
        """Refuse a round that the player of ``name`` has left behind, or may not be at yet."""
        if not self._reached[name] <= round <= self.gate:
            raise RemoteProtocolError(
                f"{name!r} tells that it is before round {round}, and it was before round "
                f"{self._reached[name]}, with a gate at round {self.gate}"
            )

    def _refuse_one_sided(self) -> None:
        """Refuse an exchange of messages of which one tells, and the other does not."""
        for one, peers in self._peers.items():
            for other in sorted(peers):
                if one not in self._peers.get(other, ()):
                    raise RemoteProtocolError(
                        f"{one!r} tells that it exchanges messages with {other!r}, who tells of "
                        f"none with {one!r}"
                    )

    def _refuse_strangers(self, name: str, told_of: Iterable[str]) -> None:
        """Refuse messages to, or of, somebody with whom the player of ``name`` exchanges none."""
        strangers = sorted({*told_of} - self._peers.get(name, {*self.names}))
        if strangers:
            raise RemoteProtocolError(
                f"{name!r} tells of messages to or of {strangers[0]!r}, with whom it exchanges none"
            )

    def _refuse_fewer(self, name: str, sent: Mapping[str, int]) -> None:
        """Refuse fewer messages than the player of ``name`` told of at a boundary before."""
        for receiver, before in self._sent.get(name, {}).items():
            if sent.get(receiver, 0) < before:
                raise RemoteProtocolError(
                    f"{name!r} tells that it has sent {receiver!r} {sent.get(receiver, 0)} "
                    f"messages, and told of {before} before"
                )

    def look_after(self) -> None:
        """Do what is to be done, heard anything or not: move the gate, save, ask how it stands."""
        self._keep_gate()
        self._refuse_idle()
        # Whoever is stopped for long must find one question when it goes on, not thousands.
        if not self._owing and time.monotonic() - self._heard > _QUIET:
            self._owing = {name: 0.0 for name in self.names if name not in self._left}
            self._question = self._asked + 1
            self.broadcast(control.Ask(self._question))

    # The gate

    def _next_due(self, round: int) -> int | None:
        """Return the next round after ``round`` at whose boundary something is planned."""
        every = self._assignment.checkpoint_every
        planned = []
        saves = self._assignment.store is not None or self._assignment.kept_apart
        if saves and every > 0:
            planned.append((round // every + 1) * every)
        stop = self._assignment.stop_before
        if stop is not None and stop >= round:
            planned.append(stop)
        return min(planned, default=None)

    def _gate_from(self, round: int) -> int:
        ahead = round + _GATE_AHEAD
        return ahead if self._due is None else min(ahead, self._due)

    def _keep_gate(self) -> None:
        """Move the gate ahead of the players, or act when all of them are at it."""
        if self._saved is not None or self._played:
            return
        if self._stop_at is None and self._assignment.interrupted():
            self._stop_at = self._due = self.gate
        if self.gate != self._due:
            gate = self._gate_from(max(self._reached.values()))
            if gate == self._due or gate >= self.gate + _GATE_AHEAD // 2:
                self.gate = gate
                self.broadcast(control.Gate(gate))
        elif len(self._sent) == len(self.names) and min(self._reached.values()) >= self.gate:
            self._saved = set()
            for name in self.names:
                self._tell(name, control.Save(_sent_to(name, self._sent)))

    def _go_on(self) -> None:
        """Stop the run or move the gate, now that everybody has saved."""
        self._keep(self.gate)
        if self._stop_at == self.gate:
            self._may_leave = True
            self.broadcast(control.Stop())
            return
        self._saved = None
        self._due = self._next_due(self.gate)
        self.gate = self._gate_from(self.gate)
        self.broadcast(control.Gate(self.gate))

    # Deadlocks

    def _void(self) -> None:
        """Let no answer count any more to what was asked before something was told or heard."""
        self._heard = time.monotonic()
        self._asked += 1
        self._standings.clear()

    def _refuse_deadlock(self) -> None:
        """Raise ``Deadlock`` if all who have not left wait, and nothing is under way."""
        standings = self._standings
        if self.everybody_has_played:
            self._refuse_short()
            return
        if self._left or len(standings) < len(self.names):
            return
        # A role at the gate, or at its end, is waited for by nobody but the gatekeeper.
        waits = {name: standings[name].waits for name in self.names}
        if None in waits.values():
            return
        short = [
            _Short(sender, receiver, told, came)
            for receiver, standing in standings.items()
            for sender, came in standing.received.items()
            if (told := standings[sender].sent.get(receiver, 0)) != came
            and sender not in standing.lost
        ]
        if short:
            self._refuse_stuck(short)
            return
        raise Deadlock(
            nobody_goes_on(
                [
                    *(f"{name} {_told_of(what)}" for name, what in waits.items() if what),
                    *self._untold(),
                    *(
                        f"{name} has lost its connection to {', '.join(standing.lost)}"
                        for name, standing in standings.items()
                        if standing.lost
                    ),
                ],
                [name for name, what in waits.items() if not what],
            )
        )

    def _untold(self) -> Iterator[str]:
        """Yield who has not told what is waited for, and what that is."""
        for name in self.names:
            if name not in self._peers:
                yield f"{name} has not told that it is there"
            elif self._saved is not None and name not in self._saved:
                yield f"{name} has not told that it saved"
            elif self._saved is None and self._reached[name] < max(self._reached.values()):
                yield f"{name} has not told that it is before round {max(self._reached.values())}"

    def _refuse_stuck(self, short: list[_Short]) -> None:
        """Refuse what a sender tells of its messages, where all wait and nothing comes of them.

        That it tells of more and more of them is no sign that any is under way.
        """
        if self._has_more_come({name: each.sent for name, each in self._standings.items()}):
            self._came_at = time.monotonic()
        elif time.monotonic() - self._came_at > self._patience:
            raise short[0].refusal()

    def _has_more_come(self, sent: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether messages have come, of those that were sent, or bytes, as never before."""
        came = (
            sum(
                min(count, sent[sender].get(receiver, 0))
                for receiver, standing in self._standings.items()
                for sender, count in standing.received.items()
            ),
            sum(sum(standing.came.values()) for standing in self._standings.values()),
        )
        before = self._came
        self._came = max(came[0], before[0]), max(came[1], before[1])
        return self._came != before

    def _refuse_short(self) -> None:
        """Refuse what a sender tells of its messages, where so many do not come.

        All have played, and nothing leaves before that is told. What a network still holds is there
        in less time than it takes to be asked so often.
        """
        standings = self._standings
        if set(standings) != set(self.names) - self._left:
            return
        short = [
            _Short(sender, receiver, count, standing.received.get(sender, 0))
            for receiver, standing in standings.items()
            if standing.waits is not None
            for sender, count in _sent_to(receiver, self._played).items()
            if count > standing.received.get(sender, 0) and sender not in standing.lost
        ]
        self._short = self._short + 1 if short else 0
        if self._short >= _ASKED_IN_VAIN:
            raise short[0].refusal()
        self._behind = {each.receiver for each in short}
        if self._has_more_come(self._played):
            self._stayed = 0.0

    def _refuse_idle(self) -> None:
        """Refuse one who is there, and does not answer, or does not leave though all has come.

        Time counts in which it is looked: whoever goes on after long finds answers first.
        """
        now = time.monotonic()
        passed, self._looked = min(now - self._looked, _QUIET), now
        if self._answers_within is None:
            return
        for name in self._owing:
            self._owing[name] += passed
            if self._owing[name] > self._answers_within:
                raise RemoteProtocolError(
                    f"{name!r} is there, and has not answered for {self._owing[name]:.0f} s how it "
                    "stands"
                )
        if self.everybody_has_played:
            self._stayed += passed
            if self._stayed > self._answers_within:
                stay = [name for name in self.names if name not in self._left]
                name = next((name for name in stay if name not in self._behind), stay[0])
                raise RemoteProtocolError(f"{name!r} does not leave, though all has come")


def _told_of(waits: str) -> str:
    """Return what a player says that it waits for, as a part of a sentence that is no other's."""
    return plain(waits[:_LONGEST]).replace(";", ",")


def _sent_to(receiver: str, sent: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return how many messages each sender has sent to ``receiver``."""
    return {sender: counts[receiver] for sender, counts in sent.items() if receiver in counts}


def out_of_turn(name: str, message: object) -> RemoteProtocolError:
    """Return the error of who told something when it was not to."""
    return RemoteProtocolError(f"{name!r} told {type(message).__name__} out of turn")


def rebuilt(name: str, failed: control.Failed) -> Exception:
    """Return the error of a player as one of ours."""
    kind = getattr(errors, failed.error, None) if failed.error in errors.__all__ else None
    says_whose = failed.message.startswith((f"at {name!r}:", f"at {name}:", f"{name} "))
    if kind is None:
        told = failed.message if says_whose else f"{name} failed: {failed.error}: {failed.message}"
        error: Exception = RoleFailed(told)
    elif issubclass(kind, Unwritten | RoleFailed) and not says_whose:  # on whose disk, or line
        error = kind(f"at {name}: {failed.message}")
    else:
        error = kind(failed.message)
    error.add_note(f"in the process of {name!r}:\n{failed.traceback}")
    return error
