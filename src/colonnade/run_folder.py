"""The folder of a run: who may write there, what is written, and what is read of it again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from torch import Tensor

from colonnade import __version__
from colonnade.checkpoints import CheckpointStore
from colonnade.clocks import Clock
from colonnade.errors import (
    CheckpointError,
    ColonnadeError,
    ConfigurationError,
    DataError,
    DataWarning,
    Unwritten,
)
from colonnade.export import (
    MEAN_FILE,
    PART_FILE,
    PARTS,
    Part,
    check_parts,
    load_part,
    read_mean,
)
from colonnade.faults import explained, misnamed_or_unwritten, unread_or_damaged
from colonnade.forked import check_not_forked
from colonnade.layout import check_names
from colonnade.ledger import Ledger
from colonnade.locks import locked, unlock
from colonnade.ordinary import read_ordinary
from colonnade.outputs import (
    CONFIGURATION,
    PAGE,
    PICTURE,
    SIGNATURE,
    check_outputs,
    is_ours,
    replacing,
    unfinished,
)
from colonnade.paths import as_path
from colonnade.predictions_counted import PREDICTED, PredictionCount
from colonnade.runs import Run
from colonnade.summaries_read import check_history, check_others_history, check_summary
from colonnade.telling import short
from colonnade.yaml_text import NOT_YAML, read_yaml

__all__ = ["RunFolder", "alone_in", "check_has_parts", "load_means", "load_parts", "load_run"]

FILES = ("config.yaml", "history.csv", "ledger.csv", "summary.json")
PICTURES = {"run.png": PICTURE, "report.html": PAGE}
OTHERS = "others_history.csv"  # only where other organisations than the label holder reported
_SEALED = ("config.yaml", "history.csv", OTHERS, "ledger.csv")  # whose digests a summary has
TRAINING = "training"  # only where organisations on computers of their own have trained
SURROGATES = "surrogates"  # only there, where a job keeps them on a disk
_WRITTEN = (
    *(*FILES, OTHERS, *PICTURES, PARTS, PREDICTED, TRAINING),
    *("checkpoint", "journal", "departures", SURROGATES),
)
_NAMES = {"organisation": pl.String}  # also of one that is called 007
_SEAL = {"format", "digests", "digest"}  # what a file has beside a summary
_WRITTEN_OUT = 4  # times as long as what a user may write, as what was left out is said
_ELSEWHERE = "choose another folder"
_DYING = 1.0  # seconds that a process which was killed may take until it has let go
_UNSEALED = "a run that was killed as it wrote its results writes them anew when it is resumed"
_FORMAT = 1  # of a summary; without one, it is of the time before there were digests

_UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError),
    *(*NOT_YAML, pl.exceptions.PolarsError, ConfigurationError),
)


def load_run(path: str | Path) -> Run:
    """Return the run that a folder holds: its account, without models and the driver's record.

    Configuration, history, ledger and summary are what was written: they have digests. A run of an
    older version has none, and is read without.

    Raises
    ------
    ConfigurationError
        If this is no path.
    DataError
        If there is no finished or interrupted run in the folder, a file of it is damaged, or it is
        of a version whose runs this one cannot read.
    """
    folder = as_path("a run is read from the path of its folder", path)
    missing = [name for name in FILES if not _is_there(folder / name)]
    if missing:
        raise DataError(
            f"{short(str(folder))} holds no run that can be read: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there"
        )
    summary, digests = _summary_in(folder)
    older = _older_than_digests(summary) if digests is None else ""
    name = "config.yaml"
    try:
        for name, digest in (digests or {}).items():
            if _is_part(name):  # which may have been given away
                continue
            if not (folder / name).is_file():
                raise ValueError("it is not there, or no ordinary file")
            if _digest_of(folder / name) != digest:
                raise ValueError(f"it is not what was written; {_UNSEALED}")
        name = "config.yaml"
        config = read_yaml((folder / name).read_text(encoding="utf-8"), _WRITTEN_OUT)
        if not isinstance(config, dict):
            raise ValueError("it holds no keys and values")
        name = "history.csv"
        history = _read_csv(folder / name)
        check_history(history)
        name = "ledger.csv"
        ledger = Ledger.read_csv(folder / name)
        others = pl.DataFrame()
        if (folder / OTHERS).is_file() if digests is None else OTHERS in digests:
            name = OTHERS
            others = _read_csv(folder / name)
            check_others_history(others)
        name = "summary.json"
        check_summary(summary)
    except _UNREADABLE as error:
        raise unread_or_damaged(folder / name, error, older) from error
    return Run(summary, history, ledger, {}, None, config, folder, others_history=others)


def _is_there(file: Path) -> bool:
    """Return whether it is a file; ``DataError`` where nobody may see, or none is called so."""
    try:
        return file.is_file()
    except OSError as error:
        raise unread_or_damaged(short(str(file)), error) from None


def check_has_parts(path: str | Path) -> None:
    """Raise ``DataError`` if the run in a folder is of a version that kept no parts there."""
    folder = RunFolder(Path(path))
    summary, digests = _summary_in(folder.path)
    if not _sealed_parts(digests) and not any(folder.parts.glob("*/part.json")):
        raise DataError(
            f"the run in {folder.path} is of an older version of colonnade "
            f"({_version_of(summary)}), which kept no trained parts in its folder: nothing can be "
            "predicted or exported from it; train it again in a new folder"
        )


def load_parts(path: str | Path) -> dict[str, Part]:
    """Return the trained parts that the run in a folder wrote, each by whose it is.

    Raises
    ------
    DataError
        If one is missing or damaged, or is that of another organisation or run.
    """
    folder = RunFolder(Path(path))
    summary, digests = _summary_in(folder.path)
    sealed = _sealed_parts(digests)
    parties, label_holder = summary.get("parties"), summary.get("label_holder")
    names: list[Any] = [*parties] if isinstance(parties, list) else []
    names += [] if label_holder in names else [label_holder]
    try:
        check_names(names)  # which become paths
    except ConfigurationError as error:
        raise DataError(
            f"{folder.path / 'summary.json'} does not say whose parts there are: {error}"
        ) from None
    parts = {}
    for name in names:
        part = parts[name] = load_part(folder.parts / name)
        if part.organisation != name:
            raise DataError(
                f"{folder.parts / name} holds the part of {part.organisation!r}, not of {name!r}"
            )
        file = _part_file(name)
        if sealed and _digest_of(folder.path / file) != sealed.get(file):
            raise DataError(f"{folder.path / file} is not what this run wrote; {_UNSEALED}")
    return parts


def load_means(path: str | Path, names: Iterable[str]) -> dict[str, Tensor]:
    """Return the means of embeddings that the run in a folder wrote, ``[E]`` by whose each is.

    Who diverged has none, and neither has a party of a run of an earlier version.

    Parameters
    ----------
    path
        The run's folder.
    names
        Of the organisations that have parts there.

    Raises
    ------
    DataError
        If one is damaged, or is that of another organisation or run.

    Warns
    -----
    DataWarning
        If one that the run wrote is gone.

    Examples
    --------
    >>> load_means("runs/credit", ["bank"])
    Traceback (most recent call last):
    colonnade.errors.DataError: runs/credit/summary.json cannot be read: No such file or directory
    """
    folder = Path(path)
    sealed = _sealed_parts(_summary_in(folder)[1])
    means = {}
    for name in names:
        file = _mean_file(name)
        if not os.path.lexists(folder / file):
            if file in sealed:
                warnings.warn(
                    f"{folder / file} is gone, which this run wrote: the mean of {name!r}, that "
                    "could stand for it, is neither known nor exported",
                    DataWarning,
                    stacklevel=2,
                )
            continue
        means[name] = read_mean(folder / file, name)
        if sealed and _digest_of(folder / file) != sealed.get(file):
            raise DataError(
                f"{folder / file} is not what this run wrote, or an older version of colonnade "
                "wrote it, which told nothing of it: take it away, or put back the run's own"
            )
    return means


def _sealed(run: Run, folder: Path) -> dict[str, Any]:
    """Return what ``summary.json`` shall hold: with digests of the results beside it, and its own.

    As a summary is written last, its digests are of files of the same moment, or do not fit.
    """
    names = (*_SEALED, *map(_part_file, run.models), *map(_mean_file, run.models))
    there = [name for name in names if (folder / name).is_file()]
    digests = {name: _digest_of(folder / name) for name in there}
    sealed = {"format": _FORMAT, **run.summary, "digests": digests}
    return sealed | {"digest": _digest(sealed)}


def _summary_in(folder: Path) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Return the summary of a run, and the digests of its files; None of an older version."""
    check_not_forked()  # whoever reads it goes on to what polars reads
    older = ""
    try:
        sealed = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        if not isinstance(sealed, dict):
            raise ValueError("it is no summary")
        older = "" if sealed.keys() & _SEAL else _older_than_digests(sealed)
        return _unsealed(sealed)
    except _UNREADABLE as error:
        raise unread_or_damaged(folder / "summary.json", error, older) from error


