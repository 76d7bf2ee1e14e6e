"""Everyday use of the estimators: what is kept, in which order, of whom, and what is told."""

from __future__ import annotations

import io
import re
import warnings
from datetime import date

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score

from colonnade import metrics
from colonnade.convergence import best_epoch, epochs_done, warn_if_improving
from colonnade.errors import ConfigurationError, DataError, DataWarning
from colonnade.estimators import VerticalClassifier, VerticalRegressor
from colonnade.estimators.estimator import _widths
from colonnade.ledger import Ledger
from colonnade.runs import Run
from colonnade.tables import TableTransformer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = {"epochs": 3, "learning_rate": 0.02, "hidden": (8, 4)}


def people(count, seed=5):
    """Return a bank's and a shop's table, each in an order of its own, and a table of answers."""
    random = np.random.default_rng(seed)
    ids = [f"person-{seed}-{i:06}" for i in range(count)]
    income, spent = random.normal(50, 20, count), random.normal(10, 3, count)
    bank = pl.DataFrame(
        {"id": ids, "income": income, "job": random.choice(["baker", "tailor"], count)}
    )
    shop = pl.DataFrame({"id": ids, "spent": spent}).sample(fraction=1, shuffle=True, seed=3)
    points = (income - 50) / 20 + (spent - 10) / 3
    answers = pl.DataFrame(
        {"id": ids, "buys": ["yes" if one > 0 else "no" for one in points], "points": points}
    )
    return {"bank": bank, "shop": shop}, answers.sample(fraction=1, shuffle=True, seed=4)


@pytest.fixture(scope="module")
def crowd():
    return people(300)


@pytest.fixture(scope="module")
def tables(crowd):
    return crowd[0]


@pytest.fixture(scope="module")
def answers(crowd):
    return crowd[1].drop("points")


@pytest.fixture(scope="module")
def fitted(tables, answers):
    return VerticalClassifier(id="id", batch_size=50, **QUICK).fit(tables, answers)


@pytest.fixture(scope="module")
def regressor(crowd):
    tables, answers = crowd
    return VerticalRegressor(id="id", batch_size=50, **QUICK).fit(
        tables, answers.select("id", "points")
    )


# What a fitted estimator keeps


