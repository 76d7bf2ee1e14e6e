"""The two halves of the masked uplink: the courses of a secure sum, from embeddings to their sum.

At a start, and before evaluations and predictions of their own, everybody's keys are passed on
(``key``, ``keys``), then offers for the first sum (``offer``, ``request``). A sum is three messages
of each party: its upload, the label holder's request, the answer. The next sum's offers travel with
them. Who did not come in time for a sum is in none, and offers for the next instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colonnade.effects import Commit, Expect, Purpose, Recall, Receive, Send, Work
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import Additive, take
from colonnade.organisations import Party
from colonnade.privacy import Budget, Event, Summand
from colonnade.secure import SumHolder, SumParty, Sums, words_of
from colonnade.stragglers import Stragglers
from colonnade.uplinks.account import Account
from colonnade.uplinks.contract import Collected, Embedder, Moment
from colonnade.uplinks.summed import Summed

__all__ = [
    "ANSWER",
    "KEY",
    "KEYS",
    "OFFER",
    "REQUEST",
    "UPLOAD",
    "MaskedCollector",
    "MaskedUploader",
    "Terms",
]

KEY, KEYS, OFFER = "key", "keys", "offer"
UPLOAD, REQUEST, ANSWER = "masked_embedding", "request", "answer"
# Keys are awaited of everybody, so none of an earlier start is left. An offer may have come too
# late, and wait for ever: those of a start have its number for a round.
KEYS_ROUND = 0


@dataclass(frozen=True, eq=False)
class Terms:
    """What both halves are made for.

    Parameters
    ----------
    layout
        Who takes part.
    sums
        The secure sums.
    mechanism
        By purpose, how embeddings become whole numbers.
    event
        By purpose and number of terms, what one use of a row discloses.
    budget
        What may be disclosed in all.
    """

    layout: Layout
    sums: Sums
    mechanism: Callable[[Purpose], Summand]
    event: Callable[[Purpose, int], Event]
    budget: Budget

    def account(self) -> Account:
        """Return an account in which nothing is entered yet."""
        fewest, simulated = self.sums.threshold, self.layout.simulated
        return Account(self.layout.rows, self.event, self.budget, simulated, fewest)


class MaskedUploader:
    """The party's half.

    Parameters
    ----------
    terms
        What it is made for.
    party
        Whose it is.
    """

    def __init__(self, terms: Terms, party: Party) -> None:
        self._terms = terms
        self._party = party
        self._holder = terms.layout.label_holder
        self._secrets = terms.layout.secrets_for(party.name, party.secrets)
        self._account = terms.account()
        self._sent = torch.zeros(0)

    async def prepare(self, row_sets: Sequence[Rows]) -> None:
        """Agree on keys, and offer for the first sum."""
        notes = await Recall()
        self._source = self._secrets.begin(self._party.name, notes.incarnation)
        self._account.begin(notes.records)
        self._sum = SumParty(
            self._terms.sums, self._party.name, self._holder, self._source, notes.incarnation
        )
        await Send(self._holder, KEY, KEYS_ROUND, self._sum.key(), Purpose.SETUP)
        self._sum.meet(await self._received(KEYS, KEYS_ROUND, Purpose.SETUP))
        start = self._sum.start
        await Send(self._holder, OFFER, start, self._sum.offer(), Purpose.SETUP)
        self._sum.answer(await self._received(REQUEST, start, Purpose.SETUP))

    async def upload(
        self, bottom: Embedder, rows: Rows, moment: Moment, saliency: Tensor | None = None
    ) -> Tensor:
        """Evaluate, turn to whole numbers, mask, send; then reveal what the sum needs."""
        training = moment.purpose is Purpose.TRAINING
        embedding = await Work(
            "forward",
            lambda: bottom(take(self._party.features, rows), training),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )
        if self._party.name in self._sum.members:
            body = await Work(
                "encode",
                lambda: self._masked(embedding, moment),
                moment.round,
                moment.purpose,
                rows=len(rows),
            )
            await Commit(self._account.uploading(moment))
            await Send(self._holder, UPLOAD, moment.round, body, moment.purpose)
        else:
            await Send(self._holder, OFFER, moment.round, self._sum.offer(), moment.purpose)
        request = await self._received(REQUEST, moment.round, moment.purpose)
        answer, contributors = self._sum.answer(request)
        record = self._account.enter(rows, moment, len(contributors))
        await Commit({**record, "revealed": [*contributors] if answer else []})
        if answer is not None:
            await Send(self._holder, ANSWER, moment.round, answer, moment.purpose)
        return embedding

    def _masked(self, embedding: Tensor, moment: Moment) -> bytes:
        mechanism = self._terms.mechanism(moment.purpose)
        noise = self._source.noise(f"embedding/{moment.purpose.label}", moment.round, moment.part)
        counts = mechanism.counts(embedding.detach(), noise)
        if moment.purpose is Purpose.TRAINING:
            self._sent = mechanism.estimate(counts, 1)
        return self._sum.upload(words_of(counts, self._terms.sums.bits))

    async def _received(self, kind: str, round: int, purpose: Purpose) -> bytes:
        arrivals = await Receive(Expect(kind, round, (self._holder,), purpose))
        return arrivals.only.body

    def delivered(self) -> Tensor:
        """Return what the party's own counts say, which only it knows."""
        return self._sent

    def report(self) -> Mapping[str, float]:
        """Return epsilon."""
        return self._account.report()

    def state_dict(self) -> dict[str, Any]:
        """Return what was released; keys are new at every start."""
        return {"account": self._account.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._account.load_state_dict(state["account"])


class MaskedCollector:
    """The label holder's half.

    Parameters
    ----------
    terms
        What it is made for.
    fusion
        Of the sum.
    stragglers
        For whom a sum waits.
    """

    def __init__(self, terms: Terms, fusion: Additive, stragglers: Stragglers) -> None:
        self._terms = terms
        self._fusion = fusion
        self._stragglers = stragglers
        self._parties = terms.layout.parties
        self._account = terms.account()

    async def prepare(self, row_sets: Sequence[Rows]) -> None:
        """Pass on everybody's keys, and the offers for the first sum."""
        notes = await Recall()
        self._account.begin(notes.records)
        start = notes.incarnation
        self._sum = SumHolder(self._terms.sums, self._terms.layout.label_holder, start)
        setup = Purpose.SETUP
        arrivals = await Receive(Expect(KEY, KEYS_ROUND, self._parties, setup))
        keys = self._sum.meet({message.sender: message.body for message in arrivals})
        for party in self._parties:
            await Send(party, KEYS, KEYS_ROUND, keys, setup)
        everybody = Expect(OFFER, start, self._parties, setup)
        arrivals = await Receive(self._stragglers.expect(everybody))
        self._sum.offers({message.sender: message.body for message in arrivals})
        await self._ask(start, setup)
        self._sum.advance()

    async def _ask(self, round: int, purpose: Purpose) -> None:
        for party, body in self._sum.requests().items():
            await Send(party, REQUEST, round, body, purpose)

    def expect(self, moment: Moment) -> Expect:
        """Return the uploads of a moment, or offers of those who missed the sum's own."""
        return self._awaited(Expect((UPLOAD, OFFER), moment.round, self._parties, moment.purpose))

    def _awaited(self, everything: Expect) -> Expect:
        training = everything.purpose is Purpose.TRAINING
        return self._stragglers.expect(everything) if training else everything

    async def collect(self, rows: Rows, moment: Moment) -> Collected:
        """Receive uploads, ask for what takes the masks off, and return the sum."""
        words = len(rows) * self._terms.layout.widths[self._parties[0]]
        arrivals = await Receive(self.expect(moment))
        bodies = {kind: dict[str, bytes]() for kind in (UPLOAD, OFFER)}
        for message in arrivals:
            bodies[message.kind][message.sender] = message.body
        contributors = self._sum.uploads(bodies[UPLOAD], words)
        self._sum.offers(bodies[OFFER])
        await Commit(self._account.enter(rows, moment, len(contributors)))
        await self._ask(moment.round, moment.purpose)
        asked = Expect(ANSWER, moment.round, contributors, moment.purpose)
        answers = {message.sender: message.body for message in await Receive(self._enough(asked))}
        return await Work(
            "decode",
            lambda: self._summed(answers, contributors, rows, moment),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )

    def _enough(self, asked: Expect) -> Expect:
        """Return what is awaited of the answers: those of all, or as many as are needed."""
        if asked.purpose is Purpose.TRAINING and self._stragglers.drops:
            return asked._replace(quorum=self._terms.sums.threshold)
        return asked

    def _summed(
        self,
        answers: Mapping[str, bytes],
        contributors: tuple[str, ...],
        rows: Rows,
        moment: Moment,
    ) -> Summed:
        total = self._sum.total(answers).reshape(len(rows), -1)
        self._sum.advance()
        estimate = self._terms.mechanism(moment.purpose).estimate(total, len(contributors))
        return Summed(self._fusion, estimate, contributors)

    def recalled(self, state: Mapping[str, Any]) -> Summed:
        """Return the value whose ``state_dict`` this was."""
        return Summed.recalled(self._fusion, state)

    def report(self) -> Mapping[str, float]:
        """Return epsilon."""
        return self._account.report()

    def spent(self) -> Mapping[str, Any]:
        """Return what was lost of privacy."""
        return self._account.spent()

    def state_dict(self) -> dict[str, Any]:
        """Return what was released."""
        return {"account": self._account.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._account.load_state_dict(state["account"])
