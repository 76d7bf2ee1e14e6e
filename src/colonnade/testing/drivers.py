"""What every driver must do, whatever time and messages are to it: a kit.

Each function in ``DRIVER_CHECKS`` takes a ``DriverSubject``, a driver and what a test must know of
it, and asserts one part of what roles may rely on (``colonnade.effects``). With pytest::

    @pytest.mark.parametrize("check", DRIVER_CHECKS)
    def test_my_driver_conforms(check, tmp_path):
        check(DriverSubject(MyDriver()), tmp_path)

or, without, ``check_driver(DriverSubject(MyDriver()), Path("somewhere"))``. The roles played here
are small and use no model, and every outcome is compared with the simulator's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from colonnade.channels import Network
from colonnade.checkpoints import CheckpointStore
from colonnade.costs import Modelled
from colonnade.drivers import Assignment, Driver, Replay, RunRecord, Simulate
from colonnade.effects import (
    Attempt,
    Boundary,
    Close,
    Commit,
    Expect,
    Purpose,
    Ready,
    Recall,
    Receive,
    Report,
    Role,
    Send,
    Since,
    Work,
)
from colonnade.errors import (
    ColonnadeError,
    Deadlock,
    Diverged,
    RemoteProtocolError,
    RoleFailed,
)
from colonnade.flows import Limits

__all__ = ["DRIVER_CHECKS", "DriverSubject", "check_driver"]

_NAMES = ("bank", "hospital", "shop")
_REFERENCE = Simulate(costs=Modelled(otherwise=0.001))


@dataclass(frozen=True)
class DriverSubject:
    """A driver, and what a test must know of it.

    Parameters
    ----------
    driver
        The driver.
    resumes
        Whether it keeps checkpoints and goes on from them.
    patience
        Seconds in which it finds out that nobody will ever go on.
    """

    driver: Driver
    resumes: bool = True
    patience: float = 60.0

    def __str__(self) -> str:
        return self.driver.label


class _Talker:
    """One of three roles that tell each other numbers, some rounds ahead, and note what they hear.

    It awaits every effect that there is: what it becomes depends on every answer, and on what
    torch draws.
    """

    def __init__(self, name: str, rounds: int, ahead: int = 0, fails_in: int = -1) -> None:
        self.name = name
        self.round = 0
        self.total = _NAMES.index(name) + 1
        self.incarnations: list[int] = []
        self.remembered: list[int] = []
        self._rounds = rounds
        self._ahead = ahead
        self._sent = 0
        self._fails_in = fails_in

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(name for name in _NAMES if name != self.name)

    async def run(self) -> None:
        notes = await Recall()
        self.incarnations = [*self.incarnations, notes.incarnation]
        self.remembered = [record["round"] for record in notes.records]
        while self.round < self._rounds:
            await Boundary(self.round)
            await Close(self.round)
            await Commit({"round": self.round})
            while self._sent <= min(self.round + self._ahead, self._rounds - 1):
                body = await Work("encode", self._encode, self._sent)
                for peer in self.peers:
                    await Send(peer, "number", self._sent, body)
                    await Send(peer, "unread", self._sent, body, Purpose.EVALUATION)
                self._sent += 1
            await self._listen()
            await self._try()
            if self.round == self._fails_in:
                raise Diverged(f"{self.name} failed in round {self.round}")
            await Report({"round": self.round, "total": self.total})
            self.round += 1
        await Boundary(self.round)

    def _encode(self) -> bytes:
        return (self.total + int(torch.randint(2**31, ()))).to_bytes(8, "little")

    async def _listen(self) -> None:
        expect = Expect(("number", "other"), self.round, self.peers)
        got = await Receive(expect)
        heard = [message.sender for message in got]
        assert heard == list(self.peers), f"messages came in the order {heard}"
        assert all(message.round == self.round for message in got), "of another round"
        assert not await Ready(expect), "a message that was taken is still there"
        for message in got:
            self.total = (self.total * 31 + int.from_bytes(message.body, "little")) % 2**61

    async def _try(self) -> None:
        """Attempt what nobody makes superfluous, and what is so already; tell pieces apart."""
        ring = Expect("pieces", self.round, (_NAMES[_NAMES.index(self.name) - 1],))
        after = _NAMES[(_NAMES.index(self.name) + 1) % len(_NAMES)]
        for part in (3, 2, 1):
            body = (100 * self.round + part).to_bytes(8, "little")
            await Send(after, "pieces", self.round, body, part=part)
        for part in (1, 2):
            piece = ring._replace(part=part)
            number = int.from_bytes((await Receive(piece)).only.body, "little")
            assert number == 100 * self.round + part, "a piece was taken for another"
            more = await Attempt(Work("encode", lambda: self.total + 1, self.round), piece)
            assert more == self.total + 1, "an attempt ended, and nothing had come"
            self.total = more % 2**61
        superfluous = ring._replace(part=3)  # which came before the others
        none = await Attempt(Work("encode", lambda: self.total, self.round), superfluous)
        assert none is None, "an attempt began, though what makes it superfluous was there"
        await Receive(superfluous)

    def state_dict(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "total": self.total,
            "sent": self._sent,
            "incarnations": self.incarnations,
            "remembered": self.remembered,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.round, self.total, self._sent = state["round"], state["total"], state["sent"]
        self.incarnations, self.remembered = list(state["incarnations"]), list(state["remembered"])


class _Impatient:
    """Waits a moment for two others, of which ``shop`` never sends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.round = 0
        self.missing: list[str] = []

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(name for name in _NAMES if name != self.name)

    async def run(self) -> None:
        if self.name == "bank":
            others = ("hospital", "shop")
            got = await Receive(Expect("x", 0, others, within=0.01, since=Since.FIRST_ARRIVAL))
            quorum = await Receive(Expect("y", 0, others, quorum=1))
            self.missing = [*got.missing, *quorum.missing]
            await Send("shop", "end", 0, b"")
        elif self.name == "hospital":
            await Send("bank", "y", 0, b"1")
            await Send("bank", "x", 0, b"1")
        else:
            await Receive(Expect("end", 0, ("bank",)))
        self.round = 1

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round, "missing": self.missing}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.round, self.missing = state["round"], list(state["missing"])


