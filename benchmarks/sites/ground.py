"""A federation on this machine that is kept up, and what the simulator makes of its runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import torch

from colonnade.config import parse_config
from colonnade.config.aligning import aligning, carry_out
from colonnade.config.run import RunConfig
from colonnade.deployment.folders import CLASSES, write_job, write_site
from colonnade.deployment.job import JobConfig, job_of
from colonnade.deployment.local import SERVER, Local, local_federation
from colonnade.deployment.told_elsewhere import FAILED
from colonnade.drivers import Replay, control
from colonnade.drivers.driver import Trace
from colonnade.effects import Notes
from colonnade.export import load_part
from colonnade.run_read import load_run
from colonnade.runs import Run
from sites.seats import ATTEND, PRESIDE, TRACE, known_secrets

__all__ = ["EVERYBODY", "HOLDER", "Ground", "Job", "Outcome", "ground"]

PARTIES, HOLDER = ("bank", "shop", "clinic"), "insurer"
EVERYBODY = (*PARTIES, HOLDER)
LONGEST = 240.0  # seconds after which a job that has not ended hangs
_LOOK = 0.2


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Parameters
    ----------
    number
        FLARE's.
    status
        FLARE's too; ``HANGS`` where it did not end in time.
    seconds
        From when it was submitted until it had ended.
    """

    number: str
    status: str
    seconds: float

    @property
    def completed(self) -> bool:
        return self.status == "FINISHED:COMPLETED"

    @property
    def hangs(self) -> bool:
        return self.status == "HANGS"


@dataclass(frozen=True)
class Job:
    """A run that is tried: what all are told, and who takes part by which class."""

    config: RunConfig
    told: JobConfig
    attend: str = ATTEND

    @property
    def run(self) -> str:
        return self.told.run

    @cached_property
    def expected(self) -> Run:
        """What the simulator makes of it."""
        return self.simulated(None)

    def simulated(self, driver: Replay | None) -> Run:
        """Train in the simulator, or by a trace, from the secrets that sites have."""
        federation = self.config.build_federation()
        training = self.config.training.build(len(federation.validation_rows))
        with known_secrets():
            return federation.train(self.config.method.build(), training, driver, report=False)


class Ground:
    """What is tried on: a federation that is up, and the folders of its organisations.

    Parameters
    ----------
    folder
        Of all of it.
    local
        The federation.
    """

    def __init__(self, folder: Path, local: Local) -> None:
        self.folder, self.local = folder, local

    def runs(self, name: str) -> Path:
        """Return where an organisation keeps its runs."""
        return self.folder / name / "runs"

    def job(self, run: str, method: Any = "svfl", attend: str = ATTEND, **said: Any) -> Job:
        """Return a job of this name; ``said`` is of its training, and a model of its own."""
        config = configuration(self.folder, method, **said)
        return Job(config, job_of(config, run), attend)

    def submit(self, job: Job) -> str:
        """Submit a job; return its number."""
        folder = self.folder / "jobs" / job.run
        write_job(job.told, folder)
        config = folder / "app" / "config"
        for file, ours, theirs in (
            ("config_fed_server.json", CLASSES[0], PRESIDE),
            ("config_fed_client.json", CLASSES[1], job.attend),
        ):
            text = (config / file).read_text()
            (config / file).write_text(text.replace(ours, theirs))
        return self.local.submit(folder)

    def wait(self, number: str, longest: float = LONGEST) -> Outcome:
        """Wait until a job has ended, or for so many seconds."""
        begun = time.monotonic()
        while (seconds := time.monotonic() - begun) < longest:
            status = str(self.local._asked("status", number))
            if status.startswith("FINISHED"):
                return Outcome(number, status, seconds)
            time.sleep(_LOOK)
        return Outcome(number, "HANGS", longest)

    def carried_out(self, job: Job) -> Outcome:
        """Submit a job and wait until it has ended."""
        begun = time.monotonic()
        outcome = self.wait(self.submit(job))
        return replace(outcome, seconds=time.monotonic() - begun)

    def wait_for(self, names: Sequence[str], longest: float = 120.0) -> None:
        """Wait until these sites are connected."""
        deadline = time.monotonic() + longest
        while not set(self.local._asked("there")) >= set(names):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not all of {', '.join(names)} are connected")
            time.sleep(_LOOK)

    def restart_server(self) -> None:
        """Start the server again, and an operator: a session does not outlive its server."""
        operator = self.local._operator
        operator.kill()
        operator.communicate()
        self.local.start_one(SERVER)
        self.local._start_operator()

    def trace(self, job: Job) -> Trace:
        """Return what each await of a run was given; what was remembered before it was nothing."""
        text = (self.runs(HOLDER) / job.run / TRACE).read_bytes()
        decisions = msgspec.json.decode(text, type=dict[str, control.Decisions])
        return Trace(decisions, dict.fromkeys(EVERYBODY, Notes(0)))

    def difference(self, job: Job, expected: Run | None = None) -> str:
        """Say how the run differs from what the simulator makes of it; nothing if it does not."""
        expected = expected or job.expected
        for name, modules in expected.models.items():
            part = load_part(self.runs(name) / job.run / "parts" / name)
            for which, module in modules.items():
                for key, value in module.state_dict().items():
                    if not torch.equal(part.tensors[which][key], value):
                        return f"{which}.{key} of {name} has other bits"
        found = load_run(self.runs(HOLDER) / job.run).ledger
        if found.without_time() != expected.ledger.without_time():
            return "another ledger"
        return ""

    def has_trained(self, job: Job) -> bool:
        """Whether any organisation has a trained part of a run."""
        return any((self.runs(name) / job.run / "parts" / name).exists() for name in EVERYBODY)

    def why(self, number: str) -> dict[str, str]:
        """Return why a job failed as each site's own log says it."""
        told = {}
        for name in EVERYBODY:
            log = self.local.folder / name / number / "error_log.txt"
            text = log.read_text(errors="replace") if log.is_file() else ""
            found = re.findall(rf" - ERROR - (?:{FAILED}|the run was ended: )(.*)", text)
            if found:
                told[name] = found[0]
        return told

    def wait_for_checkpoints(self, job: Job, count: int = 1, longest: float = 180.0) -> None:
        """Wait until so many checkpoints of a run are there."""
        checkpoints = self.runs(HOLDER) / job.run / "checkpoint"
        deadline = time.monotonic() + longest
        while len(list(checkpoints.glob("round-*"))) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{job.run} writes no checkpoint")
            time.sleep(0.02)

    def processes(self, *words: str) -> list[int]:
        """Return the processes of the federation in whose command these words are."""
        return [*of_command(str(self.local.folder), *words)]

    def processes_of_job(self, number: str) -> list[int]:
        """Return the processes of a job."""
        return self.processes(number)

    def settles(self, number: str, longest: float = 150.0) -> bool:
        """Wait until no process of a job is left; return whether."""
        deadline = time.monotonic() + longest
        while self.processes_of_job(number):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK)
        return True


