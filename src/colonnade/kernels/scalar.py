"""Uniform scalar quantisation of float32 to b bits, packed, with or without subtractive dither.

Values are handled in pieces of 1024, which stay in the first-level cache while they pass through
loops that each vectorise: draw dither, quantise to a byte each, pack. Packing squeezes eight codes
of a 64-bit word together (``packing.py``) and writes its b lowest bytes, so codes lie one after
another with the lowest bit first, whatever b is.

Dither comes 16 bits a value: value n of a message takes the n-th half of the stream's 32-bit
words, lower half first.

Decoding is the same to the bit on every CPU with the usual rounding: it multiplies and adds
float32 in the order written. Without fast-math, LLVM neither reorders these nor fuses them; a test
reads the machine code. Bytes are taken for words where they lie, so hosts are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from colonnade.kernels.packing import spread_out, squeezed
from colonnade.kernels.philox import fill_words
from colonnade.kernels.unaligned import load_word, store_word

__all__ = ["SLACK", "all_finite", "dequantise", "extremes", "quantise"]

PIECE = 1024
_BLOCKS = PIECE // 8  # of Philox, and of eight codes
SLACK = 8  # bytes that ``quantise`` may write behind the codes
_MAGNITUDE, _INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
_SPREAD = np.float32(2.0**-16)
_CENTRE = np.float32(0.5)
_LARGEST = np.finfo(np.float32).max


@njit(inline="always")
def _in_order(pattern):  # type: ignore[no-untyped-def]
    # Float32 patterns of negative numbers run backwards. Flipping their magnitude gives integers
    # in the order of the floats, -0 before 0 and nan beyond infinity: one pass finds the smallest,
    # the largest and whatever is not finite, and integer minima vectorise where float ones do not.
    return np.int32(pattern ^ ((pattern >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(cache=True, nogil=True)
def _extremes(patterns, ends):  # type: ignore[no-untyped-def]
    smallest = largest = _in_order(patterns[0])
    for j in range(len(patterns)):
        value = _in_order(patterns[j])
        smallest, largest = min(smallest, value), max(largest, value)
    ends[0], ends[1] = _in_order(smallest), _in_order(largest)


def _make(dithered: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the two kernels; ``dithered`` is a constant to the compiler."""

    @njit(cache=True, nogil=True)
    def encode(x, body, bits, low, inverse_step, scale, upper, key):  # type: ignore[no-untyped-def]
        # ``body`` has eight bytes more than it needs: words are written whole, and overlap.
        codes = np.empty(PIECE, dtype=np.uint8)
        words = codes.view(np.uint64)
        random = np.empty(PIECE // 4, dtype=np.uint64)
        draws = random.view(np.uint16)
        rest = np.zeros(PIECE, dtype=np.float32)
        top = np.float32((1 << bits) - 1)
        zero, one = np.float32(0), np.float32(1)
        largest = np.uint32(0)
        for piece in range((len(x) + PIECE - 1) // PIECE):
            start = piece * PIECE
            count = min(PIECE, len(x) - start)
            values = x[start : start + PIECE]
            if count < PIECE or scale != one:
                for j in range(count):
                    rest[j] = values[j] * scale
                values = rest
            if dithered:
                fill_words(random, piece * _BLOCKS, upper, key)
            patterns = values.view(np.uint32)
            for j in range(PIECE):
                largest = max(largest, np.uint32(patterns[j] & _MAGNITUDE))
                # floor(v + u + 1/2) rounds v + u; what is out of range goes to the nearest level
                half = (np.float32(draws[j]) + _CENTRE) * _SPREAD if dithered else _CENTRE
                value = (values[j] - low) * inverse_step + half
                codes[j] = np.uint8(min(max(value, zero), top))
            for j in range(count, PIECE):
                codes[j] = 0
            if bits == 8:
                for j in range(count):
                    body[start + j] = codes[j]
                continue
            first = piece * _BLOCKS * bits
            for j in range(_BLOCKS):
                words[j] = squeezed(words[j], bits)
            for j in range((count + 7) // 8):
                store_word(body, first + j * bits, words[j])
        return largest >= _INFINITY

    @njit(cache=True, nogil=True)
    def decode(body, x, bits, low, step, scale, upper, key):  # type: ignore[no-untyped-def]
        codes = np.zeros(PIECE, dtype=np.uint8)
        words = codes.view(np.uint64)
        random = np.empty(PIECE // 4, dtype=np.uint64)
        draws = random.view(np.uint16)
        rest = np.zeros(_BLOCKS * 8 + 8, dtype=np.uint8)
        one = np.float32(1)
        unit = step * np.float32(2.0**-17) if dithered else step
        back = np.float32(1) / scale
        # Dither reaches half a step past the range, which must not become infinite.
        limit = _LARGEST * min(scale, np.float32(1))
        for piece in range((len(x) + PIECE - 1) // PIECE):
            start = piece * PIECE
            count = min(PIECE, len(x) - start)
            first = piece * _BLOCKS * bits
            if bits == 8:
                for j in range(count):
                    codes[j] = body[first + j]
            else:
                source = body
                if first + _BLOCKS * bits + 8 > len(body):
                    # The last words would reach past the end: read them from a longer copy.
                    for j in range(len(body) - first):
                        rest[j] = body[first + j]
                    source, first = rest, 0
                for j in range(_BLOCKS):
                    words[j] = load_word(source, first + j * bits)
                for j in range(_BLOCKS):
                    words[j] = spread_out(words[j], bits)
            if dithered:
                fill_words(random, piece * _BLOCKS, upper, key)
            for j in range(count):
                # code - u, or 2^17 times that: an integer, as u is (2 draw + 1) / 2^17 - 1/2
                level = np.int32(codes[j])
                if dithered:
                    level = np.int32((level << 17) - (np.int32(draws[j]) << 1) + 65535)
                x[start + j] = low + np.float32(level) * unit
            if scale != one:
                for j in range(count):
                    x[start + j] = min(max(x[start + j], -limit), limit) * back

    return encode, decode


_PLAIN = _make(dithered=False)
_DITHERED = _make(dithered=True)


def extremes(x: Any) -> Any:
    """Return the smallest and the largest of flat float32 ``x``, which is not empty, as an array.

    If a value is not finite, at least one of the two is not finite either.
    """
    ends = np.empty(2, dtype=np.float32)
    _extremes(x.view(np.int32), ends.view(np.int32))
    return ends


def all_finite(x: Any) -> bool:
    """Return whether no value of flat float32 ``x`` is infinite or no number, in one pass.

    >>> all_finite(np.array([1, -np.inf], np.float32)), all_finite(np.empty(0, np.float32))
    (False, True)
    """
    return not len(x) or bool(np.isfinite(extremes(x)).all())


def quantise(
    x: Any, body: Any, bits: int, low: Any, inverse_step: Any, scale: Any, key: Any
) -> bool:
    """Write the codes of flat float32 ``x`` into ``body``; return whether scale * x is not finite.

    code = clip(round((scale * x - low) * inverse_step + u), 0, 2^bits - 1), with u uniform in
    (-1/2, 1/2) drawn from ``key``, two 64-bit words, or 0 when ``key`` is None. ``scale`` is a
    power of two; 1 is fastest.
    """
    encode = (_PLAIN if key is None else _DITHERED)[0]
    philox, upper = key or (0, 0)
    return bool(
        encode(x, body, bits, low, inverse_step, scale, np.uint64(upper), np.uint64(philox))
    )


def dequantise(body: Any, x: Any, bits: int, low: Any, step: Any, scale: Any, key: Any) -> None:
    """Write (low + (code - u) * step) / scale for each code in ``body`` into flat ``x``."""
    decode = (_PLAIN if key is None else _DITHERED)[1]
    philox, upper = key or (0, 0)
    decode(body, x, bits, low, step, scale, np.uint64(upper), np.uint64(philox))
