"""Exchanges that somebody else might write: one derivative for all, and embeddings sent twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from colonnade.agreement import Exchange
from colonnade.codecs import Float
from colonnade.disclosures import Disclosure
from colonnade.effects import Expect, Receive, Send, Work
from colonnade.errors import ConfigurationError
from colonnade.flows import Flow
from colonnade.links import Direct
from colonnade.local_updates import LocalStep
from colonnade.models import Additive, take
from colonnade.roles.rounds import TrainingLabelHolder, TrainingParty
from colonnade.wire import Purpose, reading

KIND = "common"


@dataclass(frozen=True)
class Common(Exchange):
    """The derivative of the fused embedding goes to every party, in float32."""

    takes_steps = frozenset({LocalStep.REPEATED})

    def check(self, method):
        if not isinstance(method.fusion, Additive):
            raise ConfigurationError("one derivative is right for fusion by sum or mean alone")

    def flows(self, agreement):
        layout, rows = agreement.layout, agreement.batches.batch_size
        width = layout.widths[layout.parties[0]]
        flow = Flow(
            layout.label_holder,
            layout.parties,
            KIND,
            Purpose.TRAINING,
            Direct(),
            rows,
            width,
            layout.rows,
        )
        return (flow,)

    def disclosures(self, layout):
        return (Disclosure("labels", "stay with the label holder; derivatives tell of them"),)

    def party(self, agreement, seat):
        return CommonParty(agreement, seat)

    def label_holder(self, agreement, seat):
        return CommonHolder(agreement, seat)


class CommonParty(TrainingParty):
    def __init__(self, agreement, seat):
        super().__init__(agreement, seat)
        self.repeats = agreement.method.local_updates.repeats
        self.width = agreement.layout.widths[self.name]

    async def _train(self, rows, moment):
        embedding = await self._uplink.upload(self.bottom, rows, moment)
        body = (await Receive(Expect(KIND, self.round, (self._label_holder,)))).only.body
        derivative = self.read(body, rows, moment)

        def step(embedding=None):
            if embedding is None:
                embedding = self.bottom(take(self._features, rows), training=True)
            torch.autograd.backward(embedding, derivative)
            self.bottom.step()

        await Work("backward", lambda: step(embedding), self.round, rows=len(rows))
        for again in range(self.repeats):
            await Work("local_step", step, self.round, step=again + 2, rows=len(rows))

    def read(self, body, rows, moment):
        key = moment.key(self._seed, self._label_holder, KIND)
        with reading(self._label_holder, self.round):
            return Float().decode(body, (len(rows), self.width), key)


class CommonHolder(TrainingLabelHolder):
    def __init__(self, agreement, seat):
        super().__init__(agreement, seat)
        self.repeats = agreement.method.local_updates.repeats

    async def _train(self, rows, moment):
        own = await self._own(rows, moment)
        collected = await self._uplink.collect(rows, moment)

        def derive():
            fused = collected.differentiable(own)
            self._note(self._backpropagate(fused.value, rows), rows)
            common = next(iter(fused.derivatives().values()))
            return Float().encode(common, moment.key(self._seed, self.name, KIND))

        def again():
            self._backpropagate(collected.fuse(self._embed(rows)), rows)
            self._update()

        body = await Work("top", derive, self.round, step=1, rows=len(rows))
        for party in self.peers:
            await Send(party, KIND, self.round, body)
        await Work("update", self._update, self.round, rows=len(rows))
        for step in range(self.repeats):
            await Work("local_step", again, self.round, step=step + 2, rows=len(rows))


@dataclass(frozen=True)
class Doubled(Common):
    """Embeddings go up twice in a round, the first time in vain."""

    def uploads(self, rounds, epoch):
        return 2 * rounds

    def party(self, agreement, seat):
        return DoubledParty(agreement, seat)

    def label_holder(self, agreement, seat):
        return DoubledHolder(agreement, seat)


class DoubledParty(CommonParty):
    async def _train(self, rows, moment):
        await self._uplink.upload(self.bottom, rows, replace(moment, part=1))
        await super()._train(rows, moment)


class DoubledHolder(CommonHolder):
    async def _train(self, rows, moment):
        await self._uplink.collect(rows, replace(moment, part=1))
        await super()._train(rows, moment)
