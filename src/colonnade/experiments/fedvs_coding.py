"""FedVS's Fig. 3 and Fig. 4, in kind: how many segments, and how many colluders, cost what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from colonnade.costs import CostModel, Modelled
from colonnade.experiments.experiment import Experiment, Findings, Result, Results, Scale, Trial
from colonnade.experiments.fedvs_setting import FASHION, coded_delays
from colonnade.experiments.measures import (
    at_times,
    final_points,
    last_second,
    mean_cell,
    repetitions,
    training_seconds_along,
)
from colonnade.methods import fedvs
from colonnade.reports import Chart, Sheet

__all__ = ["FEDVS_COLLUSION", "FEDVS_PARTITION"]

SETTING = replace(FASHION, rows=(12_000, 2000), epochs=4)
SEGMENTS = (1, 2, 4, 8, 13)
COLLUDERS = (1, 2, 4, 6)
OF_COLLUSION = 4  # segments

# Seconds that a party takes for a batch of 256 with K = 1. Where delays dominate its mean delay is
# longer, for stragglers by far; where computation does it is longer than the longest mean delay.
REGIMES = {"delay dominates": 0.05, "computation dominates": 30.0}


def _trial(
    scale: Scale, label: tuple[str, ...], seed: int, segments: int, colluders: int, seconds: float
) -> Trial:
    costs: CostModel = Modelled(seconds_per_row={"coded": seconds / SETTING.batch}, otherwise=0.0)
    delays = SETTING.stragglers(scale, seed)
    coded = coded_delays(delays, SETTING.batch, seed, costs)
    return SETTING.trial(scale, label, seed, fedvs(segments, colluders), coded, evaluations=12)


def _partitioned(scale: Scale) -> list[Trial]:
    return [
        _trial(scale, (regime, f"K = {segments}"), seed, segments, 1, seconds)
        for regime, seconds in REGIMES.items()
        for segments in SEGMENTS
        for seed in scale.repetitions(3)
    ]


def _colluding(scale: Scale) -> list[Trial]:
    return [
        _trial(scale, (f"T = {colluders}",), seed, OF_COLLUSION, colluders, 0.05)
        for colluders in COLLUDERS
        for seed in scale.repetitions(3)
    ]


def _row(runs: Sequence[Result], fastest: float) -> tuple[str, ...]:
    rounds = fmean(result.run.summary["rounds"] for result in runs)
    seconds = [training_seconds_along(result.run)[-1] for result in runs]
    ends = [final_points(result.run) for result in runs]
    return (
        f"{fmean(seconds) / rounds:.3g}",
        f"{fmean(seconds) / fastest:.2f}",
        mean_cell(ends, lambda value: f"{value:.2f}")[1],
    )


def _partition(results: Results) -> Findings:
    rows, charts = [], []
    for regime in REGIMES:
        found = {k: results.of(SETTING.label, regime, f"K = {k}") for k in SEGMENTS}
        fastest = min(last_second(runs) for runs in found.values())
        rows += [
            (regime, str(k), str(2 * k + 1), *_row(runs, fastest)) for k, runs in found.items()
        ]
        end = 2 * fastest
        curves = [at_times(f"K = {k}", runs, end) for k, runs in found.items()]
        key = regime.replace(" ", "-")
        charts.append(
            Chart(key, regime, "seconds (simulated)", "test accuracy (%)", curves, log_x=True)
        )
    first = results.of(SETTING.label, next(iter(REGIMES)), "K = 1")
    sheet = Sheet(
        "How many segments?",
        ("regime", "K", "answers", "seconds a round", "of the fastest", "accuracy at its end, %"),
        rows,
        text=(0,),
        note=f"Of {repetitions(first)}, T = 1, 4 epochs of 12,000 rows. A batch takes a party "
        + " and ".join(f"{seconds:g} s where {regime}" for regime, seconds in REGIMES.items())
        + ", divided by K.",
    )
    return Findings([sheet], charts)


def _collusion(results: Results) -> Findings:
    found = {t: results.of(SETTING.label, f"T = {t}") for t in COLLUDERS}
    fastest = min(last_second(runs) for runs in found.values())
    sheet = Sheet(
        "What does it cost to be private from more colluders?",
        ("T", "answers", "seconds a round", "of the fastest", "accuracy at its end, %"),
        [
            (str(t), str(2 * (OF_COLLUSION + t - 1) + 1), *_row(runs, fastest))
            for t, runs in found.items()
        ],
        note=f"Of {repetitions(found[1])}, K = {OF_COLLUSION}, 4 epochs of 12,000 rows.",
    )
    curves = [at_times(f"T = {t}", runs, 2 * fastest) for t, runs in found.items()]
    chart = Chart(
        "collusion",
        SETTING.label,
        "seconds (simulated)",
        "test accuracy (%)",
        curves,
        log_x=True,
    )
    return Findings([sheet], [chart])


FEDVS_PARTITION = Experiment(
    "fedvs-partition",
    "how many segments K, where delays dominate and where computation does",
    "FedVS (Li et al., ICML 2023), Fig. 3",
    ("fashion_mnist",),
    _partitioned,
    _partition,
    minutes=20,
)
FEDVS_COLLUSION = Experiment(
    "fedvs-collusion",
    "what privacy from T colluding parties costs",
    "FedVS (Li et al., ICML 2023), Fig. 4",
    ("fashion_mnist",),
    _colluding,
    _collusion,
    minutes=10,
)
