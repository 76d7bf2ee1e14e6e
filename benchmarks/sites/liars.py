"""A member that lies: an authenticated site plays its role, and then sends what it should not.

Which lie it tells is the name of the job's run, so nothing else has to be told.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import msgspec
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.fuel.f3.message import Message
from nvflare.private.admin_defs import Message as AdminMessage
from nvflare.private.defs import (
    CellMessageHeaderKeys,
    RequestHeader,
    SysCommandTopic,
    TrainingTopic,
)

from colonnade.deployment import flare, meeting
from colonnade.deployment.cells import CellPost
from colonnade.drivers import control, courier, pace
from colonnade.drivers.couriered import GATEKEEPER
from sites import seats
from sites.ground import HOLDER

__all__ = ["FRUITLESS", "LIAR", "LIES", "Attend"]

LIAR = "shop"
COMMANDS, ADDRESS = "commands-to-a-site", "an-address-to-connect-to"
FRUITLESS = (COMMANDS, ADDRESS)
"""Lies that are to have no effect at all; other runs may end, if all are told why."""

AFTER = 12  # datagrams to the label holder that it sends as it should
_SHOWN = (
    CellMessageHeaderKeys.CLIENT_NAME,
    CellMessageHeaderKeys.TOKEN,
    CellMessageHeaderKeys.TOKEN_SIGNATURE,
)
_INTRODUCTIONS, _SEALED, _FORGED = "colonnade-introductions", "colonnade-sealed", "forged"

Lie = Callable[["Lying", bytes], None]


class Lying(CellPost):
    """Carries datagrams as it should, but after some of them it lies, once."""

    lie: Lie

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._cell._send_to_endpoint = partial(_forged, self._cell._send_to_endpoint)
        self.sent: list[tuple[str, bytes]] = []
        self.shown: dict[str, Any] = {}  # by which the server says that it is the server
        self._cell.add_incoming_filter("*", "*", self._heed)
        self._left = AFTER

    def __call__(self, peer: str, datagram: bytes) -> None:
        self.sent.append((peer, datagram))
        super().__call__(peer, datagram)
        if peer == HOLDER:
            self._left -= 1
            if self._left == 0:
                self.lie(datagram)

    def carry(self, peer: str, datagram: bytes) -> None:
        """Send a datagram as any other."""
        super().__call__(peer, datagram)

    def _heed(self, message: Message) -> None:
        origin = message.get_header(MessageHeaderKey.ORIGIN)
        if FQCN.get_root(origin) == FQCN.ROOT_SERVER:
            self.shown = {name: message.get_header(name) for name in _SHOWN}

    def ask(self, site: str, command: AdminMessage, forged: Mapping[str, Any]) -> Any:
        """Send a site's own process a request that is none of a job's; return the answer."""
        request = new_cell_message({_FORGED: dict(forged)}, command)
        channel = CellChannel.CLIENT_MAIN
        answer = self._cell.send_request(
            channel, command.topic, site, request, timeout=1.0, optional=True
        )
        return None if answer is None else answer.payload

    def push(
        self,
        peer: str,
        topic: str,
        payload: Any,
        forged: Mapping[str, Any] | None = None,
        secure: bool = True,
    ) -> None:
        """Send anything on both of our channels, with headers that the engine would not write."""
        to = self._cells[peer]
        for channel in (_INTRODUCTIONS, _SEALED):
            message = new_cell_message({_FORGED: dict(forged or {})}, payload)
            self._cell.fire_and_forget(channel, topic, to, message, secure=secure, optional=True)


def _forged(send: Callable[[Any, Message], str], to: Any, message: Message) -> str:
    """Send a message with other headers than the engine has just written."""
    for key, value in (message.headers.pop(_FORGED, None) or {}).items():
        message.set_header(key, value)
    return send(to, message)


def _chunk(number: int, awaited: int, left: int, data: bytes) -> bytes:
    return courier._HEADER.pack(courier._CHUNK, number, awaited, left, 0, 0) + data


def _next(post: Lying, peer: str) -> int:
    """Return the number of the next chunk that a peer awaits."""
    numbers = [
        courier._HEADER.unpack_from(datagram)[1]
        for to, datagram in post.sent
        if to == peer and datagram[0] == courier._CHUNK
    ]
    return max(numbers, default=-1) + 1


def _instead(peer: str, frame: Callable[[bytes], bytes]) -> Lie:
    """Send a frame of one's own to a peer, in the place of the next ones."""

    def lie(post: Lying, datagram: bytes) -> None:
        own = frame(datagram[courier._HEADER.size :])
        number = _next(post, peer)
        for due in range(number, number + 3):  # one that is due meanwhile may take its place
            post.carry(peer, _chunk(due, 0, len(own), own))

    return lie


