"""The coded uplink: exact although parties straggle, in time, in bytes, in memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
import torch
from torch.nn.utils import prune

from colonnade.batches import BatchPlan
from colonnade.channels import Channel, Network
from colonnade.costs import Delayed, Modelled
from colonnade.delays import Constant
from colonnade.drivers import Processes, Simulate, simulate
from colonnade.drivers.mailbox import Mailbox
from colonnade.errors import ConfigurationError, OutOfRange
from colonnade.federation import Federation
from colonnade.layout import Layout
from colonnade.method import Method
from colonnade.methods import fedvs
from colonnade.models import Concat, Mean, Polynomial, Sum, computes_otherwise
from colonnade.organisations import LabelHolder, Party
from colonnade.planning import plan
from colonnade.privacy import Gaussian
from colonnade.reports.figures import run_figures
from colonnade.secure import CodedParty
from colonnade.sent import SENT, bytes_sent
from colonnade.stragglers import Deadline
from colonnade.testing.methods import (
    METHOD_CHECKS,
    TRAINING,
    MethodSubject,
    lives_with_the_late,
    small_federation,
)
from colonnade.uplinks import Coded, Perturbed, Plain
from colonnade.uplinks.coded_rows import CodedRows
from colonnade.wire import Purpose

pytestmark = pytest.mark.usefixtures("no_pictures")

PARTIES = 5
FREE = Modelled(otherwise=0.0)
TRAINING_PURPOSE = Purpose.TRAINING


def polynomials(method, holder_has_features=True, parties=PARTIES):
    """Parties with polynomial networks, and the kit's label holder."""
    base = small_federation(replace(method, fusion=Sum()), holder_has_features)
    generator = torch.Generator().manual_seed(3)
    sgd = partial(torch.optim.SGD, lr=0.2)
    everybody = []
    for n in range(parties):
        columns = 2 + n % 3
        with torch.random.fork_rng():
            torch.manual_seed(n)
            bottom = Polynomial(columns, 4, degree=2)
        x = torch.randn(base.rows, columns, generator=generator)
        everybody.append(Party(f"party_{n}", x, bottom, sgd))
    rows = base.train_rows, base.test_rows, None, base.validation_rows
    return Federation(everybody, base.label_holder, *rows)


class Bounded(Polynomial):
    def forward(self, x):
        return torch.tanh(super().forward(x))


class Shifted(Polynomial):
    def __init__(self, *given):
        super().__init__(*given)
        self.shift = torch.nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return super().forward(x) + self.shift


class Scaled(Polynomial):
    def __init__(self, *given):
        super().__init__(*given)
        self.weight.scale = torch.ones(1, requires_grad=True)

    def powers(self, x):
        return super().powers(x) * self.weight.scale


class Normalised(Polynomial):
    def __init__(self, inputs, *given):
        super().__init__(inputs, *given)
        self.norm = torch.nn.BatchNorm1d(inputs, affine=False)

    def powers(self, x):
        return super().powers(self.norm(x))


class DroppedOut(Polynomial):
    def forward(self, x):
        return torch.nn.functional.dropout(super().forward(x), 0.5, self.training)


class Flat(Polynomial):
    def __init__(self, *given):
        super().__init__(*given)
        self.weight = torch.nn.Parameter(self.weight.detach().flatten(0, 1))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Flat, "its weight has 2 dimensions, and 3 are expected"),
        (Bounded, "its forward returns something else"),
        (Shifted, "it has parameters besides its weight"),
        (Scaled, "its powers hang on parameters"),
        (Normalised, "its powers of a row hang on other rows"),
        (DroppedOut, "its forward returns something else"),
        (
            lambda *given: prune.l1_unstructured(Polynomial(*given), "weight", 0.5),
            "it has parameters besides its weight",
        ),
    ],
)
def test_a_bottom_that_shares_do_not_come_to_is_refused(kind, said):
    """Another function was trained than that which the bottom computes, in silence."""
    made = polynomials(CODED)
    columns = made.parties[0].features.shape[1]
    made.parties = (replace(made.parties[0], bottom=kind(columns, 4, 2)), *made.parties[1:])
    with pytest.raises(ConfigurationError, match=f"on shares of its weights, and {said}"):
        made.train(CODED, TRAINING, report=False)


def test_powers_may_be_of_rows_that_are_normalised_by_what_is_fixed():
    bottom = Normalised(3, 4, 2)
    bottom.norm.eval()
    assert not computes_otherwise(bottom, torch.rand(8, 3))


