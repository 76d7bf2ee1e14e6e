"""FedVS's experiments: their delays are the paper's, and their tables say what the runs did."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from colonnade.costs import Modelled
from colonnade.datasets import VerticalDataset
from colonnade.delays import Exponential
from colonnade.experiments import fedvs_setting, fedvs_stragglers
from colonnade.experiments.experiment import Results, Scale
from colonnade.experiments.fedvs_coding import FEDVS_COLLUSION, FEDVS_PARTITION
from colonnade.experiments.fedvs_networks import FEDVS_NETWORKS
from colonnade.experiments.fedvs_rates import FEDVS_RATES
from colonnade.experiments.fedvs_setting import (
    CREDIT,
    FASHION,
    HANDWRITTEN,
    MNIST,
    PARKINSON,
    coded_delays,
    delays_of,
)
from colonnade.experiments.fedvs_stragglers import FEDVS_MOTIVATION, FEDVS_STRAGGLERS
from colonnade.experiments.fedvs_ways import FEDVS, ways
from colonnade.experiments.measures import at_times, last_second, value_at
from colonnade.experiments.one_trial import run_trial
from colonnade.methods import wait_dp
from colonnade.training import Watcher

QUICK = Scale(quick=True)
EXPERIMENTS = (
    FEDVS_RATES,
    FEDVS_MOTIVATION,
    FEDVS_STRAGGLERS,
    FEDVS_PARTITION,
    FEDVS_COLLUSION,
    FEDVS_NETWORKS,
)


@pytest.fixture(autouse=True)
def small_data(monkeypatch):
    """Made-up columns in place of files, of which as few as there are parties."""

    def columns(parties, classes, shape=(3,)):
        generator = torch.Generator().manual_seed(parties)
        labels = torch.randint(classes, (60,), generator=generator)
        features = {
            f"party_{n}": torch.rand(60, *shape, generator=generator) for n in range(parties)
        }
        rows = torch.arange(60).numpy()
        return VerticalDataset("made up", features, labels, classes, rows[:40], rows[40:])

    def table(name, parties, folder, seed):
        return columns(parties, 10 if name == "handwritten" else 2)

    def pictures(name, parties, folder, rows, flat):
        return columns(parties, 10, (3,) if flat else (1, 8, 8))

    monkeypatch.setattr(fedvs_setting, "_table", table)

    def credit(parties, folder, split):
        return columns(parties, 2)

    monkeypatch.setattr(fedvs_setting, "_credit", credit)
    monkeypatch.setattr(fedvs_setting, "_pictures", pictures)


def test_half_of_the_parties_straggle_as_in_the_paper():
    for parties in (6, 11, 28):
        names = tuple(f"party_{n}" for n in range(parties))
        means = sorted(delay.mean for delay in delays_of(names, seed=3).values())
        slow = -(-parties // 2)
        assert means == [0.1] * (parties - slow) + [2.0 + i for i in range(1, slow + 1)]
    drawn = [delays_of(names, seed) for seed in range(5)]
    assert len({tuple(d.mean for d in delays.values()) for delays in drawn}) == 5


def test_every_way_but_fedvs_is_delayed_where_embeddings_are_computed():
    """FedVS by ln(N)^2 / B of that where weights are shared, of B rows, also where K > 1."""
    for setting in (HANDWRITTEN, replace(FASHION, segments=4)):
        for way in ways(setting):
            costs = way.costs(setting, QUICK, 0)
            (name, *_), kinds = setting.stragglers(QUICK, 0), ("", "encode", "coded")
            lost = [costs.lost_nanoseconds(name, 3, kind) for kind in kinds]
            whole = max(lost)
            assert whole > 0
            if way.name == FEDVS:
                part = math.log(setting.parties) ** 2 / setting.batch
                assert lost == [0, pytest.approx(whole * part, rel=1e-6), whole]
            else:
                assert lost == [whole, 0, 0]


def test_weights_are_shared_with_their_part_of_a_delay():
    delays = {name: Exponential(4.0) for name in "abcdef"}
    costs = coded_delays(delays, rows=32, seed=1)
    whole = costs.lost_nanoseconds("a", 7, "coded")
    part = costs.lost_nanoseconds("a", 7, "encode")
    assert part == pytest.approx(whole * math.log(6) ** 2 / 32, rel=1e-6)
    assert costs.lost_nanoseconds("a", 7) == costs.lost_nanoseconds("a", 7, "forward") == 0
    plain = Modelled(otherwise=0.0)
    assert costs.costs == plain


def test_parties_degrees_and_batches_are_the_papers():
    settings = {s.name: (s.parties, s.degree, s.batch) for s in fedvs_stragglers.SETTINGS}
    assert settings == {
        "handwritten": (6, 2, 32),
        "credit": (11, 2, 32),
        "parkinson": (10, 2, 16),
        "mnist": (28, 1, 256),
        "fashion-mnist": (28, 1, 256),
    }
    for setting in (HANDWRITTEN, CREDIT, PARKINSON, MNIST, FASHION):
        names = [way.name for way in ways(setting)]
        assert names == ["FedVS", "Wait", "Ignore", "VAFL", "Wait-DP"]
        fedvs, _, ignore, _, dp = (way.method for way in ways(setting))
        assert fedvs.uplink.needed <= setting.parties
        assert ignore.stragglers.count == setting.parties // 2
        assert dp.uplink.noise == wait_dp(5.0, 1e-5).uplink.noise


def test_fedvs_has_the_rate_of_wait_and_each_other_way_its_own():
    trials = {trial.label: trial for trial in FEDVS_STRAGGLERS.trials(QUICK)}
    for setting in fedvs_stragglers.SETTINGS:
        tuned, rates = fedvs_stragglers.TUNED[setting.name], {}
        for way in ways(setting):
            federation = trials[setting.label, way.name].federation(0)
            parameter = torch.nn.Parameter(torch.zeros(1))
            rates[way.name] = federation.parties[0].optimiser([parameter]).param_groups[0]["lr"]
        expected = (tuned.wait, tuned.wait, tuned.ignore, tuned.vafl, tuned.wait_dp)
        assert tuple(rates.values()) == expected


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_trials_have_names_of_their_own(experiment):
    trials = experiment.trials(QUICK)
    assert len({trial.folder for trial in trials}) == len(trials) > 3


def test_a_table_tells_what_the_runs_did(tmp_path, monkeypatch):
    monkeypatch.setattr(fedvs_stragglers, "SETTINGS", (HANDWRITTEN,))
    results = Results()
    for trial in FEDVS_STRAGGLERS.trials(QUICK):
        result = run_trial(trial, tmp_path, Watcher(), "cpu")
        assert result is not None
        results.add(trial, result)
    found = FEDVS_STRAGGLERS.findings(results)
    ways_told = [row[1] for row in found.sheets[0].rows]
    assert ways_told == [
        *("FedVS", "Wait", "Ignore", "Ignore, of its fast half", "VAFL", "Wait-DP")
    ]
    seconds = {row[1]: float(row[2]) for row in found.sheets[0].rows if row[2]}
    assert seconds["FedVS"] < seconds["Wait"] == seconds["Wait-DP"]
    assert found.sheets[0].rows[-1][-1], "what noise costs of privacy is told"
    fedvs, wait = (results.of(HANDWRITTEN.label, way)[0].run for way in ("FedVS", "Wait"))
    gap = 100 * (fedvs.summary["final"] - wait.summary["final"])
    assert float(found.sheets[1].rows[0][3]) == pytest.approx(gap, abs=0.01)
    (chart,) = found.charts
    assert [curve.name for curve in chart.curves] == [way.name for way in ways(HANDWRITTEN)]
    end = last_second(results.of(HANDWRITTEN.label, "FedVS"))
    for curve in chart.curves:
        assert max(curve.x) == pytest.approx(last_second(results.of(HANDWRITTEN.label, curve.name)))
    assert math.isnan(value_at(fedvs, -1.0))
    assert value_at(fedvs, end) == 100 * fedvs.summary["final"]
    curve = at_times("FedVS", results.of(HANDWRITTEN.label, "FedVS"), end)
    assert curve.y[-1] == value_at(fedvs, end)
