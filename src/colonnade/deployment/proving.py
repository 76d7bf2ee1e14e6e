"""The whole path on one machine: align, provision, submit, train, and what came of it where."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os.path import lexists
from pathlib import Path
from typing import Literal
from urllib.request import urlopen

from colonnade.alignment import alignment_file, read_alignment
from colonnade.alone import alone_in
from colonnade.config.run import RunConfig
from colonnade.config.tables import TableConfig, TablesConfig
from colonnade.deployment.flare_paths import check_folder, check_program
from colonnade.deployment.folders import write_job, write_site
from colonnade.deployment.job import JobConfig, Task, job_of
from colonnade.deployment.kept_here import KEPT
from colonnade.deployment.policy import load_policy
from colonnade.deployment.predicting import PREDICTIONS
from colonnade.deployment.site import POLICY
from colonnade.deployment.told_elsewhere import FAILED
from colonnade.errors import ConfigurationError, DataError, RoleFailed
from colonnade.export import MEAN_FILE, PARTS
from colonnade.fallbacks import NOBODY, Fallbacks, Lost
from colonnade.faults import explained
from colonnade.outputs import check_place
from colonnade.serving import ServeConfig
from colonnade.tables.there import is_file

__all__ = ["Place", "prove"]

_FEDERATION = "federation"
_UNTOLD = " (nobody tells why: a process of it may have been ended)"
_LOOK = 0.5  # seconds after which it is looked how a service stands
_PATIENCE = 5.0  # seconds that it may take to say so
_DIED = re.compile(r"\S+\.py: error: .+|[\w.]+(?:Error|Exception)(?:: .+)?")
"""How a program ends that could not log why: what a process says last."""

_EPOCH = re.compile(r"round \d+, epoch (\d+)")  # as the server logs what an evaluation came to
_PURPOSES: dict[Task, str] = {
    "align": "to find who is in all tables",
    "train": "to train",
    "align_new": "to find which new people all know",
    "predict": "to predict them",
    "serve": "to serve predictions",
}


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
    config: RunConfig,
    run: str,
    place: Place,
    told: Callable[[str], None],
    *,
    new: Mapping[str, str] | None = None,
    without: Fallbacks = NOBODY,
    serve: bool = False,
    label_holder_at: Literal["site", "server"] = "site",
    keep: bool = False,
    trained: Callable[[int, int], None] = lambda done, of: None,
) -> JobConfig:
    """Carry out a run on this machine as organisations would on theirs; return its job.

    Who has not aligned does so first. What of the run is there already, of one that was stopped, it
    goes on with. Nobody else carries out one in the same place meanwhile.

    Parameters
    ----------
    config
        Where the tables of all are.
    run
        What every organisation calls it.
    place
        Where each organisation keeps what is its own.
    told
        Called with a sentence about each step.
    new
        Where each organisation has rows of new people, who are predicted then.
    without
        Parties that have left by then, and what stands for each.
    serve
        Whether predictions of them are served then, until somebody interrupts.
    label_holder_at
        Whether the label holder has a site, or runs the server.
    keep
        Whether FLARE's own folders and logs stay; they do where a job fails.
    trained
        Called with how many epochs of how many are done.

    Raises
    ------
    ConfigurationError
        If NVIDIA FLARE is not installed or cannot run in the place, the job cannot be, a policy
        cannot be read, or another is at work in the place.
    DataError
        If a file is not there, or its columns, ids or labels cannot be used.
    RoleFailed
        If a job fails; the logs say why.
    """
    try:
        from colonnade.deployment.local import SERVER, free_ports, local_federation
    except ImportError as error:
        raise ConfigurationError(
            f"a federation needs NVIDIA FLARE ({error}); install colonnade[flare]"
        ) from None
    check_place(place.folder)
    check_folder(place.folder)
    check_program(Path(sys.executable))
    job = job_of(config, run, "train", label_holder_at)
    _check_new(new or {}, job_of(config, run, "predict", label_holder_at, without))
    assert isinstance(config.data, TablesConfig)
    place_of_data = config.data.place()
    if serve and not new:
        raise ConfigurationError("predictions are served of new people: say with --new who")
    _check_sources(config.data, new or {}, place_of_data)
    # A site would find what is wrong with a policy, a table, or what labels are for, minutes later.
    policies = _policies(place, job.everybody)
    _rehearse(config, config.data)
    told("all tables can be read, and models be made for them")
    files = {name: place.of(name) / "aligned" / alignment_file(name) for name in job.everybody}
    means = {name: place.run(name, job) / PARTS / name / MEAN_FILE for name in without}
    folder = place.folder / _FEDERATION
    service = None
    if serve:
        token = place.of(job.label_holder.name).absolute() / "token"
        service = ServeConfig(port=free_ports(1)[0], token=token)
    with (
        alone_in(place.folder),
        _removed(folder, keep),
        local_federation(folder / "flare", job.sites) as local,
    ):
        told("certificates for the server and every site are made")
        _hand_over(config, files.values())
        tasks: list[Task] = [] if all(file.is_file() for file in files.values()) else ["align"]
        tasks += ["train", "align_new", "predict"] if new else ["train"]
        for name in job.everybody:
            own = {"alignment": place.of(name) / "aligned", "runs": place.of(name) / "runs"}
            here = {} if place_of_data is None else {"folder": place_of_data}
            if name in policies:
                here["policy"] = policies[name]
            there = {key: path.absolute() for key, path in (own | here).items()}
            site = local.site(name if name in job.sites else SERVER)
            write_site(config, name, site, (new or {}).get(name), means, service, **there)
        local.start(job.sites)
        told("the server and every site are up, and know each other by mutual TLS")

        before: dict[Path, int] = {}

        def submit(task: Task) -> str:
            write_job(job_of(config, run, task, label_holder_at, without), folder / task)
            before.update(_lengths(local.folder))
            number = local.submit(folder / task)
            told(f"job {number} is submitted, {_PURPOSES[task]}")
            return number

        def has_ended(number: str) -> bool:
            if local.has_ended(number):
                return True
            local.check_alive()  # whom the server would await for long before a job starts
            return False

        def failed(number: str) -> RoleFailed:
            why = _reasons(local.folder, number, before) or _UNTOLD
            return RoleFailed(f"the job failed{why}; the logs are in {folder}")

        aligned = files[job.label_holder.name].parent

        def people() -> int:
            return len(read_alignment(aligned)[job.label_holder.name].ids)

        def epochs() -> int:
            return int(config.training.build(1).for_rows(people()).epochs)

        if "align" not in tasks:
            told(
                f"{people():,} people are in all tables, as was found before: remove {aligned} and "
                "what the others have of it to find it anew"
            )
        for task in tasks:
            number = submit(task)
            most = epochs() if task == "train" else 0
            ended = False
            while not ended:
                time.sleep(_LOOK)
                ended = has_ended(number)
                if most and (done := _epochs_in(local.job_log(number))):
                    trained(done, max(done, most))
            if not local.wait(number):
                raise failed(number)
            if task == "align":
                told(f"{people():,} people are in all tables")
            if task == "predict" and without:
                told(_lost(place.run(job.label_holder.name, job) / PREDICTIONS, without))
        if service is not None:
            number = submit("serve")
            try:
                _serve(service, lambda: has_ended(number), told)
            finally:
                ended_by_itself = local.has_ended(number)
                local.abort(number)
            if ended_by_itself:
                raise failed(number)
    return job


@contextmanager
def _removed(folder: Path, keep: bool) -> Iterator[None]:
    """Remove a folder when all went well, unless it is to stay."""
    yield
    if not keep:
        with explained(folder):
            shutil.rmtree(folder)


def _serve(
    service: ServeConfig, has_ended: Callable[[], bool], told: Callable[[str], None]
) -> None:
    """Wait until predictions are served, say so, and wait until it is asked to end."""
    url = f"http://{service.host}:{service.port}"
    while not has_ended() and not _is_healthy(url):
        time.sleep(_LOOK)
    if has_ended():
        return
    with suppress(KeyboardInterrupt, SystemExit):  # the latter as by SIGTERM
        told(
            f"predictions are served at {url}/predict to whom shows the token in "
            f"{service.token}, until this is interrupted"
        )
        while not has_ended():
            time.sleep(_LOOK)


def _is_healthy(url: str) -> bool:
    try:
        with urlopen(f"{url}/health", timeout=_PATIENCE) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def _rehearse(config: RunConfig, data: TablesConfig) -> None:
    """Raise what a run of everybody in one process would, before its first round."""
    federation = config.build_federation(data.of_those_taking_part().load())
    method = config.method.build()
    holder = federation.label_holder
    method.exchange.check_covers(holder.objective(), holder.learned)
    federation.check(method)
    training = config.training.build(len(federation.validation_rows))
    training = training.for_rows(len(federation.train_rows))
    federation.agreement(method, training).warm_up()


def _policies(place: Place, names: Iterable[str]) -> dict[str, Path]:
    """Return whose policy is where; raise ``ConfigurationError`` where one cannot be read."""
    usual = {name: place.of(name) / POLICY for name in names}
    there = {name: policy for name, policy in usual.items() if lexists(policy)}
    for policy in there.values():
        load_policy(policy)
    return there


def _check_sources(data: TablesConfig, new: Mapping[str, str], folder: Path | None) -> None:
    """Raise ``DataError`` where a file is missing, before anything is started."""
    tables: dict[str, TableConfig] = {**data.taking_part, "labels": data.labels}
    places = {name: table.where(folder) for name, table in tables.items()}
    places |= {f"{n}, new people": TableConfig(source=s).where(None) for n, s in new.items()}
    missing = [
        f"{place} ({name})"
        for name, place in places.items()
        if "://" not in place and not is_file(Path(place))
    ]
    if missing:
        raise DataError(f"there is no file {', and none '.join(missing)}")


def _epochs_in(log: Path) -> int:
    """Return how many epochs are done, as the server logs it."""
    try:
        found = _EPOCH.findall(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:  # the job is not running yet
        return 0
    return int(found[-1]) if found else 0


def _lost(predictions: Path, without: Fallbacks) -> str:
    """Return what the last prediction lost by whoever has left, in a sentence."""
    newest = max(predictions.iterdir(), key=lambda each: int(each.name))
    lost = json.loads((newest / "summary.json").read_text(encoding="utf-8"))["lost"]
    names = ", ".join(without)
    if lost is None:
        return f"what is lost without {names} is not measured: there are no validation rows"
    return f"without {names}: {Lost(**lost)} with everybody"


def _check_new(new: Mapping[str, str], job: JobConfig) -> None:
    """Raise ``ConfigurationError`` unless everybody or nobody has rows of new people."""
    if strangers := [name for name in new if name not in job.everybody]:
        raise ConfigurationError(
            f"--new names {strangers[0]!r}, and the organisations are {', '.join(job.everybody)}"
        )
    if new and (lacking := [name for name in job.everybody if name not in new]):
        raise ConfigurationError(
            "new people are predicted of whom all know something: say --new NAME=SOURCE also for "
            f"{' and '.join(lacking)}; a label holder without columns has their ids"
        )


def _hand_over(config: RunConfig, files: Iterable[Path]) -> None:
    """Give everybody its own file of an alignment that the configuration names."""
    named = config.data.alignment if isinstance(config.data, TablesConfig) else None
    if named is None:
        return
    for file in files:
        with explained(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(named / file.name, file)


def _lengths(folder: Path) -> dict[Path, int]:
    """Return how many bytes the server and each site have said on their screens."""
    return {log: log.stat().st_size for log in folder.glob("*.log")}


def _reasons(folder: Path, number: str, before: Mapping[Path, int]) -> str:
    """Return why a job failed, as it is said where it did; else as it is said anywhere first.

    What died before it could log of the job has said why on the screen of whoever started it, of
    which ``before`` says how many bytes are older than the job.
    """
    here, anywhere = [], []
    for log in sorted(folder.glob(f"*/{number}/error_log.txt")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        for line in (line for line in lines if " - ERROR - " in line):
            said = line.rpartition(" - ")[2]
            if said.startswith(FAILED):
                here.append(f"{log.parent.parent.name}: {_in_full(said.removeprefix(FAILED))}")
            anywhere.append(said)
    reasons = here or anywhere[:1] or _last_words(folder, before)
    return f" ({'; '.join(dict.fromkeys(reasons))})" if reasons else ""


def _last_words(folder: Path, before: Mapping[Path, int]) -> list[str]:
    """Return with which words processes have ended, of the server and of each site the last."""
    said = []
    for log in sorted(folder.glob("*.log")):
        lines = log.read_bytes()[before.get(log, 0) :].decode(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if _DIED.fullmatch(line)), None)
        if last is not None:
            said.append(f"{log.stem}: {last}")
    return said


def _in_full(said: str) -> str:
    """Return what went wrong, also where a log says only in which file that is."""
    _, kept, file = said.partition(KEPT)
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()[0] if kept else said
    except (OSError, IndexError):
        return said