def dumped(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    return file.getvalue()


def fit_on(count, target="buys", **settings):
    tables, answers = people(count)
    kind = VerticalClassifier if target == "buys" else VerticalRegressor
    # As many rounds whatever the number of rows, as the ledger has a line for each message.
    model = kind(id="id", batch_size=count // 5, **QUICK, **settings)
    return model.fit(tables, answers.select("id", target)), tables, answers


def traces(tables, answers):
    """Return what of the rows would be found in memory: ids, and values of neighbours."""
    yield from (id.encode() for id in answers["id"])
    in_order = {name: table.sort("id") for name, table in tables.items()}
    columns = [in_order["bank"]["income"], tables["shop"]["spent"], answers["points"]]
    columns += [in_order["shop"]["spent"], answers.sort("id")["points"]]
    for column in columns:
        for kind in (np.float64, np.float32):
            raw, size = column.to_numpy().astype(kind).tobytes(), np.dtype(kind).itemsize
            yield from (raw[i : i + 2 * size] for i in range(0, len(raw) - size, size))


def test_a_dump_holds_no_example_of_what_was_told_of_tables(tmp_path):
    """Ids that differ in writing only, and cells with their row, were in the run's warnings."""
    ids = [f"patient-{number:03}" for number in range(60)]
    jobs = ["clerk"] * 50 + [f"judge {number}" for number in range(10)]
    notes = [f"{number}" for number in range(50)] + [f"note {number}" for number in range(10)]
    bank = {"id": ids, "income": range(60), "job": jobs, "visits": notes}
    others = [id.upper() if id.endswith("7") else id for id in ids]
    tables = {"bank": pl.DataFrame(bank), "shop": pl.DataFrame({"id": others, "spent": range(60)})}
    answers = pl.DataFrame({"id": ids, "buys": ["yes", "no", "no "] * 20})
    model = VerticalClassifier(id="id", epochs=1, out=tmp_path / "run")
    with pytest.warns(DataWarning) as told:
        model.fit(tables, answers)
    quoted = ["'patient-007' and 'PATIENT-007'", "such as 'judge ", "such as 'note ", "'no '"]
    said = " ".join(str(each.message) for each in told)
    assert [words for words in quoted if words not in said] == []
    texts = [dumped(model).decode("latin-1")]
    texts += [(tmp_path / "run" / name).read_text() for name in ("summary.json", "report.html")]
    for text in texts:
        assert "differ only in spaces" in text
        assert "did not occur among the training rows" in text
        assert not [words for words in ("PATIENT", "such as 'judge", "in row ") if words in text]


def test_a_dump_of_a_run_on_disk_holds_no_trace_of_its_data(tmp_path):
    """Labels of some dozens of rows could be worked out of what told whether they have changed."""
    model, _, _ = fit_on(60, out=tmp_path / "run")
    assert model.run_.predictor.traces
    assert not joblib.load(io.BytesIO(dumped(model))).run_.predictor.traces


@pytest.mark.parametrize("target", ["buys", "points"])
@pytest.mark.parametrize("transformer", [None, TableTransformer(output="dict")])
def test_a_dump_holds_no_row_id_or_label(target, transformer):
    model, tables, answers = fit_on(200, target, transformers=transformer)
    raw = dumped(model)
    assert [trace for trace in traces(tables, answers) if trace in raw] == []
    coded = (answers.sort("id")["buys"] == "yes").to_numpy()
    for kind in (np.int64, np.float32, np.bool_):
        assert coded.astype(kind).tobytes()[:100] not in raw
    assert b"income" in raw  # the search finds what is there
    # Features are no more there than the values that they were made from.
    for features in model.data_.transform(tables)[1].values():
        for tensor in features.values() if isinstance(features, dict) else [features]:
            if tensor.is_floating_point():
                assert not any(row.numpy().tobytes() in raw for row in tensor if row.numel() > 1)
            else:
                assert tensor.numpy().tobytes()[:200] not in raw


def test_the_size_of_a_dump_does_not_grow_with_the_rows():
    small, large = (len(dumped(fit_on(count)[0])) for count in (200, 4000))
    assert abs(large - small) < 200  # numbers with more digits


def test_a_loaded_estimator_predicts_the_same_bits(fitted, tables, answers, tmp_path):
    joblib.dump(fitted, tmp_path / "model")
    loaded = joblib.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(tables), fitted.predict_proba(tables))
    assert (loaded.classes_.tolist(), loaded.score(tables, answers)) == (
        ["no", "yes"],
        fitted.score(tables, answers),
    )
    assert loaded.run_.summary == fitted.run_.summary
    assert loaded.run_.ledger.bytes() == fitted.run_.ledger.bytes() > 0
    assert (
        clone(loaded)
        .fit(tables, answers)
        .run_.history.drop("seconds")
        .equals(fitted.run_.history.drop("seconds"))
    )


def test_a_run_shows_its_bottoms_zeros_and_no_row(fitted):
    for features in fitted.run_.predictor.examples.values():
        assert features.shape[0] == 2
        assert not features.any()


def test_what_was_exported_from_zeros_runs_on_rows(fitted, tables, tmp_path):
    fitted.run_.export(tmp_path, programs=True)
    features = fitted.data_.transform(tables)[1]["bank"]
    program = torch.export.load(tmp_path / "bank" / "bottom.pt2").module()
    expected = fitted.run_.models["bank"]["bottom"].eval()(features)
    assert torch.allclose(program(features), expected, atol=1e-6)


# Little data


def test_validation_rows_that_cannot_judge_are_told():
    """Of a dozen people the share for validation is one person or none, and of one class."""
    tables, answers = people(12)
    told = []
    for seed in range(12):
        model = VerticalClassifier(id="id", random_state=seed, epochs=1)
        try:
            model.fit(tables, answers.select("id", "buys"))
        except DataError as error:
            told.append(str(error))
    wanted = r"of 12, have none of class '(no|yes)', so .* a greater validation=, or none by valid"
    some = [one for one in told if not one.startswith("none of 12 people is for validation")]
    assert some
    assert all(re.search(wanted, one) for one in some)
    for settings in ({"validation": 0}, {"validation": 0.5}):
        model = VerticalClassifier(id="id", random_state=1, epochs=1, **settings)
        assert model.fit(tables, answers.select("id", "buys")).n_iter_ == 1


# In which order


def test_scores_do_not_depend_on_the_order_of_labels_with_ids(fitted, tables, answers):
    truth = tables["bank"].join(answers, on="id", maintain_order="left")["buys"].to_numpy()
    expected = accuracy_score(truth, fitted.predict(tables))
    given = [
        answers,
        answers.sort("id"),
        {"id": answers["id"].to_list(), "buys": answers["buys"].to_list()},
        pd.DataFrame({"id": answers["id"].to_list(), "buys": answers["buys"].to_list()}),
        pd.Series(
            answers["buys"].to_list(), pd.Index(answers["id"].to_list(), name="id"), name="buys"
        ),
    ]
    assert [fitted.score(tables, one) for one in given] == [expected] * len(given)
    other = {"shop": tables["shop"], "bank": tables["bank"]}
    assert [fitted.score(other, one) for one in given] == [expected] * len(given)


def test_labels_may_be_a_series_with_the_ids_as_index(fitted, tables, answers):
    labels = pd.Series(answers["buys"].to_list(), pd.Index(answers["id"].to_list(), name="id"))
    again = clone(fitted).fit(tables, labels)
    assert np.array_equal(again.predict_proba(tables), fitted.predict_proba(tables))


def test_labels_without_ids_are_matched_only_where_all_tables_are_in_one_order(
    fitted, tables, answers
):
    labels = tables["bank"].join(answers, on="id", maintain_order="left")["buys"]
    with pytest.raises(DataError, match=r"no ids, .*same order \('shop' differs\); give a table"):
        fitted.score(tables, labels)
    ids = tables["bank"].select("id")
    alike = tables | {"shop": ids.join(tables["shop"], on="id", maintain_order="left")}
    assert fitted.score(alike, labels) == fitted.score(alike, answers)
    with pytest.raises(DataError, match="there are 299 labels for 300 rows"):
        fitted.score(alike, labels[1:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: pl.concat([a, a[:1]]), "'labels' has the id"),
        (lambda a: a[1:], "there is no label for the id .*1 of 300"),
        (lambda a: a.with_columns(other=1), "must have one column beside the id, not 2"),
        (lambda a: a.with_columns(id=pl.int_range(pl.len())), "give both the same type"),
        (lambda a: a.rename({"id": "nr"}), "has no column 'id'"),
        (lambda a: a.with_columns(buys=pl.lit(None, pl.String)), "the label of row 0 is missing"),
    ],
)
def test_labels_that_cannot_be_matched_are_refused(fitted, tables, answers, change, message):
    with pytest.raises(DataError, match=message):
        fitted.score(tables, change(answers))


