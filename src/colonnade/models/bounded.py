"""A bound on embeddings, for mechanisms whose noise is made for it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError

__all__ = ["Bounded"]


class Bounded(nn.Module):
    r"""The last layer of a bottom model, which keeps components between -C and C.

    .. math:: z \mapsto C \tanh(z / C)

    Parameters
    ----------
    bound
        C, above 0.

    Raises
    ------
    ConfigurationError
        If the bound is not positive and finite.

    Examples
    --------
    >>> Bounded(2.0)(torch.tensor([[0.0, 100.0, -1.0]]))
    tensor([[ 0.0000,  2.0000, -0.9242]])
    """

    @check_arguments
    def __init__(self, bound: float = 1.0) -> None:
        super().__init__()
        if not 0 < bound < math.inf:
            raise ConfigurationError(f"a bound is a positive, finite number, not {bound}")
        self.bound = bound

    def forward(self, z: Tensor) -> Tensor:
        """Return ``C tanh(z / C)``."""
        return self.bound * torch.tanh(z / self.bound)

    def extra_repr(self) -> str:
        """Return what is shown of it."""
        return f"bound={self.bound:g}"
