"""A few numbers that tell later whether data are what they were, without keeping any of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.kernels.philox import uniform_words
from colonnade.models import Features
from colonnade.streams import StreamKey

__all__ = ["Trace", "Traces", "are_alike", "trace_of"]

_ROUNDING = 1e-6  # of a column that was computed on another computer; a float32 has 6e-8
_STEPS = 2**16  # that a trace tells apart: of all digits, the data of few rows could be worked out
_NOTHING = 1e-24  # of the longest column's square: a constant one, less its mean, may leave so much
_TOGETHER = 2**20  # numbers that are looked at together

Trace: TypeAlias = tuple[int, int] | None
"""Of directions and of lengths, 16 bits each; None of numbers too large."""

Traces: TypeAlias = Mapping[str, Trace]
"""Of what an organisation has, by what that is."""


def trace_of(data: Features) -> Trace:
    r"""Return two weighted sums over all columns, in steps as large as rounding may change them.

    Of a column x_j of all rows counts where it points, and how long it is:

    .. math:: s = \sum_j b_j \frac{a \cdot x_j}{|x_j|}, \quad l = \sum_j b_j \log |x_j|.

    The weights a_i of rows and b_j of columns are drawn, from 1 to 2 and with either sign. Where
    rows changed places, or a number is another one, s is another, by :math:`|dx| / |x_j|` at least;
    where a column is in another unit, l is. The same numbers on another computer, rounded
    otherwise, have traces that are alike: a step is a millionth of the root of how many columns
    there are. Of how many steps a sum has, the last 16 bits are kept: with all digits, and the
    weights known to everybody, labels of some dozens of rows could be worked out. Of 20,000 other
    data, about one has a sum that is alike.

    Parameters
    ----------
    data
        A tensor ``[rows, ...]``, or tensors by name; it is read once, a part at a time.

    Examples
    --------
    >>> labels = torch.tensor([0, 1, 1, 0])
    >>> are_alike(trace_of(labels), trace_of(labels))
    True
    >>> are_alike(trace_of(labels), trace_of(1 - labels))
    False
    """
    columns = [data] if isinstance(data, Tensor) else [data[name] for name in sorted(data)]
    directions = lengths = 0.0
    count = 0
    for number, column in enumerate(columns):
        sums = squares = np.zeros(0)
        for first, numbers in _pieces(column):
            weights = _weights("row", number, first, len(numbers))
            with np.errstate(over="ignore", invalid="ignore"):
                sums = _added(sums, weights @ numbers)
                squares = _added(squares, np.square(numbers).sum(0))
        if not np.isfinite(squares).all():
            return None
        some = squares > _NOTHING * squares.max(initial=0.0)
        weights, squares = _weights("column", number, 0, len(squares))[some], squares[some]
        directions += float(weights @ (sums[some] / np.sqrt(squares)))
        lengths += float(weights @ np.log(squares)) / 2
        count += len(squares)
    step = _ROUNDING * math.sqrt(max(1, count))
    return round(directions / step) % _STEPS, round(lengths / step) % _STEPS


def are_alike(one: Trace, other: Trace) -> bool:
    """Return whether two traces may be of the same numbers, as they may if one tells nothing."""
    if one is None or other is None:
        return True
    return all((a - b + 1) % _STEPS <= 2 for a, b in zip(one, other, strict=True))


def _added(sums: NDArray[np.float64], more: NDArray[np.float64]) -> NDArray[np.float64]:
    return sums + more if len(sums) else more


def _pieces(column: Tensor) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield a column's numbers, some rows at a time, four or a multiple, and which is the first."""
    real = torch.view_as_real(column) if column.is_complex() else column
    flat = real.detach().flatten(1) if real.dim() > 1 else real.detach()[:, None]
    together = 4 * max(1, _TOGETHER // max(1, flat.shape[1]) // 4)
    for first in range(0, len(flat), together):
        yield first, flat[first : first + together].cpu().double().numpy()


def _weights(of: str, number: int, first: int, count: int) -> NDArray[np.float64]:
    """Return numbers from 1 to 2, with either sign; ``first`` is a multiple of four."""
    words = uniform_words(StreamKey(0, "", f"trace of each {of}", 0, number), count, first // 4)
    return np.where(words & np.uint64(1), 1.0, -1.0) * (1 + (words >> np.uint64(12)) / 2.0**52)
