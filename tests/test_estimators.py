"""The estimators: scikit-learn's habits, tables in any order, classes, numbers, and partners."""

from __future__ import annotations

import math
import re
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.preprocessing import StandardScaler
from torch import nn

import colonnade as cn
from colonnade import defaults
from colonnade.assembly import Layers
from colonnade.drivers import Processes, Simulate
from colonnade.errors import ConfigurationError, DataError, DataWarning
from colonnade.estimators import VerticalClassifier, VerticalRegressor
from colonnade.metrics import ACCURACY, AUC
from colonnade.partners import PartnerValue, partner_values
from colonnade.tables import HashSplit

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

PEOPLE = 400
QUICK = {"epochs": 4, "batch_size": 50, "learning_rate": 0.02, "hidden": (8, 4)}


@pytest.fixture(scope="module")
def tables():
    random = np.random.default_rng(5)
    bank = pl.DataFrame(
        {
            "id": [f"p{i:03}" for i in range(PEOPLE)],
            "income": random.normal(50, 20, PEOPLE),
            "job": random.choice(["baker", "tailor", None], PEOPLE),
        }
    )
    shop = pl.DataFrame({"id": bank["id"], "spent": random.normal(10, 3, PEOPLE)})
    # The shop's table is in another order, and knows some people whom the bank does not.
    strangers = pl.DataFrame({"id": ["q1", "q2"], "spent": [1.0, 2.0]})
    shop = pl.concat([shop.sample(fraction=1, shuffle=True, seed=3), strangers])
    return {"bank": bank, "shop": shop}


@pytest.fixture(scope="module")
def labels(tables):
    joined = tables["bank"].join(tables["shop"], on="id", maintain_order="left")
    score = (joined["income"] - 50) / 20 + (joined["spent"] - 10) / 3
    return pl.DataFrame(
        {"id": joined["id"], "buys": ["yes" if value > 0 else "no" for value in score]}
    )


@pytest.fixture(scope="module")
def fitted(tables, labels):
    return VerticalClassifier(id="id", **QUICK).fit(tables, labels)


def without_strangers(tables):
    return {name: t.filter(pl.col("id").str.starts_with("p")) for name, t in tables.items()}


# scikit-learn's habits


@pytest.mark.parametrize("estimator", [VerticalClassifier, VerticalRegressor])
def test_parameters_are_stored_untouched_and_cloned(estimator):
    hidden, bottoms = [3, 2], {"bank": Layers((5,))}
    model = estimator(hidden=hidden, bottoms=bottoms, id="id", random_state=4)
    assert model.get_params()["hidden"] is hidden
    assert model.get_params()["bottoms"] is bottoms
    copy = clone(model)
    assert copy is not model
    assert {k: str(v) for k, v in copy.get_params().items()} == {
        k: str(v) for k, v in model.get_params().items()
    }
    assert model.set_params(hidden=(1,)).hidden == (1,)
    assert "random_state=4" in repr(model)


def test_kinds_are_told():
    assert is_classifier(VerticalClassifier())
    assert is_regressor(VerticalRegressor())


@pytest.mark.parametrize("use", ["predict", "predict_proba", "report"])
def test_nothing_works_before_fit(use, tables):
    with pytest.raises(NotFittedError):
        getattr(VerticalClassifier(), use)(tables)


def test_fit_returns_itself_and_leaves_parameters_alone(tables, labels):
    model = VerticalClassifier(id="id", **QUICK)
    before = str(model.get_params())
    assert model.fit(tables, labels) is model
    assert str(model.get_params()) == before
    assert model.n_features_in_ == 3
    assert model.parties_ == ("bank", "shop")


# Predictions


