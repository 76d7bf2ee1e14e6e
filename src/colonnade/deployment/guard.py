"""What may be asked of a site's own process of FLARE's, in which no job runs.

FLARE lets an operator, and whoever has a cell of the federation, as a member's process or the
server's, have that process read files, delete folders, or call parts of a job: whether a right is
needed is said by who asks. So a ``Guard``, which ``colonnade prepare-kit`` puts into a site's
settings, hears each request first, and lets pass what it takes to run jobs and to end the site, if
it comes from the server and is about one job, by such a name as FLARE gives. A job brings no code:
FLARE refuses it by a right that nobody has, but leaves there what it fails at as it looks.
"""

from __future__ import annotations

import io
import logging
import re
import zipfile
from pathlib import PurePosixPath
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_def import JobMetaKey
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply
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
_OF_THE_NET = "_net_manager"  # a channel
_JOB = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # it names a folder of the kit
_log = logging.getLogger(__name__)


class Guard(FLComponent):  # type: ignore[misc]  # untyped in FLARE
    """Refuses what nobody has to ask of a site."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen before anybody else does."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            cell = fl_ctx.get_prop(FLContextKey.SITE_OBJ).cell.core_cell
            cell.add_incoming_request_filter(CellChannel.CLIENT_MAIN, "*", _refusal)
            cell.add_incoming_request_filter(_OF_THE_NET, "*", _refusal_of_others, None)
            # What has no filter of its own comes here.
            cell.add_incoming_request_filter("*", "*", _refusal_of_others, cell.my_info.fqcn)


def _refusal(request: CellMessage) -> CellMessage | None:
    """Return the answer to what is refused; None to what is not."""
    origin = request.get_header(MessageHeaderKey.ORIGIN)
    asked = request.payload
    topic = asked.topic if isinstance(asked, Message) else None
    if origin == FQCN.ROOT_SERVER and topic in _PASSES and _is_of_a_job(asked):
        return None
    _log.warning("refused %s, asked by %s", short(repr(topic)), short(repr(origin)))
    return new_cell_message({}, error_reply(f"a site of Colonnade's does not do {topic}"))


def _refusal_of_others(request: CellMessage, own: str | None) -> CellMessage | None:
    """Return the answer to others than the server; and its jobs, and those of this site, if any."""
    origin = request.get_header(MessageHeaderKey.ORIGIN)
    root = FQCN.get_root(origin) if isinstance(origin, str) else None
    if origin == FQCN.ROOT_SERVER or (own is not None and root in (FQCN.ROOT_SERVER, own)):
        return None
    return make_reply(ReturnCode.INVALID_REQUEST)


def _is_of_a_job(asked: Any) -> bool:
    """Whether a request is about no job, or about one alone that brings no code."""
    job, meta = (asked.get_header(name) for name in (RequestHeader.JOB_ID, RequestHeader.JOB_META))
    if job is not None and not (isinstance(job, str) and _JOB.fullmatch(job)):
        return False
    if meta is not None and not (isinstance(meta, dict) and meta.get(JobMetaKey.JOB_ID) == job):
        return False
    return asked.topic != TrainingTopic.DEPLOY or (job is not None and _has_no_code(asked.body))


def _has_no_code(app: object) -> bool:
    """Whether an archive of a job's files puts nothing where Python finds it, nor elsewhere."""
    try:
        with zipfile.ZipFile(io.BytesIO(app)) as archive:  # type: ignore[arg-type]  # refused then
            names = [PurePosixPath(name.replace("\\", "/").lower()) for name in archive.namelist()]
    except (TypeError, ValueError, OSError, zipfile.BadZipFile):
        return False
    return not any(
        {"custom", ".."}.intersection(name.parts) or name.is_absolute() for name in names
    )
