"""Journals: what an organisation must never forget, on disk before it says anything more.

A checkpoint is a state to go back to; a journal is what going back does not undo: which share was
revealed, how much of a budget is spent. It only grows, a record at a time, each flushed to the disk
before ``commit`` returns. Its *incarnation* number grows at every start and resume and is written
down before anybody learns it, so that a secret derived from it is never drawn twice.

A file begins with ``MAGIC``. A record is

    length (4 bytes) | check of the length (4) | digest (16) | payload (msgpack)

Numbers are little endian. The digest continues that of the record before, so records cannot be
left out or exchanged. A process that is killed while it writes leaves a record that is cut short,
and it is the last: nobody was told of it, so it is dropped. Any other damage is an error, as what
follows it was acknowledged; that is why the length has a check of its own.

A file alone cannot tell whether its end was lost. A checkpoint notes how far each journal had come,
as does each message that leaves (see ``departures``), and a run that goes on refuses one that is
behind that, or gone. Not noticed is the loss of what was acknowledged after the last of either: a
whole end that is cut off, a file put back from a copy, or a last record damaged on the disk, which
looks as one does that a kill cut short.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from colonnade.effects import Notes
from colonnade.errors import CheckpointError, LocalProtocolError
from colonnade.faults import unwritten
from colonnade.locks import locked
from colonnade.ordinary import NOT_ORDINARY

__all__ = ["MAX_DEPTH", "MAX_RECORD_BYTES", "Journal", "file_name", "open_journals"]

MAGIC = b"colonnade journal 1\n"
MAX_RECORD_BYTES = 2**26
MAX_DEPTH = 100  # of containers in a record, itself counted; decoders have a limit too
_HEAD = 24  # bytes before a payload

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Journal:
    """What one organisation committed, and which incarnation of it this is.

    Opening one is what allocates the incarnation number: 0 the first time, then one more each time,
    also when the one before was killed right after.

    Parameters
    ----------
    folder
        Where the run's journals lie; made when needed. None for one that lives in memory.
    name
        The organisation's name.
    noted
        What was noted last as ``extent``, by the checkpoint that is gone on from or as a message
        left. Without a folder it means nothing.

    Raises
    ------
    CheckpointError
        If the file is damaged anywhere but in a last record that was cut short, is behind what was
        noted, is in use by another process, or cannot be written.

    Examples
    --------
    >>> journal = Journal(None, "bank")
    >>> journal.commit({"round": 3, "revealed": ["shop"]})
    >>> journal.notes()
    Notes(incarnation=0, records=({'round': 3, 'revealed': ['shop']},))
    """

    def __init__(
        self, folder: Path | None, name: str, noted: tuple[int, int] | None = None
    ) -> None:
        self.name = name
        self.incarnation = 0
        self._records: list[bytes] = []
        self._in_memory = folder is None
        self._file: BinaryIO | None = None
        self._broken = False
        self._digest = _chained(b"", MAGIC)
        if folder is None:
            return
        self.path = folder / file_name(name, "journal")
        try:
            self._open(folder, noted)
            self._append({"incarnation": self.incarnation})
        except OSError as error:
            self.close()
            raise unwritten(f"the journal {self.path}", error) from None
        except BaseException:
            self.close()
            raise

    @classmethod
    def remembered(cls, name: str, notes: Notes) -> Journal:
        """Return a journal in memory that holds what another one did."""
        journal = cls(None, name)
        journal.incarnation = notes.incarnation
        journal._records = [_encoded(record) for record in notes.records]
        return journal

    def commit(self, record: Mapping[str, Any]) -> None:
        """Add a record; when this returns, it is on the disk.

        Raises
        ------
        LocalProtocolError
            If it is no dict, holds anything but numbers, strings, bytes, booleans, None, lists and
            dicts of strings or whole numbers, is larger than ``MAX_RECORD_BYTES``, or is nested
            deeper than ``MAX_DEPTH``.
        Unwritten
            If it cannot be written.
        """
        payload = _encoded(record)
        if self._file is not None or self._broken:
            try:
                self._append({"record": msgspec.Raw(payload)})
            except OSError as error:
                raise unwritten(f"the journal {self.path}", error) from None
        self._records.append(payload)

    def notes(self) -> Notes:
        """Return the incarnation number and copies of all records, also of earlier incarnations."""
        return Notes(self.incarnation, tuple(_decode(record) for record in self._records))

    @property
    def extent(self) -> tuple[int, int] | None:
        """The incarnation and the number of records, to be noted; None without a folder.

        Any thread may ask; the records that are counted are on the disk.
        """
        return None if self._in_memory else (self.incarnation, len(self._records))

    def close(self) -> None:
        """Close the file; what was committed is there already."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # The file

    def _open(self, folder: Path, noted: tuple[int, int] | None) -> None:
        if noted is not None and not self.path.exists():
            raise self._behind("it is missing")
        folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and not self.path.is_file():
            raise CheckpointError(f"{self.path} is no journal: {NOT_ORDINARY}; move it away")
        # Unbuffered: what a failed write leaves must not be written by a later one.
        self._file = self.path.open("r+b" if self.path.exists() else "x+b", buffering=0)
        self._lock(self._file)
        size = os.fstat(self._file.fileno()).st_size
        head = self._file.read(len(MAGIC))
        is_new = size < len(MAGIC) and MAGIC.startswith(head)  # or was killed while it was made
        if head == MAGIC:
            whole = self._read(size)
        elif is_new:
            whole = len(MAGIC)
        else:
            raise CheckpointError(
                f"{self.path} is no journal of this version; start a new run in a new folder"
            )
        if noted is not None:
            self._compare(*noted)
        if is_new:
            self._file.seek(0)
            self._write(MAGIC)
        self._file.truncate(whole)
        self._file.seek(whole)
        os.fsync(self._file.fileno())
        _sync(folder)
        _sync(folder.parent)

    def _lock(self, file: BinaryIO) -> None:
        """Keep other processes away while the file is open: two would be one incarnation."""
        if not locked(file.fileno()):
            raise CheckpointError(
                f"the journal {self.path} is in use: the run in its folder is still going on in "
                "another process; wait for it, or choose another folder"
            )

    def _read(self, size: int) -> int:
        """Read all whole records of a file of ``size`` bytes; return where the last one ends."""
        assert self._file is not None
        place = len(MAGIC)
        while size - place >= _HEAD:
            head = self._file.read(_HEAD)
            length = int.from_bytes(head[:4], "little")
            if head[4:8] != _check(head[:4]):
                if not any(head) and _only_zeros(self._file):
                    return place  # the disk had made room for a record, and no more
                raise self._damaged(place)
            if length > size - place - _HEAD:
                return place
            payload = self._file.read(length)
            digest = _chained(self._digest, payload)
            if head[8:] != digest:
                if place + _HEAD + length == size:
                    return place
                raise self._damaged(place)
            self._digest = digest
            place += _HEAD + length
            self._take(payload, place)
        return place

    def _take(self, payload: bytes, place: int) -> None:
        try:
            match _decode(payload):
                case {"incarnation": int(number)}:
                    self.incarnation = number + 1
                case {"record": dict(record)}:
                    self._records.append(_encode(record))
                case _:
                    raise self._damaged(place)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise self._damaged(place) from None

    def _compare(self, incarnation: int, records: int) -> None:
        """Refuse a file that holds less than was noted."""
        if len(self._records) < records:
            raise self._behind(f"it has {len(self._records)} records of {records}")
        last = self.incarnation - 1
        if last < incarnation:
            raise self._behind(f"its last incarnation is {last}, not {incarnation} or later")

    def _behind(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"the journal {self.path} is not what it was when a checkpoint was written or a "
            f"message left: {what}; to go on without what {self.name!r} committed could repeat a "
            "secret, or tell of too small an epsilon, so put the newest copy of it back, or start "
            "a new run in a new folder"
        )

    def _damaged(self, place: int) -> CheckpointError:
        return CheckpointError(
            f"the journal {self.path} is damaged at byte {place}, before its end: what "
            f"{self.name!r} committed after that is unknown, and to go on could repeat a secret, "
            "as would an older copy of the file; start a new run in a new folder"
        )

    def _append(self, item: dict[str, Any]) -> None:
        if self._file is None:
            raise CheckpointError(f"the journal {self.path} failed before and takes no more")
        payload = _encode(item)
        digest = _chained(self._digest, payload)
        length = len(payload).to_bytes(4, "little")
        place = self._file.tell()
        try:
            self._write(length + _check(length) + digest + payload)
            os.fsync(self._file.fileno())
        except OSError:
            # What is on the disk now is unknown; nothing may follow it.
            self._broken = True
            with suppress(OSError):
                self._file.truncate(place)
            self.close()
            raise
        self._digest = digest

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]


