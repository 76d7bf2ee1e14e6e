"""What left an organisation, on disk as it leaves: what a killed run had sent can be counted.

A ledger is kept in memory and written down with each checkpoint. What was sent after the last one
is sent again by the run that goes on from it, but it did leave. So each organisation also has a
file in the run's ``departures/``, to which a line is added for every message before it leaves: the
fields of its ledger entry, as JSON. A checkpoint notes how far each file had come; what is beyond
that was lost.

A line is with the operating system before the message is, so a process may be killed at any moment.
Where the machine itself fails, lines that were not on the disk yet are gone; up to a checkpoint all
are. A last line that was cut short was of a message that had not left.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import CheckpointError
from colonnade.journals import file_name
from colonnade.ledger import Entry
from colonnade.wire import Purpose

__all__ = ["Departures", "lost_since"]

_Row = tuple[str, str, str, Purpose, int, int, int, int, int | None]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Row).decode


class Departures:
    """The file of one organisation, which only grows.

    Parameters
    ----------
    folder
        Where the run's files lie; made when needed. None keeps nothing.
    name
        The organisation's name.

    Raises
    ------
    CheckpointError
        If the file cannot be written.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self._file: int | None = None
        if folder is None:
            return
        self._path = _place(folder, name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            whole = _whole(self._path.read_bytes()) if self._path.exists() else b""
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.truncate(self._file, len(whole))
        except OSError as error:
            raise self._failed(error) from None

    def note(self, row: tuple[Any, ...]) -> None:
        """Add the row of a message that is about to leave; any thread may."""
        if self._file is None:
            return
        try:
            os.write(self._file, _encode(row) + b"\n")
        except OSError as error:
            raise self._failed(error) from None

    def mark(self) -> int:
        """Bring all lines to the disk; return the size of the file, for a checkpoint."""
        if self._file is None:
            return 0
        try:
            os.fsync(self._file)
            return os.fstat(self._file).st_size
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _failed(self, error: OSError) -> CheckpointError:
        return CheckpointError(
            f"{self._path}, where the run notes what it sends, cannot be written: "
            f"{error.strerror}; make room, or choose another folder"
        )


def lost_since(folder: Path, name: str, size: int, sequence: int) -> list[Entry]:
    """Return what an organisation had sent that a checkpoint does not know of.

    Parameters
    ----------
    folder
        Where the run's files lie.
    name
        The organisation's name.
    size
        What ``mark`` returned for the checkpoint; 0 where there is none.
    sequence
        Of its next message, as of the checkpoint: one before it may leave after ``mark``.

    Raises
    ------
    CheckpointError
        If the file is damaged.
    """
    path = _place(folder, name)
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(size)
        lines = _whole(file.read()).splitlines()
    try:
        entries = [Entry(*_decode(line))._replace(lost=True) for line in lines]
    except msgspec.MsgspecError as error:
        raise CheckpointError(
            f"{path}, where the run noted what it sent, is damaged ({error}); move it away to go "
            "on without an account of what was lost"
        ) from None
    return [entry for entry in entries if entry.sequence >= sequence]


def _place(folder: Path, name: str) -> Path:
    return folder / file_name(name, "jsonl")


def _whole(data: bytes) -> bytes:
    """Return the lines that end."""
    return data[: data.rfind(b"\n") + 1]
