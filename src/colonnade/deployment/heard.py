"""What FLARE's processes hear, and of whom: what jobs of Colonnade's need, and nothing besides.

FLARE believes a message to be of the cell that it says it is of; what would prove another is in
every message that the server sends, for anybody to say after it. It connects to whatever address a
message brings, without certificates, and calls whatever its parts have registered. So each cell of
a process with Colonnade's guard looks at what comes in, before any of it is decoded or passed on:
who is said to ask has to be of the organisation whose certificate the connection has, addresses
are taken out, and what is not on the list of who may ask what is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any

from nvflare.apis.fl_constant import ReservedTopic, ServerCommandNames
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import (
    CellChannel,
    CellChannelTopic,
    MessageHeaderKey,
    MessagePropKey,
    MessageType,
)
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_ACK_TOPIC,
    STREAM_CHANNEL,
    STREAM_DATA_TOPIC,
    STREAM_ERROR_TOPIC,
    StreamHeaderKey,
)
from nvflare.fuel.utils.admin_name_utils import is_valid_admin_client_name
from nvflare.private.stream_runner import TOPIC_STREAM_ABORT, TOPIC_STREAM_REQUEST

from colonnade.deployment.cells import CHANNELS
from colonnade.errors import ConfigurationError
from colonnade.telling import short

__all__ = ["check_guarded", "guard_cells", "may_ask"]

_ANY = None  # topic
_Asked = Mapping[str, frozenset[str] | None]  # topics by channel


def _list(*parts: _Asked) -> _Asked:
    return MappingProxyType({channel: topics for part in parts for channel, topics in part.items()})


_LEAVES = {CellChannel.CELLNET: frozenset({CellChannelTopic.Bye})}  # who is connected to it
_ANSWERS = {
    STREAM_CHANNEL: frozenset({STREAM_ACK_TOPIC, STREAM_ERROR_TOPIC}),
    CellChannel.RETURN_ONLY: _ANY,
}
_JOINS = {
    CellChannel.SERVER_MAIN: frozenset(
        {
            CellChannelTopic.Challenge,
            CellChannelTopic.Register,
            CellChannelTopic.Quit,
            CellChannelTopic.HEART_BEAT,
            CellChannelTopic.REPORT_JOB_FAILURE,
        }
    )
}
_OPERATES = {
    CellChannel.HCI: _ANY,
    CellChannel.AUX_COMMUNICATION: frozenset({TOPIC_STREAM_REQUEST, TOPIC_STREAM_ABORT}),
}
_WORKS = {
    CellChannel.SERVER_COMMAND: frozenset(
        {ServerCommandNames.GET_TASK, ServerCommandNames.SUBMIT_UPDATE}
    ),
    CellChannel.AUX_COMMUNICATION: frozenset(
        {ReservedTopic.SYNC_RUNNER, ReservedTopic.JOB_HEART_BEAT, ReservedTopic.TASK_CHECK}
    ),
}
_PRESIDES = {
    CellChannel.AUX_COMMUNICATION: frozenset({ReservedTopic.END_RUN, ReservedTopic.DO_TASK})
}
_CONVERSES = dict.fromkeys(CHANNELS, _ANY)

_OF_A_STRANGER, _OF_A_MEMBER = _list(_LEAVES), _list(_LEAVES, _JOINS)
_OF_AN_OPERATOR = _list(_LEAVES, _JOINS, _ANSWERS, _OPERATES)
_OF_THE_SERVER = _list(_LEAVES, {CellChannel.CLIENT_MAIN: _ANY})  # a site's guard looks again
_OF_A_SEAT = _list(_LEAVES, _ANSWERS, _CONVERSES, _WORKS)
_OF_THE_HOST = _list(_LEAVES, _ANSWERS, _CONVERSES, _PRESIDES)
_OF_ANOTHER_SEAT = _list(_LEAVES, _CONVERSES)

_log = logging.getLogger(__name__)


def guard_cells() -> None:
    """Let each cell that begins in this process hear what is on the list, and nothing else.

    A site's process, the server's and those of jobs make their guard before their cell, and tell
    nobody that the cell is there before it hears.
    """
    begin = CoreCell.start
    if hasattr(begin, "__wrapped__"):
        return

    @wraps(begin)
    def begin_guarded(cell: CoreCell) -> Any:
        cell.add_incoming_filter("*", "*", _sift, cell.my_info.fqcn)
        return begin(cell)

    CoreCell.start = begin_guarded


def check_guarded(cell: CoreCell) -> None:
    """Raise ``ConfigurationError`` if a cell hears whatever it is told."""
    filters = cell.in_filter_reg.find("*", "*") or ()
    if not any(each.cb is _sift for each in filters):
        raise ConfigurationError(
            "Colonnade's guard is not in the settings of this kit: let `colonnade prepare-kit` "
            "prepare it again, of the server and of every site, and start FLARE anew"
        )


def may_ask(own: str, origin: str, channel: str, topic: str) -> bool:
    """Whether a cell may be asked for something by another.

    Parameters
    ----------
    own, origin
        Names of cells: ``server`` and a site's name are processes of organisations, with the number
        of a job they are processes of it.
    channel, topic
        What is asked for.

    Examples
    --------
    >>> may_ask("bank", "server", "admin", "train.start")
    True
    >>> may_ask("bank", "shop", "admin", "train.start")
    False
    """
    mine, whose = FQCN.split(own), FQCN.split(origin)
    if mine[0] == whose[0]:
        return True
    asked = _list_of(mine, whose)
    if channel not in asked:
        return False
    topics = asked[channel]
    return topics is None or topic in topics


def _list_of(mine: list[str], whose: list[str]) -> _Asked:
    """Return what one cell may ask of another organisation's."""
    to_server, by_server = (name[0] == FQCN.ROOT_SERVER for name in (mine, whose))
    if mine[1:] != whose[1:]:  # a job's process and one that is none of this job
        return _OF_A_STRANGER
    if len(mine) > 1:
        return _OF_A_SEAT if to_server else _OF_THE_HOST if by_server else _OF_ANOTHER_SEAT
    if to_server:
        return _OF_AN_OPERATOR if is_valid_admin_client_name(whose[0]) else _OF_A_MEMBER
    return _OF_THE_SERVER if by_server else _OF_A_STRANGER


