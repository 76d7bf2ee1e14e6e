"""What a kit's processes are told to do and do not, where the kit is prepared.

FLARE lets an operator, and whoever runs the server, have a site's own process read files, delete
folders, or call parts of a job: whether a right is needed is said by who asks. And it reads the
configuration of a job in languages that take in files, addresses and the environment, and tells
what it read where that is wrong. So a ``Guard``, which ``colonnade prepare-kit`` puts into the
settings of a site and of the server, hears each request first. A site's process runs jobs for the
server, which are Colonnade's, and ends, and no more; the server takes no others, and goes on
running these, as ``runner_guard`` has it. Who may ask anything at all, ``heard`` says, and
``cell_guard`` sees to it.
"""

from __future__ import annotations

import logging
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_def import JobMetaKey
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.message import Message as CellMessage
from nvflare.fuel.utils.config import Config, ConfigFormat, ConfigLoader
from nvflare.fuel.utils.config_factory import ConfigFactory
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import (
    RequestHeader,
    SysCommandTopic,
    TrainingTopic,
    new_cell_message,
)

from colonnade.deployment.cell_guard import guard_cells
from colonnade.deployment.job_numbers import is_job_number
from colonnade.deployment.own_jobs import is_archive_of_ours, why_refused
from colonnade.deployment.runner_guard import guard_runner
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
_log = logging.getLogger(__name__)


class _OnlyJson(ConfigLoader):  # type: ignore[misc]  # untyped in FLARE
    """Reads no configuration: those of Colonnade's jobs are JSON."""

    def load_config(self, file_path: str) -> Config:
        return self.load_config_from_str("")

    def load_config_from_str(self, config_str: str) -> Config:
        raise ValueError(f"a job of Colonnade's is in JSON, not in {self.get_format().name}")

    def load_config_from_dict(self, config_dict: dict[str, Any]) -> Config:
        return self.load_config_from_str("")


class Guard(FLComponent):  # type: ignore[misc]  # untyped in FLARE
    """Refuses what nobody has to ask of a site, or of the server.

    Each process of a kit makes one before it has a cell.
    """

    def __init__(self) -> None:
        super().__init__()
        guard_cells()
        guard_runner()
        for kind in (ConfigFormat.PYHOCON, ConfigFormat.OMEGACONF):
            ConfigFactory._fmt2Loader[kind] = _OnlyJson(kind)

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Look at what a site is told to do, and which jobs the server is brought."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            cell = fl_ctx.get_prop(FLContextKey.SITE_OBJ).cell.core_cell
            own = cell.my_info.fqcn
            if own != FQCN.ROOT_SERVER:
                cell.add_incoming_request_filter(CellChannel.CLIENT_MAIN, "*", _refusal, own)
        elif event_type == EventType.SUBMIT_JOB:
            why = why_refused(fl_ctx.get_prop(FLContextKey.JOB_META) or {})
            if why:
                fl_ctx.set_prop(FLContextKey.JOB_BLOCK_REASON, why, private=True, sticky=False)


def _refusal(request: CellMessage, own: str) -> CellMessage | None:
    """Return the answer to what is refused; None to what is not."""
    origin = request.get_header(MessageHeaderKey.ORIGIN)
    asked = request.payload
    topic = asked.topic if isinstance(asked, Message) else None
    if topic in _PASSES and _is_of_a_job(asked):
        if origin == FQCN.ROOT_SERVER:
            return None
        job = asked.get_header(RequestHeader.JOB_ID)
        if topic == TrainingTopic.NOTIFY_JOB_STATUS and origin == FQCN.join([own, str(job)]):
            return None
    _log.warning("refused %s, asked by %s", short(repr(topic)), short(repr(origin)))
    why = f"a site of Colonnade's does not do {topic}"
    if topic == TrainingTopic.DEPLOY:
        why += " but of jobs as `colonnade deploy --to` writes them"
    return new_cell_message({}, error_reply(why))


def _is_of_a_job(asked: Any) -> bool:
    """Whether a request is about no job, or about one alone that is one of ours."""
    job, meta = (asked.get_header(name) for name in (RequestHeader.JOB_ID, RequestHeader.JOB_META))
    if job is not None and not is_job_number(job):
        return False
    if meta is not None and not (isinstance(meta, dict) and meta.get(JobMetaKey.JOB_ID) == job):
        return False
    return asked.topic != TrainingTopic.DEPLOY or (
        job is not None and is_archive_of_ours(asked.body)
    )
