"""An empty picture to draw into."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["canvas"]


def canvas(width: float, height: float) -> Figure:
    """Return an empty picture of some inches, of 120 points each.

    It is a figure of our own rather than pyplot's: no global state, no window system. To import
    matplotlib takes a second, which a process that draws nothing need not wait for.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
