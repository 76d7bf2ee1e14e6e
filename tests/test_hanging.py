"""What would leave real processes waiting for ever is an error in words, as under the simulator."""

from __future__ import annotations

import errno
import multiprocessing
import os
import select
import signal
import socket
import sys
import threading
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from colonnade.checkpoints import CheckpointStore
from colonnade.drivers import (
    Assignment,
    Processes,
    Replay,
    Simulate,
    control,
    gatekeeper,
    inquiry,
    processes,
)
from colonnade.drivers.account import Account
from colonnade.drivers.child import SocketTransport, play
from colonnade.drivers.elsewhere import Elsewhere
from colonnade.drivers.failures import failed as told_of
from colonnade.drivers.framed import FramedSocket, Frames, connected_pair, control_line
from colonnade.drivers.handed import Handed
from colonnade.effects import Boundary, Close, Expect, Receive, Send
from colonnade.errors import ConfigurationError, Deadlock, RemoteProtocolError, RoleFailed
from colonnade.flows import Limits
from colonnade.wire import Purpose, encode_header
from test_elsewhere import python
from toy_elsewhere import HERE, cast_writing
from toys import Scripted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs forked processes")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Ask how it stands soon, wait for no process that is stopped, and leave none behind."""
    monkeypatch.setattr(inquiry, "_QUIET", 0.1)
    monkeypatch.setattr(processes, "_ENDING", 0.5)
    yield
    assert not multiprocessing.active_children()


async def awaits(role):
    await Receive(Expect("x", 3, ("a",)))


def sending(kind="x", round=3, purpose=Purpose.TRAINING, part=0):
    async def sends(role):
        await Send("b", kind, round, b"abc", purpose, part)

    return sends


def pair(sends, then=awaits):
    return [Scripted("a", sends, ["b"]), Scripted("b", then)]


WRONG = {
    "round": sending(round=4),
    "kind": sending(kind="y"),
    "purpose": sending(purpose=Purpose.EVALUATION),
    "part": sending(part=2),
}


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_message_that_nobody_awaits_is_told(driver, wrong):
    with pytest.raises(Deadlock, match=r"b waits for x of round 3") as caught:
        driver.run(pair(WRONG[wrong]), Assignment())
    assert "not awaited: " in str(caught.value)
    assert str(caught.value).endswith("finished: a")


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_two_that_wait_for_each_other(driver):
    async def waits(role):
        await Receive(Expect("y", 0, ("b",)))

    with pytest.raises(Deadlock, match=r"a waits for y of round 0 .*; b waits for x of round 3"):
        driver.run(pair(waits), Assignment())


def test_one_that_waits_at_the_gate_for_one_that_never_comes():
    async def goes_far(role):
        for round in range(1000):
            role.round = round
            await Boundary(round)

    with pytest.raises(Deadlock, match=r"a waits for the others at the boundary before round 10"):
        Processes().run(pair(goes_far), Assignment(stop_before=10))


def test_who_only_computes_for_long_is_left_alone():
    async def computes(role):
        for _ in range(4):
            await role.work("work")
            multiprocessing.Event().wait(0.2)  # longer than the parent waits before it asks
        await Send("b", "x", 3, b"abc")

    assert Processes().run(pair(computes), Assignment()).completed


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_a_flood_that_nobody_awaits_ends_the_run(driver):
    async def floods(role):
        for round in range(4, 200):
            await Send("b", "x", round, bytes(100))
        await Receive(Expect("y", 0, ("b",)))

    with pytest.raises(RemoteProtocolError, match="'a' has sent 'b' 65 messages of 6,500 bytes"):
        driver.run(pair(floods), Assignment(limits=Limits(messages=64)))


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_a_flood_of_what_is_too_late_ends_the_run(driver):
    async def floods(role):
        await Receive(Expect("y", 2, ("b",)))
        for _ in range(200):
            await Send("b", "x", 1, bytes(100))
        await Receive(Expect("y", 3, ("b",)))

    async def has_closed(role):
        await Close(2)
        await Send("a", "y", 2, b"")
        await Receive(Expect("x", 3, ("a",)))

    told = "'a' has sent 'b' 97 messages too late, more than there can be of 2 rounds by what was"
    both = [Scripted("a", floods, ["b"]), Scripted("b", has_closed, ["a"])]
    with pytest.raises(RemoteProtocolError, match=told):
        driver.run(both, Assignment(limits=Limits(messages=64)))


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_what_is_in_no_agreement_ends_the_run(driver):
    limits = Limits(flows=frozenset({("a", "b", "x", Purpose.TRAINING)}))
    assert driver.run(pair(sending()), Assignment(limits=limits)).completed
    with pytest.raises(RemoteProtocolError, match=r"'a' has sent 'b' y of round 3 .*, which"):
        driver.run(pair(sending(kind="y")), Assignment(limits=limits))


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(flows=frozenset()), r"'a' has sent 'b' x of round 3 .*, which nobody awaits"),
        (Limits(body=2), "a body of 3 bytes, at most 2 are accepted"),
    ],
    ids=["flow", "body"],
)
def test_a_role_that_waits_already_is_handed_nothing_but_what_was_agreed(driver, limits, told):
    with pytest.raises(RemoteProtocolError, match=told):
        driver.run(pair(sending())[::-1], Assignment(limits=limits))


