"""Shuffles: an order that only its owner knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.secure.keystream import Keystream

__all__ = ["shuffle"]


def shuffle(count: int, stream: Keystream) -> NDArray[np.int64]:
    """Return the numbers from 0 to ``count`` - 1 in an order drawn from a keystream.

    Each order is as likely as any other but where two of ``count`` draws of 64 bits are equal,
    which happens to 10^8 numbers once in 3000 times; then these two keep theirs.

    >>> shuffle(5, Keystream(bytes(16)))
    array([1, 0, 3, 2, 4])
    """
    draws = np.empty(count, dtype=np.uint64)
    if count:
        stream.fill(draws)
    return np.argsort(draws, kind="stable").astype(np.int64)
