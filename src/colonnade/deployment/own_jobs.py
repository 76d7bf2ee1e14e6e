"""Whether a job of FLARE's is one of Colonnade's: what ``write_job`` writes, and nothing besides.

FLARE's processes look for configuration in all of a kit, a job's files included, and take code from
where that says; a number of a job names the folder that is removed before its files are put there;
and classes of FLARE's own do as their arguments say. So a job is looked at by the server as it is
submitted, and by who is to run it before it is run: it has one app for all, a number that FLARE
gave, the files that ours have, and in these the words of ours, of which the names of classes alone
may be others, if they are listed where it runs.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.app_validation import AppValidator
from nvflare.apis.job_def import JobMetaKey
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE

from colonnade.deployment.folders import CLIENT, JOB, SERVER, client_config, server_config
from colonnade.deployment.job_numbers import LARGEST

__all__ = ["OwnJobs", "is_archive_of_ours", "why_refused"]

_FOLDERS = ("", "config/")
_FILES = frozenset(
    {*(f"config/{name}" for name in (CLIENT, SERVER, JOB)), *_FOLDERS[1:]}
    | {at + of for at in _FOLDERS for of in (NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE)}
)
_CLASS = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_LONGEST_NAME = 300
_SCHEDULED = (
    JobMetaKey.SCHEDULE_COUNT,
    JobMetaKey.SCHEDULE_HISTORY,
    JobMetaKey.LAST_SCHEDULE_TIME,
    JobMetaKey.JOB_DEPLOY_DETAIL,
)
"""What FLARE notes of a job as it is scheduled: none is brought, whatever it says."""

_NO = "this is no job as `colonnade deploy --to` writes it"


def why_refused(meta: Mapping[str, Any]) -> str:
    """Return why the server does not take a job with this ``meta.json``; empty where it does."""
    number, apps = (meta.get(key.value) for key in (JobMetaKey.JOB_ID, JobMetaKey.DEPLOY_MAP))
    if number is not None:  # it names a folder, which may be there
        return "a job has a number that FLARE gives it, and brings none of its own"
    if not isinstance(apps, Mapping) or len(apps) != 1:
        return f"{_NO}: it has not one app for all"
    name = meta.get(JobMetaKey.JOB_NAME.value)
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:  # FLARE lists no job beside it
        return f"{_NO}: its name is none"
    if any(key.value in meta for key in _SCHEDULED) or not _may_be_scheduled(meta):
        return f"{_NO}: FLARE would schedule no job beside it"
    return ""


def _may_be_scheduled(meta: Mapping[str, Any]) -> bool:
    all_of = meta.get(JobMetaKey.MANDATORY_CLIENTS.value, [])
    return (
        type(meta.get(JobMetaKey.MIN_CLIENTS.value, 0)) is int
        and isinstance(all_of, list)
        and all(isinstance(name, str) for name in all_of)
        and meta.get(JobMetaKey.RESOURCE_SPEC.value, {}) == {}
    )


def is_archive_of_ours(app: Any) -> bool:
    """Return whether an archive of a job's files has those of ours, as they are."""
    try:
        with zipfile.ZipFile(io.BytesIO(app)) as archive:
            names = [file.filename for file in archive.infolist()]
            size = sum(file.file_size for file in archive.infolist())
            return len({*names}) == len(names) and _are_ours(names, size, archive.read)
    except Exception:  # whatever it is, it is no job of ours
        return False


class OwnJobs(AppValidator):  # type: ignore[misc]  # untyped in FLARE
    """Lets a process of FLARE's run jobs of Colonnade's alone."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Return why the files of a job are not run, if they are not."""
        root = Path(app_folder)
        try:
            found = [*root.rglob("*")]
            size = sum(path.lstat().st_size for path in found if not path.is_dir())
            names = [path.relative_to(root).as_posix() + "/" * path.is_dir() for path in found]
            is_ours = _are_ours(names, size, lambda name: (root / name).read_bytes())
        except Exception:  # as above
            is_ours = False
        return ("" if is_ours else _NO), {}


def _are_ours(names: Collection[str], size: int, read: Callable[[str], bytes]) -> bool:
    if not _FILES.issuperset(names) or size > LARGEST:
        return False
    site = json.loads(read(f"config/{CLIENT}"))
    attend = site["executors"][0]["executor"]["path"]
    server = json.loads(read(f"config/{SERVER}"))
    preside, trackers = server["workflows"][0]["path"], server["components"]
    tracker = trackers[0]["path"] if trackers else None
    classes = (attend, preside) if tracker is None else (attend, preside, tracker)
    return (
        all(_CLASS.fullmatch(name) for name in classes)
        and site == client_config(attend)
        and server == server_config(preside, tracker)
    )
