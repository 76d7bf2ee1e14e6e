"""A small experiment; processes that run its trials import no test framework with it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from colonnade.codecs import Scalar
from colonnade.costs import Modelled
from colonnade.drivers import Simulate
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.gradient import loss_and_gradient
from colonnade.federation import Federation
from colonnade.methods import svfl
from colonnade.models import Mean
from colonnade.organisations import LabelHolder, Party
from colonnade.reports import Chart, Curve, Sheet
from colonnade.training import Training

ROWS = 120


def toy(seed: int, rate: float = 0.3) -> Federation:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, 6, generator=generator)
    labels = (x[:, 0] + x[:, 3] > 0).long()
    torch.manual_seed(seed)
    sgd = partial(torch.optim.SGD, lr=rate)
    parties = [
        Party(name, part, nn.Sequential(nn.Linear(3, 4), nn.Tanh()), sgd)
        for name, part in (("bank", x[:, :3]), ("shop", x[:, 3:]))
    ]
    holder = LabelHolder("insurer", labels, nn.Linear(4, 2), optimiser=sgd)
    return Federation(parties, holder, range(100), range(100, ROWS))


def trials(scale: Scale) -> list[Trial]:
    return [
        Trial(
            (name, "10 %"),
            seed,
            toy,
            method,
            Training(epochs=4, batch_size=50, evaluate_every=1),
            Simulate(costs=Modelled(otherwise=0.0)),
            probes=(1, 4),
            probe=loss_and_gradient,
        )
        for name, method in (
            ("exact", svfl(fusion=Mean())),
            ("coarse", svfl(Scalar(2), None, Mean())),
        )
        for seed in scale.repetitions(2)
    ]


def findings(results: Results) -> Findings:
    rows = [
        (name, f"{result.probed[4]['loss']:.12f}", f"{result.run.summary['final']:.12f}")
        for name in ("exact", "coarse")
        for result in results.of(name, "10 %")
    ]
    history = results.of("exact", "10 %")[0].run.history
    curve = Curve("exact", history["round"].to_list(), history["test_accuracy"].to_list())
    dashed = Curve("<paper>", [1, 2], [0.5, 0.6], spread=[0.1, 0.1], dashed=True)
    chart = Chart("loss", "Loss", "rounds", "accuracy", [curve, dashed], log_x=True)
    return Findings([Sheet("What came", ("method", "loss", "accuracy"), rows)], [chart], ["<note>"])


TOY = Experiment("toy", "what a toy does", "Nobody, Table 0", ("mnist5k",), trials, findings)


def refusing(seed: int) -> Federation:
    return replaced(toy(seed), "insurer")


def replaced(federation: Federation, holder: str) -> Federation:
    """The same with a label holder whose top model does not fit."""
    label_holder = replace(federation.label_holder, name=holder, top=nn.Linear(7, 2))
    return Federation(federation.parties, label_holder, range(100), range(100, ROWS))


def dying(seed: int) -> Federation:
    os._exit(7)


def one_bad(make, scale: Scale) -> list[Trial]:
    good, bad, *_ = trials(scale)
    return [good, replace(bad, label=("odd one",), federation=make)]
