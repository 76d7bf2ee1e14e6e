"""Small laws of the lower floors, a section for each module."""

from __future__ import annotations

import itertools
import math
import re
import sys
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import colonnade
from colonnade import ledger as ledger_module
from colonnade.batches import BatchPlan, pieces
from colonnade.channels import Channel, Network, nanoseconds
from colonnade.codecs import Float, Scalar
from colonnade.costs import Measured, Modelled
from colonnade.drivers.mailbox import Mailbox
from colonnade.effects import KINDS_OF_SERVICE, KINDS_OF_WORK, Expect, Since, Work
from colonnade.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from colonnade.flows import Limits
from colonnade.ledger import Entry, Ledger
from colonnade.links import Delivery, Direct, Link
from colonnade.models import (
    Concat,
    DotProduct,
    Fusion,
    Learner,
    Max,
    Mean,
    Sparse,
    Sum,
    all_finite,
    mlp,
    parameter_vector,
    take,
)
from colonnade.streams import StreamKey, work_seed
from colonnade.wire import Message, Purpose

# No law here is about how fast a machine is.
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

# Streams

KEY = StreamKey(seed=7, origin="bank", purpose="training/embedding", round=3, part=1)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
KEYS = st.builds(StreamKey, NUMBERS, NAMES, NAMES | st.text(max_size=6), NUMBERS, NUMBERS)


@unhurried
@given(KEYS, KEYS)
def test_two_streams_are_the_same_only_if_every_field_is(one, other):
    assert (one.words() == other.words()) == (one == other)


@pytest.mark.parametrize(
    "change",
    [{"seed": 8}, {"origin": "shop"}, {"purpose": "training"}, {"round": 4}, {"part": 0}],
    ids=str,
)
def test_every_field_changes_both_words(change):
    for mine, other in zip(KEY.words(), replace(KEY, **change).words(), strict=True):
        assert mine != other


def test_origin_and_purpose_cannot_be_mistaken_for_each_other():
    """An origin holds no zero byte, so the first one ends it; a purpose may hold anything."""
    pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("a", "b\0c"), ("a", "\0bc")]
    assert len({StreamKey(0, *pair, 0).words() for pair in pairs}) == len(pairs)


def test_a_frozen_key_has_frozen_words():
    """BLAKE2b-128, personalised, of three signed 64-bit numbers, the origin, 0, and the purpose.

    As printed by any BLAKE2b: the message is 07 00.. 03 00.. 01 00.. "bank" 00
    "training/embedding", the personalisation "colonnade stream"; the digest's halves are little
    endian.
    """
    words = 0x27E7BCB67B006632, 0x8052497B371DAAA9
    assert KEY.words() == words
    assert KEY.torch_seed() == words[0] >> 1
    with pytest.raises(FrozenInstanceError):
        KEY.round = 4


def test_seeds_of_work_differ_by_everything_and_fit_torch():
    choices = [(0, 1), ("bank", "shop"), ("TRAINING", "EVALUATION"), range(50), range(20)]
    seeds = {work_seed(*choice) for choice in itertools.product(*choices)}
    assert len(seeds) == 2 * 2 * 2 * 50 * 20
    assert all(0 <= seed < 2**63 for seed in seeds)


# Ledger

PURPOSES = st.sampled_from(Purpose)
SIZES = st.integers(0, 2**40)
ENTRIES = st.lists(
    st.builds(
        Entry,
        st.sampled_from("abc"),
        st.sampled_from("abc"),
        st.sampled_from(["embedding", "derivative"]),
        PURPOSES,
        st.integers(0, 5),
        st.integers(0, 1000),
        SIZES,
        SIZES,
        st.none() | SIZES,
        st.booleans(),
        st.booleans(),
    ).filter(lambda entry: not (entry.discarded and entry.lost)),
    max_size=20,
    unique_by=lambda entry: (entry.sender, entry.sequence),
)


@unhurried
@given(ENTRIES, st.randoms(use_true_random=False))
def test_a_ledger_reads_the_same_in_whatever_order_it_was_written(entries, random):
    shuffled = random.sample(entries, len(entries))
    one, other = Ledger(entries), Ledger()
    other.extend(shuffled[:3])
    for entry in shuffled[3:]:
        other.append(entry)
    assert list(one) == list(other) == sorted(entries, key=lambda e: (e.sender, e.sequence))
    assert len(other) == len(entries)
    assert one.frame().equals(other.frame())


@unhurried
@given(ENTRIES)
def test_a_ledger_comes_back_from_its_frame(entries):
    ledger = Ledger(entries)
    frame = ledger.frame()
    again = Ledger.from_frame(frame)
    assert list(again) == list(ledger)
    assert all(type(entry.purpose) is Purpose for entry in again)
    assert frame.columns == list(Entry._fields)
    assert set(frame["purpose"]) == {entry.purpose.label for entry in entries}