def test_a_replay_takes_nothing_but_what_was_agreed():
    record = Simulate().run(pair(sending()), Assignment())
    with pytest.raises(RemoteProtocolError, match="which nobody awaits"):
        Replay(record.trace).run(pair(sending()), Assignment(limits=Limits(flows=frozenset())))


def raw(monkeypatch, data, close=False):
    """Let the process of ``a`` write bytes to ``b`` before it plays its role."""

    def played(task, peers, *others):
        if task.role.name == "a":
            peers["b"].sendall(data)
            if close:
                peers["b"].shutdown(socket.SHUT_RDWR)
        play(task, peers, *others)

    monkeypatch.setattr(processes, "play", played)


async def nothing(role):
    pass


def test_half_a_frame_keeps_nobody_from_hearing_others(monkeypatch):
    raw(monkeypatch, bytes.fromhex("00000064") + b"half")

    async def others(role):
        await Receive(Expect("x", 0, ("c",)))
        await Receive(Expect("x", 0, ("a",)))

    async def c(role):
        await Send("b", "x", 0, b"")

    roles = [*pair(nothing, others), Scripted("c", c, ["b"])]
    with pytest.raises(Deadlock, match=r"b waits for x of round 0 \(training\) from a"):
        Processes().run(roles, Assignment())


LIES = {
    "leaves twice": (control.Left, lambda told: [told, told]),
    "comes again while all play": (control.Played, lambda told: [control.Waiting([]), told]),
    "is cast again while all play": (control.Played, lambda told: [control.Cast("x"), told]),
    "ends with no account": (control.Played, lambda told: [replaced(told, account={})]),
    "ends with another account": (control.Played, lambda told: [replaced(told, account={"a": 1})]),
    "ends with no state": (control.Played, lambda told: [replaced(told, state=b"zz")]),
    "saves no account": (control.Saved, lambda told: [replaced(told, account={})]),
    "saves another account": (control.Saved, lambda told: [replaced(told, account={"a": 1})]),
}


def test_what_is_nested_too_deep_is_refused_by_the_name_of_who_told_it(monkeypatch):
    """It was a RecursionError that named nobody."""
    deep = b"\x82\xa4type\xa6Played\xa7account\x81\xa1a" + b"\x91" * 5000 + b"\xc0"

    def send(connection, header, body):
        is_theirs = multiprocessing.current_process().name == "colonnade a"
        lies = is_theirs and connection.prefix == 8
        whole(connection, header, deep if lies else body)

    whole = FramedSocket.send
    monkeypatch.setattr(FramedSocket, "send", send)
    with pytest.raises(RoleFailed, match=r"the process of 'a' told what cannot be read: .*recurs"):
        Processes().run(pair(nothing, nothing), Assignment())


@pytest.mark.parametrize("decode", [control.from_gatekeeper, control.from_player])
@pytest.mark.parametrize("data", [b"\x91" * 10**5, b"\x81\xa4type\xa2\xff\xff"])
def test_words_are_read_or_refused(decode, data):
    with pytest.raises(msgspec.DecodeError):
        decode(data)


def replaced(told, **fields):
    return msgspec.structs.replace(told, **fields)


