"""VAFL, the event-driven exchange: beside a loop of plain torch, with slow parties, everywhere."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade.audits.recording import Recording
from colonnade.channels import Channel, Gateway, Network
from colonnade.checkpoints import decode_state
from colonnade.codecs import QSGD, Scalar, TopK
from colonnade.config import parse_config
from colonnade.costs import Delayed, Modelled
from colonnade.delays import Constant, Exponential
from colonnade.drivers import Processes, Replay, Simulate
from colonnade.errors import CheckpointError
from colonnade.evaluation import HeldOut
from colonnade.links import Direct, ErrorFeedback
from colonnade.methods import svfl, vafl
from colonnade.models import Concat, DotProduct, Max, Mean, Sum
from colonnade.planning import plan
from colonnade.privacy import Gaussian
from colonnade.reports.figures import run_figures
from colonnade.testing.methods import TRAINING, small_federation
from colonnade.training import EarlyStopping, Training, Watcher
from colonnade.uplinks import Perturbed, Plain
from colonnade.wire import Purpose

pytestmark = pytest.mark.usefixtures("no_pictures")

COSTS = Modelled({"metrics": 0.0, "update": 0.0005}, otherwise=0.001)
UNWATCHED = replace(TRAINING, evaluate_every=100)
LONG = replace(TRAINING, epochs=4, evaluate_every=5)


def slow(seconds=0.03, network=None):
    """A clock on which one party is slow, in some rounds more than in others."""
    delays = {"party_1": Exponential(seconds), "holder": Exponential(0.0005)}
    network = network or Network(Channel(1e8, 0.002, jitter=0.001))
    return Simulate(network, Delayed(COSTS, delays, seed=3))


def train(method, driver=None, training=LONG, features=True, **settings):
    federation = small_federation(method, features)
    return federation.train(method, training, driver or slow(), report=False, **settings)


def bits(run):
    return [
        value
        for parts in run.models.values()
        for module in parts.values()
        for value in module.state_dict().values()
    ]


def told(run):
    """All that is told of a run but times, which a replay has none of."""
    frames = [
        frame.drop("seconds", "seconds_evaluation", strict=False)
        for frame in (run.history, run.others_history)
    ]
    return [frame.to_dicts() for frame in frames], run.ledger.without_time()


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(bits(one), bits(other), strict=True))


def steps(run, party):
    """How many steps a party told that it has taken."""
    return run.others_history.filter(organisation=party)["steps"].sum()


# What is computed


def alone(method):
    """One of the kit's parties, with a label holder of the same columns and a top that fits."""
    federation = small_federation(method)
    holder = federation.label_holder
    holder = replace(holder, top=nn.Linear(method.fusion.width([4, 4]), 3))
    with torch.no_grad():
        for parameter in holder.top.parameters():
            parameter.fill_(0.1)
    rows = (federation.train_rows, federation.test_rows, None, federation.validation_rows)
    return cn.Federation(federation.parties[1:2], holder, *rows)


@pytest.mark.parametrize("fusion", [Concat(), Mean(), Max(), DotProduct()], ids=str)
@pytest.mark.parametrize("codecs", [(None, None), (Scalar(4), Scalar(8)), (TopK(0.4), None)])
def test_one_party_trains_as_in_the_split_exchange_to_the_bit(fusion, codecs):
    runs = [
        alone(method).train(method, TRAINING, Simulate(costs=COSTS), report=False)
        for method in (svfl(*codecs, fusion), vafl(*codecs, fusion))
    ]
    assert same(*runs)
    kept = [*TRAINING_COLUMNS, "test_accuracy", "validation_log_loss"]
    histories = [run.history.select(kept).to_dicts() for run in runs]
    assert histories[0] == histories[1]


TRAINING_COLUMNS = ("round", "epoch", "train_loss")


