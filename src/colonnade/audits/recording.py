"""A driver that notes what derivatives say to the parties, while a run takes its course.

The roles play under another driver, which sees the very effects that they await; of each party's
work on a derivative the result is noted, as its link decoded it. Nothing is added, delayed or
drawn, so a run has the same bits with it as without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.batches import BatchPlan
from colonnade.drivers.around import Around, Before
from colonnade.effects import Effect, Role, Work
from colonnade.links import Rows

__all__ = ["Derivatives", "Recording"]

_BACKWARD = "backward"  # the work of a party that takes a derivative in


class Derivatives:
    """What one party was told: in the first epoch, in the last, and of each row in all together.

    Parameters
    ----------
    batches
        Which rows a round is about.
    """

    def __init__(self, batches: BatchPlan) -> None:
        epoch = range(batches.rounds_per_epoch)
        self.first: list[tuple[int, Tensor]] = []
        self.last: deque[tuple[int, Tensor]] = deque(maxlen=len(epoch))
        self._batches = batches
        self._rows = np.sort(np.concatenate([batches.rows(round) for round in epoch]))
        self._counts = torch.zeros(len(self._rows), 1, dtype=torch.float64)
        self._sums = self._counts

    def note(self, round: int, derivative: Tensor) -> None:
        """Note the derivative of a round, ``[B, E]``."""
        noted = (round, derivative.detach().cpu().clone())
        if round < self._batches.rounds_per_epoch:
            self.first.append(noted)
        self.last.append(noted)
        places = torch.from_numpy(np.searchsorted(self._rows, self._batches.rows(round)))
        own = noted[1].double() * len(places)
        if self._sums is self._counts:
            self._sums = torch.zeros(len(self._rows), own.shape[1], dtype=torch.float64)
        self._sums[places] += own
        self._counts[places] += 1

    def mean(self) -> tuple[Rows, Tensor]:
        """Return the rows of which something was told, and of each the mean of its own loss's."""
        told = self._counts[:, 0] > 0
        return self._rows[told.numpy()], self._sums[told] / self._counts[told]


@dataclass(frozen=True)
class Recording(Around):
    """Another driver, of which all roles play in this process, with a recorder.

    Parameters
    ----------
    driver
        How the roles are run.
    batches
        Which rows a round is about: an epoch of rounds is kept of the beginning and of the end.
    heard
        By organisation, what was noted; filled as the run goes.
    """

    batches: BatchPlan
    heard: dict[str, Derivatives] = field(default_factory=dict)

    def instead(self, role: Role) -> Role:
        """Return a role whose work is watched."""
        return _Overheard(role, self._note)

    def _note(self, name: str, round: int, derivative: Tensor) -> None:
        self.heard.setdefault(name, Derivatives(self.batches)).note(round, derivative)


class _Overheard(Before):
    """A role whose work is watched."""

    def __init__(self, role: Role, note: Callable[[str, int, Tensor], None]) -> None:
        super().__init__(role)
        self._note = note

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        answer = yield effect
        if isinstance(effect, Work) and effect.kind == _BACKWARD:
            self._note(self.role.name, effect.round, answer)
        return answer
