"""The simulator's clock, against schedules worked out by hand."""

from __future__ import annotations

import pytest

from colonnade.channels import Channel, Network
from colonnade.checkpoints import CheckpointStore
from colonnade.costs import Measured, Modelled
from colonnade.drivers import Assignment, Processes, Replay, Simulate, Trace
from colonnade.effects import Expect, Ready, Receive, Send, Since
from colonnade.errors import (
    Aborted,
    ConfigurationError,
    Deadlock,
    LocalProtocolError,
    RoleFailed,
)
from colonnade.wire import Purpose, carried_bytes, encode_header
from toys import Counter, Scripted

HEADER = carried_bytes(encode_header("x", Purpose.TRAINING, 0, 0), 0)
COSTS = Modelled({"work": 1.0, "short": 0.25}, otherwise=0.0)


def seconds(record, name):
    (row,) = [row for row in record.history if row["at"] == name]
    return row["seconds"]


def sends(sizes, receiver="hub", works=1):
    """A role that works a second, sends a body of each size, and works on."""

    async def script(role):
        for _ in range(works):
            await role.work()
        for index, size in enumerate(sizes):
            await Send(receiver, "x", index, bytes(size - HEADER))
        await role.note_time(f"{role.name} sent")

    return script


def simulate(*roles, network=None, costs=COSTS):
    return Simulate(network or Network(), costs).run(roles, Assignment())


def test_three_parties_over_unequal_channels_arrive_when_computed_by_hand():
    # 1 s of work; 100 bytes over 800, 400 and 200 bit/s take 1, 2 and 4 s; latencies 0, 1, 0 s.
    network = Network(
        pairs={
            ("a", "hub"): Channel(800, 0),
            ("b", "hub"): Channel(400, 1),
            ("c", "hub"): Channel(200, 0),
        }
    )

    async def hub(role):
        for name in "abc":
            await Receive(Expect("x", 0, (name,)))
            await role.note_time(name)
        await role.work()
        await role.note_time("done")

    parties = [Scripted(name, sends([100])) for name in "abc"]
    record = simulate(*parties, Scripted("hub", hub), network=network)
    assert [seconds(record, name) for name in "abc"] == [2.0, 4.0, 5.0]
    assert seconds(record, "done") == record.seconds_virtual == 6.0
    assert seconds(record, "a sent") == 1.0  # sending is queueing, not waiting
    waits = record.activities["hub", "training", "wait"]
    assert (waits.count, waits.nanoseconds) == (3, 5_000_000_000)


def test_messages_of_one_channel_follow_each_other():
    network = Network(Channel(bandwidth=800, latency=0.5))

    async def hub(role):
        for index in range(3):
            await Receive(Expect("x", index, ("a",)))
            await role.note_time(str(index))

    record = simulate(Scripted("a", sends([100, 50, 100])), Scripted("hub", hub), network=network)
    # transmitted at 2, 2.5, 3.5; each half a second under way
    assert [seconds(record, str(i)) for i in range(3)] == [2.5, 3.0, 4.0]


def test_a_full_queue_makes_the_sender_wait_until_a_message_is_transmitted():
    network = Network(Channel(bandwidth=800), queue=2)

    async def hub(role):
        for index in range(4):
            await Receive(Expect("x", index, ("a",)))
        await role.note_time("all")

    record = simulate(Scripted("a", sends([100] * 4)), Scripted("hub", hub), network=network)
    # Transmissions end at 2, 3, 4, 5; the third waits for room until 2, the fourth until 3.
    assert seconds(record, "a sent") == 3.0
    assert seconds(record, "all") == 5.0
    assert [entry.nanoseconds for entry in record.ledger] == [10**9, 10**9, 2 * 10**9, 3 * 10**9]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_everything_that_arrives_at_a_time_is_there_at_that_time(order):
    """Three equal parties tie; a quorum of one is given all three, whatever the order of roles."""

    async def hub(role):
        got = await Receive(Expect("x", 0, ("a", "b", "c"), quorum=1))
        role.seen = [message.sender for message in got]
        await role.note_time("hub")

    roles = [Scripted(name, sends([100])) for name in "abc"] + [Scripted("hub", hub)]
    record = simulate(*(roles[i] for i in order), network=Network(Channel(800)))
    assert roles[3].seen == ["a", "b", "c"]
    assert seconds(record, "hub") == 2.0


