"""Who has come how far, and who may go on: the gate that keeps players together.

The gatekeeper hears from each player which round it has reached, and answers with a *gate*, the
round that nobody may enter yet. Checkpoints and interruptions happen at a gate: every player waits
there, has received all that was sent to it before, and saves its state, so that what lies in the
mailboxes completes a consistent cut. What it heard is in its ``Roll``; when nothing was heard for a
while, an ``Inquiry`` asks how it stands.

It knows neither processes nor networks: whoever has these passes on what players tell, and is told
what to say to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from colonnade import errors
from colonnade.drivers import control
from colonnade.drivers.driver import Assignment
from colonnade.drivers.inquiry import Inquiry
from colonnade.drivers.roll import Roll, out_of_turn, sent_to
from colonnade.errors import RoleFailed, Unwritten

__all__ = ["Gatekeeper", "rebuilt"]

_GATE_AHEAD = 32  # rounds that roles may run before they hear from the gatekeeper again


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
    patience, answers_within
        In seconds, how long who is there may keep others waiting; see ``Inquiry``.
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
        self.roll = Roll(names, assignment.first_round)
        self._inquiry = Inquiry(self.roll, self._tell_all, patience, answers_within)
        self._assignment = assignment
        self._tell, self._begin, self._keep = tell, begin, keep
        self._due = self._next_due(assignment.first_round)
        self.gate = self._gate_from(assignment.first_round)
        self._known = dict.fromkeys(self.roll.names, self.gate)  # the gate that each knows of
        self._stop_at = assignment.stop_before

    def broadcast(self, message: control.FromGatekeeper) -> None:
        """Tell all who are there something."""
        self._inquiry.void()
        self._tell_all(message)

    def _tell_all(self, message: control.FromGatekeeper) -> None:
        for name in self.roll.staying():
            self._tell(name, message)

    def let_leave(self) -> None:
        """Tell everybody to leave when all that was sent has come."""
        self.roll.may_leave = True
        for name in self.roll.staying():
            self._tell(name, control.Stop(sent_to(name, self.roll.played)))

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
            If it tells what it was not asked for, or what cannot be.
        """
        if isinstance(message, control.Standing):
            self._inquiry.heed(name, message)
            return
        self._inquiry.allow(name, message, size)
        self._refuse_out_of_turn(name, message)
        self._inquiry.note(message)
        match message:
            case control.Cast(agreed):
                self.roll.cast(name, agreed)
            case control.Waiting(peers):
                self.roll.waits(name, peers)
                if self.roll.everybody_is_there:
                    self.broadcast(self._begin())
            case control.Reached(round, sent, sent_bytes):
                self.roll.reaches(name, round, sent, self.gate)
                self._assignment.on_round(name, round, sent_bytes)
            case control.Reported(values):
                self._assignment.on_report({**values, "organisation": name})  # whose word it is
            case control.Saved():
                self.roll.saves(name)
                if self.roll.everybody_has_saved:
                    self._go_on()
            case control.Played():
                self.roll.ends(name, message.round, message.sent, self.gate)
            case control.Left():
                self.roll.leaves(name)
                self._inquiry.dismiss(name)
            case control.Failed():
                raise rebuilt(name, message)

    def _refuse_out_of_turn(self, name: str, message: control.FromPlayer) -> None:
        """Refuse what is told twice as players come together, and what before all are there."""
        match message:
            case control.Cast():
                in_turn = name not in self.roll.agreed and name not in self.roll.peers
            case control.Waiting():
                in_turn = name not in self.roll.peers
            case control.Failed():
                in_turn = True
            case _:
                in_turn = self.roll.everybody_is_there
        if not in_turn:
            raise out_of_turn(name, message)

    def look_after(self) -> None:
        """Do what is to be done, heard anything or not: move the gate, save, ask how it stands."""
        self._keep_gate()
        self._tell_gate()
        self._inquiry.look_after()

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
        if self.roll.saved is not None or self.roll.played:
            return
        if self._stop_at is None and self._assignment.interrupted():
            self._stop_at = self._due = self.gate
        if self.gate != self._due:
            gate = self._gate_from(self.roll.foremost)
            if gate == self._due or gate >= self.gate + _GATE_AHEAD // 2:
                self.gate = gate
        elif self.roll.everybody_is_before(self.gate):
            self.roll.saved = set()
            for name in self.roll.names:
                self._tell(name, control.Save(sent_to(name, self.roll.sent)))

    def _tell_gate(self) -> None:
        """Tell of the gate who has come near the one that it knows.

        Others may be far ahead of who is stopped, and what it is told waits at its door.
        """
        for name in self.roll.staying():
            known = self._known[name]
            if known < self.gate and self.roll.reached[name] >= known - _GATE_AHEAD:
                self._known[name] = self.gate
                self._inquiry.void()
                self._tell(name, control.Gate(self.gate))

    def _go_on(self) -> None:
        """Stop the run or move the gate, now that everybody has saved."""
        self._keep(self.gate)
        if self._stop_at == self.gate:
            self.roll.may_leave = True
            self.broadcast(control.Stop())
            return
        self.roll.saved = None
        self._due = self._next_due(self.gate)
        self.gate = self._gate_from(self.gate)
        self._tell_gate()


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
