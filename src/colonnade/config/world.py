"""Sections about the world around the organisations: the network, and what work costs."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import pydantic
from pydantic import AfterValidator, Field

from colonnade.channels import Channel, Network
from colonnade.config.sections import Bandwidth, Count, Name, Number, Seconds, Section
from colonnade.costs import CostModel, Measured, Modelled
from colonnade.effects import KINDS_OF_WORK
from colonnade.errors import ConfigurationError

__all__ = ["ChannelConfig", "ConnectionConfig", "CostConfig", "NetworkConfig"]


class ChannelConfig(Section):
    """One direction of a connection."""

    bandwidth: Bandwidth = math.inf
    latency: Seconds = 0.0

    def build(self) -> Channel:
        """Return the channel."""
        return Channel(self.bandwidth, self.latency)


class ConnectionConfig(Section):
    """A party's connection to the label holder; what is left out is as for everybody."""

    up: ChannelConfig | None = None
    down: ChannelConfig | None = None


class NetworkConfig(ChannelConfig):
    """The modelled network: what holds for everybody, and who differs."""

    parties: dict[Name, ConnectionConfig] = {}
    queue: Count = 64

    def network(self, label_holder: str) -> Network:
        """Return the network around ``label_holder``."""
        pairs = {}
        for party, connection in self.parties.items():
            if connection.up is not None:
                pairs[party, label_holder] = connection.up.build()
            if connection.down is not None:
                pairs[label_holder, party] = connection.down.build()
        return Network(self.build(), pairs, self.queue)


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
        if self.kind == "measured":
            return Measured(self.slowdown)
        return Modelled(self.seconds, self.seconds_per_row, self.slowdown, self.otherwise)
