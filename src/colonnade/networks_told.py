"""A modelled network in words: what a run's seconds are of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from colonnade.channels import PRESETS, Channel, Gateway, Network

__all__ = ["network_told"]


def network_told(network: Network, parties: Sequence[str], label_holder: str) -> dict[str, str]:
    """Return the channels between parties and label holder, and all gateways, in words.

    >>> network_told(Network.preset("mobile", "shop"), ["bank"], "shop")["up"]
    '10 Mbit/s, 25 ms, jitter up to 20 ms'
    """
    up = {party: network.channel(party, label_holder) for party in parties}
    down = {party: network.channel(label_holder, party) for party in parties}
    told = {}
    for name, preset in PRESETS.items():
        if {*up.values()} == {preset.up} and {*down.values()} == {preset.down}:
            told["channels"] = f"those of {name}, {preset.about}"
    for direction, channels in (("up", up), ("down", down)):
        whose: dict[Channel, list[str]] = {}
        for party, channel in channels.items():
            whose.setdefault(channel, []).append(party)
        for channel, names in whose.items():
            key = direction if len(whose) == 1 else f"{direction}, {', '.join(names)}"
            told[key] = _channel(channel)
    for name, gateway in network.gateways.items():
        told[f"gateway of {name}"] = _gateway(gateway)
    return told


def _channel(channel: Channel) -> str:
    words = [_rate(channel.bandwidth)]
    if channel.latency:
        words.append(_time(channel.latency))
    if channel.jitter:
        words.append(f"jitter up to {_time(channel.jitter)}")
    return ", ".join(words)


def _gateway(gateway: Gateway) -> str:
    return f"{_rate(gateway.out)} out, {_rate(gateway.into)} in"


def _rate(bits: float) -> str:
    if math.isinf(bits):
        return "no limit of bandwidth"
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits >= size:
            return f"{bits / size:.4g} {unit}"
    return f"{bits:.4g} bit/s"


def _time(seconds: float) -> str:
    return f"{seconds:.4g} s" if seconds >= 1 else f"{seconds * 1e3:.4g} ms"
