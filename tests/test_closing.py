"""Rounds that a role has closed: what comes too late is discarded, everywhere alike, and told."""

from __future__ import annotations

import io
import json
from collections import deque
from dataclasses import fields, replace
from typing import ClassVar

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.channels import Channel, Network
from colonnade.checkpoints import CheckpointStore
from colonnade.costs import Modelled
from colonnade.departures import Mark
from colonnade.drivers import Activity, Assignment, Processes, Replay, Simulate, simulate
from colonnade.drivers.account import Account
from colonnade.drivers.cut import Cut
from colonnade.drivers.mailbox import Mailbox
from colonnade.effects import Boundary, Close, Expect, Ready, Receive, Send, Work
from colonnade.errors import LocalProtocolError
from colonnade.ledger import Ledger
from colonnade.tallies import Tally
from colonnade.wire import Message, Purpose
from toys import Late, Scripted

NETWORK = Network(Channel(latency=0.001), {("slow", "hub"): Channel(8e4, 0.05)})
DRIVER = Simulate(NETWORK, Modelled({"count": 0.002}, otherwise=0.0))
DRIVERS = [DRIVER, Processes()]
each_driver = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.label)


def late(rounds, behind=1):
    return [Late(name, rounds, behind) for name in ("slow", "hub", "quick")]


def outcome(roles, record):
    return [role.total for role in roles], record.ledger.without_time(), record.discarded


def expected(rounds):
    """All that ``slow`` sends: the hub closes the rounds that it never waits for."""
    return [("hub", "slow", sequence) for sequence in range(rounds)]


# The mailbox

MESSAGES = st.lists(
    st.builds(
        lambda sender, kind, purpose, round: Message(sender, "hub", kind, purpose, round, 0, b""),
        st.sampled_from("ab"),
        st.sampled_from("xy"),
        st.sampled_from(Purpose),
        st.integers(0, 5),
    ),
    max_size=12,
)


@given(MESSAGES, MESSAGES, st.integers(0, 6), st.integers(0, 6))
def test_closing_keeps_what_is_open_and_setup_whenever_it_comes(early, after, before, again):
    mailbox = Mailbox()
    kept = [message for message in early if mailbox.put(message, 0)]
    assert len(kept) == len(early)
    discarded = mailbox.close(before)
    discarded += [message for message in after if not mailbox.put(message, 0)]
    discarded += mailbox.close(again)
    closed = max(before, again)
    assert mailbox.closed == closed
    every = [*early, *after]
    shut = [m for m in every if m.round < closed and m.purpose is not Purpose.SETUP]
    assert sorted(discarded) == sorted(shut)
    assert sorted(m for m, _ in mailbox) == sorted(m for m in every if m not in shut)


@given(st.data())
def test_a_mailbox_does_what_a_list_of_messages_would(data):
    """What is discarded comes shelf by shelf, in the order in which they were begun."""
    mailbox, plain, shelves, closed = Mailbox(), [], [], 0
    for step in range(data.draw(st.integers(0, 12))):
        match data.draw(st.sampled_from(["put", "put", "take", "close"])):
            case "put":
                message = data.draw(MESSAGES.filter(bool))[0]._replace(sequence=step)
                kept = message.purpose is Purpose.SETUP or message.round >= closed
                assert mailbox.put(message, 0) == kept
                plain += [message] * kept
                shelves += [message[:5]] * (kept and message[:5] not in shelves)
            case "take" if plain:
                wanted = data.draw(st.sampled_from(plain))
                expect = Expect(wanted.kind, wanted.round, (wanted.sender,), wanted.purpose)
                first = next(m for m in plain if m[:5] == wanted[:5])
                assert mailbox.take(expect).messages == (first,)
                plain.remove(first)
            case "close":
                before = data.draw(st.integers(0, 7))
                late = [m for m in plain if m.round < before and m.purpose is not Purpose.SETUP]
                late.sort(key=lambda m: (shelves.index(m[:5]), m.sequence))
                assert mailbox.close(before) == late
                plain = [m for m in plain if m not in late]
                closed = max(closed, before)
                assert mailbox.closed == closed
        shelves = [shelf for shelf in shelves if any(m[:5] == shelf for m in plain)]
        assert sorted(m for m, _ in mailbox) == sorted(plain)