def linear_federation(fusion, parties):
    """Linear models of which a loop of plain torch can be written down."""
    generator = torch.Generator().manual_seed(1)
    sgd = partial(torch.optim.SGD, lr=0.3)
    torch.manual_seed(5)
    return cn.Federation(
        [
            cn.Party(f"party_{k}", torch.randn(24, 3, generator=generator), nn.Linear(3, 2), sgd)
            for k in range(parties)
        ],
        cn.LabelHolder(
            "holder",
            torch.randint(2, (24,), generator=generator),
            nn.Linear(fusion.width([2] * (parties + 1)), 2),
            features=torch.randn(24, 3, generator=generator),
            bottom=nn.Linear(3, 2),
            optimiser=sgd,
        ),
        np.arange(20),
        np.arange(20, 24),
    )


@pytest.mark.parametrize("fusion", [Concat(), Sum(), Mean(), Max()], ids=str)
def test_it_is_the_loop_of_plain_torch_in_the_order_in_which_messages_were_taken(fusion):
    method, parties = vafl(fusion=fusion), 3
    federation = linear_federation(fusion, parties)
    training = Training(epochs=3, batch_size=6, evaluate_every=100, seed=2)
    delays = {"party_1": Exponential(0.02), "party_2": Exponential(0.005)}
    # A label holder that is slow has several to answer at once, of the same batch or not.
    busy = Modelled({"top": 0.004}, otherwise=0.001)
    driver = Simulate(costs=Delayed(busy, delays, seed=1))
    run = federation.train(method, training, driver, report=False)
    plan = federation.agreement(method, training).batches

    # The label holder takes the four pieces of the first exchange, then who comes, then evaluates.
    taken = run.record.trace.decisions["holder"][4:-1]
    order = [[sender for sender, _ in arrivals] for arrivals in taken]
    counts = [sum(here.count(f"party_{k}") for here in order) for k in range(parties)]
    assert min(counts) < max(counts) == plan.rounds, "nobody was slow"
    assert {len(here) for here in order} >= {1, 2}, "nobody came together"

    federation = linear_federation(fusion, parties)
    holder, bottoms = federation.label_holder, {p.name: p.bottom for p in federation.parties}
    tables = {p.name: p.features for p in federation.parties}
    own = nn.ModuleList([holder.top, holder.bottom])
    store = {name: bottoms[name](tables[name]).detach().clone() for name in bottoms}
    step, apart = dict.fromkeys(bottoms, 0), False
    for here in order:
        for number in sorted({step[name] for name in here}):
            present = [name for name in here if step[name] == number]
            apart |= len(present) < len(here)
            rows = torch.from_numpy(plan.rows(number))
            sent = {name: bottoms[name](tables[name][rows]) for name in present}
            leaves = {name: z.detach().clone().requires_grad_() for name, z in sent.items()}
            for name, leaf in leaves.items():
                store[name][rows] = leaf.detach()
            beside = {other: store[other][rows] for other in store} | leaves
            fused = fusion([*beside.values(), holder.bottom(holder.features[rows])])
            nn.functional.cross_entropy(holder.top(fused), holder.labels[rows]).backward()
            for name, embedding in sent.items():
                embedding.backward(leaves[name].grad)
            for module in (own, *(bottoms[name] for name in present)):
                for parameter in module.parameters():
                    with torch.no_grad():
                        parameter -= 0.3 * parameter.grad
                    parameter.grad = None
            for name in present:
                step[name] += 1
    assert apart, "nobody came together with another batch"
    expected = {**bottoms, "holder": holder.bottom}
    for name, module in expected.items():
        torch.testing.assert_close(
            run.models[name]["bottom"].state_dict(), module.state_dict(), rtol=1e-5, atol=1e-6
        )
    found = run.models["holder"]["top"].state_dict()
    torch.testing.assert_close(found, holder.top.state_dict(), rtol=1e-5, atol=1e-6)
    assert {name: steps(run, name) for name in step} == step


def test_the_first_exchange_is_of_every_training_row_and_is_waited_for():
    method = vafl()
    run = train(method, training=UNWATCHED)
    for party in ("party_0", "party_1", "party_2"):
        sent = [e for e in run.ledger if e.sender == party and e.kind == "embedding"]
        sent = [e for e in sent if e.purpose is Purpose.TRAINING]
        assert sum(e.body_bytes for e in sent[:4]) == 60 * 4 * 4
        assert {e.round for e in sent[:5]} == {0}
        assert [e.round for e in sent[5:]] == list(range(1, len(sent) - 4))
    first = run.record.trace.decisions["holder"][:4]
    assert [[sender for sender, _ in here] for here in first] == [
        ["party_0", "party_1", "party_2"]
    ] * 4


