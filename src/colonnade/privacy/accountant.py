"""The account: what many uses of a row disclose together, as an epsilon for a delta.

Renyi divergences of uses add up, whatever later uses are chosen by (Mironov, 2017), and convert to
(epsilon, delta) at the best order; of order infinity they bound epsilon for every delta, even 0.
Tighter, and dearer, are distributions of the privacy loss: each event gives one that dominates what
it discloses, whatever the other parties hold, so convolutions of them dominate the whole (Zhu, Dong
and Wang, 2022). Both are upper bounds; the smaller counts. Gaussians alone have a closed form.

Distributions are used where all of this holds, so that work stays within seconds:

- intervals of a 64th of the narrowest spread among the events (a power of two) cut the losses of
  every event into at most 2^18 pieces, and those of all uses into about 2^20;
- rounding, 1e-13 for each component of each use, stays below a quarter of delta; epsilon is then
  that of what is left of delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import floor, hypot, inf, isfinite, log2, sqrt
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.annotated import is_number
from colonnade.errors import ConfigurationError
from colonnade.privacy.events import MOST_USES, Adjacency, Event, checked_orders
from colonnade.privacy.gaussian_noise import gaussian_epsilon

__all__ = ["ORDERS", "Epsilon", "Spending", "check_delta", "is_bounded"]

ORDERS = tuple((1 + np.geomspace(0.011, 511, 64)).tolist())
"""Orders whose Renyi divergences are converted; near 1 for much that is spent, 512 for little."""

_PIECES = 64.0  # of a spread
_MOST_POINTS = 1 << 20
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Epsilon:
    """An epsilon for a delta, and how it was found.

    Parameters
    ----------
    delta
        What it holds with.
    renyi, order
        From the Renyi divergence of this order, which is the best.
    losses
        From the distribution of the privacy loss; None where that would have taken too much work.

    Examples
    --------
    >>> found = Epsilon(1e-5, renyi=2.0, order=10.0, losses=1.8)
    >>> found.value, found.by
    (1.8, 'losses')
    """

    delta: float
    renyi: float
    order: float
    losses: float | None = None

    @property
    def value(self) -> float:
        """The smaller of the two bounds, which counts."""
        return self.renyi if self.losses is None else min(self.renyi, self.losses)

    @property
    def by(self) -> Literal["renyi", "losses"]:
        """Which of them counts."""
        return "renyi" if self.losses is None or self.renyi <= self.losses else "losses"


@dataclass(frozen=True)
class Spending:
    """What was done with a row, under one adjacency: events, and how often there was each.

    Parameters
    ----------
    uses
        How many times there was each event; an event that never was is left out.

    Raises
    ------
    ConfigurationError
        If a number of uses is negative, or events are of different adjacencies.

    Examples
    --------
    >>> from colonnade.privacy import BinomialSum
    >>> epoch = Spending({BinomialSum(trials=4, beta=0.05, terms=4, components=8): 1})
    >>> spent = 20 * epoch + epoch
    >>> sum(spent.uses.values())
    21
    >>> spent.epsilon(1e-5).value < 21 * epoch.epsilon(1e-5).value
    True
    >>> Spending().epsilon(1e-5).value
    0.0
    """

    uses: Mapping[Event, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for event, count in self.uses.items():
            whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
            if not (whole and 0 <= count <= MOST_USES):
                raise ConfigurationError(
                    f"{event} was used {count!r:.40} times: give a whole number, which is at least "
                    "0 and below 2^64"
                )
        kept = {event: int(count) for event, count in self.uses.items() if count}
        adjacencies = {event.adjacency for event in kept}
        if len(adjacencies) > 1:
            raise ConfigurationError(
                "what neighbours of one party's features and of whole samples tell apart does not "
                "add up: account for each adjacency by itself"
            )
        object.__setattr__(self, "uses", MappingProxyType(kept))

    def __hash__(self) -> int:
        return hash(frozenset(self.uses.items()))

    def __reduce__(self) -> tuple[type[Spending], tuple[dict[Event, int]]]:
        return Spending, (dict(self.uses),)

    def __iter__(self) -> Iterator[tuple[Event, int]]:
        return iter(self.uses.items())

    def __bool__(self) -> bool:
        return bool(self.uses)

    def __add__(self, other: Spending) -> Spending:
        both = dict(self.uses)
        for event, count in other:
            both[event] = both.get(event, 0) + count
        return Spending(both)

    def __mul__(self, times: int) -> Spending:
        return Spending({event: times * count for event, count in self})

    __rmul__ = __mul__

    def seen_by(self, colluding: int) -> Spending:
        """Return what was spent towards whoever knows the values of so many parties."""
        return sum(
            (Spending({event.seen_by(colluding): count}) for event, count in self), Spending()
        )

    def under(self, adjacency: Adjacency) -> Spending:
        """Return what was spent where neighbours are those of this adjacency."""
        return sum((Spending({event.under(adjacency): count}) for event, count in self), Spending())

    def renyi(self, orders: ArrayLike) -> NDArray[np.float64]:
        """Return bounds on the Renyi divergences of orders in (1, inf], in nats."""
        orders = checked_orders(orders)
        total = np.zeros(len(orders))
        for event, count in self:
            total += count * event.renyi(orders)
        return total

    def epsilon(self, delta: float) -> Epsilon:
        """Return epsilon of (epsilon, delta)-differential privacy; infinite where there is none.

        Raises
        ------
        ConfigurationError
            If delta is not in [0, 1).
        """
        check_delta(delta)
        return _epsilon(self, float(delta))

    def epsilon_by_renyi(self, delta: float) -> Epsilon:
        """Return the bound of Renyi divergences alone, which takes no time."""
        check_delta(delta)
        pure = float(self.renyi([inf])[0])
        if not self or not pure:
            return Epsilon(delta, 0.0, inf)
        if not delta:
            return Epsilon(delta, pure, inf)
        from dp_accounting.rdp import compute_epsilon

        epsilon, order = compute_epsilon(ORDERS, self.renyi(ORDERS), delta)
        if epsilon < pure:
            return Epsilon(delta, float(epsilon), float(order))
        return Epsilon(delta, pure, inf)

    def _by_losses(self, delta: float) -> float | None:
        """Return the bound of distributions of losses, where it is found within bounded work."""
        if not delta:
            return None
        distances = [
            sqrt(count) * event.distance for event, count in self if event.distance is not None
        ]
        if len(distances) == len(self.uses):
            return gaussian_epsilon(hypot(*distances), delta)
        draws = sum(count * event.draws for event, count in self)
        spreads = [event.spread for event, _ in self if event.spread]
        rounding = _ROUNDING * draws
        if not isfinite(max(spreads)) or rounding > delta / 4:
            return None
        interval = 2.0 ** floor(log2(min(spreads) / _PIECES))
        deviation = sqrt(sum(count * event.draws * event.spread**2 for event, count in self))
        if 20 * deviation / interval > _MOST_POINTS:
            return None
        whole = None
        for event, count in self:
            losses = event.losses(count, interval)
            if losses is None:
                return None
            whole = losses if whole is None else whole.compose(losses)
        assert whole is not None
        with np.errstate(over="ignore"):  # where a mass is next to nothing
            epsilon = float(whole.get_epsilon_for_delta(delta - rounding))
        return epsilon if isfinite(epsilon) else None


def is_bounded(event: Event, delta: float) -> bool:
    """Return whether anything bounds what one use discloses, by whichever of the bounds.

    >>> from colonnade.privacy import GaussianNoise, Unprotected
    >>> is_bounded(GaussianNoise(2.0), 1e-5), is_bounded(Unprotected(), 1e-5)
    (True, False)
    """
    return isfinite(Spending({event: 1}).epsilon(delta).value)


def check_delta(delta: float) -> None:
    """Refuse a delta that is no probability that something fails."""
    if not (is_number(delta) and 0 <= delta < 1):
        raise ConfigurationError(
            f"delta is {delta!r}, but it is the probability with which epsilon may be exceeded: "
            "give a number from 0 to below 1, such as one over ten times the number of rows"
        )


@lru_cache(maxsize=4096)
def _epsilon(spent: Spending, delta: float) -> Epsilon:
    by_renyi = spent.epsilon_by_renyi(delta)
    if not by_renyi.renyi:
        return by_renyi
    return replace(by_renyi, losses=spent._by_losses(delta))