def _to(peer: str, *datagrams: bytes) -> Lie:
    def lie(post: Lying, datagram: bytes) -> None:
        for each in datagrams:
            post.carry(peer, each)

    return lie


def _told(message: Any) -> bytes:
    return meeting.encode(message)


def _flipped(frame: bytes) -> bytes:
    changed = bytearray(frame)
    for at in range(len(changed)):
        changed[at] ^= 0x5A
    return bytes(changed)


def _noise(count: int) -> bytes:
    return random.Random(7).randbytes(count)


def _all_again(post: Lying, datagram: bytes) -> None:
    for peer, earlier in [*post.sent]:
        post.carry(peer, earlier)


def _abort() -> bytes:
    return _told(control.Abort("the liar says so"))


def _to_everybody(post: Lying, forged: Mapping[str, Any], secure: bool = True) -> None:
    """Tell all sites to abort, in every place where the word may be due."""
    for peer in ("bank", HOLDER):
        for number in range(40):
            post.push(peer, "to_role", _chunk(number, 0, len(_abort()), _abort()), forged, secure)


def _as_gatekeeper(post: Lying, datagram: bytes) -> None:
    _to_everybody(post, {})


def _in_the_gatekeepers_name(post: Lying, datagram: bytes) -> None:
    _to_everybody(post, {MessageHeaderKey.ORIGIN: post._cells[GATEKEEPER]})


def _in_its_name_and_the_clear(post: Lying, datagram: bytes) -> None:
    origin = {MessageHeaderKey.ORIGIN: post._cells[GATEKEEPER]}
    _to_everybody(post, origin, secure=False)
    _to_everybody(post, origin | {MessageHeaderKey.ENCRYPTED: True}, secure=False)
    _to_everybody(post, origin | {MessageHeaderKey.ENCRYPTED: True})


def _in_anothers_name(post: Lying, datagram: bytes) -> None:
    origin = {MessageHeaderKey.ORIGIN: post._cells["bank"]}
    post.push(HOLDER, "between", _noise(64), origin)
    post.push(GATEKEEPER, "to_gatekeeper", _noise(64), origin)


def _in_the_clear(post: Lying, datagram: bytes) -> None:
    for forged in ({}, {MessageHeaderKey.ENCRYPTED: True}):
        for secure in (True, False) if forged else (False,):
            post.push(HOLDER, "between", _noise(64), forged, secure)
            post.push(GATEKEEPER, "to_gatekeeper", _noise(64), forged, secure)


def _objects(post: Lying, datagram: bytes) -> None:
    for value in ({"a": [1, 2]}, "text", None, 7):
        post.push(HOLDER, "between", value)
        post.push(GATEKEEPER, "to_gatekeeper", value)


def _elsewhere(post: Lying, datagram: bytes) -> None:
    for topic in ("", "*", "predict", "to_role", "to_gatekeeper", "x" * 10_000):
        post.push(HOLDER, topic, _noise(64))


def _flood(post: Lying, datagram: bytes) -> None:
    number = _next(post, HOLDER) + 1  # one is left out, so that all of it has to wait
    for ahead in range(40):
        post.carry(HOLDER, _chunk(number + ahead, 0, pace.LARGEST, _noise(pace.LARGEST)))