@pytest.mark.parametrize("lie", LIES)
def test_a_process_that_tells_what_no_player_tells_is_named(monkeypatch, tmp_path, lie):
    kind, instead = LIES[lie]

    def send(connection, header, body):
        is_theirs = multiprocessing.current_process().name == "colonnade a"
        told = control.from_player(body) if is_theirs and connection.prefix == 8 else None
        if not isinstance(told, kind):
            whole(connection, header, body)
            return
        bodies = map(control.encode, instead(told))
        frames = b"".join(len(each).to_bytes(8, "big") + each for each in bodies)
        connection._socket.sendall(frames)  # at once, so that they are heard together

    async def plays(role):
        if kind is control.Saved:
            await Boundary(2)

    whole = FramedSocket.send
    monkeypatch.setattr(FramedSocket, "send", send)
    store = CheckpointStore(tmp_path, {"run": "x"}) if kind is control.Saved else None
    if store is not None:
        store.make()
    assignment = Assignment(store=store, checkpoint_every=2)
    with pytest.raises((RemoteProtocolError, RoleFailed), match=r"'a'|that a told"):
        Processes().run([Scripted("a", plays), Scripted("b", plays)], assignment)


@pytest.mark.parametrize("part", [0, 3, 9])
def test_who_counts_what_it_has_not_sent_is_waited_for_a_while_alone(monkeypatch, part):
    def send(connection, header, body):
        if connection.prefix == 4:
            frame = (len(header) + len(body)).to_bytes(4, "big") + header + body
            connection._socket.sendall(frame[:part])
        else:
            whole(connection, header, body)

    whole = FramedSocket.send
    monkeypatch.setattr(FramedSocket, "send", send)
    monkeypatch.setattr(processes, "_ON_THE_WAY", 1.0)
    with pytest.raises(RemoteProtocolError, match="'a' tells that it has sent 'b' 1 messages, and"):
        Processes().run(pair(sending()), Assignment())


def test_a_connection_that_ends_before_its_process(monkeypatch):
    raw(monkeypatch, b"", close=True)
    with pytest.raises(Deadlock, match="b has lost its connection to a"):
        Processes().run(pair(sending()), Assignment())


def test_messages_that_were_lost_at_the_very_end_are_missed(monkeypatch):
    """Though nobody awaited them: what was sent is counted when it has come."""

    def played(task, peers, *others):
        if task.role.name == "a":
            peers["b"].shutdown(socket.SHUT_WR)
        play(task, peers, *others)

    monkeypatch.setattr(processes, "play", played)
    with pytest.raises(RoleFailed, match="b has lost its connection to a, and with it messages"):
        Processes().run(pair(sending(), nothing), Assignment())


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0)])
def test_a_message_that_comes_twice_or_behind_a_later_one_names_its_sender(
    monkeypatch, first, second
):
    frames = [encode_header("x", Purpose.TRAINING, 3, n) + b"abc" for n in (first, second)]
    raw(monkeypatch, b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))

    async def twice(role):
        await awaits(role)
        await awaits(role)

    with pytest.raises(RemoteProtocolError, match=f"'a' sent message {second} after {first}"):
        Processes().run(pair(nothing, twice), Assignment())


@pytest.mark.parametrize("length", ["7fffffff", "ffffffff", "80000000"])
def test_a_length_that_is_not_accepted_names_its_sender(monkeypatch, length):
    raw(monkeypatch, bytes.fromhex(length))
    with pytest.raises(RemoteProtocolError, match=r"from 'a': a message of \d+ bytes is announced"):
        Processes().run(pair(nothing), Assignment())


@pytest.mark.parametrize("error", [OSError(errno.ENOBUFS, "No buffer space"), MemoryError()])
@pytest.mark.parametrize("way", ["send", "receive"])
def test_a_thread_that_fails_ends_the_run(monkeypatch, error, way):
    right = getattr(FramedSocket, way)

    def fails(self, *arguments):
        if self.prefix == 4:  # not on its line to the parent
            raise error
        return right(self, *arguments)

    async def sends(role):
        for index in range(200):  # more than the queue holds
            await Send("b", "x", index, b"abc")
        await Receive(Expect("y", 0, ("b",)))

    monkeypatch.setattr(FramedSocket, way, fails)
    told = {"send": "messages to 'b' cannot be sent", "receive": "messages of 'a' cannot be"}[way]
    with pytest.raises(RoleFailed, match=f"{told}.*: {type(error).__name__}"):
        Processes().run(pair(sends), Assignment())


def test_frames_come_in_any_pieces():
    bodies = [b"", b"a", bytes(300), os.urandom(70_000)]
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    for size in (1, 3, 7, 1000, len(stream)):
        frames = Frames(limit=70_000)
        got = [
            frame
            for start in range(0, len(stream), size)
            for frame in frames.feed(stream[start : start + size])
        ]
        assert got == bodies


def test_no_connection_in_time_is_told(monkeypatch):
    def refuses(*_, **__):
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", refuses)
    with pytest.raises(RoleFailed, match="could not be connected on this machine: timed out"):
        connected_pair()


