r"""How a party learns of the others' embeddings in the relay exchange, in two ways.

*Codes*: the label holder forwards what every other party sent, byte for byte, and sends its own
embedding through a link where it has one. That takes M - 1 messages' bytes to each party.

*Total* (EF-VFL's appendix D, scheme 3, for fusion by sum or mean): the label holder sends
S = sum_j G_j, as received, in float32, and a party replaces its own part: S - G_m + z_m. That takes
one embedding's bytes to each party, however many there are; among three or more it does not tell
who contributed what.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from colonnade.codecs import Float
from colonnade.effects import Expect, Purpose, Receive, Send, Work
from colonnade.errors import RemoteProtocolError
from colonnade.links import LinkReceiver, LinkSender, Rows
from colonnade.models import Additive, Fusion
from colonnade.streams import StreamKey
from colonnade.uplinks import Itemised, Moment, Uploader
from colonnade.wire import reading

__all__ = [
    "BUNDLE_OVERHEAD",
    "CODES",
    "EMBEDDING",
    "TOTAL",
    "CodesReceiver",
    "CodesSender",
    "EmbeddingsReceiver",
    "EmbeddingsSender",
    "TotalReceiver",
    "TotalSender",
    "bundled",
    "unbundled",
]

EMBEDDING, CODES, TOTAL = "embedding", "codes", "total"
_LENGTH = struct.Struct("<I")
BUNDLE_OVERHEAD = _LENGTH.size  # bytes before each body of a bundle

FuseOwn = Callable[[Tensor], Tensor]
"""From a party's own fresh embedding to the top model's input."""


class EmbeddingsSender(Protocol):
    """The label holder's half."""

    async def send(
        self, collected: Itemised, own: Tensor | None, rows: Rows, moment: Moment
    ) -> None:
        """Tell every party of the others' embeddings, and of an own one."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what this half remembers between messages."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...


class EmbeddingsReceiver(Protocol):
    """A party's half."""

    async def receive(self, uploader: Uploader, rows: Rows, moment: Moment) -> FuseOwn:
        """Hear of the others' embeddings; return how they and the own one are fused."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what this half remembers between messages."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...


def bundled(bodies: Sequence[bytes]) -> bytes:
    """Return bodies one after another, each behind its length in 4 bytes.

    >>> bundled([b"ab", b"c"]).hex()
    '0200000061620100000063'
    """
    return b"".join(_LENGTH.pack(len(body)) + body for body in bodies)


def unbundled(bundle: bytes, count: int) -> list[bytes]:
    """Return the ``count`` bodies of a bundle.

    Raises
    ------
    RemoteProtocolError
        If it does not hold just so many.
    """
    bodies, start = [], 0
    for _ in range(count):
        if start + _LENGTH.size > len(bundle):
            raise RemoteProtocolError(f"{len(bundle)} bytes are no bundle of {count} bodies")
        (length,) = _LENGTH.unpack_from(bundle, start)
        start += _LENGTH.size + length
        if start > len(bundle):
            raise RemoteProtocolError(f"{len(bundle)} bytes are no bundle of {count} bodies")
        bodies.append(bundle[start - length : start])
    if start != len(bundle):
        raise RemoteProtocolError(f"a bundle goes on behind its {count} bodies")
    return bodies


class CodesSender:
    """Forwards codes.

    Parameters
    ----------
    name
        The label holder's.
    link
        How its own embedding travels to all parties; None where it has no columns.
    seed
        The run's seed.
    """

    def __init__(self, name: str, link: LinkSender | None, seed: int) -> None:
        self._name = name
        self._link = link
        self._seed = seed

    async def send(
        self, collected: Itemised, own: Tensor | None, rows: Rows, moment: Moment
    ) -> None:
        """Forward to each party what the others sent."""
        bodies = collected.bodies
        for party in bodies:
            bundle = bundled([body for name, body in bodies.items() if name != party])
            await Send(party, CODES, moment.round, bundle, Purpose.RELAY)
        if self._link is not None and own is not None:
            body = await Work(
                "encode", lambda: self._encode(own, rows, moment), moment.round, rows=len(rows)
            )
            for party in bodies:
                await Send(party, EMBEDDING, moment.round, body)

    def _encode(self, own: Tensor, rows: Rows, moment: Moment) -> bytes:
        assert self._link is not None
        return self._link.send(own.detach(), rows, moment.key(self._seed, self._name, EMBEDDING))

    def state_dict(self) -> dict[str, Any]:
        """Return the own link's state."""
        return {} if self._link is None else self._link.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the own link's state."""
        if self._link is not None:
            self._link.load_state_dict(state)


