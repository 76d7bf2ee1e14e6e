"""Counts who was missing, for the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["LATE", "MISSING", "Missing"]

# Each begins the name of a column, and the party's follows.
MISSING = "missing_"
LATE = "late_"  # where what is late is lost and yet nothing is missing


class Missing:
    """In how many rounds since the last report each party was missing.

    Parameters
    ----------
    parties
        Who may be missing; nobody, where every round waits for all.
    column
        How the names of columns begin.

    Examples
    --------
    >>> missing = Missing(["bank", "shop"])
    >>> missing.note(["shop"])
    >>> missing.report(), missing.report()
    ({'missing_bank': 1, 'missing_shop': 0}, {'missing_bank': 0, 'missing_shop': 0})
    """

    def __init__(self, parties: Sequence[str], column: str = MISSING) -> None:
        self._column = column
        self._rounds = dict.fromkeys(parties, 0)

    def note(self, present: Iterable[str]) -> None:
        """Count those who are not ``present`` in one round."""
        for party in self._rounds.keys() - set(present):
            self._rounds[party] += 1

    def report(self) -> Mapping[str, float]:
        """Return the counts, by party, and begin anew."""
        told = {f"{self._column}{party}": count for party, count in self._rounds.items()}
        self._rounds = dict.fromkeys(self._rounds, 0)
        return told

    def state_dict(self) -> dict[str, Any]:
        """Return what is to be reported."""
        return dict(self._rounds)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._rounds = dict(state)
