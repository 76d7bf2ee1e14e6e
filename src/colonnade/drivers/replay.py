"""Replay: the course of an earlier run, given by its trace, without any clock.

A run's course depends on its seed and on which messages each await was given. A trace records the
latter, so replaying it repeats a run bit for bit, also one of a method whose course depends on
timing, at whatever speed this machine has.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.checkpoints import decode_state
from colonnade.drivers.cut import Account, Cut
from colonnade.drivers.driver import Assignment, Outbox, RunRecord, Trace, perform, threads
from colonnade.drivers.mailbox import Mailbox
from colonnade.effects import Boundary, Ready, Receive, Report, Role, Send, Work
from colonnade.errors import Deadlock, LocalProtocolError
from colonnade.ledger import Ledger

__all__ = ["Replay"]


@dataclass(frozen=True)
class Replay:
    """Answer every await as ``trace`` says; there is no clock, and nothing is timed.

    The run stops where the trace ends. A replay of the second part of a resumed run starts from
    the checkpoint that it was resumed from.

    Parameters
    ----------
    trace
        The ``RunRecord.trace`` of the run to repeat.
    """

    trace: Trace

    @property
    def label(self) -> str:
        """The name that summaries use."""
        return "replay"

    def run(self, roles: Sequence[Role], assignment: Assignment) -> RunRecord:
        """Step ``roles`` along the trace.

        Raises
        ------
        Deadlock
            If the trace asks for a message that these roles never send: it is of another run.
        """
        wall, cpu = time.perf_counter(), time.process_time()
        ledger = Ledger()
        cut = None
        if assignment.resume is not None:
            cut, ledger = Cut.read(assignment.resume, [role.name for role in roles])
        actors = {role.name: _Actor(role, self.trace, ledger, cut) for role in roles}
        with threads(assignment.threads):
            moving = True
            while moving:
                # Every actor gets its turn, so no short-circuit here.
                moving = sum(actor.advance(actors, assignment) for actor in actors.values()) > 0
        stuck = [actor.name for actor in actors.values() if not actor.finished and actor.decisions]
        if stuck:
            raise Deadlock(f"the trace gives {', '.join(stuck)} a message that nobody sends")
        for actor in actors.values():
            actor.coroutine.close()
        return RunRecord(
            round=min((role.round for role in roles), default=0),
            completed=all(actor.finished for actor in actors.values()),
            ledger=ledger,
            history=[dict(v) for actor in actors.values() for v in actor.account.history],
            trace=self.trace,
            activities={
                (actor.name, purpose.label, kind): activity
                for actor in actors.values()
                for (purpose, kind), activity in actor.account.activities.items()
            },
            seconds_virtual=None,
            seconds_wall=time.perf_counter() - wall,
            seconds_cpu=time.process_time() - cpu,
        )


class _Actor:
    """A role and the decisions that its awaits are still to be given."""

    def __init__(self, role: Role, trace: Trace, ledger: Ledger, cut: Cut | None) -> None:
        self.name = role.name
        self.account = Account()
        self.mailbox = Mailbox()
        self.decisions = deque(trace.decisions[role.name])
        if cut is not None:
            role.load_state_dict(decode_state(cut.states[role.name]))
            self.account = Account.from_json(cut.accounts[role.name])
            for message, _ in cut.mail.get(role.name, []):
                self.mailbox.put(message, 0)
        self.outbox = Outbox(role.name, ledger, self.account.sequence)
        self.coroutine = role.run()
        self.waiting: Receive | Ready | None = None
        self.finished = False

    def advance(self, actors: dict[str, _Actor], assignment: Assignment) -> bool:
        """Go on until a message is missing; return whether anything was done."""
        moved = False
        while not self.finished:
            answer: Any = None
            if self.waiting is not None:
                answer = self._decided(self.waiting)
                if answer is None:
                    return moved
                self.waiting = None
            try:
                effect = self.coroutine.send(answer)
                while not isinstance(effect, (Receive, Ready)):
                    answer = self._handle(effect, actors, assignment)
                    effect = self.coroutine.send(answer)
                self.waiting = effect
            except StopIteration:
                self.finished = True
            moved = True
        return moved

    def _decided(self, waiting: Receive | Ready) -> Any:
        """Return what the trace gives this await, or None while it is not here."""
        if not self.decisions:
            return None
        decision = self.decisions[0]
        if isinstance(waiting, Ready) is not isinstance(decision, bool):
            raise LocalProtocolError(f"the trace of {self.name} belongs to other roles")
        answer = (
            decision
            if isinstance(decision, bool)
            else self.mailbox.take_exactly(decision, waiting.expect)
        )
        if answer is not None:
            self.decisions.popleft()
        return answer

    def _handle(self, effect: object, actors: dict[str, _Actor], assignment: Assignment) -> Any:
        match effect:
            case Work():
                answer, cpu = perform(effect, self.name, assignment.seed)
                self.account.spend(effect.purpose, effect.kind, cpu, cpu)
                return answer
            case Send():
                message, _ = self.outbox.stamp(effect, None)
                actors[effect.receiver].mailbox.put(message, 0)
            case Report():
                self.account.history.append(dict(effect.values))
                assignment.on_report(effect.values)
            case Boundary():
                assignment.on_round(self.name, effect.round, self.outbox.sent_bytes)
            case _:
                raise LocalProtocolError(f"{self.name} awaited {effect!r}, which is no effect")
        return None
