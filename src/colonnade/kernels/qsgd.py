"""Stochastic quantisation by levels of a norm.

The draws are 32 bits of a stream for each element, in order. Only the encoder rounds at random, so
only the decoder's arithmetic must agree everywhere: one product of float32.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.philox import fill_words

__all__ = ["dequantise", "norms", "quantise"]

_PIECE = 1024
_LARGEST = np.finfo(np.float32).max


@njit(cache=True, nogil=True)
def _norms(x, size, largest, result):  # type: ignore[no-untyped-def]  # numba infers the types
    for bucket in range(len(result)):
        total = 0.0
        for j in range(bucket * size, min(len(x), (bucket + 1) * size)):
            value = np.float64(abs(x[j]))
            total = max(total, value) if largest else total + value * value
        result[bucket] = total if largest else np.sqrt(total)


@njit(inline="always")
def _scale(norm, top):  # type: ignore[no-untyped-def]
    return top / np.float64(norm) if norm > 0 else 0.0


@njit(cache=True, nogil=True)
def _quantise(x, norms, size, levels, upper, key, codes):  # type: ignore[no-untyped-def]
    random = np.empty(_PIECE // 2, dtype=np.uint64)
    draws = random.view(np.uint32)
    top = np.float64(levels)
    bucket, left = 0, size
    scale = _scale(norms[0], top)
    for start in range(0, len(x), _PIECE):
        fill_words(random, start // 4, upper, key)
        stop = min(len(x), start + _PIECE)
        j = start
        while j < stop:
            if left == 0:
                bucket, left = bucket + 1, size
                scale = _scale(norms[bucket], top)
            run = min(left, stop - j)
            for i in range(j, j + run):
                # A zero has level 0 whatever is drawn, as a draw is below 1.
                chance = np.float64(draws[i - start]) * 2.0**-32
                level = min(np.floor(np.float64(abs(x[i])) * scale + chance), top)
                codes[i] = np.uint8(top - level if x[i] < 0 else top + level)
            j += run
            left -= run


@njit(cache=True, nogil=True)
def _dequantise(codes, units, size, levels, y):  # type: ignore[no-untyped-def]
    for bucket in range(len(units)):
        unit = units[bucket]
        for j in range(bucket * size, min(len(codes), (bucket + 1) * size)):
            y[j] = np.float32(np.int32(codes[j]) - levels) * unit


def norms(x: NDArray[np.float32], size: int, largest: bool) -> NDArray[np.float32]:
    """Return the L2 norm, or the largest magnitude, of each ``size`` elements; float32 at most.

    >>> norms(np.array([3.0, 4.0, -2.0], dtype=np.float32), 2, largest=False)
    array([5., 2.], dtype=float32)
    """
    result = np.empty(-(-len(x) // size), dtype=np.float64)
    _norms(x, size, largest, result)
    return np.minimum(result, _LARGEST).astype(np.float32)


def quantise(
    x: NDArray[np.float32],
    norms: NDArray[np.float32],
    size: int,
    levels: int,
    stream: tuple[int, int],
) -> NDArray[np.uint8]:
    """Return ``levels`` plus or minus the level of each element, rounded at random.

    >>> x, norm = np.array([1.0, -1.0, 0.0], dtype=np.float32), np.ones(1, dtype=np.float32)
    >>> quantise(x, norm, 3, levels=4, stream=(0, 0))
    array([8, 0, 4], dtype=uint8)
    """
    codes = np.empty(len(x), dtype=np.uint8)
    key, upper = stream
    _quantise(x, norms, size, levels, np.uint64(upper), np.uint64(key), codes)
    return codes


def dequantise(
    codes: NDArray[np.uint8], units: NDArray[np.float32], size: int, levels: int
) -> NDArray[np.float32]:
    """Return (code - levels) times the unit of its bucket.

    >>> units = np.array([0.5], dtype=np.float32)
    >>> dequantise(np.array([8, 0, 4], dtype=np.uint8), units, 3, levels=4)
    array([ 2., -2.,  0.], dtype=float32)
    """
    y = np.empty(len(codes), dtype=np.float32)
    _dequantise(codes, units, size, levels, y)
    return y
