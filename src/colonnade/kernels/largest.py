"""The k largest of many, and which they are, in the order in which they stand.

Magnitudes of float32 are ordered as their bit patterns without the sign are as integers. The k-th
largest pattern is found by counting: its upper 11 bits first, then the next 10, then the last 10, a
pass over the values each. One more pass writes down where the patterns above it are, and as many of
those equal to it as are still missing, the first ones. So indices come sorted, ties go to the lower
index, and nothing is compared twice.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["largest"]

_MAGNITUDE, _INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
_SHIFTS = np.array([20, 10, 0], dtype=np.uint32)


@njit(cache=True, nogil=True)
def _threshold(patterns, k):  # type: ignore[no-untyped-def]  # numba infers the types
    """Return the k-th largest magnitude, and how many equal to it are among the k largest."""
    prefix, missing = np.uint32(0), k
    counts = np.zeros(2048, dtype=np.int64)
    for step in range(3):
        shift = _SHIFTS[step]
        counts[:] = 0
        if step == 0:
            for j in range(len(patterns)):
                counts[(patterns[j] & _MAGNITUDE) >> shift] += 1
        else:
            above = _SHIFTS[step - 1]
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
def _gather(patterns, threshold, ties, indices):  # type: ignore[no-untyped-def]
    count = 0
    for j in range(len(patterns)):
        pattern = patterns[j] & _MAGNITUDE
        if pattern >= threshold:
            if pattern == threshold:
                if ties == 0:
                    continue
                ties -= 1
            indices[count] = j
            count += 1


@njit(cache=True, nogil=True)
def _highest(patterns):  # type: ignore[no-untyped-def]
    highest = np.uint32(0)
    for j in range(len(patterns)):
        highest = max(highest, patterns[j] & _MAGNITUDE)
    return highest


def largest(values: NDArray[np.float32], k: int) -> NDArray[np.int64] | None:
    """Return where the k largest magnitudes are, sorted; None if a value is not finite.

    >>> largest(np.array([3.0, -9.0, 0.5, 9.0, -4.0], dtype=np.float32), 3)
    array([1, 3, 4])
    """
    patterns = values.view(np.uint32)
    if len(patterns) and _highest(patterns) >= _INFINITY:
        return None
    indices = np.empty(k, dtype=np.int64)
    if k == len(values):
        indices[:] = np.arange(k)
    elif k:
        threshold, ties = _threshold(patterns, k)
        _gather(patterns, threshold, ties, indices)
    return indices
