"""A run that a configuration made predicts and exports from its folder as it did when it ended."""

from __future__ import annotations

import errno
import hashlib
import html
import itertools
import json
import os
import re
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

from colonnade import cli
from colonnade.config import load_trained, parse_config
from colonnade.errors import ConfigurationError, DataError, DataWarning, PrivacyWarning
from colonnade.export import Part, blank, export_part, form_of, load_part
from colonnade.federation import Federation
from colonnade.organisations import LabelHolder, Party
from colonnade.predictions_counted import UNKNOWN, PredictionCount
from colonnade.privacy import BinomialSum, Spending
from colonnade.reports import judged, write_page
from colonnade.tables import HashSplit, read_table
from colonnade.training import Training

pytestmark = pytest.mark.usefixtures("no_pictures")

ROWS = 150
FRAME = pl.DataFrame({"id": ["person 1"], "income": [424242.5], "job": ["cook"]})


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    numbers = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(0)).tolist()
    ids = [f"person {i}" for i in range(ROWS)]
    incomes, spent, visits = zip(*numbers, strict=True)
    jobs = [("cook", "nurse, day", "pilot")[i % 3] for i in range(ROWS)]
    pl.DataFrame({"id": ids, "income": incomes, "job": jobs}).write_csv("bank.csv")
    pl.DataFrame({"id": ids[::-1], "spent": spent[::-1]}).write_csv("shop.csv")
    pl.DataFrame({"id": ids, "visits": visits}).write_csv("club.csv")
    amounts = [a + b + c / 4 for a, b, c in numbers]
    words = ["yes" if each > 0 else "no" for each in amounts]
    answers = pl.DataFrame({"id": ids, "bought": words, "amount": amounts})
    answers.select("id", "bought").write_csv("bought.csv")
    answers.select("id", "amount").write_csv("amount.csv")
    pl.read_csv("bank.csv").head(9).write_csv("new-bank.csv")
    pl.read_csv("shop.csv").tail(10).write_csv("new-shop.csv")  # one person more
    pl.DataFrame({"click": words, "city": jobs, "price": incomes, "age": spent}).with_columns(
        click=pl.col("click") == "yes"
    ).write_csv("clicks.csv")


TABLES = {
    "id": "id",
    "parties": {"bank": {"source": "bank.csv"}, "shop": {"source": "shop.csv"}},
    "labels": {"source": "bought.csv", "column": "bought"},
}
DICTS = {
    **TABLES,
    "parties": {
        name: {"source": f"{name}.csv", "features": {"output": "dict"}} for name in ("bank", "shop")
    },
}
STREAMED = {
    "name": "streamed",
    "files": ["clicks.csv"],
    "label": "click",
    "classes": [False, True],
    "parties": {
        "shop": {"numeric": ["price"], "categorical": ["city"]},
        "bank": {"numeric": ["age"]},
    },
}
RUNS = {
    "classes": {"data": TABLES},
    "a number": {"data": TABLES | {"labels": {"source": "amount.csv", "column": "amount"}}},
    "columns of the label holder's own": {
        "data": TABLES,
        "label_holder": {"name": "insurer", "holds": "shop"},
    },
    "a party left out": {"data": TABLES | {"leave_out": ["shop"]}},
    "categories by name": {"data": DICTS, "model": {"bottom": {"model": "wide_and_deep"}}},
    "rows that are streamed": {
        "data": STREAMED,
        "model": {"bottom": {"model": "wide_and_deep", "sparse_gradients": True}},
        "optimiser": {"name": "adagrad"},
    },
    "codes": {
        "data": TABLES,
        "method": {"name": "efvfl", "embedding": {"codec": "top_k", "ratio": 0.5}},
    },
    "coded": {
        "data": {
            **TABLES,
            "parties": {
                name: {"source": f"{name}.csv", "features": {"scale": "unit"}}
                for name in ("bank", "shop", "club")
            },
        },
        "model": {"bottom": {"model": "polynomial", "width": 4}},
        "method": "fedvs",
        "training": {"secrets": "seed"},
    },
}


def trained(config, out="run"):
    training = {"epochs": 2, "batch_size": 20} | config.get("training", {})
    return parse_config(config | {"training": training}).train(Path(out))


def features(run, config):
    """Return the features of the rows that were tested on, by organisation."""
    data = parse_config(config).data.load()
    holder = parse_config(config).label_holder
    return {
        (holder.name if name == holder.holds else name): (
            values[data.test]
            if isinstance(values, torch.Tensor)
            else {key: each[data.test] for key, each in values.items()}
        )
        for name, values in data.features.items()
    }


@pytest.mark.parametrize("what", RUNS)
def test_a_run_predicts_from_its_folder_what_it_predicted(what):
    run = trained(RUNS[what])
    expected = run.predict(features(run, RUNS[what]))
    if RUNS[what]["data"] is not STREAMED:
        for name in ("bank", "shop", "bought"):  # only the rows that are tested on are read again
            pl.read_csv(f"{name}.csv").sort("id", descending=True).write_csv(f"{name}.csv")
    again = load_trained("run")
    found = again.predict_rows("test")
    near = 0.02 if what == "coded" else 0.0  # which rounds by secrets of its own
    assert torch.allclose(found.scores, expected.scores, rtol=0.0, atol=near)
    assert found.ledger.without_time() == expected.ledger.without_time()
    assert again.run.summary == run.summary
    frame = again.frame(found)
    assert frame.columns == again.columns
    assert len(frame) == len(expected.scores)


