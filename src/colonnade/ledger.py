"""The record of every message that left an organisation.

A row is written where a message is handed to the driver, and its bytes are the lengths of what was
handed over: ``body_bytes`` of the body, ``framed_bytes`` with the envelope and the length before
it, all that a stream carries. Two drivers' ledgers of one run are equal except for the time.

What a crash undid is in the ledger too, marked ``lost``: it left, and was sent again by the run
that went on from the checkpoint before. So a sender's number may be there more than once, but only
once of what is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from colonnade.wire import Purpose

__all__ = ["Entry", "Ledger"]


class Entry(NamedTuple):
    """One message: both ends, what it was, its size, and when it was sent.

    ``nanoseconds`` counts from the start of the run on the driver's clock; None under a driver
    that has no clock. ``discarded`` says that the receiver had closed its round, and never took it;
    ``lost`` that the run was killed before a checkpoint knew of it.
    """

    sender: str
    receiver: str
    kind: str
    purpose: Purpose
    round: int
    sequence: int
    body_bytes: int
    framed_bytes: int
    nanoseconds: int | None
    discarded: bool = False
    lost: bool = False


_SCHEMA = {
    "sender": pl.String,
    "receiver": pl.String,
    "kind": pl.String,
    "purpose": pl.String,
    "round": pl.Int64,
    "sequence": pl.Int64,
    "body_bytes": pl.Int64,
    "framed_bytes": pl.Int64,
    "nanoseconds": pl.Int64,
    "discarded": pl.Boolean,
    "lost": pl.Boolean,
}


_SENDER_AND_SEQUENCE = itemgetter(0, 5)


class Ledger:
    """A growing list of entries, ordered by (sender, sequence) when read.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.append(Entry("bank", "shop", "embedding", Purpose.TRAINING, 0, 0, 100, 117, 5))
    >>> ledger.bytes(lambda entry: entry.purpose is Purpose.TRAINING)
    100
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        # Plain tuples of plain values: the garbage collector soon stops looking at those, however
        # long a run and its ledger grow. They become entries when they are read.
        self._rows: list[tuple[Any, ...]] = []
        # What a driver calls for each message: the fields of an entry that was not discarded, the
        # purpose as an int.
        self.record: Callable[[tuple[Any, ...]], None] = self._rows.append
        self._discarded: set[tuple[str, int]] = set()
        self._lost: list[Entry] = []
        self.extend(entries)

    def __len__(self) -> int:
        return len(self._rows) + len(self._lost)

    def __iter__(self) -> Iterator[Entry]:
        return iter(sorted(self._all(), key=_SENDER_AND_SEQUENCE))

    def _all(self) -> Iterator[Entry]:
        return chain(self._lost, map(self._entry, self._rows))

    def append(self, entry: Entry) -> None:
        """Add an entry."""
        if entry.lost:
            self._lost.append(entry)
            return
        self._rows.append((*entry[:3], int(entry.purpose), *entry[4:9]))
        if entry.discarded:
            self._discarded.add((entry.sender, entry.sequence))

    def extend(self, entries: Iterable[Entry]) -> None:
        """Add several entries."""
        for entry in entries:
            self.append(entry)

    def discard(self, sender: str, sequence: int, *, discarded: bool = True) -> None:
        """Note that a message was discarded, or that it was not."""
        if discarded:
            self._discarded.add((sender, sequence))
        else:
            self._discarded.discard((sender, sequence))

    def since(self, index: int) -> list[Entry]:
        """Return the entries from the ``index``-th recorded on, in the order of recording.

        What was lost was recorded by a run before, and is not among them.
        """
        return [self._entry(row) for row in self._rows[index:]]

    def without_time(self) -> list[Entry]:
        """Return the ordered entries with the time blanked, without what was lost.

        That is what drivers must agree on, and what a run that was killed shares with one that was
        not.
        """
        return [entry._replace(nanoseconds=None) for entry in self if not entry.lost]

    def bytes(self, select: Callable[[Entry], bool] = lambda entry: True) -> int:
        """Sum the bytes of the bodies of the selected entries."""
        return sum(entry.body_bytes for entry in self._all() if select(entry))

    def framed_bytes(self, select: Callable[[Entry], bool] = lambda entry: True) -> int:
        """Sum the bytes of the selected entries, with all that a stream carries."""
        return sum(entry.framed_bytes for entry in self._all() if select(entry))

    def before(self, sequences: dict[str, int]) -> Ledger:
        """Keep of each sender the entries before its given sequence number, and what was lost."""
        kept = (e for e in self.since(0) if e.sequence < sequences.get(e.sender, 0))
        return Ledger(chain(self._lost, kept))

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        sender, receiver, kind, purpose, *numbers = row
        numbers.append((sender, row[5]) in self._discarded)
        return Entry(sender, receiver, kind, Purpose(purpose), *numbers)

    def frame(self) -> pl.DataFrame:
        """Return the ordered entries as a data frame, the purpose as a word."""
        rows = [entry._replace(purpose=entry.purpose.label) for entry in self]  # type: ignore[arg-type]  # a word where the entry has the enum
        return pl.DataFrame(rows, schema=_SCHEMA, orient="row")

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Ledger:
        """Restore a ledger from ``frame``, also one without the columns discarded and lost."""
        return cls(
            Entry(**row | {"purpose": Purpose[row["purpose"].upper()]})
            for row in frame.iter_rows(named=True)
        )

    def write_csv(self, path: Path) -> None:
        """Write the ordered entries, with the time in seconds."""
        frame = self.frame().with_columns(seconds=pl.col("nanoseconds") / 1e9)
        frame.drop("nanoseconds").write_csv(path)

    @classmethod
    def read_csv(cls, path: Path) -> Ledger:
        """Restore a ledger from what ``write_csv`` wrote."""
        # Older ones have neither discarded nor lost.
        there = pl.read_csv(path, n_rows=0).columns
        missing = {"nanoseconds"} | ({"discarded", "lost"} - set(there))
        schema = {name: kind for name, kind in _SCHEMA.items() if name not in missing}
        frame = pl.read_csv(path, schema=schema | {"seconds": pl.Float64})
        nanoseconds = (pl.col("seconds") * 1e9).round().cast(pl.Int64)
        return cls.from_frame(frame.with_columns(nanoseconds=nanoseconds).drop("seconds"))
