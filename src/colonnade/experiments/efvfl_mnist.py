"""EF-VFL on MNIST, full batch: Table II's MNIST column, and Fig. 2's gradients.

As the authors ran it: four quadrants, bottoms Linear(196, 16) and a sigmoid, mean, top
Linear(16, 10); 100 steps of plain gradient descent on all 60000 rows, so that a step is an epoch;
learning rate 4, and 16 where compression is most brutal; embeddings are compressed, the top model
is not; accuracy on exact embeddings, on half of the test images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import torch

from colonnade.codecs import QSGD, Codec, TopK
from colonnade.costs import Modelled
from colonnade.datasets import VerticalDataset, mnist_anywhere
from colonnade.drivers import Simulate
from colonnade.exchanges import Relay, Split
from colonnade.experiments.experiment import (
    Experiment,
    Findings,
    Results,
    Scale,
    Trial,
    mean_and_deviation,
)
from colonnade.experiments.gradient import loss_and_gradient
from colonnade.experiments.measures import accuracy_chart, bodies_up_along, repetitions
from colonnade.experiments.shallow import shallow_federation, shallow_training
from colonnade.federation import Federation
from colonnade.kernels.philox import permutation
from colonnade.links import Direct
from colonnade.local_updates import Consecutive
from colonnade.methods import Method, efvfl, fedbcd
from colonnade.models import Mean
from colonnade.reports import Chart, Curve, Sheet, human_bytes
from colonnade.runs import Run
from colonnade.streams import StreamKey
from colonnade.uplinks import Plain

__all__ = [
    "EFVFL_CONVERGENCE",
    "EFVFL_MNIST",
    "direct",
    "mnist_federation",
    "relayed",
    "shallow_data",
]

STEPS = 100
NONE = "none"
COMPRESSIONS: Mapping[str, tuple[Codec, float]] = {
    "top-k 10 %": (TopK(0.1), 4.0),
    "top-k 1 %": (TopK(0.01), 4.0),
    "top-k 0.1 %": (TopK(0.001), 16.0),
    "b = 4": (QSGD(15), 4.0),
    "b = 2": (QSGD(3), 16.0),
    "b = 1": (QSGD(1), 16.0),
}
"""Each with its learning rate; s = 2^b - 1 levels, one L2 norm for the message, by 1/tau."""

PAPER: Mapping[tuple[str, str], tuple[float, float]] = {
    ("svfl", NONE): (91.6, 0.1),
    ("cvfl", "top-k 10 %"): (77.2, 1.9),
    ("cvfl", "top-k 1 %"): (35.7, 5.0),
    ("cvfl", "top-k 0.1 %"): (25.7, 7.6),
    ("cvfl", "b = 4"): (50.3, 6.1),
    ("cvfl", "b = 2"): (53.0, 7.4),
    ("cvfl", "b = 1"): (52.7, 8.7),
    ("efvfl", "top-k 10 %"): (91.8, 0.1),
    ("efvfl", "top-k 1 %"): (91.1, 0.3),
    ("efvfl", "top-k 0.1 %"): (82.4, 2.1),
    ("efvfl", "b = 4"): (87.2, 0.4),
    ("efvfl", "b = 2"): (81.1, 1.6),
    ("efvfl", "b = 1"): (66.8, 5.9),
}
"""Test accuracy in % with its standard deviation over 5 seeds (Table II)."""


@cache
def shallow_data(folder: Path | None, quick: bool) -> VerticalDataset:
    """Return MNIST's quadrants, normalised, with half of the test images."""
    data = mnist_anywhere(folder, normalise=(0.1307, 0.3081))
    # The first half of the file is easier than the second: half at random.
    half = permutation(StreamKey(0, "", "half of the test", 0), len(data.test))[
        : len(data.test) // 2
    ]
    data = replace(data, test=data.test[half])
    return data.head(train=600, test=200) if quick else data


def mnist_federation(data: VerticalDataset, rate: float, seed: int) -> Federation:
    """Return four parties with a layer and a sigmoid each, and a linear top model on the mean."""
    sgd = partial(torch.optim.SGD, lr=rate)
    return shallow_federation(data, seed, 16, "sigmoid", Mean(), sgd)


def direct(codec: Codec, exchange: Relay | Split, local_steps: int = 1) -> Method:
    """Return direct compression as the authors ran it.

    The top model is not compressed, and neither are embeddings that are evaluated.
    """
    uplink = Plain(Direct(codec), held_out=Direct())
    return Method("cvfl", Mean(), uplink, exchange, Consecutive(local_steps))


def relayed(name: str, codec: Codec | None, local_steps: int = 1) -> Method:
    """Return svfl, cvfl or efvfl with public labels; svfl takes no codec."""
    if codec is None or name == "svfl":
        return replace(fedbcd(local_steps, Mean(), "shared"), name="svfl")
    if name == "cvfl":
        return direct(codec, Relay("shared"), local_steps)
    return efvfl(codec, None, Mean(), "shared", local_steps)


