"""Products of matrices over GF(2^8), the field of 256 elements, a byte each.

An element is a polynomial over GF(2), its bits the coefficients, modulo x^8 + x^4 + x^3 + x + 1,
as in AES. To add is to xor. Eight elements at a time are doubled in a word of 64 bits, and a
product is the xor of those doublings that the bits of its weight tell. So what is secret, the
elements, never is an index or decides a branch: unlike with tables, time tells nothing of it.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["inverse", "product", "products"]

_LOWER, _HIGHEST = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)


@njit(cache=True, nogil=True)
def _products(weights, rows, result):  # type: ignore[no-untyped-def]  # numba infers the types
    # ``result`` is zeros.
    doubled = np.empty((8, rows.shape[1]), dtype=np.uint64)
    for k in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            word = rows[k, j]
            doubled[0, j] = word
            for bit in range(1, 8):
                high = (word & _HIGHEST) >> np.uint64(7)
                word = (word & _LOWER) << np.uint64(1)
                word ^= high ^ high << np.uint64(1) ^ high << np.uint64(3) ^ high << np.uint64(4)
                doubled[bit, j] = word
        for i in range(weights.shape[0]):
            for bit in range(8):
                if (weights[i, k] >> bit) & 1:
                    for j in range(rows.shape[1]):
                        result[i, j] ^= doubled[bit, j]


def products(weights: NDArray[np.uint8], rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the matrix product; weights decide branches and are not secret, rows may be.

    >>> products(np.array([[2, 1]], np.uint8), np.array([[0x80, 3], [1, 1]], np.uint8)).tolist()
    [[26, 7]]
    """
    size = rows.shape[1]
    padded = np.zeros((len(rows), -(-size // 8) * 8), dtype=np.uint8)
    padded[:, :size] = rows
    result = np.zeros((len(weights), padded.shape[1]), dtype=np.uint8)
    _products(weights, padded.view(np.uint64), result.view(np.uint64))
    return result[:, :size]


def _powers_of_three() -> tuple[list[int], list[int]]:
    """Return the powers of 3, which are all elements but 0, twice over, and their logarithms."""
    powers, logarithms, power = [], [0] * 256, 1
    for exponent in range(255):
        powers.append(power)
        logarithms[power] = exponent
        power ^= power << 1 ^ (0x11B if power & 0x80 else 0)
    return powers * 2, logarithms


_POWERS, _LOGARITHMS = _powers_of_three()


def product(a: int, b: int) -> int:
    """Return the product of two elements that are not secret: they are indices.

    >>> hex(product(0x57, 0x83))  # the example of FIPS 197
    '0xc1'
    """
    return _POWERS[_LOGARITHMS[a] + _LOGARITHMS[b]] if a and b else 0


def inverse(a: int) -> int:
    """Return the element whose product with ``a``, which is not secret nor zero, is 1.

    >>> product(0x53, inverse(0x53))
    1
    """
    return _POWERS[255 - _LOGARITHMS[a]]
