"""EF-VFL in mini-batches: private labels (Fig. 5), and several local updates (Fig. 6 in kind)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from colonnade.codecs import QSGD, TopK
from colonnade.costs import Modelled
from colonnade.drivers import Simulate
from colonnade.exchanges import Split
from colonnade.experiments.efvfl_mnist import (
    direct,
    mnist_federation,
    relayed,
    shallow_data,
)
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.measures import accuracy_chart, best_cell, bodies_up_along
from colonnade.experiments.shallow import shallow_training
from colonnade.methods import Method, efvfl, svfl
from colonnade.models import Mean
from colonnade.reports import Chart, Curve, Sheet, human_bytes

__all__ = ["EFVFL_LOCAL_UPDATES", "EFVFL_PRIVATE_LABELS"]


def _trial(
    scale: Scale,
    label: tuple[str, ...],
    seed: int,
    method: Method,
    batch: int,
    epochs: int,
    rate: float,
) -> Trial:
    data = shallow_data(scale.folder, scale.quick)
    epochs = 1 if scale.quick else epochs
    training = shallow_training(data, epochs, batch, evaluations=20)
    federation = partial(mnist_federation, data, rate)
    return Trial(label, seed, federation, method, training, Simulate(costs=Modelled(otherwise=0.0)))


def _losses(results: Results, labels: Sequence[tuple[str, ...]]) -> list[Curve]:
    curves = []
    for label in labels:
        history = results.of(*label)[0].run.history
        curves.append(Curve(label[-1], history["epoch"].to_list(), history["train_loss"].to_list()))
    return curves


# Fig. 5

RATIO = 0.01
PRIVATE: Mapping[str, Method] = {
    "SVFL": svfl(fusion=Mean()),
    "CVFL": relayed("cvfl", TopK(RATIO)),
    "EF-VFL": relayed("efvfl", TopK(RATIO)),
    "CVFL (PL)": direct(TopK(RATIO), Split()),
    "EF-VFL (PL)": efvfl(TopK(RATIO), None, Mean()),
}


def _private_trials(scale: Scale) -> list[Trial]:
    return [
        _trial(scale, (name,), seed, method, 1024, 20, 1.0)
        for name, method in PRIVATE.items()
        for seed in scale.repetitions(3)
    ]


def _private_findings(results: Results) -> Findings:
    rows = []
    for name in PRIVATE:
        found = results.of(name)
        summary = found[0].run.summary
        loss = found[0].run.history["train_loss"][-1]
        rows.append(
            (
                name,
                best_cell(found),
                f"{loss:.4f}",
                human_bytes(summary["bytes_up"]),
                human_bytes(summary["bytes_down"]),
            )
        )
    sheet = Sheet(
        "MNIST, batches of 1024, top-k of 1 %: public labels and private ones (PL)",
        ("method", "best accuracy, %", "loss, nats", "sent up", "sent down"),
        rows,
        note="The paper's figure has no table; it says that private labels hurt C-VFL severely and "
        "EF-VFL much less.",
    )
    labels = [(name,) for name in PRIVATE]
    charts = [
        Chart("loss", "Training loss", "epochs", "training loss (nats)", _losses(results, labels)),
        accuracy_chart(
            "accuracy",
            "Accuracy against bytes",
            {n: results.of(n) for n in PRIVATE},
            bodies_up_along,
        ),
    ]
    note = (
        "The second half of the paper's figure is on CIFAR-100, in a network that takes hours: "
        "examples/papers/efvfl-cifar100.yaml."
    )
    return Findings([sheet], charts, [note])


EFVFL_PRIVATE_LABELS = Experiment(
    name="efvfl-private-labels",
    title="private labels: error feedback survives them, direct compression does not",
    source="Valdeira et al., EF-VFL, Fig. 5 (MNIST)",
    data=("mnist",),
    trials=_private_trials,
    findings=_private_findings,
    minutes=15,
)

# Fig. 6


_NAMES: Mapping[str, str] = {"SVFL": "svfl", "CVFL": "cvfl", "EF-VFL": "efvfl"}
_STEPS = (2, 4)


def _local_trials(scale: Scale) -> list[Trial]:
    return [
        _trial(scale, (f"Q = {steps}", name), seed, relayed(method, QSGD(15), steps), 128, 6, 0.5)
        for steps in _STEPS
        for name, method in _NAMES.items()
        for seed in scale.repetitions(3)
    ]


def _local_findings(results: Results) -> Findings:
    rows, charts = [], []
    for steps in _STEPS:
        label = f"Q = {steps}"
        for name in _NAMES:
            found = results.of(label, name)
            loss = found[0].run.history["train_loss"][-1]
            sent = human_bytes(found[0].run.summary["bytes_up"])
            rows.append((label, name, best_cell(found), f"{loss:.4f}", sent))
        labels = [(label, name) for name in _NAMES]
        charts += [
            Chart(
                f"loss-{steps}", label, "epochs", "training loss (nats)", _losses(results, labels)
            ),
            accuracy_chart(
                f"accuracy-{steps}",
                label,
                {n: results.of(label, n) for n in _NAMES},
                bodies_up_along,
            ),
        ]
    sheet = Sheet(
        "MNIST, batches of 128, stochastic quantisation, several local updates",
        ("local updates", "method", "best accuracy, %", "loss, nats", "sent up"),
        rows,
        text=(0, 1),
        note="QSGD with 15 levels, one norm for a message, by 1/tau.",
    )
    note = (
        "In kind: the paper's figure is on ModelNet10 and CIFAR-10, in networks that take hours: "
        "examples/papers/efvfl-modelnet10.yaml and efvfl-cifar10-local-updates.yaml."
    )
    return Findings([sheet], charts, [note])


EFVFL_LOCAL_UPDATES = Experiment(
    name="efvfl-local-updates",
    title="several local updates a round under error feedback",
    source="Valdeira et al., EF-VFL, Fig. 6 in kind",
    data=("mnist",),
    trials=_local_trials,
    findings=_local_findings,
    minutes=25,
)
