"""A penalty that keeps embeddings sparse, so that entropy codes of them are short."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError

__all__ = ["Sparse"]


class Sparse(nn.Module):
    r"""The last layer of a bottom model, which charges for what differs from zero.

    Values pass unchanged. In training, the party's own loss grows by the L1 norm of its embeddings,

    .. math:: \frac{\lambda}{B} \sum_{i=1}^{B} \lVert z_i \rVert_1,

    so that :math:`\lambda \operatorname{sign}(z_i) / B` is added to the derivative that arrives.
    It is the party's own business: nothing of it travels, and nobody else has to know.

    Parameters
    ----------
    strength
        :math:`\lambda`, at least 0, in units of the loss.

    Raises
    ------
    ConfigurationError
        If the strength is negative or not finite.

    Examples
    --------
    >>> z = torch.tensor([[2.0, 0.0], [-1.0, 3.0]], requires_grad=True)
    >>> Sparse(0.5)(z).backward(torch.zeros(2, 2))
    >>> z.grad
    tensor([[ 0.2500,  0.0000],
            [-0.2500,  0.2500]])
    """

    @check_arguments
    def __init__(self, strength: float) -> None:
        super().__init__()
        if not 0 <= strength < math.inf:
            raise ConfigurationError(f"the strength of a penalty is 0 or more, not {strength}")
        self.strength = strength

    def forward(self, z: Tensor) -> Tensor:
        """Return ``z`` itself."""
        if not (self.training and z.requires_grad):
            return z
        charge = torch.sign(z.detach()) * (self.strength / len(z))
        passed = z.view_as(z)
        passed.register_hook(charge.add)  # type: ignore[no-untyped-call]  # torch's
        return passed

    def extra_repr(self) -> str:
        """Return what is shown of it."""
        return f"strength={self.strength:g}"
