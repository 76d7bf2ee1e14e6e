"""A kit of FLARE's, made ready for Colonnade.

What jobs may name, what may be asked of a site, what operators may do, where a server keeps jobs,
and what it may do to an operator's program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from colonnade.deployment.flare_paths import check_folder
from colonnade.deployment.folders import (
    CLASSES,
    GUARD,
    OPERATOR_GUARD,
    TRACKERS,
    VALIDATOR,
    Tracker,
)
from colonnade.errors import ConfigurationError, DataError
from colonnade.faults import explained
from colonnade.outputs import replacing
from colonnade.telling import first_line

__all__ = ["prepare_kit"]

_SETTINGS = Path("local") / "resources.json"
_USUAL = Path("local") / "resources.json.default"
_RIGHTS = Path("local") / "authorization.json"
_OPERATES = Path("startup") / "fed_admin.json"  # is in an operator's kit alone
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
    stays; settings that FLARE wrote are begun with where there are none. An operator's kit lets its
    programs hear answers alone, and write what they download in a folder of their own.

    Parameters
    ----------
    kit
        The folder that `nvflare provision` made for a site, the server or an operator.
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
    settings = _Settings(kit, _SETTINGS, _USUAL)
    if (kit / _OPERATES).is_file():
        if track is not None:
            raise ConfigurationError(f"{kit} is an operator's kit: the server's is told to track")
        settings.change(_guard_operator)
        settings.write()
        return settings.file
    check_folder(kit)
    rights = _Settings(kit, _RIGHTS, _USUAL_RIGHTS)
    ours = CLASSES if track is None else (*CLASSES, TRACKERS[track])
    settings.change(_list, ours)
    settings.change(_keep_in, kit.absolute())
    settings.change(_guard)
    rights.change(_take_rights)
    rights.write()
    settings.write()
    return settings.file


class _Settings:
    """A file of a kit's: what its owner has said, else what FLARE wrote."""

    def __init__(self, kit: Path, own: Path, usual: Path) -> None:
        self.file = kit / own
        there = [kit / name for name in (own, usual) if (kit / name).is_file()]
        if not there:
            raise ConfigurationError(
                f"{kit} is no kit of a site, a server or an operator: it has no {usual}; name the "
                "folder that `nvflare provision` made for one"
            )
        self._there = there[0]
        self._said: dict[str, Any] = {}
        self.change(self._read)

    def _read(self, said: dict[str, Any]) -> None:
        if self._there.stat().st_size > _LONGEST:
            raise ValueError(f"it has more than {_LONGEST:,} bytes")
        read = json.loads(self._there.read_text(encoding="utf-8"))
        if not isinstance(read, dict):  # pairs would be settings too
            raise ValueError("it holds no settings")
        said.update(read)

    def change(self, how: Callable[..., None], *given: Any) -> None:
        """Have a function change it, which may take for granted that FLARE wrote it."""
        try:
            how(self._said, *given)
        except _NOT_FLARES as error:
            said = f"{self._there} is not as FLARE writes it: {first_line(error)}"
            raise DataError(said) from None

    def write(self) -> None:
        """Write it, as the owner's."""
        with explained(self.file), replacing(self.file) as partial:
            partial.write_text(json.dumps(self._said, indent=2) + "\n", encoding="utf-8")


def _list(settings: dict[str, Any], ours: Sequence[str]) -> None:
    """Let jobs name our classes, and none of FLARE's, and logs stay where they are."""
    listed = settings["class_allow_list"]
    if not isinstance(listed, list):  # of a text each letter would be a class
        raise ValueError("its class_allow_list is no list")
    others = [name for name in listed if not name.startswith(_FLARES) and name not in ours]
    settings["class_allow_list"] = [*others, *ours]
    settings["allow_log_streaming"] = False


def _guard(settings: dict[str, Any]) -> None:
    """Let a process hear Colonnade's guard of what is asked of it."""
    others = [each for each in settings.get("components", []) if each.get("path") not in _NONE]
    settings["components"] = [*others, {"id": "colonnade_guard", "path": GUARD, "args": {}}]
    settings["app_validator"] = {"path": VALIDATOR, "args": {}}


def _guard_operator(settings: dict[str, Any]) -> None:
    """Let an operator's program keep what the server sends in its place."""
    others = [each for each in settings.get("handlers", []) if each.get("path") != OPERATOR_GUARD]
    settings["handlers"] = [*others, {"path": OPERATOR_GUARD, "args": {}}]


def _take_rights(said: dict[str, Any]) -> None:
    """Let nobody run code of a job's own or commands of a shell."""
    for role, rights in said["permissions"].items():
        each = dict.fromkeys(_ALL, rights) if isinstance(rights, str) else dict(rights)
        taken = (*_NOBODY, *(right for right in _SHELL if right in each))
        said["permissions"][role] = each | dict.fromkeys(taken, "none")


def _keep_in(settings: dict[str, Any], kit: Path) -> None:
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
