"""A surrogate table on a disk: bounded memory, and a way back to every recent checkpoint.

Theory of operation. A row's numbers lie in a *slot* of one file; memory holds only which slot, 4
bytes a row. A *mark*, made by ``state_dict``, is a small file with all these slot numbers. A slot
that a kept mark names is never written: when a row changes for the first time since the last mark,
it goes to a slot that no kept mark names (shadow paging: Lorie, ACM TODS 2(1), 1977). So

1. whatever happens between two marks touches nothing that a mark names;
2. a mark comes to be in one step, a rename, after the rows that it names are on the disk;
3. a slot is used again only after the mark that named it is gone from the disk.

A process killed at any moment, or a machine without power, hence leaves every kept mark whole, and
going back to one is reading it: nothing is undone, so nothing can be half undone. The new numbers
of a batch lie side by side, one write, where an undo journal would write the old rows and then each
new one to its place.

What begins at 0 gets a folder that no other run has, and a state names it: so a second run in the
same folder, as of another seed, leaves the marks alone that a run which was stopped goes on from.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.errors import CheckpointError, ConfigurationError, LocalProtocolError
from colonnade.faults import explained, unread
from colonnade.surrogates.lock import Lock, unused
from colonnade.surrogates.marks import (
    drafts,
    generation,
    marks,
    read_mark,
    read_slots,
    sync_folder,
    write_mark,
)
from colonnade.surrogates.slots import SlotFile, Slots, slot_bytes
from colonnade.surrogates.surrogate import (
    Precision,
    Rows,
    Surrogate,
    advanced,
    check_shape,
    torch_dtype,
)

__all__ = ["Disk"]

_PLACE = re.compile("[0-9a-f]{16}")
_NOWHERE = -1  # the slot of a row that is still 0
_OWN_FOLDER = 0o700  # copies of embeddings are read by their owner alone


@dataclass(frozen=True)
class Disk:
    """Keep surrogate tables in files; a checkpoint holds only which mark of them it needs.

    A table's memory is about 9 bytes a row, whatever its width. Its files must stay where they are
    for a run to be resumed. Each run has tables of its own there, which stay when it is over:
    remove the folder when no run in it shall go on.

    Parameters
    ----------
    folder
        Gets a folder for each table, with one in it for each run: a path, or its text. A job
        between computers names none: each site has one of its own, in its folder of the run.
    dtype
        ``float16`` takes half the disk and rounds each sum to 11 significant bits.
    keep
        How many marks one can go back to. A run keeps 2 checkpoints and may be about to write a
        third, so that is the least that is safe.

    Raises
    ------
    ConfigurationError
        If ``dtype`` is another, ``keep`` is below 3, or the system cannot read files at positions
        (Windows).

    Examples
    --------
    >>> table = Disk(Path("surrogates")).table("bank", rows=3, width=2)
    >>> rows = np.array([2])
    >>> table.add(rows, torch.tensor([[1.0, 0.5]]))
    tensor([[1.0000, 0.5000]])
    >>> checkpoint = table.state_dict()
    >>> table.add(rows, torch.tensor([[1.0, 0.5]]))
    tensor([[2., 1.]])
    >>> table.load_state_dict(checkpoint)
    >>> table.read(rows)
    tensor([[1.0000, 0.5000]])
    """

    # A run may be moved, and be the same; each organisation has a folder of its own.
    folder: Path | None = field(default=None, repr=False, compare=False)
    dtype: Precision = "float32"
    keep: int = 3

    def __post_init__(self) -> None:
        folder: object = self.folder
        if isinstance(folder, str):
            object.__setattr__(self, "folder", Path(folder))
        check_fields(Disk, self)
        if self.keep < 3:
            raise ConfigurationError(
                f"a surrogate on a disk must keep at least 3 marks, not {self.keep}: two for the "
                "checkpoints of a run, and one for the checkpoint being written"
            )
        if not hasattr(os, "pread"):
            raise ConfigurationError("surrogates on a disk need Linux or macOS; use Memory here")

    def table(self, name: str, rows: int, width: int) -> Surrogate:
        """Make the table called ``name``; its files are first touched when it is first used.

        Without ``load_state_dict`` before it, the first use begins at 0, in a folder of its own. It
        removes what earlier runs have left under this name that nobody can go back to.

        Raises
        ------
        ConfigurationError
            If there is no folder, or the table has no name or too many rows.
        """
        if self.folder is None:
            raise ConfigurationError(
                "surrogates on a disk need a folder; say where: {storage: disk, folder: ...}"
            )
        if not name:
            raise ConfigurationError("a surrogate table on a disk needs a name")
        if (self.keep + 1) * rows > np.iinfo(np.int32).max:
            raise ConfigurationError(f"a surrogate on a disk cannot have {rows} rows")
        place = self.folder / quote(name, safe=" ").replace(".", "%2E")
        return _DiskTable(place, rows, width, self.dtype, self.keep)

    def bytes_remembered(self, rows: int, width: int) -> int:
        """Return 9 bytes a row: its slot, whether it changed, and a free slot."""
        return 9 * rows

    def bytes_on_disk(self, rows: int, width: int) -> int:
        """Return what the table may take if every row changes between two marks."""
        return (self.keep + 1) * rows * (slot_bytes(width, self.dtype) + 4)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    with explained(f"the surrogate table in {folder}"):
        yield


class _DiskTable:
    """A table, which opens its files when it is used.

    Until then it may be copied to another process: that process then goes back to the mark.
    """

    def __init__(
        self, folder: Path, rows: int, width: int, precision: Precision, keep: int
    ) -> None:
        self._folder = folder
        self._keep = keep
        # Generation 0 is a table of zeros; it needs no mark.
        self._state: dict[str, Any] = {
            "generation": 0,
            "mark": "",
            "shape": [rows, width],
            "dtype": precision,
            "place": "",  # that of an earlier version, or not chosen yet
        }
        self._files: _Files | None = None

    def read(self, rows: Rows) -> Tensor:
        with _explained(self._folder):
            return torch.from_numpy(self._open().read(rows))

    def add(self, rows: Rows, change: Tensor) -> Tensor:
        new = advanced(self.read(rows), change, torch_dtype(self._state["dtype"]))
        with _explained(self._folder):
            self._open().write(rows, new)
        return new.float()

    def state_dict(self) -> dict[str, Any]:
        """Make a mark, and return its name; the last mark's, if nothing was added since.

        All that the mark names is flushed to the disk first.
        """
        if self._files is not None and self._files.changed:
            following = {"generation": self._state["generation"] + 1, "mark": os.urandom(8).hex()}
            state = self._state | following
            with _explained(self._folder):
                self._open().mark(state)
            self._state = state
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Check that the mark is whole; the next use goes back to it, and drops all newer ones."""
        state = {"place": ""} | dict(state)  # which an earlier version did not tell
        if self._state.keys() - state.keys():
            raise CheckpointError(
                "a saved surrogate was kept in memory, but this link keeps it on a disk: "
                "resume with the storage that the run began with"
            )
        check_shape("shape", list(state["shape"]), self._state["shape"])
        check_shape("dtype", state["dtype"], self._state["dtype"])
        if self._files is not None:
            self._files.lock.release()
            self._files = None
        if state["generation"] > 0:
            self._check(state)
        self._state = dict(state)

    def _check(self, state: Mapping[str, Any]) -> None:
        try:
            self._look_at(state)
        except OSError as error:
            raise unread(error.filename or self._folder, error) from error

    def _look_at(self, state: Mapping[str, Any]) -> None:
        folder = self._folder / state["place"]
        if folder.is_dir():  # whoever is using it has newer marks
            Lock(folder).release()
        slots = read_mark(folder, state)
        rows, width = state["shape"]
        size = (int(slots.max(initial=_NOWHERE)) + 1) * slot_bytes(width, state["dtype"])
        path = folder / "rows"
        found = path.stat().st_size if path.is_file() else 0
        if len(slots) != rows or found < size:
            raise CheckpointError(
                f"{path} has {found} bytes, but the checkpoint refers to {size} of them: "
                "rows of the surrogate table are missing"
            )

    def _open(self) -> _Files:
        if self._files is None:
            place, lock = self._state["place"], None
            is_there = place and (self._folder / place).is_dir()
            if self._state["generation"] == 0 and not is_there:
                place, lock = _new_place(self._folder)
                self._state = self._state | {"place": place}
            self._files = _Files(self._folder / place, self._state, self._keep, lock)
        elif not self._files.lock.held:
            raise LocalProtocolError(
                f"the surrogate table in {self._folder} was opened a second time, or this process "
                "was forked while it was open; each table needs a name of its own"
            )
        return self._files


