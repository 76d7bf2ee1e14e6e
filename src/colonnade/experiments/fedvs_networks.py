"""FedVS's Table 1, in kind: polynomial networks as bottoms, beside MLPs and convolutions."""

from __future__ import annotations

from dataclasses import replace

from colonnade.assembly import Bottom, CnnBottom, Layers, PolynomialBottom
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.fedvs_setting import Setting
from colonnade.experiments.measures import final_points, mean_cell, repetitions
from colonnade.methods import Method
from colonnade.models import Mean
from colonnade.reports import Sheet

__all__ = ["FEDVS_NETWORKS"]

DEPTHS = (1, 2, 3)
WIDTH = 64
SETTING = Setting("fashion-mnist", 4, 10, 1, WIDTH, 0.05, 256, 10)
PAPER = {
    "MLP": (88.35, 88.60, 88.70),
    "CNN": (90.48, 90.79, 91.53),
    "PN": (88.19, 88.31, 88.49),
}


def _bottoms(depth: int) -> dict[str, Bottom]:
    return {
        "MLP": Layers((*[128] * (depth - 1), WIDTH), "relu"),
        "CNN": CnnBottom(WIDTH, (16, 32, 64)[:depth]),
        "PN": PolynomialBottom(WIDTH, depth),
    }


def _trials(scale: Scale) -> list[Trial]:
    trials = []
    for depth in DEPTHS:
        for name, bottom in _bottoms(depth).items():
            setting = replace(SETTING, bottom=bottom, flat=name != "CNN")
            trials += [
                setting.trial(
                    scale, (name, f"{depth} layers"), seed, Method("svfl", Mean()), evaluations=10
                )
                for seed in scale.repetitions(3)
            ]
    return trials


def _findings(results: Results) -> Findings:
    rows = []
    for depth in DEPTHS:
        cells = []
        for name in PAPER:
            found = results.of(SETTING.label, name, f"{depth} layers")
            ends = [final_points(result.run) for result in found]
            cells.append(mean_cell(ends, lambda value: f"{value:.2f}")[1])
        rows.append((str(depth), *cells, *(f"{PAPER[name][depth - 1]:.2f}" for name in PAPER)))
    first = results.of(SETTING.label, "PN", "1 layers")
    sheet = Sheet(
        "Test accuracy, %, by the parties' networks",
        ("layers", *PAPER, *(f"{name}, the paper's" for name in PAPER)),
        rows,
        note=f"Of {repetitions(first)}: Fashion-MNIST, a quadrant at each of 4 parties, mean "
        "fusion, 10 epochs. The top model is two layers of 64; the paper's is a VGG13, in front of "
        "which all of them come out higher and nearer to each other.",
    )
    return Findings([sheet])


FEDVS_NETWORKS = Experiment(
    "fedvs-networks",
    "polynomial networks beside MLPs and convolutions, of one to three layers",
    "FedVS (Li et al., ICML 2023), Table 1",
    ("fashion_mnist",),
    _trials,
    _findings,
    minutes=30,
)
