"""The process of one role: sockets to its peers and its parent, and a player between them.

The role runs in the main thread. One thread reads all sockets, whatever has come of their frames;
one thread for each peer writes what the role sends, from a bounded queue, so that a role can
compute while its messages fly and two roles that send at once cannot block each other.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from colonnade.drivers import control
from colonnade.drivers.failures import failed, failure
from colonnade.drivers.framed import FramedSocket, control_line
from colonnade.drivers.handed import Handed
from colonnade.drivers.player import Parcel, Player, Task
from colonnade.drivers.writers import Writers
from colonnade.errors import Aborted, RemoteProtocolError

__all__ = ["SocketTransport", "play"]

_HEADROOM = 256  # bytes of a frame besides its body, at most
_PR_SET_PDEATHSIG = 1  # of Linux: the signal that comes when the parent ends


def play(
    task: Task | Handed[Task],
    peers: Mapping[str, socket.socket],
    parent: socket.socket,
    longest: int,
    threads: int,
    backlog: int,
    strangers: Sequence[socket.socket | FramedSocket],
) -> None:
    """Be the process of a role.

    Parameters
    ----------
    task
        What is to be played.
    peers
        A socket to each role that it exchanges messages with.
    parent
        A socket to the process that started this one.
    longest
        Bytes of the longest message that is accepted.
    threads
        Threads of torch's own operations.
    backlog
        Messages that may wait to be sent to one receiver.
    strangers
        Inherited sockets that belong to others.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    for end in strangers:
        end.close()
    _outlive_no_parent()  # before a role is cast, which may take long
    torch.set_num_threads(threads)
    transport = SocketTransport(peers, parent, backlog, longest + _HEADROOM)
    try:
        player = Player(task.taken() if isinstance(task, Handed) else task, transport)
        transport.start(player)
        player.play()
    except Aborted:
        pass
    except BaseException as error:
        with suppress(OSError):
            transport.tell(failed(error))
    # Threads may be blocked in a socket that only the end of the process will close.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class SocketTransport:
    """Carries the messages of a player in this process over sockets, and its words over one more.

    Parameters
    ----------
    peers
        A connected socket for each peer, by its name.
    parent
        A socket to the gatekeeper's process.
    backlog
        Messages that may wait to be sent to one receiver; sending one more waits.
    limit
        The longest frame that is accepted, in bytes.
    """

    def __init__(
        self, peers: Mapping[str, socket.socket], parent: socket.socket, backlog: int, limit: int
    ) -> None:
        self._peers = {name: FramedSocket(end, limit) for name, end in peers.items()}
        self._parent = control_line(parent)
        self._telling = threading.Lock()  # a long message is written in pieces
        self._backlog = backlog

    def start(self, player: Player) -> None:
        """Hand to ``player`` what comes, and send what it sends, from now on."""
        self._player = player
        self._writers = Writers(self._peers, self._backlog, self._write, player.fail)
        self._writers.start()
        _start(self._read)

    # The role's thread

    @property
    def peers(self) -> Collection[str]:
        """The names of the roles that it can send to."""
        return self._peers.keys()

    def send(self, receiver: str, parcel: Parcel) -> None:
        """Take a message that is to be sent; wait while too many are waiting."""
        self._writers.put(receiver, parcel)

    def flush(self) -> None:
        """Wait until all that was sent is with the operating system."""
        self._writers.finish()

    def abandon(self) -> None:
        """Drop the messages that wait to be sent."""
        self._writers.abandon()

    def tell(self, message: control.FromPlayer) -> None:
        """Tell the gatekeeper something; any thread may."""
        data = control.encode(message)
        with self._telling:
            self._parent.send(b"", data)

    def bytes_received(self) -> Mapping[str, int]:
        """Return what the operating system counted of each peer."""
        return {name: peer.bytes_received for name, peer in self._peers.items()}

    # The other threads

    def _write(self, peer: str, parcel: Parcel) -> None:
        self._player.leaving(parcel)
        # Where the peer's process ended the parent knows why, and will tell.
        self._peers[peer].send(parcel.header, parcel.body)

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._parent, selectors.EVENT_READ, None)
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
                self._player.fail(failure("messages cannot be received", error))

    def _hear(self, selector: selectors.BaseSelector) -> None:
        for frame in self._parent.receive():
            message = control.from_gatekeeper(frame)
            self._player.obey(message)
            # A peer may have begun already: what it sends has a time only when the clock here runs.
            if isinstance(message, control.Begin):
                for name, connection in self._peers.items():
                    selector.register(connection, selectors.EVENT_READ, name)

    def _listen(self, selector: selectors.BaseSelector, name: str) -> None:
        connection = self._peers[name]
        try:
            for frame in self._frames(name):
                self._player.accept(name, frame)
        except (EOFError, ConnectionError):
            selector.unregister(connection)
            self._player.lose(name)  # if its process ended the parent knows, and will tell
        except RemoteProtocolError as error:
            selector.unregister(connection)
            self._player.fail(error)
        except Exception as error:
            selector.unregister(connection)
            self._player.fail(failure(f"messages of {name!r} cannot be received", error))

    def _frames(self, name: str) -> list[bytes]:
        try:
            return self._peers[name].receive()
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"from {name!r}: {error}") from None


def _start(function: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def _outlive_no_parent() -> None:
    """End this process soon after its parent, which a kill leaves no time to tell.

    Linux ends it at once, though it be stopped.
    """
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform == "win32":
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _start(_follow, parent.pid)


def _follow(parent: int | None) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
