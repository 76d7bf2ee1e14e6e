"""``colonnade align``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated

from colonnade.cli.options import Config, Data, Json, Quiet, Set, parsed_config, show_of, to_place
from colonnade.progress import Show, counted, err, out, say

__all__ = ["align"]


def align(
    config: Config,
    set_: Set = None,
    out_: Annotated[
        Path | None,
        to_place(
            "--out", help="Folder for the files; by default data.alignment, or one in aligned/."
        ),
    ] = None,
    data: Data = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Find who is in all organisations' tables, without any showing an id to another.

    Each organisation's file holds its own ids that are in common, in one order; a run takes them by
    data.alignment. With driver: processes each organisation's ids are read in its own process.
    """
    from colonnade.alignment import alignment_file, check_folder, read_alignment
    from colonnade.config.aligning import aligning, carry_out
    from colonnade.console import alignment_table

    parsed, show = parsed_config(config, set_, data), show_of(quiet, json_)
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
        said = [
            word for each in [*(set_ or ()), f"data.alignment={folder}"] for word in ("--set", each)
        ]
        out.print(alignment_table(found))
        say(out, "Who learned what:")
        for sentence in found[meeting.label_holder].learned:
            say(out, f"- {sentence}.")
        say(
            out,
            f"Each organisation's own ids in common are in {folder}, a file each, and are for "
            f"nobody else; train with\n  {shlex.join(['colonnade', 'run', str(config), *said])}",
        )
