"""How long work takes on the virtual clock: as measured here, or as a model says.

``Measured`` is what this machine needed, in CPU time of the thread that did the work; two runs
differ a little, so a method whose course depends on timing is then not repeatable. ``Modelled`` is
a given number of seconds per kind of work, and repeats exactly. Every kind has a price: what nobody
thought of is refused and not free. ``Delayed`` makes organisations slow now and then, on top of
either. A summary says which it was.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol, runtime_checkable

from colonnade.annotated import is_number, make_plain
from colonnade.channels import check_organisations, check_seconds, nanoseconds
from colonnade.delays import Delay
from colonnade.effects import KINDS_OF_WORK, Work
from colonnade.errors import ConfigurationError
from colonnade.streams import StreamKey, is_seed
from colonnade.telling import shown

__all__ = [
    "CostModel",
    "Delayed",
    "Measured",
    "Modelled",
    "check_spelling",
    "is_steady",
    "uses_measured",
]


@runtime_checkable
class CostModel(Protocol):
    """Decides what a piece of work costs on the virtual clock.

    One that inherits from this class answers that nobody is slow in some rounds, and names nobody.
    """

    @property
    def label(self) -> str:
        """``"measured"`` or ``"modelled"``."""
        ...

    @property
    def measures(self) -> bool:
        """Whether it uses what was measured: a plan then times some rounds beforehand.

        Of a model that does not say it is taken for granted.
        """
        return True

    @property
    def steady(self) -> bool:
        """Whether an epoch takes as long as another.

        Of a model that does not say it is not taken for granted.
        """
        return True

    def nanoseconds(self, role: str, work: Work[Any], measured: int) -> int:
        """Return the time that ``role`` needs for ``work``, measured as ``measured`` ns."""
        ...

    def lost_nanoseconds(self, role: str, round: int, kind: str = "") -> int:
        """Return what ``role`` loses in ``round`` besides, before its first work in training.

        With a kind: before its first work of that kind, of what is lost not before all work.
        """
        return 0

    def check(self, organisations: Collection[str]) -> None:
        """Raise ``ConfigurationError`` if it names somebody who is none of the organisations."""
        return


_SLOWEST = 1e6


def uses_measured(costs: CostModel) -> bool:
    """Return whether a model uses what was measured, or does not say.

    >>> [uses_measured(costs) for costs in (Measured(), Modelled(otherwise=0.1))]
    [True, False]
    """
    return getattr(costs, "measures", True)


def is_steady(costs: CostModel) -> bool:
    """Return whether by a model an epoch takes as long as another; not where it does not say.

    >>> from colonnade.delays import Exponential
    >>> costs = Modelled(otherwise=0.1)
    >>> [is_steady(each) for each in (costs, Delayed(costs, {"bank": Exponential(0.1)}))]
    [True, False]
    """
    return getattr(costs, "steady", False)


def _check_slowdown(slowdown: Mapping[str, float]) -> None:
    for role, factor in slowdown.items():
        if not (is_number(factor) and 0 <= factor <= _SLOWEST):
            raise ConfigurationError(f"slowdown of {role!r} must be 0 to 1e6, not {factor!r}")


@dataclass(frozen=True)
class Measured(CostModel):
    """The CPU time that the work took here, times the role's slowdown (1 unless given)."""

    slowdown: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        make_plain(Measured, self)
        _check_slowdown(self.slowdown)

    @property
    def label(self) -> str:
        """Always ``"measured"``."""
        return "measured"

    @property
    def measures(self) -> bool:
        """Always."""
        return True

    def nanoseconds(self, role: str, work: Work[Any], measured: int) -> int:
        """Return ``measured`` times the role's slowdown."""
        factor = self.slowdown.get(role)
        return measured if factor is None else round(measured * factor)

    def check(self, organisations: Collection[str]) -> None:
        """Refuse a slowdown of somebody who is not there."""
        check_organisations("a slowdown of", self.slowdown, organisations)