def train(method, driver=None, training=TRAINING, **settings):
    federation = polynomials(method)
    return federation.train(
        method, training, driver or Simulate(costs=FREE), report=False, **settings
    )


def bits(run):
    return {
        (name, part, key): value
        for name, parts in run.models.items()
        for part, module in parts.items()
        for key, value in module.state_dict().items()
    }


def same(one, other):
    found, expected = bits(one), bits(other)
    return found.keys() == expected.keys() and all(
        torch.equal(found[key], expected[key]) for key in found
    )


# The contract

SUBJECT = MethodSubject(
    fedvs(fusion=Sum(), field_bits=61),
    like=Method("plain", Sum()),
    tolerance=1e-5,
    federation=partial(polynomials, parties=3),
    timed=True,  # its messages are: what it learns is not, as is shown below
    steps=False,
    noise=0.08,
)


def late_subject(method, parties=PARTIES, **settings):
    settings |= {"timed": True, "noise": 0.1}
    return MethodSubject(method, federation=partial(polynomials, parties=parties), **settings)


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(check):
    check(SUBJECT)


# What comes of stragglers


def slow_wire(*names, latency=5.0):
    """Whose answers always come too late."""
    lines = {(name, "holder"): Channel(latency=latency) for name in names}
    return Simulate(Network(Channel(latency=0.01), lines), Modelled(otherwise=0.001))


def slow_computer(*names, seconds=5.0):
    """Who takes so long to compute on shares, and is as fast as others in all else."""
    delays = dict.fromkeys(names, Constant(seconds))
    costs = Delayed(Modelled(otherwise=0.001), delays, shares={"coded": 1.0})
    return Simulate(Network(Channel(latency=0.01)), costs)


CODED = fedvs(segments=1, colluders=1)  # 3 answers suffice of 5


@pytest.mark.parametrize("driver", [slow_wire("party_1", "party_4"), slow_computer("party_0")])
def test_nothing_that_is_learned_hangs_on_who_is_late(driver):
    usual, late = train(CODED, Simulate(costs=FREE)), train(CODED, driver)
    assert same(usual, late)
    measured = [column for column in usual.history.columns if "accuracy" in column]
    assert measured
    for column in ["train_loss", *measured]:
        assert usual.history[column].to_list() == late.history[column].to_list()


LATE = {
    "a wire": (CODED, 5, slow_wire("party_1")),
    "a computer": (CODED, 5, slow_computer("party_0", seconds=0.05)),
    "with local steps": (fedvs(1, 1, 3, overlap=True), 5, slow_wire("party_1")),
    "two segments": (fedvs(2, 1), 7, slow_computer("party_0", seconds=0.05)),
}


@pytest.mark.parametrize("case", LATE)
def test_it_lives_with_the_late(case):
    method, parties, late = LATE[case]
    lives_with_the_late(late_subject(method, parties, late=late))


def test_weights_are_rounded_anew_each_round(monkeypatch):
    """Else a bias would stay that averages out."""
    shared = []

    def share_weights(self, weights, instant):
        shared.append((self._name, instant, weights))
        return sharing(self, weights, instant)

    sharing = CodedParty.share_weights
    monkeypatch.setattr(CodedParty, "share_weights", share_weights)
    monkeypatch.setattr(torch.optim.SGD, "step", lambda self, closure=None: None)
    train(CODED)
    own = [weights for name, instant, weights in shared if name == "party_0"]
    assert len(own) > 6
    for one, other in itertools.combinations(own, 2):
        assert (one != other).any()
        assert np.abs(one - other).max() == 1, "weights that did not change"


def test_a_mean_is_of_the_parties_alone_where_the_label_holder_has_no_columns():
    ends = []
    for method in (fedvs(fusion=Mean(), field_bits=61), Method("plain", Mean(), Plain())):
        federation = polynomials(method, holder_has_features=False)
        ends.append(bits(federation.train(method, TRAINING, report=False)))
    for key, value in ends[0].items():
        assert torch.allclose(value, ends[1][key], atol=1e-5), key


def test_nor_on_the_driver():
    assert same(train(CODED), train(CODED, Processes()))


def test_a_slow_computer_holds_nobody_up():
    quick, slow = train(CODED, slow_computer()), train(CODED, slow_computer("party_0", "party_3"))
    within = slow.summary["seconds_virtual"] - quick.summary["seconds_virtual"]
    # Who is told that it is not needed is so a message later than who had answered.
    assert within <= 0.02 * slow.summary["rounds"] < 5.0
    three = train(CODED, slow_computer("party_0", "party_1", "party_3"))
    assert three.summary["seconds_virtual"] > 5.0 * slow.summary["rounds"], "3 of 5 must answer"


