"""What a deployment writes: the folder of a job, for FLARE, and what a site keeps to itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml

from colonnade.config.run import RunConfig
from colonnade.config.tables import PartyTableConfig, TablesConfig
from colonnade.deployment.job import JobConfig, load_job
from colonnade.errors import ConfigurationError
from colonnade.faults import explained
from colonnade.outputs import (
    CONFIGURATION,
    SIGNATURE,
    check_outputs,
    check_place,
    is_ours,
    replacing,
    replacing_folder,
)
from colonnade.serving import ServeConfig

__all__ = [
    "CLASSES",
    "CLIENT",
    "GUARD",
    "JOB",
    "OPERATOR_GUARD",
    "SERVER",
    "TRACKERS",
    "VALIDATOR",
    "Tracker",
    "client_config",
    "numbered",
    "read_job",
    "server_config",
    "write_job",
    "write_site",
]

CLASSES = ("colonnade.deployment.flare.Preside", "colonnade.deployment.flare.Attend")
"""What a job names, and a site has to allow."""

GUARD, VALIDATOR = "colonnade.deployment.guard.Guard", "colonnade.deployment.own_jobs.OwnJobs"
OPERATOR_GUARD = "colonnade.deployment.operator_guard.OperatorGuard"
"""What the settings of a site and a server name, and an operator's; and no job."""

Tracker = Literal["tensorboard", "mlflow"]

TRACKERS: Mapping[Tracker, str] = {
    "tensorboard": "nvflare.app_opt.tracking.tb.tb_receiver.TBAnalyticsReceiver",
    "mlflow": "nvflare.app_opt.tracking.mlflow.mlflow_receiver.MLflowReceiver",
}
"""FLARE's own, of which a job may name one, and the server has to allow it."""

CLIENT, SERVER, JOB = "config_fed_client.json", "config_fed_server.json", "job.yaml"
"""The files of a job's configuration: of a site, of the server, and what all are told."""

_JOB = Path("app") / "config" / JOB
_USUAL: Mapping[str, Any] = {"format_version": 2, "components": []}
_MARK = f"# {SIGNATURE}: "


def numbered(parent: Path) -> Path:
    """Make the next of a folder's folders that are called by a number, from 1 on; return it.

    Raises
    ------
    Unwritten
        If it cannot be made.
    """
    with explained(parent):
        parent.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            try:
                (parent / str(number)).mkdir()
            except FileExistsError:
                number += 1
            else:
                return parent / str(number)


def read_job(folder: Path) -> JobConfig:
    """Read the job in a folder that ``write_job`` wrote.

    Raises
    ------
    ConfigurationError
        If there is none, or it is damaged.
    """
    return load_job(folder / _JOB)


def client_config(attend: str) -> dict[str, Any]:
    """Return what FLARE is told to run at a site: a class, and nothing besides."""
    return {**_USUAL, "executors": [{"tasks": ["*"], "executor": {"path": attend, "args": {}}}]}


def server_config(preside: str, tracker: str | None = None) -> dict[str, Any]:
    """Return what FLARE is told to run at the server: a class, and maybe a receiver of its own."""
    workflows = [{"id": "preside", "path": preside, "args": {}}]
    receivers = [] if tracker is None else [{"id": "tracker", "path": tracker}]
    return {**_USUAL, "workflows": workflows, "components": receivers}


def write_job(job: JobConfig, folder: Path, track: Tracker | None = None) -> None:
    """Write a job as FLARE takes it: configuration, and no code.

    Parameters
    ----------
    job
        What all are told.
    folder
        Where; a job that is there is replaced when this one is whole.
    track
        By what the server draws curves of what is reported; None draws none.

    Raises
    ------
    ConfigurationError
        If something else is in the folder, or no folder can be there.
    Unwritten
        If it cannot be written.
    """
    check_place(folder)
    if folder.exists() and not _is_written(folder / _JOB):
        raise ConfigurationError(f"{folder} is there, and holds no job; choose another folder")
    meta = {
        "name": job.run,
        "resource_spec": {},
        "min_clients": len(job.sites),
        "mandatory_clients": job.sites,
        "deploy_map": {"app": ["server", *job.sites]},
    }
    preside, attend = CLASSES
    with explained(folder), replacing_folder(folder) as partial:
        config = (partial / _JOB).parent
        config.mkdir(parents=True)
        _write_json(partial / "meta.json", meta)
        tracker = None if track is None else TRACKERS[track]
        _write_json(config / SERVER, server_config(preside, tracker))
        _write_json(config / CLIENT, client_config(attend))
        (partial / _JOB).write_text(
            f"{_MARK}what all organisations of a run are told.\n{job.as_yaml()}", encoding="utf-8"
        )


def write_site(
    config: RunConfig,
    organisation: str,
    to: Path,
    new: str | None = None,
    means: Mapping[str, Path] = MappingProxyType({}),
    serve: ServeConfig | None = None,
    **paths: Path,
) -> Path:
    """Write what an organisation of a configuration keeps to itself; return the file's path.

    Parameters
    ----------
    config
        Where the tables of all are, in one place.
    organisation
        Whose it is.
    to
        The folder in which ``site.yaml`` goes.
    new
        Where rows of those are who are predicted; None where that is not known.
    means
        For the label holder, where the means of parties are that have left.
    serve
        For the label holder, where predictions are served; None where they are not.
    paths
        The folders ``folder``, ``alignment`` and ``runs``, where they are not the usual ones.

    Raises
    ------
    ConfigurationError
        If a file of somebody's own is in its place.
    Unwritten
        If it cannot be written.
    """
    data, holder = config.data, config.label_holder
    assert isinstance(data, TablesConfig)
    is_holder = organisation == holder.name
    part = holder.holds if is_holder else organisation
    said: dict[str, Any] = {"organisation": organisation, "id": data.id}
    if part is not None:
        said["table"] = data.parties[part].model_dump(mode="json")
    if is_holder:
        said["labels"] = data.labels.model_dump(mode="json")
    if new is not None:
        table = PartyTableConfig(source="") if part is None else data.parties[part]
        of_people = table.at(new).model_dump(mode="json", exclude={"columns", "features"})
        said["new"] = {"table": of_people}
        if "alignment" in paths:
            said["new"]["alignment"] = str(paths["alignment"].with_name("aligned-new"))
        if is_holder and means:
            said["new"]["means"] = {name: str(file.absolute()) for name, file in means.items()}
    if is_holder and serve is not None:
        said["serve"] = serve.model_dump(mode="json", exclude_defaults=True)
    said |= {key: str(path) for key, path in paths.items()}
    text = yaml.safe_dump(said, sort_keys=False, allow_unicode=True)
    check_outputs(to, {"site.yaml": CONFIGURATION})
    with explained(to):
        to.mkdir(parents=True, exist_ok=True)
        file = to / "site.yaml"
        with replacing(file) as partial:
            partial.write_text(
                f"{_MARK}what this organisation keeps to itself.\n{text}", encoding="utf-8"
            )
    return file


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def _is_written(path: Path) -> bool:
    """Return whether a job was written there, by whatever version."""
    try:
        return path.is_file() and path.stat().st_size > 0 and is_ours(path, CONFIGURATION)
    except OSError:
        return False
