"""``colonnade clicks``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from colonnade.progress import counted, out, say

__all__ = ["Likeness", "clicks"]


class Likeness(StrEnum):
    """Whose click log is imitated."""

    criteo = "criteo"
    avazu = "avazu"


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
