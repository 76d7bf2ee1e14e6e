"""Figures of what was spent on what: bars of bytes and of time."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from colonnade import effects
from colonnade.reports.plots import WAIT, Figure, byte_unit, stacked
from colonnade.reports.words import activity, purposes_told, words
from colonnade.runs import Run
from colonnade.sent import bytes_between, bytes_sent
from colonnade.wire import Purpose

__all__ = ["bytes_by_party", "bytes_by_purpose", "bytes_by_run", "time_shares"]

# What has a colour of its own, whoever sends it first and whatever there is besides.
_EXCHANGED = (
    *("embedding, up", "derivative, down", "embedding, down", "codes, up", "codes, down"),
    *("total, down", "top, down", "skipped, down"),
)


def bytes_by_party(run: Run) -> Figure | None:
    """Return what went up from and down to each party for training, by kind."""
    holder = run.summary["label_holder"]
    ledger = run.ledger.frame().filter(
        pl.col("purpose").is_in(Purpose.training_labels()) & ~pl.col("lost")
    )
    party = pl.when(pl.col("sender") == holder).then("receiver").otherwise("sender")
    grouped = (
        ledger.with_columns(party=party, up=pl.col("receiver") == holder)
        .group_by("party", "kind", "up", maintain_order=True)
        .agg(pl.col("body_bytes").sum())
    )
    if not len(grouped):
        return None
    parties = [name for name in run.summary["parties"] if name != holder]
    most = grouped.group_by("party").agg(pl.col("body_bytes").sum())["body_bytes"].max()
    scale, unit = byte_unit(float(most or 0))  # type: ignore[arg-type]  # a number
    bars = []
    for kind, up in grouped.select("kind", "up").unique().sort("kind", "up").rows():
        sent = dict(grouped.filter(kind=kind, up=up).select("party", "body_bytes").rows())
        name = f"{kind}, {'up' if up else 'down'}"
        bars.append((name, [sent.get(party, 0) / scale for party in parties]))
    places = {name: place for place, name in enumerate(_EXCHANGED)}
    bars.sort(key=lambda bar: places.get(bar[0], len(places)))
    plot = stacked(parties, bars, f"training bytes ({unit})", "%{x:.4g} " + unit, _EXCHANGED)
    return Figure("bytes-party", "Bytes by party and kind", plot)


def bytes_by_purpose(run: Run) -> Figure | None:
    """Return what everybody sent for what, with the envelopes of messages."""
    grouped = (
        purposes_told(run.ledger)
        .with_columns(envelopes=pl.col("framed_bytes") - pl.col("body_bytes"))
        .group_by("purpose", maintain_order=True)
        .agg(pl.col("body_bytes").sum(), pl.col("envelopes").sum())
    )
    if not len(grouped):
        return None
    most = (grouped["body_bytes"] + grouped["envelopes"]).max()
    scale, unit = byte_unit(float(most or 0))  # type: ignore[arg-type]  # a number
    bars = [
        ("bodies", [value / scale for value in grouped["body_bytes"]]),
        ("envelopes", [value / scale for value in grouped["envelopes"]]),
    ]
    plot = stacked(grouped["purpose"].to_list(), bars, f"bytes ({unit})", "%{x:.4g} " + unit)
    return Figure("bytes-purpose", "Bytes by purpose", plot)


def bytes_by_run(runs: Mapping[str, Run]) -> Figure | None:
    """Return what each run sent."""
    totals = [bytes_sent(run.summary) for run in runs.values()]
    between = [bytes_between(run.summary) for run in runs.values()]
    evaluation = [run.summary["bytes_evaluation"] for run in runs.values()]
    if not sum(totals):
        return None
    scale, unit = byte_unit(max(a + b for a, b in zip(totals, evaluation, strict=True)))
    bars = [
        ("training, up", [run.summary["bytes_up"] / scale for run in runs.values()]),
        ("training, down", [run.summary["bytes_down"] / scale for run in runs.values()]),
        *([("training, between parties", [b / scale for b in between])] if any(between) else []),
        ("evaluation", [value / scale for value in evaluation]),
    ]
    return Figure(
        "bytes-run",
        "Bytes by run",
        stacked(list(runs), bars, f"bytes of bodies ({unit})", "%{x:.4g} " + unit),
    )


def time_shares(runs: Mapping[str, Run]) -> Figure | None:
    """Return what each organisation did with its time, as shares of all of it."""
    seconds: dict[str, dict[str, float]] = {}
    for name, run in runs.items():
        for entry in run.summary.get("activities", []):
            owner = entry["organisation"]
            if len(runs) > 1 and owner != run.summary["label_holder"]:
                continue  # of several runs only the label holders, whose time is that of the run
            spent = seconds.setdefault(name if len(runs) > 1 else owner, {})
            spent[entry["activity"]] = spent.get(entry["activity"], 0.0) + entry["seconds"]
    if not any(sum(spent.values()) for spent in seconds.values()):
        return None
    kinds = list(dict.fromkeys(kind for spent in seconds.values() for kind in spent))
    kinds.sort(key=lambda kind: (kind == effects.HELD_BACK, kind == WAIT))
    totals = {label: sum(spent.values()) or 1.0 for label, spent in seconds.items()}
    bars = [
        (activity(kind), [100 * spent.get(kind, 0) / totals[n] for n, spent in seconds.items()])
        for kind in kinds
    ]
    known = [words(kind) for kind in effects.KINDS_OF_WORK]
    plot = stacked(list(seconds), bars, "share of its time (%)", "%{x:.1f} %", known)
    plot.update_xaxes(range=[0, 100])
    modelled = {run.summary["seconds_virtual"] is not None for run in runs.values()}
    clock = "on each run's clock" if len(modelled) > 1 else "in real time"
    clock = "on the modelled clock" if modelled == {True} else clock
    whose = "Work and waiting of the label holder" if len(runs) > 1 else "Work and waiting"
    held = (
        " Held back: a batch was at hand, but no more steps were allowed before the next exchange."
    )
    note = f"{whose}, {clock}." + (held if effects.HELD_BACK in kinds else "")
    return Figure("time", "Where time goes", plot, note)
