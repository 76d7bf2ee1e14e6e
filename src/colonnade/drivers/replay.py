"""Replay: the course of an earlier run, given by its trace, without any clock.

A run's course depends on its seed, on which messages each await was given, and on what its roles
remember of earlier incarnations. A trace records the latter two, so replaying it repeats a run bit
for bit, also one of a method whose course depends on timing, at whatever speed this machine has.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from colonnade.checkpoints import decode_state
from colonnade.drivers.account import Account
from colonnade.drivers.cut import Cut
from colonnade.drivers.driver import (
    Assignment,
    Discarded,
    Driver,
    Outbox,
    Part,
    RunRecord,
    Trace,
    asked,
    check_roles,
    perform,
    threads,
)
from colonnade.drivers.mailbox import Mailbox
from colonnade.effects import (
    Arrivals,
    Attempt,
    Boundary,
    Close,
    Commit,
    Expect,
    Notes,
    Ready,
    Recall,
    Receive,
    Report,
    Role,
    Send,
    Work,
)
from colonnade.errors import ConfigurationError, Deadlock, LocalProtocolError
from colonnade.flows import Limits
from colonnade.journals import Journal
from colonnade.ledger import Ledger
from colonnade.wire import Message

__all__ = ["Replay"]


@dataclass(frozen=True)
class Replay(Driver):
    """Answer every await as ``trace`` says; there is no clock, and nothing is timed.

    The run stops where the trace ends. A replay of the second part of a resumed run starts from
    the checkpoint that it was resumed from. What roles commit stays in memory: a replay is no
    incarnation, and leaves the run's journals alone.

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

    @property
    def clock(self) -> Mapping[str, str]:
        """How seconds come about: there is no network, and compute is measured."""
        return {"network": "not timed", "compute": "measured"}

    @property
    def repeats(self) -> bool:
        """The trace decides, not time."""
        return True

    def run(self, roles: Sequence[Role], assignment: Assignment) -> RunRecord:
        """Step ``roles`` along the trace.

        Raises
        ------
        Deadlock
            If the trace asks for a message that these roles never send: it is of another run.
        LocalProtocolError
            If it belongs to other roles, or to a longer run.
        ConfigurationError
            If it is to stop before the trace ends.
        """
        check_roles(roles)
        if assignment.stop_before is not None:
            raise ConfigurationError("a replay stops where its trace does: say no stop_before")
        for role in roles:
            if role.name not in self.trace.decisions:
                raise LocalProtocolError(
                    f"the trace has nothing of {role.name}: it belongs to other roles"
                )
        wall, cpu = time.perf_counter(), time.process_time()
        ledger = Ledger()
        cut = None
        if assignment.resume is not None:
            cut, ledger = Cut.read(assignment.resume, [role.name for role in roles])
        # What was sent once may come again, in an order in which more of it waits.
        limits = replace(assignment.limits, messages=sys.maxsize, bytes=sys.maxsize)
        actors = {role.name: _Actor(role, self.trace, ledger, cut, limits) for role in roles}
        try:
            with threads(assignment.threads):
                moving = True
                while moving:
                    # Every actor gets its turn, so no short-circuit here.
                    moving = sum(actor.advance(actors, assignment) for actor in actors.values()) > 0
        finally:
            for actor in actors.values():
                actor.coroutine.close()
        _refuse_another(actors.values())
        return RunRecord.assembled(
            {name: actor.part(self.trace) for name, actor in actors.items()},
            ledger,
            [item for actor in actors.values() for item in actor.discarded],
            seconds_virtual=None,
            seconds_wall=time.perf_counter() - wall,
            seconds_cpu=time.process_time() - cpu,
        )


def _refuse_another(actors: Iterable[_Actor]) -> None:
    """Refuse a trace that has decisions which these roles never came to."""
    stuck = [actor.name for actor in actors if actor.decisions and not actor.finished]
    if stuck:
        raise Deadlock(
            f"the trace gives {', '.join(stuck)} a message that nobody sends: it is of another "
            "run, or not all of it is there"
        )
    over = [actor.name for actor in actors if actor.decisions]
    if over:
        raise LocalProtocolError(
            f"the trace of {', '.join(over)} goes on where this run ends: it is of another run"
        )


