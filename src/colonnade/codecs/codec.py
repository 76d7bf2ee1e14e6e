"""What a codec is: array to bytes to array, and the law its error obeys.

A codec is a frozen value that holds its configuration and nothing else; randomness comes in as a
key. The law, which may depend on the shape of a message, is both documentation and the oracle of
the conformance tests, and it decides what may be composed: error feedback, for one, needs a
contraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import Diverged, LocalProtocolError, RemoteProtocolError
from colonnade.kernels.scalar import all_finite
from colonnade.streams import StreamKey

__all__ = [
    "Bounded",
    "Codec",
    "Contractive",
    "Exact",
    "Law",
    "RelativeVariance",
    "Unbiased",
    "UnbiasedCell",
    "check_length",
    "finite",
    "matrix",
    "refuse_nonfinite",
]


@dataclass(frozen=True)
class Exact:
    """Decoding returns what was encoded, bit for bit: any finite numbers."""


@dataclass(frozen=True)
class Bounded:
    """Each component's error is bounded, but neither unbiased nor a contraction.

    ``relative`` bounds it in units of the component's own magnitude, ``absolute`` in those of x,
    ``step`` in steps of the quantiser: |error| <= relative |x| + absolute + step (size of a step).
    """

    relative: float = 0.0
    absolute: float = 0.0
    step: float = 0.0


@dataclass(frozen=True)
class Unbiased:
    """The error is independent of the value, uniform within half a ``step``, with mean zero."""

    step: float = 0.5


@dataclass(frozen=True)
class Contractive:
    """E ||x - C(x)||^2 <= (1 - alpha) ||x||^2 for every x."""

    alpha: float


@dataclass(frozen=True)
class RelativeVariance:
    """E C(x) = x and E ||C(x) - x||^2 <= omega ||x||^2 for every x."""

    omega: float


@dataclass(frozen=True)
class UnbiasedCell:
    """The error of a pair of components is independent of the pair, uniform over a hexagon.

    Its mean is zero and each component's mean square ``mean_square``, in units of the lattice's
    pitch squared, for pairs at least ``margin`` pitches within the range. Nearer to its ends each
    component's error is at most ``step`` pitches, and nothing else is promised.
    """

    mean_square: float = 5 / 72
    margin: float = 0.5
    step: float = 1.0


Law = Exact | Bounded | Unbiased | Contractive | RelativeVariance | UnbiasedCell


@runtime_checkable
class Codec(Protocol):
    """Turns an array of ``[rows, width]`` float32 into bytes and back."""

    def law(self, shape: tuple[int, int]) -> Law:
        """Return the law that the error of a round trip of such a message obeys, in every round.

        It is asked of any shape, also of one that ``encode`` refuses. A single number, (1, 1), is
        the easiest: what contracts for some shape contracts for that.
        """
        ...

    @property
    def fixed_size(self) -> bool:
        """Whether every body for a shape has just ``at(round).bytes_at_most`` bytes.

        Whatever the values are, that is.
        """
        ...

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        ``saliency`` is how much each column matters, ``[width]`` and at least 0, where that is
        known; a codec need not heed it.

        Raises
        ------
        Diverged
            If a value is not finite. How large it may be is the codec's to say, with this error.
        """
        ...

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``, of finite numbers whatever the bytes are.

        Raises
        ------
        RemoteProtocolError
            If the body cannot be the encoding of an array of this shape.
        """
        ...

    def at(self, round: int) -> Codec:
        """Return the codec that is used in ``round``; a codec without a schedule returns itself."""
        ...

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the largest number of bytes that a body for ``shape`` can have."""
        ...


def matrix(x: Tensor) -> Tensor:
    """Return ``x`` as a contiguous float32 matrix on the CPU.

    Raises
    ------
    LocalProtocolError
        If it is no matrix.
    """
    if x.dim() != 2:
        raise LocalProtocolError(
            f"a codec encodes a matrix [rows, width], but was given shape {list(x.shape)}"
        )
    return x.detach().to(device="cpu", dtype=torch.float32).contiguous()


def refuse_nonfinite(x: Tensor) -> None:
    """Raise ``Diverged`` that names the first component of a matrix that is not finite, if any."""
    places = (~torch.isfinite(x)).nonzero()
    if len(places):
        row, column = places[0].tolist()
        raise Diverged(
            f"component {column} of row {row} is {float(x[row, column])}, "
            "which cannot be encoded; training has diverged, try a smaller learning rate"
        )


def finite(x: Tensor) -> NDArray[np.float32]:
    """Return the values of a matrix, ``[rows, width]``.

    Raises
    ------
    Diverged
        If one is not finite.
    """
    x = matrix(x)
    values: NDArray[np.float32] = x.numpy()
    if not all_finite(values.reshape(-1)):
        refuse_nonfinite(x)
    return values


def check_length(body: bytes, expected: int, shape: tuple[int, int]) -> None:
    """Raise ``RemoteProtocolError`` unless ``body`` has the bytes that ``shape`` needs."""
    if len(body) != expected:
        raise RemoteProtocolError(
            f"a body of {len(body)} bytes cannot hold {shape[0]} x {shape[1]} values, "
            f"which take {expected}"
        )
