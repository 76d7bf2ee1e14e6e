"""Charts of measured curves, drawn once for pages and once as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from colonnade.faults import explained
from colonnade.outputs import PICTURE, SIGNATURE, check_output, replacing
from colonnade.paths import as_path
from colonnade.reports.canvas import canvas
from colonnade.reports.palette import GRID, colour
from colonnade.reports.plots import Figure, empty_plot, plot_text

__all__ = ["Chart", "Curve", "draw_charts"]


@dataclass(frozen=True)
class Curve:
    """Points that belong together.

    Parameters
    ----------
    name
        What the legend calls it.
    x, y
        The points, in order.
    spread
        The standard deviation of each y over repetitions; empty where there are none.
    dashed
        Whether it is somebody else's figure.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves on common axes, which name their quantity and unit.

    Parameters
    ----------
    key, title
        A name for files and elements, and what it shows.
    x, y
        What the axes show, with units.
    curves
        What is drawn; those of one name in two charts have one colour if they have one place.
    log_x, log_y
        Whether an axis is logarithmic.
    note
        What a reader should know besides.
    """

    key: str
    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    note: str = ""

    def figure(self) -> Figure:
        """Return it for a page."""
        plot = empty_plot(self.x, self.y)
        for index, curve in enumerate(self.curves):
            shade = colour(index)
            if len(curve.spread):
                _band(plot, curve, shade)
            plot.add_trace(
                go.Scatter(
                    x=list(curve.x),
                    y=list(curve.y),
                    name=plot_text(curve.name),
                    mode="lines+markers" if len(curve.x) <= 40 else "lines",
                    line={"color": shade, "width": 2, "dash": "dash" if curve.dashed else "solid"},
                    marker={"size": 6},
                    hovertemplate="%{y:.4g} at %{x:.4g}<extra>%{fullData.name}</extra>",
                )
            )
        if self.log_x:
            plot.update_xaxes(type="log", dtick=1)
        if self.log_y:
            plot.update_yaxes(type="log", dtick=1, exponentformat="e")
        return Figure(self.key, self.title, plot, self.note)


def _band(plot: go.Figure, curve: Curve, shade: str) -> None:
    """Shade one standard deviation to either side."""
    above = [y + s for y, s in zip(curve.y, curve.spread, strict=True)]
    below = [y - s for y, s in zip(curve.y, curve.spread, strict=True)]
    plot.add_trace(
        go.Scatter(
            x=[*curve.x, *reversed(curve.x)],
            y=[*above, *reversed(below)],
            fill="toself",
            fillcolor=shade,
            opacity=0.15,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
        )
    )


def draw_charts(charts: Sequence[Chart], path: str | Path, title: str = "") -> None:
    """Draw charts into one PNG file, two in a row.

    Raises
    ------
    ConfigurationError
        If there is a file that Colonnade did not write.
    """
    path = as_path("a picture is drawn to the path of a file", path)
    check_output(path, PICTURE)
    columns = min(2, len(charts))
    rows = math.ceil(len(charts) / columns)
    picture = canvas(5.6 * columns, 3.7 * rows + 0.4)
    axes: Any = picture.subplots(rows, columns, squeeze=False)
    for place, chart in enumerate(charts):
        ax = axes[place // columns][place % columns]
        for index, curve in enumerate(chart.curves):
            shade = colour(index)
            style = "--" if curve.dashed else "-"
            marker = "." if len(curve.x) <= 40 else ""
            ax.plot(curve.x, curve.y, style, marker=marker, color=shade, label=curve.name)
            if len(curve.spread):
                above = [y + s for y, s in zip(curve.y, curve.spread, strict=True)]
                below = [y - s for y, s in zip(curve.y, curve.spread, strict=True)]
                ax.fill_between(curve.x, below, above, color=shade, alpha=0.15, linewidth=0)
        ax.set(xlabel=chart.x, ylabel=chart.y, title=chart.title)
        ax.title.set_size(10)
        if chart.log_x:
            ax.set_xscale("log")
        if chart.log_y:
            ax.set_yscale("log")
        ax.grid(visible=True, color=GRID, linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=8)
    for place in range(len(charts), rows * columns):
        axes[place // columns][place % columns].set_visible(False)
    picture.suptitle(title, fontsize=12)
    with explained(path), replacing(path) as partial:
        picture.savefig(partial, format="png", metadata={"Comment": SIGNATURE})
