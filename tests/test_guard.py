"""What may be asked of a site's own process of FLARE's."""

from __future__ import annotations

import importlib
import io
import zipfile
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.private.admin_defs import Message
from nvflare.private.defs import (
    InfoCollectorTopic,
    RequestHeader,
    SysCommandTopic,
    TrainingTopic,
    new_cell_message,
)

from colonnade.deployment.folders import GUARD
from colonnade.deployment.guard import Guard

OTHER = "5c0a7d7e-1111-4b2d-9b5d-ab8dfbbd4bed"
JOB = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


@pytest.fixture
def ask():
    """Return what answers a request as a site's process does, which has a guard; None if it may."""
    cell, asked = CoreCell.__new__(CoreCell), []
    cell.my_info = SimpleNamespace(fqcn="bank")
    cell.in_req_filter_reg = importlib.import_module("nvflare.fuel.f3.cellnet.registry").Registry()
    context = FLContext()
    site = SimpleNamespace(cell=SimpleNamespace(core_cell=cell))
    context.set_prop(FLContextKey.SITE_OBJ, site, private=True)
    Guard().handle_event(EventType.SYSTEM_BOOTSTRAP, context)

    def answered(payload, origin="server", topic="x", channel=CellChannel.CLIENT_MAIN, **headers):
        request = new_cell_message({MessageHeaderKey.ORIGIN: origin}, payload)
        for name, value in headers.items():
            payload.set_header(name, value)
        for each in cell.in_req_filter_reg.find(channel, topic):
            asked.append(each)
            answer = each.cb(request, *each.args, **each.kwargs)
            if answer:
                return answer.payload or answer
        return None

    yield answered
    assert asked


def test_jobs_are_run(ask):
    assert ask(Message(TrainingTopic.DEPLOY, archive("config/job.yaml")), job_id=JOB) is None
    topics = ("START_JOB", "ABORT", "CHECK_RESOURCE", "CHECK_STATUS", "SHUTDOWN")
    for topic in (getattr(TrainingTopic, name) for name in topics):
        assert ask(Message(topic, "")) is None
        assert ask(Message(topic, ""), **{RequestHeader.JOB_ID: JOB}) is None


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
    app = archive("config/job.yaml")
    assert ask(Message(TrainingTopic.DEPLOY, app), **{RequestHeader.JOB_ID: job}) is not None
    assert ask(Message(TrainingTopic.START_JOB, ""), job_id=job) is not None


def archive(*names):
    """Return an archive of empty files."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as files:
        for name in names:
            files.writestr(name, "")
    return written.getvalue()


@pytest.mark.parametrize(
    "app",
    [
        archive("config/job.yaml", "custom/sitecustomize.py"),
        archive("config/custom/x.py"),
        archive("Custom/x.py"),
        archive("config/../../x.py"),
        archive("/tmp/x.py"),
        archive("config\\..\\custom\\x.py"),
        b"no archive",
        "",
        None,
        7,
    ],
)
def test_a_job_brings_no_code(ask, app):
    """FLARE took it off again when it refused it, and left it where it failed as it looked."""
    assert ask(Message(TrainingTopic.DEPLOY, app), job_id=JOB) is not None


@pytest.mark.parametrize("meta", [7, {}, {"job_id": OTHER}, {"job_id": None}])
@pytest.mark.parametrize("topic", [TrainingTopic.DEPLOY, TrainingTopic.START_JOB])
def test_a_request_is_about_one_job(ask, topic, meta):
    """The files of one were started by the name of another."""
    app = archive("config/job.yaml")
    assert ask(Message(topic, app), job_id=JOB, job_meta={"job_id": JOB, "name": "x"}) is None
    assert ask(Message(topic, app), job_id=JOB, job_meta=meta) is not None


@pytest.mark.parametrize("origin", ["clinic", f"server.{JOB}", None])
def test_no_member_asks_how_a_sites_connections_are(ask, origin):
    for topic in ("process_info", "stop_cell", "change_root"):
        assert ask({}, origin, topic, "_net_manager") is not None
        assert ask({}, "server", topic, "_net_manager") is None


@pytest.mark.parametrize("origin", ["server", f"server.{JOB}", "bank", f"bank.{JOB}"])
def test_nobody_asks_a_site_anything_but_the_server_and_its_own_processes(ask, origin):
    assert ask({}, origin, "any", "aux_communication") is None
    for other in ("clinic", f"clinic.{JOB}", "bankrupt", "", None, 7):
        assert ask({}, other, "any", "aux_communication") is not None


@pytest.mark.parametrize("payload", [None, b"cat", "cat", {"topic": "train.start"}])
def test_what_is_no_request_is_refused(ask, payload):
    assert ask(payload) is not None


def test_settings_name_it():
    module, _, name = GUARD.rpartition(".")
    assert getattr(importlib.import_module(module), name) is Guard
