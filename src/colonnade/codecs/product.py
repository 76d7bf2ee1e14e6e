"""Product quantisation: pieces of a row by the centroids that suit the message best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import Bounded, Law, check_length, finite
from colonnade.codecs.packed import PackedCodes, refuse_filling
from colonnade.codecs.quantiser import Symbols
from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.kernels import product as kernels
from colonnade.kernels.packing import pack_codes, pack_numbers, unpack_codes, unpack_numbers
from colonnade.kernels.philox import uniform_words
from colonnade.streams import StreamKey

__all__ = ["ProductQuantised"]

_FORMATS: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2")}
_LAWS: dict[str, Law] = {
    "float32": Bounded(step=1.0),
    # a centroid's own rounding, whose magnitude is at most |x| and a step
    "float16": Bounded(relative=2.0**-11, absolute=2.0**-25, step=1 + 2.0**-11),
}
_MOST = 10_000  # iterations
_SAMPLE = 256  # subvectors a centroid, by which most iterations go


@dataclass(frozen=True)
class ProductQuantised(PackedCodes):
    """Each piece of a row to the nearest of L centroids, which k-means finds for the message.

    FedLite's compressor: Wang et al., "FedLite: A scalable approach for federated learning on
    resource-constrained clients", 2022. A row of width E is cut into q subvectors of E/q
    consecutive components, the q positions into R groups of q/R neighbours. Subvectors of a group,
    n = rows q/R of them, share a codebook C of L' = min(L, n) centroids:

        code_i = argmin_k ||x_i - C_k||,    x'_i = C[code_i].

    In R L' E/q numbers and rows q codes of ceil(log2 L') bits; x takes rows E numbers of 32 bits.

    Centroids begin as k-means++ draws them from the message's key, and move to the means of those
    they are nearest to until nothing changes, or ``iterations`` times. Beyond 256 subvectors a
    centroid this is done on so many drawn at random, and then once on all. A centroid that is
    nearest to none goes where the farthest subvector is: up to L' different subvectors come back
    as they were, but for the codebook's rounding.

    Parameters
    ----------
    subvectors
        q, which must divide the width of messages.
    centroids
        L, from 2 to 4096.
    groups
        R, which must divide q.
    iterations
        The most iterations of Lloyd's, 1 to 10000.
    codebook
        ``"float32"``, or ``"float16"`` for centroids within 65504 in half the bytes.

    Raises
    ------
    ConfigurationError
        If a number is out of range, or R does not divide q; later, if q does not divide the width
        of a message.

    Notes
    -----
    The body is ``codebooks, centroid by centroid | codes``, the codes row by row, lowest bit first
    without gaps, the last byte filled with zeros. Where fewer subvectors differ than there are
    centroids, some are repeated.

    What decodes is a mean of subvectors, so no component's error exceeds the range of the message,
    largest less smallest value; nor is the square error above that of R single centroids, which is
    at most ||x||^2. It is no contraction that error feedback could rest on: of n orthogonal
    subvectors of equal norm L centroids take in a share of L/n at most, and n has no bound.

    Time grows with rows E L: to encode 4096 x 256 with q = 64 takes some 10 ms with 16 centroids,
    30 ms with 64, and 14 s with 4096. Of width 1 ``LloydMax`` is better: its levels are the best.

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> codec = ProductQuantised(subvectors=2, centroids=2)
    >>> x = torch.tensor([[1.0, 2.0, 8.0, 9.0], [8.0, 9.0, 3.0, 2.0]])
    >>> body = codec.encode(x, key)
    >>> len(body), codec.decode(body, (2, 4), key)
    (17, tensor([[2., 2., 8., 9.],
            [8., 9., 2., 2.]]))
    """

    subvectors: int
    centroids: int
    groups: int = 1
    iterations: int = 20
    codebook: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        check_fields(ProductQuantised, self)
        for name in ("subvectors", "groups", "iterations"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} must be a whole number from 1 on, not {value!r}")
        if self.iterations > _MOST:
            raise ConfigurationError(f"iterations must be {_MOST} at most, not {self.iterations}")
        if not isinstance(self.centroids, int) or not 2 <= self.centroids <= 4096:
            raise ConfigurationError(
                f"centroids must be a whole number from 2 to 4096, not {self.centroids!r}"
            )
        if self.subvectors % self.groups:
            raise ConfigurationError(
                f"{self.groups} groups must divide the {self.subvectors} subvectors"
            )

    def law(self, shape: tuple[int, int]) -> Law:
        """Return a step, the message's range, as the bound; no contraction, see the notes."""
        return _LAWS[self.codebook]

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        ConfigurationError
            If the subvectors do not divide the width.
        Diverged
            If a value is not finite, or a centroid is beyond float16.
        """
        values = finite(x)
        rows, width = values.shape
        count, size = self._cut((rows, width)), self._size((rows, width))
        if values.size == 0:
            return b""
        pieces = values.reshape(rows, self.groups, -1, width // self.subvectors)
        sample = _SAMPLE * size if count > _SAMPLE * size else 0
        draws = uniform_words(key, self.groups * (size + sample)).reshape(self.groups, -1)
        codebooks, codes = [], []
        for group in range(self.groups):
            points = np.ascontiguousarray(pieces[:, group].reshape(count, -1).T)
            codebook, nearest = self._fit(points, size, draws[group])
            codebooks.append(codebook.tobytes())
            codes.append(nearest.reshape(rows, -1))
        symbols = np.concatenate(codes, axis=1).reshape(-1)
        return b"".join(codebooks) + self.pack(symbols, (rows, width))

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        ConfigurationError
            If the subvectors do not divide the width.
        RemoteProtocolError
            If the length does not fit, a centroid is not finite or there is none of a code's
            number, or filling bits are not zero.
        """
        check_length(body, self.bytes_at_most(shape), shape)
        if shape[0] * shape[1] == 0:
            return torch.zeros(shape)
        size, width = self._size(shape), shape[1] // self.subvectors
        numbers = self.groups * size * width
        codebooks = np.frombuffer(body, dtype=_FORMATS[self.codebook], count=numbers)
        codebooks = codebooks.astype(np.float32).reshape(-1, width)
        if not np.isfinite(codebooks).all():
            raise RemoteProtocolError("a centroid of a body is not finite")
        codes = self.unpack(body, shape).reshape(shape[0], self.groups, -1)
        places = codes + size * np.arange(self.groups)[:, None]
        return torch.from_numpy(codebooks.take(places, axis=0).reshape(shape))

    @property
    def alphabet(self) -> int:
        """One symbol for each centroid."""
        return self.centroids

    def symbol_count(self, shape: tuple[int, int]) -> int:
        """Return one for each subvector."""
        return self.groups * self._cut(shape) if shape[1] else 0

    def unpack(self, body: bytes, shape: tuple[int, int]) -> Symbols:
        """Return the codes, row by row."""
        packed = np.frombuffer(body, dtype=np.uint8, offset=self._side(shape))
        count, bits = self.symbol_count(shape), self._code_bits(shape)
        refuse_filling(packed, count * bits)
        unpacked = unpack_codes if bits <= 8 else unpack_numbers
        return self._known(unpacked(packed, bits, count).astype(np.uint16), shape)

    def pack(self, symbols: Symbols, shape: tuple[int, int]) -> bytes:
        """Return what follows the codebooks in a body with these codes."""
        bits = self._code_bits(shape)
        self._known(symbols, shape)
        if bits <= 8:
            return pack_codes(symbols.astype(np.uint8), bits)
        return pack_numbers(symbols.astype(np.int64), bits)

    def _fit(
        self, points: NDArray[np.float32], size: int, draws: NDArray[np.uint64]
    ) -> tuple[NDArray[Any], Symbols]:
        """Return the codebook of a group, as it is sent, and the codes of its points."""
        exponent = math.frexp(float(np.abs(points).max()))[1]
        scale = np.float32(2.0 ** -max(-126, min(exponent, 126)))  # and 1 / scale are float32
        points = points * scale
        uniform = (draws >> np.uint64(11)).astype(np.float64) * np.float64(2.0**-53)
        some = points
        if len(uniform) > size:
            drawn = (uniform[size:] * points.shape[1]).astype(np.int64)
            some = np.ascontiguousarray(points[:, drawn])
        centroids = kernels.seeds(some, uniform[:size])
        kernels.lloyd(some, centroids, self.iterations)
        if some is not points:
            kernels.lloyd(points, centroids, 1)
        with np.errstate(over="ignore"):
            sent = (centroids / scale).astype(_FORMATS[self.codebook])
        if not np.isfinite(sent).all():
            raise Diverged(
                f"a centroid reaches {float(np.abs(centroids).max()) / scale:g}, but float16 only "
                '65504; send codebooks as float32: ProductQuantised(..., codebook="float32")'
            )
        return sent, kernels.nearest(points, sent.astype(np.float32) * scale)

    def _cut(self, shape: tuple[int, int]) -> int:
        """Return how many subvectors a group has."""
        if shape[1] % self.subvectors:
            raise ConfigurationError(
                f"rows of {shape[1]} components cannot be cut into {self.subvectors} subvectors of "
                "equal width; choose a number of subvectors that divides the width"
            )
        return shape[0] * (self.subvectors // self.groups)

    def _size(self, shape: tuple[int, int]) -> int:
        """Return how many centroids a codebook has."""
        return min(self.centroids, self._cut(shape))

    def _code_bits(self, shape: tuple[int, int]) -> int:
        return max(0, self._size(shape) - 1).bit_length()

    def _side(self, shape: tuple[int, int]) -> int:
        numbers = self.groups * self._size(shape) * (shape[1] // self.subvectors)
        return _FORMATS[self.codebook].itemsize * numbers

    def _known(self, codes: Symbols, shape: tuple[int, int]) -> Symbols:
        """Return codes, and refuse one of no centroid."""
        if codes.max(initial=0) >= max(1, self._size(shape)):
            raise RemoteProtocolError(
                f"a code is {codes.max()}, of a codebook of {self._size(shape)} centroids"
            )
        return codes
