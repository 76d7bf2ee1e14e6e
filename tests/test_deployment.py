"""Sites and their server, over datagrams that are lost, repeated and late: the simulator's run."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import socket
import stat
import threading
import time
import warnings
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import numpy as np
import polars as pl
import pytest
from torch import nn, tensor, zeros

from colonnade.alignment import read_alignment, write_alignment
from colonnade.assembly import Layers
from colonnade.config import load_trained, parse_config
from colonnade.config.models import ObjectiveConfig
from colonnade.config.tables import PartyTableConfig
from colonnade.departures import departed
from colonnade.deployment import guest, host, meeting, what_came
from colonnade.deployment.aligning import ALIGNMENTS
from colonnade.deployment.checking import checked
from colonnade.deployment.guest import Guest
from colonnade.deployment.host import Host
from colonnade.deployment.job import job_of
from colonnade.deployment.kept_here import Kept
from colonnade.deployment.predicting import PREDICTIONS, PredictingTogether
from colonnade.deployment.site import NewPeopleConfig, SiteConfig, own_part
from colonnade.deployment.told_elsewhere import names_values, told_elsewhere
from colonnade.deployment.training import TrainingTogether
from colonnade.drivers import Replay, couriered, player
from colonnade.drivers.account import Account
from colonnade.drivers.couriered import GATEKEEPER
from colonnade.drivers.keeping import Keeper
from colonnade.drivers.player import Player
from colonnade.effects import Notes
from colonnade.errors import (
    CheckpointError,
    ConfigurationError,
    DataError,
    DataWarning,
    Diverged,
    OutOfRange,
    RemoteProtocolError,
    Unmeasurable,
    Unwritten,
)
from colonnade.export import MEAN_FILE, load_part
from colonnade.ledger import Ledger
from colonnade.metrics import Metric, top_k_accuracy
from colonnade.predictions_counted import PredictionCount
from colonnade.privacy import BinomialSum, Spending
from colonnade.run_folder import RunFolder
from colonnade.run_read import load_run
from colonnade.serving import ServeConfig
from colonnade.wire import Purpose, reading
from toy_drawing import AlwaysDrops, AsItIsTrained, AsItLoads
from toy_sites import (
    Mesh,
    configuration,
    failing,
    federation,
    play,
    prepared,
    same_as,
    tables,
    written,
)

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(autouse=True)
def in_one_process(monkeypatch):
    """Words that nobody hears any more are not waited for as long as between computers."""
    for module in (couriered, host):
        monkeypatch.setattr(module, "_LINGER", 0.3)
    monkeypatch.setattr(guest, "_LAST_WORDS", 0.3)


METHODS = {
    "svfl": "svfl",
    "cvfl, labels shared": {
        "name": "cvfl",
        "embedding": {"codec": "scalar", "bits": 6},
        "labels": "shared",
        "local_steps": 2,
    },
    "efvfl": {"name": "efvfl", "embedding": {"codec": "top_k", "ratio": 0.5}},
    "fedbcd": {"name": "fedbcd", "local_steps": 2},
    "lean": "lean",
    "pbm_vfl": {"name": "pbm_vfl", "trials": 16, "beta": 0.2},
    "wait_dp": "wait_dp",
}


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_the_simulators(tmp_path, method):
    config, job, sites = prepared(tmp_path, METHODS[method])
    assert play(job, sites, Mesh()) == {}
    expected = same_as(config, sites)
    run = load_run(sites["insurer"].runs / "first")
    assert run.ledger.without_time() == expected.ledger.without_time()
    assert not any("tells that it sent" in warning for warning in run.summary["warnings"])
    for key in ("metric", "best", "rounds", "bytes_up", "bytes_down", "privacy_loss"):
        assert run.summary[key] == expected.summary[key]


def test_what_takes_the_place_of_parts_at_a_site_is_told_with_what_is_safe(tmp_path, monkeypatch):
    config, job, sites = prepared(tmp_path)
    conclude = TrainingTogether.conclude

    def taken(engagement, *came):
        (sites["bank"].runs / "first" / "parts").touch()
        conclude(engagement, *came)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingTogether, "conclude", taken)
        error = play(job, sites, Mesh())["bank"]
    assert isinstance(error, Unwritten)
    assert re.search(r"something else is in its place\. The .* is whole: .* submit the", str(error))
    (sites["bank"].runs / "first" / "parts").unlink()
    assert play(job, sites, Mesh()) == {}
    same_as(config, sites)


def let_bottoms_end(monkeypatch, module):
    """Let all bottom models end in a module."""
    usual = Layers.bottom
    monkeypatch.setattr(
        Layers, "bottom", lambda own, *given: nn.Sequential(usual(own, *given), module())
    )


@pytest.mark.parametrize("module", [AsItIsTrained, AsItLoads])
def test_a_run_is_the_simulators_whatever_its_models_draw(tmp_path, monkeypatch, module):
    let_bottoms_end(monkeypatch, partial(module, 4))
    config, job, sites = prepared(tmp_path)
    assert play(job, sites, Mesh()) == {}
    same_as(config, sites)


def test_a_mean_is_the_simulators_whatever_a_bottom_draws(tmp_path, monkeypatch):
    """It hung on what was drawn before where a bottom draws in evaluation too."""
    let_bottoms_end(monkeypatch, partial(AlwaysDrops, 0.2))
    config, job, sites = prepared(tmp_path)
    assert play(job, sites, Mesh()) == {}
    predictor = same_as(config, sites).predictor
    assert predictor is not None
    for name in ("bank", "shop"):
        file = sites[name].runs / "first" / "parts" / name / MEAN_FILE
        assert json.loads(file.read_text())["mean"] == predictor.means[name].tolist()


TIMED: dict[str, dict[str, Any]] = {
    "celu": {"method": {"name": "celu", "capacity": 4, "reuses": 3}},
    "vafl": {"method": "vafl"},
    "fedvs": {
        "method": "fedvs",
        "model": {"bottom": "polynomial"},
        "parties": ["bank", "shop", "clinic"],
    },
    "the fastest": {
        "method": {
            "name": "mine",
            "uplink": {"uplink": "plain"},
            "fusion": "mean",
            "stragglers": {"stragglers": "fastest", "count": 1},
        }
    },
}


@pytest.mark.parametrize("name", TIMED)
def test_a_run_that_hangs_on_time_is_what_its_trace_says(tmp_path, monkeypatch, name):
    config, job, sites = prepared(tmp_path, **TIMED[name])
    records = []
    conclude = TrainingTogether.conclude

    def recorded(engagement, role, ledger, record):
        records.append(record)
        conclude(engagement, role, ledger, record)

    monkeypatch.setattr(TrainingTogether, "conclude", recorded)
    assert play(job, sites, Mesh()) == {}
    [record] = [record for record in records if record is not None]
    began = dict.fromkeys(sites, Notes(0))  # what they remembered stays with them: nothing
    expected = same_as(config, sites, driver=Replay(replace(record.trace, notes=began)))
    run = load_run(sites["insurer"].runs / "first")
    assert run.ledger.without_time() == expected.ledger.without_time()


def test_what_is_lost_repeated_or_late_changes_nothing(tmp_path):
    config, job, sites = prepared(tmp_path)
    assert play(job, sites, Mesh(badly=0.02)) == {}
    same_as(config, sites)


def put_back(runs, backup):
    shutil.rmtree(runs)
    shutil.copytree(backup, runs)


def trained_twice(tmp_path, name, **training):
    """Train by one job, and by the same again as if for the first time, other rows at the shop.

    Return the configuration, the sites, and a copy of what the first has left behind at a site.
    """
    config, job, sites = prepared(tmp_path, **training)
    sites = new_people(tmp_path, sites)
    assert play(job, sites, Mesh()) == {}
    backup = shutil.copytree(sites[name].runs, tmp_path / "backup")
    for site in sites.values():
        shutil.rmtree(site.runs)
    file = tmp_path / "shop.csv"
    file.write_text(re.sub(r"(person-1020),[^,]*", r"\1,0.25", file.read_text()))
    assert play(job, sites, Mesh()) == {}
    return config, sites, backup


def test_a_job_says_nothing_of_who_is_left_out(tmp_path):
    config, job, _ = prepared(tmp_path)
    assert job.parties == ["bank", "shop"]
    data = config.data.model_copy(update={"leave_out": ["bank"]})
    bottoms = dict.fromkeys(job.parties, config.model.bottom)
    model = config.model.model_copy(update={"bottoms": bottoms})
    job = job_of(config.model_copy(update={"data": data, "model": model}), "first")
    assert job.parties == [*job.model.bottoms] == ["shop"]
    assert "bank" not in job.model_dump_json()


def test_parts_of_two_trainings_do_not_predict_together(tmp_path):
    config, sites, backup = trained_twice(tmp_path, "bank")
    assert play(job_of(config, "first", "align_new"), sites, Mesh()) == {}
    job = job_of(config, "first", "predict")
    assert play(job, sites, Mesh()) == {}
    put_back(sites["bank"].runs, backup)
    failed = play(job, sites, Mesh())
    assert set(failed) == {*sites, GATEKEEPER}
    for error in failed.values():
        assert "different trainings behind their parts of the model" in str(error)
    again = tmp_path / "again"
    again.mkdir()
    config, sites, backup = trained_twice(again, "bank")
    assert play(job_of(config, "first", "align_new"), sites, Mesh()) == {}
    parts = Path("first") / "parts" / "bank"
    put_back(sites["bank"].runs / parts, backup / parts)  # and nothing else
    failed = play(job_of(config, "first", "predict"), sites, Mesh())
    assert set(failed) == {*sites, GATEKEEPER}
    gone = {"bank": "mean"}
    said = sites["insurer"].new.model_copy(update={"means": {"bank": backup / parts / "mean.json"}})
    left = {name: site for name, site in sites.items() if name != "bank"}
    left["insurer"] = sites["insurer"].model_copy(update={"new": said})
    assert play(job_of(config, "first", "align_new", without=gone), left, Mesh()) == {}
    failed = play(job_of(config, "first", "predict", without=gone), left, Mesh())
    assert "not the mean that 'bank' wrote: it is of another training" in str(failed["insurer"])


@pytest.mark.parametrize("task", ["align", "predict"])
def test_what_left_for_what_failed_is_in_a_ledger(tmp_path, task):
    config, job, sites = prepared(tmp_path)
    sites, mesh, usual = new_people(tmp_path, sites), Mesh(), Mesh.post
    assert play(job, sites, Mesh()) == {}
    assert play(job_of(config, "first", "align_new"), sites, Mesh()) == {}

    def post(own):
        carry = usual(mesh, own)

        def failing(peer, datagram):  # before anybody can have what the bank has sent
            player = mesh.ends["bank"]._transport._player
            if own == "bank" and player is not None and max(player.left.values()) >= 0:
                mesh.ends["insurer"].end("its machine failed")
            carry(peer, datagram)

        return failing

    mesh.post = post
    assert play(job_of(config, "first", task), sites, mesh).keys() == {GATEKEEPER, *sites}
    bank = sites["bank"]
    folder = {"predict": bank.runs / "first" / PREDICTIONS, "align": bank.alignment / ALIGNMENTS}
    ledger = Ledger.read_csv(folder[task] / "1" / "ledger.csv")
    assert len(ledger) > 0
    assert [*ledger] == [*Ledger(departed(folder[task] / "1", "bank"))]  # in one order


EDITED = {
    "no transformer": lambda details: details.update(transformer=None),
    "a transformer that is none": lambda details: details.update(transformer={"encoder": 3}),
    "lacking": lambda details: details.clear(),
    "half a character": lambda details: details.update(method="\ud800"),
}


@pytest.mark.parametrize("what", EDITED)
def test_a_part_that_somebody_has_edited_is_refused_in_words(tmp_path, what):
    config, _, sites = prepared(tmp_path)
    sites = new_people(tmp_path, sites)
    for task in ("train", "align_new"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    file = sites["bank"].runs / "first" / "parts" / "bank" / "part.json"
    written = json.loads(file.read_text())
    EDITED[what](written["details"])
    del written["digest"]
    written["digest"] = hashlib.blake2b(json.dumps(written).encode(), digest_size=16).hexdigest()
    file.write_text(json.dumps(written))
    failed = play(job_of(config, "first", "predict"), sites, Mesh())
    assert isinstance(failed["bank"], DataError)
    assert re.search(r"the part of 'bank'|part\.json is damaged", str(failed["bank"]))


@pytest.mark.parametrize("name", ["server", "Server", "server.job", "a.b"])
@pytest.mark.parametrize("of", ["holder", "party"])
def test_nobody_in_a_job_is_called_as_the_engine_calls_its_server(tmp_path, name, of):
    said = configuration(tmp_path, "svfl")
    if of == "holder":
        said["label_holder"]["name"] = name
    else:
        said["data"]["parties"][name] = said["data"]["parties"].pop("bank")
    with pytest.raises(ConfigurationError, match=f"no organisation in a job is called '{name}'"):
        job_of(parse_config(said), "first")


def test_why_a_run_is_ended_is_known_before_it_is_attended_to(tmp_path, monkeypatch):
    """A site may be at work then, and its process ended from outside before it is done."""
    _, job, sites = prepared(tmp_path)
    mesh, told, is_told = Mesh(), [], threading.Event()
    agree = TrainingTogether.agree

    def agreeing(engagement, everybody):
        if engagement.name == "bank":
            raise DataError("nothing can be read")
        if engagement.name == "shop":
            assert is_told.wait(60)
        return agree(engagement, everybody)

    def notice(sentence):
        told.append(sentence)
        is_told.set()

    begin = Guest.__init__
    monkeypatch.setattr(
        Guest,
        "__init__",
        lambda guest, job, site, *given: begin(
            guest, job, site, *given, *([notice] if site.organisation == "shop" else [])
        ),
    )
    monkeypatch.setattr(TrainingTogether, "agree", agreeing)
    assert "shop" in play(job, sites, mesh)
    assert told == [
        "the run is being ended: DataError: at 'bank': its data cannot be used (DataError); there "
        "it is known why"
    ]


def test_what_is_in_the_place_of_a_runs_folder_is_told_to_all(tmp_path):
    _, job, sites = prepared(tmp_path)
    sites["bank"].runs.mkdir(parents=True)
    (sites["bank"].runs / "first").write_text("no folder")
    failed = play(job, sites, Mesh())
    assert set(failed) == {"bank", "shop", "insurer", GATEKEEPER}
    for error in failed.values():
        assert "first cannot be written: File exists; something else is in its place" in str(error)
    assert str(tmp_path) not in str(failed["shop"])


def test_a_training_does_not_go_on_with_checkpoints_of_another(tmp_path):
    config, sites, backup = trained_twice(tmp_path, "bank", epochs=4, checkpoint_every=5)
    put_back(sites["bank"].runs, backup)
    failed = play(job_of(config, "first"), sites, Mesh())
    assert set(failed) == {*sites, GATEKEEPER}
    for error in failed.values():
        assert "bank has checkpoints of another training" in str(error)


@pytest.mark.parametrize("after", [12, 28])
@pytest.mark.parametrize("name", ["bank", "insurer"])
def test_a_run_that_a_failure_ended_goes_on_to_the_same_bits(tmp_path, name, after):
    config, job, sites = prepared(tmp_path, epochs=6, checkpoint_every=5)
    failed = play(job, sites, failing(Mesh(), name, after))
    assert all("its machine failed" in str(error) for error in failed.values())
    assert set(failed) == {"bank", "shop", "insurer", GATEKEEPER}
    held = [
        {int(folder.name[6:]) for folder in (site.runs / "first" / "checkpoint").glob("round-*")}
        for site in sites.values()
    ]
    mesh, begun = Mesh(), []
    server = Host(job, mesh.post(GATEKEEPER))
    server._tell = lambda name, message, tell=server._tell: (
        begun.append(message.round) if isinstance(message, meeting.Go) else None,
        tell(name, message),
    )
    assert play(job, sites, mesh, server) == {}
    assert set(begun) == {max(set.intersection(*held), default=None)}  # the newest that all hold
    expected = same_as(config, sites)
    run = load_run(sites["insurer"].runs / "first")
    assert run.ledger.without_time() == expected.ledger.without_time()
    assert not any("tells that it sent" in warning for warning in run.summary["warnings"])
    left = [path for site in sites.values() for path in site.runs.rglob("*.jsonl")]
    assert sum(len(path.read_bytes().splitlines()) for path in left) == len(run.ledger)


def checkpoints(sites):
    """Return how many checkpoints of the first run each site has."""
    folders = {name: site.runs / "first" / "checkpoint" for name, site in sites.items()}
    return {name: len(list(folder.glob("round-*"))) for name, folder in folders.items()}


def with_a_first_checkpoint_at_all_but(name, job, sites, monkeypatch):
    """Let a run fail when all have written their first checkpoint, but for one."""
    keep = Keeper.keep

    def kept(keeper, *given):
        if keeper.name != name:
            return keep(keeper, *given)
        while sum(checkpoints(sites).values()) < len(sites) - 1:
            time.sleep(0.01)
        raise DataError("its machine failed")

    with monkeypatch.context() as patched:
        patched.setattr(Keeper, "keep", kept)
        assert len(play(job, sites, Mesh())) == len(sites) + 1
    assert checkpoints(sites) == {each: int(each != name) for each in sites}


def test_a_first_checkpoint_that_not_all_have_written_is_not_the_end_of_a_run(
    tmp_path, monkeypatch
):
    config, job, sites = prepared(tmp_path, epochs=4, checkpoint_every=5)
    with_a_first_checkpoint_at_all_but("bank", job, sites, monkeypatch)
    assert play(job, sites, Mesh()) == {}
    expected = same_as(config, sites)
    run = load_run(sites["insurer"].runs / "first")
    assert run.ledger.without_time() == expected.ledger.without_time()


def test_a_site_that_has_lost_a_run_is_told_and_the_others_keep_theirs(tmp_path, monkeypatch):
    _, job, sites = prepared(tmp_path, epochs=4, checkpoint_every=5)
    with_a_first_checkpoint_at_all_but("bank", job, sites, monkeypatch)
    shutil.rmtree(sites["bank"].runs)
    failed = play(job, sites, Mesh())
    assert "would go on with the run 'first', and the others have nothing of it" in str(
        failed[GATEKEEPER]
    )
    assert checkpoints(sites) == {"bank": 0, "shop": 1, "insurer": 1}


def test_no_server_lets_a_site_begin_anew_that_has_come_far(tmp_path):
    _, job, sites = prepared(tmp_path, epochs=4, checkpoint_every=5)
    assert play(job, sites, Mesh()) == {}
    mesh = Mesh()
    server = Host(job, mesh.post(GATEKEEPER))
    tell = server._tell

    def told(name, message):
        is_go = isinstance(message, meeting.Go)
        tell(name, meeting.Go(None, message.gate) if is_go else message)

    server._tell = told
    failed = play(job, sites, mesh, server)
    assert "is told to begin anew, and has checkpoints up to round " in str(failed["bank"])
    assert checkpoints(sites) == {"bank": 2, "shop": 2, "insurer": 2}


def test_a_site_is_tried_before_a_job_is_submitted(tmp_path):
    config, _, sites = prepared(tmp_path)
    sites = new_people(tmp_path, sites)

    def told(name, task, **changed):
        site = sites[name].model_copy(update=changed)
        return [*checked(job_of(config, "first", task), site)]

    (note,) = sites["bank"].notes
    assert told("bank", "align") == [
        note,
        "'bank' has 115 ids in 'bank', none of them missing or twice",
    ]
    people, width = told("bank", "train")[1:]
    assert people == "'bank' has a row of each of the 108 people in common"
    assert width == "its columns become embeddings of 4 numbers"
    assert told("insurer", "train")[-1] == "its labels are bought, left"
    assert told("insurer", "align_new")[-1].startswith("'insurer' has 36 ids in 'insurer'")
    with pytest.raises(DataError, match="holds no run"):
        told("bank", "predict")
    for task in ("train", "align_new"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    assert told("bank", "predict")[-1] == (
        "'bank' has its part of the run, and a row of each of 34 people"
    )
    (tmp_path / "policy.yaml").write_text("methods: [pbm_vfl]\n")
    with pytest.raises(ConfigurationError, match="methods allows pbm_vfl, and the job wants svfl"):
        told("bank", "train", policy=tmp_path / "policy.yaml")
    (tmp_path / "bank.csv").unlink()
    with pytest.raises(DataError, match=r"bank\.csv"):
        told("bank", "align")


def test_a_loss_that_no_defence_covers_is_told_before_a_job_is_submitted(tmp_path):
    sites = {}
    for name, objective in {"own": {}, "given": {"mean": 0, "scale": 2}}.items():
        folder = tmp_path / name
        folder.mkdir()
        tables(folder)
        labels = pl.read_csv(folder / "labels.csv")
        labels.with_columns(y=pl.col("f") * 3).write_csv(folder / "labels.csv")
        defence = {"defence": "gaussian", "bound": 1.0, "multiplier": 1.0}
        method = {"exchange": {"exchange": "split", "defence": defence}}
        config = parse_config(configuration(folder, method) | {"objective": objective})
        sites[name] = (job_of(config, "first", "train"), federation(folder, config)["insurer"])
    assert len([*checked(*sites["given"])]) > 0
    with pytest.raises(ConfigurationError, match=r"know mean and scale of all training labels"):
        [*checked(*sites["own"])]


def test_no_best_model_is_chosen_by_test_rows(tmp_path):
    config, _, sites = prepared(tmp_path)
    said = config.as_dict()
    said["data"]["split"] |= {"validation": 0.0}
    said["training"]["early_stopping"] = {"patience": 2}
    job = job_of(parse_config(said), "first")
    failed = play(job, sites, Mesh())
    for name, site in sites.items():
        assert "early stopping chooses the best model by validation rows" in str(failed[name])
        with pytest.raises(ConfigurationError, match="early stopping chooses the best model"):
            [*checked(job, site)]


@pytest.mark.parametrize(
    ("method", "parties", "said"),
    [
        ("pbm_vfl", ("bank",), "a secure sum, as of PBM-VFL, needs two parties or more"),
        ("fedvs", ("bank", "shop"), "model: polynomial"),
    ],
)
def test_what_a_job_cannot_do_is_told_before_it_is_submitted(tmp_path, method, parties, said):
    _, job, sites = prepared(tmp_path, method, parties)
    for name in parties:
        with pytest.raises(ConfigurationError, match=said):
            [*checked(job, sites[name])]


@pytest.mark.parametrize("device", ["/etc/passwd", "cuda:77"])
def test_a_device_that_is_not_there_is_told_before_a_job_is_submitted(tmp_path, device):
    _, job, sites = prepared(tmp_path)
    sites["bank"] = sites["bank"].model_copy(update={"device": device})
    with pytest.raises(ConfigurationError, match=f"of 'bank' cannot compute on '{device}'"):
        [*checked(job, sites["bank"])]
    failed = play(job, sites, Mesh())
    assert f"of 'bank' cannot compute on '{device}'" in str(failed["bank"])
    assert device not in str(failed["shop"])


def test_what_is_in_a_policy_that_cannot_be_read_is_told_to_its_owner_alone(tmp_path):
    _, job, sites = prepared(tmp_path)
    (tmp_path / "policy.yaml").write_text("max_bytes: hunter2\n")
    sites["bank"] = sites["bank"].model_copy(update={"policy": tmp_path / "policy.yaml"})
    failed = play(job, sites, Mesh())
    assert "hunter2" in str(failed["bank"])
    for name in ("shop", "insurer"):
        assert "'bank'" in str(failed[name])
        assert "hunter2" not in str(failed[name])


@pytest.mark.parametrize("run", ["first.failure.txt", "first.notes.txt"])
def test_no_run_is_called_as_what_is_kept_of_another(tmp_path, run):
    config, _, _ = prepared(tmp_path)
    with pytest.raises(ConfigurationError, match="as files beside another run's folder"):
        job_of(config, run)


class Overheard(Mesh):
    """Keeps all that is sent."""

    def __init__(self):
        super().__init__()
        self.sent = []

    def post(self, own):
        carry = super().post(own)

        def heard(peer, datagram):
            self.sent.append(datagram)
            carry(peer, datagram)

        return heard


@pytest.mark.parametrize("method", ["svfl", "lean", "pbm_vfl"])
def test_no_id_no_feature_and_no_label_is_in_any_message(tmp_path, method):
    config, _, sites = prepared(tmp_path, METHODS[method])
    own = own_part(job_of(config, "first"), sites["bank"])
    rows = [row.numpy().tobytes() for row in own.tables.features["bank"]]
    port = a_free_port()
    sites = serving_sites(tmp_path, sites, port)
    for name in sites:
        (tmp_path / name / "aligned" / f"{name}.json").unlink()
    for task in ("align", "train", "align_new", "predict", "serve"):
        job, mesh = job_of(config, "first", task), Overheard()
        if task == "serve":
            with served(job, sites, port, mesh) as (ask, _):
                assert told_in(ask(*known_ids(sites)[:5]))
        else:
            assert play(job, sites, mesh) == {}
        everything = b"".join(mesh.sent)
        assert (b"blind" if "align" in task else b"embedding") in everything
        for marker in (b"person-", b"bought", b"\xa4left", b'"left"', *rows):
            assert marker not in everything, (task, marker)


# Predictions


def new_people(folder, sites):
    """Give each site rows of new people, of whom some are known to all; return a job's sites."""
    rng = np.random.default_rng(4)
    ids = [f"person-{number}" for number in range(5000, 5040)]
    x = rng.normal(size=(len(ids), 6)).round(3)
    parts = {
        "bank": pl.DataFrame({"id": ids, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})[2:],
        "shop": pl.DataFrame({"id": ids, "d": x[:, 3], "e": x[:, 4]}).reverse()[3:],
        "insurer": pl.DataFrame({"id": ids})[:-4],
    }
    told = {}
    for name, site in sites.items():
        if name not in parts:
            continue
        source = written(folder / f"{name}-new.csv", parts[name])
        new = {"table": {"source": str(source)}, "alignment": str(folder / name / "aligned-new")}
        told[name] = site.model_copy(update={"new": NewPeopleConfig.model_validate(new)})
    return told