class Round(int):
    """The number of a round that notes how often anybody looks at it."""

    looks = 0

    def __hash__(self):
        Round.looks += 1
        return super().__hash__()

    def __eq__(self, other):
        Round.looks += 1
        return int(self) == other

    def __lt__(self, other):
        Round.looks += 1
        return int(self) < other


@pytest.mark.parametrize("step", [1, 3])
def test_closing_looks_at_what_it_discards_and_not_at_what_is_kept(step):
    rounds = 5000
    mailbox = Mailbox()

    def put(purpose, round):
        assert mailbox.put(Message("a", "hub", "x", purpose, Round(round), 0, b""), 0)

    for round in range(rounds):
        put(Purpose.SETUP, round)
        if round % 4 == 0:
            put(Purpose.TRAINING, round)
    for round in range(100):
        put(Purpose.TRAINING, 2 * rounds + round)  # far ahead
    Round.looks = 0
    closes = range(step, rounds + step, step)
    discarded = sum(len(mailbox.close(before)) for before in closes)
    assert discarded == rounds // 4
    assert Round.looks < 10 * rounds
    Round.looks = 0
    assert len(mailbox.close(10**15)) == 100  # rounds that nobody sent for cost nothing
    assert Round.looks < 10 * 100
    assert sum(1 for _ in mailbox) == rounds


# Under the drivers


def test_all_drivers_discard_the_same():
    roles = late(30)
    record = DRIVER.run(roles, Assignment())
    assert record.completed
    assert record.discarded == expected(30)
    assert record.trace.discarded == record.discarded
    for driver in (Processes(), Replay(record.trace)):
        others = late(30)
        other = driver.run(others, Assignment())
        assert outcome(others, other) == outcome(roles, record)
        assert other.trace.discarded == record.trace.discarded
    marked = [entry for entry in record.ledger if entry.discarded]
    assert {entry.sender for entry in marked} == {"slow"}
    assert len(marked) == 30


@each_driver
@pytest.mark.parametrize("stop", [0, 1, 7, 19])
def test_what_is_closed_stays_so_after_a_resume(tmp_path, driver, stop):
    whole = late(20, behind=3)
    reference = outcome(whole, DRIVER.run(whole, Assignment()))
    for other in DRIVERS:
        store = CheckpointStore(tmp_path / other.label, {"run": "fingerprint"}, keep=100)
        driver.run(
            late(20, behind=3), Assignment(store=store, checkpoint_every=4, stop_before=stop)
        )
        checkpoint = store.latest()
        again = late(20, behind=3)
        record = other.run(again, Assignment(store=store, resume=checkpoint, checkpoint_every=4))
        assert outcome(again, record) == reference
        replayed = late(20, behind=3)
        repeated = Replay(record.trace).run(replayed, Assignment(resume=checkpoint))
        assert outcome(replayed, repeated) == reference


def test_any_checkpoint_tells_what_was_discarded_then_and_leads_to_the_same_end(tmp_path):
    whole = late(12)
    store = CheckpointStore(tmp_path, {"run": "fingerprint"}, keep=100)
    record = DRIVER.run(whole, Assignment(store=store, checkpoint_every=1))
    reference = outcome(whole, record)
    while (checkpoint := store.latest()) is not None:
        cut, ledger = Cut.read(checkpoint, ["hub", "quick", "slow"])
        closed = cut.accounts["hub"]["closed"]
        assert closed == max(0, checkpoint.round - 1) or checkpoint.round == 12
        under_way = {(m.sender, m.sequence) for mail in cut.mail.values() for m, _ in mail}
        for entry in ledger:
            if entry.discarded:
                assert (entry.sender, entry.sequence) not in under_way
                assert entry.round < closed
        again = late(12)
        assert outcome(again, DRIVER.run(again, Assignment(resume=checkpoint))) == reference
        for file in checkpoint.folder.iterdir():
            file.unlink()
        checkpoint.folder.rmdir()


PROGRESS = st.integers(0, 2**62)
ACCOUNTS = st.builds(
    Account,
    sequence=PROGRESS,
    clock=PROGRESS,
    history=st.lists(
        st.dictionaries(st.text(), st.integers() | st.text() | st.floats(allow_nan=False))
    ),
    activities=st.dictionaries(
        st.tuples(st.sampled_from(Purpose), st.text()),
        st.builds(Activity, PROGRESS, PROGRESS, PROGRESS),
    ),
    occupancy=st.dictionaries(st.text(), st.lists(PROGRESS).map(deque)),
    ports=st.dictionaries(st.tuples(st.text(), st.text()), PROGRESS),
    entered=st.dictionaries(st.tuples(st.text(), PROGRESS), PROGRESS),
    trained=st.none() | PROGRESS,
    closed=PROGRESS,
    journal=st.none() | st.tuples(PROGRESS, PROGRESS),
    departed=st.builds(Mark, PROGRESS, st.text()),
    uncounted=st.booleans(),
    anew=st.lists(st.tuples(PROGRESS, PROGRESS)),
)


