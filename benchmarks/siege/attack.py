"""What an attack is, and what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Attack", "Found"]


@dataclass
class Found:
    """What came of the trials of an attack.

    Parameters
    ----------
    tried
        How many trials there were.
    held
        In how many the library did what it promises: how, and how often.
    broke
        What it did in the others, a sentence each.
    """

    tried: int = 0
    held: Counter[str] = field(default_factory=Counter)
    broke: list[str] = field(default_factory=list)

    def hold(self, how: str) -> None:
        """Count a trial in which a promise was kept."""
        self.tried += 1
        self.held[how] += 1

    def fail(self, what: str) -> None:
        """Count a trial in which one was broken."""
        self.tried += 1
        self.broke.append(what)

    def add(self, other: Found) -> None:
        """Add what other trials of the same attack found."""
        self.tried += other.tried
        self.held.update(other.held)
        self.broke += other.broke


@dataclass(frozen=True)
class Attack:
    """An attack, and how often the full siege tries it.

    Parameters
    ----------
    name
        What the table calls it.
    promise
        What is promised against it, in words.
    trials
        How many make the full siege.
    run
        Tries it so often, drawing from a seed.
    """

    name: str
    promise: str
    trials: int
    run: Callable[[int, int], Found]
