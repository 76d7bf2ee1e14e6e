"""What is done about an embedding that has not come: nothing, or the last one stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import ConfigurationError
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.stragglers.policy import Absences

__all__ = ["Absent", "Dropping", "LeftOut"]

Absent: TypeAlias = Literal["left_out", "stale"]
"""``"left_out"``: embeddings that came are fused and no other. ``"stale"``: the last embedding of a
row that came of a party stands for one that is late."""


class Dropping:
    """What policies share that wait for some and lose what comes later; each says for whom."""

    absent: Absent

    def check_absent(self) -> None:
        """Raise ``ConfigurationError`` if ``absent`` is neither."""
        if self.absent not in get_args(Absent):
            ways = " or ".join(map(repr, get_args(Absent)))
            raise ConfigurationError(f"absent is {self.absent!r}, but who is late is {ways}")

    @property
    def drops(self) -> bool:
        """What comes later is lost."""
        return True

    @property
    def leaves_out(self) -> bool:
        """Whether nothing stands for it."""
        return self.absent == "left_out"

    def absences(self, layout: Layout) -> Absences:
        """Return what does as ``absent`` says."""
        return _LastSeen(layout) if self.absent == "stale" else LeftOut()

    def bytes_remembered(self, layout: Layout) -> int:
        """Return the bytes of the last embeddings of all rows, where these stand for others.

        >>> from colonnade.stragglers import Deadline
        >>> layout = Layout(("bank",), "registry", {"bank": 16}, 100, seed=0)
        >>> Deadline(1.0).bytes_remembered(layout), Deadline(1.0, "stale").bytes_remembered(layout)
        (0, 6500)
        """
        if self.absent != "stale":
            return 0
        return layout.rows * (4 * sum(layout.party_widths.values()) + len(layout.parties))


class LeftOut:
    """Fuses what came."""

    def filled(self, arrived: Mapping[str, Tensor], rows: Rows) -> dict[str, Tensor]:
        """Return just these."""
        return dict(arrived)

    def report(self) -> Mapping[str, float]:
        """Return nothing: who is missing is told where it is noted."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing."""


class _LastSeen:
    """Keeps every row's last embedding of every party: 4 bytes a component, and one a row."""

    def __init__(self, layout: Layout) -> None:
        self._tables = {
            party: torch.zeros(layout.rows, width) for party, width in layout.party_widths.items()
        }
        self._seen: dict[str, NDArray[np.bool_]] = {
            party: np.zeros(layout.rows, dtype=np.bool_) for party in layout.parties
        }
        self._stale = self._unseen = 0

    def filled(self, arrived: Mapping[str, Tensor], rows: Rows) -> dict[str, Tensor]:
        """Return everybody's; zeros, which are counted, for a row of which nothing ever came."""
        index = torch.from_numpy(rows)
        for party, table in self._tables.items():
            if party in arrived:
                table[index] = arrived[party]
                self._seen[party][rows] = True
            else:
                seen = int(self._seen[party][rows].sum())
                self._stale += seen
                self._unseen += len(rows) - seen
        return {party: table[index] for party, table in self._tables.items()}

    def report(self) -> Mapping[str, float]:
        """Return how many embeddings of a row stood for others since the last report, or zeros."""
        told = {"stale_embeddings": self._stale, "embeddings_never_seen": self._unseen}
        self._stale = self._unseen = 0
        return told

    def state_dict(self) -> dict[str, Any]:
        """Return all that was seen, and what is to be reported."""
        return {
            "tables": self._tables,
            "seen": self._seen,
            "counts": [self._stale, self._unseen],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._tables = {party: table.clone() for party, table in state["tables"].items()}
        self._seen = {party: np.array(seen) for party, seen in state["seen"].items()}
        self._stale, self._unseen = state["counts"]
