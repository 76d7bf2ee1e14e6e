"""Configurations of tables, objectives, schedules and what is left out."""

from __future__ import annotations

import json
import math
import sqlite3

import polars as pl
import pytest
import torch
from torch import nn

from colonnade import defaults
from colonnade.assembly import Blueprint, Layers
from colonnade.config import json_schema, parse_config
from colonnade.errors import ConfigurationError, DataError
from colonnade.estimators import VerticalClassifier
from colonnade.methods import svfl
from colonnade.metrics import ACCURACY
from colonnade.models import Tabular
from colonnade.objectives import Classification, Regression, Rescaled, balanced_weights
from colonnade.tables import StoredTable
from colonnade.training import EarlyStopping

PEOPLE = 300


@pytest.fixture
def folder(tmp_path):
    people = range(PEOPLE)
    bank = pl.DataFrame(
        {
            "id": people,
            "income": [20 + (i * 7919) % 80 for i in people],
            "region": [["north", "south", "west"][i % 3] for i in people],
        }
    )
    bank.write_csv(tmp_path / "bank.csv")
    clinic = pl.DataFrame({"id": people, "visits": [(i * 6101) % 90 for i in people]})
    clinic.with_columns(name=pl.lit("x")).write_parquet(tmp_path / "clinic.parquet")
    labels = {"id": people, "ill": [int((i * 6101) % 90 > 40) for i in people]}
    labels["cost"] = [float((i * 6101) % 90 * 100) for i in people]
    pl.DataFrame(labels).write_csv(tmp_path / "labels.csv")
    return tmp_path


def tables(folder, **changes):
    data = {
        "name": "tables",
        "folder": str(folder),
        "id": "id",
        "parties": {
            "bank": {"source": "bank.csv"},
            "clinic": {"source": "clinic.parquet", "columns": ["visits"]},
        },
        "labels": {"source": "labels.csv", "column": "ill"},
    }
    return parse_config(
        {"data": data | changes.pop("data", {}), "training": {"epochs": 2}} | changes
    )


def test_tables_become_a_federation(folder):
    config = tables(folder)
    federation = config.build_federation()
    assert [party.name for party in federation.parties] == ["bank", "clinic"]
    assert federation.parties[0].features.shape == (PEOPLE, 4)
    assert federation.parties[1].features.shape == (PEOPLE, 1)
    assert len(federation.validation_rows) > 0
    run = config.train(federation=federation)
    assert run.summary["metric"] == "validation_auc"
    assert set(run.summary["test"]) == {"auc", "log_loss", "accuracy", "f1"}
    new = {"bank": pl.DataFrame({"income": [30], "region": ["west"]})}
    new["clinic"] = pl.DataFrame({"visits": [60]})
    assert run.predict(new).scores.shape == (1, 2)


def test_parquet_stays_on_disk(folder):
    party = tables(folder).data.parties["clinic"]
    table = party.read("id", party.columns, folder)
    assert isinstance(table, StoredTable)
    assert list(table.schema) == ["id", "visits"]


def test_own_tables_need_no_name(folder):
    plain = tables(folder).data.model_dump(mode="json", exclude={"name"})
    assert parse_config({"data": plain}).data.name == "tables"
    assert parse_config({"data": "mnist5k"}).data.name == "mnist5k"


def test_numbers_are_predicted_where_labels_are_numbers(folder):
    labels = {"source": "labels.csv", "column": "cost"}
    config = tables(folder, data={"labels": labels}, optimiser={"lr": 0.05})
    federation = config.build_federation()
    assert isinstance(federation.label_holder.top[-1], Rescaled)
    run = config.train(federation=federation)
    assert run.summary["metric"] == "validation_rmse"
    assert 0 < run.summary["best"] < 2600  # the deviation of cost


def test_categories_can_have_embedding_tables(folder):
    parties = {
        "bank": {"source": "bank.csv", "features": {"output": "dict"}},
        "clinic": {"source": "clinic.parquet", "features": {"ignore": ["name"]}},
    }
    federation = tables(folder, data={"parties": parties}).build_federation()
    assert isinstance(federation.parties[0].bottom, Tabular)
    assert set(federation.parties[0].features) == {"numeric", "categorical"}
    run = federation.train()
    assert run.summary["rounds"] > 0


def test_an_url_comes_from_the_environment(folder, monkeypatch):
    with sqlite3.connect(folder / "bank.db") as database:
        database.execute("create table clients (id integer, income real)")
        database.executemany("insert into clients values (?, ?)", [(i, i) for i in range(PEOPLE)])
    database.close()
    monkeypatch.setenv("BANK", f"sqlite:///{folder / 'bank.db'}")
    parties = {
        "bank": {"source": "$BANK", "table": "clients"},
        "clinic": {
            "source": "sqlite:///${HERE}/bank.db",
            "query": "select id, income from clients",
        },
    }
    config = tables(folder, data={"parties": parties})
    with pytest.raises(ConfigurationError, match="variable HERE is not set"):
        config.data.load()
    monkeypatch.setenv("HERE", str(folder))
    assert config.data.load().features["bank"].shape == (PEOPLE, 1)
    assert "$BANK" in json.dumps(config.as_dict())


def test_somebody_can_be_left_out(folder):
    everybody = tables(folder).data.load()
    config = tables(
        folder,
        data={"leave_out": ["bank"]},
        model={"bottoms": {"bank": {"widths": [3]}}},
        network={"parties": {"bank": {}}},
    )
    data = config.data.load()
    assert list(data.features) == ["clinic"]
    assert torch.equal(data.labels, everybody.labels)
    assert (data.test == everybody.test).all()
    assert [party.name for party in config.build_federation(data).parties] == ["clinic"]
    without = tables(folder).without("bank", seed=7)
    assert without.data.leave_out == ["bank"]
    assert without.training.seed == 7
    with pytest.raises(ConfigurationError, match="no party 'pub'"):
        tables(folder, data={"leave_out": ["pub"]}).data.load()
    with pytest.raises(ConfigurationError, match="every party"):
        tables(folder, data={"leave_out": ["bank", "clinic"]}).data.load()


def test_bottoms_may_differ(folder):
    config = tables(folder, model={"bottoms": {"clinic": {"widths": [5, 3]}}})
    bank, clinic = config.build_federation().parties
    assert bank.bottom[0].out_features == defaults.HIDDEN[0]
    assert [m.out_features for m in clinic.bottom if isinstance(m, nn.Linear)] == [5, 3]
    with pytest.raises(ConfigurationError, match="for 'pub', which is no part"):
        tables(folder, model={"bottoms": {"pub": {}}}).build_federation()


SCHEDULES = [
    ({"name": "cosine"}, [0.5, 0.0]),
    ({"name": "cosine", "epochs": 4, "lowest": 0.2}, [0.2 + 0.8 * (1 + 0.5**0.5) / 2, 0.6]),
    ({"name": "step", "every": 2, "factor": 0.5}, [1.0, 0.5]),
    ({"name": "milestones", "milestones": [1]}, [0.1, 0.1]),
    ({"name": "exponential", "factor": 0.9}, [0.9, 0.81]),
]


@pytest.mark.parametrize(("schedule", "rates"), SCHEDULES)
def test_schedules(schedule, rates, folder):
    optimiser = {"name": "sgd", "lr": 1.0, "scheduler": schedule}
    run = tables(folder, optimiser=optimiser).train()
    assert run.history["learning_rate"].to_list() == pytest.approx(rates)


def test_objectives():
    config = parse_config(
        {"objective": {"metrics": ["top_3_accuracy", "auc"], "class_weights": [1, 2, 3]}}
    )
    objective = config.objective.build(3)
    assert [metric.name for metric in objective.metrics()] == ["top_3_accuracy", "auc"]
    assert objective.class_weights == (1.0, 2.0, 3.0)
    assert isinstance(parse_config({}).objective.build(None), Regression)
    decided = parse_config({"objective": {"threshold": 0.2}}).objective.build(2)
    scores, targets = torch.tensor([[0.0, -1.0]]), torch.tensor([1])
    assert {m.name: m(scores, targets) for m in decided.metrics() if m.name == "accuracy"} == {
        "accuracy": 1.0
    }
    assert ACCURACY(scores, targets) == 0.0


@pytest.mark.parametrize(
    ("objective", "classes", "message"),
    [
        ({"class_weights": [1, 2]}, 3, "objective: class_weights has 2 numbers for 3 classes"),
        ({"class_weights": [1, -2]}, 2, "objective: class weights must be above 0"),
        ({"threshold": 0.5}, 3, "objective: a threshold decides between two classes"),
        ({"threshold": 0.5}, None, "objective: class_weights and threshold are for classes"),
    ],
)
def test_objectives_that_do_not_fit_the_labels(objective, classes, message):
    config = parse_config({"objective": objective})
    with pytest.raises(ConfigurationError, match=message):
        config.objective.build(classes)


def test_balanced_weights_are_the_inverse_of_frequency():
    labels = torch.tensor([0] * 6 + [1] * 3)
    assert torch.allclose(balanced_weights([6, 3]), torch.tensor([0.75, 1.5]))
    balanced = Classification(2, "balanced")
    loss = balanced.loss(balanced.learned(labels))
    logits = torch.randn(9, 2)
    each = nn.functional.cross_entropy(logits, labels, reduction="none")
    assert torch.allclose(loss(logits, labels), (each[:6].mean() + each[6:].mean()) / 2)
    with pytest.raises(DataError, match="class 2 has no training row"):
        balanced_weights([6, 3, 0])


@pytest.mark.parametrize(
    ("objective", "learned", "said"),
    [
        (Classification(2, "balanced"), {}, "by how many rows each has, not by None"),
        (Classification(2, "balanced"), {"counts": "ab"}, "not by 'ab'"),
        (Classification(2, "balanced"), {"counts": [-5, 10]}, r"not by \[-5, 10\]"),
        (Classification(2, "balanced"), {"counts": [math.nan, 1]}, r"not by \[nan, 1\]"),
        (Classification(2, "balanced"), {"counts": [1e308, 1]}, r"not by \[1e\+308, 1\]"),
        (Classification(2, "balanced"), {"counts": [True, 1]}, r"not by \[True, 1\]"),
        (Classification(2, "balanced"), {"counts": [2**63 - 1] * 2}, "not by"),
        (Classification(2, "balanced"), {"counts": [1, 2, 3]}, "by 3 counts of rows, and there"),
        (Regression(), {}, r"finite numbers, the scale above 0, not \(None, None\)"),
        (Regression(), {"mean": math.nan, "scale": 1.0}, "finite numbers"),
        (Regression(), {"mean": 0.0, "scale": -1.0}, "the scale above 0"),
        (Regression(), {"mean": "0", "scale": 1.0}, "finite numbers"),
        (Regression(), {"mean": 1e39, "scale": 1.0}, "models compute in float32"),
    ],
)
def test_what_nobody_can_have_learned_of_labels_is_refused(objective, learned, said):
    with pytest.raises(ConfigurationError, match=said):
        objective.loss(learned)


def test_early_stopping():
    section = {"training": {"early_stopping": {"patience": 2, "min_delta": 0.01}}}
    assert parse_config(section).training.build().early_stopping == EarlyStopping(2, 0.01)
    forever = parse_config({"training": {"early_stopping": {"patience": None}}})
    assert forever.training.build().early_stopping == EarlyStopping(None)
    by_metric = parse_config({"training": {"early_stopping": {"by": "metric"}}})
    assert by_metric.training.build().early_stopping == EarlyStopping(by="metric")


def test_training_stops_early_where_there_are_rows_to_tell_by():
    usual = parse_config({}).training
    assert usual.build(validation_rows=0).early_stopping is None
    assert usual.build(validation_rows=30).early_stopping == EarlyStopping()
    never = parse_config({"training": {"early_stopping": None}}).training
    assert never.build(validation_rows=30).early_stopping is None


