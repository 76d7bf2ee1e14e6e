"""What each kind of work costs in the settings of ``colonnade reproduce celu-time``.

    python benchmarks/work.py

Milliseconds of CPU time, one thread, for a batch of 4096 rows, the median of some rounds, by data
set, kind of work and method; of the organisations that do it, the one where it is largest. What
``experiments/celu_time.py`` says work costs is from here.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median

from colonnade.costs import CostModel
from colonnade.drivers import Simulate
from colonnade.effects import Work
from colonnade.experiments.celu_time import METHODS, SETTINGS
from colonnade.experiments.experiment import Scale
from colonnade.federation import Federation
from colonnade.methods import Method
from colonnade.training import Training
from colonnade.wire import Purpose

BATCH, ROUNDS = 4096, 20


@dataclass(frozen=True)
class Noted(CostModel):
    """Measured costs that keep what each piece of work took; steps have time to be taken."""

    batch: int
    label: str = "measured"
    seen: dict = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def nanoseconds(self, role: str, work: Work, measured: int) -> int:
        if work.purpose is Purpose.TRAINING and work.rows in (self.batch, 1) and work.round >= 3:
            self.seen[work.kind][role].append(measured)
        return 0 if work.kind == "local_step" else measured


def costs(
    federation: Federation, method: Method, rounds: int = ROUNDS, batch: int = BATCH
) -> dict[str, float]:
    """Return the milliseconds that a batch takes, by kind of work."""
    noted, training = Noted(batch), Training(10**6, batch, evaluate_every=10**6)
    federation.train(method, training, Simulate(costs=noted), stop_before=rounds, report=False)
    return {
        kind: max(median(times) for times in by_role.values()) / 1e6
        for kind, by_role in sorted(noted.seen.items())
    }


def main() -> None:
    """Print a line for each data set and method."""
    chosen = sys.argv[1:] or [setting.name for setting in SETTINGS]
    for setting in SETTINGS:
        if setting.name not in chosen:
            continue
        federation = setting.federation(Scale(), 0)
        for name in ("vanilla", "FedBCD, Q = 5", "CELU", "CELU, 8 bits", "CELU, error feedback"):
            found = costs(federation, METHODS[name])
            shown = ", ".join(f"{kind} {cost:.1f}" for kind, cost in found.items())
            print(f"{setting.name}, {name}: {shown}", flush=True)


if __name__ == "__main__":
    main()
