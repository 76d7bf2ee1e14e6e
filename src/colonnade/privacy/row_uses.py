"""How often each row of a table was released, under which events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.errors import CheckpointError, LocalProtocolError
from colonnade.privacy.accountant import ORDERS, Epsilon, Spending, is_bounded
from colonnade.privacy.events import Event

__all__ = ["RowUses", "View"]

View = Callable[[Spending], Spending]
"""What was spent as somebody else sees it, or among other neighbours: use by use."""

_WIDTHS = (np.uint8, np.uint16, np.uint32, np.uint64)
_MOST_TRIED = 4


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

    def worst(self, rows: ArrayLike | None = None) -> Spending:
        """Return a spending that contains what was spent on each of these rows, or of all rows.

        It is that of the most spent row, exactly, if one was used most under every event; else the
        most uses of each event that any row had, which no row's epsilon exceeds: see ``epsilon``
        for a bound that is tight then, too.
        """
        events, counts = self._table(rows)
        most = counts.max(axis=1).tolist() if counts.size else [0] * len(events)
        return Spending(dict(zip(events, most, strict=True)))

    def largest(
        self, delta: float, rows: ArrayLike | None = None, view: View = lambda spent: spent
    ) -> tuple[Spending, Epsilon]:
        """Return the spending of these rows, or of all, that discloses most, and its epsilon.

        Of several that nothing bounds it is the one of most uses.

        Rows are tried in the order of what Renyi divergences bound, and most need not be: whose
        bound is no larger than an epsilon that was found, and who was used no more than another
        under every event. The epsilon is that of a row then. If more than 4 rows come into
        question, what remains counts with its Renyi divergence, or with the most uses of each event
        that any row had, whichever is less: an upper bound.
        """
        events, counts = self._table(rows)
        if not counts.size:
            return Spending(), Spending().epsilon(delta)
        most = counts.max(axis=1, keepdims=True)
        alike = (counts == most).all(axis=0).any()
        columns = most if alike else np.unique(counts, axis=1)

        def seen(column: NDArray[Any]) -> Spending:
            return view(Spending(dict(zip(events, column.tolist(), strict=True))))

        bounds, orders = _bounds([view(Spending({event: 1})) for event in events], columns, delta)
        found: list[tuple[Spending, Epsilon]] = []
        for place in _dearest(columns, bounds):
            if found and bounds[place] <= max(each.value for _, each in found):
                break
            column = columns[:, place]
            if len(found) == _MOST_TRIED:
                left = Epsilon(delta, float(bounds[place]), float(orders[place]))
                found.append((seen(column), left))
                together, largest = seen(most[:, 0]), max(each.value for _, each in found)
                if (bound := together.epsilon(delta)).value <= largest:
                    return together, bound
                break
            found.append((seen(column), seen(column).epsilon(delta)))
        return max(found, key=lambda each: each[1].value)

    def spendings(self, delta: float) -> Iterator[Spending]:
        """Yield what was spent on rows, what Renyi divergences bound to be the most first.

        Rows that were used no more than another under every event are left out.
        """
        events, counts = self._table(None)
        if not counts.size:
            return
        columns = np.unique(counts, axis=1)
        bounds, _ = _bounds([Spending({event: 1}) for event in events], columns, delta)
        for place in _dearest(columns, bounds):
            yield Spending(dict(zip(events, columns[:, place].tolist(), strict=True)))

    def epsilon(self, delta: float, rows: ArrayLike | None = None) -> Epsilon:
        """Return the largest epsilon of these rows, or of all; see ``largest``."""
        return self.largest(delta, rows)[1]

    def bounded(self, delta: float) -> RowUses:
        """Return the uses of those rows alone of which something bounds what was disclosed."""
        open_ended = [
            counts for event, counts in self._counts.items() if not is_bounded(event, delta)
        ]
        kept = ~np.any([counts > 0 for counts in open_ended], axis=0)
        return self.of_rows(np.flatnonzero(kept)) if open_ended else self

    @property
    def events(self) -> tuple[Event, ...]:
        """What rows were used under, in the order in which each came first."""
        return tuple(self._counts)

    @classmethod
    def of(cls, spendings: Sequence[Spending]) -> Self:
        """Return a table in which there is a row for each of these."""
        uses = cls(len(spendings))
        for event in dict.fromkeys(event for spent in spendings for event, _ in spent):
            counts = [spent.uses.get(event, 0) for spent in spendings]
            uses._counts[event] = np.array(counts, dtype=np.uint64)
        return uses

    def of_rows(self, rows: ArrayLike) -> RowUses:
        """Return a table of these rows alone, which are its first, second and so on."""
        places = self._places(rows)
        some = RowUses(len(places))
        some._counts = {event: counts[places] for event, counts in self._counts.items()}
        return some

    def state_dict(self) -> dict[str, Any]:
        """Return the counts of each event, in the order of ``events``."""
        counts = [counts.copy() for counts in self._counts.values()]
        return {"rows": self.rows, "counts": counts}

    def load_state_dict(self, state: Mapping[str, Any], events: Sequence[Event]) -> None:
        """Take up what another table of uses had, of as many rows and under these events.

        Raises
        ------
        CheckpointError
            If it is of other rows.
        """
        if state["rows"] != self.rows:
            raise CheckpointError(
                f"saved uses are of {state['rows']} rows, but this table has {self.rows}: resume "
                "with the data that the run began with"
            )
        saved = [np.array(counts) for counts in state["counts"]]
        self._counts = dict(zip(events, saved, strict=True))

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


def _dearest(columns: NDArray[Any], bounds: NDArray[np.float64]) -> Iterator[int]:
    """Yield the places of columns of counts, the largest bound first, unless one contains them.

    Of several that nothing bounds, or that have the same bound, the one of most uses is first.
    """
    yielded: list[NDArray[Any]] = []
    for place in np.lexsort((-columns.sum(axis=0, dtype=np.float64), -bounds)).tolist():
        column = columns[:, place]
        if not any((column <= other).all() for other in yielded):
            yielded.append(column)
            yield place


def _bounds(
    once: Sequence[Spending], columns: NDArray[Any], delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a bound on the epsilon of each column of counts, and the order that gives it.

    It is that of ``Spending.epsilon_by_renyi`` for all columns at once, or slightly more.
    """
    orders = np.array([*ORDERS, inf])
    curves = np.array([each.renyi(orders) for each in once]).T
    known = np.isfinite(curves)
    totals = np.where(known, curves, 0.0) @ columns.astype(np.float64)
    totals[~known @ (columns > 0)] = inf
    if delta:
        finite = orders[:-1, np.newaxis]
        totals[:-1] += np.log1p(-1 / finite) - np.log(delta * finite) / (finite - 1)
    else:
        totals[:-1] = inf
    best = totals.argmin(axis=0)
    bounds = totals[best, np.arange(columns.shape[1])]
    return np.maximum(bounds, 0.0), np.where(np.isfinite(bounds), orders[best], inf)
