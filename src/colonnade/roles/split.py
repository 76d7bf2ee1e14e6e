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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from colonnade.batches import BatchPlan
from colonnade.effects import Boundary, Expect, Purpose, Receive, Report, Send, Work
from colonnade.errors import Diverged
from colonnade.links import LinkReceiver, LinkSender, Rows
from colonnade.models import Features, Learner, take
from colonnade.roles.evaluate import EvaluationPlan, HeldOut, Metrics, evaluated, upload
from colonnade.roles.stopping import (
    BestParts,
    Judge,
    Verdict,
    decode_verdict,
    encode_verdict,
)
from colonnade.uplinks import Collector, Fused, Moment, Uploader

__all__ = ["SplitLabelHolder", "SplitParty"]

KIND = "derivative"
VERDICT = "verdict"
Loss = Callable[[Tensor, Tensor], Tensor]


class SplitParty:
    """A party in the split exchange.

    Parameters
    ----------
    name, label_holder
        Its own name, and that of the label holder.
    bottom
        Its bottom model.
    features
        Its columns, a row for each aligned sample.
    batches, evaluation
        Which rows are used when.
    uplink
        Its half of the uplink.
    downlink
        The receiving end of the link that brings its derivatives.
    seed
        The run's seed.
    """

    def __init__(
        self,
        name: str,
        label_holder: str,
        bottom: Learner,
        features: Features,
        batches: BatchPlan,
        evaluation: EvaluationPlan,
        uplink: Uploader,
        downlink: LinkReceiver,
        seed: int,
    ) -> None:
        self.name = name
        self.round = 0
        self.bottom = bottom
        self._label_holder = label_holder
        self._features = features
        self._batches = batches
        self._evaluation = evaluation
        self._uplink = uplink
        self._downlink = downlink
        self._seed = seed
        self._stopped = False
        self._best = BestParts([bottom])

    @property
    def peers(self) -> Sequence[str]:
        """The label holder alone."""
        return (self._label_holder,)

    def done(self) -> bool:
        """Whether the last round is over, or training was stopped."""
        return self._stopped or self.round >= self._batches.rounds

    async def run(self) -> None:
        """Train from ``self.round`` to the last round, or until the label holder stops it."""
        while not self.done():
            await Boundary(self.round)
            await self._train()
            self.round += 1
            if self._batches.ends_epoch(self.round):
                self.bottom.end_epoch()
            if self._evaluation.due(self.round):
                await self._upload(self._evaluation.watched)
                await self._obey()
            if self.done():
                self._best.put_back()
                await self._upload(self._evaluation.final)
        await Boundary(self.round)

    async def _upload(self, held_out: HeldOut) -> None:
        await upload(self._uplink, self.bottom, self._features, held_out, self.round)

    async def _obey(self) -> None:
        """Do as the label holder's verdict on this evaluation says."""
        if self._evaluation.stopping is None:
            return
        expect = Expect(VERDICT, self.round, (self._label_holder,), Purpose.EVALUATION)
        arrivals = await Receive(expect)
        verdict = decode_verdict(arrivals.only.body)
        if Verdict.BEST in verdict:
            self._best.keep()
        self._stopped = Verdict.STOP in verdict

    async def _train(self) -> None:
        moment = Moment(self.round)
        rows = self._batches.rows(self.round)
        embedding = await self._uplink.upload(self.bottom, self._features, rows, moment)
        arrivals = await Receive(Expect(KIND, self.round, (self._label_holder,)))
        await Work(
            "backward",
            lambda: self._update(embedding, arrivals.only.body, rows, moment),
            self.round,
            rows=len(rows),
        )

    def _update(self, embedding: Tensor, body: bytes, rows: Rows, moment: Moment) -> None:
        key = moment.key(self._seed, self._label_holder, f"{KIND}/{self.name}")
        derivative = self._downlink.receive(body, rows, key)
        torch.autograd.backward(embedding, derivative)
        self.bottom.step()

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return {
            "round": self.round,
            "bottom": self.bottom.state_dict(),
            "uplink": self._uplink.state_dict(),
            "downlink": self._downlink.state_dict(),
            "stopped": self._stopped,
            "best": self._best.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.round = state["round"]
        self.bottom.load_state_dict(state["bottom"])
        self._uplink.load_state_dict(state["uplink"])
        self._downlink.load_state_dict(state["downlink"])
        self._stopped = state["stopped"]
        self._best.load_state_dict(state["best"])


class SplitLabelHolder:
    """The label holder in the split exchange.

    Parameters
    ----------
    name
        Its name.
    top
        The top model, from fused embeddings to predictions.
    labels
        A label for each aligned sample.
    loss
        From predictions and labels of a batch to its mean loss.
    bottom, features
        Its own bottom model and columns; both None when it has labels only.
    batches, evaluation
        Which rows are used when.
    uplink
        Its half of the uplink.
    downlinks
        For each party, the sending end of the link that brings its derivatives.
    metrics
        What is reported of an evaluation.
    judge
        Decides what an evaluation means for going on; None where training just runs its course.
    seed
        The run's seed.
    """

    def __init__(
        self,
        name: str,
        top: Learner,
        labels: Tensor,
        loss: Loss,
        bottom: Learner | None,
        features: Features | None,
        batches: BatchPlan,
        evaluation: EvaluationPlan,
        uplink: Collector,
        downlinks: Mapping[str, LinkSender],
        metrics: Metrics,
        judge: Judge | None,
        seed: int,
    ) -> None:
        self.name = name
        self.round = 0
        self.top = top
        self.bottom = bottom
        self.judge = judge
        self._labels = labels
        self._loss = loss
        self._features = features
        self._batches = batches
        self._evaluation = evaluation
        self._uplink = uplink
        self._downlinks = downlinks
        self._metrics = metrics
        self._seed = seed
        # The loss of each row since the last report, summed in double precision.
        self._loss_sum = 0.0
        self._loss_rows = 0
        self._stopped = False
        self._best = BestParts([top] if bottom is None else [top, bottom])

    @property
    def peers(self) -> Sequence[str]:
        """Every party."""
        return tuple(self._downlinks)

    def done(self) -> bool:
        """Whether the last round is over, or training was stopped."""
        return self._stopped or self.round >= self._batches.rounds

    async def run(self) -> None:
        """Train from ``self.round`` to the last round, or until its own judge stops it."""
        while not self.done():
            await Boundary(self.round)
            await self._train()
            self.round += 1
            if self._batches.ends_epoch(self.round):
                self._end_epoch()
            values: dict[str, float] = {}
            if self._evaluation.due(self.round):
                values = await self._evaluated(self._evaluation.watched)
                await self._pass_judgement(values)
            if self.done():
                self._best.put_back()
                if self._evaluation.final:
                    values |= await self._evaluated(self._evaluation.final)
            if values or self.done():
                await self._report(values)
        await Boundary(self.round)

    async def _train(self) -> None:
        moment = Moment(self.round)
        rows = self._batches.rows(self.round)
        own = None if self.bottom is None else await self._own(rows, moment)
        fused = await self._uplink.collect(rows, own, moment)
        bodies = await Work(
            "top", lambda: self._derive(fused, rows, moment), self.round, step=1, rows=len(rows)
        )
        for party, body in bodies.items():
            await Send(party, KIND, self.round, body)
        # The parties wait for their derivatives: the own step comes after they are sent.
        await Work("update", self._update, self.round, rows=len(rows))

    async def _own(self, rows: Rows, moment: Moment) -> Tensor:
        bottom, features = self.bottom, self._features
        assert bottom is not None
        assert features is not None
        training = moment.purpose is Purpose.TRAINING
        return await Work(
            "forward",
            lambda: bottom(take(features, rows), training),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )

    def _derive(self, fused: Fused, rows: Rows, moment: Moment) -> dict[str, bytes]:
        """Backpropagate the loss, and encode each party's derivative."""
        predictions = self.top(fused.value, training=True)
        loss = self._loss(predictions, self._labels[torch.from_numpy(rows)])
        torch.autograd.backward(loss)
        mean_loss = loss.item()
        if not math.isfinite(mean_loss):
            raise Diverged(
                f"the loss is {mean_loss} in round {self.round}; try a smaller learning rate"
            )
        self._loss_sum += mean_loss * len(rows)
        self._loss_rows += len(rows)
        bodies = {}
        for party, derivative in fused.derivatives().items():
            key = moment.key(self._seed, self.name, f"{KIND}/{party}")
            bodies[party] = self._downlinks[party].send(derivative, rows, key)
        return bodies

    def _update(self) -> None:
        self.top.step()
        if self.bottom is not None:
            self.bottom.step()

    def _end_epoch(self) -> None:
        self.top.end_epoch()
        if self.bottom is not None:
            self.bottom.end_epoch()

    async def _evaluated(self, held_out: HeldOut) -> dict[str, float]:
        return await evaluated(
            self._uplink,
            None if self.bottom is None else self._own,
            self.top,
            self._labels,
            self._metrics,
            held_out,
            self.round,
        )

    async def _pass_judgement(self, values: Mapping[str, float]) -> None:
        """Tell every party what the evaluation means, and do it oneself."""
        if self.judge is None:
            return
        verdict = self.judge.hear(self.round, values)
        for party in self._downlinks:
            body = encode_verdict(verdict)
            await Send(party, VERDICT, self.round, body, Purpose.EVALUATION)
        if Verdict.BEST in verdict:
            self._best.keep()
        self._stopped = Verdict.STOP in verdict

    async def _report(self, values: Mapping[str, float]) -> None:
        progress: dict[str, float | int | str] = {
            "round": self.round,
            "epoch": self.round / self._batches.rounds_per_epoch,
            "train_loss": self._loss_sum / max(self._loss_rows, 1),
        }
        if self.top.learning_rate is not None:
            progress["learning_rate"] = self.top.learning_rate
        self._loss_sum, self._loss_rows = 0.0, 0
        await Report(progress | dict(values))

    def state_dict(self) -> dict[str, Any]:
        """Return all durable state."""
        return {
            "round": self.round,
            "top": self.top.state_dict(),
            "bottom": {} if self.bottom is None else self.bottom.state_dict(),
            "uplink": self._uplink.state_dict(),
            "downlinks": {party: link.state_dict() for party, link in self._downlinks.items()},
            "loss": [self._loss_sum, self._loss_rows],
            "stopped": self._stopped,
            "best": self._best.state_dict(),
            "judge": {} if self.judge is None else self.judge.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.round = state["round"]
        self.top.load_state_dict(state["top"])
        if self.bottom is not None:
            self.bottom.load_state_dict(state["bottom"])
        self._uplink.load_state_dict(state["uplink"])
        for party, link in self._downlinks.items():
            link.load_state_dict(state["downlinks"][party])
        self._loss_sum, self._loss_rows = state["loss"]
        self._stopped = state["stopped"]
        self._best.load_state_dict(state["best"])
        if self.judge is not None:
            self.judge.load_state_dict(state["judge"])