def test_files_and_estimators_have_the_same_defaults():
    config, model = parse_config({}), VerticalClassifier()
    layers = Layers(tuple(model.hidden), model.activation, model.dropout)
    assert config.model.bottom.build() == layers == Layers()
    assert config.model.top.build() == Layers(tuple(model.top), model.activation)
    assert Blueprint(Classification(2)).top == config.model.top.build()
    assert config.optimiser.lr == model.learning_rate
    assert config.training.build(validation_rows=30) == model.training()


def test_steps_go_by_the_training_rows(folder):
    config = tables(folder, training={"epochs": "auto", "batch_size": "auto"})
    federation = config.build_federation()
    batches = federation.agreement(svfl(), config.training.build()).batches
    assert batches.batch_size == defaults.batch_size(len(federation.train_rows)) == 16
    assert batches.rounds == defaults.epochs(batches.rounds_per_epoch) * batches.rounds_per_epoch
    summary = tables(folder, training={"epochs": 1}).train().summary
    assert (summary["batch_size"], summary["epochs"]) == (16, 1)


def test_a_device_that_is_not_there(folder):
    with pytest.raises(ConfigurationError, match="'bank' cannot compute on 'cuda:99'"):
        tables(folder, model={"device": "cuda:99"}).build_federation()


REFUSED = [
    (
        {"data": {"id": "id", "parties": {}, "labels": {"source": "x", "column": "y"}}},
        "data.parties",
    ),
    ({"data": {"name": "tables", "id": "id", "parties": {"a": {"source": "a"}}}}, "data.labels"),
    ({"data": {"name": "tables"}}, "data.parties: is required"),
    ({"data": {"name": "tables", "ids": {"pad": 0}}}, "data.ids.pad"),
    ({"data": {"name": "openml", "dataset": "x", "partis": {}}}, "data.partis: unknown key"),
    ({"data": {"name": "credit_default", "split": {"test": 1}}}, "data.split.test"),
    (
        {"data": {"name": "credit_default", "split": {"test": 0.6, "validation": 0.4}}},
        "data.split:",
    ),
    ({"objective": {"metrics": ["auk"]}}, "objective.metrics.0: there is no such metric"),
    ({"objective": {"metrics": ["top_0_accuracy"]}}, "objective.metrics.0: there is no such"),
    ({"objective": {"threshold": 1}}, "objective.threshold"),
    ({"optimiser": {"scheduler": {"name": "step"}}}, "optimiser.scheduler: step needs every"),
    ({"optimiser": {"scheduler": {"name": "milestones"}}}, "optimiser.scheduler: milestones needs"),
    ({"optimiser": {"scheduler": {"name": "linear"}}}, "optimiser.scheduler.name"),
    ({"training": {"early_stopping": {"patience": 0}}}, "training.early_stopping.patience"),
    ({"model": {"bottoms": {"bank": {"widths": []}}}}, "model.bottoms.bank: widths"),
]


@pytest.mark.parametrize(("data", "message"), REFUSED)
def test_what_is_wrong_is_named_with_its_path(data, message):
    with pytest.raises(ConfigurationError) as caught:
        parse_config(data, "some.yaml")
    assert str(caught.value).removeprefix("some.yaml: ").startswith(message)


def test_the_schema_accepts_what_we_accept(folder):
    schema = json_schema()
    assert json.loads(json.dumps(schema)) == schema
    text = json.dumps(schema)
    for name in ("credit_default", "early_stopping", "leave_out", "scalar"):
        assert f'"{name}"' in text
    # A bare name stands for a codec, and a text with a unit for a number.
    embedding = schema["$defs"]["SvflMethod"]["properties"]["embedding"]
    assert {"$ref": "#/$defs/codecs"} in embedding["anyOf"]
    assert {"$ref": "#/$defs/ScalarCodec"} in schema["$defs"]["codecs"]["anyOf"]
    bandwidth = schema["$defs"]["NetworkConfig"]["properties"]["bandwidth"]
    assert {"type": "string"} in bandwidth["anyOf"]