def _commands(post: Lying, datagram: bytes) -> None:
    """Ask another site's own process for what operators ask for; spoil the run if it is done."""
    asked = [
        (SysCommandTopic.SHELL, "cat startup/client.key", {}),
        (SysCommandTopic.SHELL, "head -n 3 local/colonnade/site.yaml", {}),
        (SysCommandTopic.REPORT_ENV, "", {}),
        (TrainingTopic.CHECK_STATUS, "", {}),
        (TrainingTopic.DELETE_RUN, "", {RequestHeader.JOB_ID: "local"}),
        (
            TrainingTopic.DEPLOY,
            b"",
            {RequestHeader.JOB_ID: "local", RequestHeader.JOB_META: {"a": 1}},
        ),
        (TrainingTopic.ABORT, "", {RequestHeader.JOB_ID: FQCN.split(post._cell.my_info.fqcn)[1]}),
    ]
    as_server = {MessageHeaderKey.ORIGIN: FQCN.ROOT_SERVER}
    for topic, body, headers in asked:
        for origin in ({}, as_server, as_server | post.shown):
            command = AdminMessage(topic, body)
            for name, value in headers.items():
                command.set_header(name, value)
            answer = post.ask(HOLDER, command, origin)
            if getattr(answer, "topic", None) not in (None, "reply"):  # which refuses
                post.carry(HOLDER, _noise(300))


def _address(post: Lying, datagram: bytes) -> None:
    """Bring an address with a message; spoil the run if anybody connects to it, without TLS."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        there.settimeout(3.0)
        url = f"tcp://127.0.0.1:{there.getsockname()[1]}"
        for peer in (HOLDER, GATEKEEPER):
            post.push(peer, "between", b"", {MessageHeaderKey.CONN_URL: url})
        try:
            there.accept()
        except TimeoutError:
            return
    post.carry(HOLDER, _noise(300))


LIES: Mapping[str, Lie] = MappingProxyType(
    {
        "noise-to-a-site": _to(HOLDER, _noise(300)),
        "noise-to-the-server": _to(GATEKEEPER, _noise(300)),
        "three-bytes-to-a-site": _to(HOLDER, b"abc"),
        "three-bytes-to-the-server": _to(GATEKEEPER, b"abc"),
        "it-awaits-what-was-not-sent": _to(HOLDER, _chunk(10**6, 10**9, 4, b"abcd")),
        "a-frame-of-4-gigabytes": lambda post, _: post.carry(
            HOLDER, _chunk(_next(post, HOLDER), 0, 2**32 - 1, _noise(pace.LARGEST))
        ),
        "a-frame-of-4-gigabytes-to-the-server": lambda post, _: post.carry(
            GATEKEEPER, _chunk(_next(post, GATEKEEPER), 0, 2**32 - 1, _noise(pace.LARGEST))
        ),
        "a-datagram-of-64-megabytes": _to(HOLDER, _chunk(10**6, 0, 2**26, bytes(2**26))),
        "40-megabytes-ahead": _flood,
        "a-frame-that-is-changed": _instead(HOLDER, _flipped),
        "a-frame-of-noise-to-the-server": _instead(GATEKEEPER, lambda _: _noise(500)),
        "an-object-of-nothing-to-the-server": _instead(
            GATEKEEPER, lambda _: msgspec.msgpack.encode({"type": "Brings"})
        ),
        "a-word-out-of-turn": _instead(GATEKEEPER, lambda _: _told(meeting.Concluding())),
        "words-of-the-server-to-the-server": _instead(
            GATEKEEPER, lambda _: _told(meeting.Go(3, 4))
        ),
        "words-of-the-server-to-sites": _as_gatekeeper,
        "all-again": _all_again,
        "in-the-clear": _in_the_clear,
        "in-the-name-of-another-site": _in_anothers_name,
        "in-the-name-of-the-server": _in_the_gatekeepers_name,
        "in-its-name-and-in-the-clear": _in_its_name_and_the_clear,
        "objects": _objects,
        "other-topics": _elsewhere,
        COMMANDS: _commands,
        ADDRESS: _address,
    }
)


class Attend(seats.Attend):
    """A site's part of a job; the liar's site lies."""

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:
        given = (task_name, shareable, fl_ctx, abort_signal)
        if fl_ctx.get_identity_name() != LIAR:
            return super().execute(*given)
        post = type("Post", (Lying,), {"lie": LIES[flare._job(fl_ctx).run]})
        with patch.object(flare, "CellPost", post):
            return super().execute(*given)
