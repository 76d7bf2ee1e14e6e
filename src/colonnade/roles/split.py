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

A party whose embedding a round did not wait for is told so, and takes no step in it.

With Q local steps it is FedBCD(Q): after the exact step everyone takes Q - 1 more on the same batch
before the next exchange, a party with its fresh z_m and the d_m it got, the label holder with its
fresh top model and own embedding and the z_1 ... z_M it got. With ``Replayed`` the label holder
alone takes more steps, on batches of earlier rounds. With ``Proximal`` a party takes small steps on
parts of the batch, down d_m plus a pull towards the z_m that it sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from colonnade.agreement import Agreement, HolderSeat, PartySeat
from colonnade.effects import Expect, Receive, Send, Work
from colonnade.links import Link, Rows
from colonnade.models import take
from colonnade.roles.rounds import TrainingLabelHolder, TrainingParty
from colonnade.streams import StreamKey
from colonnade.uplinks import Collected, Moment

__all__ = ["DERIVATIVE", "SKIPPED", "SplitLabelHolder", "SplitParty"]

DERIVATIVE, SKIPPED = "derivative", "skipped"

Batch = tuple[Rows, Collected]
"""Rows, and what was collected of the parties' embeddings of them."""


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
        self._local_updates = agreement.method.local_updates
        self._downlink = downlink.receiver(
            layout.rows, layout.widths[self.name], f"parties/{self.name}/derivative"
        )
        self._saliency: Tensor | None = None

    async def _train(self, rows: Rows, moment: Moment) -> None:
        embedding = await self._uplink.upload(self.bottom, rows, moment, self._saliency)
        kinds = (DERIVATIVE, SKIPPED)
        answer = (await Receive(Expect(kinds, self.round, (self._label_holder,)))).only
        if answer.kind == SKIPPED:
            return
        derivative = await Work(
            "backward",
            lambda: self._update(embedding, answer.body, rows, moment),
            self.round,
            rows=len(rows),
        )
        exact = embedding.detach()
        key = StreamKey(self._seed, self.name, "parts", self.round)
        for step, part in enumerate(self._local_updates.parts(len(rows), key), start=2):
            again = partial(self._local_step, rows[part], derivative[part], exact[part], len(rows))
            await Work("local_step", again, self.round, step=step, rows=len(part))

    def _update(self, embedding: Tensor, body: bytes, rows: Rows, moment: Moment) -> Tensor:
        """Take the exact step, and return the derivative."""
        key = moment.key(self._seed, self._label_holder, f"{DERIVATIVE}/{self.name}")
        derivative = self._downlink.receive(body, rows, key)
        if self._correction:
            derivative += self._correction * (embedding.detach() - self._uplink.delivered())
        torch.autograd.backward(embedding, derivative)
        self.bottom.step()
        self._saliency = derivative.sum(dim=0).abs()
        return derivative

    def _local_step(self, rows: Rows, derivative: Tensor, exact: Tensor, batch: int) -> None:
        """Take a step on some rows of a batch; ``exact`` are the embeddings that they had."""
        embedding = self.bottom(take(self._features, rows), training=True)
        direction = derivative * (batch / len(rows))
        pull = self._local_updates.pull
        if pull:
            direction += pull / len(rows) * (embedding.detach() - exact)
        torch.autograd.backward(embedding, direction)
        self.bottom.step()

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        own = {"downlink": self._downlink.state_dict(), "saliency": self._saliency}
        return super().state_dict() | own

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        self._downlink.load_state_dict(state["downlink"])
        self._saliency = state["saliency"]


class SplitLabelHolder(TrainingLabelHolder):
    """The label holder in the split exchange.

    Parameters
    ----------
    agreement, seat
        As for ``TrainingLabelHolder``.
    downlink
        The link that brings derivatives.
    """

    def __init__(self, agreement: Agreement, seat: HolderSeat, downlink: Link) -> None:
        super().__init__(agreement, seat)
        layout = agreement.layout
        self._local_updates = agreement.method.local_updates
        self._downlinks = {
            party: downlink.sender(layout.rows, width, f"label-holder/{party}/derivative")
            for party, width in layout.party_widths.items()
        }
        self._remembered: list[Batch] = []

    async def _train(self, rows: Rows, moment: Moment) -> None:
        own = await self._own(rows, moment)
        collected = await self._uplink.collect(rows, moment)
        bodies = await Work(
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
        for step, (some, kept) in enumerate(self._drawn(rows, collected), start=2):
            again = partial(self._local_step, some, kept)
            await Work("local_step", again, self.round, step=step, rows=len(some))

    def _drawn(self, rows: Rows, collected: Collected) -> list[Batch]:
        """Remember this round's batch as long as it may be of use, and draw those to go on with."""
        memory = self._local_updates.memory
        batches = [*self._remembered, (rows, collected)][-max(memory, 1) :]
        self._remembered = batches if memory else []
        key = StreamKey(self._seed, self.name, "replayed", self.round)
        return [batches[index] for index in self._local_updates.drawn(len(batches), key)]

    def _derive(
        self, collected: Collected, own: Tensor | None, rows: Rows, moment: Moment
    ) -> dict[str, bytes]:
        """Backpropagate the loss, and encode the derivative of each party that is owed one."""
        fused = collected.differentiable(own)
        self._note(self._backpropagate(fused.value, rows), rows)
        bodies = {}
        for party, derivative in fused.derivatives().items():
            key = moment.key(self._seed, self.name, f"{DERIVATIVE}/{party}")
            bodies[party] = self._downlinks[party].send(derivative, rows, key)
        return bodies

    def _local_step(self, rows: Rows, collected: Collected) -> None:
        self._backpropagate(collected.fuse(self._embed(rows)), rows)
        self._update()

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return super().state_dict() | {
            "downlinks": {party: link.state_dict() for party, link in self._downlinks.items()},
            "remembered": [(rows, collected.state_dict()) for rows, collected in self._remembered],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        for party, link in self._downlinks.items():
            link.load_state_dict(state["downlinks"][party])
        self._remembered = [
            (rows, self._uplink.recalled(kept)) for rows, kept in state["remembered"]
        ]
