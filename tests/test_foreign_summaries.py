"""What somebody else may write into a run's account, before reports are made of it."""

from __future__ import annotations

import copy
import io
from dataclasses import replace

import polars as pl
import pytest
import torch
from rich.console import Console
from torch import nn

from colonnade.audit_subjects import _repeated
from colonnade.audits.audit import _accounted
from colonnade.channels import Channel, Network
from colonnade.codecs import Scalar
from colonnade.costs import Modelled
from colonnade.defences import GaussianDerivatives
from colonnade.drivers import Simulate
from colonnade.errors import ColonnadeError
from colonnade.federation import Federation
from colonnade.methods import celu, fedvs, pbm_vfl
from colonnade.metrics import ACCURACY, F1
from colonnade.models import Polynomial, Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.privacy import Budget
from colonnade.reports import (
    comparison_tables,
    draw_comparison,
    epsilon_line,
    judged,
    left_out,
    reaching_tables,
    write_comparison,
    write_page,
)
from colonnade.reports.figures import comparison_figures, run_figures
from colonnade.run_read import _read_csv
from colonnade.summaries_read import check_history, check_others_history, check_summary
from colonnade.training import EarlyStopping, Training, Watcher

TRAINING = Training(
    epochs=2,
    batch_size=20,
    seed=5,
    secrets="seed",
    checkpoint_every=2,
    early_stopping=EarlyStopping(None),
)
SIMULATE = Simulate(Network(Channel(1e6, 0.01)), Modelled(otherwise=0.001))
LOUD = GaussianDerivatives(bound=0.5, multiplier=0.5)
METHODS = {
    "celu": celu(codec=Scalar(4), fusion=Sum()),
    "pbm_vfl": pbm_vfl(bound=100.0, budget=Budget(1e6, 1e-5), defence=LOUD),
    "fedvs": fedvs(),
}

MISSING = object()
VALUES = ({}, [], "x", -1, None, True, 1e308, 10**400, float("nan"), "[/x] $\\x$", MISSING)


class Crashed(Exception):
    """Something went wrong that nobody foresaw."""


def crash(name, round, sent):
    if (name, round) == ("insurer", 3):
        raise Crashed


def federation():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(60, 4, generator=generator)
    torch.manual_seed(1)
    return Federation(
        [
            Party("bank", x[:, :2], Polynomial(2, 3, 1)),
            Party("shop", x[:, 2:3], Polynomial(1, 3, 1)),
            Party("spa", x[:, 3:], Polynomial(1, 3, 1)),
        ],
        LabelHolder("insurer", (x.sum(1) > 0).long(), nn.Linear(3, 2)),
        train_rows=range(40),
        validation_rows=range(40, 50),
        test_rows=range(50, 60),
        metrics=[ACCURACY, F1],
        classes=["good", "poor"],
        people={"left_out": 14, "absent": {"bank": 12, "shop": 0}},
    )


def run_of(method, out):
    """Return a run that went on after a crash, and of which something came too late."""
    settings = {"training": TRAINING, "driver": SIMULATE, "out": out, "report": False}
    with pytest.raises(Crashed):
        federation().train(method, watcher=Watcher(on_round=crash), **settings)
    run = federation().train(method, resume=True, **settings)
    return replace(run, summary=run.summary | {"messages_discarded": 2, "bytes_discarded": 90})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return {
        name: run_of(method, tmp_path_factory.mktemp(name) / "run")
        for name, method in METHODS.items()
    }


def paths(value, at=()):
    """Yield the way to every value of a tree; of a list's, to those of its first element."""
    if isinstance(value, list):
        value = dict(enumerate(value[:1]))
    for key, each in value.items() if isinstance(value, dict) else ():
        yield (*at, key)
        yield from paths(each, (*at, key))


def forged(summary, path, value):
    """Return a summary in which another value stands at the end of a way."""
    whole = copy.deepcopy(summary)
    *way, last = path
    place = whole
    for key in way:
        place = place[key]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return whole


class Noting(dict):
    """A summary that notes which of its values are read one by one, and not written as they are."""

    def __init__(self, values):
        super().__init__(values)
        self.read = set()

    def __getitem__(self, key):
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        self.read.add(key)
        return super().get(key, default)


def beside(run, other):
    """Return a run alone, and after another."""
    return {"x": run}, {"other": other, "x": run}


