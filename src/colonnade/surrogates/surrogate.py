"""What a surrogate table is, and the one rounding that all of them share.

Both ends of a link add the same change to the same rows and must hold the same bits afterwards. So
there is one sum, ``advanced``, for every way to keep a table: in float32, rounded once to the
table's precision, to nearest and ties to even. A table in memory and one on a disk may meet at the
two ends of a link; two of different precision may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.errors import CheckpointError, ConfigurationError, Diverged
from colonnade.models import all_finite

__all__ = ["Precision", "Rows", "Storage", "Surrogate", "advanced", "check_shape", "torch_dtype"]

Rows = NDArray[np.int64]
"""Row numbers of a batch, each from 0 to the table's rows less 1, and none of them twice."""

Precision = Literal["float32", "float16"]
"""In which numbers a table is kept: 4 or 2 bytes a component."""


class Surrogate(Protocol):
    """A table of numbers, a row for each sample, that starts at 0."""

    def read(self, rows: Rows) -> Tensor:
        """Return a copy of ``rows``, float32 ``[len(rows), width]``.

        Raises
        ------
        CheckpointError
            If what the disk holds of a row is damaged.
        """
        ...

    def add(self, rows: Rows, change: Tensor) -> Tensor:
        """Add ``change`` to ``rows``, and return a copy of them as they are now.

        Raises
        ------
        Diverged
            If a sum is not finite in the table's precision. The table is then as it was, so a
            sender that adds before it hands out its message sends nothing.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must hold to bring the table back."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Return to what the table was when ``state_dict`` returned ``state``.

        Raises
        ------
        CheckpointError
            If the state is that of another table, or what it refers to is gone or damaged.
        """
        ...


@runtime_checkable
class Storage(Protocol):
    """Where surrogate tables are kept, and in which precision."""

    @property
    def dtype(self) -> Precision:
        """The precision, which both ends of a link must share."""
        ...

    def table(self, name: str, rows: int, width: int) -> Surrogate:
        """Make the table called ``name``, unlike any other of this storage."""
        ...

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return what such a table keeps in memory."""
        ...

    def bytes_on_disk(self, rows: int, width: int) -> int:
        """Return what such a table may take on the disk."""
        ...


def torch_dtype(precision: Precision) -> torch.dtype:
    """Return torch's name of a precision.

    >>> torch_dtype("float16")
    torch.float16

    Raises
    ------
    ConfigurationError
        If it is none.
    """
    match precision:
        case "float32":
            return torch.float32
        case "float16":
            return torch.float16
    raise ConfigurationError(f"a surrogate is kept in float32 or float16, not in {precision!r}")


def advanced(known: Tensor, change: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ``known + change`` in ``dtype``: summed in float32, then rounded to nearest even.

    Raises
    ------
    Diverged
        If a sum is not finite in ``dtype``.

    Examples
    --------
    >>> advanced(torch.tensor([2048.0]), torch.tensor([1.0]), torch.float16)
    tensor([2048.], dtype=torch.float16)
    """
    new = (known + change).to(dtype)
    if not all_finite(new):
        largest = torch.finfo(dtype).max
        raise Diverged(
            f"a surrogate left the finite numbers of {dtype}, which end at {largest:g}: "
            + (
                "lower the learning rate, or keep surrogates in float32"
                if dtype == torch.float16
                else "lower the learning rate"
            )
        )
    return new


def check_shape(what: str, found: object, expected: object) -> None:
    """Raise CheckpointError unless a saved table has the expected shape or precision.

    >>> check_shape("shape", [3, 2], [3, 4])
    Traceback (most recent call last):
    colonnade.errors.CheckpointError: a saved surrogate has shape [3, 2], but this link's has [3, 4]
    """
    if found != expected:
        raise CheckpointError(
            f"a saved surrogate has {what} {found}, but this link's has {expected}"
        )
