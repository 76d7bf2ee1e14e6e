"""A frame of FLARE's takes room as it comes.

FLARE makes room for as many bytes as a frame claims to have, up to 2 GB, before any has come, and
whoever has a certificate of the federation may claim it, on each of as many connections as he
likes. So room is made for what has come and a little more, and no frame is longer than such as a
federation sends: jobs, logs and what couriers carry come in pieces of a megabyte or so.
"""

from __future__ import annotations

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix

__all__ = ["guard_frames"]

_LONGEST = 2**28  # bytes of a frame
_PIECE = 2**21  # bytes for which room is made before they have come


def guard_frames() -> None:
    """Let no connection of this process have room made by what it claims."""
    SocketConnection.read_frame = _read_frame


def _read_frame(self: SocketConnection) -> bytearray:
    frame = _read(self, PREFIX_LEN)
    length = Prefix.from_bytes(frame).length
    if not PREFIX_LEN <= length <= _LONGEST:
        raise CommError(CommError.BAD_DATA, f"no frame has {length:,} bytes")
    while len(frame) < length:
        frame += _read(self, min(length - len(frame), _PIECE))
    return frame


def _read(connection: SocketConnection, size: int) -> bytearray:
    piece = bytearray(size)
    connection.read_into(piece, 0, size)
    return piece
