"""What a driver keeps about one role besides the role's own state."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from colonnade.departures import Mark
from colonnade.effects import Role
from colonnade.errors import CheckpointError
from colonnade.journals import Journal
from colonnade.tallies import Tally
from colonnade.wire import Message, Purpose

__all__ = ["Account", "Activity", "Values"]

Values = Mapping[str, float | int | str]


@dataclass(slots=True)
class Activity:
    """Time that a role spent on one kind of activity, and how often it did."""

    count: int = 0
    nanoseconds: int = 0
    cpu_nanoseconds: int = 0


@dataclass
class Account:
    """What a driver keeps about one role besides the role's own state.

    Parameters
    ----------
    sequence
        The number of its next message.
    clock
        Its virtual clock, in nanoseconds.
    history
        Its reports.
    activities
        Its time by (purpose, kind).
    occupancy
        For each receiver, when each message still in the channel has been transmitted.
    ports
        Until when a gateway is busy, in nanoseconds: ``out`` and ``in``; and, where a channel has
        jitter, when the last message to a receiver arrives.
    entered
        When each message that came to this role's gateway will have passed it, in nanoseconds, by
        (sender, sequence), until it is taken or discarded.
    trained
        The last round in which it has worked for training on a virtual clock, -1 before the first;
        None where nobody counted.
    closed
        The role receives nothing of the rounds before this one any more.
    journal
        The ``extent`` of its journal, as of the last look, or as of what left after that; None if
        it never had one on disk.
    departed
        The ``mark`` of its departures, as of the last look.
    uncounted
        Whether messages left that no checkpoint and no file of departures knows of.
    fingerprint
        What a role that goes on from it must share, where the role told.
    anew
        Which of its messages set up anew what had been before it went on from a checkpoint: of each
        time the number of the first, and of the first after them.
    discarded
        What came to the role too late, by (sender, sequence), where it keeps its own checkpoints:
        whoever kept the senders' rows would enter it there.
    received
        How much has come from each role, where a player counts it: others tell what they have sent.
        None where an older checkpoint does not say.
    """

    sequence: int = 0
    clock: int = 0
    history: list[Values] = field(default_factory=list)
    activities: dict[tuple[Purpose, str], Activity] = field(default_factory=dict)
    occupancy: dict[str, deque[int]] = field(default_factory=dict)
    ports: dict[tuple[str, str], int] = field(default_factory=dict)
    entered: dict[tuple[str, int], int] = field(default_factory=dict)
    trained: int | None = None
    closed: int = 0
    journal: tuple[int, int] | None = None
    departed: Mark = field(default_factory=Mark)
    uncounted: bool = False
    fingerprint: str | None = None
    anew: list[tuple[int, int]] = field(default_factory=list)
    discarded: set[tuple[str, int]] = field(default_factory=set)
    received: dict[str, Tally] | None = field(default_factory=dict)

    def receive(self, message: Message, framed_bytes: int) -> None:
        """Enter a message that came, for which a stream carried so many bytes."""
        if self.received is not None:
            until = self.received.get(message.sender, Tally())
            self.received[message.sender] = until.after(
                message.kind,
                message.purpose,
                message.round,
                message.sequence,
                len(message.body),
                framed_bytes,
            )

    def belong(self, role: Role) -> None:
        """Enter of which role this is.

        Raises
        ------
        CheckpointError
            If it is of a role of another agreement, other data or another model.
        """
        mine: str | None = getattr(role, "fingerprint", None)  # not every role tells one
        if None not in (mine, self.fingerprint) and mine != self.fingerprint:
            raise CheckpointError(
                f"what a checkpoint holds of {role.name} was written in a run of "
                "another agreement, or with other data, another model, loss or optimiser; go on "
                "with those of the run"
            )
        self.fingerprint = mine or self.fingerprint

    def note(self, journal: Journal) -> None:
        """Enter how far a journal has come; one in memory leaves what is known of another."""
        self.journal = journal.extent or self.journal

    def report(
        self, name: str, values: Values, seconds: float | None, evaluating: float | None = None
    ) -> Values:
        """Enter what the role ``name`` reports, stamped.

        ``seconds`` is None without a clock; ``evaluating``, how many of them went into evaluations,
        where that is not told.
        """
        stamped = dict(values) | {"organisation": name}
        if seconds is not None:
            stamped["seconds"] = seconds
        if evaluating is not None:
            stamped["seconds_evaluation"] = evaluating
        self.history.append(stamped)
        return stamped

    def number(self, sequence: int) -> int:
        """Return the number that a message would have if nothing had been set up anew.

        >>> account = Account(anew=[(10, 13), (40, 43)])
        >>> [account.number(sequence) for sequence in (9, 13, 39, 43)]
        [9, 10, 36, 37]
        """
        return sequence - sum(after - first for first, after in self.anew if after <= sequence)

    def spend(self, purpose: Purpose, kind: str, nanoseconds: int, cpu: int = 0) -> None:
        """Enter time spent."""
        key = (purpose, kind)
        activity = self.activities.get(key)
        if activity is None:
            activity = self.activities[key] = Activity()
        activity.count += 1
        activity.nanoseconds += nanoseconds
        activity.cpu_nanoseconds += cpu

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain containers."""
        return {
            "sequence": self.sequence,
            "clock": self.clock,
            "history": [dict(values) for values in self.history],
            "activities": [
                [int(purpose), kind, a.count, a.nanoseconds, a.cpu_nanoseconds]
                for (purpose, kind), a in self.activities.items()
            ],
            "occupancy": {receiver: list(times) for receiver, times in self.occupancy.items()},
            "ports": [[*port, free] for port, free in self.ports.items()],
            "entered": [[*name, due] for name, due in self.entered.items()],
            "trained": self.trained,
            "closed": self.closed,
            "journal": self.journal and list(self.journal),
            "departed": list(self.departed),
            "uncounted": self.uncounted,
            "fingerprint": self.fingerprint,
            "anew": [list(each) for each in self.anew],
            "discarded": sorted(map(list, self.discarded)),
            "received": self.received and {name: [*n] for name, n in self.received.items()},
        }

    def packed(self) -> msgspec.Raw:
        """Return everything as bytes in a message, which are read where they are wanted."""
        return msgspec.Raw(msgspec.msgpack.encode(self.as_json()))

    @classmethod
    def told(cls, data: msgspec.Raw) -> Account:
        """Restore what ``packed`` returned elsewhere, at somebody who may say anything.

        Raises
        ------
        ValueError, TypeError
            If it returns no such thing.
        """
        try:
            told = _told(data)
        except RecursionError as error:
            raise ValueError(str(error)) from None
        return cls.from_json(msgspec.to_builtins(told))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Account:
        """Restore what ``as_json`` returned."""
        journal = data.get("journal")
        departed = data.get("departed", 0)  # a size alone in older checkpoints
        received = data.get("received")
        return cls(
            sequence=data["sequence"],
            clock=data["clock"],
            history=data["history"],
            activities={
                (Purpose(purpose), kind): Activity(*row)
                for purpose, kind, *row in data["activities"]
            },
            occupancy={receiver: deque(times) for receiver, times in data["occupancy"].items()},
            ports={(kind, name): free for kind, name, free in data.get("ports", [])},
            entered={(sender, sequence): due for sender, sequence, due in data.get("entered", [])},
            trained=data.get("trained"),  # this and what follows are absent from older checkpoints
            closed=data.get("closed", 0),
            journal=None if journal is None else (journal[0], journal[1]),
            departed=Mark(departed) if isinstance(departed, int) else Mark(*departed),
            uncounted=data.get("uncounted", False),
            fingerprint=data.get("fingerprint"),
            anew=[(first, after) for first, after in data.get("anew", [])],
            discarded={(sender, sequence) for sender, sequence in data.get("discarded", [])},
            received=received and {name: Tally(*tally) for name, tally in received.items()},
        )