@settings(max_examples=50)
@given(ACCOUNTS)
def test_an_account_comes_back_from_json(account):
    assert Account.from_json(json.loads(json.dumps(account.as_json()))) == account


def test_every_field_of_an_account_makes_a_difference_to_its_json():
    """So a new field cannot be left out of the test above, or of ``as_json``."""
    spent = {(Purpose.RELAY, "x"): Activity(1, 2, 3)}
    changed = Account(
        sequence=3,
        clock=4,
        history=[{"a": 1}],
        activities=spent,
        occupancy={"b": deque([5])},
        ports={("out", "b"): 6},
        entered={("c", 7): 70},
        trained=80,
        closed=8,
        journal=(9, 10),
        departed=Mark(11, "x"),
        anew=[(1, 2)],
        uncounted=True,
        fingerprint="12ab",
        discarded={("d", 13)},
        received={"e": Tally(14, 15, "x")},
    )
    default = Account()
    for field in fields(Account):
        value = getattr(changed, field.name)
        assert value != getattr(default, field.name)
        one = replace(default, **{field.name: value})
        assert Account.from_json(json.loads(json.dumps(one.as_json()))) == one


def test_an_account_of_before_rounds_were_closed_and_journals_and_departures_noted_is_read():
    data = Account(3, 4).as_json()
    data["departed"] = 5
    assert Account.from_json(data) == Account(3, 4, departed=Mark(5))
    for name in ("trained", "closed", "journal", "departed", "uncounted"):
        del data[name]
    assert Account.from_json(data) == Account(3, 4)


class Resumed(Scripted):
    """``hub`` closes rounds before a checkpoint at round 1; ``slow`` sends for them after it."""

    async def run(self):
        if self.round == 0:
            await Boundary(0)
            if self.name == "hub":
                await Close(5)
            self.round = 1
        await Boundary(1)
        await super().run()


def checkpoint_after_closing(folder, driver):
    async def nothing(role):
        pass

    store = CheckpointStore(folder, {"run": "fingerprint"})
    roles = [Resumed("hub", nothing, ["slow"]), Resumed("slow", nothing, ["hub"])]
    record = driver.run(roles, Assignment(store=store, stop_before=1))
    assert not record.completed
    return store.latest()


@each_driver
def test_after_a_resume_a_closed_round_cannot_be_expected(tmp_path, driver):
    async def waits(role):
        await Receive(Expect("x", 4, ("slow",)))

    async def sends(role):
        await Send("hub", "x", 4, b"")

    for other in DRIVERS:
        checkpoint = checkpoint_after_closing(tmp_path / other.label, other)
        roles = [Resumed("hub", waits, ["slow"]), Resumed("slow", sends, ["hub"])]
        with pytest.raises(LocalProtocolError, match=r"x of round 4 .* all rounds before 5"):
            driver.run(roles, Assignment(resume=checkpoint))


@each_driver
def test_after_a_resume_what_comes_for_a_closed_round_is_discarded(tmp_path, driver):
    async def waits(role):
        got = await Receive(Expect("x", 5, ("slow",)))
        role.seen.append(got.only.sequence)

    async def sends(role):
        for round in (4, 0, 5):
            await Send("hub", "x", round, b"")

    for other in DRIVERS:
        checkpoint = checkpoint_after_closing(tmp_path / other.label, other)

        def roles():
            return [Resumed("hub", waits, ["slow"]), Resumed("slow", sends, ["hub"])]

        again = roles()
        record = driver.run(again, Assignment(resume=checkpoint))
        assert again[0].seen == [2]
        assert record.discarded == [("hub", "slow", 0), ("hub", "slow", 1)]
        replayed = roles()
        repeated = Replay(record.trace).run(replayed, Assignment(resume=checkpoint))
        assert replayed[0].seen == [2]
        assert repeated.discarded == record.discarded


