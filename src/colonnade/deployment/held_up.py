"""Nobody holds up a process of FLARE's: few wait for who says nothing, or takes nothing.

FLARE shakes hands with who connects in the one thread that lets others in, and waits for it without
a limit. A process hears everybody by a hundred threads, and each that has something for one who
takes nothing waits for half a minute. So hands are shaken in a thread for each, in seconds, and of
what is for one organisation so much may wait, and of what one sends another less. What is one too
many is lost, as on any network: who sent it sends it again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.tcp_driver import TcpStreamServer
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

__all__ = ["guard_connections", "passing_on"]

_HANDSHAKE = 10.0  # seconds
_BETWEEN_TWO, _TO_ONE = 32, 48  # that may wait, of what one sends another, and of all that is sent
_log = logging.getLogger(__name__)


class _Places:
    """So many places for each; who finds none goes on without."""

    def __init__(self, count: int) -> None:
        self._count, self._counting = count, threading.Lock()
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def one(self, whose: Hashable) -> Iterator[bool]:
        """Yield whether there was a place, which is taken as long as the context lasts."""
        with self._counting:
            may = self._taken[whose] < self._count
            self._taken[whose] += may
        try:
            yield may
        finally:
            with self._counting:
                self._taken[whose] -= may
                if not self._taken[whose]:
                    del self._taken[whose]


_between_two, _to_one = _Places(_BETWEEN_TWO), _Places(_TO_ONE)


def guard_connections() -> None:
    """Let nobody hold up this process by a connection; before it listens."""
    if not hasattr(TcpStreamServer.__init__, "__wrapped__"):
        TcpStreamServer.__init__ = _without_handshakes(TcpStreamServer.__init__)
        TcpStreamServer.finish_request = _after_handshake(TcpStreamServer.finish_request)
        SfmConnection.send_frame = _where_few_wait(SfmConnection.send_frame)


@contextmanager
def passing_on(own: str, by: str, message: Message) -> Iterator[bool]:
    """Yield whether a message may go on its way, which it does as long as the context lasts.

    Parameters
    ----------
    own
        The name of the cell that is to pass it on, or to hear it itself.
    by
        The name of the cell by whose connection it came.
    message
        A message, whose destination is the name of a cell.
    """
    to = FQCN.get_root(message.get_header(MessageHeaderKey.DESTINATION))
    if to == FQCN.get_root(own):
        yield True
        return
    with _between_two.one((FQCN.get_root(by), to)) as may:
        yield may


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


def _where_few_wait(send: Callable[..., None]) -> Callable[..., None]:
    @wraps(send)
    def send_frame(self: SfmConnection, *given: Any) -> None:
        whose = self.conn.get_conn_properties().get(DriverParams.PEER_CN.value)
        if whose is None:  # a process of our own
            send(self, *given)
            return
        with _to_one.one(whose) as may:
            if not may:
                raise CommError(CommError.TIMEOUT, f"too much waits for {whose!r} to take it")
            send(self, *given)

    return send_frame