@unhurried
@given(ENTRIES)
def test_totals_are_sums_and_the_time_is_all_that_is_blanked(entries):
    ledger = Ledger(entries)
    assert ledger.bytes() == sum(entry.body_bytes for entry in entries)
    assert ledger.framed_bytes() == sum(entry.framed_bytes for entry in entries)
    parts = [ledger.bytes(lambda e, p=purpose: e.purpose is p) for purpose in Purpose]
    assert sum(parts) == ledger.bytes()
    blank = ledger.without_time()
    assert all(entry.nanoseconds is None for entry in blank)
    assert blank == [entry._replace(nanoseconds=None) for entry in ledger if not entry.lost]
    discarded = [(e.sender, e.sequence) for e in entries if e.discarded]
    assert sorted(discarded) == [(e.sender, e.sequence) for e in blank if e.discarded]


@unhurried
@given(ENTRIES, st.data())
def test_what_is_settled_is_read_as_before(entries, data):
    """However rows are appended, discarded and settled, also after that."""
    plain, settling = Ledger(), Ledger()
    with mock.patch.object(ledger_module, "_MANY", 4):
        for number, entry in enumerate(entries):
            plain.append(entry)
            settling.append(entry)
            if data.draw(st.booleans()):
                sender, sequence = data.draw(st.sampled_from(entries[: number + 1]))[:6:5]
                plain.discard(sender, sequence)
                settling.discard(sender, sequence)
            if data.draw(st.booleans()):
                settling.settle()
    assert list(settling) == list(plain)
    assert settling.frame().equals(plain.frame())
    assert (len(settling), settling.bytes()) == (len(plain), plain.bytes())


def test_nothing_is_settled_that_a_run_may_go_back_to(monkeypatch):
    monkeypatch.setattr(ledger_module, "_MANY", 4)
    entries = [Entry("a", "b", "x", Purpose.TRAINING, n, n, 1, 2, n) for n in range(40)]
    ledger = Ledger(entries)
    ledger.settle({"a": 30}, {("a", 7)})
    assert len(ledger.settled) == 1
    assert [entry.sequence for entry in ledger.unsettled({"a": 35})] == [7, *range(30, 35)]
    ledger.discard("a", 7)
    assert [entry.sequence for entry in ledger if entry.discarded] == [7]
    restored = Ledger.restored(ledger.settled, ledger.unsettled({"a": 35}).frame())
    assert list(restored) == [entry for entry in ledger if entry.sequence < 35]
    settled = len(ledger.settled[0])
    assert settled < 40 * sum(map(sys.getsizeof, entries[0]))
    assert list(Ledger.from_frame(ledger.frame())) == list(ledger)


def test_a_ledgers_file_has_words_and_seconds(tmp_path):
    ledger = Ledger(
        [
            Entry("shop", "bank", "derivative", Purpose.EVALUATION, 2, 0, 10, 25, None),
            Entry("bank", "shop", "embedding", Purpose.TRAINING, 1, 0, 100, 117, 1_500_000_000),
            Entry("bank", "shop", "embedding", Purpose.TRAINING, 2, 1, 100, 117, 2 * 10**9, True),
            Entry("bank", "shop", "embedding", Purpose.TRAINING, 2, 1, 100, 117, 10**9, lost=True),
        ]
    )
    ledger.write_csv(tmp_path / "ledger.csv")
    assert (tmp_path / "ledger.csv").read_text() == (
        "sender,receiver,kind,purpose,round,sequence,body_bytes,framed_bytes,discarded,lost,seconds\n"
        "bank,shop,embedding,training,1,0,100,117,false,false,1.5\n"
        "bank,shop,embedding,training,2,1,100,117,false,true,1.0\n"
        "bank,shop,embedding,training,2,1,100,117,true,false,2.0\n"
        "shop,bank,derivative,evaluation,2,0,10,25,false,false,\n"
    )
    assert list(Ledger.read_csv(tmp_path / "ledger.csv")) == list(ledger)


def test_a_ledger_of_before_anything_was_discarded_can_be_read(tmp_path):
    file = tmp_path / "ledger.csv"
    file.write_text(
        "sender,receiver,kind,purpose,round,sequence,body_bytes,framed_bytes,seconds\n"
        "bank,shop,embedding,training,1,0,100,117,1.5\n"
    )
    entry = Entry("bank", "shop", "embedding", Purpose.TRAINING, 1, 0, 100, 117, 1_500_000_000)
    assert list(Ledger.read_csv(file)) == [entry]
    frame = Ledger([entry]).frame().drop("discarded", "lost")
    assert list(Ledger.from_frame(frame)) == [entry]


