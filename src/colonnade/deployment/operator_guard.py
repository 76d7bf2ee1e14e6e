"""What an operator's programs let who runs the server do: nothing that nobody asked for.

FLARE writes, removes, renames or moves a folder that the server names; uploads one where the server
gave a command another meaning; takes whatever the server says for the number of a job, which names
folders too; and connects to an address that a message brings, without certificates. So
``OperatorGuard``, which ``colonnade prepare-kit`` puts into the settings of an operator's kit, has
commands move files as FLARE's do, downloads go by ``operator_downloads.py``, numbers be numbers,
and each cell of such a program hears what ``heard`` has on an operator's list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import MappingProxyType
from typing import Any

from nvflare.apis.fl_constant import AdminCommandNames
from nvflare.fuel.hci.client.api import AdminAPI
from nvflare.fuel.hci.client.event import EventHandler
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.hci.file_transfer_defs import PULL_FOLDER_FQN, PUSH_FOLDER_FQN
from nvflare.fuel.hci.proto import MetaKey, ProtoKey

from colonnade.deployment.cell_guard import guard_cells
from colonnade.deployment.job_numbers import is_job_number
from colonnade.deployment.operator_downloads import failed, pull_folder
from colonnade.telling import short

__all__ = ["OperatorGuard"]

_MOVE = MappingProxyType(
    {
        AdminCommandNames.SUBMIT_JOB: PUSH_FOLDER_FQN,
        AdminCommandNames.DOWNLOAD_JOB: PULL_FOLDER_FQN,
        AdminCommandNames.DOWNLOAD_JOB_COMPONENTS: PULL_FOLDER_FQN,
    }
)
"""What FLARE's server has a command do with files; no other does anything."""


class OperatorGuard(EventHandler):  # type: ignore[misc]  # untyped in FLARE
    """Keeps what the server sends in its place.

    Each program that uses an operator's kit makes one before it has a cell.
    """

    def __init__(self) -> None:
        guard_cells()
        if FileTransferModule.pull_folder is not pull_folder:
            FileTransferModule.pull_folder = pull_folder
            FileTransferModule.generate_module_spec = _as_flares(
                FileTransferModule.generate_module_spec
            )
            AdminAPI.server_execute = _answered(AdminAPI.server_execute)

    def handle_event(self, event_type: str, ctx: Any) -> None:
        """Do nothing: what has to be seen to is no event of FLARE's."""


def _as_flares(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let the server say of no other command than FLARE's that it moves files."""

    @wraps(make)
    def generate_module_spec(self: FileTransferModule, said: Any) -> Any:
        return make(self, said) if _MOVE.get(said.name) == said.client_cmd else None

    return generate_module_spec


def _answered(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Let the server say neither where a download is, nor what is no number of a job for one.

    FLARE would move or unpack the former, and programs hand on the latter as part of a command or
    of a path. A command that moves files is none that the server could answer by itself, without
    any: what was asked for would seem to be in the folder that the program was started in.
    """

    @wraps(execute)
    def server_execute(
        self: AdminAPI,
        command: str,
        reply_processor: Any = None,
        cmd_entry: Any = None,
        **named: Any,
    ) -> Any:
        if cmd_entry is not None and cmd_entry.name in _MOVE:  # by itself, and not as a part of it
            return failed(f"the server says that {cmd_entry.name} moves no files")
        result = execute(self, command, reply_processor, cmd_entry, **named)
        if isinstance(result, dict):
            result.pop(ProtoKey.APP_DATA, None)
            meta = result.get(ProtoKey.META)
            if isinstance(meta, dict):
                meta.pop(MetaKey.LOCATION, None)
                for number in filter(None, _numbers_in(meta)):
                    if not is_job_number(number):
                        said = short(repr(number))
                        return failed(f"the server gives {said} for the number of a job")
        return result

    return server_execute


def _numbers_in(meta: dict[str, Any]) -> Iterator[object]:
    """Yield the numbers of jobs where FLARE's server puts them."""
    jobs = meta.get(MetaKey.JOBS)
    for one in (meta, meta.get(MetaKey.JOB_META), *(jobs if isinstance(jobs, list) else ())):
        if isinstance(one, dict):
            yield one.get(MetaKey.JOB_ID)
