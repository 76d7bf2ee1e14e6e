"""What an operator's programs let who runs the server do: nothing that nobody asked for.

FLARE writes what a job's download brings where the server says, which may be anywhere; removes,
renames or moves a folder that the server names; uploads one where the server gave a command another
meaning; and connects to an address that a message brings, without certificates. So
``OperatorGuard``, which ``colonnade prepare-kit`` puts into the settings of an operator's kit, has
commands move files as FLARE's do, keeps a download in a folder of its own among those of the kit,
and each cell of such a program hears what ``heard`` has on an operator's list.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nvflare.apis.fl_constant import AdminCommandNames
from nvflare.fuel.hci.client.api import AdminAPI
from nvflare.fuel.hci.client.api_status import APIStatus
from nvflare.fuel.hci.client.event import EventHandler
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.hci.file_transfer_defs import PULL_FOLDER_FQN, PUSH_FOLDER_FQN
from nvflare.fuel.hci.proto import MetaKey, ProtoKey

from colonnade.deployment.cell_guard import guard_cells
from colonnade.telling import first_line, short

__all__ = ["OperatorGuard"]

_MOVE = MappingProxyType(
    {
        AdminCommandNames.SUBMIT_JOB: PUSH_FOLDER_FQN,
        AdminCommandNames.DOWNLOAD_JOB: PULL_FOLDER_FQN,
        AdminCommandNames.DOWNLOAD_JOB_COMPONENTS: PULL_FOLDER_FQN,
    }
)
"""What FLARE's server has a command do with files; no other does anything."""

_NUMBER, _FOLDER, _FILE = 2, 4, 5  # where these stand in what FLARE is told to pull


class OperatorGuard(EventHandler):  # type: ignore[misc]  # untyped in FLARE
    """Keeps what the server sends in its place.

    Each program that uses an operator's kit makes one before it has a cell.
    """

    def __init__(self) -> None:
        guard_cells()
        if not hasattr(FileTransferModule.pull_folder, "__wrapped__"):
            FileTransferModule._tx_path = _among_downloads(FileTransferModule._tx_path)
            FileTransferModule.pull_binary_file = _within(FileTransferModule.pull_binary_file)
            FileTransferModule.pull_folder = _told(FileTransferModule.pull_folder)
            FileTransferModule.generate_module_spec = _as_flares(
                FileTransferModule.generate_module_spec
            )
            AdminAPI.server_execute = _without_a_place(AdminAPI.server_execute)

    def handle_event(self, event_type: str, ctx: Any) -> None:
        """Do nothing: what has to be seen to is no event of FLARE's."""


def _as_flares(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let the server say of no other command than FLARE's that it moves files."""

    @wraps(make)
    def generate_module_spec(self: FileTransferModule, said: Any) -> Any:
        return make(self, said) if _MOVE.get(said.name) == said.client_cmd else None

    return generate_module_spec


def _among_downloads(path_of: Callable[..., str]) -> Callable[..., str]:
    """Let the folder of a transfer be one of those of the kit's downloads."""

    @wraps(path_of)
    def tx_path(self: FileTransferModule, tx_id: Any, folder_name: str) -> str:
        path = path_of(self, tx_id, folder_name)
        if Path(path).parent != Path(self.download_dir):
            raise ValueError(f"the server names a transfer {short(repr(tx_id))}")
        return path

    return tx_path


def _within(pull: Callable[..., Any]) -> Callable[..., Any]:
    """Let a file be in the folder of its transfer."""

    @wraps(pull)
    def pull_binary_file(self: FileTransferModule, args: list[str], ctx: Any) -> Any:
        if len(args) > _FILE:
            folder = Path(self._tx_path(args[_NUMBER], args[_FOLDER]))
            if not (folder / args[_FILE]).resolve().is_relative_to(folder.resolve()):
                return _refused(self, f"the server names a file {short(repr(args[_FILE]))}")
        return pull(self, args, ctx)

    return pull_binary_file


def _told(pull: Callable[..., Any]) -> Callable[..., Any]:
    """Say why a download is refused, as FLARE says what else goes wrong."""

    @wraps(pull)
    def pull_folder(self: FileTransferModule, args: list[str], ctx: Any) -> Any:
        try:
            return pull(self, args, ctx)
        except Exception as error:  # FLARE takes for granted what the server sends
            return _refused(self, first_line(error))

    return pull_folder


def _refused(module: FileTransferModule, why: str) -> dict[str, Any]:
    said = f"nothing is downloaded into {module.download_dir}: {why}"
    return {ProtoKey.STATUS: APIStatus.ERROR_RUNTIME, ProtoKey.DETAILS: said}


def _without_a_place(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Let the server not say where something was downloaded: FLARE would move or unzip it."""

    @wraps(execute)
    def server_execute(self: AdminAPI, *given: Any, **named: Any) -> Any:
        result = execute(self, *given, **named)
        if isinstance(result, dict):
            result.pop(ProtoKey.APP_DATA, None)
            meta = result.get(ProtoKey.META)
            if isinstance(meta, dict):
                meta.pop(MetaKey.LOCATION, None)
        return result

    return server_execute