def _new_place(table: Path) -> tuple[str, Lock]:
    """Make a folder for what begins at 0, and remove those of which there is no mark.

    They are of runs that had no checkpoint when they ended, however that was.
    """
    table.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
    for folder in (path for path in table.iterdir() if _PLACE.fullmatch(path.name)):
        with unused(folder) as is_unused:
            if is_unused and not marks(folder):
                shutil.rmtree(folder)
    place = os.urandom(8).hex()
    draft = table / f"new-{place}"  # which nobody removes until it is locked
    draft.mkdir(mode=_OWN_FOLDER)
    lock = Lock(draft)
    draft.rename(table / place)
    sync_folder(table)
    sync_folder(table.parent)
    return place, lock


class _Files:
    """The open files of a table, and where in them its rows are."""

    def __init__(
        self, folder: Path, state: Mapping[str, Any], keep: int, lock: Lock | None = None
    ) -> None:
        self._folder = folder
        self._keep = keep
        rows, self._width = state["shape"]
        folder.mkdir(mode=_OWN_FOLDER, parents=True, exist_ok=True)
        sync_folder(folder.parent)
        self.lock = lock or Lock(folder)
        self._slots = (
            read_mark(folder, state)
            if state["generation"] > 0
            else np.full(rows, _NOWHERE, np.int32)
        )
        for mark in marks(folder):
            if generation(mark) > state["generation"]:
                mark.unlink()
        for draft in drafts(folder):
            draft.unlink()
        sync_folder(folder)
        self._file = SlotFile(folder / "rows", self._width, state["dtype"])
        self._free = np.empty(0, np.int32)
        self._end = 0  # of the slots that were ever used
        self._own = np.zeros(rows, np.bool_)  # changed since the mark, so the slot is ours to write
        self.changed = False
        self._find_free()
        self._file.shorten(self._end)

    def read(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.float32]]:
        slots = self._slots[rows]
        there = slots != _NOWHERE
        values = np.zeros((len(rows), self._width), np.float32)
        if there.any():
            values[there] = self._file.read(slots[there], rows[there])
        return values

    def write(self, rows: Rows, values: Tensor) -> None:
        slots = self._slots[rows]
        bound = ~self._own[rows]
        slots[bound] = self._take(int(bound.sum()))
        self._file.write(slots, rows, values.numpy())
        self._slots[rows] = slots
        self._own[rows] = True
        self.changed |= len(rows) > 0

    def mark(self, state: Mapping[str, Any]) -> None:
        self._file.sync()
        write_mark(self._folder, state, self._slots)
        for old in marks(self._folder)[: -self._keep]:
            old.unlink()
        sync_folder(self._folder)
        self._own[:] = False
        self.changed = False
        self._find_free()

    def _take(self, count: int) -> Slots:
        """Return slots that no mark names: free ones, and then new ones at the end of the file."""
        again, self._free = self._free[:count], self._free[count:]
        new = np.arange(self._end, self._end + count - len(again), dtype=np.int32)
        self._end += len(new)
        return np.concatenate([again, new])

    def _find_free(self) -> None:
        """Find the slots that no kept mark names, when the rows are all as at the last mark."""
        kept = []
        for mark in marks(self._folder):
            try:
                kept.append(read_slots(mark))
            except CheckpointError:  # an older one; nobody can go back to it any more
                mark.unlink()
        self._end = max((int(slots.max(initial=_NOWHERE)) + 1 for slots in kept), default=0)
        used = np.zeros(self._end + 1, np.bool_)  # and one for rows that are nowhere
        for slots in kept:
            used[slots] = True
        self._free = np.flatnonzero(~used[: self._end]).astype(np.int32)
