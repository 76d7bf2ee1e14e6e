"""Predictions over HTTP: to whom, of whom, and what is answered where something is wrong."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace

import httpx2 as httpx
import numpy as np
import polars as pl
import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.cli.serve import _until_asked_to_end
from colonnade.config import load_trained, parse_config
from colonnade.config.parse import parse_section
from colonnade.deployment import proving
from colonnade.errors import (
    BudgetExhausted,
    ConfigurationError,
    DataError,
    Diverged,
    ServiceBusy,
    ServiceEnded,
    UnknownPerson,
)
from colonnade.prediction import ROWS_TOGETHER
from colonnade.serving import (
    People,
    RunAnswers,
    ServeConfig,
    Waiting,
    connections,
    serving,
)
from colonnade.serving.service import service
from colonnade.tables import IdForm
from toy_certificate import certified

TOKEN = "a-token-that-is-long-enough"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}


class Told:
    """Says of row r that its logits are (0, r), or the number r; or fails."""

    run, state, threshold = "credit", "serving", None

    def __init__(self, classes=("left", "bought"), failure=None, rows=3):
        self.classes, self.failure = classes, failure
        self.people = People(pl.Series([f"person-{row}" for row in range(rows)]))
        self.asked = []

    def ask(self, rows):
        self.asked.append(rows.tolist())
        answer = Future()
        if self.failure is not None:
            answer.set_exception(self.failure)
        else:
            answer.set_result(self.told(torch.from_numpy(rows).float()))
        return answer

    def told(self, number):
        if self.classes is None:
            return number[:, None]
        return torch.stack([torch.zeros_like(number), number], dim=1)


def client(answers=None, **headers):
    return TestClient(service(answers or Told(), TOKEN), headers=headers or RIGHT)


def config(**said):
    return parse_section(ServeConfig, said, "serve")


# What is answered


def test_who_is_asked_for_is_answered_in_that_order_and_predicted_once():
    answers = Told()
    reply = client(answers).post("/predict", json={"ids": ["person-2", "person-0", "person-2"]})
    assert reply.status_code == 200
    assert reply.json()["run"] == "credit"
    first, second, third = reply.json()["predictions"]
    assert answers.asked == [[0, 2]]
    assert first == third
    assert (first["id"], first["predicted"]) == ("person-2", "bought")
    assert first["probabilities"]["bought"] == pytest.approx(1 / (1 + np.exp(-2)), abs=1e-6)
    assert (second["id"], second["predicted"]) == ("person-0", "left")
    assert second["probabilities"] == {"left": 0.5, "bought": 0.5}


def test_a_threshold_decides_between_two_classes():
    answers = Told()
    answers.threshold = 0.9
    reply = client(answers).post("/predict", json={"ids": ["person-2"]}).json()["predictions"][0]
    assert reply["predicted"] == "left"
    assert reply["probabilities"]["bought"] > 0.88


def test_numbers_are_answered_as_numbers():
    reply = client(Told(classes=None)).post("/predict", json={"ids": ["person-1"]})
    assert reply.json()["predictions"] == [
        {"id": "person-1", "predicted": 1.0, "probabilities": None}
    ]


def test_classes_keep_their_types():
    reply = client(Told(classes=(7, 9))).post("/predict", json={"ids": ["person-2"]})
    assert reply.json()["predictions"][0]["predicted"] == 9


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": b"Bearer \xff\xfe"},
    ],
)
def test_who_does_not_show_the_token_is_told_nothing(shown):
    answers = Told()
    asking = TestClient(service(answers, TOKEN), headers=shown)
    replies = [
        asking.post("/predict", json={"ids": ["person-1"]}),
        asking.post("/predict", json={"ids": ["nobody"]}),
        asking.post("/predict", content=b"nonsense"),
        asking.post("/predict", content=b"{", headers={"content-type": "application/json"}),
        asking.get("/metrics"),
    ]
    assert [reply.status_code for reply in replies] == [401] * 5
    assert {reply.headers["www-authenticate"] for reply in replies} == {"Bearer"}
    assert all("person" not in reply.text for reply in replies)
    assert answers.asked == []


def test_a_body_that_is_not_said_to_be_json_is_told_so():
    asking = TestClient(service(Told(), TOKEN), headers={"Authorization": f"Bearer {TOKEN}"})
    body = b'{"ids": ["person-1"]}'
    reply = asking.post("/predict", content=body, headers={"content-type": "text/plain"})
    assert reply.status_code == 422
    assert "say Content-Type: application/json" in reply.text


@pytest.mark.parametrize("body", [b"{", b'{"ids": ["person-1"]}x'])
def test_a_body_that_is_no_json_is_told_so(body):
    asking = TestClient(service(Told(), TOKEN), headers={"Authorization": f"Bearer {TOKEN}"})
    reply = asking.post("/predict", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 422
    assert reply.json()["error"].startswith("the body is no JSON: ")


def test_nothing_is_read_of_who_does_not_show_the_token():
    told = []

    async def read():
        pytest.fail("the body was read")

    async def tell(message):
        told.append(message)

    asyncio.run(service(Told(), TOKEN)(posted(), read, tell))
    assert told[0]["status"] == 401


def posted():
    """Return a request as a server hands it over before its body has come."""
    about = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST"}
    where = {"scheme": "http", "path": "/predict", "raw_path": b"/predict", "root_path": ""}
    headers = [(b"host", b"here"), (b"content-type", b"application/json")]
    return about | where | {"query_string": b"", "headers": headers}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"ids": ["nobody", "person-1", "no one"]}, 404, "'nobody', and 1 more"),
        ({"ids": []}, 422, "ids"),
        ({"ids": [None]}, 422, "ids.0: an id is a text of up to"),
        ({"ids": [True]}, 422, "ids.0: an id is a text of up to"),
        ({"ids": [1.5]}, 422, "ids.0: an id is a text of up to"),
        ({"ids": [1, 2**64]}, 422, "ids.1: an id is a text of up to 1,000 characters or a who"),
        ({"ids": ["x" * 1001]}, 422, "ids.0: an id is a text"),
        ({"ids": ["person-1"] * (ROWS_TOGETHER + 1)}, 422, "1024"),
        ({"ids": "person-1"}, 422, "ids"),
        ({"ids": ["person-1"], "more": 1}, 422, "more"),
        ({}, 422, "ids"),
        ([], 422, ""),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_in_words(body, status, said):
    answers = Told()
    reply = client(answers).post("/predict", json=body)
    assert reply.status_code == status
    assert [*reply.json()] == ["error"]
    assert said in reply.json()["error"]
    assert answers.asked == []


@settings(max_examples=60)
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=9,
    ).map(lambda value: json.dumps({"ids": value}).encode())
)
def test_no_body_is_more_than_refused(body):
    reply = client().post("/predict", content=body)
    assert reply.status_code in (404, 422)
    assert "error" in reply.json()


def test_a_body_that_is_too_long_is_not_kept():
    reply = client().post("/predict", content=b" " * (2**21 + 1))
    assert reply.status_code == 413
    pieces = (b" " * 2**16 for _ in range(40))  # without saying how many
    assert client().post("/predict", content=pieces).status_code == 413
    assert client().post("/predict", content=b" " * 2**21).status_code == 422


def test_nesting_without_end_is_refused():
    reply = client().post("/predict", content=b'{"ids":' + b"[" * 10**6)
    assert reply.status_code == 422


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (ServiceEnded("the job was aborted"), 503),
        (ServiceBusy("64 requests wait already"), 429),
        (BudgetExhausted("no epsilon is left"), 403),
        (ConfigurationError("the policy refuses it"), 403),
        (DataError("this is odd"), 500),
        (Diverged("what the top model says is no finite number"), 500),
    ],
)
def test_why_nobody_could_be_predicted_is_told(failure, status):
    reply = client(Told(failure=failure)).post("/predict", json={"ids": ["person-1"]})
    assert reply.status_code == status
    assert reply.json() == {"error": str(failure)}
    assert ("retry-after" in reply.headers) == (status == 429)


def test_what_is_no_number_is_refused_to_who_asked_and_the_next_is_answered():
    waiting = Waiting()
    first, second = (waiting.ask(np.array([row])) for row in (0, 1))
    waiting().refuse(Diverged("no finite number"))
    waiting().answer(torch.zeros(1))
    with pytest.raises(Diverged, match="no finite number"):
        first.result()
    assert second.result().tolist() == [0.0]


@pytest.mark.parametrize(("state", "status"), [("starting", 503), ("serving", 200), ("ended", 503)])
def test_anybody_may_ask_how_it_is(state, status):
    answers = Told()
    answers.state = state
    reply = TestClient(service(answers, TOKEN)).get("/health")
    assert reply.status_code == status
    assert reply.json()["state"] == state


def test_prometheus_reads_what_was_answered_and_not_who():
    asking = client()
    asking.post("/predict", json={"ids": ["person-2", "person-0"]})
    asking.post("/predict", json={"ids": ["person-7"]})
    asking.get("/somewhere/person-3")
    text = asking.get("/metrics").text
    assert 'colonnade_requests_total{path="/predict",status="200"} 1.0' in text
    assert 'colonnade_requests_total{path="/predict",status="404"} 1.0' in text
    assert 'colonnade_requests_total{path="other",status="404"} 1.0' in text
    assert "colonnade_predicted_rows_total 2.0" in text
    assert 'colonnade_request_seconds_count{path="/predict"} 2.0' in text
    assert "person" not in text


def test_other_paths_and_methods_are_told_apart():
    asking = client()
    assert asking.get("/predict").status_code == 405
    assert asking.get("/docs").status_code == 404  # its scripts would come from elsewhere
    assert "/predict" in asking.get("/openapi.json").json()["paths"]


# People


def test_people_are_found_as_in_the_tables():
    assert People(pl.Series([7, 12])).rows(["12", 7]).tolist() == [1, 0]
    with pytest.raises(UnknownPerson, match="'07'"):
        People(pl.Series([7, 12])).rows(["07"])
    assert len(People(pl.Series(["a"]), IdForm())) == 1
    assert People(pl.Series(["0007"]), IdForm(pad=4)).rows([" 7 ", 7]).tolist() == [0, 0]


# Waiting


def answering(waiting, times):
    def play():
        for _ in range(times):
            asked = None
            while asked is None:
                asked = waiting()
            asked.answer(torch.from_numpy(asked.rows).float())

    role = threading.Thread(target=play)
    role.start()
    return role


def test_everybody_who_waits_is_given_what_they_asked_for():
    waiting = Waiting()
    assert waiting.state == "starting"
    role = answering(waiting, 40)
    answers = [waiting.ask(np.array([row])) for row in range(40)]
    assert [answer.result().item() for answer in answers] == [*range(40)]
    role.join()
    assert waiting.state == "serving"


def test_who_waits_when_it_ends_is_told_why():
    waiting = Waiting()
    asking = [waiting.ask(np.array([row])) for row in range(64)]
    with pytest.raises(ServiceBusy, match="64 requests"):
        waiting.ask(np.array([0]))
    late = waiting()
    waiting.end("the job was aborted")
    for each in asking:
        with pytest.raises(ServiceEnded, match="the job was aborted"):
            each.result()
    late.answer(torch.zeros(1))  # nobody waits for it any more
    with pytest.raises(ServiceEnded):
        waiting.ask(np.array([0]))
    assert waiting.state == "ended"


def test_others_are_answered_while_as_many_wait_as_may():
    waiting, answers = Waiting(), Told()
    answers.ask = waiting.ask
    app = service(answers, TOKEN)

    async def play():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://here", headers=RIGHT
        ) as asking:
            asked = {"ids": ["person-1"]}
            waits = [asyncio.create_task(asking.post("/predict", json=asked)) for _ in range(64)]
            while waiting._requests.qsize() < 64:
                await asyncio.sleep(0)
            others = [
                await asking.post("/predict", json=asked),
                await asking.post("/predict", json=asked, headers={"Authorization": "Bearer x"}),
                await asking.post("/predict", json={"ids": ["nobody"]}),
                await asking.post("/predict", json={}),
                await asking.get("/metrics"),
                await asking.get("/health"),
                await asking.get("/elsewhere"),
            ]
            assert not any(task.done() for task in waits)
            await asyncio.to_thread(answering(waiting, 64).join)
            return others, [await task for task in waits]

    others, waited = asyncio.run(asyncio.wait_for(play(), 60))
    assert [reply.status_code for reply in others] == [429, 401, 404, 422, 200, 200, 404]
    assert {reply.status_code for reply in waited} == {200}


# Where, and to whom


def test_a_token_is_made_for_its_owner_alone_and_stays(tmp_path):
    place = config().within(tmp_path / "run")
    token = place.read_token()
    assert len(token) >= 40
    assert place.read_token() == token
    assert stat.S_IMODE((tmp_path / "run" / "token").stat().st_mode) == 0o600
    assert token not in repr(place)


@pytest.mark.parametrize("text", ["", "short", "two words of a token", "x" * 5000, "ünicode" * 4])
def test_a_token_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "token").write_text(text)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigurationError, match="one word"):
        config().within(tmp_path).read_token()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_what_others_can_read_is_no_secret(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o640)
    with pytest.raises(ConfigurationError, match="others can read the token"):
        config().within(tmp_path).read_token()


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that have names")
@pytest.mark.parametrize(
    ("name", "what"),
    [("token", "the token"), ("key.pem", "the private key"), ("cert.pem", "the certificate")],
)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path, name, what):
    certified(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name, 0o600)
    place = config(port=0, certificate="cert.pem", key="key.pem").within(tmp_path)
    message = f"{name}: {what} cannot be read: it is no ordinary file"
    with pytest.raises(ConfigurationError, match=message), serving(Told(), place):
        pass


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"port": 65536}, "port"),
        ({"port": -1}, "port"),
        ({"host": ""}, "host"),
        ({"certificate": "a.pem"}, "belong together"),
        ({"key": "a.pem"}, "belong together"),
        ({"hosts": "a"}, "hosts"),
    ],
)
def test_a_place_that_is_none_is_refused(said, why):
    with pytest.raises(ConfigurationError, match=why):
        config(**said)


def test_what_is_not_protected_is_said():
    assert config(host="127.0.0.1").notes == config(host="localhost").notes == ()
    assert config(host="::1").notes == ()
    assert "without TLS" in config(host="0.0.0.0").notes[0]
    assert config(host="0.0.0.0", certificate="a", key="b").notes == ()


def test_a_port_that_is_taken_is_told(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        place = config(port=taken.getsockname()[1]).within(tmp_path)
        with (
            pytest.raises(ConfigurationError, match=r"cannot listen at port .* \(--port 0; YAML"),
            serving(Told(), place),
        ):
            pass
    with (
        pytest.raises(ConfigurationError, match="cannot listen at"),
        serving(Told(), config(host="no.such.host.invalid").within(tmp_path)),
    ):
        pass
    with (  # an address for documentation, which no machine has: RFC 5737
        pytest.raises(
            ConfigurationError, match=r"of 192\.0\.2\.1: .*; name an address of this mach"
        ),
        serving(Told(), config(host="192.0.2.1").within(tmp_path)),
    ):
        pass


def test_it_answers_on_a_socket_until_the_context_ends(tmp_path):
    before = threading.active_count()
    with serving(Told(), config(port=0).within(tmp_path)) as at:
        shown = {"Authorization": f"Bearer {at.token.read_text().strip()}"}
        reply = httpx.post(f"{at.url}/predict", json={"ids": ["person-1"]}, headers=shown)
        assert reply.json()["predictions"][0]["predicted"] == "bought"
        assert "server" not in reply.headers
        assert httpx.get(f"{at.url}/health").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{at.url}/health")
    assert threading.active_count() <= before


AS_JSON = "Content-Type: application/json\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "POST /predict HTTP/1.1\r\nHost: here\r\n",
        f"POST /predict HTTP/1.1\r\nHost: here\r\n{AS_JSON}Content-Length: 2000000\r\n\r\n[",
        f"POST /predict HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\n{AS_JSON}"
        'Content-Length: 2000000\r\n\r\n{"ids": [',
    ],
)
def test_who_does_not_bring_a_request_in_time_is_hung_up_on(tmp_path, monkeypatch, sent):
    monkeypatch.setattr(connections, "_SECONDS", 0.2)
    with (
        serving(Told(), with_token(tmp_path)) as at,
        closing(connected(at)) as asking,
    ):
        asking.sendall(sent.encode())
        deadline = time.monotonic() + 30
        while not hung_up(asking):  # a byte now and then gives no more time
            assert time.monotonic() < deadline


def hung_up(asking):
    """Send one byte more; return whether nobody is there any more."""
    asking.settimeout(0.02)
    try:
        asking.sendall(b"x")
        return not asking.recv(4096)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_who_takes_no_answer_is_hung_up_on(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "_SECONDS", 0.2)
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: here\r\n\r\n" * 10**6
    with (
        serving(Told(), with_token(tmp_path)) as at,
        closing(connected(at)) as asking,
        pytest.raises(ConnectionError),
    ):
        asking.sendall(asked)


def test_who_waits_for_an_answer_is_not_hurried(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "_SECONDS", 0.2)
    answers, waiting = Told(), Waiting()
    answers.ask = waiting.ask
    with serving(answers, with_token(tmp_path)) as at, ThreadPoolExecutor(1) as asking:
        reply = asking.submit(
            httpx.post, f"{at.url}/predict", json={"ids": ["person-1"]}, headers=RIGHT, timeout=60
        )
        while (asked := waiting()) is None:
            assert not reply.done()
        with closing(connected(at)) as other:
            assert not other.recv(1)  # as long as a request may take to come
        assert not reply.done()
        asked.answer(torch.zeros(1, 2))
        assert reply.result().status_code == 200


def test_so_many_connections_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "_MOST", 4)
    with serving(Told(), with_token(tmp_path)) as at, ExitStack() as kept:
        silent = [kept.enter_context(closing(connected(at))) for _ in range(3)]
        assert answers(at)
        silent.append(kept.enter_context(closing(connected(at))))
        assert not answers(at)
        silent.pop().close()
        deadline = time.monotonic() + 30
        while not answers(at):
            assert time.monotonic() < deadline


@pytest.mark.skipif(os.name != "posix", reason="limits of processes are POSIX's")
def test_connections_leave_a_process_files_to_write(monkeypatch):
    import resource

    assert connections.kept_at_most() <= connections._MOST
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 1024))
    assert connections.kept_at_most() == 64
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert connections.kept_at_most() == connections._MOST


def answers(at):
    try:
        return httpx.get(f"{at.url}/health").status_code in (200, 503)
    except httpx.TransportError:
        return False


def test_a_request_on_one_connection_too_many_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "_MOST", 4)
    with serving(Told(), with_token(tmp_path)) as at:
        assert httpx.get(f"{at.url}/health").status_code == 200
        with closing(connected(at)):
            assert httpx.get(f"{at.url}/health").status_code == 503


CHUNKED = "POST {} HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
ASKED = "GET /health HTTP/1.1\r\nHost: here\r\n\r\n"


@pytest.mark.parametrize("many", [0, 1], ids=["", "on one connection too many"])
@pytest.mark.parametrize(
    "parts",
    [
        (CHUNKED.format("/predict"), "zz\r\n"),
        (CHUNKED.format("/predict") + "zz\r\n",),
        (CHUNKED.format("/health") + "zz\r\n",),
        (CHUNKED.format("/nowhere"), "zz\r\n"),
        (ASKED + "no request\r\n\r\n",),
        (ASKED, "no request\r\n\r\n"),
        ("no request\r\n\r\n",),
    ],
)
def test_who_sends_nonsense_fills_no_log(tmp_path, monkeypatch, caplog, capfd, parts, many):
    """Where a request was refused as one too many, what came after it was a traceback each time."""
    monkeypatch.setattr(connections, "_MOST", 4)
    with serving(Told(), with_token(tmp_path)) as at:
        for _ in range(3):
            with ExitStack() as kept:
                for _ in range(many):
                    kept.enter_context(closing(connected(at)))
                asking = kept.enter_context(closing(connected(at)))
                for number, part in enumerate(parts):
                    asking.sendall(part.encode())
                    if number < len(parts) - 1:
                        asking.settimeout(0.05)
                        with suppress(TimeoutError):
                            asking.recv(4096)
                asking.settimeout(30)
                with suppress(ConnectionError):
                    while asking.recv(4096):
                        pass
            deadline = time.monotonic() + 30
            while not answers(at):
                assert time.monotonic() < deadline
    assert caplog.records == []
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("secure", [False, True])
def test_who_is_still_there_when_it_ends_is_hung_up_on(tmp_path, caplog, capfd, secure, asks):
    """He was waited for, and his request a traceback then."""
    place = with_token(tmp_path)
    trusting = None
    if secure:
        certified(tmp_path)
        said = {"certificate": "cert.pem", "key": "key.pem"}
        place = config(port=0, **said).within(tmp_path)
        trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    with serving(Told(), place) as at:
        asking = connected(at)
        if trusting:
            asking = trusting.wrap_socket(asking, server_hostname="127.0.0.1")
        head = CHUNKED.format("/predict").replace("here", f"here\r\nAuthorization: Bearer {TOKEN}")
        asking.sendall((head + "1\r\n{\r\n" if asks else ASKED).encode())
        asking.settimeout(0.3)
        with suppress(TimeoutError):
            while asking.recv(4096):  # an answer, or nothing: what came is read
                pass
        asking.settimeout(30)
    with closing(asking), suppress(ConnectionError, ssl.SSLError):
        assert asking.recv(4096) == b""
    assert caplog.records == []
    assert "".join(capfd.readouterr()) == ""


def with_token(folder):
    """Return a place at a free port, whose token is ``TOKEN``."""
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    return config(port=0).within(folder)


def connected(at):
    return socket.create_connection(("127.0.0.1", int(at.url.rpartition(":")[2])), timeout=30)


def test_with_a_certificate_it_is_https(tmp_path):
    certified(tmp_path)
    place = config(port=0, certificate="cert.pem", key="key.pem").within(tmp_path)
    trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    with serving(Told(), place) as at:
        assert at.url.startswith("https://")
        assert httpx.get(f"{at.url}/health", verify=trusting).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{at.url}/health")
    if os.name == "posix":
        (tmp_path / "key.pem").chmod(0o644)
        with pytest.raises(ConfigurationError, match="the private key"), serving(Told(), place):
            pass
        (tmp_path / "key.pem").chmod(0o600)
    (tmp_path / "cert.pem").write_text("nothing")
    with (
        pytest.raises(ConfigurationError, match="no certificate and its key"),
        serving(Told(), place),
    ):
        pass


@pytest.mark.parametrize("days", [(-20, -10), (10, 20)])
def test_a_certificate_that_is_not_valid_now_is_refused(tmp_path, days):
    certified(tmp_path, days=days)
    place = config(port=0, certificate="cert.pem", key="key.pem").within(tmp_path)
    with (
        pytest.raises(
            ConfigurationError, match=r"is valid from \S+ to \S+: no client takes it now"
        ),
        serving(Told(), place),
    ):
        pass


@pytest.mark.parametrize("kind", ["dsa", "a curve"])
def test_a_certificate_of_a_kind_that_nobody_takes_is_refused(tmp_path, kind):
    curve = ec.generate_private_key(ec.SECP256K1())
    certified(tmp_path, key=dsa.generate_private_key(2048) if kind == "dsa" else curve)
    place = config(port=0, certificate="cert.pem", key="key.pem").within(tmp_path)
    with (
        pytest.raises(ConfigurationError, match="a kind of key that no client takes"),
        serving(Told(), place),
    ):
        pass


@pytest.mark.parametrize("version", [1, 7])
def test_a_certificate_in_an_odd_form_that_openssl_takes_is_served_with(tmp_path, version):
    """What looks at it took it for none, with a traceback."""
    certified(tmp_path)
    made = x509.load_pem_x509_certificate((tmp_path / "cert.pem").read_bytes())
    body = made.public_bytes(serialization.Encoding.DER)
    body = body.replace(b"\xa0\x03\x02\x01\x02", bytes([0xA0, 3, 2, 1, version]), 1)
    (tmp_path / "cert.pem").write_text(ssl.DER_cert_to_PEM_cert(body))
    place = config(port=0, certificate="cert.pem", key="key.pem").within(tmp_path)
    with serving(Told(), place) as at:
        assert at.url.startswith("https://")


def test_nobody_is_asked_for_the_pass_phrase_of_a_key(tmp_path):
    certified(tmp_path, serialization.BestAvailableEncryption(b"a phrase"))
    place = config(port=0, certificate="cert.pem", key="key.pem").within(tmp_path)
    message = (
        r"key\.pem is protected by a pass phrase, and nobody is there to type it: give a key "
        r"without one \(openssl pkey -in \S+key\.pem -out \S+\)"
    )
    with pytest.raises(ConfigurationError, match=message), serving(Told(), place):
        pass


# Of a run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 4)).round(3)
    ids = [f"{number:04}" for number in range(80)]
    pl.DataFrame({"id": ids, "a": x[:, 0], "b": x[:, 1]}).write_csv(folder / "bank.csv")
    pl.DataFrame({"id": ids, "c": x[:, 2], "d": x[:, 3]}).write_csv(folder / "shop.csv")
    y = np.where(x[:, 0] + x[:, 2] > 0, "yes", "no")
    pl.DataFrame({"id": ids, "y": y}).write_csv(folder / "labels.csv")
    run = parse_config(
        {
            "data": {
                "id": "id",
                "ids": {"pad": 4},
                "folder": str(folder),
                "parties": {"bank": {"source": "bank.csv"}, "shop": {"source": "shop.csv"}},
                "labels": {"source": "labels.csv", "column": "y"},
            },
            "label_holder": {"name": "insurer"},
            "training": {"epochs": 2, "batch_size": 16},
        }
    )
    run.train(folder / "run")
    return load_trained(folder / "run")


def test_a_run_answers_what_it_predicts(trained):
    new = trained.new_people()
    answers = RunAnswers(trained, new)
    whole = trained.frame(trained.predict_people(new))
    asking = TestClient(service(answers, TOKEN), headers=RIGHT)
    reply = asking.post("/predict", json={"ids": ["0041", 7, "79"]}).json()
    assert reply["run"] == "run"
    expected = {row["id"]: row for row in whole.rows(named=True)}
    for told, id in zip(reply["predictions"], ["0041", "0007", "0079"], strict=True):
        assert told["predicted"] == expected[id]["predicted"]
        for name, probability in told["probabilities"].items():
            assert probability == pytest.approx(expected[id][f"probability of {name}"], abs=1e-6)
    answers.end()
    assert asking.post("/predict", json={"ids": ["0041"]}).status_code == 503
    assert asking.get("/health").status_code == 503


def test_a_run_answers_without_who_has_left(trained):
    left = {"shop": "zeros"}
    new = trained.new_people(without=left)
    answers = RunAnswers(trained, new, left)
    whole = trained.predict_people(new, left)
    assert torch.allclose(answers.ask(np.array([3, 9])).result(), whole.scores[[3, 9]], atol=1e-6)


def test_a_run_lets_so_many_wait_and_tells_them_when_it_is_over(trained, monkeypatch):
    begun, may_fail = threading.Event(), threading.Event()

    def fails(*people):
        begun.set()
        may_fail.wait(60)
        raise DataError("this is odd")

    monkeypatch.setattr(type(trained), "predict_people", fails)
    answers = RunAnswers(trained, trained.new_people())
    asking = [answers.ask(np.array([row])) for row in range(64)]
    assert begun.wait(60)
    with pytest.raises(ServiceBusy, match="64 requests"):
        answers.ask(np.array([0]))
    may_fail.set()
    for each in asking:
        with pytest.raises(DataError, match="this is odd"):
            each.result(60)
    begun.clear()
    may_fail.clear()
    asking = [answers.ask(np.array([row])) for row in range(2)]
    assert begun.wait(60)
    ending = threading.Thread(target=answers.end)
    ending.start()
    for each in asking:
        with pytest.raises(ServiceEnded, match="the service is over"):
            each.result(60)
    assert ending.is_alive()  # something is still predicted
    may_fail.set()
    ending.join(60)
    assert not ending.is_alive()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_answers_until_it_is_asked_to_end_and_ends_well(trained, number):
    folder = trained.run.folder
    before = {path.name for path in folder.iterdir()}
    command = (sys.executable, "-c", "from colonnade.cli import main; main()")
    process = subprocess.Popen(
        [*command, "serve", str(folder), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        told = " ".join(_lines(process.stdout))
        url = re.search(r"http://127.0.0.1:\d+", told)[0]
        assert "80 people can be asked for" in told
        shown = {"Authorization": f"Bearer {(folder / 'token').read_text().strip()}"}
        reply = httpx.post(f"{url}/predict", json={"ids": ["0000"]}, headers=shown, timeout=60)
        assert reply.json()["predictions"][0]["predicted"] in ("yes", "no")
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
        assert {path.name for path in folder.iterdir()} == before | {"token"}
    finally:
        process.kill()
        process.communicate()


def test_who_asks_to_end_is_heard_at_any_moment_and_however_often():
    """A handler that takes a lock waits for itself where it comes while that is held."""
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        with _until_asked_to_end() as wait:
            asked = signal.getsignal(number)
            for _ in range(10**5):  # more than a pipe holds
                asked(number, None)
            wait()
        assert signal.getsignal(number) is before


@pytest.mark.parametrize("asks", [KeyboardInterrupt, SystemExit])
def test_a_federation_that_serves_ends_well_when_it_is_asked_to_and_not_before(asks, monkeypatch):
    told = []

    def ask(_=None):
        raise asks

    monkeypatch.setattr(proving, "_is_healthy", lambda url: True)
    proving._serve(ServeConfig(), lambda: ask() if told else False, told.append)
    assert "until this is interrupted" in told[0]
    monkeypatch.setattr(proving, "_is_healthy", ask)
    with pytest.raises(asks):
        proving._serve(ServeConfig(), lambda: False, told.append)


def _lines(stream):
    """Return what is said until it is said how somebody is asked for."""
    told = []
    while "/predict" not in "".join(told):
        line = stream.readline()
        assert line, told
        told.append(line)
    return told


def test_a_run_without_ids_cannot_be_asked(trained):
    new = trained.new_people()
    with pytest.raises(ConfigurationError, match="people are asked for by an id"):
        RunAnswers(trained, replace(new, ids=None))
