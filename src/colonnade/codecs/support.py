"""Which k of n places are taken, in as few bytes as information theory asks.

Four codes, told by the first byte. All places need nothing more. Where log2 C(n, k) is at most 512
the choice is numbered, in that many bits. Of *groups* each has as many of its own places, such as
rows of a message; there each group's choice is numbered. Elsewhere gaps are coded, of places taken
or of those that are not, whichever are fewer: n h(k/n) bits, where h is the entropy of a bit. About
as many taken as not are a bitmap.

None of these hangs on which places are taken: no support takes more than 3 % and two bytes above
log2 C(n, k) bits. No place is not foreseen. The bits that fill up the last byte of a bitmap are
zero.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RemoteProtocolError
from colonnade.kernels.gaps import decode_gaps, encode_gaps, gaps_bytes_at_most
from colonnade.kernels.ranks import Ranks, decode_ranks, encode_ranks, ranks_bytes, table_of

__all__ = ["decode_support", "encode_support", "support_bytes_at_most"]

_ALL, _RANKS, _GAPS, _BITMAP = range(4)
_MOST_BITS = 512
_MOST_ENTRIES = 2**19  # limbs of a table of ranks


def encode_support(indices: NDArray[np.int64], places: int, groups: int = 1) -> bytes:
    """Return the code of sorted ``indices``, all different and below ``places``.

    Parameters
    ----------
    indices
        The places that are taken, of each group as many.
    places
        How many there are, of all groups together.
    groups
        How many groups of equally many places there are, one after another.

    Examples
    --------
    >>> encode_support(np.array([5, 900, 1000]), places=1024).hex()
    '0123aeed09'
    >>> encode_support(np.array([1, 2, 4, 7]), places=8, groups=4).hex()  # one of two, four times
    '0109'
    """
    count = len(indices)
    if count == places:
        return bytes([_ALL])
    ranks = _ranks(count // groups, places // groups)
    if ranks is not None:
        firsts = np.arange(groups)[:, None] * ranks.places
        return bytes([_RANKS]) + encode_ranks(indices.reshape(groups, -1) - firsts, ranks)
    if not _balanced(count, places):
        coded = encode_gaps(_fewer(indices, places), places)
        if len(coded) < -(-places // 8):
            return bytes([_GAPS]) + coded
    taken = np.zeros(places, dtype=np.uint8)
    taken[indices] = 1
    return bytes([_BITMAP]) + np.packbits(taken, bitorder="little").tobytes()


def decode_support(
    body: memoryview, count: int, places: int, groups: int = 1
) -> tuple[NDArray[np.int64] | None, int]:
    """Return ``count`` sorted indices below ``places``, and how many bytes of ``body`` they took.

    Where all places are taken there are no indices: what their number promises may be too much.

    Raises
    ------
    RemoteProtocolError
        If the bytes are no such support, or a group has more places than another. Nothing is
        allocated beyond what the bytes can hold, and the places.
    """
    if not body:
        raise RemoteProtocolError("a sparse body is empty")
    code, rest = body[0], np.frombuffer(body[1:], dtype=np.uint8)
    if code > _BITMAP:
        raise _wrong(f"there is no code {code}")
    if (code == _ALL) != (count == places):
        raise _wrong(f"it is not of {count} of {places} places")
    if code == _ALL:
        return None, 1
    ranks = _ranks(count // groups, places // groups)
    if (code == _RANKS) != (ranks is not None):
        raise _wrong(f"{count} of {places} places have another code")
    if ranks is not None:
        found = decode_ranks(rest, ranks, groups)
        if found is None:
            raise _wrong("its bytes are the number of no choice")
        firsts = np.arange(groups)[:, None] * ranks.places
        return (found[0] + firsts).reshape(-1), 1 + found[1]
    indices, size = _listed(rest, count, places) if code == _GAPS else _mapped(rest, count, places)
    if groups > 1 and (indices.reshape(groups, -1) * groups // places != _numbers(groups)).any():
        raise _wrong("it takes more places of one group than of others")
    return indices, 1 + size


def support_bytes_at_most(count: int, places: int, groups: int = 1) -> int:
    """Return the largest number of bytes that the code of any such support takes."""
    if count == places:
        return 1
    ranks = _ranks(count // groups, places // groups)
    if ranks is not None:
        return 1 + ranks_bytes(ranks, groups)
    mapped = -(-places // 8)
    if _balanced(count, places):
        return 1 + mapped
    return 1 + min(mapped, gaps_bytes_at_most(min(count, places - count), places))


@lru_cache(maxsize=16)
def _ranks(count: int, places: int) -> Ranks | None:
    """Return the table of choices, unless it or their number is too large."""
    entries = count * (places - count + 1)
    if entries > _MOST_ENTRIES:
        return None
    choices = math.comb(places, count)
    bits = (choices - 1).bit_length()
    if bits > _MOST_BITS or entries * -(-bits // 32) > _MOST_ENTRIES:
        return None
    return table_of(count, places, choices)


def _balanced(count: int, places: int) -> bool:
    """Return whether a bitmap takes 1.2 % more than the entropy at most: so there is no search."""
    return 16 * abs(2 * count - places) < 2 * places


def _fewer(indices: NDArray[np.int64], places: int) -> NDArray[np.int64]:
    """Return the places taken, or those that are not: whichever are fewer."""
    if 2 * len(indices) <= places:
        return indices
    left = np.ones(places, dtype=np.bool_)
    left[indices] = False
    return np.flatnonzero(left)


def _listed(rest: NDArray[np.uint8], count: int, places: int) -> tuple[NDArray[np.int64], int]:
    """Return what gaps say."""
    found = decode_gaps(rest[:places], min(count, places - count), places)
    if found is None:
        raise _wrong("its gaps are no encoder's")
    indices, size = found
    if 2 * count > places:
        left = np.ones(places, dtype=np.bool_)
        left[indices] = False
        indices = np.flatnonzero(left)
    return indices, size


def _mapped(rest: NDArray[np.uint8], count: int, places: int) -> tuple[NDArray[np.int64], int]:
    """Return what a bitmap says."""
    size = -(-places // 8)
    if size > len(rest):
        raise _wrong(f"{len(rest)} bytes are no bitmap of {places} places")
    if places % 8 and rest[size - 1] >> places % 8:
        raise _wrong("the bits that fill up its last byte are not zero")
    indices = np.flatnonzero(np.unpackbits(rest[:size], count=places, bitorder="little"))
    if len(indices) != count:
        raise _wrong(f"it takes {len(indices)} places in place of {count}")
    return indices, size


def _numbers(groups: int) -> NDArray[np.int64]:
    return np.arange(groups)[:, None]


def _wrong(why: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"the support of a sparse body is wrong: {why}")
