"""The process of one role: sockets to its peers, a pipe to its parent, and the role between them.

The role runs in the main thread. One thread reads all sockets and the pipe, whatever has come of
their frames, and only fills the mailbox; one thread for each peer writes what the role sends, from
a bounded queue, so that a role can compute while its messages fly and two roles that send at once
cannot block each other. What goes wrong in any of them ends the role, in its own thread; and when
the parent asks, the reading thread tells whether the role waits for what only others can bring.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from colonnade.checkpoints import decode_state, encode_state
from colonnade.departures import Departures
from colonnade.drivers import control
from colonnade.drivers.account import Account
from colonnade.drivers.driver import Outbox, agreements, identities, perform
from colonnade.drivers.elsewhere import Elsewhere
from colonnade.drivers.framed import FramedSocket
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
from colonnade.errors import (
    Aborted,
    ColonnadeError,
    LocalProtocolError,
    RemoteProtocolError,
    RoleFailed,
)
from colonnade.journals import Journal
from colonnade.ledger import Ledger
from colonnade.wire import Message, decode_frame

__all__ = ["ChildTask", "play"]

_Parcel = tuple[bytes, bytes, tuple[Any, ...]]  # header, body, row of the ledger
_SHIPPED = 4096  # rows of the ledger that a child keeps to itself
_HEADROOM = 256  # bytes of a frame besides its body, at most


@dataclass
class ChildTask:
    """What a child is given: a role, where it stands, and the limits.

    ``state`` is what a role that is cast in the child goes on from; another role has it already.
    ``saves`` says whether the run keeps checkpoints.
    """

    role: Role | Elsewhere
    state: bytes | None
    account: Account
    mail: list[tuple[Message, int]]
    gate: int
    seed: int
    threads: int
    queue: int
    max_body_bytes: int
    saves: bool
    journals: Path | None
    departures: Path | None


class _Stopped(Exception):
    """The run ends at this boundary."""


def play(
    task: ChildTask,
    peers: Mapping[str, socket.socket],
    parent: Connection,
    strangers: Sequence[Connection | socket.socket],
) -> None:
    """Be the process of a role; ``strangers`` are inherited connections that belong to others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    for connection in strangers:
        connection.close()
    _start(_outlive_no_parent)  # before a role is cast, which may take long
    torch.set_num_threads(task.threads)
    try:
        _Child(task, peers, parent).play()
    except Aborted:
        pass
    except BaseException as error:
        with suppress(OSError):
            trace = "".join(traceback.format_exception(error))
            control.tell(parent, control.Failed(type(error).__name__, str(error), trace))
    # Threads may be blocked in a socket or a pipe that only the end of the process will close.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Child:
    def __init__(
        self, task: ChildTask, peers: Mapping[str, socket.socket], parent: Connection
    ) -> None:
        self.task = task
        self.is_elsewhere = isinstance(task.role, Elsewhere)
        self.role = task.role.role() if isinstance(task.role, Elsewhere) else task.role
        if task.state is not None:
            self.role.load_state_dict(decode_state(task.state))
        self.journal = Journal(task.journals, self.role.name, task.account.journal)
        self.departures = Departures(task.departures, self.role.name)
        notes = self.journal.notes()
        self.notes = None if self.is_elsewhere else (notes.incarnation, list(notes.records))
        self.account = task.account
        self.parent = parent
        limit = task.max_body_bytes + _HEADROOM
        self.peers = {name: FramedSocket(end, limit) for name, end in peers.items()}
        self.ledger = Ledger()
        self.outbox = Outbox(self.role.name, self.ledger, self.account.sequence)
        self.decisions: control.Decisions = []
        self.sent = dict.fromkeys(peers, 0)
        # Everything below is shared with the reading thread, under ``changed``.
        self.changed = threading.Condition()
        self.mailbox = Mailbox(self.account.closed)
        self.discarded: list[tuple[str, int]] = []  # by sender and sequence; not yet shipped
        for message, arrival in task.mail:
            self._put(message, arrival)
        self.received = dict.fromkeys(peers, 0)
        self.ended: set[str] = set()  # peers of whom nothing can come any more
        self.heard = dict.fromkeys(peers, -1)  # the sequence number last received
        self.origin: int | None = None  # until all roles are there
        self.gate = task.gate
        self.save: dict[str, int] | None = None
        self.stop = False
        self.outstanding: dict[str, int] = {}  # of which sender how many are awaited before leaving
        self.failure: Exception | None = None
        self.hampered: Callable[[], str | None] | None = None  # what the role waits for, if it does
        self.queues: dict[str, queue.Queue[_Parcel | None]] = {}
        self.writers = []
        for name in peers:
            self.queues[name] = queue.Queue(maxsize=task.queue)
            self.writers.append(_start(self._write, name))
        _start(self._read)

    def now(self) -> int:
        """Nanoseconds since all roles were there."""
        assert self.origin is not None
        return time.monotonic_ns() - self.origin

    # The role's own thread

    def play(self) -> None:
        finished = True
        for agreed in agreements([self.role]).values():
            control.tell(self.parent, control.Cast(agreed))
        control.tell(self.parent, control.Waiting())
        self._wait(lambda: self.origin is not None, "the others to be there")
        coroutine = self.role.run()
        try:
            answer = None
            while True:
                effect = coroutine.send(answer)
                answer = self._handle(effect)
        except StopIteration:
            pass
        except _Stopped:
            finished = False
            coroutine.close()
        except Aborted as abort:
            with suppress(StopIteration, Aborted):
                coroutine.throw(abort)
            raise
        self._flush()
        self.journal.close()
        saves = self.task.saves
        self._complete_account()
        control.tell(
            self.parent,
            control.Played(
                finished,
                self.role.round,
                encode_state(self.role.state_dict()) if saves or not self.is_elsewhere else b"",
                self.account.as_json(),
                self._new_entries(),
                self.decisions,
                self.sent,
                self.notes,
            ),
        )
        self._wait(lambda: self.stop, None)
        self._wait(lambda: self._has_received(self.outstanding), "what is still under way")
        if finished and isinstance(self.task.role, Elsewhere):
            self.task.role.finish(self.role)
        control.tell(
            self.parent,
            control.Left(
                {name: peer.bytes_received for name, peer in self.peers.items()},
                self._new_discards(),
                time.process_time(),
            ),
        )

    def _handle(self, effect: object) -> Any:
        if self.failure is not None:
            raise self.failure
        if isinstance(effect, Work):
            start = time.monotonic_ns()
            answer, cpu = perform(effect, self.role.name, self.task.seed)
            elapsed = time.monotonic_ns() - start
            self.account.spend(effect.purpose, effect.kind, elapsed, cpu)
            return answer
        if isinstance(effect, Attempt):
            ready = self._is_ready(effect.unless)
            self.decisions.append(not ready)
            return None if ready else self._handle(effect.work)
        if isinstance(effect, Send):
            return self._send(effect)
        if isinstance(effect, Receive):
            return self._receive(effect)
        if isinstance(effect, Ready):
            ready = self._is_ready(effect.expect)
            self.decisions.append(ready)
            return ready
        if isinstance(effect, Report):
            stamped = self.account.report(self.role.name, effect.values, self.now() / 1e9)
            return control.tell(self.parent, control.Reported(dict(stamped)))
        if isinstance(effect, Boundary):
            return self._boundary(effect.round)
        if isinstance(effect, Close):
            self.account.closed = max(self.account.closed, effect.before)
            with self.changed:
                late = self.mailbox.close(effect.before)
                self.discarded += [(message.sender, message.sequence) for message in late]
            return None
        if isinstance(effect, Commit):
            return self.journal.commit(effect.record)
        if isinstance(effect, Recall):
            return self.journal.notes()
        raise LocalProtocolError(f"{self.role.name} awaited {effect!r}, which is no effect")

    def _is_ready(self, expect: Expect) -> bool:
        with self.changed:
            self.mailbox.check(expect, self.role.name)
            now = self.now()
            return self.mailbox.satisfied(expect, now, now)

    def _send(self, send: Send) -> None:
        if send.receiver not in self.queues:
            raise LocalProtocolError(f"{self.role.name} sent {send.kind!r} to {send.receiver!r}")
        start = self.now()
        message, header, row = self.outbox.stamp(send, start)
        self.queues[send.receiver].put((header, message.body, row))
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
        self.decisions.append(identities(arrivals))
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

    def _boundary(self, round: int) -> None:
        if len(self.ledger) > _SHIPPED:
            control.tell(self.parent, control.Recorded(self._new_entries()))
        control.tell(self.parent, control.Reached(round, self.sent, self.outbox.sent_bytes))
        while round >= self.gate:
            self._wait(
                lambda: self.stop or self.save is not None or round < self.gate,
                f"the others at the boundary before round {round}",
            )
            if self.stop:
                raise _Stopped
            if self.save is not None:
                self._save(self.save)

    def _save(self, expected: dict[str, int]) -> None:
        self.save = None
        self._wait(lambda: self._has_received(expected), "what was sent before the boundary")
        self._complete_account()
        state, mail = b"", list[tuple[Message, int]]()
        if self.task.saves:
            state = encode_state(self.role.state_dict())
            with self.changed:
                mail = list(self.mailbox)
        control.tell(
            self.parent,
            control.Saved(
                state,
                self.account.as_json(),
                mail,
                self._new_entries(),
                self._new_discards(),
                time.process_time(),
            ),
        )

    def _complete_account(self) -> None:
        self.account.sequence = self.outbox.sequence
        self.account.note(self.journal)
        self.account.departed = self.departures.mark()

    def _new_entries(self) -> list[Any]:
        return self.ledger.drain()

    def _new_discards(self) -> list[tuple[str, int]]:
        with self.changed:
            discarded, self.discarded = self.discarded, []
        return discarded

    def _has_received(self, counts: Mapping[str, int]) -> bool:
        return all(self.received[name] >= count for name, count in counts.items())

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

    def _flush(self) -> None:
        """Wait until all that the role sent is with the operating system."""
        for pending in self.queues.values():
            pending.put(None)
        for writer in self.writers:
            writer.join()

    # The other threads

    def _fail(self, error: Exception) -> None:
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()

    def _write(self, peer: str) -> None:
        connection, pending = self.peers[peer], self.queues[peer]
        try:
            while (parcel := pending.get()) is not None:
                header, body, row = parcel
                self.departures.note(row)
                connection.send(header, body)
            return
        except ConnectionError:
            pass  # the peer's process ended: the parent knows why, and will tell
        except ColonnadeError as error:
            self._fail(error)
        except Exception as error:  # such as a lack of memory or of buffers
            self._fail(_failure(f"messages to {peer!r} cannot be sent", error))
        while pending.get() is not None:
            pass  # so that the role, which has not heard of it yet, is not held up

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self.parent, selectors.EVENT_READ, None)
            try:
                while True:
                    for key, _ in selector.select():
                        if key.data is None:
                            self._hear(selector)
                        else:
                            self._listen(selector, key.data)
            except (EOFError, ConnectionError):
                os._exit(1)  # the parent is gone, and with it the run
            except Exception as error:
                self._fail(_failure("messages cannot be received", error))

    def _hear(self, selector: selectors.BaseSelector) -> None:
        message = control.hear_parent(self.parent)
        if isinstance(message, control.Ask):
            control.tell(self.parent, self._standing(message.number))
            return
        self._obey(message)
        # A peer may have begun already: what it sends has a time only when this role's clock runs.
        if isinstance(message, control.Begin):
            for name, connection in self.peers.items():
                selector.register(connection, selectors.EVENT_READ, name)

    def _listen(self, selector: selectors.BaseSelector, name: str) -> None:
        connection = self.peers[name]
        try:
            for frame in connection.receive():
                self._accept(name, frame)
        except (EOFError, ConnectionError):
            selector.unregister(connection)
            with self.changed:
                self.ended.add(name)  # if its process ended the parent knows, and will tell
        except RemoteProtocolError as error:
            selector.unregister(connection)
            told = str(error)
            self._fail(
                error if repr(name) in told else RemoteProtocolError(f"from {name!r}: {told}")
            )
        except Exception as error:
            selector.unregister(connection)
            self._fail(_failure(f"messages of {name!r} cannot be received", error))

    def _accept(self, name: str, frame: bytes) -> None:
        message = decode_frame(frame, name, self.role.name, self.task.max_body_bytes)
        if message.sequence <= self.heard[name]:
            raise RemoteProtocolError(
                f"{name!r} sent message {message.sequence} after {self.heard[name]}"
            )
        self.heard[name] = message.sequence
        with self.changed:
            self._put(message, self.now())
            self.received[name] += 1
            self.changed.notify_all()

    def _standing(self, number: int) -> control.Standing:
        with self.changed:
            waits = self.hampered and self.hampered()
            sent, received = dict(self.sent), dict(self.received)
            return control.Standing(number, waits, sent, received, sorted(self.ended))

    def _put(self, message: Message, now: int) -> None:
        if not self.mailbox.put(message, now):
            self.discarded.append((message.sender, message.sequence))

    def _obey(self, message: control.FromParent) -> None:
        with self.changed:
            match message:
                case control.Begin(origin):
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


def _start(function: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def _outlive_no_parent() -> None:
    """End this process soon after its parent, which a kill leaves no time to tell."""
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform == "win32":
        return
    while os.getppid() == parent.pid:
        time.sleep(0.2)
    os._exit(1)


def _failure(what: str, error: Exception) -> RoleFailed:
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    failure = RoleFailed(f"{what}: {said}")
    failure.__cause__ = error
    return failure