def test_who_was_left_out_has_no_new_rows_and_is_not_missed():
    """It was asked how its table becomes features, and told that its part had been changed."""
    trained(RUNS["a party left out"])
    Path("shop.csv").unlink()
    again = load_trained("run")
    for sources in ({}, {"bank": "new-bank.csv"}):
        found = again.frame(again.predict_tables(sources))
        table = pl.read_csv(sources.get("bank", "bank.csv"))
        assert sorted(found["id"]) == sorted(table["id"])
    with pytest.raises(ConfigurationError, match="there is no party 'shop'; there are bank"):
        again.predict_tables({"shop": "new-shop.csv"})
    with pytest.raises(ConfigurationError, match="'shop'"):
        again.predict_tables(without={"shop": "mean"})


def test_new_people_are_predicted_from_their_own_tables_alone():
    run = trained(RUNS["classes"])
    expected = run.predict(features(run, RUNS["classes"]))
    for name in ("bank", "shop", "bought"):
        Path(f"{name}.csv").rename(f"{name}-then.csv")
    again = load_trained("run")
    sources = {"bank": "new-bank.csv", "shop": "new-shop.csv"}
    with pytest.raises(DataError, match="'bank' has no row for the id 'person 9'"):
        again.predict_tables(sources)
    found = again.predict_tables(sources, "drop")
    assert found.left_out == {"bank": 0, "shop": 1}
    frame = again.frame(found)
    assert frame.columns == ["id", "predicted", "probability of no", "probability of yes"]
    assert frame["id"].to_list() == [f"person {i}" for i in range(9)]
    assert set(frame["predicted"]) == {"yes", "no"}
    sums = frame["probability of no"] + frame["probability of yes"]
    assert sums.is_between(1 - 1e-6, 1 + 1e-6).all()
    for name in ("bank", "shop"):
        Path(f"{name}-then.csv").rename(f"{name}.csv")
    everybody = again.frame(again.predict_tables()).sort("id")
    Path("bought-then.csv").rename("bought.csv")
    tested = again.predict_rows("test")
    assert torch.equal(tested.scores, expected.scores)
    by_id = dict(zip(everybody["id"], everybody["predicted"], strict=True))
    for row in again.frame(tested).iter_rows(named=True):
        assert by_id[row["id"]] == row["predicted"]


def test_rows_that_are_aligned_are_predicted_by_number():
    parties = {
        "bank": {"source": "bank.csv", "columns": ["income"]},
        "shop": {"source": "shop.csv", "columns": ["spent"]},
    }
    trained({"data": {**TABLES, "id": None, "aligned": True, "parties": parties}})
    again = load_trained("run")
    frame = again.frame(again.predict_tables())
    assert frame["row"].to_list() == list(range(ROWS))


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"baker": "bank.csv"}, "there is no party 'baker'; there are bank, shop"),
        ({"bank": "nothing.csv"}, "nothing.csv"),
        ({"bank": "shop.csv"}, "shop.csv has no column 'job'"),
        ({"bank": "postgresql://ann:secret@db/crm"}, "URL has a password; put it into"),
        (
            {"bank": "sqlite:////x/v.db"},
            "new rows of 'bank' are in a database, .* trained on a file",
        ),
    ],
)
def test_tables_that_cannot_be_are_told(sources, message):
    trained(RUNS["classes"])
    with pytest.raises((ConfigurationError, DataError), match=message) as caught:
        load_trained("run").predict_tables(sources)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (
            {"bank": FRAME},
            "the source of 'bank' is a file or the URL .* tables .*, not a DataFrame",
        ),
        ({"bank": None}, "the source of 'bank' is a file .*run.predict takes tables.*, not None"),
        ({"bank": ["new-bank.csv"]}, "the source of 'bank' is a file .*, not a list"),
        (FRAME, "sources is a dict from parties to files .*run.predict takes.*, not a DataFrame"),
        (["new-bank.csv"], "sources is a dict from parties to files or URLs.*, not a list"),
        ([], "sources is a dict .*, not a list"),
    ],
)
def test_tables_in_the_place_of_files_are_refused_and_not_quoted(sources, message):
    trained(RUNS["classes"])
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_trained("run").predict_tables(sources)
    assert "424242" not in str(caught.value)


def test_data_without_tables_have_rows_of_their_own_alone():
    trained(RUNS["rows that are streamed"])
    again = load_trained("run")
    with pytest.raises(ConfigurationError, match="trained on streamed, not on tables: predict"):
        again.predict_tables()
    assert again.frame(again.predict_rows("test")).columns[:2] == ["row", "predicted"]


def test_rows_that_there_are_not_cannot_be_predicted():
    trained({"data": TABLES | {"split": {"validation": 0.0}}})
    with pytest.raises(ConfigurationError, match="this run has no validation rows"):
        load_trained("run").predict_rows("validation")


@pytest.mark.parametrize("rows", ["valid", "Test", "labels", "ids", None, ["test"], 3])
def test_rows_are_named_in_one_of_three_ways_before_tables_are_read(rows):
    trained(RUNS["classes"])
    again = load_trained("run")
    Path("bank.csv").unlink()
    asked = f"rows is 'train', 'validation' or 'test', not {re.escape(repr(rows))}"
    with pytest.raises(ConfigurationError, match=asked):
        again.predict_rows(rows)


def test_a_run_whose_models_are_code_says_so():
    x = torch.randn(40, 4)
    Federation(
        [Party("bank", x, nn.Linear(4, 3))],
        LabelHolder("insurer", (x[:, 0] > 0).long(), nn.Linear(3, 2)),
    ).train(training=Training(epochs=1), out="run")
    with pytest.raises(ConfigurationError, match="not made from a configuration file, so what"):
        load_trained("run")
    assert load_part("run/parts/bank").load_into(nn.Linear(4, 3)) is not None
    with pytest.raises(DataError, match="holds no run that can be read"):
        load_trained("nothing")


