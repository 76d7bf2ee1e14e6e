"""The best partition of sorted numbers into a few intervals, and the nearest of a few levels.

The square error of numbers that are all replaced by their intervals' means is the sum of their
squares less what the intervals *capture*, the sum of S^2 / n over intervals with sum S of n
numbers. Let F_k(i) be the most that k intervals of the first i numbers capture:

    F_1(i) = gain(0, i),    F_k(i) = max over j < i of F_(k-1)(j) + gain(j, i).

The best j decreases neither with i nor with k (Knuth, "Optimum binary search trees", 1971; Yao,
1980). So that of (k, i) lies between those of (k - 1, i) and (k, i + 1), which are found before: in
N^2 steps for all k together, and in fewer, as intervals become short.

Of ascending levels the nearest is found from the leading bits of a number: they leave few borders
between levels to compare it with.

Sums are taken in the order written, in double precision: every machine finds the same partition.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["first_of_different", "interval_means", "nearest"]

_PIECE = 1024
_CELL_BITS = 14  # leading bits of a number: sign, exponent and five more
_CELL_SHIFT, _CELL_ZERO = np.int32(32 - _CELL_BITS), 1 << _CELL_BITS - 1


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
        before, now, less, where = best[k - 1], best[k], came_from[k - 1], came_from[k]
        where[: k + 1] = k
        stride = widest
        while stride >= 1:
            for i in range(stride, groups + 1, 2 * stride):
                if i <= k:
                    continue
                first, last = max(k, where[i - stride], less[i]), i - 1
                if i + stride <= groups:
                    last = min(last, where[i + stride])
                most, at = -np.inf, first
                for j in range(first, last + 1):
                    captured = before[j] + (sums[i] - sums[j]) ** 2 / (counts[i] - counts[j])
                    if captured > most:
                        most, at = captured, j
                now[i], where[i] = most, at
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


@njit(inline="always")
def _in_order(pattern):  # type: ignore[no-untyped-def]
    # Patterns of negative numbers run backwards: flipping their magnitude puts them in order.
    return np.int32(pattern ^ ((pattern >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(cache=True, nogil=True)
def _count_below(patterns, borders, codes):  # type: ignore[no-untyped-def]
    # less[c]: how many borders are in cells below c
    less = np.zeros((1 << _CELL_BITS) + 1, dtype=np.int32)
    keys = np.full(2 * len(borders) + 1, 0x7FFFFFFF, dtype=np.int32)
    for j in range(len(borders)):
        keys[j] = _in_order(borders[j])
        less[(keys[j] >> _CELL_SHIFT) + _CELL_ZERO + 1] += 1
    steps = 1
    while steps <= less.max():
        steps *= 2
    for cell in range(1, len(less)):
        less[cell] += less[cell - 1]
    own, below = np.empty(_PIECE, dtype=np.int32), np.empty(_PIECE, dtype=np.int32)
    beyond = np.empty(_PIECE, dtype=np.bool_)
    for start in range(0, len(patterns), _PIECE):
        part = patterns[start : start + _PIECE]
        for j in range(len(part)):
            own[j] = _in_order(part[j])
            below[j] = less[(own[j] >> _CELL_SHIFT) + _CELL_ZERO]
        step = np.int32(steps >> 1)
        while step > 0:
            # In two loops: in one, the compiler makes a branch of it that nobody could foresee.
            for j in range(len(part)):
                beyond[j] = own[j] > keys[below[j] + step - 1]
            for j in range(len(part)):
                below[j] += np.int32(np.int32(beyond[j]) * step)
            step >>= np.int32(1)
        for j in range(len(part)):
            codes[start + j] = below[j]


@njit(cache=True, nogil=True)
def _firsts(ordered, most):  # type: ignore[no-untyped-def]
    different, after = np.int64(1), ordered[1:]
    for j in range(len(after)):
        different += np.int64(after[j] != ordered[j])
    step = (different + most - 1) // most
    starts = np.zeros((different + step - 1) // step, dtype=np.int64)
    left, number = step, 1
    for j in range(len(after)):
        left -= np.int64(after[j] != ordered[j])
        if left == 0:
            starts[number] = j + 1
            left, number = step, number + 1
    return starts


def first_of_different(ordered: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """Return where up to ``most`` of the different numbers begin, each as many after the last.

    >>> first_of_different(np.array([0, 0, 1, 3, 3, 3, 4], np.float32), 2)
    array([0, 3])
    """
    starts: NDArray[np.int64] = _firsts(ordered, most)
    return starts


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
    # Adding zero makes -0 into 0, whose pattern is another one.
    _count_below(
        (x + np.float32(0)).view(np.int32), (borders + np.float32(0)).view(np.int32), codes
    )
    return codes
