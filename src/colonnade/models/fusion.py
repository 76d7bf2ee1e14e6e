"""Fusion: how the parties' embeddings become the input of the top model.

With embeddings z_1 ... z_M, each ``[B, E]``: concat is ``[B, sum of widths]``, the others are
``[B, E]`` and want equal widths. Sums run in the order given, which is party order, so that every
machine adds in the same order and gets the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from colonnade.errors import ConfigurationError

__all__ = ["Additive", "Concat", "Fusion", "Max", "Mean", "Sum"]


@runtime_checkable
class Fusion(Protocol):
    """Combines embeddings; a frozen value."""

    def __call__(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Combine embeddings of shape ``[B, E_m]``, in party order."""
        ...

    def width(self, widths: Sequence[int]) -> int:
        """Return the width of the result for embeddings of these widths.

        Raises
        ------
        ConfigurationError
            If these widths cannot be combined.
        """
        ...


@runtime_checkable
class Additive(Fusion, Protocol):
    """A fusion that needs of the embeddings no more than their sum."""

    def of_total(self, total: Tensor, embeddings: int) -> Tensor:
        """Return the fusion of so many embeddings with this sum."""
        ...


@dataclass(frozen=True)
class Concat:
    """z = (z_1, ..., z_M), side by side.

    >>> Concat()([torch.zeros(5, 2), torch.ones(5, 3)]).shape
    torch.Size([5, 5])
    """

    def __call__(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Put the embeddings side by side."""
        return torch.cat(tuple(embeddings), dim=1)

    def width(self, widths: Sequence[int]) -> int:
        """Return the sum of the widths."""
        return sum(widths)


class _Elementwise:
    """Shared by fusions that combine component by component."""

    def width(self, widths: Sequence[int]) -> int:
        """Return the common width."""
        if len(set(widths)) != 1:
            raise ConfigurationError(
                f"fusion {type(self).__name__.lower()} needs embeddings of equal width, "
                f"but they are {', '.join(map(str, widths))} wide"
            )
        return widths[0]


@dataclass(frozen=True)
class Sum(_Elementwise):
    """z = z_1 + ... + z_M.

    >>> Sum()([torch.ones(1, 2), torch.ones(1, 2)])
    tensor([[2., 2.]])
    """

    def __call__(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Add the embeddings in the order given."""
        return reduce(torch.add, embeddings)

    def of_total(self, total: Tensor, embeddings: int) -> Tensor:
        """Return the sum itself."""
        return total


@dataclass(frozen=True)
class Mean(_Elementwise):
    """z = (z_1 + ... + z_M) / M; a derivative with respect to z_m therefore carries 1/M.

    >>> Mean()([torch.ones(1, 2), torch.zeros(1, 2)])
    tensor([[0.5000, 0.5000]])
    """

    def __call__(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Average the embeddings, adding in the order given."""
        return self.of_total(reduce(torch.add, embeddings), len(embeddings))

    def of_total(self, total: Tensor, embeddings: int) -> Tensor:
        """Return the sum divided by how many there are."""
        return total / embeddings


@dataclass(frozen=True)
class Max(_Elementwise):
    """z = max(z_1, ..., z_M), component by component.

    The derivative goes to the party with the largest value; parties that tie share it equally.

    >>> Max()([torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, 3.0]])])
    tensor([[2., 5.]])
    """

    def __call__(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Take the largest of each component."""
        return torch.stack(tuple(embeddings)).amax(dim=0)
