"""Early stopping, learning-rate schedules, prediction for new rows, and exported parts."""

from __future__ import annotations

import json
import pathlib
import shutil
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, MultiStepLR, StepLR

from colonnade.channels import Channel, Network
from colonnade.codecs import Scalar
from colonnade.costs import Modelled
from colonnade.drivers import Processes, Replay, Simulate
from colonnade.errors import ConfigurationError, DataError, RemoteProtocolError
from colonnade.export import load_part
from colonnade.federation import Federation
from colonnade.ledger import Ledger
from colonnade.methods import svfl
from colonnade.metrics import ACCURACY, AUC, LOG_LOSS
from colonnade.organisations import LabelHolder, Party
from colonnade.prediction import Prediction
from colonnade.roles.stopping import Judge, Verdict, decode_verdict, encode_verdict
from colonnade.run_read import load_run
from colonnade.training import EarlyStopping, Training
from colonnade.wire import Purpose

pytestmark = pytest.mark.usefixtures("no_pictures")

ROWS = 240
SIMULATE = Simulate(
    Network(Channel(1e6, 0.01)), Modelled({"forward": 0.002, "top": 0.001}, otherwise=0.0)
)


def problem(scheduler=None, lr=0.05, metrics=(LOG_LOSS, ACCURACY), holder_has_features=True):
    """Three organisations whose labels are half noise: training soon overfits."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS, 9, generator=generator)
    signal = (x[:, 0] + x[:, 4] + x[:, 8] > 0).long()
    noise = torch.randint(2, (ROWS,), generator=generator)
    labels = torch.where(torch.rand(ROWS, generator=generator) < 0.5, signal, noise)
    optimiser = partial(torch.optim.Adam, lr=lr)

    def bottom(seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))

    parties = [
        Party("bank", x[:, :3], bottom(1), optimiser, scheduler),
        Party("shop", x[:, 3:6], bottom(2), optimiser, scheduler),
    ]
    own = {"features": x[:, 6:], "bottom": bottom(3)} if holder_has_features else {}
    torch.manual_seed(4)
    top = nn.Sequential(nn.Linear(4 * (2 + holder_has_features), 8), nn.ReLU(), nn.Linear(8, 2))
    holder = LabelHolder("insurer", labels, top, optimiser=optimiser, scheduler=scheduler, **own)
    return Federation(
        parties,
        holder,
        train_rows=range(150),
        validation_rows=range(150, 200),
        test_rows=range(200, ROWS),
        metrics=metrics,
    )


STOPPING = Training(
    epochs=30, batch_size=32, evaluation_rows=30, early_stopping=EarlyStopping(patience=3)
)


def parameters(run):
    return {
        (name, part, key): value
        for name, parts in run.models.items()
        for part, module in parts.items()
        for key, value in module.state_dict().items()
    }


def assert_same(one, other):
    mine, theirs = parameters(one), parameters(other)
    assert mine.keys() == theirs.keys()
    for key, value in mine.items():
        assert torch.equal(value, theirs[key]), key
    assert one.ledger.without_time() == other.ledger.without_time()
    assert one.history.drop("seconds", strict=False).equals(
        other.history.drop("seconds", strict=False)
    )


# The judge, by hand


@pytest.mark.parametrize(
    ("values", "rule", "verdicts", "best"),
    [
        ([0.5, 0.6, 0.6, 0.7], EarlyStopping(2), "BBgB", 3),
        ([0.5, 0.6, 0.6, 0.6], EarlyStopping(2), "BBgS", 1),
        ([0.5, 0.55, 0.59, 0.61], EarlyStopping(3, min_delta=0.1), "BggB", 3),
        ([0.5, 0.4, 0.3, 0.2], EarlyStopping(None), "Bggg", 0),
        ([float("nan"), 0.1, float("nan"), 0.2], EarlyStopping(2), "BBgB", 3),
        ([float("nan")] * 4, EarlyStopping(3), "BggS", 0),
        ([float("inf")] * 4, EarlyStopping(3), "BggS", 0),
    ],
)
@pytest.mark.parametrize("greater_is_better", [True, False])
def test_the_judge_by_hand(values, rule, verdicts, best, greater_is_better):
    judge = Judge(rule, "metric", greater_is_better)
    letters = {Verdict.BEST: "B", Verdict.GO_ON: "g", Verdict.STOP: "S"}
    heard = ""
    for round, value in enumerate(values):
        restored = Judge(rule, "metric", greater_is_better)
        restored.load_state_dict(judge.state_dict())
        judge = restored
        heard += letters[judge.hear(round, {"metric": value if greater_is_better else -value})]
    assert heard == verdicts
    assert judge.best_round == best


@pytest.mark.parametrize("verdict", [Verdict(number) for number in range(4)])
def test_verdicts_are_one_byte(verdict):
    assert len(encode_verdict(verdict)) == 1
    assert decode_verdict(encode_verdict(verdict)) == verdict


@given(st.binary(max_size=4).filter(lambda b: len(b) != 1 or b[0] > 3))
def test_other_bytes_are_no_verdict(body):
    with pytest.raises(RemoteProtocolError, match="a verdict is a byte"):
        decode_verdict(body)


@pytest.mark.parametrize("settings", [{"patience": 0}, {"min_delta": -1}, {"min_delta": 1e400}])
def test_impossible_rules_are_refused(settings):
    with pytest.raises(ConfigurationError):
        EarlyStopping(**settings)


def test_an_unknown_guide_is_refused():
    with pytest.raises(ConfigurationError, match="is 'loss' or 'metric', not 'auc'"):
        EarlyStopping(by="auc")


# Training that stops


@pytest.fixture(scope="module")
def stopped():
    return problem().train(svfl(), STOPPING, SIMULATE)


def test_it_stops_early_and_ends_with_the_best_model(stopped):
    summary, history = stopped.summary, stopped.history
    losses = history["validation_log_loss"].to_list()
    best = losses.index(min(losses))
    assert summary["stopped_early"]
    assert summary["rounds"] == history["round"][-1] < 30 * 5
    assert len(losses) == best + 1 + 3  # patience
    assert summary["best_round"] == history["round"][best]
    assert summary["best"] == min(losses)
    # The best model is the one that training for just so long gives.
    short = Training(epochs=best + 1, batch_size=32, evaluation_rows=30)
    reference = problem().train(svfl(), short, SIMULATE)
    for key, value in parameters(reference).items():
        assert torch.equal(value, parameters(stopped)[key])
    assert summary["test"] == reference.summary["test"]
    assert history["test_log_loss"].null_count() == len(losses) - 1  # evaluated once, at the end


def test_each_verdict_is_a_message_of_one_byte_to_every_party(stopped):
    verdicts = [entry for entry in stopped.ledger if entry.kind == "verdict"]
    assert len(verdicts) == 2 * len(stopped.history)
    assert {entry.body_bytes for entry in verdicts} == {1}
    assert {entry.purpose for entry in verdicts} == {Purpose.EVALUATION}


def test_without_patience_all_epochs_are_trained_and_the_best_counts():
    training = Training(epochs=12, batch_size=32, early_stopping=EarlyStopping(None))
    run = problem().train(svfl(), training)
    assert run.summary["rounds"] == 12 * 5
    assert not run.summary["stopped_early"]
    assert run.summary["best_round"] < 60
    plain = problem().train(svfl(), Training(epochs=run.summary["best_round"] // 5, batch_size=32))
    for key, value in parameters(plain).items():
        assert torch.equal(value, parameters(run)[key])


def test_the_loss_decides_unless_the_metric_is_to():
    by_loss = problem(metrics=(ACCURACY,)).train(svfl(), STOPPING, SIMULATE)
    losses = by_loss.history["validation_loss"].to_list()
    best = losses.index(min(losses))
    assert by_loss.summary["best_round"] == by_loss.history["round"][best]
    assert by_loss.summary["best"] == by_loss.history["validation_accuracy"][best]
    rule = EarlyStopping(patience=3, by="metric")
    by_metric = problem(metrics=(ACCURACY,)).train(
        svfl(), replace(STOPPING, early_stopping=rule), SIMULATE
    )
    values = by_metric.history["validation_accuracy"].to_list()
    assert by_metric.summary["best"] == max(values)
    assert "validation_loss" not in by_metric.history.columns


def test_stopping_is_the_same_under_every_driver(stopped):
    federation = problem()
    assert_same(stopped, federation.train(svfl(), STOPPING, Processes()))
    assert_same(stopped, federation.train(svfl(), STOPPING, Replay(stopped.record.trace)))


SCHEDULERS = {
    "none": None,
    "step": partial(StepLR, step_size=2, gamma=0.5),
    "cosine": partial(CosineAnnealingLR, T_max=6),
    "milestones": partial(MultiStepLR, milestones=[1, 3]),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS.values(), ids=SCHEDULERS)
def test_an_interrupted_run_goes_on_bit_for_bit(scheduler, tmp_path):
    training = Training(
        epochs=6, batch_size=50, evaluation_rows=30, early_stopping=EarlyStopping(patience=2)
    )
    federation = problem(scheduler, lr=0.2)
    method, folder = svfl(Scalar(4)), tmp_path / "run"
    whole = federation.train(method, training, SIMULATE, out=tmp_path / "whole")
    last = whole.summary["rounds"]
    # Once: within an epoch of three rounds, at its end, and at both ends; and before every round.
    for stops in ([1], [5], [6], [last - 1], [last], range(1, last + 1)):
        for stop in stops:
            driver = SIMULATE if stop % 5 else Processes()
            before = {"out": folder, "resume": folder.exists(), "stop_before": stop}
            federation.train(method, training, driver, **before)
        assert_same(whole, federation.train(method, training, SIMULATE, out=folder, resume=True))
        shutil.rmtree(folder)


def test_a_schedule_is_torchs_own():
    run = problem(SCHEDULERS["step"], lr=0.1).train(
        svfl(), Training(epochs=5, batch_size=32), SIMULATE
    )
    # Reported after the epoch's step: the rate of the epoch to come.
    assert run.history["learning_rate"].to_list() == [0.1, 0.05, 0.05, 0.025, 0.025]


def test_early_stopping_needs_validation_rows():
    federation = problem()
    federation = Federation(
        federation.parties, federation.label_holder, range(150), range(150, 200)
    )
    with pytest.raises(ConfigurationError, match="validation rows, and there are none"):
        federation.train(svfl(), STOPPING)


def test_rows_are_for_one_thing_only():
    federation = problem()
    with pytest.raises(ConfigurationError, match="row 150 is both in"):
        Federation(
            federation.parties, federation.label_holder, range(160), validation_rows=range(150, 200)
        )


def test_a_metric_that_the_rows_cannot_give_is_refused_before_training():
    federation = problem()
    one_class = [i for i, label in enumerate(federation.label_holder.labels) if label == 1]
    federation = Federation(
        federation.parties,
        federation.label_holder,
        range(100),
        test_rows=[i for i in one_class if i >= 100],
        metrics=[AUC],
    )
    with pytest.raises(DataError, match="AUC is not defined"):
        federation.train()


# Prediction


@pytest.mark.parametrize("holder_has_features", [False, True])
def test_predictions_are_the_joined_models(holder_has_features):
    federation = problem(holder_has_features=holder_has_features)
    run = federation.train(svfl(), Training(epochs=2, batch_size=32))
    generator = torch.Generator().manual_seed(8)
    names = ["bank", "shop", "insurer"][: 2 + holder_has_features]
    new = {name: torch.randn(70, 3, generator=generator) for name in names}
    prediction = run.predict(new, rows_per_message=32)
    with torch.no_grad():
        embeddings = [run.models[name]["bottom"].eval()(new[name]) for name in names]
        expected = run.models["insurer"]["top"].eval()(torch.cat(embeddings, 1))
    assert torch.allclose(prediction.scores, expected, atol=1e-6)
    assert torch.allclose(prediction.probabilities(), expected.softmax(1), atol=1e-6)
    assert torch.equal(prediction.classes(), expected.argmax(1))
    entries = list(prediction.ledger)
    assert len(entries) == 2 * 3  # two parties, 32 + 32 + 6 rows
    assert {entry.purpose for entry in entries} == {Purpose.PREDICTION}
    assert sum(entry.body_bytes for entry in entries) == 2 * 70 * 4 * 4
    assert torch.equal(run.predict(new, Processes(), 32).scores, prediction.scores)


def test_prediction_goes_through_the_methods_codec():
    federation = problem(holder_has_features=False)
    run = federation.train(svfl(Scalar(2)), Training(epochs=1, batch_size=32))
    new = {name: torch.randn(50, 3) for name in ("bank", "shop")}
    prediction = run.predict(new)
    assert prediction.ledger.bytes() == 2 * (8 + 50 * 4 * 2 // 8)


def test_a_threshold_moves_the_decision():
    scores = torch.tensor([[0.0, -1.0], [0.0, 1.0], [0.0, 0.1]])
    prediction = Prediction(scores, Ledger())
    probability = torch.tensor([0.2689, 0.7311, 0.5250])
    assert torch.allclose(prediction.probabilities()[:, 1], probability, atol=1e-4)
    assert prediction.classes(0.6).tolist() == [0, 1, 0]
    assert prediction.classes(0.2).tolist() == [1, 1, 1]
    assert Prediction(scores[:, 1], Ledger()).classes(0.6).tolist() == [0, 1, 0]
    assert Prediction(scores[:, 1:], Ledger()).classes().tolist() == [0, 1, 1]
    with pytest.raises(ConfigurationError, match="one of two classes"):
        Prediction(torch.zeros(2, 3), Ledger()).classes(0.5)
    with pytest.raises(ConfigurationError, match="a threshold is a probability"):
        prediction.classes(1.0)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"bank": torch.zeros(2, 3)}, "needs the columns of bank, shop"),
        ({"bank": torch.zeros(2, 3), "pub": torch.zeros(2, 3)}, "those of bank, pub"),
        ({"bank": torch.zeros(2, 3), "shop": torch.zeros(3, 3)}, "'shop' has 3 rows"),
        ({"bank": torch.zeros(0, 3), "shop": torch.zeros(0, 3)}, "no row to predict"),
        ({"bank": torch.zeros(2, 3), "shop": torch.full((2, 3), torch.nan)}, "row 0, column 0"),
        ({"bank": torch.zeros(2, 3), "shop": [[1, 2, 3]]}, "no transformer for a table"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tables, message):
    run = problem(holder_has_features=False).train(svfl(), Training(batch_size=150))
    with pytest.raises((ConfigurationError, DataError), match=message):
        run.predict(tables)


# Export


def test_exported_parts_are_each_organisations_own(tmp_path):
    run = problem().train(svfl(), Training(epochs=1, batch_size=32))
    run.export(tmp_path, programs=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank", "insurer", "shop"]
    x = torch.randn(7, 3)
    for name in ("bank", "shop", "insurer"):
        part = load_part(tmp_path / name)
        assert part.organisation == name
        assert list(part.tensors) == (["bottom", "top"] if name == "insurer" else ["bottom"])
        fresh = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))
        expected = run.models[name]["bottom"].eval()(x)
        assert torch.equal(part.load_into(fresh).eval()(x), expected)
        program = torch.export.load(tmp_path / name / "bottom.pt2").module()
        assert torch.allclose(program(x), expected, atol=1e-6)
    with pytest.raises(DataError, match="has no top; it has bottom"):
        load_part(tmp_path / "bank").load_into(nn.Linear(1, 1), "top")
    with pytest.raises(DataError, match="does not fit this module"):
        load_part(tmp_path / "bank").load_into(nn.Linear(1, 1))


@pytest.mark.parametrize("damage", ["missing", "cut", "format", "json", "part"])
def test_damaged_parts_are_refused(damage, tmp_path):
    run = problem().train(svfl(), Training(batch_size=150))
    run.export(tmp_path)
    folder = tmp_path / "bank"
    details, tensors = folder / "part.json", folder / "bottom.safetensors"
    match damage:
        case "missing":
            tensors.unlink()
        case "cut":
            tensors.write_bytes(tensors.read_bytes()[:-5])
        case "format":
            details.write_text(details.read_text().replace('"format": 2', '"format": 3'))
        case "json":
            details.write_text("[]")
        case "part":
            details.write_text(details.read_text().replace('"bottom"', '"../shop/bottom"', 1))
    with pytest.raises(DataError, match="bank"):
        load_part(folder)


@pytest.mark.parametrize("offsets", [[], [0], "0", None, {}, [0, "x"], [0, [1]]])
def test_a_header_that_makes_no_sense_is_refused(offsets, tmp_path):
    run = problem().train(svfl(), Training(batch_size=150))
    run.export(tmp_path)
    header = json.dumps({"a": {"data_offsets": offsets}}).encode()
    tensors = tmp_path / "bank/bottom.safetensors"
    tensors.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(DataError, match=r"bottom\.safetensors is damaged"):
        load_part(tmp_path / "bank")


def test_a_part_of_any_size_is_refused_in_words(tmp_path, monkeypatch):
    run = problem().train(svfl(), Training(batch_size=150))
    run.export(tmp_path)
    folder = tmp_path / "bank"
    with (folder / "part.json").open("r+b") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(
        DataError, match=r"part\.json is damaged: it has 1,073,741,825 bytes, and at"
    ):
        load_part(folder)
    run.export(tmp_path)

    def too_large(path):
        raise MemoryError

    monkeypatch.setattr(pathlib.Path, "read_bytes", too_large)
    with pytest.raises(DataError, match=r"part\.json is damaged: MemoryError$"):
        load_part(folder)


def test_a_run_that_was_read_has_no_models(tmp_path):
    problem().train(svfl(), Training(batch_size=150), out=tmp_path / "run")
    run = load_run(tmp_path / "run")
    for use in (lambda: run.predict({}), lambda: run.export(tmp_path)):
        with pytest.raises(ConfigurationError, match="read without its models"):
            use()
