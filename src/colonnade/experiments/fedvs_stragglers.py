"""FedVS's Fig. 1 and Fig. 2, in kind: what stragglers cost under each way to deal with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from colonnade.costs import Delayed
from colonnade.delays import Exponential
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.fedvs_setting import (
    CREDIT,
    FASHION,
    FREE,
    HANDWRITTEN,
    MNIST,
    PARKINSON,
    QUICK,
    SOME,
    Setting,
    delays_of,
)
from colonnade.experiments.fedvs_ways import FEDVS, IGNORE, VAFL, WAIT, WAIT_DP, Way, ways
from colonnade.experiments.measures import (
    at_times,
    final_points,
    last_second,
    mean_cell,
    repetitions,
    value_at,
)
from colonnade.federation import Federation
from colonnade.methods import Method, vafl
from colonnade.metrics import accuracy, auc
from colonnade.models import Concat, Fusion, Max, Mean, take
from colonnade.reports import Chart, Sheet, human_epsilon
from colonnade.stragglers import Absent, Fastest, Wait

__all__ = ["FEDVS_MOTIVATION", "FEDVS_STRAGGLERS"]

SETTINGS = (HANDWRITTEN, CREDIT, PARKINSON, MNIST, FASHION)
SEEDS = {HANDWRITTEN: 5, CREDIT: 5, PARKINSON: 5, MNIST: 3, FASHION: 3}


@dataclass(frozen=True)
class Tuned:
    """What ``fedvs-rates`` found: each way's rate, and how wide embeddings with noise are.

    But for Ignore on pictures, which diverges later with the rate found.
    """

    wait: float
    ignore: float
    vafl: float
    wait_dp: float
    noisy: int

    def setting(self, way: Way, setting: Setting) -> Setting:
        """Return the setting as a way trains in it."""
        rates = {FEDVS: self.wait, WAIT: self.wait, IGNORE: self.ignore, VAFL: self.vafl}
        if way.name == WAIT_DP:
            return replace(setting, rate=self.wait_dp, width=self.noisy)
        return replace(setting, rate=rates[way.name])


TUNED = {
    "handwritten": Tuned(wait=0.2, ignore=0.02, vafl=0.06, wait_dp=0.6, noisy=8),
    "credit": Tuned(wait=0.6, ignore=0.6, vafl=0.2, wait_dp=0.2, noisy=16),
    "parkinson": Tuned(wait=0.2, ignore=0.6, vafl=0.06, wait_dp=0.6, noisy=16),
    "mnist": Tuned(wait=1.5, ignore=0.6, vafl=1.5, wait_dp=1.5, noisy=8),
    "fashion-mnist": Tuned(wait=1.5, ignore=0.6, vafl=1.5, wait_dp=1.5, noisy=8),
}


def _trials(scale: Scale) -> list[Trial]:
    return [
        _trial(scale, setting, way, seed)
        for setting in SETTINGS
        for way in ways(setting)
        for seed in scale.repetitions(SEEDS[setting])
    ]


def _trial(scale: Scale, setting: Setting, way: Way, seed: int) -> Trial:
    tuned, costs = TUNED[setting.name].setting(way, setting), way.costs(setting, scale, seed)
    made = tuned.trial(scale, (way.name,), seed, way.method, costs, way.times, way.evaluations)
    if way.name != IGNORE:
        return made
    training, rows = made.training, len(setting.data(scale, seed).train)
    assert isinstance(training.epochs, int)
    assert isinstance(training.batch_size, int)
    end = training.epochs * -(-rows // training.batch_size)
    delays = setting.stragglers(scale, seed)
    fast = tuple(name for name, delay in delays.items() if delay == Exponential(QUICK))
    metric = auc if setting.classes == 2 else accuracy
    return replace(made, probes=(end,), probe=partial(_of_these, fast, metric))


def _of_these(
    names: tuple[str, ...],
    metric: Callable[[Tensor, Tensor], float],
    federation: Federation,
    method: Method,
    models: Mapping[str, Any],
) -> dict[str, float]:
    """Return the test metric of the embeddings of some parties alone."""
    holder, rows = federation.label_holder, federation.test_rows
    with torch.no_grad():
        embeddings = [
            models[party.name]["bottom"](take(party.features, rows))
            for party in federation.parties
            if party.name in names
        ]
        scores = models[holder.name]["top"](method.fusion(embeddings))
    return {"metric": metric(scores, holder.labels[torch.from_numpy(rows)])}


def _points(values: Sequence[float]) -> str:
    if any(map(math.isnan, values)):
        return "not evaluated yet"
    return mean_cell(list(values), lambda value: f"{value:.2f}")[1]


def _sheet(results: Results) -> Sheet:
    rows = []
    for setting in SETTINGS:
        found = {way.name: results.of(setting.label, way.name) for way in ways(setting)}
        if not found[FEDVS]:
            continue
        end = last_second(found[FEDVS])
        for name, runs in found.items():
            rounds = fmean(result.run.summary["rounds"] for result in runs)
            loss = runs[0].run.summary["privacy_loss"]
            rows.append(
                (
                    setting.label,
                    name,
                    f"{last_second(runs) / rounds:.3g}",
                    *(
                        _points([value_at(r.run, share * end) for r in runs])
                        for share in (0.25, 0.5, 1.0)
                    ),
                    _points([final_points(r.run) for r in runs]),
                    human_epsilon(loss and loss["epsilon"]) if loss else "",
                )
            )
            if name == IGNORE:
                alone = [100 * told["metric"] for r in runs for told in r.probed.values()]
                told = (setting.label, "Ignore, of its fast half", *[""] * 4, _points(alone), "")
                rows.append(told)
    return Sheet(
        "Test metric, %, when FedVS was at 1/4, 1/2 and the end of its training",
        (
            *("data", "way", "seconds a round", "at 1/4", "at 1/2", "at its end"),
            *("own end", "epsilon"),
        ),
        rows,
        text=(0, 1),
        note="Seconds are those of the simulated network and of the paper's delays; evaluations "
        "take none, nor what they wait for. Accuracy, of credit and parkinson AUC. Ignore trains "
        "three times as many epochs, VAFL twice as many, as their rounds are short. Each way has "
        "the rate that fedvs-rates found for it, Wait-DP the width too. Epsilon is that of all "
        "releases of a row together, at delta 1e-5; each by itself is (5, 1e-5)-private.",
    )


def _lossless(results: Results) -> Sheet:
    rows = []
    for setting in SETTINGS:
        coded, exact = (results.of(setting.label, name) for name in (FEDVS, WAIT))
        if not coded:
            continue
        ends = [[final_points(result.run) for result in found] for found in (coded, exact)]
        gaps = [one - other for one, other in zip(*ends, strict=True)]
        rows.append(
            (
                setting.label,
                _points(ends[0]),
                _points(ends[1]),
                _points(gaps),
                f"{max(map(abs, gaps)):.2f}",
            )
        )
    return Sheet(
        "Is it lossless? The end of training on coded sums, and in the clear",
        ("data", "FedVS", "in the clear", "difference", "largest"),
        rows,
        text=(0,),
        note="The same seeds, batches and polynomial networks; FedVS rounds data and weights. With "
        "K > 1 its batches are of other rows, as rows that share a coded row stay together.",
    )


def _findings(results: Results) -> Findings:
    charts = []
    for setting in SETTINGS:
        found = {way.name: results.of(setting.label, way.name) for way in ways(setting)}
        if not found[FEDVS]:
            continue
        curves = [at_times(name, runs, last_second(runs)) for name, runs in found.items()]
        metric = "test AUC (%)" if setting.classes == 2 else "test accuracy (%)"
        name, seconds = setting.name, "seconds of training (simulated)"
        charts.append(Chart(name, setting.label, seconds, metric, curves, log_x=True))
    return Findings([_sheet(results), _lossless(results)], charts)


FEDVS_STRAGGLERS = Experiment(
    "fedvs-stragglers",
    "accuracy against time under stragglers: FedVS, Wait, Ignore, VAFL, Wait-DP",
    "FedVS (Li et al., ICML 2023), Fig. 2",
    ("handwritten", "credit_default", "parkinson", "mnist", "fashion_mnist"),
    _trials,
    _findings,
    minutes=60,
)


# Fig. 1

SIXTEEN = Setting("fashion-mnist", 16, 10, 1, 32, 0.2, 256, 5, rows=SOME)
STRAGGLING = 10  # 60 % of 16
FUSIONS: dict[str, Fusion] = {"concat": Concat(), "mean": Mean(), "max": Max()}
NOBODY = "nobody straggles"


def _how(fusion: Fusion) -> dict[str, Method]:
    # Concatenation needs an embedding of everybody: the last one of a row stands for one that is
    # late.
    absent: Absent = "stale" if isinstance(fusion, Concat) else "left_out"
    present = SIXTEEN.parties - STRAGGLING
    return {
        NOBODY: Method("wait", fusion, stragglers=Wait()),
        WAIT: Method("wait", fusion),
        IGNORE: Method("ignore", fusion, stragglers=Fastest(present, absent)),
        VAFL: vafl(fusion=fusion),
    }


def _motivating(scale: Scale) -> list[Trial]:
    trials = []
    for name, fusion in FUSIONS.items():
        for way, method in _how(fusion).items():
            for seed in scale.repetitions(3):
                parties = tuple(SIXTEEN.data(scale, seed).features)
                slow = 0 if way == NOBODY else STRAGGLING
                costs = Delayed(FREE, delays_of(parties, seed, slow), seed)
                trials.append(SIXTEEN.trial(scale, (name, way), seed, method, costs))
    return trials


def _motivation(results: Results) -> Findings:
    rows, charts = [], []
    for name, fusion in FUSIONS.items():
        found = {way: results.of(SIXTEEN.label, name, way) for way in _how(fusion)}
        end = last_second(found[IGNORE])
        rows += [
            (
                name,
                way,
                f"{last_second(runs):.0f}",
                _points([value_at(result.run, end) for result in runs]),
                _points([final_points(result.run) for result in runs]),
            )
            for way, runs in found.items()
        ]
        curves = [at_times(way, runs, last_second(found[WAIT])) for way, runs in found.items()]
        charts.append(
            Chart(
                name,
                f"fusion: {name}",
                "seconds (simulated)",
                "test accuracy (%)",
                curves,
                log_x=True,
            )
        )
    first = results.of(SIXTEEN.label, "mean", WAIT)
    sheet = Sheet(
        "Test accuracy, %, when Ignore was done, and at each one's own end",
        ("fusion", "way", "seconds", "when Ignore was done", "own end"),
        rows,
        text=(0, 1),
        note=f"Of {repetitions(first)}: Fashion-MNIST in 16 strips, 10 stragglers. Where "
        "embeddings are concatenated Ignore takes the last one of a row in place of one that is "
        "late.",
    )
    return Findings([sheet], charts)


FEDVS_MOTIVATION = Experiment(
    "fedvs-motivation",
    "stragglers under concat, mean and max: Wait, Ignore, VAFL",
    "FedVS (Li et al., ICML 2023), Fig. 1",
    ("fashion_mnist",),
    _motivating,
    _motivation,
    minutes=25,
)