@each_driver
@pytest.mark.parametrize("effect", [Receive, Ready])
@pytest.mark.parametrize("plain", [True, False])
def test_to_expect_what_is_closed_is_our_own_mistake(driver, effect, plain):
    async def waits(role):
        await Close(3)
        await effect(Expect("x", 2, ("slow",), quorum=None if plain else 1))

    async def silent(role):
        pass

    with pytest.raises(LocalProtocolError, match=r"hub expects x .* 2 .* all rounds before 3"):
        driver.run([Scripted("hub", waits, ["slow"]), Scripted("slow", silent)], Assignment())


@each_driver
def test_setup_and_later_rounds_are_not_closed_and_closing_less_does_nothing(driver):
    async def sends(role):
        for round in range(4):
            await Send("slow", "x", round, b"", Purpose.SETUP)
            for purpose in (Purpose.TRAINING, Purpose.EVALUATION, Purpose.RELAY):
                await Send("slow", "x", round, b"", purpose)

    async def takes(role):
        await Receive(Expect("x", 3, ("hub",)))  # before which, all others but relay have come
        await Close(3)
        await Close(1)
        for round in range(4):
            got = await Receive(Expect("x", round, ("hub",), Purpose.SETUP))
            role.seen.append(got.only.sequence)
        got = await Receive(Expect("x", 3, ("hub",), Purpose.RELAY))
        role.seen.append(got.only.sequence)

    roles = [Scripted("hub", sends, ["slow"]), Scripted("slow", takes)]
    record = driver.run(roles, Assignment())
    assert roles[1].seen == [0, 4, 8, 12, 15]
    discarded = [e for e in record.ledger if e.discarded]
    assert len(discarded) == 9
    assert all(e.round < 3 and e.purpose is not Purpose.SETUP for e in discarded)


class Watched(Mailbox):
    """A mailbox that a test can look into afterwards."""

    all: ClassVar[list[Watched]] = []

    def __init__(self, closed=0, limits=None):
        super().__init__(closed, limits)
        self.most = 0
        self.all.append(self)

    def put(self, message, now):
        kept = super().put(message, now)
        self.most = max(self.most, sum(1 for _ in self))
        return kept


class Straggling(Late):
    """As ``Late``, but ``slow`` waits for nobody, and what it sends comes many rounds too late."""

    async def run(self):
        while self.round < self._rounds:
            await Boundary(self.round)
            await Close(self.round)
            if self.name == "hub":
                await Receive(Expect("number", self.round, ("quick", "slow"), quorum=1))
            else:
                await Work("count", lambda: None, self.round)
                await Send("hub", "number", self.round, b"12345678")
            self.round += 1
        await Boundary(self.round)
        await Close(self.round)


def test_ten_thousand_rounds_of_what_is_too_late_leave_nothing_behind(tmp_path, monkeypatch):
    Watched.all.clear()
    monkeypatch.setattr(simulate, "Mailbox", Watched)
    rounds = 10_000
    # A round takes 2 ms, and what slow sends arrives 50 ms after it was sent.
    network = Network(Channel(latency=0.001), {("slow", "hub"): Channel(1e6, 0.05)})
    driver = Simulate(network, Modelled({"count": 0.002}, otherwise=0.0))
    store = CheckpointStore(tmp_path, {"run": "fingerprint"}, keep=100)
    roles = [Straggling(name, rounds) for name in ("slow", "hub", "quick")]
    record = driver.run(roles, Assignment(store=store, checkpoint_every=1000))
    assert record.completed
    assert record.discarded == expected(rounds)
    assert max(mailbox.most for mailbox in Watched.all) <= 2
    assert all(not list(mailbox) for mailbox in Watched.all)
    sizes, mails = [], []
    for folder in sorted(tmp_path.iterdir())[:-1]:
        names = {file.name: file.stat().st_size for file in folder.iterdir()}
        names.pop("ledger.parquet")  # has a row for every message, discarded or not
        sizes.append(sum(names.values()))
        frame = pl.read_parquet(io.BytesIO((folder / "ledger.parquet").read_bytes()))
        marked = sum(entry.discarded for entry in Ledger.from_frame(frame))
        sent = frame.filter(sender="slow").height
        mails.append(sent - marked)
    assert len(sizes) == 9
    assert max(sizes) - min(sizes) < 100  # numbers get more digits, and that is all
    assert max(mails) <= 2  # of slow's messages under way, all but these are known to be too late
