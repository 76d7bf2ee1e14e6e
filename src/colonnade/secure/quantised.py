r"""Data and weights as whole numbers, so that a field holds their products' sums exactly.

Party n's input powers become :math:`X = \mathrm{round}(2^{l_x} x)`, once; its weights W become
:math:`2^{l_w} W` rounded at random to a neighbour, without a bias, each round. Then

.. math:: \sum_n \sum_i X_n^i W_n^i \approx 2^{l_x + l_w} \sum_n h_n,

and the sum is exact modulo p if it is at most (p - 1) / 2 from 0. No party knows the others', so
each makes sure that its own term is at most :math:`(p - 1) / (2 N)` from 0 on every row that it
shared: with :math:`A_j^i` the largest :math:`|X_j^i|` of these rows,

.. math:: \max_c \sum_i \sum_j A_j^i |W_{jc}^i| \le \frac{p - 1}{2 N}

in whole numbers as they are shared, rounding included. The bound does not leave the party; where it
does not hold, training ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.annotated import is_whole, make_plain
from colonnade.errors import ConfigurationError, Diverged, OutOfRange
from colonnade.secure.fields import FIELD, Field
from colonnade.secure.keystream import Keystream

__all__ = ["Quantised"]

_RANDOM_BITS = 32
_EXACT = 2.0**53  # doubles hold all whole numbers below


@dataclass(frozen=True)
class Quantised:
    """How finely data and weights are rounded.

    Parameters
    ----------
    data_bits
        l_x: data are rounded to multiples of 2^-l_x.
    weight_bits
        l_w: weights to multiples of 2^-l_w.
    field
        Whose elements stand for them.

    Raises
    ------
    ConfigurationError
        If a number is negative, or there is no room for it in the field.

    Examples
    --------
    >>> quantised = Quantised(data_bits=4, weight_bits=4)
    >>> quantised.data(np.array([[0.5, -1.03]]))
    array([[  8, -16]])
    >>> quantised.values(np.array([128]))
    array([0.5], dtype=float32)
    """

    data_bits: int = 8
    weight_bits: int = 8
    field: Field = FIELD

    def __post_init__(self) -> None:
        make_plain(Quantised, self)
        for name, bits in (("data_bits", self.data_bits), ("weight_bits", self.weight_bits)):
            if not is_whole(bits) or bits < 0:
                raise ConfigurationError(f"{name} is {bits!r}, but a whole number from 0")
        if self.data_bits + self.weight_bits >= self.field.bits - 1:
            raise ConfigurationError(
                f"{self.data_bits} bits for data and {self.weight_bits} for weights leave no room "
                f"in a field of {self.field.bits}: take fewer, or the field of 61"
            )

    def data(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return round(2^l_x x), halves to even.

        Raises
        ------
        Diverged
            If a value is not finite, or beyond what a double holds to one.
        """
        return np.rint(_scaled(x, self.data_bits, "a power of a feature")).astype(np.int64)

    def weights(self, w: NDArray[np.float64], noise: Keystream) -> NDArray[np.int64]:
        """Return 2^l_w w, rounded up as often as it is near to the neighbour above, else down.

        Raises
        ------
        Diverged
            As for ``data``.
        """
        scaled = _scaled(w, self.weight_bits, "a weight")
        lower = np.floor(scaled)
        drawn = np.empty(w.shape, dtype=np.uint32)
        noise.fill(drawn)
        up = np.ldexp(drawn.astype(np.float64), -_RANDOM_BITS) < scaled - lower
        return (lower + up).astype(np.int64)

    def check_range(
        self, largest: NDArray[np.int64], weights: NDArray[np.int64], parties: int
    ) -> None:
        """Raise ``OutOfRange`` if a party's term might leave its part of the field.

        Parameters
        ----------
        largest
            A, ``[D, d + 1]``: of each column, the largest magnitude that was shared.
        weights
            ``[D, d + 1, E]``, as they are shared.
        parties
            N.
        """
        terms = np.einsum("ij,ijc->c", largest.astype(np.float64), np.abs(weights) * 1.0)
        most, room = float(terms.max(initial=0.0)), self.field.largest // parties
        if most >= _EXACT:  # then sums are rounded, by less than this: none too large passes
            most *= 1 + 2.0**-40
        if most > room:
            beyond = int(np.ceil(np.log2(most / room)))
            one = 2.0 ** (self.data_bits + self.weight_bits)
            raise OutOfRange(
                f"an embedding may come to {most / one:.3g}, and {self.data_bits} + "
                f"{self.weight_bits} bits leave room for {room / one:.3g} in a field of "
                f"{self.field.bits} bits with {parties} parties: bring features to [0, 1] (scale: "
                f"unit), or take a smaller learning rate, {self._fewer(beyond)}or the field of 61"
            )

    def _fewer(self, beyond: int) -> str:
        """Say how many bits less would do, where there are so many."""
        if beyond >= self.data_bits + self.weight_bits:
            return ""
        return f"{beyond} fewer of data_bits or weight_bits, "

    def values(self, total: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return what sums of products stand for."""
        scaled = np.ldexp(total.astype(np.float64), -self.data_bits - self.weight_bits)
        return scaled.astype(np.float32)


def _scaled(numbers: NDArray[np.float64], bits: int, what: str) -> NDArray[np.float64]:
    most = float(np.abs(numbers).max(initial=0.0))
    if not most < _EXACT / 2.0 ** (bits + 1):
        raise Diverged(
            f"{what} is too large to be rounded, or no number: {most:g}; bring features to [0, 1] "
            "(scale: unit), or take a smaller learning rate"
        )
    scaled: NDArray[np.float64] = np.ldexp(numbers, bits)
    return scaled
