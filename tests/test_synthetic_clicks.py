"""Made-up clicks: the same rows in every form, like the real ones in kind, and named synthetic."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from matplotlib.figure import Figure
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.config import load_config, parse_config
from colonnade.datasets import (
    CATALOGUE,
    SyntheticClicks,
    avazu,
    criteo,
    synthetic_clicks,
    write_synthetic_clicks,
)
from colonnade.errors import ConfigurationError, DataError
from colonnade.kernels.philox import uniform_words
from colonnade.reports.pictures import draw_run
from colonnade.reports.tables import comparison_table
from colonnade.streams import StreamKey
from colonnade.tables import LastRows


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("like", ["criteo", "avazu"])
def test_a_row_is_a_function_of_the_seed_and_its_number(like):
    made = SyntheticClicks(10_000, 7, like)
    whole = made.text(0, 700)
    assert made.text(0, 300) + made.text(300, 1) + made.text(301, 399) == whole
    assert b"".join(piece for _, piece in made.pieces())[: len(whole)] == whole
    assert SyntheticClicks(5, 7, like).text(0, 5) == made.text(0, 5)
    assert SyntheticClicks(10_000, 8, like).text(0, 5) != made.text(0, 5)
    far = SyntheticClicks(41_000_000, 7, like)
    assert far.text(40_999_990, 10).count(b"\n") == 10


# A result that names a seed and a number of rows is of these rows.
GOLDEN = {
    ("criteo", 0): "0\t8\t2\t16\t4\t2167\t\t\t9\t102\t\t3\t\t2\t3c5b6687\t2d9344ca\tea47b8fd",
    ("criteo", 40_000_000): "0\t\t49\t\t\t23433\t29\t0\t5\t2\t2\t3\t\t12\t1e5cd0af\t61df3e2b",
    ("avazu", 0): "10000000000,0,14102100,0,0,1cc43df9,b9418955,40452848,6064d3aa,53bd96a4,"
    "3389a221,fc92e88d,20fe6a2d,91831be4,0,0,2,0,0,339,0,0,20,16\n",
    ("avazu", 40_000_000): "10040000000,0,14103022,0,0,d8a75d0f,009845a0,0d935d2f,dfe21ade,"
    "53bd96a4,3389a221,fc92e88d,b9b97e62,e7dbbe6b,4,0,176,0,2,352,1,0,0,27\n",
}
CLICKED = {
    "criteo": "413332002080f1008222d2000a027508100b2250044c4101",
    "avazu": "000005240000046640000a06300000095100120805122180",
}


@pytest.mark.parametrize(("like", "row"), GOLDEN)
def test_the_rows_of_a_seed_stay_what_they_are(like, row):
    made = SyntheticClicks(41_000_000, 0, like)
    assert made.text(row, 1).decode().startswith(GOLDEN[like, row])


@pytest.mark.parametrize("like", CLICKED)
def test_what_is_clicked_stays_what_it_is(like):
    made = SyntheticClicks(41_000_000, 0, like)
    labels = [made.draw(first, 64)[3] for first in (0, 20_000_000, 2**33)]
    assert np.packbits(np.concatenate(labels)).tobytes().hex() == CLICKED[like]


@pytest.mark.parametrize("like", ["criteo", "avazu"])
@pytest.mark.parametrize("first", [0, 168_000 * 30 - 500, 40_000_000])
def test_labels_are_those_of_the_formula(like, first):
    made, count = SyntheticClicks(41_000_000, 5, like), 1000
    values, _, _, labels = made.draw(first, count)
    one, other, u = hidden(made, first, values)
    bias, a, b, c = made._log.effects
    logit = bias + a * one[:, 0] + b * other[:, 0] + c * (one * other)[:, 1:].sum(1)
    assert (labels == (u < 1 / (1 + np.exp(-logit)))).all()


def hidden(made, first, values):
    """Both sides' hidden factors, by plain sums, and the number that decides on the click."""
    log, count = made._log, len(values)
    counts = (4 + 13) if made.like == "criteo" else 0
    words = -(-(values.shape[1] + counts + 1) // 4) * 4
    key = StreamKey(made.seed, "", f"clicks/{made.like}", 0)
    drawn = uniform_words(key, count * words, first * words // 4).reshape(count, words)
    sides = [np.zeros((count, 4)), np.zeros((count, 4))]
    for column, side in enumerate(log.sides):
        if column == log.hour:
            at = (first + np.arange(count)) // 168_000 % 24 + 1
        else:
            at = np.minimum(values[:, column], 65)
        sides[side] += made._factors[column, at]
    if counts:
        halves = drawn[:, 26:30].copy().view(np.uint16).reshape(count, 4, 4)
        sides[1] = ((halves / 65536).sum(2) - 2) * math.sqrt(3)
    return *sides, (drawn[:, -1] >> np.uint64(11)) / 2**53


@pytest.mark.parametrize("like", ["criteo", "avazu"])
def test_hidden_factors_have_mean_0_and_variance_1(like):
    made = SyntheticClicks(41_000_000, 0, like)
    firsts = range(0, 41_000_000 // 168_000 // 24 * 24 * 168_000, 168_000)
    pieces = [hidden(made, first, made.draw(first, 500)[0]) for first in firsts]
    for side in (0, 1):
        factors = np.concatenate([piece[side] for piece in pieces])
        assert np.abs(factors.mean(0)).max() < 0.02
        assert np.abs(factors.var(0) - 1).max() < 0.03


@pytest.mark.parametrize(("like", "rate"), [("criteo", 0.256), ("avazu", 0.170)])
def test_clicks_are_as_frequent_as_in_the_log_at_every_hour(like, rate):
    made = SyntheticClicks(41_000_000, 0, like)
    hours = [made.draw(hour * 168_000, 5000)[3].mean() for hour in range(240)]
    assert abs(np.mean(hours) - rate) < 0.005
    of_the_day = np.reshape(hours, (10, 24)).mean(0)  # of 50,000 rows each
    assert 0 < np.std(of_the_day) < 0.015
    assert np.abs(of_the_day - rate).max() < 0.04
    assert abs(made.draw(0, 1_000_000)[3].mean() - rate) < 0.01


def test_an_hour_of_the_text_is_that_which_is_clicked_by():
    made = SyntheticClicks(41_000_000, 0, "avazu")
    for first in (0, 167_999, 168_000, 168_000 * 23, 168_000 * 24, 40_000_000):
        hour = int(made.text(first, 1).split(b",")[2])
        day, of_the_day = divmod(first // 168_000, 24)
        assert hour == 14_102_100 + 100 * day + of_the_day
        assert made.draw(first, 1)[0][0, 0] == of_the_day + 1


def test_frequencies_missing_cells_and_clicks_are_about_those_of_the_log():
    values, counts, gone, labels = SyntheticClicks(50_000).draw(0, 50_000)
    assert 0.22 < labels.mean() < 0.28
    assert values.min() == 0
    missing = (values == 0).mean(0)
    assert abs(missing[21] - 0.76) < 0.01
    assert missing[0] == 0
    assert abs(gone[:, 11].mean() - 0.77) < 0.01
    assert counts[:, 1].min() == -2
    assert counts[:, 0].min() == 0
    assert 2000 < np.median(counts[:, 4]) < 3500
    assert [values[:, j].max() for j in (5, 8, 19)] == [24, 3, 4]
    # Zipf: the tenth is about a tenth as frequent as the first, of ten million.
    shares = np.bincount(values[:, 2], minlength=11) / len(values)
    assert 5 < shares[1] / shares[10] < 16
    assert len(np.unique(values[:, 2])) > 5000
    assert 0.14 < SyntheticClicks(50_000, 0, "avazu").draw(0, 50_000)[3].mean() < 0.2


def test_both_sides_together_know_more_than_either():
    made = SyntheticClicks(9_000)
    values, counts, gone, labels = made.draw(0, 9_000)
    logs = np.where(gone, 0.0, np.log1p(counts + 2.0))
    seen = (logs - logs.mean(0)) / logs.std(0)
    few = [j for j in range(26) if values[:, j].max() < 700]
    codes = [np.eye(21)[np.minimum(values[:, j], 20)] for j in few]
    one, other = np.concatenate(codes, 1), np.concatenate([seen, gone], 1)
    fewest = np.concatenate([np.eye(30)[values[:, j]] for j in few if values[:, j].max() < 30], 1)
    crossed = np.einsum("ni,nj->nij", fewest, seen).reshape(len(one), -1)

    def auc(features):
        x = torch.from_numpy(np.concatenate([features, np.ones((len(one), 1))], 1))
        y = torch.from_numpy(labels.astype(float))
        ridge = 100 * torch.eye(x.shape[1], dtype=x.dtype)
        half = 6_000
        w = torch.linalg.solve(x[:half].T @ x[:half] + ridge, x[:half].T @ y[:half])
        order = (x[half:] @ w).argsort()
        ranks = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
        clicks = y[half:] > 0
        n, m = int(clicks.sum()), int((~clicks).sum())
        return (float(ranks[clicks].sum()) - n * (n - 1) / 2) / (n * m)

    alone = auc(one), auc(other)
    added = auc(np.concatenate([one, other], 1))
    joined = auc(np.concatenate([one, other, crossed], 1))
    assert min(alone) > 0.62
    assert added > max(alone) + 0.03
    assert joined > added + 0.01


@pytest.mark.parametrize(
    ("like", "file", "load"),
    [("criteo", "synthetic.tsv", criteo), ("avazu", "synthetic.csv", avazu)],
)
def test_the_store_is_that_of_the_file_in_every_form(tmp_path, like, file, load):
    made = synthetic_clicks(rows=5000, seed=3, like=like, store="made")
    for name in (file, f"{file}.gz", "synthetic.parquet"):
        write_synthetic_clicks(name, 5000, 3, like)
        read = load(tmp_path, files=[name], store=f"store of {name}")
        for array in made.folder.glob("*.[fi]*"):
            assert (read.folder / array.name).read_bytes() == array.read_bytes()
    assert pl.read_parquet("synthetic.parquet").height == 5000
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        file,
        f"{file}.gz",
        "synthetic.parquet",
    }


@pytest.mark.parametrize("name", ["synthetic.tsv", "synthetic.tsv.gz", "synthetic.parquet"])
def test_progress_is_told_up_to_the_last_row(name):
    heard = []
    write_synthetic_clicks(name, 10_000, told=lambda *said: heard.append(said))
    assert heard == [(4096, 10_000), (8192, 10_000), (10_000, 10_000)]


def test_a_split_that_is_none_is_refused_before_any_click_is_made():
    with pytest.raises(ConfigurationError, match=r"^split is HashSplit\(.* or None, not 3$"):
        synthetic_clicks(rows=1000, store="made", split=3)
    assert not Path("made").exists()


def test_progress_of_encoding_is_told_once_and_not_when_it_is_there():
    heard = []
    synthetic_clicks(rows=10_000, store="made", told=lambda *said: heard.append(said))
    assert heard == sorted(heard)
    assert heard[-1] == (10_000, 10_000)
    synthetic_clicks(rows=10_000, store="made", told=lambda *said: pytest.fail("made again"))


def test_classes_are_counted_over_all_training_rows(monkeypatch):
    monkeypatch.setattr("colonnade.streamed.rows._AT_ONCE", 3)
    seed = next(s for s in range(99) if SyntheticClicks(20, s).draw(0, 20)[3].argmax() > 3)
    first = int(SyntheticClicks(20, seed).draw(0, 20)[3].argmax())  # of the clicks
    split = LastRows(validation=0, test=0)
    with pytest.raises(DataError, match=r"no training row of clicks .synthetic. is of class '1'"):
        synthetic_clicks(rows=first, seed=seed, split=split)
    assert len(synthetic_clicks(rows=first + 1, seed=seed, split=split).train) == first + 1


def test_everything_says_that_they_are_synthetic():
    made = synthetic_clicks(rows=2000)
    assert "synthetic" in made.name
    assert "synthetic" in made.folder.name
    manifest = (made.folder / "manifest.json").read_text()
    assert next(iter(json.loads(manifest).values())) == "clicks (synthetic)"
    assert made.warnings == ("the data are clicks (synthetic): they tell nothing of real clicks",)
    assert "SYNTHETIC" in CATALOGUE["synthetic_clicks"].title
    assert "SYNTHETIC" in (synthetic_clicks.__doc__ or "")


@pytest.mark.parametrize(
    ("file", "load", "name"),
    [
        ("My-Synthetic.tsv", criteo, "Criteo's form (synthetic)"),
        ("synthetic.csv.gz", avazu, "Avazu's form (synthetic)"),
    ],
)
def test_a_file_that_says_synthetic_is_not_reported_as_the_log(tmp_path, file, load, name):
    write_synthetic_clicks(file, 500, like=load.__name__)
    data = load(tmp_path, files=[file])
    assert data.name == name
    assert data.warnings == (f"the data are {name}: they tell nothing of real clicks",)
    assert json.loads((data.folder / "manifest.json").read_text())["data"] == name
    real = Path(file).rename("rows" + "".join(Path(file).suffixes))
    assert load(tmp_path, files=[real.name]).warnings == ()


def test_days_that_are_missing_between_others_are_named(tmp_path):
    for day, ending in ((0, ""), (1, ""), (3, ".gz")):
        write_synthetic_clicks(f"synthetic.tsv{ending}", 200, day)
        Path(f"synthetic.tsv{ending}").rename(f"day_{day}{ending}")
    said = "of Criteo's days day_0, day_1, day_3 are read, without day_2; put the files there"
    assert [warning.startswith(said) for warning in criteo(tmp_path).warnings] == [True]
    Path("day_3.gz").rename("day_2.gz")
    assert criteo(tmp_path).warnings == ()


def test_a_plan_says_that_the_data_are_synthetic():
    Path("run.yaml").write_text(
        "data: {name: synthetic_clicks, rows: 500, buckets: 50}\nlabel_holder: {holds: counts}\n"
    )
    told = "the data are clicks (synthetic): they tell nothing of real clicks"
    done = CliRunner().invoke(app, ["plan", "run.yaml"])
    assert done.exit_code == 0, done.output
    assert told in " ".join(done.output.split())
    done = CliRunner().invoke(app, ["plan", "run.yaml", "--json"])
    assert json.loads(done.output)["warnings"] == [told]


@pytest.mark.parametrize(
    ("path", "like", "said"),
    [
        ("clicks.tsv", "criteo", "does not say that its rows are made up; .* clicks-synthetic.tsv"),
        ("synthetic.csv", "criteo", r"criteo's form ends in .tsv or .txt or .parquet"),
        ("synthetic.tsv", "avazu", r"avazu's form ends in .csv or .parquet"),
        ("there-synthetic.tsv", "criteo", "is there already; choose another name"),
        ("nowhere/synthetic.tsv", "criteo", "cannot be written"),
    ],
)
def test_a_file_that_may_not_be_written_is_refused(path, like, said):
    Path("there-synthetic.tsv").write_text("mine")
    with pytest.raises(ConfigurationError, match=said):
        write_synthetic_clicks(path, 10, 0, like)
    assert Path("there-synthetic.tsv").read_text() == "mine"


@pytest.mark.parametrize(
    "wrong", [{"rows": 0}, {"rows": 2**41}, {"rows": 1.5}, {"seed": 2**63}, {"like": "movielens"}]
)
def test_what_cannot_be_drawn_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        SyntheticClicks(**({"rows": 10} | wrong))


def test_the_command_writes_a_file_with_a_name_that_says_so():
    runner = CliRunner()
    done = runner.invoke(app, ["clicks", "a-synthetic.csv", "--rows", "100", "--schema", "avazu"])
    assert done.exit_code == 0, done.output
    assert "100 synthetic rows" in done.output
    assert len(Path("a-synthetic.csv").read_text().splitlines()) == 101
    assert runner.invoke(app, ["clicks", "a-synthetic.csv", "--schema", "avazu"]).exit_code != 0
    help = runner.invoke(app, ["clicks", "--help"]).output
    assert "SYNTHETIC" in help


# From a configuration


def test_a_run_on_made_up_clicks_from_yaml(tmp_path, monkeypatch):
    Path("run.yaml").write_text(
        """
data: {name: synthetic_clicks, rows: 3000, buckets: 500, store: made}
label_holder: {name: shop, holds: counts}
training: {epochs: 2, batch_size: 256}
"""
    )
    config = load_config(Path("run.yaml"))
    data = config.data.load()
    assert data.folder == tmp_path / "made"
    run = config.train()
    assert run.summary["parties"] == ["categories", "shop"]
    assert any("clicks (synthetic)" in warning for warning in run.summary["warnings"])
    told = "the data are clicks (synthetic): they tell nothing of real clicks"
    assert told in str(comparison_table({"one": run, "other": run}).caption)
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda figure, text, **how: titles.append(text))
    draw_run(run, tmp_path / "run.png")
    assert titles == [f"{run.summary['method']}, 2 parties\n{told}"]
    assert run.summary["completed"]
    assert parse_config(config.as_dict()).data == config.data
    alone = config.without("categories", 0)
    with pytest.raises(ConfigurationError):
        alone.train()  # the counts are the label holder's: nobody is left


def test_a_users_own_long_table_from_yaml(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    rows = "".join(f"{'yes' if i % 3 else 'no'};{i};town {i % 4};NA\n" for i in range(600))
    (folder / "visits.csv").write_text(rows)
    (folder / "run.yaml").write_text(
        """
data:
  name: streamed
  files: [visits.csv]
  names: [bought, price, town, age]
  separator: ";"
  label: bought
  classes: ["no", "yes"]
  missing: [NA]
  parties:
    shop: {numeric: [price], scale: none}
    city: {categorical: [town], numeric: [age], buckets: {town: 500}}
  split: {by: order, validation: 0.1, test: 0.1}
  store: encoded
"""
    )
    data = load_config(folder / "run.yaml").data.load()
    assert data.folder == folder / "encoded"
    assert data.classes == ("no", "yes")
    assert data.test.tolist() == list(range(540, 600))
    assert data.features["shop"]["numeric"].ravel().tolist() == list(map(float, range(600)))
    assert data.features["city"]["numeric"].eq(0).all()
    assert len(data.features["city"]["categorical"].unique()) == 4


def test_logs_from_yaml_and_where_files_are_looked_for(tmp_path, monkeypatch):
    write_synthetic_clicks("synthetic.tsv", 200)
    section = {"name": "criteo", "files": ["synthetic.tsv"], "folder": str(tmp_path)}
    assert len(parse_config({"data": section}).data.load().labels) == 200
    (tmp_path / "criteo").mkdir()
    for day in (0, 1):
        Path("synthetic.tsv").rename(tmp_path / "criteo" / f"day_{day}")
        write_synthetic_clicks("synthetic.tsv", 200, 1)
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    assert len(parse_config({"data": "criteo"}).data.load().labels) == 400
    with pytest.raises(DataError, match=r"expected the file train.csv, train.csv.gz or train.par"):
        parse_config({"data": "avazu"}).data.load()
    with pytest.raises(DataError, match=r"expected Criteo's file day_9 in"):
        parse_config({"data": {"name": "criteo", "files": ["day_9"]}}).data.load()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"name": "synthetic_clicks", "rows": 0}, r"data.rows"),
        ({"name": "synthetic_clicks", "like": "netflix"}, r"data.like"),
        ({"name": "criteo", "buckets": 1}, r"data.buckets"),
        ({"name": "criteo", "split": {"validation": 0.6, "test": 0.5}}, r"data.split"),
        ({"name": "streamed", "files": [], "label": "y", "parties": {}}, r"data.files"),
        (
            {"name": "streamed", "files": ["a"], "label": "y", "classes": [[1], 2],
             "parties": {"a": {"numeric": ["x"]}}},
            r"data.classes",
        ),
    ],
)  # fmt: skip
def test_a_section_that_is_wrong_is_named(section, said):
    with pytest.raises(ConfigurationError, match=said):
        parse_config({"data": section})
