"""How much is under way on a line at once, in how large pieces, and how long one is waited for.

A line may carry gigabytes a second, or kilobytes that wait behind others': nobody says which, and
what hands over datagrams may take any number of them at once. So little is under way at first. What
comes within *two seconds* of the least time that any took lets as much more be under way, which
doubles it with each round trip; what takes twice as much longer lets less be. So no more waits on a
line than it carries in seconds, and what goes the other way does not wait behind it, however long
the line itself takes. A chunk is a quarter of what may be under way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["LARGEST", "MOST", "SMALLEST", "Pace"]

SMALLEST, LARGEST = 2**14, 2**20  # bytes of a chunk that is not the last of its frame
MOST = 2**23  # bytes under way to a peer, of which it has not told that they came
_PIECES = 4  # chunks that may be under way, at least
_FIRST = 2**17  # bytes under way before anything has come
_GOOD, _BAD = 2.0, 4.0  # seconds for which a chunk waits on a line
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds until a chunk is sent again
_LONGEST_MEASURED = 600.0  # and where it is known to take so long


@dataclass
class Pace:
    """What a line is known to carry.

    Examples
    --------
    >>> pace = Pace()
    >>> pace.room, pace.chunk, pace.wait
    (131072, 32768, 1.0)
    >>> pace.came(131072, seconds=0.1)
    >>> pace.room, pace.chunk, pace.wait
    (262144, 65536, 1.0)
    >>> pace.came(262144, seconds=9.0)
    >>> pace.room, pace.chunk, pace.wait
    (131072, 32768, 36.0)
    """

    room: int = field(default_factory=lambda: min(_FIRST, MOST))
    """Bytes that may be under way."""
    wait: float = field(default_factory=lambda: _FIRST_WAIT)
    """Seconds until a chunk of which nothing is heard is sent again."""

    least: float = math.inf
    """Seconds from when a chunk is sent until it is known that it came, at least."""

    @property
    def chunk(self) -> int:
        """Bytes of a frame that travel in one datagram."""
        return min(max(self.room // _PIECES, SMALLEST), LARGEST)

    def came(self, size: int, seconds: float) -> None:
        """Know that so many bytes came, the last of them in so many seconds."""
        self.wait = min(max(_FIRST_WAIT, 4 * seconds), _LONGEST_MEASURED)
        self.least = min(self.least, seconds)
        waited = seconds - self.least
        if waited <= _GOOD:
            self.room = min(self.room + size, MOST)
        elif waited > _BAD:
            self._narrow(size // 2)

    def went_again(self) -> None:
        """Know that something did not come in time."""
        self.wait = max(self.wait, min(2 * self.wait, _LONGEST_WAIT))
        self._narrow(self.room // 2)

    def _narrow(self, by: int) -> None:
        self.room = max(self.room - by, min(_PIECES * SMALLEST, MOST))