def _trial(
    scale: Scale, name: str, compression: str, seed: int, probes: Sequence[int] = ()
) -> Trial:
    data = shallow_data(scale.folder, scale.quick)
    codec, rate = COMPRESSIONS.get(compression, (None, 4.0))
    steps = 3 if scale.quick else STEPS
    return Trial(
        (name, compression),
        seed,
        partial(mnist_federation, data, rate),
        relayed(name, codec),
        shallow_training(data, steps, len(data.train), evaluations=10, checkpoints=2),
        Simulate(costs=Modelled(otherwise=0.0)),
        [round for round in probes if round <= steps],
        loss_and_gradient if probes else None,
    )


def _trials(scale: Scale) -> list[Trial]:
    return [
        _trial(scale, name, compression, seed)
        for name, compression in PAPER
        for seed in scale.repetitions(3)
    ]


def _accuracy(run: Run) -> float | None:
    return None if run.summary["final"] is None else 100 * run.summary["final"]


def _findings(results: Results) -> Findings:
    rows = []
    for (name, compression), (paper, deviation) in PAPER.items():
        values = results.values(_accuracy, name, compression)
        mean, spread = mean_and_deviation(values)
        up = results.of(name, compression)[0].run.summary["bytes_up"]
        near = abs(mean - paper) <= max(2.0, 2 * deviation)
        rows.append(
            (
                name,
                compression,
                f"{paper:.1f} ± {deviation:.1f}",
                f"{mean:.1f} ± {spread:.1f}",
                f"{mean - paper:+.1f}",
                "yes" if near else "no",
                human_bytes(up),
            )
        )
    sheet = Sheet(
        "Test accuracy after 100 full-batch steps, %",
        ("method", "compression", "paper", "here", "difference", "near", "sent up"),
        rows,
        text=(0, 1, 5),
        note=f"Of {repetitions(results.of('svfl', NONE))}; near: within 2 points or two of the "
        "paper's deviations. Bytes are of one run, as sent.",
    )
    shown = [label for label in PAPER if label[0] != "cvfl"]
    return Findings([sheet], [_accuracy_chart(results, "accuracy", "Test accuracy", shown)])


def _accuracy_chart(
    results: Results, name: str, title: str, labels: Sequence[tuple[str, str]]
) -> Chart:
    curves = {
        method if compression == NONE else f"{method}, {compression}": results.of(
            method, compression
        )
        for method, compression in labels
    }
    return accuracy_chart(name, title, curves, bodies_up_along)


EFVFL_MNIST = Experiment(
    name="efvfl-mnist",
    title="accuracy of SVFL, C-VFL and EF-VFL on MNIST under six compressions",
    source="Valdeira et al., EF-VFL, Table II (MNIST)",
    data=("mnist",),
    trials=_trials,
    findings=_findings,
    minutes=60,
)


# Fig. 2


_PROBED = (1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def _convergence_trials(scale: Scale) -> list[Trial]:
    return [
        _trial(scale, name, compression, seed, (1, 2, 3) if scale.quick else _PROBED)
        for name, compression in PAPER
        for seed in scale.repetitions(1)
    ]


def _convergence_findings(results: Results) -> Findings:
    rows, charts = [], list[Chart]()
    for name, compression in PAPER:
        probed = results.of(name, compression)
        last = max(probed[0].probed)
        ratios = [r.probed[last]["gradient"] / r.probed[1]["gradient"] for r in probed]
        mean, _ = mean_and_deviation(ratios)
        losses, _ = mean_and_deviation([r.probed[last]["loss"] for r in probed])
        rows.append((name, compression, f"{mean:.4f}", f"{losses:.4f}"))
    for compression in COMPRESSIONS:
        names = [("svfl", NONE), ("cvfl", compression), ("efvfl", compression)]
        charts.append(
            Chart(
                f"gradient-{len(charts)}",
                compression,
                "epochs",
                "squared gradient norm, of step 1's",
                [_gradient_curve(results, *label) for label in names],
                log_y=True,
            )
        )
        charts.append(_accuracy_chart(results, f"accuracy-{len(charts)}", compression, names))
    sheet = Sheet(
        "Squared gradient norm at step 100, of that at step 1, and training loss",
        ("method", "compression", "gradient", "loss (nats)"),
        rows,
        text=(0, 1),
        note="Both of the joined model on all training rows, at exact embeddings.",
    )
    return Findings([sheet], charts)


def _gradient_curve(results: Results, name: str, compression: str) -> Curve:
    probed = results.of(name, compression)[0].probed
    rounds = sorted(probed)
    first = probed[1]["gradient"]
    return Curve(name, rounds, [probed[round]["gradient"] / first for round in rounds])


EFVFL_CONVERGENCE = Experiment(
    name="efvfl-convergence",
    title="gradients of SVFL, C-VFL and EF-VFL on MNIST: only direct compression does not converge",
    source="Valdeira et al., EF-VFL, Fig. 2",
    data=("mnist",),
    trials=_convergence_trials,
    findings=_convergence_findings,
    minutes=30,
)
