"""FLARE's cells as a post: datagrams by pushes on a channel of our own.

A cell is a process of a job, known by its name among cells (its FQCN). Each datagram is signed by
its sender and encrypted for its receiver, by the certificates of their sites: a server that passes
it on can neither read nor forge it. That a certificate is of the site that a cell is called after
is looked at where connections are secured by mutual TLS alone: so a cell that is not is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import Encoding, MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.identity import is_mtls_config
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message
from nvflare.fuel.f3.message import Message

from colonnade.drivers.couriered import GATEKEEPER
from colonnade.errors import ConfigurationError

__all__ = ["CellPost", "cell_of_server", "cell_of_site"]

_CHANNEL = "colonnade"
_TO_GATEKEEPER, _TO_ROLE, _BETWEEN = "to_gatekeeper", "to_role", "between"


def cell_of_site(site: str, job: str) -> str:
    """Return the name of the cell of a job at a site."""
    return str(FQCN.join([site, job]))


def cell_of_server(job: str) -> str:
    """Return the name of the cell of a job at the server."""
    return str(FQCN.join([FQCN.ROOT_SERVER, job]))


class CellPost:
    """Carries datagrams between the processes of a job.

    Parameters
    ----------
    cell
        The cell of this process.
    own
        Whose it is: an organisation, or ``GATEKEEPER``.
    cells
        The cells of all organisations and of the gatekeeper, by name.
    here
        Who listens in this process, by name: the gatekeeper's and a label holder's posts share it.

    Raises
    ------
    ConfigurationError
        If the cell's connections are not secured by mutual TLS.
    """

    def __init__(
        self,
        cell: CoreCell,
        own: str,
        cells: Mapping[str, str],
        here: dict[str, Callable[[str, bytes], None]] | None = None,
    ) -> None:
        if not is_mtls_config(cell.endpoint.conn_props, cell.is_secure()):
            raise ConfigurationError(
                "the connections of this FLARE system are not secured by mutual TLS, so nobody "
                "knows who sends what; provision it with connection_security: mtls"
            )
        self._cell, self._own, self._cells = cell, own, dict(cells)
        self._here = {} if here is None else here
        self._names = {address: name for name, address in cells.items() if name != GATEKEEPER}

    def __call__(self, peer: str, datagram: bytes) -> None:
        """Send a datagram; one that cannot be sent now is lost."""
        if self._cells[peer] == self._cells[self._own]:
            self._here[peer](self._own, datagram)
            return
        message = new_cell_message({}, datagram)
        topic = self._topic(self._own, peer)
        to = self._cells[peer]
        self._cell.fire_and_forget(_CHANNEL, topic, to, message, secure=True, optional=True)

    def listen(self, receive: Callable[[str, bytes], None]) -> None:
        """Hand over what comes from now on: who sent it, and the datagram."""
        self._here[self._own] = receive

        def hear(sender: Callable[[str], str | None]) -> Callable[[Message], None]:
            def heard(message: Message) -> None:
                name = sender(str(message.get_header(MessageHeaderKey.ORIGIN)))
                payload: Any = message.payload
                if name is not None and isinstance(payload, bytes | bytearray | memoryview):
                    receive(name, bytes(payload))

            return heard

        def organisation(origin: str) -> str | None:
            return self._names.get(origin)

        def gatekeeper(origin: str) -> str | None:
            return GATEKEEPER if origin == self._cells[GATEKEEPER] else None

        self._cell.add_incoming_filter(_CHANNEL, "*", _refused_unless_encrypted)
        self._cell.add_incoming_filter(_CHANNEL, "*", _refused_unless_bytes)
        register = self._cell.register_request_cb
        if self._own == GATEKEEPER:
            register(_CHANNEL, _TO_GATEKEEPER, hear(organisation))
            return
        register(_CHANNEL, _TO_ROLE, hear(gatekeeper))
        register(_CHANNEL, _BETWEEN, hear(organisation))

    @staticmethod
    def _topic(own: str, peer: str) -> str:
        if GATEKEEPER not in (own, peer):
            return _BETWEEN
        return _TO_GATEKEEPER if peer == GATEKEEPER else _TO_ROLE


def _refused_unless_encrypted(message: Message) -> Message | None:
    """Answer what is not encrypted: a cell would take it as it is, whoever says that he sent it."""
    asked = (MessageHeaderKey.SECURE, MessageHeaderKey.ENCRYPTED)
    if all(message.get_header(key) is True for key in asked):
        return None
    return make_reply(ReturnCode.UNAUTHENTICATED, "a datagram is encrypted for its receiver")


def _refused_unless_bytes(message: Message) -> Message | None:
    """Answer what is an object: a cell would make it of the bytes before anybody looks at these."""
    if message.get_header(MessageHeaderKey.PAYLOAD_ENCODING) == Encoding.BYTES:
        return None
    return make_reply(ReturnCode.INVALID_REQUEST, "a datagram is bytes")
