"""What all drivers share: the run they are given, the record they return, and how work is done.

A driver steps the coroutines of roles and answers their effects. Drivers differ only in where time
and messages come from: ``simulate`` has a virtual clock, ``processes`` a process for each role and
sockets between them, ``replay`` the trace of an earlier run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import torch

from colonnade.channels import Network
from colonnade.checkpoints import Checkpoint, CheckpointStore
from colonnade.departures import lost_since
from colonnade.drawing import drawing_by
from colonnade.drivers.account import Account, Activity, Values
from colonnade.drivers.course import Decision
from colonnade.effects import KINDS_OF_SERVICE, Arrivals, Effect, Notes, Role, Send, Work
from colonnade.errors import ColonnadeError, ConfigurationError, Diverged, OutOfRange, RoleFailed
from colonnade.flows import Limits
from colonnade.ledger import Entry, Ledger
from colonnade.streams import work_seed
from colonnade.telling import named
from colonnade.wire import Message, carried_bytes, encode_header

__all__ = [
    "Assignment",
    "Decisions",
    "Discarded",
    "Driver",
    "Outbox",
    "Part",
    "RunRecord",
    "Trace",
    "agreements",
    "asked",
    "check_roles",
    "identities",
    "lost_before",
    "nobody_goes_on",
    "perform",
    "refuse_disagreement",
    "threads",
]

Decisions = Sequence[Decision]
Discarded = tuple[str, str, int]  # receiver, sender, sequence


def _ignore(*_: Any) -> None:
    """Do nothing with what is reported."""


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Assignment:
    """What a driver is asked to do besides stepping the roles.

    Parameters
    ----------
    seed
        The run's seed.
    threads
        Threads of torch's own operations, in every role. Results depend on it in the last bits,
        so it is part of a run's configuration.
    store
        Where checkpoints go; None for a run that keeps none.
    checkpoint_every
        Rounds between checkpoints; 0 for none but at an interruption and at the end.
    resume
        The checkpoint to go on from.
    kept_apart
        Whether each role keeps checkpoints of its own; ``store`` is then None.
    begins_at
        The round that roles go on from, where each has a checkpoint of its own.
    journals
        The folder of the organisations' journals, which a run shares with all that it is resumed
        by; None keeps what is committed in memory. One that holds less than when the checkpoint
        that is resumed was written, or a message left, is a ``CheckpointError``.
    departures
        The folder where is noted what leaves each organisation, as it leaves; None notes nothing.
        What is there beyond the checkpoint that is resumed, or beyond nothing, was lost, and is
        entered in the ledger as such.
    stop_before
        Stop at the boundary of this round, as an interruption would.
    interrupted
        Asked between rounds; once it says yes, the run stops at the next boundary that every role
        can still reach.
    on_round, on_report
        Called as the roles go: with a role's name, its round and the bytes of the bodies it has
        sent (since the start or the resume), and with a report's values.
    limits
        What a role accepts of the others.
    """

    seed: int = 0
    threads: int = 1
    store: CheckpointStore | None = None
    checkpoint_every: int = 0
    resume: Checkpoint | None = None
    kept_apart: bool = False
    begins_at: int = 0
    journals: Path | None = None
    departures: Path | None = None
    stop_before: int | None = None
    interrupted: Callable[[], bool] = _never
    on_round: Callable[[str, int, int], None] = _ignore
    on_report: Callable[[Values], None] = _ignore
    limits: Limits = field(default_factory=Limits)

    @property
    def first_round(self) -> int:
        """The round that the roles start from."""
        return self.resume.round if self.resume else self.begins_at

    @property
    def keeps(self) -> bool:
        """Whether the run writes checkpoints, or goes on from one."""
        return self.store is not None or self.resume is not None

    def checkpoint_due(self, round: int) -> bool:
        """Whether the boundary before ``round`` is one at which a checkpoint is planned."""
        return (
            self.store is not None
            and self.checkpoint_every > 0
            and round > self.first_round
            and round % self.checkpoint_every == 0
        )


@dataclass(frozen=True)
class Trace:
    """What each await was given: all that a run's course depends on besides its seed.

    Parameters
    ----------
    decisions
        For each role, in the order of its awaits: a bool for each ``Ready``, and for each
        ``Receive`` the (sender, sequence) of every message it took.
    notes
        For each role its incarnation, and what it remembered when it began.
    discarded
        The (receiver, sender, sequence) of every message that came too late, sorted. A replay
        finds them by itself.
    """

    decisions: Mapping[str, Decisions]
    notes: Mapping[str, Notes] = field(default_factory=dict)
    discarded: Sequence[Discarded] = ()


@dataclass
class RunRecord:
    """What happened in a run.

    Parameters
    ----------
    round
        The round that would come next.
    completed
        Whether every role played to its end.
    ledger
        Every message.
    history
        Every report, with ``organisation`` and with ``seconds`` on the driver's clock where it has
        one; role by role, in the order of the roles.
    trace
        What each await was given and what was discarded, since the start or the resume.
    activities
        Time by (role, purpose, kind of work, or ``"wait"``).
    seconds_virtual
        The last role's virtual clock, in seconds; None under a driver with no virtual clock.
    seconds_wall, seconds_cpu
        Measured seconds of the driver and all its roles, resumed parts added.
    socket_bytes
        Bytes that the operating system counted on each connection, by (sender, receiver), in
        this part of the run; empty where there are no sockets.
    uncounted
        Of whom messages were lost to a crash that are not all in the ledger.
    contradictions
        In a sentence each, how what some tell of the run is not what others tell, where
        organisations speak for themselves.
    """

    round: int
    completed: bool
    ledger: Ledger
    history: list[dict[str, float | int | str]]
    trace: Trace
    activities: dict[tuple[str, str, str], Activity]
    seconds_virtual: float | None
    seconds_wall: float
    seconds_cpu: float
    socket_bytes: dict[tuple[str, str], int] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()

    @property
    def discarded(self) -> list[Discarded]:
        """The (receiver, sender, sequence) of every message that came too late in the whole run."""
        return sorted((e.receiver, e.sender, e.sequence) for e in self.ledger if e.discarded)

    @classmethod
    def assembled(
        cls,
        parts: Mapping[str, Part],
        ledger: Ledger,
        discarded: Iterable[Discarded],
        *,
        seconds_virtual: float | None,
        seconds_wall: float,
        seconds_cpu: float,
        socket_bytes: Mapping[tuple[str, str], int] | None = None,
        contradictions: Iterable[str] = (),
    ) -> RunRecord:
        """Put together what a driver knows of each role, by its name, and of the whole."""
        return cls(
            round=min((part.round for part in parts.values()), default=0),
            completed=all(part.finished for part in parts.values()),
            ledger=ledger,
            # Who reported is known by whose account it is, whatever that says of itself.
            history=[
                {**values, "organisation": name}
                for name, part in parts.items()
                for values in part.account.history
            ],
            trace=Trace(
                {name: part.decisions for name, part in parts.items()},
                {name: part.notes for name, part in parts.items() if part.notes is not None},
                sorted(discarded),
            ),
            activities={
                (name, purpose.label, kind): activity
                for name, part in parts.items()
                for (purpose, kind), activity in part.account.activities.items()
            },
            seconds_virtual=seconds_virtual,
            seconds_wall=seconds_wall,
            seconds_cpu=seconds_cpu,
            socket_bytes=dict(socket_bytes or {}),
            uncounted=tuple(name for name, part in parts.items() if part.account.uncounted),
            contradictions=tuple(contradictions),
        )


@dataclass(frozen=True)
class Part:
    """What a driver knows of one role when a run has ended.

    Parameters
    ----------
    round
        The round that would come next.
    finished
        Whether it played to its end.
    account
        What the driver kept about it.
    decisions
        What its awaits were given.
    notes
        What it remembered when it began; None where that stays with the organisation.
    """

    round: int
    finished: bool
    account: Account
    decisions: Decisions
    notes: Notes | None


def checked_driver(value: object) -> Driver:
    """Return a driver as it is.

    Raises
    ------
    ConfigurationError
        If it is none, such as the name of one.

    Examples
    --------
    >>> checked_driver("simulate")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: driver is 'simulate', but a driver is a value: say \
