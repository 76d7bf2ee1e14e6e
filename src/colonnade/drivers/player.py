"""A role in real time: its effects answered, its messages kept, its boundaries held.

The role runs in one thread, and whatever brings messages calls from others. Between them stands
the mailbox, under a condition. Neither side knows how messages travel: a ``Transport`` does, of
which there is one for sockets on one machine, and any other that keeps its contract will do. What
goes wrong in any thread ends the role, in its own; and whoever asks is told whether the role waits
for what only others can bring.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from colonnade.checkpoints import decode_state
from colonnade.departures import Departures
from colonnade.drivers import control
from colonnade.drivers.account import Account
from colonnade.drivers.course import Decision
from colonnade.drivers.cut import saved_state
from colonnade.drivers.driver import Outbox, agreements, asked, identities, perform
from colonnade.drivers.elsewhere import Elsewhere
from colonnade.drivers.failures import disconnected
from colonnade.drivers.keeping import Keeper
from colonnade.drivers.mailbox import Mailbox
from colonnade.effects import (
    Arrivals,
    Attempt,
    Boundary,
    Close,
    Commit,
    Expect,
    Ready,
    Recall,
    Receive,
    Report,
    Role,
    Send,
    Work,
)
from colonnade.errors import Aborted, LocalProtocolError, RemoteProtocolError
from colonnade.flows import Limits
from colonnade.journals import Journal
from colonnade.ledger import Entry, Ledger
from colonnade.wire import PREFIX_BYTES, Message, decode_frame

__all__ = ["Parcel", "Player", "Task", "Transport", "batched"]

T = TypeVar("T")

_TOLD = 4096  # rows of the ledger, and decisions, that a player keeps to itself


class Parcel(NamedTuple):
    """A message on its way out: its two parts on the wire, and its row in the ledger."""

    header: bytes
    body: bytes
    row: tuple[Any, ...]


class Transport(Protocol):
    """Carries a player's messages; what it needs to know of others it knows by itself.

    It hands what comes to the player: each frame to ``Player.accept``, what the gatekeeper says to
    ``Player.obey``, that nothing can come of a peer any more to ``Player.lose``, its own faults to
    ``Player.fail``; and before a message leaves, it calls ``Player.leaving``. These may be called
    from any thread, of one peer in the order in which its frames came, and frames only once the
    gatekeeper has said ``Begin``.
    """

    @property
    def peers(self) -> Collection[str]:
        """The names of the roles that it can send to."""
        ...

    def send(self, receiver: str, parcel: Parcel) -> None:
        """Take a message that is to be sent; wait while too many are waiting.

        Each receiver's arrive in the order in which they were taken, once, and while others do.
        """
        ...

    def flush(self) -> None:
        """Wait until all messages have left."""
        ...

    def abandon(self) -> None:
        """Let no message leave that has not yet; who waits for room, or for one, waits no more."""
        ...

    def tell(self, message: control.FromPlayer) -> None:
        """Tell the gatekeeper something; any thread may."""
        ...

    def bytes_received(self) -> Mapping[str, int]:
        """Return how many bytes came from each role as counted below us; -1 where nobody counts.

        Those of a frame that has not come whole are counted too.
        """
        ...


@dataclass
class Task:
    """What a player is given: a role, where it stands, and the limits.

    Parameters
    ----------
    role
        The role, or how it is cast where it is played.
    state
        What a role that is cast by its player goes on from; another role has it already.
    account
        What is kept of the role besides.
    mail
        Messages that were under way to it, each with its time of arrival in nanoseconds.
    gate
        The round that it may not enter before the gatekeeper says so.
    seed
        The run's seed.
    limits
        What is accepted of the others.
    saves
        Whether the run writes checkpoints, for which the role's state is told.
    shows
        Whether its state is told when it has played.
    keeper
        Writes the role's own checkpoints, where they are its organisation's alone.
    sent
        Where what it sends is entered, besides that it is told; the keeper's, where there is one.
    traced
        Whether it is told what its awaits were given, by which the run can be replayed.
    journals, departures
        Folders; None keeps what is committed in memory, and does not note what leaves.
    """

    role: Role | Elsewhere
    state: bytes | None
    account: Account
    mail: list[tuple[Message, int]]
    gate: int
    seed: int
    limits: Limits
    saves: bool
    journals: Path | None
    departures: Path | None
    shows: bool
    keeper: Keeper | None = None
    sent: Ledger | None = None
    traced: bool = True


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of so many, and one of the rest.

    >>> [*batched("spam!", 2)]
    [['s', 'p'], ['a', 'm'], ['!']]
    """
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


