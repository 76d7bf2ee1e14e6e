"""What may be asked of a site's own process of FLARE's, in which no job runs.

FLARE lets an operator, and whoever has a cell of the federation, as a member's process or the
server's, have that process read files, delete folders, or call parts of a job: whether a right is
needed is said by who asks. So a ``Guard``, which ``colonnade prepare-kit`` puts into a site's
settings, hears each request first, and lets pass what it takes to run jobs and to end the site, if
it comes from the server and is about a job by such a name as FLARE gives.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message as CellMessage
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import (
    RequestHeader,
    SysCommandTopic,
    TrainingTopic,
    new_cell_message,
)

from colonnade.telling import short

__all__ = ["Guard"]

_PASSES = frozenset(
    {
        TrainingTopic.ABORT,
        TrainingTopic.ABORT_TASK,
        TrainingTopic.CANCEL_RESOURCE,
        TrainingTopic.CHECK_RESOURCE,
        TrainingTopic.CHECK_STATUS,
        TrainingTopic.DEPLOY,
        TrainingTopic.GET_SCOPES,
        TrainingTopic.NOTIFY_JOB_STATUS,
        TrainingTopic.RESTART,
        TrainingTopic.SHUTDOWN,
        TrainingTopic.START,
        TrainingTopic.START_JOB,
        SysCommandTopic.REPORT_RESOURCES,
        SysCommandTopic.REPORT_VERSION,
    }
)
_JOB = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # it names a folder of the kit
_log = logging.getLogger(__name__)


class Guard(FLComponent):  # type: ignore[misc]  # untyped in FLARE
    """Refuses what nobody has to ask of a site."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen before anybody else does."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            cell = fl_ctx.get_prop(FLContextKey.SITE_OBJ).cell.core_cell
            cell.add_incoming_request_filter(CellChannel.CLIENT_MAIN, "*", _refusal)


def _refusal(request: CellMessage) -> CellMessage | None:
    """Return the answer to what is refused; None to what is not."""
    origin = request.get_header(MessageHeaderKey.ORIGIN)
    asked = request.payload
    topic = asked.topic if isinstance(asked, Message) else None
    if origin == FQCN.ROOT_SERVER and topic in _PASSES and _is_of_a_job(asked):
        return None
    _log.warning("refused %s, asked by %s", short(repr(topic)), short(repr(origin)))
    return new_cell_message({}, error_reply(f"a site of Colonnade's does not do {topic}"))


def _is_of_a_job(asked: Any) -> bool:
    job = asked.get_header(RequestHeader.JOB_ID)
    return job is None or (isinstance(job, str) and _JOB.fullmatch(job) is not None)
