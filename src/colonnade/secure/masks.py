"""Masks: sums modulo 2^k of words that tell nothing one by one.

Values are words of k bits, from 1 to 32, in the narrowest type that has room for them. Masks are
keystreams: one word of the stream for each, added or subtracted and wrapped around in the type;
what is above k bits is dropped when words are packed, since the type's modulus is a multiple of
2^k. Of every pair one adds the mask that the other subtracts, so pairs vanish from the sum; the
mask that each adds for itself is removed by who adds up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.kernels.words import (
    Words,
    drop_above,
    pack_words,
    packed_bytes,
    unpack_words,
    word_type,
)
from colonnade.secure.keystream import Keystream

__all__ = ["MOST_BITS", "Total", "Words", "bits_for", "mask", "masked_body", "words_of"]

MOST_BITS = 32
_PIECE = 1 << 18  # bytes of words and of a keystream that stay in the cache for all masks of a word


def bits_for(highest_total: int) -> int:
    """Return the bits of a word that holds every total from 0 to the highest.

    >>> [bits_for(highest) for highest in (1, 63, 64, 4 * 16)]
    [1, 6, 7, 7]
    """
    bits = max(1, highest_total.bit_length())
    if highest_total < 0 or bits > MOST_BITS:
        raise LocalProtocolError(
            f"totals up to {highest_total} do not fit into {MOST_BITS} bits; "
            "add up fewer parties, or smaller numbers"
        )
    return bits


def words_of(values: NDArray[np.integer[Any]], bits: int) -> Words:
    """Return a copy of whole numbers, which must fit, as one row of words of ``bits`` bits.

    >>> words_of(np.array([[1, 2], [3, 4]]), 12)
    array([1, 2, 3, 4], dtype=uint16)
    """
    if values.size and not 0 <= int(values.min()) <= int(values.max()) < 1 << bits:
        raise LocalProtocolError(f"numbers that are to be masked do not fit into {bits} bits")
    return values.reshape(-1).astype(word_type(bits))


def mask(
    words: Words, added: Iterable[Keystream] = (), subtracted: Iterable[Keystream] = ()
) -> None:
    """Add and subtract what comes next in keystreams, where the words are.

    Piece by piece, all masks of a piece while it is in the cache; the streams' bytes are taken in
    the order in which they come, so it makes no difference.

    Examples
    --------
    >>> words = np.array([1, 2, 3], dtype=np.uint16)
    >>> mask(words, added=[Keystream(bytes(16))])
    >>> mask(words, subtracted=[Keystream(bytes(16))])
    >>> words
    array([1, 2, 3], dtype=uint16)
    """
    if words.ndim != 1:
        raise LocalProtocolError("words are masked in one row")
    added, subtracted = tuple(added), tuple(subtracted)
    if len({id(stream) for stream in added + subtracted}) < len(added + subtracted):
        raise LocalProtocolError("a keystream masks once")
    step = _PIECE // words.itemsize
    drawn = np.empty(min(step, len(words)), dtype=words.dtype)
    for start in range(0, len(words), step):
        piece = words[start : start + step]
        part = drawn[: len(piece)]
        for stream in added:
            stream.fill(part)
            np.add(piece, part, out=piece)
        for stream in subtracted:
            stream.fill(part)
            np.subtract(piece, part, out=piece)


def masked_body(words: Words, bits: int) -> bytes:
    """Return words as they travel: ``bits`` of each, without gaps, and zeros up to a whole byte."""
    return pack_words(words, bits)


class Total:
    """The sum of what parties uploaded, modulo 2^bits; what is packed is added as it comes.

    Parameters
    ----------
    count
        How many words each uploads.
    bits
        Of a word.

    Examples
    --------
    >>> total = Total(3, bits=12)
    >>> for mine in ([1, 2, 3], [4, 5, 6]):
    ...     total.add(masked_body(words_of(np.array(mine), 12), 12), "bank")
    >>> total.values
    array([5, 7, 9], dtype=uint16)
    """

    def __init__(self, count: int, bits: int) -> None:
        self.bits = bits
        self._words: Words = np.zeros(count, dtype=word_type(bits))

    def add(self, body: bytes, whose: str) -> None:
        """Add what a party uploaded.

        Raises
        ------
        RemoteProtocolError
            If it has another size, or bits where none belong.
        """
        count, size = len(self._words), packed_bytes(len(self._words), self.bits)
        if len(body) != size:
            raise RemoteProtocolError(
                f"{whose!r} uploaded {len(body)} bytes, expected {size}: "
                f"{count} words of {self.bits} bits"
            )
        beyond = 8 * size - count * self.bits
        if beyond and body[-1] >> (8 - beyond):
            raise RemoteProtocolError(
                f"{whose!r} uploaded words whose last byte is not filled up with zeros"
            )
        self._words += unpack_words(np.frombuffer(body, dtype=np.uint8), self.bits, count)

    def unmask(self, added: Iterable[Keystream] = (), subtracted: Iterable[Keystream] = ()) -> None:
        """Remove masks that parties added and subtracted."""
        mask(self._words, subtracted, added)

    @property
    def values(self) -> Words:
        """The sum as it stands, each from 0 to 2^bits - 1: a copy."""
        values = self._words.copy()
        drop_above(values, self.bits)
        return values