class _Stopped(Exception):
    """The run ends at this boundary."""


class Player:
    """Plays a role, in the thread that calls ``play``.

    Parameters
    ----------
    task
        What is to be played.
    transport
        Carries its messages.
    """

    def __init__(self, task: Task, transport: Transport) -> None:
        self.task = task
        self.transport = transport
        self.is_elsewhere = isinstance(task.role, Elsewhere)
        self.role = task.role.role() if isinstance(task.role, Elsewhere) else task.role
        if task.saves or task.keeper or task.account.fingerprint is not None:
            task.account.belong(self.role)
        if task.state is not None:
            self.role.load_state_dict(decode_state(task.state))
        self.journal = Journal(task.journals, self.role.name, task.account.journal)
        try:
            self.departures = Departures(task.departures, self.role.name)
        except BaseException:
            self.journal.close()
            raise
        notes = self.journal.notes()
        records = msgspec.msgpack.encode(notes.records)
        self.notes = None if self.is_elsewhere else (notes.incarnation, records)
        self.account = task.account
        self.ledger = Ledger()
        self.outbox = Outbox(self.role.name, self.ledger, self.account.sequence)
        self.decisions: control.Decisions = []
        self.sent = dict.fromkeys(transport.peers, 0)
        self.left = dict.fromkeys(transport.peers, -1)  # the sequence number that left last
        self.departing = threading.Lock()  # as what has left is looked at, nothing leaves
        # Everything below is shared with the transport's threads, under ``changed``.
        self.changed = threading.Condition()
        self.mailbox = Mailbox(self.account.closed, task.limits)
        # By sender and sequence; not yet told, or not to a gatekeeper that was not there then.
        self.discarded = sorted(self.account.discarded)
        for message, arrival in task.mail:
            self._put(message, arrival)
        self.received = dict.fromkeys(transport.peers, 0)
        self.lost: set[str] = set()  # peers of whom nothing can come any more
        self.heard = dict.fromkeys(transport.peers, -1)  # the sequence number last received
        self.origin: int | None = None  # until all roles are there
        self.gate = task.gate
        self.save: dict[str, int] | None = None
        self.stop = False
        self.outstanding: dict[str, int] = {}  # of which sender how many are awaited before leaving
        self.failure: Exception | None = None
        self.hampered: Callable[[], str | None] | None = None  # what the role waits for, if it does

    def now(self) -> int:
        """Nanoseconds since all roles were there."""
        assert self.origin is not None
        return time.monotonic_ns() - self.origin

    # The role's own thread

    def play(self) -> bool:
        """Play the role to its end, or until the gatekeeper stops it; return whether to its end.

        Raises
        ------
        Aborted
            If the gatekeeper said that another failed.
        ColonnadeError
            What the role raised, or what went wrong with its messages.
        """
        try:
            return self._play()
        except BaseException:
            self.transport.abandon()
            raise
        finally:  # in this process another may go on with the run
            with self.departing:
                self.departures.close()
            self.journal.close()
            self._enter_what_left()

    def _play(self) -> bool:
        for agreed in agreements([self.role]).values():
            self.transport.tell(control.Cast(agreed))
        self.transport.tell(control.Waiting(sorted(self.sent)))
        self._wait(lambda: self.origin is not None, "the others to be there")
        if self.task.keeper is not None:
            for entries in batched(self.task.keeper.ledger, _TOLD):
                self.transport.tell(control.Recorded(entries, before=True))
        finished = self._step()
        self.transport.flush()
        if self.failure is not None:  # what has not left will not
            raise self.failure
        self.journal.close()
        self._complete_account()
        if finished and self.task.keeper is not None:
            self._keep(self.task.keeper, self.role.round, [])
        self._tell_many_entries()
        self.transport.tell(
            control.Played(
                finished,
                self.role.round,
                saved_state(self.role) if self.task.shows else b"",
                self.account.packed(),
                self._new_entries(),
                self._new_decisions(),
                self.sent,
                self.notes,
            ),
        )
        self._wait(lambda: self.stop, None)
        self._await_all(self.outstanding, "what is still under way")
        if finished and isinstance(self.task.role, Elsewhere):
            self.task.role.finish(self.role)
        self.transport.tell(
            control.Left(
                dict(self.transport.bytes_received()),
                self._new_discards(),
                time.process_time(),
                self.account.received,
            ),
        )
        return finished

    def _step(self) -> bool:
        """Step the role; return whether it came to its end."""
        coroutine = self.role.run()
        try:
            answer = None
            while True:
                try:
                    effect = asked(self.role, coroutine, answer)
                except StopIteration:
                    return True
                answer = self._answer(effect)
        except _Stopped:
            coroutine.close()
            return False
        except Aborted as abort:
            with suppress(StopIteration, Aborted):
                coroutine.throw(abort)
            raise

    def _answer(self, effect: object) -> Any:
        if self.failure is not None:
            raise self.failure
        match effect:
            case Work():
                start = time.monotonic_ns()
                answer, cpu = perform(effect, self.role.name, self.task.seed)
                elapsed = time.monotonic_ns() - start
                self.account.spend(effect.purpose, effect.kind, elapsed, cpu)
                return answer
            case Attempt(work, unless):
                ready = self._is_ready(unless)
                self._decided(not ready)
                return None if ready else self._answer(work)
            case Send():
                return self._send(effect)
            case Receive():
                return self._receive(effect)
            case Ready(expect):
                ready = self._is_ready(expect)
                self._decided(ready)
                return ready
            case Report(values):
                stamped = self.account.report(self.role.name, values, self.now() / 1e9)
                return self.transport.tell(control.Reported(dict(stamped)))
            case Boundary(round):
                return self._boundary(round)
            case Close(before):
                return self._close(before)
            case Commit(record):
                return self.journal.commit(record)
            case Recall():
                return self.journal.notes()
        raise LocalProtocolError(f"{self.role.name} awaited {effect!r}, which is no effect")

    def _is_ready(self, expect: Expect) -> bool:
        with self.changed:
            self.mailbox.check(expect, self.role.name)
            now = self.now()
            return self.mailbox.satisfied(expect, now, now)

    def _send(self, send: Send) -> None:
        if send.receiver not in self.sent:
            raise LocalProtocolError(f"{self.role.name} sent {send.kind!r} to {send.receiver!r}")
        start = self.now()
        message, header, row = self.outbox.stamp(send, start)
        self.transport.send(send.receiver, Parcel(header, message.body, row))
        self.sent[send.receiver] += 1
        waited = self.now() - start
        if waited > 1_000_000:
            self.account.spend(send.purpose, "wait", waited)

    def _receive(self, receive: Receive) -> Arrivals:
        expect = receive.expect
        with self.changed:
            self.mailbox.check(expect, self.role.name)
            since = now = self.now()
            self.hampered = lambda: self._hampered(expect, since)
            while not self.mailbox.satisfied(expect, since, now):
                self.changed.wait(self._seconds_until(self.mailbox.deadline(expect, since), now))
                if self.failure is not None:
                    raise self.failure
                now = self.now()
            self.hampered = None
            arrivals = self.mailbox.take(expect)
        self.account.spend(expect.purpose, receive.waiting, now - since)
        self._decided(identities(arrivals))
        return arrivals

    @staticmethod
    def _seconds_until(deadline: int | None, now: int) -> float | None:
        # A deadline may pass long before the quorum that the wait also needs is there.
        return None if deadline is None or deadline <= now else (deadline - now) / 1e9

    def _hampered(self, expect: Expect, since: int) -> str | None:
        """Say what is missing of what the role waits for, unless it is there or time may do."""
        now = self.now()
        if self.mailbox.satisfied(expect, since, now):
            return None
        if self._seconds_until(self.mailbox.deadline(expect, since), now) is not None:
            return None
        return self.mailbox.lacks(expect)

    def _close(self, before: int) -> None:
        self.account.closed = max(self.account.closed, before)
        with self.changed:
            late = self.mailbox.close(before)
            self.discarded += [(message.sender, message.sequence) for message in late]

    def _boundary(self, round: int) -> None:
        self._tell_many_entries()
        self.transport.tell(control.Reached(round, self.sent, self.outbox.sent_bytes))
        while round >= self.gate:
            self._wait(
                lambda: self.stop or self.save is not None or round < self.gate,
                f"the others at the boundary before round {round}",
            )
            if self.stop:
                raise _Stopped
            if self.save is not None:
                self._save(round, self.save)

    def _save(self, round: int, expected: dict[str, int]) -> None:
        self.save = None
        self._await_all(expected, "what was sent before the boundary")
        self._complete_account()
        state, mail, account = b"", list[tuple[Message, int]](), msgspec.Raw(b"\x80")
        if self.task.keeper is not None:
            self._keep(self.task.keeper, round, self._mail())
        elif self.task.saves:
            state, mail, account = saved_state(self.role), self._mail(), self.account.packed()
        self._tell_many_entries()
        entries, discards = self._new_entries(), self._new_discards()
        self.transport.tell(
            control.Saved(state, account, mail, entries, discards, time.process_time())
        )

    def _keep(self, keeper: Keeper, round: int, mail: list[tuple[Message, int]]) -> None:
        """Write the role's own checkpoint, with all that was sent before."""
        self._tell_entries()
        with self.changed:
            self.account.discarded |= set(self.discarded)
        keeper.keep(round, saved_state(self.role), self.account, mail)

    def _mail(self) -> list[tuple[Message, int]]:
        with self.changed:
            return list(self.mailbox)

    def _tell_entries(self) -> None:
        """Tell what was sent and decided, and is not told yet."""
        entries, decisions = self._new_entries(), self._new_decisions()
        for first in range(0, max(len(entries), len(decisions)), _TOLD):
            some = slice(first, first + _TOLD)
            self.transport.tell(control.Recorded(entries[some], decisions[some]))

    def _tell_many_entries(self) -> None:
        """Tell it where there is more of it than goes into another word."""
        if max(len(self.ledger), len(self.decisions)) > _TOLD:
            self._tell_entries()

    def _complete_account(self) -> None:
        self.account.sequence = self.outbox.sequence
        self.account.note(self.journal)
        self.account.departed = self.departures.mark()

    def _new_entries(self) -> list[Any]:
        entries = self.ledger.drain()
        if self.task.sent is not None:
            self.task.sent.extend(entries)
        return entries

    def _enter_what_left(self) -> None:
        """Know of a role that failed, too, what it has sent; the last of it has not left."""
        entries = [
            each for each in self.ledger.drain() if each.sequence <= self.left[each.receiver]
        ]
        if self.task.sent is not None:
            self.task.sent.extend(entries)

    def _decided(self, decision: Decision) -> None:
        if self.task.traced:
            self.decisions.append(decision)

    def _new_decisions(self) -> control.Decisions:
        decisions, self.decisions = self.decisions, []
        return decisions

    def _new_discards(self) -> list[tuple[str, int]]:
        with self.changed:
            discarded, self.discarded = self.discarded, []
        return discarded

    def _has_received(self, counts: Mapping[str, int]) -> bool:
        return all(self.received[name] >= count for name, count in counts.items())

    def _await_all(self, counts: Mapping[str, int], what: str) -> None:
        """Wait for so many messages of each sender, or until some of them cannot come any more."""
        self._wait(lambda: self._has_received(counts) or bool(self._missed(counts)), what)
        with self.changed:
            missed = self._missed(counts)
        if missed:
            raise disconnected(self.role.name, *missed)

    def _missed(self, counts: Mapping[str, int]) -> list[str]:
        return [name for name in sorted(self.lost) if self.received[name] < counts.get(name, 0)]

    def _wait(self, condition: Callable[[], bool], what: str | None) -> None:
        """Wait until something is true that others bring about; ``what`` says it, to whoever asks.

        It is None for a role that has played to its end.
        """
        told = f"waits for {what}" if what else ""
        with self.changed:
            self.hampered = lambda: None if condition() else told
            self.changed.wait_for(lambda: self.failure is not None or condition())
            self.hampered = None
        if self.failure is not None:
            raise self.failure

    # The transport's threads

    def leaving(self, parcel: Parcel) -> None:
        """Note on disk that a message is about to leave.

        Raises
        ------
        Unwritten
            If the disk does not take it; then the message must not leave.
        ConnectionError
            If the role has ended; nor must it then.
        """
        entry = Entry(*parcel.row)
        with self.departing:
            self.departures.note(parcel.row, self.journal.extent)
            self.left[entry.receiver] = entry.sequence

    def accept(self, sender: str, frame: bytes) -> None:
        """Take a frame that came from ``sender``, as the transport knows it.

        Raises
        ------
        RemoteProtocolError
            If it is no message that may come now, or too much is here that nobody awaits.
        """
        message = decode_frame(frame, sender, self.role.name, self.task.limits.body)
        if message.sequence <= self.heard[sender]:
            raise RemoteProtocolError(
                f"{sender!r} sent message {message.sequence} after {self.heard[sender]}"
            )
        self.heard[sender] = message.sequence
        with self.changed:
            self._put(message, self.now())
            self.received[sender] += 1
            self.account.receive(message, PREFIX_BYTES + len(frame))
            self.changed.notify_all()

    def lose(self, peer: str) -> None:
        """Know that nothing can come of a peer any more."""
        with self.changed:
            self.lost.add(peer)
            self.changed.notify_all()

    def fail(self, error: Exception) -> None:
        """End the role by an error, in its own thread; the first one counts."""
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()

    def obey(self, message: control.FromGatekeeper) -> None:
        """Do as the gatekeeper says.

        Raises
        ------
        RemoteProtocolError
            If it tells of whom there is not, or what it has told.
        """
        if isinstance(message, control.Ask):
            self.transport.tell(self._standing(message.number))
            return
        if isinstance(message, control.Save | control.Stop):
            strangers = sorted(set(message.received) - set(self.received))
            if strangers:
                raise RemoteProtocolError(
                    f"the gatekeeper told of {strangers[0]!r}, of whom nothing can come"
                )
        with self.changed:
            match message:
                case control.Begin(origin):
                    if self.origin is not None:  # time does not go back
                        raise RemoteProtocolError("the gatekeeper told that all begin, twice")
                    self.origin = origin
                case control.Gate(round):
                    self.gate = round
                case control.Save(received):
                    self.save = received
                case control.Stop(received):
                    self.stop = True
                    self.outstanding = received
                case control.Abort(reason):
                    self.failure = self.failure or Aborted(reason)
            self.changed.notify_all()

    def _standing(self, number: int) -> control.Standing:
        came = dict(self.transport.bytes_received())
        with self.changed:
            waits = self.hampered and self.hampered()
            sent, received = dict(self.sent), dict(self.received)
            return control.Standing(number, waits, sent, received, sorted(self.lost), came)

    def _put(self, message: Message, now: int) -> None:
        if not self.mailbox.put(message, now):
            self.discarded.append((message.sender, message.sequence))
