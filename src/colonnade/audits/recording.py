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

from torch import Tensor

from colonnade.channels import Network
from colonnade.drivers import Assignment, Driver, RunRecord
from colonnade.effects import Effect, Role, Work

__all__ = ["Derivatives", "Recording"]

_BACKWARD = "backward"  # the work of a party that takes a derivative in


@dataclass
class Derivatives:
    """What one party was told, in the first epoch and in the last.

    Parameters
    ----------
    rounds
        Of an epoch.
    """

    rounds: int
    first: list[tuple[int, Tensor]] = field(default_factory=list)
    last: deque[tuple[int, Tensor]] = field(default_factory=deque)

    def note(self, round: int, derivative: Tensor) -> None:
        """Note the derivative of a round, ``[B, E]``."""
        noted = (round, derivative.detach().cpu().clone())
        if round < self.rounds:
            self.first.append(noted)
        self.last.append(noted)
        if len(self.last) > self.rounds:
            self.last.popleft()


@dataclass(frozen=True)
class Recording(Driver):
    """Another driver, of which all roles play in this process, with a recorder.

    Parameters
    ----------
    driver
        How the roles are run.
    rounds
        Of an epoch: so many are kept of the beginning and of the end.
    heard
        By organisation, what was noted; filled as the run goes.
    """

    driver: Driver
    rounds: int
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
        self.heard.setdefault(name, Derivatives(self.rounds)).note(round, derivative)


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
