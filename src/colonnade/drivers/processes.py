"""Real time on one machine: a process for each role, sockets between them.

The parent connects every pair of roles by a TCP connection on the loopback interface, forks a
process for each role, and afterwards only watches: training messages never pass through it. Over a
control pipe it hears which round each role has reached, and answers with a *gate*, the round that
nobody may enter yet. Checkpoints and interruptions happen at a gate: every role waits there, has
received all that was sent to it before, and saves its state, so that what lies in the mailboxes
completes a consistent cut. All bytes on sockets and pipes are frames or msgpack, never pickle.

When nothing was heard for a while the parent asks how it stands. If every role waits for what only
others can bring, and has received all that was sent to it, nobody will ever go on: each tells what
it has sent and received at a moment at which it waits, so these numbers could not be equal if
anything were still to be taken (the argument of Mattern, "Algorithms for distributed termination
detection", 1987).
"""

from __future__ import annotations

import multiprocessing
import socket
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from colonnade import errors
from colonnade.checkpoints import decode_state
from colonnade.drivers import control
from colonnade.drivers.account import Account
from colonnade.drivers.child import ChildTask, play
from colonnade.drivers.cut import Cut
from colonnade.drivers.driver import (
    Assignment,
    Discarded,
    Driver,
    Part,
    RunRecord,
    check_roles,
    lost_before,
    nobody_goes_on,
    refuse_disagreement,
)
from colonnade.drivers.elsewhere import Elsewhere
from colonnade.drivers.framed import connected_pair
from colonnade.effects import Notes, Role
from colonnade.errors import Deadlock, RoleFailed
from colonnade.ledger import Ledger

__all__ = ["Processes"]

_GATE_AHEAD = 32  # rounds that roles may run before they hear from the parent again
_QUIET = 1.0  # seconds in which nothing is heard, after which the parent asks how it stands


@dataclass(frozen=True)
class Processes(Driver):
    """Run each role in a process of its own on this machine, in real time.

    Parameters
    ----------
    queue
        Messages that may wait to be sent to one receiver; sending one more waits.

    Notes
    -----
    The clock of the history and the ledger starts when all roles are there: how long processes take
    to start is in ``seconds_wall`` alone.

    Processes are forked where that is possible and torch uses one thread; elsewhere they are
    spawned, and the models and optimiser factories must then be importable by name. A role that is
    described by ``Elsewhere`` is always played, and cast, in a process that is spawned.
    """

    queue: int = 64

    @property
    def label(self) -> str:
        """The name that summaries use."""
        return "processes"

    @property
    def clock(self) -> Mapping[str, str]:
        """How seconds come about: all of them are measured."""
        return {"network": "measured", "compute": "measured"}

    def run(self, roles: Sequence[Role | Elsewhere], assignment: Assignment) -> RunRecord:
        """Run ``roles`` to their end or to an interruption, and bring their states back.

        The state of one that is cast elsewhere stays there.

        Raises
        ------
        RoleFailed
            If a role's process died.
        Deadlock
            If every unfinished role waits and no message is under way.
        ConfigurationError
            If two roles have one name or were cast from different agreements, or one is described
            by a function that cannot be handed to its process.
        """
        check_roles(roles, elsewhere=True)
        for role in roles:
            if isinstance(role, Elsewhere):
                role.check()
        return _Parent(self.queue, roles, assignment).run()


