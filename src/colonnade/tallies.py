"""How much came from each sender, and a digest of it: by this two organisations compare notes.

Who has sent something and who was sent it both know its kind, purpose, round, number and size. A
tally is what each makes of that by itself, in the order of the numbers: equal if nobody lies.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, NamedTuple

import msgspec

from colonnade.ledger import Entry

__all__ = ["Tally", "tallies"]

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
_Digest = Annotated[str, msgspec.Meta(max_length=32)]


class Tally(NamedTuple):
    """How many messages of one sender, how many bytes of bodies, and a digest of all envelopes.

    >>> first = Tally().after("embedding", 1, 0, 7, 100, 121)
    >>> first[:2], first == Tally().after("embedding", 1, 1, 7, 100, 121)
    ((1, 100), False)
    """

    messages: _Count = 0
    body_bytes: _Count = 0
    digest: _Digest = ""

    def after(
        self, kind: str, purpose: int, round: int, sequence: int, body_bytes: int, framed_bytes: int
    ) -> Tally:
        """Return the tally with one message more."""
        told = f"{self.digest} {kind} {int(purpose)} {round} {sequence} {body_bytes} {framed_bytes}"
        digest = blake2b(told.encode(), digest_size=16).hexdigest()
        return Tally(self.messages + 1, self.body_bytes + body_bytes, digest)


def tallies(entries: Iterable[Entry]) -> dict[tuple[str, str], Tally]:
    """Return, for each sender and receiver, the tally of entries in order that were not lost."""
    found: dict[tuple[str, str], Tally] = {}
    for entry in entries:
        if not entry.lost:
            pair = entry.sender, entry.receiver
            found[pair] = found.get(pair, Tally()).after(
                entry.kind,
                entry.purpose,
                entry.round,
                entry.sequence,
                entry.body_bytes,
                entry.framed_bytes,
            )
    return found
