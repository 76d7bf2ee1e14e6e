"""What a spawned process is given: copies, where multiprocessing would let it share the memory."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, TypeVar

from torch.multiprocessing import reductions

__all__ = ["ByValue", "packed"]

T = TypeVar("T")


class _Pickler(ForkingPickler):
    """multiprocessing's, with tensors as plain pickle has them.

    By its own way each tensor moves into shared memory, where it is, and keeps a file open for as
    long as it lives, and for ever where nobody unpickles it.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.dispatch_table = {
            kind: reduced
            for kind, reduced in self.dispatch_table.items()
            if getattr(reduced, "__module__", None) != reductions.__name__
        }


@dataclass(frozen=True)
class ByValue(Generic[T]):
    """Something that is an equal of its own where it is unpickled, tensors and all.

    Examples
    --------
    >>> import torch
    >>> whole = torch.arange(3)
    >>> other = ForkingPickler.loads(ForkingPickler.dumps(ByValue(whole)))
    >>> other, whole.is_shared()
    (tensor([0, 1, 2]), False)
    """

    content: T

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        """Return what makes the content anew: it is pickled now, as a process is started."""
        return ForkingPickler.loads, (packed(self.content),)


def packed(content: object) -> bytes:
    """Pickle for another process of this machine, by value."""
    file = io.BytesIO()
    _Pickler(file).dump(content)
    return file.getvalue()
