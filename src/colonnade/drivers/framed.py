"""Frames on a stream: what the processes of one machine write to each other's sockets.

A frame follows its length, big endian: four bytes between roles, eight to the parent. What is read
is whatever the socket holds, so that a peer that sends half a frame keeps nobody from hearing the
others.
"""

from __future__ import annotations

import socket
import struct
import sys

from colonnade.errors import RemoteProtocolError, RoleFailed
from colonnade.wire import PREFIX_BYTES

__all__ = ["FramedSocket", "Frames", "connected_pair", "control_line"]

_READ = 2**18  # bytes asked for at a time
_SMALL = 2**14  # bodies up to so many bytes are copied behind their header, and sent in one piece
_LONGEST_TOLD = 2**40  # bytes; a state has fewer than 2^32, and the mail of a peer rarely 2^31
_PATIENCE = 30.0  # seconds in which a connection on this machine is made, or never


class Frames:
    """Puts frames together from the pieces that a stream comes in.

    Parameters
    ----------
    limit
        The longest frame that is accepted, in bytes.
    prefix
        Bytes of a length.

    Examples
    --------
    >>> frames = Frames(limit=100)
    >>> frames.feed(bytes.fromhex("00000003") + b"abc" + bytes.fromhex("0000"))
    [b'abc']
    >>> frames.feed(bytes.fromhex("0001") + b"d")
    [b'd']
    """

    def __init__(self, limit: int, prefix: int = PREFIX_BYTES) -> None:
        self.limit = limit
        self.prefix = prefix
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add what has come; return the frames that are complete.

        Raises
        ------
        RemoteProtocolError
            If a length is announced that is above the limit; nothing is allocated for it.
        """
        buffer = self._buffer
        buffer += data
        frames, start = [], 0
        with memoryview(buffer) as view:
            while len(buffer) >= (begin := start + self.prefix):
                size = int.from_bytes(view[start:begin], "big")
                if size > self.limit:
                    raise RemoteProtocolError(
                        f"a message of {size} bytes is announced, and at most {self.limit} are "
                        "accepted"
                    )
                if len(buffer) < begin + size:
                    break
                frames.append(bytes(view[begin : begin + size]))
                start = begin + size
        del buffer[:start]
        return frames


class FramedSocket:
    """One end of a connection: written to by one thread, read by another.

    Parameters
    ----------
    endpoint
        A connected stream socket that blocks.
    limit
        The longest frame that is accepted, in bytes.
    prefix
        Bytes of a frame's length.
    """

    def __init__(self, endpoint: socket.socket, limit: int, prefix: int = PREFIX_BYTES) -> None:
        self._socket = endpoint
        self._frames = Frames(limit, prefix)
        self.prefix = prefix

    def fileno(self) -> int:
        """Return the descriptor, by which selectors know it."""
        return self._socket.fileno()

    def send(self, header: bytes, body: bytes) -> None:
        """Send a frame that consists of a header and a body."""
        prefix = (len(header) + len(body)).to_bytes(self.prefix, "big")
        if len(body) <= _SMALL:
            self._socket.sendall(b"".join((prefix, header, body)))
        else:
            self._socket.sendall(prefix + header)
            self._socket.sendall(body)

    def receive(self) -> list[bytes]:
        """Return the frames that are complete after one reading, which waits if nothing is there.

        Raises
        ------
        EOFError
            If the other end is closed.
        RemoteProtocolError
            If a frame is too long.
        """
        data = self._socket.recv(_READ)
        if not data:
            raise EOFError
        return self._frames.feed(data)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    @property
    def bytes_received(self) -> int:
        """What the operating system counted as received, or -1 where it does not count.

        It counts for TCP, on Linux.
        """
        if sys.platform != "linux" or self._socket.family == socket.AF_UNIX:
            return -1
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        received: int = struct.unpack_from("=Q", info, 128)[0]  # tcpi_bytes_received
        return received


def control_line(endpoint: socket.socket) -> FramedSocket:
    """Return one end of the line between a process of a role and its parent.

    Both are ours, and what they tell is as long as a state is: it is read in pieces, like all else,
    so that who falls silent in the midst of it keeps nobody from hearing the others. A length far
    beyond a state and the mail of all peers is refused: nobody waits for so much.
    """
    return FramedSocket(endpoint, _LONGEST_TOLD, prefix=8)


def connected_pair() -> tuple[socket.socket, socket.socket]:
    """Return two ends of a TCP connection over the loopback interface.

    Raises
    ------
    RoleFailed
        If it cannot be made, or somebody else connected.
    """
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
            listener.settimeout(_PATIENCE)
            one = socket.create_connection(listener.getsockname(), timeout=_PATIENCE)
            other, address = listener.accept()
        for end in (one, other):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise RoleFailed(
            f"two processes could not be connected on this machine: {error.strerror or error}"
        ) from error
    if address != one.getsockname():
        raise RoleFailed("another program connected to a socket of this run")
    return one, other
