"""Real processes: the same messages and the same ends as under the simulator."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time

import pytest

from colonnade import ledger
from colonnade.checkpoints import CheckpointStore
from colonnade.drivers import Assignment, Processes, Replay, control, player, processes
from colonnade.drivers.child import play
from colonnade.effects import Expect, Receive, Report, Send, Since
from colonnade.errors import Diverged, RoleFailed
from colonnade.flows import Limits
from colonnade.wire import Purpose
from test_simulate import DRIVER, counters
from toys import Counter, Scripted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")


def totals(roles):
    return [role.total for role in roles]


@pytest.mark.parametrize("ahead", [0, 3])
def test_processes_replay_and_simulator_agree(ahead):
    simulated = counters(rounds=50, ahead=ahead)
    record = DRIVER.run(simulated, Assignment())
    real = counters(rounds=50, ahead=ahead)
    other = Processes().run(real, Assignment())
    replayed = counters(rounds=50, ahead=ahead)
    Replay(other.trace).run(replayed, Assignment())
    assert totals(simulated) == totals(real) == totals(replayed)
    assert record.ledger.without_time() == other.ledger.without_time()
    assert [{**row, "seconds": 0} for row in record.history] == [
        {**row, "seconds": 0} for row in other.history
    ]
    assert other.completed
    assert other.round == 50


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts bytes for us")
def test_the_sockets_carry_the_ledgers_bytes():
    sizes = [0, 1, 1000, 20_000, 300_000]  # multiprocessing writes large buffers in two pieces

    async def a(role):
        for index, size in enumerate(sizes):
            await Send("b", "x", index, os.urandom(size))
        await Receive(Expect("y", 0, ("b",), purpose=Purpose.EVALUATION))

    async def b(role):
        for index, size in enumerate(sizes):
            got = await Receive(Expect("x", index, ("a",)))
            assert len(got.only.body) == size
        await Send("a", "y", 0, b"abc", Purpose.EVALUATION)

    record = Processes().run([Scripted("a", a, ["b"]), Scripted("b", b)], Assignment())
    framed = {("a", "b"): 0, ("b", "a"): 0}
    for entry in record.ledger:
        framed[entry.sender, entry.receiver] += entry.framed_bytes
    assert record.socket_bytes == framed
    assert record.ledger.bytes() == sum(sizes) + 3


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 5, 33, 49])
def test_a_run_can_stop_and_go_on_under_either_driver(tmp_path, stop, ahead):
    whole = counters(rounds=50, ahead=ahead)
    expected = DRIVER.run(whole, Assignment())
    for first, second in ((Processes(), Processes()), (Processes(), DRIVER), (DRIVER, Processes())):
        store = CheckpointStore(tmp_path / f"{first.label}-{second.label}", {"run": "fingerprint"})
        part = first.run(
            counters(rounds=50, ahead=ahead),
            Assignment(store=store, checkpoint_every=20, stop_before=stop),
        )
        assert (part.completed, part.round) == (False, stop)
        roles = counters(rounds=50, ahead=ahead)
        rest = second.run(
            roles, Assignment(store=store, checkpoint_every=20, resume=store.latest())
        )
        assert totals(roles) == totals(whole)
        assert rest.ledger.without_time() == expected.ledger.without_time()
        assert len(rest.history) == len(expected.history)
        assert rest.completed


@pytest.mark.parametrize("first", [DRIVER, Processes()], ids=lambda driver: driver.label)
def test_checkpoints_write_what_was_settled_of_the_ledger_once_and_again(
    tmp_path, monkeypatch, first
):
    monkeypatch.setattr(ledger, "_MANY", 16)
    monkeypatch.setattr(player, "_TOLD", 4)
    whole = DRIVER.run(counters(rounds=60, ahead=3), Assignment())
    store = CheckpointStore(tmp_path, {"run": "fingerprint"})
    settings = {"store": store, "checkpoint_every": 5}
    first.run(counters(rounds=60, ahead=3), Assignment(stop_before=30, **settings))
    checkpoint = store.latest()
    segments = [name for name in checkpoint.manifest["files"] if name.startswith(".ledger-")]
    assert len(segments) > 2
    for second in (DRIVER, Processes()):
        rest = second.run(counters(rounds=60, ahead=3), Assignment(resume=checkpoint))
        assert rest.ledger.without_time() == whole.ledger.without_time()


@pytest.mark.parametrize("driver", [DRIVER, Processes()], ids=lambda driver: driver.label)
def test_a_run_without_checkpoints_settles_its_ledger_as_it_goes(monkeypatch, driver):
    monkeypatch.setattr(ledger, "_MANY", 16)
    monkeypatch.setattr(player, "_TOLD", 4)
    told, hear = [], control.from_player
    monkeypatch.setattr(control, "from_player", lambda data: told.append(hear(data)) or told[-1])
    record = driver.run(counters(rounds=60), Assignment())
    assert len(record.ledger.settled) > 2
    if driver.label == "processes":
        assert sum(isinstance(message, control.Recorded) for message in told) > 10


def test_an_interruption_stops_everybody_at_one_boundary(tmp_path):
    store = CheckpointStore(tmp_path, {"run": "fingerprint"})
    reached = []
    record = Processes().run(
        counters(rounds=10_000),
        Assignment(
            store=store,
            interrupted=lambda: len(reached) > 50,
            on_round=lambda name, round, sent_bytes: reached.append(round),
        ),
    )
    assert not record.completed
    assert 0 < record.round < 10_000
    assert record.round == max(reached)
    checkpoint = store.latest()
    assert checkpoint is not None
    assert checkpoint.round == record.round
    ahead = record.round + 10
    again, expected = counters(rounds=ahead), counters(rounds=ahead)
    Processes().run(again, Assignment(resume=checkpoint))
    DRIVER.run(expected, Assignment())
    assert totals(again) == totals(expected)


def test_an_error_in_one_process_is_raised_here_and_ends_the_others():
    async def fails(role):
        await role.work()
        raise Diverged("the loss is nan in round 3")

    async def waits(role):
        await Receive(Expect("x", 0, ("a",)))

    with pytest.raises(Diverged, match="nan in round 3") as caught:
        Processes().run([Scripted("a", fails, ["b"]), Scripted("b", waits)], Assignment())
    assert "in the process of 'a'" in caught.value.__notes__[0]


def test_an_unexpected_error_names_the_role():
    async def fails(role):
        raise KeyError("x")

    with pytest.raises(RoleFailed, match=r"^a failed in round 0: KeyError: 'x'"):
        Processes().run([Scripted("a", fails)], Assignment())


def test_a_killed_process_ends_the_run():
    async def dies(role):
        os.kill(os.getpid(), signal.SIGKILL)

    async def waits(role):
        await Receive(Expect("x", 0, ("a",)))

    with pytest.raises(RoleFailed, match=r"'a' died \(exit code -9\)"):
        Processes().run([Scripted("a", dies, ["b"]), Scripted("b", waits)], Assignment())


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_a_process_that_died_is_seen_though_another_holds_its_sockets():
    heard, tell = os.pipe()

    async def dies(role):
        sleeper = os.fork()
        if not sleeper:
            signal.pause()
        os.write(tell, str(sleeper).encode())
        os._exit(7)

    async def waits(role):
        await Receive(Expect("x", 0, ("a",)))

    try:
        with pytest.raises(RoleFailed, match=r"the process of 'a' died \(exit code 7\)"):
            Processes().run([Scripted("a", dies, ["b"]), Scripted("b", waits)], Assignment())
    finally:
        os.kill(int(os.read(heard, 100)), signal.SIGKILL)
        os.close(heard)
        os.close(tell)


def test_a_body_above_the_limit_is_refused():
    async def sends(role):
        await Send("b", "x", 0, bytes(10_000))
        await Receive(Expect("never", 0, ("b",)))

    async def waits(role):
        await Receive(Expect("x", 0, ("a",)))

    roles = [Scripted("a", sends, ["b"]), Scripted("b", waits)]
    with pytest.raises(Exception, match=r"from 'a': a message of \d+ bytes"):
        Processes().run(roles, Assignment(limits=Limits(body=5000)))


def test_a_deadline_in_real_time_gives_what_is_there():
    async def hub(role):
        got = await Receive(Expect("x", 0, ("a", "b"), within=0.05, since=Since.NOW))
        role.seen = list(got.missing)

    async def silent(role):
        await Receive(Expect("end", 0, ("hub",)))

    async def ending_hub(role):
        await hub(role)
        for name in ("a", "b"):
            await Send(name, "end", 0, b"")

    roles = [Scripted("hub", ending_hub, ["a", "b"]), Scripted("a", silent), Scripted("b", silent)]
    Processes().run(roles, Assignment())
    assert roles[0].seen == ["a", "b"]


def test_two_roles_that_send_more_than_buffers_hold_do_not_block_each_other():
    async def floods(role):
        other = "b" if role.name == "a" else "a"
        for index in range(20):
            await Send(other, "x", index, bytes(1_000_000))
        for index in range(20):
            await Receive(Expect("x", index, (other,)))

    roles = [Scripted("a", floods, ["b"]), Scripted("b", floods)]
    record = Processes(queue=2).run(roles, Assignment())
    assert record.ledger.bytes() == 40_000_000


def test_spawned_processes_agree_with_forked_ones():
    forked, spawned = ([Counter("a", "b", 5), Counter("b", "a", 5)] for _ in range(2))
    Processes().run(forked, Assignment(threads=1))
    Processes().run(spawned, Assignment(threads=2))  # more threads than one cannot be forked
    assert totals(forked) == totals(spawned)


@pytest.mark.skipif(sys.platform != "linux", reason="a forked process sees what is planted here")
@pytest.mark.parametrize("late", ["a", "b"])
def test_the_clock_starts_when_all_roles_are_there(monkeypatch, late):
    lost = multiprocessing.Value("q", 0)  # seconds, on the clocks of all processes
    clock, counter = time.monotonic_ns, time.perf_counter
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock() + lost.value * 10**9)
    monkeypatch.setattr(time, "perf_counter", lambda: counter() + lost.value)

    def slow(task, *others):
        if task.role.name == late:
            lost.value = 3600
        play(task, *others)

    async def a(role):
        await Send("b", "x", 0, b"abc")
        await Report({"round": 1})

    async def b(role):
        await Receive(Expect("x", 0, ("a",)))

    monkeypatch.setattr(processes, "play", slow)
    record = Processes().run([Scripted("a", a, ["b"]), Scripted("b", b)], Assignment())
    assert record.seconds_wall > 3600
    (entry,) = record.ledger
    assert 0 <= entry.nanoseconds < 1800e9
    assert 0 <= record.history[0]["seconds"] < 1800
    waits = [spent.nanoseconds for (_, _, kind), spent in record.activities.items()]
    assert sum(waits) < 1800e9