_Name = Annotated[str, msgspec.Meta(max_length=200)]
_Text = Annotated[str, msgspec.Meta(max_length=2**16)]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
_Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Clock = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
_Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


_MANY = msgspec.Meta(max_length=2**20)
_PEERS = msgspec.Meta(max_length=2**16)  # and kinds of work, and columns of a report


class _Told(msgspec.Struct):
    """An account as it is told: nothing in it is beyond what arithmetic and files can take.

    That there is an end to each list is seen before memory is taken for it.
    """

    sequence: _Number
    clock: _Clock
    history: Annotated[list[Annotated[dict[_Name, float | _Whole | _Text], _PEERS]], _MANY]
    activities: Annotated[list[tuple[Purpose, _Name, _Number, _Seconds, _Seconds]], _PEERS]
    occupancy: Annotated[dict[_Name, Annotated[list[_Clock], _MANY]], _PEERS]
    ports: Annotated[list[tuple[_Name, _Name, _Clock]], _PEERS] = []  # msgspec copies defaults
    entered: Annotated[list[tuple[_Name, _Number, _Clock]], _MANY] = []
    trained: _Whole | None = None
    closed: _Whole = 0
    journal: tuple[_Number, _Number] | None = None
    departed: tuple[_Number, _Text] = (0, "")
    uncounted: bool = False
    fingerprint: _Name | None = None
    anew: Annotated[list[tuple[_Number, _Number]], _MANY] = []
    discarded: Annotated[list[tuple[_Name, _Number]], _MANY] = []
    received: Annotated[dict[_Name, Tally], _PEERS] | None = None


_told = msgspec.msgpack.Decoder(_Told).decode
