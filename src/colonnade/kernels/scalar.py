"""Uniform scalar quantisation of float32 to b bits, packed, with or without subtractive dither.

Values are handled in pieces of 512, which stay in the first-level cache while they pass through
loops that each vectorise: draw dither, quantise to a byte each, pack. Packing squeezes eight codes
of a 64-bit word together in three steps (neighbours, pairs, quadruples) and writes its b lowest
bytes, so codes lie one after another with the lowest bit first, whatever b is.

Dither comes 16 bits a value. Value n of a message belongs to piece n // 512; with o = n % 512, its
draw is half (o // 64) % 2 of word o // 128 of Philox block 64 * (n // 512) + o % 64: an order in
which neighbours in a piece are neighbours in a vector register.

Decoding is the same to the bit on every CPU: it multiplies and adds float32 in the order written.
Without fast-math, LLVM neither reorders these nor fuses them; a test reads the machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from colonnade.kernels.philox import philox_block
from colonnade.kernels.unaligned import load_word, store_word

__all__ = ["SLACK", "dequantise", "quantise"]

PIECE = 512
_BLOCKS = PIECE // 8
SLACK = 8  # bytes that ``quantise`` may write behind the codes
_MAGNITUDE, _INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
_U16 = np.uint64(0xFFFF)
_HALF_WORD = np.uint64(16)
_SPREAD = np.float32(2.0**-16)
_CENTRE = np.float32(0.5)

_BYTES_EVEN, _BYTES_ODD = np.uint64(0x00FF00FF00FF00FF), np.uint64(0xFF00FF00FF00FF00)
_PAIRS_EVEN, _PAIRS_ODD = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFF0000FFFF0000)
_QUADS_EVEN, _QUADS_ODD = np.uint64(0x00000000FFFFFFFF), np.uint64(0xFFFFFFFF00000000)


@njit(inline="always")
def _draw(dither, piece, upper, key):  # type: ignore[no-untyped-def]
    """Fill ``dither`` with the numbers (r + 1/2) / 2^16, r uniform in 0 ... 2^16 - 1."""
    for j in range(_BLOCKS):
        r0, r1, r2, r3 = philox_block(np.uint64(piece * _BLOCKS + j), upper, key)
        dither[j] = (np.float32(r0 & _U16) + _CENTRE) * _SPREAD
        dither[j + 64] = (np.float32(r0 >> _HALF_WORD) + _CENTRE) * _SPREAD
        dither[j + 128] = (np.float32(r1 & _U16) + _CENTRE) * _SPREAD
        dither[j + 192] = (np.float32(r1 >> _HALF_WORD) + _CENTRE) * _SPREAD
        dither[j + 256] = (np.float32(r2 & _U16) + _CENTRE) * _SPREAD
        dither[j + 320] = (np.float32(r2 >> _HALF_WORD) + _CENTRE) * _SPREAD
        dither[j + 384] = (np.float32(r3 & _U16) + _CENTRE) * _SPREAD
        dither[j + 448] = (np.float32(r3 >> _HALF_WORD) + _CENTRE) * _SPREAD


def _make(dithered: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the two kernels; ``dithered`` is a constant to the compiler."""

    @njit(cache=True, nogil=True)
    def encode(x, body, bits, low, inverse_step, scale, upper, key):  # type: ignore[no-untyped-def]
        # ``body`` has eight bytes more than it needs: words are written whole, and overlap.
        codes = np.empty(PIECE, dtype=np.uint8)
        words = codes.view(np.uint64)
        rest = np.zeros(PIECE, dtype=np.float32)
        dither = np.full(PIECE, _CENTRE)
        top = np.float32((1 << bits) - 1)
        zero = np.float32(0)
        by_pair, by_quad = np.uint64(8 - bits), np.uint64(16 - 2 * bits)
        by_eight = np.uint64(32 - 4 * bits)
        largest = np.uint32(0)
        for piece in range((len(x) + PIECE - 1) // PIECE):
            start = piece * PIECE
            count = min(PIECE, len(x) - start)
            if count == PIECE:
                values = x[start : start + PIECE]
            else:
                rest[:count] = x[start:]
                values = rest
            if dithered:
                _draw(dither, piece, upper, key)
            patterns = values.view(np.uint32)
            for j in range(PIECE):
                largest = max(largest, np.uint32(patterns[j] & _MAGNITUDE))
                # floor(v + u + 1/2) rounds v + u; what is out of range goes to the nearest level
                half = dither[j] if dithered else _CENTRE
                value = (values[j] * scale - low) * inverse_step + half
                codes[j] = np.uint8(min(max(value, zero), top))
            for j in range(count, PIECE):
                codes[j] = 0
            if bits == 8:
                for j in range(count):
                    body[start + j] = codes[j]
                continue
            first = piece * _BLOCKS * bits
            for j in range(_BLOCKS):
                w = words[j]
                w = (w & _BYTES_EVEN) | ((w & _BYTES_ODD) >> by_pair)
                w = (w & _PAIRS_EVEN) | ((w & _PAIRS_ODD) >> by_quad)
                words[j] = (w & _QUADS_EVEN) | ((w & _QUADS_ODD) >> by_eight)
            for j in range((count + 7) // 8):
                store_word(body, first + j * bits, words[j])  # type: ignore[call-arg]  # an intrinsic
        return largest >= _INFINITY

    @njit(cache=True, nogil=True)
    def decode(body, x, bits, low, step, scale, upper, key):  # type: ignore[no-untyped-def]
        codes = np.zeros(PIECE, dtype=np.uint8)
        words = codes.view(np.uint64)
        rest = np.zeros(_BLOCKS * 8 + 8, dtype=np.uint8)
        dither = np.full(PIECE, _CENTRE)
        quads = np.uint64((1 << (4 * bits)) - 1)
        pairs = np.uint64((1 << (2 * bits)) - 1) * np.uint64(0x0000000100000001)
        singles = np.uint64((1 << bits) - 1) * np.uint64(0x0001000100010001)
        by_two, by_four = np.uint64(2 * bits), np.uint64(4 * bits)
        back = np.float32(1) / scale
        limit = np.float32(3.4028234663852886e38) * min(scale, np.float32(1))
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
                    size = min(_BLOCKS * bits, len(body) - first)
                    rest[:size] = body[first : first + size]
                    rest[size:] = 0
                    source, first = rest, 0
                for j in range(_BLOCKS):
                    words[j] = load_word(source, first + j * bits)  # type: ignore[call-arg]
                for j in range(_BLOCKS):
                    w = words[j]
                    w = (w & quads) | (((w >> by_four) & quads) << np.uint64(32))
                    w = (w & pairs) | (((w >> by_two) & pairs) << np.uint64(16))
                    words[j] = (w & singles) | (((w >> np.uint64(bits)) & singles) << np.uint64(8))
            if dithered:
                _draw(dither, piece, upper, key)
            for j in range(count):
                shift = dither[j] - _CENTRE if dithered else np.float32(0)
                value = low + (np.float32(codes[j]) - shift) * step
                x[start + j] = min(max(value, -limit), limit) * back

    return encode, decode


_PLAIN = _make(dithered=False)
_DITHERED = _make(dithered=True)


def quantise(
    x: Any, body: Any, bits: int, low: Any, inverse_step: Any, scale: Any, key: Any
) -> bool:
    """Write the codes of flat float32 ``x`` into ``body``; return whether a value is not finite.

    code = clip(round((scale * x - low) * inverse_step + u), 0, 2^bits - 1), with u uniform in
    (-1/2, 1/2) drawn from ``key``, two 64-bit words, or 0 when ``key`` is None.
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