def open_journals(
    folder: Path | None,
    names: Iterable[str],
    noted: Mapping[str, tuple[int, int] | None] | None = None,
) -> dict[str, Journal]:
    """Open a journal for each of several organisations, or none; ``noted`` is by their names."""
    journals: dict[str, Journal] = {}
    try:
        for name in names:
            journals[name] = Journal(folder, name, noted.get(name) if noted else None)
    except BaseException:
        for journal in journals.values():
            journal.close()
        raise
    return journals


def _encoded(record: Mapping[str, Any]) -> bytes:
    if type(record) is not dict:
        raise LocalProtocolError(f"a committed record is a {type(record).__name__}, not a dict")
    try:
        _check_plain(record, 1)
        payload = _encode(record)
    except (OverflowError, UnicodeEncodeError, RecursionError) as error:
        raise LocalProtocolError(f"a committed record cannot be written: {error}") from None
    if len(payload) > MAX_RECORD_BYTES:
        raise LocalProtocolError(
            f"a committed record has {len(payload)} bytes, at most {MAX_RECORD_BYTES} fit"
        )
    return payload


def _check_plain(value: Any, depth: int) -> None:
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes):
        return
    if depth > MAX_DEPTH:
        raise LocalProtocolError(f"a committed record is nested deeper than {MAX_DEPTH}")
    if kind is list:
        for item in value:
            _check_plain(item, depth + 1)
    elif kind is dict:
        for key, item in value.items():
            if type(key) not in (str, int):
                raise LocalProtocolError(
                    f"a committed record has the key {key!r}; keys are strings and whole numbers"
                )
            _check_plain(item, depth + 1)
    else:
        raise LocalProtocolError(
            f"a committed record holds a {kind.__name__}; it may hold numbers, strings, bytes, "
            "booleans, None, lists and dicts"
        )


def file_name(name: str, ending: str) -> str:
    """Return a file name that is safe everywhere, and another for every organisation.

    >>> file_name("Bank of A:B", "journal")
    'Bank_of_A_B-25b7566cb5cbabf2.journal'
    """
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60]
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{safe}-{digest}.{ending}"


def _check(length: bytes) -> bytes:
    return hashlib.blake2b(length, digest_size=4, person=b"length").digest()


def _chained(before: bytes, payload: bytes) -> bytes:
    return hashlib.blake2b(before + payload, digest_size=16, person=b"journal").digest()


def _only_zeros(file: BinaryIO) -> bool:
    while chunk := file.read(2**16):
        if any(chunk):
            return False
    return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
