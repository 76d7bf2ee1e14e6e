"""Words of 1 to 32 bits, one after another without gaps, lowest bit first.

A word is held in the narrowest unsigned type that has room for it, and bits above its own are
dropped as it is packed. Eight words take as many bytes as a word has bits. Words of two or four
bytes are squeezed together inside 64 bits, and these written one after another through a register
of 64; bytes go through ``packing.py``. Reading needs no register: each half of them is taken from
where it begins. The layout is that of ``pack_numbers``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.errors import LocalProtocolError
from colonnade.kernels.packing import pack_codes, unpack_codes
from colonnade.kernels.unaligned import load_word, store_word

__all__ = ["Words", "drop_above", "pack_words", "packed_bytes", "unpack_words", "word_type"]

Words = NDArray[np.unsignedinteger[Any]]

_PAIRS_EVEN, _PAIRS_ODD = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFF0000FFFF0000)
_QUADS_EVEN, _QUADS_ODD = np.uint64(0x00000000FFFFFFFF), np.uint64(0xFFFFFFFF00000000)


@njit(cache=True, nogil=True)
def _pack(words, kept, bits, lanes, body):  # type: ignore[no-untyped-def]  # numba infers the types
    # ``body`` has eight bytes more than the words take.
    # Of four words pairs are squeezed first; of two, what does that leaves them as they are.
    four = lanes == 4
    even = _PAIRS_EVEN if four else np.uint64(0xFFFFFFFFFFFFFFFF)
    odd = _PAIRS_ODD if four else np.uint64(0)
    first = np.uint64(16 - bits if four else 0)
    width = np.int64(bits * lanes)  # from 18 to 62
    second = np.uint64(32 - width // 2)
    register, filled, at = np.uint64(0), np.int64(0), 0
    for j in range(len(words)):
        word = words[j] & kept
        word = (word & even) | ((word & odd) >> first)
        word = (word & _QUADS_EVEN) | ((word & _QUADS_ODD) >> second)
        register |= word << np.uint64(filled)
        filled += width
        if filled >= 64:
            store_word(body, at, register)
            at += 8
            filled -= 64
            register = word >> np.uint64(width - filled)
    store_word(body, at, register)


@njit(cache=True, nogil=True)
def _unpack(body, bits, lanes, words):  # type: ignore[no-untyped-def]
    # ``body`` has eight bytes more than the words take.
    four = lanes == 4
    width = np.int64(bits * lanes // 2)  # of what is read at once, from 17 to 31
    all_of_it = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    single = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    low = single | single << np.uint64(32) if four else np.uint64(0xFFFFFFFFFFFFFFFF)
    high = low << np.uint64(bits) if four else np.uint64(0)
    apart = np.uint64(16 - bits if four else 0)
    at = np.int64(0)
    for j in range(len(words)):
        lower = (load_word(body, at >> 3) >> np.uint64(at & 7)) & all_of_it
        at += width
        upper = (load_word(body, at >> 3) >> np.uint64(at & 7)) & all_of_it
        at += width
        word = lower | upper << np.uint64(32)
        words[j] = (word & low) | ((word & high) << apart)


def word_type(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the narrowest type that holds words of so many bits, from 1 to 32.

    >>> [word_type(bits).name for bits in (1, 8, 9, 16, 17, 32)]
    ['uint8', 'uint8', 'uint16', 'uint16', 'uint32', 'uint32']
    """
    if not 1 <= bits <= 32:
        raise LocalProtocolError(f"words have from 1 to 32 bits, not {bits}")
    return np.dtype(np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32)


def packed_bytes(count: int, bits: int) -> int:
    """Return the bytes that so many words take without gaps.

    >>> packed_bytes(3, 12)
    5
    """
    return -(-count * bits // 8)


def drop_above(words: Words, bits: int) -> None:
    """Take words modulo 2^bits, where they are."""
    if bits < 8 * words.itemsize:
        words &= words.dtype.type((1 << bits) - 1)


def pack_words(words: Words, bits: int) -> bytes:
    """Return the lowest bits of words of their ``word_type``, without gaps.

    >>> pack_words(np.array([0x123, 0x456, 0xF789], dtype=np.uint16), 12).hex()
    '2361458907'
    """
    words = np.ascontiguousarray(words).reshape(-1)
    if bits in (8, 16, 32):
        return words.tobytes()
    kept = words.dtype.type((1 << bits) - 1)
    if bits < 8:
        return pack_codes(words & kept, bits)
    count, lanes = len(words), 8 // words.itemsize
    every = np.full(lanes, kept).view(np.uint64)[0]
    body = np.empty(-(-count // 8) * bits + 8, dtype=np.uint8)  # all eights whole, and a word more
    whole = count // 8 * 8
    _pack(words[:whole].view(np.uint64), every, bits, lanes, body)
    if whole < count:
        last = np.zeros(8, dtype=words.dtype)
        last[: count - whole] = words[whole:]
        _pack(last.view(np.uint64), every, bits, lanes, body[whole // 8 * bits :])
    return body[: packed_bytes(count, bits)].tobytes()


def unpack_words(body: NDArray[np.uint8], bits: int, count: int) -> Words:
    """Return ``count`` words of ``bits`` bits in their ``word_type``; there must be bytes enough.

    >>> unpack_words(np.frombuffer(bytes.fromhex("2361458907"), np.uint8), 12, 3) == [
    ...     0x123, 0x456, 0x789
    ... ]
    array([ True,  True,  True])
    """
    kind = word_type(bits)
    if bits in (8, 16, 32):
        return body[: count * kind.itemsize].copy().view(kind)
    if bits < 8:
        return unpack_codes(body, bits, count)
    lanes = 8 // kind.itemsize
    words = np.empty(-(-count // 8) * 8, dtype=kind)
    within = min(count // 8, max(0, len(body) - 8) // bits)  # eights, and a word of the body beyond
    _unpack(body, bits, lanes, words[: 8 * within].view(np.uint64))
    rest = np.concatenate([body[within * bits :], np.zeros(bits + 8, dtype=np.uint8)])
    _unpack(rest, bits, lanes, words[8 * within :].view(np.uint64))
    return words[:count]
