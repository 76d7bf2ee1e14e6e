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
        Path,
        typer.Argument(
            help="Folder that `nvflare provision` made for a site, the server or an operator."
        ),
    ],
    track: Annotated[
        Tracked | None,
        typer.Option(
            help="Of the server's kit: let jobs name FLARE's own receiver too, as those of "
            "`colonnade deploy --track` do."
        ),
    ] = None,
) -> None:
    """Let a site, or the server, run Colonnade's jobs and no others; guard an operator's programs.

    Writes local/resources.json and local/authorization.json in the kit: jobs may name Colonnade's
    two classes, nobody has code run or files read there, the logs of a site stay at the site, and
    a server keeps in the kit what it would keep in /tmp. Of an operator's kit, it has what is
    downloaded stay in its folder, wherever the server says it goes.
    """
    from colonnade.deployment.kits import prepare_kit as prepare

    settings = prepare(kit, track.value if track else None)
    say(out, f"{settings} guards this kit: start anew what uses it.")
