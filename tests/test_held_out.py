"""Rows that are not trained on: how their embeddings travel, and where that is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from colonnade.codecs import Entropy, Scalar, TopK
from colonnade.links import Direct, ErrorFeedback, LearnedEntropy
from colonnade.methods import lean, svfl
from colonnade.reports import comparison_table, write_comparison, write_page
from colonnade.testing.methods import MethodSubject
from colonnade.uplinks import Plain

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_a_link_says_how_held_out_rows_travel() -> None:
    quantiser = Scalar(2)
    assert Direct(quantiser).held_out() == Direct(quantiser)
    assert LearnedEntropy(quantiser).held_out() == Direct(Entropy(quantiser))
    assert ErrorFeedback(TopK(0.1)).held_out() == Direct()
    small = Plain(LearnedEntropy(quantiser))
    assert small.of_new_rows() == Plain(Direct(Entropy(quantiser)))


def test_held_out_rows_that_travel_otherwise_are_told_of(tmp_path: Path) -> None:
    runs = {name: MethodSubject(lean(held_out=name)).train() for name in ("codes", "exact")}
    said = {name: run.summary["privacy"]["held-out embeddings"] for name, run in runs.items()}
    assert said["exact"] == "evaluated and predicted as Direct(codec=Float(format=32)) leaves them"
    assert "Entropy" in said["codes"]
    assert f"exact: held-out embeddings are {said['exact']}" in str(comparison_table(runs).caption)
    write_page(runs["exact"], tmp_path / "report.html")
    write_comparison(runs, tmp_path / "comparison.html")
    for page in ("report.html", "comparison.html"):
        assert "Float(format=32)) leaves them" in (tmp_path / page).read_text(encoding="utf-8")
    alike = MethodSubject(svfl(Scalar(4))).train()
    assert "held-out embeddings" not in alike.summary["privacy"]
