"""Marks: small files that say in which slot each row of a table lay at one moment.

A mark is written beside its place, flushed, and renamed, so it is whole or not there. Its name has
its generation, by which marks are ordered, and a token that no other mark has: one that was begun
anew, or on another machine, is never taken for it. Its digest is of its name as well, so that one
under another's name is noticed; those of older versions have one of what is in them alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.errors import CheckpointError
from colonnade.surrogates.slots import Slots

__all__ = ["drafts", "generation", "marks", "read_mark", "read_slots", "sync_folder", "write_mark"]

_DIGEST_BYTES = 16
_STEM = r"[0-9]{8,}-[0-9a-f]{16}"
_MARK = re.compile(rf"{_STEM}\.mark")
_DRAFT = re.compile(rf"{_STEM}\.writing")


def marks(folder: Path) -> list[Path]:
    """Return the marks in a folder, the oldest first; what else lies there is none of ours."""
    return _named(folder, _MARK)


def drafts(folder: Path) -> list[Path]:
    """Return what is left in a folder of marks that were not written to their end."""
    return _named(folder, _DRAFT)


def _named(folder: Path, form: re.Pattern[str]) -> list[Path]:
    return sorted(path for path in folder.glob("*") if form.fullmatch(path.name))


def generation(mark: Path) -> int:
    """Return the generation in a mark's name."""
    return int(mark.name.split("-")[0])


def write_mark(folder: Path, state: Mapping[str, Any], slots: Slots) -> None:
    """Write the mark of ``state``; it is durable when the folder is synced afterwards."""
    path = _place(folder, state)
    draft = path.with_suffix(".writing")
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(opened, "wb") as out:
        out.write(slots.data)
        out.write(_digest(slots.data, path.name))
        out.flush()
        os.fsync(out.fileno())
    draft.rename(path)


def read_mark(folder: Path, state: Mapping[str, Any]) -> Slots:
    """Return the slots that the mark of ``state`` names.

    Raises
    ------
    CheckpointError
        If it is missing or damaged.
    """
    path = _place(folder, state)
    if not path.is_file():
        raise CheckpointError(_why_missing(folder, state))
    return read_slots(path)


def read_slots(path: Path) -> Slots:
    """Return the slots that a mark names.

    Raises
    ------
    CheckpointError
        If it is damaged.
    """
    data = path.read_bytes() if path.is_file() else b""  # a pipe would be waited for
    body, digest = memoryview(data)[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if digest not in (_digest(body, path.name), _digest(body, "")):
        raise CheckpointError(
            f"{path} is damaged: of the surrogate table, only marks of other checkpoints are whole"
        )
    return np.frombuffer(body, np.int32).copy()


def _digest(data: memoryview, name: str) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES, key=name.encode()).digest()


def _place(folder: Path, state: Mapping[str, Any]) -> Path:
    return folder / f"{state['generation']:08d}-{state['mark']}.mark"


def _why_missing(folder: Path, state: Mapping[str, Any]) -> str:
    wanted = state["generation"]
    there = [generation(mark) for mark in marks(folder)]
    if not there:
        return (
            f"the checkpoint refers to a surrogate table in {folder}, and there is none: resume "
            "where the run was begun, or bring that folder too"
        )
    if min(there) > wanted:
        return (
            f"the checkpoint refers to generation {wanted} of the surrogate table in {folder}, "
            f"which only goes back to {min(there)}: resume from a newer checkpoint"
        )
    return (
        f"the surrogate table in {folder} has no such generation {wanted} as the checkpoint refers "
        "to: the run was begun anew there, or went on from an older checkpoint"
    )


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk itself."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
