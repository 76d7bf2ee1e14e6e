"""Connections: so many at once, and on each a request comes in time."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Listener", "Punctual", "kept_at_most"]

_MOST = 512
_SECONDS = 30.0  # in which a request comes whole, and an answer is taken


def kept_at_most() -> int:
    """Return how many connections are kept at once.

    Each is an open file of a process that has others to write: a quarter of what it may have open.
    """
    with suppress(ImportError):  # POSIX's alone
        import resource

        open_at_most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if open_at_most != resource.RLIM_INFINITY:
            return min(_MOST, open_at_most // 4)
    return _MOST


class Listener(socket.socket):
    """A socket that keeps so many connections; who comes then is hung up on at once.

    uvicorn's ``limit_concurrency`` refuses requests, and leaves open a connection on which none
    comes, or whose TLS is not agreed on yet.
    """

    _kept: tuple[socket.socket, ...] = ()

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection and its address; see ``socket.accept``.

        Raises
        ------
        ConnectionAbortedError
            If too many are kept: to an event loop, nobody has come.
        """
        connection, address = super().accept()
        self._kept = tuple(kept for kept in self._kept if kept.fileno() >= 0)  # and not closed
        if len(self._kept) >= kept_at_most():
            connection.close()
            raise ConnectionAbortedError(f"{len(self._kept)} connections are kept already")
        self._kept = (*self._kept, connection)
        return connection, address


class Punctual(H11Protocol):
    """A connection that ends where in time no request comes whole, or an answer is not taken.

    uvicorn bounds how long nothing comes after an answer; before the first request, and while one
    is on its way, a byte now and then kept a connection for ever.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request: no other time begins before it is whole."""
        super().data_received(data)
        self._look()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; nobody else answers it then, or it, if that has begun."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """End when what is asked for is answered; who has not asked yet is hung up on."""
        is_answered = self.cycle is None or self.cycle.response_complete
        is_asking = self.conn.their_state is h11.SEND_BODY
        if is_asking or (is_answered and not self.transport.get_write_buffer_size()):
            self.transport.abort()  # under TLS a close waits for what the other says
        else:
            super().shutdown()

    def on_response_complete(self) -> None:
        """Expect the next request, or the rest of a body that was not waited for."""
        super().on_response_complete()
        self._expect()

    def pause_writing(self) -> None:
        """Expect that an answer is taken."""
        super().pause_writing()
        self._expect()

    def resume_writing(self) -> None:
        """Note that an answer was taken."""
        super().resume_writing()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        super().connection_lost(exc)
        self._forget()

    @property
    def _is_theirs_to_do(self) -> bool:
        """Whether who has connected is to do something, rather than we."""
        return self.flow.write_paused or self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _expect(self) -> None:
        self._forget()
        if self._is_theirs_to_do:
            self._late = self.loop.call_later(_SECONDS, self.transport.abort)

    def _look(self) -> None:
        if not self._is_theirs_to_do:
            self._forget()

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
