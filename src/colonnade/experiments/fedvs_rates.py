"""Which learning rate each way to deal with stragglers is given: the best on validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from colonnade.experiments.experiment import Experiment, Findings, Result, Results, Scale, Trial
from colonnade.experiments.fedvs_setting import CREDIT, FASHION, HANDWRITTEN, PARKINSON, Setting
from colonnade.experiments.fedvs_ways import WAIT_DP, Way, ways
from colonnade.experiments.measures import final_points, repetitions
from colonnade.reports import Sheet

__all__ = ["FEDVS_RATES"]

RATES = (0.02, 0.06, 0.2, 0.6)
MORE = 1.5  # tried on pictures, too, where the rest of them is too small
NARROW = 8  # the width of embeddings that noise is tried with, too: it has less of it in all
SEEDS = 1
SETTINGS = tuple(
    replace(setting, validation=0.2, epochs=max(1, setting.epochs // 2), rows=rows)
    for setting, rows in (
        (HANDWRITTEN, None),
        (CREDIT, None),
        (PARKINSON, None),
        (FASHION, (12_000, 1000)),
    )
)


def _tried(setting: Setting) -> list[tuple[Way, int]]:
    """Return the ways, each with the width of its embeddings; FedVS has that of Wait."""
    _, *others = ways(setting)
    return [
        *((way, setting.width) for way in others),
        *((way, NARROW) for way in others if way.name == WAIT_DP),
    ]


def _rates(setting: Setting) -> tuple[float, ...]:
    return (*RATES, MORE) if setting.rows else RATES


def _label(way: Way, width: int, rate: float) -> tuple[str, ...]:
    return way.name, f"E = {width}", f"{rate:g}"


def _trials(scale: Scale) -> list[Trial]:
    return [
        replace(setting, rate=rate, width=width).trial(
            scale,
            _label(way, width, rate),
            seed,
            way.method,
            way.costs(setting, scale, seed),
            way.times,
            evaluations=4,
        )
        for setting in SETTINGS
        for way, width in _tried(setting)
        for rate in _rates(setting)
        for seed in scale.repetitions(SEEDS)
    ]


def _mean(runs: Sequence[Result]) -> float:
    return fmean(final_points(result.run) for result in runs)


def _findings(results: Results) -> Findings:
    rows = []
    for setting in SETTINGS:
        for way, width in _tried(setting):
            found = {
                rate: results.of(setting.label, *_label(way, width, rate))
                for rate in _rates(setting)
            }
            means = {rate: _mean(runs) for rate, runs in found.items()}
            best = max(means, key=lambda rate: means[rate])
            cells = [f"{means[rate]:.1f}" if rate in means else "" for rate in (*RATES, MORE)]
            rows.append((setting.label, way.name, str(width), *cells, f"{best:g}"))
    first = results.of(SETTINGS[0].label, *_label(*_tried(SETTINGS[0])[0], RATES[0]))
    sheet = Sheet(
        "The validation metric at the end, %, by the learning rate of SGD",
        ("data", "way", "E", *(f"{rate:g}" for rate in (*RATES, MORE)), "the best"),
        rows,
        text=(0, 1),
        note=f"Accuracy, of credit and parkinson AUC; {repetitions(first)}. A fifth of the "
        "training rows, which nothing else is done with, tell; of Fashion-MNIST 12,000 rows are "
        "used. FedVS has the rate of Wait.",
    )
    return Findings([sheet])


FEDVS_RATES = Experiment(
    "fedvs-rates",
    "the learning rates of the experiments with stragglers: the best of each way",
    "FedVS (Li et al., ICML 2023), appendix C",
    ("handwritten", "credit_default", "parkinson", "fashion_mnist"),
    _trials,
    _findings,
    minutes=25,
)
