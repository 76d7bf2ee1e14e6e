"""The command ``colonnade``."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from rich.markup import escape

from colonnade import __version__
from colonnade.errors import (
    CheckpointError,
    ColonnadeError,
    ConfigurationError,
    InvalidInput,
    Unwritten,
)
from colonnade.faults import explained, refused
from colonnade.outputs import (
    PAGE,
    PARTNERS,
    PICTURE,
    SCHEMA,
    SIGNATURE,
    check_output,
    check_outputs,
    csv_of,
    replacing,
)
from colonnade.progress import Show, Told, counted, err, out, say, watched

if TYPE_CHECKING:
    from colonnade.config import RunConfig
    from colonnade.fallbacks import Fallback
    from colonnade.runs import Run
    from colonnade.serving import Service

__all__ = ["app", "main"]

app = typer.Typer(
    name="colonnade",
    help="Train one model over columns of several organisations, none of which shows its own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

INTERRUPTED = 130
UNWRITTEN = 3
REFUTED = 4  # of an audit


class Only(StrEnum):
    """Half of an audit."""

    games = "games"
    attacks = "attacks"


class Those(StrEnum):
    """Rows of a run's data."""

    train = "train"
    validation = "validation"
    test = "test"


class Absentees(StrEnum):
    """What becomes of people of whom some table has no row."""

    error = "error"
    drop = "drop"


class Tracked(StrEnum):
    """By what curves of a run between sites are drawn."""

    tensorboard = "tensorboard"
    mlflow = "mlflow"


class Likeness(StrEnum):
    """Whose click log is imitated."""

    criteo = "criteo"
    avazu = "avazu"


_COMPARISON = {"comparison.html": PAGE, "comparison.png": PICTURE}
_PARTNERS = "partners.json"

_TOLD = Told()

# Options that several commands have


def _place(text: str) -> Path:
    """Return where something is to be written; nothing is no place, as of a variable not set."""
    if not text:
        raise typer.BadParameter("it is empty; name a place")
    return Path(text)


def _to(*names: str, help: str) -> Any:
    """Return the option that says where a command writes."""
    return typer.Option(*names, parser=_place, metavar="PATH", help=help)


_Config = Annotated[Path, typer.Argument(help="YAML file that describes the run.")]
_Run = Annotated[Path, typer.Argument(help="Folder of a run that `colonnade run` made.")]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="a.b=c", help="Override one setting; may be repeated."),
]
_Data = Annotated[
    Path | None, typer.Option(help="Folder with the data files; else COLONNADE_DATA.")
]
_Tables = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PARTY=SOURCE",
        help="Where a party's new rows are: a file, or a database's URL; may be repeated. "
        "Without, the run's own tables are read again.",
    ),
]
_Absent = Annotated[
    Absentees,
    typer.Option(help="What becomes of people of whom some table has no row: drop leaves out."),
]
_Without = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PARTY=zeros|mean",
        help="A party that has left, and what stands for its embeddings: zeros, or the mean of "
        "those it was trained on; may be repeated.",
    ),
]
_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no table.")]
_Json = Annotated[
    bool, typer.Option("--json", help="For machines: progress and result as lines of JSON.")
]


@app.callback(invoke_without_command=True)
def _colonnade(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    if version:
        out.print(f"colonnade {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def demo(
    out_: Annotated[
        Path | None,
        _to("--out", help="Folder for the runs; by default a new one under runs/."),
    ] = None,
) -> None:
    """Train four parties on real handwritten digits, several ways, in under a minute."""
    # Imported here, as torch takes seconds and --help should not.
    from colonnade.demo import REAL, SIMULATED, VARIANTS, run_demo, same_bits
    from colonnade.reports import comparison_tables

    folder = out_ or _unused(Path("runs/demo"))
    check_outputs(folder, _COMPARISON)
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


@app.command()
def run(
    config: _Config,
    set_: _Set = None,
    out_: Annotated[
        Path | None,
        _to("--out", help="The run's folder; by default runs/ and the file's name."),
    ] = None,
    data: _Data = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")
    ] = False,
    quiet: _Quiet = False,
    json_: _Json = False,
) -> None:
    """Train as a configuration says, into a folder that can be resumed and reported on."""
    from colonnade.reports import epsilon_line, judged, left_out

    parsed = _parsed(config, set_, data)
    folder = out_ or Path("runs") / config.stem
    show = _show(quiet, json_)
    with watched(1, show) as watch:
        result = parsed.train(folder, resume=resume, watcher=watch.run(parsed.method.name))
        watch.log("end", completed=result.summary["completed"], folder=str(folder))
    if not result.summary["completed"]:
        command = ["colonnade", "run", f"{folder / 'config.yaml'}", "--out", f"{folder}"]
        say(
            err,
            f"interrupted before round {result.summary['rounds']}; go on with\n"
            f"  {shlex.join(command)} --resume",
        )
        raise typer.Exit(INTERRUPTED)
    _show_runs({result.summary["method"]: result}, show)
    if show is Show.BAR:
        if private := epsilon_line(result.summary):
            say(out, private)
        for note in (left_out(result.summary), judged(result.summary)):
            if note is not None:
                say(out, note)
        for warning in result.summary["warnings"]:
            if warning not in _TOLD:
                out.print(f"[yellow]warning:[/] {escape(warning)}")
        say(out, f"Everything is in {folder}; begin with {folder / 'report.html'}.")


