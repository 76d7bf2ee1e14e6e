"""What FLARE keeps of others' words has an end."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import msgpack
import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.endpoint import Endpoint
from nvflare.fuel.f3.sfm.conn_manager import ConnManager
from nvflare.fuel.f3.sfm.constants import HandshakeKeys, Types
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, Prefix
from nvflare.fuel.f3.stats_pool import CounterPool, HistPool

from colonnade.deployment.few_words import guard_words
from toy_guarded import put_back

WORDS = 5000  # more than are counted apart


@pytest.fixture(autouse=True)
def _guarded(monkeypatch):
    put_back(monkeypatch)
    guard_words()
    guard_words()


def of_times():
    return HistPool("travel", "how long messages took", [0.1, 1.0], "seconds")


def test_all_is_counted_and_few_words_are_kept():
    pool = of_times()
    for number in range(WORDS):
        pool.record_value(category=f"way {number}", value=0.5)
    assert len(pool.cat_bins) <= WORDS - 800
    assert sum(bins[1].count for bins in pool.cat_bins.values()) == WORDS
    pool.record_value(category="way 7", value=0.5)
    assert pool.cat_bins["way 7"][1].count == 2


def test_answers_are_counted_by_few_words_too():
    pool = CounterPool("answers", "which came", ["sent"])
    for number in range(WORDS):
        pool.increment(category=f"on {number}", counter_name=f"code {number}")
    pool.increment("on 7", "sent", 3)
    assert max(len(pool.cat_counters), len(pool.counter_names)) <= WORDS - 800
    assert sum(sum(each.values()) for each in pool.cat_counters.values()) == WORDS + 3
    assert pool.cat_counters["on 7"]["sent"] == 3


def test_long_words_are_not_kept():
    """A member had 57 KB kept of each message, in the process of another's job too."""
    pool, counts = of_times(), CounterPool("answers", "which came", ["sent"])
    tracemalloc.start()
    try:
        for number in range(100):
            word = f"{number}{'r' * 60_000}"
            pool.record_value(category=word, value=0.5)
            counts.increment(category=word, counter_name=word)
        assert tracemalloc.get_traced_memory()[0] < 2**19
    finally:
        tracemalloc.stop()
    assert [*pool.cat_bins] == [*counts.cat_counters]


@pytest.fixture
def connections():
    """Return what keeps the connections of a cell, and one that begins."""
    connector = SimpleNamespace(params={}, mode=None)
    conn = SimpleNamespace(connector=connector, get_conn_properties=dict, name="an example")
    manager = ConnManager(Endpoint("server"))
    yield manager, SimpleNamespace(conn=conn, sfm_endpoint=None, get_name=lambda: "an example")
    manager.stop()


def test_of_what_is_said_as_a_connection_begins_a_name_is_kept(connections):
    """All else stayed for as long as the server lived, and nobody read it."""
    manager, connection = connections
    said = {HandshakeKeys.ENDPOINT_NAME: "bank", HandshakeKeys.TIMESTAMP: 1.7e9, "more": b"0" * 999}
    manager.update_endpoint(connection, said)
    assert manager.sfm_endpoints["bank"].endpoint.properties == {}
    assert connection.sfm_endpoint.endpoint.name == "bank"


@pytest.mark.parametrize("said", [{}, [], 5, {"endpoint_name": 5}, {"endpoint_name": "x" * 201}])
def test_nobody_begins_a_connection_without_a_name(connections, said):
    manager, connection = connections
    with pytest.raises(CommError, match="such a name"):
        manager.update_endpoint(connection, said)
    assert not manager.sfm_endpoints


def test_nobody_begins_a_connection_by_a_book(connections):
    """Of each byte up to 77 were made before anybody looked at them."""
    manager, _ = connections
    said = msgpack.packb({HandshakeKeys.ENDPOINT_NAME: "bank", "more": []})
    prefix = Prefix(0, 0, Types.HELLO, 0, 0, 0, 0, 0)
    frame = bytes(PREFIX_LEN) + said
    assert manager.get_dict_payload(prefix, frame) == msgpack.unpackb(said)
    with pytest.raises(CommError, match="so many words"):
        manager.get_dict_payload(prefix, bytes(PREFIX_LEN) + msgpack.packb([[]] * 2**14))
