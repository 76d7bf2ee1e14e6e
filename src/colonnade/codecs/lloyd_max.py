"""Scalar quantisation to the levels that suit the message best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import Contractive, Law, check_length, finite
from colonnade.codecs.packed import PackedCodes
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.kernels import lloyd_max as kernels
from colonnade.kernels.packing import pack_codes
from colonnade.streams import StreamKey

__all__ = ["LloydMax"]

_HALVINGS = 17
_GROUPS = 1024  # of equal width, and as many again of equally many different values


@dataclass(frozen=True)
class LloydMax(PackedCodes):
    """Each component to the nearest of 2^b levels, chosen for the least mean square error.

    Of N(0, 1) the mean square errors are 0.363, 0.118, 0.0345 and 0.0095 for b = 1 to 4 (Max,
    "Quantizing for minimum distortion", 1960; Lloyd, "Least squares quantization in PCM", 1982).
    Their conditions, that a level is the mean of its interval and a border midway between levels,
    may hold for many choices; here the best is found by dynamic programming over groups of the
    message's values, at whose borders intervals end. So it is exact where there are at most 1024
    different values; and nowhere worse than 2^b equidistant levels, whose intervals it may choose.

    There is no dither: the error depends on the value. It is the least that can be had in b bits
    without entropy coding, not an unbiased one.

    Parameters
    ----------
    bits
        b, from 1 to 8.

    Raises
    ------
    ConfigurationError
        If ``bits`` cannot be used.

    Notes
    -----
    The body is ``levels as float32, ascending | codes``, the codes b bits each, lowest bit first,
    row by row without a gap, the last byte filled with zeros. With fewer different values than
    levels the last level is repeated.

    It contracts, ||x - C(x)||^2 <= (1 - alpha) ||x||^2, with alpha about 1 - 2.7 / 4^b for normal
    values, and for any n values at least

    - 1, if n <= 2^b: each value has a level;
    - (2^b - 1) / n, if n <= 1024: a level for each of the largest magnitudes, which are at the ends
      of the values in order, and one for the others, is among the choices;
    - 1 / (136 + n / 2^32). For let K be what two levels take from ||x||^2 and M the largest
      magnitude. A level for the N_k values of one sign from M / 2^(k+1) on takes N_k M^2 / 4^(k+1)
      at least, and groups end there. So the values from M / 2^(k+1) to M / 2^k have a square norm
      of 4 K at most, for 17 k and both signs 136 K; and all that are smaller n M^2 / 4^17 at most,
      which is n K / 2^32, since K is M^2 / 4 at least.

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> codec = LloydMax(bits=1)
    >>> body = codec.encode(torch.tensor([[0.0, 1.0, 8.0, 10.0]]), key)
    >>> body.hex(), codec.decode(body, (1, 4), key)
    ('0000003f000010410c', tensor([[0.5000, 0.5000, 9.0000, 9.0000]]))
    """

    bits: int

    def __post_init__(self) -> None:
        check_fields(LloydMax, self)
        if not 1 <= self.bits <= 8:
            raise ConfigurationError(f"bits must be a whole number from 1 to 8, not {self.bits!r}")

    def law(self, shape: tuple[int, int]) -> Law:
        """Return a contraction; see the notes for the worst case of n values."""
        count, levels = max(1, shape[0] * shape[1]), 2**self.bits
        if count <= levels:
            return Contractive(1.0)
        whatever = 1 / (136 + count / 2**32)
        return Contractive(max(whatever, (levels - 1) / count) if count <= _GROUPS else whatever)

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        values = finite(x).reshape(-1)
        if values.size == 0:
            return b""
        levels = _levels(values, self.bits)
        return levels.tobytes() + pack_codes(kernels.nearest(values, levels), self.bits)

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        RemoteProtocolError
            If the length does not fit, the levels do not ascend, or filling bits are not zero.
        """
        check_length(body, self.bytes_at_most(shape), shape)
        if shape[0] * shape[1] == 0:
            return torch.zeros(shape)
        levels = np.frombuffer(body, dtype="<f4", count=2**self.bits).astype(np.float32)
        if not (np.isfinite(levels).all() and (levels[1:] >= levels[:-1]).all()):
            raise RemoteProtocolError("the levels of a body do not ascend, or are not finite")
        return torch.from_numpy(levels[self.unpack(body, shape)].reshape(shape))

    @property
    def alphabet(self) -> int:
        """One symbol for each level."""
        return 1 << self.bits

    def _side(self, shape: tuple[int, int]) -> int:
        return 4 * 2**self.bits if self.symbol_count(shape) else 0

    def _code_bits(self, shape: tuple[int, int]) -> int:
        return self.bits


def _levels(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """Return the 2^bits levels of values, ascending."""
    ordered = np.sort(values)
    low, high = float(ordered[0]), float(ordered[-1])
    # Equidistant levels are 2 (2^bits - 1) half steps apart; their borders are among these.
    half_steps = 2 * (2**bits - 1)
    equal = np.linspace(low, high, half_steps * -(-_GROUPS // half_steps) + 1)
    halved = np.ldexp(max(-low, high), -np.arange(1, _HALVINGS + 1))
    edges = np.searchsorted(ordered, np.concatenate([equal, halved, -halved]))
    starts = np.union1d(edges, kernels.first_of_different(ordered, _GROUPS))
    means = kernels.interval_means(ordered, starts[starts < len(ordered)], 2**bits)
    return np.pad(means, (0, 2**bits - len(means)), mode="edge").astype(np.float32)
