"""Proximal: many small steps of each party for one derivative."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.errors import ConfigurationError
from colonnade.kernels.philox import permutation
from colonnade.local_updates.contract import (
    HolderSteps,
    LocalStep,
    LocalUpdates,
    PartyBatch,
    PartyStep,
    PartySteps,
)
from colonnade.local_updates.replayed import Replayed
from colonnade.streams import StreamKey

__all__ = ["Places", "Proximal"]

Places = NDArray[np.int64]
"""Places of rows within a batch, from 0."""

_MOST = 2.0**23  # 1 over what float32 rounds of a number near 1


@dataclass(frozen=True)
class Proximal(LocalUpdates):
    r"""Many small steps of each party for one derivative, held near where it was taken.

    A derivative says where to go from z_i^0, the embeddings that were sent; a repeated one
    (``Consecutive``) is trusted however far they have gone since. Here a party takes, after the
    exact step, ``passes`` times one step for each part S of ``rows`` rows of the batch, down the
    gradient of

    .. math:: \frac{1}{|S|} \sum_{i \in S} \left( \langle B d_i, z_i \rangle
        + \frac{\lambda}{2} \lVert z_i - z_i^0 \rVert^2 \right),

    with B d_i the derivative of row i's own loss. So few large batches train like many small ones,
    for the same bytes and fewer messages.

    Parameters
    ----------
    passes
        Times that a party goes through the batch after the exact step.
    rows
        Rows of each of its steps.
    pull
        lambda, above 0, up to 2^23: about the curvature of a row's loss in its embedding.
    label_holder
        What the label holder goes on with meanwhile, by default its last batches.

    Raises
    ------
    ConfigurationError
        If a value is out of range, or the label holder's steps are not its alone.

    Examples
    --------
    >>> policy = Proximal(passes=2, rows=32)
    >>> len([*policy.parts(256, StreamKey(0, "bank", "example", 0))])
    16
    """

    passes: int = 2
    rows: int = 32
    pull: float = 0.03
    label_holder: LocalUpdates = field(default_factory=Replayed)

    def __post_init__(self) -> None:
        check_fields(Proximal, self)
        for name in ("passes", "rows"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} of proximal steps are 1 or more, not {value!r}")
        if not 0 < self.pull < math.inf:
            raise ConfigurationError(
                f"the pull of proximal steps is above 0, not {self.pull!r}: without any, take "
                "Consecutive(...)"
            )
        if self.pull > _MOST:
            raise ConfigurationError(
                f"the pull of proximal steps is 2^23 at most, not {self.pull!r}: beyond, what "
                "float32 rounds of an embedding pulls more than a derivative; take about the "
                "curvature of a row's loss in its embedding, as 0.03"
            )
        if not self.label_holder.kinds <= {LocalStep.STALE_EMBEDDINGS}:
            raise ConfigurationError(
                f"beside proximal steps the label holder goes on alone, by Replayed(...), or not "
                f"at all, by Consecutive(): not by {self.label_holder!r}"
            )

    @property
    def kinds(self) -> frozenset[LocalStep]:
        """The parties', and what the label holder goes on with."""
        return self.label_holder.kinds | {LocalStep.STALE_DERIVATIVES}

    def parts(self, rows: int, key: StreamKey) -> Iterator[Places]:
        """Yield the batch in parts, in an order drawn from ``key``, again in each pass."""
        for number in range(self.passes):
            order = permutation(replace(key, part=number), rows)
            for start in range(0, rows, self.rows):
                yield order[start : start + self.rows]

    def least_rows(self, batch: int) -> int:
        """Return the rows of the last part."""
        return batch % self.rows or min(batch, self.rows)

    def party_steps(self) -> PartySteps:
        """Make what goes through the batch of the round, part by part."""
        return _InParts(self)

    def holder_steps(self) -> HolderSteps:
        """As of the label holder's policy."""
        return self.label_holder.holder_steps()


class _InParts(PartySteps):
    """The last batch, until all its parts were gone through."""

    def __init__(self, policy: Proximal) -> None:
        self._policy = policy
        self._batch: PartyBatch | None = None
        self._taken = 0  # steps on it

    @property
    def memory(self) -> int:
        """One batch, where its steps wait for the next message to be on its way."""
        return 1

    def add(self, batch: PartyBatch) -> None:
        """Take the batch in place of the last one."""
        self._batch, self._taken = batch, 0

    def steps(self, key: StreamKey) -> Iterator[PartyStep]:
        """Yield a step for each part."""
        batch = self._batch
        if batch is None:
            return
        for part in islice(self._policy.parts(len(batch.rows), key), self._taken, None):
            self._taken += 1
            scale = len(batch.rows) / len(part)
            pull = self._policy.pull / len(part)
            derivative, sent = batch.derivative[part], batch.sent[part]
            yield PartyStep(batch.rows[part], partial(_held, derivative * scale, sent, pull))
        self._batch = None

    def state_dict(self) -> dict[str, Any]:
        """Return the batch, and how many steps were taken on it."""
        return {"batch": None if self._batch is None else vars(self._batch), "taken": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        batch = state["batch"]
        self._batch = None if batch is None else PartyBatch(**batch)
        self._taken = state["taken"]


def _held(direction: Tensor, sent: Tensor, pull: float, fresh: Tensor) -> Tensor:
    """Return the direction, and back towards what was sent."""
    return direction + pull * (fresh - sent)
