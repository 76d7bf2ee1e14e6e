"""``colonnade check-site``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.progress import out, say

__all__ = ["check_site"]


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
