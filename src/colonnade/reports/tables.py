"""Tables for people: runs side by side, numbers with units and sensible digits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from colonnade.disclosures import HELD_OUT, SECRETS, source_of_secrets
from colonnade.errors import ConfigurationError
from colonnade.local_reports import local_reports
from colonnade.reports.epsilons import epsilon_columns, epsilon_notes
from colonnade.reports.groups import by_metric, data_notes
from colonnade.reports.targets import Target, check_target, target_of
from colonnade.reports.words import words
from colonnade.runs import Run
from colonnade.sent import bytes_between, bytes_sent

__all__ = [
    "CLOCKS",
    "besides_notes",
    "comparison_table",
    "comparison_tables",
    "epsilon_table",
    "human_bytes",
    "human_seconds",
    "privacy_notes",
    "reaching_columns",
    "reaching_table",
    "reaching_tables",
    "rounds_column",
    "step_columns",
]


_FIRST = "≤ at the first evaluation: look more often (training.evaluate_every) to see when"
CLOCKS = "time to includes evaluations before it; time and bytes are of training alone"
_REAL = "* real time on this machine; other times are modelled"


def human_bytes(count: float) -> str:
    """Return a number of bytes with three significant digits and a decimal unit.

    >>> human_bytes(0), human_bytes(999), human_bytes(12_345), human_bytes(6.5536e6)
    ('0 B', '999 B', '12.3 kB', '6.55 MB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{_three(count / size)} {unit}"
    return f"{count:.0f} B"


def human_seconds(seconds: float | None) -> str:
    """Return a duration with three significant digits.

    >>> human_seconds(0.0123), human_seconds(41.26), human_seconds(7384), human_seconds(None)
    ('12.3 ms', '41.3 s', '2 h 3 min', '—')
    """
    if seconds is None:
        return "—"
    if seconds < 1:
        return f"{_three(seconds * 1e3)} ms"
    if seconds < 120:
        return f"{_three(seconds)} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def _three(value: float) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


def comparison_tables(runs: Mapping[str, Run]) -> list[Table]:
    """Return a table for each metric that runs are judged by, and one of their epsilons, if any.

    See ``comparison_table`` and ``epsilon_table``.
    """
    private = epsilon_table(runs)
    tables = [comparison_table(group) for group in by_metric(runs).values()]
    return [*tables, *([] if private is None else [private])]


def epsilon_table(runs: Mapping[str, Run]) -> Table | None:
    """Return a table of what runs disclosed, and towards whom; None where none kept an account."""
    columns = epsilon_columns(runs)
    if not columns:
        return None
    table = Table(box=SIMPLE, header_style="bold", pad_edge=False)
    table.add_column("method", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right")
    for name, cells in zip(runs, zip(*columns.values(), strict=True), strict=True):
        table.add_row(escape(name), *cells)
    table.caption = escape("\n".join(epsilon_notes(runs)))
    table.caption_justify = "left"
    return table


def comparison_table(runs: Mapping[str, Run]) -> Table:
    """Return a table with a row for each run: best metric, bytes by direction, and time.

    All are judged by one metric, which names the column. Bytes are those of bodies sent for
    training, with several runs also as a share of the first run's. The time is that of training, on
    the simulator's clock; times of runs in real time carry a star, for they were measured on
    another clock.

    Raises
    ------
    ConfigurationError
        If they are judged by several metrics.
    """
    if len(metrics := by_metric(runs)) > 1:
        raise ConfigurationError(
            f"{' and '.join(map(words, metrics))} do not belong in one column; put runs of one "
            "metric into a table, or use comparison_tables"
        )
    summaries = {name: run.summary for name, run in runs.items()}
    first = next(iter(summaries.values()))
    table = Table(box=SIMPLE, header_style="bold", pad_edge=False)
    table.add_column("method", no_wrap=True)
    share = ["of first"] if len(runs) > 1 else []
    peers = any(map(bytes_between, summaries.values()))
    more = ["between parties"] if peers else []
    rounds = rounds_column(runs)
    for heading in (escape(_metric(first)), *rounds, "sent up", "down", *more, *share, "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    baseline = bytes_sent(first)
    for number, (name, s) in enumerate(summaries.items()):
        sent = bytes_sent(s)
        share = [f"{sent / baseline:.1%}" if baseline else "—"] if len(runs) > 1 else []
        star = "*" if s["seconds_virtual"] is None else " "
        table.add_row(
            escape(name),
            "—" if s["best"] is None else f"{s['best']:.4f}",
            *(cells[number] for cells in rounds.values()),
            human_bytes(s["bytes_up"]),
            human_bytes(s["bytes_down"]),
            *([human_bytes(bytes_between(s))] if peers else []),
            *share,
            human_seconds(s["seconds_training"]) + star,
        )
    notes = [*data_notes(runs), *besides_notes(runs), *privacy_notes(runs)]
    if any(s["seconds_virtual"] is None for s in summaries.values()):
        notes.append(_REAL)
    if notes:
        table.caption = escape("\n".join(notes))
        table.caption_justify = "left"
    return table


def rounds_column(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """Return how many rounds each run took, as a column, where some took fewer than others.

    Those that stopped early say so: bytes and time are then of fewer rounds, and not less a round.
    """
    summaries = [run.summary for run in runs.values()]
    if len({s["rounds"] for s in summaries}) == 1 and not any(
        s.get("stopped_early") for s in summaries
    ):
        return {}
    return {
        "rounds": [
            f"{s['rounds']:,}{', early' if s.get('stopped_early') else ''}" for s in summaries
        ]
    }


def reaching_tables(runs: Mapping[str, Run], target: float | None = None) -> list[Table]:
    """Return a table for each metric that there is something to tell of; see ``reaching_table``.

    Raises
    ------
    ConfigurationError
        If there is a target, and several metrics.
    """
    check_target(runs, target)
    tables = (reaching_table(group, target) for group in by_metric(runs).values())
    return [table for table in tables if table is not None]


def reaching_table(runs: Mapping[str, Run], target: float | None = None) -> Table | None:
    """Return a table of what it cost each run to reach a target, and of its local steps.

    Rounds, seconds and bytes until the metric was first as good as the target. Local steps and
    bubbles are those of all organisations together; held back is the largest share of anybody's
    training in which it waited although a batch was left for a step.

    Parameters
    ----------
    runs
        The runs, all judged by one metric.
    target
        A value of it; by default one a little short of the best of the first run. A single run is
        told of without one.

    Returns
    -------
    Table or None
        None where there is nothing to tell.
    """
    chosen = target_of(runs, target)
    reached, taken = reaching_columns(runs, chosen), step_columns(runs)
    if not reached and not taken:
        return None
    table = Table(box=SIMPLE, header_style="bold", pad_edge=False)
    table.add_column("method", no_wrap=True)
    for heading in (*reached, *taken):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, cells in zip(runs, zip(*reached.values(), *taken.values(), strict=True), strict=True):
        table.add_row(escape(name), *cells)
    notes = [] if chosen is None else [chosen.told]
    if any("*" in cell for cells in reached.values() for cell in cells):
        notes.append(_REAL)
    if any(cell != "—" for cell in reached.get("time to", [])):
        notes.append(CLOCKS)
    if any("≤" in cell for cells in reached.values() for cell in cells):
        notes.append(_FIRST)
    if notes:
        table.caption = escape("\n".join(notes))
        table.caption_justify = "left"
    return table


def reaching_columns(runs: Mapping[str, Run], target: Target | None) -> dict[str, list[str]]:
    """Return what it cost each run to reach a target, as columns; none where there is no target."""
    if target is None:
        return {}
    columns: dict[str, list[str]] = {"time to": [], "rounds to": [], "bytes to": []}
    for run in runs.values():
        at = run.reached(target.value)
        real = at is not None and at.seconds is not None and run.summary["seconds_virtual"] is None
        columns["time to"].append(
            "—" if at is None else human_seconds(at.seconds) + ("*" if real else "")
        )
        first = at is not None and at.round == _first_looked_at(run)
        columns["rounds to"].append(
            "not reached" if at is None else f"{'≤ ' if first else ''}{at.round:,}"
        )
        columns["bytes to"].append("—" if at is None else human_bytes(at.bytes_both))
    return columns


def _first_looked_at(run: Run) -> int | None:
    """Return before which round a run was first evaluated: it may have been as good before."""
    rounds = run.history.drop_nulls(str(run.summary["metric"]))["round"]
    return int(rounds[0]) if len(rounds) else None


def step_columns(runs: Mapping[str, Run]) -> dict[str, list[str]]:
    """Return the local steps of each run, and its bubbles where any has them, as columns."""
    steps = [sum(run.summary.get("local_updates", {}).values()) for run in runs.values()]
    if not any(steps):
        return {}
    columns = {"local steps": [f"{count:,}" for count in steps]}
    told = [local_reports(run.history, run.others_history) for run in runs.values()]
    bubbles = [
        [own["local_bubbles"] for own in each.values() if "local_bubbles" in own] for each in told
    ]
    if any(bubbles):
        columns["bubbles"] = [f"{sum(each):,}" if each else "—" for each in bubbles]
        shares = [run.summary.get("held_back", {}) for run in runs.values()]
        columns["held back"] = [
            f"{max(share.values(), default=0.0):.0%}" if each else "—"
            for share, each in zip(shares, bubbles, strict=True)
        ]
    return columns


def besides_notes(runs: Mapping[str, Run]) -> list[str]:
    """Return, of each run that sent more than training and evaluation take, what."""
    return [note for name, run in runs.items() if (note := _besides(name, run.summary))]


def _besides(name: str, summary: Mapping[str, Any]) -> str:
    """Return what a run sent besides training, where there was any, in a sentence."""
    told = []
    if summary.get("bytes_setup"):
        told.append(f"{human_bytes(summary['bytes_setup'])} sent to set up")
    if count := summary.get("messages_lost"):
        size = human_bytes(summary.get("bytes_lost", 0))
        told.append(f"{size} lost to a crash and sent again, in {count:,} messages")
    return f"{name}: besides, {' and '.join(told)}" if told else ""


def privacy_notes(runs: Mapping[str, Run]) -> list[str]:
    """Return whose noise comes from a seed, and whose held-out embeddings travel otherwise."""
    notes, declared = [], source_of_secrets(simulated=True).statement
    for name, run in runs.items():
        said = run.summary.get("privacy", {})
        if how := said.get(HELD_OUT):
            notes.append(f"{name}: {HELD_OUT} are {how}")
        if said.get(SECRETS) == declared:
            notes.append(f"{name}: {declared}")
    return notes


def _metric(summary: Mapping[str, object]) -> str:
    return words(str(summary["metric"]).removeprefix("test_"))
