"""Straggler policies end to end: who is late is told so, and what comes late does not live on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from colonnade.channels import Channel, Network
from colonnade.costs import Modelled
from colonnade.drivers import Processes, Replay, Simulate
from colonnade.effects import Expect, Since
from colonnade.method import Method
from colonnade.models import Concat, Mean, Sum
from colonnade.stragglers import Wait, sufficing
from colonnade.testing.methods import TRAINING, small_federation
from colonnade.wire import Purpose
from toy_deadline import Deadline, Fastest, Stale

pytestmark = pytest.mark.usefixtures("no_pictures")

FREE = Modelled(otherwise=0.0)
SLOW = ("party_1", "holder")


def late(seconds):
    """A network in which one party's messages take so much longer than the others'."""
    return Simulate(Network(Channel(1e9, 0.01), {SLOW: Channel(1e9, 0.01 + seconds)}), FREE)


# An evaluation waits for everybody, and who was late is then on time again: so at the end alone.
UNWATCHED = replace(TRAINING, evaluate_every=100)


def train(method, driver, training=UNWATCHED, **settings):
    return small_federation(method).train(method, training, driver, report=False, **settings)


def state(run, name, part="bottom"):
    return [value.clone() for value in run.models[name][part].state_dict().values()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def bits(run):
    parts = [(name, part) for name, parts in run.models.items() for part in parts]
    return [value for name, part in parts for value in state(run, name, part)]


@pytest.mark.parametrize("policy", [Deadline(0.1), Stale(0.1)], ids=str)
def test_who_is_always_late_takes_no_step(policy):
    method = Method("late", Sum(), stragglers=policy)
    run = train(method, late(5.0))
    start = list(small_federation(method).parties[1].bottom.state_dict().values())
    assert same(state(run, "party_1"), start)
    assert not same(state(run, "party_0"), state(train(Method("w", Sum()), late(0)), "party_0"))
    kinds = {(e.receiver, e.kind) for e in run.ledger if e.sender == "holder"}
    assert kinds == {("party_0", "derivative"), ("party_1", "skipped"), ("party_2", "derivative")}
    skipped = [e for e in run.ledger if e.kind == "skipped"]
    assert len(skipped) == run.summary["rounds"]
    assert {e.body_bytes for e in skipped} == {0}


def test_a_sum_without_the_late_is_the_sum_of_the_others():
    """Two of three parties under a deadline train as two parties alone do."""
    federation = small_federation(Method("x", Sum()))
    run = train(Method("late", Sum(), stragglers=Deadline(0.1)), late(5.0))
    alone = type(federation)(
        [federation.parties[0], federation.parties[2]],
        federation.label_holder,
        federation.train_rows,
        federation.test_rows,
        None,
        federation.validation_rows,
    ).train(Method("alone", Sum()), UNWATCHED, Simulate(costs=FREE))
    for name in ("party_0", "party_2", "holder"):
        assert same(state(run, name), state(alone, name))
    assert same(state(run, "holder", "top"), state(alone, "holder", "top"))


def test_time_does_not_wait_for_the_late():
    waiting = train(Method("wait", Mean()), late(5.0)).summary["seconds_training"]
    going_on = train(Method("late", Mean(), stragglers=Deadline(0.1)), late(5.0))
    rounds = going_on.summary["rounds"]
    assert waiting > 5.0 * rounds
    assert going_on.summary["seconds_training"] < 0.2 * rounds


def test_what_comes_late_is_discarded_and_told():
    run = train(Method("late", Mean(), stragglers=Deadline(0.1)), late(0.3))
    discarded = [e for e in run.ledger if e.discarded]
    assert discarded
    assert {(e.sender, e.kind) for e in discarded} == {("party_1", "embedding")}
    assert run.summary["messages_discarded"] == len(discarded)
    assert any("messages that party_1 sent" in w for w in run.summary["warnings"])
    assert run.summary["bytes_discarded"] == sum(e.body_bytes for e in discarded)


def test_sometimes_late_is_sometimes_missing():
    """A party as late as the deadline allows is there; one a little later is not."""
    method = Method("late", Mean(), stragglers=Deadline(0.1))
    assert not [e for e in train(method, late(0.0999)).ledger if e.kind == "skipped"]
    assert [e for e in train(method, late(0.1001)).ledger if e.kind == "skipped"]


@pytest.mark.parametrize("policy", [Deadline(0.1), Stale(0.1), Wait()], ids=str)
def test_lateness_is_replayed_and_resumed_to_the_bit(policy, tmp_path):
    method = Method("late", Mean(), stragglers=policy)
    whole = train(method, late(0.105))
    replayed = train(method, Replay(whole.record.trace))
    assert same(bits(whole), bits(replayed))
    assert whole.ledger.without_time() == replayed.ledger.without_time()
    for stop in (1, 3, 7):
        out = tmp_path / str(stop)
        train(method, late(0.105), out=out, stop_before=stop)
        resumed = train(method, late(0.105), out=out, resume=True)
        assert same(bits(whole), bits(resumed))
        assert whole.ledger.without_time() == resumed.ledger.without_time()


def test_an_evaluation_is_of_the_whole_model_whoever_was_late():
    """Pieces of equal size, each late: none is taken for another, and all parties are in."""
    method = Method("late", Mean(), stragglers=Deadline(0.1))
    training = replace(TRAINING, evaluation_rows=5, evaluate_every=4)
    for seconds in (0.105, 0.15, 5.0):
        run = train(method, late(seconds), training)
        federation = small_federation(method)
        rows = torch.from_numpy(federation.test_rows)
        members = [*federation.parties, federation.label_holder.as_party()]
        scores = run.predict({m.name: m.features[rows] for m in members}).scores
        labels = federation.label_holder.labels[rows]
        true = float(torch.nn.functional.cross_entropy(scores, labels))
        assert run.summary["test"]["log_loss"] == pytest.approx(true, abs=1e-6)
        assert not [e for e in run.ledger if e.discarded and e.purpose is not Purpose.TRAINING]


def test_an_uplink_says_how_many_it_needs_at_least():
    everything = Expect("embedding", 3, ("a", "b", "c", "d"))
    assert sufficing(Wait(), everything, 3) == everything
    assert sufficing(Fastest(2), everything, 3) == everything._replace(quorum=3)
    assert sufficing(Fastest(4), everything, 3) == everything._replace(quorum=4)
    assert sufficing(Deadline(0.5), everything, 3) == everything._replace(
        quorum=3, within=0.5, since=Since.FIRST_ARRIVAL
    )
    assert sufficing(Fastest(1), everything, 9) == everything._replace(quorum=4)


def test_a_stand_in_is_the_last_that_was_seen():
    absences = Stale(1.0).absences(
        small_federation(Method("x", Concat())).agreement(Method("x", Concat()), TRAINING).layout
    )
    rows = torch.tensor([2, 5]).numpy()
    arrived = {name: torch.full((2, 4), value) for value, name in enumerate("abc", 1)}
    arrived = dict(zip(("party_0", "party_1", "party_2"), arrived.values(), strict=True))
    arrived = {name: value.float() for name, value in arrived.items()}
    assert list(absences.filled(arrived, rows)) == ["party_0", "party_1", "party_2"]
    fewer = {name: value * 10 for name, value in arrived.items() if name != "party_1"}
    filled = absences.filled(fewer, rows)
    assert torch.equal(filled["party_1"], arrived["party_1"])
    assert torch.equal(filled["party_2"], fewer["party_2"])


def test_a_deadline_in_real_time():
    method = Method("late", Mean(), stragglers=Deadline(60.0))
    assert same(bits(train(method, Processes())), bits(train(method, late(0))))
