"""Nobody holds up a process of FLARE's: it waits for nobody who says nothing, or takes nothing.

FLARE shakes hands with who connects in the one thread that lets others in, and waits for it without
a limit. What it has for somebody it writes in the thread that made it, of which there are a hundred
for all, and one that starts jobs; and over TLS who takes nothing is waited for without a limit too.
So hands are shaken in a thread for each, in seconds. What is for another organisation waits on a
line, on which those who send it take turns, and a thread for each connection writes it. What is one
too many of one sender is lost, as on any network: who sent it sends it again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.connection import Connection
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.tcp_driver import TcpStreamServer
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

__all__ = ["Line", "guard_connections", "speaking_for"]

_HANDSHAKE = 10.0  # seconds
_MOST, _MOST_BYTES = 256, 2**25  # of one sender, that wait on a line; one frame always may
_LINGER = 5.0  # seconds in which a thread waits for more to write

_log = logging.getLogger(__name__)
_speaking = threading.local()


def guard_connections() -> None:
    """Let nobody hold up this process by a connection; before it listens."""
    if not hasattr(TcpStreamServer.__init__, "__wrapped__"):
        TcpStreamServer.__init__ = _without_handshakes(TcpStreamServer.__init__)
        TcpStreamServer.finish_request = _after_handshake(TcpStreamServer.finish_request)
        SfmConnection.__init__ = _with_a_line(SfmConnection.__init__)


@contextmanager
def speaking_for(whose: str) -> Iterator[None]:
    """Let what this thread sends meanwhile take room, on each line, that is this sender's."""
    before, _speaking.whose = getattr(_speaking, "whose", ""), whose
    try:
        yield
    finally:
        _speaking.whose = before


class Line:
    """What waits to be written on a connection, by who sends it; they take turns.

    Parameters
    ----------
    name
        What the log calls it.
    write
        Writes a frame, and waits until it is taken.
    close
        Called when one could not be written.

    Examples
    --------
    >>> written = []
    >>> Line("an example", written.append, written.clear).put(b"frame")
    """

    def __init__(
        self, name: str, write: Callable[[bytes], None], close: Callable[[], None]
    ) -> None:
        self._name, self._write, self._close = name, write, close
        self._waiting: dict[str, deque[bytes]] = {}  # who is first has the next turn
        self._bytes: Counter[str] = Counter()
        self._lost = 0
        self._writer: threading.Thread | None = None
        self._is_broken = False
        self._changed = threading.Condition()

    def put(self, frame: bytes) -> None:
        """Let a frame wait for its turn, or be lost.

        Raises
        ------
        CommError
            If what was to be written before could not be.
        """
        whose = getattr(_speaking, "whose", "")
        with self._changed:
            if self._is_broken:
                raise CommError(CommError.CLOSED, f"{self._name} cannot be written to")
            waiting = self._waiting.get(whose, ())
            too_large = self._bytes[whose] + len(frame) > _MOST_BYTES
            if waiting and (len(waiting) >= _MOST or too_large):
                self._lose(whose)
                return
            self._waiting.setdefault(whose, deque()).append(frame)
            self._bytes[whose] += len(frame)
            self._changed.notify()
            if self._writer is None:
                writer = threading.Thread(None, self._write_all, self._name, daemon=True)
                writer.start()
                self._writer = writer  # unless there is room for no thread more

    def _lose(self, whose: str) -> None:
        """Say it in the log, which nobody may fill."""
        self._lost += 1
        if self._lost.bit_count() == 1:
            _log.warning(
                "lost what %r sends on %s, where too much waits; %d so far",
                *(whose, self._name, self._lost),
            )

    def _write_all(self) -> None:
        try:
            while (frame := self._next()) is not None:
                self._write(frame)
        except Exception as error:
            _log.debug("%s is broken: %s", self._name, error)
            with self._changed:
                self._is_broken = True
                self._waiting.clear()
                self._bytes.clear()
            self._close()

    def _next(self) -> bytes | None:
        """Return what is written next; None after a while in which nothing was to be."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(_LINGER)
            if not self._waiting:
                self._writer = None
                return None
            whose = next(iter(self._waiting))
            frames = self._waiting.pop(whose)
            frame = frames.popleft()
            self._bytes[whose] -= len(frame)
            if frames:
                self._waiting[whose] = frames
            else:
                del self._bytes[whose]
            return frame


def _without_handshakes(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def listen(self: TcpStreamServer, *given: Any) -> None:
        init(self, *given)
        if self.ssl_context:
            self.socket.do_handshake_on_connect = False

    return listen


def _after_handshake(finish: Callable[..., None]) -> Callable[..., None]:
    @wraps(finish)
    def finish_request(self: TcpStreamServer, request: Any, address: Any) -> None:
        if self.ssl_context:
            try:
                request.settimeout(_HANDSHAKE)
                request.do_handshake()
                request.settimeout(None)
            except (OSError, ValueError) as error:  # SSLError is of the first
                _log.debug("no connection with %s: %s", address, error)
                return
        finish(self, request, address)

    return finish_request


def _with_a_line(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def made(self: SfmConnection, connection: Connection, *given: Any) -> None:
        init(self, connection, *given)
        whose = connection.get_conn_properties().get(DriverParams.PEER_CN.value)
        if whose is not None and connection.connector.mode == Mode.PASSIVE:
            line = Line(str(connection), connection.send_frame, connection.close)
            connection.send_frame = line.put

    return made
