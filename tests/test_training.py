"""End-to-end laws of training: equality with centralised SGD, between drivers, across resumes."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
from torch import nn

from colonnade.channels import Channel, Network
from colonnade.codecs import Entropy, Float, LargeRows, Scalar, TopK
from colonnade.costs import Modelled
from colonnade.drivers import Processes, Replay, Simulate
from colonnade.exchanges import Split
from colonnade.federation import Federation
from colonnade.kernels.philox import permutation
from colonnade.links import Direct
from colonnade.local_updates import Replayed
from colonnade.methods import Method, cvfl, efvfl, fedbcd, svfl
from colonnade.models import Concat, Max, Mean, Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.streams import StreamKey
from colonnade.training import Training, Watcher
from colonnade.uplinks import Plain
from colonnade.wire import Purpose, carried_bytes, encode_header

pytestmark = pytest.mark.usefixtures("no_pictures")

ROWS, WIDTH, CLASSES = 200, 5, 4


def problem(parties, holder_has_features, fusion, dropout=0.0, optimiser=None):
    """A federation on random data, every organisation with other columns."""
    generator = torch.Generator().manual_seed(7)
    optimiser = optimiser or partial(torch.optim.SGD, lr=0.3)

    def columns(count):
        return torch.randn(ROWS, count, generator=generator)

    def bottom(inputs):
        torch.manual_seed(inputs)
        layers = [nn.Linear(inputs, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, WIDTH)]
        return nn.Sequential(*layers)

    members = [
        Party(f"party_{i}", columns(3 + i), bottom(3 + i), optimiser) for i in range(parties)
    ]
    holders = parties + holder_has_features
    torch.manual_seed(99)
    top = nn.Sequential(
        nn.Linear(fusion.width([WIDTH] * holders), 6),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(6, CLASSES),
    )
    holder = LabelHolder(
        "holder",
        torch.randint(CLASSES, (ROWS,), generator=generator),
        top,
        features=columns(2) if holder_has_features else None,
        bottom=bottom(2) if holder_has_features else None,
        optimiser=optimiser,
    )
    return Federation(members, holder, train_rows=range(160), test_rows=range(160, ROWS))


class Joined(nn.Module):
    """The joined model of a federation, as one organisation with all columns would train it."""

    def __init__(self, federation, fusion):
        super().__init__()
        everyone = list(federation.parties)
        if federation.label_holder.bottom is not None:
            everyone.append(federation.label_holder)
        self.features = [member.features for member in everyone]
        self.bottoms = nn.ModuleList(member.bottom for member in everyone)
        self.top = federation.label_holder.top
        self.fusion = fusion

    def forward(self, rows):
        pairs = zip(self.bottoms, self.features, strict=True)
        return self.top(self.fusion([bottom(x[rows]) for bottom, x in pairs]))


@pytest.mark.parametrize("fusion", [Concat(), Sum(), Mean(), Max()], ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("holder_has_features", [False, True])
@pytest.mark.parametrize("parties", [1, 2, 4, 7])
def test_split_training_is_centralised_sgd(parties, holder_has_features, fusion):
    federation = problem(parties, holder_has_features, fusion)
    training = Training(epochs=5, batch_size=32)  # 25 steps
    run = federation.train(svfl(fusion=fusion), training)
    assert run.summary["rounds"] == 25

    joined = Joined(federation, fusion)
    optimiser = torch.optim.SGD(joined.parameters(), lr=0.3)
    for round in range(25):
        epoch, index = divmod(round, 5)
        order = permutation(StreamKey(0, "", "batches", epoch), 160)
        rows = torch.from_numpy(order[index * 32 : (index + 1) * 32])
        loss = nn.functional.cross_entropy(joined(rows), federation.label_holder.labels[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    names = [party.name for party in federation.parties] + ["holder"] * holder_has_features
    trained = [run.models[name]["bottom"] for name in names] + [run.models["holder"]["top"]]
    for mine, reference in zip(trained, [*joined.bottoms, joined.top], strict=True):
        for value, expected in zip(mine.parameters(), reference.parameters(), strict=True):
            assert torch.norm(value - expected) <= 1e-5 * torch.norm(expected)


# The same bits, whatever runs the roles

METHODS = {
    "float32": svfl(),
    "bf16 and fp16, mean": svfl(Float("bf16"), Float(16), Mean()),
    "scalar": svfl(Scalar(3), Scalar(8)),
    "fedbcd": fedbcd(3, Mean()),
    "replayed": Method(
        "own",
        uplink=Plain(Direct(Entropy(Scalar(4)))),
        exchange=Split(Direct(LargeRows(0.5, Scalar(4)))),
        local_updates=Replayed(3, batches=4),
    ),
    "relay, codes": efvfl(TopK(0.3), None, Concat(), "shared", 2, top_codec=TopK(0.5)),
    "relay, total": cvfl(Scalar(4), 2, Sum(), "shared", others="total"),
}
SIMULATE = Simulate(
    Network(Channel(1e6, 0.01)),
    Modelled({"forward": 0.002, "top": 0.001}, slowdown={"party_1": 3}, otherwise=0.0005),
)
ADAM = partial(torch.optim.Adam, lr=0.01)
TRAINING = Training(epochs=3, batch_size=32, evaluation_rows=25, evaluate_every=4)


def dropping_out(method):
    return problem(3, True, method.fusion, dropout=0.4, optimiser=ADAM)


def bits(run):
    """All that a run's outcome consists of, time excepted."""
    state = [
        (name, part, key, value)
        for name, parts in run.models.items()
        for part, module in parts.items()
        for key, value in module.state_dict().items()
    ]
    return state, run.ledger.without_time(), run.history.drop("seconds", strict=False).rows()


