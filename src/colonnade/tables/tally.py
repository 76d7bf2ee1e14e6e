"""What training did not show: unseen categories, columns without a value; counted, told once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.tables.notes import Note
from colonnade.tables.place import Place
from colonnade.tables.remedies import setting

__all__ = ["Tally"]


_FEW = 10  # rows, of which it says little that none has a value


class Tally:
    """How many values of each column did not occur in training, or are missing, and which first.

    >>> tally = Tally()
    >>> tally.add("town", pl.Series(["Rome", "Bern"]), np.array([0, -1]), "row {}".format)
    >>> print(*tally.unseen(2))
    column 'town': 1 of 2 values (50 %) did not occur among the training rows, such as 'Bern' in \
row 1, and count as none of its categories; to refuse them say TableTransformer(unseen="error") in \
transformers (YAML: features: {unseen: "error"})
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, str] = {}
        self._absent: dict[str, int] = {}

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

    def filled(self, name: str, count: int) -> None:
        """Count missing numbers, in whose place the median stands."""
        self._absent[name] = self._absent.get(name, 0) + count

    def wholly_filled(self, rows: int) -> Iterator[str]:
        """Yield a sentence for each column of numbers that has no value in any of many rows.

        >>> tally = Tally()
        >>> tally.filled("age", 500)
        >>> print(*tally.wholly_filled(500))
        column 'age' has no value in any of 500 rows, so the median of the training rows stands in \
each; look at the table, if it should have
        """
        for name, count in self._absent.items():
            if count == rows >= _FEW:
                yield (
                    f"column {name!r} has no value in any of {rows} rows, so the median of the "
                    "training rows stands in each; look at the table, if it should have"
                )

    def unseen(self, rows: int) -> Iterator[str]:
        """Yield a sentence for each column that has categories of no training row."""
        for name, count in self._counts.items():
            yield Note(
                f"column {name!r}: {count} of {rows} values ({100 * count / rows:.3g} %) did not "
                "occur among the training rows",
                f", such as {self._first[name]},",
                " and count as none of its categories; to refuse them say "
                f"{setting('unseen', 'error')}",
            )