def test_ties_of_times_that_floats_would_miss():
    # 0.1 + 0.2 s against 0.3 s: equal in nanoseconds
    network = Network(
        pairs={("a", "hub"): Channel(latency=0.1), ("b", "hub"): Channel(latency=0.2)}
    )
    costs = Modelled({"work": 0.1}, slowdown={"a": 2.0}, otherwise=0.0)

    async def hub(role):
        got = await Receive(Expect("x", 0, ("a", "b"), quorum=1))
        role.seen = [message.sender for message in got]

    roles = [Scripted(name, sends([100])) for name in "ab"] + [Scripted("hub", hub)]
    simulate(*roles, network=network, costs=costs)
    assert roles[2].seen == ["a", "b"]


def staggered(expect, then=None):
    """Parties a, b, c whose messages arrive at 1, 2, 4 s, and a hub that waits for ``expect``."""

    async def hub(role):
        got = await Receive(expect)
        role.seen = [[message.sender for message in got], list(got.missing)]
        await role.note_time("hub")

    parties = [Scripted(n, sends([100], works=w)) for n, w in (("a", 1), ("b", 2), ("c", 4))]
    role = Scripted("hub", hub)
    return seconds(simulate(*parties, role), "hub"), role.seen


ABC = ("a", "b", "c")


@pytest.mark.parametrize(
    ("expect", "at", "arrived"),
    [
        (Expect("x", 0, ABC), 4.0, "abc"),
        (Expect("x", 0, ABC, quorum=1), 1.0, "a"),
        (Expect("x", 0, ABC, quorum=2), 2.0, "ab"),
        (Expect("x", 0, ABC, quorum=3), 4.0, "abc"),
        (Expect("x", 0, ABC, within=1.5), 2.5, "ab"),
        (Expect("x", 0, ABC, within=1.0), 2.0, "ab"),  # at equal times, deliveries come first
        (Expect("x", 0, ABC, within=100.0), 4.0, "abc"),
        (Expect("x", 0, ABC, within=0.5, since=Since.NOW), 0.5, ""),
        (Expect("x", 0, ABC, within=1.5, since=Since.NOW), 1.5, "a"),
        (Expect("x", 0, ABC, quorum=2, within=0.5, since=Since.NOW), 2.0, "ab"),
        (Expect("x", 0, ABC, quorum=2, within=2.5, since=Since.NOW), 2.5, "ab"),
        (Expect("x", 0, ABC, quorum=2, within=0.5), 2.0, "ab"),
        (Expect("x", 0, ABC, quorum=2, within=2.5), 3.5, "ab"),
        (Expect("x", 0, ABC, quorum=3, within=0.1), 4.0, "abc"),
        (Expect("x", 0, ("c", "a"), quorum=1), 1.0, "a"),
    ],
)
def test_quorum_and_deadline(expect, at, arrived):
    time, (came, missing) = staggered(expect)
    assert (time, "".join(came)) == (at, arrived)
    assert missing == [source for source in expect.sources if source not in came]


def test_a_deadline_counts_from_an_arrival_before_the_wait():
    async def hub(role):
        await role.work()
        await role.work()
        await role.work()
        got = await Receive(Expect("x", 0, ("a", "b"), within=2.5))
        role.seen = [message.sender for message in got]
        await role.note_time("hub")

    roles = [
        Scripted("a", sends([100])),
        Scripted("b", sends([100], works=9)),
        Scripted("hub", hub),
    ]
    assert seconds(simulate(*roles), "hub") == 3.5
    assert roles[2].seen == ["a"]


def test_ready_looks_and_takes_nothing_and_overlap_is_a_loop_of_it():
    async def hub(role):
        expect = Expect("x", 0, ("a",))
        steps = 0
        while not await Ready(expect):
            await role.work("short")
            steps += 1
        got = await Receive(expect)
        role.seen = [steps, got.only.sender]
        await role.note_time("hub")

    roles = [Scripted("a", sends([100])), Scripted("hub", hub)]
    # The message arrives at 1.1 s; after the fifth quarter of a second it is there.
    record = simulate(*roles, network=Network(Channel(latency=0.1)))
    assert roles[1].seen == [5, "a"]
    assert seconds(record, "hub") == 1.25
    assert record.trace.decisions["hub"] == [False] * 5 + [True, (("a", 0),)]


def test_a_later_rounds_message_never_satisfies_an_earlier_expect():
    async def hub(role):
        await Receive(Expect("x", 1, ("a",)))
        await Receive(Expect("x", 0, ("a",)))
        await Receive(Expect("x", 0, ("a",)))

    with pytest.raises(Deadlock, match=r"hub waits for x of round 0 \(training\) from a"):
        simulate(Scripted("a", sends([100, 100])), Scripted("hub", hub))


