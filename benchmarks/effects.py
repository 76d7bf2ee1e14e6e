"""What the simulator costs besides the work it simulates: microseconds of CPU a message.

    python benchmarks/effects.py

Two roles send each other empty messages; a hub exchanges messages with 28 parties, as a label
holder does. With "close" every role closes each round, and then nothing is late. Aim: at most 10 us
a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from colonnade.channels import Channel, Network
from colonnade.drivers import Assignment, Simulate
from colonnade.effects import Boundary, Close, Expect, Receive, Role, Send, Work
from timing import cpu_seconds


class Hub:
    """Receives from everybody, works, answers everybody."""

    def __init__(self, parties: Sequence[str], rounds: int, work: bool, close: bool) -> None:
        self.name = "hub"
        self.round = 0
        self.peers = tuple(parties)
        self._rounds = rounds
        self._work = work
        self._close = close

    async def run(self) -> None:
        while self.round < self._rounds:
            await Boundary(self.round)
            if self._close:
                await Close(self.round)
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

    def __init__(self, name: str, rounds: int, work: bool, close: bool) -> None:
        super().__init__(("hub",), rounds, work, close)
        self.name = name

    async def run(self) -> None:
        while self.round < self._rounds:
            await Boundary(self.round)
            if self._close:
                await Close(self.round)
            if self._work:
                await Work("work", lambda: None, self.round)
            await Send("hub", "up", self.round, b"")
            await Receive(Expect("down", self.round, ("hub",)))
            self.round += 1


def main() -> None:
    torch.set_num_threads(1)
    network = Network(Channel(bandwidth=300e6, latency=0.01))
    print(f"{'parties':>8} {'work':>5} {'close':>6} {'us a message':>13}")
    for parties, rounds in ((1, 2000), (4, 500), (28, 100)):
        for work, close in ((False, False), (False, True), (True, False), (True, True)):

            def run(
                parties: int = parties,
                rounds: int = rounds,
                work: bool = work,
                close: bool = close,
            ) -> None:
                names = [f"party_{i}" for i in range(parties)]
                roles: list[Role] = [Spoke(name, rounds, work, close) for name in names]
                roles.append(Hub(names, rounds, work, close))
                Simulate(network).run(roles, Assignment())

            seconds = cpu_seconds({"run": run}, repeats=7)["run"]
            micros = seconds / rounds / parties / 2e-6
            words = [("no", "yes")[flag] for flag in (work, close)]
            print(f"{parties:8} {words[0]:>5} {words[1]:>6} {micros:13.2f}")


if __name__ == "__main__":
    main()
