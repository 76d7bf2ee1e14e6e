"""The books of a run in real time: what its players tell becomes checkpoints and a record.

Where the players are, in processes or elsewhere, the books do not know: whoever hears them enters
what each tells, and hands it to the gatekeeper, which says when there is a checkpoint to keep.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from colonnade.checkpoints import decode_state
from colonnade.drivers import control
from colonnade.drivers.account import Account
from colonnade.drivers.course import Course
from colonnade.drivers.cut import Cut
from colonnade.drivers.driver import Assignment, Discarded, Part, RunRecord, lost_before
from colonnade.drivers.elsewhere import Elsewhere
from colonnade.drivers.failures import failure
from colonnade.drivers.player import Task
from colonnade.effects import Notes, Role
from colonnade.ledger import Ledger

__all__ = ["Books"]


class Books:
    """What is known of a run whose players each have a process of their own.

    A driver makes the books first, starts a player for each of the ``tasks``, enters all that they
    tell, and closes the books when all have left. A ``Gatekeeper`` is given ``begin`` and ``keep``.

    Parameters
    ----------
    roles
        Who plays. Those that are here go on from the checkpoint's states.
    assignment
        How the run is to go; what it goes on from is read.

    Raises
    ------
    CheckpointError
        If the checkpoint was written for other roles.
    """

    def __init__(self, roles: Sequence[Role | Elsewhere], assignment: Assignment) -> None:
        self.roles = {role.name: role for role in roles}
        self._assignment = assignment
        self._ledger = Ledger()
        self._wall, self._cpu = -time.perf_counter(), -time.process_time()
        self._before = 0.0  # seconds that the run took until the checkpoint
        self._start = Cut(0)
        if assignment.resume is not None:
            self._start, self._ledger = Cut.read(assignment.resume, list(self.roles))
            self._before = assignment.resume.account["seconds_wall"]
            self._wall += self._before
            self._cpu += assignment.resume.account["seconds_cpu"]
        self._accounts = {n: Account.from_json(told) for n, told in self._start.accounts.items()}
        for name, role in self.roles.items():
            if name in self._start.states and not isinstance(role, Elsewhere):
                self._accounts[name].belong(role)
                role.load_state_dict(decode_state(self._start.states[name]))
        self._ledger.extend(lost_before(assignment, self.roles, self._accounts))
        self._saved: dict[str, control.Saved] = {}
        self._played: dict[str, control.Played] = {}
        self._courses = {name: Course() for name in self.roles}
        self._discarded: list[Discarded] = []
        self._players_cpu: dict[str, float] = {}
        self._socket_bytes: dict[tuple[str, str], int] = {}

    def tasks(self, gate: int) -> dict[str, Task]:
        """Return what each player is to play, by its role's name, behind the gatekeeper's gate."""
        assignment, start = self._assignment, self._start
        return {
            name: Task(
                role,
                start.states.get(name) if isinstance(role, Elsewhere) else None,
                self._accounts.get(name) or Account(),
                start.mail.get(name, []),
                gate=gate,
                seed=assignment.seed,
                limits=assignment.limits,
                saves=assignment.store is not None,
                journals=assignment.journals,
                departures=assignment.departures,
                shows=assignment.store is not None or not isinstance(role, Elsewhere),
            )
            for name, role in self.roles.items()
        }

    def begin(self) -> control.Begin:
        """Start the clock of the roles: that they came together took as long as it took."""
        return control.Begin(time.monotonic_ns() - round(self._before * 1e9))

    def enter(self, name: str, message: control.FromPlayer) -> None:
        """Enter what the player of ``name`` tells."""
        match message:
            case control.Recorded(entries, decisions):
                self._courses[name].extend(decisions)
                self._ledger.extend(entries)
                if self._assignment.store is None:  # then no run goes back to before this
                    self._ledger.settle()
            case control.Saved():
                self._saved[name] = message
                self._players_cpu[name] = message.cpu_seconds
                self._ledger.extend(message.entries)
                self._discard(name, message.discarded)
            case control.Played():
                self._played[name] = message
                self._courses[name].extend(message.decisions)
                self._ledger.extend(message.entries)
            case control.Left(received, discarded, cpu_seconds):
                self._players_cpu[name] = cpu_seconds
                self._discard(name, discarded)
                for sender, count in received.items():
                    self._socket_bytes[sender, name] = count

    def keep(self, round: int) -> None:
        """Write the checkpoint before ``round``, for which all have saved."""
        saved, self._saved = self._saved, {}
        cut = Cut(
            round,
            {name: saved[name].state for name in self.roles},
            {name: _unpacked(saved[name].account) for name in self.roles},
            {name: saved[name].mail for name in self.roles},
        )
        self._write(cut, self._seconds())

    def closed(self) -> RunRecord:
        """Bring the states back to the roles that are here, and return what happened.

        A run that came to its end leaves a checkpoint of it.
        """
        for name, role in self.roles.items():
            if not isinstance(role, Elsewhere):
                try:
                    role.load_state_dict(decode_state(self._played[name].state))
                except Exception as error:  # as of what no role of ours has told
                    raise failure(f"the state that {name} told is of no use", error) from error
        seconds_wall, seconds_cpu = self._seconds()
        record = RunRecord.assembled(
            {name: _part(self._played[name], self._courses[name]) for name in self.roles},
            self._ledger,
            self._discarded,
            seconds_virtual=None,
            seconds_wall=seconds_wall,
            seconds_cpu=seconds_cpu,
            socket_bytes=self._socket_bytes,
        )
        if record.completed:
            final = Cut(
                record.round,
                {name: played.state for name, played in self._played.items()},
                {name: _unpacked(played.account) for name, played in self._played.items()},
            )
            self._write(final, (seconds_wall, seconds_cpu))
        return record

    def _write(self, cut: Cut, seconds: tuple[float, float]) -> None:
        if self._assignment.store is not None:
            cut.write(self._assignment.store, self._ledger, *seconds)

    def _discard(self, receiver: str, messages: Sequence[tuple[str, int]]) -> None:
        for sender, sequence in messages:
            self._ledger.discard(sender, sequence)
            self._discarded.append((receiver, sender, sequence))

    def _seconds(self) -> tuple[float, float]:
        cpu = self._cpu + time.process_time() + sum(self._players_cpu.values())
        return self._wall + time.perf_counter(), cpu


_unpacked = msgspec.msgpack.Decoder().decode  # of a process of this computer


def _part(played: control.Played, course: Course) -> Part:
    notes = None
    if played.notes is not None:
        incarnation, records = played.notes
        notes = Notes(incarnation, tuple(_unpacked(records)))
    account = Account.from_json(_unpacked(played.account))
    return Part(played.round, played.finished, account, course, notes)
