"""Steps without an exchange of their own, as roles take them: one after another, or meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from colonnade.agreement import Agreement
from colonnade.effects import HELD_BACK, Arrivals, Effect, Expect, Ready, Receive, Work
from colonnade.links import Rows
from colonnade.roles.courses import Through

__all__ = ["LocalSteps", "Meanwhile", "of_local_steps"]

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")


class LocalSteps:
    """An organisation's local steps, counted for its reports.

    Parameters
    ----------
    agreement
        Whose policy of local updates it is.
    """

    def __init__(self, agreement: Agreement) -> None:
        self._any = bool(agreement.method.local_updates.kinds)
        self._count = 0

    async def take(self, step: Callable[[], None], round: int, number: int, rows: Rows) -> None:
        """Take step ``number`` of a round, on some rows."""
        await Work("local_step", step, round, step=number, rows=len(rows))
        self._count += 1

    def report(self) -> dict[str, float]:
        """Return how many there were since the last report; nothing where there never is one."""
        count, self._count = self._count, 0
        return {"local_steps": count} if self._any else {}

    def state_dict(self) -> dict[str, Any]:
        """Return what was counted since the last report."""
        return {"count": self._count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._count = state["count"]


def of_local_steps(report: Mapping[str, float]) -> dict[str, float]:
    """Return what a policy's half reports, under the names that it has in the history.

    >>> of_local_steps({"bubbles": 3})
    {'local_bubbles': 3}
    """
    return {f"local_{name}": value for name, value in report.items()}


class _Half(Protocol[S_co]):
    """What is asked of a policy's half: see ``local_updates.contract``."""

    @property
    def held_back(self) -> bool: ...


class Meanwhile(Generic[S]):
    """The local steps of a round, one at a time while messages are under way.

    A step that has begun is finished. When the policy has no step any more, or the messages are
    there, the role goes on.

    Parameters
    ----------
    half
        The organisation's half of the policy.
    steps
        The steps that it has now.
    take
        Takes a step, by its number in the round; the first is the exact one.
    taken
        How many were taken before.
    """

    def __init__(
        self,
        half: _Half[S],
        steps: Iterable[S],
        take: Callable[[S, int], Awaitable[None]],
        taken: int = 0,
    ) -> None:
        self._half = half
        self._upcoming = iter(steps)
        self._take = take
        self.taken = taken

    async def until(self, expect: Expect) -> None:
        """Take steps until a ``Receive`` of ``expect`` would return at once."""
        while not await Ready(expect):
            step = next(self._upcoming, None)
            if step is None:
                break
            await self._take(step, 2 + self.taken)
            self.taken += 1

    async def receive(self, expect: Expect) -> Arrivals:
        """Take steps until the messages are there, and return these."""
        return await self.during(_received(expect))

    async def during(self, course: Awaitable[T]) -> T:
        """Go through what the role does else, with steps whenever it waits for messages."""
        return await _Filled(course, self._before)

    async def idle(self, course: Awaitable[T]) -> T:
        """Go through what the role does else without a step, and call its waits by their reason."""
        return await _Filled(course, self._named)

    async def _before(self, receive: Receive) -> None:
        await self.until(receive.expect)
        await self._named(receive)

    async def _named(self, receive: Receive) -> None:
        if self._half.held_back:
            receive.waiting = HELD_BACK


async def _received(expect: Expect) -> Arrivals:
    return await Receive(expect)


class _Filled(Through[T]):
    """A course with something before each of its ``Receive``."""

    def __init__(self, course: Awaitable[T], before: Callable[[Receive], Awaitable[None]]) -> None:
        super().__init__(course)
        self._before = before

    def _met(self, effect: Effect[Any]) -> Generator[Effect[Any], Any, Any]:
        if isinstance(effect, Receive):
            yield from self._before(effect).__await__()
        return (yield effect)
