"""The traffic of many epochs, from that of three and of two.

An epoch sends what the one before it sent: the same messages with bodies as long. Only the numbers
in the envelopes, of round and message, grow, and with them now and then an envelope by a byte or
two. So the third epoch is repeated message by message, each with its numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import polars as pl

from colonnade.errors import ConfigurationError
from colonnade.ledger import Entry, Ledger

__all__ = ["stretched", "traffic"]

_SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("sender", "receiver", "kind", "purpose"), pl.String),
    **dict.fromkeys(("messages", "body_bytes", "framed_bytes"), pl.Int64),
}

Totals = dict[tuple[str, str, str, str], list[int]]
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
    more = epochs - 3  # epochs after the third
    if not more:
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
            total[0] += more
            total[1] += more * entry.body_bytes
            total[2] += more * entry.framed_bytes
            # Which is with the numbers of the third epoch: they grow.
            total[2] += _grown(entry.round, rounds, more) + _grown(entry.sequence, length, more)
        for entry in entries[parting + length :]:
            total = totals[_key(entry)]
            for number, step in ((entry.round, rounds), (entry.sequence, length)):
                total[2] += _bytes_of(number + more * step) - _bytes_of(number)
    return _frame(totals)


_LONGER = {2**7: 1, 2**8: 1, 2**16: 2, 2**32: 4}
"""From which number on msgpack writes an unsigned integer by how many bytes more."""


def _bytes_of(number: int) -> int:
    """Return how many bytes msgpack writes for an unsigned integer.

    >>> [_bytes_of(n) for n in (0, 127, 128, 255, 256, 65535, 65536, 2**32)]
    [1, 1, 2, 2, 3, 3, 5, 9]
    """
    return 1 + sum(more for least, more in _LONGER.items() if number >= least)


def _grown(start: int, step: int, count: int) -> int:
    """Return by how many bytes start + step, ..., start + count step are longer than start is.

    >>> _grown(100, 50, 4)  # 150, 200, 250, 300
    5
    """
    grown = 0
    for least, more in _LONGER.items():
        if start < least and step:
            first = -(-(least - start) // step)  # the first multiple that is as long
            grown += more * max(0, count - first + 1)
    return grown


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
    totals: Totals = defaultdict(lambda: [0, 0, 0])
    for entry in entries:
        total = totals[_key(entry)]
        for place, more in enumerate((1, entry.body_bytes, entry.framed_bytes)):
            total[place] += more
    return totals


def _frame(totals: Totals) -> pl.DataFrame:
    most = max((number for total in totals.values() for number in total), default=0)
    if most >= 2**63:
        raise ConfigurationError(f"so long a run sends {most:.3g} bytes; plan one of fewer epochs")
    rows = [(*key, *total) for key, total in totals.items()]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")
