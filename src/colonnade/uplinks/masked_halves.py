"""The two halves of the masked uplink: the courses of a secure sum, from embeddings to their sum.

At a start, and before evaluations and predictions of their own, everybody's keys are passed on
(``key``, ``keys``), then offers for the first sum (``offer``, ``request``). A sum is three messages
of each party: its upload, the label holder's request, the answer. The next sum's offers travel with
them. Where somebody was lost there are two more before the answer: contributors sign who they were
told contributed (``confirmation``), and hear what the others signed (``confirmations``).

Who did not come in time for a sum is in none, and offers for the next instead: nobody waits for
such offers in training, and what is evaluated begins with them where somebody is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade.effects import Commit, Expect, Purpose, Recall, Receive, Send, Since, Work
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import Additive, take
from colonnade.organisations import Party
from colonnade.privacy import Budget, Event, Summand
from colonnade.secure import SumHolder, SumParty, Sums, words_of
from colonnade.stragglers import Stragglers, sufficing
from colonnade.uplinks.account import Account
from colonnade.uplinks.contract import Collected, Embedder, Moment, Timetable
from colonnade.uplinks.summed import Summed
from colonnade.wire import reading

__all__ = [
    "ANSWER",
    "CONFIRMATION",
    "CONFIRMATIONS",
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
CONFIRMATION, CONFIRMATIONS = "confirmation", "confirmations"
# Keys are awaited of everybody, so none of an earlier start is left. An offer may have come too
# late, and wait for ever: those of a start have its number for a round.
KEYS_ROUND = 0

T = TypeVar("T")


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

    def lacks(self, members: tuple[str, ...], moment: Moment) -> bool:
        """Return whether a sum of these members is not of everybody, where it has to be."""
        return moment.purpose is not Purpose.TRAINING and members != self.layout.parties

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

    async def prepare(self, timetable: Timetable) -> None:
        """Agree on keys, and offer for the first sum."""
        notes = await Recall()
        self._account.begin(notes.records, timetable)
        if not timetable.row_sets:
            return
        self._source = self._secrets.begin(self._party.name, notes.incarnation)
        self._sum = SumParty(self._terms.sums, self._party.name, self._holder, self._source)
        await Send(self._holder, KEY, KEYS_ROUND, self._sum.key(), Purpose.SETUP)
        await self._heed(self._sum.meet, KEYS, KEYS_ROUND, Purpose.SETUP)
        await self._join(self._sum.start, Purpose.SETUP)

    async def _join(self, round: int, purpose: Purpose) -> None:
        """Offer for the next sum, and contribute nothing to this one."""
        await Send(self._holder, OFFER, round, self._sum.offer(), purpose)
        await self._heed(self._sum.join, REQUEST, round, purpose)

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
        if self._terms.lacks(self._sum.members, moment):
            await self._join(moment.round, moment.purpose)
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
        contributors, answer, confirmation = await self._heed(
            self._sum.hear, REQUEST, moment.round, moment.purpose
        )
        record = self._account.enter(rows, moment, len(contributors))
        due = answer or confirmation
        await Commit({**record, "revealed": [*contributors] if due else []})
        if confirmation is not None:
            await Send(self._holder, CONFIRMATION, moment.round, confirmation, moment.purpose)
            answer = await self._heed(
                self._sum.confirmed, CONFIRMATIONS, moment.round, moment.purpose
            )
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

    async def _heed(self, take: Callable[[bytes], T], kind: str, round: int, purpose: Purpose) -> T:
        """Return what is made of a body of the label holder's, which is blamed where it is none."""
        arrivals = await Receive(Expect(kind, round, (self._holder,), purpose))
        with reading(self._holder, round):
            return take(arrivals.only.body)

    def delivered(self) -> Tensor:
        """Return what the party's own counts say, which only it knows."""
        return self._sent

    def report(self) -> Mapping[str, float]:
        """Return epsilon."""
        return self._account.report()

    def spent(self) -> Mapping[str, Any]:
        """Return what was lost of privacy."""
        return self._account.spent()

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
        self._members = self._parties  # of the next sum
        self._account = terms.account()

    async def prepare(self, timetable: Timetable) -> None:
        """Pass on everybody's keys, and the offers for the first sum.

        Its members are those of the sum that was next at the checkpoint, so that a run goes on as
        one that nobody interrupted; or all whose offers come, where too few of these do.
        """
        notes = await Recall()
        self._account.begin(notes.records, timetable)
        if not timetable.row_sets:
            return
        start = notes.incarnation
        self._sum = SumHolder(self._terms.sums, self._terms.layout.label_holder, start)
        setup = Purpose.SETUP
        arrivals = await Receive(Expect(KEY, KEYS_ROUND, self._parties, setup))
        keys = self._sum.meet({message.sender: message.body for message in arrivals})
        for party in self._parties:
            await Send(party, KEYS, KEYS_ROUND, keys, setup)
        offers = self._sufficing(Expect(OFFER, start, self._parties, setup))
        await self._join(offers, self._members)

    async def _join(self, offers: Expect, wanted: tuple[str, ...]) -> None:
        """Take offers for the next sum, where nobody contributes to this one."""
        came = {message.sender: message.body for message in await Receive(offers)}
        of_these = {party: body for party, body in came.items() if party in wanted}
        enough = len(of_these) >= self._terms.sums.threshold
        self._sum.offers(of_these if enough else came)
        await self._ask(offers.earliest, offers.purpose)
        self._advance()

    def _advance(self) -> None:
        self._sum.advance()
        self._members = self._sum.members

    async def _ask(self, round: int, purpose: Purpose) -> None:
        for party, body in self._sum.requests().items():
            await Send(party, REQUEST, round, body, purpose)

    def _sufficing(self, everything: Expect) -> Expect:
        return sufficing(self._stragglers, everything, self._terms.sums.threshold)

    def expect(self, moment: Moment) -> Expect:
        """Return the members' uploads; or everybody's offers, if all have to be members first."""
        members = self._sum.members
        if self._terms.lacks(members, moment):
            return Expect(OFFER, moment.round, self._parties, moment.purpose)
        uploads = Expect(UPLOAD, moment.round, members, moment.purpose)
        return self._sufficing(uploads) if moment.purpose is Purpose.TRAINING else uploads

    async def collect(self, rows: Rows, moment: Moment) -> Collected:
        """Receive uploads, ask for what takes the masks off, and return the sum."""
        words = len(rows) * self._terms.layout.widths[self._parties[0]]
        if self._terms.lacks(self._sum.members, moment):
            await self._join(self.expect(moment), self._parties)
        arrivals = await Receive(self.expect(moment))
        uploads = {message.sender: message.body for message in arrivals}
        contributors = self._sum.uploads(uploads, words)
        self._sum.offers(await self._come_back(moment))
        await Commit(self._account.enter(rows, moment, len(contributors)))
        await self._ask(moment.round, moment.purpose)
        if contributors != self._sum.members:
            signed = self._sum.confirmations(await self._said(CONFIRMATION, contributors, moment))
            for party in contributors:
                await Send(party, CONFIRMATIONS, moment.round, signed, moment.purpose)
        answers = await self._said(ANSWER, contributors, moment)
        return await Work(
            "decode",
            lambda: self._summed(answers, contributors, rows, moment),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )

    async def _come_back(self, moment: Moment) -> dict[str, bytes]:
        """Return the offers that are here of those who are no members, and wait for none."""
        others = tuple(party for party in self._parties if party not in self._sum.members)
        if not others:
            return {}
        here = Expect(OFFER, moment.round, others, moment.purpose, within=0.0, since=Since.NOW)
        return {message.sender: message.body for message in await Receive(here)}

    async def _said(
        self, kind: str, contributors: tuple[str, ...], moment: Moment
    ) -> dict[str, bytes]:
        """Return what all contributors say, or as many as are needed."""
        asked = Expect(kind, moment.round, contributors, moment.purpose)
        if moment.purpose is Purpose.TRAINING and self._stragglers.drops:
            asked = asked._replace(quorum=self._terms.sums.threshold)
        return {message.sender: message.body for message in await Receive(asked)}

    def _summed(
        self,
        answers: Mapping[str, bytes],
        contributors: tuple[str, ...],
        rows: Rows,
        moment: Moment,
    ) -> Summed:
        total = self._sum.total(answers).reshape(len(rows), -1)
        self._advance()
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
        """Return what was released, and who is a member of the next sum."""
        return {"account": self._account.state_dict(), "members": [*self._members]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._account.load_state_dict(state["account"])
        self._members = tuple(state.get("members", self._parties))  # older checkpoints have none
