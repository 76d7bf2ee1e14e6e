"""``colonnade plan``."""

from __future__ import annotations

import json

from colonnade.cli.options import Config, Data, Json, Set, parsed_config
from colonnade.progress import out, say

__all__ = ["plan"]


def plan(config: Config, set_: Set = None, data: Data = None, json_: Json = False) -> None:
    """Say what a run will cost before any training: bytes, time on the network, memory."""
    from colonnade.console import plan_tables
    from colonnade.reports import left_out

    run = parsed_config(config, set_, data)
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