# Time


def test_a_straggler_does_not_set_the_pace():
    """With a party that loses a second each step, the others end as soon as without it."""
    costs, rounds = Modelled(otherwise=0.001), 15
    free = {Purpose.EVALUATION}
    late = Simulate(costs=Delayed(costs, {"party_1": Constant(1.0)}), untimed=free)
    training = replace(UNWATCHED, epochs=4)
    waiting, going_on = (train(method, late, training) for method in (svfl(), vafl()))
    assert waiting.summary["rounds"] == going_on.summary["rounds"] == rounds + 1
    assert waiting.summary["seconds_virtual"] > 16
    # The first exchange waits for it, and so does the evaluation, for the step that it is at.
    assert going_on.summary["seconds_virtual"] < 2.5
    assert steps(going_on, "party_0") == 16
    assert steps(going_on, "party_2") >= 14  # a last one may come after the end of the run
    assert steps(going_on, "party_1") == 1
    (row,) = going_on.history.to_dicts()
    assert (row["missing_party_0"], row["missing_party_1"]) == (0, 15)
    assert row["stale_rounds_max"] >= 14
    figure = next(figure for figure in run_figures(going_on) if figure.key == "missing")
    assert len(figure.plot.data) == 3


def test_a_slow_line_does_not_set_the_pace_either():
    line = Network(Channel(1e9, 0.001), {("party_1", "holder"): Channel(1e9, 2.0)})
    run = train(vafl(), Simulate(line, COSTS), replace(UNWATCHED, epochs=4))
    assert (steps(run, "party_0"), steps(run, "party_1")) == (16, 1)
    assert run.history["seconds"][0] < 7  # twice for the exchange, and once for the evaluation
    late = [e for e in run.ledger if e.discarded]
    assert {(e.sender, e.kind) for e in late} <= {
        ("party_1", "embedding"),
        ("party_2", "embedding"),
    }
    assert ("party_1", "embedding") in {(e.sender, e.kind) for e in late}
    assert run.summary["messages_discarded"] == len(late) <= 2


@pytest.mark.parametrize("codecs", [(None, None), (Scalar(4), Scalar(8))])
def test_parties_as_fast_as_each_other_train_as_in_the_split_exchange_to_the_bit(codecs):
    for fusion in (Concat(), Mean(), Max()):
        run, like = (
            train(method, Simulate(costs=Modelled(otherwise=0.001)))
            for method in (vafl(*codecs, fusion), svfl(*codecs, fusion))
        )
        assert same(run, like)
        assert [steps(run, f"party_{k}") for k in range(3)] == [16, 16, 16]
        assert run.history["stale_rounds_max"].sum() == 0
        assert sum(run.history[f"missing_party_{k}"].sum() for k in range(3)) == 0
        assert run.summary["messages_discarded"] == 0


def test_nobody_sends_more_rows_than_the_epochs_say():
    """The fastest stops at the end of the plan, however slow the others are."""
    delays = Delayed(COSTS, {"party_0": Constant(0.2), "party_1": Constant(0.3)})
    run = train(vafl(), Simulate(costs=delays), UNWATCHED)
    sent = [e for e in run.ledger if e.kind == "embedding" and e.purpose is Purpose.TRAINING]
    counts = {k: sum(e.sender == f"party_{k}" for e in sent) for k in range(3)}
    assert counts[2] == 4 + 8
    assert max(counts[0], counts[1]) < 12


# Drivers


