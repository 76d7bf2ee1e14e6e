"""Numbers of a few bits each, one after another without gaps, lowest bit first.

Codes of up to 8 bits go eight at a time through a 64-bit word; wider numbers bit by bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.kernels.unaligned import load_word, store_word

__all__ = ["pack_codes", "pack_numbers", "unpack_codes", "unpack_numbers"]


@njit(cache=True, nogil=True)
def _pack_codes(codes, bits, body):  # type: ignore[no-untyped-def]
    # ``body`` has eight bytes more than it needs: words are written whole, and overlap.
    blocks = (len(codes) + 7) // 8
    for block in range(blocks):
        word = np.uint64(0)
        for j in range(min(8, len(codes) - 8 * block)):
            word |= np.uint64(codes[8 * block + j]) << np.uint64(j * bits)
        store_word(body, block * bits, word)


@njit(cache=True, nogil=True)
def _unpack_codes(body, bits, codes):  # type: ignore[no-untyped-def]
    mask = np.uint64((1 << bits) - 1)
    blocks = (len(codes) + 7) // 8
    words = np.empty(blocks, dtype=np.uint64)
    for block in range(blocks):
        words[block] = load_word(body, block * bits)
    for block in range(blocks):
        for j in range(min(8, len(codes) - 8 * block)):
            codes[8 * block + j] = np.uint8((words[block] >> np.uint64(j * bits)) & mask)


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
    size = -(-len(codes) * bits // 8)
    body = np.empty(size + 8, dtype=np.uint8)
    _pack_codes(codes, bits, body)
    return body[:size].tobytes()


def unpack_codes(body: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.uint8]:
    """Return ``count`` codes of ``bits`` bits; there must be bytes enough.

    >>> unpack_codes(np.frombuffer(bytes.fromhex("2103"), np.uint8), 4, 3)
    array([1, 2, 3], dtype=uint8)
    """
    codes = np.empty(count, dtype=np.uint8)
    _unpack_codes(np.concatenate([body, np.zeros(8, dtype=np.uint8)]), bits, codes)
    return codes


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
