"""FedVS's Fig. 1 and Fig. 2, in kind: what stragglers cost under each way to deal with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from colonnade.costs import CostModel, Delayed
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.fedvs_setting import (
    CREDIT,
    FASHION,
    FREE,
    HANDWRITTEN,
    MNIST,
    PARKINSON,
    Setting,
    coded_delays,
    delays_of,
)
from colonnade.experiments.measures import (
    at_times,
    last_second,
    mean_cell,
    repetitions,
    value_at,
)
from colonnade.methods import Method, fedvs, vafl, wait_dp
from colonnade.models import Concat, Fusion, Max, Mean
from colonnade.reports import Chart, Sheet, human_epsilon
from colonnade.stragglers import Absent, Fastest, Wait

__all__ = ["FEDVS_MOTIVATION", "FEDVS_STRAGGLERS"]

SETTINGS = (HANDWRITTEN, CREDIT, PARKINSON, MNIST, FASHION)
SEEDS = {HANDWRITTEN: 5, CREDIT: 5, PARKINSON: 5, MNIST: 3, FASHION: 3}
FEDVS, WAIT, IGNORE, VAFL, WAIT_DP = "FedVS", "Wait", "Ignore", "VAFL", "Wait-DP"


@dataclass(frozen=True)
class Way:
    """A way to deal with stragglers.

    Parameters
    ----------
    name
        What tables call it.
    method
        How it trains.
    times
        How many times as many epochs as the setting says: ways whose rounds are short train on.
    """

    name: str
    method: Method
    times: int = 1


def ways(setting: Setting) -> tuple[Way, ...]:
    """Return the five ways of Fig. 2."""
    present = setting.parties // 2
    return (
        Way(FEDVS, fedvs(setting.segments)),
        Way(WAIT, Method("wait", Mean())),
        Way(IGNORE, Method("ignore", Mean(), stragglers=Fastest(present)), 3),
        Way(VAFL, vafl(fusion=Mean()), 2),
        Way(WAIT_DP, wait_dp(5.0, 1e-5, setting.bound, fusion=Mean())),
    )


def _costs(setting: Setting, scale: Scale, way: Way, seed: int) -> CostModel:
    delays = setting.stragglers(scale, seed)
    if way.name == FEDVS:
        return coded_delays(delays, -(-setting.batch // setting.segments), seed)
    return Delayed(FREE, delays, seed)


def _trials(scale: Scale) -> list[Trial]:
    return [
        setting.trial(
            scale, (way.name,), seed, way.method, _costs(setting, scale, way, seed), way.times
        )
        for setting in SETTINGS
        for way in ways(setting)
        for seed in scale.repetitions(SEEDS[setting])
    ]


def _points(values: Sequence[float]) -> str:
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
                    _points([100 * (r.run.summary["final"] or math.nan) for r in runs]),
                    human_epsilon(loss and loss["epsilon"]) if loss else "",
                )
            )
    return Sheet(
        "Test metric, %, when FedVS was at 1/4, 1/2 and the end of its training",
        (
            *("data", "way", "seconds a round", "at 1/4", "at 1/2", "at its end"),
            *("own end", "epsilon"),
        ),
        rows,
        text=(0, 1),
        note="Seconds are those of the simulated network and of the paper's delays; evaluations "
        "take none. Accuracy, of credit and parkinson AUC. Ignore trains three times as many "
        "epochs, VAFL twice as many, as their rounds are short; both wait for everybody when they "
        "are evaluated, ten times. Epsilon is that of all releases of "
        "a row together, at delta 1e-5; each by itself is (5, 1e-5)-private.",
    )


def _lossless(results: Results) -> Sheet:
    rows = []
    for setting in SETTINGS:
        coded, exact = (results.of(setting.label, name) for name in (FEDVS, WAIT))
        if not coded:
            continue
        ends = [[100 * result.run.summary["final"] for result in found] for found in (coded, exact)]
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
        end = last_second(found[FEDVS])
        curves = [at_times(name, runs, end) for name, runs in found.items()]
        metric = "test AUC (%)" if setting.classes == 2 else "test accuracy (%)"
        charts.append(Chart(setting.name, setting.label, "seconds (simulated)", metric, curves))
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

SIXTEEN = Setting("fashion-mnist", 16, 10, 1, 32, 0.05, 256, 3)
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
                _points([100 * result.run.summary["final"] for result in runs]),
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
