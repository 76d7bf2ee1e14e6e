"""How the seconds of a run came about: under which driver, over which network, from which round.

Where time does not decide what is learned, a run that one driver began may go on under another, to
the same bits; its seconds are then of several clocks, and all of them are told. At most one of them
is modelled: seconds over two networks, or at two costs, would be of a world that nobody described.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = ["NOT_NOTED", "Clock", "continued", "several", "why_refused"]


@dataclass(frozen=True)
class Clock:
    """How seconds come about from a round on.

    Parameters
    ----------
    driver
        Its name, as summaries use it.
    how
        Whether seconds of ``network`` and ``compute`` are measured or modelled.
    network
        The network that is modelled, in words; None where messages travel as they do.
    timing
        What times are computed from, or a digest of it; None where that is not known.
    round
        The first round.
    """

    driver: str
    how: Mapping[str, str]
    network: Mapping[str, str] | None
    timing: str | None
    round: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


NOT_NOTED = Clock("not noted", {"network": "not noted", "compute": "not noted"}, None, None)
"""That of a checkpoint of an earlier version, which did not say."""


def continued(clocks: Sequence[Clock], now: Clock, round: int) -> tuple[Clock, ...]:
    """Return the clocks of a run that goes on at ``round`` by another, or by the last of them."""
    kept = tuple(clock for clock in clocks if clock.round < round)
    if kept and replace(now, round=kept[-1].round) == kept[-1]:
        return kept
    return (*kept, replace(now, round=round if kept else 0))


def why_refused(earlier: Clock, now: Clock) -> str | None:
    """Return how a run was begun that may not go on by a clock of now; None where it may.

    >>> slow = Clock("simulate", {"compute": "modelled"}, {"up": "2 Mbit/s, 10 ms"}, "slow")
    >>> fast = Clock("simulate", {"compute": "modelled"}, {"up": "1 Gbit/s"}, "fast")
    >>> print(why_refused(slow, fast))
    over another network (up: 2 Mbit/s, 10 ms)
    """
    if earlier.network is None or now.network is None or earlier.timing == now.timing:
        return None
    if earlier.network != now.network:
        return f"over another network ({_listed(earlier.network)})"
    if earlier.how != now.how:
        parts = [
            part
            for part in {**earlier.how, **now.how}
            if now.how.get(part) != earlier.how.get(part)
        ]
        return f"with other costs ({_listed({p: earlier.how.get(p, 'nothing') for p in parts})})"
    return "over another network, or with other costs or delays"


def several(clocks: Sequence[Clock], values: Sequence[str]) -> str:
    """Return one value for each clock in words, which says from when on where they differ.

    >>> virtual, real = Clock("simulate", {}, {}, "a"), Clock("processes", {}, None, "real", 7)
    >>> several([virtual, real], ["modelled", "measured"])
    'modelled before round 7, then measured'
    >>> several([virtual, real], ["measured", "measured"])
    'measured'
    """
    told: list[tuple[str, int]] = []
    for clock, value in zip(clocks, values, strict=True):
        if not told or told[-1][0] != value:
            told.append((value, clock.round))
    following = [f"before round {round}" for _, round in told[1:]]
    *first, (last, _) = told
    before = [f"{value} {until}" for (value, _), until in zip(first, following, strict=True)]
    return f"{', '.join(before)}, then {last}" if before else last


def _listed(told: Mapping[str, str]) -> str:
    return "; ".join(f"{what}: {words}" for what, words in told.items())
