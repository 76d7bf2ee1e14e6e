"""How few bytes training takes: vanilla, the published methods and ``methods.lean``, on MNIST.

Four quadrants, bottoms Linear(196, E) and ReLU, a linear top model on their concatenation, Adam
whose rate falls linearly. The target is half a point below what vanilla comes to in two epochs.
Everything was chosen on 10000 validation rows, which also say when the target is reached; the test
rows are evaluated once, at the end. A cost is all that training sends, envelopes included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import torch
from torch.optim.lr_scheduler import LambdaLR

from colonnade.codecs import QSGD, ProductQuantised, Scalar
from colonnade.costs import Modelled
from colonnade.datasets import VerticalDataset, mnist_anywhere
from colonnade.drivers import Simulate
from colonnade.exchanges import Split
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.measures import (
    accuracy_chart,
    best_cell,
    bytes_framed,
    framed_along,
    mean_cell,
    reaching_cell,
    share_cell,
    target_below,
)
from colonnade.experiments.shallow import rounds_of, shallow_federation, shallow_training
from colonnade.federation import Federation
from colonnade.links import ErrorFeedback
from colonnade.method import Method
from colonnade.methods import cvfl, lean, svfl
from colonnade.models import Concat
from colonnade.reports import Sheet
from colonnade.runs import Run
from colonnade.uplinks import Plain

__all__ = ["LEAN_MNIST"]


@dataclass(frozen=True)
class _Recipe:
    """A method with the training that suits it.

    ``falls`` is after how many epochs the learning rate has fallen to a fiftieth; ``top_rate`` that
    of the label holder, where it has its own.
    """

    method: Method
    batch: int
    epochs: int
    rate: float
    falls: float
    penalty: float = 0.0
    top_rate: float | None = None


REFERENCE, VANILLA, LEAN = "vanilla, two epochs", "vanilla", "lean"
CLAIM = (REFERENCE, VANILLA, LEAN)
"""What the ratio is made of: ten seeds. The others, for orientation, have three."""


@cache
def _recipes(width: int) -> Mapping[str, _Recipe]:
    narrow = width == 16
    rate, large = (0.007, 0.01) if narrow else (0.003, 0.003)
    small = partial(_Recipe, batch=32, epochs=2, rate=rate, falls=1.25)
    slower = partial(_Recipe, batch=128, epochs=2, rate=large, falls=2.0)
    bits, feedback = Scalar(4), ErrorFeedback(QSGD(127))
    fed_back = Method("efvfl", Concat(), Plain(feedback), Split(feedback))
    pieces = ProductQuantised(subvectors=width // 2, centroids=32)
    return {
        REFERENCE: slower(svfl()),
        VANILLA: _Recipe(svfl(), 16, 2, 0.005, 1.05)
        if narrow
        else _Recipe(svfl(), 16, 1, 0.003, 0.8),
        "C-VFL, 4 bits both ways": small(cvfl(bits, derivative_codec=bits)),
        "EF-VFL, QSGD(127) both ways": small(fed_back),
        "FedLite": slower(svfl(pieces, correction=0.001)),
        LEAN: _Recipe(lean(), 256, 2, 0.004, 2.0, 0.0003, 0.008)
        if narrow
        else _Recipe(lean(passes=3), 512, 2, 0.002, 1.3, 0.0005, 0.004),
    }


WIDTHS = (16, 128)


@cache
def _data(folder: Path | None, quick: bool) -> VerticalDataset:
    data = mnist_anywhere(folder, normalise=(0.1307, 0.3081))
    return (data.head(train=600, test=200) if quick else data).with_validation(1 / 6)


def _falling(step: int, rounds: float) -> float:
    """Return the share of the learning rate: from 1 linearly to 0.02."""
    return max(0.02, 1 - step / rounds)


def _adam(rate: float) -> partial[torch.optim.Adam]:
    return partial(torch.optim.Adam, lr=rate)


def _federation(scale: Scale, width: int, recipe: _Recipe, seed: int) -> Federation:
    data = _data(scale.folder, scale.quick)
    rounds = recipe.falls * rounds_of(data, 1, recipe.batch)
    falling = partial(LambdaLR, lr_lambda=partial(_falling, rounds=rounds))
    bottoms, top = _adam(recipe.rate), _adam(recipe.top_rate or recipe.rate)
    return shallow_federation(
        data, seed, width, "relu", Concat(), bottoms, falling, recipe.penalty, top
    )


def _trials(scale: Scale) -> list[Trial]:
    trials = []
    data = _data(scale.folder, scale.quick)
    for width in WIDTHS:
        for name, recipe in _recipes(width).items():
            training = shallow_training(data, recipe.epochs, recipe.batch, evaluations=40)
            training = replace(training, schedule_every="round")
            trials += [
                Trial(
                    (f"E = {width}", name),
                    seed,
                    partial(_federation, scale, width, recipe),
                    recipe.method,
                    training,
                    Simulate(costs=Modelled(otherwise=0.0)),
                )
                for seed in scale.repetitions(10 if name in CLAIM else 3)
            ]
    return trials


def _test(run: Run) -> float:
    return 100 * float(run.summary["test"]["accuracy"])


def _end(run: Run) -> float:
    return 100 * float(run.history[run.summary["metric"]].drop_nulls()[-1])


def _cell(values: Sequence[float]) -> str:
    return mean_cell(values, lambda value: f"{value:.2f}")[1]


def _findings(results: Results) -> Findings:
    rows, charts = [], []
    for width in WIDTHS:
        label = f"E = {width}"
        target = target_below(results.of(label, REFERENCE), 0.5)
        vanilla, _ = reaching_cell(results.of(label, VANILLA), target, bytes_framed)
        by_name = {name: results.of(label, name) for name in _recipes(width)}
        for name, found in by_name.items():
            mean, text = reaching_cell(found, target, bytes_framed)
            ratio = share_cell(mean, vanilla)
            ends = [_end(r.run) for r in found]
            above = sum(end >= 100 * target for end in ends)
            end = f"{_cell(ends)}, {above} of {len(ends)}"
            test = _cell([_test(r.run) for r in found])
            rows.append((label, name, best_cell(found), end, test, text, ratio))
        charts.append(accuracy_chart(f"bytes-{width}", label, by_name, framed_along))
    sheet = Sheet(
        "Bytes to half a point below the validation accuracy of vanilla in two epochs",
        (
            *("width", "method", "best, %", "at the end, %", "test, %"),
            *("to the target", "of vanilla"),
        ),
        rows,
        text=(0, 1),
        note="Best and at the end: on the validation rows, over 40 evaluations, and how many seeds "
        "end at the target or above; test rows: at the end. To the target: up and down, envelopes "
        "included, until the first evaluation at the target, the mean of the seeds that reached "
        "it, and how many did. Of vanilla: only where nine of ten seeds did, of it and of vanilla. "
        "Every method is evaluated as it trains: lean and the other codes of embeddings through "
        "those codes; under error feedback, which knows nothing of held-out rows, these are exact.",
    )
    return Findings([sheet], charts, [_LIMIT])


_LIMIT = (
    "What limits it: every row must be seen once or twice. Schemes that send codes of raw features "
    "once and train at the label holder take less; they are no split training, since the features' "
    "information leaves the parties."
)

LEAN_MNIST = Experiment(
    name="lean-mnist",
    title="how few bytes training takes, beside a tuned vanilla",
    source="vanilla, C-VFL, EF-VFL, FedLite, and what was put together from them",
    data=("mnist",),
    trials=_trials,
    findings=_findings,
    minutes=60,
)
