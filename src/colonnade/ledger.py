"""The record of every message that left an organisation.

A row is written where a message is handed to the driver, and its bytes are the lengths of what was
handed over: ``body_bytes`` of the body, ``framed_bytes`` with the envelope and the length before
it, all that a stream carries. Two drivers' ledgers of one run are equal except for the time.

Rows that nothing will change any more are *settled*: kept as the bytes of a file, a small part of
what they take as objects, which checkpoints write as they are. So a checkpoint after a million
messages takes hardly longer than after the first.

What a crash undid is in the ledger too, marked ``lost``: it left, and was sent again by the run
that went on from the checkpoint before. So a sender's number may be there more than once, but only
once of what is not lost.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import polars as pl

from colonnade.forked import check_not_forked
from colonnade.telling import first_line
from colonnade.wire import Purpose

__all__ = ["Entry", "Ledger"]


_Name = Annotated[str, msgspec.Meta(max_length=200)]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Clock = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]


class Entry(NamedTuple):
    """One message: both ends, what it was, its size, and when it was sent.

    What an organisation tells of its own is within the bounds that the types say.

    ``nanoseconds`` counts from the start of the run on the driver's clock; None under a driver
    that has no clock. ``discarded`` says that the receiver had closed its round, and never took it;
    ``lost`` that the run was killed before a checkpoint knew of it.
    """

    sender: _Name
    receiver: _Name
    kind: _Name
    purpose: Purpose
    round: _Number
    sequence: _Number
    body_bytes: _Bytes
    framed_bytes: _Bytes
    nanoseconds: _Clock | None
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


_Segment: TypeAlias = bytes  # of a Parquet file; in the class, bytes is a method
_SENDER_AND_SEQUENCE = itemgetter(0, 5)
_MANY = 2**16  # rows that are settled at a time
_LABELS = {int(purpose): purpose.label for purpose in Purpose}


_LONGEST = 2.0**33  # seconds; more nanoseconds are no 64 bits


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
        self._discarded: set[tuple[str, int]] = set()  # of what was not settled then
        self._lost: list[Entry] = []
        self._settled: list[_Segment] = []
        self._settled_rows = 0
        self.extend(entries)

    def __len__(self) -> int:
        return self._settled_rows + len(self._rows) + len(self._lost)

    def __iter__(self) -> Iterator[Entry]:
        return iter(sorted(self._all(), key=_SENDER_AND_SEQUENCE))

    @property
    def lost(self) -> Sequence[Entry]:
        """What was sent after the checkpoint that a run went on from, and so was sent again."""
        return tuple(self._lost)

    def _all(self) -> Iterator[Entry]:
        return chain(self._lost, self._recorded())

    def _recorded(self) -> Iterator[Entry]:
        for segment in self._settled:
            yield from _entries(self._marked(_unpacked(segment)))
        yield from map(self._entry, self._rows)

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

    def drain(self) -> list[Entry]:
        """Return the entries that are not settled, without what was lost, and forget them."""
        entries = [self._entry(row) for row in self._rows]
        self._rows.clear()
        self._discarded.clear()
        return entries

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

    # What nothing will change any more

    @property
    def settled(self) -> Sequence[_Segment]:
        """What was settled, as the bytes of Parquet files, oldest first."""
        return self._settled

    def settle(
        self,
        sequences: Mapping[str, int] | None = None,
        undecided: Collection[tuple[str, int]] = frozenset(),
    ) -> None:
        """Settle rows, if there are many.

        Parameters
        ----------
        sequences
            For each sender, the number of its first message that a run might go back to; None where
            nothing will be gone back to.
        undecided
            Messages before these, by sender and number, that may still be taken or discarded.
        """
        if len(self._rows) < _MANY:
            return
        final: list[tuple[Any, ...]] = []
        rest: list[tuple[Any, ...]] = []
        for row in self._rows:
            sender, sequence = row[0], row[5]
            before = sequences is None or sequence < sequences.get(sender, 0)
            (final if before and (sender, sequence) not in undecided else rest).append(row)
        if len(final) < _MANY // 2:
            return
        self._settled.append(_packed(self._framed(final)))
        self._settled_rows += len(final)
        self._discarded.difference_update((row[0], row[5]) for row in final)
        self._rows[:] = rest  # the same list, which drivers append to

    def unsettled(self, sequences: Mapping[str, int]) -> Ledger:
        """Return what ``before`` would, without what was settled."""
        rest = Ledger(self._lost)
        rest.extend(self._entry(row) for row in self._rows if row[5] < sequences.get(row[0], 0))
        return rest

    @classmethod
    def restored(cls, settled: Iterable[_Segment], rest: pl.DataFrame) -> Ledger:
        """Return the ledger of which these were ``settled``, and the frame of the rest."""
        ledger = cls.from_frame(rest)
        ledger._settled = [*settled, *ledger._settled]
        ledger._settled_rows = sum(len(_unpacked(segment)) for segment in ledger._settled)
        return ledger

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        sender, receiver, kind, purpose, *numbers = row
        numbers.append((sender, row[5]) in self._discarded)
        return Entry(sender, receiver, kind, Purpose(purpose), *numbers)

    def _framed(self, rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
        check_not_forked()
        frame = pl.DataFrame(rows, schema=_RECORDED, orient="row")
        late = [(row[0], row[5]) in self._discarded for row in rows]
        return frame.with_columns(
            pl.col("purpose").replace_strict(_LABELS, return_dtype=pl.String),
            discarded=pl.Series(late, dtype=pl.Boolean),
            lost=pl.lit(value=False),
        )

    def _marked(self, settled: pl.DataFrame) -> pl.DataFrame:
        """Return what was settled with what was discarded since."""
        if not self._discarded:
            return settled
        marks = pl.DataFrame(list(self._discarded), schema=_MARK, orient="row")
        since = marks.with_columns(since=pl.lit(value=True))
        joined = settled.join(since, on=list(_MARK), how="left", maintain_order="left")
        late = pl.col("discarded") | pl.col("since").fill_null(value=False)
        return joined.with_columns(discarded=late).select(list(_SCHEMA))

    def frame(self) -> pl.DataFrame:
        """Return the ordered entries as a data frame, the purpose as a word."""
        lost = [entry._replace(purpose=entry.purpose.label) for entry in self._lost]  # type: ignore[arg-type]  # a word where the entry has the enum
        frames = [
            pl.DataFrame(lost, schema=_SCHEMA, orient="row"),
            *(self._marked(_unpacked(segment)) for segment in self._settled),
            self._framed(self._rows),
        ]
        return pl.concat(frames).sort("sender", "sequence", maintain_order=True)

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Ledger:
        """Restore a ledger from ``frame``, also one without the columns discarded and lost."""
        missing = {"discarded", "lost"} - set(frame.columns)
        frame = frame.with_columns(pl.lit(value=False).alias(name) for name in missing)
        ledger = cls(_entries(frame.filter("lost")))
        kept = frame.filter(~pl.col("lost")).select(list(_SCHEMA))
        whole = len(kept) // _MANY * _MANY
        ledger._settled = [_packed(kept[start : start + _MANY]) for start in range(0, whole, _MANY)]
        ledger._settled_rows = whole
        ledger.extend(_entries(kept[whole:]))
        return ledger

    def write_csv(self, path: Path) -> None:
        """Write the ordered entries, with the time in seconds."""
        frame = self.frame().with_columns(seconds=pl.col("nanoseconds") / 1e9)
        with path.open("wb") as file:  # polars takes no path that is not UTF-8
            frame.drop("nanoseconds").write_csv(file)

    @classmethod
    def read_csv(cls, path: Path) -> Ledger:
        """Restore a ledger from what ``write_csv`` wrote.

        Raises
        ------
        ValueError
            If it is no such table, a row lacks what every message has, or its purpose or time is
            none.
        """
        # Older ones have neither discarded nor lost.
        text = path.read_bytes()  # polars takes no path that is not UTF-8
        try:
            there = pl.read_csv(text, n_rows=0).columns
            missing = {"nanoseconds"} | ({"discarded", "lost"} - set(there))
            schema = {name: kind for name, kind in _SCHEMA.items() if name not in missing}
            frame = pl.read_csv(text, schema=schema | {"seconds": pl.Float64})
        except (OSError, pl.exceptions.PolarsError) as error:  # polars unpacks what looks packed
            raise ValueError(first_line(error)) from error
        purpose, seconds = pl.col("purpose"), pl.col("seconds")
        wrong = frame.with_row_index("row", 1).filter(
            pl.any_horizontal(pl.col(*schema).is_null())
            | ~purpose.is_in([each.label for each in Purpose])
            | ~seconds.is_between(-_LONGEST, _LONGEST)  # nor nan
        )
        if len(wrong):
            raise ValueError(f"row {wrong['row'][0]} describes no message")
        nanoseconds = (pl.col("seconds") * 1e9).round().cast(pl.Int64)
        return cls.from_frame(frame.with_columns(nanoseconds=nanoseconds).drop("seconds"))


_MARK = {name: _SCHEMA[name] for name in ("sender", "sequence")}
_RECORDED = {name: kind for name, kind in _SCHEMA.items() if name not in ("discarded", "lost")} | {
    "purpose": pl.UInt8
}


def _packed(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _unpacked(segment: bytes) -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(segment), columns=list(_SCHEMA))


def _entries(frame: pl.DataFrame) -> Iterator[Entry]:
    for row in frame.select(list(_SCHEMA)).iter_rows(named=True):
        yield Entry(**row | {"purpose": Purpose[row["purpose"].upper()]})
