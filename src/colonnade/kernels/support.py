"""Bit streams of a support: which k of n places are taken.

Golomb, "Run-length encodings", IEEE Trans. Inf. Theory 12(3), 1966; Rice, 1979. The gap g between
two places taken is written as its quotient by 2^r, that many ones and a zero, and its r lowest
bits. Gaps of a random support are geometric, for which this is within 3 % of the entropy. Bits fill
bytes from the lowest up.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["rice_decode", "rice_encode"]


@njit(cache=True, nogil=True)
def _rice_encode(gaps, low_bits, body):  # type: ignore[no-untyped-def]  # numba infers the types
    position = 0
    for gap in gaps:
        for _ in range(gap >> low_bits):
            body[position >> 3] |= np.uint8(1 << (position & 7))
            position += 1
        position += 1
        for j in range(low_bits):
            if (gap >> j) & 1:
                body[position >> 3] |= np.uint8(1 << (position & 7))
            position += 1


@njit(cache=True, nogil=True)
def _rice_decode(body, low_bits, count, places, indices):  # type: ignore[no-untyped-def]
    """Fill ``indices``; return the bits that were read, or -1 if this is no support."""
    position, last, bits = 0, -1, 8 * len(body)
    for i in range(count):
        gap = 0
        while True:
            if position >= bits:
                return -1
            taken = (body[position >> 3] >> (position & 7)) & 1
            position += 1
            if not taken:
                break
            gap += 1
        # What lies beyond all places cannot be one of them: this also keeps numbers small.
        if gap > places >> low_bits or position + low_bits > bits:
            return -1
        gap <<= low_bits
        for j in range(low_bits):
            gap |= np.int64((body[position >> 3] >> (position & 7)) & 1) << j
            position += 1
        last += gap + 1
        if last >= places:
            return -1
        indices[i] = last
    return position


def rice_encode(gaps: NDArray[np.int64], low_bits: int, bits: int) -> bytes:
    """Return the code of some gaps, which takes ``bits`` bits.

    >>> rice_encode(np.array([0, 5, 1]), low_bits=1, bits=8).hex()  # 0 0, 110 1, 0 1
    'ac'
    """
    body = np.zeros(-(-bits // 8), dtype=np.uint8)
    _rice_encode(gaps, low_bits, body)
    return body.tobytes()


def rice_decode(
    body: NDArray[np.uint8], low_bits: int, count: int, places: int
) -> tuple[NDArray[np.int64], int] | None:
    """Return ``count`` indices below ``places`` and the bits they took; None if there are none.

    >>> rice_decode(np.frombuffer(bytes.fromhex("ac"), np.uint8), 1, 3, places=10)
    (array([0, 6, 8]), 8)
    """
    indices = np.empty(count, dtype=np.int64)
    bits = int(_rice_decode(body, low_bits, count, places, indices))
    return None if bits < 0 else (indices, bits)
