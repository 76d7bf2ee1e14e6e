"""The command ``colonnade``."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from colonnade import __version__
from colonnade.errors import CheckpointError, ColonnadeError, InvalidInput

__all__ = ["app", "main"]

app = typer.Typer(
    name="colonnade",
    help="Train one model over columns of several organisations, none of which shows its own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = Console()
_err = Console(stderr=True)

INTERRUPTED = 130


@app.callback(invoke_without_command=True)
def _colonnade(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    if version:
        _out.print(f"colonnade {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the runs; by default a new one under runs/."),
    ] = None,
) -> None:
    """Train four parties on real handwritten digits, several ways, in under a minute."""
    # Imported here, as torch takes seconds and --help should not.
    from colonnade.demo import REAL, SIMULATED, VARIANTS, run_demo, same_bits
    from colonnade.reports import comparison_table

    folder = out or _unused(Path("runs/demo"))
    _out.print(
        "5000 real handwritten digits, cut into quadrants: four parties hold one each, "
        "a fifth organisation the labels.\n"
        "Modelled network: 20 Mbit/s and 10 ms each way. Compute: measured here.\n"
    )
    with _watched(len(VARIANTS)) as watch:
        runs = run_demo(folder, watch.run)
    if not all(run.summary["completed"] for run in runs.values()):
        _err.print("interrupted")
        raise typer.Exit(INTERRUPTED)
    _out.print(comparison_table(runs))
    same = same_bits(runs[REAL], runs[SIMULATED])
    _say(
        _out,
        f"\nSimulator and real processes ended with {'the same' if same else 'DIFFERENT'} "
        "parameters and bytes, bit for bit."
        "\nBytes are lengths of the bodies sent for training; evaluation is counted apart."
        f"\nEverything is in {folder}: comparison.png, and a folder for each run.",
    )
    if not same:
        raise typer.Exit(1)


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="YAML file that describes the run.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="a.b=c", help="Override one setting; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; by default runs/ and the file's name.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the data files; else COLONNADE_DATA.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")
    ] = False,
) -> None:
    """Train as a configuration says, into a folder that can be resumed and reported on."""
    from colonnade.config import load_config
    from colonnade.reports import comparison_table

    overrides = list(set_ or [])
    if data is not None:
        overrides.append(f"data.folder={json.dumps(str(data))}")  # a string, even if called 2024
    parsed = load_config(config, overrides)
    folder = out or Path("runs") / config.stem
    with _watched(1) as watch:
        result = parsed.train(folder, resume=resume, watcher=watch.run(parsed.method.name))
    if not result.summary["completed"]:
        command = ["colonnade", "run", f"{folder / 'config.yaml'}", "--out", f"{folder}"]
        _say(
            _err,
            f"interrupted before round {result.summary['rounds']}; go on with\n"
            f"  {shlex.join(command)} --resume",
        )
        raise typer.Exit(INTERRUPTED)
    _out.print(comparison_table({result.summary["method"]: result}))
    for warning in result.summary["warnings"]:
        _out.print(f"[yellow]warning:[/] {escape(warning)}")
    _say(_out, f"Everything is in {folder}: summary.json, history.csv, ledger.csv, run.png.")


class _Watch:
    """Shows the progress of runs, and passes Ctrl-C on to them."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._count = 0
        self.interrupted = False

    def run(self, name: str) -> Any:
        """Return the watcher of one run."""
        from colonnade.federation import Watcher

        self._count += 1
        label = f"{self._count}/{self._total} {name}" if self._total > 1 else name
        progress, leader, tasks = self._progress, list[str](), list[TaskID]()

        def on_begin(first: int, last: int) -> None:
            # Only now is all input known to be good, and there is something to show.
            progress.start()
            tasks.append(progress.add_task(label, total=last, completed=first, metric=""))

        def on_round(role: str, round: int) -> None:
            # All roles go through the same rounds; the first to speak is shown.
            if not leader:
                leader.append(role)
            if role == leader[0]:
                progress.update(tasks[0], completed=round)

        def on_report(values: Any) -> None:
            shown = [f"{k.removeprefix('test_')} {v:.3f}" for k, v in values.items() if "acc" in k]
            loss = f"loss {values['train_loss']:.3f}"
            progress.update(tasks[0], metric=" ".join(shown) or loss)

        return Watcher(on_begin, on_round, on_report, lambda: self.interrupted)


@contextmanager
def _watched(total: int) -> Iterator[_Watch]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TextColumn("[green]{task.fields[metric]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=_err,
    )
    watch = _Watch(progress, total)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if watch.interrupted:
            raise KeyboardInterrupt
        watch.interrupted = True
        progress.console.print("stopping after this round; press Ctrl-C again to stop at once")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield watch
    finally:
        if progress.live.is_started:
            progress.stop()
        signal.signal(signal.SIGINT, before)


def _say(console: Console, text: str) -> None:
    """Print text with paths or values in it just as it is, a line a line."""
    console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)


def _unused(folder: Path) -> Path:
    """Return ``folder``, or the first of folder-2, folder-3, ... that does not exist."""
    candidate, number = folder, 1
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate


def main() -> None:
    """Run the command; what a user can mend exits with 2, and one sentence says what it is."""
    try:
        app()
    except ColonnadeError as error:
        _err.print("[bold red]error:[/] ", end="")
        _say(_err, " ".join(str(error).split()))
        sys.exit(2 if isinstance(error, (InvalidInput, CheckpointError)) else 1)
    except KeyboardInterrupt:
        _err.print("stopped")
        sys.exit(INTERRUPTED)
