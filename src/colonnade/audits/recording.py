"""A driver that notes what derivatives say to the parties, while a run takes its course.

The roles play under another driver, which sees the very effects that they await; of each party's
work on a derivative the result is noted, as its link decoded it. Nothing is added, delayed or
drawn, so a run has the same bits with it as without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.batches import BatchPlan
from colonnade.channels import Network
from colonnade.drivers import Assignment, Driver, RunRecord
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
class Recording(Driver):
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

    driver: Driver
    batches: BatchPlan
    heard: dict[str, Derivatives] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """See ``Driver``."""
        return self.driver.label

    @property
    def clock(self) -> Mapping[str, str]:
        """See ``Driver``."""
        return self.driver.clock

    @property
    def network(self) -> Network | None:
        """See ``Driver``."""
        return self.driver.network

    @property
    def timing(self) -> str | None:
        """See ``Driver``."""
        return self.driver.timing

    @property
    def repeats(self) -> bool:
        """See ``Driver``."""
        return self.driver.repeats

    def run(self, roles: Sequence[Role], assignment: Assignment) -> RunRecord:
        """See ``Driver``."""
        return self.driver.run([_Overheard(role, self._note) for role in roles], assignment)

    def _note(self, name: str, round: int, derivative: Tensor) -> None:
        self.heard.setdefault(name, Derivatives(self.batches)).note(round, derivative)


class _Overheard:
    """A role whose work is watched."""

    def __init__(self, role: Role, note: Callable[[str, int, Tensor], None]) -> None:
        self.name = role.name
        self.peers = role.peers
        self.agreed = getattr(role, "agreed", "")
        self._role = role
        self._note = note

    @property
    def round(self) -> int:
        return self._role.round

    @round.setter
    def round(self, value: int) -> None:
        self._role.round = value

    async def run(self) -> None:
        await _Course(self._role, self._note)

    def state_dict(self) -> dict[str, Any]:
        return self._role.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._role.load_state_dict(state)


class _Course:
    """All effects of a role, passed on, and all answers, of which some are noted."""

    def __init__(self, role: Role, note: Callable[[str, int, Tensor], None]) -> None:
        self._role = role
        self._note = note

    def __await__(self) -> Generator[Effect[Any], Any, None]:
        course = self._role.run()
        step: Callable[[], Effect[Any]] = partial(course.send, None)
        try:
            while True:
                effect = step()
                try:
                    answer = yield effect
                except Exception as error:
                    step = partial(course.throw, error)
                    continue
                step = partial(course.send, answer)
                if isinstance(effect, Work) and effect.kind == _BACKWARD:
                    self._note(self._role.name, effect.round, answer)
        except StopIteration:
            return
        finally:
            course.close()
