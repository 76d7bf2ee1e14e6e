"""The product of two small factors, added up in one order on every machine."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["multiply"]


@njit(cache=True, nogil=True)
def _multiply(left, right, product):  # type: ignore[no-untyped-def]  # numba infers the types
    for row in range(left.shape[0]):
        for inner in range(left.shape[1]):
            factor = left[row, inner]
            for column in range(right.shape[1]):
                product[row, column] += factor * right[inner, column]


def multiply(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``left @ right`` in float32, rounded after each product and each sum.

    A library's product may add up in another order, or without rounding the products, elsewhere.
    """
    product = np.zeros((left.shape[0], right.shape[1]), dtype=np.float32)
    _multiply(np.ascontiguousarray(left), np.ascontiguousarray(right), product)
    return product
