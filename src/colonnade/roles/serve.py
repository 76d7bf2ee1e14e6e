"""Prediction on request: rows are predicted whenever somebody asks for them, for as long as wanted.

The trained parts meet once and stay. In each round the label holder tells the parties which of the
new rows are asked for, and they send the embeddings of these, as in ``predict.py``; a request for
no row ends it. A party learns so who is asked for, and when; the label holder learns what it learns
of a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from torch import Tensor

from colonnade.batches import pieces
from colonnade.effects import Boundary, Expect, Purpose, Receive, Send, Work
from colonnade.errors import Diverged, RemoteProtocolError
from colonnade.evaluation import HeldOut
from colonnade.flows import Flow, UpTo
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import Fusion, Learner, take
from colonnade.organisations import Party
from colonnade.roles.blame import attributed
from colonnade.roles.predict import TrainedLabelHolder, TrainedParty
from colonnade.uplinks import Moment, Uplink
from colonnade.wire import reading

__all__ = [
    "REQUEST",
    "Asked",
    "Desk",
    "ServeLabelHolder",
    "ServeParty",
    "decode_request",
    "encode_request",
    "request_flow",
]

REQUEST = "request"
_ROW = np.dtype("<i8")


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows that somebody asks for.

    Parameters
    ----------
    rows
        Which of the new rows, each once; none to end.
    answer
        Called with the top model's outputs for them.
    refuse
        Called with why there are none instead, where one is no finite number.
    """

    rows: Rows
    answer: Callable[[Tensor], None]
    refuse: Callable[[Diverged], None]


class Desk(Protocol):
    """Where requests come in."""

    def __call__(self) -> Asked | None:
        """Return what is asked for next; None where that was nothing in a while."""
        ...


def request_flow(layout: Layout, most: int) -> Flow:
    """Return the requests of a label holder for up to so many rows at once."""
    size = UpTo(most * _ROW.itemsize)
    holder, purpose = layout.label_holder, Purpose.PREDICTION
    return Flow(holder, layout.parties, REQUEST, purpose, size, most, 1, layout.rows)


def encode_request(rows: Rows) -> bytes:
    """Return a request's body: a number of eight bytes for each row, little endian.

    >>> decode_request(encode_request(np.array([2, 0])), 3, 2)
    array([2, 0])
    """
    return rows.astype(_ROW).tobytes()


def decode_request(body: bytes, rows: int, most: int) -> Rows:
    """Return which rows a request is for.

    Parameters
    ----------
    body
        Of the message.
    rows
        How many new rows there are.
    most
        How many may be asked for at once.

    Raises
    ------
    RemoteProtocolError
        If the body is none: not so many bytes, or not such rows, or one of them twice.
    """
    count, rest = divmod(len(body), _ROW.itemsize)
    if rest or count > most:
        raise RemoteProtocolError(f"a request of {len(body)} bytes, for up to {most} rows")
    asked = np.frombuffer(body, dtype=_ROW).astype(np.int64)
    if count and (asked.min() < 0 or asked.max() >= rows):
        raise RemoteProtocolError(f"a request for a row that is none of the {rows} there are")
    if len(np.unique(asked)) < count:
        raise RemoteProtocolError("a request for a row twice")
    return asked


class _Requests:
    """The timetable of rows that nobody knows before they are asked for."""

    def __init__(self, layout: Layout) -> None:
        self.all = np.arange(layout.rows, dtype=np.int64)
        self._asked = self.all[:0]

    @property
    def row_sets(self) -> Sequence[Rows]:
        """All rows, as one set."""
        return (self.all,)

    def rows_at(self, moment: Moment) -> Rows:
        """Return what was asked for last."""
        return self._asked

    def take(self, rows: Rows) -> HeldOut:
        """Return these rows, as they travel: in one piece."""
        self._asked = rows
        return HeldOut("asked for", (rows,))


class ServeParty(TrainedParty):
    """A party while predictions are served.

    Parameters
    ----------
    layout, own, uplink
        See ``TrainedParty``.
    most
        How many rows may be asked for at once.
    release
        Called before anything of a request's rows leaves; what it raises keeps that from leaving.
    """

    def __init__(
        self, layout: Layout, own: Party, uplink: Uplink, most: int, release: Callable[[], None]
    ) -> None:
        super().__init__(layout, own, uplink)
        self._layout, self._most, self._release = layout, most, release
        self._features = own.features
        self._requests = _Requests(layout)

    async def run(self) -> None:
        """Send the embeddings of whatever rows are asked for, until none are.

        Raises
        ------
        Diverged
            If the bottom model makes no finite number of one of all rows: that is tried first.
        """
        for rows in pieces(self._requests.all, self._most):
            embed = partial(self._embed, rows)
            await Work("forward", embed, self.round, Purpose.PREDICTION, rows=len(rows))
        await self._uplink.prepare(self._requests)
        await Boundary(self.round)
        while len(rows := await self._asked()):
            await Work("release", self._release, self.round, Purpose.PREDICTION)
            await self._send(self._requests.take(rows))
            self.round += 1
            await Boundary(self.round)

    def _embed(self, rows: Rows) -> None:
        """Let the bottom model embed some rows, of which nothing is sent."""
        with attributed(lambda: f" (row 0 of these is row {rows[0]} of all)"):
            self._bottom(take(self._features, rows), training=False)

    async def _asked(self) -> Rows:
        """Return the rows that are asked for in this round."""
        holder = self._layout.label_holder
        arrivals = await Receive(Expect(REQUEST, self.round, (holder,), Purpose.PREDICTION))
        with reading(holder, self.round):
            return decode_request(arrivals.only.body, self._layout.rows, self._most)


class ServeLabelHolder(TrainedLabelHolder):
    """The label holder while predictions are served.

    Parameters
    ----------
    layout, top, own, uplink, fusion
        See ``TrainedLabelHolder``.
    desk
        Where requests come in.
    release
        As of ``ServeParty``.
    """

    def __init__(
        self,
        layout: Layout,
        top: Learner,
        own: Party | None,
        uplink: Uplink,
        fusion: Fusion,
        desk: Desk,
        release: Callable[[], None],
    ) -> None:
        super().__init__(layout, top, own, uplink, fusion)
        self._desk, self._release = desk, release
        self._requests = _Requests(layout)

    async def run(self) -> None:
        """Pass on what is asked for, and answer it, until nothing is asked for any more."""
        await self._uplink.prepare(self._requests)
        await Boundary(self.round)
        while len((asked := await self._asked()).rows):
            await Work("release", self._release, self.round, Purpose.PREDICTION)
            await self._request(asked.rows)
            await self._answer(asked)
            self.round += 1
            await Boundary(self.round)
        await self._request(asked.rows)

    async def _asked(self) -> Asked:
        """Wait until something is asked for."""
        asked = None
        while asked is None:
            asked = await Work("listen", self._desk, self.round, Purpose.PREDICTION)
        return asked

    async def _answer(self, asked: Asked) -> None:
        """Receive the embeddings of what is asked for, and say what the top model makes of them."""
        ((rows, moment),) = self._requests.take(asked.rows).moments(self.round, Purpose.PREDICTION)
        found = await self._asked_top(rows, moment)
        why = self._why_none(found, rows)
        answer = partial(asked.refuse, why) if why else partial(asked.answer, found.outputs)
        await Work("answer", answer, self.round, Purpose.PREDICTION)

    async def _request(self, rows: Rows) -> None:
        """Tell every party which rows are asked for."""
        body = encode_request(rows)
        for party in self._parties:
            await Send(party, REQUEST, self.round, body, Purpose.PREDICTION)
