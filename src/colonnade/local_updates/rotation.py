"""Batches taken in turn: CELU-VFL's workset table, with its round-robin law and its two clocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Rotation"]

T = TypeVar("T")


@dataclass
class _Entry(Generic[T]):
    round: int
    batch: T
    uses: int = 0
    last: int | None = None  # the local step that used it last


class Rotation(Generic[T]):
    """The batches of recent rounds, each for some local steps, none twice while others rest.

    Two clocks run: rounds, by which batches are inserted and grow old, and local steps, by which
    they rest. A batch of round t is dropped when one of a round after t + W - 1 is inserted, or
    after R uses; it rests for W - 1 local steps after each. Of those that may be used, the least
    used is next, of these the oldest. Where all rest there is no step: a *bubble*.

    Parameters
    ----------
    capacity
        W.
    reuses
        R, above 0.
    bursts
        Whether more than R steps may follow one insertion, where batches are left for it.

    Examples
    --------
    >>> rotation = Rotation(capacity=2, reuses=2)
    >>> taken = []
    >>> for round in range(3):
    ...     rotation.insert(round, f"batch {round}")
    ...     while (batch := rotation.draw()) is not None:
    ...         taken.append(batch)
    >>> taken, rotation.bubbles
    (['batch 0', 'batch 1', 'batch 0', 'batch 2', 'batch 1'], 1)
    """

    def __init__(self, capacity: int, reuses: int, bursts: bool = False) -> None:
        self.capacity = capacity
        self.reuses = reuses
        self.bursts = bursts
        self.bubbles = 0
        self.steps = 0
        self.dropped = 0
        self.uses = 0
        self._entries: list[_Entry[T]] = []  # the oldest first
        self._since = 0  # steps since the last insertion

    def __len__(self) -> int:
        return len(self._entries)

    def insert(self, round: int, batch: T) -> None:
        """Add the batch of a round, and drop those that are too old beside it."""
        oldest = round - self.capacity + 1
        self._drop(lambda entry: entry.round < oldest)
        self._entries.append(_Entry(round, batch))
        self._since = 0

    def draw(self) -> T | None:
        """Return the batch of the next local step; None where there is no step now."""
        if self._bounded:
            return None
        rested = self._rested()
        if not rested:
            self.bubbles += bool(self._entries)
            return None
        entry = min(rested, key=lambda each: each.uses)  # of equals the first, which is the oldest
        entry.uses += 1
        entry.last = self.steps
        self.steps += 1
        self._since += 1
        self._drop(lambda each: each.uses >= self.reuses)
        return entry.batch

    @property
    def held_back(self) -> bool:
        """Whether a batch has rested and is left, but R steps followed the last insertion."""
        return self._bounded and bool(self._rested())

    @property
    def _bounded(self) -> bool:
        return self._since >= self.reuses and not self.bursts

    def _rested(self) -> list[_Entry[T]]:
        return [
            entry
            for entry in self._entries
            if entry.last is None or self.steps - entry.last >= self.capacity
        ]

    def _drop(self, unwanted: Callable[[_Entry[T]], bool]) -> None:
        kept = []
        for entry in self._entries:
            if unwanted(entry):
                self.dropped += 1
                self.uses += entry.uses
            else:
                kept.append(entry)
        self._entries = kept

    def state_dict(self, pack: Callable[[T], Any]) -> dict[str, Any]:
        """Return all of it, each batch as ``pack`` makes it."""
        return {
            "clocks": [self.bubbles, self.steps, self.dropped, self.uses, self._since],
            "entries": [
                [entry.round, pack(entry.batch), entry.uses, entry.last] for entry in self._entries
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any], unpack: Callable[[Any], T]) -> None:
        """Restore what ``state_dict`` returned."""
        self.bubbles, self.steps, self.dropped, self.uses, self._since = state["clocks"]
        self._entries = [
            _Entry(round, unpack(batch), uses, last)
            for round, batch, uses, last in state["entries"]
        ]
