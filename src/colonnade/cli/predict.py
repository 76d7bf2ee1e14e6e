"""``colonnade predict``."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import (
    Absent,
    Absentees,
    Json,
    RunOf,
    Tables,
    Without,
    fallbacks_of,
    sources_of,
    to_place,
)
from colonnade.errors import ConfigurationError
from colonnade.faults import explained
from colonnade.outputs import check_output, csv_of, replacing
from colonnade.progress import out, say

__all__ = ["Those", "predict"]


class Those(StrEnum):
    """Rows of a run's data."""

    train = "train"
    validation = "validation"
    test = "test"


def predict(
    run: RunOf,
    table: Tables = None,
    rows: Annotated[
        Those | None, typer.Option(help="Predict rows that the run was trained or tested on.")
    ] = None,
    absent: Absent = Absentees.error,
    without: Without = None,
    out_: Annotated[
        Path | None,
        to_place("--out", help="CSV file; by default predictions.csv in the run's folder."),
    ] = None,
    json_: Json = False,
) -> None:
    """Predict new rows by what a run of a configuration has trained, everybody's columns together.

    Rows are found as in training, by the configuration's id. No training table is read, unless its
    rows are what is predicted.
    """
    from colonnade.config import load_trained

    path = out_ or run / "predictions.csv"
    sources = sources_of(table or [])
    if rows is not None and sources:
        raise ConfigurationError("--rows is about the run's own data, and --table about others")
    trained = load_trained(run)
    check_output(path, csv_of(trained.columns))
    left = fallbacks_of(without or [])
    if rows is None:
        found = trained.predict_tables(sources, absent.value, left)
    else:
        found = trained.predict_rows(rows.value, left)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial, partial.open("wb") as file:
            trained.frame(found).write_csv(file)
    sent = found.ledger.bytes()
    left_out = {name: count for name, count in found.left_out.items() if count}
    if json_:
        told = {"rows": len(found.scores), "bytes": sent, "left_out": left_out, "out": str(path)}
        told |= {"privacy_loss": found.privacy_loss}
        told |= {"lost": None if found.lost is None else asdict(found.lost)}
        say(out, json.dumps(told | {"privacy_loss_of_all": found.privacy_loss_of_all}))
        return
    if not trained.run.summary["completed"]:
        say(out, f"The run was interrupted before round {trained.run.summary['rounds']}.")
    say(out, f"{len(found.scores):,} rows are predicted in {path}; it took {sent / 1e6:.3g} MB.")
    spent = trained.run.predicted.sentence(
        found.privacy_loss, found.privacy_loss_of_all, trained.run.summary.get("privacy_loss")
    )
    if spent is not None:
        say(out, spent)
    for name, count in left_out.items():
        say(out, f"Left out: {count:,} rows of {name!r}, of people of whom another has none.")
    if found.lost is not None:
        say(out, f"Without {', '.join(left)}: {found.lost} with everybody.")
