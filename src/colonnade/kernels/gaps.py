"""Which m of n places are marked, by arithmetic coding of the gaps between them.

If each place were marked with probability p = m / n, a gap g would have probability (1 - p)^g p.
Coded in -log2 of that, gaps take m log2(1/p) + (n - m) log2(1/(1 - p)) bits, n times the entropy
of p, *whatever* places are marked; C(n, m) has 1/2 log2(2 pi n p (1 - p)) bits less.

A gap is h 2^r + l. The r bits of l are taken for equally likely, with r the largest number for
which 2^r p is at most 1/16, so that none is off by more than a thirtieth. h is geometric, with
Q = (1 - p)^(2^r): its probabilities are whole numbers over 2^15, up to an E where Q^E <= 1/64. What
is beyond begins with an escape, which says "E more", and is geometric in turn. (Golomb, "Run-length
encodings", 1966, is the same with whole bits.)

The coder keeps an interval [low, low + range) of 48 bits and narrows it to the share of a symbol
(Martin, "Range encoding", 1979); 16 bits leave at the top when range falls below 2^32. At the end
the fewest bytes are written that lie in the interval whatever follows them. Any others in it are
refused: there is one code of each support. All is in whole numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["decode_gaps", "encode_gaps", "gaps_bytes_at_most"]

_PRECISION = 15
_TOTAL = 1 << _PRECISION
_FIXED = 62  # bits behind the point, of probabilities on the way to frequencies
_WINDOW = 6  # bytes
_NONE, _ONE, _WORD, _BYTE = np.uint64(0), np.uint64(1), np.uint64(16), np.uint64(8)
_BYTE_BITS, _SHARE = np.uint64(0xFF), np.uint64(_PRECISION)
_FULL, _NARROW = np.uint64(1 << 48), np.uint64(1 << 32)
_LAST = np.uint64(_TOTAL - 1)


class _Model(NamedTuple):
    """How gaps are cut, and where the share of each h begins; the last share is the escape's."""

    low_bits: int
    starts: NDArray[np.uint64]  # escape + 2 of them, the last is 2^15
    symbols: NDArray[np.uint8]  # the one whose share it is, for each of 2^15


