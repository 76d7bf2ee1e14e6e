"""What FLARE counts by others' words has an end."""

from __future__ import annotations

import tracemalloc

import pytest

pytest.importorskip("nvflare")

from nvflare.fuel.f3.stats_pool import CounterPool, HistPool

from colonnade.deployment.few_counts import guard_counts
from toy_guarded import put_back

WORDS = 5000  # more than are counted apart


@pytest.fixture(autouse=True)
def _guarded(monkeypatch):
    put_back(monkeypatch)
    guard_counts()
    guard_counts()


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