def test_what_two_threads_tell_at_once_stays_apart():
    """The role's thread saves a large state while another answers how it stands."""
    heard, told = socket.socketpair()
    line = control_line(heard)
    transport = SocketTransport({}, told, 1, 1000)
    large = control.Saved(bytes(8_000_000), Account().packed(), [], [], [], 0.0)
    small = control.Standing(1, None, {}, {}, [])
    threads = [
        threading.Thread(target=lambda m=m: [transport.tell(m) for _ in range(10)])
        for m in (large, small)
    ]
    for thread in threads:
        thread.start()
    got = []
    while len(got) < 20:
        got += map(control.from_player, line.receive())
    for thread in threads:
        thread.join()
    assert got.count(large) == got.count(small) == 10
    heard.close()
    told.close()


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (bytes.fromhex("0000000000000002") + b"\xc1n", ""),
        (bytes.fromhex("7fffffffffffffff"), "a message of 9223372036854775807 bytes is announced"),
    ],
    ids=["no message", "a length beyond all"],
)
def test_what_a_process_tells_that_cannot_be_read_ends_the_run(monkeypatch, frame, why):
    def played(task, peers, parent, *others):
        parent.sendall(frame)
        play(task, peers, parent, *others)

    monkeypatch.setattr(processes, "play", played)
    with pytest.raises(RoleFailed, match=f"the process of 'a' told what cannot be read: {why}"):
        Processes().run(pair(nothing), Assignment())


def test_a_process_that_is_stopped_keeps_nobody_from_seeing_another_die(monkeypatch):
    """However long it was quiet before: its pipe does not fill with questions."""

    async def stops(role):
        os.kill(os.getpid(), signal.SIGSTOP)

    async def dies(role):
        threading.Event().wait(1.5)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(inquiry, "_QUIET", 0.0)
    monkeypatch.setattr(processes, "_LOOK", 0.001)
    with pytest.raises(RoleFailed, match="the process of 'b' died"):
        Processes().run(pair(stops, dies), Assignment())


def test_a_process_that_is_stopped_in_the_midst_of_telling_keeps_nobody_from_being_heard(
    monkeypatch,
):
    stopped = multiprocessing.Event()

    async def waits(role):
        await Receive(Expect("y", 0, ("b",)))

    async def dies(role):
        stopped.wait()
        threading.Event().wait(0.5)  # the parent has begun to read
        os.kill(os.getpid(), signal.SIGKILL)

    def told(self, message):
        if isinstance(message, control.Standing) and "a" not in self.peers:
            self._parent._socket.sendall(bytes.fromhex("0000000000001000") + b"half")
            stopped.set()
            os.kill(os.getpid(), signal.SIGSTOP)
        right(self, message)

    right = SocketTransport.tell
    monkeypatch.setattr(SocketTransport, "tell", told)
    with pytest.raises(RoleFailed, match="the process of 'b' died"):
        Processes().run(pair(waits, dies), Assignment())


@pytest.mark.skipif(sys.platform != "linux", reason="others end when they go on")
def test_a_process_that_is_stopped_does_not_outlive_its_parent():
    heard, tell = os.pipe()

    async def stops(role):
        os.write(tell, str(os.getpid()).encode())
        os.kill(os.getpid(), signal.SIGSTOP)

    parent = multiprocessing.get_context("fork").Process(
        target=lambda: Processes().run(pair(stops), Assignment())
    )
    parent.start()
    stopped = os.pidfd_open(int(os.read(heard, 20)))
    parent.kill()
    parent.join()
    ended, _, _ = select.select([stopped], [], [], 30.0)
    if not ended:
        signal.pidfd_send_signal(stopped, signal.SIGKILL)
    assert ended


@pytest.mark.skipif(sys.platform != "linux", reason="processes elsewhere inherit no pipe")
def test_a_process_that_is_stopped_is_waited_for_however_far_others_go(monkeypatch):
    """What it was told of each of their gates filled its socket, and the run ended by its name."""
    heard, tell = os.pipe()

    async def stops(role):
        os.write(tell, str(os.getpid()).encode())
        os.kill(os.getpid(), signal.SIGSTOP)

    async def goes(role):
        stopped = int(os.read(heard, 20))
        for round in range(20_000):
            role.round = round
            await Boundary(round)
        os.kill(stopped, signal.SIGCONT)

    monkeypatch.setattr(processes, "_PATIENCE", 0.1)
    monkeypatch.setattr(gatekeeper, "_GATE_AHEAD", 2)
    assert Processes().run(pair(stops, goes), Assignment()).completed
    os.close(heard)
    os.close(tell)