def test_numbers_of_numpys_are_parameters(tables, labels):
    """As a search over an array of them sets."""
    whole = {"epochs": np.int64(2), "batch_size": np.int32(50), "patience": np.int64(1)}
    shares = {"validation": np.float32(0.25), "threshold": np.float32(0.5)}
    own = {name: value.item() for name, value in (whole | shares).items()}
    one, two = (
        VerticalClassifier(id="id", **QUICK | given).fit(tables, labels)
        for given in (own, whole | shares)
    )
    assert one.run_.history.drop("seconds").equals(two.run_.history.drop("seconds"))
    first, second = (model.predict(tables, absent="drop") for model in (one, two))
    assert first.equals(second)
    with pytest.raises(ConfigurationError, match="epochs of Training is a whole number"):
        VerticalClassifier(id="id", epochs=np.float64(2.5)).fit(tables, labels)


@pytest.mark.parametrize("name", ["hidden", "top"])
@pytest.mark.parametrize("widths", [("8",), (8, 2.5), (True,), torch.tensor(3), torch.ones(2, 2)])
def test_widths_are_whole_numbers(tables, labels, name, widths):
    """A tensor of one number failed raw, as nobody can go through it."""
    with pytest.raises(
        ConfigurationError,
        match=rf"^{name} must be the widths of layers, such as \(32, 16\), not .+$",
    ):
        VerticalClassifier(id="id", **{name: widths}).fit(tables, labels)


def test_a_text_is_no_width(tables, labels):
    with pytest.raises(ConfigurationError, match="hidden must be the widths of layers, such as"):
        VerticalClassifier(id="id", hidden="8").fit(tables, labels)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        *(("bottoms", value, "a dict from a text to anything") for value in (-1, True, [Layers()])),
        ("bottoms", torch.tensor(3), "a dict from a text to anything"),
        ("bottoms", lambda: 1, "a dict from a text to anything"),
        *(("label_holder", value, "a text") for value in (["a"], {"p": 1}, np.array([3, 4]))),
    ],
)
def test_parameters_of_other_kinds_are_refused_by_their_name(tables, labels, name, value, kind):
    """They failed raw, in the middle of the work."""
    model = VerticalClassifier(id="id", **{name: value})
    with pytest.raises(ConfigurationError, match=f"^{name} is {kind} or None, not .+$"):
        model.fit(tables, labels)
    with pytest.raises(ConfigurationError, match=f"^{name} is {kind} or None, not .+$"):
        model.partner_values(tables, labels)


def test_a_federation_of_aligned_tables_looks_at_parameters_too(tables, labels):
    data, holder = VerticalClassifier(id="id")._prepared(tables, labels)
    with pytest.raises(ConfigurationError, match=r"^bottoms is a dict "):
        VerticalClassifier(bottoms=3).federation(data, holder)
    with pytest.raises(ConfigurationError, match=r"^label_holder is a text, not \['bank'\]$"):
        VerticalClassifier().federation(data, ["bank"])


def test_a_column_that_is_called_by_the_text_of_a_number():
    with pytest.raises(DataError, match="no column 0, which 'p' is to hold; it is called '0'"):
        VerticalClassifier(parties={"p": [0]}).fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_a_class_is_predicted_by_its_whole_name():
    x = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    given = np.array(["yes\0" if value > 0 else "yes" for value in x["a"]], dtype=object)
    parties = {"bank": ["a"], "shop": ["b"]}
    model = VerticalClassifier(parties=parties, **QUICK).fit(x, given.tolist())
    assert list(model.classes_) == ["yes", "yes\0"]
    assert (model.predict(x) == given).mean() == model.score(x, given.tolist())


def test_a_seed_of_numpys_is_the_same_seed(tables, labels):
    own, numpys = (
        VerticalClassifier(id="id", **{**QUICK, "random_state": seed}).fit(tables, labels)
        for seed in (3, np.int64(3))
    )
    assert own.run_.summary["seed"] == numpys.run_.summary["seed"] == 3
    assert own.run_.history.drop("seconds").equals(numpys.run_.history.drop("seconds"))


