"""Tables that commands print: what a run will cost, what partners add, what there is to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields

import polars as pl
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from colonnade.alignment import Kept
from colonnade.config.listing import Listed
from colonnade.datasets import DatasetInfo
from colonnade.experiments import Experiment
from colonnade.partners import PartnerValues
from colonnade.planning import MemoryUse, Plan
from colonnade.reports import epsilon_facts, human_bytes, human_seconds
from colonnade.telling import plain

__all__ = [
    "alignment_table",
    "datasets_table",
    "experiments_table",
    "partners_table",
    "parts_table",
    "plan_tables",
]


def plan_tables(plan: Plan) -> list[Table]:
    """Return what a run will cost: its traffic, its time, and the memory of each organisation."""
    return [_traffic(plan), _totals(plan), _memory(plan)]


def alignment_table(found: Mapping[str, Kept]) -> Table:
    """Return what came of an alignment at each organisation: a row for each of its tables."""
    everybody = next(iter(found.values())).everybody
    absent = found[everybody[-1]].absent
    table = _table(
        "Alignment", "organisation", "table", "rows", "in common", "left out", "lacks", text=2
    )
    for name in everybody:
        kept = found[name]
        for own, rows in kept.rows.items():
            lacks = f"{absent[name]:,}" if name in absent else ""
            counts = (f"{count:,}" for count in (rows, len(kept.ids), kept.left_out[own]))
            table.add_row(escape(name), escape(own), *counts, lacks)
    table.caption = f"lacks: of the ids of {escape(everybody[-1])}"
    table.caption_justify = "left"
    return table


def _table(title: str, *columns: str, text: int = 1) -> Table:
    """Return an empty table; all columns after the first ``text`` hold numbers."""
    table = Table(
        title=title, box=SIMPLE, header_style="bold", pad_edge=False, title_justify="left"
    )
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < text else "right", no_wrap=True)
    return table


def _traffic(plan: Plan) -> Table:
    """Return a row for each kind of message and direction, all parties together."""
    sign = _sign(plan)
    table = _table("Traffic", "purpose", "kind", "direction", "messages", "each", "bodies", text=3)
    up, down = (pl.col(end) == plan.label_holder for end in ("receiver", "sender"))
    grouped = (
        plan.traffic.with_columns(
            direction=pl.when(up)
            .then(pl.lit("up"))
            .when(down)
            .then(pl.lit("down"))
            .otherwise(pl.lit("between parties"))
        )
        .group_by("purpose", "kind", "direction", maintain_order=True)
        .agg(pl.col("messages").sum(), pl.col("body_bytes").sum())
        .sort(pl.col("purpose") != "training", "direction", "kind", descending=[False, True, False])
    )
    for row in grouped.iter_rows(named=True):
        table.add_row(
            row["purpose"],
            row["kind"],
            row["direction"],
            f"{row['messages']:,}",
            "~" + human_bytes(row["body_bytes"] / row["messages"]),
            sign + human_bytes(row["body_bytes"]),
        )
    for column in table.columns[:3]:  # names, which in a narrow window are not cut
        column.no_wrap, column.overflow = False, "fold"
    told = []
    if plan.why_bound:
        told.append(f"at most, because {' and '.join(plan.why_bound)}")
    if plan.why_timed:
        told.append(f"at these times: {' and '.join(plan.why_timed)} depends on time")
    if told:
        table.caption = "; ".join(told)
        table.caption_justify = "left"
    return table


def _sign(plan: Plan) -> str:
    """Return what stands before bytes: nothing, that they are at most so many, or about."""
    if plan.why_timed:
        return "≈ "
    return "≤ " if plan.why_bound else ""


def _totals(plan: Plan) -> Table:
    sign = _sign(plan)
    rounds = f"{plan.rounds:,} rounds, {plan.epochs} epochs"
    table = _table(f"{plan.method}: {rounds}", "in all", "")
    table.add_row("sent up for training", sign + human_bytes(plan.bytes_up))
    table.add_row("sent down for training", sign + human_bytes(plan.bytes_down))
    if plan.bytes_between:
        table.add_row("sent between parties for training", sign + human_bytes(plan.bytes_between))
    table.add_row("sent for evaluation", sign + human_bytes(plan.bytes_evaluation))
    if plan.bytes_setup:
        table.add_row("sent to set up", sign + human_bytes(plan.bytes_setup))
    table.add_row("everything, with envelopes", sign + human_bytes(plan.bytes_framed))
    table.add_row("time of an epoch", human_seconds(plan.seconds_epoch))
    table.add_row("time of the run", sign + human_seconds(plan.seconds))
    table.caption = "network: {network}; compute: {compute}".format(**plan.clock)
    for what, facts, why in (
        ("epsilon", epsilon_facts(plan.privacy_loss), plan.why_most),
        (
            "epsilon of labels",
            epsilon_facts(None, plan.privacy_loss_of_labels),
            plan.why_most_of_labels,
        ),
    ):
        for name, told in facts:
            exact = told == "no bound" or name.startswith("delta")
            table.add_row(name, told if exact or not why else f"≤ {told}")
        if why:
            table.caption += f"; {what} is at most this, because {' and '.join(why)}"
    table.caption_justify = "left"
    return table


def _memory(plan: Plan) -> Table:
    columns = [field.name for field in fields(MemoryUse)] + ["total"]
    table = _table("Memory, besides the program itself", "organisation", *columns)
    for name, memory in plan.memory.items():
        table.add_row(name, *(human_bytes(getattr(memory, column)) for column in columns))
    for column in table.columns:  # eight, which in a narrow window take two lines and are not cut
        column.no_wrap, column.overflow = False, "fold"
    return table


def partners_table(found: PartnerValues) -> Table:
    """Return what each partner adds to the metric, and what its part of the training costs."""
    first = found.values[0]
    metric = first.metric.replace("_", " ")
    table = _table("", "partner", f"{metric} with all", "without it", "it adds", "its training")
    for value in found.values:
        together = sum(value.together) / len(value.together)
        without = sum(value.without) / len(value.without)
        error = "" if math.isnan(value.standard_error) else f" ± {value.standard_error:.4f}"
        table.add_row(
            value.partner,
            f"{together:.4f}",
            f"{without:.4f}",
            f"{value.gain:+.4f}{error}",
            human_bytes(value.bytes_sent),
        )
    count = len(first.together)
    table.caption = (
        f"means over {count} seeds, ± the standard error of the difference"
        if count > 1
        else "one seed: differences of less than about 0.01 may be chance; see --seeds"
    )
    table.caption_justify = "left"
    return table


def experiments_table(experiments: Mapping[str, Experiment]) -> Table:
    """Return the experiments there are, where they are from, and what they take."""
    table = _table("", "name", "what it shows", "source", "data", "minutes", text=4)
    for name, experiment in experiments.items():
        minutes = f"~{experiment.minutes}"
        table.add_row(
            name, experiment.title, experiment.source, ", ".join(experiment.data), minutes
        )
    for column in table.columns[1:4]:
        column.no_wrap = False
    return table


def datasets_table(
    catalogue: Mapping[str, DatasetInfo], missing: Mapping[str, str | None]
) -> Table:
    """Return the public data sets, and what files those need that are not there."""
    table = _table("", "name", "there", "what it is", "rows", text=3)
    for name, info in catalogue.items():
        rows = "any" if info.rows is None else f"{info.rows:,}"
        there = "yes" if missing[name] is None else "no" if info.files else "fetched"
        table.add_row(name, there, info.title, rows)
    table.columns[2].no_wrap = False
    absent = [info for name, info in catalogue.items() if missing[name] and info.files]
    if absent:
        table.caption = (
            "put into a folder, and name it with --data or COLONNADE_DATA:\n"
            + "\n".join(f"  {info.name}: {', '.join(info.files)}" for info in absent)
        )
        table.caption_justify = "left"
    return table


def parts_table(listed: Listed) -> Table:
    """Return the parts of a kind that a configuration can name, and their settings."""
    table = _table(
        escape(f"{listed.title}: {listed.about}"), "name", "what it is", "settings", "from"
    )
    for part in listed.parts:
        settings = Text("\n".join(map(plain, part.settings)))
        table.add_row(_text(part.name), _text(part.about), settings, _text(part.origin))
    for column in table.columns[1:]:
        column.justify = "left"
    table.columns[1].no_wrap = False
    table.caption = "settings without a default have to be given"
    table.caption_justify = "left"
    return table


def _text(words: str) -> Text:
    """Return what somebody else wrote, which is shown as it is and does nothing."""
    return Text(plain(words))
