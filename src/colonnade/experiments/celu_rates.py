"""Which learning rate is the best for vanilla in each setting of the experiments with CELU-VFL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from colonnade.drivers import Simulate
from colonnade.experiments import celu_setting, celu_time
from colonnade.experiments.celu_setting import Setting, metric_of
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.measures import accuracy_curve, best, best_cell, repetitions, rounds
from colonnade.methods import svfl
from colonnade.reports import Chart, Sheet
from colonnade.runs import Run

__all__ = ["CELU_RATES"]

SEEDS = 3
RATES = (0.003, 0.01, 0.03, 0.1)
SETTINGS: Sequence[Setting] = tuple(dict.fromkeys((*celu_setting.SETTINGS, *celu_time.SETTINGS)))


def _name(setting: Setting) -> str:
    return f"{setting.name}, B = {setting.batch}, E = {setting.width}"


def _trials(scale: Scale) -> list[Trial]:
    return [
        replace(setting, rate=rate).trial(
            scale, (f"B = {setting.batch}", f"{rate:g}"), seed, svfl(), Simulate()
        )
        for setting in SETTINGS
        for rate in RATES
        for seed in scale.repetitions(SEEDS)
    ]


def _findings(results: Results) -> Findings:
    rows, charts = [], []
    for setting in SETTINGS:
        found = {
            rate: results.of(setting.name, f"B = {setting.batch}", f"{rate:g}") for rate in RATES
        }
        means = {rate: fmean(best(r.run) for r in runs) for rate, runs in found.items()}
        chosen = max(means, key=lambda rate: means[rate])
        rows.append((_name(setting), *map(best_cell, found.values()), f"{chosen:g}"))
        curves = [accuracy_curve(f"{rate:g}", runs, _rounds) for rate, runs in found.items()]
        metric = f"{metric_of(found[chosen])} (%)"
        name = f"{setting.name}-{setting.batch}"
        charts.append(Chart(name, f"vanilla, {_name(setting)}", "rounds", metric, curves))
    sheet = Sheet(
        "vanilla's best validation metric by AdaGrad's learning rate, %",
        ("setting", *(f"{rate:g}" for rate in RATES), "the best"),
        rows,
        note=f"Accuracy (mnist) or AUC; {repetitions(next(iter(found.values())))}.",
    )
    return Findings([sheet], charts, [])


def _rounds(run: Run) -> list[float]:
    return [rounds(run, place) for place in range(len(run.history))]


CELU_RATES = Experiment(
    name="celu-rates",
    title="the learning rate that the experiments with CELU-VFL take: the best for vanilla",
    source="Fu et al., CELU-VFL, section 5.1",
    data=("mnist", "credit_default", "synthetic_clicks"),
    trials=_trials,
    findings=_findings,
    minutes=60,
)