def test_a_slow_wire_holds_nobody_up_either_evaluations_included():
    run = train(CODED, slow_wire("party_2"))
    assert run.summary["seconds_virtual"] < 5.0 + 0.1 * run.summary["rounds"]
    late = [entry for entry in run.ledger if entry.discarded]
    assert {e.kind for e in late if e.sender == "party_2"} == {"coded_answer"}
    # It had answered by then, so what it is told is late too.
    others = {(e.kind, e.receiver) for e in late if e.sender != "party_2"}
    assert others == {("enough", "party_2")}


def test_the_history_tells_whose_answer_was_not_waited_for():
    run = train(CODED, slow_wire("party_2"))
    late = {name: run.history[f"late_party_{name}"].sum() for name in range(PARTIES)}
    assert late == {0: 0, 1: 0, 2: run.summary["rounds"], 3: 0, 4: 0}
    (figure,) = [figure for figure in run_figures(run) if figure.key == "late"]
    assert [trace.name for trace in figure.plot.data] == [f"party_{n}" for n in range(PARTIES)]
    assert list(figure.plot.data[2].y) == [100.0] * run.history.height
    told = run.others_history.filter(pl.col("organisation") == "party_2")
    assert 0 < told["rounding_error"].max() < 0.01


def test_who_is_late_is_told_once_that_there_is_enough():
    run = train(CODED, slow_computer("party_0"))
    told = [e for e in run.ledger if e.kind == "enough" and e.receiver == "party_0"]
    assert len([e for e in told if e.purpose.trains]) == run.summary["rounds"]
    assert all(entry.body_bytes == 0 for entry in told)
    assert not [entry for entry in run.ledger if entry.discarded], "it took what it was told"
    answers = [e for e in run.ledger if e.kind == "coded_answer" and e.sender == "party_0"]
    assert not [entry for entry in answers if entry.purpose.trains], "it computed all the same"


def test_work_that_was_called_off_fills_no_queue(monkeypatch):
    most = [0]

    def step(self, actor, now):
        most[0] = max(most[0], len(self.events))
        return stepping(self, actor, now)

    stepping = simulate._Simulation._step
    monkeypatch.setattr(simulate._Simulation, "_step", step)
    monkeypatch.setattr(simulate, "_MANY", 8)
    long = replace(TRAINING, epochs=30)
    usual = train(CODED, training=long)
    run = train(CODED, slow_computer("party_0", "party_3", seconds=1e5), long)
    assert same(usual, run)
    assert most[0] < 100 < run.summary["rounds"]


def test_a_note_tells_where_nobody_may_be_late():
    needs_all, some = fedvs(segments=2, colluders=1), fedvs(segments=1, colluders=1)
    for method, expected in ((needs_all, True), (some, False)):
        told = plan(polynomials(method), method, TRAINING).warnings
        assert any("waits for the slowest" in note for note in told) == expected
        run = train(method)
        assert any("waits for the slowest" in note for note in run.summary["warnings"]) == expected
        assert not any("too late to be of use" in note for note in run.summary["warnings"])


def test_what_parties_send_each_other_is_told_everywhere():
    run = train(CODED)
    shares = sum(e.body_bytes for e in run.ledger if e.kind == "weights_share" and e.purpose.trains)
    assert run.summary["bytes_between"] == shares > 0
    assert bytes_sent(run.summary) == sum(e.body_bytes for e in run.ledger if e.purpose.trains)
    last = run.history.sort("round").tail(1)
    for way in SENT:
        assert last[way].item() == run.summary[way], way
    assert plan(polynomials(CODED), CODED, TRAINING).bytes_between == shares
    errors = run.summary["rounding_error"]
    assert list(errors) == [f"party_{n}" for n in range(PARTIES)]
    assert all(0 < error < 0.05 for error in errors.values())


def test_batches_of_another_size_are_told():
    training = replace(TRAINING, batch_size=15)
    run = train(fedvs(segments=2), training=training)
    assert any("batches have 14 rows, not 15" in note for note in run.summary["warnings"])


@pytest.mark.parametrize("driver", [slow_wire("party_2"), slow_computer("party_2")])
def test_late_answers_fill_no_mailbox(driver, monkeypatch):
    most = []
    put = Mailbox.put

    def noting(self, message, now):
        kept = put(self, message, now)
        most.append(len(list(self)))
        return kept

    monkeypatch.setattr(Mailbox, "put", noting)
    highest = []
    for epochs in (2, 12):
        most.clear()
        train(CODED, driver, replace(TRAINING, epochs=epochs))
        highest.append(max(most))
    assert highest[0] == highest[1]


