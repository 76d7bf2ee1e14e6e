"""What an operator downloads of a job: put where the operator says, whatever the server does.

FLARE has the server say in which folder it is, as the number of the transfer, and removes, renames
and writes in that. Here the server says what files there are, and nothing else.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nvflare.fuel.hci.client.api_status import APIStatus
from nvflare.fuel.hci.client.event import EventType
from nvflare.fuel.hci.client.file_transfer import FileTransferModule
from nvflare.fuel.hci.cmd_arg_utils import join_args
from nvflare.fuel.hci.proto import MetaKey, ProtoKey

from colonnade.deployment.job_numbers import is_job_number
from colonnade.errors import DataError, RemoteProtocolError
from colonnade.telling import first_line, short

__all__ = ["failed", "pull_folder"]

_MOST = 1000  # downloads by one name


def pull_folder(module: FileTransferModule, args: list[str], ctx: Any) -> dict[str, Any]:
    """Download what a job has left, as FLARE's method of this name does, whose place it takes.

    Parameters
    ----------
    module
        It knows where downloads are.
    args
        The command, the number of a job, and the name of a folder, by default that number. Where
        there is one, a number is put behind it.
    ctx
        What FLARE has of the command.
    """
    entry, api, downloads = ctx.get_command_entry(), ctx.get_api(), Path(module.download_dir)
    if len(args) not in (2, 3):
        return failed(f"usage: {entry.usage}", APIStatus.ERROR_SYNTAX)
    job, name = args[1], args[-1]
    try:
        if not is_job_number(job):
            raise DataError(f"{short(repr(job))} is no number of a job")
        if name != Path(name).name or name in ("", ".."):
            raise DataError(f"{short(repr(name))} is no name of a folder among downloads")
        answer: dict[str, Any] = api.server_execute(join_args([entry.full_command_name(), job]))
        if answer.get(ProtoKey.STATUS) != APIStatus.SUCCESS:
            return answer
        said = answer.get(ProtoKey.META) or {}
        if not said.get(MetaKey.FILES):  # programs take their own folder for where they are
            raise RemoteProtocolError("the server gives no files")
        with TemporaryDirectory(prefix=".downloading-", dir=downloads) as place:
            folder = Path(place) / job
            folder.mkdir()
            _fill(folder, api, said[MetaKey.SOURCE_FQCN], said[MetaKey.FILES])
            location = str(_put(folder, downloads / name))
    except Exception as error:  # whatever the server sends, and the disk
        return failed(f"nothing is downloaded into {downloads}: {first_line(error)}")
    return {
        ProtoKey.STATUS: APIStatus.SUCCESS,
        ProtoKey.DETAILS: f"content downloaded to {location}",
        ProtoKey.META: {MetaKey.LOCATION: location},
    }


def _fill(folder: Path, api: Any, source: str, files: list[list[str]]) -> None:
    """Fetch files into a folder, and unpack archives among them once all are there.

    Unpacking may take longer than the server keeps the others.
    """
    paths = []
    for name, reference in files:
        path = folder / name
        if not path.is_relative_to(folder) or ".." in path.parts or path == folder:
            raise RemoteProtocolError(f"the server names a file {short(repr(name))}")
        api.fire_session_event(EventType.BEFORE_DOWNLOAD_FILE, f"downloading {name} ...")
        start = time.time()
        size = api.download_file(source, reference, str(path))
        if size is None:
            raise RemoteProtocolError(f"{short(repr(name))} was not received")
        took = f"downloaded {name} ({size} bytes) in {time.time() - start} seconds"
        api.fire_session_event(EventType.AFTER_DOWNLOAD_FILE, took)
        paths.append(path)
    for path in paths:
        if path.suffix == ".zip":
            FileTransferModule._unzip_file(api, str(path))


def _put(folder: Path, destination: Path) -> Path:
    """Move a folder to a place where nothing is; return which."""
    for number in range(_MOST):
        place = destination.with_name(f"{destination.name}__{number}") if number else destination
        if not place.is_symlink() and not place.exists():
            return folder.rename(place)
    raise DataError(f"there are {_MOST} downloads of this name: remove some")


def failed(why: str, status: APIStatus = APIStatus.ERROR_RUNTIME) -> dict[str, Any]:
    """Return what FLARE makes of a command that failed."""
    return {ProtoKey.STATUS: status, ProtoKey.DETAILS: why}
