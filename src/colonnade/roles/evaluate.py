"""Evaluation on held-out rows: real messages, through the same uplink as training.

Parties evaluate their bottom models on the held-out rows and upload the embeddings, in pieces; the
label holder fuses, applies the top model, and reports the metrics. No derivative returns. The
messages carry the purpose EVALUATION, so that the ledger keeps them apart from training.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from colonnade.effects import Purpose, Work
from colonnade.links import Rows
from colonnade.models import Features, Learner
from colonnade.uplinks import Collector, Moment, Uploader

__all__ = ["EvaluationPlan", "Metrics", "evaluated", "upload_held_out"]

Metrics = Callable[[Tensor, Tensor], Mapping[str, float]]
"""From the top model's outputs and the labels of all held-out rows to named numbers."""


@dataclass(frozen=True)
class EvaluationPlan:
    """On which rows the model is evaluated, and after which rounds.

    Parameters
    ----------
    pieces
        The held-out row numbers, in pieces that travel as one message each.
    every
        Rounds between evaluations; the last round is always followed by one.
    rounds
        Rounds of the whole training.
    """

    pieces: Sequence[Rows]
    every: int
    rounds: int

    def due(self, done: int) -> bool:
        """Whether the model is evaluated when ``done`` rounds are done."""
        return bool(self.pieces) and (done % self.every == 0 or done == self.rounds)


async def upload_held_out(
    uplink: Uploader, bottom: Learner, features: Features, plan: EvaluationPlan, round: int
) -> None:
    """Play the party's part of an evaluation."""
    for part, rows in enumerate(plan.pieces):
        moment = Moment(round, Purpose.EVALUATION, part)
        await uplink.upload(bottom, features, rows, moment)


async def evaluated(
    uplink: Collector,
    own: Callable[[Rows, Moment], Awaitable[Tensor]] | None,
    top: Learner,
    labels: Tensor,
    metrics: Metrics,
    plan: EvaluationPlan,
    round: int,
) -> Mapping[str, float]:
    """Play the label holder's part of an evaluation, and return the metrics.

    ``own`` gives the label holder's own embedding of some rows, where it has features.
    """
    outputs = []
    for part, rows in enumerate(plan.pieces):
        moment = Moment(round, Purpose.EVALUATION, part)
        embedding = None if own is None else await own(rows, moment)
        fused = await uplink.collect(rows, embedding, moment)
        predict = partial(top, fused.value, training=False)
        outputs.append(await Work("top", predict, round, Purpose.EVALUATION, rows=len(rows)))
    held_out = torch.from_numpy(np.concatenate(plan.pieces))
    return await Work(
        "metrics",
        lambda: metrics(torch.cat(outputs), labels[held_out]),
        round,
        Purpose.EVALUATION,
        rows=len(held_out),
    )
