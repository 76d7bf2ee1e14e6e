"""The envelope around every message, and its strict reading.

A frame is ``length of header (2 bytes, little endian) | header (msgpack array) | body``. On a
stream each frame follows its own length, in ``PREFIX_BYTES``, which a transport writes and reads;
``carried_bytes`` are those of all of it. The
header says how to read the body and where it belongs; it does not say who sent it, because the
driver knows that from the connection, and a claim in the bytes could be forged. Reading
allocates nothing in proportion to a number found in the bytes. What a body holds is read by who
asked for it, ``reading`` it of somebody, so that a refusal says whose it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Annotated, NamedTuple

import msgspec

from colonnade.errors import RemoteProtocolError

__all__ = [
    "MAX_BODY_BYTES",
    "PREFIX_BYTES",
    "VERSION",
    "Message",
    "Purpose",
    "carried_bytes",
    "decode_frame",
    "encode_header",
    "reading",
]

VERSION = 1
MAX_BODY_BYTES = 2**30
PREFIX_BYTES = 4  # the length of a frame, as multiprocessing.connection writes it
_MAX_HEADER_BYTES = 96


class Purpose(IntEnum):
    """Why a message is sent; the ledger never mixes them."""

    TRAINING = 0
    EVALUATION = 1
    SETUP = 2
    PREDICTION = 3
    RELAY = 4

    __hash__ = int.__hash__  # an enum's own hash is Python code, and a purpose is part of many keys

    @property
    def label(self) -> str:
        """The lower-case word that tables and files use."""
        return self.name.lower()

    @property
    def trains(self) -> bool:
        """Whether it is a cost of training: its messages, and those of them that are forwarded."""
        return self in (Purpose.TRAINING, Purpose.RELAY)

    @classmethod
    def training_labels(cls) -> list[str]:
        """Return the labels of those that are a cost of training."""
        return [purpose.label for purpose in cls if purpose.trains]


class Message(NamedTuple):
    """A message as a driver holds it: the header's fields, both ends, and the body.

    ``(sender, sequence)`` identifies it: a sender numbers all its messages from 0. ``part`` says
    which of several pieces it belongs to, where those of a round are told apart.
    """

    sender: str
    receiver: str
    kind: str
    purpose: Purpose
    round: int
    sequence: int
    body: bytes
    part: int = 0


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class _Header(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    version: int
    kind: Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[a-z][a-z0-9_]*\Z")]
    purpose: Purpose
    round: _Count
    sequence: _Count
    part: _Count = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Header).decode


def encode_header(kind: str, purpose: Purpose, round: int, sequence: int, part: int = 0) -> bytes:
    """Return all bytes of a frame that precede its body; part 0 takes none.

    >>> encode_header("embedding", Purpose.TRAINING, 3, 12).hex()
    '0f009501a9656d62656464696e6700030c'
    """
    parts = (part,) if part else ()
    header = _encode((VERSION, kind, int(purpose), round, sequence, *parts))
    return len(header).to_bytes(2, "little") + header


def carried_bytes(header: bytes, body_bytes: int) -> int:
    """Return the bytes that a stream carries for a message: prefix, header and body.

    >>> carried_bytes(encode_header("embedding", Purpose.TRAINING, 3, 12), 100)
    121
    """
    return PREFIX_BYTES + len(header) + body_bytes


def decode_frame(
    frame: bytes, sender: str, receiver: str, max_body_bytes: int = MAX_BODY_BYTES
) -> Message:
    """Read a frame that came over the connection with ``sender``.

    Raises
    ------
    RemoteProtocolError
        If the frame is truncated, of another version, malformed, or its body exceeds
        ``max_body_bytes``.
    """
    length = int.from_bytes(frame[:2], "little")
    if len(frame) < 2 or length > _MAX_HEADER_BYTES or len(frame) < 2 + length:
        raise RemoteProtocolError(f"a frame of {len(frame)} bytes from {sender!r} has no header")
    try:
        header = _decode(memoryview(frame)[2 : 2 + length])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"a frame from {sender!r} has a bad header: {error}") from None
    if header.version != VERSION:
        raise RemoteProtocolError(
            f"{sender!r} speaks version {header.version} of the wire format, this is {VERSION}; "
            "install the same release of colonnade on both sides"
        )
    size = len(frame) - 2 - length
    if size > max_body_bytes:
        raise RemoteProtocolError(
            f"{sender!r} sent a body of {size} bytes, at most {max_body_bytes} are accepted"
        )
    return Message(
        sender,
        receiver,
        header.kind,
        header.purpose,
        header.round,
        header.sequence,
        frame[2 + length :],
        header.part,
    )


@contextmanager
def reading(sender: str, round: int, passed_on_by: str | None = None) -> Iterator[None]:
    """Name the sender of a body, and the round, where it is refused within this context.

    Parameters
    ----------
    sender
        Who made the body.
    round
        The round that it was sent in.
    passed_on_by
        Whose message it came in, if that is somebody else: either may have spoilt it.

    Raises
    ------
    RemoteProtocolError
        Instead of one that was raised within.

    Examples
    --------
    >>> from colonnade.errors import RemoteProtocolError
    >>> with reading("bank", 3):
    ...     raise RemoteProtocolError("a code is 7")
    Traceback (most recent call last):
    ...
    colonnade.errors.RemoteProtocolError: what 'bank' sent in round 3 is refused: a code is 7
    """
    try:
        yield
    except RemoteProtocolError as error:
        by = "" if passed_on_by is None else f", and {passed_on_by!r} passed on,"
        raise RemoteProtocolError(
            f"what {sender!r} sent{by} in round {round} is refused: {error}"
        ) from error
