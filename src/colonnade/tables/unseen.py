"""Categories that no training row has: counted as rows are transformed, and told of once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.tables.place import Place

__all__ = ["Tally"]


class Tally:
    """How many values of each column did not occur in training, and the first of them.

    >>> tally = Tally()
    >>> tally.add("town", pl.Series(["Rome", "Bern"]), np.array([0, -1]), "row {}".format)
    >>> list(tally.notes(2))
    ["column 'town': 1 of 2 values (50 %) did not occur among the training rows, such as 'Bern' in \
row 1, and count as none of its categories; to refuse them say unseen='error'"]
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}

    def add(self, name: str, values: pl.Series, codes: NDArray[np.int64], place: Place) -> None:
        """Count the values whose code is negative."""
        count = int((codes < 0).sum())
        if not count:
            return
        self._counts[name] = self._counts.get(name, 0) + count
        if name not in self._first:
            row = int((codes < 0).argmax())
            value = values[row]
            shown = "a missing value" if value is None else repr(value)
            self._first[name] = f"{shown} in {place(row)}"

    def notes(self, rows: int) -> Iterator[str]:
        """Yield a sentence for each column that has such values, among ``rows`` rows."""
        for name, count in self._counts.items():
            yield (
                f"column {name!r}: {count} of {rows} values ({100 * count / rows:.3g} %) did not "
                f"occur among the training rows, such as {self._first[name]}, and count as none of "
                "its categories; to refuse them say unseen='error'"
            )
