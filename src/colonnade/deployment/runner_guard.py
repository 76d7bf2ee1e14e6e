"""One job of FLARE's does not keep the server from running others, and what was ended has ended.

FLARE runs jobs in one thread. It ends for good where a job is deleted as it is scheduled, or its
folder cannot be written for a moment; a site that answers in a kind of its own keeps all jobs from
being scheduled; and a job that an operator ended while it was deployed or started is run, as what
its state became is written over. So, at a server that has this guard, a state that is an end stays
one, a job that has it is stopped where it was started, and what cannot be read or written of one
job's is in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from nvflare.apis.impl.job_def_manager import SimpleJobDefManager
from nvflare.apis.job_def import JobMetaKey, RunStatus
from nvflare.private.fed.server.job_runner import JobRunner
from nvflare.private.fed.server.server_engine import ServerEngine

__all__ = ["guard_runner"]

_ENDED = "FINISHED:"  # begins each state that is an end

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


def _all_answered(check: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(check)
    def checked(self: ServerEngine, job: Any, wanted: dict[str, Any], context: Any) -> Any:
        try:
            return check(self, job, wanted, context)
        except Exception as error:  # an answer is of another kind than FLARE's
            _log.warning("no answers for job %s: %s", job.job_id, error)
            return dict.fromkeys(wanted, (False, ""))

    return checked