def test_an_empty_ledger_has_the_same_columns():
    full = Ledger([Entry("a", "b", "x", Purpose.SETUP, 0, 0, 1, 2, 3)])
    assert Ledger().frame().schema == full.frame().schema
    assert full.frame().schema["nanoseconds"] == pl.Int64
    assert list(Ledger.from_frame(Ledger().frame())) == []


# Channels


@unhurried
@given(st.integers(0, 2**20), st.integers(1, 10**12))
def test_transmission_takes_exactly_the_next_whole_nanosecond(size, bandwidth):
    # Floats suffice: 8e9 size < 2^53 is exact, and the quotient a/b, if not whole, is at least 1/b
    # from a whole number, while rounding moves it by at most 2^-53 a/b < 1/b.
    exact = Fraction(size * 8 * 10**9, bandwidth)
    assert Channel(bandwidth).transmission_nanoseconds(size) == -(-exact // 1)


@pytest.mark.parametrize(
    ("bandwidth", "size", "expected"),
    [
        (300e6, 37_500, 1_000_000),  # 300 000 bits
        (8.0, 1, 10**9),
        (8e9, 7, 7),
        (16e9, 1, 1),  # half a nanosecond
        (3.0, 3, 8 * 10**9),
        (7.0, 1, 1_142_857_143),  # 8/7 s
        (float("inf"), 2**30, 0),
        (1.0, 0, 0),
    ],
)
def test_transmission_times(bandwidth, size, expected):
    assert Channel(bandwidth).transmission_nanoseconds(size) == expected


def test_durations_are_rounded_to_the_nearest_nanosecond():
    assert [nanoseconds(s) for s in (0.0, 1e-9, 1.4e-9, 1.6e-9, 0.3)] == [0, 1, 1, 2, 300_000_000]
    assert Channel(latency=0.0123).latency_nanoseconds == 12_300_000


@pytest.mark.parametrize("bandwidth", [0, -1.0, float("nan"), -float("inf")])
def test_a_bandwidth_that_cannot_be(bandwidth):
    with pytest.raises(ConfigurationError, match=f"1 bit/s or more, not {bandwidth}"):
        Channel(bandwidth)


@pytest.mark.parametrize("latency", [-0.1, float("nan"), float("inf")])
def test_a_latency_that_cannot_be(latency):
    with pytest.raises(ConfigurationError, match=f"0 to 1e6 s, not {latency}"):
        Channel(latency=latency)


def test_a_network_has_a_channel_for_each_direction():
    slow, default = Channel(1e3), Channel(1e6)
    network = Network(default, {("a", "b"): slow})
    assert network.channel("a", "b") is slow
    assert network.channel("b", "a") is default
    assert Network().channel("a", "b") == Channel()
    with pytest.raises(ConfigurationError, match="1 or more, not 0"):
        Network(queue=0)


# Costs


def work(kind, rows):
    return Work(kind, bool, round=0, rows=rows)


def test_modelled_work_costs_what_the_model_says():
    costs = Modelled(
        {"top": 0.5},
        {"top": 0.01, "forward": 0.001},
        {"slow": 2.0, "idle": 0.0},
        otherwise=0.125,
    )
    assert costs.label == "modelled"
    for measured in (0, 10**12):
        assert costs.nanoseconds("fast", work("top", 100), measured) == 1_500_000_000
        assert costs.nanoseconds("slow", work("top", 100), measured) == 3_000_000_000
        assert costs.nanoseconds("idle", work("top", 100), measured) == 0
        assert costs.nanoseconds("fast", work("forward", 7), measured) == 7_000_000
        for kind in ("local_step", "unknown"):
            assert costs.nanoseconds("fast", work(kind, 100), measured) == 125_000_000
            assert costs.nanoseconds("slow", work(kind, 100), measured) == 250_000_000


def test_no_work_is_free_unless_it_is_said_to_be():
    prices = dict.fromkeys(KINDS_OF_WORK, 1.0)
    assert Modelled(prices).nanoseconds("a", work("local_step", 9), 0) == 10**9
    assert Modelled({}, prices).nanoseconds("a", work("local_step", 9), 0) == 9 * 10**9
    assert Modelled(otherwise=0.0).nanoseconds("a", work("local_step", 9), 0) == 0
    with pytest.raises(ConfigurationError, match=r"no price of forward, encode, .*otherwise=0\.0"):
        Modelled()
    for kind in KINDS_OF_WORK:
        some = {key: value for key, value in prices.items() if key != kind}
        with pytest.raises(ConfigurationError, match=f"name no price of {kind}; give each its"):
            Modelled(some)
        assert Modelled(some, {kind: 0.0}).nanoseconds("a", work(kind, 9), 0) == 0
    with pytest.raises(ConfigurationError, match="'a' does work of the kind 'seal', which"):
        Modelled(prices).nanoseconds("a", work("seal", 9), 0)


def test_every_kind_of_work_that_roles_do_is_listed_and_no_other():
    work = re.compile(r'\bWork\(\s*"(\w+)"')
    source = Path(colonnade.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in source.rglob("*.py")]
    listed = {*KINDS_OF_WORK, *KINDS_OF_SERVICE}
    assert {kind for text in texts for kind in work.findall(text)} == listed
    # every one is named where it is asked for, so that this test sees it
    assert not any(re.search(r"await Work\(\s*[^\s\"]", text) for text in texts)


def test_measured_work_costs_what_was_measured():
    costs = Measured({"slow": 2.5})
    assert costs.label == "measured"
    assert costs.nanoseconds("fast", work("top", 5), 1000) == 1000
    assert costs.nanoseconds("slow", work("top", 5), 1000) == 2500


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda value: Measured({"bank": value}), "slowdown of 'bank' must be 0 to 1e6"),
        (lambda value: Modelled(slowdown={"bank": value}), "slowdown of 'bank' must be 0 to 1e6"),
        (lambda value: Modelled({"top": value}), "cost of 'top' must be 0 to 1e6 s"),
        (lambda value: Modelled({}, {"top": value}), "cost of 'top' must be 0 to 1e6 s"),
        (lambda value: Modelled(otherwise=value), "cost of other work must be 0 to 1e6 s"),
    ],
)
def test_costs_that_cannot_be(make, message, value):
    with pytest.raises(ConfigurationError, match=f"{message}, not {value}"):
        make(value)


