"""Experiments: trials that can be interrupted, what they measure, and what they leave behind."""

from __future__ import annotations

import csv
import ctypes
import gc
import io
import itertools
import json
import math
import multiprocessing
import os
import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import polars as pl
import pytest
import torch
from rich.console import Console
from torch import nn

from colonnade.channels import Channel, Network
from colonnade.cli import app
from colonnade.codecs import Entropy, Scalar
from colonnade.costs import Modelled
from colonnade.datasets import CATALOGUE
from colonnade.drivers import Simulate
from colonnade.effects import Work
from colonnade.errors import CheckpointError, ConfigurationError, RoleFailed
from colonnade.experiments import (
    EXPERIMENTS,
    Experiment,
    Scale,
    celu_prices,
    celu_setting,
    celu_time,
    reproduce,
    untuned,
    write_findings,
)
from colonnade.experiments.cvfl_steps import seconds
from colonnade.experiments.default_sets import Problem, TableSet
from colonnade.experiments.efvfl_mnist import PAPER
from colonnade.experiments.experiment import Result
from colonnade.experiments.gradient import loss_and_gradient
from colonnade.experiments.measures import (
    accuracy_chart,
    accuracy_curve,
    bytes_both,
    bytes_framed,
    cost,
    framed_along,
    held_back,
    mean_cell,
    reached,
    reaching_cell,
    share_cell,
    target_below,
)
from colonnade.methods import cvfl, fedbcd, svfl
from colonnade.models import Mean
from colonnade.reports import Sheet
from colonnade.run_read import load_run
from colonnade.runs import Run
from colonnade.training import Training, Watcher
from colonnade.wire import Purpose
from toy_experiment import TOY, dying, findings, one_bad, refusing, toy, trials


def watching(name: str) -> Watcher:
    return Watcher()


def test_an_interrupted_experiment_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole = reproduce(TOY, Scale(), tmp_path / "whole", watching)
    assert whole is not None
    calls = itertools.count()
    attempts = 0
    while True:  # every few boundaries something interrupts it
        limit = next(calls) + 9
        watcher = Watcher(interrupted=lambda limit=limit: next(calls) > limit)  # type: ignore[misc]
        found = reproduce(TOY, Scale(), tmp_path / "parts", lambda name, w=watcher: w)  # type: ignore[misc]
        attempts += 1
        if found is not None:
            break
        assert attempts < 100
    assert attempts > 3
    assert found.sheets == whole.sheets
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {
        f"{name}_10_seed-{seed}" for name in ("exact", "coarse") for seed in (0, 1)
    }


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    first = reproduce(TOY, Scale(seeds=1), tmp_path, watching)
    rounds = []
    watcher = Watcher(on_round=lambda role, round, sent: rounds.append(round))
    second = reproduce(TOY, Scale(seeds=1), tmp_path, lambda name: watcher)
    assert first is not None
    assert second is not None
    assert first.sheets == second.sheets
    assert set(rounds) <= {8}  # each role says only that it is at the end


def test_trials_at_once_find_what_they_find_one_by_one(tmp_path: Path) -> None:
    names: list[str] = []
    reports: list[str] = []

    def watch(name: str) -> Watcher:
        names.append(name)
        return Watcher(on_report=lambda values: reports.append(name))

    alone = reproduce(TOY, Scale(), tmp_path / "alone", watching)
    together = reproduce(TOY, Scale(), tmp_path / "together", watch, workers=2)
    assert alone is not None
    assert together is not None
    assert together.sheets == alone.sheets
    assert together.charts == alone.charts
    assert together.notes == alone.notes
    assert names == [trial.name for trial in TOY.trials(Scale())]
    assert set(reports) == set(names)
    for trial in TOY.trials(Scale()):
        for file in ("history.csv", "ledger.csv", "probes.json"):
            one, other = (tmp_path / way / trial.folder / file for way in ("alone", "together"))
            assert one.read_bytes() == other.read_bytes()