def assert_same(one, other):
    (state, *rest), (other_state, *other_rest) = bits(one), bits(other)
    assert rest == other_rest
    for (*key, value), (*other_key, other_value) in zip(state, other_state, strict=True):
        assert key == other_key
        assert torch.equal(value, other_value)


@pytest.mark.parametrize("method", list(METHODS.values()), ids=list(METHODS))
def test_all_drivers_and_repeated_runs_give_the_same_bits(method):
    federation = dropping_out(method)
    first = federation.train(method, TRAINING, SIMULATE)
    again = federation.train(method, TRAINING, SIMULATE)
    assert_same(first, again)
    assert first.ledger.frame().equals(again.ledger.frame())  # the times, too
    real = federation.train(method, TRAINING, Processes())
    assert_same(first, real)
    for trace in (first.record.trace, real.record.trace):
        assert_same(first, federation.train(method, TRAINING, Replay(trace)))


def test_another_seed_gives_other_bits():
    federation = dropping_out(svfl())
    one, other = (federation.train(training=Training(seed=seed)) for seed in (0, 1))
    assert not torch.equal(
        one.models["party_0"]["bottom"][0].weight, other.models["party_0"]["bottom"][0].weight
    )


@pytest.mark.parametrize("method", list(METHODS.values()), ids=list(METHODS))
def test_resuming_after_an_interruption_at_any_round_gives_the_same_bits(tmp_path, method):
    federation = dropping_out(method)
    whole = federation.train(method, TRAINING, SIMULATE)
    for stop in (0, 1, 2, 7, 15):  # 15 rounds; before the 16th all is done
        out = tmp_path / str(stop)
        part = federation.train(method, TRAINING, SIMULATE, out=out, stop_before=stop)
        assert (part.summary["completed"], part.summary["rounds"]) == (False, stop)
        rest = federation.train(method, TRAINING, SIMULATE, out=out, resume=True)
        assert rest.summary["completed"]
        assert_same(whole, rest)
        assert rest.ledger.frame().equals(whole.ledger.frame())


def test_an_interruption_before_every_round_gives_the_same_bits(tmp_path):
    federation = dropping_out(svfl())
    whole = federation.train(training=TRAINING, driver=SIMULATE)
    for stop in range(16):
        settings = {"out": tmp_path / "run", "resume": stop > 0, "stop_before": stop}
        part = federation.train(training=TRAINING, driver=SIMULATE, **settings)
        assert (part.summary["completed"], part.summary["rounds"]) == (False, stop)
    rest = federation.train(training=TRAINING, driver=SIMULATE, out=tmp_path / "run", resume=True)
    assert rest.summary["completed"]
    assert_same(whole, rest)
    assert rest.ledger.frame().equals(whole.ledger.frame())


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations([SIMULATE, Processes()])))
def test_a_run_can_go_on_under_another_driver(tmp_path, first, second):
    method = METHODS["scalar"]
    federation = dropping_out(method)
    whole = federation.train(method, TRAINING, SIMULATE)
    federation.train(method, TRAINING, first, out=tmp_path / "run", stop_before=7)
    rest = federation.train(method, TRAINING, second, out=tmp_path / "run", resume=True)
    assert_same(whole, rest)