def test_predictions_are_labels_in_the_order_of_the_first_table(fitted, tables, labels):
    known = {
        name: table.filter(pl.col("id").str.starts_with("p")) for name, table in tables.items()
    }
    predicted, probabilities = fitted.predict(known), fitted.predict_proba(known)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert probabilities.shape == (PEOPLE, 2)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-6)
    assert (predicted == fitted.classes_[probabilities.argmax(1)]).all()
    truth = known["bank"].join(labels, on="id", maintain_order="left")["buys"].to_numpy()
    assert fitted.score(known, labels) == accuracy_score(truth, predicted)
    assert fitted.score(known, labels) > 0.75
    # In the order of another table, the same people have the same probabilities.
    turned = {"shop": known["shop"], "bank": known["bank"]}
    place = {person: row for row, person in enumerate(known["shop"]["id"])}
    order = [place[person] for person in known["bank"]["id"]]
    assert np.allclose(fitted.predict_proba(turned)[order], probabilities, atol=1e-6)
    assert fitted.score(turned, labels) == fitted.score(known, labels)


def test_the_same_twice_gives_the_same_bits(fitted, tables, labels):
    again = clone(fitted).fit(tables, labels)
    other = clone(fitted).set_params(random_state=1).fit(tables, labels)
    one, two, three = (
        torch.cat([p.flatten() for p in m.run_.models["bank"]["bottom"].parameters()])
        for m in (fitted, again, other)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_pandas_and_polars_and_positions_are_the_same(tables, labels):
    joined = tables["bank"].join(tables["shop"], on="id", maintain_order="left")
    frames = {"bank": joined.select("income", "job"), "shop": joined.select("spent")}
    pandas = {
        "bank": pd.DataFrame(
            {"income": joined["income"].to_list(), "job": joined["job"].to_list()}
        ),
        "shop": pd.DataFrame({"spent": joined["spent"].to_list()}),
    }
    one = VerticalClassifier(aligned=True, **QUICK).fit(frames, labels["buys"])
    two = VerticalClassifier(aligned=True, **QUICK).fit(pandas, pd.Series(labels["buys"].to_list()))
    divided = {"bank": ["income", "job"], "shop": ["spent"]}
    three = VerticalClassifier(parties=divided, **QUICK).fit(joined, labels["buys"].to_list())
    expected = one.predict_proba(frames)
    assert np.array_equal(two.predict_proba(pandas), expected)
    assert np.array_equal(three.predict_proba(joined), expected)
    with pytest.raises(DataError, match="'shop', and parties says how one is divided: give one"):
        three.predict(frames)


def test_the_label_may_be_a_column_of_a_party_which_then_holds_it(tables, labels):
    bank = tables["bank"].join(labels, on="id", maintain_order="left")
    model = VerticalClassifier(id="id", **QUICK).fit({"bank": bank, "shop": tables["shop"]}, "buys")
    assert model.label_holder_ == "bank"
    assert model.run_.summary["label_holder"] == "bank"
    assert {entry.sender for entry in model.run_.ledger if entry.kind == "embedding"} == {"shop"}
    people = {"bank": bank, "shop": tables["shop"].filter(pl.col("id").str.starts_with("p"))}
    assert model.score(people, "buys") > 0.8
    apart = VerticalClassifier(id="id", label_holder="insurer", **QUICK)
    apart.fit({"bank": bank, "shop": tables["shop"]}, "buys")
    senders = {entry.sender for entry in apart.run_.ledger if entry.kind == "embedding"}
    assert senders == {"bank", "shop"}


def test_whoever_had_the_labels_has_none_of_new_rows(tables, labels):
    """One table's column of labels, named among a party's, was asked for to predict."""
    joined = tables["bank"].join(tables["shop"], on="id").join(labels, on="id")
    divided = {"bank": ["income", "buys", "job"], "shop": ["spent"]}
    model = VerticalClassifier(parties=divided, **QUICK).fit(joined, "buys")
    assert model.label_holder_ == "bank"
    new = joined.drop("buys")
    assert (model.predict(new) == model.predict(joined)).all()
    assert model.score(joined, "buys") == model.score(new, joined["buys"].to_list())


def test_a_run_is_behind_it(fitted, tmp_path):
    summary = fitted.run_.summary
    assert summary["metric"] == "validation_auc"
    assert summary["rows_validation"] > 0
    assert summary["bytes_up"] == fitted.run_.ledger.bytes(
        lambda e: e.kind == "embedding" and e.purpose.label == "training"
    )
    path = fitted.report(tmp_path / "report.html")
    assert "<html" in path.read_text(encoding="utf-8")


def test_prediction_tells_its_messages(fitted, tables):
    known = {
        name: table.filter(pl.col("id").str.starts_with("p")) for name, table in tables.items()
    }
    prediction = fitted.prediction(known)
    assert prediction.ledger.bytes() == 2 * PEOPLE * 4 * 4


def test_classes_are_weighted_and_decided(tables, labels):
    plain = VerticalClassifier(id="id", **QUICK).fit(tables, labels)
    known = {
        name: table.filter(pl.col("id").str.starts_with("p")) for name, table in tables.items()
    }

    def yes(**settings):
        model = clone(plain).set_params(**settings).fit(tables, labels)
        return (model.predict(known) == "yes").mean()

    assert yes(class_weight={"no": 1, "yes": 20}) > yes() > yes(class_weight={"no": 20, "yes": 1})
    assert yes(threshold=0.1) > yes() > yes(threshold=0.9)
    assert yes(class_weight="balanced") == pytest.approx(yes(), abs=0.1)


def test_everything_can_be_said(tables, labels, tmp_path):
    model = VerticalClassifier(
        id="id",
        method=cn.methods.svfl(cn.codecs.Scalar(8), fusion=cn.Mean()),
        hidden=(6, 3),
        top=(5,),
        activation="tanh",
        dropout=0.1,
        bottoms={"shop": nn.Sequential(nn.Linear(1, 3), nn.Tanh())},
        transformers={"shop": StandardScaler()},
        optimiser=partial(torch.optim.SGD, lr=0.1),
        scheduler=partial(torch.optim.lr_scheduler.StepLR, step_size=2),
        epochs=3,
        validation=0.2,
        patience=None,
        metrics=(ACCURACY, AUC),
        driver=Processes(),
        out=tmp_path / "run",
        verbose=True,
    ).fit(tables, labels)
    assert model.run_.summary["metric"] == "validation_accuracy"
    assert model.run_.summary["driver"] == "processes"
    assert model.run_.history["learning_rate"].to_list() == pytest.approx([0.1, 0.01, 0.01])
    assert (tmp_path / "run" / "report.html").exists()


def test_numbers_are_in_their_own_unit(tables):
    joined = tables["bank"].join(tables["shop"], on="id", maintain_order="left")
    target = (3000 + 40 * joined["income"] + 200 * joined["spent"]).to_numpy()
    frames = {"bank": joined.select("income"), "shop": joined.select("spent")}
    steps = {"epochs": 25, "batch_size": 50, "learning_rate": 0.02}
    model = VerticalRegressor(aligned=True, hidden=(16, 8), **steps).fit(frames, target)
    predicted = model.predict(frames)
    assert predicted.shape == (PEOPLE,)
    assert model.score(frames, target) == pytest.approx(r2_score(target, predicted), abs=1e-6)
    assert model.score(frames, target) > 0.95
    assert model.run_.summary["metric"] == "validation_rmse"
    split = HashSplit(model.validation, 0.0, model.random_state, "fit")
    _, validation, _ = split.rows(pl.Series(range(PEOPLE)))
    assert model.run_.summary["best"] == pytest.approx(
        math.sqrt(np.mean((target - predicted)[validation] ** 2)), rel=1e-4
    )


# Defaults


def test_untuned_it_learns_what_lies_between_companies():
    random = np.random.default_rng(0)
    a, b = random.uniform(-1, 1, size=(2, 2000))
    tables = {
        name: pl.DataFrame({"id": range(2000), "x": column})
        for name, column in (("bank", a), ("shop", b))
    }
    signs = pl.DataFrame({"id": range(2000), "same": a * b > 0})
    model = VerticalClassifier(id="id", epochs=25)
    model.fit({name: table[:1500] for name, table in tables.items()}, signs[:1500])
    assert model.score({name: table[1500:] for name, table in tables.items()}, signs[1500:]) >= 0.97


def test_batches_go_by_the_number_of_rows(tables, labels):
    model = VerticalClassifier(id="id", epochs=1).fit(tables, labels)
    rows = model.run_.summary["rows_train"]
    assert model.batch_size_ == defaults.batch_size(rows) == 16
    assert model.run_.summary["rounds"] == math.ceil(rows / 16)
    assert model.get_params()["batch_size"] == "auto"


# What cannot be


@pytest.mark.parametrize(
    ("settings", "x", "y", "message"),
    [
        ({}, lambda t: t["bank"], None, "give each party's table in a dict"),
        ({"parties": {"bank": ["incom"]}}, lambda t: t["bank"], None, "has no column 'incom'"),
        ({}, lambda t: t, "none", "'none' is in no table"),
        ({}, lambda t: t, "id", "in the tables of bank and shop"),
        ({"id": "nr"}, lambda t: t, None, "nr"),
        ({"class_weight": {"yes": 1}}, lambda t: t, None, "no weight for 'no'"),
        ({"bottoms": {"pub": Layers()}}, lambda t: t, None, "'pub', which is no part"),
        ({"validation": 1.0}, lambda t: t, None, "validation"),
        ({"threshold": 2.0}, lambda t: t, None, "probability between 0 and 1"),
        ({"device": "cuda:77"}, lambda t: t, None, "cuda:77"),
        ({"activation": "swish"}, lambda t: t, None, "activation 'swish' is unknown"),
        ({"driver": "simulate"}, lambda t: t, None, "driver is 'simulate', but a driver is a"),
        ({"driver": Simulate}, lambda t: t, None, "driver is 'Simulate', but a driver is a value"),
        ({"normalise": "lower"}, lambda t: t, None, "normalise must be an IdForm or None"),
        ({"aligned": np.ones((2, 2))}, lambda t: t, None, "aligned must be True or False, not arr"),
        ({"optimiser": np.ones((2, 2))}, lambda t: t, None, "the optimiser of 'bank' cannot be ma"),
        ({"parties": {"bank": [["a"]]}}, lambda t: t["bank"], None, r"of which \['a'\] is none"),
        ({"aligned": "no"}, lambda t: t, None, "aligned must be True or False, not 'no'"),
        ({"out": ""}, lambda t: t, None, "out is the path of a folder, not ''"),
        ({"random_state": 0.5}, lambda t: t, None, "must be a signed 64-bit integer"),
    ],
)
def test_what_does_not_fit_is_said(settings, x, y, message, tables, labels):
    model = VerticalClassifier(**{"id": "id", **QUICK, **settings})
    with pytest.raises((ConfigurationError, DataError), match=message):
        model.fit(x(tables), labels if y is None else y)


def test_new_rows_that_do_not_fit_are_named(fitted, tables):
    people = {
        name: table.filter(pl.col("id").str.starts_with("p")) for name, table in tables.items()
    }
    strange = people["bank"].with_columns(job=pl.lit("smith"))
    with pytest.warns(DataWarning, match=r"'bank'.*'job'.*'smith'"):
        fitted.predict(people | {"bank": strange})
    with pytest.raises(DataError, match="'shop' has no row for the id"):
        fitted.predict(people | {"shop": people["shop"].head(10)})
    with pytest.raises(ConfigurationError, match="shop"):
        fitted.predict({"bank": people["bank"]})
    known = people["bank"].select("id", buys=pl.lit("maybe"))
    with pytest.raises(DataError, match="the label of row 0 is 'maybe'; expected"):
        fitted.score(people, known)


# Partners


def test_a_partner_is_worth_what_is_lost_without_it(tables, labels):
    noise = pl.DataFrame(
        {"id": tables["bank"]["id"], "noise": np.random.default_rng(1).normal(size=PEOPLE)}
    )
    found = VerticalClassifier(id="id", **QUICK).partner_values(
        tables | {"pub": noise}, labels, seeds=(0, 1)
    )
    gains = {value.partner: value.gain for value in found.values}
    assert list(found.runs) == ["everybody", "without bank", "without shop", "without pub"]
    assert gains["bank"] > 0.1
    assert gains["shop"] > 0.1
    assert abs(gains["pub"]) < 0.5 * min(gains["bank"], gains["shop"])
    everybody = found.runs["everybody"].summary
    without = found.runs["without pub"].summary
    sent = [s["bytes_up"] + s["bytes_down"] for s in (everybody, without)]
    assert found.values[2].bytes_sent == sent[0] - sent[1]
    assert without["parties"] == ["bank", "shop"]


def test_gains_have_the_metrics_direction():
    value = PartnerValue("bank", "rmse", (1.0, 2.0), (3.0, 5.0), False, 7)
    assert value.gains == (2.0, 3.0)
    assert (value.gain, value.standard_error) == (2.5, 0.5)
    assert value.as_dict()["gain"] == 2.5
    assert PartnerValue("bank", "auc", (0.5,), (0.4,), True, 0).as_dict()["standard_error"] is None


def test_partners_need_each_other():
    with pytest.raises(ConfigurationError, match="a single party"):
        partner_values(lambda partner, seed: None, ["bank"])
    with pytest.raises(ConfigurationError, match="a seed"):
        partner_values(lambda partner, seed: None, ["bank", "shop"], [])


def untrained(partner, seed):
    raise AssertionError("something was trained")


@pytest.mark.parametrize("seeds", [("0",), (1.5,), (None,), (True,), "ab", {"a": 1}, None, 2.0])
def test_seeds_that_are_no_whole_numbers_are_refused_before_anything_is_trained(seeds):
    asked = f"seeds is a whole number or a list, each a whole number, not {re.escape(repr(seeds))}"
    with pytest.raises(ConfigurationError, match=asked):
        partner_values(untrained, ["bank", "shop"], seeds)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        (iter([0, "1"]), r"each a whole number, not \[0, '1'\]"),
        ((0, 2**70), r"the seed must be a whole number from -2\^63 to 2\^63 - 1, not 118"),
        (0, "need a seed to train from"),
        (-1, "need a seed to train from"),
        (np.arange(0), "need a seed to train from"),
    ],
)
def test_the_last_seed_is_looked_at_before_anything_is_trained(seeds, message):
    with pytest.raises(ConfigurationError, match=message):
        partner_values(untrained, ["bank", "shop"], seeds)