# Batches


@unhurried
@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 4), st.integers(0, 2**62))
def test_every_epoch_goes_once_over_every_row(count, batch_size, epochs, seed):
    rows = np.arange(count, dtype=np.int64) * 3 + 100
    plan = BatchPlan(rows, batch_size, epochs, seed)
    each = -(-count // batch_size)
    assert (plan.rounds_per_epoch, plan.rounds) == (each, epochs * each)
    for epoch in range(epochs):
        batches = [plan.rows(round) for round in range(epoch * each, (epoch + 1) * each)]
        assert sorted(np.concatenate(batches)) == list(rows)
        assert [len(batch) for batch in batches[:-1]] == [plan.batch_size] * (each - 1)
        assert len(batches[-1]) == count - (each - 1) * plan.batch_size


@unhurried
@given(st.permutations(range(12)))
def test_a_batch_does_not_depend_on_the_batches_asked_for_before(order):
    def plan():
        return BatchPlan(np.arange(10), batch_size=3, epochs=3, seed=5)

    expected = [plan().rows(round).tolist() for round in range(12)]
    one = plan()
    assert [one.rows(round).tolist() for round in order] == [expected[round] for round in order]


def test_epochs_and_seeds_give_other_orders():
    plans = [BatchPlan(np.arange(100), 100, 2, seed) for seed in (0, 1)]
    orders = {tuple(plan.rows(round)) for plan in plans for round in (0, 1)}
    assert len(orders) == 4


@pytest.mark.parametrize(
    ("count", "batch_size", "epochs", "message"),
    [
        (0, 1, 1, "no row to train on"),
        (5, 0, 1, "batch_size must be at least 1, not 0"),
        (5, -3, 1, "batch_size must be at least 1, not -3"),
        (5, 1, 0, "epochs must be at least 1, not 0"),
    ],
)
def test_batches_that_cannot_be(count, batch_size, epochs, message):
    with pytest.raises(ConfigurationError, match=message):
        BatchPlan(np.arange(count), batch_size, epochs, seed=0)


@unhurried
@given(st.integers(0, 30), st.integers(1, 12))
def test_pieces_are_in_order_and_none_is_empty(count, size):
    cut = pieces(np.arange(count), size)
    assert [int(row) for piece in cut for row in piece] == list(range(count))
    assert all(len(piece) == size for piece in cut[:-1])
    assert all(1 <= len(piece) <= size for piece in cut)


# Mailbox


def message(sender, sequence, kind="x", round=0, purpose=Purpose.TRAINING):
    return Message(sender, "hub", kind, purpose, round, sequence, b"")


def boxed(*messages, limits=None):
    mailbox = Mailbox(limits=limits)
    for index, item in enumerate(messages):
        mailbox.put(item, index * 10)
    return mailbox


def taken(arrivals):
    return [(item.sender, item.sequence) for item in arrivals]


def test_messages_of_a_kind_are_taken_in_the_order_they_came():
    mailbox = boxed(*(message("a", sequence) for sequence in range(3)))
    expect = Expect("x", 0, ("a",))
    assert [taken(mailbox.take(expect)) for _ in range(3)] == [[("a", i)] for i in range(3)]
    last = mailbox.take(expect)
    assert (last.messages, last.missing) == ((), ("a",))
    assert list(mailbox) == []


def test_kinds_rounds_purposes_and_senders_are_kept_apart():
    messages = [
        message("a", 0, kind="y"),
        message("a", 1, round=1),
        message("a", 2, purpose=Purpose.EVALUATION),
        message("b", 0),
        message("a", 3),
    ]
    mailbox = boxed(*messages)
    assert not mailbox.satisfied(Expect("z", 0, ("a",)), 0, 0)
    assert taken(mailbox.take(Expect("x", 0, ("a",)))) == [("a", 3)]
    assert taken(mailbox.take(Expect("x", 0, ("a",), Purpose.EVALUATION))) == [("a", 2)]
    assert taken(mailbox.take(Expect("x", 1, ("a",)))) == [("a", 1)]
    assert [item for item, _ in mailbox] == [messages[0], messages[3]]
    assert [now for _, now in mailbox] == [0, 30]


def test_sources_are_given_in_the_order_of_the_expect():
    mailbox = boxed(message("c", 0), message("a", 0))
    arrivals = mailbox.take(Expect("x", 0, ("a", "b", "c")))
    assert taken(arrivals) == [("a", 0), ("c", 0)]
    assert arrivals.missing == ("b",)
    assert len(arrivals) == 2


def test_of_several_kinds_the_message_sent_first_is_taken():
    mailbox = boxed(message("a", 5, kind="y"), message("a", 4, kind="x"))
    expect = Expect(("x", "y"), 0, ("a",))
    assert taken(mailbox.take(expect)) == [("a", 4)]
    assert taken(mailbox.take(expect)) == [("a", 5)]


def test_taking_exactly_takes_those_or_nothing():
    mailbox = boxed(message("b", 7), message("a", 3), message("a", 4))
    expect = Expect("x", 0, ("a", "b", "c"))
    assert mailbox.take_exactly([("a", 4), ("b", 8)], expect) is None
    assert mailbox.take_exactly([("b", 7)], Expect("x", 0, ("a",))) is None  # not a source
    assert len(list(mailbox)) == 3
    arrivals = mailbox.take_exactly([("b", 7), ("a", 4)], expect)
    assert taken(arrivals) == [("b", 7), ("a", 4)]
    assert arrivals.missing == ("c",)
    assert [item.sequence for item, _ in mailbox] == [3]
    nothing = mailbox.take_exactly([], expect)
    assert (nothing.messages, nothing.missing) == ((), ("a", "b", "c"))


@unhurried
@given(st.data())
def test_a_mailbox_is_queues_by_sender_kind_round_and_purpose(data):
    """Whatever is put and taken, in any order, it agrees with plain lists."""
    mailbox, lists = Mailbox(), {}
    pool = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 1))
    for sequence in range(data.draw(st.integers(0, 25))):
        sender, kind, round = data.draw(pool)
        queue = lists.setdefault((sender, kind, round), [])
        if data.draw(st.booleans()):
            queue.append(message(sender, sequence, kind, round))
            mailbox.put(queue[-1], sequence)
        else:
            expect = Expect(kind, round, (sender,))
            assert mailbox.satisfied(expect, 0, 0) == bool(queue)
            assert list(mailbox.take(expect)) == [queue.pop(0) for _ in queue[:1]]
    left = [item for queue in lists.values() for item in queue]
    left.sort(key=lambda item: item.sequence)
    assert sorted((item for item, _ in mailbox), key=lambda item: item.sequence) == left


