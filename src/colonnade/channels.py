"""The modelled wire between organisations.

A channel carries messages one after another in one direction: a message of n bytes occupies it
for 8 n / bandwidth seconds, and reaches the other end a latency later. Where an organisation lets
nothing out or in but through a gateway, all its messages pass that, too, one after another. Times
are whole nanoseconds, so that two schedules that should tie do tie.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from colonnade.annotated import check_fields, is_number, is_whole, make_plain
from colonnade.errors import ConfigurationError

__all__ = [
    "LONGEST",
    "PRESETS",
    "Channel",
    "Gateway",
    "Network",
    "Preset",
    "check_organisations",
    "check_seconds",
    "nanoseconds",
]


def nanoseconds(seconds: float) -> int:
    """Return a duration in whole nanoseconds, rounded to the nearest.

    >>> nanoseconds(0.1) + nanoseconds(0.2) == nanoseconds(0.3)
    True
    """
    return round(seconds * 1e9)


LONGEST = 1e6
"""Seconds that a latency, a jitter, a delay or a piece of work may take at most: eleven days."""


def check_seconds(what: str, seconds: float) -> None:
    """Raise ``ConfigurationError`` unless it is a number of seconds, up to ``LONGEST``.

    >>> check_seconds("latency", -1)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: latency must be 0 to 1e6 s, not -1
    """
    if not (is_number(seconds) and 0 <= seconds <= LONGEST):
        raise ConfigurationError(f"{what} must be 0 to 1e6 s, not {seconds!r}")


def check_organisations(what: str, named: Iterable[str], there: Collection[str]) -> None:
    """Raise ``ConfigurationError`` if somebody is named who is none of the organisations.

    >>> check_organisations("a gateway of", ["shpo"], ["bank", "shop"])
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: a gateway of 'shpo': there is no such organisation; there are bank, shop
    """  # noqa: E501 - a message is one line
    for name in named:
        if name not in there:
            raise ConfigurationError(
                f"{what} {name!r}: there is no such organisation; there are {', '.join(there)}"
            )


@dataclass(frozen=True)
class Channel:
    """One direction of a connection.

    Parameters
    ----------
    bandwidth
        Bits per second; infinite by default.
    latency
        Seconds from the last bit sent to the message's arrival.
    jitter
        Up to so many seconds a message takes longer, any number as likely as another, drawn from
        the run's seed. None overtakes another.

    Raises
    ------
    ConfigurationError
        If the bandwidth is below 1 bit/s, or a time is negative or beyond 1e6 s.

    Examples
    --------
    >>> Channel(bandwidth=300e6, latency=0.010).transmission_nanoseconds(37_500)
    1000000
    """

    bandwidth: float = math.inf
    latency: float = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        make_plain(Channel, self)
        _check_bandwidth("bandwidth", self.bandwidth)
        for name in ("latency", "jitter"):
            check_seconds(name, getattr(self, name))

    @property
    def latency_nanoseconds(self) -> int:
        """The latency in whole nanoseconds."""
        return nanoseconds(self.latency)

    def transmission_nanoseconds(self, size: int) -> int:
        """Return how long ``size`` bytes occupy the channel, rounded up to a nanosecond."""
        return _transmission(size, self.bandwidth)


@dataclass(frozen=True)
class Gateway:
    """The machine through which alone an organisation's messages leave and come in.

    It passes them on one after another, whomever they are for or from: each when all of it is
    there.

    Parameters
    ----------
    out, into
        Bits per second that leave and that come in.

    Raises
    ------
    ConfigurationError
        If one is below 1 bit/s.

    Examples
    --------
    >>> Gateway(out=300e6, into=300e6).transmission_nanoseconds(37_500, leaving=True)
    1000000
    """

    out: float = math.inf
    into: float = math.inf

    def __post_init__(self) -> None:
        make_plain(Gateway, self)
        _check_bandwidth("a gateway's out", self.out)
        _check_bandwidth("a gateway's into", self.into)

    def transmission_nanoseconds(self, size: int, leaving: bool) -> int:
        """Return how long ``size`` bytes occupy it in one direction."""
        return _transmission(size, self.out if leaving else self.into)


def _check_bandwidth(name: str, value: Any) -> None:
    if not (is_number(value) and value >= 1):
        hint = "; a number is meant, as 300e6" if isinstance(value, str) else ""
        raise ConfigurationError(f"{name} must be 1 bit/s or more, not {value!r}{hint}")


def _transmission(size: int, bandwidth: float) -> int:
    return math.ceil(size * 8e9 / bandwidth)


@dataclass(frozen=True)
class Preset:
    """A usual kind of network: how a party's messages reach the label holder, and its theirs.

    Parameters
    ----------
    about
        What it stands for.
    up, down
        The channels.
    """

    about: str
    up: Channel
    down: Channel


def _both(about: str, bandwidth: float, latency: float, jitter: float = 0.0) -> Preset:
    channel = Channel(bandwidth, latency, jitter)
    return Preset(about, channel, channel)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "lan": _both("one building", 10e9, 0.0001),
        "region": _both("two data centres of one region", 1e9, 0.002, 0.0005),
        "wan-300mbit": _both("two cities, as CELU-VFL was measured", 300e6, 0.010),
        "global": _both("two continents", 100e6, 0.075, 0.010),
        "mobile": Preset(
            "parties on mobile networks",
            Channel(10e6, 0.025, 0.020),
            Channel(50e6, 0.025, 0.020),
        ),
    }
)
"""Usual networks by name; latencies are one way."""


@dataclass(frozen=True)
class Network:
    """The channels between all organisations.

    Parameters
    ----------
    default
        The channel of every directed pair that is not named.
    pairs
        Channels of ``(sender, receiver)`` pairs that differ.
    senders
        Channels of all that an organisation sends, where no pair is named.
    gateways
        Organisations whose messages share a gateway.
    queue
        Messages a sender may have waiting or under transmission to one receiver; sending one
        more waits. The same bound holds under every driver.

    Raises
    ------
    ConfigurationError
        If ``queue`` is no number of messages.
    """

    default: Channel = field(default_factory=Channel)
    pairs: Mapping[tuple[str, str], Channel] = field(default_factory=dict)
    queue: int = 64
    senders: Mapping[str, Channel] = field(default_factory=dict)
    gateways: Mapping[str, Gateway] = field(default_factory=dict)

    @property
    def steady(self) -> bool:
        """Whether a message takes as long as another of its size, if the way is free."""
        ways = (self.default, *self.pairs.values(), *self.senders.values())
        return not any(channel.jitter for channel in ways)

    @classmethod
    def around(cls, label_holder: str, up: Channel, down: Channel) -> Self:
        """Return the network in which parties reach a label holder so, and it reaches them so.

        Examples
        --------
        >>> leased = Network.around("registry", Channel(50e6, 0.008), Channel(20e6, 0.008))
        >>> leased.channel("registry", "bank").bandwidth
        20000000.0
        """
        return cls(up, senders={label_holder: down})

    @classmethod
    def preset(cls, name: str, label_holder: str) -> Self:
        """Return a usual network around a label holder.

        Raises
        ------
        ConfigurationError
            If there is none of this name.

        Examples
        --------
        >>> mobile = Network.preset("mobile", "registry")
        >>> mobile.channel("bank", "registry").bandwidth
        10000000.0
        >>> mobile.channel("registry", "bank").bandwidth
        50000000.0
        """
        if name not in PRESETS:
            raise ConfigurationError(
                f"there is no network {name!r}; there are {', '.join(PRESETS)}"
            )
        preset = PRESETS[name]
        return cls.around(label_holder, preset.up, preset.down)

    def __post_init__(self) -> None:
        make_plain(Network, self)
        if not is_whole(self.queue) or self.queue < 1:
            raise ConfigurationError(
                f"queue must be a whole number of messages, 1 or more, not {self.queue!r}"
            )
        check_fields(Network, self)

    def channel(self, sender: str, receiver: str) -> Channel:
        """Return the channel that carries messages from ``sender`` to ``receiver``."""
        return self.pairs.get((sender, receiver), self.senders.get(sender, self.default))

    def check(self, organisations: Collection[str]) -> None:
        """Raise ``ConfigurationError`` if it names somebody who is none of the organisations."""
        ends = [name for pair in self.pairs for name in pair]
        check_organisations("a network with channels of", [*ends, *self.senders], organisations)
        check_organisations("a network with a gateway of", self.gateways, organisations)
