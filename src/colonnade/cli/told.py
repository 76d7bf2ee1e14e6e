"""What commands tell of runs, and with which code they leave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape

from colonnade.outputs import PAGE, PICTURE
from colonnade.progress import Show, Told, out, say

if TYPE_CHECKING:
    from colonnade.runs import Run

__all__ = ["COMPARISON", "INTERRUPTED", "REFUTED", "TOLD", "UNWRITTEN", "say_warnings", "show_runs"]

INTERRUPTED = 130
UNWRITTEN = 3
REFUTED = 4  # of an audit

COMPARISON = {"comparison.html": PAGE, "comparison.png": PICTURE}
"""The files of a comparison, and of which kind they are."""

TOLD = Told()
"""What was told already, when it was found: it is not told again with a run's warnings."""


def show_runs(runs: Mapping[str, Run], show: Show, target: float | None = None) -> None:
    """Show what came of runs, as a table or as lines of JSON."""
    from colonnade.reports import comparison_tables, reaching_tables

    if show is Show.BAR:
        for table in comparison_tables(runs) + reaching_tables(runs, target):
            out.print(table)
    elif show is Show.JSON:
        for name, each in runs.items():
            told = {} if target is None else {"target": target, "reached": _reached(each, target)}
            say(out, json.dumps({"run": name} | each.summary | told))


def say_warnings(run: Run) -> None:
    """Print the warnings of a run that were not yet told."""
    for warning in run.summary["warnings"]:
        if warning not in TOLD:
            out.print(f"[yellow]warning:[/] {escape(warning)}")


def _reached(run: Run, target: float) -> dict[str, float] | None:
    found = run.reached(target)
    return None if found is None else asdict(found)
