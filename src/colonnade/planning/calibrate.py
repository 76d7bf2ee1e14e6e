"""What work costs on this machine: a few rounds of the real models, timed.

They are rounds of the run that is planned: under its network and its costs, since a method that
uses the time of its messages does other work where there is none. What was measured is remembered,
and a plan hands it to the same costs again: so whatever they make of it is in the plan too.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from colonnade.channels import Network
from colonnade.costs import CostModel, is_steady
from colonnade.drivers import Simulate
from colonnade.effects import Work
from colonnade.errors import LocalProtocolError
from colonnade.federation import Federation
from colonnade.method import Method
from colonnade.training import Training

__all__ = ["calibrated"]

_ROUNDS = 12
_OF_EXACT_STEP = {"forward", "top", "backward", "update"}


@dataclass
class _Recorder(CostModel):
    """Charges what a model charges, and remembers what was measured."""

    costs: CostModel
    samples: dict[tuple[str, str, int], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @property
    def label(self) -> str:
        return self.costs.label

    @property
    def measures(self) -> bool:
        return True

    def nanoseconds(self, role: str, work: Work[Any], measured: int) -> int:
        self.samples[role, work.kind, work.rows].append(measured)
        return self.costs.nanoseconds(role, work, measured)

    def lost_nanoseconds(self, role: str, round: int, kind: str = "") -> int:
        return self.costs.lost_nanoseconds(role, round, kind)

    def check(self, organisations: Collection[str]) -> None:
        self.costs.check(organisations)


@dataclass(frozen=True)
class _Calibrated(CostModel):
    """A model that is told the mean time of each piece of work, as it was measured.

    Where that was with other numbers of rows, the time is scaled. Of work of a kind that its
    organisation found no time for, it is told the time of what is nearest: of a local step that of
    an exact one, as far as it is that organisation's (forward, top, backward and update); of
    anything else that of its longest work.
    """

    costs: CostModel
    means: Mapping[tuple[str, str, int], float]

    @property
    def label(self) -> str:
        said = self.costs.label
        if "measured" in said:
            return said.replace("measured", "calibrated")
        return f"{said}, calibrated"

    @property
    def measures(self) -> bool:
        return False

    @property
    def steady(self) -> bool:
        return is_steady(self.costs)

    def nanoseconds(self, role: str, work: Work[Any], measured: int) -> int:
        return self.costs.nanoseconds(role, work, round(self._time(role, work.kind, work.rows)))

    def lost_nanoseconds(self, role: str, round: int, kind: str = "") -> int:
        return self.costs.lost_nanoseconds(role, round, kind)

    def check(self, organisations: Collection[str]) -> None:
        self.costs.check(organisations)

    def _time(self, role: str, kind: str, rows: int) -> float:
        known = self.means.get((role, kind, rows))
        if known is not None:
            return known
        kinds = {what for owner, what, _ in self.means if owner == role}
        if not kinds:
            raise LocalProtocolError(f"no round of calibration did any work at {role!r}")
        if kind in kinds:
            return self._scaled(role, kind, rows)
        if kind == "local_step":
            return sum(self._scaled(role, part, rows) for part in kinds & _OF_EXACT_STEP)
        return max(self._scaled(role, other, rows) for other in kinds)

    def _scaled(self, role: str, kind: str, rows: int) -> float:
        """Return the mean of the nearest number of rows, scaled to these."""
        near = [
            (abs(math.log(max(r, 1) / max(rows, 1))), mean * max(rows, 1) / max(r, 1))
            for (owner, what, r), mean in self.means.items()
            if (owner, what) == (role, kind)
        ]
        return min(near)[1]


def calibrated(
    federation: Federation,
    method: Method,
    training: Training,
    network: Network,
    costs: CostModel,
) -> CostModel:
    """Time a few rounds of the real federation, on this machine."""
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
    some.train(method, schedule, Simulate(network, recorder))
    # The first of each kind also pays for what is only done once.
    means = {key: statistics.fmean(times[1:] or times) for key, times in recorder.samples.items()}
    return _Calibrated(costs, means)
