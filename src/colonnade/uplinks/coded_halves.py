"""The two halves of the coded uplink: what is sent when, from bottoms to the sum of embeddings.

At a start keys are passed on (``key``, ``keys``), and every party sends every other its share of
its data (``data_share``). A batch is three trips: shares of weights between all parties
(``weights_share``), each one's answer to the label holder (``coded_answer``), and, to whoever had
not answered when there were enough, that there are (``enough``): who is still at work then leaves
it, so a slow computer holds nobody up but where its weights are awaited. Pieces of rows that are
evaluated together travel under one sharing of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.drawing import drawing
from colonnade.effects import Arrivals, Attempt, Expect, Purpose, Recall, Receive, Send, Work
from colonnade.errors import ConfigurationError
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import (
    Additive,
    Learner,
    LinearInPowers,
    computes_otherwise,
    is_linear_in_powers,
    take,
)
from colonnade.organisations import Party
from colonnade.secure import CodedHolder, CodedParty, CodedSums, Instant
from colonnade.stragglers import LATE, Missing
from colonnade.uplinks.coded_rows import CodedRows, Places
from colonnade.uplinks.contract import Embedder, Moment, Timetable
from colonnade.uplinks.summed import Summed
from colonnade.wire import reading

__all__ = [
    "ANSWER",
    "DATA",
    "ENOUGH",
    "KEY",
    "KEYS",
    "WEIGHTS",
    "CodedCollector",
    "CodedUploader",
    "check_linear",
    "linear_bottom",
]

KEY, KEYS, DATA = "key", "keys", "data_share"
WEIGHTS, ANSWER, ENOUGH = "weights_share", "coded_answer", "enough"
START = 0  # of what is sent at a start, all of which is awaited
_PIECE = 128  # coded rows that are computed at a time: between two a party looks if there is enough
_TRIED = 8  # rows on which it is seen whether a bottom is linear in its weights
_ROWS = 8192  # whose powers are rounded at a time


def linear_bottom(name: str, bottom: object) -> LinearInPowers:
    """Return a bottom that can be evaluated on shares.

    Raises
    ------
    ConfigurationError
        If it is none.
    """
    if not is_linear_in_powers(bottom):
        raise ConfigurationError(
            f"the bottom model of {name!r} is computed on shares, which only what is linear in "
            f"powers of the features can be: take Polynomial(inputs, width, degree), not "
            f"{type(bottom).__name__}, in a configuration `model: polynomial`"
        )
    return bottom


def check_linear(party: Party) -> None:
    """Raise ``ConfigurationError`` unless shares of a bottom's weights come to what it computes."""
    bottom = linear_bottom(party.name, party.bottom)
    if not isinstance(party.features, Tensor):
        raise ConfigurationError(
            f"the bottom model of {party.name!r} is computed on shares, so its features are one "
            "tensor, not several by name"
        )
    with drawing():
        rows = torch.linspace(0, len(party.features) - 1, _TRIED).long()  # from all of them
        otherwise = computes_otherwise(bottom, party.features[rows].detach())
    if otherwise:
        raise ConfigurationError(
            f"the bottom model {type(bottom).__name__} of {party.name!r} is computed on shares of "
            f"its weights, and {otherwise}: take Polynomial(inputs, width, degree)"
        )


@dataclass(frozen=True)
class _Sharing:
    """For which rows, when, weights were shared: pieces of one set at a time go together."""

    round: int
    purpose: Purpose
    row_set: int


