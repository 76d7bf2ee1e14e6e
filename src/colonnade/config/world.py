"""Sections about the world around the organisations: the network, and what work costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal

import pydantic
from pydantic import AfterValidator, Field

from colonnade.channels import PRESETS, Channel, Gateway, Network
from colonnade.config.choices import chosen
from colonnade.config.sections import Bandwidth, Count, Name, Number, Seconds, Section
from colonnade.costs import CostModel, Delayed, Measured, Modelled
from colonnade.effects import KINDS_OF_WORK
from colonnade.errors import ConfigurationError

__all__ = ["ChannelConfig", "ConnectionConfig", "CostConfig", "GatewayConfig", "NetworkConfig"]


class ChannelConfig(Section):
    """One direction of a connection."""

    bandwidth: Bandwidth = math.inf
    latency: Seconds = 0.0
    jitter: Seconds = Field(0.0, description="up to so much later a message is there, by chance")

    def build(self) -> Channel:
        """Return the channel."""
        return Channel(self.bandwidth, self.latency, self.jitter)


class ConnectionConfig(Section):
    """A party's connection to the label holder; what is left out is as for everybody."""

    up: ChannelConfig | None = None
    down: ChannelConfig | None = None


class GatewayConfig(Section):
    """The machine through which alone an organisation's messages leave and come in."""

    out: Bandwidth = math.inf
    into: Bandwidth = math.inf

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
    parties: dict[Name, ConnectionConfig] = {}
    gateways: dict[Name, GatewayConfig] = Field(
        {}, description="organisations all of whose messages pass one machine"
    )
    queue: Count = 64

    def network(self, label_holder: str) -> Network:
        """Return the network around ``label_holder``."""
        usual = Network() if self.preset is None else Network.preset(self.preset, label_holder)
        said = {name: getattr(self, name) for name in self.model_fields_set & _OF_CHANNELS}
        senders = {name: replace(channel, **said) for name, channel in usual.senders.items()}
        if self.down is not None:
            senders[label_holder] = self.down.build()
        pairs = {}
        for party, connection in self.parties.items():
            if connection.up is not None:
                pairs[party, label_holder] = connection.up.build()
            if connection.down is not None:
                pairs[label_holder, party] = connection.down.build()
        gateways = {name: gateway.build() for name, gateway in self.gateways.items()}
        return Network(replace(usual.default, **said), pairs, self.queue, senders, gateways)


_OF_CHANNELS = {"bandwidth", "latency", "jitter"}


def _known_work(kind: str) -> str:
    if kind not in KINDS_OF_WORK:
        raise ValueError(f"there is no such work; there are {', '.join(KINDS_OF_WORK)}")
    return kind


_Work = Annotated[str, AfterValidator(_known_work)]


class CostConfig(Section):
    """What work costs on the virtual clock."""

    kind: Literal["measured", "modelled"] = "measured"
    seconds: dict[_Work, Seconds] = {}
    seconds_per_row: dict[_Work, Seconds] = {}
    slowdown: dict[Name, Annotated[Number, Field(ge=0, lt=math.inf)]] = {}
    otherwise: Seconds | None = Field(
        None, description="of each kind of work that neither names; without it all must be named"
    )
    delays: dict[Name, chosen("delays")] = Field(  # type: ignore[valid-type]
        {}, description="of organisations that are slow, beside what their work costs"
    )
    delays_seed: int = Field(0, description="what delays are drawn from")

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

    def build(self) -> CostModel:
        """Return the cost model."""
        costs: CostModel = Measured(self.slowdown)
        if self.kind == "modelled":
            costs = Modelled(self.seconds, self.seconds_per_row, self.slowdown, self.otherwise)
        if not self.delays:
            return costs
        delays = {name: delay.build() for name, delay in self.delays.items()}
        return Delayed(costs, delays, self.delays_seed)
