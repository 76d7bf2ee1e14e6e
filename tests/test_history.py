"""Who reported what: rows of other organisations stand apart from those of the label holder."""

from __future__ import annotations

import math

import polars as pl
import pytest

from colonnade.drivers import Assignment, Processes, Replay, RunRecord, Simulate
from colonnade.effects import Boundary, Report
from colonnade.methods import svfl
from colonnade.progress import Show, Watch
from colonnade.reports import draw_run, write_page
from colonnade.run_read import _read_csv, load_run
from colonnade.summaries import history_frame, others_history_frame
from test_federation import TRAINING, federation
from test_simulate import DRIVER, counters


def test_names_that_look_like_numbers_are_read_back_as_they_are(tmp_path):
    found = {name: read_back(tmp_path / name, name)["organisation"] for name in ("007", "2.50")}
    assert {name: [*column.unique()] for name, column in found.items()} == {
        name: [name] for name in found
    }


def read_back(folder, name):
    """Return what is read of a table in which an organisation reported once."""
    folder.mkdir()
    frame = pl.DataFrame({"round": [1], "organisation": [name], "local_steps": [5]})
    (folder / "history.csv").write_text(frame.write_csv())
    return _read_csv(folder / "history.csv")


class Talkative:
    """A role that reports at each boundary what looks like metrics of the model."""

    def __init__(self, role):
        self.role = role

    def __getattr__(self, name):
        return getattr(self.role, name)

    async def run(self):
        await self

    def __await__(self):
        inner = self.role.run()
        answer = None
        try:
            while True:
                effect = inner.send(answer)
                if isinstance(effect, Boundary):
                    values = {"train_loss": -7.0, "test_accuracy": 2.0, "test_rmse": math.nan}
                    yield Report({"round": effect.round, **values, "mood": "fine"})
                answer = yield effect
        except StopIteration:
            return
        finally:
            inner.close()


class AllTalk(Simulate):
    """A simulator in which every party reports, too."""

    def run(self, roles, assignment):
        return super().run([Talkative(r) if len(r.peers) == 1 else r for r in roles], assignment)


def plain(history):
    return history.drop("seconds").rows()


def test_what_parties_report_does_not_disturb_the_label_holders_metrics(tmp_path):
    made = federation()
    holder = made.label_holder.name
    alone = made.train(svfl(), TRAINING)
    run = made.train(svfl(), TRAINING, AllTalk(), out=tmp_path)
    assert plain(run.history) == plain(alone.history)
    assert run.history.columns == alone.history.columns
    assert set(run.history["organisation"]) == {holder}
    for key in ("best", "best_round", "final", "test", "bytes_up", "local_updates"):
        assert run.summary[key] == alone.summary[key]
    assert not len(alone.others_history)
    names = {party.name for party in made.parties}
    assert set(run.others_history["organisation"]) == names
    assert set(run.others_history["mood"]) == {"fine"}
    assert len(run.others_history) == len(names) * (run.summary["rounds"] + 1)

    read = load_run(tmp_path)
    assert read.history.rows() == run.history.rows()
    assert read.others_history.drop("test_rmse").rows() == (
        run.others_history.drop("test_rmse").rows()
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    write_page(alone, tmp_path / "alone.html")
    assert ("mood" in page) is False
    assert page.count("<th") == (tmp_path / "alone.html").read_text(encoding="utf-8").count("<th")
    draw_run(read, tmp_path / "again.png")


@pytest.mark.parametrize("driver", [DRIVER, Processes()], ids=lambda driver: driver.label)
def test_every_row_says_who_reported_it(driver):
    heard = []
    record = driver.run(counters(), Assignment(on_report=heard.append))
    assert [row["organisation"] for row in record.history] == ["a"] * 6 + ["b"] * 6
    assert sorted(row["organisation"] for row in heard) == ["a"] * 6 + ["b"] * 6
    assert all(row["seconds"] >= 0 for row in record.history)
    replayed = Replay(record.trace).run(counters(), Assignment())
    assert replayed.history == [
        {key: value for key, value in row.items() if key != "seconds"} for row in record.history
    ]


def test_a_name_may_be_of_another_type_with_another_organisation():
    record = DRIVER.run(counters(), Assignment())
    rows = [
        {"organisation": "a", "round": 1, "x": 1},
        {"organisation": "b", "round": 1, "x": 2.5},
        {"organisation": "c", "round": 1, "x": "much"},
    ]
    fields = {name: getattr(record, name) for name in RunRecord.__dataclass_fields__}
    mixed = RunRecord(**fields | {"history": rows})
    assert history_frame(mixed, "a")["x"].to_list() == [1]
    assert others_history_frame(mixed, "a")["x"].to_list() == ["2.5", "much"]
    assert history_frame(mixed, "nobody").columns == ["round"]
    empty = RunRecord(**fields | {"history": []})
    assert others_history_frame(empty, "a").equals(pl.DataFrame())


def test_the_bar_follows_whoever_evaluates():
    watch = Watch(Show.BAR, 1)
    watcher = watch.run("run")
    watcher.on_begin(0, 3)
    try:
        shown = []
        for values in (
            {"organisation": "bank", "mood": "fine"},
            {"organisation": "bank", "train_loss": 0.5},
            {"organisation": "insurer", "train_loss": 0.7, "test_auc": 0.8},
            {"organisation": "bank", "train_loss": 0.4},
            {"organisation": "insurer", "train_loss": 0.6, "test_auc": 0.9},
        ):
            watcher.on_report(values)
            shown.append(watch.progress.tasks[0].fields["metric"])
    finally:
        watch.progress.stop()
    assert shown == ["", "loss 0.500", "auc 0.800", "auc 0.800", "auc 0.900"]


@pytest.mark.parametrize("at_once", [1, 3])
def test_of_many_runs_those_are_shown_that_are_under_way(at_once):
    watch = Watch(Show.BAR, 20, at_once)
    try:
        watchers = [watch.run(f"run {number}") for number in range(5)]
        for watcher in watchers[:3]:
            watcher.on_begin(0, 9)
        watchers[1].on_round("bank", 9, 0)  # it has ended
        watchers[3].on_begin(0, 9)
        shown = [task.description for task in watch.progress.tasks if task.visible]
        assert shown == {1: ["4/20 run 3"], 3: ["1/20 run 0", "3/20 run 2", "4/20 run 3"]}[at_once]
        watchers[3].on_begin(5, 9)  # goes on, after a look at its models
        assert len(watch.progress.tasks) == 4
        assert watch.progress.tasks[3].completed == 5
    finally:
        watch.progress.stop()


def test_every_driver_tells_its_clock():
    assert DRIVER.clock == {"network": "modelled", "compute": "modelled"}
    assert Simulate().clock == {"network": "modelled", "compute": Simulate().costs.label}
    assert Processes().clock == {"network": "measured", "compute": "measured"}
    record = DRIVER.run(counters(), Assignment())
    assert Replay(record.trace).clock == {"network": "not timed", "compute": "measured"}
