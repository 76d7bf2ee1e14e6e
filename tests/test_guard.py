"""What may be asked of FLARE's processes where a kit is prepared, and which jobs they run."""

from __future__ import annotations

import importlib
import io
import json
import warnings
import zipfile
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.fuel.utils.config import ConfigFormat
from nvflare.fuel.utils.config_factory import ConfigFactory
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE
from nvflare.private.admin_defs import Message
from nvflare.private.defs import (
    InfoCollectorTopic,
    RequestHeader,
    SysCommandTopic,
    TrainingTopic,
    new_cell_message,
)

from colonnade.deployment.folders import (
    CLASSES,
    CLIENT,
    GUARD,
    SERVER,
    TRACKERS,
    VALIDATOR,
    client_config,
    server_config,
    write_job,
)
from colonnade.deployment.folders import JOB as TOLD
from colonnade.deployment.guard import Guard
from colonnade.deployment.own_jobs import OwnJobs
from toy_sites import prepared

OTHER = "5c0a7d7e-1111-4b2d-9b5d-ab8dfbbd4bed"
JOB = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


@pytest.fixture(autouse=True)
def loaders(monkeypatch):
    monkeypatch.setattr(ConfigFactory, "_fmt2Loader", dict(ConfigFactory._fmt2Loader))
    for each in ("cells", "runner"):
        monkeypatch.setattr(f"colonnade.deployment.guard.guard_{each}", lambda: None)


class Asked:
    """A site's process with a cell, which answers requests as FLARE's does."""

    def __init__(self, name):
        self.cell = CoreCell.__new__(CoreCell)
        self.cell.my_info = SimpleNamespace(fqcn=name)
        registry = importlib.import_module("nvflare.fuel.f3.cellnet.registry")
        self.cell.in_req_filter_reg = registry.Registry()
        context = FLContext()
        site = SimpleNamespace(cell=SimpleNamespace(core_cell=self.cell))
        context.set_prop(FLContextKey.SITE_OBJ, site, private=True)
        Guard().handle_event(EventType.SYSTEM_BOOTSTRAP, context)

    def __call__(self, asked, origin="server", **heads):
        """Return the answer; None to what it may do."""
        request = new_cell_message({MessageHeaderKey.ORIGIN: origin}, asked)
        for name, value in heads.items():
            asked.set_header(name, value)
        (each,) = self.cell.in_req_filter_reg.find(CellChannel.CLIENT_MAIN, "admin")
        answer = each.cb(request, *each.args, **each.kwargs)
        return answer and answer.payload


@pytest.fixture
def ask():
    """Return what answers a request as a site's process does, which has a guard."""
    return Asked("bank")


CONFIGURED, PRESIDES = client_config(CLASSES[1]), server_config(CLASSES[0])


def archive(*names, client=CONFIGURED, server=PRESIDES, more=()):
    """Return an archive of a job's files: the usual, and empty ones of these names."""
    written = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as files:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, said in ((CLIENT, client), (SERVER, server)):
            if said is not None:
                text = said if isinstance(said, str) else json.dumps(said)
                files.writestr(f"config/{name}", text)
        for name in names:
            files.writestr(name, "")
        for name, text in more:
            files.writestr(name, text)
    return written.getvalue()


USUAL = (f"config/{TOLD}",)


def test_jobs_are_run(ask):
    signed = [at + of for at in ("", "config/") for of in SIGNATURES]
    for names in (USUAL, ("config/", *USUAL), (*USUAL, *signed)):
        assert ask(Message(TrainingTopic.DEPLOY, archive(*names)), job_id=JOB) is None
    topics = ("START_JOB", "ABORT", "CHECK_RESOURCE", "CHECK_STATUS", "SHUTDOWN")
    for topic in (getattr(TrainingTopic, name) for name in topics):
        assert ask(Message(topic, "")) is None
        assert ask(Message(topic, ""), **{RequestHeader.JOB_ID: JOB}) is None


SIGNATURES = (NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE)


