"""``colonnade prepare-kit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import Tracked
from colonnade.progress import out, say

__all__ = ["prepare_kit"]


def prepare_kit(
    kit: Annotated[
        Path, typer.Argument(help="Folder that `nvflare provision` made for a site or the server.")
    ],
    track: Annotated[
        Tracked | None,
        typer.Option(
            help="Of the server's kit: let jobs name FLARE's own receiver too, as those of "
            "`colonnade deploy --track` do."
        ),
    ] = None,
) -> None:
    """Let a site, or the server, run Colonnade's jobs and no others.

    Writes local/resources.json and local/authorization.json in the kit: jobs may name Colonnade's
    two classes, nobody has code run or files read there, the logs of a site stay at the site, and
    a server keeps in the kit what it would keep in /tmp.
    """
    from colonnade.deployment.kits import prepare_kit as prepare

    settings = prepare(kit, track.value if track else None)
    say(out, f"{settings} lets Colonnade's jobs in.")
