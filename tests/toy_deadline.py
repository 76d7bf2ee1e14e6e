"""Straggler policies somebody else might write: late embeddings are left out, or stood in for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from colonnade.effects import Since


@dataclass(frozen=True)
class Deadline:
    """Whoever is later than so many seconds after the first is left out."""

    seconds: float
    drops = True
    leaves_out = True

    def expect(self, everything):
        return everything._replace(within=self.seconds, since=Since.FIRST_ARRIVAL)

    def absences(self, layout):
        return LeftOut()


@dataclass(frozen=True)
class Fastest:
    """The first so many make a round; whoever comes later is left out."""

    count: int
    drops = True
    leaves_out = True

    def expect(self, everything):
        return everything._replace(quorum=min(self.count, len(everything.sources)))

    def absences(self, layout):
        return LeftOut()


class LeftOut:
    def filled(self, arrived, rows):
        return dict(arrived)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@dataclass(frozen=True)
class Stale(Deadline):
    """The last embedding of a row stands in for one that is late; zeros for one never seen."""

    leaves_out = False

    def absences(self, layout):
        return LastSeen(layout)


class LastSeen:
    def __init__(self, layout):
        self.tables = {
            party: torch.zeros(layout.rows, width) for party, width in layout.party_widths.items()
        }

    def filled(self, arrived, rows):
        index = torch.from_numpy(rows)
        for party, embedding in arrived.items():
            self.tables[party][index] = embedding
        return {party: table[index] for party, table in self.tables.items()}

    def state_dict(self):
        return {"tables": self.tables}

    def load_state_dict(self, state):
        self.tables = dict(state["tables"])
