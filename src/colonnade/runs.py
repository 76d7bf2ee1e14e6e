"""A finished run: its summary, its history, its ledger, and the folder they are kept in."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from torch import nn

from colonnade.checkpoints import CheckpointStore
from colonnade.drivers import RunRecord
from colonnade.errors import ConfigurationError, DataError
from colonnade.ledger import Entry, Ledger
from colonnade.wire import Purpose

__all__ = ["Run", "RunFolder", "history_frame", "summarise"]

FILES = ("config.yaml", "history.csv", "ledger.csv", "summary.json")


@dataclass(frozen=True)
class Run:
    """What training returns.

    Parameters
    ----------
    summary
        The account of the run; see ``summarise``.
    history
        A row for each evaluation: round, epoch, losses and metrics, seconds on the driver's clock,
        and the training bytes sent until then.
    ledger
        Every message that left an organisation.
    models
        Each organisation's trained modules, by its name: ``bottom``, and the label holder's
        ``top``.
    record
        The driver's own record, with the trace that ``Replay`` takes.
    folder
        Where the run was written, if it was.
    """

    summary: dict[str, Any]
    history: pl.DataFrame
    ledger: Ledger
    models: Mapping[str, Mapping[str, nn.Module]]
    record: RunRecord
    folder: Path | None = None

    def __repr__(self) -> str:
        s = self.summary
        best = "not evaluated" if s["best"] is None else f"best {s['metric']} {s['best']:.4g}"
        sent = (s["bytes_up"] + s["bytes_down"]) / 1e6
        return f"Run({s['method']}, {s['rounds']} rounds, {best}, {sent:.3g} MB sent)"


def history_frame(record: RunRecord, label_holder: str) -> pl.DataFrame:
    """Return the history with the training bytes, up and down, sent before each row's round.

    The bytes are those of bodies; up is towards the label holder.
    """
    if not record.history:
        return pl.DataFrame(schema={"round": pl.Int64})
    history = pl.DataFrame(record.history, infer_schema_length=None)
    ledger = record.ledger.frame().filter(pl.col("purpose") == Purpose.TRAINING.label)
    up = pl.col("receiver") == label_holder
    by_round = (
        ledger.group_by("round")
        .agg(
            bytes_up=pl.col("body_bytes").filter(up).sum(),
            bytes_down=pl.col("body_bytes").filter(~up).sum(),
        )
        .sort("round")
        .with_columns(pl.col("bytes_up").cum_sum(), pl.col("bytes_down").cum_sum())
        # A row of round R stands behind rounds 0 ... R - 1.
        .with_columns(pl.col("round") + 1)
    )
    sent = pl.col("bytes_up", "bytes_down").fill_null(0)
    return history.sort("round").join_asof(by_round, on="round").with_columns(sent)


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
    warnings: list[str],
    details: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the account of a run.

    Bytes are lengths of bodies that were handed to the driver for training, except
    ``bytes_evaluation`` (bodies sent to evaluate) and ``bytes_framed`` (everything, envelopes
    included). ``seconds_virtual`` is the simulator's clock at the end of the last role,
    evaluation included; ``clock`` says what of it was measured and what modelled.
    """
    ledger = record.ledger

    def training(entry: Entry) -> bool:
        return entry.purpose is Purpose.TRAINING

    column = history[metric].drop_nulls() if metric in history.columns else pl.Series([])
    # A metric of a diverged model is not a number, which JSON does not know.
    scores = [float(score) if math.isfinite(score) else None for score in column]
    finite = [score for score in scores if score is not None]
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
        "best": (max if greater_is_better else min)(finite, default=None),
        "final": scores[-1] if scores else None,
        "completed": record.completed,
        "rounds": record.round,
        "local_updates": 0,
        "messages": len(ledger),
        "bytes_up": ledger.bytes(lambda e: training(e) and e.receiver == label_holder),
        "bytes_down": ledger.bytes(lambda e: training(e) and e.sender == label_holder),
        "bytes_evaluation": ledger.bytes(lambda e: e.purpose is Purpose.EVALUATION),
        "bytes_framed": ledger.framed_bytes(),
        "seconds_virtual": record.seconds_virtual,
        "seconds_training": waits["training"],
        "seconds_evaluation": waits["evaluation"],
        "seconds_cpu": record.seconds_cpu,
        "seconds_wall": record.seconds_wall,
        "clock": dict(clock),
        "privacy": dict(privacy),
        "warnings": warnings,
        **details,
    }


class RunFolder:
    """The folder of one run.

    ``config.yaml`` is there from the start and ``checkpoint/`` grows while the run lasts; the
    other files are written when it ends or is interrupted, each in one step.

    Parameters
    ----------
    path
        The folder; made by ``begin``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, config: Mapping[str, Any], resume: bool) -> None:
        """Make the folder for a new run, or check that there is one to resume.

        Raises
        ------
        ConfigurationError
            If it holds a run already and ``resume`` is False.
        DataError
            If it cannot be made.
        """
        there = [name for name in (*FILES, "checkpoint") if (self.path / name).exists()]
        if there and not resume:
            raise ConfigurationError(
                f"{self.path} already holds a run ({', '.join(there)}); "
                "resume it, or choose another folder"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._write("config.yaml", yaml.safe_dump(dict(config), sort_keys=False))
        except OSError as error:
            raise DataError(f"the folder {self.path} cannot be written: {error.strerror}") from None

    def store(self, fingerprint: str) -> CheckpointStore:
        """Return the run's checkpoints."""
        return CheckpointStore(self.path / "checkpoint", fingerprint)

    def finish(self, run: Run) -> None:
        """Write history, ledger and summary."""
        self._write("history.csv", run.history.write_csv())
        partial = self.path / "ledger.csv.writing"
        run.ledger.write_csv(partial)
        partial.replace(self.path / "ledger.csv")
        self._write("summary.json", json.dumps(run.summary, indent=2, allow_nan=False) + "\n")

    def _write(self, name: str, text: str) -> None:
        partial = self.path / f"{name}.writing"
        with partial.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(self.path / name)
