"""Stochastic quantisation by levels of a norm.

The draws are 32 bits of a stream for each element, in order. Only the encoder rounds at random, so
only the decoder's arithmetic must agree everywhere: one product of float32.

Values go through loops that vectorise in pieces of 1024, like those in ``scalar.py``. Squares are
added up one after another, in double precision, of four buckets at once: each addition waits for
the one before it, and would keep the processor idle.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.packing import squeezed
from colonnade.kernels.philox import fill_words
from colonnade.kernels.unaligned import store_word

__all__ = ["dequantise", "largest_unit", "norms", "quantise"]

_PIECE = 1024
_LARGEST = np.finfo(np.float32).max
_MAGNITUDE, _SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x80000000)


@njit(inline="always")
def _square(x):  # type: ignore[no-untyped-def]  # numba infers the types
    return np.float64(x) * np.float64(x)


@njit(cache=True, nogil=True)
def _lengths(x, size, result):  # type: ignore[no-untyped-def]
    bucket, whole = 0, len(x) // size
    while bucket + 4 <= whole:
        four = x[bucket * size : (bucket + 4) * size]
        a, b, c, d = four[:size], four[size:], four[2 * size :], four[3 * size :]
        of_a = of_b = of_c = of_d = 0.0
        for j in range(size):
            of_a, of_b = of_a + _square(a[j]), of_b + _square(b[j])
            of_c, of_d = of_c + _square(c[j]), of_d + _square(d[j])
        result[bucket], result[bucket + 1] = np.sqrt(of_a), np.sqrt(of_b)
        result[bucket + 2], result[bucket + 3] = np.sqrt(of_c), np.sqrt(of_d)
        bucket += 4
    for last in range(bucket, len(result)):
        total = 0.0
        for value in x[last * size : (last + 1) * size]:
            total += _square(value)
        result[last] = np.sqrt(total)


@njit(cache=True, nogil=True)
def _magnitudes(patterns, size, result):  # type: ignore[no-untyped-def]
    # Patterns without their sign are in the order of the magnitudes, nan beyond infinity.
    for bucket in range(len(result)):
        largest = np.uint32(0)
        part = patterns[bucket * size : (bucket + 1) * size]
        for j in range(len(part)):
            largest = max(largest, np.uint32(part[j] & _MAGNITUDE))
        result[bucket] = largest


@njit(cache=True, nogil=True)
def _quantise(x, norms, size, levels, bits, upper, key, body):  # type: ignore[no-untyped-def]
    # ``body`` has eight bytes more than it needs: words are written whole, and overlap.
    codes = np.empty(_PIECE, dtype=np.uint8)
    words = codes.view(np.uint64)
    random = np.empty(_PIECE // 2, dtype=np.uint64)
    draws = random.view(np.uint32)
    top, zero = np.float64(levels), np.int32(levels)
    bucket, left, scale = -1, 0, 0.0
    for piece in range((len(x) + _PIECE - 1) // _PIECE):
        start = piece * _PIECE
        count = min(_PIECE, len(x) - start)
        fill_words(random, piece * (_PIECE // 4), upper, key)
        done = 0
        while done < count:
            if left == 0:
                bucket, left = bucket + 1, size
                scale = top / np.float64(norms[bucket]) if norms[bucket] > 0 else 0.0
            run = min(left, count - done)
            values = x[start + done : start + done + run]
            drawn, written = draws[done : done + run], codes[done : done + run]
            for i in range(len(values)):
                # A zero has level 0 whatever is drawn, as a chance is below 1. Signed integers are
                # what processors make float64 of.
                chance = np.float64(np.int32(drawn[i] ^ _SIGN)) * 2.0**-32 + 0.5
                level = np.int32(min(np.float64(abs(values[i])) * scale + chance, top))
                written[i] = np.uint8(
                    np.int32(zero - level) if values[i] < 0 else np.int32(zero + level)
                )
            done += run
            left -= run
        codes[count:] = 0
        for j in range((count + 7) // 8):
            store_word(body, (piece * (_PIECE // 8) + j) * bits, squeezed(words[j], bits))


@njit(cache=True, nogil=True)
def _dequantise(codes, units, size, levels, y):  # type: ignore[no-untyped-def]
    for bucket in range(len(units)):
        unit = units[bucket]
        for j in range(bucket * size, min(len(codes), (bucket + 1) * size)):
            y[j] = np.float32(np.int32(codes[j]) - levels) * unit


def norms(x: NDArray[np.float32], size: int, largest: bool) -> NDArray[np.float32]:
    """Return the L2 norm, or the largest magnitude, of each ``size`` elements; float32 at most.

    Where an element is not finite, its norm is not.

    >>> norms(np.array([3.0, 4.0, -2.0], dtype=np.float32), 2, largest=False)
    array([5., 2.], dtype=float32)
    """
    buckets = -(-len(x) // size)
    if largest:
        magnitudes = np.empty(buckets, dtype=np.float32)
        _magnitudes(x.view(np.uint32), size, magnitudes.view(np.uint32))
        return magnitudes
    lengths = np.empty(buckets, dtype=np.float64)
    _lengths(x, size, lengths)
    return np.where(lengths < np.inf, np.minimum(lengths, _LARGEST), lengths).astype(np.float32)


def largest_unit(levels: int) -> np.float32:
    """Return the largest float32 of which ``levels`` times is finite.

    >>> np.isfinite([np.float32(127) * largest_unit(127), np.float32(128) * largest_unit(128)])
    array([ True,  True])
    """
    exact = np.float64(_LARGEST) / levels
    unit = np.float32(exact)
    return np.nextafter(unit, np.float32(0)) if unit > exact else unit


def quantise(
    x: NDArray[np.float32],
    norms: NDArray[np.float32],
    size: int,
    levels: int,
    bits: int,
    stream: tuple[int, int],
) -> bytes:
    """Return ``levels`` plus or minus the level of each element, rounded at random, in ``bits``.

    >>> x, norm = np.array([1.0, -1.0, 0.0], dtype=np.float32), np.ones(1, dtype=np.float32)
    >>> quantise(x, norm, 3, levels=4, bits=4, stream=(0, 0)).hex()  # 8, 0, 4
    '0804'
    """
    count = -(-len(x) * bits // 8)
    body = np.empty(count + 8, dtype=np.uint8)
    key, upper = stream
    _quantise(x, norms, size, levels, bits, np.uint64(upper), np.uint64(key), body)
    return body[:count].tobytes()


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