class _Server:
    """Takes what comes next of two others that count rounds of their own, until both are done."""

    sends = MappingProxyType({"hospital": 3, "shop": 7})

    def __init__(self, name: str) -> None:
        self.name = name
        self.round = 0
        self.taken: dict[str, list[int]] = {"hospital": [], "shop": []}

    @property
    def peers(self) -> tuple[str, ...]:
        return ("hospital", "shop") if self.name == "bank" else ("bank",)

    async def run(self) -> None:
        for round in range(self.sends.get(self.name, 0)):
            await Send("bank", "number", round, bytes([round]))
        while self.name == "bank" and sum(map(len, self.taken.values())) < 10:
            rounds = tuple(len(taken) for taken in self.taken.values())
            got = await Receive(Expect("number", rounds, ("hospital", "shop"), quorum=1))
            assert got.messages, "a wait for anybody ended with nobody"
            for message in got:
                self.taken[message.sender].append(message.body[0])
        self.round = 1

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round, "taken": self.taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.round, self.taken = state["round"], dict(state["taken"])


def _talkers(rounds: int, ahead: int = 0, fails_in: int = -1) -> list[_Talker]:
    return [_Talker(n, rounds, ahead, fails_in if n == "hospital" else -1) for n in _NAMES]


def _outcome(roles: Sequence[_Talker], record: RunRecord) -> tuple[Any, ...]:
    history = [{**row, "seconds": 0} for row in record.history]
    return [role.total for role in roles], record.ledger.without_time(), history, record.discarded


def _failure(
    subject: DriverSubject, roles: Sequence[Role], assignment: Assignment
) -> ColonnadeError:
    """Return the error of a run that must fail."""
    try:
        subject.driver.run(roles, assignment)
    except ColonnadeError as error:
        return error
    raise AssertionError("a role failed, and the run went on")


