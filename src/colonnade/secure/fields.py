"""Fields of prime order, in which whole numbers are shared without a loss.

A number v with abs(v) <= (p - 1) / 2 stands for v modulo p. So sums and products of such numbers
are exact as long as what comes out is of that range, and nothing tells if it is not: whoever
computes in a field makes sure beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.annotated import make_plain
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.kernels.mersenne import PRIMES, Elements
from colonnade.secure.keystream import Keystream

__all__ = ["FIELD", "Field"]


@dataclass(frozen=True)
class Field:
    """The whole numbers modulo 2^bits - 1, a prime.

    Parameters
    ----------
    bits
        31 or 61: elements take 4 bytes or 8.

    Raises
    ------
    ConfigurationError
        If bits is neither.

    Examples
    --------
    >>> field = Field(31)
    >>> elements = field.elements(np.array([-1, 2]))
    >>> elements.tolist(), field.numbers(elements).tolist()
    ([2147483646, 2], [-1, 2])
    """

    bits: int = 31

    def __post_init__(self) -> None:
        make_plain(Field, self)
        if not isinstance(self.bits, int) or self.bits not in (31, 61):
            raise ConfigurationError(
                f"the field has {self.bits!r} bits, but it is of 31 (elements of 4 bytes) or 61 (8)"
            )

    @property
    def prime(self) -> int:
        """How many elements there are."""
        return PRIMES[self.dtype]

    @property
    def largest(self) -> int:
        """The largest number that an element stands for; the least is as far below 0."""
        return (self.prime - 1) // 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of arrays of elements."""
        return np.dtype(np.uint32) if self.bits == 31 else np.dtype(np.uint64)

    def elements(self, numbers: NDArray[np.int64]) -> Elements:
        """Return what stands for numbers, which are at most ``largest`` from 0."""
        return np.where(numbers < 0, numbers + self.prime, numbers).astype(self.dtype)

    def numbers(self, elements: Elements) -> NDArray[np.int64]:
        """Return the numbers that elements stand for."""
        numbers = elements.astype(np.int64)
        numbers[numbers > self.largest] -= self.prime
        return numbers

    def uniform(self, shape: tuple[int, ...], noise: Keystream) -> Elements:
        """Return elements that are each as likely as any other, drawn without a bias."""
        drawn: Elements = np.empty(shape, dtype=self.dtype)
        noise.fill(drawn)
        drawn &= drawn.dtype.type(self.prime)
        flat = drawn.reshape(-1)
        while len(again := np.flatnonzero(flat == self.prime)):  # one word of 2^bits is none
            more: Elements = np.empty(len(again), dtype=self.dtype)
            noise.fill(more)
            flat[again] = more & more.dtype.type(self.prime)
        return drawn

    def packed(self, elements: Elements) -> bytes:
        """Return elements as bytes, little-endian."""
        return elements.astype(elements.dtype.newbyteorder("<"), copy=False).tobytes()

    def unpacked(self, body: bytes, shape: tuple[int, ...], what: str) -> Elements:
        """Return the elements of a body from somebody else.

        Parameters
        ----------
        body
            What came.
        shape
            How many there are.
        what
            What they are and whose, for the error: "the answer of 'bank'".

        Raises
        ------
        RemoteProtocolError
            If there are more or fewer, or one is no element.
        """
        size = self.bytes_of(shape)
        if len(body) != size:
            raise RemoteProtocolError(f"{what} has {len(body)} bytes, expected {size}")
        elements = np.frombuffer(body, dtype=self.dtype.newbyteorder("<")).reshape(shape)
        if elements.size and int(elements.max()) >= self.prime:
            raise RemoteProtocolError(f"{what} has what is no element modulo {self.prime} in it")
        return elements.astype(self.dtype)

    def bytes_of(self, shape: tuple[int, ...]) -> int:
        """Return the bytes of so many elements."""
        return int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize


FIELD = Field()
"""What is computed in where nothing else is said."""
