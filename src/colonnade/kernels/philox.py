"""Philox4x32-10, a counter-based generator: word i of a stream is a pure function of (key, i).

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A block of
four 32-bit words is a counter of 128 bits, mixed ten times with a key of 64 bits. Here the lower
half of the counter is the number of the block, the upper half and the key come from a
``StreamKey``. Words are kept in 64-bit registers: that is what the multiplication wants, and it
lets the compiler work on several blocks at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from colonnade.streams import StreamKey

__all__ = ["permutation", "philox_block", "uniform_words"]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@njit(inline="always")
def philox_block(block, upper, key):  # type: ignore[no-untyped-def]  # numba infers the types
    """Return the four words of a block; all arguments and results are uint64."""
    c0, c1 = block & _LOW, block >> _HALF
    c2, c3 = upper & _LOW, upper >> _HALF
    k0, k1 = key & _LOW, key >> _HALF
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@njit(cache=True, nogil=True)
def _fill(words, upper, key):  # type: ignore[no-untyped-def]
    for index in range(0, len(words), 2):
        r0, r1, r2, r3 = philox_block(np.uint64(index >> 1), upper, key)
        words[index] = r0 | (r1 << _HALF)
        if index + 1 < len(words):
            words[index + 1] = r2 | (r3 << _HALF)


def uniform_words(key: StreamKey, count: int) -> NDArray[np.uint64]:
    """Return the first ``count`` 64-bit words of a stream, each uniform.

    >>> from colonnade.streams import StreamKey
    >>> key = StreamKey(seed=1, origin="bank", purpose="example", round=0)
    >>> bool((uniform_words(key, 5)[:3] == uniform_words(key, 3)).all())
    True
    """
    words = np.empty(count, dtype=np.uint64)
    philox, upper = key.words()
    _fill(words, np.uint64(upper), np.uint64(philox))
    return words


def permutation(key: StreamKey, count: int) -> NDArray[np.int64]:
    """Return a random order of ``0 ... count - 1``: the ranks of random words.

    Two words tie with probability below count^2 / 2^65, and then keep their order, so the result
    is the same on every machine and with every version of numpy.

    >>> from colonnade.streams import StreamKey
    >>> order = permutation(StreamKey(seed=1, origin="", purpose="example", round=0), 5)
    >>> sorted(order.tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(uniform_words(key, count), kind="stable").astype(np.int64, copy=False)
