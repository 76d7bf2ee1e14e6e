"""What an experiment leaves in its folder: text, CSV, a page, a picture."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from colonnade.experiments.experiment import Experiment, Findings, Scale
from colonnade.faults import explained
from colonnade.outputs import PAGE, PICTURE, SIGNATURE, TEXT, Kind, check_outputs, replacing, table
from colonnade.reports import draw_charts, write_sheets

__all__ = ["QUICK", "files_of", "write_findings"]

QUICK = "A quick trial on little data: these figures mean nothing."


def files_of(experiment: Experiment) -> dict[str, Kind]:
    """Return the files of an experiment but its CSV files."""
    name = experiment.name
    return {f"{name}.html": PAGE, f"{name}.png": PICTURE, f"{name}.txt": TEXT}


def write_findings(experiment: Experiment, scale: Scale, findings: Findings, folder: Path) -> None:
    """Write ``NAME.txt``, ``NAME.csv`` (one a table), ``NAME.html`` and ``NAME.png``.

    ``NAME-trials.csv`` too, where the findings have a line for each trial.

    Raises
    ------
    ConfigurationError
        If the folder cannot be written to, or a file is there that Colonnade did not write.
    """
    name, notes = experiment.name, list(findings.notes)
    command = f"colonnade reproduce {name}"
    if scale.quick:
        notes.insert(0, QUICK)
        command += " --quick"
    if scale.seeds is not None:
        command += f" --seeds {scale.seeds}"
    if scale.device != "cpu":
        command += f" --device {scale.device}"
    text = io.StringIO()
    console = Console(file=text, width=140)
    for sheet in findings.sheets:
        console.print(sheet)
    for note in notes:
        console.print(note, soft_wrap=True, highlight=False, markup=False)
    console.print(f"{SIGNATURE}.", highlight=False)
    texts = {
        folder / (f"{name}.csv" if number == 0 else f"{name}-{number + 1}.csv"): sheet.as_csv()
        for number, sheet in enumerate(findings.sheets)
    }
    if findings.trials is not None:
        texts[folder / f"{name}-trials.csv"] = findings.trials.as_csv()
    heads = {path.name: table(content.splitlines()[0]) for path, content in texts.items()}
    texts[folder / f"{name}.txt"] = text.getvalue()
    check_outputs(folder, files_of(experiment) | heads)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in texts.items():
            with replacing(path) as partial:
                partial.write_text(content, encoding="utf-8")
        if findings.charts:
            draw_charts(findings.charts, folder / f"{name}.png", experiment.source)
        write_sheets(
            folder / f"{name}.html",
            experiment.title[:1].upper() + experiment.title[1:],
            f"After {experiment.source}.",
            findings.sheets,
            [chart.figure() for chart in findings.charts],
            notes,
            command,
        )
