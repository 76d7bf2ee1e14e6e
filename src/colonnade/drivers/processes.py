"""Real time on one machine: a process for each role, sockets between them.

The parent connects every pair of roles by a TCP connection on the loopback interface, starts a
process for each role, and afterwards only watches: training messages never pass through it. Over a
socket of its own it hears what each player tells, enters it in the books, and hands it to the
gatekeeper. All that they say to each other are frames and msgpack; pickled is only what a process
that is spawned is given to begin with, by this one (``handed.py``).
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from colonnade.drawing import drawing
from colonnade.drivers import control
from colonnade.drivers.account import Account
from colonnade.drivers.bookkeeping import Books
from colonnade.drivers.child import play
from colonnade.drivers.deaf import deaf
from colonnade.drivers.driver import (
    Assignment,
    Driver,
    RunRecord,
    check_roles,
)
from colonnade.drivers.elsewhere import Elsewhere
from colonnade.drivers.framed import FramedSocket, connected_pair, control_line
from colonnade.drivers.gatekeeper import Gatekeeper
from colonnade.drivers.handed import Handed
from colonnade.effects import Role
from colonnade.errors import ConfigurationError, RemoteProtocolError, RoleFailed
from colonnade.quiet import warning_otherwise
from colonnade.telling import first_line

__all__ = ["Processes"]

_PATIENCE = 10.0  # seconds in which a process takes what it is told, when much waits already
_ENDING = 5.0  # seconds in which processes end by themselves, when their run has ended
_ON_THE_WAY = 60.0  # seconds in which something comes of what was sent on this machine
_LOOK = 0.2  # seconds after which the parent looks around, heard anything or not
_BY_NAME = (
    "models, losses and optimisers must be importable by name, as no lambda or local class is; or "
    "say threads=1"
)
_ANEW = (
    "what it is to be cast with must be importable by name; locks and queues are made by "
    "multiprocessing.get_context('spawn')"
)


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

    @property
    def timing(self) -> str:
        """That times are real."""
        return "real"

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
    """Starts the children, hears them, and passes on what they tell."""

    def __init__(
        self, queue: int, roles: Sequence[Role | Elsewhere], assignment: Assignment
    ) -> None:
        self.queue = queue
        self.threads = assignment.threads
        self.saves = assignment.store is not None
        self.books = Books(roles, assignment)
        self.roles = self.books.roles
        self.gatekeeper = Gatekeeper(
            self.roles, assignment, self._tell, self.books.begin, self.books.keep, _ON_THE_WAY
        )
        self.lines: dict[str, FramedSocket] = {}  # to those who have not left
        self.left: list[FramedSocket] = []
        self.processes: dict[str, BaseProcess] = {}

    def run(self) -> RunRecord:
        try:
            self._start()
            self._watch(until=lambda: self.gatekeeper.roll.everybody_has_played)
            self.gatekeeper.let_leave()
            self._watch(until=lambda: self.gatekeeper.roll.everybody_has_left)
        except BaseException as error:
            with suppress(RoleFailed):
                self.gatekeeper.broadcast(control.Abort(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._end()
        return self.books.closed()

    # Starting and ending

    def _start(self) -> None:
        sockets: dict[str, dict[str, socket.socket]] = {name: {} for name in self.roles}
        children: dict[str, socket.socket] = {}
        with ExitStack() as theirs:  # the ends of the children, who have them when they are started
            for one, other in combinations(self.roles, 2):
                if other in self.roles[one].peers or one in self.roles[other].peers:
                    sockets[one][other], sockets[other][one] = map(
                        theirs.enter_context, connected_pair()
                    )
            for name in self.roles:
                with _explained(name, _BY_NAME):
                    mine, children[name] = socket.socketpair()
                theirs.enter_context(children[name])
                mine.settimeout(_PATIENCE)
                self.lines[name] = control_line(mine)
            self._start_processes(sockets, children)

    def _start_processes(
        self,
        sockets: Mapping[str, Mapping[str, socket.socket]],
        children: Mapping[str, socket.socket],
    ) -> None:
        usual = _context(self.threads)
        theirs = [*children.values(), *(end for ends in sockets.values() for end in ends.values())]
        for name, task in self.books.tasks(self.gatekeeper.gate).items():
            is_elsewhere = isinstance(task.role, Elsewhere)
            context, inherits = _spawning() if is_elsewhere else usual
            own = {children[name], *sockets[name].values()}
            others = (end for end in theirs if end not in own)
            strangers = [*self.lines.values(), *others] if inherits else []
            with _explained(name, _ANEW if is_elsewhere else _BY_NAME), ExitStack() as handed:
                given = task if inherits else handed.enter_context(closing(Handed(task)))
                process = context.Process(
                    target=play,
                    args=(
                        given,
                        sockets[name],
                        children[name],
                        task.limits.body,
                        self.threads,
                        self.queue,
                        strangers,
                    ),
                    name=f"colonnade {name}",
                    daemon=True,
                )
                # Torch's generator has a lock that a child would wait for, were it held meanwhile.
                with drawing(), warning_otherwise(), deaf():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                    self.processes[name] = process  # before an interruption is heard

    def _end(self) -> None:
        """Let all end by themselves, for some seconds, and then whoever is left.

        A second interruption leaves nobody behind either.
        """
        processes = self.processes.values()
        until = time.monotonic() + _ENDING
        try:
            for process in processes:
                process.join(timeout=max(0.0, until - time.monotonic()))
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()
                with suppress(ValueError):  # another thread may be about to learn that it has ended
                    process.close()
            for line in [*self.lines.values(), *self.left]:
                line.close()

    # Watching

    def _watch(self, until: Callable[[], bool]) -> None:
        with selectors.DefaultSelector() as selector:
            for name, line in self.lines.items():
                selector.register(line, selectors.EVENT_READ, name)
            while not until():
                ended = [name for name in self.lines if not self.processes[name].is_alive()]
                heard = selector.select(_LOOK)
                for key, _ in heard:
                    for message in self._told(key.data):
                        self._hear(key.data, message)
                    if key.data not in self.lines:  # it has left
                        selector.unregister(key.fileobj)
                self._check_left(ended, {key.data for key, _ in heard})
                self.gatekeeper.look_after()

    def _check_left(self, ended: Sequence[str], heard: Collection[str]) -> None:
        """Refuse that a process ended whose role has not left.

        The end of its line does not always tell: a process that a model forked keeps it open. What
        was told before the end is heard first.
        """
        for name in ended:
            if name in self.lines and name not in heard:
                raise self._died(name)

    def _died(self, name: str) -> RoleFailed:
        code = self.processes[name].exitcode
        return RoleFailed(f"the process of {name!r} died (exit code {code})")

    def _told(self, name: str) -> list[control.FromPlayer]:
        """Return what is complete of what a player tells, of which something has come."""
        try:
            return [_read(frame, self.saves) for frame in self.lines[name].receive()]
        except (EOFError, OSError):
            self.processes[name].join(timeout=5)
            raise self._died(name) from None
        except (RemoteProtocolError, ValueError, TypeError) as error:
            raise RoleFailed(f"the process of {name!r} told what cannot be read: {error}") from None

    def _hear(self, name: str, message: control.FromPlayer) -> None:
        self.books.enter(name, message)
        self.gatekeeper.heed(name, message)
        if isinstance(message, control.Left):
            self.left.append(self.lines.pop(name))

    def _tell(self, name: str, message: control.FromGatekeeper) -> None:
        if name not in self.lines:
            return
        try:
            self.lines[name].send(b"", control.encode(message))
        except TimeoutError:
            raise RoleFailed(
                f"the process of {name!r} does not listen any more; it may be stopped"
            ) from None
        except OSError:
            pass  # its process ended, which is seen when it is heard


def _read(frame: bytes, saves: bool) -> control.FromPlayer:
    """Return what a player tells, who tells what is saved where there are checkpoints alone.

    Raises
    ------
    ValueError, TypeError
        If it is nothing that a player tells.
    """
    message = control.from_player(frame)
    if isinstance(message, control.Played) or (isinstance(message, control.Saved) and saves):
        Account.told(message.account)
    return message


@contextmanager
def _explained(name: str, remedy: str) -> Iterator[None]:
    """Say whose process could not be started, and why."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise RoleFailed(f"the process of {name!r} cannot be started: {why}") from error
    except Exception as error:  # whatever refuses to be written down for another process
        raise ConfigurationError(
            f"{name!r} cannot be handed to a process of its own ({first_line(error)}): {remedy}"
        ) from error


def _context(threads: int) -> tuple[Any, bool]:
    """Return how to start processes, and whether children inherit what the parent has open.

    Forking is safe only while torch uses one thread (its thread pool does not survive a fork) and
    no GPU (nor does its context).
    """
    if sys.platform == "linux" and threads == 1 and not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # untyped in torch
        return multiprocessing.get_context("fork"), True
    return _spawning()


def _spawning() -> tuple[Any, bool]:
    """Return how to start processes anew.

    Raises
    ------
    ConfigurationError
        If this is such a process, which runs its script once more.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ConfigurationError(
            "each process that is started runs this script again, and must not train: what trains "
            'belongs below if __name__ == "__main__":'
        )
    return multiprocessing.get_context("spawn"), False
