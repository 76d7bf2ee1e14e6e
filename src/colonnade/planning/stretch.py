"""The traffic of many epochs, from that of three and of two.

An epoch sends what the one before it sent: the same messages with bodies as long. Only the numbers
in the envelopes, of round and message, grow, and with them now and then an envelope by a byte or
two. So the third epoch is repeated message by message, each with its numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.ledger import Entry, Ledger

__all__ = ["stretched", "traffic"]

_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("sender", "receiver", "kind", "purpose"), pl.String),
    **dict.fromkeys(("messages", "body_bytes", "framed_bytes"), pl.Int64),
}

Totals = dict[tuple[str, str, str, str], NDArray[np.int64]]
"""Messages, body bytes and framed bytes by sender, receiver, kind and purpose."""


def traffic(ledger: Ledger) -> pl.DataFrame:
    """Return how many messages and bytes went from whom to whom, by kind and purpose."""
    return _frame(_totals(ledger))


def stretched(three: Ledger, two: Ledger, epochs: int, rounds: int) -> pl.DataFrame:
    """Return the traffic of a run of ``epochs``, as ``traffic`` would.

    Parameters
    ----------
    three, two
        The ledgers of the same run for three epochs and for two.
    epochs
        How many there are to be, three or more.
    rounds
        Rounds of an epoch.
    """
    totals = _totals(three)
    longer, shorter = _by_sender(three), _by_sender(two)
    more = np.arange(1, epochs - 2, dtype=np.int64)  # how many epochs later than the third
    if not len(more):
        return _frame(totals)
    for sender, entries in longer.items():
        before = shorter[sender]
        # Where the runs part: the shorter one goes on to what comes at the end of every run.
        parting = next(
            (
                i
                for i, (one, other) in enumerate(zip(entries, before, strict=False))
                if _what(one) != _what(other)
            ),
            len(before),
        )
        length = len(entries) - len(before)
        for entry in entries[parting : parting + length]:
            total = totals[_key(entry)]
            envelopes = _envelopes(
                entry, entry.round + more * rounds, entry.sequence + more * length
            )
            total += [len(more), len(more) * entry.body_bytes, 0]
            total[2] += len(more) * entry.body_bytes + int(envelopes.sum())
        for entry in entries[parting + length :]:
            last = more[-1:]
            envelope = _envelopes(
                entry, entry.round + last * rounds, entry.sequence + last * length
            )
            totals[_key(entry)][2] += int(envelope[0]) - (entry.framed_bytes - entry.body_bytes)
    return _frame(totals)


def _envelopes(
    entry: Entry, rounds: NDArray[np.int64], sequences: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the envelope's bytes of messages like ``entry`` with other numbers."""
    fixed = entry.framed_bytes - entry.body_bytes
    own = np.array([entry.round]), np.array([entry.sequence])
    fixed -= int(_integer_bytes(own[0])[0] + _integer_bytes(own[1])[0])
    return fixed + _integer_bytes(rounds) + _integer_bytes(sequences)


def _integer_bytes(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many bytes msgpack writes for each of some unsigned integers.

    >>> _integer_bytes(np.array([0, 127, 128, 255, 256, 65535, 65536, 2**32]))
    array([1, 1, 2, 2, 3, 3, 5, 9])
    """
    steps = np.array([2**7, 2**8, 2**16, 2**32])
    sizes: NDArray[np.int64] = np.array([1, 2, 3, 5, 9])[np.searchsorted(steps, numbers, "right")]
    return sizes


def _key(entry: Entry) -> tuple[str, str, str, str]:
    return entry.sender, entry.receiver, entry.kind, entry.purpose.label


def _what(entry: Entry) -> tuple[object, ...]:
    return *_key(entry), entry.round, entry.body_bytes


def _by_sender(ledger: Ledger) -> dict[str, list[Entry]]:
    entries = defaultdict(list)
    for entry in ledger:
        entries[entry.sender].append(entry)
    return entries


def _totals(entries: Iterable[Entry]) -> Totals:
    totals: Totals = defaultdict(lambda: np.zeros(3, dtype=np.int64))
    for entry in entries:
        totals[_key(entry)] += [1, entry.body_bytes, entry.framed_bytes]
    return totals


def _frame(totals: Totals) -> pl.DataFrame:
    rows = [(*key, *map(int, total)) for key, total in totals.items()]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")
