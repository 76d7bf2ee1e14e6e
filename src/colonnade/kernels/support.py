"""Bit streams of a support: which k of n places are taken.

Golomb, "Run-length encodings", IEEE Trans. Inf. Theory 12(3), 1966; Rice, 1979. The gap g between
two places taken is written as its quotient by 2^r, that many ones and a zero, and its r lowest
bits. Gaps of a random support are geometric, for which this is within 3 % of the entropy. Bits fill
bytes from the lowest up.

A gap is written and read as a word of 64 bits at the byte where it begins, so bodies are eight
bytes longer meanwhile. Up to seven bits of that word belong to the gap before; no more than 56 are
handled at a time, so a long quotient takes several words.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.unaligned import load_word, store_word, trailing_ones

__all__ = ["rice_decode", "rice_encode"]


_SLACK = 8  # bytes
_AT_ONCE = np.uint64(56)
_NONE, _ONE, _THREE, _SEVEN = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(7)


@njit(inline="always")
def _ones(count):  # type: ignore[no-untyped-def]  # numba infers the types
    return (_ONE << count) - _ONE


@njit(inline="always")
def _write(body, position, begun, bits, count):  # type: ignore[no-untyped-def]
    """Write some bits behind those ``begun`` in the byte of ``position``; return both, moved on."""
    word = begun | (bits << (position & _SEVEN))
    store_word(body, np.int64(position >> _THREE), word)
    end = position + count
    return end, word >> (((end >> _THREE) - (position >> _THREE)) << _THREE)


@njit(cache=True, nogil=True)
def _rice_encode(gaps, low_bits, body):  # type: ignore[no-untyped-def]
    position, begun, low = _NONE, _NONE, np.uint64(low_bits)
    for gap in gaps:
        quotient, rest = np.uint64(gap) >> low, np.uint64(gap) & _ones(low)
        while quotient + _ONE + low > _AT_ONCE:
            some = min(quotient, _AT_ONCE)
            position, begun = _write(body, position, begun, _ones(some), some)
            quotient -= some
        bits = _ones(quotient) | (rest << (quotient + _ONE))
        position, begun = _write(body, position, begun, bits, quotient + _ONE + low)


@njit(cache=True, nogil=True)
def _rice_decode(body, bits, low_bits, count, places, indices):  # type: ignore[no-untyped-def]
    """Fill ``indices``; return the bits that were read, or -1 if this is no support."""
    position, end, last = _NONE, np.uint64(bits), np.int64(-1)
    low, most = np.uint64(low_bits), np.uint64(places >> low_bits)
    for i in range(count):
        quotient = _NONE
        while True:
            if position >= end:
                return -1
            word = load_word(body, np.int64(position >> _THREE)) >> (position & _SEVEN)
            some = min(trailing_ones(word), _AT_ONCE)
            quotient += some
            position += some
            if some < _AT_ONCE:
                break
        position += _ONE
        # What lies beyond all places cannot be one of them: this also keeps numbers small.
        if quotient > most or position + low > end:
            return -1
        word = load_word(body, np.int64(position >> _THREE)) >> (position & _SEVEN)
        last += np.int64((quotient << low) | (word & _ones(low))) + 1
        if last >= places:
            return -1
        indices[i] = last
        position += low
    return np.int64(position)


def rice_encode(gaps: NDArray[np.int64], low_bits: int, bits: int) -> bytes:
    """Return the code of some gaps, which takes ``bits`` bits.

    >>> rice_encode(np.array([0, 5, 1]), low_bits=1, bits=8).hex()  # 0 0, 110 1, 0 1
    'ac'
    """
    size = -(-bits // 8)
    body = np.empty(size + _SLACK, dtype=np.uint8)
    _rice_encode(gaps, low_bits, body)
    return body[:size].tobytes()


def rice_decode(
    body: NDArray[np.uint8], low_bits: int, count: int, places: int
) -> tuple[NDArray[np.int64], int] | None:
    """Return ``count`` indices below ``places`` and the bits they took; None if there are none.

    >>> rice_decode(np.frombuffer(bytes.fromhex("ac"), np.uint8), 1, 3, places=10)
    (array([0, 6, 8]), 8)
    """
    indices = np.empty(count, dtype=np.int64)
    longer = np.concatenate([body, np.zeros(_SLACK, dtype=np.uint8)])
    bits = int(_rice_decode(longer, 8 * len(body), low_bits, count, places, indices))
    return None if bits < 0 else (indices, bits)
