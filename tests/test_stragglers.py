"""Straggler policies end to end: who is late is told so, and what comes late does not live on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
import torch

from colonnade.channels import Channel, Network
from colonnade.codecs import TopK
from colonnade.config import parse_config
from colonnade.costs import Delayed, Modelled
from colonnade.delays import Constant
from colonnade.drivers import Processes, Replay, Simulate
from colonnade.effects import Expect, Since
from colonnade.errors import ConfigurationError
from colonnade.method import Method
from colonnade.methods import efvfl
from colonnade.models import Concat, Mean, Sum
from colonnade.privacy import FixedPoint
from colonnade.reports.figures import run_figures
from colonnade.stragglers import Deadline, Fastest, Missing, Wait, sufficing
from colonnade.testing.methods import TRAINING, small_federation
from colonnade.uplinks import Masked
from colonnade.wire import Purpose

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


@pytest.mark.parametrize("policy", [Deadline(0.1), Deadline(0.1, "stale")], ids=str)
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


@pytest.mark.parametrize("policy", [Deadline(0.1), Deadline(0.1, "stale"), Wait()], ids=str)
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
    absences = Deadline(1.0, "stale").absences(
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


# What is told


def test_the_history_tells_who_was_missing_and_a_picture_shows_it(tmp_path):
    """Rounds since the evaluation before: 4, 4 and the rest."""
    training = replace(TRAINING, evaluate_every=4)
    method = Method("late", Mean(), stragglers=Deadline(0.1))
    run = train(method, late(5.0), training, out=tmp_path / "run")
    missing = run.history.select(pl.col("^missing_.*$")).to_dict(as_series=False)
    assert set(missing) == {"missing_party_0", "missing_party_1", "missing_party_2"}
    skipped = [e for e in run.ledger if e.kind == "skipped"]
    assert sum(missing["missing_party_1"]) == len(skipped) > 0
    assert not any(missing["missing_party_0"] + missing["missing_party_2"])
    assert "missing" in [figure.key for figure in run_figures(run)]
    waited = train(Method("wait", Mean()), late(0.0), training)
    assert not [name for name in waited.history.columns if name.startswith("missing")]
    assert "missing" not in [figure.key for figure in run_figures(waited)]


def test_who_is_missing_is_counted_from_report_to_report():
    missing = Missing(["bank", "shop"])
    missing.note(["shop"])
    missing.note([])
    again = Missing(["bank", "shop"])
    again.load_state_dict(missing.state_dict())
    assert missing.report() == again.report() == {"missing_bank": 2, "missing_shop": 1}
    assert missing.report() == {"missing_bank": 0, "missing_shop": 0}
    nobody = Missing([])
    nobody.note([])
    assert nobody.report() == {}


def test_stale_embeddings_and_zeros_are_counted():
    """party_1 is late always: nothing of it is ever seen, and that is said."""
    run = train(Method("late", Sum(), stragglers=Deadline(0.1, "stale")), late(5.0))
    counted = run.history.select("stale_embeddings", "embeddings_never_seen").sum().row(0)
    rows = run.summary["rounds"] and sum(len(b) for b in batches(run))
    assert counted == (0, rows)
    # From the second epoch on all rows were seen, where it is there in the first.
    absences = Deadline(0.1, "stale").absences(layout())
    everybody = {name: torch.ones(4, 4) for name in ("party_0", "party_1", "party_2")}
    first, fewer = np.arange(4), {name: everybody[name] for name in ("party_0", "party_2")}
    absences.filled(everybody, first)
    absences.filled(fewer, np.arange(2, 6))
    assert absences.report() == {"stale_embeddings": 2, "embeddings_never_seen": 2}
    assert absences.report() == {"stale_embeddings": 0, "embeddings_never_seen": 0}


def batches(run):
    """The rows of each round, from the sizes of what party_0 sent: 4 bytes for each of 4."""
    return [
        range(e.body_bytes // 16)
        for e in run.ledger
        if (e.sender, e.kind, e.purpose) == ("party_0", "embedding", Purpose.TRAINING)
    ]


def layout():
    method = Method("x", Concat())
    return small_federation(method).agreement(method, TRAINING).layout


# A computer that is slow


def busy(seconds):
    """Work that takes one party so long in every round, and the others nothing."""
    return Simulate(
        Network(Channel(1e9, 0.01)),
        Delayed(Modelled(otherwise=0.001), {"party_1": Constant(seconds)}),
    )


def test_a_slow_computer_passes_over_the_rounds_that_went_on_without_it():
    method = Method("late", Mean(), stragglers=Deadline(0.1))
    run = train(method, busy(1.0))
    sent = [e.round for e in run.ledger if e.sender == "party_1" and e.purpose is Purpose.TRAINING]
    rounds = run.summary["rounds"]
    assert 0 < len(sent) < rounds / 2
    skipped = {e.round for e in run.ledger if e.kind == "skipped"}
    assert set(range(rounds)) - skipped <= set(sent)
    # It takes as long as the deadline allows, but for the last evaluation.
    assert run.summary["seconds_training"] < 0.2 * rounds
    replayed = train(method, Replay(run.record.trace))
    assert same(bits(run), bits(replayed))


@pytest.mark.parametrize("policy", [Fastest(2), Fastest(2, "stale")], ids=str)
def test_the_fastest_are_enough(policy):
    run = train(Method("fast", Mean(), stragglers=policy), busy(1.0))
    skipped = [e.receiver for e in run.ledger if e.kind == "skipped"]
    assert set(skipped) == {"party_1"}
    assert len(skipped) == run.summary["rounds"]


# Settings


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (partial(Deadline, -1.0), "a deadline"),
        (partial(Deadline, float("nan")), "a deadline"),
        (partial(Deadline, 1.0, "zero"), "absent is 'zero', but who is late is 'left_out' or 'sta"),
        (partial(Fastest, 0), "count is 0"),
        (partial(Fastest, 2.5), "count is 2.5"),
        (partial(Fastest, True), "count is True"),
        (partial(Fastest, 2, None), "absent is None"),
        (partial(Method, "x", Concat(), stragglers=Fastest(2)), "needs one of each party"),
        (
            partial(Method, "x", Mean(), efvfl(TopK(0.1)).uplink, stragglers=Fastest(2)),
            "every message in order",
        ),
        (
            partial(Method, "x", Sum(), Masked(FixedPoint()), stragglers=Fastest(2, "stale")),
            "Fastest puts an earlier embedding in place",
        ),
    ],
)
def test_policies_that_cannot_be_are_refused(make, why):
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_a_concatenation_takes_stale_embeddings():
    method = Method("stale", Concat(), stragglers=Fastest(2, "stale"))
    run = train(method, late(5.0))
    assert run.summary["completed"]


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ({"stragglers": "deadline", "seconds": "500 ms"}, Deadline(0.5)),
        ({"stragglers": "deadline", "seconds": 2, "absent": "stale"}, Deadline(2.0, "stale")),
        ({"stragglers": "fastest", "count": 3}, Fastest(3)),
        ("wait", Wait()),
    ],
)
def test_policies_are_chosen_by_name(written, policy):
    method = {"name": "composed", "fusion": "mean", "stragglers": written}
    assert parse_config({"method": method}).method.build().stragglers == policy
