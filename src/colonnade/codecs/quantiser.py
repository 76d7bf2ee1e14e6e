"""What a codec with symbols is: a quantiser and a packing, so that entropy coding fits them all.

A body is ``side information | symbols``. The codec itself packs its symbols at so many bits each;
``Entropy`` takes them out of a body, and writes them in as few bits as their frequencies allow.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.codecs.codec import Codec

__all__ = ["Quantiser", "Section", "Symbols"]

Symbols = NDArray[np.uint16]


class Section(NamedTuple):
    """Symbols in tuples of ``period`` that belong together, such as the two of a point.

    The i-th of every tuple are alike; those of one tuple need not be, and may hang on one another.
    """

    symbols: int  # how many, a multiple of the period
    period: int = 1


@runtime_checkable
class Quantiser(Codec, Protocol):
    """A codec whose bodies are side information and symbols: ``body[:side] | pack(unpack(body))``.

    The law of a round trip through ``unpack`` and ``pack``: it gives the same body back.
    """

    @property
    def alphabet(self) -> int:
        """How many different symbols there may be: all are below; at most 65536."""
        ...

    def sections(self, shape: tuple[int, int]) -> tuple[Section, ...]:
        """Return which symbols are alike: one section after another of a message of ``shape``."""
        ...

    def symbol_count(self, shape: tuple[int, int]) -> int:
        """Return the number of symbols of a message of ``shape``."""
        ...

    def side_bytes(self, body: bytes, shape: tuple[int, int]) -> int:
        """Return how many bytes at the start of ``body`` are side information.

        What follows them need not be packed symbols.

        Raises
        ------
        RemoteProtocolError
            If it cannot be the start of a body.
        """
        ...

    def unpack(self, body: bytes, shape: tuple[int, int]) -> Symbols:
        """Return the symbols of a body that this codec encoded."""
        ...

    def pack(self, symbols: Symbols, shape: tuple[int, int]) -> bytes:
        """Return what follows the side information in a body with these symbols."""
        ...