@app.command()
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
    set_: _Set = None,
    out_: Annotated[
        Path | None,
        _to("--out", help="Folder for the comparison; by default runs/comparison."),
    ] = None,
    data: _Data = None,
    quiet: _Quiet = False,
    json_: _Json = False,
) -> None:
    """Put runs side by side: a table, a page with plots, and a picture."""
    from colonnade.run_folder import load_run

    show = _show(quiet, json_)
    folder = out_ or Path("runs/comparison")
    check_outputs(folder, _COMPARISON | ({_PARTNERS: PARTNERS} if partners else {}))
    if partners:
        if len(runs) != 1:
            raise ConfigurationError("--partners takes the YAML file of one run")
        if target is not None:
            raise ConfigurationError("--target is for runs that are over: --partners trains anew")
        _compare_partners(_parsed(runs[0], set_, data), folder, seeds, show)
        return
    if set_ or data:
        raise ConfigurationError("--set and --data are for --partners: these runs are over")
    loaded = {name: load_run(path) for name, path in _named(runs).items()}
    _write_comparison(loaded, folder, "", target)
    _show_runs(loaded, show, target)
    if show is Show.BAR:
        say(out, f"The comparison is in {folder}: comparison.html and comparison.png.")


@app.command()
def plan(config: _Config, set_: _Set = None, data: _Data = None, json_: _Json = False) -> None:
    """Say what a run will cost before any training: bytes, time on the network, memory."""
    from colonnade.console import plan_tables
    from colonnade.reports import left_out

    run = _parsed(config, set_, data)
    federation = run.build_federation()
    planned = run.plan(federation)
    if json_:
        say(out, json.dumps(planned.as_dict()))
        return
    if "data" not in run.model_fields_set:
        say(out, f"{config} names no data, so this is about {run.data.name}; name yours in data:")
    for table in plan_tables(planned):
        out.print(table)
    for warning in planned.warnings:
        say(out, warning)
    if absent := left_out(federation.headcount()):
        say(out, absent)


@app.command()
def align(
    config: _Config,
    set_: _Set = None,
    out_: Annotated[
        Path | None,
        _to("--out", help="Folder for the files; by default data.alignment, or one in aligned/."),
    ] = None,
    data: _Data = None,
    quiet: _Quiet = False,
    json_: _Json = False,
) -> None:
    """Find who is in all organisations' tables, without any showing an id to another.

    Each organisation's file holds its own ids that are in common, in one order; a run takes them by
    data.alignment. With driver: processes each organisation's ids are read in its own process.
    """
    from colonnade.alignment import alignment_file, check_folder, read_alignment
    from colonnade.config.aligning import aligning, carry_out
    from colonnade.console import alignment_table

    parsed, show = _parsed(config, set_, data), _show(quiet, json_)
    meeting, organisations = aligning(parsed)
    folder = out_ or getattr(parsed.data, "alignment", None) or Path("aligned") / config.stem
    check_folder(folder, meeting.everybody)
    with counted("ids blinded", show is Show.BAR) as bar:

        def told(done: int, total: int) -> None:
            bar(done, total)
            if show is Show.JSON:
                say(err, json.dumps({"event": "blinded", "ids": done, "of": total}))

        carry_out(parsed, meeting, organisations, folder, told)
    found = read_alignment(folder)
    if show is Show.JSON:
        for name, kept in found.items():
            counts = {"in_common": len(kept.ids), "left_out": kept.left_out}
            told_of = {"absent": kept.absent, "learned": kept.learned}
            named = {"organisation": name, "file": str(folder / alignment_file(name))}
            say(out, json.dumps(named | {"rows": kept.rows} | counts | told_of))
    if show is Show.BAR:
        out.print(alignment_table(found))
        say(out, "Who learned what:")
        for sentence in found[meeting.label_holder].learned:
            say(out, f"- {sentence}.")
        say(
            out,
            f"Each organisation's own ids in common are in {folder}, a file each, and are for "
            f"nobody else; train with\n  {shlex.join(['colonnade', 'run', str(config)])} "
            f"{shlex.join(['--set', f'data.alignment={folder}'])}",
        )


