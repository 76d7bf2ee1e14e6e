"""The Gaussian mechanism on rows of a matrix: embeddings, or derivatives that tell of labels.

Dwork and Roth, "The Algorithmic Foundations of Differential Privacy", 2014, Appendix A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from colonnade.annotated import make_plain
from colonnade.privacy.bounds import check_bound, check_normal, check_range
from colonnade.privacy.clipping import clipped
from colonnade.privacy.games import Game
from colonnade.privacy.gaussian_game import GaussianGame
from colonnade.privacy.gaussian_noise import GaussianNoise, gaussian_multiplier
from colonnade.privacy.normal import rounded_normal
from colonnade.secure.keystream import Keystream

__all__ = ["Gaussian"]

_FINENESS = 20  # a deviation has 2^20 to 2^21 steps of the grid


@dataclass(frozen=True)
class Gaussian:
    """Rows are clipped to an L2 norm of C, and N(0, (2 C multiplier)^2) is added to each component.

    What is protected is a row's values: whatever else they might have been (replace-one adjacency).
    Two rows of norm C are at most 2 C apart, so the sensitivity is 2 C and the deviation of the
    noise ``multiplier`` sensitivities; the mechanism is (alpha, alpha / (2 multiplier^2))-Renyi
    private for every alpha. Clipping is r -> r min(1, C / ||r||); rows within the bound keep their
    values. No gradient flows through what is released; see ``clipped``.

    Parameters
    ----------
    bound
        C, the largest L2 norm that a row keeps.
    multiplier
        Deviation of the noise in units of the sensitivity, above 1e-6 and at most 1e6.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Notes
    -----
    Added as floating-point numbers, noise betrays what it was added to: which sums can come up at
    all depends on the value (Mironov, CCS 2012; Jin et al., "Are We There Yet? Timing and
    Floating-Point Attacks on Differential Privacy Systems", S&P 2022). So all that is released lies
    on one grid, whose step g is a power of two, 2^-20 to 2^-21 of a deviation. The clipped
    values are rounded to it, towards zero so that no row grows beyond C, and noise to the nearest
    point of it, and they are added as whole numbers, without rounding. As rounding commutes with
    adding a whole number, the result is what rounding makes of a value with Gaussian noise: no more
    is disclosed than by the mechanism of real numbers on those clipped rows, as far as what is
    rounded is Gaussian. It comes from Box and Muller's transform of 64 and 53 secret bits in
    float64, so it does not go beyond 9.5 deviations (which has a chance below 1e-19), and where two
    components that are drawn together lie beyond 7.8 of them, the possible radii are further apart
    than the grid is fine, which happens to a pair with a chance below 1e-13. How long a draw takes
    does not depend on it by branches of ours; the processor's own functions are not promised to be
    constant in time.

    Examples
    --------
    >>> import torch
    >>> mechanism = Gaussian(bound=1.0, multiplier=0.5)
    >>> mechanism.perturb(torch.tensor([[3.0, 4.0]]), Keystream(bytes(16)))
    tensor([[1.3254, 2.3502]])
    """

    bound: float
    multiplier: float

    def __post_init__(self) -> None:
        make_plain(Gaussian, self)
        check_bound(self.bound)
        check_range("multiplier", self.multiplier, 1e-6, 1e6)
        check_normal("the deviation of the noise, 2 * bound * multiplier,", self.deviation)

    @classmethod
    def calibrated(cls, bound: float, epsilon: float, delta: float, uses: int = 1) -> Self:
        """Return the mechanism with the least noise for (epsilon, delta)-differential privacy.

        Parameters
        ----------
        bound
            C, the largest L2 norm that a row keeps.
        epsilon, delta
            What so many uses of a row satisfy together.
        uses
            How often a row is released; 1 calibrates each release by itself.

        Raises
        ------
        ConfigurationError
            If a number is out of range.

        Examples
        --------
        >>> round(Gaussian.calibrated(bound=1.0, epsilon=5.0, delta=1e-5).deviation, 4)
        1.7837
        """
        return cls(bound, gaussian_multiplier(epsilon, delta, uses))

    @property
    def sensitivity(self) -> float:
        """How far apart two rows can be: 2 C."""
        return 2 * self.bound

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a component."""
        return self.multiplier * self.sensitivity

    def perturb(self, x: Tensor, noise: Keystream) -> Tensor:
        """Return the rows of ``x``, ``[rows, width]``, clipped and with noise, as float32.

        ``noise`` is for this message alone.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        short = clipped(x.detach(), self.bound)
        step = 2.0 ** (math.floor(math.log2(self.deviation)) - _FINENESS)
        drawn = rounded_normal(x.numel(), self.deviation / step, noise)
        whole = short.div_(step).trunc_()
        whole += drawn.view(x.shape).to(x.device)
        return whole.mul_(step).float()

    def event(self, terms: int = 1) -> GaussianNoise:
        """Return what one use of a row is for who sees so many parties' values of it, each."""
        return GaussianNoise(self.multiplier, terms)

    def games(self) -> tuple[Game, ...]:
        """Return that of a row that goes from one end of the bound to the other."""
        return (GaussianGame(self),)

    def __str__(self) -> str:
        return (
            f"clipped to the norm {self.bound:g}, with Gaussian noise of the standard deviation "
            f"{self.deviation:.4g} on each component"
        )
