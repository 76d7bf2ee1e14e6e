"""Where a file or folder is to be named, a text and a path are taken; the rest is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import polars as pl
import pytest

import colonnade as cn
from colonnade.alignment import read_alignment
from colonnade.config import load_config
from colonnade.datasets import mnist, openml, write_synthetic_clicks
from colonnade.datasets.idx import read_idx
from colonnade.errors import ConfigurationError, DataError
from colonnade.ledger import Ledger
from colonnade.reports import draw_charts, draw_run
from colonnade.runs import Run
from colonnade.streamed import Columns, streamed_rows
from colonnade.tables import StoredTable, read_table

FRAME = pl.DataFrame({"income": [424242, 171717]})
RUN = Run({"method": "svfl", "parties": []}, pl.DataFrame(), Ledger(), {}, None)


def reported(path):
    model = cn.VerticalClassifier()
    model.run_ = RUN
    model.report(path)


TAKING = [
    (cn.load_run, "a run is read from the path of its folder"),
    (cn.load_trained, "a run is read from the path of its folder"),
    (cn.load_part, "a part is read from the path of its folder"),
    (RUN.export, "parts are exported into the path of a folder"),
    (reported, "a report is written to the path of a file"),
    (load_config, "a configuration is read from the path of a file"),
    (read_alignment, "an alignment is read from the path of its folder"),
    (partial(draw_run, RUN), "a picture is drawn to the path of a file"),
    (partial(draw_charts, []), "a picture is drawn to the path of a file"),
    (mnist, "MNIST is read from the path of a folder"),
    (
        lambda path: openml("adult", {"bank": ["age"]}, folder=path),
        "OpenML's data are kept in the path of a",
    ),
    (read_idx, "an idx file is read from its path"),
    (partial(write_synthetic_clicks, rows=1), "clicks are written to the path of a file"),
    (StoredTable, "a stored table is read from the path of a file"),
    (read_table, "a table is read from a file or the URL of a database"),
    (
        partial(streamed_rows, parties={"bank": Columns(["income"])}, label="bought"),
        "rows are read from the paths of files",
    ),
]


@pytest.mark.parametrize("given", [3, FRAME, b"runs", "a\0b", "a\ud800b", Path])
@pytest.mark.parametrize(("take", "said"), TAKING)
def test_what_is_no_path_is_refused_and_no_cell_of_a_table_is_told(take, said, given):
    with pytest.raises(ConfigurationError, match=f"^{said}.*, not [^,]*$") as caught:
        take(given)
    assert "424242" not in str(caught.value)


def test_in_what_the_system_takes_for_no_name_is_no_run():
    with pytest.raises(DataError, match=r"^x{200} \.\.\. cannot be read: File name too long$"):
        cn.load_run("x" * 5000)


def test_a_text_is_a_path():
    Path("run.yaml").write_text("training: {epochs: 3}\n")
    assert load_config("run.yaml") == load_config(Path("run.yaml"))
