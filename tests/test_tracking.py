"""What is reported reaches FLARE's receivers, by the name of who reported it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from nvflare.apis.analytix import AnalyticsData
from nvflare.apis.dxo import from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.widgets.streaming import AnalyticsReceiver
from nvflare.widgets.fed_event import ServerFedEventRunner

from colonnade import cli
from colonnade.deployment.folders import TRACKERS
from colonnade.deployment.tracking import track

REPORT = {"round": 7, "epoch": 2.0, "loss": 0.5, "told": "a text", "organisation": "registry"}


class Keeping(AnalyticsReceiver):
    def __init__(self):
        super().__init__(["fed.analytix_log_stats"])
        self.points = []
        self._initialized = True

    def initialize(self, fl_ctx):
        """Need nothing."""

    def finalize(self, fl_ctx):
        """Keep all."""

    def save(self, fl_ctx, shareable, record_origin):
        point = AnalyticsData.from_dxo(from_shareable(shareable))
        self.points.append((record_origin, point.tag, point.value, point.step))


class Engine:
    """As FLARE's, it fires events at what listens."""

    def __init__(self, receiver):
        self.receiver = receiver

    def fire_event(self, event, fl_ctx):
        self.receiver.handle_event(event, fl_ctx)


def told(values):
    receiver = Keeping()
    fl_ctx = FLContext()
    fl_ctx.set_prop("__engine__", Engine(receiver), private=True)
    track(values, fl_ctx)
    return receiver.points


def test_each_number_is_a_point_of_a_curve_of_who_reported_it():
    assert told(REPORT) == [("registry", "epoch", 2.0, 7), ("registry", "loss", 0.5, 7)]


def test_no_site_is_told_what_another_reports():
    """FLARE's own part of a server's job passes events of a federation on to all."""
    passed = []

    class Passing(ServerFedEventRunner):
        def fire_and_forget_request(self, *given, **said):
            passed.append(given)

    fl_ctx = FLContext()
    fl_ctx.set_prop("__engine__", Engine(Passing()), private=True)
    track(REPORT, fl_ctx)
    assert not passed


def test_what_has_no_round_is_no_point():
    assert told({"organisation": "registry", "blinded": 5}) == []


@pytest.mark.parametrize("tracker", [None, *TRACKERS])
def test_only_a_job_of_training_that_asks_for_it_names_a_receiver(tmp_path, monkeypatch, tracker):
    example = Path(__file__).parent.parent / "examples" / "three-companies.yaml"
    asked = [] if tracker is None else ["--track", tracker]
    arguments = ["deploy", str(example), "--to", str(tmp_path / "jobs"), *asked]
    monkeypatch.setattr("sys.argv", ["colonnade", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    for task in ("align", "train", "predict", "serve"):
        config = tmp_path / "jobs" / task / "app" / "config"
        named = json.loads((config / "config_fed_server.json").read_text())["components"]
        is_tracked = tracker is not None and task == "train"
        assert [each["path"] for each in named] == ([TRACKERS[tracker]] if is_tracked else [])
        assert yaml.safe_load((config / "job.yaml").read_text())["task"] == task