def test_deadlines_count_from_the_first_arrival_or_from_the_wait():
    mailbox = boxed(message("b", 0), message("a", 0))  # at 0 and 10 ns
    first = Expect("x", 0, ("a", "c"), within=1e-6)
    assert mailbox.deadline(first, since=500) == 10 + 1000
    now = first._replace(since=Since.NOW)
    assert mailbox.deadline(now, since=500) == 1500
    # Asked again, it is the same wait, until its messages are taken.
    assert not mailbox.satisfied(now, since=1499, now=1499)
    assert mailbox.satisfied(now, since=1500, now=1500)
    mailbox.take(now)
    assert mailbox.deadline(now, since=2000) == 3000
    mailbox = boxed(message("b", 0), message("a", 0))
    assert mailbox.deadline(first._replace(within=None), since=500) is None
    assert mailbox.deadline(first._replace(sources=("c",)), since=500) is None
    assert not mailbox.satisfied(first, since=500, now=1009)
    assert mailbox.satisfied(first, since=500, now=1010)


@pytest.mark.parametrize("quorum", [0, -1, 3])
def test_a_quorum_that_cannot_be(quorum):
    with pytest.raises(LocalProtocolError, match=f"quorum of {quorum} of 2 sources"):
        Mailbox().deadline(Expect("x", 0, ("a", "b"), quorum=quorum), 0)


# Links