@app.command()
def deploy(
    config: _Config,
    set_: _Set = None,
    to: Annotated[
        Path | None,
        _to(help="Write the job for FLARE into this folder, and a site.yaml for each."),
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
    without: _Without = None,
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
        _to("--out", help="With --local: folder for all; by default deployed/ and RUN."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="With --local: leave FLARE's folders and logs there.")
    ] = False,
    data: _Data = None,
    quiet: _Quiet = False,
    json_: _Json = False,
) -> None:
    """Let organisations train on computers of their own, by NVIDIA FLARE.

    A job carries configuration alone: every site says for itself where its data are. With --local
    one command proves the whole path: certificates, a server and a process for each site, mutual
    TLS, the run, and each organisation's results in a folder of its own.
    """
    from colonnade.deployment.folders import write_job, write_site
    from colonnade.deployment.job import Task, job_of
    from colonnade.deployment.predicting import PREDICTIONS
    from colonnade.deployment.proving import Place, prove
    from colonnade.run_folder import load_run
    from colonnade.serving import check_installed

    if (to is None) == (not local):
        raise ConfigurationError("say either --to FOLDER, to write a job, or --local, to run it")
    parsed, show = _parsed(config, set_, data), _show(quiet, json_)
    if local and serve:
        check_installed()
    name_of_run, sources = run_ or config.stem, _sources(new or [])
    left = _fallbacks(without or [])
    place_of_holder: Literal["site", "server"] = "server" if hosted else "site"
    if to is not None:
        if serve:
            raise ConfigurationError(
                "with --to it is the job serve, and the label holder says where: site.yaml, serve:"
            )
        if sources:
            raise ConfigurationError("with --to each site says itself who is new: site.yaml, new:")
        job = job_of(parsed, name_of_run, "train", place_of_holder)
        for task in get_args(Task):
            each = job_of(parsed, name_of_run, task, place_of_holder, left)
            write_job(each, to / task, track.value if track and task == "train" else None)
        kept = [name for name in job.everybody if (to / "sites" / name / "site.yaml").exists()]
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

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
    _show_runs({result.summary["method"]: result}, show)
    if show is Show.BAR:
        for warning in result.summary["warnings"]:
            if warning not in _TOLD:
                out.print(f"[yellow]warning:[/] {escape(warning)}")
        say(
            out,
            f"The label holder's results are in {folder}{predicted}; what belongs to the others, "
            "each one's trained part and the ledger of what left it, is in "
            f"{place.folder / 'organisations'}.",
        )


@app.command(name="check-site")
def check_site(
    site: Annotated[Path, typer.Argument(help="The site.yaml of this organisation.")],
    job: Annotated[
        Path, typer.Argument(help="Folder of a job that `colonnade deploy --to` wrote.")
    ],
) -> None:
    """Try what a site would bring to a job, before anybody submits it; nothing leaves it.

    It reads site.yaml, policy.yaml and the tables as the site does when the job comes, and says
    what is wrong in the same words. What a policy says of bytes and epsilon hangs on what the
    others bring, and is compared when the job runs.
    """
    from colonnade.deployment.checking import checked
    from colonnade.deployment.folders import read_job
    from colonnade.deployment.site import load_site

    for sentence in checked(read_job(job), load_site(site)):
        say(out, f"{sentence[:1].upper()}{sentence[1:]}.")


