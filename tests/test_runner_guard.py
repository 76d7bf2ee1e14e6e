"""No job of FLARE's keeps the server from running others, and what was ended has ended."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from nvflare.apis.fl_constant import RunProcessKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.job_def_manager import SimpleJobDefManager
from nvflare.apis.job_def import RunStatus
from nvflare.apis.storage import StorageException
from nvflare.app_common.job_schedulers.job_scheduler import DefaultJobScheduler
from nvflare.private.fed.server.job_runner import JobRunner
from nvflare.private.fed.server.server_engine import ServerEngine
from nvflare.private.scheduler_constants import ShareableHeader

from colonnade.deployment import runner_guard
from colonnade.deployment.own_jobs import why_refused
from colonnade.deployment.runner_guard import guard_runner
from toy_guarded import put_back

IS_RESOURCE_ENOUGH, TOKEN = (
    ShareableHeader.IS_RESOURCE_ENOUGH,
    ShareableHeader.RESOURCE_RESERVE_TOKEN,
)


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


class Answer:
    """What a member says of its resources; of FLARE's kind, or not."""

    def __init__(self, **said):
        self.said = said

    def get_header(self, name, otherwise):
        return self.said.get(name, otherwise)


@pytest.fixture
def engine(monkeypatch):
    engine = object.__new__(ServerEngine)
    for name, does in (
        ("get_client_from_name", lambda name: SimpleNamespace(token=name)),
        ("_make_message_for_check_resource", lambda *given: None),
        ("logger", logging.getLogger(__name__)),
    ):
        monkeypatch.setattr(engine, name, does, raising=False)
    return engine


def answer(is_enough, token):
    return Answer(**{IS_RESOURCE_ENOUGH: is_enough, TOKEN: token})


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("garbage", (False, "")),
        (answer(is_enough=False, token=7), (False, "")),
        (answer(is_enough=[7], token=""), (False, "")),
        (answer(is_enough=True, token=None), (False, "")),
        (answer(is_enough=True, token="7"), (True, "7")),
    ],
    ids=["garbage", "a token", "enough", "no token", "one of FLARE's"],
)
def test_an_answer_of_another_kind_is_no(manager, engine, monkeypatch, said, taken):
    """It kept all jobs from being scheduled."""
    reply = Answer()
    reply.body = said
    answers = [SimpleNamespace(client_name="shop", reply=reply)]
    monkeypatch.setattr(engine, "_send_admin_requests", lambda *given: answers, raising=False)
    told = engine.check_client_resources(SimpleNamespace(job_id="a job"), {"shop": {}}, None)
    assert told == {"shop": taken}


def test_a_job_that_cannot_be_looked_at_waits_and_others_do_not(manager):
    """One that raised was tried each second, before all others, for ever."""
    scheduler = DefaultJobScheduler()
    scheduler.fire_event = lambda *given: None
    engine = SimpleNamespace(new_context=lambda: nullcontext(context), get_clients=list)
    context = FLContext()
    context.get_engine = lambda: engine
    odd, good = (SimpleNamespace(job_id=name, meta={}) for name in ("odd", "good"))
    odd.deploy_map, good.deploy_map = {"app": 7}, {}  # to the second FLARE says no, as it should
    noted = []
    kept = SimpleNamespace(
        refresh_meta=lambda job, *_: noted.append(job.job_id), set_status=lambda *_: None
    )
    assert scheduler.schedule_job(kept, [odd, good], context) == (None, None)
    assert noted == ["odd", "good"]
    assert odd.meta["schedule_count"] == 1


def test_what_a_member_answers_to_an_end_ends_no_thread(manager):
    """An answer with a list as its code ended FLARE's thread that runs jobs, and that of ends."""
    said = []

    def fails(*_):
        raise TypeError("unhashable type: 'list'")

    runner = object.__new__(JobRunner)
    runner.log_debug = runner.log_error = lambda *_: None
    process = {"a job": {RunProcessKey.PARTICIPANTS: {}}}
    engine = SimpleNamespace(
        run_processes=process,
        client_manager=SimpleNamespace(clients={}),
        server=SimpleNamespace(admin_server=SimpleNamespace(send_requests=fails)),
        abort_app_on_server=said.append,
        validate_targets=fails,
    )
    context = SimpleNamespace(get_engine=lambda: engine)
    runner.abort_client_run("a job", ["shop"], context)
    runner._stop_run("a job", context)
    assert said == ["a job"]


def test_the_thread_that_notes_ends_goes_on(manager, monkeypatch):
    looked = []
    monkeypatch.setattr(runner_guard, "_BETWEEN", 0.0)
    runner = SimpleNamespace(ask_to_stop=False)

    def look(runner, engine):
        looked.append(engine)
        if len(looked) < 3:
            raise TypeError("odd")
        runner.ask_to_stop = True

    runner_guard._again(look)(runner, "engine")
    assert looked == ["engine"] * 3
    assert hasattr(JobRunner._job_complete_process, "__wrapped__")


@pytest.mark.parametrize(
    "odd",
    [
        {"schedule_count": "x"},
        *(
            {name: nothing}
            for name in ("schedule_count", "last_schedule_time", "schedule_history")
            for nothing in (None, "", [], {}, 0)
        ),
        {"min_clients": None},
        {"mandatory_clients": None},
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