def of_command(*words: str) -> Iterator[int]:
    """Yield processes in whose command all these words are."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if all(word in command for word in words):
            yield int(process.name)


@contextmanager
def ground(
    allowed: tuple[str, ...] = (ATTEND, PRESIDE),
    before: Callable[[Local], None] = lambda local: None,
) -> Iterator[Ground]:
    """Let a federation be up, in a temporary folder; in the end nothing is left of it.

    Parameters
    ----------
    allowed
        Classes that every site lets jobs name, besides Colonnade's.
    before
        Called before its processes are started.
    """
    # The classes that sites are to find are beside this command.
    usual = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    folder = Path(tempfile.mkdtemp(prefix="sites-"))
    try:
        _write_tables(folder)
        config = configuration(folder)
        _align(config, folder)
        with local_federation(folder / "flare", EVERYBODY) as local:
            for name in EVERYBODY:
                own = folder / name
                paths = {"alignment": own / "aligned", "runs": own / "runs"}
                write_site(config, name, local.site(name), folder=folder, **paths)
            for name in (SERVER, *EVERYBODY):
                _allow(local.folder / name / "local" / "resources.json", allowed)
            before(local)
            local.start(EVERYBODY)
            yield Ground(folder, local)
        if left := [*of_command(str(folder))]:
            raise AssertionError(f"processes are left: {left}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.environ.pop("PYTHONPATH")
        if usual is not None:
            os.environ["PYTHONPATH"] = usual


def configuration(
    folder: Path, method: Any = "svfl", model: Mapping[str, Any] | None = None, **training: Any
) -> RunConfig:
    """Return the configuration of a run on the tables in a folder."""
    data = {
        "id": "id",
        "folder": str(folder),
        "parties": {name: {"source": f"{name}.csv"} for name in PARTIES},
        "labels": {"source": "labels.csv", "column": "y"},
    }
    if (folder / "all").is_dir():
        data["alignment"] = str(folder / "all")
    return parse_config(
        {
            "data": data,
            "label_holder": {"name": HOLDER},
            "model": model or {"bottom": {"widths": [4]}, "top": {"widths": []}},
            "method": method,
            "training": {"epochs": 2, "batch_size": 16, **training},
        }
    )


def _write_tables(folder: Path, rows: int = 120) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(rows, 6)).round(3)
    y = np.where(x[:, 0] + x[:, 3] > 0, "bought", "left")
    ids = [f"person-{number}" for number in range(1000, 1000 + rows)]
    frames = {
        "bank": pl.DataFrame({"id": ids, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})[5:],
        "shop": pl.DataFrame({"id": ids, "d": x[:, 3], "e": x[:, 4]}).reverse(),
        "clinic": pl.DataFrame({"id": ids, "g": x[:, 0] * x[:, 3], "h": x[:, 5]}),
        "labels": pl.DataFrame({"id": ids, "y": y})[:-7],
    }
    for name, frame in frames.items():
        frame.write_csv(folder / f"{name}.csv")


def _align(config: RunConfig, folder: Path) -> None:
    """Align, and give each organisation what it keeps of it."""
    meeting, organisations = aligning(config)
    carry_out(config, meeting, organisations, folder / "all", lambda *_: None)
    for name in EVERYBODY:
        own = folder / name / "aligned"
        own.mkdir(parents=True)
        shutil.copy(folder / "all" / f"{name}.json", own)


def _allow(resources: Path, classes: tuple[str, ...]) -> None:
    settings = json.loads(resources.read_text())
    settings["class_allow_list"] += classes
    resources.write_text(json.dumps(settings))