@pytest.mark.parametrize(
    "seeds",
    [3, np.int64(3), np.arange(3), range(3), iter([0, 1, 2]), {0, 1, 2}, pl.Series([0, 1, 2])],
)
def test_seeds_are_those_that_are_given_or_the_first_so_many(fitted, seeds):
    trained = []

    def train(partner, seed):
        trained.append((partner, seed))
        return fitted.run_

    found = partner_values(train, ["bank", "shop"], seeds)
    assert trained == [(name, seed) for seed in range(3) for name in ("bank", "shop", None)]
    assert all(type(seed) is int for _, seed in trained)
    assert [len(value.gains) for value in found.values] == [3, 3]


def test_an_exported_part_works_alone(fitted, tables, tmp_path):
    """A party can embed its own new rows from its own folder: transformer and bottom are in it."""
    fitted.run_.export(tmp_path)
    part = cn.load_part(tmp_path / "bank")
    transformer = cn.tables.TableTransformer.from_state(part.details["transformer"])
    features = transformer.transform(tables["bank"])
    assert torch.equal(features, fitted.data_.transformers["bank"].transform(tables["bank"]))
    bottom = Layers((8, 4)).bottom(features)
    part.load_into(bottom)
    expected = fitted.run_.models["bank"]["bottom"].eval()(features)
    assert torch.equal(bottom.eval()(features), expected)


def test_no_patience_at_all_is_refused_and_none_is_all_epochs() -> None:
    with pytest.raises(
        ConfigurationError, match="patience must be 1 evaluation or more, a whole number, not 0"
    ):
        VerticalClassifier(patience=0).training()
    assert VerticalClassifier(patience=None).training().early_stopping is None
