"""The whole path on one machine: align, provision, submit, train, and what came of it where."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from colonnade.alignment import alignment_file
from colonnade.config.aligning import aligning, carry_out
from colonnade.config.data import TablesConfig
from colonnade.config.run import RunConfig
from colonnade.deployment.folders import write_job, write_site
from colonnade.deployment.job import JobConfig
from colonnade.errors import ConfigurationError, RoleFailed
from colonnade.faults import explained

__all__ = ["Place", "prove"]

_FEDERATION = "federation"


class Place:
    """Where a federation on one machine has what belongs to each of its organisations.

    Parameters
    ----------
    folder
        The folder of all of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, organisation: str) -> Path:
        """Return the folder that an organisation would have on a computer of its own."""
        return self.folder / "organisations" / organisation

    def run(self, organisation: str, job: JobConfig) -> Path:
        """Return where an organisation has a run."""
        return self.of(organisation) / "runs" / job.run


def prove(
    config: RunConfig, job: JobConfig, place: Place, told: Callable[[str], None], keep: bool = False
) -> None:
    """Carry out a job on this machine as organisations would on theirs.

    What of the run is there already, of one that was stopped, it goes on with.

    Parameters
    ----------
    config
        Where the tables of all are.
    job
        What all are told.
    place
        Where each organisation keeps what is its own.
    told
        Called with a sentence about each step.
    keep
        Whether FLARE's own folders and logs stay; they do where the job fails.

    Raises
    ------
    ConfigurationError
        If NVIDIA FLARE is not installed, or the job cannot be.
    RoleFailed
        If the job fails; the logs say why.
    """
    try:
        from colonnade.deployment.local import local_federation
    except ImportError as error:
        raise ConfigurationError(
            f"a federation needs NVIDIA FLARE ({error}); install colonnade[flare]"
        ) from None
    _align(config, place, told)
    folder = place.folder / _FEDERATION
    with local_federation(folder / "flare", job.everybody) as local:
        told("certificates for the server and every site are made")
        for name in job.everybody:
            own = {"alignment": place.of(name) / "aligned", "runs": place.of(name) / "runs"}
            there = {key: path.absolute() for key, path in own.items()}
            write_site(config, name, local.site(name), **there)
        write_job(job, folder / "job")
        local.start(job.everybody)
        told("the server and every site are up, and know each other by mutual TLS")
        number = local.submit(folder / "job")
        told(f"job {number} is submitted")
        if not local.wait(number):
            why = _reasons(local.folder, number)
            raise RoleFailed(f"the job failed{why}; the logs are in {folder}")
    if not keep:
        with explained(folder):
            shutil.rmtree(folder)


def _align(config: RunConfig, place: Place, told: Callable[[str], None]) -> None:
    """Let the organisations align, if they have not, and give each its own file alone."""
    meeting, organisations = aligning(config)
    own = {name: place.of(name) / "aligned" for name in meeting.everybody}
    if all((folder / alignment_file(name)).is_file() for name, folder in own.items()):
        return
    shared = place.folder / "aligned"
    data = config.data
    assert isinstance(data, TablesConfig)
    if data.alignment is None:
        carry_out(config, meeting, organisations, shared, lambda done, total: None)
        told("the organisations have aligned, by private set intersection")
    for name, folder in own.items():
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(
                (data.alignment or shared) / alignment_file(name), folder / alignment_file(name)
            )
    if data.alignment is None:
        with explained(shared):
            shutil.rmtree(shared)


def _reasons(folder: Path, number: str) -> str:
    """Return what the logs of errors say first, of the server and the sites."""
    said = []
    for log in sorted(folder.glob(f"*/{number}/error_log.txt")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        if found := next((line for line in lines if " - ERROR - " in line), None):
            said.append(f"{log.parent.parent.name}: {found.rpartition(' - ')[2]}")
    return f" ({'; '.join(said)})" if said else ""