def plays_like_the_simulator(subject: DriverSubject, folder: Path) -> None:
    """Assert the simulator's messages, results and history, and its own replay, to the bit."""
    for ahead in (0, 3):
        expected, roles, replayed = (_talkers(30, ahead) for _ in range(3))
        reference = _REFERENCE.run(expected, Assignment(seed=3))
        record = subject.driver.run(roles, Assignment(seed=3))
        assert record.completed
        assert record.round == 30
        assert _outcome(roles, record)[:3] == _outcome(expected, reference)[:3]
        again = Replay(record.trace).run(replayed, Assignment(seed=3))
        totals, ledger, history, discarded = _outcome(replayed, again)
        assert (totals, ledger) == _outcome(roles, record)[:2]
        assert len(history) == len(record.history)
        assert sorted(discarded) == sorted(record.discarded)


def says_who_reported_and_when(subject: DriverSubject, folder: Path) -> None:
    """Assert that every row of the history names its organisation, and the clock its parts."""
    record = subject.driver.run(_talkers(5), Assignment())
    assert {row["organisation"] for row in record.history} == set(_NAMES)
    assert set(subject.driver.clock) >= {"network", "compute"}
    assert subject.driver.label


def waits_no_longer_than_asked(subject: DriverSubject, folder: Path) -> None:
    """Assert that a deadline and a quorum end a wait, and say who is missing."""
    roles = [_Impatient(name) for name in _NAMES]
    subject.driver.run(roles, Assignment())
    assert roles[0].missing == ["shop", "shop"]


def takes_what_comes_next_of_anybody(subject: DriverSubject, folder: Path) -> None:
    """Assert that sources may be in rounds of their own, that one suffices, and the replay."""
    roles, again = ([_Server(name) for name in _NAMES] for _ in range(2))
    record = subject.driver.run(roles, Assignment())
    Replay(record.trace).run(again, Assignment())
    for bank in (roles[0], again[0]):
        assert bank.taken == {"hospital": [0, 1, 2], "shop": [*range(7)]}


def goes_on_from_its_checkpoints_and_the_simulators(subject: DriverSubject, folder: Path) -> None:
    """Assert that a stopped run goes on to the same end, here and under the simulator."""
    if not subject.resumes:
        return
    whole = _talkers(30, 2)
    reference = _REFERENCE.run(whole, Assignment())
    pairs = [(subject.driver, subject.driver), (subject.driver, _REFERENCE)]
    pairs.append((_REFERENCE, subject.driver))
    for number, (first, second) in enumerate(pairs):
        for stop in (0, 1, 17):
            store = CheckpointStore(folder / f"{number}-{stop}", {"run": "fingerprint"})
            part = first.run(_talkers(30, 2), Assignment(store=store, stop_before=stop))
            assert (part.completed, part.round) == (False, stop)
            roles = _talkers(30, 2)
            rest = second.run(roles, Assignment(store=store, resume=store.latest()))
            assert rest.completed
            assert [role.total for role in roles] == [role.total for role in whole]
            assert rest.ledger.without_time() == reference.ledger.without_time()


def remembers_what_was_committed(subject: DriverSubject, folder: Path) -> None:
    """Assert that going back to a checkpoint forgets no record and repeats no incarnation."""
    if not subject.resumes:
        return
    store = CheckpointStore(folder / "checkpoint", {"run": "fingerprint"})
    settings: dict[str, Any] = {"store": store, "journals": folder / "journal"}
    settings["checkpoint_every"] = 10
    _failure(subject, _talkers(30, fails_in=14), Assignment(**settings))
    roles = _talkers(30)
    subject.driver.run(roles, Assignment(resume=store.latest(), **settings))
    for role in roles:
        assert role.incarnations == sorted(set(role.incarnations)), role.incarnations
        assert len(role.incarnations) == 2
        assert role.remembered[:11] == list(range(11)), "a record was lost"
    assert roles[1].remembered == list(range(15))


def ends_all_when_one_fails(subject: DriverSubject, folder: Path) -> None:
    """Assert that an error of a role is raised as it is, and nobody goes on."""
    error = _failure(subject, _talkers(30, fails_in=7), Assignment())
    assert isinstance(error, Diverged)
    assert "hospital failed in round 7" in str(error)