def test_trials_at_once_that_are_interrupted_go_on_to_the_same_end(tmp_path: Path) -> None:
    whole = reproduce(TOY, Scale(), tmp_path / "whole", watching)
    rounds: list[int] = []
    watcher = Watcher(
        on_round=lambda role, round, sent: rounds.append(round),
        interrupted=lambda: bool(rounds),
    )
    assert reproduce(TOY, Scale(), tmp_path / "parts", lambda name: watcher, workers=2) is None
    found = reproduce(TOY, Scale(), tmp_path / "parts", watching)
    assert found is not None
    assert whole is not None
    assert found.sheets == whole.sheets


def test_a_trial_that_fails_is_named(tmp_path: Path) -> None:
    bad = replace(TOY, trials=partial(one_bad, refusing))
    with pytest.raises(ConfigurationError, match=r"odd one, seed 1: .*does not take fused"):
        reproduce(bad, Scale(), tmp_path, watching)
    assert (tmp_path / trials(Scale())[0].folder / "summary.json").exists()


@pytest.mark.parametrize(
    ("make", "error", "what"),
    [
        (refusing, ConfigurationError, "does not take fused"),
        (dying, RoleFailed, "exit code 7"),
    ],
)
def test_a_trial_that_fails_beside_others_is_named(tmp_path: Path, make, error, what) -> None:
    bad = replace(TOY, trials=partial(one_bad, make))
    with pytest.raises(error, match=rf"odd one, seed 1: .*{what}"):
        reproduce(bad, Scale(), tmp_path, watching, workers=2)
    assert not multiprocessing.active_children()


def test_a_second_interruption_ends_all_processes_at_once(tmp_path: Path) -> None:
    def stopped(values) -> None:
        raise KeyboardInterrupt

    watcher = Watcher(on_report=stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce(TOY, Scale(), tmp_path, lambda name: watcher, workers=2)
    assert not multiprocessing.active_children()


def test_every_experiment_can_be_sent_to_a_process() -> None:
    for experiment in EXPERIMENTS.values():
        ForkingPickler.dumps(experiment.trials)


def test_the_device_is_told_where_it_is_not_the_cpu(tmp_path: Path) -> None:
    usual = reproduce(TOY, Scale(seeds=1), tmp_path / "usual", watching)
    there = reproduce(TOY, Scale(seeds=1, device="cpu:0"), tmp_path / "there", watching)
    assert usual is not None
    assert there is not None
    assert there.sheets == usual.sheets  # it is the same processor
    assert usual.notes == ["<note>"]
    assert "computed on cpu:0:" in there.notes[1]
    run = load_run(tmp_path / "there" / TOY.trials(Scale())[0].folder)
    assert set(run.summary["devices"].values()) == {"cpu:0"}
    write_findings(TOY, Scale(seeds=1, device="cpu:0"), there, tmp_path)
    assert "reproduce toy --seeds 1 --device cpu:0" in (tmp_path / "toy.html").read_text()


def test_a_trial_of_another_device_is_not_gone_on_with(tmp_path: Path) -> None:
    reproduce(TOY, Scale(seeds=1), tmp_path, watching)
    with pytest.raises(CheckpointError, match=r"seed 0: .*another configuration"):
        reproduce(TOY, Scale(seeds=1, device="cpu:0"), tmp_path, watching)


def test_where_models_cannot_compute_is_said_with_the_trial(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"exact 10 %, seed 0: .*compute on 'cuda:99'"):
        reproduce(TOY, Scale(device="cuda:99"), tmp_path, watching)


def test_what_modelled_work_takes_is_the_same_on_every_device() -> None:
    for machine, settings, names in celu_time.PLACES:
        for setting in settings:
            for name in names:
                assert not celu_time._driver(setting, name, machine).costs.measures


@pytest.mark.parametrize(
    ("name", "kind", "milliseconds"),
    [
        ("vanilla", "encode", 0.6),
        ("vanilla, 8 bits", "encode", 1.7),
        ("FedBCD, Q = 2", "local_step", 68),
        ("FedBCD, Q = 2, 8 bits", "local_step", 68),
        ("FedBCD, Q = 2, 8 bits", "decode", 1.4),
        ("CELU", "local_step", 77),
        ("CELU, 8 bits", "local_step", 77),
        ("CELU, error feedback", "encode", 18),
    ],
)
def test_each_method_pays_for_its_own_work(name: str, kind: str, milliseconds: float) -> None:
    costs = celu_time._driver(celu_time.SETTINGS[0], name, celu_prices.FIRST).costs
    work = Work(kind, bool, round=0, rows=4096)
    assert costs.nanoseconds("party_1", work, 0) == pytest.approx(milliseconds * 1e6)


def test_faster_is_how_many_times_as_long_the_other_took() -> None:
    training = Training(epochs=4, batch_size=50, evaluate_every=1)
    costs = (Modelled({"forward": seconds}, otherwise=0.0) for seconds in (0.06, 0.02))
    slow, fast = (
        [Result(toy(0).train(svfl(fusion=Mean()), training, Simulate(costs=each)))]
        for each in costs
    )
    targets = celu_setting.targets_of(slow)
    assert celu_time._faster(slow, fast, targets) == "3.00 x"
    assert celu_time._faster(fast, slow, targets) == "0.33 x"


def test_held_back_is_of_the_organisation_that_is_so_most() -> None:
    run = SimpleNamespace(summary={"held_back": {"bank": 0.5, "shop": 0.25}})
    assert held_back(cast(Run, run)) == 0.5
    assert held_back(cast(Run, SimpleNamespace(summary={"held_back": {}}))) == 0


def test_what_work_costs_can_be_measured_anew() -> None:
    measured = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "work.py"))
    found = measured["costs"](
        toy(0), replace(celu_time.METHODS["CELU"], fusion=Mean()), rounds=5, batch=50
    )
    kinds = {"forward", "encode", "decode", "top", "local_step", "backward", "update"}
    assert kinds <= set(found)
    assert min(found.values()) > 0


def test_seeds_are_compared_with_their_own_vanilla_also_where_some_have_not_run() -> None:
    training = Training(epochs=4, batch_size=50, evaluate_every=1)
    vanilla = [
        Result(toy(seed).train(svfl(fusion=Mean()), replace(training, seed=seed)))
        for seed in (0, 1, 2)
    ]
    targets = celu_setting.targets_of(vanilla)
    assert targets == {
        seed: pytest.approx(result.run.summary["best"] - 0.002)
        for seed, result in enumerate(vanilla)
    }
    some = [vanilla[2], vanilla[0]]
    assert celu_setting.paired(vanilla, some) == [vanilla[0], vanilla[2]]
    expected = [cost(each.run, each.run.summary["best"] - 0.002, bytes_both) for each in some]
    assert celu_setting.costs_of(some, targets, bytes_both) == expected
    unreachable = dict.fromkeys(targets, 1.5)
    assert celu_setting.costs_of(some, unreachable, bytes_both) == [None, None]


def test_a_curve_of_seeds_that_were_evaluated_less_often_ends_with_the_first() -> None:
    runs = [
        toy(0).train(svfl(fusion=Mean()), Training(4, 50, evaluate_every=every)) for every in (1, 2)
    ]
    assert [len(run.history) for run in runs] == [8, 4]
    curve = accuracy_curve("two", [Result(run) for run in runs], lambda run: run.history["round"])
    assert curve.x == [1.5, 3, 4.5, 6]
    both = [run.history["test_accuracy"].to_list()[:4] for run in runs]
    assert curve.y == pytest.approx([50 * (a + b) for a, b in zip(*both, strict=True)])


def test_a_line_for_each_trial_is_in_a_file_of_its_own(tmp_path: Path) -> None:
    found = reproduce(TOY, Scale(quick=True), tmp_path / "runs", watching)
    assert found is not None
    each = Sheet("Every trial", ("method", "seed"), [("exact", "0"), ("coarse", "0")])
    write_findings(TOY, Scale(quick=True), replace(found, trials=each), tmp_path)
    assert (tmp_path / "toy-trials.csv").read_text() == "method,seed\nexact,0\ncoarse,0\n"
    write_findings(TOY, Scale(quick=True), replace(found, trials=each), tmp_path)  # over its own


def test_two_trials_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = Experiment("twice", "", "", (), lambda scale: trials(scale) * 2, findings)
    with pytest.raises(Exception, match="two trials of one name"):
        reproduce(twice, Scale(), tmp_path, watching)


def test_files_hold_the_tables(tmp_path: Path) -> None:
    found = reproduce(TOY, Scale(quick=True), tmp_path / "runs", watching)
    assert found is not None
    write_findings(TOY, Scale(quick=True), found, tmp_path)
    with (tmp_path / "toy.csv").open() as file:
        assert list(csv.reader(file)) == [
            ["method", "loss", "accuracy"],
            *map(list, found.sheets[0].rows),
        ]
    text = (tmp_path / "toy.txt").read_text()
    assert "these figures mean nothing" in text
    assert "<note>" in text
    page = (tmp_path / "toy.html").read_text()
    assert "&lt;note&gt;" in page
    assert "&lt;paper&gt;" in page or "\\u003cpaper" in page
    assert "colonnade reproduce toy --quick" in page
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_the_gradient_is_that_of_the_joined_model() -> None:
    federation, method = toy(0), svfl(fusion=Mean())
    run = federation.train(method, Training(epochs=1, batch_size=50))
    found = loss_and_gradient(federation, method, run.models)
    modules = [run.models[n]["bottom"] for n in ("bank", "shop")] + [run.models["insurer"]["top"]]
    rows = torch.arange(100)
    z = sum(
        m(p.features[rows])
        for m, p in zip(modules, federation.parties, strict=False)  # type: ignore[index]
    )
    loss = nn.functional.cross_entropy(modules[2](z / 2), federation.label_holder.labels[rows])
    gradients = torch.autograd.grad(loss, [p for m in modules for p in m.parameters()])
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-6)
    assert found["gradient"] == pytest.approx(sum(float((g**2).sum()) for g in gradients), rel=1e-5)


def test_costs_of_a_target_are_those_of_its_first_evaluation() -> None:
    run = toy(0).train(svfl(fusion=Mean()), Training(epochs=4, batch_size=50, evaluate_every=1))
    values = run.history["test_accuracy"].to_list()
    best = max(values)
    place = values.index(best)
    assert reached(run, best) == place
    assert cost(run, best, bytes_both) == (place + 1) * 2 * 2 * 50 * 4 * 4
    assert cost(run, 1.1, bytes_both) is None
    mean, text = mean_cell([1000.0, 3000.0])
    assert (mean, text) == (2000, "2.00 kB ± 1.41 kB")
    assert math.isnan(mean_cell([None, 3.0])[0])


def test_a_miss_is_a_miss_and_hides_behind_no_mean() -> None:
    run = toy(0).train(svfl(fusion=Mean()), Training(epochs=4, batch_size=50, evaluate_every=1))
    best = max(run.history["test_accuracy"].to_list())
    stuck = toy(0, rate=0.0).train(svfl(fusion=Mean()), Training(epochs=1, batch_size=50))
    spent = cost(run, best, bytes_framed)
    for count, known in ((10, True), (9, True), (8, False), (0, False)):
        results = [Result(run)] * count + [Result(stuck)] * (10 - count)
        mean, text = reaching_cell(results, best, bytes_framed)
        assert text.endswith(f"{count} of 10")
        assert (mean == spent) if known else math.isnan(mean)
    assert target_below([Result(run), Result(run)], 0.5) == pytest.approx(best - 0.005)


def test_more_than_vanilla_is_said_as_a_multiple_and_less_as_a_part() -> None:
    cells = [share_cell(cost, 2.0) for cost in (0.1, 2.0, 2.848, math.nan)]
    assert cells == ["1/20", "1", "1.42 x", ""]
    assert share_cell(2.0, math.nan) == ""


def test_framed_bytes_until_a_place_are_of_all_rounds_before_it_and_of_no_other() -> None:
    run = toy(0).train(svfl(fusion=Mean()), Training(epochs=4, batch_size=50, evaluate_every=1))
    for place, before in enumerate(run.history["round"].to_list()):
        sent = [
            entry.framed_bytes
            for entry in run.ledger
            if entry.kind in ("embedding", "derivative")
            and entry.purpose is Purpose.TRAINING
            and entry.round < before
        ]
        assert len(sent) == 4 * before
        assert bytes_framed(run, place) == sum(sent) > bytes_both(run, place)


def test_what_is_compared_with_learns_nothing_of_test_rows(monkeypatch) -> None:
    numbers = np.random.default_rng(0).standard_normal((60, 4))
    labels = (numbers[:, 0] > 0).astype(int)

    def made(folder: Path | None, seed: int, flipped: bool) -> Problem:
        ids = pl.Series("id", range(60))
        tables = {
            name: pl.DataFrame({"a": numbers[:, i], "b": numbers[:, i + 1]}).with_columns(ids)
            for name, i in (("bank", 0), ("shop", 2))
        }
        shown = np.where((ids.to_numpy() >= 40) & flipped, 1 - labels, labels)
        return Problem(tables, pl.DataFrame({"id": ids, "label": shown}), np.arange(40, 60))

    def predicted(table_set, model, x, labels) -> float:
        return float(model.predict_proba(x)[:, 1] @ np.arange(1, len(x) + 1))

    monkeypatch.setattr(untuned, "_score", predicted)
    found = []
    for flipped in (False, True):
        make = partial(made, flipped=flipped)
        table_set = TableSet("small", "", "accuracy", 60, 2, make)
        probe = untuned.untuned_trial(table_set, 0, None).probe
        assert probe is not None
        found.append(probe(None, None, {}))  # type: ignore[arg-type]
    assert found[0] == found[1]
    assert set(found[0]) == {"mlp", "linear", "trees"}


@pytest.mark.parametrize("steps", [1, 10, 25])
def test_the_papers_model_of_time_is_the_simulators(steps: int) -> None:
    """Rounds of Q steps of 10 ms and a round trip of t_c.

    Before the first the labels travel one way, and the last answer needs no way back.
    """
    latency = 0.05
    driver = Simulate(
        Network(Channel(latency=latency / 2)), Modelled({"local_step": 0.01}, otherwise=0.0)
    )
    training = Training(epochs=6, batch_size=50, evaluate_every=100)
    run = toy(0).train(cvfl(Scalar(3), steps, Mean(), "shared"), training, driver)
    assert run.summary["rounds"] == 12
    expected = latency / 2 + seconds(12, steps, latency) - latency / 2
    assert run.summary["seconds_training"] == pytest.approx(expected, abs=1e-6)


def test_the_catalogue_is_complete() -> None:
    assert list(EXPERIMENTS) == [
        "efvfl-mnist",
        "efvfl-convergence",
        "efvfl-private-labels",
        "efvfl-local-updates",
        "cvfl-bits",
        "cvfl-latency",
        "cvfl-algorithms",
        "cvfl-parties",
        "cvfl-schedule",
        "celu-rates",
        "celu-ablation",
        "celu-time",
        "lean-mnist",
        "pbm-tradeoff",
        "pbm-parties",
        "fedvs-rates",
        "fedvs-motivation",
        "fedvs-stragglers",
        "fedvs-partition",
        "fedvs-collusion",
        "fedvs-networks",
        "defaults",
        "defaults-chosen",
    ]
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert set(experiment.data) <= set(CATALOGUE)
    assert len(PAPER) == 13


# Real data


@pytest.fixture(scope="module", autouse=True)
def data_are_forgotten() -> Iterator[None]:
    """Read files once, and let go of what was read in the end: tests to come fork this process."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (("mnist", "read_images"), ("credit", "credit_tables")):
            home = import_module(f"colonnade.datasets.{module}")
            patch.setattr(home, name, cache(getattr(home, name)))
        yield
    for name in [name for name in sys.modules if name.startswith("colonnade.experiments.")]:
        for value in vars(sys.modules[name]).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    gc.collect()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)  # else glibc keeps a gigabyte


@pytest.fixture
def real() -> Path:
    folder = os.environ.get("COLONNADE_DATA")
    if not folder:
        pytest.skip("COLONNADE_DATA names no folder with the public data")
    return Path(folder)


@pytest.mark.data
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_trials_have_names_of_their_own(real: Path, name: str) -> None:
    for quick in (True, False):
        made = EXPERIMENTS[name].trials(Scale(real, quick=quick))
        folders = [trial.folder for trial in made]
        assert len(set(folders)) == len(folders)
        assert {trial.seed for trial in made} == set(range(1 + max(t.seed for t in made)))


@pytest.mark.data
@pytest.mark.parametrize("name", ["efvfl-private-labels", "cvfl-schedule", "lean-mnist"])
def test_a_quick_reproduction_leaves_everything(
    real: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        app(["reproduce", name, "--quick", "--json", "--data", str(real), "--out", str(tmp_path)])
    assert left.value.code == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows
    assert all(isinstance(row, dict) for row in rows)
    for ending in ("txt", "csv", "html", "png"):
        assert (tmp_path / f"{name}.{ending}").stat().st_size > 100
    assert np.all([(p / "ledger.csv").exists() for p in (tmp_path / "runs").iterdir()])


def test_fedbcd_with_one_step_is_the_baseline_of_table_ii() -> None:
    """SVFL as relay of float32 with one step equals the split exchange up to rounding."""
    training = Training(epochs=3, batch_size=50)
    one = toy(0).train(fedbcd(1, Mean(), "shared"), training)
    other = toy(0).train(svfl(fusion=Mean()), training)
    for name, parts in one.models.items():
        for part, module in parts.items():
            for key, value in module.state_dict().items():
                assert torch.allclose(value, other.models[name][part].state_dict()[key], atol=1e-6)


@pytest.mark.parametrize("width", [40, 60, 200])
def test_no_figure_of_a_table_is_cut_where_it_is_printed(width):
    row = ("breast cancer", "100,000", ".998 ± .003", "12.2 MB ± 3 MB, 10 of 10")
    sheet = Sheet("All", ("data", "rows", "joint", "sent"), [row] * 2)
    text = io.StringIO()
    Console(file=text, width=width).print(sheet)
    printed = text.getvalue()
    assert "…" not in printed
    words = [word for cell in row for word in cell.split()]
    assert all(printed.split().count(word) >= 2 for word in words)


def test_framed_bytes_are_all_that_training_sent_forwarded_messages_too() -> None:
    run = toy(0).train(cvfl(Scalar(4), 2, Mean(), "shared"), Training(epochs=2, batch_size=50))
    sent = {
        purpose: run.ledger.framed_bytes(lambda e, p=purpose: e.purpose is p) for purpose in Purpose
    }
    assert sent[Purpose.RELAY] > 0
    total = sent[Purpose.TRAINING] + sent[Purpose.RELAY]
    assert framed_along(run)[-1] == bytes_framed(run, len(run.history) - 1) == total
    assert framed_along(run)[0] == total / 2


def test_a_curve_stands_at_the_mean_bytes_of_its_seeds() -> None:
    method, training = svfl(Entropy(Scalar(2)), fusion=Mean()), Training(epochs=3, batch_size=50)
    runs = [toy(seed).train(method, replace(training, seed=seed)) for seed in (0, 1)]
    results = [Result(run) for run in runs]
    chart = accuracy_chart("bytes", "Bytes", {"entropy": results}, framed_along)
    here, there = (framed_along(run) for run in runs)
    assert here != there
    (curve,) = chart.curves
    assert curve.x == pytest.approx([(a + b) / 2e6 for a, b in zip(here, there, strict=True)])
    assert "envelopes" in chart.x
