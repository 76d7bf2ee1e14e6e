"""Floating point on the wire: float32 exactly, float16 or bfloat16 rounded to nearest even."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.codecs.codec import (
    Bounded,
    Exact,
    Law,
    check_length,
    finite,
    matrix,
    refuse_nonfinite,
)
from colonnade.errors import Diverged, RemoteProtocolError
from colonnade.kernels.scalar import all_finite
from colonnade.streams import StreamKey

__all__ = ["Float"]

_FORMATS = {32: torch.float32, 16: torch.float16, "bf16": torch.bfloat16}
_LAWS: dict[int | str, Law] = {
    32: Exact(),
    # half a unit in the last place; among subnormal numbers, half of the smallest
    16: Bounded(relative=2.0**-11, absolute=2.0**-25),
    "bf16": Bounded(relative=2.0**-8, absolute=2.0**-134),
}
_EXPONENTS = {16: np.int16(0x7C00), "bf16": np.int16(0x7F80)}


@dataclass(frozen=True)
class Float:
    """Little-endian floating point: 4 or 2 bytes a component, no header.

    Parameters
    ----------
    format
        32 (exact), 16 (IEEE half, 11 bits of precision, at most 65504) or ``"bf16"`` (8 bits of
        precision, the range of float32).

    Examples
    --------
    >>> key = StreamKey(seed=0, origin="bank", purpose="example", round=0)
    >>> body = Float("bf16").encode(torch.tensor([[1.0, 3.14159]]), key)
    >>> len(body), Float("bf16").decode(body, (1, 2), key)
    (4, tensor([[1.0000, 3.1406]]))
    """

    format: Literal[16, 32, "bf16"] = 32

    def __post_init__(self) -> None:
        check_fields(Float, self)

    def law(self, shape: tuple[int, int]) -> Law:
        """Return exactness for 32; else rounding to nearest."""
        return _LAWS[self.format]

    @property
    def fixed_size(self) -> bool:
        """Always: the size depends on the shape alone."""
        return True

    def encode(self, x: Tensor, key: StreamKey, saliency: Tensor | None = None) -> bytes:
        """Encode ``x`` of shape ``[rows, width]``.

        Raises
        ------
        Diverged
            If a value is not finite, or becomes infinite in the smaller format.
        """
        if self.format == 32:
            return _little_endian(finite(x)).tobytes()
        values = matrix(x)
        patterns = values.to(_FORMATS[self.format]).view(torch.int16).numpy()
        strange = self._strange(patterns)
        if strange.any():
            refuse_nonfinite(values)
            row, column = np.argwhere(strange)[0]
            raise Diverged(
                f"component {column} of row {row} is {float(values[row, column]):g}, too large "
                f"for float format {self.format}; use a wider one or a smaller learning rate"
            )
        return _little_endian(patterns).tobytes()

    def decode(self, body: bytes, shape: tuple[int, int], key: StreamKey) -> Tensor:
        """Decode into a new float32 tensor of ``shape``.

        Raises
        ------
        RemoteProtocolError
            If the body has another length than ``shape`` needs, or holds what ``encode`` refuses.
        """
        check_length(body, self.bytes_at_most(shape), shape)
        if self.format == 32:
            values = np.frombuffer(body, dtype="<f4").astype(np.float32)
            self._check(all_finite(values))
            return torch.from_numpy(values).view(shape)
        patterns = np.frombuffer(body, dtype="<i2").astype(np.int16)
        self._check(not self._strange(patterns).any())
        rounded = torch.from_numpy(patterns).view(_FORMATS[self.format])
        return rounded.to(torch.float32).view(shape)

    def at(self, round: int) -> Self:
        """Return itself: there is no schedule."""
        return self

    def bytes_at_most(self, shape: tuple[int, int]) -> int:
        """Return the number of bytes, which is exact here."""
        return shape[0] * shape[1] * (4 if self.format == 32 else 2)

    def _check(self, is_finite: bool | np.bool_) -> None:
        if not is_finite:
            raise RemoteProtocolError(
                f"a body in float format {self.format} holds a value that is not finite"
            )

    def _strange(self, patterns: NDArray[np.int16]) -> NDArray[np.bool_]:
        """Say which patterns have an exponent of ones only: infinite or not a number."""
        exponent = _EXPONENTS[self.format]
        strange: NDArray[np.bool_] = (patterns & exponent) == exponent
        return strange


def _little_endian(values: np.ndarray) -> np.ndarray:
    return values.astype(values.dtype.newbyteorder("<"), copy=False)
