"""Arithmetic modulo 2^31 - 1 and 2^61 - 1, primes of Mersenne's form.

2^b is 1 modulo 2^b - 1, so a number is reduced by adding what is above its lowest b bits to these:
*folding*, without a division. Three products of elements below 2^31 and one folded number are less
than 2^64, so sums are folded after every third product. Elements below 2^61 are multiplied in
halves.

The type of elements tells the prime: ``uint32`` is 2^31 - 1, ``uint64`` is 2^61 - 1. Elements are
less than the prime.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["PRIMES", "Elements", "products"]

Elements: TypeAlias = NDArray[Any]
"""Of ``uint32`` or ``uint64``."""

PRIMES = {np.dtype(np.uint32): 2**31 - 1, np.dtype(np.uint64): 2**61 - 1}
_SMALL, _LARGE = np.uint64(2**31 - 1), np.uint64(2**61 - 1)
_COLUMNS = 1024  # that are summed at a time: they stay in the fastest cache


@njit(cache=True, nogil=True)
def _products_31(a, b, result):  # type: ignore[no-untyped-def]  # numba infers the types
    bits = np.uint64(31)
    total = np.empty((2, _COLUMNS), dtype=np.uint64)
    rows, inner, columns = a.shape[0], a.shape[1], b.shape[1]
    for start in range(0, columns, _COLUMNS):
        width = min(_COLUMNS, columns - start)
        for i in range(0, rows, 2):
            other = min(i + 1, rows - 1)  # the last row of an odd number is done twice
            one, two = total[0, :width], total[1, :width]
            one[:] = np.uint64(0)
            two[:] = np.uint64(0)
            for k in range(0, inner - 2, 3):
                p, q, r = np.uint64(a[i, k]), np.uint64(a[i, k + 1]), np.uint64(a[i, k + 2])
                s, t, u = (
                    np.uint64(a[other, k]),
                    np.uint64(a[other, k + 1]),
                    np.uint64(a[other, k + 2]),
                )
                x = b[k, start : start + width]
                y = b[k + 1, start : start + width]
                z = b[k + 2, start : start + width]
                for j in range(width):
                    first, second, third = np.uint64(x[j]), np.uint64(y[j]), np.uint64(z[j])
                    v = one[j] + p * first + q * second + r * third
                    one[j] = (v & _SMALL) + (v >> bits)
                    v = two[j] + s * first + t * second + u * third
                    two[j] = (v & _SMALL) + (v >> bits)
            for k in range(inner - inner % 3, inner):
                p, s = np.uint64(a[i, k]), np.uint64(a[other, k])
                x = b[k, start : start + width]
                for j in range(width):
                    v = one[j] + p * np.uint64(x[j])
                    one[j] = (v & _SMALL) + (v >> bits)
                    v = two[j] + s * np.uint64(x[j])
                    two[j] = (v & _SMALL) + (v >> bits)
            for row, summed in ((i, one), (other, two)):
                for j in range(width):
                    v = (summed[j] & _SMALL) + (summed[j] >> bits)
                    v = (v & _SMALL) + (v >> bits)
                    result[row, start + j] = np.uint32(v - _SMALL if v >= _SMALL else v)


@njit(inline="always")
def _product_61(a, b):  # type: ignore[no-untyped-def]
    # a = ah 2^31 + al, b alike: ah bh 2^62 + (ah bl + al bh) 2^31 + al bl, where 2^61 is 1.
    half, low = np.uint64(31), np.uint64(2**31 - 1)
    ah, al, bh, bl = a >> half, a & low, b >> half, b & low
    middle = ah * bl + al * bh  # less than 2^62
    above, below = middle >> np.uint64(30), middle & np.uint64(2**30 - 1)
    total = ((ah * bh) << np.uint64(1)) + above + (below << half) + al * bl
    return (total & _LARGE) + (total >> np.uint64(61))


@njit(cache=True, nogil=True)
def _products_61(a, b, result):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                v = result[i, j] + _product_61(a[i, k], b[k, j])
                v = (v & _LARGE) + (v >> np.uint64(61))
                result[i, j] = v - _LARGE if v >= _LARGE else v


def products(a: Elements, b: Elements) -> Elements:
    """Return the matrix product ``[n, m]`` of ``[n, k]`` and ``[k, m]``.

    >>> half, two = np.array([[2**30]], np.uint32), np.array([[2]], np.uint32)
    >>> products(half, two).tolist()  # 2^31 is 1
    [[1]]
    """
    if a.dtype == np.uint32:
        small = np.empty((a.shape[0], b.shape[1]), dtype=np.uint32)
        _products_31(np.ascontiguousarray(a), np.ascontiguousarray(b), small)
        return small
    large = np.zeros((a.shape[0], b.shape[1]), dtype=np.uint64)
    _products_61(np.ascontiguousarray(a), np.ascontiguousarray(b), large)
    return large
