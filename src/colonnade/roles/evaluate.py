"""Evaluation on held-out rows: real messages, through the same uplink as training.

Parties evaluate their bottom models on the held-out rows and upload the embeddings, in pieces; the
label holder fuses, applies the top model, and reports the metrics. No derivative returns. The
messages carry the purpose EVALUATION, so that the ledger keeps them apart from training.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from colonnade.effects import Purpose, Work
from colonnade.evaluation import HeldOut
from colonnade.links import Rows
from colonnade.metrics import Metric
from colonnade.models import Learner
from colonnade.uplinks import Collected, Collector, Moment, Uploader

__all__ = ["Heed", "Own", "evaluated", "outputs", "upload"]

Own = Callable[[Rows, Moment], Awaitable[Tensor | None]]
"""The label holder's own embedding of some rows; None where it has no columns."""

Heed = Callable[[Tensor, Collected, Tensor | None, Rows], None]
"""What is done about the top model's outputs, of the embeddings and the own one of some rows."""


def _nothing(said: Tensor, collected: Collected, own: Tensor | None, rows: Rows) -> None:
    """Do nothing about them."""


async def upload(
    uploader: Uploader,
    bottom: Learner,
    held_out: HeldOut,
    round: int,
    purpose: Purpose = Purpose.EVALUATION,
) -> None:
    """Play the party's part: embed the rows and send the embeddings."""
    for rows, moment in held_out.moments(round, purpose):
        await uploader.upload(bottom, rows, moment)


async def outputs(
    collector: Collector,
    own: Own,
    top: Learner,
    held_out: HeldOut,
    round: int,
    purpose: Purpose = Purpose.EVALUATION,
    heed: Heed = _nothing,
) -> Tensor:
    """Play the label holder's part: return the top model's outputs for all rows.

    ``own`` gives the label holder's own embedding of some rows; ``heed`` is called with each piece.
    """
    pieces = []
    for rows, moment in held_out.moments(round, purpose):
        embedding = await own(rows, moment)
        collected = await collector.collect(rows, moment)
        predict = partial(_predicted, collected, embedding, top, rows, heed)
        pieces.append(await Work("top", predict, round, purpose, rows=len(rows)))
    return torch.cat(pieces)


def _predicted(
    collected: Collected, own: Tensor | None, top: Learner, rows: Rows, heed: Heed
) -> Tensor:
    said = top(collected.fuse(own).clone(), training=False)  # which it may write into
    heed(said, collected, own, rows)
    return said


async def evaluated(
    collector: Collector,
    own: Own,
    top: Learner,
    labels: Tensor,
    metrics: Sequence[Metric],
    held_out: HeldOut,
    round: int,
) -> dict[str, float]:
    """Return the metrics on held-out rows, each named after them: ``test_accuracy``."""
    predictions = await outputs(collector, own, top, held_out, round)
    truth = labels[torch.from_numpy(held_out.rows)]
    values = await Work(
        "metrics",
        lambda: {metric.name: metric(predictions, truth) for metric in metrics},
        round,
        Purpose.EVALUATION,
        rows=len(truth),
    )
    return {f"{held_out.name}_{metric}": value for metric, value in values.items()}
