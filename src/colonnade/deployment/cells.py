"""FLARE's cells as a post: datagrams by pushes on a channel of our own.

A cell is a process of a job, known by its name among cells (its FQCN). Two introduce themselves,
signed by the sender and encrypted for the receiver, by the certificates of their sites; datagrams
are sealed under keys that the two agreed on so (``secure.Conversation``): the engine's signatures
would take half the time of a round. A server that passes a datagram on can neither read nor forge
it, nor bring one of another job. That a certificate is of the site that a cell is called after is
looked at where connections are secured by mutual TLS alone: so a cell that is not is refused.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import Encoding, MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.identity import is_mtls_config
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message
from nvflare.fuel.f3.message import Message

from colonnade.deployment.channels import INTRODUCTIONS, SEALED
from colonnade.drivers.couriered import GATEKEEPER
from colonnade.errors import ConfigurationError
from colonnade.secure import AGREEMENT_BYTES, Conversation, context

__all__ = ["CellPost", "cell_of_server", "cell_of_site"]

_MOST = 64  # datagrams that are kept for a peer until it is known; others are lost
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
        about = context("cells", *(word for pair in sorted(cells.items()) for word in pair))
        self._talks = {
            peer: Conversation(own, peer, about, secrets.token_bytes(AGREEMENT_BYTES))
            for peer in cells
            if peer != own
        }
        self._kept: dict[str, deque[bytes]] = {peer: deque(maxlen=_MOST) for peer in self._talks}
        self._talking = threading.Lock()

    def __call__(self, peer: str, datagram: bytes) -> None:
        """Send a datagram; one that cannot be sent now is lost."""
        if self._cells[peer] == self._cells[self._own]:
            self._here[peer](self._own, datagram)
            return
        with self._talking:
            self._kept[peer].append(datagram)
        if not self._send_kept(peer):
            self._introduce(peer)

    def listen(self, receive: Callable[[str, bytes], None]) -> None:
        """Hand over what comes from now on: who sent it, and the datagram."""
        self._here[self._own] = receive
        self._cell.add_incoming_filter(INTRODUCTIONS, "*", _refused_unless_encrypted)
        for channel in (INTRODUCTIONS, SEALED):
            self._cell.add_incoming_filter(channel, "*", _refused_unless_bytes)
            if self._own == GATEKEEPER:
                self._hear(channel, _TO_GATEKEEPER, self._names.get, receive)
                continue
            self._hear(channel, _TO_ROLE, {self._cells[GATEKEEPER]: GATEKEEPER}.get, receive)
            self._hear(channel, _BETWEEN, self._names.get, receive)

    def _hear(
        self,
        channel: str,
        topic: str,
        sender: Callable[[str], str | None],
        receive: Callable[[str, bytes], None],
    ) -> None:
        """Take what comes here, of whom it is by the name of a cell."""

        def heard(message: Message) -> None:
            name = sender(str(message.get_header(MessageHeaderKey.ORIGIN)))
            payload: Any = message.payload
            if name not in self._talks or not isinstance(payload, bytes | bytearray | memoryview):
                return
            if channel == INTRODUCTIONS:
                self._meet(name, bytes(payload))
                return
            with self._talking:
                datagram = self._talks[name].opened(bytes(payload))
            if datagram is not None:
                receive(name, datagram)
                self._send_kept(name)

        self._cell.register_request_cb(channel, topic, heard)

    def _meet(self, peer: str, introduction: bytes) -> None:
        """Take an introduction, and say to who is known now what was kept for it."""
        with self._talking:
            should_answer = self._talks[peer].introduced(introduction)
        if should_answer:
            self._introduce(peer)
        self._send_kept(peer)

    def _introduce(self, peer: str) -> None:
        with self._talking:
            body = self._talks[peer].introduction()
        self._push(INTRODUCTIONS, peer, body)

    def _send_kept(self, peer: str) -> bool:
        """Send what is kept for a peer, if it is known; return whether it is."""
        talk, kept = self._talks[peer], self._kept[peer]
        with self._talking:
            bodies = [talk.sealed(kept.popleft()) for _ in range(len(kept))] if talk.seals else []
            is_known = talk.seals
        for body in bodies:
            self._push(SEALED, peer, body)
        return is_known

    def _push(self, channel: str, peer: str, body: bytes) -> None:
        """Send what is sealed as it is, and an introduction signed and encrypted by the engine."""
        message, to = new_cell_message({}, body), self._cells[peer]
        topic, secure = self._topic(self._own, peer), channel == INTRODUCTIONS
        self._cell.fire_and_forget(channel, topic, to, message, secure=secure, optional=True)

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
    return make_reply(ReturnCode.UNAUTHENTICATED, "an introduction is encrypted for its receiver")


def _refused_unless_bytes(message: Message) -> Message | None:
    """Answer what is an object: a cell would make it of the bytes before anybody looks at these."""
    if message.get_header(MessageHeaderKey.PAYLOAD_ENCODING) == Encoding.BYTES:
        return None
    return make_reply(ReturnCode.INVALID_REQUEST, "a datagram is bytes")