class CodesReceiver:
    """Decodes what was forwarded.

    Parameters
    ----------
    label_holder
        Its name.
    links
        The receiving end of every other organisation's link, in party order, the label holder's
        last where it has columns.
    place
        How many of them come before its own embedding in party order.
    fusion
        How embeddings are combined.
    seed
        The run's seed.
    """

    def __init__(
        self,
        label_holder: str,
        links: Mapping[str, LinkReceiver],
        place: int,
        fusion: Fusion,
        seed: int,
    ) -> None:
        self._label_holder = label_holder
        self._links = links
        self._place = place
        self._fusion = fusion
        self._seed = seed

    async def receive(self, uploader: Uploader, rows: Rows, moment: Moment) -> FuseOwn:
        """Receive and decode the others' embeddings."""
        source, round = (self._label_holder,), moment.round
        forwarded = [name for name in self._links if name != self._label_holder]
        bundle = (await Receive(Expect(CODES, round, source, Purpose.RELAY))).only.body
        with reading(self._label_holder, round):
            bodies = dict(zip(forwarded, unbundled(bundle, len(forwarded)), strict=True))
        if self._label_holder in self._links:
            bodies[self._label_holder] = (await Receive(Expect(EMBEDDING, round, source))).only.body
        others = await Work(
            "decode", lambda: self._decode(bodies, rows, moment), round, rows=len(rows)
        )
        before, after = others[: self._place], others[self._place :]
        return lambda own: self._fusion([*before, own, *after])

    def _decode(self, bodies: Mapping[str, bytes], rows: Rows, moment: Moment) -> list[Tensor]:
        return [self._read(name, body, rows, moment) for name, body in bodies.items()]

    def _read(self, name: str, body: bytes, rows: Rows, moment: Moment) -> Tensor:
        by = None if name == self._label_holder else self._label_holder
        with reading(name, moment.round, passed_on_by=by):
            return self._links[name].receive(body, rows, moment.key(self._seed, name, EMBEDDING))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each link."""
        return {name: link.state_dict() for name, link in self._links.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of each link."""
        for name, link in self._links.items():
            link.load_state_dict(state[name])


class TotalSender(CodesSender):
    """Sends the sum of all embeddings as received; parameters as of ``CodesSender``."""

    async def send(
        self, collected: Itemised, own: Tensor | None, rows: Rows, moment: Moment
    ) -> None:
        """Send the sum to every party."""
        body = await Work(
            "encode",
            lambda: self._total(collected, own, rows, moment),
            moment.round,
            rows=len(rows),
        )
        for party in collected.bodies:
            await Send(party, TOTAL, moment.round, body)

    def _total(self, collected: Itemised, own: Tensor | None, rows: Rows, moment: Moment) -> bytes:
        total = collected.total()
        if self._link is not None and own is not None:
            # As through the link: what parties fuse must not depend on how they hear of it.
            body = self._encode(own, rows, moment)
            key = moment.key(self._seed, self._name, EMBEDDING)
            total = total + self._link.delivered(body, rows, key)
        return Float().encode(total, _key(self._seed, self._name, moment))


class TotalReceiver:
    """Replaces its own part in the sum.

    Parameters
    ----------
    label_holder
        Its name.
    width
        How wide embeddings are.
    embeddings
        How many are in the sum.
    fusion
        A sum or a mean.
    seed
        The run's seed.
    """

    def __init__(
        self, label_holder: str, width: int, embeddings: int, fusion: Additive, seed: int
    ) -> None:
        self._label_holder = label_holder
        self._width = width
        self._embeddings = embeddings
        self._fusion = fusion
        self._seed = seed

    async def receive(self, uploader: Uploader, rows: Rows, moment: Moment) -> FuseOwn:
        """Receive the sum, and take the own part out of it."""
        expect = Expect(TOTAL, moment.round, (self._label_holder,))
        body = (await Receive(expect)).only.body

        def decode() -> Tensor:
            key = _key(self._seed, self._label_holder, moment)
            with reading(self._label_holder, moment.round):
                total = Float().decode(body, (len(rows), self._width), key)
            return total - uploader.delivered()

        rest = await Work("decode", decode, moment.round, rows=len(rows))
        return lambda own: self._fusion.of_total(rest + own, self._embeddings)

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: a sum is all there is."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore nothing."""


def _key(seed: int, label_holder: str, moment: Moment) -> StreamKey:
    return moment.key(seed, label_holder, TOTAL)
