"""``colonnade compare``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.options import (
    Data,
    Json,
    Quiet,
    Set,
    named_runs,
    parsed_config,
    show_of,
    to_place,
)
from colonnade.cli.told import COMPARISON, INTERRUPTED, show_runs
from colonnade.errors import ConfigurationError
from colonnade.faults import explained
from colonnade.outputs import PARTNERS, SIGNATURE, check_outputs, replacing
from colonnade.progress import Show, err, out, say, watched

if TYPE_CHECKING:
    from colonnade.config import RunConfig
    from colonnade.runs import Run

__all__ = ["compare"]

_PARTNERS = "partners.json"


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs; with --partners, the YAML file of one run."),
    ],
    partners: Annotated[
        bool,
        typer.Option(
            "--partners", help="Train without each party in turn, to see what its columns add."
        ),
    ] = False,
    seeds: Annotated[
        int, typer.Option(min=1, help="With --partners: how many seeds to train from.")
    ] = 1,
    target: Annotated[
        float | None,
        typer.Option(
            help="Value of the metric: what it took each run to reach it. By default a little "
            "short of the first run's best."
        ),
    ] = None,
    set_: Set = None,
    out_: Annotated[
        Path | None,
        to_place("--out", help="Folder for the comparison; by default runs/comparison."),
    ] = None,
    data: Data = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Put runs side by side: a table, a page with plots, and a picture."""
    from colonnade.run_read import load_run

    show = show_of(quiet, json_)
    if target is not None and not math.isfinite(target):
        raise ConfigurationError(f"--target is a value of the metric, not {target}")
    folder = out_ or Path("runs/comparison")
    check_outputs(folder, COMPARISON | ({_PARTNERS: PARTNERS} if partners else {}))
    if partners:
        if len(runs) != 1:
            raise ConfigurationError("--partners takes the YAML file of one run")
        if target is not None:
            raise ConfigurationError("--target is for runs that are over: --partners trains anew")
        _compare_partners(parsed_config(runs[0], set_, data), folder, seeds, show)
        return
    if set_ or data or seeds > 1:
        said = "--set, --data and --seeds are for --partners: these runs are over"
        raise ConfigurationError(said)
    loaded = {name: load_run(path) for name, path in named_runs(runs).items()}
    _write_comparison(loaded, folder, "", target)
    show_runs(loaded, show, target)
    if show is Show.BAR:
        say(out, f"The comparison is in {folder}: comparison.html and comparison.png.")


def _write_comparison(
    runs: Mapping[str, Run], folder: Path, title: str, target: float | None = None
) -> None:
    from colonnade.reports import draw_comparison, write_comparison

    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_comparison(runs, folder / "comparison.html", title, target)
        draw_comparison(runs, folder / "comparison.png", title)


def _compare_partners(config: RunConfig, folder: Path, seeds: int, show: Show) -> None:
    from colonnade.console import partners_table
    from colonnade.partners import partner_values

    data = config.data.load()
    partners = [name for name in data.features if name != config.label_holder.holds]
    with watched(seeds * (len(partners) + 1), show) as watch:

        def train(partner: str | None, seed: int) -> Run:
            chosen = config.without(partner, config.training.seed + seed)
            name = "everybody" if partner is None else f"without {partner}"
            place = folder / f"{name.replace(' ', '-')}-seed-{chosen.training.seed}"
            result = chosen.train(place, resume=True, watcher=watch.run(name))
            if not result.summary["completed"]:
                say(err, "interrupted; the same command goes on")
                raise typer.Exit(INTERRUPTED)
            return result

        found = partner_values(train, partners, range(seeds))
    _write_comparison(found.runs, folder, "What each partner adds")
    values = {"by": SIGNATURE, "partners": [value.as_dict() for value in found.values]}
    with explained(folder / _PARTNERS), replacing(folder / _PARTNERS) as partial:
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    if show is Show.JSON:
        for value in found.values:
            say(out, json.dumps(value.as_dict()))
    if show is Show.BAR:
        out.print(partners_table(found))
        say(
            out,
            f"Everything is in {folder}: partners.json, comparison.html, a folder for each run.",
        )