class _OneOfTwo:
    """One of two roles, ``bank`` or ``shop``, that remembers its round alone."""

    def __init__(self, name: str, round: int) -> None:
        self.name = name
        self.round = round

    @property
    def peers(self) -> tuple[str, ...]:
        return ("shop",) if self.name == "bank" else ("bank",)

    def state_dict(self) -> dict[str, Any]:
        return {"round": self.round}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.round = state["round"]


class _Raising(_OneOfTwo):
    """Work of ``bank`` raises what is not Colonnade's own; ``shop`` waits for it."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(name, 3)
        self._error = error

    async def run(self) -> None:
        if self.name == "bank":
            await Work("forward", self._raise, self.round)
        else:
            await Receive(Expect("number", self.round, ("bank",)))

    def _raise(self) -> None:
        raise self._error


def names_whose_work_raised_what(subject: DriverSubject, folder: Path) -> None:
    """Assert that any error of work, even one that ends iterations, names the role and the work."""
    for raised in (ValueError("no\nnumber"), StopIteration()):
        error = _failure(subject, [_Raising(n, raised) for n in ("bank", "shop")], Assignment())
        assert isinstance(error, RoleFailed)
        told = f"bank failed at 'forward' in round 3 (training): {type(raised).__name__}"
        assert str(error).startswith(told), str(error)
        assert "\n" not in str(error)


class _Sender(_OneOfTwo):
    """``bank`` sends words of four bytes to ``shop``, which takes the first and then the last."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name, 0)
        self._count = count

    async def run(self) -> None:
        if self.name == "bank":
            for round in range(self._count):
                await Send("shop", "word", round, b"word")
        else:
            await Receive(Expect("word", 0, ("bank",)))
            await Receive(Expect("word", self._count - 1, ("bank",)))
        self.round = 1


def _words(count: int) -> list[_Sender]:
    return [_Sender(name, count) for name in ("shop", "bank")]  # who waits stands first


def keeps_to_the_limits(subject: DriverSubject, folder: Path) -> None:
    """Assert that what is just within the limits comes, and that what is not names its sender."""
    flows = frozenset({("bank", "shop", "word", Purpose.TRAINING)})
    within = Limits(body=4, messages=9, bytes=36, flows=flows)
    assert subject.driver.run(_words(9), Assignment(limits=within)).completed
    beyond = [  # the first two are awaited, which makes them no better
        (2, Limits(flows=frozenset({("bank", "shop", "word", Purpose.EVALUATION)}))),
        (2, Limits(body=3)),
        (9, Limits(messages=3)),
        (9, Limits(bytes=12)),
    ]
    for count, limits in beyond:
        error = _failure(subject, _words(count), Assignment(limits=limits))
        assert isinstance(error, RemoteProtocolError), f"{error!r} of {limits}"
        assert "'bank'" in str(error)


def notes_what_leaves(subject: DriverSubject, folder: Path) -> None:
    """Assert that the ledger of a run that goes on has what left after its checkpoint as lost."""
    if not subject.resumes:
        return
    store = CheckpointStore(folder / "checkpoint", {"run": "fingerprint"})
    settings: dict[str, Any] = {"store": store, "departures": folder / "departures"}
    settings["checkpoint_every"] = 10
    _failure(subject, _talkers(30, fails_in=14), Assignment(**settings))
    record = subject.driver.run(_talkers(30), Assignment(resume=store.latest(), **settings))
    lost = [entry for entry in record.ledger.lost if entry.kind == "number"]
    for role in _talkers(30):
        for peer in role.peers:
            rounds = [e.round for e in lost if (e.sender, e.receiver) == (role.name, peer)]
            assert rounds[:5] == [*range(10, 15)], f"of {role.name}'s to {peer} are lost {rounds}"
    assert not record.uncounted


