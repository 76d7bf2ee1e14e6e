"""Events: one use of one row, as somebody sees it who wants to know what the row holds.

An event is a frozen value: which mechanism, with which noise, seen by whom. It answers what it
discloses at most, as a Renyi curve and as a distribution of the privacy loss; ``accountant``
composes the answers of many.

Two tables are neighbours under an **adjacency**:

- ``"party"``: one party's features of one sample differ, so one party's value does;
- ``"sample"``: anything of one sample differs, so every party's value may.

An **adversary** is told by how many values an event still hides. The label holder sees what is made
of ``terms`` values. A party, or the label holder with c parties, knows theirs and takes them off:
``seen_by``. The batch is known to all, so nothing is gained by drawing rows at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from colonnade.annotated import is_whole
from colonnade.errors import ConfigurationError

__all__ = [
    "MOST_USES",
    "Adjacency",
    "Event",
    "Unprotected",
    "check_adjacency",
    "check_counts",
    "checked_orders",
    "terms_left",
]

Adjacency = Literal["party", "sample"]

MOST_USES = (1 << 64) - 1
"""How often a row may have been used, to be accounted for."""


class Event(Protocol):
    """What every event answers; it is frozen and can be hashed."""

    @property
    def adjacency(self) -> Adjacency:
        """Which tables are neighbours."""

    @property
    def draws(self) -> int:
        """How many releases, each with noise of its own, one use consists of."""

    @property
    def distance(self) -> float | None:
        """How many standard deviations a Gaussian moves by; None where it is not Gaussian."""

    @property
    def spread(self) -> float:
        """About the standard deviation of the privacy loss of one of these releases, in nats."""

    def renyi(self, orders: ArrayLike) -> NDArray[np.float64]:
        """Return bounds on the Renyi divergences of orders in (1, inf], in nats."""

    def growth(self, order: float) -> float | None:
        """Return the order of growth that its paper gives for the Renyi divergence of one use.

        It is no bound; None where there is no such figure.
        """

    def losses(self, uses: int, interval: float) -> Any:
        """Return a distribution of the loss of so many uses that dominates the true one.

        It is a ``PrivacyLossDistribution`` of dp-accounting with so wide intervals; None where it
        is not known, or takes more than bounded work.
        """

    def seen_by(self, colluding: int) -> Self:
        """Return the event as seen by who knows the values of so many parties."""

    def under(self, adjacency: Adjacency) -> Self:
        """Return the same release, for neighbours of this adjacency."""


@dataclass(frozen=True)
class Unprotected:
    """A release without noise: nothing bounds what it discloses, and epsilon is infinite.

    Parameters
    ----------
    adjacency
        ``"party"`` or ``"sample"``.

    Examples
    --------
    >>> Unprotected().renyi([2.0])
    array([inf])
    """

    adjacency: Adjacency = "party"

    def __post_init__(self) -> None:
        check_adjacency(self.adjacency)

    @property
    def draws(self) -> int:
        """See ``Event``."""
        return 1

    @property
    def distance(self) -> None:
        """See ``Event``."""

    @property
    def spread(self) -> float:
        """See ``Event``."""
        return inf

    def renyi(self, orders: ArrayLike) -> NDArray[np.float64]:
        """See ``Event``."""
        return np.full(len(checked_orders(orders)), inf)

    def growth(self, order: float) -> None:
        """See ``Event``."""

    def losses(self, uses: int, interval: float) -> Any:
        """See ``Event``."""

    def seen_by(self, colluding: int) -> Self:
        """See ``Event``."""
        return self

    def under(self, adjacency: Adjacency) -> Self:
        """See ``Event``."""
        return replace(self, adjacency=adjacency)


def check_adjacency(adjacency: str) -> None:
    """Refuse an adjacency that is none."""
    if adjacency not in get_args(Adjacency):
        raise ConfigurationError(
            f"adjacency is {adjacency!r}, but neighbours differ in one party's features of a "
            "sample or in all of it: write 'party' or 'sample'"
        )


def check_counts(what: dict[str, object]) -> None:
    """Refuse what is not a whole number of at least 1, or is beyond counting."""
    for name, value in what.items():
        if not is_whole(value) or not 1 <= value <= MOST_USES:
            raise ConfigurationError(
                f"{name} is {value!r:.40}: give a whole number, which is at least 1 and below 2^64"
            )


def checked_orders(orders: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    """Return orders as an array, if there are Renyi divergences of them."""
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if array.ndim != 1 or not np.all(array > 1):
        raise ConfigurationError(
            "Renyi divergences are asked for at orders of which one is not above 1: give numbers "
            "above 1, or infinity"
        )
    return array


def terms_left(terms: int, colluding: int) -> int:
    """Return how many of ``terms`` values are hidden from who knows ``colluding`` of them.

    >>> terms_left(4, 1)
    3
    """
    if not 0 <= colluding < terms:
        raise ConfigurationError(
            f"{colluding} of {terms} parties cannot collude against the others, and one must "
            f"be left: account for 0 to {terms - 1}"
        )
    return terms - colluding
