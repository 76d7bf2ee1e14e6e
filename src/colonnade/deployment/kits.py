"""A kit of FLARE's, made ready for Colonnade.

What jobs may name, what may be asked of a site, what operators may do, and where a server keeps
jobs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from colonnade.deployment.flare_paths import check_folder
from colonnade.deployment.folders import CLASSES, GUARD, TRACKERS, VALIDATOR, Tracker
from colonnade.errors import ConfigurationError, DataError
from colonnade.faults import explained
from colonnade.outputs import replacing
from colonnade.telling import first_line

__all__ = ["prepare_kit"]

_SETTINGS = Path("local") / "resources.json"
_USUAL = Path("local") / "resources.json.default"
_RIGHTS = Path("local") / "authorization.json"
_USUAL_RIGHTS = Path("local") / "authorization.json.default"
_ALL = (  # rights that who may do anything has, by FLARE's categories, and what is in none
    *("submit_job", "clone_job", "manage_job", "download_job", "view", "operate"),
    *("get_job_log", "list_job", "download_job_components", "report_version"),
    *("admin_check_status", "abort_task", "check_resources", "deploy_app"),
    *("register_study", "remove_study", "list_studies", "show_study"),
    *("add_study_site", "remove_study_site", "add_study_user", "remove_study_user"),
)
_NOBODY = ("shell_commands", "byoc", "server-predeployed-flwr")  # has these rights
_SHELL = ("cat", "grep", "head", "ls", "pwd", "tail")  # each of which may be said by itself
_LONGEST = 2**20  # bytes
_BY_DEFAULT = "/tmp/"
_NONE = (GUARD, "nvflare.app_common.logging.job_log_receiver.JobLogReceiver")
"""Components that are left out: the second writes what members send, where they say."""

_FLARES = "nvflare."  # classes begin with this


_NOT_FLARES = (OSError, LookupError, TypeError, AttributeError, ValueError, RecursionError)


def prepare_kit(kit: Path, track: Tracker | None = None) -> Path:
    """Let a site, or the server, run Colonnade's jobs and no others; return the file of settings.

    Jobs may name Colonnade's two classes, and what else the owner lists, none of those that FLARE
    does, and bring no code of their own; nobody may read files of a site or delete any there,
    whoever operates the federation or runs the server, the site's logs stay at the site, and a
    server keeps jobs and what it needs of them in the kit. What is said there of anything else
    stays; settings that FLARE wrote are begun with where there are none.

    Parameters
    ----------
    kit
        The folder that `nvflare provision` made for a site or the server.
    track
        Of the server: which of FLARE's own receivers a job may name, to draw curves; None adds
        none.

    Raises
    ------
    ConfigurationError
        If it is no kit, or FLARE could start no process of a job in it.
    DataError
        If its settings are damaged.
    Unwritten
        If they cannot be written.
    """
    there = _begun_with(kit, _SETTINGS, _USUAL)
    check_folder(kit)
    try:
        settings = json.loads(_text(there))
        ours = CLASSES if track is None else (*CLASSES, TRACKERS[track])
        others = [name for name in _listed(settings) if not name.startswith(_FLARES)]
        settings["class_allow_list"] = [*(name for name in others if name not in ours), *ours]
        settings["allow_log_streaming"] = False
        _keep_in(kit.absolute(), settings)
        _guard(settings)
    except _NOT_FLARES as error:
        raise DataError(f"{there} is not as FLARE writes it: {first_line(error)}") from None
    rights = _rights(kit)
    for file, said in ((kit / _RIGHTS, rights), (kit / _SETTINGS, settings)):
        with explained(file), replacing(file) as partial:
            partial.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    return kit / _SETTINGS


def _listed(settings: dict[str, Any]) -> list[str]:
    """Return the classes that jobs may name."""
    allowed = settings["class_allow_list"]
    if not isinstance(allowed, list):  # of a text each letter would be a class
        raise ValueError("its class_allow_list is no list")
    return allowed


def _guard(settings: dict[str, Any]) -> None:
    """Let a process hear Colonnade's guard of what is asked of it."""
    others = [each for each in settings.get("components", []) if each.get("path") not in _NONE]
    settings["components"] = [*others, {"id": "colonnade_guard", "path": GUARD, "args": {}}]
    settings["app_validator"] = {"path": VALIDATOR, "args": {}}


def _rights(kit: Path) -> dict[str, Any]:
    """Return who may do what, so that nobody runs code of a job's own or commands of a shell."""
    there = _begun_with(kit, _RIGHTS, _USUAL_RIGHTS)
    try:
        said: dict[str, Any] = json.loads(_text(there))
        for role, rights in said["permissions"].items():
            each = dict.fromkeys(_ALL, rights) if isinstance(rights, str) else dict(rights)
            taken = (*_NOBODY, *(right for right in _SHELL if right in each))
            said["permissions"][role] = each | dict.fromkeys(taken, "none")
    except _NOT_FLARES as error:
        raise DataError(f"{there} is not as FLARE writes it: {first_line(error)}") from None
    return said


def _begun_with(kit: Path, own: Path, usual: Path) -> Path:
    """Return the file of what the owner of a kit has said, else that which FLARE wrote."""
    for name in (own, usual):
        if (kit / name).is_file():
            return kit / name
    raise ConfigurationError(
        f"{kit} is no kit of a site or a server: it has no {usual}; name the folder that "
        "`nvflare provision` made for one"
    )


def _text(file: Path) -> str:
    if file.stat().st_size > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST:,} bytes")
    return file.read_text(encoding="utf-8")


def _keep_in(kit: Path, settings: dict[str, Any]) -> None:
    """Let a server keep in its kit what it would keep in /tmp."""
    for component in settings.get("components", []):
        if component["id"] == "job_manager":
            _moved(component["args"], "uri_root", kit / "jobs")
    if "snapshot_persistor" in settings:
        storage = settings["snapshot_persistor"]["args"]["storage"]
        _moved(storage["args"], "root_dir", kit / "snapshots")


def _moved(settings: dict[str, Any], name: str, place: Path) -> None:
    if settings[name].startswith(_BY_DEFAULT):  # else the owner has said where
        settings[name] = str(place)
