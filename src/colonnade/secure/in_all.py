"""Which values all of several tables hold, without looking at anything but which are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["VALUE_BYTES", "InAll", "in_all"]

VALUE_BYTES = 16
"""What is compared of a point: different ones are alike in it with a chance of 2^-128 a pair."""


class InAll(NamedTuple):
    """What is found of several tables of values.

    Parameters
    ----------
    shared
        For each table, which of its values are in all: bool, one for each value.
    absent
        For each table, how many values of the last one it lacks.
    twice
        The first table that holds a value twice; None where none does. Nothing else is told then.
    """

    shared: tuple[NDArray[np.bool_], ...]
    absent: tuple[int, ...]
    twice: int | None = None


def in_all(tables: Sequence[NDArray[np.uint8]]) -> InAll:
    """Return which values of each table are in all of them.

    Parameters
    ----------
    tables
        Arrays of bytes, shape ``[values, VALUE_BYTES]``.

    Examples
    --------
    >>> one, other = (np.array([[n] * 16 for n in held], np.uint8) for held in ([7, 8, 9], [9, 7]))
    >>> found = in_all([one, other])
    >>> found.shared[0], found.shared[1], found.absent
    (array([ True, False,  True]), array([ True,  True]), (0, 0))
    """
    sizes = [len(table) for table in tables]
    words = np.concatenate(tables).view(np.uint64)
    owners = np.repeat(np.arange(len(tables), dtype=np.int32), sizes)
    order = np.lexsort((words[:, 1], words[:, 0]))  # stable: of equal values the first owner first
    words, owners = words[order], owners[order]
    again = np.zeros(len(words), dtype=bool)
    again[1:] = (words[1:] == words[:-1]).all(axis=1)
    repeated = again[1:] & (owners[1:] == owners[:-1])
    if repeated.any():
        return InAll((), (), int(owners[1:][repeated].min()))
    value = np.cumsum(~again) - 1  # which of the different values each one is
    holders = np.bincount(value)
    shared = np.empty(len(words), dtype=bool)
    shared[order] = holders[value] == len(tables)
    last = np.zeros(len(holders), dtype=bool)
    last[value[owners == len(tables) - 1]] = True
    absent = tuple(
        sizes[-1] - int(last[value[owners == table]].sum()) for table in range(len(tables))
    )
    return InAll(tuple(np.split(shared, np.cumsum(sizes)[:-1])), absent)
