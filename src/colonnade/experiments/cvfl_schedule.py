"""C-VFL's Theorem 4.4: an error that diminishes, against one that stays.

With an error on the embeddings of at most c / sqrt(t), C-VFL converges to a fixed point; with one
that stays, to a neighbourhood of one. Looked at by the gradient of the joined model at exact
embeddings, over full batches, so that no other noise hides it. The theorem's steps shrink as 1/t;
here they stay, which does the same on full batches and gets much further.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from colonnade.codecs import Codec, Float, Scalar, diminishing
from colonnade.experiments.cvfl_setting import WIDTH, Setting, trial
from colonnade.experiments.experiment import (
    Experiment,
    Findings,
    Results,
    Scale,
    Trial,
    mean_and_deviation,
)
from colonnade.experiments.gradient import loss_and_gradient
from colonnade.experiments.measures import best_cell
from colonnade.methods import cvfl
from colonnade.reports import Chart, Curve, Sheet, human_bytes

__all__ = ["CVFL_SCHEDULE"]

ROWS, ROUNDS = 1600, 1000
SETTING = Setting("handwritten", ROWS, ROUNDS, parties=6, rate=0.5)
ERROR = ROWS * WIDTH * 2.0**2 / 12
"""c: a batch's squared error in round 1, which one bit just has: step^2 / 12 a component."""
PROBES = (10, 30, 100, 200, 400, 600, 800, 1000)


def _codecs() -> Mapping[str, Codec]:
    codecs: dict[str, Codec] = {"none, b = 32": Float(32)}
    for name, dither in (("", False), (", dither", True)):
        for bits in (1, 2):
            codecs[f"fixed, b = {bits}{name}"] = Scalar(bits, -1.0, 1.0, dither)
        codecs[f"diminishing{name}"] = diminishing(
            "scalar", ERROR, ROWS, WIDTH, -1.0, 1.0, ROUNDS, dither
        )
    return codecs


def _trials(scale: Scale) -> list[Trial]:
    trials = []
    for name, codec in _codecs().items():
        method = cvfl(codec, 1, labels="shared", top_codec=Float(32))
        for seed in scale.repetitions(3):
            made = trial(SETTING, scale, (name,), seed, method, ROUNDS)
            probes = (1,) if scale.quick else PROBES
            trials.append(replace(made, probes=probes, probe=loss_and_gradient))
    return trials


def _findings(results: Results) -> Findings:
    rows, curves = [], []
    for name in _codecs():
        found = results.of(name)
        places = sorted(found[0].probed)
        gradients = [
            mean_and_deviation([r.probed[place]["gradient"] for r in found]) for place in places
        ]
        sent = found[0].run.summary["bytes_up"]
        loss, _ = mean_and_deviation([r.probed[places[-1]]["loss"] for r in found])
        gradient = f"{gradients[-1][0]:.2e}"
        rows.append((name, gradient, f"{loss:.4f}", best_cell(found), human_bytes(sent)))
        curves.append(Curve(name, places, [mean for mean, _ in gradients]))
    sheet = Sheet(
        "Handwritten, Q = 1: the gradient that is left",
        ("compression", "squared gradient norm", "loss, nats", "best accuracy, %", "sent up"),
        rows,
        note=f"Of the joined model at exact embeddings, after the last round. Diminishing: scalar "
        f"codes whose squared error on a batch is at most {ERROR:.0f} / sqrt(t).",
    )
    chart = Chart("gradient", "Gradient", "rounds", "squared gradient norm", curves, True, True)
    return Findings([sheet], [chart])


CVFL_SCHEDULE = Experiment(
    name="cvfl-schedule",
    title="compression whose error diminishes, against a fixed one",
    source="Castiglia et al., C-VFL, Theorem 4.4 and Table 1",
    data=("handwritten",),
    trials=_trials,
    findings=_findings,
    minutes=10,
)
