"""What labels look like, and labels to bytes: exactly, and in no more bits than they need.

Whole numbers from ``lowest`` to ``highest`` are written as their distance from the lowest, in the
bits that the largest distance takes, one after another without gaps; numbers with a fraction as
they are in memory. So the bytes of so many rows are known before, from the form alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import ConfigurationError, RemoteProtocolError
from colonnade.kernels.packing import pack_codes, pack_numbers, unpack_codes, unpack_numbers
from colonnade.telling import shown

__all__ = ["LabelForm"]

_WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_FRACTIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_TYPES = {str(each).removeprefix("torch."): each for each in (*_WHOLE, *_FRACTIONS)}
_MOST_BITS = 32  # of a whole number that is packed; a wider range travels as it is in memory


@dataclass(frozen=True)
class LabelForm:
    """What all labels of a run are like: their type, their shape, and the range of whole numbers.

    Parameters
    ----------
    dtype
        As torch names it: ``"int64"``, ``"float32"``.
    shape
        Of the label of one row; ``()`` for one number.
    lowest, highest
        Of whole numbers.

    Raises
    ------
    ConfigurationError
        If labels have no such type, or the range is empty or has numbers that the type has not.

    Examples
    --------
    >>> form = LabelForm.of(torch.tensor([0, 2, 1, 2]))
    >>> form == LabelForm.classes(3)
    True
    >>> form.encode(torch.tensor([1, 2, 0])).hex()  # 2 bits each, lowest first
    '09'
    >>> form.decode(bytes([9]), rows=3)
    tensor([1, 2, 0])
    """

    dtype: str
    shape: tuple[int, ...] = ()
    lowest: int = 0
    highest: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in _TYPES:
            raise ConfigurationError(
                f"labels have no type {shown(self.dtype)}; take one of {', '.join(_TYPES)}"
            )
        if self.lowest > self.highest:
            raise ConfigurationError(
                f"labels cannot go from {self.lowest} to {self.highest}: the lowest comes first"
            )
        if self._type in _WHOLE:
            least, most = _range(self._type)
            if self.lowest < least or self.highest > most:
                raise ConfigurationError(
                    f"labels cannot go from {self.lowest} to {self.highest}: {self.dtype} has "
                    f"numbers from {least} to {most}"
                )

    @classmethod
    def classes(cls, count: int) -> LabelForm:
        """Return the form of the classes 0 to ``count`` - 1."""
        return cls("int64", highest=count - 1)

    @classmethod
    def numbers(cls) -> LabelForm:
        """Return the form of one float32 a row."""
        return cls("float32")

    @classmethod
    def of(cls, labels: Tensor) -> LabelForm:
        """Return the form that labels ``[rows, ...]`` have."""
        dtype, shape = str(labels.dtype).removeprefix("torch."), tuple(labels.shape[1:])
        if labels.is_floating_point():
            return cls(dtype, shape)
        return cls(dtype, shape, int(labels.min()), int(labels.max()))

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return prod(self.shape)

    @property
    def fixed_size(self) -> bool:
        """Always: the size depends on the number of rows alone."""
        return True

    def at(self, round: int) -> LabelForm:
        """Return itself."""
        return self

    def bytes_at_most(self, rows: int, width: int) -> int:
        """Return the bytes of ``rows`` rows, which is exact here."""
        if self._bits is None:
            return rows * width * self._type.itemsize
        return -(-rows * width * self._bits // 8)

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return 0: labels are no memory of a link."""
        return 0

    def warm_up(self, width: int) -> None:
        """Encode and decode two rows."""
        some = torch.full((2, *self.shape), self.highest).to(self._type)
        self.decode(self.encode(some), 2)

    def encode(self, labels: Tensor) -> bytes:
        """Return labels ``[rows, ...]`` as bytes.

        Raises
        ------
        ConfigurationError
            If they are not of this form.
        """
        found = LabelForm.of(labels) if len(labels) else self
        alike = (found.dtype, found.shape) == (self.dtype, self.shape)
        if not (alike and self.lowest <= found.lowest <= found.highest <= self.highest):
            raise ConfigurationError(
                f"the labels have {found}, but agreed on was {self}: give the agreement "
                f"labels=LabelForm.of(labels)"
            )
        if self._bits is None:
            return labels.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        flat = labels.detach().cpu().to(torch.int64).reshape(-1).numpy() - self.lowest
        if self._bits > 8:
            return pack_numbers(flat, self._bits)
        return pack_codes(flat.astype(np.uint8), self._bits)

    def decode(self, body: bytes, rows: int) -> Tensor:
        """Return the labels of ``rows`` rows.

        Raises
        ------
        RemoteProtocolError
            If the bytes are not so many labels of this form.
        """
        if len(body) != self.bytes_at_most(rows, self.width):
            raise RemoteProtocolError(
                f"a body of {len(body)} bytes does not hold the labels of {rows} rows, which take "
                f"{self.bytes_at_most(rows, self.width)}"
            )
        shape, bits = (rows, *self.shape), self._bits
        if bits is None:
            labels = (
                torch.frombuffer(bytearray(body), dtype=self._type)
                if body
                else torch.empty(0, dtype=self._type)
            )
            if labels.is_floating_point() and not torch.isfinite(labels).all():
                raise RemoteProtocolError("a label that was sent is not a finite number")
            return labels.reshape(shape)
        packed, count = np.frombuffer(body, dtype=np.uint8), rows * self.width
        used = count * bits % 8
        if used and packed[-1] >> used:
            raise RemoteProtocolError("the bits that fill up the last byte are not zero")
        unpack = unpack_numbers if bits > 8 else unpack_codes
        flat = unpack(packed, bits, count).astype(np.int64)
        if count and flat.max() > self.highest - self.lowest:
            raise RemoteProtocolError(f"a label that was sent is above {self.highest}")
        return torch.from_numpy(flat + self.lowest).to(self._type).reshape(shape)

    @property
    def _type(self) -> torch.dtype:
        return _TYPES[self.dtype]

    @property
    def _bits(self) -> int | None:
        """Bits of a whole number; None for what travels as it is in memory."""
        bits = (self.highest - self.lowest).bit_length()
        return bits if self._type in _WHOLE and bits <= _MOST_BITS else None


def _range(whole: torch.dtype) -> tuple[int, int]:
    """Return the smallest and the largest number of a type of whole numbers."""
    if whole is torch.bool:
        return 0, 1
    return torch.iinfo(whole).min, torch.iinfo(whole).max
