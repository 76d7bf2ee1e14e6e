"""A distinguishing game: whether a mechanism discloses more than its account says.

The accountant proves upper bounds of a mechanism on paper; here the mechanism that is used, with
its samplers and its rounding, is tried. Two neighbouring worlds are played many times each: one
component, one use of a row, values at the extremes. Who sees the outcomes guesses the world. If the
mechanism is (epsilon, delta)-private, then for every set of outcomes A, in either direction,

    P1(A) <= exp(epsilon) P0(A) + delta,

so what was counted bounds epsilon from below (Jagielski, Ullman and Oprea, "Auditing differentially
private machine learning", NeurIPS 2020). The best threshold is chosen by one half of the games and
tested on the other, which knows nothing of the choice; both probabilities are bounded after Clopper
and Pearson, each with half of the error that is allowed, so both hold jointly.

A lower bound above the claim proves that the mechanism, or the account, is broken. One below it
proves nothing: it says how far off this one game would have noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from colonnade.errors import ConfigurationError
from colonnade.privacy.accountant import Spending, check_delta
from colonnade.privacy.bounds import check_range
from colonnade.privacy.events import Event
from colonnade.secure.keystream import Keystream

__all__ = ["NEAR", "Game", "Played", "check_games", "epsilon_at_least", "play"]

_FEWEST = 100  # games of a world
_MOST = 10_000_000  # which take some 10 seconds and a gigabyte
_THRESHOLDS = 1000
_CAUTION = (
    0.01  # a threshold is chosen as if so little error were allowed, so not by luck at an end
)
NEAR = 1e-2
"""A delta for which few games bound epsilon closely."""


class Game(Protocol):
    """Two worlds that a mechanism must not let anybody tell apart. A frozen value."""

    @property
    def mechanism(self) -> Any:
        """What is tried, as it is used."""

    @property
    def protects(self) -> str:
        """What it is that two worlds differ in, such as embeddings, or labels."""

    @property
    def claim(self) -> Event:
        """What one play is said to disclose."""

    def outcomes(self, changed: bool, games: int, noise: Keystream) -> NDArray[np.float64]:
        """Play one world, the changed one or the other, so many times; return what is seen."""


@dataclass(frozen=True)
class Played:
    """How a game went.

    Parameters
    ----------
    game
        Which.
    delta
        That of the claim and of the bound.
    claim
        Epsilon as the account has it, an upper bound.
    bound
        The epsilon that the mechanism has at least, with the confidence; 0 where nothing was seen.
    games
        How often each world was played.
    confidence
        Of the bounds for all deltas together.

    Examples
    --------
    >>> from colonnade.privacy import Gaussian, GaussianGame
    >>> played = Played(GaussianGame(Gaussian(1.0, 2.0)), 1e-2, 2.0, 1.6, 100_000, 0.95)
    >>> played.holds, played.tightness
    (True, 0.8)
    """

    game: Game
    delta: float
    claim: float
    bound: float
    games: int
    confidence: float

    @property
    def holds(self) -> bool:
        """Whether the bound is within the claim; if not, what is claimed is not true."""
        return self.bound <= self.claim

    @property
    def tightness(self) -> float:
        """The bound as a part of the claim."""
        return self.bound / self.claim if self.claim else 0.0


def play(
    game: Game,
    noise: Keystream,
    deltas: Sequence[float] = (1e-5, NEAR),
    games: int = 100_000,
    confidence: float = 0.95,
) -> tuple[Played, ...]:
    """Play a game and return its lower bounds on epsilon beside the claims, one for each delta.

    A claim is a curve: whoever says epsilon for one delta says it for each, as the account does.
    For a small delta the outcomes that matter are rare, and bounds are loose; a larger one is
    bounded more closely, and a mechanism that exceeds its claim there is broken as well.

    Parameters
    ----------
    game
        Which.
    noise
        What the mechanism draws from: used for nothing else.
    deltas
        Those of the claims.
    games
        How often each world is played.
    confidence
        With which all the bounds hold together.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Examples
    --------
    >>> from colonnade.privacy import PoissonBinomial, SumGame
    >>> game = SumGame(PoissonBinomial(trials=16, beta=0.1), terms=4)
    >>> for played in play(game, Keystream(bytes(16))):
    ...     print(f"delta {played.delta}: at least {played.bound:.2f}, at most {played.claim:.2f}")
    delta 1e-05: at least 2.11, at most 3.59
    delta 0.01: at least 1.65, at most 1.82
    """
    for delta in deltas:
        check_delta(delta)
    check_games(games)
    here, there = (game.outcomes(changed, games, noise) for changed in (False, True))
    each = 1 - (1 - confidence) / len(deltas)
    spent = Spending({game.claim: 1})
    return tuple(
        Played(
            game,
            delta,
            spent.epsilon(delta).value,
            epsilon_at_least(here, there, delta, each),
            games,
            confidence,
        )
        for delta in deltas
    )


def epsilon_at_least(
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Return a lower bound on epsilon from outcomes of two worlds, which are independent draws.

    Parameters
    ----------
    here, there
        Numbers that were seen in one world and in the other.
    delta
        Of (epsilon, delta).
    confidence
        With which the bound holds.

    Raises
    ------
    ConfigurationError
        If there are too few outcomes, or a number is out of range.
    """
    check_delta(delta)
    check_range("confidence", confidence, 0.5, 1 - 1e-9)
    worlds = [np.asarray(world, dtype=np.float64) for world in (here, there)]
    halves = [check_games(len(world)) // 2 for world in worlds]
    chosen = [np.sort(world[:half]) for world, half in zip(worlds, halves, strict=True)]
    tested = [np.sort(world[half:]) for world, half in zip(worlds, halves, strict=True)]
    thresholds = np.unique(np.concatenate(chosen))
    if len(thresholds) > _THRESHOLDS:
        ends = _THRESHOLDS // 4  # where ratios are largest
        ranks = np.linspace(ends, len(thresholds) - 1 - ends, 2 * ends).astype(np.int64)
        kept = (thresholds[:ends], thresholds[ranks], thresholds[-ends:])
        thresholds = np.unique(np.concatenate(kept))
    error = (1 - confidence) / 2  # of each probability
    found = _bounds(chosen, thresholds, delta, error * _CAUTION)
    event, direction, threshold = np.unravel_index(int(np.argmax(found)), found.shape)
    tried = _bounds(tested, thresholds[threshold : threshold + 1], delta, error)
    return max(0.0, float(tried[event, direction, 0]))


def _bounds(
    worlds: list[NDArray[np.float64]],
    thresholds: NDArray[np.float64],
    delta: float,
    error: float,
) -> NDArray[np.float64]:
    """Return bounds by the event (below, or not), the direction, and the threshold."""
    sizes = [len(world) for world in worlds]
    below = [np.searchsorted(world, thresholds) for world in worlds]
    found = np.full((2, 2, len(thresholds)), -inf)
    for event in range(2):
        counts = [n - k if event else k for n, k in zip(sizes, below, strict=True)]
        for direction in range(2):
            often, seldom = direction, 1 - direction
            least = _at_least(counts[often], sizes[often], error) - delta
            most = _at_most(counts[seldom], sizes[seldom], error)
            above = least > 0
            found[event, direction, above] = np.log(least[above] / most[above])
    return found


def _at_least(count: NDArray[Any], games: int, error: float) -> NDArray[np.float64]:
    """Return Clopper and Pearson's lower bound on a probability."""
    bound = np.zeros(len(count))
    some = count > 0
    bound[some] = betaincinv(count[some], games - count[some] + 1, error)
    return bound


def _at_most(count: NDArray[Any], games: int, error: float) -> NDArray[np.float64]:
    """Return the upper one, which is never 0."""
    return 1 - _at_least(games - count, games, error)


def check_games(games: int) -> int:
    """Return how often a world is played, if that bounds something and ends.

    Raises
    ------
    ConfigurationError
        If these are too few, or too many.
    """
    if games < _FEWEST:
        raise ConfigurationError(
            f"{games} games of a world bound nothing: play {_FEWEST} or more, best 100000"
        )
    if games > _MOST:
        raise ConfigurationError(
            f"{games} games of a world are more than are kept in memory: play {_MOST} at most, "
            "best 100000"
        )
    return games