class _Parent:
    """Starts the children, keeps the gate, collects the cuts."""

    def __init__(
        self, queue: int, roles: Sequence[Role | Elsewhere], assignment: Assignment
    ) -> None:
        self.assignment = assignment
        self.roles = {role.name: role for role in roles}
        self.ledger = Ledger()
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        self.before = 0.0  # seconds that the run took until the checkpoint
        self.waiting: set[str] = set()
        cut = Cut(0)
        if assignment.resume is not None:
            cut, self.ledger = Cut.read(assignment.resume, list(self.roles))
            self.before = assignment.resume.account["seconds_wall"]
            self.wall += self.before
            self.cpu += assignment.resume.account["seconds_cpu"]
            for name, role in self.roles.items():
                if not isinstance(role, Elsewhere):
                    role.load_state_dict(decode_state(cut.states[name]))
        accounts = {name: Account.from_json(account) for name, account in cut.accounts.items()}
        self.ledger.extend(lost_before(assignment, self.roles, accounts))
        self.due = self._next_due(assignment.first_round)
        self.gate = self._gate_from(assignment.first_round)
        self.stop_at = assignment.stop_before
        self.reached = dict.fromkeys(self.roles, assignment.first_round)
        self.sent: dict[str, dict[str, int]] = {}
        self.saving: Cut | None = None
        self.played: dict[str, control.Played] = {}
        self.agreed: dict[str, str] = {}
        self.child_cpu: dict[str, float] = {}
        self.socket_bytes: dict[tuple[str, str], int] = {}
        self.discarded: list[Discarded] = []
        self.heard = time.monotonic()  # when a role last told anything of its own accord
        self.asked = 0  # the number of the last question
        self.standings: dict[str, control.Standing] = {}  # answers to it
        self.tasks = {
            name: ChildTask(
                role,
                cut.states.get(name) if isinstance(role, Elsewhere) else None,
                accounts.get(name) or Account(),
                cut.mail.get(name, []),
                gate=self.gate,
                seed=assignment.seed,
                threads=assignment.threads,
                queue=queue,
                max_body_bytes=assignment.max_body_bytes,
                saves=assignment.store is not None,
                journals=assignment.journals,
                departures=assignment.departures,
            )
            for name, role in self.roles.items()
        }
        self.pipes: dict[str, Connection] = {}
        self.processes: dict[str, BaseProcess] = {}

    def run(self) -> RunRecord:
        try:
            self._start()
            self._watch(until=lambda: len(self.played) == len(self.roles))
            for name, pipe in self.pipes.items():
                sent = {sender: played.sent for sender, played in self.played.items()}
                with suppress(OSError):
                    control.tell(pipe, control.Stop(_sent_to(name, sent)))
            self._watch(until=lambda: not self.pipes)
        except BaseException as error:
            self._broadcast(control.Abort(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._end()
        for name, role in self.roles.items():
            if not isinstance(role, Elsewhere):
                role.load_state_dict(decode_state(self.played[name].state))
        seconds_wall, seconds_cpu = self._seconds()
        record = RunRecord.assembled(
            {name: _part(self.played[name]) for name in self.roles},
            self.ledger,
            self.discarded,
            seconds_virtual=None,
            seconds_wall=seconds_wall,
            seconds_cpu=seconds_cpu,
            socket_bytes=self.socket_bytes,
        )
        if record.completed and self.assignment.store is not None:
            final = Cut(
                record.round,
                {name: played.state for name, played in self.played.items()},
                {name: played.account for name, played in self.played.items()},
            )
            final.write(self.assignment.store, self.ledger, seconds_wall, seconds_cpu)
        return record

    # Starting and ending

    def _start(self) -> None:
        usual = _context(self.assignment.threads)
        sockets: dict[str, dict[str, socket.socket]] = {name: {} for name in self.roles}
        for one, other in combinations(self.roles, 2):
            if other in self.roles[one].peers or one in self.roles[other].peers:
                sockets[one][other], sockets[other][one] = connected_pair()
        children = {}
        for name in self.roles:
            self.pipes[name], children[name] = multiprocessing.Pipe()
        everything: list[Connection | socket.socket] = [*self.pipes.values(), *children.values()]
        everything += [connection for ends in sockets.values() for connection in ends.values()]
        for name, task in self.tasks.items():
            is_elsewhere = isinstance(task.role, Elsewhere)
            context, inherits = _spawning() if is_elsewhere else usual
            own = {children[name], *sockets[name].values()}
            strangers = [c for c in everything if c not in own] if inherits else []
            process = context.Process(
                target=play,
                args=(task, sockets[name], children[name], strangers),
                name=f"colonnade {name}",
                daemon=True,
            )
            with warnings.catch_warnings():
                # Other threads hold no lock that a child needs: it runs one role and exits.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            self.processes[name] = process
        for connection in everything:
            if connection not in self.pipes.values():
                connection.close()

    def _end(self) -> None:
        for process in self.processes.values():
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self.pipes.values():
            pipe.close()

    def _broadcast(self, message: control.FromParent) -> None:
        self._void()
        for pipe in self.pipes.values():
            with suppress(OSError):
                control.tell(pipe, message)

    # Watching

    def _watch(self, until: Callable[[], bool]) -> None:
        while not until():
            names = {pipe: name for name, pipe in self.pipes.items()}
            for pipe in wait(list(names), timeout=0.2):
                assert isinstance(pipe, Connection)
                name = names[pipe]
                try:
                    message = control.hear_child(pipe)
                except (EOFError, OSError):
                    self.processes[name].join(timeout=5)
                    code = self.processes[name].exitcode
                    raise RoleFailed(f"the process of {name!r} died (exit code {code})") from None
                self._heed(name, message)
            self._keep_gate()
            if time.monotonic() - self.heard > _QUIET:
                self._ask()

    def _ask(self) -> None:
        self._broadcast(control.Ask(self.asked + 1))

    def _void(self) -> None:
        """Let no answer count any more to what was asked before something was told or heard."""
        self.heard = time.monotonic()
        self.asked += 1
        self.standings.clear()

    def _refuse_deadlock(self) -> None:
        """Raise ``Deadlock`` if all who still have a process wait, and nothing is under way."""
        standings = self.standings
        if not standings.keys() == self.pipes.keys() == self.roles.keys():
            return
        # A role at the gate, or at its end, is waited for by nobody but the parent.
        waits = {name: standings[name].waits for name in self.roles}
        if None in waits.values() or len(self.played) == len(self.roles):
            return
        for receiver, standing in standings.items():
            for sender, count in standing.received.items():
                if standings[sender].sent[receiver] != count and sender not in standing.ended:
                    return
        if self.saving is None and min(self.reached.values()) >= self.gate:
            return
        raise Deadlock(
            nobody_goes_on(
                [
                    *(f"{name} {what}" for name, what in waits.items() if what),
                    *(
                        f"{name} has lost its connection to {', '.join(standing.ended)}"
                        for name, standing in standings.items()
                        if standing.ended
                    ),
                ],
                [name for name, what in waits.items() if not what],
            )
        )

    def _heed(self, name: str, message: control.FromChild) -> None:
        if isinstance(message, control.Standing):
            if message.number == self.asked:
                self.standings[name] = message
                self._refuse_deadlock()
            return
        self._void()
        match message:
            case control.Cast(agreed):
                self.agreed[name] = agreed
                refuse_disagreement(self.agreed)
            case control.Waiting():
                self.waiting.add(name)
                if len(self.waiting) == len(self.roles):
                    self._begin()
            case control.Reached(round, sent, sent_bytes):
                self.reached[name] = round
                self.sent[name] = sent
                self.assignment.on_round(name, round, sent_bytes)
            case control.Recorded(entries):
                self.ledger.extend(entries)
                if self.assignment.store is None:  # then no run goes back to before this
                    self.ledger.settle()
            case control.Reported(values):
                self.assignment.on_report(values)
            case control.Saved():
                assert self.saving is not None
                self.saving.states[name] = message.state
                self.saving.accounts[name] = message.account
                self.saving.mail[name] = message.mail
                self.child_cpu[name] = message.cpu_seconds
                self.ledger.extend(message.entries)
                self._discard(name, message.discarded)
                if len(self.saving.states) == len(self.roles):
                    self._finish_cut(self.saving)
            case control.Played():
                self.played[name] = message
                self.ledger.extend(message.entries)
            case control.Left(received, discarded, cpu_seconds):
                self.child_cpu[name] = cpu_seconds
                self._discard(name, discarded)
                for sender, count in received.items():
                    self.socket_bytes[sender, name] = count
                self.pipes.pop(name).close()
            case control.Failed():
                raise _rebuilt(name, message)

    def _begin(self) -> None:
        """Start the clock of the roles: to start their processes took as long as it took."""
        self._broadcast(control.Begin(time.monotonic_ns() - round(self.before * 1e9)))

    def _discard(self, receiver: str, messages: Sequence[tuple[str, int]]) -> None:
        for sender, sequence in messages:
            self.ledger.discard(sender, sequence)
            self.discarded.append((receiver, sender, sequence))

    # The gate

    def _next_due(self, round: int) -> int | None:
        """Return the next round after ``round`` at whose boundary something is planned."""
        every = self.assignment.checkpoint_every
        planned = []
        if self.assignment.store is not None and every > 0:
            planned.append((round // every + 1) * every)
        stop = self.assignment.stop_before
        if stop is not None and stop >= round:
            planned.append(stop)
        return min(planned, default=None)

    def _gate_from(self, round: int) -> int:
        ahead = round + _GATE_AHEAD
        return ahead if self.due is None else min(ahead, self.due)

    def _keep_gate(self) -> None:
        """Move the gate ahead of the roles, or act when all of them are at it."""
        if self.saving is not None or self.played:
            return
        if self.stop_at is None and self.assignment.interrupted():
            self.stop_at = self.due = self.gate
        if self.gate != self.due:
            gate = self._gate_from(max(self.reached.values()))
            if gate == self.due or gate >= self.gate + _GATE_AHEAD // 2:
                self.gate = gate
                self._broadcast(control.Gate(gate))
        elif len(self.sent) == len(self.roles) and min(self.reached.values()) >= self.gate:
            self.saving = Cut(self.gate)
            for receiver, pipe in self.pipes.items():
                control.tell(pipe, control.Save(_sent_to(receiver, self.sent)))

    def _finish_cut(self, cut: Cut) -> None:
        if self.assignment.store is not None:
            cut.write(self.assignment.store, self.ledger, *self._seconds())
        if self.stop_at == cut.round:
            self._broadcast(control.Stop())
            return
        self.saving = None
        self.due = self._next_due(cut.round)
        self.gate = self._gate_from(cut.round)
        self._broadcast(control.Gate(self.gate))

    def _seconds(self) -> tuple[float, float]:
        cpu = self.cpu + time.process_time() + sum(self.child_cpu.values())
        return self.wall + time.perf_counter(), cpu


def _context(threads: int) -> tuple[Any, bool]:
    """Return how to start processes, and whether children inherit what the parent has open.

    Forking is safe only while torch uses one thread (its thread pool does not survive a fork) and
    no GPU (nor does its context).
    """
    if sys.platform == "linux" and threads == 1 and not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # untyped in torch
        return multiprocessing.get_context("fork"), True
    return _spawning()


def _spawning() -> tuple[Any, bool]:
    return multiprocessing.get_context("spawn"), False


def _sent_to(receiver: str, sent: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return how many messages each sender has sent to ``receiver``."""
    return {sender: counts[receiver] for sender, counts in sent.items() if receiver in counts}


def _part(played: control.Played) -> Part:
    notes = None
    if played.notes is not None:
        incarnation, records = played.notes
        notes = Notes(incarnation, tuple(records))
    account = Account.from_json(played.account)
    return Part(played.round, played.finished, account, played.decisions, notes)


def _rebuilt(name: str, failed: control.Failed) -> Exception:
    """Return the error of a child as one of ours."""
    kind = getattr(errors, failed.error, None) if failed.error in errors.__all__ else None
    if kind is None:
        error: Exception = RoleFailed(f"{name} failed: {failed.error}: {failed.message}")
    else:
        error = kind(failed.message)
    error.add_note(f"in the process of {name!r}:\n{failed.traceback}")
    return error