@lru_cache(maxsize=64)
def _model(marked: int, places: int) -> _Model:
    share = ((places - marked) << _FIXED) // places
    low_bits = max(0, (places // (16 * marked)).bit_length() - 1)
    for _ in range(low_bits):
        share = share * share >> _FIXED
    left, starts = 1 << _FIXED, [0]
    while left > 1 << _FIXED - 6:
        left = left * share >> _FIXED
        starts.append(_TOTAL - ((left << _PRECISION) + (1 << _FIXED - 1) >> _FIXED))
    starts.append(_TOTAL)
    sizes = np.diff(starts)
    return _Model(
        low_bits,
        np.array(starts, dtype=np.uint64),
        np.repeat(np.arange(len(sizes), dtype=np.uint8), sizes),
    )


@njit(inline="always")
def _carry(body, at):  # type: ignore[no-untyped-def]  # numba infers the types
    at -= 1
    while body[at] == 255:
        body[at] = 0
        at -= 1
    body[at] += np.uint8(1)


@njit(inline="always")
def _narrow(low, span, start, size, bits, body, at):  # type: ignore[no-untyped-def]
    part = span >> bits
    low += part * start
    span = part * size
    if low >= _FULL:
        low -= _FULL
        _carry(body, at)
    # Without a branch, which nobody could predict: what is not moved on is written again.
    body[at] = np.uint8(low >> np.uint64(40))
    body[at + 1] = np.uint8((low >> np.uint64(32)) & _BYTE_BITS)
    moved = np.uint64(span < _NARROW) << np.uint64(4)  # bits
    return (low << moved) & (_FULL - _ONE), span << moved, at + np.int64(moved >> np.uint64(3))


@njit(inline="always")
def _shortest(low, span):  # type: ignore[no-untyped-def]
    """Return what to end with: its bytes, and how many they are."""
    count, unit = 0, np.int64(1 << 48)
    value = np.int64(0)
    while True:
        value = (low + unit - 1) & ~(unit - 1)
        if value + unit <= low + span:
            return value, count
        count += 1
        unit >>= 8


@njit(cache=True, nogil=True)
def _encode(indices, low_bits, starts, body):  # type: ignore[no-untyped-def]
    low, span, at, last = _NONE, _FULL, 0, np.int64(-1)
    escape = len(starts) - 2
    for index in indices:
        gap = index - last - 1
        last = index
        high = gap >> low_bits
        while high >= escape:
            start = starts[escape]
            low, span, at = _narrow(low, span, start, starts[escape + 1] - start, _SHARE, body, at)
            high -= escape
        start = starts[high]
        low, span, at = _narrow(low, span, start, starts[high + 1] - start, _SHARE, body, at)
        left = low_bits
        while left:
            bits = min(left, 16)
            left -= bits
            part = np.uint64((gap >> left) & ((1 << bits) - 1))
            low, span, at = _narrow(low, span, part, _ONE, np.uint64(bits), body, at)
    value, count = _shortest(np.int64(low), np.int64(span))
    if value >> 48:
        _carry(body, at)
    for j in range(count):
        body[at + j] = np.uint8((value >> (40 - 8 * j)) & 255)
    return at + count


@njit(inline="always")
def _drawn(window, offset, span, body, at):  # type: ignore[no-untyped-def]
    word = (np.uint64(body[at]) << _BYTE) | np.uint64(body[at + 1])
    moved = np.uint64(span < _NARROW) << np.uint64(4)  # bits
    word &= (_ONE << moved) - _ONE
    window = ((window << moved) | word) & (_FULL - _ONE)
    return window, (offset << moved) | word, span << moved, at + np.int64(moved >> np.uint64(3))


@njit(cache=True, nogil=True)
def _decode(body, low_bits, starts, symbols, places, indices):  # type: ignore[no-untyped-def]
    """Fill in ``indices``; return the bytes that were read, or -1 if there are none.

    ``window`` is what was read last, and ``offset`` how far it is above the interval's low end.
    """
    window = _NONE
    for j in range(_WINDOW):
        window = (window << _BYTE) | np.uint64(body[j])
    offset, span, at, last = window, _FULL, _WINDOW, np.int64(-1)
    escape = len(starts) - 2
    most, end = places >> low_bits, len(body) - 2
    for i in range(len(indices)):
        high = np.int64(0)
        while True:
            part = span >> _SHARE
            symbol = np.int64(symbols[min(offset // part, _LAST)])
            offset -= part * starts[symbol]
            span = part * (starts[symbol + 1] - starts[symbol])
            if offset >= span or at > end:
                return -1
            window, offset, span, at = _drawn(window, offset, span, body, at)
            high += symbol
            if symbol < escape:
                break
        if high > most:  # what lies beyond all places cannot be one: so numbers stay small
            return -1
        gap, left = high, low_bits
        while left:
            bits = min(left, 16)
            left -= bits
            part = span >> np.uint64(bits)
            drawn = offset // part
            if drawn >> np.uint64(bits) or at > end:
                return -1
            offset -= part * drawn
            span = part
            window, offset, span, at = _drawn(window, offset, span, body, at)
            gap = (gap << bits) | np.int64(drawn)
        last += gap + 1
        if last >= places:
            return -1
        indices[i] = last
    low = np.int64(window) - np.int64(offset)
    value, count = _shortest(low, np.int64(span))
    if value != (np.int64(window) >> (48 - 8 * count)) << (48 - 8 * count):
        return -1
    return at - _WINDOW + count


def encode_gaps(indices: NDArray[np.int64], places: int) -> bytes:
    """Return the code of some ascending places below ``places``, of which there are more.

    >>> encode_gaps(np.array([5, 900, 1000]), 1024).hex()
    '04599e99'
    """
    model = _model(len(indices), places)
    escapes = (places >> model.low_bits) // (len(model.starts) - 2)
    steps = len(indices) * (1 + -(-model.low_bits // 16)) + escapes
    body = np.empty(2 * steps + _WINDOW, dtype=np.uint8)  # two bytes a step at most
    size = int(_encode(indices, model.low_bits, model.starts, body))
    return body[:size].tobytes()


def decode_gaps(
    body: NDArray[np.uint8], count: int, places: int
) -> tuple[NDArray[np.int64], int] | None:
    """Return ``count`` places and the bytes that they took; None if there are none.

    >>> decode_gaps(np.frombuffer(bytes.fromhex("04599e99"), np.uint8), 3, 1024)
    (array([   5,  900, 1000]), 4)
    """
    if count > 8 * len(body) + 8:  # no gap has less than a bit, as no more than half are marked
        return None
    model = _model(count, places)
    longer = np.concatenate([body, np.zeros(_WINDOW + 2, dtype=np.uint8)])
    indices = np.empty(count, dtype=np.int64)
    size = int(_decode(longer, model.low_bits, model.starts, model.symbols, places, indices))
    return None if not 0 <= size <= len(body) else (indices, size)


@lru_cache(maxsize=64)
def gaps_bytes_at_most(count: int, places: int) -> int:
    """Return a number of bytes that no ``count`` of ``places`` exceed.

    With c(h) the bits of h, and what 1/Q costs, c = log2(1/Q), those of all gaps together are
    sum c(h) = sum (c(h) - c h) + c sum h, and the second sum is (n - m) / 2^r at most.
    """
    model = _model(count, places)
    shares = np.diff(model.starts.astype(np.float64)) / _TOTAL
    escape = len(shares) - 1
    each = -math.log2(1 - count / places) * 2.0**model.low_bits
    over = -np.log2(shares) - each * np.arange(len(shares))
    total = (places - count) / 2**model.low_bits
    steps = 2 * count + total / escape
    bits: float = count * (float(over[:-1].max()) + model.low_bits) + each * total
    bits += max(0.0, float(over[-1])) * total / escape + steps * 2.0**-16
    return math.ceil(bits / 8) + 2
