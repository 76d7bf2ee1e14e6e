"""``colonnade deploy``."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from colonnade.cli.options import (
    Config,
    Data,
    Json,
    Quiet,
    Set,
    Tracked,
    Without,
    fallbacks_of,
    parsed_config,
    show_of,
    sources_of,
    to_place,
)
from colonnade.cli.told import say_warnings, show_runs
from colonnade.errors import ConfigurationError
from colonnade.outputs import check_place
from colonnade.progress import Show, counted, err, out, say

__all__ = ["deploy"]


def deploy(
    config: Config,
    set_: Set = None,
    to: Annotated[
        Path | None,
        to_place(help="Write the job for FLARE into this folder, and a site.yaml for each."),
    ] = None,
    local: Annotated[
        bool,
        typer.Option("--local", help="Run it in a federation on this machine, and take that down."),
    ] = False,
    hosted: Annotated[
        bool,
        typer.Option("--hosted", help="The label holder runs the server, and needs no own site."),
    ] = False,
    run_: Annotated[
        str | None,
        typer.Option("--run", help="What every site calls the run; by default the file's name."),
    ] = None,
    new: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SOURCE",
            help="Where an organisation has rows of new people, who are predicted after training: "
            "a file, or a database's URL; say it for each.",
        ),
    ] = None,
    without: Without = None,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve", help="With --local and --new: then answer over HTTP, until interrupted."
        ),
    ] = False,
    track: Annotated[
        Tracked | None,
        typer.Option(
            help="With --to: let FLARE's own receiver at the server draw curves of what is "
            "reported."
        ),
    ] = None,
    out_: Annotated[
        Path | None,
        to_place("--out", help="With --local: folder for all; by default deployed/ and RUN."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="With --local: leave FLARE's folders and logs there.")
    ] = False,
    data: Data = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Let organisations train on computers of their own, by NVIDIA FLARE.

    A job carries configuration alone: every site says for itself where its data are. With --local
    one command proves the whole path: certificates, a server and a process for each site, mutual
    TLS, the run, and each organisation's results in a folder of its own.
    """
    from colonnade.deployment.ending import ending_signals
    from colonnade.deployment.folders import write_job, write_site
    from colonnade.deployment.job import Task, job_of
    from colonnade.deployment.predicting import PREDICTIONS
    from colonnade.deployment.proving import Place, prove
    from colonnade.run_read import load_run
    from colonnade.serving import check_installed

    if (to is None) == (not local):
        raise ConfigurationError("say either --to FOLDER, to write a job, or --local, to run it")
    parsed, show = parsed_config(config, set_, data), show_of(quiet, json_)
    if local and serve:
        check_installed()
    name_of_run, sources = run_ or config.stem, sources_of(new or [])
    left = fallbacks_of(without or [])
    place_of_holder: Literal["site", "server"] = "server" if hosted else "site"
    if to is not None:
        if serve:
            raise ConfigurationError(
                "with --to it is the job serve, and the label holder says where: site.yaml, serve:"
            )
        if sources:
            raise ConfigurationError("with --to each site says itself who is new: site.yaml, new:")
        for folder in (to, to / "sites"):
            check_place(folder)
        job = job_of(parsed, name_of_run, "train", place_of_holder)
        for task in get_args(Task):
            each = job_of(parsed, name_of_run, task, place_of_holder, left)
            write_job(each, to / task, track.value if track and task == "train" else None)
        kept = [name for name in job.everybody if _says(to / "sites" / name / "site.yaml")]
        for name in job.everybody:
            if name not in kept:  # where it is, somebody may have changed it
                write_site(parsed, name, to / "sites" / name)
        if show is Show.BAR:
            say(
                out,
                f"The jobs are {to / 'align'}, to find who is in all tables, and {to / 'train'}: "
                "submit one after the other to FLARE, and align_new, predict and serve for new "
                "people. "
                f"What each organisation keeps to itself is in {to / 'sites'}, and goes into its "
                "local/colonnade/site.yaml.",
            )
            if kept:
                say(out, f"What was there of {', '.join(kept)} stays as it is.")
        return
    if track is not None:
        raise ConfigurationError("--track is for a job that is kept: it goes with --to")
    if left and not sources:
        raise ConfigurationError(
            "--without is about new people, after training: say with --new who they are"
        )
    place = Place(out_ or Path("deployed") / name_of_run)
    # Who asks it to end asks all that it has started: what is in hand is put down.
    for number in ending_signals():
        signal.signal(number, lambda number, _: sys.exit(128 + number))

    def told(sentence: str) -> None:
        if show is Show.JSON:
            say(err, json.dumps({"event": "step", "said": sentence}))
        elif show is Show.BAR:
            say(err, f"{sentence[:1].upper()}{sentence[1:]}.")

    with counted("epochs", show is Show.BAR) as trained:
        job = prove(
            parsed,
            name_of_run,
            place,
            told,
            new=sources,
            without=left,
            serve=serve,
            label_holder_at=place_of_holder,
            keep=keep,
            trained=trained,
        )
    folder = place.run(job.label_holder.name, job)
    result = load_run(folder)
    predicted = f", and what was predicted in {PREDICTIONS}/ there" if sources else ""
    show_runs({result.summary["method"]: result}, show)
    if show is Show.BAR:
        say_warnings(result)
        say(
            out,
            f"The label holder's results are in {folder}{predicted}; what belongs to the others, "
            "each one's trained part and the ledger of what left it, is in "
            f"{place.folder / 'organisations'}.",
        )


def _says(file: Path) -> bool:
    """Return whether there is anything in a file."""
    return file.exists() and file.stat().st_size > 0
