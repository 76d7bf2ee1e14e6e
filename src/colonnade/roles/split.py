r"""The split exchange: embeddings up, derivatives down, labels and top model stay private.

Theory of operation. Party m holds features x_m and a bottom model h_m; the label holder holds the
labels y, the top model h_0, and possibly features and a bottom of its own. In each round, for a
batch of B rows that all know from the shared seed:

1. party m computes its embedding z_m = h_m(x_m) and sends it up;
2. the label holder fuses z_1 ... z_M, computes the loss L = l(h_0(fuse(z)), y), and sends
   each party its derivative d_m = dL / dz_m;
3. party m backpropagates d_m through h_m, since dL/dtheta_m = (dz_m/dtheta_m)^T d_m by the chain
   rule; everyone takes one step of its own optimiser.

With exact links this is SGD on the joined model, computed in several places (vanilla split VFL;
with lossy links, C-VFL's Algorithm 2: the derivative is then taken at the embedding as received).

A party whose embedding a round did not wait for is told so, and takes no step in it; a round that
is over before it begins it passes over. What leaves may be made less telling of labels
(``defences``); the label holder's own steps are exact.

With Q local steps it is FedBCD(Q): after the exact step everyone takes Q - 1 more on the same batch
before the next exchange, a party with its fresh z_m and the d_m it got, the label holder with its
fresh top model and own embedding and the z_1 ... z_M it got. With ``Replayed`` the label holder
alone takes more steps, on batches of earlier rounds. With ``Proximal`` a party takes small steps on
parts of the batch, down d_m plus a pull towards the z_m that it sent. With ``Workset`` everyone
goes on with the batches of recent rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from colonnade.agreement import Agreement, HolderSeat, PartySeat
from colonnade.defences import Guard
from colonnade.effects import Expect, Ready, Receive, Send, Work
from colonnade.links import Link, Rows
from colonnade.local_updates import HolderBatch, HolderStep, PartyBatch, PartyStep
from colonnade.models import take
from colonnade.roles.blame import attributed, large_derivatives, largest_embedding
from colonnade.roles.local_steps import of_local_steps
from colonnade.roles.reported import reported
from colonnade.roles.rounds import TrainingLabelHolder, TrainingParty
from colonnade.stragglers import Missing
from colonnade.streams import StreamKey
from colonnade.uplinks import Collected, Fused, Moment
from colonnade.wire import reading

__all__ = ["DERIVATIVE", "SKIPPED", "SplitLabelHolder", "SplitParty"]

DERIVATIVE, SKIPPED = "derivative", "skipped"


class SplitParty(TrainingParty):
    """A party in the split exchange.

    Parameters
    ----------
    agreement, seat
        As for ``TrainingParty``.
    downlink
        The link that brings its derivatives.
    correction
        By how much of z - C(z) it corrects the derivative that was taken at C(z).
    """

    def __init__(
        self, agreement: Agreement, seat: PartySeat, downlink: Link, correction: float
    ) -> None:
        super().__init__(agreement, seat)
        layout = agreement.layout
        self._correction = correction
        self._repeats = agreement.method.local_updates.repeats
        self._steps = agreement.method.local_updates.party_steps()
        self._downlink = downlink.receiver(
            layout.rows, layout.widths[self.name], f"parties/{self.name}/derivative"
        )
        self._saliency: Tensor | None = None
        method = agreement.method
        # Others may need what an interactive uplink says even if its embedding is late.
        self._may_skip = method.stragglers.drops and not method.uplink.interactive

    async def _train(self, rows: Rows, moment: Moment) -> None:
        if await self._is_over():
            return
        embedding = await self._attributed(
            self._uplink.upload(self.bottom, rows, moment, self._saliency)
        )
        answer = (await Receive(self._answer())).only
        if answer.kind == SKIPPED:
            return
        sent = embedding.detach()
        derivative = await self._exact_step(embedding, sent, answer.body, rows, moment)
        again = [PartyStep(rows, lambda fresh: derivative)] * self._repeats
        for number, step in enumerate(chain(again, self._steps.steps(self._draws())), start=2):
            await self._take(self.round, step, number)

    async def _is_over(self) -> bool:
        """Whether the round went on without this party before it began: it then computes nothing.

        So one that is slow is soon back with the others.
        """
        if not (self._may_skip and await Ready(self._answer())):
            return False
        await Receive(self._answer())
        return True

    def _answer(self) -> Expect:
        """Return what is expected of the label holder in this round."""
        return Expect((DERIVATIVE, SKIPPED), self.round, (self._label_holder,))

    def _draws(self) -> StreamKey:
        """Return what is drawn from for the local steps of this round."""
        # Called after the first policy that drew; another word would change what Proximal draws.
        return StreamKey(self._seed, self.name, "parts", self.round)

    async def _exact_step(
        self, embedding: Tensor, sent: Tensor, body: bytes, rows: Rows, moment: Moment
    ) -> Tensor:
        """Backpropagate through ``embedding`` the derivative at what was sent, and return it."""
        derivative = await Work(
            "backward",
            lambda: self._update(embedding, sent, body, rows, moment),
            self.round,
            rows=len(rows),
        )
        self._steps.add(PartyBatch(self.round, rows, sent, derivative))
        return derivative

    async def _take(self, round: int, step: PartyStep, number: int) -> None:
        take_it = partial(self._local_step, step)
        await self._local_steps.take(take_it, round, number, step.rows)

    def _update(
        self, embedding: Tensor, sent: Tensor, body: bytes, rows: Rows, moment: Moment
    ) -> Tensor:
        key = moment.key(self._seed, self._label_holder, f"{DERIVATIVE}/{self.name}")
        with reading(self._label_holder, moment.round):
            derivative = self._downlink.receive(body, rows, key)
        if self._correction:
            derivative += self._correction * (sent - self._uplink.delivered())
        torch.autograd.backward(embedding, derivative)
        self.bottom.step()
        self._saliency = derivative.sum(dim=0).abs()
        return derivative

    def _at_fault(self) -> str:
        return large_derivatives(self._label_holder, self._saliency)

    def _progress(self) -> Mapping[str, float]:
        return reported(super()._progress(), of_local_steps(self._steps.report()))

    def _local_step(self, step: PartyStep) -> None:
        with attributed(self._at_fault):
            embedding = self._embed(take(self._features, step.rows), training=True)
        torch.autograd.backward(embedding, step.direction(embedding.detach()))
        self.bottom.step()

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return super().state_dict() | {
            "downlink": self._downlink.state_dict(),
            "saliency": self._saliency,
            "steps": self._steps.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        self._downlink.load_state_dict(state["downlink"])
        self._saliency = state["saliency"]
        self._steps.load_state_dict(state["steps"])


class SplitLabelHolder(TrainingLabelHolder):
    """The label holder in the split exchange.

    Parameters
    ----------
    agreement, seat
        As for ``TrainingLabelHolder``.
    downlink
        The link that brings derivatives.
    guard
        What they pass before they leave.
    """

    def __init__(
        self, agreement: Agreement, seat: HolderSeat, downlink: Link, guard: Guard
    ) -> None:
        super().__init__(agreement, seat)
        self._guard = guard
        layout = agreement.layout
        self._repeats = agreement.method.local_updates.repeats
        self._steps = agreement.method.local_updates.holder_steps()
        self._missing = Missing(layout.parties if agreement.method.stragglers.drops else ())
        self._downlinks = {
            party: downlink.sender(layout.rows, width, f"label-holder/{party}/derivative")
            for party, width in layout.party_widths.items()
        }

    async def _prepare(self) -> None:
        await super()._prepare()
        await self._guard.prepare(self._ahead)

    async def _train(self, rows: Rows, moment: Moment) -> None:
        own = await self._own(rows, moment)
        collected = await self._uplink.collect(rows, moment)
        batch = await self._answer(collected, own, rows, moment)
        again = [HolderStep(rows, batch.collected)] * self._repeats
        for number, step in enumerate(chain(again, self._steps.steps(self._draws())), start=2):
            await self._take(self.round, step, number)

    def _draws(self) -> StreamKey:
        """Return what is drawn from for the local steps of this round."""
        # Called after the first policy that drew; another word would change what Replayed draws.
        return StreamKey(self._seed, self.name, "replayed", self.round)

    async def _answer(
        self, collected: Collected, own: Tensor | None, rows: Rows, moment: Moment
    ) -> HolderBatch:
        """Send derivatives, and take the exact step."""
        self._missing.note(collected.present)
        await self._guard.enter(rows, moment)
        derivatives, bodies = await Work(
            "top",
            lambda: self._derive(collected, own, rows, moment),
            self.round,
            step=1,
            rows=len(rows),
        )
        for party in self._parties:
            if party in bodies:
                await Send(party, DERIVATIVE, self.round, bodies[party])
            else:
                await Send(party, SKIPPED, self.round, b"")
        # The parties wait for their derivatives: the own step comes after they are sent.
        await Work("update", self._update, self.round, rows=len(rows))
        batch = HolderBatch(self.round, rows, collected, derivatives)
        self._steps.add(batch)
        return batch

    async def _take(self, round: int, step: HolderStep, number: int) -> None:
        take_it = partial(self._local_step, step)
        await self._local_steps.take(take_it, round, number, step.rows)

    def _derive(
        self, collected: Collected, own: Tensor | None, rows: Rows, moment: Moment
    ) -> tuple[dict[str, Tensor], dict[str, bytes]]:
        """Backpropagate the loss; return the exact derivatives, and bodies of what leaves."""
        fused = collected.differentiable(own)
        with attributed(lambda: largest_embedding(fused.leaves)):
            self._note(self._backpropagate(fused.value, rows), rows)
            derivatives = fused.derivatives()
            bodies = {}
            for party, derivative in self._guard.protected(derivatives, moment).items():
                key = moment.key(self._seed, self.name, f"{DERIVATIVE}/{party}")
                bodies[party] = self._downlinks[party].send(derivative, rows, key)
        return derivatives, bodies

    def spent_of_labels(self) -> Mapping[str, Any]:
        """Return what was lost of labels' privacy until now, as the defence tells."""
        return self._guard.spent()

    def _progress(self) -> Mapping[str, float]:
        return reported(
            super()._progress(),
            self._guard.report(),
            of_local_steps(self._steps.report()),
            self._missing.report(),
        )

    def _local_step(self, step: HolderStep) -> None:
        own = self._embed(step.rows)
        with attributed(lambda: largest_embedding(step.collected.differentiable(own).leaves)):
            if step.weights is None:
                self._backpropagate(step.collected.fuse(own), step.rows)
            else:
                self._backpropagate_weighted(step.collected.differentiable(own), step)
        self._update()

    def _backpropagate_weighted(self, fused: Fused, step: HolderStep) -> None:
        """Backpropagate the loss with each row weighted by its derivatives now.

        A loss that is a mean over rows has in row n of its gradient in the predictions that of
        row n alone, so weights may be applied there.
        """
        predictions, loss = self._predicted(fused.value, step.rows)
        (slope,) = torch.autograd.grad(loss, predictions)
        found = torch.autograd.grad(
            predictions, list(fused.leaves.values()), slope, retain_graph=True
        )
        assert step.weights is not None
        weights = step.weights(dict(zip(fused.leaves, found, strict=True)))
        weights = weights.to(slope).view(-1, *[1] * (slope.dim() - 1))
        torch.autograd.backward(predictions, slope * weights)

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return super().state_dict() | {
            "downlinks": {party: link.state_dict() for party, link in self._downlinks.items()},
            "steps": self._steps.state_dict(),
            "guard": self._guard.state_dict(),
            "missing": self._missing.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        for party, link in self._downlinks.items():
            link.load_state_dict(state["downlinks"][party])
        self._steps.load_state_dict(state["steps"], self._uplink.recalled)
        self._guard.load_state_dict(state["guard"])
        self._missing.load_state_dict(state["missing"])
