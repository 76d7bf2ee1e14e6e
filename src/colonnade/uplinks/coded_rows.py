"""Which coded row stands for which rows of the table.

K consecutive rows of a set are one coded row of it, the first in the first segment and so on; the
last coded row of a set may stand for fewer, and zeros fill it up. So rows that stand together in a
set, as pieces of what is evaluated do, take few coded rows more than they have to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LocalProtocolError
from colonnade.links import Rows

__all__ = ["CodedRows", "Places"]


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows are found: row i in coded row ``coded[at[i]]``, in segment ``segment[i]``.

    Parameters
    ----------
    coded
        The coded rows that are needed, in ascending order.
    at, segment
        For each row.
    row_set
        The set that the rows are of.
    """

    coded: Rows
    at: Rows
    segment: Rows
    row_set: int


class CodedRows:
    """The coded rows of sets of rows, those of one set after those of another.

    Parameters
    ----------
    row_sets
        Row numbers; a row that is in two sets is found in the first.
    segments
        K.

    Examples
    --------
    >>> coded = CodedRows([np.arange(5), np.array([9, 7])], segments=2)
    >>> coded.count
    4
    >>> places = coded.of(np.array([7, 9]))
    >>> places.coded, places.at, places.segment
    (array([3]), array([0, 0]), array([1, 0]))
    """

    def __init__(self, row_sets: Sequence[Rows], segments: int) -> None:
        self._segments = segments
        self.row_sets = tuple(rows for rows in row_sets if len(rows))
        self._firsts = np.cumsum([0, *(-(-len(rows) // segments) for rows in self.row_sets)])
        most = max((int(rows.max()) for rows in self.row_sets), default=-1)
        self._set = np.full(most + 1, -1, dtype=np.int64)
        self._place = np.zeros(most + 1, dtype=np.int64)
        for number, rows in reversed([*enumerate(self.row_sets)]):
            self._set[rows] = number
            self._place[rows] = np.arange(len(rows))

    @property
    def count(self) -> int:
        """How many coded rows there are."""
        return int(self._firsts[-1])

    def of(self, rows: Rows) -> Places:
        """Return where rows are found.

        Raises
        ------
        LocalProtocolError
            If they are of several sets, or of none.
        """
        known = len(rows) > 0 and 0 <= rows.min() <= rows.max() < len(self._set)
        row_set = self._set[rows] if known else np.array([-1])
        if row_set.min() < 0 or row_set.min() != row_set.max():
            raise LocalProtocolError(
                "rows travel coded that are of several sets, or were not shared when training began"
            )
        place = self._place[rows]
        coded, at = np.unique(self._firsts[row_set] + place // self._segments, return_inverse=True)
        return Places(coded, at, place % self._segments, int(row_set[0]))

    def segmented(self, values: NDArray[np.int64], row_set: int) -> NDArray[np.int64]:
        """Return the values of a set's rows by segment, ``[K, coded rows, P]`` of ``[rows, P]``."""
        rows, columns = values.shape
        coded = int(self._firsts[row_set + 1] - self._firsts[row_set])
        padded = np.zeros((coded * self._segments, columns), dtype=np.int64)
        padded[:rows] = values
        return padded.reshape(coded, self._segments, columns).transpose(1, 0, 2)
