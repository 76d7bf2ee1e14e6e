"""Uniform scalar quantisation with subtractive dither."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import (
    Bounded,
    Law,
    Unbiased,
    check_length,
    matrix,
    refuse_nonfinite,
)
from colonnade.codecs.packed import PackedCodes, refuse_filling
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.kernels import scalar as kernels
from colonnade.streams import StreamKey

__all__ = ["Scalar"]

_HEADER = struct.Struct("<ff")  # the range, unless it is fixed


@dataclass(frozen=True)
class Scalar(PackedCodes):
    """Each component to one of 2^b levels, in b bits (C-VFL's scalar quantiser).

    The levels include both ends of the range: step = (high - low) / (2^b - 1). With u uniform in
    (-1/2, 1/2), known to both ends,

        code = clip(round((x - low) / step + u), 0, 2^b - 1),    x' = low + (code - u) step,

    so that for x within the range the error x' - x is uniform within half a step and independent
    of x: its mean is zero and its mean square step^2 / 12, at every b. Without dither u = 0: the
    error is still at most half a step, but depends on x. (Up to the rounding of float32.)

    Parameters
    ----------
    bits
        b, from 1 to 8.
    low, high
        A fixed range, for bounded embeddings; what lies outside is quantised to its nearest end.
        By default each message's own smallest and largest value, sent with it.
    dither
        Whether to subtract dither.

    Raises
    ------
    ConfigurationError
        If ``bits`` or the range cannot be used.

    Notes
    -----
    The body is ``[low, high as float32, if not fixed] | codes``, the codes b bits each, lowest bit
    first, row by row without a gap, the last byte filled with zeros.

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> codec = Scalar(bits=2, low=0.0, high=3.0, dither=False)
    >>> body = codec.encode(torch.tensor([[0.1, 0.9, 2.0, 9.0]]), key)
    >>> body.hex(), codec.decode(body, (1, 4), key)
    ('e4', tensor([[0., 1., 2., 3.]]))
    """

    bits: int
    low: float | None = None
    high: float | None = None
    dither: bool = True

    def __post_init__(self) -> None:
        check_fields(Scalar, self)
        if not isinstance(self.bits, int) or not 1 <= self.bits <= 8:
            raise ConfigurationError(f"bits must be a whole number from 1 to 8, not {self.bits!r}")
        if (self.low is None) != (self.high is None):
            raise ConfigurationError("low and high must be given together, or neither")
        if self.low is not None and self.high is not None:
            with np.errstate(over="ignore"):
                low, high = np.float32(self.low), np.float32(self.high)
            if not (np.isfinite(low) and np.isfinite(high) and low < high):
                raise ConfigurationError(
                    f"low must be below high, both finite as float32, not {self.low}, {self.high}"
                )

    def law(self, shape: tuple[int, int]) -> Law:
        """Return half a step at most; unbiased with dither, for values within the range."""
        return Unbiased(step=0.5) if self.dither else Bounded(step=0.5)

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        values = matrix(x)
        flat = values.numpy().reshape(-1)
        if flat.size == 0:
            return b""
        if self.low is None or self.high is None:
            low, high = kernels.extremes(flat)
            if not (math.isfinite(low) and math.isfinite(high)):
                refuse_nonfinite(values)
            header, grid = _HEADER.pack(low, high), _Grid(low, high, self.bits)
        else:
            header, grid = b"", _grid(self.low, self.high, self.bits)
        size = _packed_bytes(flat.size, self.bits)
        buffer = np.empty(len(header) + size + kernels.SLACK, dtype=np.uint8)
        if header:
            buffer[: len(header)] = np.frombuffer(header, dtype=np.uint8)
        strange = kernels.quantise(
            flat,
            buffer[len(header) :],
            self.bits,
            grid.low,
            grid.inverse_step,
            grid.scale,
            key.words() if self.dither else None,
        )
        if strange:
            refuse_nonfinite(values)
        return buffer[: len(header) + size].tobytes()

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        RemoteProtocolError
            If the length does not fit the shape, the range is none, or filling bits are not zero.
        """
        check_length(body, self.bytes_at_most(shape), shape)
        count = shape[0] * shape[1]
        values = torch.empty(shape, dtype=torch.float32)
        if count == 0:
            return values
        codes = np.frombuffer(body, dtype=np.uint8)
        if self.low is None or self.high is None:
            low, high = _HEADER.unpack_from(body)
            codes = codes[_HEADER.size :]
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise RemoteProtocolError(f"a body gives the range {low} to {high}, which is none")
            grid = _Grid(low, high, self.bits)
        else:
            grid = _grid(self.low, self.high, self.bits)
        refuse_filling(codes, count * self.bits)
        kernels.dequantise(
            codes,
            values.view(-1).numpy(),
            self.bits,
            grid.low,
            grid.step,
            grid.scale,
            key.words() if self.dither else None,
        )
        return values

    @property
    def alphabet(self) -> int:
        """One symbol for each level."""
        return 1 << self.bits

    def _side(self, shape: tuple[int, int]) -> int:
        return _HEADER.size if self.low is None and self.symbol_count(shape) else 0

    def _code_bits(self, shape: tuple[int, int]) -> int:
        return self.bits


@lru_cache(maxsize=16)  # a fixed range has one grid for all messages
def _grid(low: float, high: float, bits: int) -> _Grid:
    return _Grid(low, high, bits)


class _Grid:
    """The levels of a range, in float32 that neither overflows nor loses a tiny step.

    ``low`` and ``step`` are multiplied by ``scale``, a power of two: below 1 where the range would
    exceed float32, above 1 where the step would fall below its normal numbers.
    """

    def __init__(self, low: float, high: float, bits: int) -> None:
        low, high = float(np.float32(low)), float(np.float32(high))  # what a header could hold
        span = high - low  # exact enough in double precision, where nothing overflows
        largest = max(abs(low), abs(high), span)
        scale = 1.0
        if largest > 2.0**125:
            scale = 2.0**-4
        elif 0 < largest < 2.0**-60:
            scale = 2.0**64
        step = span * scale / (2**bits - 1)
        self.scale = np.float32(scale)
        self.low = np.float32(low * scale)
        self.step = np.float32(step)
        self.inverse_step = np.float32(1 / step if step else 0.0)


def _packed_bytes(count: int, bits: int) -> int:
    return -(-count * bits // 8)
