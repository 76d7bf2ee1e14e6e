"""Bodies of side information and packed codes: what codecs of such a form share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray

from colonnade.codecs.quantiser import Section, Symbols
from colonnade.errors import RemoteProtocolError
from colonnade.kernels.packing import pack_codes, unpack_codes

__all__ = ["FixedSizeQuantiser", "PackedCodes", "refuse_filling"]


def refuse_filling(packed: NDArray[np.uint8], bits: int) -> None:
    """Raise ``RemoteProtocolError`` unless all after the first ``bits`` bits is zero."""
    used = bits % 8
    if used and packed[-1] >> used:
        raise RemoteProtocolError("the bits that fill up the last byte are not zero")


class FixedSizeQuantiser(ABC):
    """A quantiser whose body is ``side information | codes``, of sizes that a shape decides."""

    @abstractmethod
    def _side(self, shape: tuple[int, int]) -> int:
        """Return the bytes of the side information."""

    @property
    def fixed_size(self) -> bool:
        """Always: the size depends on the shape alone."""
        return True

    def at(self, round: int) -> Self:
        """Return itself: there is no schedule."""
        return self

    def symbol_count(self, shape: tuple[int, int]) -> int:
        """Return one for each component."""
        return shape[0] * shape[1]

    def side_bytes(self, body: bytes, shape: tuple[int, int]) -> int:
        """Return the bytes of the side information.

        Raises
        ------
        RemoteProtocolError
            If the body is shorter.
        """
        size = self._side(shape)
        if len(body) < size:
            raise RemoteProtocolError(
                f"a body of {len(body)} bytes is shorter than its side information of {size}"
            )
        return size


class PackedCodes(FixedSizeQuantiser):
    """One whose codes are of up to 8 bits each, lowest bit first without gaps.

    There is a code for each component, unless a codec says otherwise.
    """

    @abstractmethod
    def _code_bits(self, shape: tuple[int, int]) -> int:
        """Return the bits of a code."""

    def sections(self, shape: tuple[int, int]) -> tuple[Section, ...]:
        """Return one section: all symbols are alike."""
        return (Section(self.symbol_count(shape)),)

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the number of bytes, which is exact here."""
        return self._side(shape) + -(-self.symbol_count(shape) * self._code_bits(shape) // 8)

    def unpack(self, body: bytes, shape: tuple[int, int]) -> Symbols:
        """Return the codes of a body of the right length.

        Raises
        ------
        RemoteProtocolError
            If the bits that fill up the last byte are not zero.
        """
        return self._codes(body, shape).astype(np.uint16)

    def pack(self, symbols: Symbols, shape: tuple[int, int]) -> bytes:
        """Return what follows the side information in a body with these codes."""
        return pack_codes(symbols.astype(np.uint8), self._code_bits(shape))

    def _codes(self, body: bytes, shape: tuple[int, int]) -> NDArray[np.uint8]:
        packed = np.frombuffer(body, dtype=np.uint8, offset=self._side(shape))
        count, bits = self.symbol_count(shape), self._code_bits(shape)
        refuse_filling(packed, count * bits)
        return unpack_codes(packed, bits, count)