def tables(run, other, folder):
    console = Console(file=io.StringIO(), width=300)
    for runs in beside(run, other):
        for table in comparison_tables(runs) + reaching_tables(runs):
            console.print(table)


def figures(run, other, folder):
    run_figures(run)


def figures_of_several(run, other, folder):
    comparison_figures({"x": run, "other": other})


def page(run, other, folder):
    write_page(run, folder / "page.html")


def page_of_several(run, other, folder):
    for runs in beside(run, other):
        write_comparison(runs, folder / "comparison.html")


def picture(run, other, folder):
    draw_comparison({"x": run, "other": other}, folder / "run.png", run.summary["method"])


def sentences(run, other, folder):
    epsilon_line(run.summary), left_out(run.summary), judged(run.summary), repr(run)
    _accounted(run), _repeated(run.summary, other.summary)


TELLERS = (tables, figures, figures_of_several, page, page_of_several, picture, sentences)


@pytest.fixture
def without_plots(monkeypatch):
    """Pages without figures, which are made beside them."""
    for name in ("run_figures", "comparison_figures"):
        monkeypatch.setattr(f"colonnade.reports.page.{name}", lambda runs: [])


def read_by(tell, run, other, folder):
    """Return which keys of a summary are read; what stands under others changes nothing."""
    noting = Noting(run.summary)
    tell(replace(run, summary=noting), other, folder)
    return noting.read


def why_not(tell, *arguments):
    """Return the raw error in which telling ends, if it does."""
    try:
        tell(*arguments)
    except ColonnadeError:
        return None
    except Exception as error:
        return f"{type(error).__name__} in {tell.__name__}: {error}"
    return None


def allowed(check, value):
    try:
        check(value)
    except ValueError:
        return False
    return True


@pytest.mark.usefixtures("without_plots")
def test_whatever_stands_in_a_summary_is_refused_or_can_be_told(runs, tmp_path):
    raw, seen = {}, set()
    for run in runs.values():
        read = {tell: read_by(tell, run, run, tmp_path) for tell in TELLERS}
        for path in [path for path in paths(run.summary) if path not in seen]:
            seen.add(path)
            others = [forged(run.summary, path, value) for value in VALUES]
            for other in (other for other in others if allowed(check_summary, other)):
                for tell in (tell for tell in TELLERS if path[0] in read[tell]):
                    if why := why_not(tell, replace(run, summary=other), run, tmp_path):
                        raw[path, tell.__name__] = why
    assert not raw


def test_an_epsilon_has_its_place_however_small(runs, tmp_path):
    run = runs["pbm_vfl"]
    other = forged(run.summary, ("privacy_loss", "epsilon"), 5e-324)
    check_summary(other)
    figures_of_several(replace(run, summary=other), run, tmp_path)


ABSENT = object()
COLUMNS = ("x", "", -1, 0.5, 1e308, "inf", ABSENT)


def with_column(frame, name, value, rows):
    """Return a table as text in which so many cells of a column are others, or it is gone."""
    if value is ABSENT:
        return frame.drop(name).write_csv()
    cells = frame[name].cast(pl.String).to_list()
    cells[:rows] = [str(value)] * len(cells[:rows])
    return frame.with_columns(pl.Series(name, cells)).write_csv().replace('""', "")


def changed(frame, name):
    """Yield a table as text with every other column there may be, and one without rows."""
    yield from (with_column(frame, name, value, len(frame)) for value in COLUMNS)
    yield with_column(frame, name, "", 1)
    yield frame.clear().write_csv()


@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize(
    ("which", "check", "tellers"),
    [
        ("history", check_history, (tables, figures, figures_of_several, page)),
        ("others_history", check_others_history, (tables, figures, page)),
    ],
)
def test_whatever_stands_in_a_history_is_refused_or_can_be_told(
    runs, tmp_path, which, check, tellers
):
    raw, seen, file = {}, set(), tmp_path / "history.csv"
    for run in runs.values():
        frame = getattr(run, which)
        for name in [name for name in frame.columns if name not in seen]:
            seen.add(name)
            for text in changed(frame, name):
                file.write_text(text, encoding="utf-8")
                other = replace(run, **{which: _read_csv(file)})
                if allowed(check, getattr(other, which)):
                    told = {tell: why_not(tell, other, run, tmp_path) for tell in tellers}
                    raw |= {(name, tell.__name__, text): why for tell, why in told.items() if why}
    assert not raw
