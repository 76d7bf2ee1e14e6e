"""Quantisation of pairs of float32 to a hexagonal lattice, 2b bits a pair, packed.

Codeword (r, c) of R rows and C columns lies at (left + (c + (r mod 2) / 2) pitch,
bottom + r height), with height = sqrt(3)/2 pitch; its code is r C + c. The even rows are a
rectangular grid, and so are the odd ones; on such a grid the nearest codeword is found by rounding
and clipping each component alone (Conway and Sloane, "Fast quantizing and decoding algorithms for
lattice quantizers and codes", 1982). Both grids together part the plane into rectangles of half a
pitch by a height, with a codeword of either grid at opposite corners. So one truncation finds the
rectangle, and the side of the corners' bisector on which the pair lies the nearest codeword of all:
without a branch, and as far outside as h and v below are float32. What says the side is finite
only where both values are, so that looking at it there finds those that are not.

Pairs are handled in pieces of 512, like the values in ``scalar.py``, and their codes squeezed in
two steps. Dither comes 16 bits a value in the same order: 32 bits a pair, that of its first
component in the lower half. It is uniform over a rectangle of pitch x height, which bricks the
plane as the hexagonal cells do, so that the error is uniform over the cell all the same.

Decoding multiplies, adds and compares float32 in the order written, as in ``scalar.py``. The row of
a code is exact, since (code + 1/2) / C is 1 / (2 C) away from whole numbers at least. Integers are
cast after every step, since numba would widen them to 64 bits, at half the speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.philox import fill_words
from colonnade.kernels.unaligned import load_word, store_word

__all__ = ["SLACK", "Grid", "dequantise", "pack", "quantise", "unpack"]

_PIECE = 512  # pairs
_BLOCKS = _PIECE // 4  # of Philox, and of four codes
SLACK = 8  # bytes that ``quantise`` may write behind the codes
_SIGN, _INFINITY_DOUBLED = np.uint32(31), np.uint32(0xFF000000)  # patterns without their sign
_LOWER, _HALF_WORD = np.uint32(0xFFFF), np.uint32(16)
_ONCE, _ONCE_CENTRE = np.float32(2.0**-16), np.float32(2.0**-17 - 0.5)
_TWICE, _TWICE_CENTRE = np.float32(2.0**-15), np.float32(2.0**-16 - 1)
_HALF, _ONE, _THREE = np.float32(0.5), np.float32(1), np.float32(3)
_LARGEST = np.finfo(np.float32).max

_CODES_EVEN, _CODES_ODD = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFF0000FFFF0000)
_PAIRS_EVEN, _PAIRS_ODD = np.uint64(0x00000000FFFFFFFF), np.uint64(0xFFFFFFFF00000000)


class Grid(NamedTuple):
    """Where the codewords lie, all lengths multiplied by ``scale``, a power of two."""

    rows: Any
    columns: Any
    left: Any
    bottom: Any
    pitch: Any
    height: Any
    inverse_half: Any  # 2 / pitch
    inverse_height: Any
    scale: Any


def _make(dithered: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the two kernels; ``dithered`` is a constant to the compiler."""

    @njit(cache=True, nogil=True)
    def encode(x, body, bits, grid, upper, key):  # type: ignore[no-untyped-def]
        # ``body`` has eight bytes more than it needs: words are written whole, and overlap.
        codes = np.empty(_PIECE, dtype=np.uint16)
        words = codes.view(np.uint64)
        random = np.empty(_PIECE // 2, dtype=np.uint64)
        draws = random.view(np.uint32)
        left, bottom, scale = grid.left, grid.bottom, grid.scale
        across, up = grid.inverse_half, grid.inverse_height
        columns, zero, one = np.int32(grid.columns), np.float32(0), np.int32(1)
        last_column = np.nextafter(np.float32(2 * grid.columns - 1), zero)
        last_row = np.nextafter(np.float32(grid.rows - 1), zero)
        by_code, by_pair = np.uint64(16 - 2 * bits), np.uint64(32 - 4 * bits)
        scaled, largest = np.empty(2 * _PIECE, dtype=np.float32), np.uint32(0)
        pairs = len(x) // 2
        for piece in range((pairs + _PIECE - 1) // _PIECE):
            start = piece * _PIECE
            count = min(_PIECE, pairs - start)
            if dithered:
                fill_words(random, piece * _BLOCKS, upper, key)
            values = x[2 * start : 2 * (start + count)]
            if scale != _ONE:
                for j in range(2 * count):
                    scaled[j] = values[j] * scale
                values = scaled
            for j in range(count):
                h = (values[2 * j] - left) * across
                v = (values[2 * j + 1] - bottom) * up
                if dithered:
                    h += np.float32(np.int32(draws[j] & _LOWER)) * _TWICE + _TWICE_CENTRE
                    v += np.float32(np.int32(draws[j] >> _HALF_WORD)) * _ONCE + _ONCE_CENTRE
                # What is not a number becomes zero, as zero comes first: so it can be cast.
                column = np.int32(min(max(zero, h), last_column))
                row = np.int32(min(max(zero, v), last_row))
                # Codewords are at the lower left and the upper right corner; where row + column is
                # odd, at the other two, as seen in a mirror. A pair is above their bisector or not.
                beside = np.float32(h - (np.float32(column) + _HALF))
                above = v - (np.float32(row) + _HALF)
                mirrored = np.uint32(np.uint32(row + column) << _SIGN)
                beside = np.uint32(beside.view(np.uint32) ^ mirrored).view(np.float32)
                side = np.float32(beside + _THREE * above)
                largest = max(largest, np.uint32(side.view(np.uint32) << np.uint32(1)))
                row = np.int32(row + np.int32(side > zero))
                column = np.int32(np.int32(column + np.int32(~row & one)) >> one)
                codes[j] = np.uint16(np.int32(np.int32(row * columns) + column))
            for j in range(count, _PIECE):
                codes[j] = 0
            for j in range(_BLOCKS):
                w = words[j]
                w = (w & _CODES_EVEN) | ((w & _CODES_ODD) >> by_code)
                words[j] = (w & _PAIRS_EVEN) | ((w & _PAIRS_ODD) >> by_pair)
            first = piece * _BLOCKS * bits
            for j in range((count + 3) // 4):
                store_word(body, first + j * bits, words[j])
        return largest >= _INFINITY_DOUBLED

    @njit(cache=True, nogil=True)
    def decode(body, x, bits, grid, upper, key):  # type: ignore[no-untyped-def]
        codes = np.zeros(_PIECE, dtype=np.uint16)
        words = codes.view(np.uint64)
        random = np.empty(_PIECE // 2, dtype=np.uint64)
        draws = random.view(np.uint32)
        rest = np.zeros(_BLOCKS * 8 + 8, dtype=np.uint8)
        two = np.uint64((1 << (4 * bits)) - 1)
        single = np.uint64((1 << (2 * bits)) - 1) * np.uint64(0x0000000100000001)
        by_code, by_pair = np.uint64(2 * bits), np.uint64(4 * bits)
        left, bottom, scale = grid.left, grid.bottom, grid.scale
        columns, one = np.int32(grid.columns), np.int32(1)
        share = _ONE / np.float32(grid.columns)
        # dithered: codeword - u in units of 2^-17, an integer, as u is (2 draw + 1) / 2^17 - 1/2
        unit = np.float32(2.0**-17) if dithered else _HALF
        across, up = grid.pitch * unit, grid.height * (unit if dithered else _ONE)
        back = _ONE / scale
        # Outermost codewords and dither reach past the range, which must not become infinite.
        limit = _LARGEST * min(scale, _ONE)
        largest = np.int32(0)
        pairs = len(x) // 2
        for piece in range((pairs + _PIECE - 1) // _PIECE):
            start = piece * _PIECE
            count = min(_PIECE, pairs - start)
            first = piece * _BLOCKS * bits
            source = body
            if first + _BLOCKS * bits + 8 > len(body):
                # The last words would reach past the end: read them from a longer copy.
                for j in range(len(body) - first):
                    rest[j] = body[first + j]
                source, first = rest, 0
            for j in range(_BLOCKS):
                words[j] = load_word(source, first + j * bits)
            for j in range(_BLOCKS):
                w = words[j]
                w = (w & two) | (((w >> by_pair) & two) << np.uint64(32))
                words[j] = (w & single) | (((w >> by_code) & single) << np.uint64(16))
            if dithered:
                fill_words(random, piece * _BLOCKS, upper, key)
            for j in range(count):
                code = np.int32(codes[j])
                largest = max(largest, code)
                row = np.int32((np.float32(code) + _HALF) * share)
                column = np.int32(code - np.int32(row * columns))
                h, v = np.int32(np.int32(column << one) + np.int32(row & one)), row
                if dithered:
                    h = np.int32((h << 16) - (np.int32(draws[j] & _LOWER) << 1) + 65535)
                    v = np.int32((v << 17) - (np.int32(draws[j] >> _HALF_WORD) << 1) + 65535)
                x[2 * (start + j)] = left + np.float32(h) * across
                x[2 * (start + j) + 1] = bottom + np.float32(v) * up
            if scale != _ONE:
                for j in range(2 * start, 2 * (start + count)):
                    x[j] = min(max(x[j], -limit), limit) * back
        return largest

    return encode, decode


_PLAIN = _make(dithered=False)
_DITHERED = _make(dithered=True)


def quantise(x: Any, body: Any, bits: int, grid: Grid, key: Any) -> bool:
    """Write the codes of flat float32 ``x``, of even length, into ``body``.

    Return whether a value is not finite. With h and v the pair in units of pitch and height from
    the first codeword, and u1, u2 uniform in (-1/2, 1/2) drawn from ``key``, two 64-bit words, or 0
    when ``key`` is None, the code is that of the codeword nearest to (h + u1, v + u2); of two that
    are equally near, the lower one.
    """
    encode = (_PLAIN if key is None else _DITHERED)[0]
    philox, upper = key or (0, 0)
    strange = encode(x, body, bits, grid, np.uint64(upper), np.uint64(philox))
    return strange and not np.isfinite(x).all()  # values may be so far outside that h is infinite


def dequantise(body: Any, x: Any, bits: int, grid: Grid, key: Any) -> int:
    """Write (codeword - (u1 pitch, u2 height)) / scale for each code in ``body`` into flat ``x``.

    Return the largest code there is.
    """
    decode = (_PLAIN if key is None else _DITHERED)[1]
    philox, upper = key or (0, 0)
    return int(decode(body, x, bits, grid, np.uint64(upper), np.uint64(philox)))


@njit(cache=True, nogil=True)
def _pack(symbols, columns, bits, body):  # type: ignore[no-untyped-def]
    pairs = len(symbols) // 2
    for block in range((pairs + 3) // 4):
        word = np.uint64(0)
        for j in range(min(4, pairs - 4 * block)):
            place = 2 * (4 * block + j)
            code = np.uint64(symbols[place]) * np.uint64(columns) + np.uint64(symbols[place + 1])
            word |= code << np.uint64(2 * bits * j)
        store_word(body, block * bits, word)


@njit(cache=True, nogil=True)
def _unpack(body, columns, bits, symbols):  # type: ignore[no-untyped-def]
    mask = np.uint64((1 << (2 * bits)) - 1)
    pairs = len(symbols) // 2
    words = np.empty((pairs + 3) // 4, dtype=np.uint64)
    for block in range(len(words)):
        words[block] = load_word(body, block * bits)
    for block in range(len(words)):
        for j in range(min(4, pairs - 4 * block)):
            code = np.int64((words[block] >> np.uint64(2 * bits * j)) & mask)
            place = 2 * (4 * block + j)
            symbols[place], symbols[place + 1] = code // columns, code % columns


def pack(symbols: NDArray[np.uint16], columns: int, bits: int) -> bytes:
    """Return the codes of pairs (r, c), given one after another.

    >>> pack(np.array([1, 0, 3, 2], dtype=np.uint16), columns=4, bits=2).hex()
    'e4'
    """
    size = -(-len(symbols) * bits // 8)
    body = np.empty(size + SLACK, dtype=np.uint8)
    _pack(symbols, columns, bits, body)
    return body[:size].tobytes()


def unpack(body: NDArray[np.uint8], columns: int, bits: int, count: int) -> NDArray[np.uint16]:
    """Return the ``count`` components r, c, r, c, ... of packed codes.

    >>> unpack(np.array([0xE4], dtype=np.uint8), columns=4, bits=2, count=4)
    array([1, 0, 3, 2], dtype=uint16)
    """
    symbols = np.empty(count, dtype=np.uint16)
    _unpack(np.concatenate([body, np.zeros(8, dtype=np.uint8)]), columns, bits, symbols)
    return symbols