@app.command()
def predict(
    run: _Run,
    table: _Tables = None,
    rows: Annotated[
        Those | None, typer.Option(help="Predict rows that the run was trained or tested on.")
    ] = None,
    absent: _Absent = Absentees.error,
    without: _Without = None,
    out_: Annotated[
        Path | None,
        _to("--out", help="CSV file; by default predictions.csv in the run's folder."),
    ] = None,
    json_: _Json = False,
) -> None:
    """Predict new rows by what a run of a configuration has trained, everybody's columns together.

    Rows are found as in training, by the configuration's id. No training table is read, unless its
    rows are what is predicted.
    """
    from colonnade.config import load_trained

    path = out_ or run / "predictions.csv"
    sources = _sources(table or [])
    if rows is not None and sources:
        raise ConfigurationError("--rows is about the run's own data, and --table about others")
    trained = load_trained(run)
    check_output(path, csv_of(trained.columns))
    left = _fallbacks(without or [])
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
    for name, count in left_out.items():
        say(out, f"Left out: {count:,} rows of {name!r}, of people of whom another has none.")
    if found.lost is not None:
        say(out, f"Without {', '.join(left)}: {found.lost} with everybody.")


@app.command()
def serve(
    run: _Run,
    table: _Tables = None,
    absent: _Absent = Absentees.error,
    without: _Without = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is every one.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 takes one that is free.")
    ] = 8008,
    token: Annotated[
        Path | None,
        typer.Option(
            help="File with what a request has to show; by default `token` in the run's folder, "
            "made where there is none."
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Certificate with its chain, as PEM: makes it HTTPS.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's private key, as PEM.")] = None,
) -> None:
    """Answer over HTTP whoever asks what is predicted of new people, until it is interrupted.

    All parts of the run are here, as `colonnade run` left them. Between organisations it is the job
    serve that `colonnade deploy --to` writes.
    """
    from colonnade.config import load_trained
    from colonnade.config.parse import parse_section
    from colonnade.serving import RunAnswers, ServeConfig, serving

    said = {"host": host, "port": port, "token": token or run / "token"}
    config = parse_section(ServeConfig, said | {"certificate": certificate, "key": key}, "serve")
    trained, left = load_trained(run), _fallbacks(without or [])
    new = trained.new_people(_sources(table or []), absent.value, left)
    answers = RunAnswers(trained, new, left)
    with _until_asked_to_end() as over, serving(answers, config) as service:
        try:
            for note in config.notes:
                err.print(f"[yellow]warning:[/] {escape(note)}")
            say(out, f"{len(answers.people):,} people can be asked for at {service.url}:")
            say(out, _example_of(service, answers.people.some))
            over.wait()
        finally:
            answers.end()


@app.command()
def export(
    run: _Run,
    to: Annotated[
        Path,
        _to(help="Folder that gets a folder for each organisation, its own alone."),
    ],
    programs: Annotated[
        bool,
        typer.Option(
            "--programs",
            help="Write each bottom model also as a program, which runs by PyTorch alone.",
        ),
    ] = False,
) -> None:
    """Write each organisation's trained part of a run of a configuration into a folder of its own.

    A part holds the model's parameters as safetensors, and how a table becomes features as JSON.
    """
    from colonnade.config import load_trained

    trained = load_trained(run)
    trained.run.export(to, programs=programs)
    names = ", ".join(sorted(trained.run.models))
    say(out, f"Parts of {names} are in {to}: give each folder to nobody else.")


@app.command()
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
    set_: _Set = None,
    out_: Annotated[
        Path | None,
        _to("--out", help="Folder for a page and CSV files; else none."),
    ] = None,
    data: _Data = None,
    quiet: _Quiet = False,
    json_: _Json = False,
) -> None:
    """Attack a run's features and labels, and test what is claimed of its noise.

    The label holder learns features back from embeddings, parties infer labels from what they are
    sent, and games test epsilon. Training is repeated, as a run does not keep what travelled.
    Exits with 4 where a claim was refuted.
    """
    from colonnade.audit_subjects import digits, subjects
    from colonnade.audits import (
        AUDIT_FILES,
        MEANING,
        Scope,
        attack_sheets,
        overview_sheets,
        write_audits,
    )

    show = _show(quiet, json_)
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
    overrides = _overrides(set_, data)
    named = _named(runs) if runs else {}
    chosen = dict(zip(named, subjects(runs, overrides), strict=True)) if runs else digits(overrides)
    found = {}
    with watched(len(chosen), show) as watch:
        for name, subject in chosen.items():
            watcher = watch.run(name)
            found[name] = subject.audit(scope, watcher, partial(watch.tell, name))
            if watch.interrupted:
                say(err, "interrupted; an audit begins anew")
                raise typer.Exit(INTERRUPTED)
    if out_ is not None:
        write_audits(found, out_, shlex.join(["colonnade", *sys.argv[1:]]))
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
        if out_ is not None:
            say(out, f"Everything is in {out_}: {', '.join(AUDIT_FILES)}.")
    if not all(each.holds for each in found.values()):
        say(err, "a mechanism discloses more than is claimed of it")
        raise typer.Exit(REFUTED)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Which; without a name they are listed.")
    ] = None,
    out_: Annotated[
        Path | None,
        _to("--out", help="Folder for it; by default reproduce/ and its name."),
    ] = None,
    data: _Data = None,
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
    quiet: _Quiet = False,
    json_: _Json = False,
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
    show = _show(quiet, json_)
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


