"""C-VFL's Fig. 4: compression with 4 parties and with 12."""

from __future__ import annotations

from colonnade.experiments.cvfl_setting import Setting, compressed, trial
from colonnade.experiments.experiment import Experiment, Findings, Results, Scale, Trial
from colonnade.experiments.measures import (
    accuracy_chart,
    best_cell,
    bytes_both,
    cost_cell,
    target_below,
)
from colonnade.reports import Sheet

__all__ = ["CVFL_PARTIES"]

SETTINGS = (Setting("mnist", 256, 470, 4), Setting("mnist", 256, 470, 12))
ROWS = (("none", 32), ("lattice", 2), ("lattice", 3), ("lattice", 4))


def _trials(scale: Scale) -> list[Trial]:
    return [
        trial(
            setting,
            scale,
            (f"M = {setting.parties}", f"b = {bits}"),
            seed,
            compressed(kind, bits, 10),
            setting.rounds,
        )
        for setting in SETTINGS
        for kind, bits in ROWS
        for seed in scale.repetitions(3)
    ]


def _findings(results: Results) -> Findings:
    rows, charts = [], []
    for setting in SETTINGS:
        parties = f"M = {setting.parties}"
        target = target_below(results.of(parties, "b = 32"), 1.0)
        for _, bits in ROWS:
            found = results.of(parties, f"b = {bits}")
            _, spent = cost_cell(found, target, bytes_both)
            rows.append((parties, str(bits), best_cell(found), spent))
        curves = {label: results.of(parties, label) for label in (f"b = {b}" for _, b in ROWS)}
        charts.append(accuracy_chart(f"parties-{setting.parties}", parties, curves))
    sheet = Sheet(
        "Lattice compression with 4 parties (quadrants) and 12 (strips), Q = 10",
        ("parties", "b", "best accuracy, %", "cost to 1 point below b = 32"),
        rows,
        note="Each party has a layer of 32, so 12 parties send three times as much.",
    )
    return Findings([sheet], charts)


CVFL_PARTIES = Experiment(
    name="cvfl-parties",
    title="compression with 4 parties and with 12",
    source="Castiglia et al., C-VFL, Fig. 4",
    data=("mnist",),
    trials=_trials,
    findings=_findings,
    minutes=20,
)
