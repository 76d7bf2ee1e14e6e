"""The k largest of many, and which they are, in the order in which they stand.

Magnitudes of float32 are ordered as their bit patterns without the sign are as integers. Counting
how many have each value of the upper 11 bits says from which such value on there are at least k;
those are written down, without a branch, and are usually few. Among them the k-th largest pattern
is found by counting again, by 11, 10 and 10 bits. All above it are taken, and as many of those
equal to it as are still missing, the first ones. So indices come sorted, ties go to the lower
index, and nothing is compared twice. Neighbours count into tables of their own, since most values
share few exponents and an addition would wait for the one before.

A row is short, and counting would cost more than the row: there a heap keeps the k largest so far,
the least of them on top, and most values are only compared with that.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["largest", "largest_in_rows"]

_MAGNITUDE, _INFINITE = np.uint32(0x7FFFFFFF), 0x7F8  # the upper bits of what is not finite
_SHIFTS = np.array([20, 10, 0], dtype=np.uint32)


@njit(cache=True, nogil=True)
def _count(patterns, counts):  # type: ignore[no-untyped-def]  # numba infers the types
    """Write into ``counts`` how many magnitudes have each value of the upper bits."""
    tables = np.zeros((4, len(counts)), dtype=np.int64)
    whole = len(patterns) // 4 * 4
    for j in range(0, whole, 4):
        tables[0, (patterns[j] & _MAGNITUDE) >> _SHIFTS[0]] += 1
        tables[1, (patterns[j + 1] & _MAGNITUDE) >> _SHIFTS[0]] += 1
        tables[2, (patterns[j + 2] & _MAGNITUDE) >> _SHIFTS[0]] += 1
        tables[3, (patterns[j + 3] & _MAGNITUDE) >> _SHIFTS[0]] += 1
    for j in range(whole, len(patterns)):
        tables[0, (patterns[j] & _MAGNITUDE) >> _SHIFTS[0]] += 1
    for j in range(len(counts)):
        counts[j] = tables[0, j] + tables[1, j] + tables[2, j] + tables[3, j]


@njit(cache=True, nogil=True)
def _at_least(patterns, bound, indices):  # type: ignore[no-untyped-def]
    """Write where magnitudes are at least ``bound``; ``indices`` has room for one more."""
    count = 0
    for j in range(len(patterns)):
        indices[count] = j
        count += (patterns[j] & _MAGNITUDE) >= bound


@njit(cache=True, nogil=True)
def _threshold(patterns, k):  # type: ignore[no-untyped-def]
    """Return the k-th largest magnitude, and how many equal to it are among the k largest."""
    prefix, missing = np.uint32(0), k
    counts = np.zeros(2048, dtype=np.int64)
    for step in range(3):
        shift = _SHIFTS[step]
        if step == 0:
            _count(patterns, counts)
        else:
            above = _SHIFTS[step - 1]
            counts[:] = 0
            for j in range(len(patterns)):
                pattern = patterns[j] & _MAGNITUDE
                if pattern >> above == prefix >> above:
                    counts[(pattern >> shift) & np.uint32(1023)] += 1
        digit = np.int64(2047 if step == 0 else 1023)
        while counts[digit] < missing:
            missing -= counts[digit]
            digit -= 1
        prefix |= np.uint32(digit) << shift
    return prefix, missing


@njit(cache=True, nogil=True)
def _gather(patterns, threshold, ties, places, indices):  # type: ignore[no-untyped-def]
    """Write the ``places`` of magnitudes above a threshold, and of the first ``ties`` equal."""
    count = 0
    for j in range(len(patterns)):
        pattern = patterns[j] & _MAGNITUDE
        if pattern >= threshold:
            if pattern == threshold:
                if ties == 0:
                    continue
                ties -= 1
            indices[count] = places[j]
            count += 1


def largest(values: NDArray[np.float32], k: int) -> NDArray[np.int64] | None:
    """Return where the k largest magnitudes are, sorted; None if a value is not finite.

    >>> largest(np.array([3.0, -9.0, 0.5, 9.0, -4.0], dtype=np.float32), 3)
    array([1, 3, 4])
    """
    patterns = values.view(np.uint32)
    counts = np.empty(2048, dtype=np.int64)
    _count(patterns, counts)
    if counts[_INFINITE:].any():
        return None
    if k == len(values):
        return np.arange(k)
    indices = np.empty(k, dtype=np.int64)
    if k:
        so_many = counts[::-1].cumsum()
        digit = int(np.searchsorted(so_many, k))
        places = np.empty(so_many[digit] + 1, dtype=np.int64)
        _at_least(patterns, np.uint32((2047 - digit) << 20), places)
        few = patterns[places[:-1]]
        threshold, ties = _threshold(few, k)
        _gather(few, threshold, ties, places, indices)
    return indices


@njit(inline="always")
def _sink(heap, k):  # type: ignore[no-untyped-def]
    """Let the top of a heap of k sink to its place."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= k:
            break
        if child + 1 < k and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= heap[i]:
            break
        heap[i], heap[child] = heap[child], heap[i]
        i = child


@njit(cache=True, nogil=True)
def _largest_in_rows(patterns, k, indices):  # type: ignore[no-untyped-def]
    rows, width = patterns.shape
    heap = np.empty(k, dtype=np.uint64)
    last = np.uint64(0xFFFFFFFF)
    for row in range(rows):
        for j in range(k):
            heap[j] = np.uint64(0)  # below every entry, as their lower halves are not 0
        for j in range(width):
            # Larger magnitudes are larger entries, and of equal ones the further ahead.
            magnitude = np.uint64(patterns[row, j] & _MAGNITUDE)
            entry = (magnitude << np.uint64(32)) | (last - np.uint64(j))
            if entry > heap[0]:
                heap[0] = entry
                _sink(heap, k)
        for j in range(k):
            indices[row, j] = np.int64(last - (heap[j] & last))
        indices[row].sort()


def largest_in_rows(values: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return in which columns the k largest magnitudes of each row are, sorted; all finite.

    >>> largest_in_rows(np.array([[3, -9, 0.5], [1, 1, 1]], dtype=np.float32), 2).tolist()
    [[0, 1], [0, 1]]
    """
    indices = np.empty((len(values), k), dtype=np.int64)
    _largest_in_rows(np.ascontiguousarray(values).view(np.uint32), k, indices)
    return indices
