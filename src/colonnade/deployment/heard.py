"""Who may ask FLARE's processes for what: what jobs of Colonnade's need, and nothing besides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from nvflare.apis.fl_constant import ReservedTopic, ServerCommandNames
from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.streaming.download_service import (
    OBJ_DOWNLOADER_CHANNEL,
    OBJ_DOWNLOADER_TOPIC,
)
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_ACK_TOPIC,
    STREAM_CHANNEL,
    STREAM_ERROR_TOPIC,
)
from nvflare.fuel.utils.admin_name_utils import is_valid_admin_client_name
from nvflare.private.stream_runner import TOPIC_STREAM_ABORT, TOPIC_STREAM_REQUEST

from colonnade.deployment.channels import CHANNELS

__all__ = ["may_ask"]

_ANY = None  # topic
_Asked = Mapping[str, frozenset[str] | None]  # topics by channel


def _list(*parts: _Asked) -> _Asked:
    return MappingProxyType({channel: topics for part in parts for channel, topics in part.items()})


_LEAVES = {CellChannel.CELLNET: frozenset({CellChannelTopic.Bye})}  # who is connected to it
_ANSWERS = {
    STREAM_CHANNEL: frozenset({STREAM_ACK_TOPIC, STREAM_ERROR_TOPIC}),
    CellChannel.RETURN_ONLY: _ANY,
}
_TELLS_IN_VAIN = {STREAM_CHANNEL: frozenset({STREAM_ERROR_TOPIC})}  # to whom nobody is there
_ENTERS = frozenset({CellChannelTopic.Challenge, CellChannelTopic.Register})
_IS_THERE = frozenset(
    {CellChannelTopic.Quit, CellChannelTopic.HEART_BEAT, CellChannelTopic.REPORT_JOB_FAILURE}
)
_OPERATES = {
    CellChannel.HCI: _ANY,
    CellChannel.AUX_COMMUNICATION: frozenset({TOPIC_STREAM_REQUEST, TOPIC_STREAM_ABORT}),
    OBJ_DOWNLOADER_CHANNEL: frozenset({OBJ_DOWNLOADER_TOPIC}),
}
_IS_OPERATED = {CellChannel.HCI: frozenset({"SESSION_EXPIRED"})}
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

_OF_A_STRANGER = _list(_LEAVES)
_OF_A_MEMBER = _list(_LEAVES, {CellChannel.SERVER_MAIN: _ENTERS | _IS_THERE})
_OF_AN_OPERATOR = _list(_LEAVES, {CellChannel.SERVER_MAIN: _ENTERS}, _ANSWERS, _OPERATES)
_OF_THE_SERVER = _list(_LEAVES, {CellChannel.CLIENT_MAIN: _ANY})  # a site's guard looks again
_OF_THE_OPERATED = _list(_LEAVES, _ANSWERS, _IS_OPERATED)
_OF_A_SEAT = _list(_LEAVES, _ANSWERS, _CONVERSES, _WORKS)
_OF_THE_HOST = _list(_LEAVES, _ANSWERS, _CONVERSES, _PRESIDES)
_OF_ANOTHER_SEAT = _list(_LEAVES, _CONVERSES)
_OF_WHO_PASSES_ON = _list(_LEAVES, _TELLS_IN_VAIN)


def may_ask(own: str, origin: str, channel: str, topic: str, sites: Collection[str] = ()) -> bool:
    """Whether a cell may be asked for something by another.

    Parameters
    ----------
    own, origin
        Names of cells: ``server`` and a site's name are processes of organisations, with the number
        of a job they are processes of it.
    channel, topic
        What is asked for.
    sites
        Those of the job, as a process of it knows them.

    Examples
    --------
    >>> may_ask("bank", "server", "admin", "train.start")
    True
    >>> may_ask("bank", "shop", "admin", "train.start")
    False
    >>> may_ask("server.7", "shop.7", "server_command", "get_task", sites=["shop"])
    True
    """
    mine, whose = FQCN.split(own), FQCN.split(origin)
    if mine[0] == whose[0]:
        return True
    asked = _list_of(mine, whose, sites)
    if channel not in asked:
        return False
    topics = asked[channel]
    return topics is None or topic in topics


def _list_of(mine: list[str], whose: list[str], sites: Collection[str]) -> _Asked:
    """Return what one cell may ask of another organisation's."""
    to_server, by_server = (name[0] == FQCN.ROOT_SERVER for name in (mine, whose))
    if mine[1:] != whose[1:]:  # a job's process and one that is none of this job
        passes_on = len(whose) == 1 and whose[0] in (FQCN.ROOT_SERVER, *sites)
        return _OF_WHO_PASSES_ON if passes_on else _OF_A_STRANGER
    if len(mine) > 1:
        if by_server:
            return _OF_THE_HOST
        if whose[0] not in sites:
            return _OF_A_STRANGER
        return _OF_A_SEAT if to_server else _OF_ANOTHER_SEAT
    if to_server:
        return _OF_AN_OPERATOR if is_valid_admin_client_name(whose[0]) else _OF_A_MEMBER
    if not by_server:
        return _OF_A_STRANGER
    return _OF_THE_OPERATED if is_valid_admin_client_name(mine[0]) else _OF_THE_SERVER
