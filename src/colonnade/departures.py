"""What left an organisation, on disk as it leaves: what a killed run had sent can be counted.

A ledger is kept in memory and written down with each checkpoint. What was sent after the last one
is sent again by the run that goes on from it, but it did leave. So each organisation also has a
file in the run's ``departures/``, to which a line is added for every message before it leaves: the
fields of its ledger entry, as JSON. A checkpoint notes how far each file had come, and what its
last line was; what is beyond that was lost. Where the file is another one, since that was moved
away, or is cut off, it is told by the messages' numbers, and that it may not be all.

A line also says how far the organisation's journal had come. A journal that is behind that when a
run goes on is another one, such as a copy from before, and lacks what was committed of messages
that left. And it has a digest of itself and the line before, so that none can be changed, be gone
from among others, or be there twice; only what is cut off at the end is as if it had not been.

A line is with the operating system before the message is, so a process may be killed at any moment.
Where the machine itself fails, lines that were not on the disk yet are gone; up to a checkpoint all
are. A last line that was cut short was of a message that had not left.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from colonnade.errors import CheckpointError, Unwritten
from colonnade.faults import unwritten
from colonnade.journals import file_name
from colonnade.ledger import Entry
from colonnade.ordinary import open_ordinary
from colonnade.wire import Purpose

__all__ = ["Departures", "Found", "Mark", "departed", "lost_since"]

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LOOKED_AT = 4096  # bytes at the end of a file; a line is shorter, unless names are very long
_LONGEST = 2**20  # bytes of a line, never
_DIGEST_BYTES = 8
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # nor is a pipe waited for


class _Line(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The fields of an ``Entry``, and what older files lack.

    That is the ``extent`` of the journal, and a digest of this line and the one before.
    """

    sender: str
    receiver: str
    kind: str
    purpose: Purpose
    round: _Count
    sequence: _Count
    body_bytes: _Count
    framed_bytes: _Count
    nanoseconds: _Count | None
    journal: tuple[_Count, _Count] | None = None
    digest: str | None = None

    def entry(self) -> Entry:
        *row, _, _ = msgspec.structs.astuple(self)
        return Entry(*row)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode
_UNCHAINED = "its lines are not those that were written, one behind another"
_NO_LINE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _chained(before: bytes, said: bytes) -> bytes:
    """Return the line that says this behind another: a JSON array, its digest the last of it."""
    digest = hashlib.blake2b(before + said, digest_size=_DIGEST_BYTES).hexdigest()
    return b'%b,"%b"]\n' % (said[:-1], digest.encode())


def _unchained(line: bytes) -> bytes:
    """Return what ``_chained`` was given to say."""
    return line[: -(2 * _DIGEST_BYTES + len(b',""]\n'))] + b"]"


