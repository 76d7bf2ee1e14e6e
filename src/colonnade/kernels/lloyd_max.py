"""The best partition of sorted numbers into a few intervals, and the nearest of a few levels.

The square error of numbers that are all replaced by their intervals' means is the sum of their
squares less what the intervals *capture*, the sum of S^2 / n over intervals with sum S of n
numbers. Let F_k(i) be the most that k intervals of the first i numbers capture:

    F_1(i) = gain(0, i),    F_k(i) = max over j < i of F_(k-1)(j) + gain(j, i).

The best j never decreases with i, so the middle i is solved first and bounds j for those on either
side: N log N steps an interval (Wu, "Optimal quantization by matrix searching", 1991).

Sums are taken in the order written, in double precision: every machine finds the same partition.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["interval_means", "nearest"]

_PIECE = 1024


@njit(cache=True, nogil=True)
def _sum_up(ordered, starts, centre, sums):  # type: ignore[no-untyped-def]
    # sums[g]: of all numbers before group g, less ``centre`` so that differences do not cancel
    total = 0.0
    for group in range(len(starts) - 1):
        for j in range(starts[group], starts[group + 1]):
            total += np.float64(ordered[j]) - centre
        sums[group + 1] = total


@njit(cache=True, nogil=True)
def _partition(counts, sums, intervals):  # type: ignore[no-untyped-def]
    """Return the groups at which intervals start, and the number of groups."""
    groups = len(counts) - 1
    best = np.full((intervals, groups + 1), -np.inf)
    came_from = np.zeros((intervals, groups + 1), dtype=np.int32)
    for i in range(1, groups + 1):
        best[0, i] = sums[i] ** 2 / counts[i]
    widest = 1
    while widest <= groups:
        widest *= 2
    for k in range(1, intervals):
        came_from[k, : k + 1] = k
        stride = widest
        while stride >= 1:
            for i in range(stride, groups + 1, 2 * stride):
                if i <= k:
                    continue
                first = max(k, came_from[k, i - stride])
                last = i - 1
                if i + stride <= groups:
                    last = min(last, came_from[k, i + stride])
                for j in range(first, last + 1):
                    gain = (sums[i] - sums[j]) ** 2 / (counts[i] - counts[j])
                    if best[k - 1, j] + gain > best[k, i]:
                        best[k, i], came_from[k, i] = best[k - 1, j] + gain, j
            stride //= 2
    chosen = np.zeros(intervals + 1, dtype=np.int64)
    chosen[intervals] = groups
    for k in range(intervals - 1, 0, -1):
        chosen[k] = came_from[k, chosen[k + 1]]
    return chosen


@njit(cache=True, nogil=True)
def _means(ordered, starts, means):  # type: ignore[no-untyped-def]
    # From an interval's first number, so that numbers that are all equal have that very mean.
    for interval in range(len(means)):
        start, stop = starts[interval], starts[interval + 1]
        first, total = np.float64(ordered[start]), 0.0
        for j in range(start, stop):
            total += np.float64(ordered[j]) - first
        means[interval] = first + total / (stop - start)


@njit(cache=True, nogil=True)
def _count_below(x, borders, codes):  # type: ignore[no-untyped-def]
    # Comparing with every border vectorises, which beats a binary search even of 255.
    below = np.empty(_PIECE, dtype=np.int32)
    for start in range(0, len(x), _PIECE):
        values = x[start : start + _PIECE]
        below[:] = 0
        for border in borders:
            for j in range(len(values)):
                below[j] += np.int32(values[j] > border)
        for j in range(len(values)):
            codes[start + j] = below[j]


def interval_means(
    ordered: NDArray[np.float32], starts: NDArray[np.int64], intervals: int
) -> NDArray[np.float64]:
    """Return the means of the best ``intervals`` intervals, or fewer if there are fewer groups.

    Intervals begin where groups of the ``ordered`` numbers do, the first of which starts at 0.

    >>> interval_means(np.array([0, 1, 8, 9, 9.5], np.float32), np.array([0, 1, 2, 3, 4]), 2)
    array([0.5       , 8.83333333])
    """
    starts = np.append(starts, len(ordered))
    sums = np.zeros(len(starts))
    _sum_up(ordered, starts, float(ordered[len(ordered) // 2]), sums)
    chosen = _partition(starts, sums, min(intervals, len(starts) - 1))
    means = np.empty(len(chosen) - 1)
    _means(ordered, starts[chosen], means)
    return means


def nearest(x: NDArray[np.float32], levels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the number of the nearest of 2^b ascending ``levels``; at a tie the lower one.

    >>> nearest(np.array([-1, 0.5, 0.6, 7], np.float32), np.array([0, 1, 2, 3], np.float32))
    array([0, 0, 1, 3], dtype=uint8)
    """
    wide = levels.astype(np.float64)
    midway = (wide[1:] + wide[:-1]) / 2
    borders = midway.astype(np.float32)  # rounded down, they part the same float32
    above = borders > midway
    borders[above] = np.nextafter(borders[above], np.float32(-np.inf))
    codes = np.empty(len(x), dtype=np.uint8)
    _count_below(x, borders, codes)
    return codes