def test_a_direct_link_is_its_codec_of_the_round():
    class Scheduled(Float):
        """Half precision from round 2 on."""

        def at(self, round):
            return Float(16 if round >= 2 else 32)

    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    rows = np.array([5, 0, 9])
    link = Direct(Scheduled())
    sender, receiver = link.sender(10, 4, "one"), link.receiver(10, 4, "other")
    for round, codec in enumerate([Float(), Float(), Float(16), Float(16)]):
        key = replace(KEY, round=round)
        body = sender.send(x, rows, key)
        assert body == codec.encode(x, key)
        assert torch.equal(receiver.receive(body, rows, key), codec.decode(body, (3, 4), key))


def test_a_direct_link_remembers_nothing_and_survives_losses():
    link = Direct(Scalar(4))
    assert isinstance(link, Link)
    assert link.delivery is Delivery.ANY
    sender, receiver = link.sender(10, 4, "one"), link.receiver(10, 4, "other")
    rows = np.array([1, 2])
    bodies = [sender.send(torch.full((2, 4), float(i)), rows, KEY) for i in (1, 2, 1)]
    assert bodies[0] == bodies[2]
    assert len(bodies[0]) <= link.bytes_at_most(2, 4)
    assert sender.state_dict() == receiver.state_dict() == {}
    sender.load_state_dict({})
    receiver.load_state_dict({})
    with pytest.raises(RemoteProtocolError):
        receiver.receive(bodies[0], np.array([1, 2, 3, 4, 5]), KEY)


# Fusion


def embeddings(count, width=3):
    generator = torch.Generator().manual_seed(count)
    return [
        torch.randn(5, width, generator=generator, dtype=torch.float64).requires_grad_()
        for _ in range(count)
    ]


def derivatives(fusion, parts):
    """Those of the parts, where that of the fused embedding is a matrix of numbers 1, 2, ..."""
    fused = fusion(parts)
    upstream = torch.arange(1.0, fused.numel() + 1, dtype=fused.dtype).view_as(fused)
    return upstream, torch.autograd.grad(fused, parts, upstream)


@pytest.mark.parametrize(
    ("fusion", "count"),
    [
        *((fusion, count) for fusion in (Concat(), Sum(), Mean(), Max()) for count in (1, 2, 5)),
        *((DotProduct(), count) for count in (2, 3, 5)),
    ],
    ids=str,
)
def test_a_fusion_has_the_width_it_says_and_true_derivatives(fusion: Fusion, count):
    parts = embeddings(count)
    assert fusion(parts).shape == (5, fusion.width([3] * count))
    assert torch.autograd.gradcheck(lambda *parts: fusion(parts), parts)
    assert fusion == type(fusion)()
    assert hash(fusion) == hash(type(fusion)())


def test_concat_gives_each_its_own_columns():
    parts = [*embeddings(1, width=2), *embeddings(2, width=4)]
    assert Concat().width([2, 4, 4]) == 10
    upstream, derived = derivatives(Concat(), parts)
    for mine, expected in zip(derived, upstream.split([2, 4, 4], dim=1), strict=True):
        assert torch.equal(mine, expected)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_derivative_of_the_mean_carries_one_over_the_parties(count):
    parts = embeddings(count)
    assert torch.allclose(Mean()(parts), torch.stack(parts).mean(0))
    for fusion, factor in ((Mean(), 1 / count), (Sum(), 1.0)):
        upstream, derived = derivatives(fusion, parts)
        assert all(torch.equal(mine, upstream * factor) for mine in derived)


def test_the_largest_takes_the_derivative_of_max_and_ties_share_it():
    parts = [
        torch.tensor([[1.0, 5.0, 2.0, 0.0]], requires_grad=True),
        torch.tensor([[3.0, 5.0, 2.0, -1.0]], requires_grad=True),
        torch.tensor([[2.0, 4.0, 2.0, -2.0]], requires_grad=True),
    ]
    upstream, derived = derivatives(Max(), parts)  # 1, 2, 3, 4
    assert Max()(parts).tolist() == [[3.0, 5.0, 2.0, 0.0]]
    assert [mine.tolist() for mine in derived] == [
        [[0.0, 1.0, 1.0, 4.0]],
        [[1.0, 1.0, 1.0, 0.0]],
        [[0.0, 0.0, 1.0, 0.0]],
    ]
    assert torch.equal(sum(derived), upstream)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_the_dot_product_is_that_of_every_pair_and_derives_to_the_sum_of_the_others(count):
    parts = embeddings(count)
    pairs = [(z * y).sum(1) for i, z in enumerate(parts) for y in parts[:i]]
    torch.testing.assert_close(DotProduct()(parts), sum(pairs)[:, None], rtol=1e-12, atol=0)
    squares = sum((z**2).sum(1) for z in parts)
    halved = ((sum(parts) ** 2).sum(1) - squares) / 2
    torch.testing.assert_close(DotProduct()(parts)[:, 0], halved, rtol=1e-12, atol=1e-12)
    upstream, derived = derivatives(DotProduct(), parts)
    for part, mine in zip(parts, derived, strict=True):
        others = sum(parts) - part
        torch.testing.assert_close(mine, upstream * others, rtol=1e-12, atol=1e-12)