@pytest.fixture(scope="module")
def pandas(tables, answers):
    """Return tables of pandas with an index of people, in one order, and their labels."""
    joined = tables["bank"].join(tables["shop"], on="id").join(answers, on="id").sort("income")
    index = pd.Index(np.random.default_rng(0).permutation(len(joined)), name="who")
    frames = {
        "bank": pd.DataFrame({"income": joined["income"].to_list()}, index),
        "shop": pd.DataFrame({"spent": joined["spent"].to_list()}, index),
    }
    return frames, pd.Series(joined["buys"].to_list(), index, name="buys")


def test_an_index_in_another_order_is_refused(pandas):
    frames, labels = pandas
    model = VerticalClassifier(batch_size=50, **QUICK).fit(frames, labels)
    shuffled = labels.sample(frac=1, random_state=1)
    for use in (clone(model).fit, model.score):
        for wrong in (shuffled, shuffled.to_frame(), labels.reset_index(drop=True)):
            with pytest.raises(DataError, match=r"has the index .*y\.loc\[X\.index\].*to_numpy"):
                use(frames, wrong)
    expected = accuracy_score(labels, model.predict(frames))
    aligned = shuffled.loc[labels.index]
    for good in (labels, aligned, labels.to_frame(), labels.to_numpy(), labels.to_list()):
        assert model.score(frames, good) == expected
    one = pd.concat(frames.values(), axis=1)
    parties = {"bank": ["income"], "shop": ["spent"]}
    whole = VerticalClassifier(parties=parties, batch_size=50, **QUICK)
    with pytest.raises(DataError, match="has the index"):
        whole.fit(one, shuffled)


