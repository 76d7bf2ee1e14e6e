"""What figures are made of: axes, lines, points, bars, and their units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go
import polars as pl

from colonnade import effects
from colonnade.reports.palette import GRID, HELD_BACK, INK, WAITING, colour, turn
from colonnade.reports.words import broken

__all__ = [
    "WAIT",
    "Figure",
    "add_line",
    "add_point",
    "at_least",
    "byte_unit",
    "empty_plot",
    "make_room",
    "plot_text",
    "room_for_points",
    "second_unit",
    "stacked",
]

WAIT = "wait"
_SHADES = {WAIT: WAITING, f"{WAIT}, {effects.HELD_BACK}": HELD_BACK}

# What tells curves and points apart that share a colour, as there are more of them than colours.
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "cross")

# On a telephone a figure is some 350 pixels wide, and a character 7 to 8.
_LEGEND_WIDTH, _LABEL_WIDTH = 30, 18
_LINE_HEIGHT = 17


@dataclass(frozen=True)
class Figure:
    """A figure with the words around it.

    Parameters
    ----------
    key
        A name for the element of the page.
    title
        What it shows.
    plot
        The figure itself.
    note
        What a reader should know besides.
    """

    key: str
    title: str
    plot: go.Figure
    note: str = ""


def empty_plot(x: str, y: str) -> go.Figure:
    """Return a figure without traces, whose axes say what they show."""
    axis = {
        "gridcolor": GRID,
        "linecolor": "#aab2ba",
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": "#aab2ba",
        "ticklen": 4,
        "automargin": True,
    }
    title = {"standoff": 10, "font": {"size": 13}}
    return go.Figure(
        layout={
            "template": "none",
            "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
            "colorway": [colour(index) for index in range(7)],
            "margin": {"l": 12, "r": 16, "t": 8, "b": 12},
            "height": 330,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "hovermode": "closest",
            "hoverlabel": {"namelength": -1},
            "legend": {
                "orientation": "h",
                "yanchor": "bottom",
                "y": 1.02,
                "xanchor": "left",
                "x": 0,
                "font": {"size": 12},
                "traceorder": "normal",
                "maxheight": 2000,  # never a legend that scrolls
            },
            "xaxis": axis | {"title": title | {"text": plot_text(x)}},
            "yaxis": axis | {"title": title | {"text": plot_text(y)}},
        }
    )


def add_line(plot: go.Figure, name: str, history: pl.DataFrame, x: str, y: str, index: int) -> None:
    """Draw a column of a history against another, where it has both."""
    if x not in history.columns or y not in history.columns:
        return
    rows = history.select(x, y).drop_nulls().filter(pl.col(y).cast(pl.Float64).is_finite())
    if not len(rows):
        return
    plot.add_trace(
        go.Scatter(
            x=rows[x].to_list(),
            y=rows[y].to_list(),
            name=_lines(name, _LEGEND_WIDTH),
            mode="lines+markers" if len(rows) <= 40 else "lines",
            line={
                "color": colour(index),
                "width": 2,
                "dash": _DASHES[turn(index) % len(_DASHES)],
            },
            marker={"size": 6},
            hovertemplate="%{y:.4f} at %{x:.4g}<extra>%{fullData.name}</extra>",
        )
    )


def stacked(
    labels: Sequence[str],
    bars: Sequence[tuple[str, Sequence[float]]],
    x: str,
    hover: str,
    known: Sequence[str] = (),
) -> go.Figure:
    """Return lying bars, stacked: names of organisations need the room on the left.

    Those that are known have the colours of their places, the others those that follow.
    """
    others = [name for name, _ in bars if name not in known and name not in _SHADES]
    colours = {name: colour(index) for index, name in enumerate([*known, *others])} | _SHADES
    plot = empty_plot(x, "")
    names = [plot_text(label) for label in labels]
    shown = [_lines(label, _LABEL_WIDTH) for label in labels]
    row = max(30, 8 + _LINE_HEIGHT * max((text.count("<br>") + 1 for text in shown), default=1))
    for name, values in bars:
        plot.add_trace(
            go.Bar(
                y=names,
                x=list(values),
                name=plot_text(name),
                orientation="h",
                marker={"color": colours[name]},
                hovertemplate=hover + "<extra>%{fullData.name}</extra>",
            )
        )
    plot.update_layout(
        barmode="stack",
        bargap=0.35,
        height=max(230, 150 + row * len(labels)) + _LINE_HEIGHT * max(0, len(plot.data) - 4),
        hovermode="closest",
    )
    plot.update_yaxes(autorange="reversed", title=None, showgrid=False, type="category")
    plot.update_yaxes(tickmode="array", tickvals=names, ticktext=shown)
    return plot


def plot_text(name: str) -> str:
    """Return a name for plotly, which would read some of it as markup."""
    return escape(name, quote=False)


def _lines(name: str, width: int) -> str:
    """Return a name for plotly on as many lines as it needs."""
    return "<br>".join(plot_text(line) for line in broken(name, width))


def byte_unit(most: float) -> tuple[float, str]:
    """Return how many bytes the unit of a figure has, and the unit."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if most >= size:
            return size, unit
    return 1.0, "B"


def second_unit(longest: float) -> tuple[float, str]:
    """Return how many seconds the unit of a figure has, and the unit."""
    for size, unit in ((7200, "h"), (300, "min"), (1, "s")):
        if longest >= size:
            return {7200: 3600.0, 300: 60.0, 1: 1.0}[size], unit
    return 1e-3, "ms"


def make_room(plot: go.Figure) -> None:
    """Make the figure higher by what a long legend takes on a narrow screen."""
    lines = sum(trace.name.count("<br>") + 1 for trace in plot.data)
    plot.update_layout(height=330 + _LINE_HEIGHT * max(0, lines - 3))


def at_least(plot: go.Figure, values: Sequence[float], span: float) -> None:
    """Show so much of the axis that chance does not look like a difference."""
    low, high = min(values), max(values)
    size = abs(high) or 1.0
    if high - low < span * size:
        middle, half = (low + high) / 2, 0.6 * span * size
        plot.update_yaxes(range=[middle - half, middle + half])


def add_point(plot: go.Figure, name: str, x: float, y: float, index: int, hover: str) -> None:
    """Draw one point, with a name of its own."""
    plot.add_trace(
        go.Scatter(
            x=[x],
            y=[y],
            name=_lines(name, _LEGEND_WIDTH),
            mode="markers",
            marker={
                "size": 12,
                "color": colour(index),
                "symbol": _SYMBOLS[turn(index) % len(_SYMBOLS)],
            },
            hovertemplate=hover + ", %{y:.4f}<extra>%{fullData.name}</extra>",
        )
    )


def room_for_points(plot: go.Figure) -> None:
    """Make room for points, and for the names of as many."""
    make_room(plot)
    at_least(plot, [trace.y[0] for trace in plot.data if trace.y[0] is not None], 0.02)
