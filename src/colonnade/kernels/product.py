"""K-means: a few centroids for many points, and the nearest of them for each point.

Points are the columns of a matrix ``[width, count]`` of float32, so that one instruction handles
several points; they come scaled to magnitudes of about 1, whose squares are safe. Pieces of them
stay in the first-level cache while all centroids pass by, two at a time and four components at a
time; this beats a matrix product, whose distances must be read again for their minima. Of points
too wide for any cache a piece is a few, so that no copy is larger than 8 MiB or that many points.

Squares are (x - c)^2 in float32, 0 for equal vectors, and means are sums in double precision, in
the order written: every machine finds the same centroids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["lloyd", "nearest", "seeds"]

_PIECE = 512
_WIDE, _FEW = 4096, 8  # beyond this width, so many points are a piece
_NONE = np.uint16(65535)


@njit(inline="always")
def _copy(source, target):  # type: ignore[no-untyped-def]
    # An assignment of arrays compiles the words in which it refuses shapes, for seconds.
    for i in range(len(source)):
        target[i] = source[i]


@njit(cache=True, nogil=True)
def _padded(centroids):  # type: ignore[no-untyped-def]
    # To an even number, by the last one again, which never is nearer; and to fours of components.
    count, width = centroids.shape
    even = np.zeros((count + count % 2, width + -width % 4), dtype=np.float32)
    for k in range(len(even)):
        _copy(centroids[min(k, count - 1)], even[k])
    return even


def _make(piece: int) -> Callable[..., Any]:
    """Return the kernel below; ``piece`` is a constant to the compiler, or loops are slower."""

    @njit(cache=True, nogil=True)
    def nearest_of(points, centroids, codes, squares):  # type: ignore[no-untyped-def]
        width, count = points.shape
        centroids = _padded(centroids)
        wide = centroids.shape[1]
        x = np.zeros((wide, piece), dtype=np.float32)
        one, two = np.zeros(piece, dtype=np.float32), np.zeros(piece, dtype=np.float32)
        best, code = np.empty(piece, dtype=np.float32), np.empty(piece, dtype=np.int32)
        changed = False
        for start in range(0, count, piece):
            size = min(piece, count - start)
            for j in range(width):
                _copy(points[j, start : start + size], x[j])
            best[:] = np.inf
            code[:] = 0
            for k in range(0, len(centroids), 2):
                first, second = np.int32(k), np.int32(k + 1)
                if wide > 4:
                    one[:], two[:] = 0, 0
                for j in range(0, wide, 4):
                    x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
                    p, q = centroids[k, j:], centroids[k + 1, j:]
                    a0, a1, a2, a3 = p[0], p[1], p[2], p[3]
                    b0, b1, b2, b3 = q[0], q[1], q[2], q[3]
                    if j + 4 < wide:
                        for i in range(piece):
                            y0, y1, y2, y3 = x0[i], x1[i], x2[i], x3[i]
                            one[i] += (
                                (y0 - a0) ** 2 + (y1 - a1) ** 2 + (y2 - a2) ** 2 + (y3 - a3) ** 2
                            )
                            two[i] += (
                                (y0 - b0) ** 2 + (y1 - b1) ** 2 + (y2 - b2) ** 2 + (y3 - b3) ** 2
                            )
                        continue
                    for i in range(piece):
                        y0, y1, y2, y3 = x0[i], x1[i], x2[i], x3[i]
                        a = (
                            (y0 - a0) ** 2
                            + (y1 - a1) ** 2
                            + (y2 - a2) ** 2
                            + (y3 - a3) ** 2
                            + one[i]
                        )
                        b = (
                            (y0 - b0) ** 2
                            + (y1 - b1) ** 2
                            + (y2 - b2) ** 2
                            + (y3 - b3) ** 2
                            + two[i]
                        )
                        nearer = b if b < a else a
                        which = second if b < a else first
                        old, square = code[i], best[i]
                        code[i] = which if nearer < square else old
                        best[i] = nearer if nearer < square else square
            for i in range(size):
                changed |= codes[start + i] != code[i]
                codes[start + i], squares[start + i] = code[i], best[i]
        return changed

    return nearest_of


_IN_PIECES, _BY_A_FEW = _make(_PIECE), _make(_FEW)


@njit(cache=True, nogil=True)
def _nearest(points, centroids, codes, squares):  # type: ignore[no-untyped-def]
    """Write the nearest centroid of each point, the first of several; return whether any is new."""
    if len(points) > _WIDE:
        return _BY_A_FEW(points, centroids, codes, squares)
    return _IN_PIECES(points, centroids, codes, squares)


@njit(cache=True, nogil=True)
def _closer(points, chosen, squares):  # type: ignore[no-untyped-def]
    """Lower ``squares`` to the distance from the chosen point, where that is less; return the sum.

    The chosen point's own becomes 0.
    """
    width, count = points.shape
    square = np.empty(_PIECE, dtype=np.float32)
    total = 0.0
    for start in range(0, count, _PIECE):
        size = min(_PIECE, count - start)
        square[:] = 0
        for j in range(width):
            x, centre = points[j, start : start + size], points[j, chosen]
            for i in range(size):
                square[i] += (x[i] - centre) ** 2
        for i in range(size):
            squares[start + i] = min(squares[start + i], square[i])
            total += squares[start + i]
    return total


@njit(cache=True, nogil=True)
def _drawn(squares, share):  # type: ignore[no-untyped-def]
    """Return the point at which the running sum passes ``share``; never one whose square is 0."""
    last, total = 0, 0.0
    for n in range(len(squares)):
        if squares[n] > 0:
            last = n
            total += squares[n]
            if total > share:
                break
    return last


@njit(cache=True, nogil=True)
def _seeds(points, uniform, centroids):  # type: ignore[no-untyped-def]
    squares = np.full(points.shape[1], np.inf, dtype=np.float32)
    chosen, total = int(uniform[0] * points.shape[1]), 0.0
    for k in range(len(centroids)):
        if k:
            chosen = _drawn(squares, uniform[k] * total)
        _copy(points[:, chosen], centroids[k])
        total = _closer(points, chosen, squares)
        if total == 0:
            for rest in range(k + 1, len(centroids)):
                _copy(points[:, chosen], centroids[rest])
            break


@njit(cache=True, nogil=True)
def _fill(points, codes, squares, centroids):  # type: ignore[no-untyped-def]
    """Put centroids of no point where the farthest points are; return whether there were any."""
    used = np.zeros(len(centroids), dtype=np.bool_)
    for code in codes:
        used[code] = True
    filled = False
    for k in range(len(centroids)):
        if not used[k]:
            farthest = np.argmax(squares)
            if squares[farthest] == 0:
                break
            _copy(points[:, farthest], centroids[k])
            _closer(points, farthest, squares)
            filled = True
    return filled


@njit(cache=True, nogil=True)
def _means(points, codes, centroids):  # type: ignore[no-untyped-def]
    sums = np.zeros(centroids.shape, dtype=np.float64)
    counts = np.zeros(len(centroids), dtype=np.int64)
    for code in codes:
        counts[code] += 1
    for j in range(len(points)):
        x = points[j]
        for n in range(len(codes)):
            sums[codes[n], j] += x[n]
    for k in range(len(centroids)):
        if counts[k]:
            for j in range(len(points)):
                centroids[k, j] = sums[k, j] / counts[k]


@njit(cache=True, nogil=True)
def _lloyd(points, centroids, iterations):  # type: ignore[no-untyped-def]
    codes = np.full(points.shape[1], _NONE, dtype=np.uint16)
    squares = np.empty(points.shape[1], dtype=np.float32)
    for _ in range(iterations):
        changed = _nearest(points, centroids, codes, squares)
        if _fill(points, codes, squares, centroids):
            changed |= _nearest(points, centroids, codes, squares)
        if not changed:
            break
        _means(points, codes, centroids)


def seeds(points: NDArray[np.float32], uniform: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return a point for each number in [0, 1), drawn by the square distance from those before.

    Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007. Points all
    differ; where there are fewer different ones, the last is repeated.

    >>> seeds(np.array([[0, 0, 0, 9]], np.float32), np.array([0.5, 0.5, 0.5])).tolist()
    [[0.0], [9.0], [9.0]]
    """
    centroids = np.empty((len(uniform), len(points)), dtype=np.float32)
    _seeds(points, uniform, centroids)
    return centroids


def lloyd(points: NDArray[np.float32], centroids: NDArray[np.float32], iterations: int) -> None:
    """Move centroids to the means of the points that they are nearest to, at most so many times.

    First those that are nearest to none are put where the farthest points are. So centroids are
    means, and each step lowers the sum of squares (Lloyd, 1982).

    >>> centroids = np.array([[0], [1]], np.float32)
    >>> lloyd(np.array([[0, 1, 8, 10]], np.float32), centroids, 5)
    >>> centroids.tolist()
    [[0.5], [9.0]]
    """
    _lloyd(points, centroids, iterations)


def nearest(points: NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the number of each point's nearest centroid; the lowest at a tie.

    >>> nearest(np.array([[-1, 1, 9]], np.float32), np.array([[0], [2], [8]], np.float32))
    array([0, 0, 2], dtype=uint16)
    """
    codes = np.zeros(points.shape[1], dtype=np.uint16)
    _nearest(points, centroids, codes, np.empty(points.shape[1], dtype=np.float32))
    return codes
