"""What a process that is spawned is given, by value, through a pipe that nobody waits for.

multiprocessing writes what a process is given into a pipe whose other end it keeps open, and does
not go on before that is done: of a process that dies before it has read all of a large task nobody
would ever know, and one that starts slowly keeps the next from being started.
"""

from __future__ import annotations

import io
import threading
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, TypeVar

from torch.multiprocessing import reductions

__all__ = ["Handed", "packed"]

T = TypeVar("T")


class Handed(Generic[T]):
    """Something for a process that is about to be started.

    It is pickled as the process is started, for some things can be pickled only then. The process
    takes it when it comes to it. ``close`` it here once the process is started, or could not be.

    Parameters
    ----------
    content
        What it is.
    """

    def __init__(self, content: T) -> None:
        self._content = content
        self._end: Connection | None = None

    def taken(self) -> T:
        """Return it, an equal of its own, in the process that it was handed to.

        Raises
        ------
        EOFError
            If the process that handed it has ended.
        """
        assert self._end is not None
        with self._end:
            taken: T = ForkingPickler.loads(self._end.recv_bytes())
        return taken

    def close(self) -> None:
        """Keep no end of the pipe here: if the other process has none either, nobody writes."""
        if self._end is not None:
            self._end.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return what the process is told as it is started: where it may read."""
        data = packed(self._content)
        self._end, start = Pipe(duplex=False)
        threading.Thread(target=_write, args=(start, data), daemon=True).start()
        return {"_end": self._end}


def _write(start: Connection, data: bytes) -> None:
    with start, suppress(OSError):  # the process ended before it had read all
        start.send_bytes(data)


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


def packed(content: object) -> bytes:
    """Pickle for another process of this machine, by value.

    Examples
    --------
    >>> import torch
    >>> whole = torch.arange(3)
    >>> ForkingPickler.loads(packed(whole)), whole.is_shared()
    (tensor([0, 1, 2]), False)
    """
    file = io.BytesIO()
    _Pickler(file).dump(content)
    return file.getvalue()
