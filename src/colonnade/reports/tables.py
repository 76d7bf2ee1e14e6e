"""Tables for people: runs side by side, numbers with units and sensible digits."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from colonnade.runs import Run

__all__ = ["comparison_table", "human_bytes", "human_seconds"]


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


def comparison_table(runs: Mapping[str, Run], title: str | None = None) -> Table:
    """Return a table with a row for each run: best metric, bytes by direction, and time.

    Bytes are those of bodies sent for training; the time is that of the training, on the
    simulator's clock or, for runs in real time, on the wall's.
    """
    first = next(iter(runs.values()))
    metric = str(first.summary["metric"]).replace("_", " ")
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("method")
    for heading in (f"best {metric}", "bytes up", "bytes down", "bytes vs. first", "time"):
        table.add_column(heading, justify="right")
    table.add_column("clock")
    baseline = first.summary["bytes_up"] + first.summary["bytes_down"]
    for name, run in runs.items():
        s = run.summary
        sent = s["bytes_up"] + s["bytes_down"]
        modelled = s["seconds_virtual"] is not None
        table.add_row(
            name,
            "—" if s["best"] is None else f"{s['best']:.4f}",
            human_bytes(s["bytes_up"]),
            human_bytes(s["bytes_down"]),
            f"{sent / baseline:.3f}" if baseline else "—",
            human_seconds(s["seconds_training"]),
            "modelled" if modelled else "measured",
        )
    return table