def _unsealed(sealed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str] | None]:
    """Return a summary, and the digests of the results beside it; None of an older version.

    Raises
    ------
    DataError
        If it was written by a later version.
    ValueError
        If it is not what was written.
    """
    summary = dict(sealed)
    digests: dict[str, str] | None = None
    if summary.keys() & _SEAL:
        if not summary.keys() >= _SEAL:
            raise ValueError("it lacks its format, or its digests")
        if type(summary["format"]) is int and summary["format"] > _FORMAT:
            raise DataError(
                f"the run is of colonnade {_version_of(summary)} (format {summary['format']}; this "
                f"version, {__version__}, reads up to {_FORMAT}); read it with that version"
            )
        if summary.pop("digest") != _digest(summary):
            raise ValueError("it is not what was written")
        del summary["format"]
        digests = summary.pop("digests")
        files = {name for name in digests if not _is_part(name)}
        if not {"history.csv", "ledger.csv"} <= files <= set(_SEALED):
            raise ValueError("its digests are of other files than those beside it")
    elif isinstance(summary.get("local_updates"), int):
        del summary["local_updates"]  # of all together: whose they were is not told
    if not summary.keys() >= {"method", "metric", "rounds"}:
        raise ValueError("it is no summary")
    return summary, digests


def _sealed_parts(digests: Mapping[str, str] | None) -> dict[str, str]:
    """Return the digests of trained parts and means; a run of an older version has none."""
    return {name: digest for name, digest in (digests or {}).items() if _is_part(name)}