def test_resuming_twice_from_interruptions_asked_for_in_the_middle(tmp_path):
    federation = dropping_out(svfl())
    whole = federation.train(training=TRAINING, driver=SIMULATE)
    out = tmp_path / "run"
    for limit in (20, 20, 10_000):
        calls = itertools.count()
        watcher = Watcher(interrupted=lambda calls=calls, limit=limit: next(calls) >= limit)
        run = federation.train(
            training=TRAINING, driver=SIMULATE, out=out, resume=out.exists(), watcher=watcher
        )
    assert run.summary["completed"]
    assert_same(whole, run)


# Bytes


@pytest.mark.parametrize("driver", [SIMULATE, Processes()], ids=["simulate", "processes"])
def test_summary_bytes_are_the_bodies_of_the_protocol(driver):
    """20 rounds of (3 parties up, 3 down), worked out by hand for 5 components a row."""
    run = problem(3, True, Concat()).train(
        svfl(Scalar(3), Float(16)), Training(epochs=2, batch_size=32, evaluation_rows=25), driver
    )
    s = run.summary
    up = 8 + 32 * WIDTH * 3 // 8
    assert s["bytes_up"] == 10 * 3 * up
    assert s["bytes_down"] == 10 * 3 * 32 * WIDTH * 2
    held_out = (8 + -(-25 * WIDTH * 3 // 8)) + (8 + -(-15 * WIDTH * 3 // 8))
    assert s["bytes_evaluation"] == 2 * 3 * held_out
    bodies = s["bytes_up"] + s["bytes_down"] + s["bytes_evaluation"] + s["bytes_setup"]
    assert bodies == run.ledger.bytes()
    assert s["messages"] == len(run.ledger) == 10 * 6 + 2 * 3 * 2
    assert run.history["bytes_up"].to_list() == [5 * 3 * up, 10 * 3 * up]
    if run.record.socket_bytes.get(("party_0", "holder"), -1) >= 0:
        assert sum(run.record.socket_bytes.values()) == s["bytes_framed"]


def test_evaluation_and_training_are_never_mixed_in_the_ledger():
    run = problem(2, False, Concat()).train(training=TRAINING)
    purposes = {entry.purpose for entry in run.ledger}
    assert purposes == {Purpose.TRAINING, Purpose.EVALUATION}
    for entry in run.ledger:
        if entry.purpose is Purpose.EVALUATION:
            assert (entry.kind, entry.receiver) == ("embedding", "holder")


def test_virtual_time_of_a_round_is_what_a_hand_computes():
    """One round, two parties, exact codes: forward, up, top, down; the slower party decides."""
    rows = 160
    header = carried_bytes(encode_header("embedding", Purpose.TRAINING, 0, 0), 0)
    forward, top, backward = 0.004, 0.003, 0.002
    costs = Modelled(
        {"forward": forward, "top": top, "backward": backward},
        slowdown={"party_1": 2.0},
        otherwise=0.0,
    )
    network = Network(
        Channel(bandwidth=8e6, latency=0.01), {("party_0", "holder"): Channel(8e5, 0.05)}
    )
    federation = problem(2, False, Concat())
    run = federation.train(
        training=Training(batch_size=rows, evaluate_every=10, evaluation_rows=1000),
        driver=Simulate(network, costs),
    )
    body = rows * WIDTH * 4
    first = {e.sender: e for e in run.ledger if e.purpose is Purpose.TRAINING}
    framed = {name: entry.framed_bytes for name, entry in first.items()}
    assert framed["party_0"] == body + header
    arrivals = [
        forward + framed["party_0"] / 1e5 + 0.05,
        2 * forward + framed["party_1"] / 1e6 + 0.01,
    ]
    sent = max(arrivals) + top
    assert first["holder"].nanoseconds == round(sent * 1e9)
    down = sent + framed["holder"] / 1e6 + 0.01
    trained = [down + backward, down + 2 * backward]
    # Evaluation follows: forward, up, top.
    held_out = (40 * WIDTH * 4 + header) / 1e6
    held_out_slow = (40 * WIDTH * 4 + header) / 1e5
    end = max(
        trained[0] + forward + held_out_slow + 0.05, trained[1] + 2 * forward + held_out + 0.01
    )
    assert run.summary["seconds_virtual"] == pytest.approx(end + top, abs=1e-7)
