"""Small roles to test drivers with; no model, no torch beyond its seeding."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from colonnade.effects import (
    Arrivals,
    Boundary,
    Close,
    Commit,
    Expect,
    Recall,
    Receive,
    Report,
    Send,
    Work,
)

Script = Callable[["Scripted"], Awaitable[None]]


class Scripted:
    """A role that plays a function; ``seen`` is whatever the function notes."""

    def __init__(self, name: str, script: Script, peers: Sequence[str] = ()) -> None:
        self.name = name
        self.round = 0
        self.seen: list[Any] = []
        self._script = script
        self._peers = tuple(peers)

    @property
    def peers(self) -> Sequence[str]:
        return self._peers

    async def run(self) -> None:
        await self._script(self)

    async def work(self, kind: str = "work", rows: int = 0) -> None:
        await Work(kind, lambda: None, self.round, rows=rows)

    async def note_time(self, name: str) -> None:
        """The driver stamps reports with its clock; that is how a test reads it."""
        await Report({"at": name})

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round, "seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.round, self.seen = state["round"], list(state["seen"])


class Counter:
    """One of two roles that send each other numbers, a round at a time, ``ahead`` rounds ahead.

    With ``ahead`` > 0 messages are under way at every boundary.
    """

    def __init__(self, name: str, peer: str, rounds: int, ahead: int = 0) -> None:
        self.name = name
        self.round = 0
        self.total = 1 if name < peer else 2
        self._peer = peer
        self._rounds = rounds
        self._ahead = ahead
        self._sent = 0

    @property
    def peers(self) -> Sequence[str]:
        return (self._peer,)

    async def run(self) -> None:
        while self.round < self._rounds:
            await Boundary(self.round)
            while self._sent <= min(self.round + self._ahead, self._rounds - 1):
                body = await Work("count", lambda: self.total.to_bytes(8, "little"), self.round)
                await Send(self._peer, "number", self._sent, body)
                self._sent += 1
            got: Arrivals = await Receive(Expect("number", self.round, (self._peer,)))
            self.total = (self.total * 31 + int.from_bytes(got.only.body, "little")) % 2**61
            await Report({"round": self.round, "total": self.total})
            self.round += 1
        await Boundary(self.round)

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round, "total": self.total, "sent": self._sent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.round, self.total, self._sent = state["round"], state["total"], state["sent"]


class Careful(Counter):
    """A counter that commits every round before it sends, and recalls before and after."""

    def __init__(self, name: str, peer: str, rounds: int, ahead: int = 0) -> None:
        super().__init__(name, peer, rounds, ahead)
        self.seen: list[list[int]] = []

    async def run(self) -> None:
        notes = await Recall()
        self.seen.append([notes.incarnation, len(notes.records)])
        while self.round < self._rounds:
            await Boundary(self.round)
            await Commit({"round": self.round, "by": self.name, "body": b"\x00"})
            self.round += 1
            notes = await Recall()
            assert notes.records[-1]["round"] == self.round - 1
            self.total = (self.total * 31 + len(notes.records) + notes.incarnation) % 2**61
        await Boundary(self.round)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.seen = list(state["seen"])


class Late:
    """One of three roles, of which ``slow`` sends what ``hub`` never waits for.

    Each round ``quick`` sends a number and ``hub`` takes it; ``slow`` sends too, for the round that
    is ``behind`` rounds back. The hub closes what is over.
    """

    def __init__(self, name: str, rounds: int, behind: int = 1) -> None:
        self.name = name
        self.round = 0
        self.total = 0
        self._rounds = rounds
        self._behind = behind

    @property
    def peers(self) -> Sequence[str]:
        return ("quick", "slow") if self.name == "hub" else ("hub",)

    async def run(self) -> None:
        while self.round < self._rounds:
            await Boundary(self.round)
            await Close(self.round)
            if self.name == "hub":
                got = await Receive(Expect("number", self.round, ("quick",)))
                self.total = self.total * 31 % 2**61 + len(got.only.body)
                await Send("quick", "reply", self.round, b"")
                await Send("slow", "reply", self.round, b"")
            else:
                late = self._behind if self.name == "slow" else 0
                await Work("count", lambda: None, self.round)
                await Send("hub", "number", max(0, self.round - late), bytes(self.round % 5))
                await Receive(Expect("reply", self.round, ("hub",)))
            self.round += 1
        await Boundary(self.round)
        await Close(self.round)

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round, "total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.round, self.total = state["round"], state["total"]
