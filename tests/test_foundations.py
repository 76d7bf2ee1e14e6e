"""Small exact laws of the lower floors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from colonnade.batches import BatchPlan, pieces
from colonnade.channels import Channel, Network, nanoseconds
from colonnade.codecs import Scalar
from colonnade.costs import Measured, Modelled
from colonnade.drivers.mailbox import Mailbox
from colonnade.effects import Expect
from colonnade.errors import ConfigurationError
from colonnade.ledger import Entry, Ledger
from colonnade.links import Delivery, Direct
from colonnade.models import Concat, Learner, Max, Mean, Sum, mlp, take
from colonnade.streams import StreamKey, work_seed
from colonnade.wire import Message, Purpose

# Streams


def test_every_field_of_a_key_tells_streams_apart():
    base = StreamKey(1, "bank", "training/embedding", 2, 3)
    others = [
        StreamKey(2, "bank", "training/embedding", 2, 3),
        StreamKey(1, "shop", "training/embedding", 2, 3),
        StreamKey(1, "bank", "training/derivative", 2, 3),
        StreamKey(1, "bank", "training/embedding", 3, 2),
        StreamKey(1, "bank", "training/embedding", 2, 4),
        StreamKey(1, "banktraining/", "embedding", 2, 3),
        StreamKey(-1, "bank", "training/embedding", 2, 3),
    ]
    assert len({key.words() for key in [base, *others]}) == 1 + len(others)


def test_words_are_frozen_across_releases():
    # blake2b-128, person "colonnade stream", of seed, round and part (int64 little-endian each),
    # origin, a zero byte, purpose
    words = (2875474379033044530, 9246533778499545769)
    assert StreamKey(7, "bank", "training/embedding", 3, 1).words() == words


def test_work_seeds_differ_between_pieces_of_work():
    seeds = {
        work_seed(seed, role, "TRAINING", round, step)
        for seed in (0, 1)
        for role in ("a", "b")
        for round in range(50)
        for step in range(5)
    }
    assert len(seeds) == 2 * 2 * 50 * 5
    assert all(0 <= seed < 2**63 for seed in seeds)


# Batches


@settings(deadline=None)  # the first permutation compiles its kernel
@given(st.integers(1, 60), st.integers(1, 70), st.integers(1, 3), st.integers(-5, 5))
def test_an_epoch_is_every_row_once_whatever_was_asked_before(rows, size, epochs, seed):
    table = np.arange(100, 100 + rows)
    plan = BatchPlan(table, size, epochs, seed)
    assert plan.rounds == epochs * -(-rows // size)
    forwards = [plan.rows(round).tolist() for round in range(plan.rounds)]
    again = BatchPlan(table, size, epochs, seed)
    backwards = [again.rows(round).tolist() for round in reversed(range(plan.rounds))]
    assert forwards == backwards[::-1]
    for epoch in range(epochs):
        batches = forwards[epoch * plan.rounds_per_epoch : (epoch + 1) * plan.rounds_per_epoch]
        assert sorted(row for batch in batches for row in batch) == table.tolist()
        assert all(len(batch) == min(size, rows) for batch in batches[:-1])


def test_epochs_and_seeds_shuffle_differently():
    orders = {
        tuple(BatchPlan(np.arange(50), 50, 2, seed).rows(epoch).tolist())
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(orders) == 4


@pytest.mark.parametrize(("rows", "size", "epochs"), [([], 1, 1), ([1], 0, 1), ([1], 1, 0)])
def test_plans_that_cannot_be(rows, size, epochs):
    with pytest.raises(ConfigurationError):
        BatchPlan(np.array(rows, dtype=np.int64), size, epochs, 0)


@given(st.integers(0, 40), st.integers(1, 15))
def test_pieces_are_the_rows_in_order(count, size):
    rows = np.arange(count)
    cut = pieces(rows, size)
    assert [row for piece in cut for row in piece] == rows.tolist()
    assert all(0 < len(piece) <= size for piece in cut)


# Channels and costs


def test_transmission_rounds_up_to_whole_nanoseconds():
    assert Channel(bandwidth=8e9).transmission_nanoseconds(3) == 3
    assert Channel(bandwidth=3e9).transmission_nanoseconds(1) == 3  # 2.67 ns
    assert Channel().transmission_nanoseconds(10**9) == 0
    assert Channel(latency=0.0105).latency_nanoseconds == 10_500_000
    assert nanoseconds(1e-10) == 0


def test_a_pair_may_differ_in_one_direction():
    network = Network(Channel(1e6), {("a", "b"): Channel(1e3)})
    assert network.channel("a", "b").bandwidth == 1e3
    assert network.channel("b", "a").bandwidth == 1e6


@pytest.mark.parametrize(
    "make",
    [
        partial(Channel, bandwidth=0),
        partial(Channel, bandwidth=-1),
        partial(Channel, bandwidth=float("nan")),
        partial(Channel, latency=-1),
        partial(Channel, latency=float("inf")),
        partial(Network, queue=0),
        partial(Measured, slowdown={"a": -1}),
        partial(Modelled, {"forward": -1}),
        partial(Modelled, {}, {"forward": float("nan")}),
        partial(Modelled, slowdown={"a": float("inf")}),
    ],
)
def test_networks_and_costs_that_cannot_be(make):
    with pytest.raises(ConfigurationError):
        make()


def test_costs_by_hand():
    costs = Modelled({"a": 1.0}, {"a": 0.5, "b": 0.25}, {"slow": 3.0})
    assert costs.nanoseconds("fast", "a", 4, 17) == 3_000_000_000
    assert costs.nanoseconds("slow", "b", 4, 17) == 3_000_000_000
    assert costs.nanoseconds("slow", "c", 4, 17) == 0
    assert Measured({"slow": 2.5}).nanoseconds("slow", "a", 4, 10) == 25
    assert Measured().nanoseconds("any", "a", 4, 10) == 10


# Ledger


def entry(sender, sequence, size=10, purpose=Purpose.TRAINING, time=5):
    return Entry(sender, "z", "kind", purpose, 0, sequence, size, size + 17, time)


def test_a_ledger_is_read_in_order_of_sender_and_sequence():
    ledger = Ledger([entry("b", 1), entry("a", 1), entry("b", 0), entry("a", 0)])
    assert [(e.sender, e.sequence) for e in ledger] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert ledger.without_time()[0].nanoseconds is None
    assert [(e.sender, e.sequence) for e in ledger.before({"a": 2, "b": 1})] == [
        ("a", 0), ("a", 1), ("b", 0),
    ]  # fmt: skip


def test_a_ledger_adds_up_what_is_selected():
    ledger = Ledger([entry("a", 0, 10), entry("a", 1, 5, Purpose.EVALUATION)])
    assert ledger.bytes() == 15
    assert ledger.bytes(lambda e: e.purpose is Purpose.EVALUATION) == 5
    assert ledger.framed_bytes() == 15 + 34


def test_a_ledger_comes_back_from_its_frame(tmp_path):
    ledger = Ledger([entry("a", 0), entry("b", 0, purpose=Purpose.SETUP, time=None)])
    again = Ledger.from_frame(ledger.frame())
    assert list(again) == list(ledger)
    assert all(isinstance(e.purpose, Purpose) for e in again)
    ledger.write_csv(tmp_path / "ledger.csv")
    lines = (tmp_path / "ledger.csv").read_text().splitlines()
    assert lines[0] == (
        "sender,receiver,kind,purpose,round,sequence,body_bytes,framed_bytes,seconds"
    )
    assert lines[1] == "a,z,kind,training,0,0,10,27,5e-9"
    assert lines[2] == "b,z,kind,setup,0,0,10,27,"


# Mailbox


def message(sender, sequence, kind="x", round=0):
    return Message(sender, "me", kind, Purpose.TRAINING, round, sequence, b"")


def test_a_mailbox_gives_the_oldest_of_a_kind_and_keeps_the_rest():
    box = Mailbox()
    for sequence, kind in enumerate(["x", "y", "x", "x"]):
        box.put(message("a", sequence, kind), sequence)
    expect = Expect("x", 0, ("a",))
    assert [box.take(expect).only.sequence for _ in range(3)] == [0, 2, 3]
    assert not box.holds(expect, "a")
    assert box.take(expect).missing == ("a",)
    assert [m.kind for m, _ in box] == ["y"]


def test_a_mailbox_gives_exactly_what_a_trace_names():
    box = Mailbox()
    for sequence in range(3):
        box.put(message("a", sequence), 0)
    expect = Expect("x", 0, ("a", "b"))
    assert box.take_exactly([("a", 1), ("b", 0)], expect) is None
    taken = box.take_exactly([("a", 1)], expect)
    assert taken is not None
    assert (taken.only.sequence, taken.missing) == (1, ("b",))
    assert [m.sequence for m, _ in box] == [0, 2]


# Links and models


def test_a_direct_link_is_its_codec():
    link, key = Direct(Scalar(4)), StreamKey(0, "a", "x", 0)
    x, rows = torch.randn(6, 3), np.arange(6)
    body = link.sender(100, 3).send(x, rows, key)
    assert body == Scalar(4).encode(x, key)
    received = link.receiver(100, 3).receive(body, rows, key)
    assert torch.equal(received, Scalar(4).decode(body, (6, 3), key))
    assert link.delivery is Delivery.ANY
    assert len(body) <= link.bytes_at_most(6, 3)


def test_derivatives_of_fusions():
    def derivatives(fusion):
        leaves = [torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, 5.0]])]
        for leaf in leaves:
            leaf.requires_grad_()
        fusion(leaves).sum().backward()
        return [leaf.grad.tolist() for leaf in leaves]

    assert derivatives(Concat()) == derivatives(Sum()) == [[[1.0, 1.0]], [[1.0, 1.0]]]
    assert derivatives(Mean()) == [[[0.5, 0.5]], [[0.5, 0.5]]]
    assert derivatives(Max()) == [[[0.0, 0.5]], [[1.0, 0.5]]]  # a tie is shared


def test_sums_run_in_the_order_given():
    big, small = torch.tensor([[2.0**24]]), torch.tensor([[1.0]])
    assert Sum()([big, small, small, -big]).item() == 0.0
    assert Sum()([small, small, big, -big]).item() == 2.0


@pytest.mark.parametrize("fusion", [Sum(), Mean(), Max()])
def test_elementwise_fusions_want_equal_widths(fusion):
    assert fusion.width([3, 3]) == 3
    with pytest.raises(ConfigurationError, match="3, 4 wide"):
        fusion.width([3, 4])


@pytest.mark.parametrize(
    "make",
    [
        partial(mlp, 3, []),
        partial(mlp, 0, [2]),
        partial(mlp, 3, [0]),
        partial(mlp, 3, [2], "swish"),
        partial(mlp, 3, [2], dropout=1.0),
    ],
)
def test_perceptrons_that_cannot_be(make):
    with pytest.raises(ConfigurationError):
        make()


def test_features_may_be_several_columns_by_name():
    rows = np.array([2, 0])
    taken = take({"age": torch.arange(3), "sex": torch.tensor([5, 6, 7])}, rows)
    assert taken["age"].tolist() == [2, 0]
    assert taken["sex"].tolist() == [7, 5]


def test_a_learner_goes_on_from_its_state():
    def trained(learner, steps):
        for step in range(steps):
            torch.manual_seed(step)
            learner(torch.randn(4, 3), training=True).square().sum().backward()
            learner.step()
        return learner

    def fresh():
        torch.manual_seed(0)
        return Learner(nn.Linear(3, 2), partial(torch.optim.Adam, lr=0.1))

    first = trained(fresh(), 5)
    again = fresh()
    again.load_state_dict(first.state_dict())
    for one, other in zip(
        trained(first, 3).module.parameters(), trained(again, 3).module.parameters(), strict=True
    ):
        assert torch.equal(one, other)
    assert not first(torch.randn(2, 3), training=False).requires_grad
    assert Learner(nn.ReLU(), partial(torch.optim.SGD, lr=0.1)).optimiser is None
