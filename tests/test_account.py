"""The account of a run: what had left before a crash is in it, whatever comes after."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade.checkpoints import decode_state, encode_state
from colonnade.defences import GaussianDerivatives
from colonnade.effects import Purpose
from colonnade.errors import BudgetExhausted, ConfigurationError
from colonnade.evaluation import HeldOut
from colonnade.layout import Layout
from colonnade.models import Sum
from colonnade.organisations import Party
from colonnade.privacy import (
    UNLIMITED,
    BinomialSum,
    Budget,
    Clipped,
    FixedPoint,
    Gaussian,
    GaussianNoise,
    PoissonBinomial,
    Spending,
)
from colonnade.reports import human_epsilon
from colonnade.stragglers import Wait
from colonnade.testing.methods import small_federation
from colonnade.uplinks import Masked, Moment, Perturbed
from colonnade.uplinks.account import Account, most_told

EVALUATION = Purpose.EVALUATION
BATCHES = [np.array([0, 1]), np.array([2, 3]), np.array([0, 2]), np.array([0, 3])]
HELD_OUT = HeldOut("test", [np.array([4]), np.array([5])])


class Plan:
    """Four batches, and two pieces that are evaluated after each."""

    row_sets = (np.arange(4), HELD_OUT.rows)

    @staticmethod
    def rows_at(moment):
        if moment.purpose is Purpose.TRAINING:
            return BATCHES[moment.round]
        return HELD_OUT.rows_at(moment)


def event(purpose, terms):
    return BinomialSum(4, 0.1, terms)


def account(budget=UNLIMITED, simulated=False, made=event):
    return Account(6, made, budget, simulated, fewest=2)


def of(uses):
    return Spending({event(0, terms): count for terms, count in uses.items()}).epsilon(1e-5).value


def entered(account, *moments, terms=3):
    return [account.enter(Plan.rows_at(moment), moment, terms) for moment in moments]


def test_what_left_before_a_crash_counts_though_no_round_comes_to_it_again():
    lost = entered(account(), *(Moment(round) for round in range(4)))
    resumed = account()
    resumed.begin(lost, Plan)
    assert resumed.report() == {"epsilon": of({3: 3})}  # row 0, of which nothing leaves any more
    assert resumed.spent()["uses_of_a_row"] == 3
    entered(resumed, Moment(0))
    assert resumed.report() == {"epsilon": of({3: 4})}


def test_evaluations_before_a_crash_count_piece_by_piece():
    lost = entered(account(), *(Moment(r, EVALUATION, part) for r in range(3) for part in (0, 1)))
    resumed = account()
    resumed.begin(lost[:5], Plan)
    assert [sum(n for _, n in resumed._uses.spending(row)) for row in range(6)] == [0] * 4 + [3, 2]


def test_a_record_is_entered_once():
    first = account()
    committed = entered(first, Moment(0), Moment(1))
    saved = decode_state(encode_state(first.state_dict()))
    committed += entered(first, Moment(2))
    resumed = account()
    resumed.load_state_dict(saved)
    resumed.begin(committed, Plan)
    assert resumed.report() == first.report() == {"epsilon": of({3: 2})}
    saved = decode_state(encode_state(resumed.state_dict()))
    resumed.begin(committed, Plan)
    again = account()
    again.load_state_dict(saved)
    again.begin(committed, Plan)
    assert again.report() == resumed.report() == first.report()


def test_an_upload_of_which_nothing_more_is_known_counts_with_the_fewest_terms():
    first = account()
    records = [first.uploading(Moment(0)), *entered(first, Moment(0)), first.uploading(Moment(2))]
    resumed = account()
    resumed.begin(records, Plan)
    assert resumed._uses.spending(0) == Spending({event(0, 3): 1, event(0, 2): 1})


def test_a_simulation_repeats_its_noise():
    lost = entered(account(), Moment(0))
    resumed = account(simulated=True)
    resumed.begin(lost, Plan)
    entered(resumed, Moment(0))
    assert resumed.report() == {"epsilon": of({3: 1})}


def test_a_budget_that_a_crash_used_up_affords_nothing_more():
    budget = Budget(1.001 * of({3: 3}), 1e-5)
    lost = entered(account(budget), Moment(0), Moment(2), Moment(3))
    resumed = account(budget)
    resumed.begin(lost, Plan)
    with pytest.raises(BudgetExhausted, match="with a larger budget"):
        entered(resumed, Moment(0))
    assert resumed.report() == {"epsilon": of({3: 3})}
    entered(resumed, Moment(1))  # rows 2 and 3 had less


def test_a_budget_is_not_denied_to_rows_that_differ():
    """Each row has had three uses: the most that any had of each event come to more."""
    budget = Budget(1.001 * of({3: 1, 2: 3}), 1e-5)
    kept = account(budget)
    kept.enter(np.array([0]), Moment(0), 2)
    kept.enter(np.array([0]), Moment(0), 2)
    for _ in range(3):
        kept.enter(np.array([1]), Moment(0), 3)
    assert not budget.affords(kept._uses.worst() + Spending({event(0, 2): 1}))
    kept.enter(np.array([0, 1]), Moment(0), 2)
    resumed = account(budget)
    resumed.load_state_dict(kept.state_dict())
    assert resumed.report() == kept.report()


def test_a_budget_below_what_was_spent_is_refused():
    kept = account()
    entered(kept, *(Moment(round) for round in range(4)))
    smaller = Budget(0.999 * of({3: 3}), 1e-5)
    with pytest.raises(BudgetExhausted, match="by what this run may have released, and the budget"):
        account(smaller).load_state_dict(kept.state_dict())
    lost = entered(account(), *(Moment(round) for round in range(4)))
    with pytest.raises(BudgetExhausted, match="by what this run may have released, and the budget"):
        account(smaller).begin(lost, Plan)


@dataclass(frozen=True)
class Heard:
    """An event that Colonnade has never heard of."""

    inner: GaussianNoise

    def __getattr__(self, name):
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def under(self, adjacency):
        return replace(self, inner=self.inner.under(adjacency))

    def seen_by(self, colluding):
        return self


def test_an_event_of_one_s_own_is_made_anew_from_a_checkpoint():
    def made(purpose, terms):
        return Heard(GaussianNoise(8.0 if purpose is Purpose.TRAINING else 4.0, terms))

    first = account(made=made)
    entered(first, Moment(0))
    entered(first, Moment(0, EVALUATION), Moment(0, EVALUATION), terms=2)
    first.enter(np.array([], dtype=np.int64), Moment(1), 5)
    again = account(made=made)
    again.load_state_dict(decode_state(encode_state(first.state_dict())))
    assert again._uses.spending(0) == Spending({made(Purpose.TRAINING, 3): 1})
    assert again._uses.spending(4) == Spending({made(EVALUATION, 2): 2})
    assert again.spent() == first.spent()
    entered(again, Moment(2))
    assert again._uses.spending(0) == Spending({made(Purpose.TRAINING, 3): 2})


def test_what_is_told_is_one_account_the_largest():
    """A party had sent ahead when a crash undid it; its label holder had not come to it."""
    uplink = Perturbed(Gaussian(1.0, 4.0))
    layout = Layout(("a", "b"), "holder", {"a": 2, "b": 2}, rows=6, seed=0)
    holder = uplink.collector(layout, Sum(), cn.Wait())
    first, second = (
        uplink.uploader(layout, Party(name, torch.zeros(6, 2), nn.Identity())) for name in "ab"
    )
    for half, times in ((holder, 2), (first, 3), (second, 2)):
        entered(half._account, *[Moment(0)] * times)
    told = most_told([half.spent() for half in (holder, first, second)])
    assert told == first.spent()
    assert told["uses_of_a_row"] == 3
    noise = GaussianNoise(4.0, terms=2)
    assert told["epsilon"] == Spending({noise: 3}).epsilon(1e-5).value
    whole = Spending({noise: 3}).under("sample").epsilon(1e-5)
    assert told["epsilon_of_a_whole_sample"] == whole.value
    assert told["renyi"] == Spending({noise: 3}).renyi([told["order"]])[0]
    assert holder.spent()["epsilon"] < told["epsilon"]


def test_what_tells_runs_apart_has_no_budget():
    budget = Budget(3.0, 1e-5)

    def method(budget):
        noise, beneath = Gaussian(1.0, 4.0), cn.Plain()
        defence = GaussianDerivatives(1.0, 2.0, budget)
        uplink = Perturbed(noise, beneath, budget=budget)
        return cn.Method("x", Sum(), uplink, cn.Split(defence=defence))

    assert repr(method(budget).unlimited()) == repr(method(None)) != repr(method(budget))
    assert Masked(PoissonBinomial(4, 0.1), budget=budget).unlimited().budget is None
    assert cn.methods.svfl().unlimited() == cn.methods.svfl()


def test_no_bound_is_the_largest_of_what_is_told():
    mixed = [
        {"epsilon": 3.0, "epsilon_towards_a_party": None},
        {"epsilon": None, "epsilon_with_noise": 2.0, "epsilon_towards_a_party": 4.0},
        {},
        {"epsilon": None, "epsilon_with_noise": None, "epsilon_towards_a_party": 4.0},
    ]
    expected = {"epsilon": None, "epsilon_with_noise": 2.0, "epsilon_towards_a_party": None}
    assert most_told(mixed) == most_told(mixed[::-1]) == expected
    assert most_told([{}, {}]) == {}


@pytest.mark.parametrize("what", ["train_rows", "validation_rows", "test_rows"])
def test_a_row_that_is_named_twice_is_refused(what):
    """An epoch would use it twice, and what plans and budgets say is of one use an epoch."""
    made = small_federation(cn.methods.svfl())
    rows = {what: [*made.train_rows[:3], made.train_rows[1]]}
    with pytest.raises(ConfigurationError, match=rf"{what} has row {made.train_rows[1]} more than"):
        cn.Federation(made.parties, made.label_holder, **rows)


@dataclass(frozen=True)
class Sharp(GaussianNoise):
    """As Gaussian noise, but nobody knows its Renyi divergences."""

    def renyi(self, orders):
        return np.full(len(np.atleast_1d(orders)), np.inf)


@dataclass(frozen=True)
class Sharpened(Gaussian):
    def event(self, terms=1):
        return Sharp(self.multiplier, terms)


@dataclass(frozen=True)
class SharpCoins(PoissonBinomial):
    def event(self, terms, components):
        return Sharp(4.0, terms)


@pytest.mark.parametrize(
    "uplink", [Perturbed(Sharpened(1.0, 4.0)), Masked(SharpCoins(4, 0.1))], ids=["noise", "sum"]
)
def test_a_mechanism_is_private_by_whichever_bound(uplink):
    layout = Layout(("a", "b"), "holder", {"a": 2, "b": 2}, rows=6, seed=0)
    spent = uplink.spending(layout, {Purpose.TRAINING: 2}, Wait())
    assert spent["epsilon"] == Spending({GaussianNoise(4.0): 2}).epsilon(1e-5).losses
    said = uplink.disclosures(layout)
    assert not any("without noise" in f"{each.statement} {each.sees}" for each in said)
    assert len(uplink.games(layout)) == 1


@pytest.mark.parametrize("validation", [True, False])
def test_an_agreement_knows_the_rows_of_every_moment(validation):
    made = small_federation(cn.methods.svfl())
    held_out = {"validation_rows": made.validation_rows} if validation else {}
    federation = cn.Federation(
        made.parties, made.label_holder, made.train_rows, made.test_rows, **held_out
    )
    training = cn.Training(epochs=2, batch_size=16, evaluation_rows=7)
    agreed = federation.agreement(cn.methods.svfl(), training)
    assert np.array_equal(agreed.rows_at(Moment(5)), agreed.batches.rows(5))
    moments = [
        *agreed.evaluation.watched.moments(3, EVALUATION),
        *agreed.evaluation.final.moments(3, EVALUATION),
    ]
    held_out = [*federation.validation_rows, *federation.test_rows]
    assert [row for _, moment in moments for row in agreed.rows_at(moment)] == held_out
    assert all(np.array_equal(agreed.rows_at(moment), rows) for rows, moment in moments)


@pytest.mark.parametrize("bound", [1e-320, 1e-40, 1e308, 10**400, np.inf, np.nan, "1", None, True])
def test_bounds_that_no_embedding_can_keep_are_refused(bound):
    makers = (
        lambda: Gaussian(bound, 1.0),
        lambda: PoissonBinomial(4, 0.1, bound),
        lambda: FixedPoint(16, bound),
        lambda: Clipped(bound),
    )
    for make in makers:
        with pytest.raises(ConfigurationError, match="bound must be a positive, finite number"):
            make()


def test_noise_and_units_beyond_float32_are_refused():
    with pytest.raises(ConfigurationError, match="deviation of the noise"):
        Gaussian(1e-37, 1e-3)
    with pytest.raises(ConfigurationError, match="deviation of the noise"):
        Gaussian(1e38, 2.0)
    with pytest.raises(ConfigurationError, match="what a coin counts for"):
        PoissonBinomial(4, 1e-300)


def test_an_upper_bound_is_rounded_up():
    told = [human_epsilon(value) for value in (14.349, 14.3, 100.49, 99.91, 0.012341, 3.0, 0.0)]
    assert told == ["14.4", "14.3", "101", "100", "0.0124", "3", "0"]