SUBJECTS = {
    "plain": (vafl(), slow()),
    "mean, slower": (vafl(fusion=Mean()), slow(0.3)),
    "error feedback": (
        cn.Method("ef", Sum(), Plain(ErrorFeedback(QSGD(3))), cn.EventDriven(Direct(Scalar(4)))),
        slow(),
    ),
    "gateway": (
        vafl(Scalar(6)),
        slow(0.05, Network(Channel(1e6, 0.004), gateways={"holder": Gateway(out=1e6, into=1e6)})),
    ),
    "evaluations that take no time": (
        vafl(),
        replace(slow(0.1), untimed=frozenset({Purpose.EVALUATION})),
    ),
}


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
def test_a_run_repeats_replays_and_goes_on_to_the_bit(subject, tmp_path):
    method, driver = subject
    whole = train(method, driver)
    again = train(method, driver)
    assert same(whole, again)
    assert whole.ledger.frame().equals(again.ledger.frame()), "another time"
    replayed = train(method, Replay(whole.record.trace))
    assert same(whole, replayed)
    assert told(whole) == told(replayed)
    assert steps(whole, "party_1") < steps(whole, "party_0")
    for stop in (1, 4, 5, 11, 15):
        out = tmp_path / str(stop)
        part = train(method, driver, out=out, stop_before=stop)
        assert (part.summary["completed"], part.summary["rounds"]) == (False, stop)
        rest = train(method, driver, out=out, resume=True)
        assert same(whole, rest)
        assert told(whole) == told(rest)
        assert whole.ledger.frame().equals(rest.ledger.frame()), "another time"


def test_a_bottom_whose_outputs_hang_on_buffers_that_it_changes_goes_on_to_the_bit(tmp_path):
    """The embedding that was sent is computed again, with the buffers of then."""

    def normed(out=None, **settings):
        federation = small_federation(vafl())
        for party in federation.parties:
            torch.manual_seed(0)
            torch.nn.utils.parametrizations.spectral_norm(party.bottom[0])
        return federation.train(vafl(), LONG, slow(0.1), out=out, report=False, **settings)

    whole = normed()
    for stop in (1, 6, 11):
        normed(tmp_path / str(stop), stop_before=stop)
        assert same(whole, normed(tmp_path / str(stop), resume=True))


def test_a_run_goes_on_from_checkpoints_that_it_did_not_stop_for(tmp_path):
    """They are cuts through parties that are many rounds apart when they are made."""

    class Stop(Exception):
        pass

    method, driver = vafl(), slow(0.1)
    training = replace(LONG, checkpoint_every=1, evaluate_every=100)
    whole = train(method, driver, training)
    apart = []
    for number, last in enumerate((3, 8, 13)):
        reached = {}

        def note(role, round, sent, reached=reached, last=last):
            reached[role] = round
            apart.append(max(reached.values()) - min(reached.values()))
            if min(reached.values()) == last and len(reached) == 4:
                raise Stop

        out = tmp_path / str(number)
        with pytest.raises(Stop):
            train(method, driver, training, out=out, watcher=Watcher(on_round=note))
        rest = train(method, driver, training, out=out, resume=True)
        assert same(whole, rest)
        assert told(whole) == told(rest)
    assert max(apart) > 3


class Jittering(torch.optim.SGD):
    """Adds noise to derivatives, as for privacy."""

    def step(self, closure=None):
        for group in self.param_groups:
            for weights in group["params"]:
                weights.grad += 0.01 * torch.randn_like(weights)
        return super().step(closure)


def test_what_a_checkpoint_does_not_hold_is_computed_anew_to_the_bit(tmp_path):
    """Dropout and batch normalisation, in a step whose derivative comes after the resume.

    The optimiser draws after them.
    """

    def federation():
        made = small_federation(vafl())
        torch.manual_seed(0)
        bottoms = [
            nn.Sequential(nn.Linear(2 + k, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 4))
            for k in range(3)
        ]
        parties = [
            replace(party, bottom=bottom, optimiser=partial(Jittering, lr=0.05))
            for party, bottom in zip(made.parties, bottoms, strict=True)
        ]
        rows = (made.train_rows, made.test_rows, None, made.validation_rows)
        return cn.Federation(parties, made.label_holder, *rows)

    def trained(**settings):
        return federation().train(vafl(), LONG, slow(), report=False, **settings)

    whole = trained()
    waited = 0
    for stop in range(1, 16):
        out = tmp_path / str(stop)
        part = trained(out=out, stop_before=stop)
        (checkpoint,) = (out / "checkpoint").glob(f"round-*{stop}")
        states = [(checkpoint / f"party_{k}.safetensors").read_bytes() for k in range(3)]
        waited += sum(decode_state(state)["sent"] for state in states)
        assert not part.summary["completed"]
        rest = trained(out=out, resume=True)
        assert same(whole, rest)
        assert told(whole) == told(rest)
    assert waited > 15, "hardly anybody was between an embedding and its derivative"


