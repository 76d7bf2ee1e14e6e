"""One job of FLARE's does not keep the server from running others, and what was ended has ended.

FLARE runs jobs in one thread, and notes in another which have ended. They end for good where a job
is deleted as it is scheduled, its folder cannot be written for a moment, or a site answers in a
kind of its own; and whatever is odd of one job as it is scheduled keeps all others from that. A job
that an operator ended while it was deployed or started is run, as what its state became is written
over. So, at a server that has this guard, a state that is an end stays one, a job that has it is
stopped where it was started, what cannot be read, written or heard of one job's is in the log, and
the job waits for its turn to be tried again, as one whose sites are not there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from nvflare.apis.impl.job_def_manager import SimpleJobDefManager
from nvflare.apis.job_def import JobMetaKey, RunStatus
from nvflare.app_common.job_schedulers.job_scheduler import (
    SCHEDULE_RESULT_NO_RESOURCE,
    DefaultJobScheduler,
)
from nvflare.private.fed.server.job_runner import JobRunner
from nvflare.private.fed.server.server_engine import ServerEngine

from colonnade.telling import first_line, short

__all__ = ["guard_runner"]

_ENDED = "FINISHED:"  # begins each state that is an end

_BETWEEN = 1.0  # seconds until FLARE looks anew at what has ended

_log = logging.getLogger(__name__)


def guard_runner() -> None:
    """Let no job of this process keep it from running others."""
    if not hasattr(SimpleJobDefManager.set_status, "__wrapped__"):
        manager = SimpleJobDefManager
        manager.set_status = _for_good(manager.set_status)
        manager.update_meta = _otherwise(None, manager.update_meta)
        manager.get_jobs_to_schedule = _otherwise(list, manager.get_jobs_to_schedule)
        JobRunner._check_job_status = staticmethod(
            _otherwise(lambda: True, JobRunner._check_job_status)
        )
        JobRunner.abort_client_run = _otherwise(None, JobRunner.abort_client_run)
        JobRunner._stop_run = _otherwise(None, JobRunner._stop_run)
        JobRunner._job_complete_process = _again(JobRunner._job_complete_process)
        DefaultJobScheduler._try_job = _tried(DefaultJobScheduler._try_job)
        ServerEngine.check_client_resources = _all_answered(ServerEngine.check_client_resources)


def _for_good(set_status: Callable[..., None]) -> Callable[..., None]:
    @wraps(set_status)
    def set_unless_ended(
        self: SimpleJobDefManager, job: str, status: RunStatus, context: Any
    ) -> None:
        found = self.get_job(job, context)
        has_ended = str(found and found.meta.get(JobMetaKey.STATUS.value)).startswith(_ENDED)
        if has_ended and status == RunStatus.RUNNING:  # FLARE stops what it has begun to run
            raise RuntimeError("the job was ended before it ran")
        if has_ended and status in (RunStatus.DISPATCHED, RunStatus.FAILED_TO_RUN):
            return
        try:
            set_status(self, job, status, context)
        except Exception as error:
            if status != RunStatus.FAILED_TO_RUN:  # which FLARE notes where all else has failed
                raise
            _log.warning("that job %s failed is not noted: %s", job, error)

    return set_unless_ended


def _otherwise(value: Callable[[], Any] | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives another value where it fails, and says so in the log."""

    @wraps(function)
    def guarded(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except Exception as error:
            _log.warning("%s: %s", function.__name__, error)
            return None if value is None else value()

    return guarded


def _again(look: Callable[..., None]) -> Callable[..., None]:
    """Let the thread that notes which jobs have ended go on after whatever is odd of one."""

    @wraps(look)
    def looks(self: JobRunner, engine: Any) -> None:
        while not self.ask_to_stop:
            try:
                look(self, engine)
            except Exception as error:
                _log.warning("it is not noted that a job has ended: %s", error)
                time.sleep(_BETWEEN)

    return looks


def _tried(attempt: Callable[..., Any]) -> Callable[..., Any]:
    """Let a job that cannot be looked at be tried again later, and given up in the end."""

    @wraps(attempt)
    def tried(self: DefaultJobScheduler, job: Any, context: Any) -> Any:
        try:
            return attempt(self, job, context)
        except Exception as error:
            _log.warning("job %s cannot be scheduled: %s", job.job_id, error)
            return SCHEDULE_RESULT_NO_RESOURCE, None, f"it cannot be: {short(first_line(error))}"

    return tried


def _all_answered(check: Callable[..., Any]) -> Callable[..., Any]:
    """Take an answer of another kind than FLARE's for a no."""

    @wraps(check)
    def checked(self: ServerEngine, job: Any, wanted: dict[str, Any], context: Any) -> Any:
        try:
            answers = check(self, job, wanted, context)
        except Exception as error:
            _log.warning("no answers for job %s: %s", job.job_id, error)
            return dict.fromkeys(wanted, (False, ""))
        for site, (is_enough, token) in answers.items():
            if type(is_enough) is not bool or not isinstance(token, str):
                _log.warning("%s gives job %s no answer of FLARE's", short(repr(site)), job.job_id)
                answers[site] = (False, "")
        return answers

    return checked
