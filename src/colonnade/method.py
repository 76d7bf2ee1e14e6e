"""A method: how a federation trains, composed of parts that answer for themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from colonnade import exchanges, local_updates, models, stragglers, uplinks
from colonnade.agreement import Exchange
from colonnade.annotated import check_kind, either, members_of, parts_of
from colonnade.disclosures import Disclosure
from colonnade.errors import ConfigurationError
from colonnade.exchanges import Split
from colonnade.layout import Layout
from colonnade.links import Delivery, Link
from colonnade.local_updates import Consecutive, LocalStep, LocalUpdates
from colonnade.models import Concat, Fusion
from colonnade.stragglers import Stragglers, Wait
from colonnade.uplinks import Plain, Uplink

__all__ = ["Method", "checked_method"]


@dataclass(frozen=True)
class Method:
    """How a federation trains.

    Parameters
    ----------
    name
        What tables call it.
    fusion
        How embeddings become the top model's input.
    uplink
        How embeddings reach the label holder.
    exchange
        What comes back: ``Split()``, derivatives; ``Asynchronous()``, the same, with local steps
        while messages are under way; ``EventDriven()``, derivatives as soon as one party's
        embeddings come; or ``Relay(...)``, the others' embeddings and the top model.
    local_updates
        Which steps follow an exchange.
    stragglers
        For whom a round waits.

    Raises
    ------
    ConfigurationError
        If the parts cannot work together.
    """

    name: str
    fusion: Fusion = field(default_factory=Concat)
    uplink: Uplink = field(default_factory=Plain)
    exchange: Exchange = field(default_factory=Split)
    local_updates: LocalUpdates = field(default_factory=Consecutive)
    stragglers: Stragglers = field(default_factory=Wait)

    def __post_init__(self) -> None:
        check_kind("method.name", self.name, str)
        for part, (protocol, _) in _PARTS.items():
            value = getattr(self, part)
            if not isinstance(value, protocol) or isinstance(value, type):
                raise ConfigurationError(_what_is_missing(part, value))
        self.uplink.check(self.fusion, self.stragglers)
        self.exchange.check(self)
        policy, exchange = type(self.stragglers).__name__, type(self.exchange).__name__
        for kind in LocalStep:
            if kind in self.local_updates.kinds - self.exchange.takes_steps:
                updates = type(self.local_updates).__name__
                remembered = {*LocalStep} - {LocalStep.REPEATED} <= self.exchange.takes_steps
                raise ConfigurationError(
                    _NOT_TAKEN[kind].format(
                        exchange=exchange, by=updates, instead=_INSTEAD[remembered]
                    )
                )
        if self.stragglers.drops and not self.exchange.takes_absences:
            raise ConfigurationError(
                f"{policy} lets a round go on without a party, but the exchange {exchange} waits "
                "for everybody: say Wait(), or take the split exchange"
            )
        if self.stragglers.drops and self.uplink.delivery is Delivery.EVERY_IN_ORDER:
            raise ConfigurationError(
                f"{policy} lets embeddings that come too late be lost, but this uplink needs every "
                "message in order, as error feedback does: wait for everybody (Wait()), or take a "
                "link that remembers nothing"
            )
        if self.stragglers.leaves_out and not _takes_fewer(self.fusion):
            raise ConfigurationError(
                f"{policy} leaves out the embeddings that are late, but fusion by "
                f"{type(self.fusion).__name__.lower()} needs one of each party: take sum, mean or "
                "max, or wait for everybody (Wait())"
            )

    @property
    def timed(self) -> bool:
        """Whether the course of a run, and so what is learned, depends on time.

        >>> Method("waits").timed
        False
        """
        if self.stragglers.drops or self.exchange.own_pace:
            return True
        return self.exchange.timed and bool(self.local_updates.kinds)

    def with_links(self, change: Callable[[Link], Link]) -> Method:
        """Return the method with each link of uplink and exchange changed."""
        return replace(
            self,
            uplink=self.uplink.with_links(change),
            exchange=self.exchange.with_links(change),
        )

    def unlimited(self) -> Method:
        """Return the method without budgets: what a run must share with one that goes on."""
        return replace(self, uplink=self.uplink.unlimited(), exchange=self.exchange.unlimited())

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return who learns what: all that uplink and exchange say."""
        return (*self.exchange.disclosures(layout), *self.uplink.disclosures(layout))


def checked_method(value: object) -> Method:
    """Return a method as it is.

    Raises
    ------
    ConfigurationError
        If it is none, such as the name of one.

    Examples
    --------
    >>> checked_method("pbm_vfl")
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: method is 'pbm_vfl', but a method is a value: say \
colonnade.methods.pbm_vfl()
    """
    if isinstance(value, Method):
        return value
    name = getattr(value, "__name__", value)
    known = name if isinstance(name, str) and name.isidentifier() else "svfl"
    raise ConfigurationError(
        f"method is {value!r}, but a method is a value: say colonnade.methods.{known}()"
    )


def _takes_fewer(fusion: Fusion) -> bool:
    """Return whether a fusion is as wide, and one at all, where an embedding is left out."""
    try:
        return fusion.width([1]) == fusion.width([1, 1])
    except ConfigurationError:
        return False


_PARTS: dict[str, tuple[type, Any]] = {
    "fusion": (Fusion, models),
    "uplink": (Uplink, uplinks),
    "exchange": (Exchange, exchanges),
    "local_updates": (LocalUpdates, local_updates),
    "stragglers": (Stragglers, stragglers),
}
"""What each part must answer, and the room where ours are."""

_NOT_TAKEN = {
    LocalStep.REPEATED: "{by} repeats the step of a round, which the exchange {exchange} does not: "
    "say {instead}, or take the split exchange",
    LocalStep.STALE_DERIVATIVES: "{by} lets parties go on along the derivatives that they were "
    "sent, but the exchange {exchange} does not: take Split(...), or Consecutive(...)",
    LocalStep.STALE_EMBEDDINGS: "replaying is for exchanges in which the label holder alone has "
    "what it needs; {exchange} cannot: take Split(...) or Asynchronous(...), or Consecutive(...)",
}

_INSTEAD = {
    False: "Consecutive(1)",
    True: "Workset(1, R, None), which takes up to R steps more on the batch of a round",
}
"""In place of steps that are repeated, by whether an exchange goes on with what is remembered."""


def _what_is_missing(part: str, value: object) -> str:
    """Return why a value cannot be this part of a method."""
    if isinstance(value, type):
        return f"method.{part} is a value, not a class: write {value.__name__}(...)"
    protocol, room = _PARTS[part]
    members = members_of(protocol)
    missing = ", ".join(sorted(name for name in members if not hasattr(value, name)))
    said = (
        f"method.{part} is {either(parts_of(room, members))}, not {value!r}: a part of your own "
        f"would answer {missing} too"
    )
    if part == "exchange" and isinstance(value, Link):
        said += "; derivatives go through Split(downlink=...)"
    return said
