"""How it stands, asked when nothing was heard for a while, and what follows from the answers.

If every role waits for what only others can bring, and has received all that was sent to it, nobody
will ever go on: each tells what it has sent and received at a moment at which it waits, so these
numbers could not be equal if anything were still to be taken (the argument of Mattern, "Algorithms
for distributed termination detection", 1987). If all wait, and of what one tells that it has sent
not a byte comes for long, it was not sent, or is lost. Who does not answer is named, and so is who
does not leave when all has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from colonnade.drivers import control
from colonnade.drivers.driver import nobody_goes_on
from colonnade.drivers.roll import Roll, out_of_turn, sent_to
from colonnade.errors import Deadlock, RemoteProtocolError
from colonnade.telling import plain

__all__ = ["Inquiry"]

_ASKED_IN_VAIN = 5  # times, after which what has not come does not come
_SLOWEST = 4096  # bytes a second, of what one tells before it answers
_LONG = (control.Recorded, control.Saved, control.Played)
_OF_WHO_MAY_WAIT = (control.Reported, control.Recorded)  # no sign that it goes on
_LONGEST = 2000  # characters of what a player says that it waits for
_QUIET = 1.0  # seconds in which nothing is heard, after which it is asked


class Inquiry:
    """Asks players how they stand, and ends a run that will not go on.

    Parameters
    ----------
    roll
        What they have told.
    ask
        Puts a question to all who have not left.
    patience
        Seconds in which something comes of what was sent, where all wait for it.
    answers_within
        Seconds in which who is there answers, and leaves when all has come; None where a player
        may be stopped for as long as anybody likes.
    """

    def __init__(
        self,
        roll: Roll,
        ask: Callable[[control.Ask], None],
        patience: float,
        answers_within: float | None = None,
    ) -> None:
        self._roll, self._ask = roll, ask
        self._patience, self._answers_within = patience, answers_within
        self._heard = time.monotonic()  # when a player last told anything of its own accord
        self._asked = 0  # a number for each question, and for each word by which answers are void
        self._question = 0  # the number of the last question
        self._standings: dict[str, control.Standing] = {}  # answers to it
        self._owing: dict[str, float] = {}  # who has not answered the last one, for how long
        self._short = 0  # how often it was answered that less came than was sent
        self._behind: set[str] = set()  # who then told that less came than was sent
        self._came = (-1, -1)  # messages, and bytes, that had come as all waited for more
        self._came_at = 0.0
        self._looked = self._heard  # when it was last looked who does not answer, or leave
        self._stayed = 0.0  # seconds in which nobody left, and nothing came

    def void(self) -> None:
        """Let no answer count any more to what was asked before something was told or heard."""
        self._heard = time.monotonic()
        self._asked += 1
        self._standings.clear()

    def note(self, message: control.FromPlayer) -> None:
        """Know that a player told something that is no answer."""
        if not isinstance(message, _OF_WHO_MAY_WAIT):
            self.void()
            self._short, self._came = 0, (-1, -1)

    def allow(self, name: str, message: control.FromPlayer, size: int) -> None:
        """Wait longer for the answer of ``name``, if it comes after something long it tells."""
        if name in self._owing and isinstance(message, _LONG):
            self._owing[name] = max(0.0, self._owing[name] - size / _SLOWEST)

    def dismiss(self, name: str) -> None:
        """Expect nothing more of a player who has left."""
        self._owing.pop(name, None)
        self._stayed = 0.0

    def heed(self, name: str, standing: control.Standing) -> None:
        """Take a player's answer.

        Raises
        ------
        Deadlock
            If nobody will ever go on.
        RemoteProtocolError
            If it was not asked, or the answers cannot be true.
        """
        if name in self._roll.left:  # it was asked before that was known
            return
        if name not in self._owing or standing.number != self._question:
            raise out_of_turn(name, standing)
        del self._owing[name]
        if standing.waits == "" and name not in self._roll.played:
            raise RemoteProtocolError(f"{name!r} is at its end, and has told none")
        told_of = standing.sent.keys() | standing.received.keys() | {*standing.lost}
        self._roll.refuse_strangers(name, told_of)
        if standing.number == self._asked:
            self._roll.refuse_fewer(name, standing.sent)
            self._standings[name] = standing
            if self._roll.everybody_has_played:
                self._refuse_short()
            else:
                self._refuse_deadlock()

    def look_after(self) -> None:
        """Ask if nothing was heard for a while, and name who does not answer, or leave."""
        self._refuse_idle()
        # Whoever is stopped for long must find one question when it goes on, not thousands.
        if not self._owing and time.monotonic() - self._heard > _QUIET:
            self._owing = dict.fromkeys(self._roll.staying(), 0.0)
            self.void()
            self._question = self._asked
            self._ask(control.Ask(self._question))

    def _refuse_deadlock(self) -> None:
        """Raise ``Deadlock`` if all wait, and nothing is under way."""
        standings, names = self._standings, self._roll.names
        if self._roll.left or len(standings) < len(names):
            return
        # A role at the gate, or at its end, is waited for by nobody but the gatekeeper.
        waits = {name: standings[name].waits for name in names}
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
        roll = self._roll
        for name in roll.names:
            if name not in roll.peers:
                yield f"{name} has not told that it is there"
            elif roll.saved is not None and name not in roll.saved:
                yield f"{name} has not told that it saved"
            elif roll.saved is None and roll.reached[name] < roll.foremost:
                yield f"{name} has not told that it is before round {roll.foremost}"

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
        standings, played = self._standings, self._roll.played
        if standings.keys() != {*self._roll.staying()}:
            return
        short = [
            _Short(sender, receiver, count, standing.received.get(sender, 0))
            for receiver, standing in standings.items()
            if standing.waits is not None
            for sender, count in sent_to(receiver, played).items()
            if count > standing.received.get(sender, 0) and sender not in standing.lost
        ]
        self._short = self._short + 1 if short else 0
        if self._short >= _ASKED_IN_VAIN:
            raise short[0].refusal()
        self._behind = {each.receiver for each in short}
        if self._has_more_come(played):
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
        if self._roll.everybody_has_played:
            self._stayed += passed
            if self._stayed > self._answers_within:
                stay = self._roll.staying()
                name = next((name for name in stay if name not in self._behind), stay[0])
                raise RemoteProtocolError(f"{name!r} does not leave, though all has come")


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


def _told_of(waits: str) -> str:
    """Return what a player says that it waits for, as a part of a sentence that is no other's."""
    return plain(waits[:_LONGEST]).replace(";", ",")
