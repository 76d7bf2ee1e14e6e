r"""The event-driven exchange: whoever has an embedding sends it, and nobody waits for anybody.

Theory of operation. This is VAFL (Chen et al., 2020). The label holder keeps the newest embedding
of every training row of every party. Before the first step each party sends all of them once. From
then on

1. party m computes z_m = h_m(x_m) of the next batch of its own, and sends it;
2. the label holder, whenever one has come, overwrites these rows of m, fuses them with what it has
   of the others, sends m its derivative d_m, and takes a step of its top model and its own bottom;
   what has come by then of several parties for the same batch it fuses and answers together;
3. party m backpropagates d_m, takes a step, and goes on with its next batch. It never hears of the
   others, and d_m is of the parameters that z_m was of: only what stands beside z_m is old.

The batches are the plan's, in its order, for everybody, so that parties that are about as fast meet
on the same rows, where the store is freshest. Where they are just as fast and links exact, all come
together: that is the split exchange, to the bit, as is a run of one party, unless bottoms keep
something when they compute, as batch normalisation does: all rows are computed before the first
step.

A *round* is over when the fastest party has got its next answer, so a run's epochs are passes of
the fastest over the rows. No row of anybody is trained on more often, and slower parties get to the
end of fewer batches. When a round is over the label holder tells everybody so. That word goes ahead
of all that it sends later, and it takes no embedding between the word and its own boundary; so
boundaries are a consistent cut (Chandy and Lamport, 1985), and nobody stands still for one: a party
may pass its boundary while it waits for an answer, a slow one long after the others. An embedding
bears the number of its sender's own step, all that comes back the number of the round.

An evaluation is of one model, so all wait for it: for every party to finish what it computes, and
to send its embeddings of the rows held out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from colonnade.agreement import Agreement, HolderSeat, PartySeat
from colonnade.batches import pieces
from colonnade.drawing import drawing_apart
from colonnade.effects import Arrivals, Effect, Expect, Receive, Send, Work
from colonnade.links import Link, Rows
from colonnade.models import take
from colonnade.roles.blame import attributed, large_derivatives, largest_embedding
from colonnade.roles.courses import Through
from colonnade.roles.rounds import TrainingLabelHolder, TrainingParty
from colonnade.roles.split import DERIVATIVE
from colonnade.roles.store import Anybody, Store
from colonnade.stragglers import Missing
from colonnade.uplinks import Collected, Moment
from colonnade.wire import reading

__all__ = ["OVER", "EventDrivenLabelHolder", "EventDrivenParty"]

OVER = "over"

T = TypeVar("T")


class EventDrivenParty(TrainingParty):
    """A party in the event-driven exchange.

    Parameters
    ----------
    agreement, seat
        As for ``TrainingParty``.
    downlink
        The link that brings its derivatives.
    """

    def __init__(self, agreement: Agreement, seat: PartySeat, downlink: Link) -> None:
        super().__init__(agreement, seat)
        layout = agreement.layout
        self._downlink = downlink.receiver(
            layout.rows, layout.widths[self.name], f"parties/{self.name}/derivative"
        )
        self._everything = _everything(agreement)
        self._step = 0
        self._told_steps = 0
        self._sent = False  # the embedding of this step, and its derivative has not come
        self._embedding: Tensor | None = None  # of this step, with its graph
        self._buffers: dict[str, Tensor] = {}  # of the bottom, as they were before it
        self._saliency: Tensor | None = None

    async def _train(self, rows: Rows, moment: Moment) -> None:
        """Take steps, as many as there is time for, until the round is over."""
        if self.round == 0:
            for piece, moment in self._everything:
                await self._uplink.upload(self.bottom, piece, moment)
        words = Expect((DERIVATIVE, OVER), self.round, (self._label_holder,))
        while True:
            if not self._sent and self._step < self._batches.rounds:
                rows, moment = self._batch()
                buffers = self.bottom.module.named_buffers()
                self._buffers = {name: buffer.clone() for name, buffer in buffers}
                self._embedding = await self._attributed(
                    self._uplink.upload(self.bottom, rows, moment, self._saliency)
                )
                self._sent = True
            word = (await Receive(words)).only
            if word.kind == OVER:
                return
            await self._follow(word.body)

    def _batch(self) -> tuple[Rows, Moment]:
        return self._batches.rows(self._step), Moment(self._step)

    async def _follow(self, body: bytes) -> None:
        """Take the step of the derivative that has come."""
        rows, _ = self._batch()
        await Work("backward", lambda: self._update(body), self._step, rows=len(rows))
        self._step += 1
        self._sent, self._embedding = False, None

    def _update(self, body: bytes) -> Tensor:
        rows, moment = self._batch()
        embedding = self._embedding
        if embedding is None:
            with drawing_apart():  # what follows draws as if it had been there
                embedding = self._again(rows)
        key = moment.key(self._seed, self._label_holder, f"{DERIVATIVE}/{self.name}")
        with reading(self._label_holder, self.round):
            derivative = self._downlink.receive(body, rows, key)
        torch.autograd.backward(embedding, derivative)
        self.bottom.step()
        self._saliency = derivative.sum(dim=0).abs()
        return derivative

    def _again(self, rows: Rows) -> Tensor:
        """Return the embedding that was sent, with its graph, which no checkpoint holds.

        Nothing has changed since but buffers, which are as they were before it once more; and work
        of one step draws the same numbers again.
        """
        for name, buffer in self.bottom.module.named_buffers():
            buffer.data.copy_(self._buffers[name])  # which autograd need not know of
        return self._embed(take(self._features, rows), training=True)

    def _at_fault(self) -> str:
        return large_derivatives(self._label_holder, self._saliency)

    def _progress(self) -> Mapping[str, float]:
        taken, self._told_steps = self._step - self._told_steps, self._step
        return {**super()._progress(), "steps": taken}

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return super().state_dict() | {
            "downlink": self._downlink.state_dict(),
            "step": self._step,
            "told_steps": self._told_steps,
            "sent": self._sent,
            "buffers": self._buffers if self._sent else {},
            "saliency": self._saliency,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        self._downlink.load_state_dict(state["downlink"])
        self._step = state["step"]
        self._told_steps = state["told_steps"]
        self._sent, self._embedding = state["sent"], None
        self._buffers = dict(state["buffers"])
        self._saliency = state["saliency"]


class EventDrivenLabelHolder(TrainingLabelHolder):
    """The label holder in the event-driven exchange.

    Parameters
    ----------
    agreement, seat
        As for ``TrainingLabelHolder``.
    downlink
        The link that brings derivatives.
    """

    def __init__(self, agreement: Agreement, seat: HolderSeat, downlink: Link) -> None:
        layout = agreement.layout
        self._store = Store(layout)
        super().__init__(agreement, seat, Anybody(self._store))
        self._downlinks = {
            party: downlink.sender(layout.rows, width, f"label-holder/{party}/derivative")
            for party, width in layout.party_widths.items()
        }
        self._everything = _everything(agreement)
        # Each remembers the order of an epoch, and parties may be in different ones.
        self._plans = {
            party: agreement.batches.until(agreement.batches.rounds) for party in self._parties
        }
        self._answered = dict.fromkeys(self._parties, 0)
        self._missing = Missing(self._parties)

    def _passed(self) -> int:
        """Return the first step that a party may still send; after the end there is none."""
        return self.round + 1 if self.done() else min(self._answered.values())

    async def _train(self, rows: Rows, moment: Moment) -> None:
        """Answer whoever comes, until somebody has got the answer of this round."""
        self._store.round = self.round
        if self.round == 0:
            await self._fill()
        present = set[str]()
        while max(self._answered.values()) == self.round:
            here = await Receive(self._next())
            for step in sorted({message.round for message in here}):
                together = tuple(message for message in here if message.round == step)
                present |= await self._answer(Arrivals(together), Moment(step))
        self._missing.note(present)
        for party in self._parties:
            await Send(party, OVER, self.round, b"")

    async def _fill(self) -> None:
        """Receive the embeddings of all rows of all parties."""
        for rows, moment in self._everything:
            everybody = self._uplink.expect(moment)._replace(quorum=None)
            here = await Receive(everybody)
            await _Given(self._uplink.collect(rows, moment), here)

    def _next(self) -> Expect:
        """Return that the next embedding of anybody is waited for."""
        anybody = self._uplink.expect(Moment(self.round))
        return anybody._replace(round=tuple(self._answered[party] for party in anybody.sources))

    async def _answer(self, here: Arrivals, moment: Moment) -> set[str]:
        """Send derivatives to those whose embeddings of a batch came, take a step, return who."""
        rows = self._plans[here.messages[0].sender].rows(moment.round)
        own = await self._own(rows, moment)
        collected = await _Given(self._uplink.collect(rows, moment), here)
        bodies = await Work(
            "top",
            lambda: self._derive(collected, own, rows, moment),
            moment.round,
            step=1,
            rows=len(rows),
        )
        for party, body in bodies.items():
            await Send(party, DERIVATIVE, self.round, body)
            self._answered[party] += 1
        await Work("update", self._update, moment.round, rows=len(rows))
        return set(bodies)

    def _derive(
        self, collected: Collected, own: Tensor | None, rows: Rows, moment: Moment
    ) -> dict[str, bytes]:
        """Backpropagate the loss; return each derivative as it leaves."""
        fused = collected.differentiable(own)
        with attributed(lambda: largest_embedding(self._store.newest(rows))):
            self._note(self._backpropagate(fused.value, rows), rows)
            bodies = {}
            for party, derivative in fused.derivatives().items():
                key = moment.key(self._seed, self.name, f"{DERIVATIVE}/{party}")
                bodies[party] = self._downlinks[party].send(derivative, rows, key)
        return bodies

    def _progress(self) -> Mapping[str, float]:
        return {**super()._progress(), **self._missing.report()}

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return super().state_dict() | {
            "downlinks": {party: link.state_dict() for party, link in self._downlinks.items()},
            "answered": self._answered,
            "missing": self._missing.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        for party, link in self._downlinks.items():
            link.load_state_dict(state["downlinks"][party])
        self._answered = dict(state["answered"])
        self._missing.load_state_dict(state["missing"])


def _everything(agreement: Agreement) -> list[tuple[Rows, Moment]]:
    """Return all training rows, in pieces no longer than a batch; part 0 is the first step's."""
    parts = pieces(agreement.train_rows, agreement.batches.batch_size)
    return [(rows, Moment(0, part=part)) for part, rows in enumerate(parts, start=1)]


class _Given(Through[T]):
    """A course of effects that is given, where it would receive, what was received already."""

    def __init__(self, course: Awaitable[T], here: Arrivals) -> None:
        super().__init__(course)
        self._here = here

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        return self._here if isinstance(effect, Receive) else (yield effect)
