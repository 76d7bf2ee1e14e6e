"""The Poisson binomial mechanism: a count of coins, more or fewer of which a value makes fall.

Chen, Ozgur and Kairouz, "The Poisson Binomial Mechanism for Unbiased Federated Learning with Secure
Aggregation", ICML 2022; for embeddings, PBM-VFL, Algorithm 1.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import make_plain
from colonnade.errors import ConfigurationError
from colonnade.kernels.binomial import binomial, chances
from colonnade.privacy.accountant import Spending, check_delta
from colonnade.privacy.binomial_sum import BinomialSum
from colonnade.privacy.bounds import check_bound, check_normal, check_range, check_whole, within
from colonnade.privacy.summand import check_total
from colonnade.secure.keystream import Keystream

__all__ = ["PoissonBinomial"]

_STEPS = 100_000  # of beta, from 0 to 1, where one is looked for
_ONE = 2.0**32  # a chance of 1, as the kernel has it


@dataclass(frozen=True)
class PoissonBinomial:
    """Each component x, of [-C, C], becomes a draw from Binomial(b, 1/2 + beta x / C).

    Of the sum q of M such counts the estimate of the sum of the components is::

        (C / (beta b)) (q - b M / 2)

    which is unbiased. Its variance is (C / (beta b))^2 b (M/4 - sum of (beta x / C)^2), at most
    C^2 M / (4 beta^2 b). The sum is private by the randomness of the coins; the smaller beta and b,
    the more. One party's count alone is not protected so: it needs the secure sum.

    Parameters
    ----------
    trials
        b, coins a component, 1 to 65535. A count takes ceil(log2(b + 1)) bits before masking.
    beta
        How far a chance may be from one half: above 0 and at most 1/4.
    bound
        C, the largest magnitude of a component; the bottom model has to keep to it, as one that
        ends in tanh does for 1.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Notes
    -----
    A chance is a number of 32 binary digits, and draws are exact for it (``kernels/binomial.py``).
    It is rounded towards one half and never further from it than beta, so what an account says of
    all chances in [1/2 - beta, 1/2 + beta] holds for what is drawn. The rounding moves a party's
    part of the estimate towards 0 by less than C / (2^32 beta).

    Examples
    --------
    >>> mechanism = PoissonBinomial(trials=16, beta=0.25)
    >>> counts = mechanism.counts(torch.tensor([[1.0, -1.0, 0.0]]), Keystream(bytes(16)))
    >>> counts
    array([[9, 2, 6]], dtype=uint16)
    >>> mechanism.estimate(counts, terms=1)
    tensor([[ 0.2500, -1.5000, -0.5000]])
    """

    trials: int
    beta: float
    bound: float = 1.0

    def __post_init__(self) -> None:
        make_plain(PoissonBinomial, self)
        check_whole("trials", self.trials, 1, 65535)
        check_range("beta", self.beta, 0, 0.25)
        check_bound(self.bound)
        unit = self.bound / (self.beta * self.trials)
        check_normal("what a coin counts for, bound / (beta * trials),", unit)

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        uses: int,
        parties: int,
        width: int,
        trials: int = 16,
        bound: float = 1.0,
    ) -> Self:
        """Return the mechanism with the largest beta whose uses are (epsilon, delta)-private.

        That is towards the label holder, for neighbours in one party's features, with all parties
        there. It is found by Renyi divergences, which are quick, so that what a run tells is often
        5 to 10 % less; beta is a whole number of 100,000ths.

        Parameters
        ----------
        epsilon, delta
            What so many uses of a row satisfy together.
        uses
            How often a row is released: once in each epoch, or at each evaluation of it.
        parties
            How many are in the sum; the more, the more they hide each other.
        width
            Components of an embedding.
        trials, bound
            As above.

        Raises
        ------
        ConfigurationError
            If a number is out of range, or no beta is small enough.

        Examples
        --------
        >>> PoissonBinomial.calibrated(epsilon=8.0, delta=1e-5, uses=20, parties=4, width=16)
        PoissonBinomial(trials=16, beta=0.01093, bound=1.0)
        """
        check_whole("uses", uses, 1, 1 << 40)
        check_whole("parties", parties, 1, 1 << 20)
        check_whole("width", width, 1, 1 << 20)
        check_delta(delta)

        def costs_more(steps: int) -> bool:
            event = cls(trials, steps / _STEPS, bound).event(parties, width)
            return Spending({event: uses}).epsilon_by_renyi(delta).renyi > epsilon

        most = bisect_left(range(1, _STEPS // 4 + 1), True, key=costs_more)
        if not most:
            raise ConfigurationError(
                f"no beta is small enough for {uses} uses at epsilon {epsilon:g} and delta "
                f"{delta:g}: allow a larger epsilon, fewer uses or trials, or narrower embeddings"
            )
        return cls(trials, most / _STEPS, bound)

    @property
    def highest(self) -> int:
        """b: every coin fell."""
        return self.trials

    def counts(self, x: Tensor, noise: Keystream) -> NDArray[np.uint16]:
        """Return a draw for each component of ``x``, ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite.
        ConfigurationError
            If a value is beyond the bound.
        """
        values = within(x, self.bound)
        most = math.floor(self.beta * _ONE)  # exactly: a float64 times a power of two
        chance = chances(values, self.beta / self.bound * _ONE, most)
        return binomial(chance, self.trials, noise.fill).reshape(tuple(x.shape))

    def estimate(self, total: NDArray[np.unsignedinteger[Any]], terms: int) -> Tensor:
        """Return the unbiased estimate of the sum of so many parties' embeddings.

        Raises
        ------
        RemoteProtocolError
            If counts of so many parties cannot have such a sum.
        """
        check_total(total, terms, self.highest)
        estimate = np.subtract(total, self.trials * terms / 2, dtype=np.float32)
        estimate *= np.float32(self.bound / (self.beta * self.trials))
        return torch.from_numpy(estimate)

    def event(self, terms: int, components: int) -> BinomialSum:
        """Return what one use of a row discloses, component by component."""
        return BinomialSum(self.trials, self.beta, terms, components)

    def squared_error(self, terms: int) -> float:
        """Return C^2 M / (4 beta^2 b), the variance of a component that is 0 at all parties."""
        return self.bound**2 * terms / (4 * self.beta**2 * self.trials)