def stops_when_it_is_interrupted(subject: DriverSubject, folder: Path) -> None:
    """Assert that it asks whether to stop, and leaves a checkpoint where it does."""
    store = CheckpointStore(folder / "checkpoint", {"run": "fingerprint"})
    assignment = Assignment(store=store if subject.resumes else None, interrupted=lambda: True)
    record = subject.driver.run(_talkers(100), assignment)
    assert not record.completed, "nobody asked whether to stop"
    if not subject.resumes:
        return
    checkpoint = store.latest()
    assert checkpoint is not None
    assert checkpoint.round == record.round
    whole, roles = _talkers(100), _talkers(100)
    _REFERENCE.run(whole, Assignment())
    assert subject.driver.run(roles, Assignment(store=store, resume=checkpoint)).completed
    assert [role.total for role in roles] == [role.total for role in whole]


def _by_name() -> dict[str, list[Any]]:
    return {name: [] for name in _NAMES}


@dataclass
class _Heard:
    """What a run tells as it goes, by who it is of."""

    rounds: dict[str, list[tuple[int, int]]] = field(default_factory=_by_name)
    reports: dict[str, list[Any]] = field(default_factory=_by_name)

    def assignment(self) -> Assignment:
        return Assignment(on_round=self._on_round, on_report=self._on_report)

    def _on_round(self, name: str, round: int, sent_bytes: int) -> None:
        self.rounds[name].append((round, sent_bytes))

    def _on_report(self, values: Mapping[str, Any]) -> None:
        self.reports[str(values["organisation"])].append(dict(values))


def tells_as_it_goes(subject: DriverSubject, folder: Path) -> None:
    """Assert that it calls ``on_round`` at every boundary, and ``on_report`` with every report."""
    expected, heard = _Heard(), _Heard()
    _REFERENCE.run(_talkers(5), expected.assignment())
    record = subject.driver.run(_talkers(5), heard.assignment())
    assert heard.rounds == expected.rounds
    told = _by_name()
    for row in record.history:
        told[str(row["organisation"])].append(row)
    assert heard.reports == told


class _Waiting(_OneOfTwo):
    """Each waits for the other."""

    async def run(self) -> None:
        await Receive(Expect("number", self.round, self.peers))


def tells_that_nobody_goes_on(subject: DriverSubject, folder: Path) -> None:
    """Assert that roles that wait for each other end as a ``Deadlock`` that names both."""
    errors: list[ColonnadeError] = []

    def run() -> None:
        errors.append(_failure(subject, [_Waiting("bank", 3), _Waiting("shop", 3)], Assignment()))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(subject.patience)
    assert not thread.is_alive(), f"roles wait for each other for {subject.patience:g} s"
    assert errors, "roles wait for each other, and the run has ended"
    assert isinstance(errors[0], Deadlock), repr(errors[0])
    assert "bank waits for number" in str(errors[0])
    assert "shop waits for number" in str(errors[0])


def says_what_its_times_are(subject: DriverSubject, folder: Path) -> None:
    """Assert that summaries, and who resumes a run that time decides, can be told of its clock."""
    driver = subject.driver
    assert driver.label
    assert {"network", "compute"} <= set(driver.clock), driver.clock
    assert isinstance(driver.repeats, bool)
    if driver.network is not None:
        assert isinstance(driver.network, Network)
        assert driver.timing, "a network is modelled, and nothing tells it from another"


DRIVER_CHECKS: Sequence[Callable[[DriverSubject, Path], None]] = (
    says_what_its_times_are,
    plays_like_the_simulator,
    says_who_reported_and_when,
    waits_no_longer_than_asked,
    takes_what_comes_next_of_anybody,
    goes_on_from_its_checkpoints_and_the_simulators,
    remembers_what_was_committed,
    ends_all_when_one_fails,
    names_whose_work_raised_what,
    keeps_to_the_limits,
    notes_what_leaves,
    stops_when_it_is_interrupted,
    tells_as_it_goes,
    tells_that_nobody_goes_on,
)
"""All parts of the contract."""


def check_driver(subject: DriverSubject, folder: Path) -> None:
    """Run every check; each has a folder of its own under ``folder``.

    Raises
    ------
    AssertionError
        If the driver breaks a part of the contract.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_driver(DriverSubject(Simulate()), Path(folder))
    """
    for check in DRIVER_CHECKS:
        check(subject, folder / check.__name__)