def test_two_embeddings_have_one_product_by_hand():
    parts = [torch.tensor([[1.0, 2.0], [0.0, -1.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]])]
    assert DotProduct()(parts).tolist() == [[11.0], [-6.0]]
    three = [torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([[4.0]])]
    assert DotProduct()(three).tolist() == [[2.0 + 4.0 + 8.0]]


def test_one_embedding_has_no_product():
    with pytest.raises(ConfigurationError, match="dot_product needs two embeddings or more"):
        DotProduct().width([3])


def test_sums_run_in_the_order_given():
    parts = [torch.tensor([[value]]) for value in (1e8, 1.0, -1e8)]
    assert Sum()(parts).item() == 0.0  # float32: 1e8 + 1 is 1e8
    assert Sum()([parts[0], parts[2], parts[1]]).item() == 1.0


@pytest.mark.parametrize(
    ("name", "fusion"),
    [("sum", Sum()), ("mean", Mean()), ("max", Max()), ("dot_product", DotProduct())],
)
def test_unequal_widths_are_refused_by_name(name, fusion):
    with pytest.raises(ConfigurationError, match=f"fusion {name} needs .* they are 3, 4 wide"):
        fusion.width([3, 4])


# Perceptrons


def test_the_layers_of_an_mlp():
    model = mlp(4, [8, 6, 2], activation="tanh", last="identity", dropout=0.5)
    kinds = [type(layer).__name__ for layer in model]
    assert kinds == ["Linear", "Tanh", "Dropout", "Linear", "Tanh", "Dropout", "Linear"]
    assert model(torch.zeros(3, 4)).shape == (3, 2)
    assert [type(layer) for layer in mlp(2, [3])] == [nn.Linear, nn.ReLU]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"widths": []}, "layers of width 1 or more"),
        ({"widths": [3, 0]}, "layers of width 1 or more, not .3, 0."),
        ({"inputs": 0}, "layers of width 1 or more"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"dropout": -0.1}, "dropout must be at least 0"),
        ({"dropout": float("nan")}, "dropout must be at least 0"),
        ({"activation": "swish"}, "activation 'swish' is unknown; there are identity, relu"),
        ({"last": "swish"}, "activation 'swish' is unknown"),
    ],
    ids=str,
)
def test_an_mlp_that_cannot_be(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        mlp(**({"inputs": 4, "widths": [3, 2]} | arguments))


# Sparsity


def test_the_penalty_is_the_gradient_of_an_l1_norm():
    generator = torch.Generator().manual_seed(0)
    x, weights = torch.randn(7, 3, generator=generator), torch.randn(7, 4, generator=generator)
    layer = nn.Linear(3, 4)
    z = layer(x)
    ((z * weights).sum() + 0.3 / 7 * z.abs().sum()).backward()
    expected = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    sparse = nn.Sequential(layer, Sparse(0.3))
    out = sparse(x)
    assert torch.equal(out, layer(x))
    (out * weights).sum().backward()
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    layer.zero_grad()
    sparse.eval()(x).backward(weights)
    torch.testing.assert_close(layer.weight.grad, weights.T @ x)


@pytest.mark.parametrize("strength", [-1.0, float("inf"), float("nan")])
def test_a_penalty_that_cannot_be(strength):
    with pytest.raises(ConfigurationError, match="strength of a penalty is 0 or more"):
        Sparse(strength)


# Learners


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam])
def test_a_learner_goes_on_from_its_state(optimiser):
    inputs = torch.randn(6, 8, 2, generator=torch.Generator().manual_seed(0))

    def learner(seed):
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        return Learner(module, partial(optimiser, lr=0.05))

    def learn(learner, batches):
        for batch in batches:
            learner(batch, training=True).square().mean().backward()
            learner.step()
        return [value.clone() for value in learner.module.state_dict().values()]

    one, other = learner(1), learner(2)
    learn(one, inputs[:3])
    other.load_state_dict(one.state_dict())
    for mine, expected in zip(learn(other, inputs[3:]), learn(one, inputs[3:]), strict=True):
        assert torch.equal(mine, expected)


def test_a_step_clears_what_it_used():
    learner = Learner(nn.Linear(1, 1, bias=False), partial(torch.optim.SGD, lr=1.0))
    nn.init.constant_(learner.module.weight, 5.0)
    for expected in (3.0, 1.0):
        learner(torch.tensor([[2.0]]), training=True).sum().backward()  # the derivative is 2
        learner.step()
        assert learner.module.weight.item() == expected
        assert learner.module.weight.grad is None


