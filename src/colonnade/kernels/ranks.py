"""Which k of n places are taken, as the number of the choice among all C(n, k) of them.

The places i_0 < ... < i_(k-1) have the rank sum_j C(i_j, j + 1), and each number below C(n, k) is
the rank of one choice (Cover, "Enumerative source coding", IEEE Trans. Inf. Theory 19(1), 1973).
With g_j = i_j - j, which never decreases, C(i_j, j + 1) is entry (j, g_j) of a table that two
neighbours add up to; numbers have limbs of 32 bits, the lowest first.

Groups follow one another as digits of one number. Of a rank the lower bits go to the body as they
are, sixteen at a time; what is above them, less than ``radix``, is put before the others into a
64-bit number, whose lowest sixteen bits go to the body whenever it could be 2^32 or more. Since
that hangs on what it could be, and not on what it is, both ends know without a word how many bits
there are; each time 2^-16 of a choice is lost. Decoding takes all back, last group first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Ranks", "decode_ranks", "encode_ranks", "ranks_bytes", "table_of"]

_NONE, _ONE, _WORD, _LIMB = np.uint64(0), np.uint64(1), np.uint64(16), np.uint64(32)
_WORD_BITS, _LIMB_BITS = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_MOST = np.uint64(1 << 32)


class Ranks(NamedTuple):
    """The choices of ``taken`` of ``places``: the table, and how a rank is cut in two."""

    taken: int
    places: int
    table: NDArray[np.uint32]  # [j, g, limb]
    words: int  # of 16 bits that go to the body as they are
    radix: int  # one more than what may be above them; less than 2^32


@njit(cache=True, nogil=True)
def _add_up(table):  # type: ignore[no-untyped-def]  # numba infers the types
    # T(j, g) = C(j + g, j + 1) = T(j, g - 1) + T(j - 1, g); T(-1, g) = 1 and T(j, 0) = 0
    count, spread, limbs = table.shape
    for j in range(count):
        for g in range(1, spread):
            carry = _NONE
            for limb in range(limbs):
                above = np.uint64(table[j - 1, g, limb]) if j else np.uint64(limb == 0)
                total = np.uint64(table[j, g - 1, limb]) + above + carry
                table[j, g, limb] = np.uint32(total & _LIMB_BITS)
                carry = total >> _LIMB


@njit(inline="always")
def _append(body, at, word):  # type: ignore[no-untyped-def]
    body[at] = np.uint8(word & np.uint64(0xFF))
    body[at + 1] = np.uint8((word >> np.uint64(8)) & np.uint64(0xFF))
    return at + 2


@njit(inline="always")
def _word(body, at):  # type: ignore[no-untyped-def]
    return np.uint64(body[at]) | (np.uint64(body[at + 1]) << np.uint64(8))


@njit(cache=True, nogil=True)
def _bounds(radix, bounds):  # type: ignore[no-untyped-def]
    """Fill in what the number is below before each group; return the words that are taken off."""
    bound, taken = _ONE, 0
    for group in range(len(bounds) - 1):
        bounds[group] = bound
        bound *= radix
        while bound > _MOST:
            bound = (bound + _WORD_BITS) >> _WORD
            taken += 1
    bounds[len(bounds) - 1] = bound
    return taken


@njit(cache=True, nogil=True)
def _encode(places, table, words, radix, body):  # type: ignore[no-untyped-def]
    groups, count = places.shape
    limbs = table.shape[2]
    rank = np.zeros(limbs + 1, dtype=np.uint64)
    number, bound, at = _NONE, _ONE, 0
    for group in range(groups):
        rank[:] = _NONE
        for j in range(count):
            row = table[j, places[group, j] - j]
            for limb in range(limbs):
                rank[limb] += np.uint64(row[limb])
        carry = _NONE
        for limb in range(limbs):
            carry += rank[limb]
            rank[limb] = carry & _LIMB_BITS
            carry >>= _LIMB
        for word in range(words):
            at = _append(body, at, rank[word >> 1] >> (_WORD * np.uint64(word & 1)))
        first, shift = words >> 1, _WORD * np.uint64(words & 1)
        number = number * radix + ((rank[first] | (rank[first + 1] << _LIMB)) >> shift)
        bound *= radix
        while bound > _MOST:
            at = _append(body, at, number)
            number >>= _WORD
            bound = (bound + _WORD_BITS) >> _WORD
    return number


@njit(inline="always")
def _exceeds(table, j, g, rank, limb):  # type: ignore[no-untyped-def]
    while limb > 0 and table[j, g, limb] == rank[limb]:
        limb -= 1
    return table[j, g, limb] > rank[limb]


@njit(inline="always")
def _take_back(table, rank, places):  # type: ignore[no-untyped-def]
    """Fill in the places of a rank; return whether it is none."""
    count, spread, limbs = table.shape
    high, limb = spread - 1, limbs - 1
    for j in range(count - 1, -1, -1):
        # Find the last entry up to ``high`` that the rank does not fall short of.
        while limb > 0 and table[j, high, limb] == 0 and rank[limb] == 0:
            limb -= 1
        above, low, step = high + 1, high, high // (2 * j + 2) + 1
        while low > 0 and _exceeds(table, j, low, rank, limb):
            above = low
            low = max(0, low - step)
        while above - low > 1:
            middle = (above + low) >> 1
            if _exceeds(table, j, middle, rank, limb):
                above = middle
            else:
                low = middle
        places[j] = low + j
        borrow = np.int64(0)
        for each in range(limb + 1):
            left = np.int64(rank[each]) - np.int64(table[j, low, each]) + borrow
            rank[each] = np.uint32(left & 0xFFFFFFFF)
            borrow = left >> 32
        high = low
    rest = np.uint32(0)
    for each in range(limbs):
        rest |= rank[each]
    return rest != 0


@njit(cache=True, nogil=True)
def _decode(body, number, at, table, words, radix, bounds, places):  # type: ignore[no-untyped-def]
    """Fill in ``places``; return whether the body is no encoder's."""
    rank = np.zeros(table.shape[2] + 1, dtype=np.uint32)
    for group in range(len(places) - 1, -1, -1):
        full = bounds[group] * radix
        bound = full
        while bound > _MOST:
            at -= 2
            number = (number << _WORD) | _word(body, at)
            bound = (bound + _WORD_BITS) >> _WORD
        if number >= full:
            return True
        rank[:] = np.uint32(0)
        first, shift = words >> 1, _WORD * np.uint64(words & 1)
        top = (number % radix) << shift
        number //= radix
        rank[first], rank[first + 1] = np.uint32(top & _LIMB_BITS), np.uint32(top >> _LIMB)
        for word in range(words - 1, -1, -1):
            at -= 2
            rank[word >> 1] |= np.uint32(_word(body, at) << (_WORD * np.uint64(word & 1)))
        if _take_back(table, rank, places[group]):
            return True
    return False