@app.command()
def datasets(data: _Data = None, json_: _Json = False) -> None:
    """List the public data sets that a configuration can name, and whether they are there."""
    from colonnade.console import datasets_table
    from colonnade.datasets import CATALOGUE, available

    there = {name: available(name, data) for name in CATALOGUE}
    if json_:
        say(out, json.dumps([{"name": name, "missing": why} for name, why in there.items()]))
        return
    out.print(datasets_table(CATALOGUE, there))


@app.command()
def clicks(
    file: Annotated[
        Path,
        typer.Argument(
            help="The file, whose name must say synthetic: .tsv like Criteo's, .csv like Avazu's, "
            "with .gz behind if packed; or .parquet."
        ),
    ],
    rows: Annotated[int, typer.Option(min=1, help="How many rows.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Draws the rows.")] = 0,
    like: Annotated[
        Likeness, typer.Option("--schema", "--like", help="Whose columns they have.")
    ] = Likeness.criteo,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Write SYNTHETIC clicks, made up from a seed, in the form of a real click log's file."""
    from colonnade.datasets import write_synthetic_clicks

    with counted("rows", not quiet) as told:
        write_synthetic_clicks(file, rows, seed, like.value, told)
    if not quiet:
        say(out, f"{rows:,} synthetic rows are in {file}; they tell nothing of real clicks.")


@app.command()
def codecs(json_: _Json = False) -> None:
    """List the codecs that a configuration can name, and their settings."""
    _list_parts(json_, "codecs")


@app.command()
def methods(json_: _Json = False) -> None:
    """List the methods that a configuration can name, and their settings."""
    _list_parts(json_, "methods")


@app.command()
def models(json_: _Json = False) -> None:
    """List the bottom and top models that a configuration can name, and their settings."""
    _list_parts(json_, *_MODELS)


@app.command()
def parts(json_: _Json = False) -> None:
    """List what a method can be composed of: uplinks, mechanisms, defences, fusions and so on."""
    from colonnade.config.registry import GROUPS

    _list_parts(json_, *(group for group in GROUPS if group not in ("codecs", "methods", *_MODELS)))


@app.command()
def schema(
    file: Annotated[
        Path | None, typer.Argument(help="Where to write it; by default it is printed.")
    ] = None,
) -> None:
    """Write the JSON schema of configuration files, by which editors complete and check them."""
    from colonnade.config import json_schema

    text = json.dumps({"$comment": SIGNATURE} | json_schema(), indent=2)
    if file is None:
        say(out, text)
        return
    check_output(file, SCHEMA)
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from None
    say(out, f"Say in the first line of a configuration: # yaml-language-server: $schema={file}")


_MODELS = ("models", "tops")


def _list_parts(as_json: bool, *groups: str) -> None:
    from colonnade.config.listing import listed
    from colonnade.console import parts_table

    found = listed(*groups)
    if as_json:
        say(out, json.dumps([each.as_dict() for each in found]))
        return
    for each in found:
        out.print(parts_table(each))
        for problem in each.problems:
            err.print("[yellow]warning:[/] ", end="")
            say(err, problem)


def _parsed(config: Path, set_: list[str] | None, data: Path | None) -> RunConfig:
    from colonnade.config import load_config

    return load_config(config, _overrides(set_, data))


def _overrides(set_: list[str] | None, data: Path | None) -> list[str]:
    overrides = list(set_ or [])
    if data is not None:
        overrides.append(f"data.folder={json.dumps(str(data))}")  # a string, even if called 2024
    return overrides


def _sources(tables: list[str], example: str = "bank=new.csv") -> dict[str, str]:
    sources: dict[str, str] = {}
    for said in tables:
        party, equals, source = said.partition("=")
        if not (party and equals and source):
            raise ConfigurationError(f"{said}: it should be like {example}")
        if party in sources:
            raise ConfigurationError(f"{party!r} is named twice; name each party once")
        sources[party] = source
    return sources


def _fallbacks(said: list[str]) -> dict[str, Fallback]:
    from colonnade.fallbacks import Fallback

    kinds: dict[str, Fallback] = {kind: kind for kind in get_args(Fallback)}
    left: dict[str, Fallback] = {}
    for name, kind in _sources(said, "bank=mean").items():
        if kind not in kinds:
            raise ConfigurationError(f"--without {name}={kind}: it is {' or '.join(kinds)}")
        left[name] = kinds[kind]
    return left


def _example_of(service: Service, id: str) -> str:
    """Return how somebody is asked for."""
    secure = "--cacert CERTIFICATE " if service.url.startswith("https") else ""
    return (
        f'  curl {secure}-H "Authorization: Bearer $(cat {shlex.quote(str(service.token))})" '
        f"--json {shlex.quote(json.dumps({'ids': [id]}))} {service.url}/predict"
    )


@contextlib.contextmanager
def _until_asked_to_end() -> Iterator[threading.Event]:
    """Yield what is set when somebody interrupts, or asks the process to end."""
    over, before = threading.Event(), {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, lambda *_: over.set())
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(quiet: bool, as_json: bool) -> Show:
    if quiet and as_json:
        raise ConfigurationError("--quiet and --json exclude each other")
    return Show.NOTHING if quiet else Show.JSON if as_json else Show.BAR


def _show_runs(runs: Mapping[str, Run], show: Show, target: float | None = None) -> None:
    from colonnade.reports import comparison_tables, reaching_tables

    if show is Show.BAR:
        for table in comparison_tables(runs) + reaching_tables(runs, target):
            out.print(table)
    elif show is Show.JSON:
        for name, each in runs.items():
            told = {} if target is None else {"target": target, "reached": _reached(each, target)}
            say(out, json.dumps({"run": name} | each.summary | told))


def _reached(run: Run, target: float) -> dict[str, float] | None:
    found = run.reached(target)
    return None if found is None else asdict(found)


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
    with explained(folder / _PARTNERS):
        (folder / _PARTNERS).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    if show is Show.JSON:
        for value in found.values:
            say(out, json.dumps(value.as_dict()))
    if show is Show.BAR:
        out.print(partners_table(found))
        say(
            out,
            f"Everything is in {folder}: partners.json, comparison.html, a folder for each run.",
        )


def _named(paths: list[Path]) -> dict[str, Path]:
    """Name each run by as much of the end of its path as tells it from the others."""
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise ConfigurationError("a run is named twice")
    names: list[str] = []
    depth = 1
    while depth == 1 or len(set(names)) < len(names):
        names = ["/".join(path.parts[-depth:]) for path in resolved]
        depth += 1
    return dict(zip(names, paths, strict=True))


def _unused(folder: Path) -> Path:
    """Return ``folder``, or the first of folder-2, folder-3, ... that does not exist."""
    candidate, number = folder, 1
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate


def main() -> None:
    """Run the command; one sentence says what is wrong.

    What a user gave exits with 2; a full disk, a folder that is gone, or what else the system
    refuses with 3; what else is known to go wrong with 1.
    """
    try:
        try:
            with _TOLD:
                app()
        except OSError as error:
            raise refused(error) from error
    except ColonnadeError as error:
        err.print("[bold red]error:[/] ", end="")
        say(err, " ".join(str(error).split()))
        given = isinstance(error, (InvalidInput, CheckpointError))
        sys.exit(2 if given else UNWRITTEN if isinstance(error, Unwritten) else 1)
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(INTERRUPTED)
