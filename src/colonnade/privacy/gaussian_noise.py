"""Gaussian noise: what one release of it discloses, and how much of it a target takes.

Noise of standard deviation ``multiplier`` times the sensitivity; what is released moves by
mu = 1 / multiplier standard deviations at most. Releases with mu_1, mu_2, ... disclose together
as much as one with sqrt(mu_1^2 + mu_2^2 + ...), and a release satisfies (epsilon, delta) exactly
when (Balle and Wang, Improving the Gaussian mechanism, 2018, theorem 8)

    Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu) <= delta.

The two terms are near each other and tiny where epsilon / mu is large. With the Mills ratio
R(x) = Phi(-x) / phi(x) the difference is phi(u) (R(u) - R(v)), u = epsilon / mu - mu / 2 and
v = epsilon / mu + mu / 2, since exp(epsilon) phi(v) = phi(u): no cancellation of exponentials.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import expm1, inf, log, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr

from colonnade.annotated import is_number, make_plain
from colonnade.errors import ConfigurationError
from colonnade.privacy.events import (
    Adjacency,
    check_adjacency,
    check_counts,
    checked_orders,
    terms_left,
)

__all__ = ["GaussianNoise", "gaussian_epsilon", "gaussian_log_delta", "gaussian_multiplier"]

_MARGIN = (
    1e-9  # relative: a multiplier is rounded up, so that accounts of it agree that it suffices
)
_MOST_POINTS = 1 << 20


@dataclass(frozen=True)
class GaussianNoise:
    """Values with Gaussian noise are seen once, each party's by itself.

    Parameters
    ----------
    multiplier
        Standard deviation of the noise over the sensitivity, which is the largest Euclidean
        distance between two values of a row: 2 C where rows are clipped to the norm C. Infinite
        for noise that hides all, 0 for none.
    terms
        Parties whose values are not known to who sees them.
    adjacency
        ``"party"`` if one party's value changes, ``"sample"`` if all may: each is a release.

    Raises
    ------
    ConfigurationError
        If the multiplier is negative or no number.

    Examples
    --------
    >>> GaussianNoise(2.0).renyi([2.0, 8.0])  # alpha / (2 multiplier^2)
    array([0.25, 1.  ])
    """

    multiplier: float
    terms: int = 1
    adjacency: Adjacency = "party"

    def __post_init__(self) -> None:
        make_plain(GaussianNoise, self)
        if not (is_number(self.multiplier) and self.multiplier >= 0):
            raise ConfigurationError(
                f"multiplier is {self.multiplier!r}, but noise deviates by so many times the "
                "sensitivity: give a number, which is at least 0"
            )
        check_counts({"terms": self.terms})
        check_adjacency(self.adjacency)

    @property
    def draws(self) -> int:
        """See ``Event``."""
        return 1

    @property
    def distance(self) -> float:
        """See ``Event``."""
        releases = self.terms if self.adjacency == "sample" else 1
        return sqrt(releases) / self.multiplier if self.multiplier else inf

    @property
    def spread(self) -> float:
        """See ``Event``."""
        return self.distance

    def growth(self, order: float) -> None:
        """See ``Event``."""

    def renyi(self, orders: ArrayLike) -> NDArray[np.float64]:
        """See ``Event``."""
        orders = checked_orders(orders)
        if not self.distance:
            return np.zeros(len(orders))
        curve, finite = np.full(len(orders), inf), np.isfinite(orders)
        curve[finite] = orders[finite] * (self.distance * self.distance / 2)
        return curve

    def losses(self, uses: int, interval: float) -> Any:
        """See ``Event``."""
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism, identity

        distance = sqrt(uses) * self.distance
        if distance == 0:
            return identity(interval)
        if not distance * (distance + 20) / interval < _MOST_POINTS:
            return None
        return from_gaussian_mechanism(1 / distance, value_discretization_interval=interval)

    def seen_by(self, colluding: int) -> Self:
        """See ``Event``."""
        return replace(self, terms=terms_left(self.terms, colluding))

    def under(self, adjacency: Adjacency) -> Self:
        """See ``Event``."""
        return replace(self, adjacency=adjacency)


def gaussian_log_delta(distance: float, epsilon: float) -> float:
    """Return the logarithm of the smallest delta at epsilon, for means so many deviations apart.

    >>> round(gaussian_log_delta(1.0, 1.0), 6)
    -2.064066
    """
    if distance == 0 or epsilon == inf:
        return -inf
    if distance == inf:
        return 0.0
    near, far = epsilon / distance - distance / 2, epsilon / distance + distance / 2
    if near > 0:
        ratios = float(erfcx(near / sqrt(2)) - erfcx(far / sqrt(2))) / 2
        return log(ratios) - near * near / 2 if ratios > 0 else -inf
    first = float(log_ndtr(-near))
    return first + log(-expm1(min(epsilon + float(log_ndtr(-far)) - first, -1e-300)))


def gaussian_epsilon(distance: float, delta: float) -> float:
    """Return the smallest epsilon at delta, for means that are so many deviations apart.

    >>> round(gaussian_epsilon(0.25, 1e-5), 4)
    0.9263
    """
    if not distance or delta >= 1:
        return 0.0
    if delta == 0 or distance == inf:
        return inf
    if gaussian_log_delta(distance, 0.0) <= log(delta):
        return 0.0
    return _least(lambda epsilon: gaussian_log_delta(distance, epsilon) <= log(delta), 1.0)


def gaussian_multiplier(epsilon: float, delta: float, uses: int = 1) -> float:
    """Return the smallest noise multiplier with which so many uses satisfy (epsilon, delta).

    It is exact for the Gaussian mechanism, to nine digits, rounded up.

    Raises
    ------
    ConfigurationError
        If epsilon is negative or infinite, or delta not within 0 and 1.

    Examples
    --------
    >>> round(gaussian_multiplier(5.0, 1e-5), 4)
    0.8919
    """
    check_counts({"uses": uses})
    numbers = is_number(epsilon) and is_number(delta)
    if not (numbers and 0 <= epsilon < inf and 0 < delta < 1):
        raise ConfigurationError(
            f"no noise is calibrated to epsilon = {epsilon!r} and delta = {delta!r}: give an "
            "epsilon of at least 0 and a delta between 0 and 1"
        )
    goal = log(delta)
    one = _least(lambda multiplier: gaussian_log_delta(1 / multiplier, epsilon) <= goal, 1.0)
    return sqrt(uses) * one * (1 + _MARGIN)


def _least(suffices: Callable[[float], bool], start: float) -> float:
    """Return the least positive number that suffices, where all above it do, too."""
    low = high = start
    while not suffices(high):
        low, high = high, 2 * high
    while suffices(low):
        high, low = low, low / 2
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
