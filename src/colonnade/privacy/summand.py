"""A party's part of a secure sum: embeddings as whole numbers whose sum tells of theirs.

A secure sum adds whole numbers modulo 2^k and reveals nothing else. A *summand* says how a party's
embeddings become such numbers, and what a sum of them says of the sum of the embeddings. Where the
numbers are drawn at random, the sum is private itself, and the accountant says how much; where they
are rounded, the sum hides a party among the others and no more.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.privacy.events import Event
from colonnade.secure.keystream import KEY_BYTES, Keystream

__all__ = ["Summand", "check_total", "warm_up"]


@runtime_checkable
class Summand(Protocol):
    """How embeddings become whole numbers that are summed. A frozen value."""

    @property
    def bound(self) -> float:
        """The largest magnitude of a component."""

    @property
    def highest(self) -> int:
        """The largest count of one party, 65535 at most; the smallest is 0.

        Sums of M parties take ceil(log2(M highest + 1)) bits.
        """

    def counts(self, x: Tensor, noise: Keystream) -> NDArray[np.uint16]:
        """Return the counts of embeddings ``x`` of shape ``[rows, width]``, in that shape.

        ``noise`` is the party's own, for this message alone.

        Raises
        ------
        Diverged
            If a value is not finite.
        ConfigurationError
            If a value is beyond the bound.
        """

    def estimate(self, total: NDArray[np.unsignedinteger[Any]], terms: int) -> Tensor:
        """Return what a sum of the counts of so many parties says of the sum of their embeddings.

        Float32, in the shape of ``total``.

        Raises
        ------
        RemoteProtocolError
            If counts of so many parties cannot have such a sum.
        """

    def event(self, terms: int, components: int) -> Event:
        """Return what one use of a row is for who sees the sum over so many parties.

        ``Unprotected()`` where nothing bounds what it discloses.
        """

    def squared_error(self, terms: int) -> float:
        """Return what the expected square of the error of a component is at most, for so many."""


def warm_up(summand: Summand, width: int) -> None:
    """Turn two rows of zeros to counts and back, so that nothing is compiled later."""
    counts = summand.counts(torch.zeros(2, width), Keystream(bytes(KEY_BYTES)))
    summand.estimate(counts, 1)


def check_total(total: NDArray[np.unsignedinteger[Any]], terms: int, highest: int) -> None:
    """Raise ``RemoteProtocolError`` if so many counts up to ``highest`` have no such sum."""
    if terms < 1:
        raise LocalProtocolError(f"a sum has 1 term or more, not {terms}")
    if int(total.max(initial=0)) > terms * highest:
        raise RemoteProtocolError(
            f"a sum of {terms} counts is too large, as each is at most {highest}; "
            "a party's masks or counts are not what was agreed"
        )
