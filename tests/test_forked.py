"""Who is forked from a process that has computed with polars is told so, and waits for nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from colonnade.run_folder import FILES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")

TRAINED = """
import multiprocessing, sys, warnings
from functools import partial
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
with multiprocessing.get_context("fork").Pool(1) as pool:
    for does in (work, read, loaded):
        print(pool.apply_async(does, (0,)).get(60))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fork_of_who_has_computed_is_told_and_no_other(tmp_path, when):
    """It waited for ever, for threads that only its parent has."""
    table = tmp_path / "table.csv"
    table.write_text("a\n1\n2\n")
    for name in FILES:
        (tmp_path / name).touch()
    command = [sys.executable, "-c", TRAINED, when, str(table), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    trained, height, loaded = ended.stdout.splitlines()
    if when == "before":
        assert (trained, height, loaded) == ("trained", "2", "DataError")
    else:
        assert "was forked from one that had computed with polars" in trained
        assert trained == height == loaded
