"""A file of rows, each in a numbered slot with a checksum of its own.

Positioned reads and writes, not a memory map: of a mapped file the kernel counts the pages around
every row that was touched as the process's memory, which soon is the whole file.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import CheckpointError
from colonnade.surrogates.surrogate import Precision, Rows

__all__ = ["SlotFile", "Slots", "slot_bytes"]

_MOST_BYTES = 1 << 30  # of one read; Linux returns less than 2 GiB at once

Slots = NDArray[np.int32]
"""Where in the file each row of a batch lies."""


def slot_bytes(width: int, precision: Precision) -> int:
    """Return the bytes of a slot: the row's numbers, and 4 of its checksum.

    >>> slot_bytes(256, "float16")
    516
    """
    return _layout(width, precision).itemsize


def _layout(width: int, precision: Precision) -> np.dtype[np.void]:
    kind = {"float32": "<f4", "float16": "<f2"}[precision]
    return np.dtype([("values", kind, (width,)), ("check", "<u4")])


class SlotFile:
    """Rows in slots; made empty if it is not there.

    Parameters
    ----------
    path
        The file.
    width, precision
        What a row consists of.
    """

    def __init__(self, path: Path, width: int, precision: Precision) -> None:
        self._path = path
        self._layout = _layout(width, precision)
        self._longest = max(1, _MOST_BYTES // self._layout.itemsize)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        weakref.finalize(self, os.close, self._file)

    def shorten(self, slots: int) -> None:
        """Cut off what lies behind the first ``slots`` slots."""
        if os.fstat(self._file).st_size > slots * self._layout.itemsize:
            os.ftruncate(self._file, slots * self._layout.itemsize)

    def read(self, slots: Slots, rows: Rows) -> NDArray[np.floating]:
        """Return what lies in ``slots``, where ``rows`` were written.

        Raises
        ------
        CheckpointError
            If that is not what was written.
        """
        order = np.argsort(slots)
        firsts, counts = _runs(slots[order], self._longest)
        size = self._layout.itemsize
        # Variables, as this loop takes most of the time.
        read, file = os.pread, self._file
        pieces = [
            read(file, count, first)
            for first, count in zip((firsts * size).tolist(), (counts * size).tolist(), strict=True)
        ]
        data = b"".join(pieces)
        if len(data) != len(rows) * size:
            raise CheckpointError(f"{self._path} ends early: rows of the table are missing")
        records = np.frombuffer(data, self._layout)
        sorted_rows = rows[order]
        wrong = np.flatnonzero(records["check"] != self._checks(records, sorted_rows))
        if len(wrong):
            raise CheckpointError(
                f"{self._path} is damaged: row {sorted_rows[wrong[0]]} is not what was written; "
                "resume from an older checkpoint, or start again in a new folder"
            )
        values = np.empty_like(records["values"])
        values[order] = records["values"]
        return values

    def write(self, slots: Slots, rows: Rows, values: NDArray[np.floating]) -> None:
        """Write ``rows`` into ``slots``; a process that is killed meanwhile leaves any of them."""
        order = np.argsort(slots)
        records = np.empty(len(rows), self._layout)
        records["values"] = values[order]
        records["check"] = self._checks(records, rows[order])
        data = memoryview(records.view(np.uint8))  # type: ignore[arg-type]  # an array is a buffer
        size = self._layout.itemsize
        done = 0
        for first, count in zip(*_runs(slots[order], self._longest), strict=True):
            end = done + int(count) * size
            self._write_all(data[done:end], int(first) * size)
            done = end

    def sync(self) -> None:
        """Return when all is on the disk itself."""
        os.fsync(self._file)

    def _write_all(self, data: memoryview, offset: int) -> None:
        while data:
            written = os.pwrite(self._file, data, offset)
            data, offset = data[written:], offset + written

    def _checks(self, records: NDArray[np.void], rows: Rows) -> NDArray[np.uint32]:
        """Return the CRC-32 of each row's numbers, begun with the row's own number."""
        data = memoryview(records.view(np.uint8))  # type: ignore[arg-type]  # an array is a buffer
        size = self._layout.itemsize
        used = self._layout["values"].itemsize
        starts = range(0, len(records) * size, size)
        checks = [
            crc32(data[at : at + used], row) for at, row in zip(starts, rows.tolist(), strict=True)
        ]
        return np.array(checks, np.uint32)


def _runs(slots: Slots, longest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each run of neighbours begins, and how long it is.

    >>> _runs(np.array([3, 4, 7], np.int32), longest=100)
    (array([3, 7]), array([2, 1]))
    """
    new = np.diff(slots, prepend=-2) != 1
    new[::longest] = True
    starts = np.flatnonzero(new)
    counts = np.diff(starts, append=len(slots))
    return slots[starts].astype(np.int64), counts.astype(np.int64)
