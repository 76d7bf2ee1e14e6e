"""``colonnade export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import RunOf, to_place
from colonnade.progress import out, say

__all__ = ["export"]


def export(
    run: RunOf,
    to: Annotated[
        Path,
        to_place(help="Folder that gets a folder for each organisation, its own alone."),
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
