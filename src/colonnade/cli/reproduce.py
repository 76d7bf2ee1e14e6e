"""``colonnade reproduce``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import Data, Json, Quiet, show_of, to_place
from colonnade.cli.told import INTERRUPTED
from colonnade.errors import ConfigurationError
from colonnade.outputs import check_outputs
from colonnade.progress import Show, err, out, say, watched

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which; without a name they are listed.")
    ] = None,
    out_: Annotated[
        Path | None,
        to_place("--out", help="Folder for it; by default reproduce/ and its name."),
    ] = None,
    data: Data = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Repetitions; by default as the experiment says.")
    ] = None,
    trial_run: Annotated[
        bool, typer.Option("--quick", help="Everything once on little data; figures mean nothing.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Trials at once, each in a process of its own.")
    ] = 1,
    device: Annotated[
        str, typer.Option(help="Where models compute, as torch names it: cpu, cuda, cuda:1, mps.")
    ] = "cpu",
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Run a paper's table or figure, and show it beside the paper's."""
    from colonnade.console import experiments_table
    from colonnade.experiments import EXPERIMENTS, QUICK, Scale, files_of, write_findings
    from colonnade.experiments import reproduce as run_trials

    if name is None:
        out.print(experiments_table(EXPERIMENTS))
        return
    if name not in EXPERIMENTS:
        raise ConfigurationError(
            f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}"
        )
    experiment, scale = EXPERIMENTS[name], Scale(data, seeds, trial_run, device)
    folder = out_ or Path("reproduce") / (f"{name}-quick" if trial_run else name)
    show = show_of(quiet, json_)
    check_outputs(folder, files_of(experiment))
    count = len(experiment.trials(scale))
    with watched(count, show, workers) as watch:
        findings = run_trials(experiment, scale, folder / "runs", watch.run, workers)
    if findings is None:
        say(err, "interrupted; the same command goes on")
        raise typer.Exit(INTERRUPTED)
    write_findings(experiment, scale, findings, folder)
    if show is Show.JSON:
        for sheet in findings.sheets:
            for row in sheet.rows:
                say(out, json.dumps(dict(zip(sheet.head, row, strict=True))))
    if show is Show.BAR:
        for sheet in findings.sheets:
            out.print(sheet)
        for note in ([QUICK] if trial_run else []) + list(findings.notes):
            say(out, note)
        say(out, f"Everything is in {folder}: {name}.html, .png, .txt, .csv, and runs/.")