class Mark(NamedTuple):
    """How far a file of departures has come: its size, and the digest of its last line.

    Without a digest, as in older checkpoints, the size alone is compared.
    """

    size: int = 0
    digest: str = ""


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
        If the file is there and was not written by such an object.
    Unwritten
        If it cannot be written.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self._file: int | None = None
        self._reader: int | None = None
        self._torn = self._closed = False
        self._before = b""  # the line that was last
        if folder is None:
            return
        self._path = _place(folder, name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            size = 0
            for line, _ in _lines(self._path, name):
                size += len(line)
                self._before = line
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINK
            self._file = os.open(self._path, flags, 0o666)
            self._reader = os.open(self._path, os.O_RDONLY | _NO_LINK)
            os.truncate(self._file, size)
        except OSError as error:
            self.close()
            raise self._failed(error) from None

    def note(self, row: tuple[Any, ...], journal: tuple[int, int] | None = None) -> None:
        """Add the row of a message that is about to leave; any thread may, one at a time.

        ``journal`` is the ``extent`` that the organisation's has now, if it has one on disk.

        Raises
        ------
        Unwritten
            If the disk does not take it; then the message must not leave.
        ConnectionError
            If the file is closed: nothing leaves any more.
        """
        if self._closed:
            raise ConnectionError("nothing leaves any more")
        if self._file is None:
            return
        line = _chained(self._before, _encode((*row, journal)))
        try:
            # A line that is cut short must stay the last: it is dropped when the run goes on.
            if self._torn or os.write(self._file, line) < len(line):
                self._torn = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise self._failed(error) from None
        self._before = line

    def mark(self) -> Mark:
        """Bring all lines to the disk; return how far the file has come, for a checkpoint."""
        if self._file is None or self._reader is None:
            return Mark()
        try:
            os.fsync(self._file)
            # Another thread may be adding a line.
            start = max(0, os.lseek(self._reader, 0, os.SEEK_END) - _LOOKED_AT)
            os.lseek(self._reader, start, os.SEEK_SET)
            end = _whole(os.read(self._reader, _LOOKED_AT))
            return Mark(start + len(end), _last(end))
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Close the file, while no thread notes anything; none may leave any more."""
        self._closed = True
        for opened in (self._file, self._reader):
            if opened is not None:
                os.close(opened)
        self._file = self._reader = None

    def _failed(self, error: OSError) -> Unwritten:
        return unwritten(f"{self._path}, where the run notes what it sends,", error)


class Found(NamedTuple):
    """What is in a file of departures.

    Parameters
    ----------
    lost
        What had been sent that a checkpoint does not know of.
    is_all
        Whether that is all; it may not be where the file is not the one that was marked, or lacks
        what was.
    journal
        The furthest ``extent`` of the journal that a message left with; None where none says it.
    """

    lost: list[Entry]
    is_all: bool
    journal: tuple[int, int] | None


def lost_since(
    folder: Path, name: str, mark: Mark, sequence: int, receivers: Container[str]
) -> Found:
    """Return what an organisation had sent that a checkpoint does not know of.

    Parameters
    ----------
    folder
        Where the run's files lie.
    name
        The organisation's name.
    mark
        What ``Departures.mark`` returned for the checkpoint; an empty one where there is none.
    sequence
        Of its next message, as of the checkpoint: one before it may leave after ``mark``.
    receivers
        To whom it may have sent.

    Raises
    ------
    CheckpointError
        If the file is damaged.
    """
    path = _place(folder, name)
    journal: tuple[int, int] | None = None
    size, marked, later = 0, b"", []
    try:
        for line, row in _lines(path, name):
            if size < mark.size:
                size, marked = size + len(line), line
            else:
                later.append(row)
            if row.journal is not None:
                journal = row.journal if journal is None else max(journal, row.journal)
        is_all = size == mark.size and mark.digest in ("", _last(marked))
        lost = later if is_all else [row for _, row in _lines(path, name)]
    except OSError as error:
        raise CheckpointError(
            f"{path}, where the run noted what it sent, cannot be read: {error.strerror}; move it "
            "away to go on without an account of what was lost"
        ) from None
    entries = [row.entry()._replace(lost=True) for row in lost]
    for entry in entries:
        if entry.receiver not in receivers:
            raise _damaged(path, f"nobody is called {entry.receiver!r}")
    return Found([entry for entry in entries if entry.sequence >= sequence], is_all, journal)


def departed(folder: Path, name: str) -> list[Entry]:
    """Return all that an organisation has sent, of a run that was not gone on with.

    Raises
    ------
    CheckpointError
        If the file is damaged.
    """
    return [row.entry() for _, row in _lines(_place(folder, name), name)]


def _place(folder: Path, name: str) -> Path:
    return folder / file_name(name, "jsonl")


def _lines(path: Path, name: str) -> Iterator[tuple[bytes, _Line]]:
    """Yield each line that ends, and what it says; none where there is no file.

    Raises
    ------
    CheckpointError
        If not all of it is of messages from ``name``, as they were written one behind another.
    """
    before, is_chained = b"", False
    try:
        file = os.fdopen(open_ordinary(path, _NO_LINK), "rb")
    except FileNotFoundError:
        return
    except ValueError as error:
        raise _damaged(path, str(error)) from None
    with file:
        while line := file.readline(_LONGEST):
            if len(line) == _LONGEST:
                raise _damaged(path, "it has a line that no message has")
            if not line.endswith(b"\n"):
                return _check_torn(path, name, line)
            row = _said(path, name, line)
            is_chained |= row.digest is not None
            if is_chained and line != _chained(before, _unchained(line)):
                raise _damaged(path, _UNCHAINED)
            yield line, row
            before = line


def _said(path: Path, name: str, line: bytes) -> _Line:
    """Return what a line says of a message from ``name``."""
    try:
        row = _decode(line)
    except _NO_LINE as error:
        raise _damaged(path, str(error)) from None
    if row.sender != name:
        raise _damaged(path, f"it has a message from {row.sender!r}, not {name!r}")
    if row.framed_bytes <= row.body_bytes:
        raise _damaged(path, f"{row.body_bytes} bytes were framed in {row.framed_bytes}")
    return row


def _check_torn(path: Path, name: str, line: bytes) -> None:
    """Raise ``CheckpointError`` unless the last line, which does not end, was begun so.

    Of zeros alone, the disk had made room for a line, and no more.
    """
    start = _encode([name])[:-1] + b","
    is_begun = line.startswith(start) or start.startswith(line) or not line.strip(b"\0")
    if not is_begun or _is_line(line[:-1]):
        raise _damaged(path, "it ends in what is no message")


def _is_line(data: bytes) -> bool:
    try:
        _decode(data)
    except _NO_LINE:
        return False
    return True


def _damaged(path: Path, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path}, where the run noted what it sent, is damaged ({what}); move it away to go on "
        "without an account of what was lost"
    )


def _whole(data: bytes) -> bytes:
    """Return the lines that end."""
    return data[: data.rfind(b"\n") + 1]


def _last(data: bytes) -> str:
    """Return the digest of the end of the last line; of nothing it is empty."""
    line = data[data.rfind(b"\n", 0, -1) + 1 :][-_LOOKED_AT:]
    return hashlib.blake2b(line, digest_size=8).hexdigest() if line else ""
