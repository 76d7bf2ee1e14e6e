"""A number or two that tell later whether data are what they were, without keeping any of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.models import Features
from colonnade.streams import StreamKey

__all__ = ["Trace", "Traces", "are_alike", "trace_of"]

Trace: TypeAlias = tuple[float, float] | None
"""A weighted sum, and by how much rounding may change it; None of numbers too large for that."""

Traces: TypeAlias = Mapping[str, Trace]
"""Of what an organisation has, by what that is."""

_ROUNDING = 1e-6  # of numbers that were computed on another computer; float32 has 6e-8
_TOGETHER = 2**20  # numbers that are looked at together


def trace_of(data: Features) -> Trace:
    """Return a weighted sum of all numbers, and by how much rounding may change it, if finite.

    The weights are drawn, with either sign, for each row and each column: s = sum_ij a_i b_j x_ij.
    Where rows changed places, or a number is another one, s is another, but for what is below one
    millionth of sqrt(sum x²). The same numbers on another computer, rounded otherwise, have the
    same trace.

    Parameters
    ----------
    data
        A tensor ``[rows, ...]``, or tensors by name; it is read once, a part at a time.

    Examples
    --------
    >>> import torch
    >>> labels = torch.tensor([0, 1, 1, 0])
    >>> are_alike(trace_of(labels), trace_of(labels))
    True
    >>> are_alike(trace_of(labels), trace_of(1 - labels))
    False
    """
    columns = [data] if isinstance(data, Tensor) else [data[name] for name in sorted(data)]
    total = squares = 0.0
    for number, column in enumerate(columns):
        by_row, by_column = (_drawn(f"trace by {what}", number) for what in ("row", "column"))
        of_columns = None
        for numbers in _pieces(column):
            of_columns = _weights(by_column, numbers.shape[1]) if of_columns is None else of_columns
            with np.errstate(over="ignore", invalid="ignore"):
                total += float(_weights(by_row, len(numbers)) @ (numbers @ of_columns))
                squares += float(np.square(numbers).sum())
    rounding = _ROUNDING * math.sqrt(squares)
    return (total, rounding) if math.isfinite(total) and math.isfinite(rounding) else None


def are_alike(one: Trace, other: Trace) -> bool:
    """Return whether two traces may be of the same numbers, as they may if one tells nothing."""
    if one is None or other is None:
        return True
    (total, rounding), (its_total, its_rounding) = one, other
    return abs(total - its_total) <= max(rounding, its_rounding)


def _pieces(column: Tensor) -> Iterator[NDArray[np.float64]]:
    """Yield a column's numbers, some rows at a time."""
    real = torch.view_as_real(column) if column.is_complex() else column
    flat = real.detach().flatten(1) if real.dim() > 1 else real.detach()[:, None]
    together = max(1, _TOGETHER // max(1, flat.shape[1]))
    for first in range(0, len(flat), together):
        yield flat[first : first + together].cpu().double().numpy()


def _drawn(purpose: str, number: int) -> np.random.Philox:
    return np.random.Philox(key=StreamKey(0, "", purpose, 0, number).words()[0])


def _weights(generator: np.random.Philox, count: int) -> NDArray[np.float64]:
    """Return numbers from 1 to 2, with either sign."""
    words = generator.random_raw(count)
    return np.where(words & 1, 1.0, -1.0) * (1 + (words >> 12) / 2.0**52)