def _part_file(organisation: str) -> str:
    return f"{PARTS}/{organisation}/{PART_FILE}"


def _mean_file(organisation: str) -> str:
    return f"{PARTS}/{organisation}/{MEAN_FILE}"


def _is_part(name: str) -> bool:
    return name.startswith(f"{PARTS}/")


def _older_than_digests(summary: Mapping[str, Any]) -> str:
    version = _version_of(summary)
    return f", or older than colonnade {__version__} can read (it is of {version})"


def _version_of(summary: Mapping[str, Any]) -> str:
    """Return by which version a summary says it was written."""
    return str(summary.get("versions", {}).get("colonnade", "no version that it names"))


def _digest(values: Mapping[str, Any]) -> str:
    # The order of keys is kept by JSON, and their types may be such that they cannot be sorted.
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


def _read_csv(file: Path) -> pl.DataFrame:
    frame = pl.read_csv(  # for paths see write_csv
        file.read_bytes(), infer_schema_length=None, schema_overrides=_NAMES
    )
    # Of a quote within a name polars keeps both that a file has for it.
    frame.columns = [name.replace('""', '"') for name in frame.columns]
    empty = [name for name in frame.columns if frame[name].null_count() == len(frame)]
    return frame.with_columns(pl.col(empty).cast(pl.Float64))  # which polars takes for texts


def _digest_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


