"""``colonnade demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import to_place
from colonnade.cli.told import COMPARISON, INTERRUPTED
from colonnade.outputs import check_outputs
from colonnade.progress import err, out, say, watched

__all__ = ["demo"]


def demo(
    out_: Annotated[
        Path | None,
        to_place("--out", help="Folder for the runs; by default a new one under runs/."),
    ] = None,
) -> None:
    """Train four parties on real handwritten digits, several ways, in under a minute."""
    # Imported here, as torch takes seconds and --help should not.
    from colonnade.demo import REAL, SIMULATED, VARIANTS, run_demo, same_bits
    from colonnade.reports import comparison_tables

    folder = out_ or _unused(Path("runs/demo"))
    check_outputs(folder, COMPARISON)
    out.print(
        "5000 real handwritten digits, cut into quadrants: four parties hold one each, "
        "a fifth organisation the labels.\n"
        "Modelled network: 20 Mbit/s and 10 ms each way. Compute: measured here.\n"
    )
    with watched(len(VARIANTS)) as watch:
        runs = run_demo(folder, watch.run)
    if not all(run.summary["completed"] for run in runs.values()):
        err.print("interrupted")
        raise typer.Exit(INTERRUPTED)
    for table in comparison_tables(runs):
        out.print(table)
    same = same_bits(runs[REAL], runs[SIMULATED])
    say(
        out,
        f"\nSimulator and real processes ended with {'the same' if same else 'DIFFERENT'} "
        "parameters and bytes, bit for bit."
        "\nBytes are lengths of the bodies sent for training; evaluation is counted apart."
        f"\nEverything is in {folder}: comparison.html, and a folder for each run.",
    )
    if not same:
        raise typer.Exit(1)


def _unused(folder: Path) -> Path:
    """Return ``folder``, or the first of folder-2, folder-3, ... that does not exist."""
    candidate, number = folder, 1
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate
