"""What the experiments with PBM-VFL print is what their runs had, in the column that says so."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest

from colonnade.experiments.experiment import Result, Results, Scale
from colonnade.experiments.pbm_setting import NONE
from colonnade.experiments.pbm_tradeoff import PBM_PARTIES, PBM_TRADEOFF
from colonnade.training import Training

SCALE = Scale(seeds=2)


def accuracies(label, seed):
    """Accuracies that say where they come from: by setting, b, beta and seed."""
    place, noise = label[0], label[1:]
    exact = 0.9 - (0.01 if "12" in place else 0.0) + (0.02 if "rate" in place else 0.0)
    if noise != (NONE,):
        trials, beta = (float(part.split(" = ")[1]) for part in noise)
        exact -= 0.4 / trials + 0.1 * (0.25 - beta)
    return exact + seed / 1000, exact - 0.05 + seed / 1000


def known(experiment):
    """Results of every trial of an experiment, none of which was run."""
    results = Results()
    for trial in experiment.trials(SCALE):
        exact, through = accuracies(trial.label, trial.seed)
        loss = None
        if trial.label[1:] != (NONE,):
            names = ("epsilon", "epsilon_towards_a_party", "epsilon_of_a_whole_sample")
            loss = dict(zip(names, (11.0, 22.0, 33.0), strict=True))
        history = pl.DataFrame({"epoch": [1.0], "test_accuracy": [through]})
        summary = {"final": through, "privacy_loss": loss, "metric": "test_accuracy"}
        run = SimpleNamespace(summary=summary, history=history)
        results.add(trial, Result(run, {1: {"exact_accuracy": 0.0}, 2: {"exact_accuracy": exact}}))
    return results


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    setting = "colonnade.experiments.pbm_setting."
    monkeypatch.setattr(f"{setting}_data", lambda *of: None)
    monkeypatch.setattr(f"{setting}rounds_of", lambda *of: 1)
    monkeypatch.setattr(f"{setting}shallow_training", lambda *of, **more: Training(epochs=1))


def test_accuracies_stand_in_the_columns_that_say_which_they_are():
    results, orders, rates = PBM_TRADEOFF.findings(known(PBM_TRADEOFF)).sheets
    table = {row[:3]: row[3:] for row in results.rows}
    assert table["mnist, M = 4", "none", ""] == (
        "32",
        "no bound",
        "no bound",
        "no bound",
        "85.05 ± 0.07",
        "90.05 ± 0.07",
    )
    # 7 bits hold 4 x 16; .9 - .4 / 16 - .1 x .1 at exact sums, .05 less through the mechanism
    assert table["mnist, M = 4", "0.15", "16"] == (
        *("7", "11", "22", "33"),
        *("81.55 ± 0.07", "86.55 ± 0.07"),
    )
    assert results.head[-2:] == ("accuracy", "exact sum*")
    steps = {row[:4]: row[4:] for row in orders.rows}
    assert steps["mnist, M = 4", "b, beta = 0.05", "b = 4", "b = 16"] == (
        *("+7.50 ± 0.00", "yes"),
        *("+7.50 ± 0.00", "yes"),
    )
    assert steps["fashion-mnist, M = 4", "beta, b = 64", "beta = 0.15", "beta = 0.25"][0] == (
        "+1.00 ± 0.00"
    )
    assert [row[0] for row in rates.rows] == ["0.01", "0.03", "0.1", "0.3"]
    assert rates.rows[0][1:] == ("90.05 ± 0.07", "87.55 ± 0.07", "82.55 ± 0.07", "+2.50 ± 0.00")
    assert rates.rows[3][1] == "92.05 ± 0.07"


def test_claims_are_of_the_runs_they_name():
    first, moderate, *_ = PBM_TRADEOFF.findings(known(PBM_TRADEOFF)).notes
    assert "87.55 % at exact sums and 82.55 % through" in first
    assert "NOT within 2 points" in first
    # .4 / 16 + .1 x .2 lost at exact sums
    assert "lost are +4.50 ± 0.00 points at exact sums" in moderate
    six, twelve, decline = PBM_PARTIES.findings(known(PBM_PARTIES)).notes
    assert "M = 6: from beta = .05 to .25 accuracy gains +2.00 ± 0.00" in six
    assert "M = 12" in twelve
    assert "by 1.00 points" in decline