class RunFolder:
    """The folder of one run.

    ``config.yaml`` is there from the start, ``checkpoint/``, ``journal/`` and ``departures/`` grow
    while the run lasts; the other files are written when it ends or is interrupted, each in one
    step. Whoever goes by more than its ``path`` holds it ``alone``.

    Parameters
    ----------
    path
        The folder; made by ``alone``.
    elsewhere, again
        What errors say that whoever runs it should do, so that it is another run's folder, or so
        that it goes on.
    """

    def __init__(
        self,
        path: Path,
        elsewhere: str = _ELSEWHERE,
        again: str = "resume the run (--resume)",
    ) -> None:
        self.path, self._elsewhere, self._again = path, elsewhere, again

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Make the folder, and keep all other runs out of it until it is left; see ``alone_in``.

        Raises
        ------
        DataError
            Also if one of its files is no ordinary one.
        """
        with alone_in(self.path, self._elsewhere):
            self._check_ordinary()
            yield

    def _check_ordinary(self) -> None:
        """Raise ``DataError`` where something lies that whoever reads it would wait for."""
        for name in _WRITTEN:
            for path in (self.path / name, *(self.path / name).rglob("*")):
                if path.exists() and not path.is_file() and not path.is_dir():
                    raise DataError(
                        f"{path} is no ordinary file; move it away, or {self._elsewhere}"
                    )

    def _check_kinds(self) -> None:
        """Raise ``DataError`` where a folder is in the place of a file, or the reverse."""
        for name in (*_SEALED, "summary.json"):
            self._check_kind(name, (self.path / name).is_dir(), "a folder, where a file")
        for name in (PARTS, "checkpoint", "journal", "departures", SURROGATES):
            self._check_kind(name, (self.path / name).is_file(), "a file, where a folder")
        for file in (self.path / PARTS).glob("*/*.*"):
            if file.suffix in (".json", ".pt2", ".safetensors"):
                name = str(file.relative_to(self.path))
                self._check_kind(name, file.is_dir(), "a folder, where a file")

    def _check_kind(self, name: str, is_other: bool, kinds: str) -> None:
        if is_other:
            raise DataError(
                f"{self.path / name} is {kinds} of the run will be; move it away, or "
                f"{self._elsewhere}"
            )

    def begin(self, config: Mapping[str, Any], resume: bool, known: bool = False) -> None:
        """Check that the folder is free for a new run, or holds one to resume; say what it is.

        Parameters
        ----------
        config
            What ``config.yaml`` shall hold. It is written only if it holds something else.
        resume
            Whether the run that the folder holds is to go on.
        known
            Whether a checkpoint of this very run was found in it, or it ``has_only_begun``, where
            whoever begins runs lets another one begin then.

        Raises
        ------
        ConfigurationError
            If it holds a run already and ``resume`` is False, or what no run of Colonnade's wrote;
            or if there is no checkpoint to go on from, and it holds results or another run; or if
            something else is in its place.
        Unwritten
            If it cannot be made, or the configuration or parts cannot be written into it.
        """
        there = [name for name in _WRITTEN if (self.path / name).exists()]
        # A configuration or a checkpoint says that the folder is a run's, and so all that is in it.
        is_run = known or self.has_begun
        if there and not is_run:
            raise ConfigurationError(
                f"{self.path} holds no run, but {', '.join(there)}, which a run would write over; "
                f"{self._elsewhere}"
            )
        if there and not resume:
            raise ConfigurationError(
                f"{self.path} already holds a run ({', '.join(there)}); "
                f"resume it, or {self._elsewhere}"
            )
        said = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
        text = f"# {SIGNATURE}: all that decides the run.\n{said}"
        is_said = self._says(text)
        self._check_kinds()
        if there and not known:
            self._check_unbegun(is_said)
        check_outputs(self.path, PICTURES)
        check_parts(self.parts)
        if there:
            self._remove_unfinished()
        if is_said:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise misnamed_or_unwritten(f"the folder {self.path}", error) from None
        self._write("config.yaml", text)

    @property
    def training(self) -> str | None:
        """Which training the run here is of, as its organisations tell it from others by the job.

        None where nobody has said.

        Raises
        ------
        DataError
            If what is there cannot be read.
        """
        file = self.path / TRAINING
        try:
            return read_ordinary(file).decode().strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise unread_or_damaged(file, error) from None

    def keep_training(self, which: str) -> None:
        """Write down which training the run here is of.

        Raises
        ------
        Unwritten
            If it cannot be written.
        """
        self._write(TRAINING, f"{which}\n")

    def configuration(self) -> dict[str, Any]:
        """Return what ``config.yaml`` says of the run.

        Raises
        ------
        DataError
            If there is no run, or its configuration cannot be read.
        """
        file = self.path / "config.yaml"
        if not _is_there(file):
            raise DataError(f"{self.path} holds no run: config.yaml is not there")
        try:
            config = read_yaml(file.read_text(encoding="utf-8"), _WRITTEN_OUT)
            if not isinstance(config, dict):
                raise ValueError("it holds no keys and values")
        except _UNREADABLE as error:
            raise unread_or_damaged(file, error) from error
        return config

    def store(
        self,
        fingerprint: Mapping[str, str],
        timing: str | None = None,
        clock: Clock | None = None,
    ) -> CheckpointStore:
        """Return the run's checkpoints."""
        anew = f"start a new one: {self._elsewhere}"
        place = self.path / "checkpoint"
        return CheckpointStore(place, fingerprint, timing=timing, clock=clock, anew=anew)

    @property
    def parts(self) -> Path:
        """The folder of the organisations' trained parts; see ``Run.export``."""
        return self.path / PARTS

    def predictions(self, label_holder: str) -> PredictionCount:
        """Return how often the run has predicted."""
        return PredictionCount(self.path, self.parts / label_holder)

    @property
    def journals(self) -> Path:
        """The folder of the organisations' journals; see ``Assignment``."""
        return self.path / "journal"

    @property
    def departures(self) -> Path:
        """The folder where is noted what leaves; see ``Assignment``."""
        return self.path / "departures"

    @property
    def surrogates(self) -> Path:
        """The folder of surrogates, where a job keeps them on a disk; see ``Disk``."""
        return self.path / SURROGATES

    def finish(self, run: Run) -> None:
        """Write history, ledger and summary, which has the digests of all three.

        Raises
        ------
        Unwritten
            If one cannot be written.
        """
        self._write("history.csv", run.history.write_csv())
        if len(run.others_history):
            self._write(OTHERS, run.others_history.write_csv())
        self.keep(run.ledger)
        with explained(self.path):
            summary = _sealed(run, self.path)
        self._write("summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")
        file = self.path / "config.yaml"
        with explained(file):
            file.stat()  # a folder that was removed is there again, without it

    def keep(self, ledger: Ledger) -> None:
        """Write what one organisation has sent, where the whole run is known to nobody here.

        Raises
        ------
        Unwritten
            If it cannot be written.
        """
        with explained(self.path / "ledger.csv"), replacing(self.path / "ledger.csv") as partial:
            ledger.write_csv(partial)

    @contextmanager
    def safeguarded(self, store: CheckpointStore) -> Iterator[None]:
        """Add to an ``Unwritten`` what of the run is safe, and how it goes on."""
        try:
            yield
        except Unwritten as error:
            raise Unwritten(f"{error}. {self._what_is_safe(store)}") from error

    def _what_is_safe(self, store: CheckpointStore) -> str:
        try:
            checkpoint = store.latest()
            there = checkpoint is not None or self.has_begun
        except CheckpointError as error:  # there are some, and none that it can go on from
            return str(error)
        except (OSError, ColonnadeError):
            return f"What of the run is left cannot be seen now: when that is mended, {self._again}"
        if checkpoint is not None:
            return (
                f"The checkpoint before round {checkpoint.round} is whole: when that is mended, "
                f"{self._again}, and it goes on from there"
            )
        if there:
            return f"There is no checkpoint: when that is mended, {self._again}, and it begins anew"
        return f"Nothing of the run is left in {self.path}: begin it anew, and {self._elsewhere}"

    def _write(self, name: str, text: str) -> None:
        with explained(self.path / name), replacing(self.path / name) as partial:
            partial.write_text(text, encoding="utf-8")

    @property
    def has_begun(self) -> bool:
        """Whether a run has begun in it: its configuration is there."""
        file = self.path / "config.yaml"
        try:
            return file.is_file() and file.stat().st_size > 0 and is_ours(file, CONFIGURATION)
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}") from None

    @property
    def has_only_begun(self) -> bool:
        """Whether a run was to begin in it, and none has sent or kept anything since."""
        if not self.has_begun:
            return False
        others = (self.path / name for name in _WRITTEN if name not in ("config.yaml", TRAINING))
        with explained(self.path):
            return not any(_is_filled(path) for path in others)

    def _remove_unfinished(self) -> None:
        """Remove results, and files of parts, that a process which was killed had begun to write.

        Predictions are counted meanwhile, by others.
        """
        parts = [path for path in self.parts.glob("*") if path.is_dir() and not path.is_symlink()]
        own = {*FILES, OTHERS, *PICTURES}
        with explained(self.path):
            for folder in (self.path, *parts):
                for file, name in unfinished(folder):
                    if name in own or (folder != self.path and name != PREDICTED):
                        file.unlink()

    def _says(self, text: str) -> bool:
        """Whether ``config.yaml`` is this text, or says the same in other words."""
        try:
            there = read_ordinary(self.path / "config.yaml").decode()
            return there == text or read_yaml(there, _WRITTEN_OUT) == yaml.safe_load(text)
        except (OSError, ValueError, ConfigurationError, *NOT_YAML):
            return False

    def _check_unbegun(self, is_said: bool) -> None:
        """Raise ``ConfigurationError`` unless a run without checkpoints can begin again here."""
        results = (*FILES, OTHERS, *PICTURES, PARTS, PREDICTED)
        told = [name for name in results[1:] if (self.path / name).exists()]
        if told:
            raise ConfigurationError(
                f"{self.path} holds {', '.join(told)} of a run, but no checkpoint to go on from, "
                f"and the run would begin anew and write over them; {self._elsewhere}"
            )
        if not is_said:
            raise ConfigurationError(
                f"{self.path / 'config.yaml'} describes another run, and there is no checkpoint to "
                f"go on from; {self._elsewhere}, or {self._again} with that configuration"
            )


