"""PNG pictures of a run, and of several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from colonnade.faults import explained
from colonnade.outputs import PICTURE, SIGNATURE, check_output, replacing
from colonnade.paths import as_path
from colonnade.reports.canvas import canvas
from colonnade.reports.groups import by_metric, data_notes, is_classifier
from colonnade.reports.palette import GRID, colour, turn
from colonnade.reports.words import broken, quantity
from colonnade.runs import Run
from colonnade.sent import bytes_sent, sent_until

__all__ = ["draw_comparison", "draw_run"]

_Style = Literal["solid", "dashed", "dotted", "dashdot"]


def draw_run(run: Run, path: str | Path) -> None:
    """Draw the metric of a run against epochs, bytes and time, and its loss."""
    name = str(run.summary["method"])
    draw_comparison({name: run}, path, title=f"{name}, {len(run.summary['parties'])} parties")


def draw_comparison(runs: Mapping[str, Run], path: str | Path, title: str = "") -> None:
    """Draw the metric of several runs against epochs, bytes sent and time, and their losses.

    Parameters
    ----------
    runs
        The runs, by the name the legend gives them.
    path
        The PNG file.
    title
        Stands above the picture.

    Raises
    ------
    ConfigurationError
        If there is a file that Colonnade did not write.
    Unwritten
        If the file cannot be written.
    """
    path = as_path("a picture is drawn to the path of a file", path)
    check_output(path, PICTURE)
    groups = by_metric(runs)
    figure = canvas(11, 7 * len(groups))
    # The room at the sides is for ticks that become longer when axes find their places.
    figure.get_layout_engine().set(w_pad=0.15)  # type: ignore[union-attr,call-arg]
    axes: Any = figure.subplots(2 * len(groups), 2)
    for number, (metric, group) in enumerate(groups.items()):
        _draw_group(axes[2 * number : 2 * number + 2], metric, group, list(runs))
    if len(runs) > 1:
        _draw_legend(figure, list(runs))
    figure.suptitle(_text("\n".join([title, *data_notes(runs)])), fontsize=12)
    with explained(path), replacing(path) as partial:
        figure.savefig(partial, format="png", metadata={"Comment": SIGNATURE})


def _draw_group(axes: Any, metric: str, runs: Mapping[str, Run], order: Sequence[str]) -> None:
    """Draw runs that are judged by one metric into two rows of axes."""
    virtual = next(iter(runs.values())).summary["seconds_virtual"] is not None
    panels: list[tuple[Any, str, str, str]] = [
        (axes[0, 0], "epoch", metric, "epochs"),
        (axes[0, 1], "megabytes", metric, "training bytes sent, both directions (MB)"),
        (axes[1, 0], "seconds", metric, f"{'modelled' if virtual else 'wall'} time (s)"),
        (axes[1, 1], "epoch", "train_loss", "epochs"),
    ]
    for ax, x, y, label in panels:
        for name, run in runs.items():
            if x == "seconds" and (run.summary["seconds_virtual"] is not None) is not virtual:
                continue  # modelled and measured seconds do not belong on one axis
            history = _with_megabytes(run.history)
            if x in history.columns and y in history.columns:
                index = order.index(name)
                shade = colour(index)
                ax.plot(history[x], history[y], marker=".", color=shade, linestyle=_style(index))
        ax.set_xlabel(label)
        nats = y == "train_loss" and all(map(is_classifier, runs.values()))
        ax.set_ylabel(_text(quantity(y)) + (" (nats)" if nats else ""))
        ax.grid(visible=True, color=GRID, linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
    spread = [bytes_sent(r.summary) for r in runs.values()]
    if max(spread) > 5 * max(min(spread), 1):
        axes[0, 1].set_xscale("log")
        axes[0, 1].xaxis.set_major_formatter("{x:g}")


def _draw_legend(figure: Any, names: Sequence[str]) -> None:
    """Name all runs below the curves, where names hide none of these and none is cut."""
    from matplotlib.lines import Line2D  # only where one draws; see ``canvas``

    texts = [_text("\n".join(broken(name, 60))) for name in names]
    handles = [
        Line2D([], [], marker=".", color=colour(index), linestyle=_style(index), label=text)
        for index, text in enumerate(texts)
    ]
    widest = max(len(line) for text in texts for line in text.splitlines())
    columns = max(1, min(len(names), 120 // (widest + 8)))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)


def _text(text: str) -> str:
    """Return a text for matplotlib, which would read what is between dollars as a formula."""
    return text.replace("$", r"\$")


def _style(index: int) -> _Style:
    """Return how a line is drawn, as there may be more of them than colours."""
    styles: tuple[_Style, ...] = ("solid", "dashed", "dotted", "dashdot")
    return styles[turn(index) % len(styles)]


def _with_megabytes(history: pl.DataFrame) -> pl.DataFrame:
    sent = sent_until(history)
    return history if sent is None else history.with_columns(megabytes=sent / 1e6)
