"""How often each row of a table was released, under which events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.errors import CheckpointError, LocalProtocolError
from colonnade.privacy.accountant import Epsilon, Spending
from colonnade.privacy.binomial_sum import BinomialSum
from colonnade.privacy.events import Event, Unprotected
from colonnade.privacy.gaussian_noise import GaussianNoise

__all__ = ["RowUses"]

_EVENTS = {event.__name__: event for event in (BinomialSum, GaussianNoise, Unprotected)}
_WIDTHS = (np.uint8, np.uint16, np.uint32, np.uint64)
_MOST_FRONT = 16


class RowUses:
    """Counts uses of rows, a number for each event and row.

    Rows are used unequally often: the last batch of an epoch is left out or not, evaluations take
    some rows only, a round that was lost counts where its sum had been seen. A count takes a byte
    until one row was used more than 255 times, then two, and so on.

    Parameters
    ----------
    rows
        How many rows the table has.

    Examples
    --------
    >>> from colonnade.privacy import GaussianNoise
    >>> uses, event = RowUses(4), GaussianNoise(3.0)
    >>> uses.add(event, [0, 1])
    >>> uses.add(event, [1, 2])
    >>> uses.worst() == Spending({event: 2}), uses.worst([0, 3]) == Spending({event: 1})
    (True, True)
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._counts: dict[Event, NDArray[Any]] = {}

    def add(self, event: Event, rows: ArrayLike) -> None:
        """Enter one use of each of these rows; a row that is there twice was used twice.

        Raises
        ------
        LocalProtocolError
            If there is no such row.
        """
        places, times = np.unique(self._places(rows), return_counts=True)
        if not len(places):
            return
        counts = self._counts.setdefault(event, np.zeros(self.rows, dtype=np.uint8))
        most = int(counts[places].max()) + int(times.max())
        if most > np.iinfo(counts.dtype).max:
            width = next(w for w in _WIDTHS if most <= np.iinfo(w).max)
            counts = self._counts[event] = counts.astype(width)
        counts[places] += times.astype(counts.dtype)

    def spending(self, row: int) -> Spending:
        """Return what was spent on one row."""
        return Spending({event: int(counts[row]) for event, counts in self._counts.items()})

    def most_spent(self, rows: ArrayLike | None = None) -> tuple[Spending, ...]:
        """Return what was spent on the rows on which no other row's spending has as much of all.

        There is one where some row was used most under every event. Else it depends on delta which
        of them discloses most; every row's spending is contained in one of these.
        """
        events, counts = self._table(rows)
        if not counts.size:
            return (Spending(),)
        most = counts.max(axis=1)
        if (counts == most[:, None]).all(axis=0).any():
            return (Spending(dict(zip(events, most.tolist(), strict=True))),)
        columns = np.unique(counts, axis=1)
        columns = columns[:, np.argsort(-columns.astype(np.float64).sum(axis=0), kind="stable")]
        front: list[NDArray[Any]] = []
        for column in columns.T:  # whatever contains another has the larger sum, and came before it
            if not any((column <= other).all() for other in front):
                front.append(column)
        return tuple(Spending(dict(zip(events, found.tolist(), strict=True))) for found in front)

    def worst(self, rows: ArrayLike | None = None) -> Spending:
        """Return a spending that contains what was spent on each of these rows, or of all rows.

        It is that of the most spent row, exactly, if one was used most under every event; else the
        most uses of each event that any row had, which no row's epsilon exceeds: see ``epsilon``
        for a bound that is tight then, too.
        """
        events, counts = self._table(rows)
        most = counts.max(axis=1).tolist() if counts.size else [0] * len(events)
        return Spending(dict(zip(events, most, strict=True)))

    def epsilon(self, delta: float, rows: ArrayLike | None = None) -> Epsilon:
        """Return the largest epsilon of these rows, or of all.

        It is exact in the sense that some row has it, if at most 16 rows come into question; of
        more, that of ``worst``.
        """
        front = self.most_spent(rows)
        if len(front) > _MOST_FRONT:
            return self.worst(rows).epsilon(delta)
        return max((spent.epsilon(delta) for spent in front), key=lambda found: found.value)

    def state_dict(self) -> dict[str, Any]:
        """Return events, as names and fields, and the counts of each."""
        return {
            "rows": self.rows,
            "events": [_told(event) for event in self._counts],
            "counts": [counts.copy() for counts in self._counts.values()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what another table of uses had, of as many rows.

        Raises
        ------
        CheckpointError
            If it is of other rows, or has an event that is not known.
        """
        if state["rows"] != self.rows:
            raise CheckpointError(
                f"saved uses are of {state['rows']} rows, but this table has {self.rows}: resume "
                "with the data that the run began with"
            )
        counts: dict[Event, NDArray[Any]] = {}
        for told, saved in zip(state["events"], state["counts"], strict=True):
            made = _EVENTS.get(told["event"])
            if made is None:
                raise CheckpointError(
                    f"saved uses are of {told['event']}, which this version does not account for: "
                    "resume with the version that the run began with"
                )
            counts[made(**{name: told[name] for name in told if name != "event"})] = np.array(saved)
        self._counts = counts

    def _places(self, rows: ArrayLike) -> NDArray[np.int64]:
        places = np.asarray(rows)
        if not places.size:
            return np.zeros(0, dtype=np.int64)
        if places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= self.rows:
            raise LocalProtocolError(f"uses are counted of the rows 0 to {self.rows - 1} alone")
        return places.reshape(-1).astype(np.int64)

    def _table(self, rows: ArrayLike | None) -> tuple[list[Event], NDArray[Any]]:
        """Return events, and their counts as rows of a table."""
        events = list(self._counts)
        if rows is not None:
            places = self._places(rows)
            found = [counts[places] for counts in self._counts.values()]
        else:
            found = list(self._counts.values())
        return events, np.array(found) if found else np.zeros((0, 0), dtype=np.uint8)


def _told(event: Any) -> dict[str, Any]:
    """Return an event as its name and its fields."""
    told = {field.name: getattr(event, field.name) for field in fields(event)}
    return {"event": type(event).__name__, **told}
