"""A frame of FLARE's takes room as it comes."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

from colonnade.deployment.frames_read import guard_frames
from toy_guarded import put_back


@pytest.fixture(autouse=True)
def _guarded(monkeypatch):
    put_back(monkeypatch)
    guard_frames()


@pytest.fixture
def line():
    """Return a connection, and the socket of who speaks on it."""
    theirs, own = socket.socketpair()
    connector = SimpleNamespace(params={}, mode=None)
    with theirs, own:
        yield SocketConnection(own, connector), theirs


def claiming(length):
    """Return the beginning of a frame that claims to have so many bytes."""
    beginning = bytearray(PREFIX_LEN)
    Prefix(length, 0, 1, 0, 0, 1, 1, 0).to_buffer(beginning, 0)
    return bytes(beginning)


@pytest.mark.parametrize("size", [0, 1, 2**21 - PREFIX_LEN, 2**21, 2**21 + 1, 5 * 2**20 + 3])
def test_a_frame_is_read_whole(line, size):
    connection, theirs = line
    frames = [claiming(PREFIX_LEN + size) + bytes([byte]) * size for byte in (1, 2)]
    speaking = threading.Thread(target=theirs.sendall, args=(b"".join(frames),))
    speaking.start()
    read = [connection.read_frame() for _ in frames]
    speaking.join()
    assert [bytes(frame) for frame in read] == frames


@pytest.mark.parametrize("length", [0, PREFIX_LEN - 1, 2**28 + 1, 2**31 - 2**21, 2**32 - 1])
def test_no_frame_has_such_a_length(line, length):
    connection, theirs = line
    theirs.sendall(claiming(length))
    with pytest.raises(CommError, match="no frame has"):
        connection.read_frame()


def test_no_room_is_made_for_what_is_claimed(line):
    """A few bytes took 2 GB, on each connection."""
    connection, theirs = line
    theirs.sendall(claiming(2**28) + b"and no more")
    theirs.shutdown(socket.SHUT_WR)
    tracemalloc.start()
    try:
        with pytest.raises(CommError, match="closed"):
            connection.read_frame()
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
