"""The game of a secure sum: one party's value goes from one extreme to the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.privacy.events import Event
from colonnade.privacy.summand import Summand
from colonnade.secure.keystream import Keystream

__all__ = ["SumGame"]


@dataclass(frozen=True)
class SumGame:
    """Counts of several parties are summed; whose value changes goes from one extreme to the other.

    The others' values are known to who guesses, and at an extreme, where their coins hide least.

    Parameters
    ----------
    mechanism
        How values become the numbers that are summed.
    terms
        Parties whose numbers are in a sum.

    Examples
    --------
    >>> from colonnade.privacy import PoissonBinomial
    >>> SumGame(PoissonBinomial(trials=16, beta=0.1), terms=4).claim
    BinomialSum(trials=16, beta=0.1, terms=4, components=1, adjacency='party')
    """

    mechanism: Summand
    terms: int

    @property
    def protects(self) -> str:
        """See ``Game``."""
        return "embeddings"

    @property
    def claim(self) -> Event:
        """See ``Game``."""
        return self.mechanism.event(self.terms, 1)

    def outcomes(self, changed: bool, games: int, noise: Keystream) -> NDArray[np.float64]:
        """See ``Game``."""
        most = torch.full((games, 1), self.mechanism.bound)
        total = np.zeros((games, 1), dtype=np.int64)
        for party in range(self.terms):
            value = -most if changed and not party else most
            total += self.mechanism.counts(value, noise)
        return total[:, 0].astype(np.float64)
