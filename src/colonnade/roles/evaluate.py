"""Evaluation on held-out rows: real messages, through the same uplink as training.

Parties evaluate their bottom models on the held-out rows and upload the embeddings, in pieces; the
label holder fuses, applies the top model, and reports the metrics. No derivative returns. The
messages carry the purpose EVALUATION, so that the ledger keeps them apart from training.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from colonnade.effects import Purpose, Work
from colonnade.links import Rows
from colonnade.models import Features, Learner
from colonnade.roles.stopping import EarlyStopping
from colonnade.uplinks import Collector, Moment, Uploader

__all__ = ["EvaluationPlan", "HeldOut", "Metrics", "Own", "evaluated", "outputs", "upload"]

Metrics = Callable[[Tensor, Tensor], Mapping[str, float]]
"""From the top model's outputs and the labels of all held-out rows to named numbers."""

Own = Callable[[Rows, Moment], Awaitable[Tensor]]
"""The label holder's own embedding of some rows."""


@dataclass(frozen=True)
class HeldOut:
    """Rows that are evaluated on and not trained on.

    Parameters
    ----------
    name
        What their metrics are called after: ``validation`` or ``test``.
    pieces
        Their row numbers, in pieces that travel as one message each; none for no evaluation.
    first_part
        The number of the first piece, which tells the messages of two evaluations of one round
        apart.
    """

    name: str
    pieces: Sequence[Rows] = ()
    first_part: int = 0

    def __bool__(self) -> bool:
        return bool(self.pieces)

    @property
    def rows(self) -> Rows:
        """All row numbers."""
        return np.concatenate(self.pieces)

    def moments(self, round: int, purpose: Purpose) -> list[tuple[Rows, Moment]]:
        """Return each piece with its place in the protocol."""
        return [
            (rows, Moment(round, purpose, part))
            for part, rows in enumerate(self.pieces, start=self.first_part)
        ]


@dataclass(frozen=True)
class EvaluationPlan:
    """On which rows the model is evaluated, after which rounds, and what follows from it.

    Parameters
    ----------
    watched
        The rows that are evaluated on as training goes.
    final
        The rows that the finished model is evaluated on, once.
    every
        Rounds between evaluations; the last round is always followed by one.
    rounds
        Rounds of the whole training.
    stopping
        Whether the evaluations may end training and decide which model counts.
    """

    watched: HeldOut
    final: HeldOut = field(default_factory=lambda: HeldOut("test"))
    every: int = 1
    rounds: int = 1
    stopping: EarlyStopping | None = None

    def due(self, done: int) -> bool:
        """Whether the model is evaluated when ``done`` rounds are done."""
        return bool(self.watched) and (done % self.every == 0 or done == self.rounds)


async def upload(
    uplink: Uploader,
    bottom: Learner,
    features: Features,
    held_out: HeldOut,
    round: int,
    purpose: Purpose = Purpose.EVALUATION,
) -> None:
    """Play the party's part: embed the rows and send the embeddings."""
    for rows, moment in held_out.moments(round, purpose):
        await uplink.upload(bottom, features, rows, moment)


async def outputs(
    uplink: Collector,
    own: Own | None,
    top: Learner,
    held_out: HeldOut,
    round: int,
    purpose: Purpose = Purpose.EVALUATION,
) -> Tensor:
    """Play the label holder's part: return the top model's outputs for all rows.

    ``own`` gives the label holder's own embedding of some rows, where it has features.
    """
    pieces = []
    for rows, moment in held_out.moments(round, purpose):
        embedding = None if own is None else await own(rows, moment)
        fused = await uplink.collect(rows, embedding, moment)
        predict = partial(top, fused.value, training=False)
        pieces.append(await Work("top", predict, round, purpose, rows=len(rows)))
    return torch.cat(pieces)


async def evaluated(
    uplink: Collector,
    own: Own | None,
    top: Learner,
    labels: Tensor,
    metrics: Metrics,
    held_out: HeldOut,
    round: int,
) -> dict[str, float]:
    """Return the metrics on held-out rows, each named after them: ``test_accuracy``."""
    predictions = await outputs(uplink, own, top, held_out, round)
    truth = labels[torch.from_numpy(held_out.rows)]
    values = await Work(
        "metrics",
        lambda: metrics(predictions, truth),
        round,
        Purpose.EVALUATION,
        rows=len(truth),
    )
    return {f"{held_out.name}_{metric}": value for metric, value in values.items()}
