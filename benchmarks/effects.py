"""What the simulator costs besides the work it simulates: microseconds of CPU a message.

    python benchmarks/effects.py

Two roles send each other empty messages; a hub exchanges messages with 28 parties, as a label
holder does. Aim: at most 10 us a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from colonnade.channels import Channel, Network
from colonnade.drivers import Assignment, Simulate
from colonnade.effects import Boundary, Expect, Receive, Role, Send, Work
from timing import cpu_seconds


class Hub:
    """Receives from everybody, works, answers everybody."""

    def __init__(self, parties: Sequence[str], rounds: int, work: bool) -> None:
        self.name = "hub"
        self.round = 0
        self.peers = tuple(parties)
        self._rounds = rounds
        self._work = work

    async def run(self) -> None:
        while self.round < self._rounds:
            await Boundary(self.round)
            await Receive(Expect("up", self.round, self.peers))
            if self._work:
                await Work("work", lambda: None, self.round)
            for party in self.peers:
                await Send(party, "down", self.round, b"")
            self.round += 1

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Spoke(Hub):
    """Works, sends to the hub, waits for its answer."""

    def __init__(self, name: str, rounds: int, work: bool) -> None:
        super().__init__(("hub",), rounds, work)
        self.name = name

    async def run(self) -> None:
        while self.round < self._rounds:
            await Boundary(self.round)
            if self._work:
                await Work("work", lambda: None, self.round)
            await Send("hub", "up", self.round, b"")
            await Receive(Expect("down", self.round, ("hub",)))
            self.round += 1


def main() -> None:
    torch.set_num_threads(1)
    network = Network(Channel(bandwidth=300e6, latency=0.01))
    print(f"{'parties':>8} {'work':>5} {'us a message':>13}")
    for parties, rounds in ((1, 2000), (4, 500), (28, 100)):
        for work in (False, True):

            def run(parties: int = parties, rounds: int = rounds, work: bool = work) -> None:
                names = [f"party_{i}" for i in range(parties)]
                roles: list[Role] = [Spoke(name, rounds, work) for name in names]
                roles.append(Hub(names, rounds, work))
                Simulate(network).run(roles, Assignment())

            seconds = cpu_seconds({"run": run}, repeats=7)["run"]
            micros = seconds / rounds / parties / 2e-6
            print(f"{parties:8} {'yes' if work else 'no':>5} {micros:13.2f}")


if __name__ == "__main__":
    main()
