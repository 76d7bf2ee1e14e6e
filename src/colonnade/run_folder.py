"""The folder of a run: whether it is free for one, and what is written there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from colonnade.alone import ELSEWHERE, alone_in
from colonnade.checkpoints import CheckpointStore
from colonnade.clocks import Clock
from colonnade.errors import (
    CheckpointError,
    ColonnadeError,
    ConfigurationError,
    DataError,
    Unwritten,
)
from colonnade.export import PARTS, check_parts
from colonnade.faults import explained, misnamed_or_unwritten, unread_or_damaged
from colonnade.ledger import Ledger
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
from colonnade.predictions_counted import PREDICTED, PredictionCount
from colonnade.run_read import WRITTEN_OUT
from colonnade.run_seal import FILES, OTHERS, SEALED, sealed
from colonnade.runs import Run
from colonnade.yaml_text import NOT_YAML, read_yaml

__all__ = ["RunFolder"]

PICTURES = {"run.png": PICTURE, "report.html": PAGE}
TRAINING = "training"  # only where organisations on computers of their own have trained
SURROGATES = "surrogates"  # only there, where a job keeps them on a disk
_WRITTEN = (
    *(*FILES, OTHERS, *PICTURES, PARTS, PREDICTED, TRAINING),
    *("checkpoint", "journal", "departures", SURROGATES),
)


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
        elsewhere: str = ELSEWHERE,
        again: str = "resume the run (--resume)",
    ) -> None:
        self.path, self._elsewhere, self._again = path, elsewhere, again
        self._said = ""  # what config.yaml says
        self._is_whole = False  # all of a run that came to its end is written but what shows it

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
        for name in (*SEALED, "summary.json"):
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
        text = self._said = f"# {SIGNATURE}: all that decides the run.\n{said}"
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
        if not there:
            self._remove_begun()
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
            summary = sealed(run, self.path)
        self._write("summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")
        file = self.path / "config.yaml"
        with explained(file):
            file.stat()  # a folder that was removed is there again, without it
        if self._said and not self._says(self._said):
            raise Unwritten(f"{file} is not this run's any more: put it back")
        self._is_whole = run.summary["completed"]

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
    def results(self) -> Iterator[None]:
        """Turn into an ``Unwritten`` that something took the place of results while a run lasted.

        As it began the places were free, so nobody has named wrong ones.
        """
        try:
            yield
        except ConfigurationError as error:
            raise Unwritten(str(error)) from error

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
        if checkpoint is not None and self._is_whole:
            return (
                f"The run itself is whole: when that is mended, {self._again}, and the rest is "
                "written"
            )
        if checkpoint is not None:
            return (
                f"The checkpoint before round {checkpoint.round} is whole: when that is mended, "
                f"{self._again}, and it goes on from there"
            )
        if there:
            return f"There is no checkpoint: when that is mended, {self._again}, and it begins anew"
        return (
            f"Nothing of the run is left in {self.path}: go on where it was moved to, or begin it "
            f"anew, and {self._elsewhere}"
        )

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

    def _remove_begun(self) -> None:
        """Remove the first file of a run, where a process was killed as it wrote that."""
        with explained(self.path):
            for file, name in unfinished(self.path):
                if name == "config.yaml" and is_ours(file, CONFIGURATION):
                    file.unlink()

    def _says(self, text: str) -> bool:
        """Whether ``config.yaml`` is this text, or says the same in other words."""
        try:
            there = read_ordinary(self.path / "config.yaml").decode()
            return there == text or read_yaml(there, WRITTEN_OUT) == yaml.safe_load(text)
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
