"""Frames in order, and once, whatever becomes of datagrams; nothing grows by hostile ones."""

from __future__ import annotations

import struct
import sys
import threading
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colonnade.departures import departed
from colonnade.drivers import control, pace
from colonnade.drivers import courier as room
from colonnade.drivers.account import Account
from colonnade.drivers.courier import Courier
from colonnade.drivers.couriered import GATEKEEPER, CourierTransport
from colonnade.drivers.player import Parcel, Player, Task
from colonnade.effects import Send, Work
from colonnade.errors import Aborted, Disconnected, RemoteProtocolError, RoleFailed
from colonnade.flows import Limits
from colonnade.ledger import Ledger
from colonnade.wire import Purpose
from toys import Scripted

HEADER = struct.Struct("!BQQIII")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """In one process what is late is lost, and need not be waited for."""
    monkeypatch.setattr(pace, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(pace, "_SHORTEST_WAIT", 0.01)
    monkeypatch.setattr(pace, "_LONGEST_WAIT", 0.1)
    monkeypatch.setattr(pace, "_TRIES", 300)
    monkeypatch.setattr(pace, "SMALLEST", 356)  # what a chunk of 100 bytes takes
    monkeypatch.setattr(pace, "LARGEST", 356)
    monkeypatch.setattr(pace, "MOST", 1000)
    yield
    for courier in opened:  # each has a thread
        courier.close()
    opened.clear()


opened = []


def pair(fates=(), patience=30.0, limit=5000):
    """Two couriers; each datagram's fate is the next of these: lost, twice, late, or well."""
    ends, got, lost, fates = {}, {"bank": [], "shop": []}, [], iter(fates)
    late, lock = [], threading.Lock()

    def end(own, other):
        def post(peer, datagram):
            with lock:
                fate = next(fates, "well")
                if fate == "late":
                    late.append((peer, own, datagram))
                held, late[:] = ([], late) if fate in ("late", "lost") else (late[:], [])
            for _ in range({"lost": 0, "late": 0, "twice": 2, "well": 1}[fate]):
                ends[peer].receive(own, datagram)
            for receiver, sender, again in held:
                ends[receiver].receive(sender, again)

        made = Courier(
            post, lambda peer, frame: got[own].append(frame), lost.append, lost.append, patience
        )
        made.admit(other, limit)
        made.start()
        return made

    ends |= {"bank": end("bank", "shop"), "shop": end("shop", "bank")}
    opened.extend(ends.values())
    return ends, got, lost


OTHERS = {"bank": ["shop"], "shop": ["bank"]}
FRAMES = [b"", b"a", b"b" * 99, b"c" * 100, b"d" * 101, b"e" * 2345, b"f" * 5000]


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["lost", "twice", "late", "well"]), max_size=60))
@example(["lost"] * 30)
@example(["late", "well"] * 30)
def test_frames_come_in_order_and_once(fates):
    ends, got, lost = pair(fates)
    threads = [
        threading.Thread(target=lambda own=own, to=to: [ends[own].send(to, f) for f in FRAMES])
        for own, to in (("bank", "shop"), ("shop", "bank"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each.flush(OTHERS[own], 30.0) for own, each in ends.items())
    for each in ends.values():
        each.close()
    said = [frame for frame in FRAMES if frame]
    assert got == {"bank": said, "shop": said}
    assert lost == []


def test_who_is_not_heard_is_given_up():
    ends, _, lost = pair(["lost"] * 10**6, patience=0.05)
    with pytest.raises(ConnectionError, match="nothing is heard of 'shop' any more"):
        ends["bank"].send("shop", b"x" * 1000)  # more than may be under way
    assert lost == ["shop"]
    assert not ends["bank"].flush(["shop"], 1.0)


def test_who_is_watched_is_asked_when_it_is_quiet_and_hears_nothing_of_it():
    ends, got, lost = pair(patience=0.2)
    asked, answered = threading.Semaphore(0), ends["shop"].receive

    def receive(peer, datagram):
        answered(peer, datagram)
        asked.release()

    ends["shop"].receive = receive
    ends["bank"].admit("shop", 5000, watched=True)
    ends["shop"].send("bank", b"hello")
    assert all(asked.acquire(timeout=30) for _ in range(10))  # longer than its patience, in all
    assert (got["shop"], lost) == ([], [])


def test_who_is_watched_is_given_up_though_nothing_is_under_way():
    told = threading.Event()
    courier = Courier(lambda *_: None, print, lambda peer: told.set(), print, patience=0.1)
    courier.admit("shop", 100, watched=True)
    courier.receive("shop", datagram())
    courier.start()
    opened.append(courier)
    assert told.wait(30)


def test_no_word_comes_between_the_chunks_of_a_frame():
    """Though all that went of it has come, as where a line takes long for each."""
    ends, got, lost = pair(patience=0.2)
    bank, quiet = ends["bank"], threading.Semaphore(0)
    bank.admit("shop", 5000, watched=True)
    carry, is_quiet = bank._post, room._Outbound.is_quiet

    def looks(out, since):
        found = is_quiet(out, since)
        quiet.release()
        return found

    def slow(peer, datagram):
        carry(peer, datagram)
        if len(datagram) > HEADER.size:
            assert all(quiet.acquire(timeout=30) for _ in range(60))

    room._Outbound.is_quiet = looks
    try:
        bank._post = slow
        bank.send("shop", b"x" * 250)
    finally:
        room._Outbound.is_quiet = is_quiet
    assert bank.flush(["shop"], 30.0)
    assert (got["shop"], lost) == ([b"x" * 250], [])


def test_a_courier_that_is_closed_as_it_looks_around_leaves_no_thread(monkeypatch):
    looked = []

    def closing(courier, *peer):
        if not looked:
            courier.close()
        return looked.append(peer)

    monkeypatch.setattr(Courier, "_look", closing)
    courier = Courier(print, print, print, print)
    courier.admit("shop", 100)
    courier.start()
    for thread in (courier._keepers["shop"], courier._watcher):
        thread.join(timeout=10)
        assert not thread.is_alive()


def test_who_takes_nothing_keeps_nobody_else_from_being_heard():
    ends, _, lost = pair(patience=1.0)
    bank, over, blocked = ends["bank"], threading.Event(), threading.Event()
    carry = bank._post

    def post(peer, datagram):
        if peer == "thief":
            blocked.set()
            over.wait(60)
        else:
            carry(peer, datagram)

    bank._post = post
    bank.admit("thief", 5000)
    bank.receive("thief", datagram())
    assert blocked.wait(30)  # as it is told that this came
    ends["shop"].send("bank", b"hello")
    assert ends["shop"].flush(["bank"], 30.0)
    assert lost == []
    out = bank._peers["thief"].outbound
    with out.changed:
        out.enter(room._Chunk(1, b"x", 0.0))
        out.heard = 0.0
        assert out.changed.wait_for(lambda: "thief" in bank._lost, 30)
    over.set()


def datagram(kind=1, number=0, awaited=0, left=1, data=b"x"):
    return HEADER.pack(kind, number, awaited, left, 0, 0) + data


@pytest.mark.parametrize(
    ("hostile", "why"),
    [
        (b"", "0 bytes are no datagram"),
        (b"\x01" * 20, "20 bytes are no datagram"),
        (datagram(kind=7), "a datagram of kind 7"),
        (datagram(awaited=1), "it awaits chunk 1, of 0 that were sent"),
        (datagram(left=5001), "a frame of 5001 bytes; at most 5000 are accepted"),
        (datagram(left=0), "a chunk of 1 bytes with 0 left"),
        (datagram(left=300, data=b"x" * 99), "a chunk of 99 bytes with 300 left"),
        (datagram(left=50, data=b"x" * 100), "a chunk of 100 bytes with 50 left"),
    ],
)
def test_what_no_courier_sends_is_refused_by_name(hostile, why):
    ends, got, _ = pair()
    with pytest.raises(RemoteProtocolError, match=f"from 'shop': {why}"):
        ends["bank"].receive("shop", hostile)
    assert got["bank"] == []


def test_a_frame_ends_where_it_said():
    ends, _, _ = pair()
    ends["bank"].receive("shop", datagram(left=150, data=b"x" * 100))
    with pytest.raises(RemoteProtocolError, match="with 60 left of its frame, where 50 are"):
        ends["bank"].receive("shop", datagram(number=1, left=60, data=b"x" * 60))


def test_what_comes_too_early_is_kept_within_bounds():
    ends, got, _ = pair()
    for number in range(1, 2000):
        ends["bank"].receive("shop", datagram(number=number, left=100, data=b"x" * 100))
    inbound = ends["bank"]._peers["shop"].inbound
    assert len(inbound.early) == 1000 // 356  # what each takes besides its 100 bytes is counted
    assert got["bank"] == []


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_any_bytes_are_taken_or_refused(data):
    ends, _, _ = pair()
    for each in (data, b"\x01" + bytes(16) + data):
        with suppress(RemoteProtocolError):
            ends["bank"].receive("shop", each)
    for courier in ends.values():
        courier.close()


def test_of_a_stranger_nothing_is_taken():
    ends, got, _ = pair()
    ends["bank"].receive("thief", datagram())
    assert got["bank"] == []


def test_peers_may_be_admitted_while_others_are_looked_after(switching):
    """Whoever looks after peers found one that was half admitted, and looked after nobody again."""
    looked_after, over, failed = [Courier(print, print, print, print)], threading.Event(), []

    def look():
        try:
            while not over.is_set():
                looked_after[0]._give_up()
                looked_after[0].receive("shop", datagram(kind=2))
        except KeyError as error:
            failed.append(error)

    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(3000):
        looked_after[0] = Courier(print, print, print, print)
        looked_after[0].admit("shop", 100)
    over.set()
    looking.join()
    assert failed == []


@pytest.fixture
def switching():
    """Let threads take turns all the time."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_what_keeps_peers_from_being_looked_after_is_told(monkeypatch):
    monkeypatch.setattr(Courier, "_look", fails)
    failed, told = [], threading.Event()
    courier = Courier(print, print, print, lambda error: (failed.append(error), told.set()))
    courier.admit("shop", 100)
    courier.send("shop", b"hello")
    courier.start()
    assert not courier.flush(["shop"], 30.0)
    assert told.wait(30)
    assert [*map(type, failed)] == [RoleFailed]
    assert "messages cannot be sent again: MemoryError" in str(failed[0])
    with pytest.raises(ConnectionError):
        courier.send("shop", b"again")


def fails(*_):
    raise MemoryError


class Deaf:
    """A player of which nothing but its end is asked."""

    failure = None
    role = Scripted("bank", None)

    def __init__(self):
        self.failures, self.obeyed, self.lost = [], [], []
        self.fail, self.obey, self.lose = (
            self.failures.append,
            self.obeyed.append,
            self.lost.append,
        )

    def leaving(self, parcel):
        """Let it leave."""


def blocked(player):
    """Return a transport, and a thread that waits in it for room: nobody acknowledges anything."""
    transport = CourierTransport(lambda *_: None, print, print)
    transport.admit(["shop"], 100, b"agreed", backlog=1)
    transport.start(player)
    sent, parcel = threading.Semaphore(0), Parcel(b"", bytes(400), ())

    def send():
        for _ in range(20):
            transport.send("shop", parcel)
            sent.release()

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    for _ in range(2):  # so many are under way, and then one waits, and then its sender
        assert sent.acquire(timeout=10)
    return transport, thread


ENDS = {
    "another failed": lambda transport: transport._obey(control.encode(control.Abort("it did"))),
    "a peer lied": lambda transport: transport.receive("shop", b"abc"),
    "the server is gone": lambda transport: transport._lose(GATEKEEPER),
    "the job was aborted": lambda transport: transport.abandon(),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_role_that_waits_for_room_is_free_when_the_run_ends(how):
    player = Deaf()
    transport, thread = blocked(player)
    ENDS[how](transport)
    thread.join(timeout=10)
    assert not thread.is_alive()
    ended = [*player.failures, *player.obeyed]
    assert len(ended) == (how != "the job was aborted")
    assert all(isinstance(end, Aborted | RemoteProtocolError | control.Abort) for end in ended)
    writers = transport._writers._threads
    transport._courier.flush = lambda *_: None  # nobody will acknowledge anything
    transport.close()
    for writer in writers:
        writer.join(timeout=10)
        assert not writer.is_alive()


@pytest.mark.parametrize("how", [*ENDS][:3])
def test_a_role_that_waits_for_its_last_messages_is_free_when_the_run_ends(how):
    posted = threading.Event()
    transport = CourierTransport(lambda *_: posted.set(), print, print)
    transport.admit(["shop"], 100, b"agreed")
    player = Deaf()
    transport.start(player)
    transport.send("shop", Parcel(b"", b"last", ()))
    assert posted.wait(10)
    thread = threading.Thread(target=transport.flush, daemon=True)
    thread.start()
    ENDS[how](transport)
    thread.join(timeout=10)
    assert not thread.is_alive()
    with pytest.raises(ConnectionError, match="nothing goes to 'shop' any more"):
        transport._courier.send("shop", b"more")
    transport._courier.close()


def test_a_role_that_has_failed_waits_for_no_post_that_takes_without_end():
    over, blocked = threading.Event(), threading.Event()

    def post(peer, datagram):
        if peer == "shop":
            blocked.set()
            over.wait(60)

    transport = CourierTransport(post, print, print)
    transport.admit(["shop"], 100, b"agreed")
    player = Deaf()
    transport.start(player)
    transport.send("shop", Parcel(b"", b"last", ()))
    assert blocked.wait(10)
    thread = threading.Thread(target=transport.flush, daemon=True)
    thread.start()
    player.failure = Aborted("another failed")
    transport.abandon()
    thread.join(timeout=10)
    assert not thread.is_alive()
    over.set()
    transport._courier.close()


def test_a_courier_is_closed_whatever_a_post_does(monkeypatch):
    monkeypatch.setattr(room, "_LAST", 0.1)
    over, blocked = threading.Event(), threading.Event()

    def post(peer, datagram):
        blocked.set()
        over.wait(60)

    courier = Courier(post, print, print, print)
    courier.admit("shop", 100)
    courier.start()
    courier.receive("shop", datagram())
    assert blocked.wait(10)
    courier.receive("shop", datagram(number=1))
    thread = threading.Thread(target=courier.close, daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
    over.set()


@pytest.mark.parametrize("sends", [1, 2], ids=["a chunk", "an acknowledgement"])
def test_who_sends_anything_is_there_though_nothing_new_came(sends):
    """As on a slow line, in which what was repeated is before what was not."""
    ends, _, lost = pair(["lost"] * 10**6, patience=0.3)
    bank, heard = ends["bank"], threading.Semaphore(0)
    bank.send("shop", b"hello")
    give_up = bank._give_up

    def told():
        bank.receive("shop", datagram(kind=sends))
        give_up()
        heard.release()

    bank._give_up = told
    assert all(heard.acquire(timeout=30) for _ in range(60))  # three times its patience
    assert lost == []


def test_who_takes_nothing_is_given_up_though_it_is_there():
    """Who acknowledged again and again what it had, and took no more, was waited for."""
    ends, _, lost = pair(["lost"] * 10**6, patience=0.1)
    bank = ends["bank"]
    bank.send("shop", b"hello")
    give_up, over = bank._give_up, threading.Event()

    def told():
        bank.receive("shop", datagram(kind=2))
        give_up()
        if lost:
            over.set()

    bank._give_up = told
    assert over.wait(30)
    assert lost == ["shop"]


def test_what_is_abandoned_has_not_come_and_what_comes_is_still_taken():
    ends, got, lost = pair(["lost"] * 10**6)
    ends["bank"].send("shop", b"hello")
    ends["bank"].abandon(["shop", "stranger"])
    assert not ends["bank"].flush(["shop"])
    ends["bank"].receive("shop", datagram(left=5, data=b"thing"))
    assert (got["bank"], lost) == ([b"thing"], [])


def begun(post):
    """Return a transport that the gatekeeper lets begin, once something is told it."""
    told = threading.Event()

    def carry(peer, datagram):
        if peer == GATEKEEPER:
            told.set()
        else:
            post(peer, datagram)

    transport = CourierTransport(carry, print, print)
    transport.admit(["shop"], 100, b"agreed")

    def begin():
        assert told.wait(30)
        frame = control.encode(control.Begin(0))
        transport.receive(GATEKEEPER, HEADER.pack(1, 0, 0, len(frame), 0, 0) + frame)

    threading.Thread(target=begin, daemon=True).start()
    return transport


@pytest.mark.parametrize("many", [0, 1, 7])
def test_what_left_of_a_role_that_failed_is_noted_and_no_more_leaves(tmp_path, monkeypatch, many):
    monkeypatch.setattr(pace, "_FIRST_WAIT", 60.0)  # so nothing goes twice
    monkeypatch.setattr(pace, "MOST", 10**6)
    gone, enough, over = [], threading.Event(), threading.Event()

    def post(peer, datagram):
        if len(datagram) == HEADER.size:
            return
        gone.append(datagram)
        if len(gone) == 1 + many:  # the first one says what was agreed on
            enough.set()
            over.wait(30)

    async def fails(role):
        for number in range(20):
            await Send("shop", "x", number, b"1234", Purpose.TRAINING)
        await Work("work", lambda: enough.wait(30), 0)
        raise ValueError("it fails")

    transport = begun(post)
    role, sent = Scripted("bank", fails, ["shop"]), Ledger()
    task = Task(role, None, Account(), [], 99, 0, Limits(), False, None, tmp_path, False, sent=sent)
    player = Player(task, transport)
    transport.start(player)
    try:
        with pytest.raises(RoleFailed, match="it fails"):
            player.play()
    finally:
        over.set()
        for writer in transport._writers._threads:
            writer.join(30)
        transport._courier.close()
    assert len(gone) == 1 + many
    noted = departed(tmp_path, "bank")
    assert [entry.sequence for entry in noted] == [*range(many)]
    assert [*sent] == noted


def test_a_role_that_plays_on_after_its_run_has_ended_keeps_nothing(tmp_path):
    """Its last messages had not come, so its end is none to go on from."""
    transport = begun(lambda *_: None)

    async def plays(role):
        await Send("shop", "x", 0, b"1234", Purpose.TRAINING)

    role = Scripted("bank", plays, ["shop"])
    task = Task(role, None, Account(), [], 99, 0, Limits(), False, None, None, False)
    player = Player(task, transport)
    player._complete_account = lambda: pytest.fail("it was kept")
    transport.flush = lambda: player.fail(Aborted("another failed"))
    transport.start(player)
    with pytest.raises(Aborted, match="another failed"):
        player.play()
    transport._courier.close()


@pytest.mark.parametrize("origin", [2**61 + 1, -(2**61) - 1, 2**64 - 1])
def test_a_clock_beyond_64_bits_is_not_begun_with(origin):
    failed = []
    transport = CourierTransport(lambda *_: None, print, failed.append)
    transport.admit(["shop"], 100, b"agreed")
    player = Deaf()
    transport.start(player)
    transport._courier._peers[GATEKEEPER].inbound.limit = 10**6
    frame = control.encode(control.Begin(origin))
    transport.receive(GATEKEEPER, HEADER.pack(1, 0, 0, len(frame), 0, 0) + frame)
    assert player.obeyed == []
    [error] = player.failures
    assert isinstance(error, RemoteProtocolError)
    transport._courier.close()


def test_who_cannot_be_reached_ends_the_role_that_sent_to_it():
    transport = CourierTransport(lambda *_: None, print, print)
    transport.admit(["shop"], 100, b"agreed")
    player = Deaf()
    transport.start(player)
    transport._lose("shop")
    assert player.lost == ["shop"]
    [error] = player.failures
    assert isinstance(error, Disconnected)
    assert str(error) == "bank has lost its connection to shop, and with it messages that were sent"
    transport._courier.close()


def told(transport, *messages):
    """Let the gatekeeper tell these."""
    for number, message in enumerate(messages):
        frame = control.encode(message)
        transport.receive(GATEKEEPER, HEADER.pack(1, number, 0, len(frame), 0, 0) + frame)


@pytest.fixture
def done():
    """A transport whose player has played, and what is heard and goes wrong besides."""
    heard, failed = [], []
    transport = CourierTransport(lambda *_: None, heard.append, failed.append)
    transport.admit(["shop"], 100, b"agreed")
    transport.start(Deaf())
    yield transport, heard, failed
    transport._courier.close()


def test_that_a_run_is_ended_is_heard_by_whoever_is_there(done):
    transport, heard, failed = done
    transport._player.failure = Aborted("another failed")  # as its last word was on its way
    with pytest.raises(Aborted, match="another failed"):
        transport.release()
    told(transport, control.Abort("once more"))
    assert (len(heard), failed) == (1, [])


def test_what_is_told_players_is_for_nobody_when_they_have_played(done):
    transport, heard, failed = done
    transport.release()
    told(transport, control.Ask(3), control.Gate(7), control.Save({}), control.Stop({}))
    transport._accept("shop", b"more than was to be sent")
    transport._lose("shop")
    assert (heard, failed) == ([], [])