def test_rows_that_are_said_to_be_aligned_need_no_index(pandas):
    frames, labels = pandas
    counted = labels.reset_index(drop=True)
    model = VerticalClassifier(aligned=True, batch_size=50, **QUICK).fit(frames, counted)
    expected = accuracy_score(labels, model.predict(frames))
    assert model.score(frames, counted) == model.score(frames, labels.to_numpy()) == expected


def test_a_regressor_compares_as_many_numbers_as_it_predicts(crowd):
    tables, answers = crowd
    points = answers.select("id", "points")
    model = VerticalRegressor(id="id", batch_size=50, **QUICK).fit(tables, points)
    truth = tables["bank"].join(points, on="id", maintain_order="left")["points"]
    expected = r2_score(truth, model.predict(tables))
    assert model.score(tables, points) == pytest.approx(expected, abs=1e-6)
    alone = VerticalRegressor(aligned=True, batch_size=50, **QUICK)
    frames = {"bank": tables["bank"].drop("id"), "shop": tables["shop"].drop("id")}
    alone.fit(frames, truth)
    with pytest.raises(DataError, match="there are 1 labels for 300 rows"):
        alone.score(frames, [1.0])


STRANGE = {
    "texts": ["yes", *["no"] * 299],
    "none": [float("nan"), *[0.5] * 299],
    "infinite": [0.5, float("inf"), *[0.5] * 298],
    "lists": pl.Series([[1]] * 300),
    "dates": pl.Series([date(2020, 1, 1)] * 300),
    "truth values": [True, False] * 150,
}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("texts", "the labels are like 'yes', and regression needs numbers"),
        ("none", "the label of row 0 is missing; leave the row out"),
        ("infinite", "the label of row 1 is inf; expected finite numbers"),
        ("lists", r"the labels hold List\(Int64\); expected text, truth values"),
        ("dates", "the labels hold Date; expected text, truth values"),
        ("truth values", "the labels are like True, and regression needs numbers"),
    ],
)
def test_labels_that_are_no_numbers_have_no_score(regressor, tables, kind, words):
    labels = pl.DataFrame({"id": tables["bank"]["id"], "points": STRANGE[kind]})
    with pytest.raises(DataError, match=words):
        regressor.score(tables, labels)


def test_numbers_that_are_too_near_to_be_learned_have_a_score(regressor, tables):
    near = pl.DataFrame({"id": tables["bank"]["id"], "points": [0.0, *[1e-40] * 299]})
    assert regressor.score(tables, near) < 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("none", "the label of row 0 is missing; leave the row out"),
        ("infinite", "the labels are fractions"),
        ("lists", r"the labels hold List\(Int64\); expected text, truth values"),
        ("dates", "the labels hold Date; expected text, truth values"),
        ("truth values", "the label of row 0 is True; expected 'no', 'yes'"),
    ],
)
def test_labels_that_are_no_classes_have_no_score(fitted, tables, kind, words, monkeypatch):
    def predict(*_):
        raise AssertionError("labels are read before anything is predicted")

    monkeypatch.setattr(Run, "predict", predict)
    labels = pl.DataFrame({"id": tables["bank"]["id"], "buys": STRANGE[kind]})
    with pytest.raises(DataError, match=words):
        fitted.score(tables, labels)


# Of whom


def test_people_whom_a_company_lacks_are_an_error_that_names_it(fitted, tables):
    fewer = tables | {"shop": tables["shop"].sort("id")[3:]}
    message = "'shop' has no row for the id 'person-5-000000'.*(3 at 'shop').*absent='drop'"
    for use in (fitted.predict, fitted.predict_proba, fitted.prediction):
        with pytest.raises(DataError, match=message):
            use(fewer)


def test_or_they_are_left_out_and_the_others_are_named(fitted, tables, answers):
    fewer = {"bank": tables["bank"][:-5], "shop": tables["shop"].sort("id")[3:]}
    kept = tables["bank"]["id"][3:-5]
    whole = dict(zip(tables["bank"]["id"], fitted.predict(tables), strict=True))
    probable = dict(zip(tables["bank"]["id"], fitted.predict_proba(tables)[:, 1], strict=True))

    predicted = fitted.predict(fewer, absent="drop")
    assert predicted.columns == ["id", "predicted"]
    assert predicted["id"].to_list() == kept.to_list()
    assert predicted["predicted"].to_list() == [whole[id] for id in kept]
    found = fitted.predict_proba(fewer, absent="drop")
    assert found.columns == ["id", "no", "yes"]
    assert found["yes"].to_list() == pytest.approx([probable[id] for id in kept], abs=1e-6)
    turned = fitted.predict(dict(reversed(fewer.items())), absent="drop")
    order = [id for id in fewer["shop"]["id"] if id in set(kept)]
    assert turned["id"].to_list() == order
    assert turned.sort("id").equals(predicted.sort("id"))

    prediction = fitted.prediction(fewer, absent="drop")
    assert prediction.ids.to_list() == kept.to_list()
    assert prediction.left_out == {"bank": 3, "shop": 5}
    truth = dict(answers.rows())
    share = np.mean([whole[id] == truth[id] for id in kept])
    assert fitted.score(fewer, answers, absent="drop") == pytest.approx(share)
    with pytest.raises(DataError, match="these labels have no ids"):
        fitted.score(fewer, answers["buys"], absent="drop")


def test_nobody_is_left_out_where_all_are_there(fitted, tables):
    prediction = fitted.prediction(tables)
    assert prediction.ids.to_list() == tables["bank"]["id"].to_list()
    assert prediction.left_out == {"bank": 0, "shop": 0}
    dropping = fitted.predict(tables, absent="drop")
    assert (dropping["predicted"].to_numpy() == fitted.predict(tables)).all()


def test_nobody_can_be_left_out_without_an_id(pandas, fitted, tables):
    frames, labels = pandas
    model = VerticalClassifier(batch_size=50, **QUICK).fit(frames, labels)
    with pytest.raises(ConfigurationError, match=re.escape("train with id=...")):
        model.predict(frames, absent="drop")
    with pytest.raises(ConfigurationError, match="absent must be 'error' or 'drop', not 'skip'"):
        fitted.predict(tables, absent="skip")


# How long


def test_how_many_epochs_there_were_is_told(fitted, tables, answers):
    assert fitted.n_iter_ == 3
    history = fitted.run_.history
    best = history.row(history["validation_loss"].arg_min(), named=True)
    assert fitted.best_epoch_ == best["epoch"]
    early = clone(fitted).set_params(epochs=60, patience=2, learning_rate=0.1).fit(tables, answers)
    assert early.run_.summary["stopped_early"]
    assert early.n_iter_ == early.run_.history["epoch"].max() == early.best_epoch_ + 2
    without = clone(fitted).set_params(validation=0).fit(tables, answers)
    assert (without.n_iter_, without.best_epoch_) == (3, None)


def test_a_run_that_was_interrupted_at_once_had_no_epoch():
    bare = {"best_round": None, "completed": False}
    run = Run(bare, pl.DataFrame(schema={"round": pl.Int64}), Ledger(), {}, None)
    assert (epochs_done(run), best_epoch(run)) == (0, None)
    warn_if_improving(run, 3, 5)


def evaluated(values, metric="validation_auc", **summary):
    """Return a run with these values of its metric, an epoch of 7 rounds each."""
    rounds = [7 * (i + 1) for i in range(len(values))]
    history = pl.DataFrame(
        {"round": rounds, "epoch": [r / 7 for r in rounds], metric: values}, strict=False
    )
    greater = metric == "validation_auc"
    best = (max if greater else min)(v for v in values if v == v)
    of = {"metric": metric, "greater_is_better": greater, "best": best}
    of |= {"best_round": rounds[values.index(best)], "completed": True, "stopped_early": False}
    return Run(of | summary, history, Ledger(), {}, None)


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "patience", "warns"),
    [
        ([0.5, 0.6, 0.7, 0.8], 5, True),  # rises to the end
        ([0.5, 0.6, 0.7, 0.8], None, True),
        ([0.5, 0.6, 0.8, 0.7], 1, False),  # best an epoch before the end
        ([0.5, 0.6, 0.8, 0.7], 2, True),
        ([0.8, 0.7, 0.7, 0.7], 5, False),  # never better than at first
        ([0.5, 0.9, 0.899, 0.9001], 2, False),  # a hundredth of the gain is 0.004
        ([0.5, 0.9, 0.899, 0.905], 2, True),
        ([0.5], 5, False),  # one evaluation shows no direction
        ([NAN, 0.6, 0.7], 2, True),
    ],
)
def test_a_metric_still_rises_or_not(values, patience, warns):
    for run in (
        evaluated(values),
        evaluated([1 - value for value in values], "validation_rmse"),
    ):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            warn_if_improving(run, len(values), patience)
        assert [each.category for each in found] == [ConvergenceWarning] * warns


@pytest.mark.parametrize(
    "known",
    [
        {"stopped_early": True},
        {"completed": False},
        {"best_round": None, "best": None},
        {"best": None},  # a metric that was never a finite number
    ],
)
def test_a_run_that_did_not_run_out_of_epochs_is_no_reason(known):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_improving(evaluated([0.5, 0.6, 0.7], **known), 3, 5)


def test_too_few_epochs_are_told(tables, answers):
    slow = QUICK | {"epochs": 2, "learning_rate": 0.002}
    model = VerticalClassifier(id="id", batch_size=50, **slow)
    found = r"ran out of its 2 epochs with the validation AUC still getting better .*epochs=4"
    with pytest.warns(ConvergenceWarning, match=found) as caught:
        model.fit(tables, answers)
    assert caught[0].filename == __file__  # the caller's line is shown
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(validation=0).fit(tables, answers)


def fitted_with(column=None, tables=None, **settings):
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 120))
    first = {"a": a if column is None else column(a)}
    usual = {"aligned": True, "epochs": 1, "batch_size": 32}
    model = VerticalClassifier(**usual | settings)
    return model.fit(
        {"p": first, "q": {"b": b}} if tables is None else tables, np.where(a + b > 0, "yes", "no")
    )


@pytest.mark.parametrize(
    "column",
    [
        lambda a: torch.tensor(a).bfloat16(),
        lambda a: torch.tensor(a).to_sparse(),
    ],
)
def test_columns_are_taken_as_libraries_bring_them(column):
    fitted_with(column)


@pytest.mark.parametrize("unit", ["Y", "M", "h", "s"])
def test_dates_of_any_unit_are_told_apart_from_numbers(unit):
    dates = np.array(["2020-01-01", "NaT"] * 60, dtype=f"datetime64[{unit}]")
    with pytest.raises(DataError, match="make a number of it first"):
        fitted_with(lambda a: dates)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"class_weight": "foo"}, "class weights are 'balanced' or a number for each class"),
        ({"class_weight": [1, 2]}, "class weights are 'balanced' or a number for each class"),
        ({"class_weight": {"yes": "a", "no": 1}}, "class weights are numbers"),
        ({"class_weight": {"yes": float("nan"), "no": 1}}, "class weights must be above 0"),
        (
            {"class_weight": {"yes": 1e300, "no": 1}},
            r"class weights are .* from 1e-20 to 1e\+20",
        ),
        ({"threshold": "a"}, "a threshold is a probability"),
        ({"metrics": "auc"}, r"'auc' is no metric: say colonnade\.metrics\.AUC"),
        ({"metrics": ["auc"]}, r"'auc' is no metric: say colonnade\.metrics\.AUC"),
        ({"metrics": [3]}, r"3 is no metric: give what colonnade\.metrics has"),
        ({"metrics": [metrics.accuracy]}, r"'accuracy' is no metric: say .*\.ACCURACY"),
        ({"metrics": [metrics.top_k_accuracy]}, r"no metric: say colonnade\.metrics\.top_k\(5\)"),
        ({"metrics": [lambda s, t: 0]}, "the function '<lambda>' is no metric: give what"),
        ({"metrics": 5}, "metrics must be a list of metrics, not 5"),
        ({"metrics": metrics.AUC}, "metrics must be a list of metrics, not Metric"),
        ({"hidden": "32"}, "hidden must be the widths of layers, such as .*, not '32'"),
        ({"hidden": 3.5}, "hidden must be the widths of layers, such as .*, not 3.5"),
        ({"hidden": 0}, "width"),
        ({"parties": ["p"]}, "parties must be a dict from names to columns, not a list"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0, not 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, not nan"),
        ({"learning_rate": 10**400}, "learning_rate must be a number above 0, not 1000"),
        ({"learning_rate": "fast"}, "learning_rate must be a number above 0, not 'fast'"),
        ({"out": 5}, "out is the path of a folder, not 5"),
        ({"device": None}, "cannot compute on 'None'"),
        ({"id": ["a"]}, "id is the name of one column"),
    ],
)
def test_a_setting_of_another_kind_is_refused_in_words(settings, why):
    with pytest.raises(ConfigurationError, match=why):
        fitted_with(**settings)


def test_a_number_is_the_width_of_one_layer():
    made = VerticalClassifier(hidden=6, top=np.int64(4))._layers()
    assert made == VerticalClassifier(hidden=[6])._layers()
    assert VerticalClassifier(hidden=np.array(6), top=np.array(4))._layers() == made
    assert fitted_with(hidden=6, top=3).n_iter_ >= 1


def test_widths_of_numpy_are_python_s():
    assert {*map(type, _widths("hidden", (np.int64(6), 4)))} == {int}
    with pytest.raises(ConfigurationError, match=r"widths of layers, .* not 3\.5"):
        _widths("hidden", np.array(3.5))


@pytest.mark.parametrize("given", [True, b"ab"])
@pytest.mark.parametrize("name", ["hidden", "top"])
def test_truth_values_and_bytes_are_no_widths(name, given):
    with pytest.raises(ConfigurationError, match=f"{name} must be the widths of layers, .* not "):
        fitted_with(**{name: given})


def test_a_class_of_metrics_is_called_a_class():
    with pytest.raises(ConfigurationError, match="the class 'Metric' is no metric"):
        fitted_with(metrics=[metrics.Metric])


def test_a_text_is_no_list_of_columns():
    table = pl.DataFrame({"a": np.zeros(120), "b": np.zeros(120)})
    with pytest.raises(ConfigurationError, match=r"parties\['p'\] must .*, not 'a': say \['a'\]"):
        fitted_with(tables=table, parties={"p": "a", "q": ["b"]})
    with pytest.raises(ConfigurationError, match=r"parties\['p'\] must .*, not 5$"):
        fitted_with(tables=table, parties={"p": 5, "q": ["b"]})
    once = (column for column in ["a"])
    with pytest.raises(ConfigurationError, match=r"parties\['p'\] must .*, not a generator, which"):
        fitted_with(tables=table, parties={"p": once, "q": ["b"]})


def test_a_learning_rate_may_be_a_number_of_numpys(tmp_path):
    rate = np.float32(0.01)
    tables = {"bank": {"a": np.arange(40.0)}, "shop": {"b": np.arange(40.0)[::-1]}}
    model = VerticalClassifier(aligned=True, **QUICK | {"learning_rate": rate, "out": tmp_path})
    model.fit(tables, np.arange(40) % 2)
    assert model.get_params()["learning_rate"] is rate
    assert model.run_.summary["rounds"] > 0


def test_a_learning_rate_that_nobody_uses_may_be_anything():
    assert fitted_with(learning_rate=0, optimiser=torch.optim.SGD).n_iter_ >= 1


def test_a_lazy_frame_that_cannot_be_collected_is_told():
    lazy = pl.LazyFrame({"a": np.zeros(120)}).select("zz")
    with pytest.raises(DataError, match="the lazy frame cannot be collected"):
        fitted_with(tables={"p": lazy, "q": {"b": np.zeros(120)}})
    with pytest.raises(DataError, match="parties\\['p'\\] names column 'a' twice"):
        fitted_with(
            tables=pl.DataFrame({"a": np.zeros(120), "b": np.zeros(120)}),
            parties={"p": ["a", "a"], "q": ["b"]},
        )


def test_a_row_whose_index_is_missing_is_nobodys():
    pandas = pytest.importorskip("pandas")
    index = [None, *(f"i{number}" for number in range(1, 120))]
    numbers = np.random.default_rng(0).normal(size=120)
    tables = {
        "p": pandas.DataFrame({"a": numbers}, index=index),
        "q": pandas.DataFrame({"b": numbers}, index=index),
    }
    answers = pandas.Series(np.where(numbers > 0, "yes", "no"), index=index)
    with pytest.raises(DataError, match="the index has no value in row 0"):
        VerticalClassifier(epochs=1, batch_size=32).fit(tables, answers)


def test_whole_numbers_beyond_what_floats_tell_apart_are_refused_without_a_sign_too():
    with pytest.raises(DataError, match="is beyond 2\\^53"):
        fitted_with(lambda a: np.arange(2**60, 2**60 + 120, dtype=np.uint64))
