"""What an operator's programs let who runs the server do: nothing that nobody asked for.

FLARE writes what a job's download brings where the server says, which may be anywhere, removes,
renames or moves a folder that the server names, and connects to an address that a message brings,
without certificates. So ``OperatorGuard``, which ``colonnade prepare-kit`` puts into the settings
of an operator's kit, keeps a download in a folder of its own among those of the kit, and each cell
of such a program hears what ``heard`` has on an operator's list.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from nvflare.fuel.hci.client.api import AdminAPI
from nvflare.fuel.hci.client.api_status import APIStatus
from nvflare.fuel.hci.client.event import EventHandler
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.hci.proto import MetaKey, ProtoKey

from colonnade.deployment.cell_guard import guard_cells
from colonnade.telling import first_line, short

__all__ = ["OperatorGuard"]

_FOLDER, _FILE = 4, 5  # of what FLARE is told to pull, after the number of the transfer
_NUMBER = _FOLDER - 2


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
            AdminAPI.server_execute = _without_a_place(AdminAPI.server_execute)

    def handle_event(self, event_type: str, ctx: Any) -> None:
        """Do nothing: what has to be seen to is no event of FLARE's."""


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
                raise ValueError(f"the server names a file {short(repr(args[_FILE]))}")
        return pull(self, args, ctx)

    return pull_binary_file


def _told(pull: Callable[..., Any]) -> Callable[..., Any]:
    """Say why a download is refused, as FLARE says what else goes wrong."""

    @wraps(pull)
    def pull_folder(self: FileTransferModule, args: list[str], ctx: Any) -> Any:
        try:
            return pull(self, args, ctx)
        except Exception as error:  # FLARE takes for granted what the server sends
            why = f"nothing is downloaded into {self.download_dir}: {first_line(error)}"
            return {ProtoKey.STATUS: APIStatus.ERROR_RUNTIME, ProtoKey.DETAILS: why}

    return pull_folder


def _without_a_place(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Let the server not say where something was downloaded, since FLARE moves it from there."""

    @wraps(execute)
    def server_execute(self: AdminAPI, *given: Any, **named: Any) -> Any:
        result = execute(self, *given, **named)
        meta = result.get(ProtoKey.META) if isinstance(result, dict) else None
        if isinstance(meta, dict):
            meta.pop(MetaKey.LOCATION, None)
        return result

    return server_execute
