"""Polynomial networks: bottoms that a coded uplink can evaluate on shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Protocol, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError
from colonnade.models.copies import copied
from colonnade.models.modes import evaluating, put_into_training

__all__ = ["LinearInPowers", "Polynomial", "computes_otherwise", "is_linear_in_powers", "terms_of"]

_MOST = 1000  # powers
_DIMENSIONS = 3  # of weights: powers, inputs and components
_ALIKE = 1e-3  # of sums of float32, as far as they differ by rounding


class LinearInPowers(Protocol):
    """A bottom whose embeddings are a sum of products of what is known of a row and of weights.

    h = sum_i sum_j powers(x)[i, j] weight[i, j], and the weights are all of its parameters: so it
    can be evaluated on shares of both (``uplinks.Coded``).
    """

    weight: Tensor
    """``[D, J, E]``."""

    def powers(self, x: Tensor) -> Tensor:
        """Return what the weights are multiplied with, ``[B, D, J]``; it hangs on no parameter."""
        ...


def is_linear_in_powers(bottom: object) -> TypeGuard[LinearInPowers]:
    """Whether a bottom's weights are its parameters, and its embeddings linear in powers of a row.

    Nothing of it is computed: a weight that is, as that of ``spectral_norm``, may be another each
    time that it is looked at.

    >>> is_linear_in_powers(Polynomial(inputs=3, width=2)), is_linear_in_powers(nn.Linear(3, 2))
    (True, False)
    """
    computed = isinstance(bottom, nn.Module) and parametrize.is_parametrized(bottom)
    return not computed and hasattr(bottom, "powers") and hasattr(bottom, "weight")


def computes_otherwise(bottom: LinearInPowers, x: Tensor) -> str:
    """Return in what a bottom is no sum of products of its weights alone; nothing where it is one.

    Parameters
    ----------
    bottom
        A module; a copy is tried, with weights of which none is 0.
    x
        Some rows.

    Examples
    --------
    >>> class Bounded(Polynomial):
    ...     def forward(self, x):
    ...         return super().forward(x).tanh()
    >>> x = torch.rand(5, 3)
    >>> computes_otherwise(Bounded(inputs=3, width=2), x)
    'its forward returns something else than powers times weights, summed'
    >>> computes_otherwise(Polynomial(inputs=3, width=2), x)
    ''
    """
    own: Any = copied(cast(nn.Module, bottom)).cpu()
    put_into_training(own)
    if own.weight.dim() != _DIMENSIONS:
        return f"its weight has {own.weight.dim()} dimensions, and {_DIMENSIONS} are expected"
    if [*map(id, own.parameters())] != [id(own.weight)]:
        return "it has parameters besides its weight"
    with torch.no_grad():
        count = own.weight.numel()
        own.weight.copy_(torch.linspace(-1, 1, 2 * count)[::2].view_as(own.weight))
        weight = own.weight.flatten(0, 1)
    powers: Tensor = own.powers(x)
    if powers.requires_grad:
        return "its powers hang on parameters"
    if _hangs_on_more(own, x, powers):
        return "its powers of a row hang on other rows, on its mode or on chance"
    terms, weight = powers.flatten(1).double(), weight.double()
    rounding = _ALIKE * (terms.abs() @ weight.abs())
    for mode in (nullcontext(), evaluating(own)):
        with mode, torch.no_grad():
            computed = own(x).double()
        if computed.shape != rounding.shape or (computed - terms @ weight).abs().gt(rounding).any():
            return "its forward returns something else than powers times weights, summed"
    return ""


def _hangs_on_more(own: Any, x: Tensor, powers: Tensor) -> bool:
    """Whether powers of a row in training are others beside fewer rows, or in evaluation."""
    half = len(x) // 2
    with torch.no_grad(), evaluating(own):
        apart = torch.cat([own.powers(x[:half]), own.powers(x[half:])])
    if powers.shape != apart.shape:
        return True
    rounding = _ALIKE * powers.abs().amax(0)  # of a sum that comes near 0 it is that of its terms
    return not bool(((powers - apart).abs() <= rounding).all())


def terms_of(bottoms: Mapping[str, nn.Module]) -> dict[str, int]:
    """Return how many products a component of an embedding is the sum of, where it is such a sum.

    >>> terms_of({"bank": Polynomial(inputs=3, width=2, degree=2), "shop": nn.Linear(3, 2)})
    {'bank': 8}
    """
    return {
        name: bottom.weight.shape[:-1].numel()
        for name, bottom in bottoms.items()
        if is_linear_in_powers(bottom)
    }


class Polynomial(nn.Module):
    r"""A sum of linear layers of the input's powers (Livni et al., 2014; FedVS, section 3).

    .. math:: h = \sum_{i=1}^{D} \tilde x^i W^i,

    where x̃ is the input with a 1 after it and its i-th power is taken component by component, so
    that the last row of each W^i is a bias. As in FedVS each power has a bias of its own; they add
    up. Keep inputs near [-1, 1]: of a column that reaches 10, the third power reaches 1000.

    Weights begin uniform, with the variance

    .. math:: \sigma^2 = \Bigl( n \sum_{i=1}^{D} \tfrac{1}{2 i + 1} \Bigr)^{-1}

    for n inputs, so that embeddings of inputs spread evenly over [0, 1] begin with variance 1: the
    mean of many parties' embeddings is small, and smaller ones would learn slowly at first.

    Parameters
    ----------
    inputs
        Components of an input row; what has a shape is flattened.
    width
        Components of an embedding.
    degree
        D, how many powers, up to 1000: the paper's number of layers.

    Attributes
    ----------
    weight
        ``[D, inputs + 1, width]``.

    Raises
    ------
    ConfigurationError
        If a number is below 1, or the degree too large.

    Examples
    --------
    >>> network = Polynomial(inputs=3, width=2, degree=2)
    >>> network(torch.zeros(5, 3)).shape, network.powers(torch.tensor([[2.0, 3.0, -1.0]]))
    (torch.Size([5, 2]), tensor([[[ 2.,  3., -1.,  1.],
             [ 4.,  9.,  1.,  1.]]]))
    """

    @check_arguments
    def __init__(self, inputs: int, width: int, degree: int = 2) -> None:
        super().__init__()
        for name, value in (("inputs", inputs), ("width", width), ("degree", degree)):
            if value < 1:
                raise ConfigurationError(
                    f"{name} of a polynomial network is {value}, but 1 or more"
                )
        if degree > _MOST:
            raise ConfigurationError(
                f"degree of a polynomial network is {degree}, but {_MOST} at most"
            )
        squares = sum(1 / (2 * power + 1) for power in range(1, degree + 1))  # of x^i on average
        bound = math.sqrt(3 / (inputs * squares))
        self.weight = nn.Parameter(torch.empty(degree, inputs + 1, width))
        nn.init.uniform_(self.weight, -bound, bound)

    @property
    def degree(self) -> int:
        """D."""
        return self.weight.shape[0]

    def powers(self, x: Tensor) -> Tensor:
        """Return the powers of each row with a 1 after it, ``[B, D, inputs + 1]``."""
        x = torch.cat([x.flatten(1), x.new_ones(len(x), 1)], dim=1)
        return torch.stack([x**power for power in range(1, self.degree + 1)], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return embeddings ``[B, width]`` of rows ``[B, ...]`` of ``inputs`` numbers each."""
        return self.powers(x).flatten(1) @ self.weight.flatten(0, 1)

    def extra_repr(self) -> str:
        """Return what it is of."""
        degree, inputs, width = self.weight.shape
        return f"inputs={inputs - 1}, width={width}, degree={degree}"
