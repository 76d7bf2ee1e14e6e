"""Every method over FLARE, beside the simulator: the same parameters, bit for bit, and ledger.

Where the course hangs on time, the simulator replays the trace of the run. Secrets are those that
``seats.py`` lets everybody draw, in a run that is declared no simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from colonnade.drivers import Replay
from sites.ground import Ground, ground
from sites.table import Row

__all__ = ["METHODS", "methods"]

METHODS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "svfl": {"method": "svfl"},
        "svfl, codes both ways": {
            "method": {
                "name": "svfl",
                "embedding": {"codec": "scalar", "bits": 8, "low": -1, "high": 1},
                "derivative": {"codec": "scalar", "bits": 8},
            }
        },
        "cvfl": {
            "method": {
                "name": "cvfl",
                "embedding": {"codec": "scalar", "bits": 6},
                "labels": "shared",
                "local_steps": 2,
            }
        },
        "efvfl": {"method": {"name": "efvfl", "embedding": {"codec": "top_k", "ratio": 0.5}}},
        "fedbcd": {"method": {"name": "fedbcd", "local_steps": 2}},
        "lean": {"method": "lean"},
        "pbm_vfl": {"method": {"name": "pbm_vfl", "trials": 16, "beta": 0.2}},
        "wait_dp": {"method": "wait_dp"},
        "celu": {"method": {"name": "celu", "capacity": 4, "reuses": 3}},
        "vafl": {"method": "vafl"},
        "fedvs": {"method": "fedvs", "model": {"bottom": "polynomial"}},
        "the fastest": {
            "method": {
                "name": "mine",
                "uplink": {"uplink": "plain"},
                "fusion": "mean",
                "stragglers": {"stragglers": "fastest", "count": 2},
            }
        },
    }
)


def methods(only: str = "") -> Iterator[Row]:
    """Yield a row for each method, or for one."""
    with ground() as place:
        for name, said in METHODS.items():
            if only in name:
                yield _tried(place, name, said)


def _tried(place: Ground, name: str, said: Mapping[str, Any]) -> Row:
    job = place.job("".join(c if c.isalnum() else "-" for c in name), **said)
    outcome = place.carried_out(job)
    if not outcome.completed:
        return Row(name, f"{outcome.status}: {place.why(outcome.number)}", False, outcome.seconds)
    is_timed = job.config.method.build().timed
    expected = job.simulated(Replay(place.trace(job))) if is_timed else job.expected
    like = "the same bits as its trace" if is_timed else "the same bits"
    difference = place.difference(job, expected)
    rounds = f"{expected.summary['rounds']} rounds, {len(expected.ledger)} messages: "
    return Row(name, rounds + (difference or like), not difference, outcome.seconds)
