"""Colours that all pictures share, told apart also by those who do not see all of them."""

from __future__ import annotations

__all__ = ["GRID", "INK", "WAITING", "colour"]

# After Okabe and Ito, "Color universal design", 2008; darkened where thin lines would pale.
_COLOURS = ("#0b62a4", "#d55e00", "#1b8a5a", "#a4508b", "#b58900", "#3aa0d1", "#5b6770")

INK = "#22292f"
GRID = "#e3e6ea"
WAITING = "#d3d8de"


def colour(index: int) -> str:
    """Return the colour of the ``index``-th of some things.

    >>> colour(0), colour(7) == colour(0)
    ('#0b62a4', True)
    """
    return _COLOURS[index % len(_COLOURS)]