def known_to_all(folder, site):
    """Write the rows of those whom all know, in their order; return where, by party."""
    ids = read_alignment(site.new.alignment)[site.organisation].ids.alias("id").to_frame()
    return {
        name: written(
            folder / f"{name}-known.csv",
            ids.join(pl.read_csv(folder / f"{name}-new.csv"), on="id", maintain_order="left"),
        )
        for name in ("bank", "shop")
    }


@pytest.mark.parametrize("method", ["svfl", "lean", "cvfl, labels shared"])
def test_new_people_are_predicted_as_the_simulator_does(tmp_path, method):
    config, _, sites = prepared(tmp_path, METHODS[method])
    sites = new_people(tmp_path, sites)
    for task in ("train", "align_new", "predict", "predict"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    config.train(tmp_path / "run")
    trained = load_trained(tmp_path / "run")
    expected = trained.predict_tables(known_to_all(tmp_path, sites["insurer"]))
    found = sites["insurer"].runs / "first" / "predictions"
    for number in ("1", "2"):
        frame = pl.read_csv(found / number / "predictions.csv")
        assert len(frame) == 34
        assert frame.equals(pl.read_csv(io.StringIO(trained.frame(expected).write_csv())))
    left = Ledger()
    for site in sites.values():
        left.extend(Ledger.read_csv(site.runs / "first" / "predictions" / "2" / "ledger.csv"))
    assert left.without_time() == expected.ledger.without_time()
    assert not (sites["bank"].runs / "first" / "predictions" / "1" / "predictions.csv").exists()


@pytest.mark.filterwarnings("ignore::colonnade.errors.PrivacyWarning")
@pytest.mark.parametrize("method", ["svfl", "lean", "pbm_vfl"])
def test_who_has_left_is_replaced_and_what_is_lost_is_measured(tmp_path, method):
    """At the same cost and to the same bits as by one hand, by a job without whoever has left."""
    parties = ("bank", "shop", "clinic")
    config, _, sites = prepared(tmp_path, METHODS[method], parties)
    assert play(job_of(config, "first", "train"), sites, Mesh()) == {}
    mean = sites["clinic"].runs / "first" / "parts" / "clinic" / "mean.json"
    left = {name: site for name, site in new_people(tmp_path, sites).items() if name != "clinic"}
    new = left["insurer"].new.model_copy(update={"means": {"clinic": mean}})
    left["insurer"] = left["insurer"].model_copy(update={"new": new})
    for task in ("align_new", "predict"):
        job = job_of(config, "first", task, without={"clinic": "mean"})
        assert "clinic" not in job.sites
        assert play(job, left, Mesh()) == {}
    config.train(tmp_path / "run")
    trained = load_trained(tmp_path / "run")
    known = known_to_all(tmp_path, left["insurer"])
    expected = trained.predict_tables(known, without={"clinic": "mean"})
    found = left["insurer"].runs / "first" / "predictions" / "1"
    told = json.loads((found / "summary.json").read_text())
    assert told["without"] == {"clinic": "mean"}
    assert told["lost"]["metric"] == "validation_auc"
    assert told["lost"]["everybody"] == trained.run.summary["best"]
    assert told["lost"]["rows"] == expected.lost.rows > 0
    frame = pl.read_csv(found / "predictions.csv")
    assert frame["id"].equals(expected.ids.alias("id"))
    if method != "pbm_vfl":  # whose noise nobody repeats
        assert frame.equals(pl.read_csv(io.StringIO(trained.frame(expected).write_csv())))
        assert told["lost"] == asdict(expected.lost)


def test_a_label_holder_that_is_told_its_own_top_model_needs_not_be_asked_for_it(tmp_path):
    config, _, sites = prepared(tmp_path)
    sites = new_people(tmp_path, sites)
    for task in ("train", "align_new"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    own = PredictingTogether(job_of(config, "first", "predict"), sites["insurer"])
    assert own.brings().width is None
    own.agree(meeting.Everybody({"bank": 4, "shop": 4}, {}, meeting.Top(18)))
    assert own.cast().name == "insurer"


def test_a_fallback_that_cannot_be_is_told(tmp_path):
    parties = ("bank", "shop", "clinic")
    config, job, sites = prepared(tmp_path, parties=parties)
    assert play(job, sites, Mesh()) == {}
    left = {name: site for name, site in new_people(tmp_path, sites).items() if name != "clinic"}
    gone = {"clinic": "mean"}
    assert play(job_of(config, "first", "align_new", without=gone), left, Mesh()) == {}
    failed = play(job_of(config, "first", "predict", without=gone), left, Mesh())
    assert str(failed["insurer"]).startswith("the mean of 'clinic' is not known: it is in mean.")
    with pytest.raises(ConfigurationError, match="every party has left"):
        job_of(config, "first", "predict", without=dict.fromkeys(parties, "mean"))
    assert job_of(config, "first", "train", without={"clinic": "zeros"}).fallbacks == {}


def test_predictions_of_a_run_are_counted_at_every_site(tmp_path):
    config, _, sites = prepared(tmp_path, METHODS["pbm_vfl"])
    sites = new_people(tmp_path, sites)
    (tmp_path / "policy.yaml").write_text("max_epsilon: 0\nsimulations: true\n")
    strict = {"bank": sites["bank"].model_copy(update={"policy": tmp_path / "policy.yaml"})}
    job = job_of(config, "first", "predict")

    def epsilon():
        said = str(play(job, sites | strict, Mesh())["bank"])
        assert "max_epsilon allows 0, and that of the job's embeddings is " in said
        return float(said.rpartition(" ")[2])

    def counts():
        return {
            PredictionCount(site.runs / "first", site.runs / "first" / "parts" / name)
            .times()
            .total()
            for name, site in sites.items()
        }

    for task in ("train", "align_new"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    once = epsilon()
    assert counts() == {0}
    assert play(job, sites, Mesh()) == {}
    assert counts() == {1}
    assert epsilon() > once > 0


def test_what_a_site_told_with_few_is_compared_as_that_when_all_are_there_again(tmp_path):
    config, job, sites = prepared(tmp_path, METHODS["pbm_vfl"], ("bank", "shop", "clinic"))
    assert play(job, sites, Mesh()) == {}
    left, gone = new_people(tmp_path, sites), {"clinic": "zeros"}
    ids = pl.read_csv(tmp_path / "bank-new.csv", columns=["id"])
    source = written(tmp_path / "clinic-new.csv", ids.with_columns(g=0.5, h=-0.5))
    new = {"table": {"source": str(source)}, "alignment": str(tmp_path / "clinic" / "new")}
    clinic = sites["clinic"].model_copy(update={"new": NewPeopleConfig.model_validate(new)})
    for task in ("align_new", "predict"):
        assert play(job_of(config, "first", task, without=gone), left, Mesh()) == {}
    everybody = left | {"clinic": clinic}
    assert play(job_of(config, "first", "align_new"), everybody, Mesh()) == {}
    (tmp_path / "policy.yaml").write_text("max_epsilon: 0\nsimulations: true\n")
    bank = left["bank"].model_copy(update={"policy": tmp_path / "policy.yaml"})
    refused = play(job_of(config, "first", "predict"), everybody | {"bank": bank}, Mesh())
    width = load_part(bank.runs / "first" / "parts" / "bank").details["embedding_width"]
    spent = Spending({BinomialSum(16, 0.2, terms, width): 1 for terms in (2, 3)}).epsilon(1e-5)
    assert str(refused["bank"]).endswith(f"the job's embeddings is {spent.value:.4g}")


def test_a_prediction_that_cannot_be_is_refused_in_words(tmp_path):
    config, job, sites = prepared(tmp_path)
    said = new_people(tmp_path, sites)

    def why(task, sites, config=config):
        failed = play(job_of(config, "first", task), sites, Mesh())
        return {name: str(error) for name, error in failed.items()}

    assert "holds no run: config.yaml is not there" in why("predict", said)["bank"]
    assert play(job, sites, Mesh()) == {}
    assert "'bank' does not say who is to be predicted" in why("align_new", sites)["bank"]
    assert "aligned-new" in why("predict", said)["bank"]
    assert why("align_new", said) == {}
    longer = config.model_copy(
        update={"training": config.training.model_copy(update={"epochs": 3})}
    )
    assert "holds a run of another job" in why("predict", said, longer)["shop"]
    written(tmp_path / "bank-new.csv", pl.read_csv(tmp_path / "bank-new.csv")[20:])
    told = why("predict", said)
    assert told["bank"].startswith("20 of the 34 people that were aligned are not in")
    for name in ("shop", "insurer"):
        assert told[name] == f"DataError: {UNUSABLE}"


UNUSABLE = "at 'bank': its data cannot be used (DataError); there it is known why"


def test_a_failure_is_told_without_saying_where_a_site_has_what(tmp_path):
    _, job, sites = prepared(tmp_path)
    (tmp_path / "policy.yaml").write_text("methods: nothing\n")
    bank = sites["bank"].model_copy(update={"policy": tmp_path / "policy.yaml"})
    failed = play(job, sites | {"bank": bank}, Mesh())
    assert str(tmp_path) in str(failed["bank"])
    for name in ("shop", "insurer", GATEKEEPER):
        assert "at 'bank': its data, or settings of its own, cannot be used" in str(failed[name])
        assert str(tmp_path) not in str(failed[name])


def test_no_path_that_a_site_has_written_down_is_told(tmp_path):
    _, _, sites = prepared(tmp_path)
    (tmp_path / "secret").write_text("a token that all may read\n")
    new = {"table": {"source": "new.csv"}, "means": {"shop": tmp_path / "secret"}}
    serve = {"host": "10.1.2.3", "token": tmp_path / "secret", "key": tmp_path / "key.pem"}
    said = sites["insurer"].model_dump(mode="json") | {"new": new, "serve": serve}
    serve["certificate"] = tmp_path / "certificate.pem"
    site = SiteConfig.model_validate(said)
    places = [
        *serve.values(),
        tmp_path / "secret",
        site.runs,
        site.alignment,
        site.folder / "new.csv",
    ]
    told = told_elsewhere(ConfigurationError(", ".join(map(str, places))), site).message
    assert str(tmp_path) not in told
    assert "10.1.2.3" not in told
    for called in ("serve.host", "serve.key", "serve.certificate", "runs", "alignment"):
        assert f"<{called}>" in told
    assert "<serve.token>" in told or "<new.means.shop>" in told


@pytest.mark.parametrize("task", ["align", "train", "align_new", "predict", "serve"])
def test_no_job_compares_another_column_than_the_site_says(tmp_path, task):
    _, job, sites = prepared(tmp_path)
    for table in tmp_path.glob("*.csv"):
        table.unlink()  # it is refused before any is read
    rows = job.rows.model_copy(update={"id": "wealth"})
    failed = play(job.model_copy(update={"task": task, "rows": rows}), sites, Mesh())
    assert {*failed} == {"bank", "shop", "insurer", GATEKEEPER}
    for error in failed.values():
        assert "does not compare its column 'wealth' with what others have" in str(error)


WRONG = {
    "twice": ("bank", lambda text: text + "person-1015,1,2,3\n", "'person-1015'"),
    "a cell": ("bank", lambda text: re.sub(r"(person-1020),[^,]*", r"\1,PLANTED", text), "PLANTED"),
    "no label": ("labels", lambda text: re.sub(r"(person-1020,.*,)\w+", r"\1", text), "is missing"),
    "one class": ("labels", lambda text: text.replace("left", "bought"), "'bought'"),
}


@pytest.mark.parametrize("task", ["align", "train"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_in_a_table_is_told_to_its_owner_alone(tmp_path, wrong, task):
    config, _, sites = prepared(tmp_path)
    whose, change, said = WRONG[wrong]
    file = tmp_path / f"{whose}.csv"
    file.write_text(change(file.read_text()))
    name = "insurer" if whose == "labels" else whose
    kept = sites[name].runs / "first.failure.txt"
    mesh = Overheard()
    failed = play(job_of(config, "first", task), sites, mesh)
    if not failed:
        assert task == "align"  # which looks at ids alone
        return
    if task == "train":
        assert said in str(failed[name])
        assert said in kept.read_text().splitlines()[0]
    assert kept.stat().st_mode & 0o077 == 0
    told = [str(error) for each, error in failed.items() if each != name]
    assert len(told) == 3
    everything = b"".join(mesh.sent).decode(errors="replace") + "".join(told)
    for marker in ("person-", "PLANTED", "bought", "left"):
        assert marker not in everything


FORBIDDEN = {
    "so many labels": (
        lambda text: re.sub(r"(person-(\d+),.*,)\w+", r"\1\2", text),
        {},
        "whole numbers with 108 different values",
    ),
    "weights of three": (
        lambda text: text,
        {"class_weights": [1.0, 2.0, 3.0]},
        "class_weights has 3 numbers for 2 classes",
    ),
    "a threshold": (
        lambda text: text.replace("left", "gone", 30),
        {"threshold": 0.3},
        "a threshold decides between two classes, and there are 3",
    ),
}


@pytest.mark.parametrize("asked", FORBIDDEN)
def test_what_a_job_may_not_ask_of_labels_tells_nobody_how_many_classes_there_are(tmp_path, asked):
    _, job, sites = prepared(tmp_path)
    change, objective, said = FORBIDDEN[asked]
    file = tmp_path / "labels.csv"
    file.write_text(change(file.read_text()))
    job = job.model_copy(update={"objective": ObjectiveConfig.model_validate(objective)})
    refused_to_others(job, sites, "insurer", said)


def test_what_a_job_may_not_ask_of_columns_tells_nobody_which_there_are(tmp_path):
    pictures = {"model": "resnet18", "width": 8}
    _, job, sites = prepared(tmp_path, model={"bottoms": {"bank": pictures}})
    refused_to_others(job, sites, "bank", "not float32 of shape [108, 3]")


def test_what_a_site_says_of_its_own_columns_is_told_to_nobody(tmp_path):
    _, job, sites = prepared(tmp_path)
    features = {"categorical": ["a"], "ignore": ["a"]}
    said = {"source": str(tmp_path / "bank.csv"), "features": features}
    table = PartyTableConfig.model_validate(said)
    sites["bank"] = sites["bank"].model_copy(update={"table": table})
    refused_to_others(job, sites, "bank", "column 'a' is named in categorical and in ignore")


def refused_to_others(job, sites, name, said):
    """Let a job be refused for what ``name`` keeps to itself, which alone is told what that is."""
    failed = play(job, sites, Mesh())
    assert said in str(failed.pop(name))
    assert said in (sites[name].runs / "first.failure.txt").read_text().splitlines()[0]
    told = (
        f"at {name!r}: its data, or settings of its own, cannot be used (ConfigurationError); there"
    )
    assert len(failed) == len(sites)
    assert all(told in str(error) and said not in str(error) for error in failed.values())


def test_numbers_that_became_too_large_are_told_to_their_owner_alone(tmp_path):
    half = {"codec": "float", "format": 16}
    _, job, sites = prepared(tmp_path, {"name": "svfl", "derivative": half})
    labels = pl.read_csv(tmp_path / "labels.csv")
    written(tmp_path / "labels.csv", labels.with_columns(y=pl.int_range(pl.len()) / 7))
    objective = ObjectiveConfig.model_validate({"mean": 0.0, "scale": 1e-9})
    rows = job.rows.model_copy(update={"task": "regression"})
    mesh = Overheard()
    failed = play(job.model_copy(update={"objective": objective, "rows": rows}), sites, mesh)
    said = str(failed.pop("insurer"))
    assert re.search(r"component \d+ of row \d+ is \S*\d, too large for float format 16", said)
    kept = sites["insurer"].runs / "first.failure.txt"
    assert "too large for float format 16" in kept.read_text()
    told = "at 'insurer', in round 0: numbers became too large, or none (Diverged); there it is"
    assert all(told in str(error) and "component" not in str(error) for error in failed.values())
    assert b"component" not in b"".join(mesh.sent)


REFUSED = "what 'bank' sent in round 3 is refused"
WHERE = "at insurer, in round 3: "


@pytest.mark.parametrize("kind", [Diverged, OutOfRange])
@pytest.mark.parametrize("said", [f"{WHERE}the largest that came is 6e+24", "the loss is 3.5"])
def test_no_number_that_was_found_at_work_is_told(tmp_path, kind, said):
    _, _, sites = prepared(tmp_path)
    told = told_elsewhere(kind(said), sites["insurer"]).message
    when = ", in round 3" if said.startswith(WHERE) else ""
    what = f"numbers became too large, or none ({kind.__name__}); there it is known why"
    assert told == f"at 'insurer'{when}: {what}"


def test_why_a_metric_cannot_be_computed_is_told_to_its_owner_alone(tmp_path):
    _, _, sites = prepared(tmp_path)
    metric = Metric("top_9_accuracy", True, partial(top_k_accuracy, k=9))
    with pytest.raises(Unmeasurable, match="k must be 1 to 3, the classes") as caught:
        metric(zeros(2, 3), tensor([0, 1]))
    told = told_elsewhere(caught.value, sites["insurer"]).message
    what = "a metric cannot be computed of its labels (Unmeasurable); there it is known why"
    assert told == f"at 'insurer': {what}"


def test_what_is_refused_of_a_message_is_told_without_its_numbers(tmp_path):
    _, _, sites = prepared(tmp_path)
    with pytest.raises(RemoteProtocolError) as caught, reading("bank", 3):
        raise RemoteProtocolError("a body gives the range 3.5 to 1.25, which is none")
    assert str(caught.value).startswith(f"{REFUSED}: a body gives the range 3.5")
    assert names_values(caught.value)
    told = told_elsewhere(caught.value, sites["insurer"]).message
    assert told == f"at 'insurer': {REFUSED} (RemoteProtocolError); there it is known why"


def test_a_job_whose_folder_holds_something_else_is_told_to_take_another_name(tmp_path):
    _, job, sites = prepared(tmp_path)
    own = sites["bank"].runs / "first" / "history.csv"
    own.parent.mkdir(parents=True)
    own.write_text("of somebody else\n")
    for error in play(job, sites, Mesh()).values():
        assert str(error).endswith("which a run would write over; give the run another name")


@pytest.mark.parametrize("left", [None, "departures", "journal", "summary.json"])
def test_a_job_that_was_refused_leaves_its_name_to_another_unless_something_was_sent(
    tmp_path, left
):
    _, job, sites = prepared(tmp_path)
    folder = RunFolder(sites["shop"].runs / "first")
    with folder.alone():
        folder.begin({"job": "a longer one"}, resume=True)
        folder.keep_training("0" * 32)
        folder.store({}).make()
    if left is not None:
        place = folder.path / left
        if not place.suffix:
            place.mkdir()
            place /= "shop"
        place.write_text("of the other job\n")
    failed = play(job, sites, Mesh())
    assert bool(failed) == (left is not None)
    for error in failed.values():
        assert "; give the run another name" in str(error)


def test_a_job_that_is_not_that_of_a_run_is_told_to_take_another_name(tmp_path):
    config, job, sites = prepared(tmp_path)
    assert play(job, sites, Mesh()) == {}
    training = config.training.model_copy(update={"epochs": 3})
    longer = job_of(config.model_copy(update={"training": training}), "first")
    for error in play(longer, sites, Mesh()).values():
        assert str(error).endswith("or start a new one: give the run another name")


def test_with_whom_else_a_site_has_aligned_is_told_to_nobody(tmp_path):
    _, job, sites = prepared(tmp_path)
    file = sites["bank"].alignment / "bank.json"
    kept = read_alignment(file.parent)["bank"]
    write_alignment(replace(kept, everybody=("bank", "rival", "insurer")), file.parent)
    failed = play(job, sites, Mesh())
    for error in failed.values():
        assert "is of other organisations than the job's, bank, shop, insurer" in str(error)
        assert "rival" not in str(error)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes that have names")
def test_a_pipe_where_a_failure_is_kept_is_waited_for_by_nobody(tmp_path):
    """Nor are cells written where others may read."""
    kept = Kept(tmp_path / "runs", "first")
    (tmp_path / "runs").mkdir()
    os.mkfifo(kept.failure)
    kept.fail(ValueError("P-1"))
    with os.fdopen(os.open(kept.failure, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        kept.fail(ValueError("P-1"))
        assert reader.read() == b""
    kept.failure.unlink()
    kept.failure.write_text("older")
    kept.failure.chmod(0o644)
    kept.fail(ValueError("P-1"))
    assert "P-1" in kept.failure.read_text()
    assert stat.S_IMODE(kept.failure.stat().st_mode) == 0o600


def test_a_failure_is_kept_with_all_that_it_says_and_what_to_do(tmp_path):
    kept = Kept(tmp_path / "runs", "first")
    said = f"{'a column ' * 60}is none; take another"
    kept.fail(DataError(said))
    assert kept.failure.read_text().splitlines()[0] == f"DataError: {said}"


@pytest.mark.filterwarnings("always::colonnade.errors.DataWarning")
def test_what_is_noted_of_a_table_stays_in_a_file_of_its_owner(tmp_path):
    said, kept = [], Kept(tmp_path / "runs", "first")
    with kept.noting(said.append):
        for town in ("Bern", "Rome"):
            warnings.warn(f"{town!r} is new", DataWarning, stacklevel=1)
    assert said == [f"something should be known of the tables; more is in {kept.notes}"]
    assert kept.notes.read_text() == "'Bern' is new\n'Rome' is new\n"
    assert kept.notes.stat().st_mode & 0o077 == 0


LIES = {
    "another protocol": ({"protocol": 1}, "different versions of the protocol"),
    "another version": ({"version": "0.0"}, "different versions of colonnade"),
    "another job": ({"job": "else"}, "different jobs"),
    "other people": ({"people": "else"}, "different alignments"),
    "fewer rows": ({"rows": 7}, "different numbers of rows"),
}


@pytest.mark.parametrize("lie", LIES)
def test_sites_that_could_not_train_together_are_refused(tmp_path, monkeypatch, lie):
    changed, why = LIES[lie]
    _, job, sites = prepared(tmp_path)
    brings = TrainingTogether.brings

    def lied(engagement):
        told = brings(engagement)
        if engagement.name == "bank":
            for field, value in changed.items():
                setattr(told, field, value)
        return told

    monkeypatch.setattr(TrainingTogether, "brings", lied)
    failed = play(job, sites, Mesh())
    assert f"the sites have {why}" in str(failed[GATEKEEPER])


def test_a_history_is_of_those_whose_account_it_is_in(tmp_path, monkeypatch):
    _, job, sites = prepared(tmp_path)
    report = Account.report

    def forged(account, name, values, *more):
        stamped = report(account, name, values, *more)
        if name == "insurer":
            account.history[-1] = {**stamped, "organisation": "shop"}
        return stamped

    monkeypatch.setattr(Account, "report", forged)
    assert play(job, sites, Mesh()) == {}
    run = load_run(sites["insurer"].runs / "first")
    assert run.history["validation_auc"].null_count() == 0
    assert run.summary["final"] is not None


def test_what_a_crash_repeats_counts_for_a_policys_epsilon(tmp_path):
    _, job, sites = prepared(
        tmp_path, METHODS["pbm_vfl"], epochs=6, checkpoint_every=5, secrets="system"
    )

    def attempt(most, fails_in=None):
        (tmp_path / "policy.yaml").write_text(f"max_epsilon: {most!r}\n")
        bank = sites["bank"].model_copy(update={"policy": tmp_path / "policy.yaml"})
        mesh = Mesh()

        def reached(name, round, sent_bytes):
            if name == "bank" and round == fails_in:
                mesh.ends["shop"].end("its machine failed")

        server = Host(job, mesh.post(GATEKEEPER), on_round=reached)
        failed = play(job, sites | {"bank": bank}, mesh, server)
        return str(failed["bank"]) if failed else ""

    planned = float(attempt(0.0).rpartition(" ")[2]) * 1.001  # it is told in 4 digits
    assert "its machine failed" in attempt(planned, fails_in=18)
    refused = attempt(planned)
    assert "max_epsilon allows" in refused
    with_the_crash = float(refused.rpartition(" ")[2]) * 1.001
    assert with_the_crash > planned
    assert attempt(with_the_crash) == ""
    told = load_run(sites["insurer"].runs / "first").summary["privacy_loss"]
    assert planned < told["epsilon"] <= with_the_crash


def test_a_site_keeps_a_journal_of_what_it_may_do_once(tmp_path):
    _, job, sites = prepared(tmp_path, METHODS["pbm_vfl"])
    assert play(job, sites, Mesh()) == {}
    for name, site in sites.items():
        assert [*(site.runs / "first").rglob(f"journal/*{name}*")], name


def test_a_run_that_is_over_sends_nothing_when_its_job_is_submitted_again(tmp_path):
    _, job, sites = prepared(tmp_path, METHODS["pbm_vfl"], secrets="system")
    assert play(job, sites, Mesh()) == {}
    run = load_run(sites["insurer"].runs / "first")
    assert run.summary["messages_lost"] == 0
    left = {
        path: path.read_bytes()
        for site in sites.values()
        for path in (site.runs / "first").rglob("departures/*")
    }
    assert len(left) == len(sites)
    for _ in range(2):
        assert play(job, sites, Mesh()) == {}
        again = load_run(sites["insurer"].runs / "first")
        assert list(again.ledger) == list(run.ledger)
        assert again.history.equals(run.history)
        assert again.summary["privacy_loss"] == run.summary["privacy_loss"]
        assert {path: path.read_bytes() for path in left} == left


def test_a_site_does_not_go_on_with_a_journal_from_a_backup(tmp_path):
    _, job, sites = prepared(
        tmp_path, METHODS["pbm_vfl"], epochs=6, checkpoint_every=5, secrets="system"
    )
    mesh = Mesh()

    def reached(name, round, sent_bytes):
        if name == "bank" and round == 13:
            mesh.ends["shop"].end("its machine failed")

    server = Host(job, mesh.post(GATEKEEPER), on_round=reached)
    assert "its machine failed" in str(play(job, sites, mesh, server)["shop"])
    kept = [site.runs / "first" / "checkpoint" for site in sites.values()]
    kept.append(sites["bank"].runs / "first" / "journal")
    backups = [shutil.copytree(path, tmp_path / f"backup-{n}") for n, path in enumerate(kept)]
    assert play(job, sites, Mesh()) == {}
    for path, backup in zip(kept, backups, strict=True):
        put_back(path, backup)
    failed = play(job, sites, Mesh())
    assert isinstance(failed["bank"], CheckpointError)
    assert re.search(r"journal .* or a message left: it has \d+ records of", str(failed["bank"]))


def test_what_came_of_a_long_run_is_told_in_pieces(tmp_path, monkeypatch):
    """However much that is, no message to the label holder is long."""
    config, job, sites = prepared(tmp_path, epochs=6)
    monkeypatch.setattr(what_came, "_TOGETHER", 16)
    monkeypatch.setattr(couriered, "_LONGEST", 4000)
    monkeypatch.setattr(player, "_TOLD", 16)
    assert play(job, sites, Mesh()) == {}
    expected = same_as(config, sites)
    run = load_run(sites["insurer"].runs / "first")
    assert run.ledger.without_time() == expected.ledger.without_time()
    assert len(meeting.encode(meeting.Came([*run.ledger]))) > 4000


def test_no_place_of_a_site_is_told(tmp_path):
    _, _, sites = prepared(tmp_path)
    bank = new_people(tmp_path, sites)["bank"]
    bank = bank.model_copy(update={"policy": tmp_path / "policy.yaml", "folder": tmp_path / "here"})
    places = (bank.runs, bank.policy, bank.alignment, bank.new.alignment, tmp_path / "bank.csv")
    for place in places:
        told = told_elsewhere(ConfigurationError(f"{place}/more is not as it was"), bank)
        assert str(place) not in told.message
        assert "at 'bank': <" in told.message


# Who lies, or is slow


@pytest.mark.parametrize("ends", ["another failed", "the engine ends it"])
def test_a_job_that_ends_while_a_role_is_cast_has_ended(tmp_path, monkeypatch, ends):
    _, job, sites = prepared(tmp_path)
    mesh = Mesh()
    cast = TrainingTogether.cast
    over = threading.Event()

    def slowly(engagement):
        if engagement.name == "shop":
            over.wait(60)
        return cast(engagement)

    def failing_cast(engagement):
        if engagement.name == "bank" and ends == "another failed":
            raise DataError("nothing can be read")
        return slowly(engagement)

    monkeypatch.setattr(TrainingTogether, "cast", failing_cast)
    server = Host(job, mesh.post(GATEKEEPER))
    obey = couriered.CourierTransport._obey

    def obeyed(transport, frame):
        obey(transport, frame)
        if UNUSABLE.encode() in frame and transport is mesh.ends["shop"]._transport:
            over.set()

    monkeypatch.setattr(couriered.CourierTransport, "_obey", obeyed)
    if ends == "the engine ends it":
        tell = server._tell

        def told(name, message):
            tell(name, message)
            if name == "shop" and isinstance(message, meeting.Go):
                mesh.ends["shop"].end("the job was aborted")
                over.set()

        server._tell = told
    failed = play(job, sites, mesh, server)
    why = UNUSABLE if ends == "another failed" else "the job was aborted"
    assert why in str(failed["shop"])


def test_predictions_at_once_do_not_tell_more_together_than_may_be_told(tmp_path, monkeypatch):
    config, _, sites = prepared(tmp_path, METHODS["pbm_vfl"])
    sites = new_people(tmp_path, sites)
    for task in ("train", "align_new"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    own = sites["bank"].runs / "first"
    count = PredictionCount(own, own / "parts" / "bank")
    bank = sites["bank"].model_copy(update={"policy": tmp_path / "policy.yaml"})
    job = job_of(config, "first", "predict")
    (tmp_path / "policy.yaml").write_text("max_epsilon: 0\n")
    once = float(str(play(job, sites | {"bank": bank}, Mesh())["bank"]).rpartition(" ")[2])
    (tmp_path / "policy.yaml").write_text(f"max_epsilon: {once * 1.01}\n")
    cast = PredictingTogether.cast

    def cast_meanwhile(engagement):
        if engagement.name == "bank":
            count.add(2)  # as another job does, which has been compared, too
        return cast(engagement)

    monkeypatch.setattr(PredictingTogether, "cast", cast_meanwhile)
    failed = play(job, sites | {"bank": bank}, Mesh())
    assert "max_epsilon allows" in str(failed["bank"])
    assert not (own / "predictions").exists()


NONSENSE = {
    "no width": (lambda told: told["widths"].pop("bank"), "no embeddings of 'bank'"),
    "a stranger": (lambda told: told["widths"].update(thief=4), "'thief', whom the job lacks"),
    "no top": (lambda told: told.update(top=None), "not of the top model"),
    "a larger top": (
        lambda told: told["top"].update(parameters=2**28),
        "cannot have 268435456 parameters",
    ),
    "large labels": (
        lambda told: told["top"]["labels"]["form"].__setitem__(1, [2**20] * 3),
        "no label is of shape",
    ),
    "high labels": (
        lambda told: told["top"]["labels"]["form"].__setitem__(3, 2**63),
        "no label is of shape",
    ),
    "no type": (
        lambda told: told["top"]["labels"]["form"].__setitem__(0, "nn"),
        "'insurer' told of its labels what makes no sense: labels have no type 'nn'",
    ),
    "a type of no label": (
        lambda told: told["top"]["labels"]["form"].__setitem__(0, "quint8"),
        "'insurer' told of its labels what makes no sense: labels have no type 'quint8'",
    ),
    "a number that the type has not": (
        lambda told: told["top"]["labels"].update(form=["uint8", [], 0, 300]),
        "'insurer' told of its labels what makes no sense: labels cannot go from 0 to 300",
    ),
    "one class": (
        lambda told: told["top"]["labels"].update(classes=1),
        "'insurer' told of its labels what makes no sense: objective: there must be 2 classes",
    ),
    "a class of no row": (
        lambda told: told["top"]["labels"].update(learned={"counts": [0, 5]}),
        "'insurer' told of its labels what makes no sense: class 0 has no training row",
    ),
    "fewer rows than none": (
        lambda told: told["top"]["labels"].update(learned={"counts": [-5, 10]}),
        "'insurer' told of its labels what makes no sense: classes are balanced by how many",
    ),
    "counts of more classes": (
        lambda told: told["top"]["labels"].update(learned={"counts": [1, 2, 3]}),
        "'insurer' told of its labels what makes no sense: classes are balanced by 3 counts",
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_an_agreement_that_makes_no_sense_is_refused_in_words(tmp_path, name):
    change, message = NONSENSE[name]
    _, job, sites = prepared(tmp_path, METHODS["cvfl, labels shared"])
    job = job.model_copy(update={"objective": ObjectiveConfig(class_weights="balanced")})
    mesh = Mesh()
    server = Host(job, mesh.post(GATEKEEPER))
    tell = server._tell

    def told(receiver, words):
        if receiver == "bank" and isinstance(words, meeting.Everybody) and words.top is not None:
            plain = msgspec.to_builtins(words)
            form = plain["top"]["labels"]["form"]
            plain["top"]["labels"]["form"] = [*form]
            change(plain)
            tell(receiver, meeting.from_server(msgspec.msgpack.encode(plain)))
            return
        tell(receiver, words)

    server._tell = told
    failed = play(job, sites, mesh, server)
    assert isinstance(failed["bank"], RemoteProtocolError)
    assert message in str(failed["bank"])


def test_what_peers_send_before_the_beginning_is_weighed(monkeypatch):
    monkeypatch.setattr(couriered, "_MOST_EARLY", 1000)
    failed = []
    transport = couriered.CourierTransport(lambda *_: None, print, failed.append)
    transport.admit(["shop"], 100, b"agreed")
    transport._deliver("shop", b"agreed")
    for _ in range(10):
        transport._deliver("shop", bytes(100))
    with pytest.raises(RemoteProtocolError, match="'shop' sends before the run has begun"):
        transport._deliver("shop", b"x")
    transport.close()


@contextmanager
def served(job, sites, port, mesh=None):
    """Play a job that serves predictions meanwhile; yield how to ask, and who failed how then."""
    over, mesh, failed = threading.Event(), mesh or Mesh(), {}
    server = Host(job, mesh.post(GATEKEEPER), over.is_set)
    playing = threading.Thread(target=lambda: failed.update(play(job, sites, mesh, server)))
    playing.start()
    url = f"http://127.0.0.1:{port}"
    try:
        while playing.is_alive():  # until it serves, or has failed
            try:
                if httpx.get(f"{url}/health").json()["state"] == "serving":
                    break
            except httpx.TransportError:
                continue

        def ask(*ids):
            token = (sites["insurer"].serve.token).read_text().strip()
            shown = {"Authorization": f"Bearer {token}"}
            return httpx.post(f"{url}/predict", json={"ids": [*ids]}, headers=shown, timeout=60)

        yield ask, failed
    finally:
        over.set()
        playing.join()


def a_free_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as bound:
        return bound.getsockname()[1]


def serving_sites(tmp_path, sites, port):
    place = ServeConfig(port=port).within(tmp_path / "insurer")
    insurer = sites["insurer"].model_copy(update={"serve": place})
    return new_people(tmp_path, sites | {"insurer": insurer})


def told_in(reply):
    assert reply.status_code == 200, reply.text
    return {each["id"]: each["probabilities"] for each in reply.json()["predictions"]}


@pytest.mark.parametrize("method", ["svfl", "lean", "cvfl, labels shared"])
def test_who_is_asked_for_is_predicted_as_in_a_prediction_of_all(tmp_path, method):
    config, _, sites = prepared(tmp_path, METHODS[method])
    port = a_free_port()
    sites = serving_sites(tmp_path, sites, port)
    for task in ("train", "align_new", "predict"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    run = sites["insurer"].runs / "first"
    frame = pl.read_csv(run / "predictions" / "1" / "predictions.csv")
    expected = {row["id"]: row for row in frame.rows(named=True)}
    ids = frame["id"].to_list()
    with served(job_of(config, "first", "serve"), sites, port) as (ask, failed):
        asked = [ids[:1], [ids[7], ids[3]], ids]
        for some in asked:
            for id, probabilities in told_in(ask(*some)).items():
                for name, probability in probabilities.items():
                    whole = expected[id][f"probability of {name}"]
                    assert probability == pytest.approx(
                        whole, abs=1e-5 if method == "svfl" else 0.05
                    )
        assert ask("nobody").status_code == 404
    assert {name: "the run was stopped" in str(error) for name, error in failed.items()} == (
        dict.fromkeys(["insurer", "bank", "shop", GATEKEEPER], True)
    )
    left = {
        name: Ledger.read_csv(site.runs / "first" / "services" / "1" / "ledger.csv")
        for name, site in sites.items()
    }
    requests = [(entry.receiver, entry.body_bytes) for entry in left["insurer"]]
    assert requests == [(to, 8 * len(some)) for some in asked for to in ("bank", "shop")]
    for name in ("bank", "shop"):
        assert [entry.receiver for entry in left[name]] == ["insurer"] * 3
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/health")


def test_a_service_keeps_nothing_of_its_requests_in_memory(tmp_path, monkeypatch):
    config, _, sites = prepared(tmp_path)
    port = a_free_port()
    sites = serving_sites(tmp_path, sites, port)
    for task in ("train", "align_new"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    monkeypatch.setattr(player, "_TOLD", 1)
    made = {Player: [], Host: []}
    for kind, those in made.items():

        def noted(one, *given, make=kind.__init__, those=those, **named):
            those.append(one)
            make(one, *given, **named)

        monkeypatch.setattr(kind, "__init__", noted)
    ids = known_ids(sites)
    with served(job_of(config, "first", "serve"), sites, port) as (ask, _):
        for id in ids[:5]:
            assert told_in(ask(id))
    for one in made[Player]:
        assert one.decisions == []
        assert one.task.sent is None
    (server,) = made[Host]
    assert list(server._came.pieces()) == []
    left = Ledger.read_csv(sites["bank"].runs / "first" / "services" / "1" / "ledger.csv")
    assert len(left) == 5


def test_a_site_lets_so_many_requests_be_answered_as_its_policy_says(tmp_path):
    config, _, sites = prepared(tmp_path, METHODS["pbm_vfl"])
    port = a_free_port()
    sites = serving_sites(tmp_path, sites, port)
    for task in ("train", "align_new"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    id = known_ids(sites)[0]
    (tmp_path / "policy.yaml").write_text("max_epsilon: 0\n")
    bank = sites["bank"].model_copy(update={"policy": tmp_path / "policy.yaml"})
    job = job_of(config, "first", "serve")
    refused = play(job, sites | {"bank": bank}, Mesh())
    once = float(str(refused["bank"]).rpartition(" ")[2])
    (tmp_path / "policy.yaml").write_text(f"max_epsilon: {once * 1.01}\n")
    with served(job, sites | {"bank": bank}, port) as (ask, failed):
        assert told_in(ask(id))
        ended = ask(id)
        assert ended.status_code == 503
        assert "the service has ended" in ended.json()["error"]
    assert "max_epsilon allows" in str(failed["bank"])
    own = sites["bank"].runs / "first"
    assert PredictionCount(own, own / "parts" / "bank").times().total() == 2
    embeddings = Ledger.read_csv(own / "services" / "1" / "ledger.csv")
    assert {entry.round for entry in embeddings if entry.purpose is Purpose.PREDICTION} == {0}


def known_ids(sites):
    new = sites["insurer"].new
    return read_alignment(new.alignment)["insurer"].ids.to_list()


def test_no_job_serves_where_the_site_does_not_say_so(tmp_path):
    config, _, sites = prepared(tmp_path)
    sites = new_people(tmp_path, sites)
    for task in ("train", "align_new"):
        assert play(job_of(config, "first", task), sites, Mesh()) == {}
    failed = play(job_of(config, "first", "serve"), sites, Mesh())
    assert "does not say where predictions are served: say serve:" in str(failed["insurer"])


def test_predictions_are_served_without_who_has_left(tmp_path):
    parties = ("bank", "shop", "clinic")
    config, _, sites = prepared(tmp_path, parties=parties)
    assert play(job_of(config, "first"), sites, Mesh()) == {}
    port = a_free_port()
    sites = serving_sites(tmp_path, sites, port)
    gone = {"clinic": "zeros"}
    for task in ("align_new", "predict"):
        assert play(job_of(config, "first", task, without=gone), sites, Mesh()) == {}
    run = sites["insurer"].runs / "first"
    frame = pl.read_csv(run / "predictions" / "1" / "predictions.csv")
    job = job_of(config, "first", "serve", without=gone)
    with served(job, sites, port) as (ask, _):
        for id, probabilities in told_in(ask(*frame["id"][:3])).items():
            expected = frame.row(by_predicate=pl.col("id") == id, named=True)
            for name, probability in probabilities.items():
                assert probability == pytest.approx(expected[f"probability of {name}"], abs=1e-5)