def test_a_run_of_a_version_without_parts_is_refused_before_its_configuration_is_read():
    trained(RUNS["classes"])
    shutil.rmtree("run/parts")
    summary = json.loads(Path("run/summary.json").read_text())
    older = {name: value for name, value in summary.items() if "digest" not in name}
    del older["format"]
    Path("run/summary.json").write_text(json.dumps(older))
    with Path("run/config.yaml").open("a") as file:
        file.write("labels: private\n")
    with pytest.raises(DataError, match=r"is of an older version .*, which kept no trained par"):
        load_trained("run")


def test_what_predictions_disclose_adds_up_over_processes(monkeypatch, capsys):
    trained({"data": TABLES, "model": {"bound": 1}, "method": "pbm_vfl"})
    call = ("predict", "run", "--rows", "test", "--json")
    told = [json.loads(command(monkeypatch, capsys, *call)[1]) for _ in range(2)]
    assert told[0]["privacy_loss"] == told[0]["privacy_loss_of_all"] == told[1]["privacy_loss"]
    assert [each["privacy_loss_of_all"]["uses_of_a_row"] for each in told] == [1, 2]
    again = load_trained("run")
    found = again.predict_rows("test")
    assert found.privacy_loss_of_all["uses_of_a_row"] == 3


def counted(folder="run"):
    return PredictionCount(Path(folder), Path(folder) / "parts" / "label_holder")


def test_a_run_that_was_read_refuses_tables_whose_ids_are_in_two_orders():
    trained(RUNS["classes"])
    run = load_trained("run").run
    tables = {name: pl.read_csv(f"{name}.csv").sort("id") for name in ("bank", "shop")}
    both = set(tables["bank"]["id"]) & set(tables["shop"]["id"])
    tables = {name: table.filter(pl.col("id").is_in(both)) for name, table in tables.items()}
    assert len(run.predict(tables).scores) == len(both)
    with pytest.raises(DataError, match=r"row 0 of 'bank' has the id .* 'shop' has .*, and a run"):
        run.predict(tables | {"shop": tables["shop"].reverse()})


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_every_handle_of_a_run_counts_what_all_predict():
    run = trained({"data": TABLES, "model": {"bound": 1}, "method": "pbm_vfl"})
    one, other = load_trained("run"), load_trained("run")
    for times, each in enumerate((one, other, one, other), start=1):
        found = each.predict_rows("test")
        assert found.privacy_loss_of_all["uses_of_a_row"] == counted().times().total() == times
    found = run.predict(features(run, RUNS["classes"]))
    assert found.privacy_loss_of_all["uses_of_a_row"] == counted().times().total() == 5
    with pytest.raises(ConfigurationError, match="a prediction needs the columns of bank, shop"):
        run.predict({})
    assert counted().times().total() == 5  # nothing left


def test_predictions_that_begin_at_once_are_all_counted(tmp_path):
    (tmp_path / "parts" / "label_holder").mkdir(parents=True)
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: counted(tmp_path).add(2).total(), range(40))]
    assert sorted(found) == [*range(1, 41)]


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_predictions_of_which_nobody_knows_how_many_took_part_count_as_the_dearest():
    club = {"source": "club.csv"}
    data = {**TABLES, "parties": {**TABLES["parties"], "club": club}}
    method = {"name": "pbm_vfl", "trials": 4, "beta": 0.1}
    run = trained({"data": data, "model": {"bound": 1}, "method": method})
    for file in ("predicted.json", "parts/label_holder/predicted.json"):
        Path("run", file).write_text(resealed(times=2))  # as an earlier version counted
    found = load_trained("run").predict_rows("test")
    assert counted().times() == {UNKNOWN: 2, 3: 1}
    width = run.predictor.widths["bank"]
    few, all_of_them = (BinomialSum(4, 0.1, terms, width) for terms in (2, 3))
    spent = Spending({few: 2, all_of_them: 1}).epsilon(found.privacy_loss["delta"])
    assert found.privacy_loss_of_all["epsilon"] == spent.value


def resealed(**values):
    told = {"by": "Written by Colonnade", **values}
    digest = hashlib.blake2b(json.dumps(told).encode(), digest_size=16).hexdigest()
    return json.dumps(told | {"digest": digest})


@pytest.mark.parametrize(
    "classes", [[], ["a"], ["a", "a"], ["a", 1], [1, True], [None, "a"], [["a"], ["b"]], "ab", 2]
)
def test_classes_that_cannot_be_told_apart_are_refused(classes):
    part = Part("registry", {"classes": classes}, {})
    with pytest.raises(DataError, match="'registry' names no classes that could be told apart"):
        part.classes  # noqa: B018 - a property


def test_classes_are_as_they_were_told():
    for classes in (None, ["a", "b"], [0, 1, 2], [False, True]):
        assert Part("registry", {"classes": classes}, {}).classes == classes


NO_COUNT = {
    "nothing": "",
    "no object": "[]",
    "no digest": '{"times": 1}',
    "another number": resealed(times=1).replace('"times": 1', '"times": 0'),
    "less than none": resealed(times=-1),
    "more than there can be": resealed(times=10**40),
    "no number": resealed(times=float("nan")),
    "more by parties than in all": resealed(times=1, parties={"3": 2}),
    "none by parties": resealed(times=1, parties={"3": 0}),
    "of fewer than one": resealed(times=1, parties={"-3": 1}),
    "of no number of parties": resealed(times=1, parties={"all": 1}),
    "parties in a list": resealed(times=1, parties=[3]),
    "levels": "[" * 100_000,
}


@pytest.mark.parametrize("what", NO_COUNT)
@pytest.mark.parametrize("where", ["", "parts/label_holder"])
def test_a_damaged_count_of_predictions_is_told(tmp_path, what, where):
    (tmp_path / "parts" / "label_holder").mkdir(parents=True)
    counted(tmp_path).add(2)
    (tmp_path / where / "predicted.json").write_text(NO_COUNT[what])
    for use in (counted(tmp_path).times, partial(counted(tmp_path).add, 2)):
        with pytest.raises(DataError, match="which counts what predictions disclosed, is damaged"):
            use()


def test_a_count_of_predictions_that_nobody_may_read_is_not_told_as_damaged(tmp_path, monkeypatch):
    (tmp_path / "parts" / "label_holder").mkdir(parents=True)
    counted(tmp_path).add(2)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(DataError, match=r"disclosed, cannot be read: Permission denied$"):
        counted(tmp_path).times()


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that have names")
@pytest.mark.parametrize("instead", ["pipe", "link", "folder"])
def test_a_count_of_predictions_is_an_ordinary_file(tmp_path, instead):
    (tmp_path / "parts" / "label_holder").mkdir(parents=True)
    counted(tmp_path).add(2)
    file = tmp_path / "predicted.json"
    file.rename(tmp_path / "elsewhere.json")
    {
        "pipe": lambda: os.mkfifo(file),
        "link": lambda: file.symlink_to("elsewhere.json"),
        "folder": file.mkdir,
    }[instead]()
    with pytest.raises(DataError, match="is damaged: it is no ordinary file"):
        counted(tmp_path).add(2)


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_a_count_of_predictions_that_is_gone_is_missed():
    trained({"data": TABLES, "model": {"bound": 1}, "method": "pbm_vfl"})
    again = load_trained("run")
    again.predict_rows("test")
    Path("run/predicted.json").unlink()
    message = r"predicted\.json, which counts what predictions disclosed, is gone, and the run has"
    with pytest.raises(DataError, match=message):
        load_trained("run")
    with pytest.raises(DataError, match=message):
        again.predict_rows("test")
    shutil.copy("run/parts/label_holder/predicted.json", "run/predicted.json")
    assert load_trained("run").predict_rows("test").privacy_loss_of_all["uses_of_a_row"] == 2


@pytest.mark.filterwarnings("ignore:this prediction showed")
@pytest.mark.parametrize("moved", ["run", "run/parts", "run/parts/label_holder"])
def test_nobody_predicts_uncounted_where_the_run_was_moved_away(moved):
    run = trained({"data": TABLES, "model": {"bound": 1}, "method": "pbm_vfl"})
    tables = features(run, RUNS["classes"])
    run.predict(tables)
    Path(moved).rename("elsewhere")
    with pytest.raises(DataError, match="label_holder is gone, where it is counted what pred"):
        run.predict(tables)
    Path("elsewhere").rename(moved)
    assert run.predict(tables).privacy_loss_of_all["uses_of_a_row"] == 2


def of_three(**data):
    """Return a run of sums with noise in which one of three parties may leave."""
    data = {**TABLES, "parties": {**TABLES["parties"], "club": {"source": "club.csv"}}} | data
    method = {"name": "pbm_vfl", "trials": 4, "beta": 0.1}
    return trained({"data": data, "model": {"bound": 1}, "method": method})


def told_of(found):
    """Return how often a row was sent by what is told, all together, and to the ledger."""
    sent = found.ledger.frame().filter(kind="masked_embedding", sender="bank").height
    return found.privacy_loss["uses_of_a_row"], found.privacy_loss_of_all["uses_of_a_row"], sent


WITHOUT = {"club": "zeros"}


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_what_is_lost_is_measured_on_what_was_predicted_where_that_are_the_same_rows():
    of_three()
    measured = load_trained("run").predict_rows("test", without=WITHOUT)
    assert told_of(measured) == (1, 2, 2)
    shutil.rmtree("run")
    of_three()
    found = load_trained("run").predict_rows("validation", without=WITHOUT)
    assert told_of(found) == (1, 1, 1)
    found = load_trained("run").predict_tables(without=WITHOUT)
    assert len(found.scores) == ROWS
    assert told_of(found) == (1, 2, 1)


def test_what_is_lost_is_the_same_whatever_was_predicted():
    trained({"data": TABLES, "training": {"epochs": 3}})
    again, without = load_trained("run"), {"shop": "mean"}
    lost = again.predict_rows("test", without=without).lost
    assert lost.without < lost.everybody
    assert again.predict_rows("validation", without=without).lost == lost
    pl.read_csv("bank.csv").sample(fraction=1.0, shuffle=True, seed=0).write_csv("bank.csv")
    found = again.predict_tables(without=without)
    assert (len(found.scores), found.lost) == (ROWS, lost)


def more_people():
    for file in ("bank.csv", "shop.csv", "club.csv", "bought.csv"):
        table = pl.read_csv(file)
        others = table.with_columns(id=pl.lit("newcomer ") + pl.col("id"))
        pl.concat([table, others]).write_csv(file)


def other_incomes():
    table = pl.read_csv("bank.csv")
    table.with_columns(pl.col("income") * 1000).write_csv("bank.csv")


def another_job():
    Path("bank.csv").write_text(Path("bank.csv").read_text().replace("cook", "chef"))


def other_answers():
    words = Path("bought.csv").read_text().replace(",yes", ",0").replace(",no", ",1")
    Path("bought.csv").write_text(words)


def opposite_answers():
    words = Path("bought.csv").read_text()
    for one, other in ((",yes", ",?"), (",no", ",yes"), (",?", ",no")):
        words = words.replace(one, other)
    Path("bought.csv").write_text(words)


def others_answers():
    table = pl.read_csv("bought.csv")
    answers = table.columns[-1]
    table.with_columns(pl.col(answers).shuffle(seed=1)).write_csv("bought.csv")


def one_other_income():
    data = parse_config(RUNS["classes"]).data.load()
    person = data.ids[int(data.test[0])]
    income = pl.when(pl.col("id") == person).then(pl.col("income") + 1).otherwise("income")
    pl.read_csv("bank.csv").with_columns(income=income).write_csv("bank.csv")


def columns_reversed():
    table = pl.read_csv("bank.csv")
    table.select(reversed(table.columns)).write_csv("bank.csv")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (opposite_answers, "the labels are others, or of other rows"),
        (others_answers, "the labels are others, or of other rows"),
        (one_other_income, "the rows of 'bank' hold other values"),
        (columns_reversed, "the columns of 'bank' are in another order"),
        (more_people, "[0-9]+ training rows became [0-9]+; .* of 'bank' become other features"),
        (other_incomes, "the columns of 'bank' become other features"),
        (another_job, "the columns of 'bank' become other features"),
        (other_answers, "there are other classes"),
    ],
)
def test_rows_of_a_run_whose_tables_have_changed_are_not_predicted(changed, said):
    """They were, by transformers that were fitted to the tables as they are now."""
    trained(RUNS["classes"])
    changed()
    again = load_trained("run")
    with pytest.raises(DataError, match=f"have changed since this run was trained on .*{said}"):
        again.predict_rows("test")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert again.predict_tables(without={"shop": "mean"}).lost is None
    expected = f"is not measured: the data have changed .*{said}"
    assert any(re.search(expected, str(each.message)) for each in told)


def people_called(prefix, n=60):
    return [f"{prefix}{i:03}" for i in range(n)]


def test_people_of_other_ids_are_not_predicted_as_if_divided_as_before():
    """Counts were compared alone; medians and means would tell, and categories have none."""
    draw, n = np.random.default_rng(0), 60
    columns = {name: draw.choice(list("abc"), n) for name in ("bank", "shop", "bought")}

    def written(prefix):
        for name, column in columns.items():
            table = {"id": people_called(prefix), f"{name} column": column}
            pl.DataFrame(table).write_csv(f"{name}.csv")

    def divided(prefix):
        return [list(rows) for rows in HashSplit().rows(pl.Series(people_called(prefix)))]

    before = divided("P")
    others = (f"Q{i}-" for i in itertools.count())
    other = next(q for q in others if [*map(len, divided(q))] == [*map(len, before)])
    assert divided(other) != before
    written("P")
    parties = {name: {"source": f"{name}.csv"} for name in ("bank", "shop")}
    labels = {"source": "bought.csv", "column": "bought column"}
    trained({"data": {"id": "id", "parties": parties, "labels": labels}})
    written(other)
    with pytest.raises(DataError, match=r"on them: other rows are for training, .*of other ids"):
        load_trained("run").predict_rows("test")


def test_streamed_rows_in_another_order_are_not_predicted():
    """Rows that were trained on were tested on, as they are divided by their numbers."""
    run = RUNS["rows that are streamed"]
    trained(run)
    again = load_trained("run")
    again.predict_rows("test")
    file = STREAMED["files"][0]
    pl.read_csv(file).reverse().write_csv(file)
    with pytest.raises(DataError, match=r"have changed .* the rows of '.*' hold other values, or"):
        again.predict_rows("test")


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_who_is_predicted_and_measured_is_told_as_sent_twice():
    of_three()
    again = load_trained("run")
    data = again.config.data.load()
    known, new = data.ids[data.validation].to_list(), [f"newcomer {i}" for i in range(9)]
    for people, uses in (([*new], 1), ([*new, known[3]], 2)):
        for name in ("bank", "shop"):
            table = pl.read_csv(f"{name}.csv").head(len(people))
            table.with_columns(id=pl.Series(people)).write_csv(f"some-{name}.csv")
        sources = {name: f"some-{name}.csv" for name in ("bank", "shop")}
        found = again.predict_tables(sources, without=WITHOUT)
        spent = again.run.predictor.cost({2: uses})
        assert (found.privacy_loss["epsilon"], told_of(found)[0]) == (spent["epsilon"], uses)
        assert len(found.scores) == len(found.ids) == len(people)


def of_three_aligned():
    """Return ``of_three`` whose rows are in one order, and have no ids."""
    columns = {"bank": "income", "shop": "spent", "club": "visits"}
    parties = {
        name: {"source": f"{name}.csv", "columns": [column]} for name, column in columns.items()
    }
    return of_three(id=None, aligned=True, parties=parties)


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_new_rows_that_nobody_names_may_be_those_that_are_measured():
    of_three_aligned()
    shutil.copy("bank.csv", "new-bank.csv")
    found = load_trained("run").predict_tables({"bank": "new-bank.csv"}, without=WITHOUT)
    assert told_of(found) == (2, 2, 2)


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_the_runs_own_rows_are_sent_once_by_number_too():
    of_three_aligned()
    again = load_trained("run")
    found = again.predict_tables(without=WITHOUT)
    assert told_of(found) == (1, 1, 1)
    measured = again.predict_rows("test", without=WITHOUT)
    assert found.lost.rows == measured.lost.rows


def test_the_command_says_what_its_first_prediction_sent_twice(monkeypatch, capsys):
    of_three_aligned()
    shutil.copy("bank.csv", "new-bank.csv")
    cost = load_trained("run").run.predictor.cost
    once, twice = (f"epsilon {cost({2: uses})['epsilon']:.3g} " for uses in (1, 2))
    call = ("predict", "run", "--table", "bank=new-bank.csv", "--without", "club=zeros")
    code, out, err = command(monkeypatch, capsys, *call)
    said = " ".join((out + err).split())
    assert (code, once in said) == (0, False)
    assert f"this prediction showed of its rows' embeddings: {twice}" in said


def test_the_command_says_what_rows_that_were_measured_cost_besides(monkeypatch, capsys):
    of_three()
    cost = load_trained("run").run.predictor.cost
    once, twice = (f"epsilon {cost({2: uses})['epsilon']:.3g} " for uses in (1, 2))
    call = ("predict", "run", "--rows", "test", "--without", "club=zeros")
    _, out, err = command(monkeypatch, capsys, *call)
    assert f"this prediction showed of its rows' embeddings: {once}" in " ".join(err.split())
    assert f"a row that was in all 2 predictions of this run is at {twice}" in " ".join(out.split())


def test_what_was_counted_and_failed_does_not_make_the_next_prediction_silent():
    run = trained({"data": TABLES, "model": {"bound": 1}, "method": "pbm_vfl"})
    run.predicted.count(2)
    with pytest.warns(PrivacyWarning, match="this prediction showed"):
        run.predict(features(run, RUNS["classes"]))


def test_the_command_warns_of_what_a_prediction_discloses(monkeypatch, capsys):
    trained({"data": TABLES, "model": {"bound": 1}, "method": "pbm_vfl"})
    code, _, err = command(monkeypatch, capsys, "predict", "run", "--rows", "test")
    assert code == 0
    assert err.startswith("warning: this prediction showed of its rows' embeddings: epsilon")


def test_the_command_says_what_each_prediction_discloses_and_once(monkeypatch, capsys):
    of_three()
    call, without = ("predict", "run", "--rows", "test"), ("--without", "club=zeros")
    _, out, err = command(monkeypatch, capsys, *call)
    assert ("epsilon" in out, err.count("this prediction showed")) == (False, 1)
    cost = load_trained("run").run.predictor.cost
    for more, times, parties in (((), {3: 2}, 3), (without, {3: 2, 2: 2}, 2)):
        code, out, err = command(monkeypatch, capsys, *call, *more)
        assert (code, "epsilon" in err) == (0, False)
        once, whole = cost({parties: 1})["epsilon"], cost(times)["epsilon"]
        assert (
            f"This prediction showed of its rows' embeddings: epsilon {once:.3g} at delta 1e-05 "
            f"for each row; a row that was in all {sum(times.values())} predictions of this run "
            f"is at epsilon {whole:.3g} at delta 1e-05 by them alone."
        ) in " ".join(out.split())
    trained(RUNS["classes"], "plain")
    for _ in range(2):
        assert "epsilon" not in "".join(
            command(monkeypatch, capsys, *call[:1], "plain", *call[2:])[1:]
        )


# Parts


@pytest.mark.parametrize("name", ["part.json", "bottom.safetensors"])
def test_no_flipped_bit_of_a_part_is_read(name):
    trained(RUNS["classes"])
    path = Path("run/parts/bank") / name
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 97)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"is damaged|has the format|is no exported part"):
            load_part("run/parts/bank")
    path.write_bytes(whole)
    load_part("run/parts/bank")
    path.unlink()
    with pytest.raises(DataError):
        load_trained("run")


@pytest.mark.parametrize("format", [True, 1.0, "1", None, 99])
def test_a_part_of_a_format_that_is_none_is_not_read(format):
    trained(RUNS["classes"])
    path = Path("run/parts/bank/part.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": format}))
    with pytest.raises(DataError, match=f"has the format {format!r}, not "):
        load_part("run/parts/bank")


def test_parts_of_another_run_are_not_believed():
    trained(RUNS["classes"])
    trained(RUNS["classes"] | {"training": {"seed": 7}}, "other")
    part = Path("run/parts/bank")
    for other, message in (
        ("other/parts/bank", r"bank/part\.json is not what this run wrote"),
        ("run/parts/shop", "parts/bank holds the part of 'shop', not of 'bank'"),
    ):
        shutil.rmtree(part)
        shutil.copytree(other, part)
        with pytest.raises(DataError, match=message):
            load_trained("run")


def test_a_mean_that_is_gone_is_told(monkeypatch, capsys):
    trained(RUNS["classes"])
    file = Path("run/parts/bank/mean.json")
    file.unlink()
    call = ("export", "run", "--to", "given")
    code, out, err = command(monkeypatch, capsys, *call)
    assert code == 0
    assert "run/parts/bank/mean.json is gone, which this run wrote" in " ".join((out + err).split())
    for elsewhere in ("mean.json", "nowhere"):
        file.symlink_to(elsewhere)
        code, out, err = command(monkeypatch, capsys, *call)
        assert code == 2
        assert "mean.json is not the mean that 'bank' wrote" in " ".join((out + err).split())
        file.unlink()


def test_a_mean_of_another_run_is_not_believed():
    trained(RUNS["classes"])
    trained(RUNS["classes"] | {"training": {"seed": 7}}, "other")
    file = Path("run/parts/bank/mean.json")
    own = file.read_bytes()
    shutil.copy("other/parts/bank/mean.json", file)
    with pytest.raises(
        DataError, match=r"bank/mean\.json is not what this run wrote, or an older version .*: take"
    ):
        load_trained("run")
    file.write_bytes(own)
    assert set(load_trained("run").run.predictor.means) == {"bank", "shop"}
    file.unlink()
    with pytest.warns(DataWarning, match="bank/mean.json is gone, which this run wrote"):
        assert set(load_trained("run").run.predictor.means) == {"shop"}


def test_nothing_is_exported_into_a_runs_own_parts():
    run = trained(RUNS["classes"])
    trained(RUNS["classes"] | {"training": {"seed": 7}}, "other")
    Path("link").symlink_to("other")
    Path("linked").mkdir()
    (Path("linked") / "bank").symlink_to(Path("other/parts/shop").absolute())
    before = {path: path.read_bytes() for path in Path("other").rglob("*") if path.is_file()}
    own = ("other/parts", "other/parts/bank", "link/parts", "other/../other/parts", "linked")
    for folder in own:
        with pytest.raises(ConfigurationError, match=r"is where the run in .*other keeps its own"):
            run.export(folder)
    assert before == {path: path.read_bytes() for path in before}
    run.export("parts")


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes that have names")
@pytest.mark.parametrize("name", ["part.json", "bottom.safetensors"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_in_place_of_a_parts_file_is_not_waited_for(tmp_path, name, make):
    export_part(tmp_path / "part", "bank", {"bottom": nn.Linear(2, 3)}, {})
    (tmp_path / "part" / name).unlink()
    make(tmp_path / "part" / name)
    with pytest.raises(DataError, match=f"{name} is damaged: it is no ordinary file"):
        load_part(tmp_path / "part")


@pytest.mark.skipif(sys.platform == "win32", reason="needs files with holes")
def test_a_hole_in_place_of_tensors_is_not_read(tmp_path):
    export_part(tmp_path / "part", "bank", {"bottom": nn.Linear(2, 3)}, {})
    with (tmp_path / "part" / "bottom.safetensors").open("r+b") as file:
        file.truncate(2**40)  # more than there is memory for
    with pytest.raises(DataError, match=r"bottom\.safetensors is damaged: "):
        load_part(tmp_path / "part")


def without_digests_of_parts(folder):
    """Leave of a run's summary what there was before it had digests of its parts."""
    summary = json.loads((folder / "summary.json").read_text())
    summary["digests"] = {k: v for k, v in summary["digests"].items() if "parts" not in k}
    sealed = {name: value for name, value in summary.items() if name != "digest"}
    sealed["digest"] = hashlib.blake2b(json.dumps(sealed).encode(), digest_size=16).hexdigest()
    (folder / "summary.json").write_text(json.dumps(sealed))


LACKING = {
    "features": lambda details: details.pop("features"),
    "classes": lambda details: details.pop("classes"),
    "transformer": lambda details: details.pop("transformer"),
    "a form": lambda details: details.update(features={"": ["float32", "wide"]}),
    "a width": lambda details: details.update(features={"": ["float32", [9]]}),
    "a type": lambda details: details.update(features={"": ["load", [3]]}),
    "a state": lambda details: details.update(transformer={"parameters": {}}),
    "a number": lambda details: details.update(transformer=7),
    "half a character": lambda details: details.update(transformer={"parameters": {"a": "\ud800"}}),
    "widths": lambda details: details.update(widths={"bank": "wide"}),
}


@pytest.mark.parametrize("what", LACKING)
def test_a_whole_part_that_says_what_cannot_be_is_told(what):
    trained(RUNS["classes"])
    without_digests_of_parts(Path("run"))
    load_trained("run")
    file = Path(f"run/parts/{'label_holder' if what == 'classes' else 'bank'}/part.json")
    written = json.loads(file.read_text())
    LACKING[what](written["details"])
    del written["digest"]
    written["digest"] = hashlib.blake2b(json.dumps(written).encode(), digest_size=16).hexdigest()
    file.write_text(json.dumps(written))
    with pytest.raises((DataError, ConfigurationError)):
        load_trained("run")


@pytest.mark.parametrize("detail", ["classes", "features", "transformer"])
def test_a_part_without_a_detail_says_so_when_it_is_asked(tmp_path, detail):
    export_part(tmp_path / "part", "bank", {"bottom": nn.Linear(2, 3)}, {})
    with pytest.raises(DataError, match=f"the part of 'bank' does not say '{detail}'"):
        load_part(tmp_path / "part").said(detail)
    with pytest.raises(DataError, match="the part of 'bank' does not say 'classes'"):
        _ = load_part(tmp_path / "part").classes


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are any bytes")
def test_a_folder_may_be_called_by_any_bytes(monkeypatch, capsys):
    out = Path(os.fsdecode(b"run-\xff"))
    run = trained(RUNS["classes"], out)
    write_page(run, out / "report.html")
    assert load_trained(out).run.ledger.bytes() == run.ledger.bytes() > 0
    # What is said of a place, on a screen or in a file, is text: a command takes no other name.
    monkeypatch.setattr(sys, "argv", ["colonnade", "predict", str(out)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert "'run-\\udcff' is not UTF-8; give what it names another name" in capsys.readouterr().err
    (out / "bank.csv").write_bytes(Path("bank.csv").read_bytes())
    (out / "bank.parquet").write_bytes(b"PAR1")
    for name in ("bank.csv", "bank.parquet"):
        with pytest.raises(DataError, match="its name, or that of a folder, is not UTF-8"):
            read_table(out / name)


def test_which_of_two_classes_f1_is_about_is_told():
    run = trained(RUNS["classes"])
    assert run.summary["classes"] == ["no", "yes"]
    said = "F1 is about 'yes', the second of the classes 'no' and 'yes'"
    assert judged(run.summary) == said
    write_page(run, Path("page.html"))
    assert said in html.unescape(Path("page.html").read_text())
    run = trained(RUNS["a number"], "other")
    assert run.summary["classes"] is None
    assert judged(run.summary) is None


class Saves(nn.Module):
    def __init__(self, seen=()):
        super().__init__()
        self.register_buffer("between", torch.eye(3).to_sparse())
        self.seen = list(seen)

    def get_extra_state(self):
        return {"seen": self.seen}

    def set_extra_state(self, state):
        self.seen = state["seen"]


def test_a_part_holds_whatever_a_model_saves(tmp_path):
    export_part(tmp_path / "part", "bank", {"bottom": Saves([1, "two"])}, {})
    fresh = load_part(tmp_path / "part").load_into(Saves())
    assert fresh.seen == [1, "two"]
    assert torch.equal(fresh.between.to_dense(), torch.eye(3))


@pytest.mark.parametrize(
    "features",
    [
        torch.ones(5, 3),
        torch.zeros(4, 2, 2),
        {"numeric": torch.ones(3, 1), "categorical": torch.ones(3, 2, dtype=torch.int32)},
    ],
)
def test_blank_features_have_the_form_that_was_told(features):
    form = json.loads(json.dumps(form_of(features)))
    assert form_of(blank(form)) == form_of(features)


# The commands


def command(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["colonnade", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    printed = capsys.readouterr()
    return left.value.code or 0, printed.out, " ".join(printed.err.split())


def test_the_command_predict(monkeypatch, capsys):
    trained(RUNS["classes"])
    call = ("predict", "run", "--table", "bank=new-bank.csv", "--table", "shop=new-shop.csv")
    code, _, err = command(monkeypatch, capsys, *call)
    assert code == 2
    assert "say absent='drop' (--absent drop)" in err
    code, out, _ = command(monkeypatch, capsys, *call, "--absent", "drop")
    assert code == 0
    assert "9 rows are predicted in run/predictions.csv" in out
    assert "Left out: 1 rows of 'shop'" in out
    assert len(pl.read_csv("run/predictions.csv")) == 9
    code, out, _ = command(monkeypatch, capsys, "predict", "run", "--rows", "test", "--json")
    told = json.loads(out)
    assert told["rows"] == len(pl.read_csv("run/predictions.csv"))
    assert told["bytes"] == told["rows"] * 2 * 32 * 4
    Path("mine.csv").write_text("mine\n")
    code, _, err = command(monkeypatch, capsys, "predict", "run", "--out", "mine.csv")
    assert (code, Path("mine.csv").read_text()) == (2, "mine\n")
    for wrong, said in (
        (("--table", "bank"), "it should be like bank=new.csv"),
        (("--table", "bank=a.csv", "--table", "bank=b.csv"), "'bank' is named twice; name"),
        (("--table", "bank=new-bank.csv", "--rows", "test"), "--rows is about the run's own data"),
    ):
        code, _, err = command(monkeypatch, capsys, "predict", "run", *wrong)
        assert code == 2
        assert said in err


def test_the_command_export(monkeypatch, capsys):
    run = trained(RUNS["classes"])
    code, out, _ = command(monkeypatch, capsys, "export", "run", "--to", "parts", "--programs")
    assert code == 0
    assert "give each folder to nobody else" in out
    assert sorted(path.name for path in Path("parts").iterdir()) == ["bank", "label_holder", "shop"]
    program = torch.export.load("parts/shop/bottom.pt2").module()
    x = torch.randn(3, 1)
    assert torch.allclose(program(x), run.models["shop"]["bottom"].eval()(x), atol=1e-6)


def test_the_command_predicts_without_a_party_and_says_what_is_lost(monkeypatch, capsys):
    run = trained({"data": TABLES, "training": {"epochs": 3}})
    given = ("predict", "run", "--table", "bank=new-bank.csv")
    call = (*given, "--without", "shop=mean")
    code, out, _ = command(monkeypatch, capsys, *call, "--json")
    told = json.loads(out)
    assert (code, told["rows"], told["lost"]["metric"]) == (0, 9, "validation_auc")
    assert told["lost"]["everybody"] == run.summary["best"]
    assert told["lost"]["without"] < told["lost"]["everybody"]
    _, out, _ = command(monkeypatch, capsys, *call)
    assert "Without shop: validation_auc is " in out
    for wrong, said in (
        (("--without", "shop=median"), "--without shop=median: it is zeros or mean"),
        (("--without", "shop"), "shop: it should be like bank=mean"),
        (("--without", "club=zeros"), "nothing can stand for 'club'"),
        (("--without", "bank=zeros", "--without", "shop=zeros"), "every party has left"),
        (("--without", "bank=zeros"), "'bank' has left, and has a table of new rows"),
    ):
        code, _, err = command(monkeypatch, capsys, *given, *wrong)
        assert code == 2
        assert said in " ".join(err.split())
    Path("shop.csv").unlink()  # nobody has its rows any more
    code, _, err = command(monkeypatch, capsys, *call)
    assert code == 0
    assert "what is lost without shop is not measured" in " ".join(err.split())
