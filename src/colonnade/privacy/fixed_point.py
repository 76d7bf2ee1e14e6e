"""Embeddings as whole numbers without noise: the sum that a secure sum reveals is all but exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import make_plain
from colonnade.privacy.bounds import check_bound, check_whole, within
from colonnade.privacy.events import Unprotected
from colonnade.privacy.summand import check_total
from colonnade.secure.keystream import Keystream

__all__ = ["FixedPoint"]


@dataclass(frozen=True)
class FixedPoint:
    """Each component x, of [-C, C], becomes the nearest of 2^bits - 1 levels that include 0.

    With h = 2^(bits - 1) - 1 the count is h + round(h x / C), and of the sum q of M counts the
    estimate of the sum of the components is (C / h) (q - M h).

    It protects nothing beyond the sum: whoever sees sums learns them, and there is no epsilon to
    account for. It is for secure sums alone, and for the exact sum that papers evaluate with.

    Rounding is to the nearest level, not at random. The same embeddings then give the same sums,
    so that an evaluation does not hang on a draw, the largest error is half a level a party rather
    than a whole one, and there is no noise that one might take for protection. What that costs is a
    bias of half a level at most, C / 65534 with 16 bits.

    Parameters
    ----------
    bits
        2 to 16.
    bound
        C, the largest magnitude of a component; the bottom model has to keep to it, as one that
        ends in tanh does for 1.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Examples
    --------
    >>> summand = FixedPoint(bits=4)
    >>> counts = summand.counts(torch.tensor([[1.0, -1.0, 0.0, 0.3]]), Keystream(bytes(16)))
    >>> counts, summand.estimate(counts, terms=1)
    (array([[14,  0,  7,  9]], dtype=uint16), tensor([[ 1.0000, -1.0000,  0.0000,  0.2857]]))
    """

    bits: int = 16
    bound: float = 1.0

    def __post_init__(self) -> None:
        make_plain(FixedPoint, self)
        check_whole("bits", self.bits, 2, 16)
        check_bound(self.bound)

    @property
    def highest(self) -> int:
        """The count of C."""
        return 2 * self._half

    def counts(self, x: Tensor, noise: Keystream) -> NDArray[np.uint16]:
        """Return the level of each component of ``x``, ``[rows, width]``; nothing is drawn.

        Raises
        ------
        Diverged
            If a value is not finite.
        ConfigurationError
            If a value is beyond the bound.
        """
        values = within(x, self.bound).astype(np.float64)
        values *= self._half / self.bound
        np.rint(values, out=values)
        np.clip(values, -self._half, self._half, out=values)
        values += self._half
        return values.astype(np.uint16).reshape(tuple(x.shape))

    def estimate(self, total: NDArray[np.unsignedinteger[Any]], terms: int) -> Tensor:
        """Return the sum of so many parties' embeddings, each off by half a level at most.

        Raises
        ------
        RemoteProtocolError
            If counts of so many parties cannot have such a sum.
        """
        check_total(total, terms, self.highest)
        estimate = np.subtract(total, float(terms * self._half), dtype=np.float64)
        estimate *= self.bound / self._half
        return torch.from_numpy(estimate.astype(np.float32))

    def event(self, terms: int, components: int) -> Unprotected:
        """Return that nothing bounds what sums disclose."""
        return Unprotected()

    def squared_error(self, terms: int) -> float:
        """Return the square of half a level of each: errors of parties may all point one way."""
        return (terms * self.bound / (2 * self._half)) ** 2

    @property
    def _half(self) -> int:
        return (1 << (self.bits - 1)) - 1
