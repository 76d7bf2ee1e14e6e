"""``colonnade audit``."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.options import (
    Data,
    Json,
    Quiet,
    Set,
    named_runs,
    overrides_of,
    show_of,
    to_place,
)
from colonnade.cli.told import INTERRUPTED, REFUTED
from colonnade.outputs import check_outputs
from colonnade.progress import Show, err, out, say, watched

if TYPE_CHECKING:
    from colonnade.audits import Audit

__all__ = ["Only", "audit"]


class Only(StrEnum):
    """Half of an audit."""

    games = "games"
    attacks = "attacks"


def audit(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="YAML files that describe runs, or folders of finished runs; without any, real "
            "digits are sent in six ways, in about a minute."
        ),
    ] = None,
    only: Annotated[
        Only | None,
        typer.Option(help="games: test what is claimed of noise, without training; or attacks."),
    ] = None,
    games: Annotated[
        int, typer.Option(min=100, help="How often each world of a game is played.")
    ] = 100_000,
    delta: Annotated[
        float | None, typer.Option(help="That of the claims; by default the run's, or 1e-5.")
    ] = None,
    known_features: Annotated[
        float, typer.Option(help="Of which part of the rows the label holder knows features.")
    ] = 0.1,
    known_labels: Annotated[
        int, typer.Option(help="Of how many training rows a party knows the labels.")
    ] = 40,
    rows: Annotated[int, typer.Option(help="How many rows are attacked at most.")] = 2000,
    seed: Annotated[int, typer.Option(help="Draws which rows are known.")] = 0,
    set_: Set = None,
    out_: Annotated[
        Path | None,
        to_place("--out", help="Folder for a page and CSV files; else none."),
    ] = None,
    data: Data = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Attack a run's features and labels, and test what is claimed of its noise.

    The label holder learns features back from embeddings, parties infer labels from what they are
    sent, and games test epsilon. Training is repeated, as a run does not keep what travelled.
    Exits with 4 where a claim was refuted.
    """
    from colonnade.audit_subjects import digits, subjects
    from colonnade.audits import (
        AUDIT_FILES,
        Scope,
        write_audits,
    )

    show = show_of(quiet, json_)
    scope = Scope(
        attacks=only is not Only.games,
        games=0 if only is Only.attacks else games,
        delta=delta,
        known_features=known_features,
        known_labels=known_labels,
        rows=rows,
        seed=seed,
    )
    if out_ is not None:
        check_outputs(out_, AUDIT_FILES)
    overrides = overrides_of(set_, data)
    named = named_runs(runs) if runs else {}
    chosen = dict(zip(named, subjects(runs, overrides), strict=True)) if runs else digits(overrides)
    found = {}
    with watched(len(chosen), show) as watch:
        for name, subject in chosen.items():
            watcher = watch.run(name)
            found[name] = subject.audit(scope, watcher, partial(watch.tell, name))
            if watch.interrupted:
                say(err, "interrupted; an audit begins anew")
                raise typer.Exit(INTERRUPTED)
    try:  # before any is shown, as whoever reads that may leave
        if out_ is not None:
            write_audits(found, out_, shlex.join(["colonnade", *sys.argv[1:]]))
    finally:  # also where a disk refuses it
        _show_findings(found, show)
    if out_ is not None and show is Show.BAR:
        say(out, f"Everything is in {out_}: {', '.join(AUDIT_FILES)}.")
    if not all(each.holds for each in found.values()):
        say(err, "a mechanism discloses more than is claimed of it")
        raise typer.Exit(REFUTED)


def _show_findings(found: Mapping[str, Audit], show: Show) -> None:
    from colonnade.audits import MEANING, attack_sheets, overview_sheets

    if show is Show.JSON:
        for name, each in found.items():
            say(out, json.dumps({"run": name} | each.as_dict()))
    if show is Show.BAR:
        for sheet in overview_sheets(found) + (attack_sheets(found) if len(found) == 1 else []):
            out.print(sheet)
        for name, each in found.items():
            for note in each.notes:
                say(out, f"{name}: {note}.")
        say(out, MEANING)
