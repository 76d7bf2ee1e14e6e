"""Who says nothing, or takes nothing, keeps few threads of FLARE's waiting."""

from __future__ import annotations

import socket
import ssl
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers import tcp_driver
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.drivers.tcp_driver import TcpStreamServer
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

from colonnade.deployment import held_up
from colonnade.deployment.held_up import guard_connections, speaking_for
from toy_certificate import certified
from toy_guarded import put_back


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    put_back(monkeypatch)


@pytest.fixture
def contexts(tmp_path):
    """Return what a server and a client bring to TLS."""
    certified(tmp_path)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    theirs = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    theirs.check_hostname = False
    return own, theirs


class Says:
    """A connection that says one word, and hears none."""

    def __init__(self, connection, *_):
        connection.sendall(b"in")


@pytest.fixture
def listening(monkeypatch, contexts):
    """Return where FLARE's server listens, over TLS, and what a client brings."""
    own, theirs = contexts
    monkeypatch.setattr(tcp_driver, "get_ssl_context", lambda *_, **__: own)
    monkeypatch.setattr(tcp_driver, "ConnectionHandler", Says)
    guard_connections(), guard_connections()
    server = TcpStreamServer(None, SimpleNamespace(params={"host": "127.0.0.1", "port": 0}))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_address, theirs
    server.shutdown()
    server.server_close()
    thread.join()


def lets_in(address, theirs):
    with (
        socket.create_connection(address, timeout=60) as plain,
        theirs.wrap_socket(plain) as connection,
    ):
        return connection.recv(2) == b"in"


def test_who_says_nothing_keeps_nobody_out(listening):
    """One connection without a certificate, and nobody was let in as long as it was open."""
    with socket.create_connection(listening[0]), socket.create_connection(listening[0]) as other:
        other.sendall(b"no TLS")
        assert lets_in(*listening)
        assert lets_in(*listening)


def test_who_says_nothing_is_hung_up_on(listening, monkeypatch):
    monkeypatch.setattr(held_up, "_HANDSHAKE", 0.1)
    with socket.create_connection(listening[0], timeout=60) as silent:
        assert silent.recv(1) == b""


class Ends:
    """Both ends of a connection over TLS, of which FLARE has one, and the other takes nothing."""

    def __init__(self, contexts, mode=Mode.PASSIVE):
        self.sockets = socket.socketpair()
        wrapped = [
            context.wrap_socket(each, server_side=not number, do_handshake_on_connect=False)
            for number, (context, each) in enumerate(zip(contexts, self.sockets, strict=True))
        ]
        shaking = threading.Thread(target=wrapped[1].do_handshake)
        shaking.start()
        wrapped[0].do_handshake()
        shaking.join()
        self.theirs = wrapped[1]
        connector = SimpleNamespace(mode=mode, params={})
        connection = SocketConnection(wrapped[0], connector, secure=True)
        connection.conn_props["peer_cn"] = "shop"
        self.own = SfmConnection(connection, Endpoint("server"))

    def send(self, payload):
        self.own.send_data(1, 1, {}, payload)

    def taken(self):
        """Return the payload of the next frame that has one."""
        head = self._read(PREFIX_LEN)
        prefix = Prefix.from_bytes(head)
        return self._read(prefix.length - PREFIX_LEN)[prefix.header_len :]

    def _read(self, size):
        data = b""
        while len(data) < size:
            data += self.theirs.recv(size - len(data)) or pytest.fail("the connection was closed")
        return data

    def close(self):
        self.theirs.close()
        self.own.conn.close()


@pytest.fixture
def ends(contexts):
    guard_connections(), guard_connections()
    made = Ends(contexts)
    yield made
    made.close()


BIG = 2**23


def test_who_takes_nothing_has_no_thread_wait(ends):
    """One frame that fitted into no buffer kept who sent it, and who had a word after it, for ever.

    So one connection that nobody read kept all jobs from being begun, and three the server from
    hearing anybody.
    """
    ends.send(b"x" * BIG)
    for word in range(50):
        ends.send(b"%d" % word)
    assert ends.own.get_send_stall_seconds() == 0.0
    assert ends.taken() == b"x" * BIG
    assert [ends.taken() for _ in range(50)] == [b"%d" % word for word in range(50)]


def test_who_sends_much_loses_it_and_keeps_nobody_elses_waiting(ends, caplog):
    ends.send(b"first")  # is under way when others come
    for _ in range(1025):
        with speaking_for("bank"):
            ends.send(b"x" * BIG)
    with speaking_for("clinic"):
        ends.send(b"word")
    assert ends.taken() == b"first"
    came = [ends.taken() for _ in range(3)]
    assert b"word" in came
    assert 2 <= len(caplog.records) <= 11
    assert "lost what 'bank' sends" in caplog.text


class Slow:
    """What is written on a line, once it may be."""

    def __init__(self):
        self.written, self.may = [], threading.Event()
        self.begins, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, frame):
        self.begins.release()
        assert self.may.wait(60)
        self.written.append(frame)
        self.done.release()

    def first(self, count):
        for _ in range(count):
            assert self.done.acquire(timeout=60)
        return self.written[:count]


def test_as_many_bytes_wait_of_one_as_fit_and_one_frame_always(monkeypatch):
    monkeypatch.setattr(held_up, "_MOST_BYTES", 100)
    slow = Slow()
    line = held_up.Line("a line", slow, slow)
    with speaking_for("shop"):
        line.put(b"x")
        assert slow.begins.acquire(timeout=60)
        for size in (1000, 1, 1):
            line.put(b"y" * size)
    with speaking_for("bank"):
        for size in (40, 60, 1):
            line.put(b"z" * size)
    slow.may.set()
    assert [len(frame) for frame in slow.first(4)] == [1, 1000, 40, 60]


@pytest.fixture
def writers(monkeypatch):
    """Return the threads that lines begin."""
    begun = []

    class Writer(threading.Thread):
        def start(self):
            begun.append(self)
            super().start()

    monkeypatch.setattr(held_up.threading, "Thread", Writer)
    return begun


def test_a_line_that_broke_takes_no_more(writers):
    def breaks(frame):
        if frame:
            raise OSError
        over.set()

    over, closed = threading.Event(), threading.Event()
    line = held_up.Line("a line", breaks, closed.set)
    line.put(b"")
    assert over.wait(60)
    line.put(b"x")
    writers[0].join()
    assert closed.is_set()
    with pytest.raises(CommError, match="a line cannot be written to"):
        line.put(b"y")


def test_a_connection_that_we_made_waits_as_it_did(contexts):
    """A site's own is written by who sends: it must not make more than its line carries."""
    guard_connections()
    ends = Ends(contexts, Mode.ACTIVE)
    assert "send_frame" not in vars(ends.own.conn)
    ends.close()


def test_a_thread_that_has_nothing_to_write_ends_and_another_begins(monkeypatch, writers):
    monkeypatch.setattr(held_up, "_LINGER", 0.01)
    slow = Slow()
    slow.may.set()
    line = held_up.Line("a line", slow, slow)
    for number, word in enumerate((b"a", b"b")):
        line.put(word)
        writers[number].join()
    assert slow.written == [b"a", b"b"]


def test_a_line_for_which_there_is_no_thread_writes_when_there_is_one(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    slow = Slow()
    slow.may.set()
    line = held_up.Line("a line", slow, slow)
    with monkeypatch.context() as now:
        now.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            line.put(b"a")
    line.put(b"b")
    assert slow.first(2) == [b"a", b"b"]
