"""What organisations send each other when they align: counts, points, and which are in common.

Every body has a length that is known before it is read, from the counts that all have told.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RemoteProtocolError
from colonnade.secure import POINT_BYTES

__all__ = [
    "COUNT_BYTES",
    "MOST_IDS",
    "read_count",
    "read_marks",
    "read_points",
    "told_count",
    "told_marks",
]

MOST_IDS = 2**29
"""Of one organisation."""

_COUNT = struct.Struct("<BQ")
COUNT_BYTES = _COUNT.size
_KINDS = ("whole numbers", "text")


def told_count(kind: str, count: int) -> bytes:
    """Return how many ids there are, and of which kind: ``whole numbers`` or ``text``.

    >>> read_count(told_count("text", 3), "bank")
    ('text', 3)
    """
    return _COUNT.pack(_KINDS.index(kind), count)


def read_count(body: bytes, sender: str) -> tuple[str, int]:
    """Return the kind and the number of another's ids.

    Raises
    ------
    RemoteProtocolError
        If it says neither, or a number that is none of ids: 0, or above ``MOST_IDS``.
    """
    if len(body) != COUNT_BYTES:
        raise RemoteProtocolError(
            f"{sender!r} told its number of ids in {len(body)} bytes, expected {COUNT_BYTES}"
        )
    kind, count = _COUNT.unpack(body)
    if kind >= len(_KINDS):
        raise RemoteProtocolError(f"{sender!r} has ids of the kind {kind}, which there is not")
    if not 0 < count <= MOST_IDS:
        raise RemoteProtocolError(f"{sender!r} says that it has {count} ids")
    return _KINDS[kind], count


def read_points(body: bytes, count: int, sender: str, whose: str | None = None) -> bytes:
    """Return a body if it is as long as so many points; what they are is for a ``Blinding`` to say.

    Parameters
    ----------
    body
        What came.
    count
        How many there should be.
    sender
        Who sent it.
    whose
        Who has told how many there are, where that is another.

    Raises
    ------
    RemoteProtocolError
        If it is not.
    """
    if len(body) != count * POINT_BYTES:
        said = f", or {whose!r} told others another number" if whose not in (None, sender) else ""
        raise RemoteProtocolError(
            f"{sender!r} sent {len(body)} bytes of blinded ids, expected {count * POINT_BYTES}: "
            f"{count} ids{said}"
        )
    return body


def told_marks(marks: NDArray[np.bool_]) -> bytes:
    """Return a bit for each of some ids: whether it is in common.

    >>> told_marks(np.array([True, False, False, True, True])).hex()
    '19'
    """
    return np.packbits(marks, bitorder="little").tobytes()


def read_marks(body: bytes, count: int, sender: str) -> NDArray[np.bool_]:
    """Return which of so many ids are in common.

    Raises
    ------
    RemoteProtocolError
        If there are more or fewer bits.
    """
    if len(body) != (count + 7) // 8:
        raise RemoteProtocolError(
            f"{sender!r} told in {len(body)} bytes which of {count} ids are in common, expected "
            f"{(count + 7) // 8}"
        )
    marks = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little").astype(bool)
    if marks[count:].any():
        raise RemoteProtocolError(f"{sender!r} told of ids in common beyond the {count} there are")
    return marks[:count]
