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
from colonnade.codecs.quantiser import Quantiser, Section, Symbols
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.streams import StreamKey

__all__ = ["Entropy"]

_Coder = constriction.stream.stack.AnsCoder
_BYTE = constriction.stream.model.Uniform(256)

_PACKED, _APART, _TOGETHER = range(3)
_MOST_DIFFERENT = 2**15  # symbols
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
    The body is ``0 | body of codec`` or ``1 | side information | tables | words``, with a table for
    each place in the tuples of each section (see ``codecs/quantiser.py`` and
    ``codecs/frequencies.py``). It is ``2 | ...`` where the tuple s_0, s_1, ... of a section is one
    symbol, (s_0 A + s_1) A + ... with A the size of the alphabet: where that takes less, and
    there are 32768 different ones at most. The words, of a byte of 1 and the symbols, are of 32
    bits, lowest byte first, without the zeros at the end; where every symbol is the same there are
    none, but the number of symbols in 8 bytes.

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
        if self.quantiser.alphabet > _MOST_DIFFERENT:
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
            how, coded = self._code(self.quantiser.unpack(body, shape), shape)
            if len(side) + len(coded) < len(body):
                return bytes([how]) + side + coded
        return bytes([_PACKED]) + body

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        RemoteProtocolError
            If the body is no such message of this shape.
        """
        if not body or body[0] > _TOGETHER:
            raise RemoteProtocolError("an entropy-coded body does not say how it is coded")
        rest = body[1:]
        if body[0] != _PACKED:
            side = self.quantiser.side_bytes(rest, shape)
            symbols = self._decode(rest[side:], shape, body[0])
            rest = rest[:side] + self.quantiser.pack(symbols, shape)
        return self.quantiser.decode(rest, shape, key)

    def at(self, round: int) -> Self:
        """Return itself: a quantiser has no schedule; ``ByRound`` takes coded quantisers."""
        return self

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return a byte more than the codec's: where coding is no gain, symbols are packed."""
        return 1 + self.quantiser.bytes_at_most(shape)

    def _code(self, symbols: Symbols, shape: tuple[int, int]) -> tuple[int, bytes]:
        found: list[tuple[float, int, list[NDArray[Any]], list[Frequencies]]] = []
        for how in (_APART, _TOGETHER):
            if how == _TOGETHER and not self._can_be_joined(shape):
                break
            places = self._places(symbols, shape, how)
            counts = [np.bincount(place) for place in places]
            tables = [fitted(each) for each in counts]
            bits = sum(map(Frequencies.bits, tables, counts))
            found.append((bits, how, places, tables))
        _, how, places, tables = min(found, key=lambda each: each[0])
        out = BitWriter()
        for table in tables:
            table.write(out)
        if all(len(table.symbols) < 2 for table in tables):
            return how, out.as_bytes() + len(symbols).to_bytes(8, "little")
        return how, out.as_bytes() + _words(places, tables)

    def _decode(self, coded: bytes, shape: tuple[int, int], how: int) -> Symbols:
        count = self.quantiser.symbol_count(shape)
        if not count:
            raise RemoteProtocolError("an entropy-coded body came for no symbols")
        if how == _TOGETHER and not self._can_be_joined(shape):
            raise RemoteProtocolError("an entropy-coded body joins what has no tuples")
        source = BitReader(coded)
        layout = self._layout(shape, how)
        tables = [Frequencies.read(source, size) for _, size in layout]
        words = coded[source.used_bytes() :]
        counts = [each for each, _ in layout]
        if all(len(table.symbols) < 2 for table in tables):
            if words != count.to_bytes(8, "little"):
                raise RemoteProtocolError(f"an entropy-coded body is not of {count} symbols")
        elif sum(map(Frequencies.least_bits, tables, counts)) > 8 * len(words) + 64:
            raise RemoteProtocolError(f"{len(words)} bytes cannot hold {count} symbols")
        coder = _coder(words) if any(len(table.symbols) > 1 for table in tables) else None
        places: list[NDArray[Any]] = []
        for table, number in zip(tables, counts, strict=True):
            if coder is not None and len(table.symbols) > 1:
                places.append(table.symbols[coder.decode(_model(table), number)])
            else:
                places.append(np.full(number, table.symbols[0]))
        # Words that came from no encoder decode to something, too: only one body is its encoding.
        if coder is not None and _words(places, tables) != words:
            raise RemoteProtocolError("the words of an entropy-coded body are no encoder's")
        return self._symbols(places, shape, how)

    def _can_be_joined(self, shape: tuple[int, int]) -> bool:
        """Return whether there are tuples, and not too many different ones."""
        longest = max(section.period for section in self._sections(shape))
        return longest > 1 and self.quantiser.alphabet**longest <= _MOST_DIFFERENT

    def _sections(self, shape: tuple[int, int]) -> list[Section]:
        return [section for section in self.quantiser.sections(shape) if section.symbols]

    def _layout(self, shape: tuple[int, int], how: int) -> list[tuple[int, int]]:
        """Return for each table of how many symbols it is, of an alphabet of which size."""
        layout = []
        for count, period in self._sections(shape):
            if how == _TOGETHER:
                layout.append((count // period, self.quantiser.alphabet**period))
            else:
                layout += period * [(count // period, self.quantiser.alphabet)]
        return layout

    def _places(self, symbols: Symbols, shape: tuple[int, int], how: int) -> list[NDArray[Any]]:
        """Return the symbols of each table."""
        places: list[NDArray[Any]] = []
        start = 0
        for count, period in self._sections(shape):
            tuples = symbols[start : start + count].reshape(-1, period)
            start += count
            if how == _TOGETHER:
                joined = np.zeros(len(tuples), dtype=np.int64)
                for place in tuples.T:
                    joined = joined * self.quantiser.alphabet + place
                places.append(joined)
            else:
                places += list(tuples.T)
        return places

    def _symbols(self, places: list[NDArray[Any]], shape: tuple[int, int], how: int) -> Symbols:
        """Return the symbols in order, of those of each table."""
        parts, left = [], iter(places)
        for count, period in self._sections(shape):
            tuples = np.empty((count // period, period), dtype=np.uint16)
            joined = next(left) if how == _TOGETHER else None
            for place in reversed(range(period)):
                if joined is not None:
                    joined, tuples[:, place] = np.divmod(joined, self.quantiser.alphabet)
            if joined is None:
                for place in range(period):
                    tuples[:, place] = next(left)
            parts.append(tuples.reshape(-1))
        return np.concatenate(parts)


def _words(places: list[NDArray[Any]], tables: list[Frequencies]) -> bytes:
    coder = _Coder()
    coder.encode_reverse(_GUARD, _BYTE)
    for place, table in zip(reversed(places), reversed(tables), strict=True):
        if len(table.symbols) > 1:
            index = np.zeros(int(table.symbols[-1]) + 1, dtype=np.int32)
            index[table.symbols] = np.arange(len(table.symbols))
            coder.encode_reverse(index[place], _model(table))
    words: NDArray[np.uint32] = coder.get_compressed()
    return words.astype("<u4").tobytes().rstrip(b"\0")


def _coder(words: bytes) -> Any:
    if words.endswith(b"\0"):
        raise RemoteProtocolError("the words of an entropy-coded body end with a zero")
    whole = words + bytes(-len(words) % 4)
    return _Coder(np.frombuffer(whole, dtype="<u4").astype(np.uint32))


def _model(table: Frequencies) -> Any:
    return constriction.stream.model.Categorical(table.probabilities, perfect=False)
