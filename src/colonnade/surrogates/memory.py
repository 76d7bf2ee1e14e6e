"""A surrogate table in memory: the simplest, and the fastest while it fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.errors import CheckpointError
from colonnade.surrogates.surrogate import (
    Precision,
    Rows,
    Surrogate,
    advanced,
    check_shape,
    torch_dtype,
)

__all__ = ["Memory"]


@dataclass(frozen=True)
class Memory:
    """Keep surrogate tables in memory; a checkpoint holds them whole.

    Parameters
    ----------
    dtype
        ``float16`` takes half the memory and rounds each sum to 11 significant bits.

    Raises
    ------
    ConfigurationError
        If ``dtype`` is another.

    Examples
    --------
    >>> import numpy as np
    >>> table = Memory().table("bank", rows=3, width=2)
    >>> table.add(np.array([2]), torch.tensor([[1.0, 0.5]]))
    tensor([[1.0000, 0.5000]])
    >>> table.read(np.array([1, 2]))
    tensor([[0.0000, 0.0000],
            [1.0000, 0.5000]])
    """

    dtype: Precision = "float32"

    def __post_init__(self) -> None:
        check_fields(Memory, self)

    def table(self, name: str, rows: int, width: int) -> Surrogate:
        """Make a table of zeros; in memory its name does not matter."""
        return _MemoryTable(torch.zeros(rows, width, dtype=torch_dtype(self.dtype)))

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return 4 or 2 bytes a component."""
        return rows * width * torch_dtype(self.dtype).itemsize

    def bytes_on_disk(self, rows: int, width: int) -> int:
        """Return 0: the checkpoint holds it all."""
        return 0


class _MemoryTable:
    def __init__(self, table: Tensor) -> None:
        self._table = table

    def read(self, rows: Rows) -> Tensor:
        return self._table[torch.from_numpy(rows)].float()

    def add(self, rows: Rows, change: Tensor) -> Tensor:
        new = advanced(self.read(rows), change, self._table.dtype)
        self._table[torch.from_numpy(rows)] = new
        return new.float()

    def state_dict(self) -> dict[str, Any]:
        return {"surrogate": self._table}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        table = state.get("surrogate")
        if not isinstance(table, Tensor):
            raise CheckpointError(
                "a saved surrogate was kept on a disk, but this link keeps it in memory: "
                "resume with the storage that the run began with"
            )
        check_shape("shape", list(table.shape), list(self._table.shape))
        check_shape("dtype", table.dtype, self._table.dtype)
        self._table = table.clone()
