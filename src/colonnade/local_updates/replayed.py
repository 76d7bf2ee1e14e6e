"""Replayed: the label holder goes on with batches that it remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from colonnade.annotated import check_fields
from colonnade.errors import ConfigurationError
from colonnade.kernels.philox import permutation
from colonnade.local_updates.contract import (
    HolderBatch,
    HolderStep,
    HolderSteps,
    LocalStep,
    LocalUpdates,
)
from colonnade.streams import StreamKey
from colonnade.uplinks import Collected

__all__ = ["Replayed"]


@dataclass(frozen=True)
class Replayed(LocalUpdates):
    """One exact step for everybody, and more for the label holder, on embeddings it has already.

    After the step of a round it takes ``steps`` more of its own models, on batches that it draws
    from the last ``batches``, with their embeddings as received. Nobody sends or waits for it.

    Parameters
    ----------
    steps
        How many more steps a round.
    batches
        How many batches it remembers.

    Raises
    ------
    ConfigurationError
        If one of them is below 1.

    Examples
    --------
    >>> Replayed(steps=8).batches
    64
    """

    steps: int = 8
    batches: int = 64

    def __post_init__(self) -> None:
        check_fields(Replayed, self)
        for name in ("steps", "batches"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} to replay are 1 or more, not {value!r}")

    @property
    def kinds(self) -> frozenset[LocalStep]:
        """The label holder's."""
        return frozenset({LocalStep.STALE_EMBEDDINGS})

    def holder_steps(self) -> HolderSteps:
        """Make what remembers the last batches, and draws from them."""
        return _Replaying(self.steps, self.batches)


class _Replaying(HolderSteps):
    """The last batches, the oldest first."""

    def __init__(self, steps: int, batches: int) -> None:
        self._steps = steps
        self._most = batches
        self._left = 0
        self._remembered: list[HolderStep] = []

    @property
    def memory(self) -> int:
        """So many batches."""
        return self._most

    def add(self, batch: HolderBatch) -> None:
        """Remember the batch, and forget the oldest where they are too many."""
        self._left = self._steps
        last = HolderStep(batch.rows, batch.collected)
        self._remembered = [*self._remembered, last][-self._most :]

    def steps(self, key: StreamKey) -> Iterator[HolderStep]:
        """Yield batches in an order drawn from ``key``, each as often as the others, or almost."""
        kept = self._remembered
        order = permutation(key, len(kept)) if kept else ()
        while self._left:
            step = kept[order[(self._steps - self._left) % len(kept)]]
            self._left -= 1
            yield step

    def state_dict(self) -> dict[str, Any]:
        """Return the batches, and how many steps are left."""
        batches = [(kept.rows, kept.collected.state_dict()) for kept in self._remembered]
        return {"batches": batches, "left": self._left}

    def load_state_dict(
        self, state: Mapping[str, Any], recalled: Callable[[Mapping[str, Any]], Collected]
    ) -> None:
        """Restore them."""
        self._remembered = [HolderStep(rows, recalled(kept)) for rows, kept in state["batches"]]
        self._left = state["left"]
