"""What work costs on this machine: a few rounds of the real models, timed."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from colonnade.costs import CostModel, Measured
from colonnade.drivers import Simulate
from colonnade.effects import Work
from colonnade.errors import LocalProtocolError
from colonnade.federation import Federation
from colonnade.method import Method
from colonnade.training import Training

__all__ = ["calibrated"]

_ROUNDS = 12


@dataclass
class _Recorder(CostModel):
    """Measures, and remembers what was measured."""

    inner: Measured
    samples: dict[tuple[str, str, int], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @property
    def label(self) -> str:
        return self.inner.label

    def nanoseconds(self, role: str, work: Work[Any], measured: int) -> int:
        cost = self.inner.nanoseconds(role, work, measured)
        self.samples[role, work.kind, work.rows].append(cost)
        return cost

    def check(self, organisations: Collection[str]) -> None:
        self.inner.check(organisations)


@dataclass(frozen=True)
class _Calibrated(CostModel):
    """The mean time of each piece of work, as it was measured; scaled by rows where it was not."""

    means: Mapping[tuple[str, str, int], float]

    @property
    def label(self) -> str:
        return "calibrated"

    def nanoseconds(self, role: str, work: Work[Any], measured: int) -> int:
        kind, rows = work.kind, work.rows
        known = self.means.get((role, kind, rows))
        if known is None:
            near = [
                (abs(math.log(max(r, 1) / max(rows, 1))), mean * max(rows, 1) / max(r, 1))
                for (owner, what, r), mean in self.means.items()
                if (owner, what) == (role, kind)
            ]
            if not near:
                raise LocalProtocolError(f"no round of calibration did {kind!r} work at {role!r}")
            known = min(near)[1]
        return round(known)


def calibrated(
    federation: Federation, method: Method, training: Training, costs: Measured
) -> CostModel:
    """Time a few rounds of the real federation, on this machine, without a network."""
    size = training.batch_size_for(len(federation.train_rows))
    batches = size * _ROUNDS
    some = Federation(
        federation.parties,
        federation.label_holder,
        federation.train_rows[:batches],
        federation.test_rows[: 2 * training.evaluation_rows],
        federation.metrics,
        federation.validation_rows[: 2 * training.evaluation_rows],
    )
    recorder = _Recorder(costs)
    rounds = -(-len(some.train_rows) // size)
    schedule = replace(
        training, epochs=-(-_ROUNDS // rounds), early_stopping=None, evaluate_every=None
    )
    some.train(method, schedule, Simulate(costs=recorder))
    # The first of each kind also pays for what is only done once.
    return _Calibrated(
        {key: statistics.fmean(times[1:] or times) for key, times in recorder.samples.items()}
    )
