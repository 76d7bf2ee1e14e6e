r"""The relay exchange: embeddings up, everybody's embeddings and the top model down.

Theory of operation. Before the first round every party is sent the labels of the training rows
(``shared_labels.py``). In each round, for a batch of B rows:

1. party m computes z_m = h_m(x_m) and sends it through its link: C(z_m);
2. the label holder tells every party of the others' embeddings (``relayed_embeddings.py``), and
   sends it the parameters of the top model through a link of its own: C_0(theta_0);
3. everyone takes Q steps on the batch: a party on its own parameters, with its own exact fresh
   z_m, the others' embeddings and the top model as received; the label holder on the exact top
   model (and a bottom of its own), with the embeddings as received.

This is C-VFL's Algorithm 1 (Castiglia et al., ICML 2022), with exact links FedBCD in relay form,
with error feedback EF-VFL's Algorithm 1 (Valdeira et al.). A party differentiates at its exact z_m:
nothing flows through a codec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.agreement import Agreement, HolderSeat, PartySeat, Shared
from colonnade.effects import Expect, Receive, Send, Work
from colonnade.links import Link, Rows
from colonnade.models import (
    Learner,
    copied,
    load_own_state,
    parameter_vector,
    put_parameters,
    take,
)
from colonnade.organisations import copied_loss
from colonnade.roles.blame import attributed, large_from, largest_embedding
from colonnade.roles.relayed_embeddings import EmbeddingsReceiver, EmbeddingsSender, FuseOwn
from colonnade.roles.rounds import TrainingLabelHolder, TrainingParty
from colonnade.roles.shared_labels import LabelsReceiver, LabelsSender
from colonnade.uplinks import Collected, Itemised, Moment
from colonnade.wire import reading

__all__ = ["TOP", "RelayLabelHolder", "RelayParty"]

TOP = "top"
_ONE = np.zeros(1, dtype=np.int64)  # the parameters of a top model are a table of one row


class RelayParty(TrainingParty):
    """A party in the relay exchange.

    Parameters
    ----------
    agreement, seat
        As for ``TrainingParty``.
    shared
        The loss, and the form of the top model.
    top
        The link that brings the top model's parameters.
    others
        Its half of how it learns of the others' embeddings.
    """

    def __init__(
        self,
        agreement: Agreement,
        seat: PartySeat,
        shared: Shared,
        top: Link,
        others: EmbeddingsReceiver,
    ) -> None:
        super().__init__(agreement, seat)
        self._steps = 1 + agreement.method.local_updates.repeats
        self._labels = LabelsReceiver(agreement)
        self._loss = copied_loss(self.name, shared.loss)
        # Only the label holder trains it.
        self._top = Learner(copied(shared.top), device=seat.own.device)
        self._top.module.requires_grad_(False)
        load_own_state(f"the top model of {self._label_holder!r}", self._top.module)
        self._fused: Callable[[], Tensor] | None = None  # what the others sent last, for errors
        self._top_link = top.receiver(1, agreement.parameters, f"parties/{self.name}/top")
        self._others = others
        self._saliency: Tensor | None = None

    async def _prepare(self) -> None:
        await super()._prepare()
        await self._labels.prepare()

    async def _train(self, rows: Rows, moment: Moment) -> None:
        embedding: Tensor | None = await self._attributed(
            self._uplink.upload(self.bottom, rows, moment, self._saliency)
        )
        fuse = await self._others.receive(self._uplink, rows, moment)
        arrivals = await Receive(Expect(TOP, self.round, (self._label_holder,)))
        await Work("decode", lambda: self._take_top(arrivals.only.body, moment), self.round, rows=1)
        exact = partial(self._step, embedding, fuse, rows)
        await Work("local_step", exact, self.round, step=1, rows=len(rows))
        again = partial(self._step, None, fuse, rows)  # with an embedding of its own
        for number in range(2, self._steps + 1):
            await self._local_steps.take(again, self.round, number, rows)

    def _take_top(self, body: bytes, moment: Moment) -> None:
        key = moment.key(self._seed, self._label_holder, TOP)
        with reading(self._label_holder, moment.round):
            parameters = self._top_link.receive(body, _ONE, key)[0]
        put_parameters(self._top.module, parameters)

    def _step(self, embedding: Tensor | None, fuse: FuseOwn, rows: Rows) -> None:
        """Take a step on its own parameters; the first one has the embedding that was sent."""
        if embedding is None:
            embedding = self._embed(take(self._features, rows), training=True)
        own = embedding.detach().requires_grad_()
        self._fused = partial(fuse, torch.zeros_like(own))
        # Copies, which top model and loss may write into.
        predictions = self._top(fuse(own).clone(), training=True)
        loss = self._loss(predictions.clone(), self._labels.of(rows))
        (derivative,) = torch.autograd.grad(loss, own)
        torch.autograd.backward(embedding, derivative)
        self.bottom.step()
        self._saliency = derivative.sum(dim=0).abs()

    def _at_fault(self) -> str:
        came = {"top model": parameter_vector(self._top.module)}
        if self._fused is not None:
            came["others' embeddings"] = self._fused()
        return large_from(self._label_holder, came)

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return super().state_dict() | {
            "top": self._top.state_dict(),
            "top_link": self._top_link.state_dict(),
            "others": self._others.state_dict(),
            "saliency": self._saliency,
            "labels": self._labels.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        self._top.load_state_dict(state["top"])
        self._top_link.load_state_dict(state["top_link"])
        self._others.load_state_dict(state["others"])
        self._saliency = state["saliency"]
        self._labels.load_state_dict(state["labels"])


class RelayLabelHolder(TrainingLabelHolder):
    """The label holder in the relay exchange.

    Parameters
    ----------
    agreement, seat
        As for ``TrainingLabelHolder``.
    top
        The link that brings the top model's parameters to all parties.
    others
        Its half of how parties learn of the others' embeddings.
    """

    def __init__(
        self, agreement: Agreement, seat: HolderSeat, top: Link, others: EmbeddingsSender
    ) -> None:
        super().__init__(agreement, seat)
        self._steps = 1 + agreement.method.local_updates.repeats
        self._others = others
        self._top_link = top.sender(1, agreement.parameters, "label-holder/top")
        self._sender = LabelsSender(agreement, self._labels)

    async def _prepare(self) -> None:
        await super()._prepare()
        await self._sender.prepare()

    async def _train(self, rows: Rows, moment: Moment) -> None:
        own = await self._own(rows, moment)
        collected = await self._uplink.collect(rows, moment)
        assert isinstance(collected, Itemised)  # as Relay demands of the uplink
        await self._others.send(collected, own, rows, moment)
        body = await Work("encode", lambda: self._encode_top(moment), self.round, rows=1)
        for party in self._parties:
            await Send(party, TOP, self.round, body)
        exact = partial(self._step, collected, own, rows, exact=True)
        await Work("local_step", exact, self.round, step=1, rows=len(rows))
        again = partial(self._step, collected, None, rows)  # with an embedding of its own
        for number in range(2, self._steps + 1):
            await self._local_steps.take(again, self.round, number, rows)

    def _encode_top(self, moment: Moment) -> bytes:
        key = moment.key(self._seed, self.name, TOP)
        return self._top_link.send(parameter_vector(self.top.module)[None], _ONE, key)

    def _step(
        self, collected: Collected, own: Tensor | None, rows: Rows, exact: bool = False
    ) -> None:
        """Take a step on top and own bottom; the first one has the embedding that was sent."""
        if own is None:
            own = self._embed(rows)
        with attributed(lambda: largest_embedding(collected.differentiable(own).leaves)):
            mean_loss = self._backpropagate(collected.fuse(own), rows)
        if exact:
            self._note(mean_loss, rows)
        self._update()

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return super().state_dict() | {
            "others": self._others.state_dict(),
            "top_link": self._top_link.state_dict(),
            "labels": self._sender.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        self._others.load_state_dict(state["others"])
        self._top_link.load_state_dict(state["top_link"])
        self._sender.load_state_dict(state["labels"])
