"""How much is under way on a line at once, in how large pieces, and how long one is waited for.

A line may carry gigabytes a second, or kilobytes that wait behind others': nobody says which, and
what hands over datagrams may take any number of them at once. So little is under way at first. What
comes within *two seconds* of the least time that any took lets as much more be under way, which
doubles it with each round trip; what takes twice as much longer lets less be. So no more waits on a
line than it carries in seconds, and what goes the other way does not wait behind it, however long
the line itself takes. That something was lost says nothing of how wide a line is. A chunk is a
quarter of what may be under way.

Where each peer has less than 4 kilobytes a second, even the least that is under way takes so long
that much of it goes twice. What was under way on a wide line when it became a narrow one, at most
``MOST`` for each peer, is on it still, and whoever hears nothing before that has come gives its
peer up. So may who loses half of what goes each way on a long line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["MOST", "Pace", "is_chunk", "kept"]

_BESIDES = 256  # bytes that it takes to keep a chunk besides its own, about
SMALLEST, LARGEST = 2**14, 2**20  # bytes that a chunk takes which is not the last of its frame
MOST = 2**23  # bytes under way to a peer, of which it has not told that they came
_PIECES = 4  # chunks that may be under way, unless that makes them too small
_FEWEST = 2**15  # bytes that may be under way, always
_GOOD, _BAD = 2.0, 4.0  # seconds for which a chunk waits on a line
_FIRST_WAIT = 3.0  # seconds until a chunk is sent again, where none has come yet
_SHORTEST_WAIT, _LONGEST_WAIT = 1.0, 30.0  # and where it is known how long one takes
_TRIES = 8  # in the time in which a peer is given up, at least


def kept(size: int) -> int:
    """Return how many bytes it takes to keep a chunk of so many, about."""
    return size + _BESIDES


def is_chunk(size: int, left: int) -> bool:
    """Return whether a chunk has so many bytes of a frame of which so many are left."""
    smallest, largest = SMALLEST - _BESIDES, LARGEST - _BESIDES
    return min(left, smallest) <= size <= min(left, largest)


@dataclass
class Pace:
    """What a line is known to carry.

    Parameters
    ----------
    patience
        Seconds without a word after which a peer is given up.

    Examples
    --------
    >>> pace = Pace(120.0)
    >>> pace.room, pace.chunk, pace.wait
    (32768, 16128, 3.0)
    >>> pace.came(32768, seconds=0.1)
    >>> pace.came(65536, seconds=0.1)
    >>> pace.room, pace.chunk, pace.wait
    (131072, 32512, 1.0)
    >>> pace.came(131072, seconds=5.0)
    >>> pace.room, pace.chunk, pace.wait
    (65536, 16128, 20.0)
    """

    patience: float
    room: int = field(default_factory=lambda: min(_FEWEST, MOST))
    """Bytes that what is under way may take."""
    wait: float = field(init=False)
    """Seconds until a chunk of which nothing is heard is sent again."""
    least: float = math.inf
    """Seconds from when a chunk is sent until it is known that it came, at least."""

    def __post_init__(self) -> None:
        self.wait = min(_FIRST_WAIT, self.patience / _TRIES)

    @property
    def chunk(self) -> int:
        """Bytes of a frame that travel in one datagram."""
        return max(min(self.room // _PIECES, LARGEST), SMALLEST) - _BESIDES

    def came(self, size: int, seconds: float) -> None:
        """Know that what took so many bytes came, the last of it in so many seconds."""
        self.wait = min(max(_SHORTEST_WAIT, 4 * seconds), _LONGEST_WAIT, self.patience / 4)
        self.least = min(self.least, seconds)
        waited = seconds - self.least
        if waited <= _GOOD:
            self.room = min(self.room + size, MOST)
        elif waited > _BAD:
            self.room = max(self.room - size // 2, min(_FEWEST, MOST))

    def went_again(self) -> None:
        """Know that nothing was heard of something in time."""
        self.wait = max(self.wait, min(2 * self.wait, self.patience / _TRIES))
