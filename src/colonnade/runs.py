"""A finished run: its summary, its history, its ledger, and the folder they are kept in."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from torch import nn

from colonnade import __version__
from colonnade.checkpoints import CheckpointStore
from colonnade.drivers import Driver, RunRecord
from colonnade.errors import ColonnadeError, ConfigurationError, DataError, Unwritten
from colonnade.export import export_part
from colonnade.faults import explained
from colonnade.ledger import Ledger
from colonnade.local_reports import local_reports
from colonnade.locks import locked, unlock
from colonnade.outputs import (
    CONFIGURATION,
    PAGE,
    PICTURE,
    SIGNATURE,
    check_outputs,
    is_ours,
    replacing,
)
from colonnade.prediction import Prediction, Predictor
from colonnade.predictions_told import Predicted
from colonnade.reaching import Reached, reached
from colonnade.sent import SENT, bytes_sent
from colonnade.telling import first_line
from colonnade.wire import Purpose
from colonnade.yaml_text import NOT_YAML, read_yaml

__all__ = [
    "Run",
    "RunFolder",
    "history_frame",
    "load_run",
    "others_history_frame",
    "rounding_errors",
    "summarise",
]

FILES = ("config.yaml", "history.csv", "ledger.csv", "summary.json")
PICTURES = {"run.png": PICTURE, "report.html": PAGE}
OTHERS = "others_history.csv"  # only where other organisations than the label holder reported
_SEALED = ("config.yaml", "history.csv", OTHERS, "ledger.csv")  # whose digests a summary has
_WRITTEN = (*FILES, OTHERS, *PICTURES, "checkpoint", "journal", "departures")
_SEAL = {"format", "digests", "digest"}  # what a file has beside a summary
_FORMAT = 1  # of a summary; without one, it is of the time before there were digests


@dataclass(frozen=True)
class Run:
    """What training returns.

    Parameters
    ----------
    summary
        The account of the run; see ``summarise``.
    history
        A row for each evaluation, as the label holder reported it: round, epoch, losses and
        metrics, seconds on the driver's clock, and the training bytes sent until then.
    ledger
        Every message that left an organisation.
    models
        Each organisation's trained modules, by its name: ``bottom``, and the label holder's
        ``top``.
    record
        The driver's own record, with the trace that ``Replay`` takes; None of a run that was read
        from its folder, or is behind an estimator.
    config
        What the run was configured with.
    folder
        Where the run was written, if it was.
    predictor
        The trained parts, ready for new rows; None of a run that was read from its folder.
    others_history
        What organisations other than the label holder reported, if they did: a row each, with
        ``organisation`` and ``seconds``.
    predicted
        How often it has predicted, where that disclosed something of rows.
    """

    summary: dict[str, Any]
    history: pl.DataFrame
    ledger: Ledger
    models: Mapping[str, Mapping[str, nn.Module]]
    record: RunRecord | None
    config: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    predictor: Predictor | None = None
    others_history: pl.DataFrame = field(default_factory=pl.DataFrame)
    predicted: Predicted = field(default_factory=Predicted)

    def reported(self, column: str) -> pl.DataFrame:
        """Return all reports that have a value in a column, the label holder's and the others'.

        Empty where nobody reported it.
        """
        frames = [self.history, self.others_history]
        known = [frame.drop_nulls(column) for frame in frames if column in frame.columns]
        if not known:
            return pl.DataFrame(schema={"organisation": pl.String, column: pl.Float64})
        return pl.concat(known, how="diagonal_relaxed")

    def reached(self, target: float) -> Reached | None:
        """Return what training had cost when the deciding metric was first as good as a target.

        Returns
        -------
        Reached or None
            Rounds, epochs, seconds and bytes until then; None if it never was. Where
            less of the metric is better, as good is as small.
        """
        return reached(self.summary, self.history, target)

    def predict(
        self,
        tables: Mapping[str, Any],
        driver: Driver | None = None,
        rows_per_message: int = 1024,
    ) -> Prediction:
        """Predict new rows, which every organisation has in the same order.

        The embeddings travel as in training, protected or not; see ``Predictor``.

        Parameters
        ----------
        tables
            For each organisation with columns its features of the new rows, or a table where it
            was trained from one.
        driver
            By default the simulator with an infinitely fast network.
        rows_per_message
            Rows that travel in one message.

        Raises
        ------
        ConfigurationError
            If the run has no models, or an organisation is missing.
        DataError
            If rows or values do not fit.

        Warns
        -----
        PrivacyWarning
            If embeddings travelled with noise: what that cost of privacy. No budget holds for it.
        """
        if self.predictor is None:
            raise ConfigurationError(
                f"the run in {self.folder} was read without its models: predict with the run that "
                "training returned, or with the exported parts"
            )
        found = self.predictor(tables, driver, rows_per_message)
        if found.privacy_loss is None:
            return found
        self.predicted.times += 1
        whole = self.predictor.cost(self.predicted.times)
        self.predicted.tell(found.privacy_loss, whole, self.summary["privacy_loss"])
        return replace(found, privacy_loss_of_all=whole)

    def export(self, folder: str | Path, *, programs: bool = False) -> None:
        """Write each organisation's trained part into a folder of its own under ``folder``.

        What is written for an organisation is only its own: give each folder to nobody else.

        Parameters
        ----------
        folder
            Gets a subfolder for each organisation; ``load_part`` reads one.
        programs
            Whether to write each bottom also as a program of ``torch.export``, which runs without
            the code that defined it.

        Raises
        ------
        ConfigurationError
            If the run has no models.
        DataError
            If the folder cannot be written, or torch cannot export a bottom.
        """
        if self.predictor is None:
            raise ConfigurationError(f"the run in {self.folder} was read without its models")
        examples = self.predictor.examples
        for name, modules in self.models.items():
            transformer = self.predictor.transformers.get(name)
            details = {
                "method": self.summary["method"],
                "label_holder": self.predictor.label_holder,
                "organisations": list(self.predictor.widths),
                "fusion": repr(self.predictor.fusion),
                "uplink": repr(self.predictor.uplink),
                "embedding_width": self.predictor.widths.get(name),
                "modules": {part: str(module) for part, module in modules.items()},
                "transformer": None if transformer is None else transformer.state(),
                "versions": self.summary["versions"],
            }
            example = examples.get(name) if programs else None
            export_part(Path(folder) / name, name, modules, details, example)

    def __repr__(self) -> str:
        s = self.summary
        best = "not evaluated" if s["best"] is None else f"best {s['metric']} {s['best']:.4g}"
        sent = bytes_sent(s) / 1e6
        return f"Run({s['method']}, {s['rounds']} rounds, {best}, {sent:.3g} MB sent)"


def history_frame(record: RunRecord, label_holder: str) -> pl.DataFrame:
    """Return what the label holder reported, with the training bytes sent before each row's round.

    The bytes are those of bodies; up is towards the label holder, down from it. What others report
    is not among it, so that whoever looks for a metric finds that of the model; see
    ``others_history_frame``.
    """
    rows = [row for row in record.history if row["organisation"] == label_holder]
    if not rows:
        return pl.DataFrame(schema={"round": pl.Int64})
    history = pl.DataFrame(rows, infer_schema_length=None)
    ledger = record.ledger.frame().filter(
        pl.col("purpose").is_in(Purpose.training_labels()) & ~pl.col("lost")
    )
    up, down = pl.col("receiver") == label_holder, pl.col("sender") == label_holder
    by_round = (
        ledger.group_by("round")
        .agg(
            bytes_up=pl.col("body_bytes").filter(up).sum(),
            bytes_down=pl.col("body_bytes").filter(down).sum(),
            bytes_between=pl.col("body_bytes").filter(~up & ~down).sum(),
        )
        .sort("round")
        .with_columns(pl.col(*SENT).cum_sum())
        # A row of round R stands behind rounds 0 ... R - 1.
        .with_columns(pl.col("round") + 1)
    )
    sent = pl.col(*SENT).fill_null(0)
    return history.sort("round").join_asof(by_round, on="round").with_columns(sent)


def others_history_frame(record: RunRecord, label_holder: str) -> pl.DataFrame:
    """Return what the other organisations reported, a row each; empty if they did not."""
    rows = [row for row in record.history if row["organisation"] != label_holder]
    # Each organisation chooses its own names, so one name may be of several types.
    return pl.DataFrame(rows, infer_schema_length=None, strict=False)


def summarise(
    record: RunRecord,
    history: pl.DataFrame,
    label_holder: str,
    *,
    method: str,
    metric: str,
    greater_is_better: bool,
    clock: Mapping[str, str],
    privacy: Mapping[str, str],
    late_is_lost: bool = True,
    warnings: list[str],
    details: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the account of a run.

    Bytes are lengths of bodies that were handed to the driver: for training (``bytes_up`` and
    ``bytes_down``, what was forwarded included, and ``bytes_between`` for what parties sent each
    other), to evaluate (``bytes_evaluation``), before the
    first round (``bytes_setup``). ``bytes_lost`` are bodies, of ``messages_lost``, that had left
    after the last checkpoint when a run was killed: they were sent again, and what replaced them is
    in the former numbers. ``bytes_framed`` are the bytes that streams carried for all ``messages``,
    those that were lost included: bodies, envelopes, and the length of each frame.
    ``messages_discarded`` came too late to be taken, with bodies of ``bytes_discarded`` in all;
    they count in the other numbers like any that were sent.
    Where an uplink needs only the first messages (``late_is_lost=False``) that is no loss, and no
    warning. ``local_updates`` are the steps of each organisation, by name, that it took without an
    exchange; ``local_reports`` is what it reported of them, where it did: sums of counts, such as
    of bubbles, and means of other numbers, such as cosines, over all its reports.
    ``seconds_virtual`` is the simulator's clock at the end of the last role, evaluation included;
    ``clock`` says what of it was measured and what modelled. ``activities`` are the seconds of each
    organisation by purpose and kind of work (or ``"wait"``), on the driver's clock and in CPU time.
    """
    ledger = record.ledger.frame()
    kept, lost = ledger.filter(~pl.col("lost")), ledger.filter("lost")
    trains = pl.col("purpose").is_in(Purpose.training_labels())
    up, down = pl.col("receiver") == label_holder, pl.col("sender") == label_holder

    def bodies(*which: Any, **equal: str) -> int:
        return int(kept.filter(*which, **equal)["body_bytes"].sum())

    column = history[metric].drop_nulls() if metric in history.columns else pl.Series([])
    # A metric of a diverged model is not a number, which JSON does not know.
    scores = [float(score) if math.isfinite(score) else None for score in column]
    finite = [score for score in scores if score is not None]
    best = (max if greater_is_better else min)(finite, default=None)
    waits = {
        purpose: sum(
            activity.nanoseconds
            for (role, kind_purpose, _), activity in record.activities.items()
            if role == label_holder and kind_purpose == purpose
        )
        / 1e9
        for purpose in ("training", "evaluation")
    }
    return {
        "method": method,
        "metric": metric,
        "greater_is_better": greater_is_better,
        "best": best,
        "best_round": None if best is None else _round_of(history, metric, best),
        "final": scores[-1] if scores else None,
        "test": _test_metrics(history) if record.completed else None,
        "completed": record.completed,
        "rounds": record.round,
        "local_updates": _local_updates(record),
        "local_reports": local_reports(history, others_history_frame(record, label_holder)),
        "messages": len(ledger),
        "messages_discarded": len(kept.filter("discarded")),
        "messages_lost": len(lost),
        "bytes_up": bodies(trains, up),
        "bytes_down": bodies(trains, down),
        "bytes_between": bodies(trains, ~up, ~down),
        "bytes_evaluation": bodies(purpose="evaluation"),
        "bytes_setup": bodies(purpose="setup"),
        "bytes_discarded": bodies("discarded"),
        "bytes_lost": int(lost["body_bytes"].sum()),
        "bytes_framed": int(ledger["framed_bytes"].sum()),
        "seconds_virtual": record.seconds_virtual,
        "seconds_training": waits["training"],
        "seconds_evaluation": waits["evaluation"],
        "seconds_cpu": record.seconds_cpu,
        "seconds_wall": record.seconds_wall,
        "clock": dict(clock),
        "activities": [
            {
                "organisation": role,
                "purpose": kind_purpose,
                "activity": activity,
                "count": spent.count,
                "seconds": spent.nanoseconds / 1e9,
                "seconds_cpu": spent.cpu_nanoseconds / 1e9,
            }
            for (role, kind_purpose, activity), spent in record.activities.items()
        ],
        "privacy": dict(privacy),
        "warnings": [*warnings, *(_late(kept) if late_is_lost else ())],
        **details,
    }


