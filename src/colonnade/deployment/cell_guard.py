"""A guard at each cell of FLARE's: what comes in is looked at before any of it is decoded.

FLARE believes a message to be of the cell that it says it is of; what would prove another is in
every message that the server sends, for anybody to say after it. It connects to whatever address a
message brings, without certificates; calls whatever its parts have registered; decodes answers that
nobody waits for, and writes files that stand in what it decodes. Of who says that a message is
encrypted it waits an hour for a certificate. It takes who has any certificate of the federation for
an operator, and lets one take the place of another who is connected. So, in a process that has a
guard, who is said to speak has to be of the organisation whose certificate the connection has;
addresses are taken out; what is not on the list of ``heard`` is dropped, as is an answer to
nothing, and what is encrypted and need not be; no file stands in a message; and operators are whose
certificates say so.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from nvflare.fuel.f3.cellnet import core_cell
from nvflare.fuel.f3.cellnet.core_cell import CertificateExchanger, CoreCell
from nvflare.fuel.f3.cellnet.credential_manager import CERT_REQ_TIMEOUT
from nvflare.fuel.f3.cellnet.defs import (
    CellChannel,
    CellChannelTopic,
    Encoding,
    MessageHeaderKey,
    MessageType,
)
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.identity import CellIdentityResolver
from nvflare.fuel.f3.connection import Connection
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_CHANNEL,
    STREAM_DATA_TOPIC,
    StreamDataType,
    StreamHeaderKey,
)
from nvflare.fuel.utils.admin_name_utils import is_valid_admin_client_name
from nvflare.fuel.utils.fobs import lobs
from nvflare.private import stream_runner
from nvflare.private.defs import CellMessageHeaderKeys, ClientType

from colonnade.deployment.channels import INTRODUCTIONS
from colonnade.deployment.few_words import LONGEST, guard_words
from colonnade.deployment.frames_read import guard_frames
from colonnade.deployment.heard import may_ask
from colonnade.deployment.held_up import guard_connections, speaking_for
from colonnade.deployment.job_numbers import LARGEST
from colonnade.deployment.plain_logs import guard_logs
from colonnade.deployment.streams_kept import guard_streams
from colonnade.errors import ConfigurationError
from colonnade.telling import short

__all__ = ["check_guarded", "guard_cells", "let_in"]

_MOST = 2**16  # operators' connections that are remembered
_HOPS = 16  # from one cell to another
_ON = (
    MessageHeaderKey.CHANNEL,
    MessageHeaderKey.TOPIC,
    StreamHeaderKey.CHANNEL,
    StreamHeaderKey.TOPIC,
)
_PIECE = (
    StreamHeaderKey.STREAM_ID,
    StreamHeaderKey.SEQUENCE,
    StreamHeaderKey.DATA_TYPE,
    StreamHeaderKey.SIZE,
)
_ENCODINGS = (MessageHeaderKey.PAYLOAD_ENCODING, StreamHeaderKey.PAYLOAD_ENCODING)
_MOST_OBJECTS = 2**18  # bytes that FLARE makes objects of: honest ones are 10 KB, or bring a job
_SECRECY = (MessageHeaderKey.SECURE, MessageHeaderKey.ENCRYPTED)
_LINES = 32  # about what is dropped of one organisation; then a line each time it is twice as much

_log = logging.getLogger(__name__)
_sites: set[str] = set()  # of the job whose process this is
_operators: dict[str, str] = {}  # by the name of a cell
_dropped: Counter[str] = Counter()  # by whose connection they came
_counting = threading.Lock()


def guard_cells() -> None:
    """Let each cell of this process hear what is on the list, and nothing else.

    A site's process, the server's, those of jobs and an operator's do so before they have a cell.
    """
    if not _is_guarded():
        CoreCell.process_message = _guarded(CoreCell.process_message)
        CellIdentityResolver.require_match = _matched(CellIdentityResolver.require_match)
        CertificateExchanger.exchange_certificate = _exchanged
        core_cell._is_failed_cert_exchange = _is_no_reason_to_hang_up
        lobs.get_datum_dir = _refuse_file
        lobs.get_dot_handler = _refuse_download
        stream_runner.Lock = threading.RLock  # who sends a first piece twice had it wait for itself
        guard_connections()
        guard_words()
        guard_frames()
        guard_streams()
        guard_logs()


def check_guarded() -> None:
    """Raise ``ConfigurationError`` if this process hears whatever it is told."""
    if not _is_guarded():
        raise ConfigurationError(
            "Colonnade's guard is not in the settings of this kit: let `colonnade prepare-kit` "
            "prepare it again, of the server and of every site, and start FLARE anew"
        )


def let_in(sites: Iterable[str]) -> None:
    """Let a process of a job hear these sites; before, it hears none."""
    _sites.clear()
    _sites.update(sites)


def _is_guarded() -> bool:
    return hasattr(CoreCell.process_message, "__wrapped__")


def _guarded(hear: Callable[..., None]) -> Callable[..., None]:
    @wraps(hear)
    def process_message(
        self: CoreCell, endpoint: Endpoint, connection: Any, app_id: int, message: Message
    ) -> None:
        try:
            dropped = _why_dropped(self, endpoint, connection, message)
        except Exception as error:  # it is made so that it cannot be looked at
            dropped = type(error).__name__
        if dropped is None:
            with speaking_for(FQCN.get_root(endpoint.name)):
                hear(self, endpoint, connection, app_id, message)
        elif dropped:
            _tell_dropped(endpoint.name, dropped)

    return process_message


def _why_dropped(
    cell: CoreCell, endpoint: Endpoint, connection: Connection | None, message: Message
) -> str | None:
    """Return why a message is dropped; nothing of what is usual; None where it is heard."""
    own, by = cell.my_info.fqcn, endpoint.name
    origin = message.get_header(MessageHeaderKey.ORIGIN)
    if not isinstance(origin, str) or not _may_bring(*map(FQCN.get_root, (own, by, origin))):
        return f"it is said to be of {short(repr(origin))}"
    _take_off(message)
    on = map(message.get_header, _ON)
    if any(isinstance(each, str) and len(each) > LONGEST for each in on):
        return "no channel or topic has so long a name"
    destination = message.get_header(MessageHeaderKey.DESTINATION)
    if not isinstance(destination, str):
        return f"it is for {short(repr(destination))}"
    if destination != own:
        return "it is to be encrypted on its way" if _is_to_be_encrypted(message) else None
    may_stream = _may_stream(*map(FQCN.get_root, (own, origin)))
    if not may_stream:
        if _is_of_too_many_objects(message, origin):
            return f"{short(repr(origin))} says more than anybody has to"
        message.remove_header(StreamHeaderKey.RELIABLE)  # a thread would wait for what came to come
    kind = message.get_header(MessageHeaderKey.MSG_TYPE)
    if kind != MessageType.REQ:
        is_answer = _is_awaited(cell, origin, kind, message) and not _is_to_be_decrypted(message)
        return None if is_answer else ""  # it may come too late
    channel, topic = _asked_on(message)
    if not (
        isinstance(channel, str)
        and isinstance(topic, str)
        and may_ask(own, origin, channel, topic, _sites)
        and (channel == INTRODUCTIONS or not _is_to_be_decrypted(message))
        and (channel != CellChannel.CELLNET or by == origin)  # a neighbour's goodbye, and its own
        and (channel != CellChannel.SERVER_MAIN or _names_itself(connection, topic, message))
        and (may_stream or _is_whole(message))
    ):
        said = (short(repr(each)) for each in (topic, channel, origin))
        return "{} on {}, asked by {}".format(*said)
    return None


def _take_off(message: Message) -> None:
    """Take off a message what FLARE would do or keep by it before anybody hears it."""
    message.remove_header(MessageHeaderKey.CONN_URL)  # FLARE would connect to it, without TLS
    for header in (StreamHeaderKey.RETRY_WAIT, StreamHeaderKey.RETRY_TIMEOUT):
        message.remove_header(header)  # for as long a thread would wait
    if not _is_way(message.get_header(MessageHeaderKey.ROUTE)):
        message.remove_header(MessageHeaderKey.ROUTE)


def _is_way(route: Any) -> bool:
    """Whether it says by which cells a message came and when, as FLARE counts by it."""
    return (
        isinstance(route, list)
        and 0 < len(route) <= _HOPS
        and all(isinstance(each, list | tuple) and len(each) == 2 for each in route)
        and all(isinstance(name, str) and len(name) <= LONGEST for name, _ in route)
        and all(isinstance(when, int | float) and 0 <= when < 2**40 for _, when in route)
    )


def _tell_dropped(by: str, why: str) -> None:
    """Say it in the log, which nobody may fill."""
    whose = FQCN.get_root(by)
    with _counting:
        _dropped[whose] += 1
        many = _dropped[whose]
        if len(_dropped) > _MOST:
            _dropped.clear()
    if many <= _LINES or many.bit_count() == 1:
        _log.warning("dropped what came by %s, %d so far: %s", short(repr(by)), many, why)


def _may_bring(own: str, by: str, origin: str) -> bool:
    """Whether who is connected has said it, or passes it on.

    The server passes on what others say, and nothing in the name of who hears it.
    """
    return by in (origin, own) or (by == FQCN.ROOT_SERVER and origin != own)


def _is_awaited(cell: CoreCell, origin: str, kind: str, message: Message) -> bool:
    """Whether somebody waits for an answer of who gives it, or has it back of who passes on."""
    numbers, of = message.get_header(MessageHeaderKey.REQ_ID), origin
    if kind not in (MessageType.REPLY, MessageType.RETURN):
        return False
    code = message.get_header(MessageHeaderKey.RETURN_CODE, "")
    if not isinstance(code, str) or len(code) > LONGEST:  # FLARE counts answers by it
        return False
    if kind == MessageType.RETURN:
        if FQCN.get_root(origin) not in (FQCN.ROOT_SERVER, FQCN.get_root(cell.my_info.fqcn)):
            return False
        of = message.get_header(MessageHeaderKey.ORIGINAL_HEADERS)[MessageHeaderKey.DESTINATION]
    waiters = [cell.waiters.get(n) for n in ([numbers] if isinstance(numbers, str) else numbers)]
    return bool(waiters) and all(waiter and of in waiter.targets for waiter in waiters)


def _names_itself(connection: Connection | None, topic: str, message: Message) -> bool:
    """Whether who joins is called as its certificate is; a process of our own has none."""
    if message.get_header(MessageHeaderKey.SERVER_TRANSIT_REQUIRED):  # FLARE would forget the name
        return False
    name = message.get_header(CellMessageHeaderKeys.CLIENT_NAME)
    shown: Any = connection and connection.get_conn_properties().get(DriverParams.PEER_CN.value)
    enters = topic in (CellChannelTopic.Challenge, CellChannelTopic.Register)
    if topic == CellChannelTopic.Register:
        sort = message.get_header(CellMessageHeaderKeys.CLIENT_TYPE)
        return bool(name == shown) and (sort == ClientType.ADMIN) == _is_of_an_operator(shown)
    if name is None:
        return enters
    return bool(name == shown) and (enters or not _is_of_an_operator(shown))


def _is_of_an_operator(certificate: str | None) -> bool:
    """Whether who has a certificate of this name operates: FLARE calls them so, and nobody else."""
    return "@" in (certificate or "")


def _is_to_be_encrypted(message: Message) -> bool:
    """Whether FLARE, as it passes it on, would ask for a certificate, and have a thread wait."""
    secure, is_encrypted = map(message.get_header, _SECRECY)
    return bool(secure) and not is_encrypted


def _is_to_be_decrypted(message: Message) -> bool:
    """Whether FLARE would ask for a certificate, and have a thread wait for it."""
    return any(map(message.get_header, _SECRECY))


def _is_whole(message: Message) -> bool:
    """Whether no piece is to come: FLARE waits for one at the end, and keeps room for all."""
    if message.get_header(MessageHeaderKey.TOPIC) != STREAM_DATA_TOPIC:
        return True
    number, *said = map(message.get_header, _PIECE)
    size = len(message.payload or b"")  # a refusal brings none
    return (
        said == [0, StreamDataType.FINAL, size]
        and all(type(each) is int for each in (number, *said))
        and message.get_header(StreamHeaderKey.ERROR_MSG) is None
    )


def _is_of_too_many_objects(message: Message, origin: str) -> bool:
    """Whether FLARE would make objects of many bytes, of one of which it makes up to 77.

    Nothing else in the process goes on meanwhile.
    """
    if not any(message.get_header(header) == Encoding.FOBS for header in _ENCODINGS):
        return False
    brings_jobs = (origin, _asked_on(message)[0]) == (FQCN.ROOT_SERVER, CellChannel.CLIENT_MAIN)
    return len(message.payload or b"") > _MOST_OBJECTS + (LARGEST if brings_jobs else 0)


def _may_stream(own: str, origin: str) -> bool:
    """Whether pieces may come of who speaks: of an operator, to one, and of ourselves.

    A job's process at the server has what sites say from the server's own, which passes it on.
    """
    return origin == own or origin in _operators or is_valid_admin_client_name(own)


def _asked_on(message: Message) -> tuple[Any, Any]:
    """Return the channel and the topic of a request, also of one that comes as a stream."""
    on = (MessageHeaderKey.CHANNEL, MessageHeaderKey.TOPIC)
    if tuple(map(message.get_header, on)) == (STREAM_CHANNEL, STREAM_DATA_TOPIC):
        on = (StreamHeaderKey.CHANNEL, StreamHeaderKey.TOPIC)
    return message.get_header(on[0]), message.get_header(on[1])


def _matched(match: Callable[..., None]) -> Callable[..., None]:
    @wraps(match)
    def require_match(self: CellIdentityResolver, fqcn: str, peer_cn: str, peer_desc: str) -> None:
        match(self, fqcn, peer_cn, peer_desc)
        if not is_valid_admin_client_name(fqcn):
            return
        if not _is_of_an_operator(peer_cn):
            raise ValueError(f"{peer_desc} is no operator's: {short(repr(peer_cn))}")
        if _operators.setdefault(fqcn, peer_cn) != peer_cn:
            raise ValueError(f"{peer_desc} takes the place of another operator")
        if len(_operators) > _MOST:
            del _operators[next(iter(_operators))]

    return require_match


def _exchanged(self: CertificateExchanger, target: str) -> bytes:
    """Return the certificate of another cell, as FLARE does, but not after an hour."""
    asked = Message(None, self.credential_manager.create_request())
    on = (core_cell._SM_CHANNEL, core_cell._SM_TOPIC)
    answer = self.core_cell.send_request(*on, target, asked, timeout=CERT_REQ_TIMEOUT)
    if not answer.payload:
        code = answer.get_header(MessageHeaderKey.RETURN_CODE)
        raise RuntimeError(f"no certificate came of {short(repr(target))}: {code}")
    certificate: bytes = self.credential_manager.process_response(answer)
    return certificate


def _is_no_reason_to_hang_up(channel: str, topic: str, reply: Message) -> bool:
    """Tell FLARE to keep a connection by which a certificate came that is none: others share it."""
    return False


def _refuse_file() -> str:
    raise ValueError("no file stands in a message of Colonnade's")


def _refuse_download(kind: int) -> None:
    raise ValueError("nothing in a message of Colonnade's is to be downloaded")