@dataclass(frozen=True)
class Modelled(CostModel):
    """Given seconds per kind of work: (seconds + seconds_per_row * rows) * slowdown.

    Parameters
    ----------
    seconds
        Seconds for each kind of work, whatever its size.
    seconds_per_row
        Seconds for each row of a kind of work. A kind that only one of the two names has none of
        the other's.
    slowdown
        A factor for each role that is slower (or faster) than 1.
    otherwise
        Seconds for every kind of work that neither names. None, the default, refuses such kinds:
        then each of ``effects.KINDS_OF_WORK`` must be named. ``Modelled(otherwise=0.0)`` makes all
        work free, for runs whose time is not the point.

    Raises
    ------
    ConfigurationError
        If a number is negative or beyond 1e6, a kind of work has no price, or one is misspelt.

    Examples
    --------
    >>> costs = Modelled(
    ...     {"forward": 0.001}, {"forward": 1e-6}, slowdown={"bank": 2.0}, otherwise=0.01
    ... )
    >>> costs.nanoseconds("bank", Work("forward", bool, round=0, rows=500), measured=0)
    3000000
    >>> costs.nanoseconds("shop", Work("local_step", bool, round=0, rows=500), measured=0)
    10000000
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    seconds_per_row: Mapping[str, float] = field(default_factory=dict)
    slowdown: Mapping[str, float] = field(default_factory=dict)
    otherwise: float | None = None

    def __post_init__(self) -> None:
        make_plain(Modelled, self)
        _check_slowdown(self.slowdown)
        for kind, seconds in (*self.seconds.items(), *self.seconds_per_row.items()):
            check_seconds(f"cost of {kind!r}", seconds)
            check_spelling(kind)
        if self.otherwise is not None:
            check_seconds("cost of other work", self.otherwise)
            return
        free = [kind for kind in KINDS_OF_WORK if not self._names(kind)]
        if free:
            raise ConfigurationError(
                f"modelled costs name no price of {', '.join(free)}; give each its seconds or "
                "seconds_per_row, or say what all others cost, as otherwise=0.0"
            )

    @property
    def label(self) -> str:
        """Always ``"modelled"``."""
        return "modelled"

    @property
    def measures(self) -> bool:
        """Never."""
        return False

    def nanoseconds(self, role: str, work: Work[Any], measured: int) -> int:
        """Return the model's time, whatever was measured.

        Raises
        ------
        ConfigurationError
            If neither seconds nor ``otherwise`` give the kind a price.
        """
        kind = work.kind
        if self._names(kind):
            seconds = self.seconds.get(kind, 0.0) + self.seconds_per_row.get(kind, 0.0) * work.rows
        elif self.otherwise is not None:
            seconds = self.otherwise
        else:
            raise ConfigurationError(
                f"{role!r} does work of the kind {kind!r}, which modelled costs give no price; "
                "name it in seconds or seconds_per_row, or say what all others cost, as "
                "otherwise=0.0"
            )
        return nanoseconds(seconds * self.slowdown.get(role, 1.0))

    def check(self, organisations: Collection[str]) -> None:
        """Refuse a slowdown of somebody who is not there."""
        check_organisations("a slowdown of", self.slowdown, organisations)

    def _names(self, kind: str) -> bool:
        return kind in self.seconds or kind in self.seconds_per_row


def check_spelling(kind: str) -> None:
    """Refuse a kind of work that is almost one there is; others may be those of a user's role.

    Raises
    ------
    ConfigurationError
        If it is misspelt.

    Examples
    --------
    >>> check_spelling("seal")
    """
    close = get_close_matches(kind, KINDS_OF_WORK, n=1, cutoff=0.8)
    if kind not in KINDS_OF_WORK and close:
        raise ConfigurationError(
            f"there is no work {kind!r}, but {close[0]!r}; there are {', '.join(KINDS_OF_WORK)}, "
            "and what a role of your own calls its work, if that is not almost one of these: call "
            f"it otherwise if {kind!r} is one"
        )


@dataclass(frozen=True)
class Delayed(CostModel):
    """Costs of organisations of which some take longer, in each round as long as is drawn.

    A delay lengthens the first work of a round's training, whatever that is; or the first of each
    kind that is named, by a share of it: so a computer that is slow at long work loses less at
    short.

    Parameters
    ----------
    costs
        What work costs without it.
    delays
        By organisation.
    seed
        What delays are drawn from.
    shares
        By kind of work, the share of the delay that its first in a round takes longer; without
        any, all of it goes before the first work.

    Raises
    ------
    ConfigurationError
        If something is no delay, does not know its organisation, ``seed`` has more than 64 bits, or
        a share is negative, or of work that there is not.

    Examples
    --------
    >>> from colonnade.delays import Constant
    >>> costs = Delayed(Modelled(otherwise=0.01), {"bank": Constant(0.5)})
    >>> [costs.lost_nanoseconds(name, round=3) for name in ("bank", "shop")]
    [500000000, 0]
    >>> costs = Delayed(costs.costs, costs.delays, shares={"coded": 1.0, "encode": 0.1})
    >>> [costs.lost_nanoseconds("bank", 3, kind) for kind in ("", "encode", "coded")]
    [0, 50000000, 500000000]
    """

    costs: CostModel
    delays: Mapping[str, Delay]
    seed: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        make_plain(Delayed, self)
        for kind, share in self.shares.items():
            if kind not in KINDS_OF_WORK:  # no work would be longer, and nobody late
                raise ConfigurationError(
                    f"a share of a delay is a kind of work's, and there is no work {kind!r}; there "
                    f"are {', '.join(KINDS_OF_WORK)}"
                )
            if not (is_number(share) and 0 <= share <= _SLOWEST):
                raise ConfigurationError(
                    f"the share of a delay that {kind!r} takes longer is 0 or more, not {share!r}"
                )
        if not is_seed(self.seed):
            raise ConfigurationError(
                "the seed of delays must be a whole number from -2^63 to 2^63 - 1, not "
                f"{shown(self.seed)}"
            )
        for role, delay in self.delays.items():
            if not isinstance(delay, Delay) or isinstance(delay, type):
                raise ConfigurationError(
                    f"the delay of {role!r} is Constant(...), Exponential(...), FromTrace(...) or "
                    f"has seconds() as they have, which {delay!r} has not"
                )
            self.lost_nanoseconds(role, 0)  # a trace may have no column of it

    @property
    def label(self) -> str:
        """As of the costs without it, and that there are delays."""
        return f"{self.costs.label}, delayed"

    @property
    def measures(self) -> bool:
        """As the costs without it."""
        return uses_measured(self.costs)

    @property
    def steady(self) -> bool:
        """As the costs without it, where nobody is late."""
        return not self.delays and is_steady(self.costs)

    def nanoseconds(self, role: str, work: Work[Any], measured: int) -> int:
        """Return what the work costs without a delay."""
        return self.costs.nanoseconds(role, work, measured)

    def lost_nanoseconds(self, role: str, round: int, kind: str = "") -> int:
        """Return the delay of the round, or the share of it that a kind of work has."""
        lost = self.costs.lost_nanoseconds(role, round, kind)
        delay = self.delays.get(role)
        share = self.shares.get(kind, 0.0) if self.shares else float(not kind)
        if delay is None or not share:
            return lost
        seconds = delay.seconds(StreamKey(self.seed, role, "delay", round))
        if not 0 <= seconds < math.inf:
            raise ConfigurationError(
                f"the delay of {role!r} in round {round} must be 0 s or more, not {seconds!r}"
            )
        return lost + nanoseconds(share * seconds)

    def check(self, organisations: Collection[str]) -> None:
        """Refuse a delay of somebody who is not there."""
        self.costs.check(organisations)
        check_organisations("a delay of", self.delays, organisations)
