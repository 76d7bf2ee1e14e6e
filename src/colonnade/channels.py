"""The modelled wire between organisations.

A channel carries messages one after another in one direction: a message of n bytes occupies it
for 8 n / bandwidth seconds, and reaches the other end a latency later. Times are whole
nanoseconds, so that two schedules that should tie do tie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from colonnade.errors import ConfigurationError

__all__ = ["Channel", "Network", "nanoseconds"]


def nanoseconds(seconds: float) -> int:
    """Return a duration in whole nanoseconds, rounded to the nearest.

    >>> nanoseconds(0.1) + nanoseconds(0.2) == nanoseconds(0.3)
    True
    """
    return round(seconds * 1e9)


@dataclass(frozen=True)
class Channel:
    """One direction of a connection.

    Parameters
    ----------
    bandwidth
        Bits per second; infinite by default.
    latency
        Seconds from the last bit sent to the message's arrival.

    Examples
    --------
    >>> Channel(bandwidth=300e6, latency=0.010).transmission_nanoseconds(37_500)
    1000000
    """

    bandwidth: float = math.inf
    latency: float = 0.0

    def __post_init__(self) -> None:
        if not self.bandwidth > 0:
            raise ConfigurationError(f"bandwidth must be above 0 bit/s, not {self.bandwidth}")
        if not 0 <= self.latency < math.inf:
            raise ConfigurationError(f"latency must be 0 s or more, not {self.latency}")

    @property
    def latency_nanoseconds(self) -> int:
        """The latency in whole nanoseconds."""
        return nanoseconds(self.latency)

    def transmission_nanoseconds(self, size: int) -> int:
        """Return how long ``size`` bytes occupy the channel, rounded up to a nanosecond."""
        return math.ceil(size * 8e9 / self.bandwidth)


@dataclass(frozen=True)
class Network:
    """The channels between all organisations.

    Parameters
    ----------
    default
        The channel of every directed pair that is not named.
    pairs
        Channels of ``(sender, receiver)`` pairs that differ.
    queue
        Messages a sender may have waiting or under transmission to one receiver; sending one
        more waits. The same bound holds under every driver.
    """

    default: Channel = field(default_factory=Channel)
    pairs: Mapping[tuple[str, str], Channel] = field(default_factory=dict)
    queue: int = 64

    def __post_init__(self) -> None:
        if self.queue < 1:
            raise ConfigurationError(f"queue must be at least 1 message, not {self.queue}")

    def channel(self, sender: str, receiver: str) -> Channel:
        """Return the channel that carries messages from ``sender`` to ``receiver``."""
        return self.pairs.get((sender, receiver), self.default)