def test_processes_play_it_and_it_goes_on_in_its_own_time_alone(tmp_path):
    method = vafl()
    run = train(method, Processes())
    assert run.summary["completed"]
    assert max(steps(run, f"party_{k}") for k in range(3)) == 16
    replayed = train(method, Replay(run.record.trace))
    assert same(run, replayed)
    assert told(run) == told(replayed)
    for number, (first, second) in enumerate([(Processes(), slow()), (slow(), Processes())]):
        out = tmp_path / str(number)
        part = train(method, first, out=out, stop_before=6)
        assert part.summary["rounds"] == 6
        with pytest.raises(CheckpointError, match="in real time where this one is simulated"):
            train(method, second, out=out, resume=True)
        rest = train(method, first, out=out, resume=True)
        assert rest.summary["completed"]
        assert rest.summary["rounds"] == 16
        seconds = rest.history["seconds"].to_list()
        assert seconds == sorted(seconds)


def test_an_interruption_stops_everybody_between_rounds(tmp_path):
    whole = train(vafl())
    asked = iter(range(10**6))
    watcher = Watcher(interrupted=lambda: next(asked) > 20)
    part = train(vafl(), out=tmp_path, watcher=watcher)
    assert 0 < part.summary["rounds"] < 16
    rest = train(vafl(), out=tmp_path, resume=True)
    assert same(whole, rest)
    assert told(whole) == told(rest)


def test_training_stops_early_for_all(tmp_path):
    training = replace(LONG, epochs=40, early_stopping=EarlyStopping(patience=2))
    run = train(vafl(), training=training)
    assert run.summary["stopped_early"]
    assert run.summary["rounds"] < 160
    late = [entry for entry in run.ledger if entry.discarded]
    assert {entry.kind for entry in late} <= {"embedding"}
    part = train(vafl(), training=training, out=tmp_path, stop_before=run.summary["rounds"] - 1)
    assert not part.summary["completed"]
    rest = train(vafl(), training=training, out=tmp_path, resume=True)
    assert same(run, rest)
    assert told(run) == told(rest)


def test_a_measured_run_is_warned_of_and_goes_on_over_no_other_network(tmp_path):
    measured = train(vafl(), Simulate(), TRAINING)
    assert any("time was measured" in warning for warning in measured.summary["warnings"])
    train(vafl(), slow(), out=tmp_path, stop_before=3)
    with pytest.raises(cn.errors.CheckpointError, match="time decides"):
        train(vafl(), slow(0.5), out=tmp_path, resume=True)


# What is told before and after


def test_a_plan_has_the_store_and_the_messages_of_the_run():
    for features in (True, False):
        federation = small_federation(vafl(), features)
        planned = plan(federation, vafl(), LONG, slow())
        run = train(vafl(), features=features)
        assert planned.bytes_up == run.summary["bytes_up"]
        assert planned.bytes_down == run.summary["bytes_down"]
        assert not planned.exact
        assert planned.why_timed == ("how often each party sends",)
        assert planned.memory["holder"].surrogates == 4 * 90 * (3 * 4 + 3)
        assert planned.memory["party_0"].surrogates == 0


def test_predictions_are_of_the_trained_parts():
    run = train(vafl(fusion=Mean()))
    federation = small_federation(vafl(fusion=Mean()))
    rows = torch.from_numpy(federation.test_rows)
    members = [*federation.parties, federation.label_holder.as_party()]
    scores = run.predict({m.name: m.features[rows] for m in members}).scores
    true = float(nn.functional.cross_entropy(scores, federation.label_holder.labels[rows]))
    assert run.summary["test"]["log_loss"] == pytest.approx(true, abs=1e-6)


