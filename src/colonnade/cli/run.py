"""``colonnade run``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import Config, Data, Json, Quiet, Set, parsed_config, show_of, to_place
from colonnade.cli.told import INTERRUPTED, say_warnings, show_runs
from colonnade.outputs import check_place
from colonnade.progress import Show, err, out, say, watched

__all__ = ["run"]


def run(
    config: Config,
    set_: Set = None,
    out_: Annotated[
        Path | None,
        to_place("--out", help="The run's folder; by default runs/ and the file's name."),
    ] = None,
    data: Data = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")
    ] = False,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Train as a configuration says, into a folder that can be resumed and reported on."""
    from colonnade.reports import epsilon_line, judged, left_out
    from colonnade.run_folder import RunFolder

    folder = out_ or Path("runs") / config.stem
    check_place(folder)
    if resume:
        RunFolder(folder).store({}).check_format()
    parsed = parsed_config(config, set_, data)
    show = show_of(quiet, json_)
    is_anothers = not resume and _has_checkpoint(folder)
    again = ["colonnade", "run", f"{folder / 'config.yaml'}", "--out", f"{folder}", "--resume"]
    try:
        with watched(1, show) as watch:
            result = parsed.train(folder, resume=resume, watcher=watch.run(parsed.method.name))
            watch.log("end", completed=result.summary["completed"], folder=str(folder))
    except KeyboardInterrupt:
        if is_anothers or not _has_checkpoint(folder):
            raise
        say(err, f"stopped; go on from the newest checkpoint with\n  {shlex.join(again)}")
        raise typer.Exit(INTERRUPTED) from None
    if not result.summary["completed"]:
        say(
            err,
            f"interrupted before round {result.summary['rounds']}; go on with\n"
            f"  {shlex.join(again)}",
        )
        raise typer.Exit(INTERRUPTED)
    show_runs({result.summary["method"]: result}, show)
    if show is Show.BAR:
        if private := epsilon_line(result.summary):
            say(out, private)
        for note in (left_out(result.summary), judged(result.summary)):
            if note is not None:
                say(out, note)
        say_warnings(result)
        say(out, f"Everything is in {folder}; begin with {folder / 'report.html'}.")


def _has_checkpoint(folder: Path) -> bool:
    return any(folder.glob("checkpoint/round-*"))