def open_files():
    return len([*Path("/proc/self/fd").iterdir()]) if sys.platform == "linux" else 0


@pytest.mark.parametrize("what", ["socketpair", "fork"])
def test_a_process_that_cannot_be_started_is_told(monkeypatch, what):
    def refuses(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    before = open_files()
    monkeypatch.setattr(socket if what == "socketpair" else os, what, refuses)
    with pytest.raises(RoleFailed, match="the process of 'a' cannot be started: Too many open"):
        Processes().run(pair(nothing), Assignment())
    if what == "socketpair":  # what multiprocessing had opened for a fork it does not close
        assert open_files() <= before


def test_what_cannot_be_handed_to_a_process_is_told(monkeypatch):
    async def local(role):
        pass

    monkeypatch.setattr(processes, "_context", lambda threads: processes._spawning())
    with pytest.raises(ConfigurationError, match="'a' cannot be handed to a process of its own"):
        Processes().run(pair(local), Assignment())


class EndsWhenRead:
    """Ends the process that unpickles it, while much of what that is given is not read yet."""

    def __call__(self, *_):
        raise AssertionError

    def __reduce__(self):
        return os._exit, (3,)


def test_a_process_that_ends_before_it_has_read_what_it_is_given_ends_the_run(monkeypatch):
    monkeypatch.setattr(processes, "play", EndsWhenRead())
    given = np.ones(2**20)  # far more than a pipe holds
    roles = [Elsewhere("a", [], partial(cast_writing, given)), Elsewhere("b", [], HERE.copy)]
    with pytest.raises(RoleFailed, match=r"the process of '[ab]' died \(exit code 3\)"):
        Processes().run(roles, Assignment())


def test_what_is_handed_over_waits_for_nobody_and_is_no_memory_shared():
    handed = Handed(torch.ones(2**20))  # far more than a pipe holds
    there = ForkingPickler.loads(ForkingPickler.dumps(handed))
    assert torch.equal(there.taken(), torch.ones(2**20))
    handed.close()
    with pytest.raises(OSError, match="closed"):
        there.taken()


def test_a_script_that_a_new_process_runs_again_trains_nothing(monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(ConfigurationError, match='below if __name__ == "__main__":'):
        Processes().run([Elsewhere("a", [], HERE.copy)], Assignment())


FIRST_PROCESS = """
import multiprocessing, signal
from colonnade.drivers.deaf import deaf
with deaf():  # it is the first: multiprocessing starts its tracker with it
    process = multiprocessing.get_context("spawn").Process(
        target=signal.raise_signal, args=(signal.SIGINT,)
    )
    process.start()
process.join()
assert process.exitcode == 0, process.exitcode
"""


def test_the_first_process_does_not_hear_the_terminal(tmp_path):
    python(FIRST_PROCESS, tmp_path)


def test_what_is_made_for_forked_processes_is_told_with_its_remedy():
    lock = multiprocessing.get_context("fork").Lock()
    with pytest.raises(ConfigurationError, match=r"made by multiprocessing\.get_context"):
        Processes().run([Elsewhere("a", [], partial(cast_writing, lock))], Assignment())


def test_an_interruption_while_processes_end_leaves_none_behind(monkeypatch):
    async def dies(role):
        raise ValueError

    async def stops(role):
        os.kill(os.getpid(), signal.SIGSTOP)

    def interrupted(process, timeout=None):
        monkeypatch.setattr(BaseProcess, "join", right)
        raise KeyboardInterrupt

    right = BaseProcess.join
    monkeypatch.setattr(BaseProcess, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Processes().run(pair(dies, stops), Assignment())


class Silent(Exception):
    def __str__(self):
        raise self


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no file \ud800"), "no file \\ud800"),
        (ValueError("x" * 10**7), f"{'x' * 50_000} [...] {'x' * 50_000}"),
        (Silent(), "it cannot say what it is"),
    ],
    ids=["a surrogate", "endless", "none"],
)
def test_what_a_process_failed_of_is_told_whatever_its_error_says(error, told):
    failed = told_of(error)
    assert (failed.error, failed.message) == (type(error).__name__, told)
    assert len(failed.traceback) < 200_000

    async def fails(role):
        raise error

    with pytest.raises(RoleFailed, match=f"^a failed in round 0: {type(error).__name__}") as caught:
        Processes().run(pair(fails), Assignment())
    assert len(str(caught.value)) < 300
