"""Entropy coding: a quantiser's symbols in as few bits as their frequencies allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import constriction
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.codecs.codec import Law
from colonnade.codecs.frequencies import BitReader, BitWriter, Frequencies, fitted
from colonnade.codecs.quantiser import Quantiser, Symbols
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.streams import StreamKey

__all__ = ["Entropy"]

_Coder = constriction.stream.stack.AnsCoder
_BYTE = constriction.stream.model.Uniform(256)

_PACKED, _CODED = 0, 1
_GUARD = 1  # below all symbols: else symbols too many would be found at no cost


@dataclass(frozen=True)
class Entropy:
    """The symbols of ``codec`` by asymmetric numeral systems, instead of so many bits each.

    A message of n symbols with frequencies p takes n H(p) = -n sum_i p_i log2 p_i bits, a table of
    the frequencies, and a few bytes more (Duda, "Asymmetric numeral systems", 2013; the coder is
    constriction's). Where that is no gain the symbols are packed as ``codec`` packs them.

    Parameters
    ----------
    quantiser
        Any quantiser; what decodes is what it would decode.

    Raises
    ------
    ConfigurationError
        If the codec has no symbols, or more than 32768 different ones.

    Notes
    -----
    The body is ``0 | body of codec`` or ``1 | side information | tables | words``. There is a table
    for each of the ``period`` places (see ``codecs/frequencies.py``). The words, of a byte of 1 and
    the symbols, are of 32 bits, lowest byte first, without the zeros at the end; where every symbol
    is the same there are none, but the number of symbols in 8 bytes.

    Examples
    --------
    >>> import torch
    >>> from colonnade.codecs import Scalar
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> x = torch.randn(128, 64, generator=torch.Generator().manual_seed(0))
    >>> [len(codec.encode(x, key)) for codec in (Scalar(bits=4), Entropy(Scalar(bits=4)))]
    [4104, 3065]
    """

    quantiser: Quantiser

    def __post_init__(self) -> None:
        if not isinstance(self.quantiser, Quantiser):
            raise ConfigurationError(
                f"entropy coding needs a codec with symbols, such as Scalar or QSGD, not "
                f"{type(self.quantiser).__name__}"
            )
        if self.quantiser.alphabet > 2**15:
            raise ConfigurationError(
                f"entropy coding takes up to 32768 different symbols, not {self.quantiser.alphabet}"
            )

    def law(self, shape: tuple[int, int]) -> Law:
        """Return the codec's: the same values come back."""
        return self.quantiser.law(shape)

    @property
    def fixed_size(self) -> bool:
        """Never: it depends on the symbols."""
        return False

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        body = self.quantiser.encode(x, key, saliency)
        shape = (x.shape[0], x.shape[1])
        count = self.quantiser.symbol_count(shape)
        if count:
            side = body[: self.quantiser.side_bytes(body, shape)]
            coded = self._code(self.quantiser.unpack(body, shape))
            if len(side) + len(coded) < len(body):
                return bytes([_CODED]) + side + coded
        return bytes([_PACKED]) + body

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        RemoteProtocolError
            If the body is no such message of this shape.
        """
        if not body or body[0] > _CODED:
            raise RemoteProtocolError("an entropy-coded body does not say how it is coded")
        rest = body[1:]
        if body[0] == _CODED:
            side = self.quantiser.side_bytes(rest, shape)
            symbols = self._decode(rest[side:], self.quantiser.symbol_count(shape))
            rest = rest[:side] + self.quantiser.pack(symbols, shape)
        return self.quantiser.decode(rest, shape, key)

    def at(self, round: int) -> Self:
        """Return itself: a quantiser has no schedule; ``ByRound`` takes coded quantisers."""
        return self

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return a byte more than the codec's: where coding is no gain, symbols are packed."""
        return 1 + self.quantiser.bytes_at_most(shape)

    def _code(self, symbols: Symbols) -> bytes:
        tables = [
            fitted(np.bincount(place, minlength=self.quantiser.alphabet))
            for place in self._places(symbols)
        ]
        out = BitWriter()
        for table in tables:
            table.write(out)
        if all(len(table.symbols) < 2 for table in tables):
            return out.as_bytes() + len(symbols).to_bytes(8, "little")
        return out.as_bytes() + _words(self._places(symbols), tables)

    def _decode(self, coded: bytes, count: int) -> Symbols:
        if not count:
            raise RemoteProtocolError("an entropy-coded body came for no symbols")
        source = BitReader(coded)
        period = min(self.quantiser.period, count)
        tables = [Frequencies.read(source, self.quantiser.alphabet) for _ in range(period)]
        words = coded[source.used_bytes() :]
        counts = [len(range(place, count, self.quantiser.period)) for place in range(period)]
        if all(len(table.symbols) < 2 for table in tables):
            if words != count.to_bytes(8, "little"):
                raise RemoteProtocolError(f"an entropy-coded body is not of {count} symbols")
        elif sum(map(Frequencies.least_bits, tables, counts)) > 8 * len(words) + 64:
            raise RemoteProtocolError(f"{len(words)} bytes cannot hold {count} symbols")
        symbols = np.empty(count, dtype=np.uint16)
        coder = _coder(words) if any(len(table.symbols) > 1 for table in tables) else None
        for place, table in enumerate(tables):
            indices: NDArray[np.int32] | int = 0
            if coder is not None and len(table.symbols) > 1:
                indices = coder.decode(_model(table), counts[place])
            symbols[place :: self.quantiser.period] = table.symbols[indices]
        # Words that came from no encoder decode to something, too: only one body is its encoding.
        if coder is not None and _words(self._places(symbols), tables) != words:
            raise RemoteProtocolError("the words of an entropy-coded body are no encoder's")
        return symbols

    def _places(self, symbols: Symbols) -> list[Symbols]:
        period = min(self.quantiser.period, len(symbols))
        return [symbols[place :: self.quantiser.period] for place in range(period)]


def _words(places: list[Symbols], tables: list[Frequencies]) -> bytes:
    coder = _Coder()
    coder.encode_reverse(_GUARD, _BYTE)
    for place, table in zip(reversed(places), reversed(tables), strict=True):
        if len(table.symbols) > 1:
            indices = np.searchsorted(table.symbols, place).astype(np.int32)
            coder.encode_reverse(indices, _model(table))
    words: NDArray[np.uint32] = coder.get_compressed()
    return words.astype("<u4").tobytes().rstrip(b"\0")


def _coder(words: bytes) -> Any:
    if words.endswith(b"\0"):
        raise RemoteProtocolError("the words of an entropy-coded body end with a zero")
    whole = words + bytes(-len(words) % 4)
    return _Coder(np.frombuffer(whole, dtype="<u4").astype(np.uint32))


def _model(table: Frequencies) -> Any:
    return constriction.stream.model.Categorical(table.probabilities, perfect=False)
