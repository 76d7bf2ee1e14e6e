"""How long work takes on the virtual clock: as measured here, or as a model says.

``Measured`` is what this machine needed, in CPU time of the thread that did the work; two runs
differ a little, so a method whose course depends on timing is then not repeatable. ``Modelled`` is
a given number of seconds per kind of work, and repeats exactly. Every kind has a price: what nobody
thought of is refused and not free. A summary says which it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from colonnade.channels import nanoseconds
from colonnade.effects import KINDS_OF_WORK
from colonnade.errors import ConfigurationError

__all__ = ["CostModel", "Measured", "Modelled"]


class CostModel(Protocol):
    """Decides what a piece of work costs on the virtual clock."""

    @property
    def label(self) -> str:
        """``"measured"`` or ``"modelled"``."""
        ...

    def nanoseconds(self, role: str, kind: str, rows: int, measured: int) -> int:
        """Return the time for work of ``kind`` on ``rows`` rows, measured as ``measured`` ns."""
        ...


def _check_slowdown(slowdown: Mapping[str, float]) -> None:
    for role, factor in slowdown.items():
        if not 0 <= factor < math.inf:
            raise ConfigurationError(f"slowdown of {role!r} must be 0 or more, not {factor}")


@dataclass(frozen=True)
class Measured:
    """The CPU time that the work took here, times the role's slowdown (1 unless given)."""

    slowdown: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_slowdown(self.slowdown)

    @property
    def label(self) -> str:
        """Always ``"measured"``."""
        return "measured"

    def nanoseconds(self, role: str, kind: str, rows: int, measured: int) -> int:
        """Return ``measured`` times the role's slowdown."""
        factor = self.slowdown.get(role)
        return measured if factor is None else round(measured * factor)


@dataclass(frozen=True)
class Modelled:
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
        If a number is negative or not finite, or a kind of work has no price.

    Examples
    --------
    >>> costs = Modelled(
    ...     {"forward": 0.001}, {"forward": 1e-6}, slowdown={"bank": 2.0}, otherwise=0.01
    ... )
    >>> costs.nanoseconds("bank", "forward", rows=500, measured=0)
    3000000
    >>> costs.nanoseconds("shop", "local_step", rows=500, measured=0)
    10000000
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
    seconds_per_row: Mapping[str, float] = field(default_factory=dict)
    slowdown: Mapping[str, float] = field(default_factory=dict)
    otherwise: float | None = None

    def __post_init__(self) -> None:
        _check_slowdown(self.slowdown)
        for kind, seconds in (*self.seconds.items(), *self.seconds_per_row.items()):
            if not 0 <= seconds < math.inf:
                raise ConfigurationError(f"cost of {kind!r} must be 0 s or more, not {seconds}")
        if self.otherwise is not None:
            if not 0 <= self.otherwise < math.inf:
                raise ConfigurationError(
                    f"cost of other work must be 0 s or more, not {self.otherwise}"
                )
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

    def nanoseconds(self, role: str, kind: str, rows: int, measured: int) -> int:
        """Return the model's time, whatever was measured.

        Raises
        ------
        ConfigurationError
            If neither seconds nor ``otherwise`` give the kind a price.
        """
        if self._names(kind):
            seconds = self.seconds.get(kind, 0.0) + self.seconds_per_row.get(kind, 0.0) * rows
        elif self.otherwise is not None:
            seconds = self.otherwise
        else:
            raise ConfigurationError(
                f"{role!r} does work of the kind {kind!r}, which modelled costs give no price; "
                "name it in seconds or seconds_per_row, or say what all others cost, as "
                "otherwise=0.0"
            )
        return nanoseconds(seconds * self.slowdown.get(role, 1.0))

    def _names(self, kind: str) -> bool:
        return kind in self.seconds or kind in self.seconds_per_row
