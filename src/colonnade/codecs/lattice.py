"""Quantisation of pairs to a hexagonal lattice with subtractive dither."""

from __future__ import annotations

import dataclasses
import math
import struct
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import (
    Bounded,
    Law,
    UnbiasedCell,
    check_length,
    matrix,
    refuse_nonfinite,
)
from colonnade.codecs.packed import FixedSizeQuantiser, refuse_filling
from colonnade.codecs.quantiser import Section, Symbols
from colonnade.codecs.scalar import Scalar
from colonnade.errors import RemoteProtocolError
from colonnade.kernels import lattice as kernels
from colonnade.kernels import scalar
from colonnade.kernels.packing import pack_codes, unpack_codes
from colonnade.streams import StreamKey

__all__ = ["Lattice", "pitches"]

_HEADER = struct.Struct("<ff")  # the range, unless it is fixed
_HEIGHT = 0.8660254037844386  # sqrt(3)/2: rows are so many pitches apart


@dataclass(frozen=True)
class Lattice(FixedSizeQuantiser):
    """Each two components of a row to one of 2^(2b) points of a hexagonal lattice, in 2b bits.

    C-VFL's lattice quantiser: of all lattices in the plane the hexagonal one has the smallest mean
    square error for its density, by a factor of 0.962 (0.17 dB) below the square one's.

    R rows of C codewords, a pitch p apart, every second row shifted by p/2, rows sqrt(3)/2 p apart:

        (h, v) = centre + ((c + (r mod 2)/2 - C/2 + 1/4) p, (r - (R - 1)/2) sqrt(3)/2 p).

    Their hexagonal cells just cover the square [low, high]^2 when

        p = (high - low) / min(C - 1/2, sqrt(3)/2 (R - 1/3)),

    and R and C are those of R C <= 2^(2b) that make p least: 17 and 15 for b = 4. A pair goes to
    the nearest codeword. Without dither either component's error is at most p / sqrt(3). With
    dither, u known to both ends and uniform over a rectangle of p by sqrt(3)/2 p,

        x' = nearest(x + u) - u,

    and the error x' - x of a pair at least p/2 within the range is uniform over the hexagonal cell
    and independent of x: its mean is zero, and each component's mean square 5/72 p^2. Nearer to the
    ends, x + u may leave the cells, and the error, still at most p, leans inwards. (All up to the
    rounding of float32.)

    The last component of a row of odd width is alone: it goes to one of 2^b levels in b bits, whose
    cells cover the range likewise: low + (i + 1/2) step, with step = (high - low) / 2^b.

    Parameters
    ----------
    bits
        b, from 1 to 8, for each component.
    low, high
        A fixed range, for bounded embeddings; what lies outside goes to the nearest codeword.
        By default each message's own smallest and largest value, sent with it.
    dither
        Whether to subtract dither.

    Raises
    ------
    ConfigurationError
        If ``bits`` or the range cannot be used.

    Notes
    -----
    The body is ``[low, high as float32, if not fixed] | codes of pairs | codes of those alone``,
    both row by row without gaps, lowest bit first, each part's last byte filled with zeros. A
    pair's code is r C + c.

    The symbols are r, c of each pair, then the codes of those alone.

    References
    ----------
    Castiglia et al., "Compressed-VFL", ICML 2022. Zamir and Feder, "On lattice quantization noise",
    1996.

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> codec = Lattice(bits=4, low=-1.0, high=1.0, dither=False)
    >>> body = codec.encode(torch.tensor([[0.5, -0.5, 0.0, 0.9]]), key)
    >>> body.hex(), codec.decode(body, (1, 4), key).numpy().round(3)
    ('47e8', array([[ 0.52 , -0.48 ,  0.035,  0.84 ]], dtype=float32))
    """

    bits: int
    low: float | None = None
    high: float | None = None
    dither: bool = True

    def __post_init__(self) -> None:
        check_fields(Lattice, self)
        Scalar(self.bits, self.low, self.high)  # the same may be used, and is refused in its words

    def law(self, shape: tuple[int, int]) -> Law:
        """Return uniformity over the cell with dither, for pairs half a pitch within the range.

        Messages of width 1 have no pairs: each component is within half a step of its own, and
        with dither, near the ends of the range, within a step.
        """
        if shape[1] == 1:
            step = pitches(self.bits) / 2**self.bits  # of those alone, in pitches
            return Bounded(step=step if self.dither else step / 2)
        return UnbiasedCell() if self.dither else Bounded(step=3**-0.5)

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        values = matrix(x)
        if values.numel() == 0:
            return b""
        if self.low is None or self.high is None:
            low, high = scalar.extremes(values.numpy().reshape(-1))
            if not (math.isfinite(low) and math.isfinite(high)):
                refuse_nonfinite(values)
            header, cells = _HEADER.pack(low, high), _Cells(low, high, self.bits)
        else:
            header, cells = b"", _cells(self.low, self.high, self.bits)
        rows, width = values.shape
        side, pairs, alone = self._parts((rows, width))
        body = np.empty(side + pairs + alone + kernels.SLACK, dtype=np.uint8)
        body[:side] = np.frombuffer(header, dtype=np.uint8)
        paired, single = np.hsplit(values.numpy(), [width - width % 2])
        strange = kernels.quantise(
            _flat(paired), body[side:], self.bits, cells.grid, self._words(key)
        )
        if alone:
            strange |= scalar.quantise(
                _flat(single),
                body[side + pairs :],
                self.bits,
                cells.low,
                cells.inverse_step,
                cells.grid.scale,
                self._words(_alone(key)),
            )
        if strange:
            refuse_nonfinite(values)
        return body[: side + pairs + alone].tobytes()

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        RemoteProtocolError
            If the length does not fit the shape, the range is none, a code is no codeword's, or
            filling bits are not zero.
        """
        check_length(body, self.bytes_at_most(shape), shape)
        rows, width = shape
        if rows * width == 0:
            return torch.empty(shape, dtype=torch.float32)
        if self.low is None or self.high is None:
            low, high = _HEADER.unpack_from(body)
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise RemoteProtocolError(f"a body gives the range {low} to {high}, which is none")
            cells = _Cells(low, high, self.bits)
        else:
            cells = _cells(self.low, self.high, self.bits)
        codes, codes_alone = self._split(body, shape)
        paired = np.empty((rows, width - width % 2), dtype=np.float32)
        largest = kernels.dequantise(
            codes, paired.reshape(-1), self.bits, cells.grid, self._words(key)
        )
        if largest >= cells.grid.rows * cells.grid.columns:
            raise RemoteProtocolError(
                f"a code is {largest}, of a lattice of {cells.grid.rows} x {cells.grid.columns}"
            )
        if not len(codes_alone):
            return torch.from_numpy(paired)
        single = np.empty((rows, 1), dtype=np.float32)
        scalar.dequantise(
            codes_alone,
            single.reshape(-1),
            self.bits,
            cells.low,
            cells.step,
            cells.grid.scale,
            self._words(_alone(key)),
        )
        return torch.from_numpy(np.hstack([paired, single]))

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the number of bytes, which is exact here."""
        return sum(self._parts(shape))

    @property
    def alphabet(self) -> int:
        """What is above r, c and the codes of those alone."""
        return max(*_arrangement(self.bits), 1 << self.bits)

    def sections(self, shape: tuple[int, int]) -> tuple[Section, ...]:
        """Return the pairs r, c, and those alone."""
        rows, width = shape
        pairs, alone = rows * (width // 2), rows * (width % 2)
        return (Section(2 * pairs, 2), Section(alone))

    def unpack(self, body: bytes, shape: tuple[int, int]) -> Symbols:
        """Return r, c, r, c, ... and the codes of those alone."""
        rows, width = shape
        count = rows * (width - width % 2)
        codes, codes_alone = self._split(body, shape)
        _, columns = _arrangement(self.bits)
        paired = kernels.unpack(codes, columns, self.bits, count)
        single = unpack_codes(codes_alone, self.bits, rows * width - count)
        return np.concatenate([paired, single.astype(np.uint16)])

    def pack(self, symbols: Symbols, shape: tuple[int, int]) -> bytes:
        """Return what follows the range in a body with these symbols.

        Raises
        ------
        RemoteProtocolError
            If a row, a column or a level is beyond the last one.
        """
        rows, width = shape
        paired, single = np.split(symbols, [rows * (width - width % 2)])
        _, columns = bounds = _arrangement(self.bits)
        if (paired.reshape(-1, 2) >= bounds).any() or (single >= 2**self.bits).any():
            raise RemoteProtocolError("a symbol is beyond the last row, column or level")
        return kernels.pack(paired, columns, self.bits) + pack_codes(
            single.astype(np.uint8), self.bits
        )

    def _side(self, shape: tuple[int, int]) -> int:
        return self._parts(shape)[0]

    def _parts(self, shape: tuple[int, int]) -> tuple[int, int, int]:
        """Return the bytes of the range, of the codes of pairs, and of the codes of those alone."""
        rows, width = shape
        side = _HEADER.size if self.low is None and rows * width else 0
        pairs = -(-rows * (width // 2) * 2 * self.bits // 8)
        return side, pairs, -(-rows * (width % 2) * self.bits // 8)

    def _split(
        self, body: bytes, shape: tuple[int, int]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the codes of pairs and of those alone, filled up with zeros."""
        rows, width = shape
        side, pairs, _ = self._parts(shape)
        data = np.frombuffer(body, dtype=np.uint8)
        codes, codes_alone = data[side : side + pairs], data[side + pairs :]
        refuse_filling(codes, rows * (width // 2) * 2 * self.bits)
        refuse_filling(codes_alone, rows * (width % 2) * self.bits)
        return codes, codes_alone

    def _words(self, key: StreamKey) -> tuple[int, int] | None:
        return key.words() if self.dither else None


def pitches(bits: int) -> float:
    """Return how many pitches the range is wide: (high - low) / p.

    >>> round(pitches(4), 2)
    14.43
    """
    return _extent(*_arrangement(bits))


@lru_cache(maxsize=8)
def _arrangement(bits: int) -> tuple[int, int]:
    """Return R and C: of those with the least pitch, the fewest rows."""
    _, rows, columns = max(
        (_extent(rows, 4**bits // rows), -rows, 4**bits // rows)
        for rows in range(2, 2 * 2**bits + 1)
    )
    return -rows, columns


def _extent(rows: int, columns: int) -> float:
    """Return the side of the largest square that the cells cover, in pitches."""
    return min(columns - 1 / 2, _HEIGHT * (rows - 1 / 3))


@lru_cache(maxsize=16)  # a fixed range has the same cells for all messages
def _cells(low: float, high: float, bits: int) -> _Cells:
    return _Cells(low, high, bits)


class _Cells:
    """The codewords and levels of a range, in float32 that neither overflows nor loses a step.

    Lengths are multiplied by the grid's ``scale``, as in ``Scalar``.
    """

    def __init__(self, low: float, high: float, bits: int) -> None:
        low, high = float(np.float32(low)), float(np.float32(high))  # what a header could hold
        largest = max(abs(low), abs(high), high - low)
        scale = 1.0
        if largest > 2.0**125:
            scale = 2.0**-4
        elif 0 < largest < 2.0**-60:
            scale = 2.0**64
        low, high = low * scale, high * scale
        centre, span = (low + high) / 2, high - low
        rows, columns = _arrangement(bits)
        pitch, step = span / _extent(rows, columns), span / 2**bits
        self.grid = kernels.Grid(
            rows,
            columns,
            left=np.float32(centre - (columns / 2 - 1 / 4) * pitch),
            bottom=np.float32(centre - (rows - 1) / 2 * _HEIGHT * pitch),
            pitch=np.float32(pitch),
            height=np.float32(_HEIGHT * pitch),
            inverse_half=np.float32(2 / pitch if pitch else 0.0),
            inverse_height=np.float32(1 / (_HEIGHT * pitch) if pitch else 0.0),
            scale=np.float32(scale),
        )
        self.low = np.float32(low + step / 2)
        self.step = np.float32(step)
        self.inverse_step = np.float32(1 / step if step else 0.0)


def _flat(part: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(part).reshape(-1)


def _alone(key: StreamKey) -> StreamKey:
    """Return the key of the dither of components that are alone."""
    return dataclasses.replace(key, purpose=f"{key.purpose}/alone")
