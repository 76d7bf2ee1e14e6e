"""The check of the papers' tables finds a wrong digit, and lets a rounded one pass."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECK = runpy.run_path(str(ROOT / "benchmarks" / "docs_check.py"))

PAGE = """Words.

<!-- figures of some.csv by method, Q; loss = loss, nats -->

| method | Q | loss | sent |
|---|---|---|---|
| SVFL | 2 | .225 ± .01 | 307 MB |
"""
ROW = {"method": "SVFL", "Q": "2", "loss, nats": "0.2251 ± 0.0140", "sent": "307 MB", "more": "1"}


def differences(**changed):
    ((comment, rows),) = CHECK["tables"](PAGE)
    return CHECK["differences"](comment, rows, lambda file: [ROW | changed])


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("sent", "307 MB", None),
        ("loss, nats", "0.2246 ± 0.006", None),
        ("loss, nats", "0.2256 ± 0.01", "loss is .225 ± .01 here"),
        ("loss, nats", "0.225", "loss is"),
        ("sent", "0.307 GB", None),
        ("sent", "308 MB", "sent is 307 MB here, and 308 MB there"),
        ("sent", "307 kB", "sent is"),
        ("sent", "not reached by 1 of 3", "sent is"),
        ("method", "CVFL", "0 rows are SVFL, 2"),
    ],
)
def test_a_wrong_figure_is_found(column, value, said):
    found = differences(**{column: value})
    assert (not found) if said is None else (len(found) == 1 and said in found[0])


@pytest.mark.parametrize(
    ("printed", "found", "same"),
    [
        ("3.07e-6", "3.0721e-06", True),
        ("3.07e-6", "3.08e-6", False),
        ("12.0 ± .9", "12.0 ± 0.9", True),
        ("1.45 GB ± .14 GB", "1.45 GB ± 141 MB", True),
        ("1.45 GB ± .14 GB", "1.45 GB ± 146 MB", False),
        ("b = 3", "b = 3", True),
        ("yes", "no", False),
    ],
)
def test_a_figure_is_rounded_to_the_digits_printed(printed, found, same):
    assert CHECK["agrees"](printed, found) is same


def test_the_page_names_files_that_experiments_write_and_columns_that_its_tables_have():
    from colonnade.experiments.catalogue import EXPERIMENTS

    tables = [
        (comment, rows)
        for page in CHECK["PAGES"]
        for comment, rows in CHECK["tables"](page.read_text("utf-8"))
        if comment.startswith("<!--")
    ]
    files = {CHECK["COMMENT"].match(comment).group(1) for comment, _ in tables}
    assert files >= {"efvfl-mnist.csv", "cvfl-schedule.csv", "lean-mnist.csv", "defaults.csv"}
    for comment, rows in tables:
        match = CHECK["COMMENT"].match(comment)
        assert match is not None, comment
        written = re.sub(r"(-\d+)?\.csv$", "", match.group(1))
        assert written in EXPERIMENTS, comment
        assert CHECK["keys_of"](match.group(2), rows[0])
