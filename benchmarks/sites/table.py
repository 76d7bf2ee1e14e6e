"""What was tried, a row each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Row"]


@dataclass(frozen=True)
class Row:
    """Something that was tried.

    Parameters
    ----------
    tried, happened
        What, and what came of it.
    held
        Whether that is what is promised.
    seconds
        How long it took.
    """

    tried: str
    happened: str
    held: bool
    seconds: float

    def __str__(self) -> str:
        mark = "held" if self.held else "BROKE"
        return f"{self.tried:44} {mark:6} {self.seconds:5.0f} s  {self.happened}"