class _Actor:
    """A role and the decisions that its awaits are still to be given."""

    def __init__(
        self, role: Role, trace: Trace, ledger: Ledger, cut: Cut | None, limits: Limits
    ) -> None:
        self.name = role.name
        self.role = role
        self.ledger = ledger
        self.account = Account()
        self.mailbox = Mailbox(limits=limits)
        self.discarded: list[Discarded] = []
        notes = trace.notes.get(role.name)
        self.remembers = notes is not None
        self.journal = Journal.remembered(role.name, notes or Notes(0))
        self.decisions = deque(trace.decisions[role.name])
        if cut is not None:
            role.load_state_dict(decode_state(cut.states[role.name]))
            self.account = Account.from_json(cut.accounts[role.name])
            self.mailbox = Mailbox(self.account.closed, limits)
            for message, _ in cut.mail.get(role.name, []):
                self.put(message)
        self.outbox = Outbox(role.name, ledger, self.account.sequence)
        self.coroutine = role.run()
        self.waiting: Receive | Ready | Attempt[Any] | None = None
        self.finished = False

    def part(self, trace: Trace) -> Part:
        """Return what is known of the role at the end."""
        notes, decisions = trace.notes.get(self.name), trace.decisions[self.name]
        return Part(self.role.round, self.finished, self.account, decisions, notes)

    def put(self, message: Message) -> None:
        """Let a message arrive."""
        if not self.mailbox.put(message, 0):
            self.discard(message)

    def discard(self, message: Message) -> None:
        """Note that a message came too late."""
        self.ledger.discard(message.sender, message.sequence)
        self.discarded.append((self.name, message.sender, message.sequence))

    def advance(self, actors: dict[str, _Actor], assignment: Assignment) -> bool:
        """Go on until a message is missing; return whether anything was done."""
        moved = False
        while not self.finished:
            answer: Any = None
            if self.waiting is not None:
                decision = self._decided(self.waiting)
                if decision is None:
                    return moved
                answer = decision
                if isinstance(self.waiting, Attempt):
                    work = self.waiting.work
                    answer = self._handle(work, actors, assignment) if decision else None
                self.waiting = None
            self._go_on(answer, actors, assignment)
            moved = True
        return moved

    def _go_on(self, answer: Any, actors: dict[str, _Actor], assignment: Assignment) -> None:
        """Let the role go on from an answer to its next await, or to its end."""
        while True:
            try:
                effect = asked(self.role, self.coroutine, answer)
            except StopIteration:
                self.finished = True
                return
            if isinstance(effect, (Receive, Ready, Attempt)):
                self.mailbox.check(_awaited(effect), self.name)
                self.waiting = effect
                return
            answer = self._handle(effect, actors, assignment)

    def _decided(self, waiting: Receive | Ready | Attempt[Any]) -> Arrivals | bool | None:
        """Return what the trace says of this await, or None while it is not here."""
        if not self.decisions:
            return None
        decision = self.decisions[0]
        if not isinstance(decision, (tuple, list) if isinstance(waiting, Receive) else bool):
            raise LocalProtocolError(f"the trace of {self.name} belongs to other roles")
        answer = (
            decision
            if isinstance(decision, bool)
            else self.mailbox.take_exactly(decision, _awaited(waiting))
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
                message, _, _ = self.outbox.stamp(effect, None)
                actors[effect.receiver].put(message)
            case Close():
                self.account.closed = max(self.account.closed, effect.before)
                for late in self.mailbox.close(effect.before):
                    self.discard(late)
            case Report():
                assignment.on_report(self.account.report(self.name, effect.values, None))
            case Commit():
                self.journal.commit(effect.record)
            case Recall():
                if not self.remembers:
                    raise LocalProtocolError(
                        f"the trace does not hold what {self.name} remembered, which stayed with it"
                    )
                return self.journal.notes()
            case Boundary():
                assignment.on_round(self.name, effect.round, self.outbox.sent_bytes)
            case _:
                raise LocalProtocolError(f"{self.name} awaited {effect!r}, which is no effect")
        return None


def _awaited(effect: Receive | Ready | Attempt[Any]) -> Expect:
    return effect.unless if isinstance(effect, Attempt) else effect.expect
