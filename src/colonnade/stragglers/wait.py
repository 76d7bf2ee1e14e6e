"""Wait: a round takes as long as its slowest party."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from colonnade.effects import Expect
from colonnade.layout import Layout
from colonnade.links import Rows
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
        return _Nobody()


class _Nobody:
    def filled(self, arrived: Mapping[str, Tensor], rows: Rows) -> dict[str, Tensor]:
        return dict(arrived)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass
