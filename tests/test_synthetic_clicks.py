"""Made-up clicks: the same rows in every form, like the real ones in kind, and named synthetic."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
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


def test_the_rows_of_a_seed_stay_what_they_are():
    # A result that names a seed and a number of rows is of these rows.
    line = SyntheticClicks(1, 0).text(0, 1).decode()
    assert line.startswith(GOLDEN)


GOLDEN = "0\t8\t2\t16\t4\t2167\t\t\t9\t102\t\t3\t\t2\t3c5b6687\t2d9344ca\tea47b8fd"


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
    made = SyntheticClicks(45_000)
    values, counts, gone, labels = made.draw(0, 45_000)
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
        half = 35_000
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


def test_a_run_on_made_up_clicks_from_yaml(tmp_path):
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
            {"name": "streamed", "files": ["a"], "label": "y", "classes": [True, False],
             "parties": {"a": {"numeric": ["x"]}}},
            r"data.classes",
        ),
    ],
)  # fmt: skip
def test_a_section_that_is_wrong_is_named(section, said):
    with pytest.raises(ConfigurationError, match=said):
        parse_config({"data": section})
