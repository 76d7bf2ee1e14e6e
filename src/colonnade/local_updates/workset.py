"""Workset: every organisation goes on with batches that it remembers, by turns (CELU-VFL)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.errors import ConfigurationError
from colonnade.local_updates.contract import (
    HolderBatch,
    HolderStep,
    HolderSteps,
    LocalStep,
    LocalUpdates,
    PartyBatch,
    PartyStep,
    PartySteps,
)
from colonnade.local_updates.rotation import Rotation
from colonnade.local_updates.staleness import Cosines
from colonnade.streams import StreamKey
from colonnade.uplinks import Collected

__all__ = ["Workset"]

B = TypeVar("B", PartyBatch, HolderBatch)


@dataclass(frozen=True)
class Workset(LocalUpdates):
    r"""Local steps on the batches of recent rounds, by turns, rows weighted by how stale they are.

    CELU-VFL (Fu et al., VLDB 2022), Algorithm 1. Of the last W rounds each organisation remembers
    the batch: a party its rows, the embeddings z that it sent and the derivative d that it got, the
    label holder what it got and the exact derivatives. Each batch serves for R local steps, and
    rests for W - 1 after each. In a step on it

    - a party computes its embeddings z' anew, and backpropagates

      .. math:: w_n d_n, \qquad w_n = \cos(z'_n, z_n);

    - the label holder takes its own part and the top model anew, which gives derivatives d', and
      follows the gradient of

      .. math:: \frac{1}{B} \sum_n w_n \ell_n, \qquad w_n = \cos(d'_n, d_n),

      with the derivatives of all parties side by side, for a loss that is a mean over rows.

    w_n is 0 where the cosine is below ``min_cosine``. z is what the party computed, before a codec:
    the cosine tells how far its model has moved since, and not how coarse the codec is.

    With the exchange ``Split`` the steps come between the exact step of a round and the next
    message; W = 1 without weights is then ``Consecutive(R + 1)``. With ``Asynchronous`` they come
    while messages are under way.

    Parameters
    ----------
    capacity
        W, batches that are remembered; 1 uses each R times in a row.
    reuses
        R, local steps on a batch; 0 for none.
    min_cosine
        The least cosine that counts, cos(xi); None counts every row in full.
    bursts
        Whether more than R steps may follow one exact step, where batches have been waiting for it.

    Raises
    ------
    ConfigurationError
        If a value is out of range.

    Examples
    --------
    >>> Workset(capacity=5, reuses=5, min_cosine=0.5).party_steps().memory
    5
    >>> Workset(min_cosine=60)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: min_cosine is a cosine, from -1 to 1, or None, not 60; of 60 degrees it is 0.5
    """  # noqa: E501 - a message is one line

    capacity: int = 5
    reuses: int = 5
    min_cosine: float | None = 0.5
    bursts: bool = False

    def __post_init__(self) -> None:
        check_fields(Workset, self)
        for name, least in (("capacity", 1), ("reuses", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ConfigurationError(
                    f"the {name} of a workset is a whole number, {least} or more, not {value!r}"
                )
        cosine = self.min_cosine
        if cosine is not None and not -1 <= cosine <= 1:
            angle = "; of 60 degrees it is 0.5" if 1 < cosine <= 180 else ""
            raise ConfigurationError(
                f"min_cosine is a cosine, from -1 to 1, or None, not {cosine!r}{angle}"
            )

    @property
    def kinds(self) -> frozenset[LocalStep]:
        """The parties' and the label holder's, where there are any."""
        kinds = {LocalStep.STALE_DERIVATIVES, LocalStep.STALE_EMBEDDINGS}
        return frozenset(kinds if self.reuses else ())

    def party_steps(self) -> PartySteps:
        """Make a party's workset."""
        return _PartyWorkset(self) if self.reuses else super().party_steps()

    def holder_steps(self) -> HolderSteps:
        """Make the label holder's workset."""
        return _HolderWorkset(self) if self.reuses else super().holder_steps()


class _Workset(Generic[B]):
    """What both organisations' worksets have."""

    def __init__(self, policy: Workset) -> None:
        self._rotation: Rotation[B] = Rotation(policy.capacity, policy.reuses, policy.bursts)
        least = policy.min_cosine
        self._cosines = None if least is None else Cosines(least)
        self._told = (0, 0, 0)

    @property
    def memory(self) -> int:
        """So many batches."""
        return self._rotation.capacity

    @property
    def held_back(self) -> bool:
        """Whether a batch is left, but R steps followed the last exact one."""
        return self._rotation.held_back

    def add(self, batch: B) -> None:
        """Insert the batch, in place of what is too old."""
        self._rotation.insert(batch.round, batch)

    def report(self) -> dict[str, float]:
        """Return bubbles, uses of each batch that was dropped, and how stale rows were."""
        rotation = self._rotation
        now = (rotation.bubbles, rotation.dropped, rotation.uses)
        bubbles, dropped, uses = (a - b for a, b in zip(now, self._told, strict=True))
        self._told = now
        values: dict[str, float] = {"bubbles": bubbles}
        if dropped:
            values["uses_per_batch"] = uses / dropped
        return values | ({} if self._cosines is None else self._cosines.report())

    def state_dict(self) -> dict[str, Any]:
        """Return batches, clocks, and what is to be reported."""
        return {
            "rotation": self._rotation.state_dict(self._packed),
            "cosines": None if self._cosines is None else self._cosines.state_dict(),
            "told": list(self._told),
        }

    def _restore(self, state: Mapping[str, Any], unpack: Callable[[Any], B]) -> None:
        self._rotation.load_state_dict(state["rotation"], unpack)
        if self._cosines is not None:
            self._cosines.load_state_dict(state["cosines"])
        self._told = tuple(state["told"])

    @abstractmethod
    def _packed(self, batch: B) -> dict[str, Any]:
        """Return a batch as a checkpoint holds it."""


class _PartyWorkset(_Workset[PartyBatch], PartySteps):
    def steps(self, key: StreamKey) -> Iterator[PartyStep]:
        """Yield a step for each batch whose turn it is."""
        while (batch := self._rotation.draw()) is not None:
            yield PartyStep(batch.rows, partial(self._direction, batch))

    def _direction(self, batch: PartyBatch, fresh: Tensor) -> Tensor:
        if self._cosines is None:
            return batch.derivative
        weights = self._cosines.weights(fresh, batch.sent).unsqueeze(1)
        return torch.where(weights == 0, 0.0, weights * batch.derivative)

    def _packed(self, batch: PartyBatch) -> dict[str, Any]:
        return dict(vars(batch))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._restore(state, lambda packed: PartyBatch(**packed))


class _HolderWorkset(_Workset[HolderBatch], HolderSteps):
    @property
    def keeps_derivatives(self) -> bool:
        """Derivatives now are compared with those."""
        return True

    def add(self, batch: HolderBatch) -> None:
        """Insert the batch; a derivative that all parties share, as of a sum, is kept once.

        Copies side by side have the same cosine.
        """
        if len({id(derivative) for derivative in batch.derivatives.values()}) == 1:
            batch = replace(batch, derivatives=dict([*batch.derivatives.items()][:1]))
        super().add(batch)

    def steps(self, key: StreamKey) -> Iterator[HolderStep]:
        """Yield a step for each batch whose turn it is."""
        while (batch := self._rotation.draw()) is not None:
            weights = None if self._cosines is None else partial(self._weights, batch)
            yield HolderStep(batch.rows, batch.collected, weights)

    def _weights(self, batch: HolderBatch, fresh: Mapping[str, Tensor]) -> Tensor:
        assert self._cosines is not None
        sides = [
            [each[party] for party in batch.derivatives] for each in (fresh, batch.derivatives)
        ]
        now, then = (torch.cat(side, dim=1) for side in sides)
        return self._cosines.weights(now, then)

    def _packed(self, batch: HolderBatch) -> dict[str, Any]:
        return dict(vars(batch)) | {"collected": batch.collected.state_dict()}

    def load_state_dict(
        self, state: Mapping[str, Any], recalled: Callable[[Mapping[str, Any]], Collected]
    ) -> None:
        def unpacked(packed: Mapping[str, Any]) -> HolderBatch:
            return HolderBatch(**{**packed, "collected": recalled(packed["collected"])})

        self._restore(state, unpacked)
