"""Who is forked from a process that has computed with polars is told so, and waits for nothing."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest

from colonnade.run_seal import FILES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")

TRAINED = """
import multiprocessing, sys, warnings
from functools import partial
from pathlib import Path
import polars as pl
import torch
import colonnade as cn
from colonnade.errors import ConfigurationError
from colonnade.tables import read_table

def work(number):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x = torch.randn(40, 4)
    sgd = partial(torch.optim.SGD, lr=0.1)
    parties = [
        cn.Party(name, x[:, at : at + 2], torch.nn.Linear(2, 2), sgd)
        for name, at in (("bank", 0), ("shop", 2))
    ]
    labels = (x.sum(1) > 0).long()
    holder = cn.LabelHolder("insurer", labels, torch.nn.Linear(4, 2), optimiser=sgd)
    federation = cn.Federation(parties, holder, range(30), range(30, 40))
    try:
        federation.train(None, cn.Training(epochs=1, batch_size=10), report=False)
    except ConfigurationError as error:
        return str(error)
    return "trained"

def read(number):
    try:
        return read_table(sys.argv[2]).height
    except ConfigurationError as error:
        return str(error)

def loaded(number):
    try:
        return cn.load_run(sys.argv[3])
    except ConfigurationError as error:
        return str(error)
    except Exception as error:
        return type(error).__name__

warnings.simplefilter("ignore")
if sys.argv[1] == "after":
    pl.DataFrame({"a": [1]}).lazy().with_columns(b=pl.col("a") + 1).collect()
if sys.argv[1] == "after a look":
    pl.read_parquet_schema(sys.argv[4])
    while not any("tokio" in name.read_text() for name in Path("/proc/self/task").glob("*/comm")):
        pass  # a thread names itself, after a while
with multiprocessing.get_context("fork").Pool(1) as pool:
    for does in (work, read, loaded):
        print(pool.apply_async(does, (0,)).get(60))
"""


@pytest.mark.parametrize("when", ["before", "after", "after a look"])
def test_a_fork_of_who_has_computed_is_told_and_no_other(tmp_path, when):
    """It waited for ever, for threads that only its parent has."""
    table = tmp_path / "table.csv"
    table.write_text("a\n1\n2\n")
    for name in FILES:
        (tmp_path / name).touch()
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "table.parquet")
    places = (str(table), str(tmp_path), str(tmp_path / "table.parquet"))
    command = [sys.executable, "-c", TRAINED, when, *places]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    trained, height, loaded = ended.stdout.splitlines()
    if when == "before":
        assert (trained, height, loaded) == ("trained", "2", "DataError")
    else:
        assert "was forked from one that had computed with polars" in trained
        assert trained == height == loaded


WITHOUT_DESCRIPTORS = """
import os, resource
from colonnade.errors import ConfigurationError
from colonnade.forked import check_not_forked

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.dup(1))
except OSError:
    pass
if child := os.fork():
    os.waitpid(child, 0)
else:
    for descriptor in held:
        os.close(descriptor)
    try:
        check_not_forked()
    except ConfigurationError as error:
        print(error, flush=True)
    os._exit(0)
"""


def test_what_cannot_be_seen_as_a_process_is_forked_is_taken_for_the_worst():
    """The guard was off, and said so by a traceback."""
    command = [sys.executable, "-c", WITHOUT_DESCRIPTORS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.startswith("this process was forked from one that had computed with polars")
    assert not ended.stderr


DOORS = """
import multiprocessing, warnings
import numpy as np, pandas as pd, polars as pl, torch
import colonnade as cn
from colonnade.audits import audit
from colonnade.datasets import mnist5k
from colonnade.errors import ConfigurationError
from colonnade.streamed import Columns, streamed_rows

warnings.simplefilter("ignore")
torch.set_num_threads(1)
x = np.random.default_rng(0).normal(size=(60, 4))
labels = (x[:, 0] > 0).astype(int)
ids = pl.Series("id", [f"p{row}" for row in range(60)])
plain = {"bank": pl.DataFrame(x[:, :2], ["a", "b"]), "shop": pl.DataFrame(x[:, 2:], ["c", "d"])}
told = pl.DataFrame({"id": ids, "label": labels})
tables = {
    "polars": plain,
    "pandas": {n: pd.DataFrame({c: f[c].to_numpy() for c in f.columns}) for n, f in plain.items()},
    "arrays": {n: f.to_numpy() for n, f in plain.items()},
    "matrix": x,
    "ids": {n: f.with_columns(ids) for n, f in plain.items()},
}
said = {"matrix": {"parties": {"bank": ["0", "1"], "shop": ["2", "3"]}}, "ids": {"id": "id"}}
answers = {"ids": told}

def fitted(kind):
    settings = said.get(kind, {"aligned": True})
    model = cn.VerticalClassifier(epochs=1, **settings)
    return model.fit(tables[kind], answers.get(kind, labels))

models = {kind: fitted(kind) for kind in tables}
transformer = cn.tables.TableTransformer().fit(plain["bank"])
whole = pl.concat([*plain.values(), told], how="horizontal")
whole.write_parquet("whole.parquet")
stored = cn.tables.StoredTable("whole.parquet")
named = {"bank": Columns(["a"]), "shop": Columns(["c"])}
parties = [cn.Party(name, torch.randn(60, 2), torch.nn.Linear(2, 2)) for name in plain]
holder = cn.LabelHolder("insurer", torch.tensor(labels), torch.nn.Linear(4, 2))
federation = cn.Federation(parties, holder, range(40), range(40, 60))
svfl, once = cn.methods.svfl(), cn.Training(epochs=1)

doors = {
    **{f"fit {kind}": (fitted, kind) for kind in tables},
    **{f"predict {kind}": (model.predict, tables[kind]) for kind, model in models.items()},
    **{f"score {k}": (m.score, tables[k], answers.get(k, labels)) for k, m in models.items()},
    "transform": (models["ids"].data_.transform, tables["ids"]),
    "predict of a run": (models["polars"].run_.predict, plain),
    "fit of a transformer": (cn.tables.TableTransformer().fit, tables["pandas"]["bank"]),
    "transform of a transformer": (transformer.transform, plain["bank"]),
    "labels": (cn.tables.encode_labels, ["no", "yes"] * 30),
    "a stored table": (cn.tables.StoredTable, "whole.parquet"),
    "a stored column": (stored.column, "a"),
    "streamed rows": (streamed_rows, "whole.parquet", named, "label"),
    "a plan": (cn.plan, federation, svfl, once),
    "an audit": (audit, federation, svfl, once),
    "digits": (mnist5k,),
}

def said_of(door):
    does, *given = doors[door]
    try:
        return f"gave {type(does(*given)).__name__}"
    except ConfigurationError as error:
        return str(error)

with multiprocessing.get_context("fork").Pool(1) as pool:
    for door in doors:
        print(f"{door}: {pool.apply_async(said_of, (door,)).get(60)}", flush=True)
"""


def test_every_door_says_so(tmp_path):
    """Of those that take tables, half were waited at for ever."""
    command = [sys.executable, "-c", DOORS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) == 26
    assert [line for line in lines if "was forked from one that had computed" not in line] == []
