"""The newest embedding of every row of every party, for a label holder that waits for nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.effects import Expect
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.stragglers import Absences

__all__ = ["Anybody", "Store"]


class Store:
    """Keeps the newest embedding of each row: 4 bytes a component, and 4 a row for when it came.

    Parameters
    ----------
    layout
        Whose embeddings, how wide, of how many rows.

    Examples
    --------
    >>> store = Store(Layout(("bank", "shop"), "registry", {"bank": 1, "shop": 1}, 3, seed=0))
    >>> rows = np.array([0, 2])
    >>> _ = store.filled({"bank": torch.ones(2, 1), "shop": torch.ones(2, 1)}, rows)
    >>> store.round = 4
    >>> fused = store.filled({"bank": torch.full((2, 1), 5.0)}, rows)
    >>> fused["bank"].flatten().tolist(), fused["shop"].flatten().tolist()
    ([5.0, 5.0], [1.0, 1.0])
    >>> store.report()
    {'stale_rounds_mean': 4.0, 'stale_rounds_max': 4}
    """

    def __init__(self, layout: Layout) -> None:
        self.round = 0
        """The round that it is, by which it is told how old an embedding is."""
        self._tables = {
            party: torch.zeros(layout.rows, width) for party, width in layout.party_widths.items()
        }
        self._came = {party: np.zeros(layout.rows, np.int32) for party in layout.parties}
        self._ages = [0, 0, 0]  # of all that were used since the last report: sum, number, largest

    @staticmethod
    def bytes_for(layout: Layout) -> int:
        """Return what it keeps in memory.

        >>> Store.bytes_for(Layout(("bank",), "registry", {"bank": 16}, 100, seed=0))
        6800
        """
        return 4 * layout.rows * (sum(layout.party_widths.values()) + len(layout.parties))

    def filled(self, arrived: Mapping[str, Tensor], rows: Rows) -> dict[str, Tensor]:
        """Overwrite what arrived, and return the newest of everybody, in party order."""
        index = torch.from_numpy(rows)
        for party, table in self._tables.items():
            came = self._came[party]
            if party in arrived:
                table[index] = arrived[party]
                came[rows] = self.round
            else:
                ages = self.round - came[rows]
                total, count, most = self._ages
                self._ages = [
                    total + int(ages.sum()),
                    count + len(rows),
                    max(most, int(ages.max())),
                ]
        return self.newest(rows)

    def newest(self, rows: Rows) -> dict[str, Tensor]:
        """Return the newest embeddings of some rows, of everybody, in party order."""
        index = torch.from_numpy(rows)
        return {party: table[index] for party, table in self._tables.items()}

    def report(self) -> Mapping[str, float]:
        """Return how many rounds old were what stood beside fresh embeddings since the last time.

        The mean over rows and parties, and the largest; nothing where there is one party alone.
        """
        total, count, most = self._ages
        self._ages = [0, 0, 0]
        if len(self._tables) < 2:
            return {}
        return {"stale_rounds_mean": total / max(count, 1), "stale_rounds_max": most}

    def state_dict(self) -> dict[str, Any]:
        """Return all that is kept, and what is to be reported."""
        return {"tables": self._tables, "came": self._came, "ages": self._ages}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._tables = {party: table.clone() for party, table in state["tables"].items()}
        self._came = {party: np.array(came) for party, came in state["came"].items()}
        self._ages = list(state["ages"])


@dataclass(frozen=True, eq=False)
class Anybody:
    """The policy under which anybody's embedding suffices, and a store has the others'.

    It is nothing that a method is composed of: a round of another exchange asks for one batch of
    everybody's, and would never take what comes after the first.

    Parameters
    ----------
    store
        What it keeps.
    """

    store: Store

    @property
    def drops(self) -> bool:
        """Every message is taken, in order."""
        return False

    @property
    def leaves_out(self) -> bool:
        """Somebody's embedding is always there."""
        return False

    def expect(self, everything: Expect) -> Expect:
        """Return that one suffices."""
        return everything._replace(quorum=1)

    def absences(self, layout: Layout) -> Absences:
        """Return the store."""
        return self.store

    def bytes_remembered(self, layout: Layout) -> int:
        """Return what the store takes."""
        return Store.bytes_for(layout)
