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
from nvflare.fuel.f3.drivers.tcp_driver import TcpStreamServer
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

from colonnade.deployment import held_up
from colonnade.deployment.held_up import guard_connections
from toy_certificate import certified


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    for changed, name in (
        (TcpStreamServer, "__init__"),
        (TcpStreamServer, "finish_request"),
        (SfmConnection, "send_frame"),
    ):
        monkeypatch.setattr(changed, name, getattr(changed, name))


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


def connection(cn):
    made = SfmConnection.__new__(SfmConnection)
    made.conn = SimpleNamespace(get_conn_properties=lambda: {"peer_cn": cn})
    return made


def test_who_takes_nothing_has_few_wait(monkeypatch):
    """A hundred answers that one did not take, and the server heard nobody for half a minute."""
    waits, takes = threading.Semaphore(0), threading.Event()

    def send_frame(self, *_):
        if self is not honest:
            waits.release()
            takes.wait()

    monkeypatch.setattr(SfmConnection, "send_frame", send_frame)
    monkeypatch.setattr(TcpStreamServer, "__init__", lambda self: None)
    guard_connections()
    deaf, again, own, honest = map(connection, ("shop", "shop", None, "bank"))
    threads = [threading.Thread(target=deaf.send_frame) for _ in range(48)]
    threads += [threading.Thread(target=own.send_frame) for _ in range(60)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert waits.acquire(timeout=60)
    for one in (deaf, again):
        with pytest.raises(CommError, match="too much waits for 'shop' to take it"):
            one.send_frame()
    honest.send_frame()
    takes.set()
    for thread in threads:
        thread.join()
    again.send_frame()