@pytest.mark.parametrize(
    "topic",
    [
        SysCommandTopic.SHELL,
        SysCommandTopic.REPORT_ENV,
        SysCommandTopic.CONFIGURE_SITE_LOG,
        TrainingTopic.DELETE_RUN,
        TrainingTopic.CONFIGURE_JOB_LOG,
        InfoCollectorTopic.SHOW_ERRORS,
        "comp_caller.call",
        "anything",
        7,
    ],
)
def test_nothing_else_is_done_whoever_asks(ask, topic):
    for origin in ("server", "clinic", f"server.{JOB}", None):
        refused = ask(Message(topic, "cat startup/client.key"), origin=origin)
        assert "a site of Colonnade's does not do" in refused.body


@pytest.mark.parametrize(
    "origin", ["clinic", f"clinic.{JOB}", f"server.{JOB}", "Server", "", None, 7]
)
def test_the_server_alone_is_heard(ask, origin):
    assert ask(Message(TrainingTopic.ABORT, ""), origin=origin) is not None


@pytest.mark.parametrize(
    "job", ["local", "startup", "..", f"{JOB}/..", f"{JOB}\n", "", 7, JOB.upper()]
)
def test_a_job_has_such_a_name_as_flare_gives(ask, job):
    """By it a folder of the kit is removed before a job is put there."""
    app = archive(*USUAL)
    assert ask(Message(TrainingTopic.DEPLOY, app), **{RequestHeader.JOB_ID: job}) is not None
    assert ask(Message(TrainingTopic.START_JOB, ""), job_id=job) is not None


def with_receiver(**changes):
    said = server_config(CLASSES[0], TRACKERS["mlflow"])
    return said | {"components": [said["components"][0] | changes]}


def with_executor(**changes):
    return {**CONFIGURED, "executors": [CONFIGURED["executors"][0] | changes]}


@pytest.mark.parametrize(
    "app",
    [
        archive(*USUAL, "custom/sitecustomize.py"),
        archive(*USUAL, "config/custom/x.py"),
        archive(*USUAL, "config/../../x.py"),
        archive(*USUAL, "/tmp/x.py"),
        archive(*USUAL, "config\\..\\custom\\x.py"),
        archive(*USUAL, "other/"),
        archive(*USUAL, "config/config_fed_client.conf"),
        archive(*USUAL, "config/config_fed_client.conf", client=None),
        archive(*USUAL, "config/config_fed_server.yml"),
        archive(*USUAL, "config/sub/config_fed_client.json", client=None),
        archive(*USUAL, "resources.json"),
        archive(*USUAL, client=None),
        archive(*USUAL, client=""),
        archive(*USUAL, client="[" * 10**5),
        archive(*USUAL, client=CONFIGURED | {"components": [{"id": "r"}]}),
        archive(*USUAL, client=CONFIGURED | {"task_data_filters": []}),
        archive(*USUAL, client=with_executor(executor={"path": CLASSES[1], "args": {"a": "/"}})),
        archive(*USUAL, client=with_executor(executor={"path": CLASSES[1]})),
        archive(*USUAL, client=with_executor(executor={"path": "{SECRET}", "args": {}})),
        archive(*USUAL, client=with_executor(executor={"path": 7, "args": {}})),
        archive(*USUAL, client={"executors": []}),
        archive(*USUAL, server=None),
        archive(*USUAL, server=PRESIDES | {"components": [{"id": "tracker"}]}),
        archive(*USUAL, server=server_config(CLASSES[0], "../x")),
        archive(*USUAL, server=with_receiver(args={"tracking_uri": "/srv"})),
        archive(*USUAL, server=PRESIDES | {"task_result_filters": []}),
        archive(*USUAL, "config/comm_config.json"),
        archive(*USUAL, "config/drv/driver.py"),
        archive(more=[(USUAL[0], "0" * 2**24)]),
        archive(*USUAL, more=[(USUAL[0], "twice")]),
        archive(*USUAL)[:-30],
        b"no archive",
        "",
        None,
        7,
    ],
)
def test_a_job_is_what_ours_are(ask, app):
    """FLARE read what is not JSON as it looked, with files and the environment, and told it."""
    refused = ask(Message(TrainingTopic.DEPLOY, app), job_id=JOB)
    assert "of jobs as `colonnade deploy --to` writes them" in refused.body


def test_a_job_names_one_class_whatever_it_is(ask):
    """Whether it may, the lists of the site and of the server say."""
    server = server_config("sites.seats.Preside", TRACKERS["tensorboard"])
    app = archive(*USUAL, client=client_config("sites.liars.Attend"), server=server)
    assert ask(Message(TrainingTopic.DEPLOY, app), job_id=JOB) is None


