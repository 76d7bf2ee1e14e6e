"""No job of FLARE's keeps the server from running others, and what was ended has ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from nvflare.apis.impl.job_def_manager import SimpleJobDefManager
from nvflare.apis.job_def import RunStatus
from nvflare.apis.storage import StorageException
from nvflare.private.fed.server.job_runner import JobRunner
from nvflare.private.fed.server.server_engine import ServerEngine

from colonnade.deployment.own_jobs import why_refused
from colonnade.deployment.runner_guard import guard_runner
from toy_guarded import put_back


class Store:
    """Of states, by job; it may be full."""

    def __init__(self, **states):
        self.states, self.is_full = states, False

    def get_meta(self, uri):
        return {}

    def list_objects(self, root, without_tag):
        return self._held(None)

    def update_meta(self, uri, meta, replace):
        self._held(uri)
        self.states[uri] = meta["status"]

    def _held(self, uri):
        if self.is_full or uri not in self.states:
            raise StorageException("no room")


class Manager(SimpleJobDefManager):
    def __init__(self, store):
        super().__init__()
        self.store = store

    def get_job(self, jid, fl_ctx):
        state = self.store.states.get(jid)
        return state and SimpleNamespace(meta={"status": state})

    def _get_job_store(self, fl_ctx):
        return self.store

    def job_uri(self, jid):
        return jid


@pytest.fixture
def manager(monkeypatch):
    put_back(monkeypatch)
    guard_runner()
    return Manager(Store(new="SUBMITTED", deployed="DISPATCHED", ended="FINISHED:ABORTED"))


def test_what_was_ended_is_not_run(manager):
    manager.set_status("new", RunStatus.DISPATCHED, None)
    manager.set_status("deployed", RunStatus.RUNNING, None)
    for status in (RunStatus.DISPATCHED, RunStatus.FAILED_TO_RUN):
        manager.set_status("ended", status, None)
    with pytest.raises(RuntimeError, match="ended before it ran"):
        manager.set_status("ended", RunStatus.RUNNING, None)
    told = {"new": "DISPATCHED", "deployed": "RUNNING", "ended": "FINISHED:ABORTED"}
    assert manager.store.states == told


def test_what_cannot_be_noted_of_a_job_ends_no_thread(manager):
    manager.store.is_full = True
    with pytest.raises(StorageException):  # FLARE then says that it failed to run
        manager.set_status("new", RunStatus.DISPATCHED, None)
    manager.set_status("new", RunStatus.FAILED_TO_RUN, None)
    manager.update_meta("new", {"status": "x"}, None)
    assert manager.get_jobs_to_schedule(None) == []
    assert JobRunner._check_job_status(manager, "deleted", RunStatus.SUBMITTED, None)
    assert JobRunner._check_job_status(manager, "ended", RunStatus.SUBMITTED, None)
    assert not JobRunner._check_job_status(manager, "new", RunStatus.SUBMITTED, None)


def test_an_answer_of_another_kind_is_no(manager, monkeypatch):
    engine = object.__new__(ServerEngine)
    answer = SimpleNamespace(
        client_name="shop",
        reply=SimpleNamespace(get_header=lambda name, otherwise: otherwise, body="garbage"),
    )
    monkeypatch.setattr(engine, "_send_admin_requests", lambda *given: [answer], raising=False)
    monkeypatch.setattr(
        engine, "get_client_from_name", lambda name: SimpleNamespace(token=name), raising=False
    )
    monkeypatch.setattr(
        engine, "_make_message_for_check_resource", lambda *given: None, raising=False
    )
    job = SimpleNamespace(job_id="a job")
    told = engine.check_client_resources(job, {"shop": {}, "bank": {}}, None)
    assert told == {"shop": (False, ""), "bank": (False, "")}


@pytest.mark.parametrize(
    "odd",
    [
        {"schedule_count": "x"},
        {"schedule_history": "x"},
        {"last_schedule_time": "x"},
        {"job_deploy_detail": "x"},
        {"resource_spec": {"bank": {"num_of_gpus": 1}}},
        {"min_clients": "4"},
        {"min_clients": True},
        {"mandatory_clients": "bank"},
        {"mandatory_clients": [3]},
    ],
    ids=str,
)
def test_what_would_keep_others_from_being_scheduled_is_refused(odd):
    meta = {"name": "a", "deploy_map": {"app": ["@ALL"]}, "resource_spec": {}, "min_clients": 4}
    assert why_refused(meta | {"mandatory_clients": ["bank"]}) == ""
    assert "FLARE would schedule no job beside it" in why_refused(meta | odd)