class CodedUploader:
    """The party's half.

    Parameters
    ----------
    sums
        What all know.
    layout
        Who takes part.
    party
        Whose it is.
    """

    def __init__(self, sums: CodedSums, layout: Layout, party: Party) -> None:
        self._sums, self._layout, self._party = sums, layout, party
        self._holder = layout.label_holder
        self._others = tuple(other for other in layout.parties if other != party.name)
        self._secrets = layout.secrets_for(party.name, party.secrets)
        self._quantised = sums.quantised
        self._shared: _Sharing | None = None
        # Of the last training batch: its rows, the weights as they were shared, the embedding.
        self._sent: tuple[Rows, NDArray[np.int64], Tensor] | None = None

    async def prepare(self, timetable: Timetable) -> None:
        """Agree on keys, and exchange shares of the data."""
        if not timetable.row_sets:
            return
        notes = await Recall()
        self._source = self._secrets.begin(self._party.name, notes.incarnation)
        self._ends = CodedParty(self._sums, self._party.name, self._source)
        self._shared = None
        setup = Purpose.SETUP
        await Send(self._holder, KEY, START, self._ends.key(), setup)
        begin = Moment(START, setup)
        keys = await self._received((self._holder,), KEYS, begin)
        with reading(self._holder, START):
            self._ends.meet(keys.only.body)
        self._rows = CodedRows(timetable.row_sets, self._sums.code.segments)
        bodies = await Work("encode", self._share_data, START, setup, rows=self._rows.count)
        for other in self._others:
            await Send(other, DATA, START, bodies.pop(other), setup)
        for message in await self._received(self._others, DATA, begin):
            take_it = partial(self._ends.take_data, message.sender, message.body)
            await Work("decode", take_it, START, setup, rows=self._rows.count)

    def _share_data(self) -> dict[str, bytes]:
        segmented = [
            self._rows.segmented(self._quantised_data(rows), number)
            for number, rows in enumerate(self._rows.row_sets)
        ]
        return self._ends.share_data(np.concatenate(segmented, axis=1))

    def _quantised_data(self, rows: Rows) -> NDArray[np.int64]:
        """Return round(2^lx x^i) of rows, ``[rows, P]``."""
        bottom = linear_bottom(self._party.name, self._party.bottom)
        device = self._party.device
        blocks = []
        for start in range(0, len(rows), _ROWS):
            features = take(self._party.features, rows[start : start + _ROWS])
            powers = bottom.powers(features.to(device)).flatten(1)
            blocks.append(self._quantised.data(powers.cpu().double().numpy()))
        return np.concatenate(blocks)

    async def upload(
        self, bottom: Embedder, rows: Rows, moment: Moment, saliency: Tensor | None = None
    ) -> Tensor:
        """Evaluate, share the weights, and answer what all parties' shares come to."""
        if not isinstance(bottom, Learner):
            raise ConfigurationError(
                "a coded uplink sends weights, not embeddings, so nothing can be done to these "
                "before: let no other uplink lie around it"
            )
        training = moment.purpose is Purpose.TRAINING
        embedding = await Work(
            "forward",
            lambda: bottom(take(self._party.features, rows), training),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )
        places = self._rows.of(rows)
        await self._exchange_weights(bottom, rows, embedding, places, moment)
        await self._answer(places, moment)
        return embedding

    async def _exchange_weights(
        self, bottom: Learner, rows: Rows, embedding: Tensor, places: Places, moment: Moment
    ) -> None:
        sharing = _Sharing(moment.round, moment.purpose, places.row_set)
        if sharing == self._shared and moment.purpose is not Purpose.TRAINING:
            return
        self._shared = sharing
        instant = _instant(moment)
        bodies = await Work(
            "encode",
            lambda: self._share_weights(bottom, rows, embedding, instant),
            moment.round,
            moment.purpose,
        )
        for other, body in bodies.items():
            await Send(other, WEIGHTS, moment.round, body, moment.purpose, moment.part)
        arrivals = await self._received(self._others, WEIGHTS, moment)
        received = {message.sender: message.body for message in arrivals}
        await Work(
            "decode",
            lambda: self._ends.take_weights(received, instant),
            moment.round,
            moment.purpose,
        )

    def _share_weights(
        self, bottom: Learner, rows: Rows, embedding: Tensor, instant: Instant
    ) -> dict[str, bytes]:
        weight = linear_bottom(self._party.name, bottom.module).weight
        exact = weight.detach().cpu().flatten(0, 1).double().numpy()
        noise = self._source.noise(f"rounding/{instant.purpose}", instant.round, instant.part)
        whole = self._quantised.weights(exact, noise)
        if instant.purpose == Purpose.TRAINING.label:
            self._sent = rows, whole, embedding.detach()
        return self._ends.share_weights(whole, instant)

    async def _answer(self, places: Places, moment: Moment) -> None:
        enough = Expect(ENOUGH, moment.round, (self._holder,), moment.purpose, part=moment.part)
        pieces: list[bytes] = []
        for step, start in enumerate(range(0, len(places.coded), _PIECE)):
            coded = places.coded[start : start + _PIECE]
            work = Work(
                "coded",
                partial(self._ends.computed, coded),
                moment.round,
                moment.purpose,
                step,
                len(coded),
            )
            piece = await Attempt(work, enough)
            if piece is None:
                await Receive(enough)  # which made it superfluous
                return
            pieces.append(piece)
        body = self._ends.answer(pieces, _instant(moment))
        await Send(self._holder, ANSWER, moment.round, body, moment.purpose, moment.part)

    async def _received(self, senders: Sequence[str], kind: str, moment: Moment) -> Arrivals:
        return await Receive(
            Expect(kind, moment.round, tuple(senders), moment.purpose, part=moment.part)
        )

    def delivered(self) -> Tensor:
        """Return the own embeddings with data and weights as they were rounded."""
        assert self._sent is not None  # after a training batch
        rows, weights, _ = self._sent
        total = self._quantised_data(rows).astype(np.float64) @ weights.astype(np.float64)
        return torch.from_numpy(self._quantised.values(total.astype(np.int64)))

    def report(self) -> Mapping[str, float]:
        """Return the root mean square of what rounding changed in the last batch's embeddings."""
        if self._sent is None:
            return {}
        lost = self.delivered() - self._sent[-1].cpu()
        return {"rounding_error": float(lost.square().mean().sqrt())}

    def spent(self) -> Mapping[str, Any]:
        """Return nothing: no noise is added."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: keys and shares are new at every start."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing."""


