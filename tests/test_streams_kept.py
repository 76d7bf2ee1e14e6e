"""What FLARE keeps of streams has an end."""

from __future__ import annotations

import threading
import tracemalloc
from types import SimpleNamespace

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.blob_streamer import BlobStreamer
from nvflare.fuel.f3.streaming.byte_receiver import ByteReceiver, RxTask
from nvflare.fuel.f3.streaming.byte_streamer import ByteStreamer
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_ACK_TOPIC,
    STREAM_DATA_TOPIC,
    STREAM_ERROR_TOPIC,
    StreamDataType,
    StreamHeaderKey,
)

from colonnade.deployment.streams_kept import guard_streams
from toy_guarded import put_back


class Cell:
    """A cell that keeps what it is to send, and what it is to be asked."""

    def __init__(self, name):
        self.my_info = SimpleNamespace(fqcn=name)
        self.sent, self.asked = [], {}

    def fire_and_forget(self, channel, topic, target, message, **_):
        self.sent.append((topic, target, message))
        return {}

    def add_error_handler(self, channel, topic, cb):
        pass

    def register_request_cb(self, channel, topic, cb):
        self.asked[topic] = cb


@pytest.fixture(autouse=True)
def _guarded(monkeypatch):
    put_back(monkeypatch)
    guard_streams()
    guard_streams()
    yield
    for task in [*ByteStreamer.tx_task_map.values()]:
        task.cancel()


@pytest.fixture
def server():
    cell = Cell("server.7")
    cell.receiver = ByteReceiver(cell)
    cell.streamer = ByteStreamer(cell)
    cell.blobs = BlobStreamer(cell.streamer, cell.receiver)
    return cell


def piece(number, origin="bank.7", channel="task", said=b"word"):
    headers = {
        MessageHeaderKey.ORIGIN: origin,
        StreamHeaderKey.CHANNEL: channel,
        StreamHeaderKey.TOPIC: "any",
        StreamHeaderKey.STREAM_ID: number,
        StreamHeaderKey.SEQUENCE: 0,
        StreamHeaderKey.SIZE: len(said),
        StreamHeaderKey.DATA_TYPE: StreamDataType.FINAL,
        StreamHeaderKey.STREAM_REQ_ID: "7",
    }
    return Message(headers, said)


def answered(server, target, body=b"a task", reliable=True):
    """Answer somebody, and return once it is sent."""
    before = len(server.sent)
    sent = threading.Event()
    usual = server.fire_and_forget

    def fire_and_forget(*given, **named):
        usual(*given, **named)
        sent.set()
        return {}

    server.fire_and_forget = fire_and_forget
    server.blobs.send("return_only", "any", target, Message({}, body), False, True, reliable)
    assert sent.wait(60)
    server.fire_and_forget = usual
    return server.sent[before][-1].get_header(StreamHeaderKey.STREAM_ID)


def test_what_nobody_takes_is_refused_and_not_kept(server):
    """Each had a thread for 5 s, or for 65 s."""
    threads = threading.active_count()
    for number in range(50):
        server.asked[STREAM_DATA_TOPIC](piece(number))
    assert threading.active_count() == threads
    assert not [each for each in RxTask.rx_task_map.values() if each.cell is server]
    assert [topic for topic, _, _ in server.sent] == [STREAM_ERROR_TOPIC, STREAM_ACK_TOPIC] * 50
    refusal = server.sent[0][-1]
    assert refusal.get_header(StreamHeaderKey.ERROR_MSG) == "nobody takes streams on this channel"
    assert refusal.get_header(StreamHeaderKey.STREAM_REQ_ID) == "7"


def test_what_somebody_takes_is_taken_and_acknowledged(server):
    came, taken = [], threading.Event()

    def take(future):
        came.append(bytes(future.result()))
        taken.set()

    server.blobs.register_blob_callback("task", "any", take)
    server.asked[STREAM_DATA_TOPIC](piece(1))
    assert taken.wait(60)
    assert came == [b"word"]
    assert server.sent[0][:2] == (STREAM_ACK_TOPIC, "bank.7")


def test_an_answer_takes_as_much_room_as_it_is_long(server):
    tracemalloc.start()
    try:
        for number in range(20):
            answered(server, "bank.7", b"x" * (100 if number % 2 else 0))
        assert tracemalloc.get_traced_memory()[0] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, 1, 999, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20 + 5])
def test_an_answer_is_sent_whole(server, size):
    body, whole = bytes(index % 251 for index in range(size)), threading.Event()
    future = server.blobs.send("return_only", "any", "bank.7", Message({}, body), False, True)
    future.add_done_callback(whole.set)
    assert whole.wait(60)
    assert b"".join(bytes(message.payload) for _, _, message in server.sent) == body


def test_of_answers_to_one_the_latest_few_wait_to_be_acknowledged(server):
    """Who asked 3,200 times, and acknowledged nothing, had 3.3 GB kept for a minute."""
    slow = answered(server, "shop.7")
    numbers = [answered(server, "bank.7") for _ in range(200)]
    assert [*ByteStreamer.tx_task_map] == [slow, *numbers[-64:]]


def test_answers_that_are_acknowledged_take_nobodys_place(server):
    slow = answered(server, "bank.7")
    for _ in range(100):
        said = {
            MessageHeaderKey.ORIGIN: "bank.7",
            StreamHeaderKey.STREAM_ID: answered(server, "bank.7", b"four"),
            StreamHeaderKey.OFFSET: 4,
            StreamHeaderKey.SEQUENCE: 0,
        }
        while said[StreamHeaderKey.STREAM_ID] in ByteStreamer.tx_task_map:
            server.asked[STREAM_ACK_TOPIC](Message(said, None))
    assert [*ByteStreamer.tx_task_map] == [slow]


def test_answers_within_an_organisation_are_not_counted(server):
    numbers = [answered(server, "server") for _ in range(100)]
    assert [*ByteStreamer.tx_task_map] == numbers


def test_one_that_waits_no_longer_is_told_to_who_answered(server):
    first = answered(server, "bank.7")
    future = ByteStreamer.tx_task_map[first].stream_future
    for _ in range(64):
        answered(server, "bank.7")
    assert "has not acknowledged 64 answers" in str(future.exception(60))


def test_nobody_acknowledges_what_is_for_another(server):
    """Nor ends it: the number of a stream is its last one's and one more."""
    number = answered(server, "bank.7", b"four")
    said = {
        StreamHeaderKey.STREAM_ID: number,
        StreamHeaderKey.OFFSET: 4,
        StreamHeaderKey.SEQUENCE: 0,
    }
    for more in ({}, {StreamHeaderKey.ERROR_MSG: "gone"}):
        for origin in ("shop.7", "server.7", None):
            forged = Message(said | more | {MessageHeaderKey.ORIGIN: origin}, None)
            server.asked[STREAM_ACK_TOPIC](forged)
    assert [*ByteStreamer.tx_task_map] == [number]
    while number in ByteStreamer.tx_task_map:
        server.asked[STREAM_ACK_TOPIC](Message(said | {MessageHeaderKey.ORIGIN: "bank.7"}, None))
