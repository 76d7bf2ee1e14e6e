"""What work costs in ``celu-time``: as one core of two machines needed, by ``benchmarks/work.py``.

How much a local step fits into depends on how fast it is beside the network, so there are two. Each
figure is of a batch of 4096 rows, at the organisation where it is largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from colonnade.costs import Modelled
from colonnade.method import Method

__all__ = ["FASTER", "FIRST", "Machine"]

_ROWS = 4096


@dataclass(frozen=True)
class Machine:
    """Seconds of a core for a batch, by data set and kind of work.

    Parameters
    ----------
    name
        What it is called.
    work
        By data set: of all kinds, without a codec; a local step weighs its rows.
    repeated
        By data set: a local step that weighs no rows, as FedBCD's.
    coding
        By the codec that a method's name ends with: where coding takes longer than without.
    """

    name: str
    work: Mapping[str, Mapping[str, float]]
    repeated: Mapping[str, float]
    coding: Mapping[str, Mapping[str, float]]

    def costs(self, data: str, name: str, method: Method) -> Modelled:
        """Return what work costs on a data set; what has no price, such as evaluating, nothing.

        >>> from colonnade.methods import fedbcd
        >>> FIRST.costs("mnist", "FedBCD, Q = 2", fedbcd(2)).seconds_per_row["local_step"] * 4096
        0.068
        """
        prices = {**self.work[data], **self.coding.get(name.rpartition(", ")[2], {})}
        if method.local_updates.repeats:
            prices["local_step"] = self.repeated[data]
        a_row = {kind: seconds / _ROWS for kind, seconds in prices.items()}
        return Modelled(seconds_per_row=a_row, otherwise=0.0)


FIRST = Machine(
    "first machine",
    {
        "mnist": {
            **{"forward": 0.021, "top": 0.037, "update": 0.001, "backward": 0.029},
            **{"local_step": 0.077, "encode": 0.0006, "decode": 0.0007},
        },
        "credit": {
            **{"forward": 0.012, "top": 0.032, "update": 0.001, "backward": 0.023},
            **{"local_step": 0.070, "encode": 0.0006, "decode": 0.0011},
        },
        "clicks": {
            **{"forward": 0.019, "top": 0.027, "update": 0.001, "backward": 0.050},
            **{"local_step": 0.075, "encode": 0.0006, "decode": 0.0007},
        },
    },
    {"mnist": 0.068, "credit": 0.046, "clicks": 0.065},
    {
        "8 bits": {"encode": 0.0017, "decode": 0.0014},
        "error feedback": {"encode": 0.018, "decode": 0.016},
    },
)

FASTER = Machine(
    "faster machine",
    {
        "mnist": {
            **{"forward": 0.014, "top": 0.025, "update": 0.0007, "backward": 0.021},
            **{"local_step": 0.043, "encode": 0.0004, "decode": 0.0003},
        },
        "credit": {
            **{"forward": 0.0073, "top": 0.021, "update": 0.0007, "backward": 0.016},
            **{"local_step": 0.036, "encode": 0.0004, "decode": 0.0008},
        },
    },
    {"mnist": 0.039, "credit": 0.026},
    {
        "8 bits": {"encode": 0.0005, "decode": 0.0007},
        "error feedback": {"encode": 0.008, "decode": 0.0093},
    },
)
"""Of 24 November 2026; without the clicks, and so is what ``celu-time`` says of it."""