# Segments


def test_coded_rows_stand_for_rows_that_stand_together():
    sets = [np.arange(7), np.array([9, 8, 11])]
    coded = CodedRows(sets, 3)
    assert coded.count == 3 + 1
    values = np.arange(14).reshape(7, 2) + 1
    segments = coded.segmented(values, 0)
    assert segments.shape == (3, 3, 2)
    for rows in (np.array([2, 3]), np.array([6]), np.arange(7)[::-1].copy()):
        places = coded.of(rows)
        assert (segments[places.segment, places.coded[places.at]] == values[rows]).all()
    assert (segments[1:, 2] == 0).all(), "the last coded row is filled up by zeros"


@pytest.mark.parametrize("rows", [[0, 9], [7], [99], [-1], []])
def test_rows_that_were_not_shared_are_refused(rows):
    with pytest.raises(Exception, match="of several sets, or were not shared"):
        CodedRows([np.arange(7), np.array([9, 8])], 2).of(np.array(rows, dtype=np.int64))


@pytest.mark.parametrize("size", [1, 2, 3, 8, 50])
def test_batches_keep_groups_together_and_take_each_row_once(size):
    rows = np.arange(100, 131)
    plan = BatchPlan(rows, batch_size=8, epochs=2, seed=3)
    grouped = plan.in_groups(size)
    for epoch in range(2):
        first = epoch * grouped.rounds_per_epoch
        batches = [grouped.rows(first + r) for r in range(grouped.rounds_per_epoch)]
        assert sorted(np.concatenate(batches)) == rows.tolist()
        assert max(map(len, batches)) == grouped.batch_size <= max(8, size)
        for batch in batches:
            groups = (batch - 100) // size
            for group in set(groups):
                assert (groups == group).sum() == min(size, 31 - group * size)
    assert grouped.rounds == 2 * grouped.rounds_per_epoch
    if size == 1:
        assert all((plan.rows(r) == grouped.rows(r)).all() for r in range(plan.rounds))


def test_segments_make_answers_and_shares_shorter_and_learn_alike():
    one, two = (
        train(Method("coded", Mean(), Coded(segments=k, data_bits=8, weight_bits=9)), slow_wire())
        for k in (1, 2)
    )
    sizes = [
        {kind: max(e.body_bytes for e in run.ledger if e.kind == kind) for kind in KINDS}
        for run in (one, two)
    ]
    assert sizes[0]["weights_share"] == sizes[1]["weights_share"]
    assert sizes[1]["data_share"] - 16 == (sizes[0]["data_share"] - 16) // 2 + 40  # 15 rows take 8
    assert sizes[1]["coded_answer"] < sizes[0]["coded_answer"]
    assert two.summary["rounds"] == one.summary["rounds"]


KINDS = ("data_share", "weights_share", "coded_answer")


def test_weights_are_shared_once_for_all_pieces_of_an_evaluation():
    """And again for the test rows, which the best model is evaluated on and not the last."""
    run = train(CODED)
    shared = [
        e for e in run.ledger if e.kind == "weights_share" and e.purpose.label == "evaluation"
    ]
    evaluations = run.history.height + 1
    assert len(shared) == evaluations * PARTIES * (PARTIES - 1)
    pieces = [e for e in run.ledger if e.kind == "coded_answer" and e.purpose.label == "evaluation"]
    assert len(pieces) > evaluations * PARTIES


# What it costs


def test_the_plan_knows_the_memory_of_all_shares():
    method = fedvs(segments=2)
    federation = polynomials(method)
    planned = plan(federation, method, TRAINING)
    agreement = federation.agreement(method, TRAINING)
    run = train(method)
    terms = sum(agreement.layout.terms.values())
    coded = 30 + 8 + 8  # of 60, 15 and 15 rows
    for party in agreement.layout.parties:
        kept = 4 * coded * terms
        assert 0 <= planned.memory[party].surrogates - kept <= 4 * terms
    setup = [e.body_bytes for e in run.ledger if e.kind == "data_share"]
    assert sum(setup) == 4 * coded * terms * (PARTIES - 1) + 16 * PARTIES * (PARTIES - 1)
    assert not planned.exact
    assert "not needed" in planned.why_timed[0]


