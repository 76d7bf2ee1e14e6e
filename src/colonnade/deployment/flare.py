"""What FLARE runs of a job: a controller at the server, an executor at each site.

They are thin: a site's executor is a ``Guest`` over the cell of its job, the server's controller is
a ``Host``. Jobs carry configuration alone; the code is that which each site has installed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from colonnade.deployment.cell_guard import check_guarded, let_in
from colonnade.deployment.cells import CellPost, cell_of_server, cell_of_site
from colonnade.deployment.folders import JOB
from colonnade.deployment.guest import Guest
from colonnade.deployment.host import Host
from colonnade.deployment.job import JobConfig, load_job
from colonnade.deployment.kept_here import KEPT
from colonnade.deployment.site import load_site, notes_of
from colonnade.deployment.told_elsewhere import FAILED, names_values, told_elsewhere
from colonnade.deployment.tracking import track
from colonnade.drivers.couriered import GATEKEEPER
from colonnade.errors import Aborted, ColonnadeError
from colonnade.telling import first_line, named, plain

__all__ = ["Attend", "Preside"]

SITE = Path("colonnade") / "site.yaml"  # in the folder `local` of a site
_log = logging.getLogger(__name__)
_TASK, _REASON = "attend", "reason"
_ABORTED = (
    "the job was aborted, by its operator or as a process of it is gone, at a site or the server: "
    "the server's log says"
)
_LOOK = 0.1  # seconds after which it is looked whether the job is to end


class Preside(Controller):  # type: ignore[misc]  # untyped in FLARE
    """The server's part of a job."""

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Listen to sites, which may be there before."""
        self._signal, self._here = Signal(), dict[str, Callable[[str, bytes], None]]()
        self._job = job = _job(fl_ctx)
        self._engine = fl_ctx.get_engine()
        let_in(job.sites)
        post = CellPost(_cell(fl_ctx), GATEKEEPER, _cells(job, fl_ctx), self._here)
        self._host = Host(job, post, lambda: self._signal.triggered, self._reached, self._reported)
        post.listen(self._host.receive)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """See the run to its end."""
        self._signal = abort_signal
        task = Task(_TASK, Shareable(), timeout=0, result_received_cb=self._ended)
        self.broadcast(task, fl_ctx, min_responses=0)
        if self._job.label_holder_at == "server":
            threading.Thread(target=self._attend, args=(fl_ctx,), daemon=True).start()
        try:
            self._host.preside()
        except ColonnadeError as error:
            self.system_panic(named(error), fl_ctx)

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Do nothing: the host has ended with the run."""

    def process_result_of_unknown_task(self, *_: Any) -> None:
        """Do nothing: a site that ends tells the host."""

    def _attend(self, fl_ctx: FLContext) -> None:
        """Play the label holder's role, where it runs the server."""
        self._know(self._job.label_holder.name, *_attended(lambda: _seat(fl_ctx, self._here)))

    def _ended(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        """Know that a site has ended, and maybe failed before it could say so."""
        code = client_task.result.get_return_code()
        self._know(client_task.client.name, code, client_task.result.get_header(_REASON, code))

    def _know(self, name: str, code: str, why: str) -> None:
        if code == ReturnCode.OK:
            self._host.finish(name)
        else:
            self._host.lose(name, why)

    def _reached(self, name: str, round: int, sent_bytes: int) -> None:
        self.logger.debug(f"{name} is before round {round}, having sent {sent_bytes} bytes")

    def _reported(self, values: Any) -> None:
        self.logger.info(plain(", ".join(f"{key} {value}" for key, value in values.items())))
        with self._engine.new_context() as fl_ctx:
            track(values, fl_ctx)


class Attend(Executor):  # type: ignore[misc]  # untyped in FLARE
    """A site's part of a job."""

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Take part in the run to its end."""
        over = threading.Event()

        def watched() -> Guest:
            guest = _seat(fl_ctx)
            watching = (guest, abort_signal, over)
            threading.Thread(target=_watch, args=watching, daemon=True).start()
            return guest

        try:
            code, why = _attended(watched)
        finally:
            over.set()
        return make_reply(code, {_REASON: why})


def _attended(seat: Callable[[], Guest]) -> tuple[str, str]:
    """Take a seat and attend; return as FLARE's code how that ended, and why, for the server."""
    try:
        guest = seat()
    except Exception as error:  # of files of the site's own
        _log.exception(f"{FAILED}{first_line(error)}")
        return ReturnCode.EXECUTION_EXCEPTION, f"it could not take part ({type(error).__name__})"
    try:
        with guest.kept.noting(_log.warning):
            guest.attend()
    except Aborted as aborted:
        _log.error(f"the run was ended: {aborted}")
        return ReturnCode.TASK_ABORTED, str(aborted)
    except Exception as error:
        told = told_elsewhere(error, guest.site)
        if names_values(error):
            _log.error(f"{FAILED}{told.error}{KEPT}{guest.kept.failure}")
        else:
            _log.exception(f"{FAILED}{first_line(error)}")
        return ReturnCode.EXECUTION_EXCEPTION, told.message
    return ReturnCode.OK, ""


def _seat(fl_ctx: FLContext, here: dict[str, Callable[[str, bytes], None]] | None = None) -> Guest:
    """Return the organisation whose computer this is, listening."""
    job = _job(fl_ctx)
    workspace = fl_ctx.get_engine().get_workspace()
    site = load_site(Path(workspace.get_site_config_dir()) / SITE)
    for note in notes_of(job, site):
        _log.warning(note)
    let_in(job.sites)
    post = CellPost(_cell(fl_ctx), site.organisation, _cells(job, fl_ctx), here)
    guest = Guest(job, site, post, "flare", _log.info)
    post.listen(guest.receive)
    return guest


def _watch(guest: Guest, abort_signal: Signal, over: threading.Event) -> None:
    while not over.wait(_LOOK):
        if abort_signal.triggered:
            guest.end(_ABORTED)
            return


def _job(fl_ctx: FLContext) -> JobConfig:
    workspace = fl_ctx.get_engine().get_workspace()
    return load_job(Path(workspace.get_app_dir(fl_ctx.get_job_id())) / "config" / JOB)


def _cell(fl_ctx: FLContext) -> Any:
    check_guarded()
    return fl_ctx.get_engine().get_cell().core_cell


def _cells(job: JobConfig, fl_ctx: FLContext) -> dict[str, str]:
    """Return the cells of everybody; a site is called as its organisation is."""
    number = str(fl_ctx.get_job_id())
    server = cell_of_server(number)
    sites = {name: cell_of_site(name, number) for name in job.sites}
    return {job.label_holder.name: server} | sites | {GATEKEEPER: server}
