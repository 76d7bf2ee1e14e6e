"""Sections about the world around the organisations: the network, and what work costs."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Literal

import pydantic
from pydantic import AfterValidator, Field

from colonnade.channels import PRESETS, Channel, Gateway, Network
from colonnade.config.choices import chosen
from colonnade.config.sections import Bandwidth, Count, Name, Number, Seconds, Section
from colonnade.costs import CostModel, Delayed, Measured, Modelled, check_spelling
from colonnade.effects import KINDS_OF_WORK
from colonnade.errors import ConfigurationError

__all__ = ["ChannelConfig", "ConnectionConfig", "CostConfig", "GatewayConfig", "NetworkConfig"]


class ChannelConfig(Section):
    """One direction of a connection; what is left out is as for everybody."""

    bandwidth: Bandwidth | None = Field(
        None,
        description="in bits per second, as 3e8 or '300 Mbit/s'; no limit, unless a preset has one",
    )
    latency: Seconds | None = Field(
        None, description="in seconds, as 0.01 or '10 ms'; none, unless a preset has one"
    )
    jitter: Seconds | None = Field(
        None, description="up to so many seconds later a message is there, by chance"
    )

    def build(self, usual: Channel) -> Channel:
        """Return the channel, which differs from the usual one in what is said."""
        said = {name: getattr(self, name) for name in ("bandwidth", "latency", "jitter")}
        return replace(usual, **{name: value for name, value in said.items() if value is not None})


class ConnectionConfig(Section):
    """A party's connection to the label holder; what is left out is as for everybody."""

    up: ChannelConfig | None = None
    down: ChannelConfig | None = None


class GatewayConfig(Section):
    """The machine through which alone an organisation's messages leave and come in."""

    out: Bandwidth = Field(math.inf, description="that leaves, as bandwidth; no limit")
    into: Bandwidth = Field(math.inf, description="that comes in, as bandwidth; no limit")

    def build(self) -> Gateway:
        """Return the gateway."""
        return Gateway(self.out, self.into)


class NetworkConfig(ChannelConfig):
    """The modelled network: what holds for everybody, and who differs."""

    preset: Literal[tuple(PRESETS)] | None = Field(  # type: ignore[valid-type]
        None, description="a usual network, in which what is said besides differs"
    )
    down: ChannelConfig | None = Field(
        None, description="what the label holder sends, if it is not as what it is sent"
    )
    parties: dict[Name, ConnectionConfig] = Field(
        {}, description="of those whose connections differ"
    )
    gateways: dict[Name, GatewayConfig] = Field(
        {}, description="organisations all of whose messages pass one machine"
    )
    queue: Count = Field(
        64, description="messages that may wait to be sent to each receiver before a sender waits"
    )

    def network(self, label_holder: str, left_out: Collection[str] = ()) -> Network:
        """Return the network around ``label_holder``, of all but those who are left out."""
        usual = Network() if self.preset is None else Network.preset(self.preset, label_holder)
        up = self.build(usual.default)
        down = self.build(usual.senders.get(label_holder, usual.default))
        senders = {label_holder: down} if usual.senders else {}
        if self.down is not None:
            down = senders[label_holder] = self.down.build(down)
        pairs = {}
        for party, connection in self.parties.items():
            if party in left_out:
                continue
            if connection.up is not None:
                pairs[party, label_holder] = connection.up.build(up)
            if connection.down is not None:
                pairs[label_holder, party] = connection.down.build(down)
        gateways = {
            name: gateway.build() for name, gateway in self.gateways.items() if name not in left_out
        }
        return Network(up, pairs, self.queue, senders, gateways)


def _known_work(kind: str) -> str:
    if kind not in KINDS_OF_WORK:
        raise ValueError(f"there is no such work; there are {', '.join(KINDS_OF_WORK)}")
    return kind


def _priced_work(kind: str) -> str:
    try:
        check_spelling(kind)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return kind


_Work = Annotated[str, AfterValidator(_known_work)]
_PricedWork = Annotated[Name, AfterValidator(_priced_work)]


class CostConfig(Section):
    """What work costs on the virtual clock."""

    kind: Literal["measured", "modelled"] = Field(
        "measured", description="by this machine's CPU time, or as is said here, which repeats"
    )
    seconds: dict[_PricedWork, Seconds] = Field(
        {},
        description=f"by kind of work, of each piece; there are {', '.join(KINDS_OF_WORK)}, and "
        "what a part of your own calls its work",
    )
    seconds_per_row: dict[_PricedWork, Seconds] = Field(
        {}, description="by kind of work, of each row of a piece, as 5e-6"
    )
    slowdown: dict[Name, Annotated[Number, Field(ge=0, le=1e6)]] = Field(
        {}, description="by organisation, how many times as long its work takes"
    )
    otherwise: Seconds | None = Field(
        None, description="of each kind of work that neither names; without it all must be named"
    )
    delays: dict[Name, chosen("delays")] = Field(  # type: ignore[valid-type]
        {}, description="of organisations that are slow, beside what their work costs"
    )
    delays_seed: int | None = Field(
        None,
        ge=-(2**63),
        lt=2**63,
        strict=True,
        description="what delays are drawn from; by default the run's seed",
    )
    delay_shares: dict[_Work, Annotated[Number, Field(ge=0, le=1e6)]] = Field(
        {},
        description="by kind of work, the share of a delay that its first in a round takes longer; "
        "without any, all of it goes before the first work",
    )

    @pydantic.model_validator(mode="after")
    def _fits(self) -> CostConfig:
        priced = self.seconds or self.seconds_per_row or self.otherwise is not None
        if self.kind == "measured" and priced:
            raise ValueError("measured costs take no seconds; say kind: modelled")
        try:
            self.build()
        except ConfigurationError as error:  # a kind of work has no price
            raise ValueError(str(error)) from None
        return self

    def build(self, seed: int = 0, left_out: Collection[str] = ()) -> CostModel:
        """Return the cost model in a run from ``seed``, of all but those who are left out."""
        slowdown = {name: slow for name, slow in self.slowdown.items() if name not in left_out}
        costs: CostModel = Measured(slowdown)
        if self.kind == "modelled":
            costs = Modelled(self.seconds, self.seconds_per_row, slowdown, self.otherwise)
        delays = {
            name: delay.build() for name, delay in self.delays.items() if name not in left_out
        }
        if not delays:
            return costs
        drawn_from = seed if self.delays_seed is None else self.delays_seed
        return Delayed(costs, delays, drawn_from, self.delay_shares)
