"""What a method is tried on: a small federation, and what a test must know of the method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.agreement import Composition
from colonnade.costs import Modelled
from colonnade.drivers import Driver, Simulate
from colonnade.federation import Federation
from colonnade.local_updates import (
    Consecutive,
    LocalStep,
    LocalUpdates,
    Proximal,
    Replayed,
)
from colonnade.method import Method
from colonnade.organisations import LabelHolder, Party
from colonnade.runs import Run
from colonnade.training import Training

__all__ = ["DRIVER", "TRAINING", "WIDTH", "MethodSubject", "small_federation"]

ROWS, WIDTH, CLASSES = 90, 4, 3
TRAINING = Training(
    epochs=2, batch_size=16, evaluation_rows=7, evaluate_every=3, seed=5, secrets="seed"
)
DRIVER = Simulate(costs=Modelled(otherwise=0.001))


def small_federation(method: Composition, holder_has_features: bool = True) -> Federation:
    """Return three parties and a label holder on random data, their models with dropout."""
    generator = torch.Generator().manual_seed(7)
    sgd = partial(torch.optim.SGD, lr=0.2)

    def columns(count: int) -> Tensor:
        return torch.randn(ROWS, count, generator=generator)

    def bottom(inputs: int) -> nn.Module:
        first, last = _linear(inputs, inputs, 6), _linear(inputs, 6, WIDTH)
        return nn.Sequential(first, nn.Tanh(), nn.Dropout(0.2), last)

    parties = [Party(f"party_{i}", columns(2 + i), bottom(2 + i), sgd) for i in range(3)]
    members = 3 + holder_has_features
    fused = method.fusion.width([WIDTH] * members)
    holder = LabelHolder(
        "holder",
        torch.randint(CLASSES, (ROWS,), generator=generator),
        _linear(99, fused, CLASSES),
        features=columns(2) if holder_has_features else None,
        bottom=bottom(2) if holder_has_features else None,
        optimiser=sgd,
    )
    return Federation(parties, holder, range(60), range(60, 75), None, range(75, ROWS))


def _linear(seed: int, inputs: int, outputs: int) -> nn.Linear:
    """Make a layer whose start depends on ``seed`` alone, and leave torch's own generator be."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        return nn.Linear(inputs, outputs)


@dataclass(frozen=True)
class MethodSubject:
    """A method, and what a test must know of it.

    Parameters
    ----------
    method
        The method.
    like
        A method that it must agree with, in the trained parameters and in predictions; None where
        nothing computes the same.
    tolerance
        How closely, relative to the norm of a parameter; 0 for the same bits.
    federation
        Makes the federation to train, for a method and with or without columns at the label holder.
    timed
        Whether its messages depend on when others arrive although what it learns does not, so that
        it repeats under a replay, and not between drivers. Of a method that is ``timed`` all this
        is known.
    noise
        Where the uplink draws what is added to embeddings anew whenever it is used: by how much the
        accuracy of predictions of the test rows may then differ from the one that the run reports;
        0, for what draws nothing, demands that they are equal. Nothing else is allowed for it: in
        training, chance is drawn from the run's seed and the moment, so that runs repeat.
    steps
        Whether it is tried with each kind of local step that its exchange takes, too.
    late
        Where its uplink goes on without some parties' messages, whatever the policy: a simulator
        under which there are such.
    """

    method: Method
    like: Method | None = None
    tolerance: float = 0.0
    federation: Callable[[Composition, bool], Federation] = small_federation
    timed: bool = False
    noise: float = 0.0
    steps: bool = True
    late: Simulate | None = None
    _made: list[tuple[Any, Federation]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    _simulated: list[tuple[Any, Run]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __str__(self) -> str:
        return self.method.name

    def train(
        self,
        method: Method | None = None,
        driver: Driver | None = None,
        holder_has_features: bool = True,
        **settings: Any,
    ) -> Run:
        """Train the federation by the method, or by another.

        What is simulated in memory is kept: the next check that wants the same run is given it.
        """
        method = method or self.method
        settings.setdefault("training", TRAINING)
        if driver is not None or settings.keys() != {"training"}:
            return self._trained(method, driver, holder_has_features, settings)
        asked = (method, holder_has_features, settings["training"])
        for known, run in self._simulated:
            if known == asked:
                return run
        run = self._trained(method, None, holder_has_features, settings)
        self._simulated.append((asked, run))
        return run

    def _trained(
        self,
        method: Method,
        driver: Driver | None,
        holder_has_features: bool,
        settings: dict[str, Any],
    ) -> Run:
        federation = self.made(method, holder_has_features)
        return federation.train(method, driver=driver or DRIVER, report=False, **settings)

    def made(self, method: Method, holder_has_features: bool = True) -> Federation:
        """Return the federation for a method: one for all runs, since none changes it."""
        asked = (method, holder_has_features)
        for known, federation in self._made:
            if known == asked:
                return federation
        federation = self.federation(method, holder_has_features)
        self._made.append((asked, federation))
        return federation

    def variants(self) -> Iterator[Method]:
        """Yield the method; where it has no local steps, with each kind that the exchange takes."""
        yield self.method
        if self.steps and not self.method.local_updates.kinds:
            for kind, policy in _POLICIES.items():
                if kind in self.method.exchange.takes_steps:
                    yield replace(self.method, local_updates=policy)


_POLICIES: dict[LocalStep, LocalUpdates] = {
    LocalStep.REPEATED: Consecutive(3),
    LocalStep.STALE_DERIVATIVES: Proximal(1, 6, label_holder=Consecutive(1)),
    LocalStep.STALE_EMBEDDINGS: Replayed(2, batches=3),
}