def test_the_most_of_the_field_is_used_by_itself():
    """Of what is left where an embedding may come to 1024."""
    assert Coded().bits(28) == (7, 8)
    assert Coded().bits(2) == (9, 9)
    assert Coded(data_bits=6).bits(28) == (6, 9)
    assert Coded(weight_bits=6).bits(28) == (9, 6)
    assert Coded(data_bits=6, weight_bits=6).bits(28) == (6, 6)
    assert sum(Coded(field_bits=61).bits(28)) == 45
    for parties in (2, 6, 28, 200):
        data, weights = Coded().bits(parties)
        assert 2 ** (data + weights) * 1024 * parties <= 2**30 - 1
        assert 2 ** (data + weights + 1) * 1024 * parties > 2**30 - 1


# What cannot be


def layout(parties=5, terms=True):
    names = tuple(f"party_{n}" for n in range(parties))
    widths = dict.fromkeys(names, 4)
    return Layout(names, "holder", widths, 9, 0, terms=dict.fromkeys(names, 6) if terms else {})


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Coded(segments=0), "segments is 0, but must be a whole number from 1"),
        (lambda: Coded(colluders=True), "colluders is True"),
        (lambda: Coded(field_bits=32), "field has 32 bits, but it is of 31"),
        (lambda: Coded(data_bits=20, weight_bits=20), "leave no room in a field of 31"),
        (lambda: Coded(data_bits=""), "data_bits is '', but a whole number from 0"),
        (
            lambda: Coded(identities=None),
            "identities of Coded is a dict from a text to a text",
        ),
        (lambda: Coded(identities={"bank": "ab"}), "identity of 'bank' has 1 bytes, expected 32"),
        (lambda: Method("x", Concat(), Coded()), "needs each embedding: take sum or mean"),
        (
            lambda: Method("x", Mean(), Coded(), stragglers=Deadline(1.0)),
            r"say Wait\(\), which here waits for no more",
        ),
        (lambda: Perturbed(Gaussian(1.0, 1.0), Coded()), "does not show them"),
        (
            lambda: Coded(segments=2, colluders=2).flows(layout(), 9, TRAINING_PURPOSE),
            "take the answers of 7 parties .* there are 5: let segments and colluders come to 3",
        ),
        (
            lambda: Coded().flows(layout(2), 9, TRAINING_PURPOSE),
            "coding takes 3 parties or more besides the label holder",
        ),
        (
            lambda: Coded(identities={"shop": "ab" * 32}).flows(layout(), 9, TRAINING_PURPOSE),
            "identities has shop, but the parties are party_0",
        ),
        (
            lambda: Coded().flows(layout(terms=False), 9, TRAINING_PURPOSE),
            r"'party_0', .* are computed on shares, .* take Polynomial\(inputs, width, degree\)",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, why):
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_bottoms_that_cannot_be_computed_on_shares_are_refused():
    with pytest.raises(ConfigurationError, match="take Polynomial"):
        small_federation(Method("x", Mean())).train(CODED, TRAINING, report=False)


def test_training_ends_before_sums_wrap():
    method = fedvs(data_bits=14, weight_bits=15)
    with pytest.raises(OutOfRange, match=r"at party_\d, in round \d: .* \d fewer of data_bits or"):
        train(method)


def test_the_summary_says_what_is_protected_from_whom():
    run = train(fedvs(segments=1, colluders=2))
    privacy = run.summary["privacy"]
    assert "K = 1, T = 2, modulo 2^31 - 1" in privacy["mechanism"]
    assert "2 parties together learn nothing" in privacy["shares"]
    assert "nothing from both" in privacy["collusion"]
    assert any("features and weights of all parties" in said for said in run.summary["warnings"])
    assert "theorem 5.3 is about one" in privacy["answers"]
    plain = train(Method("plain", Mean(), Plain()))
    assert "every party's embeddings" in plain.summary["warnings"][0]
    assert "every party's embeddings" not in " ".join(run.summary["warnings"])
    assert "not pinned" in privacy["identities"]


def test_nobody_but_the_label_holder_is_sent_answers_and_it_no_shares():
    run = train(CODED)
    for entry in run.ledger:
        if entry.kind in ("data_share", "weights_share"):
            assert "holder" not in (entry.sender, entry.receiver)
        if entry.kind == "coded_answer":
            assert entry.receiver == "holder"


def test_a_party_alone_with_the_label_holder_is_refused():
    x, y = torch.randn(20, 3), torch.randint(2, (20,))
    federation = Federation(
        [Party("bank", x, Polynomial(3, 4))], LabelHolder("shop", y, torch.nn.Linear(4, 2))
    )
    with pytest.raises(ConfigurationError, match="3 parties or more"):
        federation.train(CODED, TRAINING, report=False)