def _sift(message: Message, own: str) -> Message | None:
    """Return a message that is to be dropped; None for one that is heard, or passed on."""
    origin = message.get_header(MessageHeaderKey.ORIGIN)
    by = message.get_prop(MessagePropKey.ENDPOINT).name
    passes_on = (FQCN.get_root(own), FQCN.ROOT_SERVER)
    if not isinstance(origin, str) or FQCN.get_root(by) not in (FQCN.get_root(origin), *passes_on):
        _log.warning("dropped what is said to be of %s, and is not", short(repr(origin)))
        return message
    message.remove_header(MessageHeaderKey.CONN_URL)  # FLARE would connect to it, without TLS
    answers = (MessageType.REPLY, MessageType.RETURN)
    if (
        message.get_header(MessageHeaderKey.DESTINATION) != own
        or message.get_header(MessageHeaderKey.MSG_TYPE) in answers
    ):
        return None
    channel, topic = _asked_on(message)
    if (
        isinstance(channel, str)
        and isinstance(topic, str)
        and may_ask(own, origin, channel, topic)
        and (channel != CellChannel.CELLNET or by == origin)  # a neighbour's goodbye, and its own
    ):
        return None
    said = (short(repr(each)) for each in (topic, channel, origin))
    _log.warning("dropped %s on %s, asked by %s", *said)
    return message


def _asked_on(message: Message) -> tuple[Any, Any]:
    """Return the channel and the topic of a request, also of one that comes as a stream."""
    on = (MessageHeaderKey.CHANNEL, MessageHeaderKey.TOPIC)
    if tuple(map(message.get_header, on)) == (STREAM_CHANNEL, STREAM_DATA_TOPIC):
        on = (StreamHeaderKey.CHANNEL, StreamHeaderKey.TOPIC)
    return message.get_header(on[0]), message.get_header(on[1])
