"""Wait: a round takes as long as its slowest party."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.effects import Expect
from colonnade.layout import Layout
from colonnade.stragglers.absent import LeftOut
from colonnade.stragglers.policy import Absences

__all__ = ["Wait"]


@dataclass(frozen=True)
class Wait:
    """Every round waits for every party, so nobody is ever missing.

    Examples
    --------
    >>> Wait().drops
    False
    """

    @property
    def drops(self) -> bool:
        """Nothing is lost."""
        return False

    @property
    def leaves_out(self) -> bool:
        """Nobody is."""
        return False

    def expect(self, everything: Expect) -> Expect:
        """Return ``everything``."""
        return everything

    def absences(self, layout: Layout) -> Absences:
        """Return what fuses just what came, which is everything."""
        return LeftOut()

    def bytes_remembered(self, layout: Layout) -> int:
        """Return that nothing is kept."""
        return 0
