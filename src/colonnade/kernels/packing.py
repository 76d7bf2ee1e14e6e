"""Numbers of a few bits each, one after another without gaps, lowest bit first.

Codes of up to 8 bits, a byte each, go eight at a time through a 64-bit word, where they are
squeezed together in three steps: neighbours, pairs, quadruples. Wider numbers go bit by bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.unaligned import load_word, store_word

__all__ = [
    "pack_codes",
    "pack_numbers",
    "spread_out",
    "squeezed",
    "unpack_codes",
    "unpack_numbers",
]

_BYTES_EVEN, _BYTES_ODD = np.uint64(0x00FF00FF00FF00FF), np.uint64(0xFF00FF00FF00FF00)
_PAIRS_EVEN, _PAIRS_ODD = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFF0000FFFF0000)
_QUADS_EVEN, _QUADS_ODD = np.uint64(0x00000000FFFFFFFF), np.uint64(0xFFFFFFFF00000000)


@njit(inline="always")
def squeezed(word, bits):  # type: ignore[no-untyped-def]  # numba infers the types
    """Return the lowest ``bits`` bits of each byte, side by side; the others must be zero."""
    word = (word & _BYTES_EVEN) | ((word & _BYTES_ODD) >> np.uint64(8 - bits))
    word = (word & _PAIRS_EVEN) | ((word & _PAIRS_ODD) >> np.uint64(16 - 2 * bits))
    return (word & _QUADS_EVEN) | ((word & _QUADS_ODD) >> np.uint64(32 - 4 * bits))


@njit(inline="always")
def spread_out(word, bits):  # type: ignore[no-untyped-def]
    """Return the lowest eight numbers of ``bits`` bits, a byte each."""
    quads = np.uint64((1 << (4 * bits)) - 1)
    pairs = np.uint64((1 << (2 * bits)) - 1) * np.uint64(0x0000000100000001)
    singles = np.uint64((1 << bits) - 1) * np.uint64(0x0001000100010001)
    word = (word & quads) | (((word >> np.uint64(4 * bits)) & quads) << np.uint64(32))
    word = (word & pairs) | (((word >> np.uint64(2 * bits)) & pairs) << np.uint64(16))
    return (word & singles) | (((word >> np.uint64(bits)) & singles) << np.uint64(8))


@njit(cache=True, nogil=True)
def _pack_codes(words, bits, body):  # type: ignore[no-untyped-def]
    # ``body`` has eight bytes more than it needs: words are written whole, and overlap.
    for j in range(len(words)):
        store_word(body, j * bits, squeezed(words[j], bits))


@njit(cache=True, nogil=True)
def _unpack_codes(body, bits, words):  # type: ignore[no-untyped-def]
    for j in range(len(words)):
        words[j] = spread_out(load_word(body, j * bits), bits)


@njit(cache=True, nogil=True)
def _pack_numbers(numbers, width, body):  # type: ignore[no-untyped-def]
    position = 0
    for number in numbers:
        for j in range(width):
            if (number >> j) & 1:
                body[position >> 3] |= np.uint8(1 << (position & 7))
            position += 1


@njit(cache=True, nogil=True)
def _unpack_numbers(body, width, numbers):  # type: ignore[no-untyped-def]
    position = 0
    for i in range(len(numbers)):
        number = np.int64(0)
        for j in range(width):
            number |= np.int64((body[position >> 3] >> (position & 7)) & 1) << j
            position += 1
        numbers[i] = number


def pack_codes(codes: NDArray[np.uint8], bits: int) -> bytes:
    """Return codes of ``bits`` bits each, lowest bit first, without gaps.

    >>> pack_codes(np.array([1, 2, 3], dtype=np.uint8), 4).hex()
    '2103'
    """
    if bits == 8:
        return codes.tobytes()
    size, whole = -(-len(codes) * bits // 8), len(codes) // 8 * 8
    body = np.empty(size + 8, dtype=np.uint8)
    codes = np.ascontiguousarray(codes)
    _pack_codes(codes[:whole].view(np.uint64), bits, body)
    if whole < len(codes):
        last = np.zeros(8, dtype=np.uint8)
        last[: len(codes) - whole] = codes[whole:]
        _pack_codes(last.view(np.uint64), bits, body[whole // 8 * bits :])
    return body[:size].tobytes()


def unpack_codes(body: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    """Return ``count`` codes of ``bits`` bits; there must be bytes enough.

    >>> unpack_codes(np.frombuffer(bytes.fromhex("2103"), np.uint8), 4, 3)
    array([1, 2, 3], dtype=uint8)
    """
    if bits == 8:
        return body[:count].copy()
    codes = np.empty(-(-count // 8) * 8, dtype=np.uint8)
    longer = np.concatenate([body, np.zeros(8, dtype=np.uint8)])
    _unpack_codes(longer, bits, codes.view(np.uint64))
    return codes[:count]


def pack_numbers(numbers: NDArray[np.int64], width: int) -> bytes:
    """Return numbers of ``width`` bits each, one after another.

    >>> pack_numbers(np.array([1, 2, 3]), 4).hex()
    '2103'
    """
    body = np.zeros(-(-len(numbers) * width // 8), dtype=np.uint8)
    _pack_numbers(numbers, width, body)
    return body.tobytes()


def unpack_numbers(body: NDArray[np.uint8], width: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` numbers of ``width`` bits; there must be bytes enough.

    >>> unpack_numbers(np.frombuffer(bytes.fromhex("2103"), np.uint8), 4, 3)
    array([1, 2, 3])
    """
    numbers = np.empty(count, dtype=np.int64)
    _unpack_numbers(body, width, numbers)
    return numbers
