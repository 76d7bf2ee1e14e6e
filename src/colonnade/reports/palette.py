"""Colours that all pictures share, told apart also by those who do not see all of them."""

from __future__ import annotations

__all__ = ["GRID", "HELD_BACK", "INK", "WAITING", "colour", "turn"]

# After Okabe and Ito, "Color universal design", 2008; darkened where thin lines would pale.
_COLOURS = (
    *("#0b62a4", "#d55e00", "#1b8a5a", "#a4508b", "#b58900"),
    *("#3aa0d1", "#5b6770", "#7a3b12", "#e08bb4", "#8fbf3f"),
)

INK = "#22292f"
GRID = "#e3e6ea"
WAITING = "#d3d8de"
HELD_BACK = "#9aa4ae"


def colour(index: int) -> str:
    """Return the colour of the ``index``-th of some things.

    >>> colour(0), colour(10) == colour(0)
    ('#0b62a4', True)
    """
    return _COLOURS[index % len(_COLOURS)]


def turn(index: int) -> int:
    """Return how often the colours were used up before the ``index``-th of some things.

    >>> turn(9), turn(10), turn(25)
    (0, 1, 2)
    """
    return index // len(_COLOURS)
