"""Two thin factors in place of a matrix whose rows lie near a plane of few dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import Bounded, Codec, Contractive, Exact, Law, finite
from colonnade.codecs.float import Float
from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.kernels.factors import multiply
from colonnade.streams import StreamKey

__all__ = ["LowRank"]

_LENGTH_BYTES = 4
_LARGE = 1e28  # smaller values have finite factors, however coarse the basis is


@dataclass(frozen=True)
class LowRank:
    r"""X of ``[rows, width]`` as coefficients ``[rows, r]`` times a basis ``[r, width]``.

    Made for derivatives: behind a linear top model of C classes those of a batch have rank C - 1 at
    most, however wide embeddings are, since each is a combination of the top model's columns. The
    basis are the right singular vectors of the r largest singular values, of length 1, so that a
    coefficient's error is as large in X; the coefficients are the best for the basis as it decodes.
    With exact codecs what is left out is at most 1 - r / min(rows, width) of ||X||^2. (A gradient
    by factors: Vogels et al., "PowerSGD", NeurIPS 2019.)

    X itself is sent where the factors have more than half as many numbers, that is where
    2 r (rows + width) >= rows width.

    Parameters
    ----------
    rank
        r, at least 1.
    values
        The codec of the coefficients, and of X where that is sent.
    basis
        The codec of the basis.

    Raises
    ------
    ConfigurationError
        If the rank is below 1.

    Notes
    -----
    The body is ``length of the basis' body (4 bytes) | basis | coefficients``, or that of X. Which
    one follows from the shape.

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> x = torch.outer(torch.arange(1.0, 65.0), torch.arange(1.0, 33.0))
    >>> codec = LowRank(rank=1)
    >>> body = codec.encode(x, key)
    >>> len(body), torch.allclose(codec.decode(body, (64, 32), key), x, rtol=1e-5)
    (388, True)
    """

    rank: int = 8
    values: Codec = field(default_factory=Float)
    basis: Codec = field(default_factory=Float)

    def __post_init__(self) -> None:
        check_fields(LowRank, self)
        if not isinstance(self.rank, int) or self.rank < 1:
            raise ConfigurationError(f"a rank is 1 or more, not {self.rank!r}")

    def law(self, shape: tuple[int, int]) -> Law:
        """Return a contraction with exact factors, the values' law where X itself is sent."""
        rank = self._rank(shape)
        if not rank:
            return self.values.law(shape)
        exact = isinstance(self.values.law((shape[0], rank)), Exact) and isinstance(
            self.basis.law((rank, shape[1])), Exact
        )
        return Contractive(rank / min(shape)) if exact else Bounded(absolute=float("inf"))

    @property
    def fixed_size(self) -> bool:
        """Never promised: what is promised of so many rows holds of fewer, too."""
        return False

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite, or so large that a factor or the product is not.
        """
        shape = (x.shape[0], x.shape[1])
        rank = self._rank(shape)
        if not rank:
            return self.values.encode(x, key, saliency)
        exact = finite(x).astype(np.float64)
        largest = float(np.abs(exact).max())
        if largest < _LARGE:
            return self._factors(exact, rank, key)
        try:
            body = self._factors(exact, rank, key)
            self.decode(body, shape, key)
        except (Diverged, RemoteProtocolError):
            raise Diverged(
                f"a component is {largest:g} in size, too large for factors of 32 bits; training "
                "has diverged, try a smaller learning rate"
            ) from None
        return body

    def _factors(self, exact: NDArray[np.float64], rank: int, key: StreamKey) -> bytes:
        directions = np.linalg.svd(exact, full_matrices=False)[2][:rank].astype(np.float32)
        basis = self.basis.encode(torch.from_numpy(directions), self._basis(key))
        decoded = self.basis.decode(basis, (rank, exact.shape[1]), self._basis(key)).numpy()
        best = np.linalg.lstsq(decoded.T.astype(np.float64), exact.T, 1e-6)[0]
        with np.errstate(over="ignore"):
            coefficients = torch.from_numpy(best.T.astype(np.float32))
        values = self.values.encode(coefficients, key)
        return len(basis).to_bytes(_LENGTH_BYTES, "little") + basis + values

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        RemoteProtocolError
            If the body is no such message of this shape.
        """
        rank = self._rank(shape)
        if not rank:
            return self.values.decode(body, shape, key)
        end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "little")
        if len(body) < end or end < _LENGTH_BYTES:
            raise RemoteProtocolError(f"the basis of a body of {len(body)} bytes is cut off")
        basis = self.basis.decode(body[_LENGTH_BYTES:end], (rank, shape[1]), self._basis(key))
        values = self.values.decode(body[end:], (shape[0], rank), key)
        with np.errstate(over="ignore", invalid="ignore"):
            product = multiply(values.numpy(), basis.numpy())
        if not np.isfinite(product).all():
            raise RemoteProtocolError("two factors have a product that is not finite")
        return torch.from_numpy(product)

    def at(self, round: int) -> Self:
        """Return it with both codecs of ``round``."""
        return replace(self, values=self.values.at(round), basis=self.basis.at(round))

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the bound of so many rows or fewer, of both factors or of X itself."""
        rows, width = shape
        rank = self._rank(shape)
        if not rank:
            return self.values.bytes_at_most(shape)
        few = self.values.bytes_at_most((2 * rank * width // (width - 2 * rank), width))
        basis = self.basis.bytes_at_most((rank, width))
        return max(few, _LENGTH_BYTES + basis + self.values.bytes_at_most((rows, rank)))

    def _rank(self, shape: tuple[int, int]) -> int:
        """Return the rank of a message of this shape; 0 where X itself is sent."""
        rows, width = shape
        rank = min(self.rank, rows, width)
        return rank if 2 * rank * (rows + width) < rows * width else 0

    @staticmethod
    def _basis(key: StreamKey) -> StreamKey:
        return replace(key, purpose=f"{key.purpose}/basis")
