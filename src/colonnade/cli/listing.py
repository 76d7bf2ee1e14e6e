"""What a configuration can name: data sets, codecs, methods, models, parts, and its schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import Data, Json
from colonnade.faults import misnamed_or_unwritten
from colonnade.outputs import SCHEMA, SIGNATURE, check_output, replacing
from colonnade.progress import err, out, say

__all__ = ["codecs", "datasets", "methods", "models", "parts", "schema"]


def datasets(data: Data = None, json_: Json = False) -> None:
    """List the public data sets that a configuration can name, and whether they are there."""
    from colonnade.console import datasets_table
    from colonnade.datasets import CATALOGUE, available

    there = {name: available(name, data) for name in CATALOGUE}
    if json_:
        say(out, json.dumps([{"name": name, "missing": why} for name, why in there.items()]))
        return
    out.print(datasets_table(CATALOGUE, there))


def codecs(json_: Json = False) -> None:
    """List the codecs that a configuration can name, and their settings."""
    _list_parts(json_, "codecs")


def methods(json_: Json = False) -> None:
    """List the methods that a configuration can name, and their settings."""
    _list_parts(json_, "methods")


def models(json_: Json = False) -> None:
    """List the bottom and top models that a configuration can name, and their settings."""
    _list_parts(json_, *_MODELS)


def parts(json_: Json = False) -> None:
    """List what a method can be composed of: uplinks, mechanisms, defences, fusions and so on."""
    from colonnade.config.registry import GROUPS

    _list_parts(json_, *(group for group in GROUPS if group not in ("codecs", "methods", *_MODELS)))


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
        with replacing(file) as partial:
            partial.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise misnamed_or_unwritten(file, error) from None
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