def test_either_of_two_kinds_and_the_earlier_message_first():
    async def a(role):
        await Send("hub", "no", 0, b"1")
        await Send("hub", "yes", 0, b"2")

    async def hub(role):
        for _ in range(2):
            got = await Receive(Expect(("yes", "no"), 0, ("a",)))
            role.seen.append(got.only.body)

    roles = [Scripted("a", a), Scripted("hub", hub)]
    simulate(*roles)
    assert roles[1].seen == [b"1", b"2"]


def test_deadlock_names_who_waits_for_what():
    async def waits(role):
        other = "b" if role.name == "a" else "a"
        await Receive(Expect("word", 3, (other, "c"), purpose=Purpose.EVALUATION))

    roles = [Scripted("a", waits), Scripted("b", waits), Scripted("c", sends([50], "a", works=0))]
    with pytest.raises(Deadlock) as caught:
        simulate(*roles)
    text = str(caught.value)
    assert "a waits for word of round 3 (evaluation) from b, c, of which b, c is missing" in text
    assert "b waits for word of round 3 (evaluation) from a, c" in text
    assert "finished: c" in text


def test_when_a_role_fails_the_others_are_told():
    async def fails(role):
        await role.work()
        raise ValueError("no such thing")

    async def waits(role):
        try:
            await Receive(Expect("x", 0, ("a",)))
        except Aborted as abort:
            role.seen = [str(abort)]
            raise

    roles = [Scripted("a", fails), Scripted("b", waits)]
    with pytest.raises(RoleFailed, match="a failed in round 0: ValueError: no such thing"):
        simulate(*roles)
    assert roles[1].seen == ["RoleFailed: a failed in round 0: ValueError: no such thing"]


async def _to_nobody(role):
    await Send("nobody", "x", 0, b"")


async def _no_effect(role):
    class Odd:
        def __await__(self):
            yield 17

    await Odd()


async def _impossible_quorum(role):
    await Receive(Expect("x", 0, ("b",), quorum=2))


@pytest.mark.parametrize("script", [_to_nobody, _no_effect, _impossible_quorum])
def test_misuse_by_a_role_is_our_own_error(script):
    with pytest.raises(LocalProtocolError):
        simulate(Scripted("a", script), Scripted("b", sends([40], "a")))


def test_measured_work_costs_what_it_took_times_the_slowdown():
    async def busy(role):
        await role.work()

    roles = [Scripted("a", busy), Scripted("b", busy)]
    record = simulate(*roles, costs=Measured(slowdown={"a": 0.0}))
    fast, plain = (record.activities[name, "training", "work"] for name in "ab")
    assert fast.nanoseconds == 0
    assert plain.nanoseconds == plain.cpu_nanoseconds > 0


# Cuts: interruption at any boundary, with messages under way


def counters(rounds=6, ahead=0):
    return [Counter("a", "b", rounds, ahead), Counter("b", "a", rounds, ahead)]


EVERYBODY = Channel(bandwidth=1e4, latency=0.003)
NETWORK = Network(EVERYBODY, {("a", "b"): Channel(2e3, 0.001)})
UNEVEN = Simulate(NETWORK, Modelled({"count": 0.004}, slowdown={"b": 3.0}, otherwise=0.0))
DRIVER = Simulate(Network(EVERYBODY), Modelled({"count": 0.004}, otherwise=0.0))  # for any roles


def outcome(roles, record):
    return [role.total for role in roles], record.ledger.frame().rows(), record.history


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_stopping_before_any_round_and_resuming_repeats_everything(tmp_path, ahead):
    whole = counters(ahead=ahead)
    expected = outcome(whole, UNEVEN.run(whole, Assignment()))
    for stop in range(7):
        store = CheckpointStore(tmp_path / str(stop), {"run": "fingerprint"})
        first = counters(ahead=ahead)
        part = UNEVEN.run(first, Assignment(store=store, stop_before=stop))
        assert (part.round, part.completed) == (stop, False)
        again = counters(ahead=ahead)
        assignment = Assignment(store=store, resume=store.latest(), checkpoint_every=2)
        record = UNEVEN.run(again, assignment)
        assert record.completed
        assert outcome(again, record) == expected  # the virtual times, too


