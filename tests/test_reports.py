"""The pages of runs: their numbers, what is escaped, and that they need nothing but themselves."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser

import polars as pl
import pytest
import torch
from matplotlib.figure import Figure as Picture
from torch import nn

from colonnade.channels import PRESETS, Channel, Gateway, Network
from colonnade.codecs import Scalar
from colonnade.costs import Modelled
from colonnade.drivers import Processes, Simulate
from colonnade.errors import ConfigurationError
from colonnade.federation import Federation
from colonnade.ledger import Entry, Ledger
from colonnade.methods import celu, svfl
from colonnade.metrics import ACCURACY, AUC, LOG_LOSS, RMSE
from colonnade.networks_told import network_told
from colonnade.organisations import LabelHolder, Party
from colonnade.reports import (
    comparison_table,
    comparison_tables,
    draw_comparison,
    human_bytes,
    reaching_table,
    reaching_tables,
    write_comparison,
    write_page,
)
from colonnade.reports.figures import comparison_figures, run_figures
from colonnade.reports.page import _local_steps
from colonnade.run_read import load_run
from colonnade.runs import Run
from colonnade.testing.methods import small_federation
from colonnade.training import EarlyStopping, Training
from colonnade.wire import Purpose

SIMULATE = Simulate(
    Network(Channel(1e6, 0.01)), Modelled({"forward": 0.002, "top": 0.001}, otherwise=0.0)
)
WICKED = "<script>alert(1)</script>&<b>"


def problem(parties=("bank", "shop"), regression=False, test=True):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(120, 2 * len(parties), generator=generator)
    labels = x.sum(1) if regression else (x.sum(1) > 0).long()
    optimiser = partial(torch.optim.Adam, lr=0.02)
    return Federation(
        [
            Party(name, x[:, 2 * i : 2 * i + 2], nn.Linear(2, 3), optimiser)
            for i, name in enumerate(parties)
        ],
        LabelHolder("insurer", labels, nn.Linear(3 * len(parties), 1 if regression else 2)),
        train_rows=range(80),
        validation_rows=range(80, 100) if test else None,
        test_rows=range(100, 120) if test else None,
        metrics=(RMSE,) if regression else (AUC, ACCURACY, LOG_LOSS),
    )


TRAINING = Training(epochs=3, batch_size=16, early_stopping=EarlyStopping(None))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    return problem().train(svfl(Scalar(4)), TRAINING, SIMULATE, out=out)


class Page(HTMLParser):
    """What of a page a test looks at: its tables, its text, and what it would fetch."""

    def __init__(self, html):
        super().__init__()
        self.tables, self.words, self.fetched = [], [], []
        self.inside = []
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.inside.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        found = dict(attributes)
        self.fetched += [found[key] for key in ("src", "href", "data") if key in found]
        if tag in ("meta", "link", "wbr"):
            self.inside.pop()

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.inside and self.inside[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        if not {"script", "style"} & set(self.inside):
            self.words.append(data)


def read(path):
    return Page(path.read_text(encoding="utf-8"))


def page_of(run, tmp_path):
    write_page(run, tmp_path / "page.html")
    return read(tmp_path / "page.html")


# One run


def test_its_numbers_are_those_of_the_run(run, tmp_path):
    page, s = page_of(run, tmp_path), run.summary
    for value in (s["best"], s["test"]["auc"]):
        assert f"{value:.4f}" in page.text
    for name in ("bytes_up", "bytes_down", "bytes_evaluation"):
        assert human_bytes(s[name]) in page.text
    assert "modelled time" in page.text
    assert s["warnings"][0] in page.text
    assert "Seen by the label holder as the codec leaves them" in page.text
    assert "80 training rows, 20 for validation, 20 for testing" in page.text
    (ledger,) = [
        table for table in page.tables if table[0][0] == "organisation" and "to" in table[0]
    ]
    messages = sum(int(row[4].replace(",", "")) for row in ledger[1:])
    assert messages == len(run.ledger)
    shop = next(row for row in ledger if row[0] == "shop" and row[3] == "training")
    sent = run.ledger.bytes(lambda e: e.sender == "shop" and e.purpose is Purpose.TRAINING)
    assert shop[5] == human_bytes(sent)


def test_it_tells_of_the_network_that_was_modelled(run, strange, tmp_path):
    assert run.summary["network"] == {"up": "1 Mbit/s, 10 ms", "down": "1 Mbit/s, 10 ms"}
    text = page_of(run, tmp_path).text
    assert "The modelled network Up 1 Mbit/s, 10 ms Down 1 Mbit/s, 10 ms" in text
    assert strange["real time"].summary["network"] is None
    assert "modelled network" not in page_of(strange["real time"], tmp_path).text
    old = replace(run, summary={k: v for k, v in run.summary.items() if k != "network"})
    assert "modelled network" not in page_of(old, tmp_path).text


def test_a_network_in_words():
    slow = Channel(10e6, 1.5, 0.025)
    network = Network(
        Channel(2.5e9),
        {("bank", "insurer"): slow},
        senders={"insurer": Channel(500)},
        gateways={"insurer": Gateway(out=300e3)},
    )
    assert network_told(network, ["bank", "shop", "spa"], "insurer") == {
        "up, bank": "10 Mbit/s, 1.5 s, jitter up to 25 ms",
        "up, shop, spa": "2.5 Gbit/s",
        "down": "500 bit/s",
        "gateway of insurer": "300 kbit/s out, no limit of bandwidth in",
    }
    for name, preset in PRESETS.items():
        told = network_told(Network.preset(name, "insurer"), ["bank"], "insurer")
        assert told["channels"] == f"those of {name}, {preset.about}"


def test_training_writes_it_and_a_folder_gives_the_same(run, tmp_path):
    written = (run.folder / "report.html").read_bytes()
    write_page(load_run(run.folder), tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == written


def test_it_needs_nothing_but_itself(run, tmp_path):
    page = page_of(run, tmp_path)
    assert [url for url in page.fetched if not url.startswith(("data:", "#"))] == []
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    own = html.replace(re.search(r"<script>.*?</script>", html, re.DOTALL).group(), "")
    assert "@import" not in own
    assert "url(" not in own
    assert "http" not in own
    assert html.count("plotly.js v") == 1


def test_names_are_text_wherever_they_stand(tmp_path):
    run = problem(parties=("bank", WICKED.replace("/", "|"))).train(svfl(), TRAINING, SIMULATE)
    run.summary["warnings"].append(WICKED)
    run.summary["privacy"]["mechanism"] = WICKED
    write_page(run, tmp_path / "page.html")
    write_comparison({WICKED: run, "b": run}, tmp_path / "both.html", WICKED)
    for name in ("page.html", "both.html"):
        html = (tmp_path / name).read_text(encoding="utf-8")
        own = html.replace(re.search(r"<script>.*?</script>", html, re.DOTALL).group(), "")
        assert "<script>alert" not in own
        assert "<b>" not in re.sub(r"<b>[^<]*</b>", "", own)
        assert "alert(1)" in read(tmp_path / name).text


@pytest.mark.parametrize("figures", ["one", "several"])
def test_every_axis_says_what_it_shows(run, figures):
    drawn = run_figures(run) if figures == "one" else comparison_figures({"a": run, "b": run})
    assert len(drawn) == 7
    assert len({figure.key for figure in drawn}) == 7
    for figure in drawn:
        layout = figure.plot.to_plotly_json()["layout"]
        assert layout["xaxis"]["title"]["text"]
        if all(trace.type != "bar" for trace in figure.plot.data):
            assert layout["yaxis"]["title"]["text"]
    assert any("(ms)" in f.plot.layout.xaxis.title.text for f in drawn)
    assert any("(kB)" in f.plot.layout.xaxis.title.text for f in drawn)


def test_curves_hold_the_history(run):
    figures = {figure.key: figure.plot for figure in run_figures(run)}
    history = run.history
    sent = (history["bytes_up"] + history["bytes_down"]).to_list()
    assert list(figures["metric-bytes"].data[0].x) == pytest.approx([b / 1e3 for b in sent])
    assert list(figures["metric-bytes"].data[0].y) == history["validation_auc"].to_list()
    assert list(figures["metric-time"].data[0].x) == [1e3 * s for s in history["seconds"]]
    names = [trace.name for trace in figures["metric-epochs"].data]
    assert names[:2] == ["validation AUC", "validation accuracy"]
    assert names[-1] == "best"
    losses = [trace.name for trace in figures["loss"].data]
    assert losses == ["train loss", "validation log-loss"]  # of test rows there is no curve
    up = next(t for t in figures["bytes-party"].data if t.name == "embedding, up")
    assert sum(up.x) * 1e3 == pytest.approx(run.summary["bytes_up"])
    shares = [sum(t.x[i] for t in figures["time"].data) for i in range(3)]
    assert shares == pytest.approx([100] * 3)


def test_the_page_does_not_grow_with_the_ledger(run, tmp_path):
    many = Ledger(
        Entry("bank", "insurer", "embedding", Purpose.TRAINING, i, i, 100, 117, i)
        for i in range(100_000)
    )
    long = Run(run.summary, run.history, many, {}, None, run.config)
    write_page(run, tmp_path / "short.html")
    write_page(long, tmp_path / "long.html")
    sizes = [(tmp_path / f"{name}.html").stat().st_size for name in ("short", "long")]
    assert abs(sizes[1] - sizes[0]) < 2000


def test_long_histories_are_shown_in_part(run, tmp_path):
    history = pl.concat([run.history] * 30).with_columns(round=pl.int_range(1, pl.len() + 1))
    first = run.summary | {"best_round": 1}
    page = page_of(Run(first, history, run.ledger, {}, None, {}), tmp_path)
    (evaluations,) = [table for table in page.tables if table[0][0] == "round"]
    rounds = [row[0] for row in evaluations[1:]]
    assert [rounds[0], rounds[-1], len(rounds)] == ["1", "90", 12]
    assert "12 of 90." in page.text
    # The head says where the best was, so it is among them.
    best = run.summary | {"best_round": 5}
    page = page_of(Run(best, history, run.ledger, {}, None, {}), tmp_path)
    (evaluations,) = [table for table in page.tables if table[0][0] == "round"]
    assert [row[0] for row in evaluations[1:]] == sorted([*rounds, "5"], key=int)


# Runs of other kinds


def strange_runs():
    yield "regression", problem(regression=True).train(svfl(), TRAINING, SIMULATE)
    yield "no evaluation", problem(test=False).train(svfl(), Training(batch_size=16), SIMULATE)
    yield "one evaluation", problem().train(svfl(), Training(batch_size=16), SIMULATE)
    yield "real time", problem().train(svfl(), TRAINING, Processes())
    names = [f"party_{i}" for i in range(28)]
    yield "28 parties", problem(parties=names).train(svfl(), TRAINING, SIMULATE)
    stopped = problem().train(svfl(), TRAINING, SIMULATE, stop_before=3)
    yield "interrupted", stopped
    nan = problem().train(svfl(), TRAINING, SIMULATE)
    history = nan.history.with_columns(validation_auc=pl.lit(math.nan))
    yield (
        "nan",
        Run(nan.summary | {"best": None, "best_round": None}, history, nan.ledger, {}, None),
    )
    empty = pl.DataFrame(schema={"round": pl.Int64})
    bare = nan.summary | {"best": None, "best_round": None, "test": None}
    yield "nothing", Run(bare, empty, Ledger(), {}, None, {})


@pytest.fixture(scope="module")
def strange():
    return dict(strange_runs())


def test_runs_of_every_kind_have_a_page(strange, tmp_path):
    for name, run in strange.items():
        page = page_of(run, tmp_path)
        assert "What was protected" in page.text, name
        assert "nan" not in page.text.lower().split(), name
    assert "RMSE" in page_of(strange["regression"], tmp_path).text
    assert "wall time" in page_of(strange["real time"], tmp_path).text
    assert "not evaluated" in page_of(strange["no evaluation"], tmp_path).text
    assert "interrupted before round 3" in page_of(strange["interrupted"], tmp_path).text


def test_runs_of_every_kind_can_stand_side_by_side(strange, tmp_path):
    write_comparison(strange, tmp_path / "all.html")
    page = read(tmp_path / "all.html")
    results = [table for table in page.tables if table[0][0] == "run"]
    metrics = {"validation AUC", "validation RMSE", "test AUC"}
    assert {table[0][1].removeprefix("best ") for table in results} == metrics
    assert sorted(row[0] for table in results for row in table[1:]) == sorted(strange)


def test_classes_and_numbers_are_not_put_side_by_side(run, strange, tmp_path):
    """Runs judged by different metrics have tables, curves and pictures of their own."""
    runs = {"auc": run, "rmse": strange["regression"], "again": run}
    write_comparison(runs, tmp_path / "all.html")
    page = read(tmp_path / "all.html")
    first, second = (table for table in page.tables if table[0][0] == "run")
    assert (first[0][1], [row[0] for row in first[1:]]) == (
        "best validation AUC",
        ["auc", "again"],
    )
    assert (second[0][1], [row[0] for row in second[1:]]) == ("best validation RMSE", ["rmse"])
    share = [table[0].index("of the first") for table in (first, second)]
    assert first[2][share[0]] == second[1][share[1]] == "100.0%"  # of the first in its own table

    figures = {figure.key: figure.plot for figure in comparison_figures(runs)}
    for key, names, title in (
        ("metric-epochs", ["auc", "again"], "validation AUC"),
        ("metric-epochs-1", ["rmse"], "validation RMSE (label's unit)"),
        ("loss", ["auc", "again"], "training loss (nats)"),
        ("loss-1", ["rmse"], "training loss"),
        ("frontier", ["auc", "again"], "best validation AUC"),
    ):
        assert [trace.name for trace in figures[key].data] == names
        assert figures[key].layout.yaxis.title.text == title
    colours = {t.name: t.line.color for k in ("loss", "loss-1") for t in figures[k].data}
    assert len(set(colours.values())) == 3
    assert len(figures["bytes-run"].data[0].y) == 3

    tables = comparison_tables(runs)
    assert [table.columns[1].header for table in tables] == ["validation AUC", "validation RMSE"]
    assert [len(table.rows) for table in tables] == [2, 1]
    with pytest.raises(ConfigurationError, match="do not belong in one column"):
        comparison_table(runs)
    draw_comparison(runs, tmp_path / "all.png")
    draw_comparison({"auc": run}, tmp_path / "one.png")
    heights = [int.from_bytes((tmp_path / f"{n}.png").read_bytes()[20:24]) for n in ("all", "one")]
    assert heights[0] == 2 * heights[1]


def test_an_accuracy_and_an_auc_are_not_put_into_one_column(run):
    judged = {name: run.summary | {"metric": f"validation_{name}"} for name in ("auc", "accuracy")}
    tables = comparison_tables({name: replace(run, summary=s) for name, s in judged.items()})
    assert [t.columns[1].header for t in tables] == ["validation AUC", "validation accuracy"]
    assert [list(t.columns[0].cells) for t in tables] == [["auc"], ["accuracy"]]


# Several runs


def test_runs_that_reached_nothing_are_compared(run, tmp_path):
    """As F1 of a rare class, which no model of them ever predicts."""
    nothing = replace(run, summary=run.summary | {"best": 0.0})
    write_comparison({"one": nothing, "other": nothing}, tmp_path / "both.html")
    assert "Quality against bytes" in read(tmp_path / "both.html").text


def test_the_comparison_has_each_runs_numbers(run, tmp_path):
    exact = problem().train(svfl(), TRAINING, SIMULATE, out=tmp_path / "exact")
    write_comparison({"exact": exact, "4 bits": run}, tmp_path / "both.html", "Bits")
    page = read(tmp_path / "both.html")
    head, first, second = page.tables[0]
    assert {"run", "test AUC"} <= set(head)
    assert first[0] == "exact"
    assert first[1] == f"{exact.summary['best']:.4f}"
    sent = [r.summary["bytes_up"] + r.summary["bytes_down"] for r in (exact, run)]
    assert second[head.index("of the first")] == f"{sent[1] / sent[0]:.1%}"
    # What a narrow screen shows before one scrolls is what runs are compared by.
    assert head[1:6] == ["best validation AUC", "time to", "rounds to", "bytes to", "time"]
    (differing,) = [table for table in page.tables if table[0][0] == "setting"]
    assert {row[0] for row in differing[1:]} == {"method"}


def past(scores, *, greater=True, real=False, gap=0.0):
    """Return a run of an epoch a round, of 1 s and 10 bytes each way, judged after each by score.

    Every evaluation takes ``gap`` seconds.
    """
    metric = "validation_auc" if greater else "validation_log_loss"
    clock = [(i + 1) * (1 + gap) for i in range(len(scores))]
    history = pl.DataFrame(
        {
            "round": range(1, len(scores) + 1),
            "epoch": [float(i + 1) for i in range(len(scores))],
            metric: scores,
            "seconds": clock,
            "bytes_up": [10 * (i + 1) for i in range(len(scores))],
            "bytes_down": [10 * (i + 1) for i in range(len(scores))],
        }
    )
    ledger = Ledger(
        Entry("bank", "shop", kind, purpose, i, 2 * i + n, 10, 27, round(1e9 * at))
        for i, end in enumerate(clock)
        for n, (kind, purpose, at) in enumerate(
            [("embedding", Purpose.TRAINING, end - gap), ("verdict", Purpose.EVALUATION, end)]
        )
    )
    known = [score for score in scores if score is not None]
    best = (max if greater else min)(known, default=None)
    count = len(scores)
    summary = {
        **{"method": "svfl", "metric": metric, "greater_is_better": greater, "best": best},
        **{"rounds": count, "bytes_up": 10 * count, "bytes_down": 10 * count},
        **{"seconds_virtual": None if real else clock[-1], "seconds_training": float(count)},
        **{"local_updates": {"bank": 0}},
    }
    return Run(summary, history, ledger, {}, None, {})


def test_a_target_is_reached_where_the_metric_is_first_as_good() -> None:
    run = past([0.6, 0.8, 0.7, 0.9], gap=0.5)
    at = run.reached(0.75)
    assert at is not None
    assert (at.round, at.epoch, at.bytes_up, at.bytes_down) == (2, 2.0, 20, 20)
    assert at.bytes_both == 40
    assert at.seconds == pytest.approx(3)  # on the clock that the run has: evaluations are in it
    assert run.reached(0.91) is None
    less = past([0.9, math.nan, 0.5, 0.7], greater=False)
    found = less.reached(0.6)
    assert found is not None
    assert found.round == 3
    assert less.reached(0.4) is None
    assert past([math.nan, 0.8]).reached(0.75).round == 2  # type: ignore[union-attr]
    timeless = replace(run, history=run.history.drop("seconds"))
    assert timeless.reached(0.75).seconds is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "target", ["x", None, True, math.nan, math.inf, pytest.param(10**400, id="e")]
)
def test_a_target_is_a_value_of_the_metric(target, tmp_path):
    run = past([0.6, 0.8])
    with pytest.raises(ConfigurationError, match="target is a "):
        run.reached(target)
    if target is not None:  # by default there is none
        with pytest.raises(ConfigurationError, match="target is a "):
            write_comparison({"a": run, "b": run}, tmp_path / "page.html", target=target)


@pytest.mark.parametrize("column", [3, None, ["train_loss"]])
def test_what_was_reported_is_asked_for_by_a_name(column):
    with pytest.raises(ConfigurationError, match="column is a text, not "):
        past([0.6]).reported(column)


def told(table):
    """Return the cells of a table by row and heading."""
    heads = [str(column.header) for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    return {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}


def test_runs_are_compared_by_what_it_took_to_reach_a_target() -> None:
    runs = {"one": past([0.6, 0.8]), "better": past([0.79, 0.9]), "worse": past([0.5, 0.79])}
    runs["real"] = past([0.6, 0.85], real=True)
    table = reaching_table(runs)
    cells = told(table)
    assert {name: row["rounds to"] for name, row in cells.items()} == {
        **{"one": "2", "better": "2", "worse": "not reached", "real": "2"},
    }
    assert {row["time to"] for row in cells.values()} == {"2.00 s", "—", "2.00 s*"}
    assert cells["one"]["bytes to"] == "40 B"
    assert "time to includes evaluations" in str(table.caption)
    assert "local steps" not in cells["one"]
    caption = str(table.caption)
    assert "target: validation AUC 0.798, 0.002 below the best of one" in caption
    assert "* real time on this machine" in caption
    early = told(reaching_table(runs, 0.79))
    assert [row["rounds to"] for row in early.values()] == ["2", "≤ 1", "2", "2"]
    assert "look more often" in str(reaching_table(runs, 0.79).caption)


def test_a_target_where_less_is_better_is_a_little_above_the_best() -> None:
    runs = {"one": past([0.9, 0.5], greater=False), "other": past([0.7, 0.6], greater=False)}
    table = reaching_table(runs)
    assert "target: validation log-loss 0.501, 0.2% above the best of one" in str(table.caption)
    assert [row["rounds to"] for row in told(table).values()] == ["2", "not reached"]


def test_a_target_is_of_one_metric_and_of_runs_that_were_evaluated(tmp_path) -> None:
    runs = {"one": past([0.6]), "other": past([0.7], greater=False)}
    assert reaching_tables(runs) == []  # each is alone with its metric
    for compare in (
        lambda: reaching_tables(runs, 0.6),
        lambda: write_comparison(runs, tmp_path / "c.html", target=0.6),
    ):
        with pytest.raises(ConfigurationError, match="validation AUC and validation log-loss"):
            compare()
    alone = {"one": past([0.6])}
    assert reaching_table(alone) is None
    assert told(reaching_table(alone, 0.5))["one"]["rounds to"] == "≤ 1"
    assert reaching_table({"one": past([None]), "other": past([None])}) is None


def test_clocks_are_not_mixed(run, strange):
    runs = {"modelled": run, "again": run, "real": strange["real time"]}
    figure = next(f for f in comparison_figures(runs) if f.key == "metric-time")
    assert [trace.name for trace in figure.plot.data] == ["modelled", "again"]
    assert figure.plot.layout.xaxis.title.text == "modelled time (ms)"
    assert "another clock: real" in figure.note


def test_figures_are_valid_json_without_special_numbers(strange):
    for run in strange.values():
        for figure in run_figures(run):
            json.loads(figure.plot.to_json())
            assert "NaN" not in figure.plot.to_json()


def test_people_left_out_and_bytes_lost_are_two_things(run, tmp_path):
    told = {
        "people": {"left_out": 14, "absent": {"bank": 12, "shop": 2}},
        "messages_lost": 3,
        "bytes_lost": 4500,
    }
    write_page(replace(run, summary=run.summary | told), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Left out: 14 of 134 people with a label, who have no row at bank (12), shop (2)" in page
    seen = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "lost to a crash 4.50 kB in 3 messages, sent again" in seen


# Names and numbers of every length

LONG = "Landesversicherungsanstalt_Mecklenburg-Vorpommern_und_Nachbarn"


def test_long_names_take_several_lines_and_leave_a_plot_its_room():
    run = problem(parties=("bank", LONG)).train(svfl(), TRAINING, SIMULATE)
    figures = {figure.key: figure.plot for figure in run_figures(run)}
    for key in ("bytes-party", "time"):
        axis = figures[key].layout.yaxis
        assert LONG in axis.tickvals
        text = axis.ticktext[axis.tickvals.index(LONG)]
        assert text.replace("<br>", "") == LONG
        assert max(map(len, text.split("<br>"))) <= 18
        assert figures[key].layout.height > 150 + 60 * len(axis.tickvals)
    sides = {figure.key: figure.plot for figure in comparison_figures({"a": run, LONG: run})}
    for key in ("metric-epochs", "metric-bytes", "loss", "frontier"):
        name = sides[key].data[1].name
        assert name.replace("<br>", "") == LONG
        assert max(map(len, name.split("<br>"))) <= 30
        assert sides[key].layout.height > 330


def test_a_long_name_wraps_in_a_table_and_a_number_never(run, tmp_path):
    write_comparison({"a": run, LONG: run}, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    cells = re.findall(r"<td[^>]*>.*?</td>", html)
    (long,) = [cell for cell in cells if "Landes" in cell]
    assert long.startswith('<td class="text wrap">')
    assert "Mecklenburg-<wbr>Vorpommern" in long
    assert [cell for cell in cells if "<wbr>" in cell] == [long]
    assert read(tmp_path / "page.html").tables[0][2][0] == LONG


def test_what_a_figure_puts_side_by_side_looks_different(run, tmp_path, monkeypatch):
    kinds = ("forward", "encode", "backward", "local_step", "decode", "top", "update", "metrics")
    busy = [
        {"organisation": "bank", "purpose": "training", "activity": kind, "seconds": 1.0}
        for kind in (*kinds, "wait")
    ]
    told = replace(run, summary=run.summary | {"activities": busy})
    time = next(figure.plot for figure in run_figures(told) if figure.key == "time")
    assert [trace.name for trace in time.data][3] == "local step"
    assert len({trace.marker.color for trace in time.data}) == 9

    many = {f"run {index}": run for index in range(25)}
    figures = {figure.key: figure.plot for figure in comparison_figures(many)}
    curves = {(t.line.color, t.line.dash) for t in figures["metric-epochs"].data}
    points = {(t.marker.color, t.marker.symbol) for t in figures["frontier"].data}
    assert len(curves) == len(points) == 25

    drawn = []
    monkeypatch.setattr(Picture, "savefig", lambda self, *_, **__: drawn.append(self))
    draw_comparison(many, tmp_path / "many.png")
    (picture,) = drawn
    lines = {(line.get_color(), line.get_linestyle()) for line in picture.axes[0].lines}
    assert len(lines) == 25
    assert [axes.get_legend() for axes in picture.axes] == [None] * 4  # it would hide curves
    assert {text.get_text() for text in picture.legends[0].get_texts()} == set(many)


def test_a_regression_says_its_unit_and_shows_its_validation_loss():
    training = Training(epochs=3, batch_size=16, early_stopping=EarlyStopping(None, by="loss"))
    run = problem(regression=True).train(svfl(), training, SIMULATE)
    figures = {figure.key: figure.plot for figure in run_figures(run)}
    assert [trace.name for trace in figures["loss"].data] == ["train loss", "validation loss"]
    assert figures["metric-bytes"].layout.yaxis.title.text == "validation RMSE (label's unit)"
    own = run.history.rename({"validation_rmse": "validation_mae", "test_rmse": "test_mae"})
    named = replace(run, history=own, summary=run.summary | {"metric": "validation_mae"})
    figures = {figure.key: figure.plot for figure in run_figures(named)}
    assert figures["loss"].layout.yaxis.title.text == "loss"  # nats are for classes


def test_the_time_of_curves_is_not_that_of_the_table_and_says_so(run):
    assert run.summary["seconds_evaluation"] > 0
    notes = {figure.key: figure.note for figure in run_figures(run)}
    assert notes["metric-time"] == "With the time that evaluations take."


def test_settings_are_spelt_as_in_a_file_and_a_command_can_be_copied(run, tmp_path):
    other = replace(run, config={"method": None, "driver": True})
    write_comparison({"a": replace(run, config={"method": "x"}), "b": other}, tmp_path / "c.html")
    (settings,) = [t for t in read(tmp_path / "c.html").tables if t[0][0] == "setting"]
    assert settings[1:] == [["method", "x", "null"], ["driver", "—", "true"]]
    stopped = run.summary | {"stopped_early": True, "bytes_setup": 474}
    spaced = replace(run, summary=stopped, folder=tmp_path / "my runs")
    text = page_of(spaced, tmp_path).text
    assert f"colonnade run '{tmp_path / 'my runs' / 'config.yaml'}'" in text
    assert "15 rounds under simulate, seed 0, stopped early." in text
    write_comparison({"a": run, "b": spaced}, tmp_path / "c.html")
    assert "b: besides, 474 B sent to set up." in read(tmp_path / "c.html").text


def test_a_run_of_several_sites_is_run_again_by_its_job(run, tmp_path):
    told = {"job": {"run": "first"}, "organisation": "insurer"}
    of_sites = replace(run, config=told, folder=tmp_path / "runs" / "first")
    page = page_of(of_sites, tmp_path)
    assert "colonnade run" not in page.text
    assert "To run it again: submit the job again, with another name of the run." in page.text


def test_the_same_value_at_every_evaluation_fills_no_axis(run):
    metric = run.summary["metric"]
    constant = replace(run, history=run.history.with_columns(pl.lit(1.0).alias(metric)))
    figures = [figure for figure in run_figures(constant) if figure.key == "metric-bytes"]
    [figure] = figures
    low, high = figure.plot.layout.yaxis.range
    assert 0.9 < low < 1 < high < 1.1


def test_a_history_of_sixteen_is_shown_whole(run, tmp_path):
    history = pl.concat([run.history] * 16)[:16].with_columns(round=pl.int_range(1, 17))
    page = page_of(replace(run, history=history), tmp_path)
    (evaluations,) = [table for table in page.tables if table[0][0] == "round"]
    assert len(evaluations) == 17


def test_a_page_tells_of_local_steps_and_how_stale_rows_were() -> None:
    wide = Simulate(Network(Channel(latency=0.02)), Modelled(otherwise=0.002))
    method = celu(3, 2, 0.5)
    run = small_federation(method).train(method, Training(epochs=3, batch_size=16), wide)
    figures = {figure.key: figure for figure in run_figures(run)}
    lines = {line.name: line for line in figures["staleness"].plot.data}
    assert len(lines) == 3 + 3  # three quantiles of the label holder's, a median of each party
    low = run.history["local_cosine_p10"].to_list()
    assert [*lines["holder: 10 % of rows below"].y] == low
    # What is told of steps is no metric.
    assert {line.name for line in figures["metric-epochs"].plot.data} <= {
        "validation accuracy",
        "best",
    }
    sheet = _local_steps(run)
    assert sheet is not None
    steps = {row[0]: int(row[1]) for row in sheet.rows}
    assert steps == {
        name: run.summary["local_updates"][name]
        for name in ("holder", "party_0", "party_1", "party_2")
    }
    # The summary has them too, and the table that a command prints.
    bubbles = 0
    for name, told_of in run.summary["local_reports"].items():
        own = run.reported("local_steps").filter(organisation=name)
        assert told_of["local_steps"] == own["local_steps"].sum()
        assert told_of["local_cosine_p10"] == pytest.approx(own["local_cosine_p10"].mean())
        bubbles += own["local_bubbles"].sum()
    (row,) = told(reaching_table({"celu": run})).values()
    held_back = max(run.summary["held_back"].values())
    assert row == {
        "local steps": f"{sum(steps.values())}",
        "bubbles": f"{bubbles}",
        "held back": f"{held_back:.0%}",
    }
    plain = small_federation(svfl()).train(svfl(), Training(epochs=1, batch_size=16))
    assert _local_steps(plain) is None
    assert "staleness" not in {figure.key for figure in run_figures(plain)}


def test_local_steps_of_any_policy_are_told_under_its_own_names() -> None:
    """A policy has to tell of its steps; what else it reports is its own choice."""
    run = past([0.6, 0.7])
    history = run.history.with_columns(organisation=pl.lit("shop"), local_steps=pl.Series([3, 4]))
    bare = replace(run, history=history)
    sheet = _local_steps(bare)
    assert sheet is not None
    assert (sheet.head, sheet.rows, sheet.note) == (
        *(("organisation", "steps"), [("shop", "7")]),
        "",
    )
    others = pl.DataFrame(
        {
            "organisation": ["bank", "bank"],
            **{"local_steps": [5, 5], "local_steps_undone": [1, 0], "local_drift": [0.25, 0.75]},
            **{"local_rows_too_stale": [1.59e-05, 0.0071], "local_why": ["x", "y"]},
            **{"local_cosine_p50": [0.92, 0.9200002]},
        }
    )
    sheet = _local_steps(replace(bare, others_history=others))
    assert sheet is not None
    assert [*sheet.head[1:]] == ["steps", "steps undone", "drift", "rows left out", "half below"]
    assert [*sheet.rows[1]] == ["bank", "10", "1", "0.5", "0.36%", "0.920"]
    idle = replace(run, history=history.with_columns(local_steps=pl.lit(0)))
    assert _local_steps(idle) is None


def test_a_kind_has_its_colour_whoever_is_first_in_the_ledger(run) -> None:
    def colours(each):
        (figure,) = (f for f in run_figures(each) if f.key == "bytes-party")
        return {bar.name: bar.marker.color for bar in figure.plot.data}

    # The ledger is read by sender: the label holder is before the parties, or behind them.
    renamed = Ledger(
        entry._replace(
            sender=entry.sender.replace("insurer", "a"),
            receiver=entry.receiver.replace("insurer", "a"),
        )
        for entry in run.ledger
    )
    other = replace(run, ledger=renamed, summary=run.summary | {"label_holder": "a"})
    assert len(set(colours(run).values())) == 2
    assert [*colours(run).items()] == [*colours(other).items()]
    strange = Entry("bank", "insurer", "a new kind", Purpose.TRAINING, 0, 999, 100, 117, 5)
    more = replace(run, ledger=Ledger([*run.ledger, strange]))
    assert [*colours(more)] == ["embedding, up", "derivative, down", "a new kind, up"]
    assert len(set(colours(more).values())) == 3


def test_what_was_held_back_is_a_part_of_waiting_with_a_colour_of_its_own(run, tmp_path) -> None:
    entry = {"organisation": "insurer", "purpose": "training", "activity": "held back"}
    held = entry | {"count": 3, "seconds": 0.5, "seconds_cpu": 0.0}
    activities = [held, *run.summary["activities"]]
    other = replace(run, summary=run.summary | {"activities": activities})
    (figure,) = (f for f in run_figures(other) if f.key == "time")
    *_, wait, last = figure.plot.data
    assert (wait.name, last.name) == ("wait", "wait, held back")
    assert wait.marker.color != last.marker.color
    assert "Held back: a batch was at hand" in figure.note
    assert "wait, held back" in page_of(other, tmp_path).text
    assert "Held back" not in next(f for f in run_figures(run) if f.key == "time").note
