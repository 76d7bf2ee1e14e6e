"""Rows of a table to try a model on: different ones, as of equal rows no mixing shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.models.learner import Features, take

__all__ = ["changed", "different_rows", "row_count"]

_LOOKED_THROUGH = 2**12  # rows, from all over a table
_MORE = 0.1  # by which a number grows at most: what is cut off to a whole number stays


def row_count(features: Features) -> int:
    """Return how many rows features have.

    >>> row_count({"age": torch.zeros(3)})
    3
    """
    return len(features if isinstance(features, Tensor) else next(iter(features.values())))


def different_rows(features: Features, most: int) -> NDArray[np.int64]:
    """Return up to so many rows, in their order, of which no two are equal.

    They are searched among 4,096 from all over the table, a few at a time, and no more than it
    takes: a table may be larger than memory.

    >>> different_rows(torch.tensor([0.0, 0.0, 0.0, 1.0, 1.0, 2.0]), most=2)
    array([0, 3])
    """
    spread = np.linspace(0, row_count(features) - 1, _LOOKED_THROUGH).astype(np.int64)
    spread = np.unique(spread)
    pieces = -(-len(spread) // most)
    found: dict[bytes, np.int64] = {}
    for piece in range(pieces):
        rows = spread[piece::pieces]
        for row, content in zip(rows, _contents(take(features, rows)), strict=True):
            found.setdefault(content, row)
        if len(found) >= most:
            break
    return np.sort(np.array([*found.values()][:most]))


def changed(features: Features) -> Features | None:
    """Return rows whose floats are each up to 0.1 larger, always the same; None if none is one.

    >>> rows = changed(torch.zeros(2, 1))
    >>> bool(rows[0] == rows[1]), changed(torch.zeros(2, 1, dtype=torch.long))
    (False, None)
    """
    generator = torch.Generator().manual_seed(0)

    def more(column: Tensor) -> Tensor:
        if not column.is_floating_point():
            return column
        return column + (_MORE * torch.rand(column.shape, generator=generator)).to(column.dtype)

    columns = [features] if isinstance(features, Tensor) else [*features.values()]
    if not any(each.is_floating_point() for each in columns):
        return None
    if isinstance(features, Tensor):
        return more(features)
    return {name: more(column) for name, column in features.items()}


def _contents(features: Features) -> Iterator[bytes]:
    """Yield the bytes of each row."""
    columns = [features] if isinstance(features, Tensor) else [*features.values()]
    flat = [each.cpu().reshape(len(each), -1).contiguous() for each in columns]
    numbers = [each.view(torch.uint8).numpy() for each in flat if each.shape[1]]
    for row in range(row_count(features)):
        yield b"".join(each[row].tobytes() for each in numbers)