colonnade.Simulate()
    """
    if isinstance(value, type) or not callable(getattr(value, "run", None)):
        name = getattr(value, "__name__", value)
        raise ConfigurationError(
            f"driver is {name!r}, but a driver is a value: say colonnade.Simulate()"
        )
    return cast("Driver", value)


class Driver(Protocol):
    """Runs roles to their end, or to an interruption.

    One that inherits from this class answers that times are real, and no two runs alike.
    """

    @property
    def label(self) -> str:
        """The name that summaries use."""
        ...

    @property
    def clock(self) -> Mapping[str, str]:
        """How seconds come about, as summaries tell it: ``network`` and ``compute``."""
        ...

    @property
    def network(self) -> Network | None:
        """The network that it models; None where messages travel as they do."""
        return None

    @property
    def timing(self) -> str | None:
        """What times are computed from, or that they are real; None where there are none."""
        return None

    @property
    def repeats(self) -> bool:
        """Whether a run whose course depends on time repeats to the bit."""
        return False

    def run(self, roles: Sequence[Role], assignment: Assignment) -> RunRecord:
        """Step ``roles``; afterwards their attributes hold the final state."""
        ...


def refuse_disagreement(agreed: Mapping[str, str]) -> None:
    """Raise ``ConfigurationError`` unless all roles were cast from the same agreement.

    Parameters
    ----------
    agreed
        The digest of each role's agreement, by its name, of those that have one.
    """
    said: dict[str, list[str]] = {}
    for name, digest in agreed.items():
        said.setdefault(digest, []).append(name)
    if len(said) > 1:
        groups = " and of ".join(" and ".join(map(repr, names)) for names in said.values())
        raise ConfigurationError(
            f"the agreements of {groups} differ: method, training, layout, numbers of parameters "
            "and rows must be the same everywhere"
        )


def check_roles(roles: Sequence[Any], *, elsewhere: bool = False) -> None:
    """Raise ``ConfigurationError`` unless these can be played here, and together.

    ``elsewhere`` tells that some of them may be descriptions, to be cast where they are played.
    """
    for role in roles:
        if not elsewhere and not hasattr(role, "run"):
            raise ConfigurationError(
                f"{role!r} is no role; Elsewhere describes one that Processes alone can play"
            )
    names = [role.name for role in roles]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(
            f"several roles have the name {' and '.join(map(repr, twice))}; each needs its own"
        )
    refuse_disagreement(agreements(roles))


def agreements(roles: Iterable[object]) -> dict[str, str]:
    """Return the digests of the agreements that roles were cast from, by their names."""
    return {role.name: role.agreed for role in roles if isinstance(role, _Agreed)}


@runtime_checkable
class _Agreed(Protocol):
    name: str
    agreed: str


def nobody_goes_on(waits: Sequence[str], finished: Sequence[str]) -> str:
    """Return what a ``Deadlock`` says, from what each role waits for and who has finished."""
    told = [*waits, *([f"finished: {', '.join(finished)}"] if finished else [])]
    return "no message is under way, but " + "; ".join(told)


class Outbox:
    """Numbers a role's messages and enters them in its ledger."""

    def __init__(self, name: str, ledger: Ledger, sequence: int = 0) -> None:
        self.name = name
        self.sequence = sequence
        self.sent_bytes = 0
        self._record = ledger.record

    def stamp(self, send: Send, now: int | None) -> tuple[Message, bytes, tuple[Any, ...]]:
        """Enter what is sent in the ledger; return the message, its header and its row there."""
        header = encode_header(send.kind, send.purpose, send.round, self.sequence, send.part)
        size = len(send.body)
        head = (self.name, send.receiver, send.kind)
        tail = (send.round, self.sequence)
        row = (*head, int(send.purpose), *tail, size, carried_bytes(header, size), now)
        self._record(row)
        message = Message(*head, send.purpose, *tail, send.body, send.part)
        self.sequence += 1
        self.sent_bytes += size
        return message, header, row


