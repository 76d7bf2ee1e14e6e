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

With Q local steps it is FedBCD(Q): after the exact step everyone takes Q - 1 more on the same batch
before the next exchange, a party with its fresh z_m and the d_m it got, the label holder with its
fresh top model and own embedding and the z_1 ... z_M it got. With ``Replayed`` the label holder
alone takes more steps, on batches of earlier rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from colonnade.effects import Expect, Receive, Send, Work
from colonnade.kernels.philox import permutation
from colonnade.links import LinkReceiver, LinkSender, Rows
from colonnade.local_updates import Consecutive, LocalUpdates, Replayed
from colonnade.models import take
from colonnade.roles.rounds import TrainingLabelHolder, TrainingParty
from colonnade.streams import StreamKey
from colonnade.uplinks import Fused, Moment

__all__ = ["SplitLabelHolder", "SplitParty"]

KIND = "derivative"

Batch = tuple[Rows, tuple[Tensor, ...]]
"""Rows, and the parties' embeddings of them as received."""


class SplitParty(TrainingParty):
    """A party in the split exchange.

    Parameters
    ----------
    downlink
        The receiving end of the link that brings its derivatives.
    correction
        By how much of z - C(z) it corrects the derivative that was taken at C(z).
    local_updates
        Which steps follow an exchange.
    **around
        As for ``TrainingParty``.
    """

    def __init__(
        self,
        downlink: LinkReceiver,
        correction: float,
        local_updates: LocalUpdates,
        **around: Any,
    ) -> None:
        super().__init__(**around)
        self._correction = correction
        self._local_updates = local_updates
        self._downlink = downlink
        self._saliency: Tensor | None = None

    async def _train(self, rows: Rows, moment: Moment) -> None:
        embedding = await self._uplink.upload(
            self.bottom, self._features, rows, moment, self._saliency
        )
        arrivals = await Receive(Expect(KIND, self.round, (self._label_holder,)))
        derivative = await Work(
            "backward",
            lambda: self._update(embedding, arrivals.only.body, rows, moment),
            self.round,
            rows=len(rows),
        )
        match self._local_updates:
            case Consecutive(steps):
                for step in range(1, steps):
                    again = partial(self._local_step, rows, derivative)
                    await Work("local_step", again, self.round, step=step + 1, rows=len(rows))

    def _update(self, embedding: Tensor, body: bytes, rows: Rows, moment: Moment) -> Tensor:
        """Take the exact step, and return the derivative."""
        key = moment.key(self._seed, self._label_holder, f"{KIND}/{self.name}")
        derivative = self._downlink.receive(body, rows, key)
        if self._correction:
            derivative += self._correction * (embedding.detach() - self._uplink.delivered())
        torch.autograd.backward(embedding, derivative)
        self.bottom.step()
        self._saliency = derivative.sum(dim=0).abs()
        return derivative

    def _local_step(self, rows: Rows, derivative: Tensor) -> None:
        embedding = self.bottom(take(self._features, rows), training=True)
        torch.autograd.backward(embedding, derivative)
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
    downlinks
        For each party, the sending end of the link that brings its derivatives.
    local_updates
        Which steps follow an exchange.
    **around
        As for ``TrainingLabelHolder``.
    """

    def __init__(
        self, downlinks: Mapping[str, LinkSender], local_updates: LocalUpdates, **around: Any
    ) -> None:
        super().__init__(**around)
        self._local_updates = local_updates
        self._downlinks = downlinks
        self._remembered: list[Batch] = []

    async def _train(self, rows: Rows, moment: Moment) -> None:
        own = None if self.bottom is None else await self._own(rows, moment)
        fused = await self._uplink.collect(rows, own, moment)
        bodies = await Work(
            "top", lambda: self._derive(fused, rows, moment), self.round, step=1, rows=len(rows)
        )
        for party, body in bodies.items():
            await Send(party, KIND, self.round, body)
        # The parties wait for their derivatives: the own step comes after they are sent.
        await Work("update", self._update, self.round, rows=len(rows))
        match self._local_updates:
            case Consecutive(steps):
                batches = [(rows, fused.constants())] * (steps - 1)
            case Replayed() as replayed:
                batches = self._drawn(replayed, rows, fused)
        for step, (some, received) in enumerate(batches, start=2):
            again = partial(self._local_step, some, received)
            await Work("local_step", again, self.round, step=step, rows=len(some))

    def _drawn(self, replayed: Replayed, rows: Rows, fused: Fused) -> list[Batch]:
        """Remember this round's batch, and draw from those remembered, as evenly as can be."""
        self._remembered = [*self._remembered, (rows, fused.constants())][-replayed.batches :]
        count = len(self._remembered)
        order = permutation(StreamKey(self._seed, self.name, "replayed", self.round), count)
        return [self._remembered[order[step % count]] for step in range(replayed.steps)]

    def _derive(self, fused: Fused, rows: Rows, moment: Moment) -> dict[str, bytes]:
        """Backpropagate the loss, and encode each party's derivative."""
        self._note(self._backpropagate(fused.value, rows), rows)
        bodies = {}
        for party, derivative in fused.derivatives().items():
            key = moment.key(self._seed, self.name, f"{KIND}/{party}")
            bodies[party] = self._downlinks[party].send(derivative, rows, key)
        return bodies

    def _local_step(self, rows: Rows, received: Sequence[Tensor]) -> None:
        own = [] if self.bottom is None else [self._embed(rows)]
        self._backpropagate(self._uplink.fusion([*received, *own]), rows)
        self._update()

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return super().state_dict() | {
            "downlinks": {party: link.state_dict() for party, link in self._downlinks.items()},
            "remembered": self._remembered,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        for party, link in self._downlinks.items():
            link.load_state_dict(state["downlinks"][party])
        self._remembered = [(rows, tuple(received)) for rows, received in state["remembered"]]