class CodedCollector:
    """The label holder's half.

    Parameters
    ----------
    sums
        What all know.
    layout
        Who takes part.
    fusion
        Of the sum.
    """

    def __init__(self, sums: CodedSums, layout: Layout, fusion: Additive) -> None:
        self._sums, self._parties, self._fusion = sums, layout.parties, fusion
        self._late = Missing(layout.parties, LATE)

    async def prepare(self, timetable: Timetable) -> None:
        """Pass on everybody's keys."""
        if not timetable.row_sets:
            return
        notes = await Recall()
        self._ends = CodedHolder(self._sums, notes.incarnation)
        self._rows = CodedRows(timetable.row_sets, self._sums.code.segments)
        arrivals = await Receive(Expect(KEY, START, self._parties, Purpose.SETUP))
        keys = self._ends.meet({message.sender: message.body for message in arrivals})
        for party in self._parties:
            await Send(party, KEYS, START, keys, Purpose.SETUP)

    def expect(self, moment: Moment) -> Expect:
        """Return that as many answers suffice as it takes."""
        return Expect(
            ANSWER,
            moment.round,
            self._parties,
            moment.purpose,
            quorum=self._sums.code.needed,
            part=moment.part,
        )

    async def collect(self, rows: Rows, moment: Moment) -> Summed:
        """Receive enough answers, tell the others that there are, and return the sum of all."""
        arrivals = await Receive(self.expect(moment))
        for party in arrivals.missing:
            await Send(party, ENOUGH, moment.round, b"", moment.purpose, moment.part)
        answers = {message.sender: message.body for message in arrivals}
        return await Work(
            "decode",
            lambda: self._summed(answers, rows, moment),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )

    def _summed(self, answers: Mapping[str, bytes], rows: Rows, moment: Moment) -> Summed:
        places = self._rows.of(rows)
        total = self._ends.total(answers, len(places.coded), _instant(moment))
        values = self._sums.quantised.values(total[places.segment, places.at])
        if moment.purpose is Purpose.TRAINING:
            self._late.note(answers)
        return Summed(self._fusion, torch.from_numpy(values), self._parties)

    def recalled(self, state: Mapping[str, Any]) -> Summed:
        """Return the value whose ``state_dict`` this was."""
        return Summed.recalled(self._fusion, state)

    def report(self) -> Mapping[str, float]:
        """Return in how many rounds each party's answer was not waited for."""
        return self._late.report()

    def spent(self) -> Mapping[str, Any]:
        """Return nothing: no noise is added."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what is to be reported."""
        return {"late": self._late.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._late.load_state_dict(state["late"])


def _instant(moment: Moment) -> Instant:
    return Instant(moment.round, moment.purpose.label, moment.part)
