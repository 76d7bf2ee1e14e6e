r"""Private set intersection of two and more: who is in all tables, and nobody shows an id.

Theory of operation. Every organisation draws a key for this alignment alone, and hides ids by it
(``secure/blinding.py``): points that are blinded by the same keys are equal where the ids are, and
say nothing under a key that is not known.

1. Everybody tells everybody how many ids it has.
2. Everybody brings its ids into an order that it alone knows, blinds them, and they go from one to
   the next until all have blinded them. Those of a party go round the other parties and back to
   itself, veiled besides, and unveiled to the label holder. Those of the label holder go along all
   parties; the last of these, the *shuffler*, brings them into an order that it alone knows before
   the label holder has them back.
3. The label holder, and nobody else, now has every table under all keys. It finds which points are
   in all of them, and tells every party which of its ids these are, by a bit each, in the order in
   which the party sent them. Its own it asks the shuffler for, who puts the bits into their order.
4. Everybody sorts the ids in common by what they are: the same order everywhere.

No party can compare anything: another's ids come to it under a veil, or the label holder's key,
under which there is no other table, however many parties put together what they have. Only the
label holder compares, and none of its own ids: the shuffler stands between. So it learns how many
ids any of the organisations have in common, and which of its own are in all; a party learns the
latter alone. This is the protocol of Vaidya and Clifton ("Secure set intersection cardinality",
2005) with one who compares, veils, and bits that go back. It holds against organisations that
follow it; ``docs/align.md`` says what the label holder with others, or a liar, would learn besides.

Ids travel a *piece* at a time, and nobody is more than two pieces ahead of the label holder, which
sends one of its own only when it has had one of everybody's. So few wait anywhere; what grows with
the tables is ``VALUE_BYTES`` an id of everybody at the label holder, and ``POINT_BYTES`` an id of
the label holder at the shuffler.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.effects import Boundary, Expect, Recall, Receive, Report, Send, Work
from colonnade.errors import ConfigurationError, DataError, RemoteProtocolError
from colonnade.flows import Limits
from colonnade.layout import check_names
from colonnade.roles.align_bodies import (
    COUNT_BYTES,
    MOST_IDS,
    read_count,
    read_marks,
    read_points,
    told_count,
    told_marks,
)
from colonnade.secure import (
    POINT_BYTES,
    VALUE_BYTES,
    Blinding,
    CurveBlinding,
    Secrets,
    Source,
    in_all,
    shuffle,
)
from colonnade.wire import Purpose, reading

__all__ = ["AlignLabelHolder", "AlignParty", "Ids", "Meeting"]

_PROTOCOL = "colonnade align 1"
_SETUP = Purpose.SETUP


class Ids(Protocol):
    """The ids of an organisation, each once, at places 0, 1, ..."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    @property
    def kind(self) -> str:
        """What they are: ``whole numbers`` or ``text``."""
        ...

    def texts(self, places: NDArray[np.int64]) -> Sequence[str]:
        """Return those at some places as texts, which are equal where the ids are."""
        ...

    def in_order(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return places in the order of their ids, which depends on nothing else."""
        ...


@dataclass(frozen=True)
class Meeting:
    """What organisations that align have agreed on.

    Parameters
    ----------
    parties
        Their names; the last one is the shuffler.
    label_holder
        Who compares.
    form
        The form of ids, in whatever words; it must be the same everywhere.
    piece
        How many ids travel in one message, at most.

    Raises
    ------
    ConfigurationError
        If there is no party, names are none that organisations can have, or a piece has no id.

    Examples
    --------
    >>> Meeting(("bank", "shop"), "insurer").everybody
    ('bank', 'shop', 'insurer')
    """

    parties: tuple[str, ...]
    label_holder: str
    form: str = ""
    piece: int = 8192

    def __post_init__(self) -> None:
        if not self.parties:
            raise ConfigurationError("an alignment needs a party besides the label holder")
        check_names(self.everybody)
        if self.piece < 1:
            raise ConfigurationError(f"a piece has an id at least, not {self.piece}")

    @property
    def everybody(self) -> tuple[str, ...]:
        """All names, the label holder's last."""
        return (*self.parties, self.label_holder)

    @property
    def shuffler(self) -> str:
        """Who stands between the label holder and its ids."""
        return self.parties[-1]

    @property
    def digest(self) -> str:
        """What tells this from any other agreement."""
        told = (_PROTOCOL, *self.everybody, self.form, str(self.piece))
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def limits(self) -> Limits:
        """Return what a role accepts of the others."""
        ends = {("sizes", one, other) for one in self.everybody for other in self.everybody}
        for place, party in enumerate(self.parties):
            ends |= {("blinded", self.parties[place - 1], party)}
            ends |= {("blinded", party, self.label_holder), ("common", self.label_holder, party)}
        ends |= {
            ("blinded", self.label_holder, self.parties[0]),
            ("next", self.label_holder, self.shuffler),
            ("shuffled", self.shuffler, self.label_holder),
            ("common_shuffled", self.label_holder, self.shuffler),
            ("common", self.shuffler, self.label_holder),
        }
        return Limits(
            body=max(COUNT_BYTES, self.piece * POINT_BYTES),
            messages=max(2**16, MOST_IDS // self.piece + 8),
            bytes=2**28 + 8 * len(self.everybody) * self.piece * POINT_BYTES,
            flows=frozenset(
                (one, other, kind, _SETUP) for kind, one, other in ends if one != other
            ),
        )


class _Aligning(ABC):
    """What both roles do: tell counts, blind, and keep what comes of it."""

    def __init__(
        self,
        meeting: Meeting,
        name: str,
        ids: Ids,
        secrets: Secrets,
        blinding: Callable[[Source], Blinding] = CurveBlinding,
    ) -> None:
        if len(ids) > MOST_IDS:
            raise DataError(f"{name!r} has {len(ids):,} ids, more than {MOST_IDS:,}")
        self.name = name
        self.agreed = meeting.digest
        self.round = 0
        self.ids = ids
        self.counts: dict[str, int] = {}
        self.absent: dict[str, int] = {}
        self.places: Tensor | None = None
        self._meeting = meeting
        self._secrets = secrets
        self._new_blinding = blinding
        self._done = 0

    @property
    def peers(self) -> Sequence[str]:
        """Everybody else."""
        return tuple(name for name in self._meeting.everybody if name != self.name)

    def state_dict(self) -> dict[str, Any]:
        """Return what came of it: an alignment that was stopped begins anew, with other keys."""
        return {
            "round": self.round,
            "counts": dict(self.counts),
            "absent": dict(self.absent),
            "places": self.places,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.round = state["round"]
        self.counts = dict(state["counts"])
        self.absent = dict(state["absent"])
        self.places = state["places"]

    async def run(self) -> None:
        """Align: afterwards ``places`` holds the places of the ids in common, in their order."""
        await Boundary(self.round)
        if self.round:
            return
        notes = await Recall()
        source = self._secrets.begin(self.name, notes.incarnation)
        self._blinding = self._new_blinding(source)
        await self._meet()
        self._sent = shuffle(len(self.ids), source.keystream("order in which ids are sent"))
        shared = await self._align(source)
        found = self.ids.in_order(np.sort(self._sent[shared]))
        self.places = torch.from_numpy(np.ascontiguousarray(found))
        await Report({"in_common": len(found), "left_out": len(self.ids) - len(found)})
        self.round = 1

    @abstractmethod
    async def _align(self, source: Source) -> NDArray[np.bool_]:
        """Return which ids are in common, in the order in which they were sent."""

    async def _meet(self) -> None:
        """Hear how many ids each has, and of which kind."""
        body = told_count(self.ids.kind, len(self.ids))
        for peer in self.peers:
            await Send(peer, "sizes", 0, body, _SETUP)
        got = await Receive(Expect("sizes", 0, tuple(self.peers), _SETUP))
        counts = {self.name: len(self.ids)}
        for message in got:
            kind, counts[message.sender] = read_count(message.body, message.sender)
            if kind != self.ids.kind:
                raise DataError(
                    f"the ids of {self.name!r} are {self.ids.kind} and those of "
                    f"{message.sender!r} {kind}; give both the same type, or say "
                    "normalise=IdForm(pad=7) (YAML: ids: {pad: 7}), by which numbers are text of "
                    "so many digits, with zeros in front; or ids: {}, as they are"
                )
        self.counts = {name: counts[name] for name in self._meeting.everybody}

    @property
    def _to_do(self) -> int:
        """How many ids are to be blinded, or unveiled, here."""
        return sum(self.counts.values())

    @property
    def _pieces(self) -> range:
        """The numbers of all pieces, as many as whoever has most ids needs."""
        return range(self._pieces_of(max(self.counts.values())))

    def _pieces_of(self, count: int) -> int:
        return -(-count // self._meeting.piece)

    def _piece(self, whose: str, number: int) -> slice:
        """Return which ids of an organisation a piece holds; beyond the last one none."""
        first, count = number * self._meeting.piece, self.counts[whose]
        return slice(min(first, count), min(first + self._meeting.piece, count))

    def _part(self, whose: str, number: int) -> int:
        """Return how the message is numbered that holds a piece of somebody's ids."""
        everybody = self._meeting.everybody
        return number * len(everybody) + everybody.index(whose)

    async def _tell(self, receiver: str, kind: str, whose: str, number: int, body: bytes) -> None:
        """Send what is told of a piece of somebody's ids."""
        await Send(receiver, kind, 0, body, _SETUP, self._part(whose, number))

    async def _hear(self, sender: str, kind: str, whose: str, number: int) -> bytes:
        """Return what is told of a piece of somebody's ids."""
        part = self._part(whose, number)
        return (await Receive(Expect(kind, 0, (sender,), _SETUP, part=part))).only.body

    async def _own(
        self, blind: Callable[[Sequence[str]], bytes], number: int, receiver: str
    ) -> None:
        """Blind a piece of one's own ids, and send it on its way."""
        places = self._sent[self._piece(self.name, number)]
        body = await self._work(lambda: blind(self.ids.texts(places)), len(places))
        await self._tell(receiver, "blinded", self.name, number, body)

    async def _multiplied(
        self, by: Callable[[bytes], bytes], whose: str, number: int, sender: str
    ) -> bytes:
        """Receive a piece of somebody's blinded ids, and return what becomes of it."""
        body = await self._hear(sender, "blinded", whose, number)
        piece = self._piece(whose, number)
        points = read_points(body, piece.stop - piece.start, sender, whose)

        def function() -> bytes:
            with reading(sender, 0):
                return by(points)

        return await self._work(function, piece.stop - piece.start)

    async def _work(self, function: Callable[[], bytes], count: int) -> bytes:
        if not count:
            return b""
        body = await Work("encode", function, 0, _SETUP, rows=count)
        self._done += count
        await Report({"ids": self._done, "of": self._to_do})
        return body

    async def _tell_marks(
        self, receiver: str, kind: str, whose: str, marks: NDArray[np.bool_]
    ) -> None:
        """Tell which ids of an organisation are in common, a piece at a time."""
        for number in range(self._pieces_of(self.counts[whose])):
            body = told_marks(marks[self._piece(whose, number)])
            await self._tell(receiver, kind, whose, number, body)

    async def _hear_marks(self, sender: str, kind: str, whose: str) -> NDArray[np.bool_]:
        """Return which ids of an organisation are in common."""
        heard = []
        for number in range(self._pieces_of(self.counts[whose])):
            body = await self._hear(sender, kind, whose, number)
            piece = self._piece(whose, number)
            heard.append(read_marks(body, piece.stop - piece.start, sender))
        return np.concatenate(heard)


class AlignParty(_Aligning):
    """A party when tables are aligned, and nobody shows an id.

    Parameters
    ----------
    meeting
        What all have agreed on.
    name
        Which party this is.
    ids
        Its ids.
    secrets
        What its key and its order are drawn from.
    blinding
        Makes what ids are hidden with.

    Raises
    ------
    ConfigurationError
        If it is no party of the meeting.
    DataError
        If there are more than ``MOST_IDS`` ids; when it runs, if others have ids of another kind.
    """

    def __init__(
        self,
        meeting: Meeting,
        name: str,
        ids: Ids,
        secrets: Secrets,
        blinding: Callable[[Source], Blinding] = CurveBlinding,
    ) -> None:
        if name not in meeting.parties:
            raise ConfigurationError(f"{name!r} is no party; there are {meeting.parties}")
        super().__init__(meeting, name, ids, secrets, blinding)
        self._index = meeting.parties.index(name)

    async def _align(self, source: Source) -> NDArray[np.bool_]:
        holder, held = self._meeting.label_holder, bytearray()
        for number in self._pieces:
            if self._alone:
                await self._own(self._blinding.blind, number, holder)
            else:
                await self._go_round(number)
            held += await self._of_the_holder(number)
        if self.name == self._meeting.shuffler:
            await self._shuffle(held, source)
        return await self._hear_marks(holder, "common", self.name)

    @property
    def _to_do(self) -> int:
        return super()._to_do + (0 if self._alone else len(self.ids))

    @property
    def _alone(self) -> bool:
        """Whether there is no other party, so that ids pass through no hands on their way."""
        return len(self._meeting.parties) == 1

    async def _go_round(self, number: int) -> None:
        """Blind a piece of each party's ids, and send one's own to the label holder."""
        parties, again = self._meeting.parties, self._blinding.again
        before, onward = parties[self._index - 1], parties[(self._index + 1) % len(parties)]
        await self._own(self._blinding.veiled, number, onward)
        for hop in range(1, len(parties)):
            whose = parties[self._index - hop]
            points = await self._multiplied(again, whose, number, before)
            await self._tell(onward, "blinded", whose, number, points)
        points = await self._multiplied(self._blinding.unveiled, self.name, number, before)
        await self._tell(self._meeting.label_holder, "blinded", self.name, number, points)

    async def _of_the_holder(self, number: int) -> bytes:
        """Blind a piece of the label holder's ids, and pass it on; the last party keeps it."""
        holder, parties = self._meeting.label_holder, self._meeting.parties
        sender = parties[self._index - 1] if self._index else holder
        points = await self._multiplied(self._blinding.again, holder, number, sender)
        if self.name == self._meeting.shuffler:
            return points
        onward = parties[self._index + 1]
        await self._tell(onward, "blinded", holder, number, points)
        return b""

    async def _shuffle(self, held: bytearray, source: Source) -> None:
        """Give the label holder its ids in another order, and put its bits into its own."""
        holder = self._meeting.label_holder
        points = np.frombuffer(held, np.uint8).reshape(-1, POINT_BYTES)
        order = shuffle(len(points), source.keystream("order of the label holder's ids"))
        for number in range(self._pieces_of(len(points))):
            read_points(await self._hear(holder, "next", holder, number), 0, holder)
            body = points[order[self._piece(holder, number)]].tobytes()
            await self._tell(holder, "shuffled", holder, number, body)
        marks = np.empty(len(points), dtype=bool)
        marks[order] = await self._hear_marks(holder, "common_shuffled", holder)
        await self._tell_marks(holder, "common", holder, marks)


class AlignLabelHolder(_Aligning):
    """The label holder when tables are aligned: it compares, and no id in the clear.

    Afterwards ``absent`` says, for each party, how many ids of the label holder it lacks.

    Parameters
    ----------
    meeting
        What all have agreed on.
    ids
        Its ids.
    secrets
        What its key and its order are drawn from.
    blinding
        Makes what ids are hidden with.

    Raises
    ------
    DataError
        As by ``AlignParty``.
    """

    def __init__(
        self,
        meeting: Meeting,
        ids: Ids,
        secrets: Secrets,
        blinding: Callable[[Source], Blinding] = CurveBlinding,
    ) -> None:
        super().__init__(meeting, meeting.label_holder, ids, secrets, blinding)

    async def _align(self, source: Source) -> NDArray[np.bool_]:
        parties, shuffler = self._meeting.parties, self._meeting.shuffler
        held = [bytearray() for _ in self.counts]  # they grow by what comes, not by what is claimed
        for number in self._pieces:
            await self._own(self._blinding.blind, number, parties[0])
            for place, party in enumerate(parties):
                points = await self._multiplied(self._blinding.again, party, number, party)
                held[place] += _values(points)
        for number in range(self._pieces_of(len(self.ids))):
            piece = self._piece(self.name, number)
            await self._tell(shuffler, "next", self.name, number, b"")
            body = await self._hear(shuffler, "shuffled", self.name, number)
            held[-1] += _values(read_points(body, piece.stop - piece.start, shuffler))
        tables = [np.frombuffer(one, np.uint8).reshape(-1, VALUE_BYTES) for one in held]
        found = await Work("decode", partial(in_all, tables), 0, _SETUP, rows=len(self.ids))
        if found.twice is not None:
            whose = self._meeting.everybody[found.twice]
            hands = ", ".join(repr(name) for name in parties if name != whose)
            raise RemoteProtocolError(
                f"an id of {whose!r} came twice, blinded by all: it was sent twice, or doubled by "
                f"one of those through whose hands it went ({hands or 'nobody'})"
            )
        self.absent = dict(zip(parties, found.absent[:-1], strict=True))
        for party, shared in zip(parties, found.shared[:-1], strict=True):
            await self._tell_marks(party, "common", party, shared)
        await self._tell_marks(shuffler, "common_shuffled", self.name, found.shared[-1])
        own = await self._hear_marks(shuffler, "common", self.name)
        if own.sum() != found.shared[-1].sum():
            raise RemoteProtocolError(
                f"{shuffler!r} told of {own.sum()} ids in common, and there are "
                f"{found.shared[-1].sum()}"
            )
        return own


def _values(points: bytes) -> bytes:
    """Return what is compared of points: the first bytes of a coordinate."""
    rows = np.frombuffer(points, np.uint8).reshape(-1, POINT_BYTES)
    return rows[:, 1 : 1 + VALUE_BYTES].tobytes()