@pytest.mark.parametrize("ahead", [0, 2])
def test_any_periodic_checkpoint_leads_to_the_same_end(tmp_path, ahead):
    whole = counters(ahead=ahead)
    store = CheckpointStore(tmp_path, {"run": "fingerprint"}, keep=100)
    expected = outcome(whole, UNEVEN.run(whole, Assignment(store=store, checkpoint_every=1)))
    folders = sorted(tmp_path.iterdir())
    assert [folder.name for folder in folders] == [f"round-{r:08d}" for r in range(1, 7)]
    while (checkpoint := store.latest()) is not None:
        again = counters(ahead=ahead)
        assert outcome(again, UNEVEN.run(again, Assignment(resume=checkpoint))) == expected
        (checkpoint.folder / "manifest.json").unlink()
        for file in checkpoint.folder.iterdir():
            file.unlink()
        checkpoint.folder.rmdir()


def test_an_interruption_stops_everybody_at_one_boundary(tmp_path):
    asked = iter([False] * 5 + [True] * 100)
    store = CheckpointStore(tmp_path, {"run": "fingerprint"})
    record = UNEVEN.run(counters(), Assignment(store=store, interrupted=lambda: next(asked)))
    assert not record.completed
    again = counters()
    checkpoint = store.latest()
    assert checkpoint is not None
    assert checkpoint.round == record.round
    expected = counters()
    UNEVEN.run(expected, Assignment())
    UNEVEN.run(again, Assignment(resume=checkpoint))
    assert [role.total for role in again] == [role.total for role in expected]


@pytest.mark.parametrize("ahead", [0, 2])
def test_replay_repeats_a_run_and_the_rest_of_a_resumed_one(tmp_path, ahead):
    whole = counters(ahead=ahead)
    record = UNEVEN.run(whole, Assignment())
    again = counters(ahead=ahead)
    repeated = Replay(record.trace).run(again, Assignment())
    assert repeated.completed
    assert [role.total for role in again] == [role.total for role in whole]
    assert repeated.ledger.without_time() == record.ledger.without_time()

    store = CheckpointStore(tmp_path, {"run": "fingerprint"})
    UNEVEN.run(counters(ahead=ahead), Assignment(store=store, stop_before=3))
    checkpoint = store.latest()
    rest = UNEVEN.run(counters(ahead=ahead), Assignment(resume=checkpoint))
    again = counters(ahead=ahead)
    Replay(rest.trace).run(again, Assignment(resume=checkpoint))
    assert [role.total for role in again] == [role.total for role in whole]


def test_replay_of_another_runs_trace_says_so():
    record = UNEVEN.run(counters(rounds=8), Assignment())
    with pytest.raises(Deadlock, match="nobody sends"):
        Replay(record.trace).run(counters(rounds=8, ahead=-1), Assignment())
    decisions = {name: [*some] for name, some in record.trace.decisions.items()}
    without = {name: some for name, some in decisions.items() if name != "b"}
    with pytest.raises(LocalProtocolError, match="the trace has nothing of b"):
        Replay(Trace(without)).run(counters(rounds=8), Assignment())
    for planted in (None, 3, "a"):
        other = decisions | {"a": [planted, *decisions["a"][1:]]}
        with pytest.raises(LocalProtocolError, match="trace of a belongs to other roles"):
            Replay(Trace(other)).run(counters(rounds=8), Assignment())
    twice = next(some for some in decisions["a"] if not isinstance(some, bool))
    other = decisions | {"a": [[*twice, *twice], *decisions["a"][1:]]}
    with pytest.raises(Deadlock, match="or not all of it is there"):
        Replay(Trace(other)).run(counters(rounds=8), Assignment())


def test_replay_of_a_longer_runs_trace_says_so():
    record = UNEVEN.run(counters(rounds=8), Assignment())
    with pytest.raises(LocalProtocolError, match="goes on where this run ends"):
        Replay(record.trace).run(counters(rounds=4), Assignment())
    with pytest.raises(ConfigurationError, match="a replay stops where its trace does"):
        Replay(record.trace).run(counters(rounds=8), Assignment(stop_before=4))


@pytest.mark.parametrize(
    "driver", [UNEVEN, Processes(), Replay(Trace({"a": [], "b": []}))], ids=lambda one: one.label
)
def test_two_roles_cannot_have_one_name(driver):
    roles = [Counter("a", "b", 6), Counter("b", "a", 6), Counter("a", "b", 6)]
    with pytest.raises(ConfigurationError, match="several roles have the name 'a'"):
        driver.run(roles, Assignment())
