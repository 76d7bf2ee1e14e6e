"""Fusion: how the parties' embeddings become the input of the top model.

With embeddings z_1 ... z_M, each ``[B, E]``: concat is ``[B, sum of widths]``, the others want
equal widths and are ``[B, E]``, the dot product ``[B, 1]``. Sums run in the order given, which is
party order, so that every machine adds in the same order and gets the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from colonnade.errors import ConfigurationError

__all__ = ["Additive", "Concat", "DotProduct", "Fusion", "Max", "Mean", "Sum"]


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
        return _common_width(type(self).__name__.lower(), widths)


def _common_width(fusion: str, widths: Sequence[int]) -> int:
    if len(set(widths)) != 1:
        raise ConfigurationError(
            f"fusion {fusion} needs embeddings of equal width, "
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


@dataclass(frozen=True)
class DotProduct:
    r"""z = z_1 . z_2, one number a row; of more embeddings, the sum over all pairs of them.

    .. math:: z = \sum_{l < m} \langle z_l, z_m \rangle
        = \sum_{m=2}^{M} \langle z_1 + \ldots + z_{m-1}, \, z_m \rangle,

    and a derivative with respect to z_m carries the sum of the others' embeddings. It is how deep
    structured semantic models compare two towers (Huang et al., CIKM 2013); in CELU-VFL (Fu et al.,
    VLDB 2022) they are two parties'. The top model after it has one input: make it linear.

    >>> DotProduct()([torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])])
    tensor([[11.]])
    """

    def __call__(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Multiply each embedding with the sum of those before it, in the order given."""
        first, *others = embeddings
        before = accumulate(others[:-1], torch.add, initial=first)
        products = [total * z for total, z in zip(before, others, strict=True)]
        return reduce(torch.add, products).sum(dim=1, keepdim=True)

    def width(self, widths: Sequence[int]) -> int:
        """Return 1."""
        _common_width("dot_product", widths)
        if len(widths) < 2:
            raise ConfigurationError(
                "fusion dot_product needs two embeddings or more, and there is one; "
                "take concat, or let the label holder have columns of its own"
            )
        return 1