def lost_before(
    assignment: Assignment,
    names: Iterable[str],
    accounts: dict[str, Account],
    receivers: Iterable[str] | None = None,
) -> Iterator[Entry]:
    """Return what each role had sent that the checkpoint to go on from does not know of.

    Where that may not be all of it, the role's account says so from now on; and how far its journal
    had come by then. They may have sent to ``receivers``, by default to each other.
    """
    if assignment.departures is None:
        return
    names = list(names)
    known = names if receivers is None else list(receivers)
    for name in names:
        account = accounts.setdefault(name, Account())
        found = lost_since(assignment.departures, name, account.departed, account.sequence, known)
        account.uncounted = account.uncounted or not found.is_all
        noted = [extent for extent in (account.journal, found.journal) if extent is not None]
        account.journal = max(noted, default=None)
        yield from found.lost


def asked(role: Role, course: Coroutine[Effect[Any], Any, None], answer: Any) -> Effect[Any]:
    """Hand a role the answer to what it asked for last, and return what it asks for next.

    Raises
    ------
    StopIteration
        If it has played to its end; nothing else of a role's ends so.
    RoleFailed
        If something raised that is not Colonnade's own.
    """
    try:
        return course.send(answer)
    except (StopIteration, ColonnadeError):
        raise
    except Exception as error:  # models, optimisers, schedulers are somebody's own
        raise RoleFailed(f"{role.name} failed in round {role.round}: {named(error)}") from error


def perform(work: Work[Any], role: str, seed: int) -> tuple[Any, int]:
    """Seed torch for this piece of work, do it, and return its result and its CPU nanoseconds.

    Other threads' work waits meanwhile, but for what may wait for somebody itself, and draws
    nothing: ``KINDS_OF_SERVICE``.

    Raises
    ------
    RoleFailed
        If something raised that is not Colonnade's own.
    """
    if work.kind in KINDS_OF_SERVICE:
        return _performed(work, role)
    words = work_seed(seed, role, work.purpose.name, work.round, work.step)
    with drawing_by(words):  # whoever trains goes on to draw what he would have drawn
        return _performed(work, role)


def _performed(work: Work[Any], role: str) -> tuple[Any, int]:
    start = time.thread_time_ns()
    try:
        result = work.function()
    except ConfigurationError as error:  # which a mechanism raises that does not know whose it is
        raise ConfigurationError(f"at {role}: {error}") from error
    except (Diverged, OutOfRange) as error:
        raise type(error)(f"at {role}, in round {work.round}: {error}") from error
    except ColonnadeError:
        raise
    except Exception as error:  # models, losses, optimisers are somebody's own
        where = f"at {work.kind!r} in round {work.round} ({work.purpose.label})"
        raise RoleFailed(f"{role} failed {where}: {named(error)}") from error
    return result, time.thread_time_ns() - start


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use ``count`` threads within an operation, as long as the context lasts."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def identities(arrivals: Arrivals) -> tuple[tuple[str, int], ...]:
    """Return what a trace records of a ``Receive``."""
    return tuple([(message.sender, message.sequence) for message in arrivals.messages])
