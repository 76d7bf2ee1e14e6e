"""What a sum of binomial counts tells of one of them: exact, for the worst that the others hold.

Each of M parties counts heads among b coins that fall heads with probability p_m in [l, h],
l = 1/2 - beta and h = 1/2 + beta; the sum over parties is seen. D is the Renyi divergence of any
order, or any hockey-stick divergence, and G(j) the number of heads among M b coins of which j have
the probability h and the others l.

**One party's value changes**, from p to p', say p > p'. *Proven*: the worst is h against l. Sums of
independent coins grow in likelihood ratio with each coin's probability, because a coin's law is
log-concave (Shaked and Shanthikumar, Stochastic Orders, theorem 1.C.9). Where A <= B <= C in that
order, D(C || A) is at least D(B || A) and D(C || B), and so is D(A || C): for hockey-stick
divergences because the best sets are upper tails; for Renyi divergences because functions that
both increase are positively correlated (Chebyshev). And the coins h and l are among those that are
possible.

**What the other parties hold.** *Proven*: give each of their N = (M - 1) b coins a probability of
its own. Both laws are linear in each of these, and exp((alpha - 1) D_alpha) and hockey-stick
divergences are jointly convex, so the largest is at an extreme point: k coins of h, the others of
l. *Enumerated*: k = 0 to N, so the bound is max_k D(G(k + b) || G(k)). The other direction,
D(G(k) || G(k + b)), is D(G(N - k + b) || G(N - k)) with heads and tails exchanged, hence among
these. Parties whose coins share a probability reach it where k is a multiple of b; *observed*,
wherever we looked, is that the worst k is N, and so the bound is attained.

**Many coins.** Enumeration takes the square of their number. *Proven*: beyond 1024 coins, the b
coins of each party are divided into groups, as even as can be, and what is bounded is what the sums
of groups disclose, which is no less than their total does (data processing). Groups have coins of
their own, so they compose as components do, and each is enumerated. *Observed*: divergences grow
all but in proportion to b, and the bound is less than 1 % more. With more than 1024 parties a group
is of one coin each, and only 1024 others count as hiding it: whoever sees fewer added sees more.

Values that are drawn, as by a sampler that rounds p at random to a neighbour within [l, h], are
mixtures, which by the same convexity are no worse.

**The whole sample changes.** *Proven*: the divergence is at most that of all M b coins seen one by
one (data processing), each from l to h; and if all of them are, the sum is a sufficient statistic,
so it is M b D(Bernoulli(h) || Bernoulli(l)) exactly: one term of M b trials.

**Composition.** Components have coins of their own, and each its own worst case: Renyi bounds add
up. The largest hockey-stick divergence over k, as a function of epsilon, is the privacy profile of
a dominating pair, and products of dominating pairs dominate what is composed adaptively (Zhu, Dong
and Wang, Optimal accounting of differential privacy via characteristic function, 2022, theorem 10);
it is discretised from above (Doroshenko et al., Connect the dots, 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, log, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.annotated import is_number, make_plain
from colonnade.errors import ConfigurationError
from colonnade.kernels.binomial_sums import hockey_sticks_of_sums, renyi_of_sums
from colonnade.privacy.events import (
    Adjacency,
    check_adjacency,
    check_counts,
    checked_orders,
    terms_left,
)

__all__ = ["BinomialSum"]

_MOST_BETA = 0.25
_MOST_COINS = 1 << 10  # of a sum that is enumerated
_MOST_POINTS = 1 << 18  # of the loss of one component
_MOST_STEPS = 1 << 28  # of the kernel that finds them
_NO_MASS = 1e-30


@dataclass(frozen=True)
class BinomialSum:
    """A sum of ``terms`` binomial counts per component is seen once, and nothing else.

    Parameters
    ----------
    trials
        Coins of each term, b.
    beta
        Each coin falls heads with a probability in [1/2 - beta, 1/2 + beta].
    terms
        Parties whose counts are in the sum and not known to who sees it.
    components
        Sums that are seen of a row: the width of an embedding.
    adjacency
        ``"party"`` if one term changes, ``"sample"`` if all may.

    Raises
    ------
    ConfigurationError
        If beta is not in (0, 1/4], or a count is not at least 1.

    Examples
    --------
    >>> event = BinomialSum(trials=16, beta=0.1, terms=4)
    >>> event.renyi([2.0]).round(4)  # nats
    array([0.6848])
    >>> event.seen_by(colluding=1).renyi([2.0]).round(4)
    array([0.914])
    """

    trials: int
    beta: float
    terms: int
    components: int = 1
    adjacency: Adjacency = "party"

    def __post_init__(self) -> None:
        make_plain(BinomialSum, self)
        counts = {"trials": self.trials, "terms": self.terms, "components": self.components}
        check_counts(dict(counts))
        check_adjacency(self.adjacency)
        if not (is_number(self.beta) and 0 < self.beta <= _MOST_BETA):
            raise ConfigurationError(
                f"beta is {self.beta!r}, but the probabilities of counts lie within 1/2 - beta and "
                f"1/2 + beta: give a beta above 0 and at most {_MOST_BETA}"
            )

    @property
    def draws(self) -> int:
        """See ``Event``."""
        return self.components * sum(groups for groups, *_ in self._groups)

    @property
    def distance(self) -> None:
        """See ``Event``."""

    @property
    def spread(self) -> float:
        """See ``Event``."""
        *_, (_, *coins) = self._groups
        return sqrt(2 * float(_curve(*coins, self.beta, (1.1,))[0]))  # of a Gaussian: D_1 = s^2 / 2

    def renyi(self, orders: ArrayLike) -> NDArray[np.float64]:
        """See ``Event``."""
        orders = checked_orders(orders)
        finite = np.isfinite(orders)
        curve = np.full(len(orders), self._coins[0] * _odds(self.beta))
        some = tuple(orders[finite].tolist())
        curve[finite] = sum(
            groups * _curve(*coins, self.beta, some) for groups, *coins in self._groups
        )
        return self.components * curve

    def growth(self, order: float) -> float:
        """Return b beta^2 alpha / M, which leaves out components; see ``asymptotic_renyi``."""
        return self.trials * self.beta**2 * order / self.terms

    def losses(self, uses: int, interval: float) -> Any:
        """See ``Event``."""
        whole = None
        for groups, trials, others in self._groups:
            points = 2 * trials * _odds(self.beta) / interval
            steps = (others + 1) * (trials + others + points)
            if points > _MOST_POINTS or steps > _MOST_STEPS:
                return None
            once = _losses(trials, others, self.beta, interval)
            losses = once.self_compose(uses * self.components * groups)
            whole = losses if whole is None else whole.compose(losses)
        return whole

    def seen_by(self, colluding: int) -> Self:
        """See ``Event``."""
        return replace(self, terms=terms_left(self.terms, colluding))

    def under(self, adjacency: Adjacency) -> Self:
        """See ``Event``."""
        return replace(self, adjacency=adjacency)

    @property
    def _coins(self) -> tuple[int, int]:
        """How many coins change, and how many do not."""
        every = self.trials * self.terms
        if self.adjacency == "sample":
            return every, 0
        return self.trials, every - self.trials

    @property
    def _groups(self) -> tuple[tuple[int, int, int], ...]:
        """How many sums are enumerated, with how many coins that change and that do not."""
        changing, hiding = self._coins
        groups = min(changing, ceil((changing + hiding) / _MOST_COINS))
        size, larger = divmod(changing, groups)
        sums = ((groups - larger, size), (larger, size + 1))
        return tuple(
            (number, coins, min(coins * hiding // changing, _MOST_COINS))
            for number, coins in sums
            if number
        )


def _odds(beta: float) -> float:
    """Return the largest loss of one coin, in nats."""
    return log((0.5 + beta) / (0.5 - beta))


@lru_cache(maxsize=256)
def _curve(trials: int, others: int, beta: float, orders: tuple[float, ...]) -> NDArray[np.float64]:
    return renyi_of_sums(trials, others, beta, np.array(orders))


@lru_cache(maxsize=32)
def _losses(trials: int, others: int, beta: float, interval: float) -> Any:
    """Return a dominating distribution of the loss of one component, in either direction."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    most = ceil(trials * _odds(beta) / interval)
    epsilons = interval * np.arange(-most, most + 1, dtype=np.float64)
    deltas = hockey_sticks_of_sums(trials, others, beta, epsilons)
    # What is beyond the largest loss that matters counts as infinite, and its mirror as that.
    beyond = int(np.count_nonzero(deltas < _NO_MASS))
    deltas = deltas[max(0, beyond - 1) : len(deltas) - max(0, beyond - 1)]
    most = len(deltas) // 2
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -most, most, deltas)
    )