@pytest.mark.parametrize(
    "module",
    [nn.Identity(), nn.BatchNorm1d(2, affine=False), nn.Linear(2, 2).requires_grad_(False)],
)
def test_what_has_nothing_to_train_takes_no_step(module):
    learner, inputs = Learner(module, torch.optim.Adam), torch.ones(3, 2)
    before = parameter_vector(module)
    learner(inputs, training=True).sum().backward()
    learner.step()
    assert torch.equal(parameter_vector(module), before)
    assert inputs.grad is None
    assert not inputs.requires_grad


def test_evaluation_has_no_gradient_and_no_dropout():
    learner = Learner(nn.Sequential(nn.Linear(2, 50), nn.Dropout(0.5)), torch.optim.Adam)
    inputs = torch.ones(1, 2)
    output = learner(inputs, training=False)
    assert not output.requires_grad
    assert torch.equal(output, learner.module[0](inputs))
    assert learner(inputs, training=True).requires_grad
    assert learner.module.training


@pytest.mark.parametrize("frozen", [False, True])
def test_a_module_without_parameters_to_train_needs_no_optimiser(frozen):
    module = nn.Linear(2, 2) if frozen else nn.Flatten()
    module.requires_grad_(False)
    learner = Learner(module, torch.optim.Adam)
    assert learner.optimiser is None
    learner.step()
    other = Learner(module, torch.optim.Adam)
    other.load_state_dict(learner.state_dict())
    assert other(torch.ones(3, 2), training=True).shape == (3, 2)


def test_rows_are_taken_in_their_order_from_every_feature():
    columns = {"image": torch.arange(24.0).view(4, 2, 3), "age": torch.arange(4)}
    rows = np.array([3, 0, 3])
    taken = take(columns, rows)
    assert list(taken) == ["image", "age"]
    assert torch.equal(taken["image"], columns["image"][[3, 0, 3]])
    assert taken["age"].tolist() == [3, 0, 3]
    assert torch.equal(take(columns["age"], rows), taken["age"])
    assert take(columns["image"], rows[:0]).shape == (0, 2, 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (70, 19), (2, 4099)], ids=str)
def test_one_value_that_is_not_finite_is_found_wherever_it_is(shape, dtype):
    finite = torch.finfo(dtype)
    values = torch.linspace(-1, 1, math.prod(shape)).view(shape).to(dtype)
    values[0, 0], values[-1, -1] = finite.max, finite.min
    assert all_finite(values)
    assert all_finite(values[:0])
    for wrong in (math.nan, math.inf, -math.inf):
        for place in {0, 1, 7, 8, 15, 16, values.numel() // 2, values.numel() - 1}:
            if place < values.numel():
                strange = values.clone()
                strange.view(-1)[place] = wrong
                assert not all_finite(strange)
                assert not all_finite(strange.t())


def test_who_sends_what_nobody_awaits_is_named_before_memory_is_full():
    few = Limits(messages=3, bytes=1000)
    mailbox = boxed(message("a", 0), message("a", 1), message("a", 2), message("b", 0), limits=few)
    with pytest.raises(RemoteProtocolError, match=r"'a' has sent 'hub' 4 messages .* last is x of"):
        mailbox.put(message("a", 3), 0)
    mailbox = boxed(message("a", 0, round=5), limits=few)
    for sequence in range(1, 50):  # what was taken or closed is not counted
        mailbox.put(message("a", sequence, round=sequence), 0)
        mailbox.close(sequence) if sequence % 2 else mailbox.take(Expect("x", sequence, ("a",)))
    with pytest.raises(RemoteProtocolError, match=r"of 2,000 bytes that nobody has taken"):
        boxed(message("a", 0)._replace(body=bytes(2000)), limits=few)


def test_who_repeats_what_comes_too_late_is_named_before_memory_is_full():
    few = Limits(messages=3, of_a_round=2)
    mailbox = boxed(message("a", 0), limits=few)
    mailbox.close(5)
    for sequence in range(1, 3 + 2 * 5):
        assert not mailbox.put(message("a", sequence), 0)
        assert not mailbox.put(message("b", sequence), 0)
    with pytest.raises(
        RemoteProtocolError, match=r"^'a' has sent 'hub' 14 messages too late, more"
    ):
        mailbox.put(message("a", 13), 0)
    mailbox = boxed(limits=few)
    for round in range(3):  # what came in time, and was never taken
        for number in range(3):
            mailbox.put(message("a", 3 * round + number, round=round), 0)
        mailbox.close(round + 1)
    for number in range(3):
        mailbox.put(message("a", 9 + number, round=3), 0)
    with pytest.raises(RemoteProtocolError, match=r"12 messages too late, .* of 4 rounds "):
        mailbox.close(4)