@pytest.mark.parametrize("track", [None, *TRACKERS])
def test_what_is_written_is_run_and_nothing_besides(tmp_path, track):
    _, job, _ = prepared(tmp_path)
    write_job(job, tmp_path / "job", track)
    app, runs = tmp_path / "job/app", OwnJobs().validate
    assert runs(str(app)) == ("", {})
    for place in ("comm_config.json", "config/comm_config.conf", "config/drv/x.py", "custom/x.py"):
        (app / place).parent.mkdir(exist_ok=True)
        (app / place).write_text("{}")
        assert "as `colonnade deploy --to` writes it" in runs(str(app))[0]
        (app / place).unlink()
        if place.count("/") == 2 or place.startswith("custom"):
            (app / place).parent.rmdir()
    assert runs(str(app)) == ("", {})
    (app / "config" / SERVER).write_text(json.dumps(with_receiver(args={"x": 1})))
    assert runs(str(app))[0]
    assert runs(str(tmp_path / "nowhere"))[0]


def submitted(**meta):
    """Return why the server does not take a job."""
    context = FLContext()
    context.set_prop(FLContextKey.JOB_META, meta, private=True)
    Guard().handle_event(EventType.SUBMIT_JOB, context)
    return context.get_prop(FLContextKey.JOB_BLOCK_REASON)


def test_the_server_takes_jobs_with_one_app_and_no_number_that_names_a_folder():
    """By its number a folder of the server's kit was removed; an app for it alone had code."""
    apps = {"app": ["server", "bank"]}
    assert submitted(deploy_map=apps, name="train") is None
    for number in ("startup", "jobs", "local", "..", "", 7, JOB):
        assert "has a number that FLARE gives it" in submitted(deploy_map=apps, job_id=number)
    for others in ({}, None, [], apps | {"app2": ["server"]}):
        assert "it has not one app for all" in submitted(deploy_map=others)
    for name in (["a"], 7, None, "x" * 10**5):
        assert "its name is none" in submitted(deploy_map=apps, name=name)


def test_no_configuration_is_read_but_json(tmp_path):
    Guard()
    file = tmp_path / "config_fed_client.conf"
    file.write_text("a = ${PATH}")
    for kind in (ConfigFormat.PYHOCON, ConfigFormat.OMEGACONF):
        loader = ConfigFactory.get_config_loader(kind)
        for read in (loader.load_config, loader.load_config_from_str):
            with pytest.raises(ValueError, match="a job of Colonnade's is in JSON"):
                read(str(file))
    with pytest.raises(ValueError, match="in JSON"):
        ConfigFactory.load_config("config_fed_client.json", [str(tmp_path)])


@pytest.mark.parametrize("meta", [7, {}, {"job_id": OTHER}, {"job_id": None}])
@pytest.mark.parametrize("topic", [TrainingTopic.DEPLOY, TrainingTopic.START_JOB])
def test_a_request_is_about_one_job(ask, topic, meta):
    """The files of one were started by the name of another."""
    app = archive(*USUAL)
    assert ask(Message(topic, app), job_id=JOB, job_meta={"job_id": JOB, "name": "x"}) is None
    assert ask(Message(topic, app), job_id=JOB, job_meta=meta) is not None


def test_a_process_of_a_job_tells_its_site_how_it_is(ask):
    """It was refused, so a job that was aborted ended without a word."""
    told = Message(TrainingTopic.NOTIFY_JOB_STATUS, "")
    assert ask(told, f"bank.{JOB}", job_id=JOB) is None
    for origin in ("clinic", f"clinic.{JOB}", f"bank.{OTHER}", f"bank.{JOB}.x", f"server.{JOB}"):
        assert ask(told, origin, job_id=JOB) is not None
    assert ask(Message(TrainingTopic.ABORT, ""), f"bank.{JOB}", job_id=JOB) is not None


@pytest.mark.parametrize("payload", [None, b"cat", "cat", {"topic": "train.start"}])
def test_what_is_no_request_is_refused(ask, payload):
    assert ask(payload) is not None


def test_settings_name_it():
    for said, kind in ((GUARD, Guard), (VALIDATOR, OwnJobs)):
        module, _, name = said.rpartition(".")
        assert getattr(importlib.import_module(module), name) is kind