def rounding_errors(others: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Return by how much rounding changed the embeddings of each party, as it said last.

    Root mean squares; nothing where nobody rounds, or says so.
    """
    if "rounding_error" not in others.columns:
        return {}
    said = others.drop_nulls("rounding_error").group_by("organisation", maintain_order=True).last()
    return {"rounding_error": dict(said.select("organisation", "rounding_error").rows())}


def _local_updates(record: RunRecord) -> dict[str, int]:
    """Return how many steps each organisation took without an exchange.

    Where the exact step of a round is work of its own, backward or update, they are the local
    steps; else the first of a round's local steps is the exact one.
    """
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for (role, _, kind), activity in record.activities.items():
        counts[role][kind] += activity.count
    return {
        role: max(0, kinds["local_step"] - (0 if _EXACT & set(kinds) else record.round))
        for role, kinds in counts.items()
    }


_EXACT = {"backward", "update"}


def _late(ledger: pl.DataFrame) -> list[str]:
    """Return a warning for each organisation whose messages of training came too late."""
    training = ledger.filter(pl.col("purpose").is_in(Purpose.training_labels()))
    late = training.group_by("sender", maintain_order=True).agg(
        pl.len().alias("sent"), pl.col("discarded").sum()
    )
    return [
        f"{discarded} of the {sent} messages that {name} sent for training came too late to be of "
        "use, and were discarded"
        for name, sent, discarded in late.rows()
        if discarded
    ]


def _round_of(history: pl.DataFrame, metric: str, best: float) -> int:
    """Return the first round after which the metric had its best value."""
    return int(history.filter(pl.col(metric) == best)["round"][0])


def _test_metrics(history: pl.DataFrame) -> dict[str, float | None] | None:
    """Return the metrics of the finished model on the test rows, by name; None without those."""
    names = [name for name in history.columns if name.startswith("test_")]
    if not names or not len(history):
        return None
    values = {name.removeprefix("test_"): history[name][-1] for name in names}
    return {k: v if v is not None and math.isfinite(v) else None for k, v in values.items()}


_UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError),
    *(yaml.YAMLError, pl.exceptions.PolarsError, ConfigurationError),
)


def load_run(path: str | Path) -> Run:
    """Return the run that a folder holds: its account, without models and the driver's record.

    Configuration, history, ledger and summary are what was written: they have digests. A run of an
    older version has none, and is read without.

    Raises
    ------
    DataError
        If there is no finished or interrupted run in the folder, a file of it is damaged, or it is
        of a version whose runs this one cannot read.
    """
    folder = Path(path)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"{folder} holds no run that can be read: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there"
        )
    name, older = "summary.json", ""
    try:
        sealed = json.loads((folder / name).read_text(encoding="utf-8"))
        if not isinstance(sealed, dict):
            raise ValueError("it is no summary")
        if not sealed.keys() & _SEAL:
            version = _version_of(sealed)
            older = f", or older than colonnade {__version__} can read (it is of {version})"
        summary, digests = _unsealed(sealed)
        for name, digest in (digests or {}).items():
            if _digest_of(folder / name) != digest:
                raise ValueError(
                    "it is not what was written; a run that was killed as it wrote its results "
                    "writes them anew when it is resumed"
                )
        name = "config.yaml"
        config = read_yaml((folder / name).read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it holds no keys and values")
        name = "history.csv"
        history = pl.read_csv(folder / name, infer_schema_length=None)
        if "round" not in history.columns:
            raise ValueError("it has no column round")
        name = "ledger.csv"
        ledger = Ledger.read_csv(folder / name)
        others = pl.DataFrame()
        if (folder / OTHERS).is_file() if digests is None else OTHERS in digests:
            name = OTHERS
            others = pl.read_csv(folder / name, infer_schema_length=None)
    except _UNREADABLE as error:
        raise DataError(f"{folder / name} is damaged{older}: {first_line(error)}") from error
    return Run(summary, history, ledger, {}, None, config, folder, others_history=others)


def _sealed(summary: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what ``summary.json`` shall hold: with digests of the results beside it, and its own.

    As a summary is written last, its digests are of files of the same moment, or do not fit.
    """
    there = [name for name in _SEALED if (folder / name).is_file()]
    digests = {name: _digest_of(folder / name) for name in there}
    sealed = {"format": _FORMAT, **summary, "digests": digests}
    return sealed | {"digest": _digest(sealed)}


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
        if not {"history.csv", "ledger.csv"} <= digests.keys() <= set(_SEALED):
            raise ValueError("its digests are of other files than those beside it")
    if not summary.keys() >= {"method", "metric", "rounds"}:
        raise ValueError("it is no summary")
    return summary, digests


def _version_of(summary: Mapping[str, Any]) -> str:
    """Return by which version a summary says it was written."""
    return str(summary.get("versions", {}).get("colonnade", "no version that it names"))


def _digest(values: Mapping[str, Any]) -> str:
    # The order of keys is kept by JSON, and their types may be such that they cannot be sorted.
    return hashlib.blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


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
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Make the folder, and keep all other runs out of it until it is left.

        The folder itself is locked: no file is left in it, and a process that is killed lets go.

        Raises
        ------
        ConfigurationError
            If another run is at work in it.
        DataError
            If it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = _lock(self.path)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            yield
        finally:
            _unlock(lock)

    def begin(self, config: Mapping[str, Any], resume: bool, known: bool = False) -> None:
        """Check that the folder is free for a new run, or holds one to resume; say what it is.

        Parameters
        ----------
        config
            What ``config.yaml`` shall hold. It is written only if it holds something else.
        resume
            Whether the run that the folder holds is to go on.
        known
            Whether a checkpoint of this very run was found in it.

        Raises
        ------
        ConfigurationError
            If it holds a run already and ``resume`` is False, or what no run of Colonnade's wrote;
            or if there is no checkpoint to go on from, and it holds results or another run.
        DataError
            If it cannot be made.
        Unwritten
            If the configuration cannot be written into it.
        """
        there = [name for name in _WRITTEN if (self.path / name).exists()]
        # A configuration or a checkpoint says that the folder is a run's, and so all that is in it.
        is_run = known or self._is_configured()
        if there and not is_run:
            raise ConfigurationError(
                f"{self.path} holds no run, but {', '.join(there)}, which a run would write over; "
                "choose another folder"
            )
        if there and not resume:
            raise ConfigurationError(
                f"{self.path} already holds a run ({', '.join(there)}); "
                "resume it, or choose another folder"
            )
        text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
        is_said = self._configured() == yaml.safe_load(text)
        if there and not known:
            self._check_unbegun(is_said)
        check_outputs(self.path, PICTURES)
        if is_said:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None
        with explained(self.path / "config.yaml"):
            self._write("config.yaml", f"# {SIGNATURE}: all that decides the run.\n{text}")

    def store(self, fingerprint: str, timing: str | None = None) -> CheckpointStore:
        """Return the run's checkpoints."""
        return CheckpointStore(self.path / "checkpoint", fingerprint, timing=timing)

    @property
    def journals(self) -> Path:
        """The folder of the organisations' journals; see ``Assignment``."""
        return self.path / "journal"

    @property
    def departures(self) -> Path:
        """The folder where is noted what leaves; see ``Assignment``."""
        return self.path / "departures"

    def finish(self, run: Run) -> None:
        """Write history, ledger and summary, which has the digests of all three.

        Raises
        ------
        Unwritten
            If one cannot be written.
        """
        with explained(self.path):
            self._write("history.csv", run.history.write_csv())
            if len(run.others_history):
                self._write(OTHERS, run.others_history.write_csv())
            with replacing(self.path / "ledger.csv") as partial:
                run.ledger.write_csv(partial)
            summary = _sealed(run.summary, self.path)
            self._write("summary.json", json.dumps(summary, indent=2, allow_nan=False) + "\n")

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
            there = checkpoint is not None or self._is_configured()
        except (OSError, ColonnadeError):
            checkpoint, there = None, False
        if checkpoint is not None:
            return (
                f"The checkpoint before round {checkpoint.round} is whole: when that is mended, "
                "resume the run (--resume), and it goes on from there"
            )
        if there:
            return (
                "No checkpoint had been written: when that is mended, resume the run (--resume), "
                "and it begins anew"
            )
        return f"Nothing of the run is left in {self.path}: begin it anew in another folder"

    def _write(self, name: str, text: str) -> None:
        with replacing(self.path / name) as partial:
            partial.write_text(text, encoding="utf-8")

    def _is_configured(self) -> bool:
        file = self.path / "config.yaml"
        try:
            return file.is_file() and file.stat().st_size > 0 and is_ours(file, CONFIGURATION)
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}") from None

    def _configured(self) -> Any:
        """Return what ``config.yaml`` says; None where it says nothing that can be read."""
        try:
            return read_yaml((self.path / "config.yaml").read_text(encoding="utf-8"))
        except (OSError, ConfigurationError, *NOT_YAML):
            return None

    def _check_unbegun(self, is_said: bool) -> None:
        """Raise ``ConfigurationError`` unless a run without checkpoints can begin again here."""
        results = (*FILES, OTHERS, *PICTURES)
        told = [name for name in results[1:] if (self.path / name).exists()]
        if told:
            raise ConfigurationError(
                f"{self.path} holds {', '.join(told)} of a run, but no checkpoint to go on from, "
                "and the run would begin anew and write over them; choose another folder"
            )
        if not is_said:
            raise ConfigurationError(
                f"{self.path / 'config.yaml'} describes another run, and there is no checkpoint to "
                "go on from; choose another folder, or resume with that configuration"
            )

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(f"the folder {self.path} cannot be written: {error.strerror}")


def _lock(folder: Path) -> int | None:
    """Return the descriptor by which a folder is locked; None where folders cannot be opened.

    Where folders have no locks journals may have, each for itself.
    """
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    if not locked(descriptor):
        os.close(descriptor)
        raise ConfigurationError(
            f"another run is at work in {folder}; wait until it has ended, or choose another folder"
        )
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        unlock(descriptor)
        os.close(descriptor)
