r"""Lagrange coding: data in segments, behind masks, computed upon where nobody can read it.

Yu et al., "Lagrange Coded Computing", AISTATS 2019, as FedVS uses it (Li et al., ICML 2023,
section 4). K segments X_1 ... X_K of one owner and T uniform masks Z_1 ... Z_T are the values of a
polynomial F of degree K + T - 1 at the points beta_1 ... beta_{K+T},

.. math:: F(z) = \sum_{k \le K} X_k \ell_k(z) + \sum_{t \le T} Z_t \ell_{K+t}(z),
   \qquad \ell_j(z) = \prod_{i \ne j} \frac{z - \beta_i}{\beta_j - \beta_i},

modulo a prime, and holder n has its share F(alpha_n), one at another point each.

- T shares together are uniform, whatever the data: the masks' part of them is an invertible matrix
  times uniform masks.
- A polynomial of degree d in shares of the same holder is the value, at its point, of a polynomial
  of degree d (K + T - 1). So d (K + T - 1) + 1 holders' answers, whichever, tell what it is at
  beta_1 ... beta_K: the polynomial of the data themselves. The others may be late, or silent.
- Who has that many answers knows all of that polynomial, at beta_{K+1} ... too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from colonnade.annotated import is_whole, make_plain
from colonnade.errors import (
    ConfigurationError,
    LocalProtocolError,
    RemoteProtocolError,
    TooFewAnswers,
)
from colonnade.kernels.mersenne import Elements, products
from colonnade.secure.fields import FIELD, Field

__all__ = ["LagrangeCode", "answers_needed"]


def answers_needed(segments: int, masks: int) -> int:
    """Return how many answers tell a product of two that were shared: 2 (K + T - 1) + 1.

    >>> answers_needed(segments=4, masks=1)
    9
    """
    return 2 * (segments + masks - 1) + 1


@dataclass(frozen=True)
class LagrangeCode:
    """How data are shared among holders, and answers decoded.

    Parameters
    ----------
    holders
        N: how many have a share.
    segments
        K: into how many parts data are cut; a share is as long as one of them.
    masks
        T: how many holders may put their shares together and learn nothing.
    field
        In which all is computed.

    Raises
    ------
    ConfigurationError
        If there are no segments or masks, or too few holders for them.

    Examples
    --------
    >>> code = LagrangeCode(holders=5, segments=2, masks=1)
    >>> code.needed  # answers, of five
    5
    >>> x, z = np.array([[3], [4]], np.uint32), np.array([[77]], np.uint32)
    >>> shares = code.encoded(x, z)
    >>> squares = {n: products(share[None], share[None])[0] for n, share in enumerate(shares)}
    >>> code.decoded(squares, "squares").tolist()
    [[9], [16]]
    """

    holders: int
    segments: int = 1
    masks: int = 1
    field: Field = FIELD

    def __post_init__(self) -> None:
        make_plain(LagrangeCode, self)
        for name, value in (("segments", self.segments), ("masks", self.masks)):
            if not is_whole(value) or value < 1:
                raise ConfigurationError(f"{name} is {value!r}, but must be a whole number from 1")
        if self.needed > self.holders:
            raise ConfigurationError(
                f"{self.segments} segments behind {self.masks} masks take the answers of "
                f"{self.needed} holders (2 (K + T - 1) + 1), and there are "
                f"{self.holders}: take fewer segments or masks, so that K + T is "
                f"{(self.holders - 1) // 2 + 1} at most"
            )

    @property
    def needed(self) -> int:
        """How many answers tell the result of a product: 2 (K + T - 1) + 1."""
        return answers_needed(self.segments, self.masks)

    def encoded(self, segments: Elements, masks: Elements) -> Elements:
        """Return a share for each holder.

        Parameters
        ----------
        segments
            ``[K, ...]``.
        masks
            ``[T, ...]``, uniform, drawn for this and nothing else.

        Returns
        -------
        Elements
            ``[N, ...]``.
        """
        if (len(segments), len(masks)) != (self.segments, self.masks):
            raise LocalProtocolError(
                f"{len(segments)} segments and {len(masks)} masks cannot be coded as "
                f"{self.segments} and {self.masks}"
            )
        values = np.concatenate([segments, masks]).reshape(self.segments + self.masks, -1)
        return products(self._weights(), values).reshape(self.holders, *segments.shape[1:])

    def repeated(self, segment: Elements, masks: Elements) -> Elements:
        """Return shares of data that are the same in every segment: of weights, say.

        Parameters
        ----------
        segment
            ``[...]``.
        masks
            ``[T, ...]``, as for ``encoded``.
        """
        if len(masks) != self.masks:
            raise LocalProtocolError(f"{len(masks)} masks came, and {self.masks} are needed")
        weights, prime = self._weights(), self.field.prime
        once = [[sum(map(int, row[: self.segments])) % prime] for row in weights]
        weights = np.hstack([np.array(once, self.field.dtype), weights[:, self.segments :]])
        values = np.concatenate([segment[None], masks]).reshape(1 + self.masks, -1)
        return products(weights, values).reshape(self.holders, *segment.shape)

    def decoded(self, answers: Mapping[int, Elements], what: str) -> Elements:
        """Return the result for each segment, ``[K, ...]``.

        Parameters
        ----------
        answers
            By holder, from 0 on: the value at its point, ``[...]``. Those of the first ``needed``
            in order are used.
        what
            What they answer, for errors.

        Raises
        ------
        TooFewAnswers
            If there are fewer than ``needed``.
        RemoteProtocolError
            If one is of a holder whom there is not, or not as large as the others.
        """
        strangers = [holder for holder in answers if not 0 <= holder < self.holders]
        if strangers:
            raise RemoteProtocolError(
                f"there is no holder {strangers[0]} of {what}, but 0 to {self.holders - 1}"
            )
        if len(answers) < self.needed:
            raise TooFewAnswers(
                f"{len(answers)} answers came of {what}, and {self.needed} are needed: "
                f"{self.segments} segments behind {self.masks} masks are of degree "
                f"{self.needed - 1} in all"
            )
        used = sorted(answers)[: self.needed]
        shape = answers[used[0]].shape
        for holder in used:
            if answers[holder].shape != shape:
                raise RemoteProtocolError(
                    f"the answer of holder {holder} to {what} is {answers[holder].shape}, "
                    f"expected {shape}"
                )
        values = np.stack([answers[holder].reshape(-1) for holder in used])
        weights = _weights(
            self.field,
            tuple(self.points[holder] for holder in used),
            self.anchors[: self.segments],
        )
        return products(weights, values).reshape(self.segments, *shape)

    @property
    def anchors(self) -> tuple[int, ...]:
        """The points beta_1 ... beta_{K+T} at which segments and masks lie."""
        return tuple(range(1, self.segments + self.masks + 1))

    @property
    def points(self) -> tuple[int, ...]:
        """The points alpha_1 ... alpha_N of the holders; none is an anchor."""
        first = self.segments + self.masks + 1
        return tuple(range(first, first + self.holders))

    def _weights(self) -> Elements:
        return _weights(self.field, self.anchors, self.points)


@lru_cache(maxsize=256)
def _weights(field: Field, known: Sequence[int], asked: Sequence[int]) -> Elements:
    """Return by which weights values at ``known`` add up to those at ``asked`` (Lagrange)."""
    prime, weights = field.prime, []
    for point in asked:
        row = []
        for j, at in enumerate(known):
            above = below = 1
            for i, other in enumerate(known):
                if i != j:
                    above = above * (point - other) % prime
                    below = below * (at - other) % prime
            row.append(above * pow(below, -1, prime) % prime)
        weights.append(row)
    result = np.array(weights, dtype=field.dtype)
    result.flags.writeable = False
    return result
