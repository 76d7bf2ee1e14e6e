"""Many rounds with checkpoints: memory, open files and threads stay what they were."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.checkpoints import CheckpointStore, Draft
from colonnade.costs import Modelled
from colonnade.drivers import Assignment, Driver, Processes, Simulate
from colonnade.effects import Boundary, Close, Expect, Receive, Send
from siege.attack import Attack, Found
from siege.memory import used

__all__ = ["LONG_RUNS"]

_MIB = 16  # that a process may grow by in the last nine tenths of a run, and
_A_ROUND = 512  # bytes besides for each round of these
_CHECKPOINTS = 20  # of which two come before the first look


class _Talking:
    """One of two roles that send each other a message a round."""

    def __init__(self, name: str, other: str, rounds: int) -> None:
        self.name, self.round = name, 0
        self._other, self._rounds = other, rounds
        self.used: list[tuple[int, int, int]] = []

    @property
    def peers(self) -> Sequence[str]:
        return (self._other,)

    async def run(self) -> None:
        while self.round < self._rounds:
            await Boundary(self.round)
            await Close(self.round)
            await Send(self._other, "number", self.round, bytes(100))
            await Receive(Expect("number", self.round, (self._other,)))
            self.round += 1
            if self.round in (self._rounds // 10 + 1, self._rounds):
                self.used.append(used())
        await Boundary(self.round)

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round, "used": self.used}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.round, self.used = state["round"], [tuple(used) for used in state["used"]]


class _Looking(CheckpointStore):
    """Checkpoints, with each of which it is looked what the process that writes them uses."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"run": "siege"})
        self.used: list[tuple[int, int, int]] = []

    def commit(self, draft: Draft, round: int, account: dict[str, Any]) -> None:
        super().commit(draft, round, account)
        self.used.append(used())


def _trial(found: Found, driver: Driver, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = _Looking(Path(folder))
        roles = [_Talking("a", "b", rounds), _Talking("b", "a", rounds)]
        every = max(1, rounds // _CHECKPOINTS)
        driver.run(roles, Assignment(store=store, checkpoint_every=every))
    of_all = {role.name: role.used for role in roles}
    if isinstance(driver, Processes):
        of_all["the first"] = [store.used[1], store.used[-1]]
    for early, late in of_all.values():
        grown = (late[0] - early[0]) / 1024
        told = f"{driver.label}, {rounds:,} rounds: {grown:+.0f} MiB, {late[1] - early[1]:+} files"
        allowed = _MIB + _A_ROUND * (rounds - rounds // 10) / 2**20
        if grown > allowed or late[1] > early[1] or late[2] > early[2]:
            found.fail(f"{told}, {late[2] - early[2]:+} threads")
        else:
            found.hold(told)


def _run(trials: int, seed: int) -> Found:
    found = Found()
    for driver in (Simulate(costs=Modelled(otherwise=0.001)), Processes()):
        _trial(found, driver, trials)
    return found


LONG_RUNS = Attack(
    "many rounds with checkpoints",
    f"a process grows by {_MIB} MiB at most and {_A_ROUND} bytes a round, by no file and no thread",
    100_000,
    _run,
)