def table_of(count: int, places: int, choices: int) -> Ranks:
    """Return the table for ranks below ``choices``, which is C(places, count).

    >>> ranks = table_of(2, 4, 6)
    >>> ranks.table[:, :, 0].tolist(), ranks.words, ranks.radix  # C(i, 1), C(i + 1, 2)
    ([[0, 1, 2], [0, 1, 3]], 0, 6)
    """
    bits = (choices - 1).bit_length()
    table = np.zeros((count, places - count + 1, -(-bits // 32)), dtype=np.uint32)
    _add_up(table)
    words = max(0, bits // 16 - 1)
    return Ranks(count, places, table, words, ((choices - 1) >> 16 * words) + 1)


def ranks_bytes(ranks: Ranks, groups: int) -> int:
    """Return the bytes of so many groups."""
    bounds, taken = _laid_out(ranks, groups)
    return 2 * (groups * ranks.words + taken) + _rest_bytes(bounds)


def encode_ranks(indices: NDArray[np.int64], ranks: Ranks) -> bytes:
    """Return the code of places ``[groups, count]``, ascending in each.

    >>> encode_ranks(np.array([[1, 3], [0, 1]]), table_of(2, 4, 6)).hex()  # (1 + 3) 6 + 0
    '18'
    """
    bounds, taken = _laid_out(ranks, len(indices))
    body = np.empty(2 * (len(indices) * ranks.words + taken), dtype=np.uint8)
    number = _encode(indices, ranks.table, ranks.words, np.uint64(ranks.radix), body)
    return body.tobytes() + int(number).to_bytes(_rest_bytes(bounds), "little")


def decode_ranks(
    body: NDArray[np.uint8], ranks: Ranks, groups: int
) -> tuple[NDArray[np.int64], int] | None:
    """Return places ``[groups, count]`` and the bytes that they took; None if there are none.

    >>> decode_ranks(np.array([0x18], np.uint8), table_of(2, 4, 6), 2)
    (array([[1, 3],
           [0, 1]]), 1)
    """
    if groups > 8 * len(body) + 8:  # of two choices at least, a bit each
        return None
    bounds, taken = _laid_out(ranks, groups)
    words = 2 * (groups * ranks.words + taken)
    size = words + _rest_bytes(bounds)
    if size > len(body):
        return None
    number = int.from_bytes(body[words:size].tobytes(), "little")
    if number >= int(bounds[-1]):
        return None
    places = np.empty((groups, ranks.taken), dtype=np.int64)
    wrong = _decode(
        body,
        np.uint64(number),
        words,
        ranks.table,
        ranks.words,
        np.uint64(ranks.radix),
        bounds,
        places,
    )
    return None if wrong else (places, size)


def _laid_out(ranks: Ranks, groups: int) -> tuple[NDArray[np.uint64], int]:
    bounds = np.empty(groups + 1, dtype=np.uint64)
    return bounds, int(_bounds(np.uint64(ranks.radix), bounds))


def _rest_bytes(bounds: NDArray[np.uint64]) -> int:
    return -(-(int(bounds[-1]) - 1).bit_length() // 8)