def test_an_audit_hears_of_each_party_the_derivatives_of_its_own_steps():
    federation = small_federation(vafl())
    batches = federation.agreement(vafl(), LONG).batches
    recording = Recording(slow(0.1), batches)
    run = train(vafl(), recording)
    assert same(run, train(vafl(), slow(0.1)))
    for party, heard in recording.heard.items():
        taken = steps(run, party)
        assert [step for step, _ in heard.first] == list(range(min(4, taken)))
        assert [step for step, _ in heard.last] == list(range(taken))[-4:]
        assert all(len(d) == len(batches.rows(step)) for step, d in heard.last)


def test_noise_of_the_parties_is_refused_as_rows_are_used_once_more_than_it_counts():
    with pytest.raises(cn.errors.ConfigurationError, match="counts rounds in which all add noise"):
        cn.Method("noisy", Mean(), Perturbed(Gaussian(1.0, 1.0), Plain()), cn.EventDriven())


def test_a_file_names_the_method_and_the_exchange():
    named = {"name": "vafl", "embedding": {"codec": "scalar", "bits": 4}, "fusion": "mean"}
    assert parse_config({"method": named}).method.build() == vafl(Scalar(4), fusion=Mean())
    composed = {
        "name": "mine",
        "uplink": {
            "uplink": "plain",
            "link": {"link": "error_feedback", "codec": {"codec": "top_k", "ratio": 0.1}},
        },
        "exchange": {"exchange": "event_driven", "downlink": {"codec": "scalar", "bits": 8}},
    }
    method = parse_config({"method": composed}).method.build()
    assert method.exchange == cn.EventDriven(Direct(Scalar(8)))
    assert method.timed


def test_held_out_rows_are_not_in_the_store():
    """Evaluations are of the models as they are, so a store of nonsense would not show in them."""
    run = train(vafl(), training=UNWATCHED)
    evaluation = [e for e in run.ledger if e.purpose is Purpose.EVALUATION]
    assert {e.kind for e in evaluation} == {"embedding"}
    pieces = HeldOut("x", [np.arange(7)] * 2 + [np.arange(1)]).pieces
    assert len(evaluation) == 3 * 2 * len(pieces)


def test_all_rows_that_a_party_begins_with_may_wait_to_be_taken():
    federation = small_federation(vafl())
    agreement = federation.agreement(vafl(), Training(batch_size=1))
    limits, usual = (
        agreement.limits(),
        federation.agreement(svfl(), Training(batch_size=1)).limits(),
    )
    assert limits.bytes == usual.bytes == 2**28  # where tables are small
    widths = dict.fromkeys(agreement.layout.widths, 10**6)
    wide = replace(agreement, layout=replace(agreement.layout, widths=widths))
    assert wide.limits().bytes >= 60 * 4 * 10**6


def test_a_history_tells_what_had_been_sent_before_each_evaluation():
    """A slow party counts its own steps, which it takes long after the round of that number."""
    x = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    federation = cn.Federation(
        [cn.Party("fast", x[:, :3], nn.Linear(3, 4)), cn.Party("slow", x[:, 3:], nn.Linear(3, 4))],
        cn.LabelHolder("insurer", (x[:, 0] + x[:, 5] > 0).long(), nn.Linear(8, 2)),
        range(160),
        range(160, 200),
    )
    slow = {"slow": Constant(0.05)}
    driver = cn.Simulate(cn.Network(), cn.Delayed(cn.Modelled(otherwise=0.001), slow))
    training = cn.Training(epochs=10, batch_size=16, evaluate_every=10)
    run = federation.train(cn.methods.vafl(), training, driver)
    ledger = run.ledger.frame().filter(purpose="training")
    up, down = pl.col("receiver") == "insurer", pl.col("sender") == "insurer"
    for row in run.history.iter_rows(named=True):
        by_then = ledger.filter(pl.col("nanoseconds") <= row["seconds"] * 1e9)
        assert row["bytes_up"] == by_then.filter(up)["body_bytes"].sum()
        assert row["bytes_down"] == by_then.filter(down)["body_bytes"].sum()
