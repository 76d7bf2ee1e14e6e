"""The plan is the run: bytes to the last one, time on the same clock, before any training."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from colonnade import drivers
from colonnade.channels import Channel, Network
from colonnade.codecs import ByRound, Float, Scalar
from colonnade.codecs.codec import Bounded
from colonnade.costs import CostModel, Delayed, Measured, Modelled, uses_measured
from colonnade.delays import Constant, Exponential
from colonnade.drivers import Processes, Simulate
from colonnade.effects import Work
from colonnade.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from colonnade.federation import Federation
from colonnade.links import LearnedEntropy
from colonnade.local_updates import Consecutive, Proximal, Replayed
from colonnade.method import Method
from colonnade.methods import celu, cvfl, fedbcd, svfl
from colonnade.models import Mean
from colonnade.organisations import LabelHolder, Party
from colonnade.planning import plan
from colonnade.planning.calibrate import _Calibrated
from colonnade.planning.stretch import _bytes_of, _grown, stretched, traffic
from colonnade.testing.methods import small_federation
from colonnade.training import EarlyStopping, Training
from colonnade.uplinks import Plain
from colonnade.wire import Purpose, encode_header

ROWS = 230
COSTS = Modelled(
    {"forward": 0.002, "top": 0.001},
    {"encode": 1e-6, "backward": 2e-6},
    slowdown={"shop": 3},
    otherwise=0.0005,
)
SLOW = Simulate(Network(Channel(1e6, 0.01), {("shop", "insurer"): Channel(1e5, 0.05)}), COSTS)


def problem(validation=False, holder_has_features=False):
    torch.manual_seed(1)  # the models, too, are the same whatever ran before
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 9, generator=generator)
    labels = torch.randint(3, (ROWS,), generator=generator)
    own = {"features": x[:, 6:], "bottom": nn.Linear(3, 4)} if holder_has_features else {}
    return Federation(
        [Party("bank", x[:, :3], nn.Linear(3, 4)), Party("shop", x[:, 3:6], nn.Linear(3, 4))],
        LabelHolder("insurer", labels, nn.Linear(12 if own else 8, 3), **own),
        train_rows=range(150),
        validation_rows=range(150, 190) if validation else None,
        test_rows=range(190, ROWS),
    )


def assert_planned(federation, method, training, driver=SLOW):
    costs = plan(federation, method, training, driver)
    run = federation.train(method, training, driver)
    keys = ["sender", "receiver", "kind", "purpose"]
    assert costs.exact
    assert costs.traffic.sort(keys).equals(traffic(run.ledger).sort(keys))
    for name in ("bytes_up", "bytes_down", "bytes_evaluation", "bytes_framed", "rounds"):
        assert getattr(costs, name) == run.summary[name], name
    assert costs.seconds == pytest.approx(run.summary["seconds_virtual"], rel=0.02)
    return costs, run


METHODS = {
    "float32": svfl(),
    "bf16, mean": svfl(Float("bf16"), Float(16), Mean()),
    "scalar": svfl(Scalar(3), Scalar(5, -1, 1)),
    "schedule": svfl(ByRound((Scalar(2), Scalar(5, -1, 1), Float(16)), (0, 7, 103))),
    "relay": cvfl(Scalar(4), 3, labels="shared"),
    "relay, mean": fedbcd(2, Mean(), "shared"),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("validation", [False, True])
def test_bytes_are_those_of_the_run_and_time_too(method, validation):
    # 29 epochs of 5 rounds: round numbers pass 127, message numbers 255, so envelopes grow.
    training = Training(epochs=29, batch_size=32, evaluation_rows=10)
    federation = problem(validation)
    if method.fusion == Mean():
        holder = replace(federation.label_holder, top=nn.Linear(4, 3))
        federation = Federation(
            federation.parties,
            holder,
            range(150),
            range(190, ROWS),
            validation_rows=range(150, 190),
        )
    assert_planned(federation, method, training)


@pytest.mark.parametrize("epochs", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("evaluate_every", [None, 1, 3, 7])
def test_short_runs_and_odd_evaluations(epochs, evaluate_every):
    training = Training(epochs=epochs, batch_size=40, evaluate_every=evaluate_every)
    assert_planned(problem(holder_has_features=True), svfl(Scalar(4)), training)


def test_the_clock_is_exact_where_an_epoch_repeats_itself():
    training = Training(epochs=7, batch_size=30)  # no shorter batch at the end of an epoch
    costs, run = assert_planned(problem(), svfl(), training)
    assert costs.seconds == pytest.approx(run.summary["seconds_virtual"], rel=1e-3)


def test_delays_that_are_drawn_are_those_of_the_run():
    free = Modelled(otherwise=0.001)
    jittery = Network(Channel(latency=0.01, jitter=0.5))
    training = Training(epochs=8, batch_size=30)
    names = [party.name for party in problem().parties]
    late = Delayed(free, {names[0]: Exponential(0.5)})
    for driver in (Simulate(costs=late), Simulate(jittery, free)):
        costs, run = assert_planned(problem(), svfl(), training, driver)
        assert costs.seconds == pytest.approx(run.summary["seconds_virtual"], rel=1e-6)
        long = plan(problem(), svfl(), Training(epochs=3000, batch_size=30), driver)
        assert long.clock["drawn"] == "of 30 epochs"
        assert 300 < long.seconds / costs.seconds < 450


def test_what_takes_no_time_takes_none_in_a_plan():
    free = frozenset({Purpose.EVALUATION})
    driver = Simulate(Network(Channel(latency=0.1)), Modelled(otherwise=0.001), free)
    training = Training(epochs=7, batch_size=30, evaluate_every=1)
    costs, run = assert_planned(problem(validation=True), svfl(), training, driver)
    assert costs.seconds == pytest.approx(run.summary["seconds_virtual"], rel=1e-3)


def test_nothing_of_the_federation_is_changed_or_reported():
    federation = problem()
    before = [p.detach().clone() for p in federation.parties[0].bottom.parameters()]
    plan(federation, svfl(), Training(epochs=5))
    for value, expected in zip(federation.parties[0].bottom.parameters(), before, strict=True):
        assert torch.equal(value, expected)
        assert value.grad is None


def test_early_stopping_makes_it_a_bound():
    federation = problem(validation=True)
    training = Training(epochs=30, batch_size=32, early_stopping=EarlyStopping(patience=2))
    costs = plan(federation, svfl(), training, SLOW)
    assert not costs.exact
    assert costs.why_bound == ("training may stop early",)
    run = federation.train(svfl(), training, SLOW)
    assert run.summary["stopped_early"]
    for name in ("bytes_up", "bytes_down", "bytes_evaluation", "bytes_framed"):
        assert run.summary[name] < getattr(costs, name)
    # Never stopping for good, the verdicts are part of an exact plan.
    patient = replace(training, early_stopping=EarlyStopping(patience=None))
    costs, run = assert_planned(federation, svfl(), patient)
    verdicts = costs.traffic.filter(kind="verdict")
    assert verdicts["messages"].to_list() == [30, 30]
    assert verdicts["body_bytes"].to_list() == [30, 30]


@dataclass(frozen=True)
class Signs:
    """A byte for a message of positive sum, else two: its size depends on the values."""

    def law(self, shape):
        return Bounded(relative=10.0, absolute=10.0)

    @property
    def fixed_size(self):
        return False

    def encode(self, x: Tensor, key, saliency=None) -> bytes:
        return b"+" if x.sum() > 0 else b"--"

    def decode(self, body: bytes, shape, key) -> Tensor:
        if body not in (b"+", b"--"):
            raise RemoteProtocolError("not a sign")
        return torch.full(shape, 1.0 if body == b"+" else -1.0)

    def at(self, round):
        return self

    def bytes_at_most(self, shape):
        return 2


def test_sizes_that_depend_on_values_are_bounded():
    federation, training = problem(), Training(epochs=5, batch_size=30)
    costs = plan(federation, svfl(Signs()), training, SLOW)
    assert not costs.exact
    assert costs.why_bound == ("the size of a message depends on the values in it",)
    assert costs.bytes_up == 2 * 2 * 25
    run = federation.train(svfl(Signs()), training, SLOW)
    assert run.summary["bytes_up"] < costs.bytes_up
    assert run.summary["bytes_down"] == costs.bytes_down


def test_measured_compute_is_calibrated_with_a_few_real_rounds():
    costs = plan(problem(), svfl(), Training(epochs=3, batch_size=32), Simulate())
    assert costs.clock == {"network": "modelled", "compute": "calibrated"}
    assert costs.seconds > 0
    assert plan(problem(), driver=Processes()).clock["compute"] == "calibrated"
    assert plan(problem(), driver=SLOW).clock["compute"] == "modelled"


class Foreign(CostModel):
    """A cost model that somebody else might write, which says no more than it must."""

    label = "theirs"

    def nanoseconds(self, role, work, measured):
        return 20 * Measured().nanoseconds(role, work, measured)


@pytest.mark.parametrize(
    ("costs", "label"),
    [
        (Foreign(), "theirs, calibrated"),
        (Measured({"insurer": 20, "bank": 20, "shop": 20}), "calibrated"),
        (Delayed(Foreign(), {"bank": Constant(0.0)}), "theirs, delayed, calibrated"),
        (
            Delayed(
                Delayed(Measured({"insurer": 20}), {"bank": Constant(0.0)}), {"shop": Constant(0)}
            ),
            "calibrated, delayed, delayed",
        ),
    ],
    ids=["theirs", "measured", "theirs, delayed", "delayed twice"],
)
@pytest.mark.usefixtures("slow_top")
def test_a_plan_charges_what_the_costs_of_the_run_make_of_what_is_measured(costs, label):
    federation, training = problem(), Training(epochs=2, batch_size=50)
    driver = Simulate(costs=costs)
    planned = plan(federation, svfl(), training, driver)
    assert planned.clock["compute"] == label
    ran = federation.train(svfl(), training, driver).summary["seconds_virtual"]
    assert planned.seconds == pytest.approx(ran)


def test_a_model_of_costs_that_says_nothing_is_taken_to_use_measurements():
    assert uses_measured(Foreign())
    assert uses_measured(object())
    assert not uses_measured(Delayed(Modelled(otherwise=0.0), {}))


@pytest.fixture
def slow_top(monkeypatch):
    """Let work be measured as long as is said here, and most of all at the label holder."""
    performed = drivers.driver._performed

    def measured(work, *rest):
        milliseconds = 20 if work.kind == "top" else 1
        return performed(work, *rest)[0], milliseconds * 10**6 + work.rows

    monkeypatch.setattr(drivers.driver, "_performed", measured)


@pytest.mark.usefixtures("slow_top")
def test_steps_that_fill_the_time_of_messages_are_calibrated_where_messages_take_time():
    """Without a network the label holder, the slowest, never waits, and takes no such step."""
    federation, training = problem(), Training(epochs=2, batch_size=50)
    wide = Simulate(Network.preset("wan-300mbit", "insurer"))
    planned = plan(federation, celu(), training, wide)
    run = federation.train(celu(), training, wide)
    assert run.summary["local_updates"]["insurer"] > 0
    assert planned.seconds == pytest.approx(run.summary["seconds_virtual"])


def test_work_that_no_round_of_calibration_did_costs_what_the_nearest_does():
    means = {
        ("insurer", "top", 50): 4e6,
        ("insurer", "update", 50): 1e6,
        ("insurer", "encode", 50): 9e6,
        ("bank", "forward", 50): 3e6,
        ("bank", "forward", 25): 2e6,
        ("bank", "backward", 50): 5e6,
    }
    costs = _Calibrated(Measured({"bank": 2.0}), means)

    def charged(role, kind, rows):
        return costs.nanoseconds(role, Work(kind, bool, round=0, rows=rows), measured=7)

    assert charged("insurer", "top", 100) == 8e6  # as ever: scaled
    assert charged("insurer", "local_step", 50) == 5e6
    assert charged("insurer", "local_step", 25) == 2.5e6
    assert charged("bank", "local_step", 50) == 2 * 8e6
    assert charged("bank", "a kind of somebody else's", 50) == 2 * 5e6
    with pytest.raises(LocalProtocolError, match="no round of calibration did any work at 'shop'"):
        charged("shop", "forward", 50)


def test_memory_is_counted_on_the_models_themselves():
    federation = problem(holder_has_features=True)
    costs = plan(federation, svfl(Scalar(4)), Training(batch_size=50), SLOW)
    bank = costs.memory["bank"]
    assert bank.features == ROWS * 3 * 4
    assert bank.parameters == 2 * 16 * 4  # 3 x 4 weights and 4 biases, and their gradients
    assert bank.optimiser == 2 * 16 * 4 + 2 * 4  # Adam: two moments each, a step for each tensor
    assert bank.batch == 50 * 3 * 4 + 50 * 4 * 4  # what Linear keeps of its input, and its output
    assert bank.messages == (8 + 50 * 4 // 2) + 50 * 4 * 4
    insurer = costs.memory["insurer"]
    assert insurer.features == ROWS * 3 * 4 + ROWS * 8
    assert insurer.messages == 2 * bank.messages
    assert bank.total == sum(vars(bank).values())


def test_a_plan_is_json():
    costs = plan(problem(), svfl(), Training(epochs=2), SLOW)
    text = json.dumps(costs.as_dict(), allow_nan=False)
    assert json.loads(text)["bytes_up"] == costs.bytes_up
    assert json.loads(text)["memory_bytes"]["bank"]["total"] == costs.memory["bank"].total


def test_what_cannot_be_trained_cannot_be_planned():
    federation = problem()
    holder = replace(federation.label_holder, top=nn.Linear(5, 3))
    with pytest.raises(ConfigurationError, match="does not take fused embeddings"):
        plan(Federation(federation.parties, holder), driver=SLOW)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
@settings(max_examples=200)
def test_the_size_of_envelopes_is_the_wires(round, sequence):
    header = encode_header("embedding", Purpose.TRAINING, round, sequence)
    bare = encode_header("embedding", Purpose.TRAINING, 0, 0)
    assert len(header) == len(bare) - 2 + _bytes_of(round) + _bytes_of(sequence)


NUMBERS = st.one_of(st.integers(0, 400), st.integers(65_000, 66_000), st.integers(0, 2**34))


@given(NUMBERS, NUMBERS, st.integers(0, 300))
def test_numbers_that_grow_are_counted_without_going_through_them(start, step, count):
    each = sum(_bytes_of(start + i * step) - _bytes_of(start) for i in range(1, count + 1))
    assert _grown(start, step, count) == each


def test_a_plan_of_a_billion_epochs_takes_no_longer_than_one_of_ten():
    federation = problem()
    ten, many = (plan(federation, svfl(), Training(epochs=n), SLOW) for n in (10, 10**9))
    # Two more bytes of a round's number and four of a message's are nothing beside the bodies.
    assert 1 <= many.traffic["framed_bytes"].sum() / ten.traffic["framed_bytes"].sum() / 1e8 < 1.1
    with pytest.raises(ConfigurationError, match="plan one of fewer epochs"):
        plan(federation, svfl(), Training(epochs=10**17), SLOW)


def test_stretching_to_three_epochs_changes_nothing():
    federation, training = problem(True), Training(epochs=3, batch_size=32)
    three = federation.train(svfl(), training, SLOW).ledger
    two = federation.train(svfl(), replace(training, epochs=2), SLOW).ledger
    assert stretched(three, two, 3, 5).equals(traffic(three))


def test_batches_that_are_replayed_are_in_the_memory_of_a_plan():
    federation = small_federation(Method("plain"))
    plain, long, short = (
        plan(federation, Method("m", local_updates=updates), Training(epochs=2, batch_size=16))
        for updates in (Consecutive(), Replayed(2, 256), Proximal(label_holder=Replayed(2, 3)))
    )
    assert plain.memory["holder"].replayed == 0
    rounds, widths = plain.rounds, 3 * 4
    assert long.memory["holder"].replayed == 4 * rounds * 16 * widths
    assert short.memory["holder"].replayed == 4 * 3 * 16 * widths
    assert short.memory["party_0"].replayed == 4 * 16 * (4 + 4)  # what was sent, and derivatives
    workset = plan(federation, celu(3, 2), Training(epochs=2, batch_size=16))
    assert workset.memory["holder"].replayed == 4 * 3 * 16 * 2 * widths  # and derivatives there
    assert workset.memory["party_0"].replayed == 4 * 3 * 16 * (4 + 4)
    more = long.memory["holder"].total - plain.memory["holder"].total
    assert more == long.memory["holder"].replayed


def test_a_plan_refuses_what_training_would():
    x = torch.randn(40, 3)
    federation = Federation(
        [Party("bank", x, nn.Linear(3, 1500))],
        LabelHolder("insurer", torch.arange(40) % 2, nn.Linear(1500, 2)),
        range(40),
    )
    wide = Method("wide", uplink=Plain(LearnedEntropy(Scalar(5))))
    with pytest.raises(ConfigurationError, match="up to 1024 columns"):
        plan(federation, wide, Training(batch_size=20), Simulate(costs=Modelled(otherwise=0.0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"federation": 3}, "federation is Federation, not 3"),
        ({"federation": Federation}, r"federation is a value, not a class: write Federation\("),
        ({"driver": "simulate"}, "driver is 'simulate', but a driver is a value"),
    ],
)
def test_what_is_planned_is_a_federation_under_a_driver(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        plan(**{"federation": problem()} | arguments)


class WithMore(nn.Linear):
    """Keeps what is no tensor."""

    def get_extra_state(self):
        return {"seen": 3}

    def set_extra_state(self, state):
        """It is as it was."""


def test_an_extra_state_that_is_no_tensor_has_no_size():
    federation = small_federation(svfl())
    parties = [
        replace(party, bottom=WithMore(2 + k, 4)) for k, party in enumerate(federation.parties)
    ]
    federation = Federation(parties, federation.label_holder)
    training = Training(epochs=1, batch_size=20)
    assert (
        plan(federation, svfl(), training).bytes_up
        == federation.train(svfl(), training).summary["bytes_up"]
    )
