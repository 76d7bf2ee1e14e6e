"""What several commands take, and what they make of it."""

from __future__ import annotations

import json
from enum import StrEnum
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from colonnade.errors import ConfigurationError
from colonnade.progress import Show

if TYPE_CHECKING:
    from colonnade.config import RunConfig
    from colonnade.fallbacks import Fallback

__all__ = [
    "Absent",
    "Absentees",
    "Config",
    "Data",
    "Json",
    "Quiet",
    "RunOf",
    "Set",
    "Tables",
    "Tracked",
    "Without",
    "fallbacks_of",
    "named_runs",
    "overrides_of",
    "parsed_config",
    "show_of",
    "sources_of",
    "to_place",
]


class Absentees(StrEnum):
    """What becomes of people of whom some table has no row."""

    error = "error"
    drop = "drop"


class Tracked(StrEnum):
    """By what curves of a run between sites are drawn."""

    tensorboard = "tensorboard"
    mlflow = "mlflow"


def _place(text: str) -> Path:
    """Return where something is to be written; nothing is no place, as of a variable not set."""
    if not text:
        raise typer.BadParameter("it is empty; name a place")
    return Path(text)


def to_place(*names: str, help: str) -> Any:
    """Return the option that says where a command writes."""
    return typer.Option(*names, parser=_place, metavar="PATH", help=help)


Config = Annotated[Path, typer.Argument(help="YAML file that describes the run.")]
RunOf = Annotated[Path, typer.Argument(help="Folder of a run that `colonnade run` made.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="a.b=c", help="Override one setting; may be repeated."),
]
Data = Annotated[Path | None, typer.Option(help="Folder with the data files; else COLONNADE_DATA.")]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PARTY=SOURCE",
        help="Where a party's new rows are: a file, or the URL of a database that is read by the "
        "table or query of the run's configuration; may be repeated. Without, the run's own tables "
        "are read again.",
    ),
]
Absent = Annotated[
    Absentees,
    typer.Option(help="What becomes of people of whom some table has no row: drop leaves out."),
]
Without = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PARTY=zeros|mean",
        help="A party that has left, and what stands for its embeddings: zeros, or the mean of "
        "those it was trained on; may be repeated.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no table.")]
Json = Annotated[
    bool, typer.Option("--json", help="For machines: progress and result as lines of JSON.")
]


def parsed_config(config: Path, set_: list[str] | None, data: Path | None) -> RunConfig:
    """Return what a file says, overridden by the options."""
    from colonnade.config import load_config

    return load_config(config, overrides_of(set_, data))


def overrides_of(set_: list[str] | None, data: Path | None) -> list[str]:
    """Return the overrides of a configuration that the options say."""
    overrides = list(set_ or [])
    if data is not None:
        overrides.append(f"data.folder={json.dumps(str(data))}")  # a string, even if called 2024
    return overrides


def sources_of(tables: list[str], example: str = "bank=new.csv") -> dict[str, str]:
    """Return whose rows are where, of options such as ``bank=new.csv``."""
    sources: dict[str, str] = {}
    for said in tables:
        party, equals, source = said.partition("=")
        if not (party and equals and source):
            raise ConfigurationError(f"{said}: it should be like {example}")
        if party in sources:
            raise ConfigurationError(f"{party!r} is named twice; name each party once")
        sources[party] = source
    return sources


def fallbacks_of(said: list[str]) -> dict[str, Fallback]:
    """Return what stands for whom, of options such as ``bank=mean``."""
    from colonnade.fallbacks import Fallback

    kinds: dict[str, Fallback] = {kind: kind for kind in get_args(Fallback)}
    left: dict[str, Fallback] = {}
    for name, kind in sources_of(said, "bank=mean").items():
        if kind not in kinds:
            raise ConfigurationError(f"--without {name}={kind}: it is {' or '.join(kinds)}")
        left[name] = kinds[kind]
    return left


def show_of(quiet: bool, as_json: bool) -> Show:
    """Return what is shown while a command works."""
    if quiet and as_json:
        raise ConfigurationError("--quiet and --json exclude each other")
    return Show.NOTHING if quiet else Show.JSON if as_json else Show.BAR


def named_runs(paths: list[Path]) -> dict[str, Path]:
    """Name each run by as much of the end of its path as tells it from the others."""
    resolved = [Path(realpath(path)) for path in paths]  # which knows links that go round
    if len(set(resolved)) < len(resolved):
        raise ConfigurationError("a run is named twice")
    names: list[str] = []
    depth = 1
    while depth == 1 or len(set(names)) < len(names):
        names = ["/".join(path.parts[-depth:]) for path in resolved]
        depth += 1
    return dict(zip(names, paths, strict=True))
