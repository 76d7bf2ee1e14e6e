"""Quantised stochastic gradient descent's quantiser: levels of a norm, rounded at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import (
    Contractive,
    Law,
    RelativeVariance,
    check_length,
    matrix,
    refuse_nonfinite,
)
from colonnade.codecs.packed import PackedCodes
from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.kernels import qsgd as kernels
from colonnade.streams import StreamKey

__all__ = ["QSGD"]


@dataclass(frozen=True)
class QSGD(PackedCodes):
    """Q(x)_i = sign(x_i) ||x|| l_i / s, where l_i is s |x_i| / ||x|| rounded up or down at random.

    Alistarh et al., "QSGD", NeurIPS 2017. Rounded up with the chance of the fraction it is
    unbiased, E Q(x) = x, and E ||Q(x) - x||^2 <= w ||x||^2 with w = min(n/s^2, sqrt(n)/s) for the
    L2 norm of n elements. Divided by tau = 1 + w it contracts with alpha = 1/tau, which error
    feedback needs.

    Parameters
    ----------
    levels
        s, 1 to 127; with the sign that is ceil(log2(2s + 1)) bits an element, so 15 levels take 5.
    norm
        ``"l2"``, or ``"max"`` for the largest magnitude, which wastes fewer levels.
    bucket
        Elements that share a norm, taken row by row; None for the whole message.
    contract
        Whether to divide by tau.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Notes
    -----
    The body is ``norms as float32 | codes``, the codes s + l for x >= 0 and s - l below, lowest bit
    first without gaps. A level is worth at most the largest float32 over s, so whatever norm came
    what decodes is finite. For the max norm, with m = max |x|: each element's error is at most its
    variance m^2 / (4 s^2), and ||x|| >= m, so w = n / (4 s^2).

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> codec = QSGD(levels=3, norm="max", contract=False)
    >>> body = codec.encode(torch.tensor([[3.0, -1.0, 0.0, 2.0]]), key)
    >>> len(body), codec.decode(body, (1, 4), key)
    (6, tensor([[ 3., -1.,  0.,  2.]]))
    """

    levels: int
    norm: Literal["l2", "max"] = "l2"
    bucket: int | None = None
    contract: bool = True

    def __post_init__(self) -> None:
        check_fields(QSGD, self)
        if not isinstance(self.levels, int) or not 1 <= self.levels <= 127:
            raise ConfigurationError(
                f"levels must be a whole number from 1 to 127, not {self.levels!r}"
            )
        if self.bucket is not None and (not isinstance(self.bucket, int) or self.bucket < 1):
            raise ConfigurationError(f"bucket must be 1 element or more, not {self.bucket!r}")

    def law(self, shape: tuple[int, int]) -> Law:
        """Return a contraction, or unbiasedness with a variance in units of the square norm.

        Both are of the bucket's size, which without a bucket is the message's.
        """
        tau = self._tau(self._size(max(1, shape[0] * shape[1])))
        return Contractive(1 / tau) if self.contract else RelativeVariance(tau - 1)

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite.
        """
        x = matrix(x)
        values = x.numpy().reshape(-1)
        if values.size == 0:
            return b""
        size = self._size(values.size)
        norms = kernels.norms(values, size, self.norm == "max")
        if not np.isfinite(norms).all():
            refuse_nonfinite(x)
        bits = self._code_bits((x.shape[0], x.shape[1]))
        return norms.tobytes() + kernels.quantise(
            values, norms, size, self.levels, bits, key.words()
        )

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        RemoteProtocolError
            If the length does not fit, a norm is none, or a code is above 2s.
        """
        check_length(body, self.bytes_at_most(shape), shape)
        count = shape[0] * shape[1]
        if count == 0:
            return torch.zeros(shape)
        size = self._size(count)
        buckets = -(-count // size)
        norms = np.frombuffer(body, dtype="<f4", count=buckets).astype(np.float32)
        if not (np.isfinite(norms).all() and (norms >= 0).all()):
            raise RemoteProtocolError("a quantised body has a norm that is none")
        codes = self._codes(body, shape)
        if codes.max() > 2 * self.levels:
            raise RemoteProtocolError(f"a code is {codes.max()}, above {2 * self.levels}")
        y = kernels.dequantise(codes, self._units(norms, count), size, self.levels)
        return torch.from_numpy(y.reshape(shape))

    @property
    def alphabet(self) -> int:
        """One symbol for each level of either sign, and one for zero."""
        return 2 * self.levels + 1

    def _side(self, shape: tuple[int, int]) -> int:
        count = self.symbol_count(shape)
        return 4 * -(-count // self._size(count)) if count else 0

    def _code_bits(self, shape: tuple[int, int]) -> int:
        return (2 * self.levels).bit_length()

    def _size(self, count: int) -> int:
        return count if self.bucket is None else min(self.bucket, count)

    def _tau(self, size: int) -> float:
        if self.norm == "max":
            return 1 + size / (4 * self.levels**2)
        return 1 + min(size / self.levels**2, math.sqrt(size) / self.levels)

    def _units(self, norms: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        """Return what a level of each bucket is worth: ||x|| / s, by tau where that is asked.

        Rounded to nearest, s of them may exceed float32 by a little; so they are cut off there.
        """
        tau = self._tau(self._size(count)) if self.contract else 1.0
        units = (norms.astype(np.float64) / (self.levels * tau)).astype(np.float32)
        return np.minimum(units, kernels.largest_unit(self.levels))
