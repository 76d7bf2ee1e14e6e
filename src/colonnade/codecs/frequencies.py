"""How often each symbol comes, as both ends of an entropy coder must know it, in few bytes.

Frequencies are whole numbers q that sum to 2^P. The symbols that occur are listed in order, each by
the gap to the one before it and by q - 1, both in exponential Golomb codes; the list ends where the
sum is reached. More bits P make the table longer and the message shorter: the encoder tries them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RemoteProtocolError

__all__ = ["BitReader", "BitWriter", "Frequencies", "fitted"]

_PATIENCE = 3


class BitWriter:
    """Bits one after another, lowest first."""

    def __init__(self) -> None:
        self._number = 0
        self._bits = 0

    def write(self, number: int, width: int) -> None:
        """Write a number of ``width`` bits."""
        self._number |= number << self._bits
        self._bits += width

    def golomb(self, number: int, order: int) -> None:
        """Write the exponential Golomb code: v = number + 2^order in binary, behind its length."""
        value = number + (1 << order)
        ones = value.bit_length() - 1 - order
        self.write((1 << ones) - 1, ones + 1)
        self.write(value - (1 << order + ones), order + ones)

    def as_bytes(self) -> bytes:
        """Return all bits, the last byte filled with zeros."""
        return self._number.to_bytes(-(-self._bits // 8), "little")


class BitReader:
    """Reads what a ``BitWriter`` wrote, and refuses to read beyond it."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    def read(self, width: int) -> int:
        """Return a number of ``width`` bits."""
        end = self._position + width
        if end > 8 * len(self._body):
            raise RemoteProtocolError("the frequencies of an entropy-coded body are cut off")
        first = self._position // 8
        number = int.from_bytes(self._body[first : -(-end // 8)], "little")
        number >>= self._position - 8 * first
        self._position = end
        return number & ((1 << width) - 1)

    def golomb(self, order: int, most: int) -> int:
        """Return a number of an exponential Golomb code that must not exceed ``most``."""
        ones = 0
        while self.read(1):
            ones += 1
            if (1 << order + ones) - (1 << order) > most:
                raise RemoteProtocolError("a frequency of an entropy-coded body is too large")
        number = (1 << order + ones) - (1 << order) + self.read(order + ones)
        if number > most:
            raise RemoteProtocolError("a frequency of an entropy-coded body is too large")
        return number

    def used_bytes(self) -> int:
        """Return how many bytes were begun, and refuse ones in what is left of the last."""
        rest = -self._position % 8
        if rest and self.read(rest):
            raise RemoteProtocolError("the bits that fill up a table of frequencies are not zero")
        return self._position // 8


@dataclass(frozen=True)
class Frequencies:
    """Which symbols occur, and how often: q[i] in 2^precision for ``symbols[i]``.

    Parameters
    ----------
    symbols
        Those that occur, ascending.
    counts
        q, each 1 or more.
    precision
        P.
    """

    symbols: NDArray[np.int64]
    counts: NDArray[np.int64]
    precision: int

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Their frequencies q / 2^P, exact."""
        return self.counts / 2.0**self.precision

    def bits(self, counts: NDArray[np.int64]) -> float:
        """Return the bits of the table, and of symbols that come so often each of the alphabet."""
        return _table_bits(self) - float(counts[self.symbols] @ np.log2(self.probabilities))

    def least_bits(self, count: int) -> float:
        """Return a number of bits that ``count`` symbols take at least, without a logarithm."""
        total = 1 << self.precision
        return count * (total - int(self.counts.max())) / total

    def write(self, out: BitWriter) -> None:
        """Write the table."""
        gaps = np.diff(self.symbols, prepend=-1) - 1
        order = _best(self.counts - 1)
        for number in (self.precision, order):
            out.write(number, 4)
        for gap, count in zip(gaps.tolist(), self.counts.tolist(), strict=True):
            out.golomb(gap, 0)
            out.golomb(count - 1, order)

    @classmethod
    def read(cls, source: BitReader, alphabet: int) -> Frequencies:
        """Read a table of symbols below ``alphabet``.

        Raises
        ------
        RemoteProtocolError
            If it is none.
        """
        precision, order = source.read(4), source.read(4)
        left, symbol = 1 << precision, -1
        symbols, counts = [], []
        while left:
            symbol += 1 + source.golomb(0, alphabet - 2 - symbol)
            counts.append(1 + source.golomb(order, left - 1))
            symbols.append(symbol)
            left -= counts[-1]
        return cls(np.array(symbols), np.array(counts), precision)


def fitted(counts: NDArray[np.int64]) -> Frequencies:
    """Return the frequencies with which table and message take least, for these counts of symbols.

    Parameters
    ----------
    counts
        How often each symbol of the alphabet occurs; one at least does.

    Examples
    --------
    >>> table = fitted(np.array([700, 0, 200, 100]))
    >>> table.symbols, table.counts, table.precision
    (array([0, 2, 3]), array([11,  3,  2]), 4)
    """
    symbols = np.flatnonzero(counts)
    counts = counts[symbols]
    least = (len(symbols) - 1).bit_length()
    best = _tried(symbols, counts, least)
    worse = 0
    for precision in range(least + 1, 16):
        found = _tried(symbols, counts, precision)
        worse = 0 if found[0] < best[0] else worse + 1
        best = min(best, found, key=lambda each: each[0])
        if worse == _PATIENCE:  # a longer table no longer pays
            break
    return best[1]


def _tried(
    symbols: NDArray[np.int64], counts: NDArray[np.int64], precision: int
) -> tuple[float, Frequencies]:
    """Return the bits of table and message at a precision, and the table."""
    table = Frequencies(symbols, _rounded(counts, 1 << precision), precision)
    bits = _table_bits(table) - float(counts @ np.log2(table.probabilities))
    return bits, table


def _rounded(counts: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Return whole numbers of at least 1 that sum to ``total``, in proportion to ``counts``."""
    share = counts * (total / counts.sum())
    rounded: NDArray[np.int64] = np.maximum(1, np.round(share)).astype(np.int64)
    excess = int(rounded.sum()) - total
    while excess:
        # Change those that are furthest from their share, and can be changed.
        error = (rounded - share) / share if excess > 0 else (share - rounded) / share
        if excess > 0:
            error[rounded == 1] = -np.inf
        order = np.argsort(-error, kind="stable")
        changeable = order[: min(abs(excess), int((error > -np.inf).sum()))]
        rounded[changeable] -= 1 if excess > 0 else -1
        excess = int(rounded.sum()) - total
    return rounded


def _table_bits(table: Frequencies) -> int:
    gaps = np.diff(table.symbols, prepend=-1) - 1
    return 8 + int(_golomb_bits(gaps)[0]) + int(_golomb_bits(table.counts - 1).min())


def _best(numbers: NDArray[np.int64]) -> int:
    """Return the order of the code that takes least."""
    return int(_golomb_bits(numbers).argmin())


def _golomb_bits(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bits of exponential Golomb codes of the orders 0 to 15."""
    orders = np.arange(16)
    ones = np.frexp((numbers >> orders[:, None]) + 1)[1] - 1
    bits: NDArray[np.int64] = len(numbers) * (1 + orders) + 2 * ones.sum(axis=1, dtype=np.int64)
    return bits
