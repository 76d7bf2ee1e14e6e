"""Binomial draws, exact for every chance of 32 binary digits, from a source of random bytes.

A draw of b trials is b coins that fall with chance p. A coin is a lane, one bit of a word. Write p
in binary and throw fair bits for each lane, the most significant digit first: while a lane's bits
equal p's digits it is undecided; at the first that differs it is a success if p's digit is 1 (what
was thrown is below p), else a failure. All lanes of a word go on at once, with a handful of logical
operations a digit::

    success |= open & digit & ~bits        open &= ~(bits ^ digit)        digit: all ones, or none

A lane stays open with chance 1/2 a digit. After six digits one in 64 is, and which ones no longer
matters: each open lane of a draw takes 32 bits and compares them with the digits of p that are
left, 32 - 6 of them and then zeros. So P(success) = p to the last digit, nothing is rounded and
nothing rejected, and a draw takes 6.5 random bits a trial (8-bit words of fewer trials waste some).

Draws go through in blocks of 1024, which stay in the first-level cache, in loops that vectorise:
words of 8 or 16 trials lie side by side in 64-bit words. More than 64 trials are added up from
words of 64 and one that holds the rest. Random bytes are asked for as many as are needed, about
200 kB at a time, so they stay in the second-level cache.

Bytes are taken for words where they lie, so hosts are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["DIGITS", "HALF", "binomial", "chances"]

DIGITS = 32  # of a chance
HALF = np.uint32(1 << (DIGITS - 1))
_TOGETHER = 6  # digits that all lanes compare; measured: 5 and 8 are slower
_BLOCK = 1024
_CHUNK = 32 * _BLOCK  # bytes of lanes of a chunk of draws
_WORDS = (np.uint8, np.uint16, np.uint32, np.uint64)

_ONES = tuple(np.uint64(n) for n in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
_BYTES, _HALVES = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_LOW = np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _chances(x, scale, limit, result):  # type: ignore[no-untyped-def]  # numba infers the types
    for i in range(len(x)):
        away = np.int64(min(abs(np.float64(x[i])) * scale, limit))
        result[i] = np.uint32(HALF + away) if x[i] > 0 else np.uint32(HALF - away)


@njit(inline="always")
def _counted(x, bits):  # type: ignore[no-untyped-def]
    # The ones of each word of so many bits, side by side in 64.
    x = x - ((x >> np.uint64(1)) & _ONES[0])
    x = (x & _ONES[1]) + ((x >> np.uint64(2)) & _ONES[1])
    x = (x + (x >> np.uint64(4))) & _ONES[2]
    if bits >= 16:
        x = (x & _BYTES) + ((x >> np.uint64(8)) & _BYTES)
    if bits >= 32:
        x = (x & _HALVES) + ((x >> np.uint64(16)) & _HALVES)
    if bits == 64:
        x = (x + (x >> np.uint64(32))) & _LOW
    return x


def _make(word: Any) -> Callable[..., Any]:
    """Return the kernel for lanes in words of a type."""
    bits = np.dtype(word).itemsize * 8
    none, every = word(0), word(2**bits - 1)
    size = _BLOCK * bits // 64

    @njit(cache=True, nogil=True)
    def together(chance, random, lanes, counts, still, where):  # type: ignore[no-untyped-def]
        # Add the successes to ``counts``; ``still`` is how many lanes of a draw are open, ``where``
        # which draws have any. Return how many draws those are, and how many lanes.
        top = np.zeros(_BLOCK, dtype=word)
        masks = np.empty(_TOGETHER * _BLOCK, dtype=word)
        digits = masks.view(np.uint64)
        won = np.empty(_BLOCK, dtype=word)
        won_words = won.view(np.uint64)
        left = np.empty(_BLOCK, dtype=word)
        left_words = left.view(np.uint64)
        found = lanes_left = 0
        for block in range((len(chance) + _BLOCK - 1) // _BLOCK):
            start = block * _BLOCK
            p = chance[start : start + _BLOCK]
            for i in range(len(p)):
                top[i] = word(p[i] >> np.uint32(DIGITS - _TOGETHER))
            for digit in range(_TOGETHER):
                mask = masks[digit * _BLOCK : (digit + 1) * _BLOCK]
                bit = word(1 << (_TOGETHER - 1 - digit))
                for i in range(_BLOCK):
                    mask[i] = every if (top[i] & bit) != 0 else none
            thrown = random[block * _TOGETHER * size : (block + 1) * _TOGETHER * size]
            for j in range(size):
                undecided, success = lanes, np.uint64(0)
                for digit in range(_TOGETHER):
                    throw, mask_word = thrown[digit * size + j], digits[digit * size + j]
                    success |= undecided & mask_word & ~throw
                    undecided &= ~(throw ^ mask_word)
                won_words[j] = _counted(success, bits)
                left_words[j] = _counted(undecided, bits)
            count, rest = counts[start : start + _BLOCK], still[start : start + _BLOCK]
            for i in range(len(p)):
                count[i] += np.uint16(won[i])
                rest[i] = np.uint8(left[i])
            for i in range(len(p)):
                lanes_left += rest[i]
            for i in range(len(p)):
                where[found] = start + i
                found += rest[i] != 0
        return found, lanes_left

    return together


@njit(cache=True, nogil=True)
def _one_by_one(chance, where, still, random, counts):  # type: ignore[no-untyped-def]
    # A lane of every draw in turn, and draws with none left drop out: without a branch to predict.
    at, found = 0, len(where)
    while found > 0:
        kept = 0
        for i in range(found):
            draw = where[i]
            rest = np.uint32(chance[draw] << np.uint32(_TOGETHER))
            counts[draw] += np.uint16(random[at + i] < rest)
            still[draw] -= np.uint8(1)
            where[kept] = draw
            kept += still[draw] != 0
        at += found
        found = kept


@cache
def _kernel(word: Any) -> Callable[..., Any]:
    return _make(word)


def chances(x: NDArray[np.float32], scale: float, limit: float) -> NDArray[np.uint32]:
    """Return 2^31 + x scale, rounded towards 2^31 and no further from it than ``limit``.

    ``limit`` is at most 2^31 - 1.

    >>> chances(np.array([0.5, -0.5, 1.0], np.float32), 3.0, 2.0) - HALF
    array([         1, 4294967295,          2], dtype=uint32)
    """
    result = np.empty(len(x), dtype=np.uint32)
    _chances(x, scale, limit, result)
    return result


def binomial(
    chance: NDArray[np.uint32], trials: int, fill: Callable[[NDArray[Any]], None]
) -> NDArray[np.uint16]:
    """Return a draw of Binomial(trials, chance / 2^32) for each chance.

    Parameters
    ----------
    chance
        A flat array.
    trials
        1 to 65535.
    fill
        Overwrites a contiguous array with random bytes.
    """
    counts = np.zeros(len(chance), dtype=np.uint16)
    for word, lanes, passes in _passes(trials):
        width = np.dtype(word).itemsize
        together, chunk = _kernel(word), _CHUNK // width
        blocks = -(-min(chunk, len(chance)) // _BLOCK)
        random = np.empty(blocks * _BLOCK * width * _TOGETHER // 8, dtype=np.uint64)
        still = np.empty(blocks * _BLOCK, dtype=np.uint8)
        where = np.empty(blocks * _BLOCK + 1, dtype=np.int32)
        for start in range(0, len(chance), chunk):
            p, sums = chance[start : start + chunk], counts[start : start + chunk]
            words = random[: -(-len(p) // _BLOCK) * _BLOCK * width * _TOGETHER // 8]
            for _ in range(passes):
                fill(words)
                found, left = together(p, words, lanes, sums, still, where)
                rest = random.view(np.uint32)[:left]
                if left > len(rest):
                    rest = np.empty(left, dtype=np.uint32)
                fill(rest)
                _one_by_one(p, where[:found], still, rest, sums)
    return counts


def _passes(trials: int) -> list[tuple[Any, np.uint64, int]]:
    """Return in which words, with which of their bits, and how often lanes are thrown."""
    whole, rest = divmod(trials, 64)
    passes: list[tuple[Any, np.uint64, int]] = []
    if whole:
        passes.append((np.uint64, np.uint64(2**64 - 1), whole))
    if rest:
        word = next(word for word in _WORDS if np.dtype(word).itemsize * 8 >= rest)
        bits = np.dtype(word).itemsize * 8
        lanes = sum((2**rest - 1) << at for at in range(0, 64, bits))
        passes.append((word, np.uint64(lanes), 1))
    return passes