def _is_filled(path: Path) -> bool:
    """Return whether a file, or a folder in which something is, lies there."""
    return any(path.iterdir()) if path.is_dir() else path.exists()


@contextmanager
def alone_in(folder: Path, elsewhere: str = _ELSEWHERE) -> Iterator[None]:
    """Make a folder, and keep all others who ask for it so out of it until it is left.

    The folder itself is locked: no file is left in it, and a process that is killed lets go.

    Parameters
    ----------
    folder
        The folder.
    elsewhere
        What who is kept out should do, so that it is in another.

    Raises
    ------
    ConfigurationError
        If another run is at work in it, or something else is in its place.
    Unwritten
        If it cannot be made.

    Examples
    --------
    >>> with alone_in(Path("deployed")):
    ...     Path("deployed").is_dir()
    True
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(folder, elsewhere)
    except OSError as error:
        raise misnamed_or_unwritten(f"the folder {folder}", error) from None
    except ValueError as error:  # a byte that no name may have
        raise ConfigurationError(f"{str(folder)!r} is no name of a folder: {error}") from None
    try:
        yield
    finally:
        _unlock(lock)


def _lock(folder: Path, elsewhere: str) -> int | None:
    """Return the descriptor by which a folder is locked; None where folders cannot be opened.

    Where folders have no locks journals may have, each for itself.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    deadline = time.monotonic() + _DYING
    while not (is_ours := locked(descriptor)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not is_ours:
        os.close(descriptor)
        raise ConfigurationError(
            f"another run is at work in {folder}; wait until it has ended, or {elsewhere}"
        )
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        unlock(descriptor)
        os.close(descriptor)
