"""PBM-VFL as users have it: a method by its name, its epsilon, its budget, and what it refuses."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
import torch
from rich.console import Console
from torch import nn

from colonnade import cli
from colonnade.config import json_schema, parse_config
from colonnade.console import plan_tables
from colonnade.costs import Delayed, Modelled
from colonnade.defences import GaussianDerivatives
from colonnade.delays import Constant, Exponential
from colonnade.deployment.leaving import leaving_in_training
from colonnade.drivers import Processes, Simulate
from colonnade.effects import Purpose
from colonnade.errors import (
    BudgetExhausted,
    ConfigurationError,
    PrivacyWarning,
    RemoteProtocolError,
)
from colonnade.estimators import VerticalClassifier
from colonnade.exchanges import Asynchronous, Relay, Split
from colonnade.export import load_part
from colonnade.federation import Federation
from colonnade.local_updates import Workset
from colonnade.method import Method
from colonnade.methods import pbm_vfl, svfl, wait_dp
from colonnade.models import Bounded, Concat, Mean, Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.partners import partner_values
from colonnade.planning import plan
from colonnade.planning.stretch import traffic
from colonnade.predictions_counted import Times
from colonnade.predictions_told import Predicted
from colonnade.privacy import BinomialSum, Budget, FixedPoint, PoissonBinomial, RowUses, Spending
from colonnade.reports import comparison_tables, epsilon_line, human_epsilon, write_page
from colonnade.reports.figures import comparison_figures
from colonnade.run_read import load_run
from colonnade.secure import Identity, Secrets
from colonnade.stragglers import Deadline, Fastest, Wait
from colonnade.training import EarlyStopping, Training
from colonnade.uplinks import Masked

ROWS, WIDTH, DELTA = 150, 3, 1e-5
TRAINING = Training(epochs=3, batch_size=32, evaluation_rows=15, secrets="seed")
DRIVER = Simulate(costs=Modelled(otherwise=0.001))
NOISY = pbm_vfl(4, 0.05)


def problem(validation=False, secrets=None, last=nn.Tanh):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 6, generator=generator)
    labels = (x.sum(dim=1) > 0).long()
    torch.manual_seed(1)
    parties = [
        Party(
            name,
            x[:, 2 * i : 2 * i + 2],
            nn.Sequential(nn.Linear(2, WIDTH), last()),
            partial(torch.optim.SGD, lr=0.1),
            secrets=None if secrets is None else secrets[name],
        )
        for i, name in enumerate(("bank", "shop", "spa"))
    ]
    holder = LabelHolder("insurer", labels, nn.Linear(WIDTH, 2))
    held_out = {"validation_rows": range(100, 120)} if validation else {}
    return Federation(parties, holder, range(100), range(120, ROWS), **held_out)


def by_hand(federation, method, training, terms=3):
    """Return the uses of each row, counted batch by batch and evaluation by evaluation."""
    agreement = federation.agreement(method, training.for_rows(len(federation.train_rows)))
    uplink, uses = method.uplink, RowUses(ROWS)

    def event(mechanism):
        return BinomialSum(mechanism.trials, mechanism.beta, terms, WIDTH)

    for round in range(agreement.batches.rounds):
        uses.add(event(uplink.mechanism), agreement.batches.rows(round))
        if agreement.evaluation.due(round + 1):
            uses.add(event(uplink.held_out or uplink.mechanism), agreement.evaluation.watched.rows)
    if agreement.evaluation.final:
        uses.add(event(uplink.held_out or uplink.mechanism), agreement.evaluation.final.rows)
    return uses


# --- the method ---------------------------------------------------------------------------------


def test_the_paper_s_composition():
    method = pbm_vfl(16, 0.1, 2.0)
    assert method.name == "pbm_vfl"
    assert method.fusion == Sum()
    assert method.uplink == Masked(PoissonBinomial(16, 0.1, 2.0))
    assert method.exchange.labels == "private"
    assert method.stragglers == Wait()
    assert pbm_vfl(fusion=Mean()).fusion == Mean()
    overlapping = pbm_vfl(local_steps=3, overlap=True)
    assert overlapping.exchange == Asynchronous()
    assert overlapping.local_updates == Workset(1, 2, None)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: pbm_vfl(fusion=Concat()), r"fusion of pbm_vfl is Mean\(\), Sum\(\) or None"),
        (lambda: pbm_vfl(beta=0.3), "beta must be a number above 0 and at most 0.25"),
        (lambda: pbm_vfl(beta=0), "beta must be a number above 0"),
        (lambda: pbm_vfl(trials=0), "trials must be a whole number from 1"),
        (lambda: pbm_vfl(threshold=1), "threshold is 1"),
        (lambda: pbm_vfl(overlap=True), "local_steps is 1: say 2 or more, or overlap=False"),
        (
            lambda: Method("x", Sum(), NOISY.uplink, Relay("shared")),
            "but Masked does not show the label holder each embedding",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(make, why):
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_unbounded_embeddings_are_refused_with_the_key_that_helps():
    tight = Method("tight", Sum(), Masked(PoissonBinomial(4, 0.05, 0.01)))
    with pytest.raises(ConfigurationError, match=r"beyond the bound 0\.01 .*model\.bound: 0\.01"):
        problem().train(tight, TRAINING)


def test_a_federation_of_too_few_is_refused():
    with pytest.raises(ConfigurationError, match="a secure sum of 3 parties cannot have 4"):
        problem().train(pbm_vfl(threshold=4), TRAINING)


@pytest.mark.parametrize(
    "method",
    [
        pbm_vfl(4, 0.05, fusion=Mean()),
        pbm_vfl(4, 0.05, local_steps=3),
        pbm_vfl(4, 0.05, local_steps=3, overlap=True),
        Method("workset", Sum(), NOISY.uplink, Asynchronous(), Workset(2, 2)),
    ],
    ids=["mean", "local steps", "overlap", "workset"],
)
def test_further_steps_cost_no_privacy(method):
    federation = problem()
    run, plain = (federation.train(each, TRAINING, DRIVER) for each in (method, NOISY))
    assert run.summary["privacy_loss"] == plain.summary["privacy_loss"]
    if method.local_updates != NOISY.local_updates:
        assert sum(run.summary["local_updates"].values()) > 0


# --- its epsilon --------------------------------------------------------------------------------


@pytest.mark.parametrize("validation", [False, True])
def test_the_summary_s_epsilon_is_that_of_an_account_by_hand(validation):
    federation, training = problem(validation), replace(TRAINING, evaluate_every=3)
    run = federation.train(NOISY, training)
    uses, loss = by_hand(federation, NOISY, training), run.summary["privacy_loss"]
    assert loss["epsilon"] == uses.epsilon(DELTA).value > 0
    assert loss["bound"] == uses.epsilon(DELTA).by
    towards_a_party = uses.largest(DELTA, view=lambda spent: spent.seen_by(1))[1].value
    whole = uses.largest(DELTA, view=lambda spent: spent.under("sample"))[1].value
    assert loss["epsilon_towards_a_party"] == towards_a_party > loss["epsilon"]
    assert loss["epsilon_of_a_whole_sample"] == whole > towards_a_party
    assert (loss["delta"], loss["budget"]) == (DELTA, None)
    assert loss["uses_of_a_row"] == sum(count for _, count in uses.worst())
    # The paper's figure leaves out a constant of 8 at least, and the components.
    assert loss["renyi"] > 8 * loss["renyi_in_the_paper"] > 0
    assert run.history["epsilon"].to_list() == sorted(run.history["epsilon"].to_list())
    assert run.history["epsilon"][-1] <= loss["epsilon"]


@pytest.mark.parametrize("validation", [False, True])
@pytest.mark.parametrize("epochs", [2, 6])
def test_a_plan_says_the_epsilon_and_the_bytes_of_the_run(validation, epochs):
    federation, training = problem(validation), replace(TRAINING, epochs=epochs)
    costs, run = (
        plan(federation, NOISY, training, DRIVER),
        federation.train(NOISY, training, DRIVER),
    )
    assert costs.privacy_loss == run.summary["privacy_loss"]
    assert json.loads(json.dumps(costs.as_dict()))["privacy_loss"] == run.summary["privacy_loss"]
    assert costs.exact
    keys = ["sender", "receiver", "kind", "purpose"]
    assert costs.traffic.sort(keys).equals(traffic(run.ledger).sort(keys))
    assert plan(federation, svfl(fusion=Sum()), training, DRIVER).as_dict()["privacy_loss"] is None


@pytest.mark.parametrize("evaluate_every", [None, 2])
def test_a_budget_ends_training_before_it_would_be_exceeded(evaluate_every):
    federation = problem()
    event = BinomialSum(4, 0.05, 3, WIDTH)
    afforded = Spending({event: 5}).epsilon(DELTA).value
    assert Spending({event: 6}).epsilon(DELTA).value > afforded
    method = pbm_vfl(4, 0.05, budget=Budget(afforded, DELTA))
    training = replace(TRAINING, epochs=20, evaluate_every=evaluate_every)
    run = federation.train(method, training, DRIVER)
    uses = 5  # of training rows by epochs of 4 rounds, or of test rows in evaluations
    assert run.summary["rounds"] == uses * (evaluate_every or 4)
    assert run.summary["privacy_loss"]["epsilon"] <= afforded
    assert run.summary["privacy_loss"]["budget"] == afforded
    rounds = run.summary["rounds"]
    assert f"the budget of privacy affords {rounds} of the 80 rounds" in str(
        run.summary["warnings"]
    )
    assert not run.summary["stopped_early"]
    more = by_hand(federation, pbm_vfl(4, 0.05), replace(training, epochs=6))
    assert more.epsilon(DELTA).value > afforded
    costs = plan(federation, method, training, DRIVER)
    assert (costs.rounds, costs.bytes_framed) == (rounds, run.summary["bytes_framed"])
    assert costs.privacy_loss == run.summary["privacy_loss"]
    assert "the budget of privacy affords" in str(costs.warnings)


LATE = Simulate(costs=Delayed(Modelled(otherwise=0.001), {"shop": Exponential(mean=0.05)}))
NEVER = Simulate(costs=Delayed(Modelled(otherwise=0.001), {"shop": Constant(9.0)}))


@pytest.mark.parametrize("held_out", [None, PoissonBinomial(4, 0.1)], ids=["alike", "evaluated"])
@pytest.mark.parametrize("policy", [Wait(), Fastest(2), Fastest(3), Deadline(0.02)], ids=str)
@pytest.mark.parametrize("driver", [DRIVER, LATE, NEVER], ids=["prompt", "late", "never"])
def test_a_run_discloses_no_more_than_its_plan_says(driver, policy, held_out):
    method = replace(pbm_vfl(4, 0.05, held_out=held_out), stragglers=policy)
    planned = plan(problem(), method, TRAINING, driver)
    spent = problem().train(method, TRAINING, driver).summary["privacy_loss"]
    epsilons = [name for name in spent if name.startswith("epsilon")]
    assert len(epsilons) == 3
    for name in epsilons:
        assert planned.privacy_loss[name] >= (1 - 1e-9) * spent[name]
    said = plan_text(planned)
    if policy == Wait():
        assert planned.privacy_loss == spent
        assert planned.why_most == ()
        assert "at most" not in said
    elif held_out is None:
        late = f"{type(policy).__name__} may leave a party out, and a sum of fewer hides less"
        assert planned.why_most == (late,)
        assert planned.as_dict()["privacy_loss_most_because"] == [late]
        assert f"epsilon is at most this, because {late}" in said
        assert f"≤ {human_epsilon(planned.privacy_loss['epsilon'])}" in said
    if driver == NEVER and policy == Fastest(2):  # which is what the plan says of each round
        assert planned.privacy_loss["epsilon"] == pytest.approx(spent["epsilon"], rel=1e-9)


def test_an_epsilon_of_labels_is_at_most_what_is_planned_for_reasons_of_its_own():
    method = replace(pbm_vfl(4, 0.05, defence=GaussianDerivatives(1.0, 2.0)), stragglers=Fastest(2))
    for patience in (None, 1):
        training = replace(TRAINING, early_stopping=EarlyStopping(patience=patience))
        planned = plan(problem(validation=True), method, training)
        of_labels = human_epsilon(planned.privacy_loss_of_labels["epsilon"])
        told = plan_text(planned)
        assert len(planned.why_most) == 1 + (patience is not None)
        assert planned.why_most_of_labels == planned.why_most[1:]
        assert f"≤ {human_epsilon(planned.privacy_loss['epsilon'])}" in told
        assert (f"≤ {of_labels}" in told) == (patience is not None)
        assert planned.as_dict()["privacy_loss_of_labels_most_because"] == [*planned.why_most[1:]]
        assert ("epsilon of labels is at most this, because" in told) == (patience is not None)


def plan_text(planned):
    console = Console(width=400)
    with console.capture() as captured:
        for table in plan_tables(planned):
            console.print(table)
    return " ".join(captured.get().split())


def test_a_budget_ends_training_before_it_is_exceeded_whoever_is_late():
    event = BinomialSum(4, 0.05, 2, WIDTH)
    afforded = Budget(Spending({event: 6}).epsilon(DELTA).value, DELTA)
    method = replace(pbm_vfl(4, 0.05, budget=afforded), stragglers=Fastest(2))
    run = problem().train(method, replace(TRAINING, epochs=20), NEVER)
    assert (run.summary["rounds"], run.summary["completed"]) == (24, True)
    assert run.summary["privacy_loss"]["epsilon"] <= afforded.epsilon


def test_a_site_compares_its_policy_with_the_most_that_may_be_disclosed():
    method = replace(pbm_vfl(4, 0.05), stragglers=Fastest(2))
    agreement = problem().agreement(method, TRAINING.for_rows(100))
    spent = problem().train(method, TRAINING, NEVER).summary["privacy_loss"]
    told = leaving_in_training(agreement, "bank").of_embeddings
    assert told["epsilon"] == pytest.approx(spent["epsilon"], rel=1e-9)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            pbm_vfl(4, 0.05, budget=Budget(0.1, DELTA)),
            r"that costs epsilon 1\.55 at delta 1e-05, and there is 0\.1; raise it, .*smaller beta",
        ),
        (
            pbm_vfl(4, 0.05, budget=Budget(9, DELTA), held_out=FixedPoint()),
            "its evaluation, which is without noise.*leave `held_out` of the uplink out, evaluate",
        ),
        (
            Method("exact", Sum(), Masked(FixedPoint(), budget=Budget(9, DELTA))),
            "without noise, so that nothing bounds its epsilon: take a mechanism with noise",
        ),
    ],
)
def test_a_budget_that_affords_no_round_is_refused(method, said):
    with pytest.raises(ConfigurationError, match=f"cannot afford one round of training.*{said}"):
        plan(problem(), method, TRAINING)


LIMITED = {
    "sums": lambda budget: pbm_vfl(4, 0.05, budget=budget),
    "each by itself": lambda budget: wait_dp(fusion=Sum(), budget=budget),
    "labels": lambda budget: Method(
        "quiet", Sum(), exchange=Split(defence=GaussianDerivatives(1.0, 2.0, budget))
    ),
}


@pytest.mark.filterwarnings("ignore::colonnade.errors.PrivacyWarning")
@pytest.mark.parametrize("stop_before", [9, None], ids=["stopped", "finished"])
@pytest.mark.parametrize("protected", LIMITED)
def test_no_run_goes_on_with_a_smaller_budget_than_it_has_spent(tmp_path, protected, stop_before):
    made, out = LIMITED[protected], tmp_path / "run"
    run = problem().train(made(None), TRAINING, out=out, stop_before=stop_before, report=False)
    of = "privacy_loss_of_labels" if protected == "labels" else "privacy_loss"
    spent = run.summary[of]["epsilon"]
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    said = rf"^a row is at epsilon {spent:.4g} .* and the budget is {0.9 * spent:g} at delta 1e-05"
    with pytest.raises(BudgetExhausted, match=said):
        problem().train(made(Budget(0.9 * spent, DELTA)), TRAINING, out=out, resume=True)
    assert before == {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    again = made(Budget(2 * spent, DELTA))
    run = problem().train(again, TRAINING, out=out, resume=True, report=False)
    assert (run.summary["rounds"], run.summary["completed"]) == (12, True)
    assert run.summary[of]["epsilon"] <= run.summary[of]["budget"] == 2 * spent


@pytest.mark.parametrize("make", [pbm_vfl, wait_dp, partial(GaussianDerivatives, 1.0, 1.0)])
@pytest.mark.parametrize("budget", [10, {"epsilon": 10, "delta": 1e-5}])
def test_a_budget_is_a_budget(make, budget):
    with pytest.raises(ConfigurationError, match=r"Budget\(epsilon(=10)?, delta(=1e-5)?\)"):
        make(budget=budget)


def test_a_method_by_its_name_says_which_value_it_is():
    x = pl.DataFrame({"a": range(40)})
    tables, labels = {"bank": x, "shop": x}, [i % 2 for i in range(40)]
    with pytest.raises(ConfigurationError, match=r"say colonnade\.methods\.pbm_vfl\(\)"):
        VerticalClassifier(aligned=True, method="pbm_vfl").fit(tables, labels)
    for use in (problem().train, partial(plan, problem())):
        with pytest.raises(ConfigurationError, match="a method is a value"):
            use(pbm_vfl)


def test_partner_values_tell_that_runs_on_the_same_rows_add_up():
    run = problem().train(NOISY, replace(TRAINING, epochs=1))
    with pytest.warns(PrivacyWarning, match="3 runs showed noisy embeddings of the same rows"):
        partner_values(lambda partner, seed: run, ["bank", "shop"])


TOO_LARGE = "^at shop: an embedding has a component beyond the bound 1 that its protection rests on"


def test_what_is_refused_names_the_party_and_none_of_its_numbers():
    x, labels = torch.full((20, 2), 9.0), torch.zeros(20).long()
    shop = Party("shop", x, nn.Linear(2, 2))
    bank = Party("bank", x, nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    holder = LabelHolder("insurer", labels, nn.Linear(2, 2))
    with pytest.raises(ConfigurationError, match=TOO_LARGE):
        Federation([bank, shop], holder).train(pbm_vfl())
    with pytest.raises(ConfigurationError, match=r"here is bank alone.*take wait_dp"):
        Federation([bank], holder).train(pbm_vfl())


def test_protections_of_features_and_labels_are_settings_of_one_method():
    defence, budget = GaussianDerivatives(1.0, 2.0), Budget(30.0, DELTA)
    for method in (
        pbm_vfl(4, 0.05, budget=budget, defence=defence),
        pbm_vfl(4, 0.05, local_steps=2, overlap=True, budget=budget, defence=defence),
        wait_dp(budget=budget, defence=defence),
    ):
        assert (method.exchange.defence, method.uplink.budget) == (defence, budget)


def test_where_rows_are_evaluated_by_exact_sums_nothing_bounds_it():
    run = problem().train(pbm_vfl(4, 0.05, held_out=FixedPoint()), TRAINING)
    loss = run.summary["privacy_loss"]
    assert loss["epsilon"] is None
    assert loss["epsilon_towards_a_party"] is None
    assert (
        loss["epsilon_with_noise"]
        == Spending({BinomialSum(4, 0.05, 3, WIDTH): 3}).epsilon(DELTA).value
    )
    assert "sums without noise of the embeddings" in str(run.summary["warnings"])


def test_a_summary_says_where_secrets_come_from():
    simulated, real = (
        problem().train(NOISY, replace(TRAINING, secrets=source)) for source in ("seed", "system")
    )
    assert "nothing is secret from who knows the seed" in simulated.summary["privacy"]["secrets"]
    assert "whoever knows the seed sees all that masks and noise hide" in str(
        simulated.summary["warnings"]
    )
    assert "no other run repeats this one" in real.summary["privacy"]["secrets"]
    again = problem().train(NOISY, TRAINING)
    assert again.history.drop("seconds").equals(simulated.history.drop("seconds"))


def test_processes_say_the_same():
    here, there = (problem().train(NOISY, TRAINING, driver) for driver in (DRIVER, Processes()))
    assert there.summary["privacy_loss"] == here.summary["privacy_loss"]


def test_early_stopping_spends_what_was_spent():
    training = replace(TRAINING, epochs=30, early_stopping=EarlyStopping(patience=2))
    run = problem(validation=True).train(NOISY, training)
    assert run.summary["stopped_early"]
    epochs = run.summary["rounds"] // 4
    assert run.summary["privacy_loss"]["uses_of_a_row"] == epochs


def test_predictions_spend_too():
    federation = problem()
    run = federation.train(NOISY, TRAINING)
    features = {party.name: party.features for party in federation.parties}
    once = Spending({BinomialSum(4, 0.05, 3, WIDTH): 1}).epsilon(DELTA).value
    with pytest.warns(PrivacyWarning, match=rf"epsilon {once:.3g} at delta 1e-05 for each row"):
        found = run.predict(features)
    assert found.privacy_loss["epsilon"] == once
    assert "budget" not in found.privacy_loss
    assert found.scores.shape == (ROWS, 2)
    assert {e.kind for e in found.ledger if e.purpose is Purpose.PREDICTION} >= {"masked_embedding"}
    assert not torch.equal(found.scores, run.predict(features).scores)  # its noise is never again
    plain = federation.train(svfl(fusion=Sum()), TRAINING)
    assert plain.predict(features).privacy_loss is None
    unbound = {"epsilon": None}
    Predicted(Times({3: 1})).tell(
        unbound, unbound, unbound
    )  # of nothing that was protected it says nothing


def test_predictions_of_the_same_rows_are_told_together_and_when_they_pass_the_budget():
    event, federation = BinomialSum(4, 0.05, 3, WIDTH), problem()
    three = Spending({event: 3}).epsilon(DELTA).value
    method = pbm_vfl(4, 0.05, budget=Budget(three, DELTA))
    run = federation.train(method, replace(TRAINING, epochs=1))
    features = {party.name: party.features[:2] for party in federation.parties}
    with pytest.warns(PrivacyWarning, match="ends that alone: keep what was predicted"):
        run.predict(features)
    run = replace(run, record=None)  # as an estimator keeps it
    run.predict(features)
    assert run.predict(features).privacy_loss_of_all["epsilon"] == three
    with pytest.warns(PrivacyWarning, match="all 4 predictions of this run is at epsilon"):
        run.predict(features)
    run.predict(features)


def test_a_run_has_no_way_to_predict_that_is_silent_about_what_it_does_not_count():
    """``run.predictor(features)`` released each row anew, and neither warned nor counted."""
    run = problem().train(pbm_vfl(4, 0.05), replace(TRAINING, epochs=1))
    assert not callable(run.predictor)


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_a_prediction_of_few_parties_is_told_as_one_when_others_were_of_all():
    few, all_of_them = BinomialSum(4, 0.05, 2, WIDTH), BinomialSum(4, 0.05, 3, WIDTH)
    spent = Spending({few: 2, all_of_them: 1}).epsilon(DELTA).value
    federation = problem()
    method = pbm_vfl(4, 0.05, budget=Budget(0.999 * spent, DELTA))
    run = federation.train(method, replace(TRAINING, epochs=1))
    features = {party.name: party.features[:2] for party in federation.parties}
    left = {name: columns for name, columns in features.items() if name != "spa"}
    for _ in range(2):
        run.predict(left, without={"spa": "zeros"})
    with pytest.warns(PrivacyWarning, match="all 3 predictions of this run is at epsilon"):
        found = run.predict(features)
    assert found.privacy_loss["epsilon"] == Spending({all_of_them: 1}).epsilon(DELTA).value
    assert found.privacy_loss_of_all["epsilon"] == spent


@pytest.mark.filterwarnings("ignore::colonnade.errors.PrivacyWarning")
@pytest.mark.parametrize("last", ["all", "few"])
@pytest.mark.parametrize("method", [NOISY, wait_dp(fusion=Sum())], ids=["sums", "each by itself"])
def test_no_epsilon_of_all_predictions_falls_with_one_more(method, last):
    federation = problem()
    run = federation.train(method, replace(TRAINING, epochs=1))
    features = {party.name: party.features[:2] for party in federation.parties}
    left = {name: columns for name, columns in features.items() if name != "spa"}
    calls = {"all": (features, {}), "few": (left, {"spa": "zeros"})}
    (first,) = {*calls} - {last}
    told = [
        run.predict(tables, without=without).privacy_loss_of_all
        for tables, without in (*[calls[first]] * 3, calls[last])
    ]
    for name in (name for name in told[0] if name.startswith("epsilon")):
        epsilons = [each[name] for each in told]
        assert epsilons == sorted(epsilons)


def test_who_has_a_pickled_run_is_told_that_nobody_counts_its_predictions(tmp_path):
    """Each of its copies told for ever what one prediction discloses, and warned of no budget."""
    federation = problem()
    features = {party.name: party.features[:2] for party in federation.parties}

    def predicted(run):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = run.predict(features)
        alone = [str(each.message) for each in caught if "no folder, and was" in str(each.message)]
        return (found.privacy_loss_of_all or {}).get("uses_of_a_row"), len(alone)

    run = federation.train(pbm_vfl(4, 0.05), replace(TRAINING, epochs=1))
    assert predicted(run) == (1, 0)
    assert predicted(copy.deepcopy(run)) == (2, 0)  # which counts for both
    assert predicted(copy.copy(run)) == (3, 0)
    other = pickle.loads(pickle.dumps(run))
    for each in (run, other, pickle.loads(pickle.dumps(other))):
        assert predicted(each) == (None, 1)
        assert predicted(each) == (None, 0)
    of_older = {name: getattr(run.predicted, name) for name in ("times", "over", "told", "kept")}
    older = copy.copy(run.predicted)
    older.__dict__.clear()
    older.__setstate__(of_older | {"untold": 0})
    assert predicted(replace(run, predicted=older)) == (None, 1)
    forked = federation.train(pbm_vfl(4, 0.05), replace(TRAINING, epochs=1))
    forked.predicted.process += 1
    assert predicted(forked) == (None, 1)
    kept = federation.train(pbm_vfl(4, 0.05), replace(TRAINING, epochs=1), out=tmp_path / "run")
    for count, each in enumerate((kept, pickle.loads(pickle.dumps(kept)), kept), 1):
        assert predicted(each) == (count, 0)


@pytest.mark.filterwarnings("ignore:this prediction showed")
@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=["simulate", "processes"])
def test_what_a_prediction_disclosed_is_told_under_every_driver(driver):
    federation = problem()
    run = federation.train(pbm_vfl(4, 0.05), replace(TRAINING, epochs=1))
    features = {party.name: party.features[:2] for party in federation.parties}
    told = run.predict(features, driver).privacy_loss
    assert told["uses_of_a_row"] == 1
    assert told["epsilon"] == Spending({BinomialSum(4, 0.05, 3, WIDTH): 1}).epsilon(DELTA).value


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_pinned_identities_hold_for_predictions_and_plans():
    secrets = {name: Secrets.system() for name in ("bank", "shop", "spa")}
    pinned = {name: Identity.of(each, name).public.hex() for name, each in secrets.items()}
    federation, training = problem(secrets=secrets), replace(TRAINING, secrets="system")
    method = pbm_vfl(4, 0.05, identities=pinned)
    run = federation.train(method, training, DRIVER)
    assert "keys of its own" not in str(run.summary["warnings"])
    assert len(run.predict({p.name: p.features for p in federation.parties}).scores) == ROWS
    planned = plan(federation, method, training, DRIVER)
    assert planned.bytes_up == run.summary["bytes_up"]
    strangers = problem(secrets={name: Secrets.system() for name in secrets})
    with pytest.raises(RemoteProtocolError, match="not signed by the identity that is pinned"):
        strangers.train(method, training, DRIVER)
    with pytest.raises(ConfigurationError, match="identities has one for 'bank', which has no sec"):
        problem().train(method, training, DRIVER)
    kept = pickle.dumps(run.predictor)
    assert not any(each.root in kept for each in secrets.values())
    assert pickle.loads(kept).secrets == {}


def test_a_resumed_run_has_the_same_epsilon(tmp_path):
    federation = problem()
    whole = federation.train(NOISY, TRAINING, DRIVER)
    federation.train(NOISY, TRAINING, DRIVER, out=tmp_path / "run", stop_before=7)
    resumed = federation.train(NOISY, TRAINING, DRIVER, out=tmp_path / "run", resume=True)
    assert resumed.summary["privacy_loss"] == whole.summary["privacy_loss"]
    assert resumed.history.drop("seconds").equals(whole.history.drop("seconds"))


def test_an_epsilon_that_promises_nothing_is_told_before_and_after():
    federation, loud = problem(), pbm_vfl(16, 0.25)
    planned = plan(federation, loud, TRAINING)
    narrow = Console(width=66, record=True)
    narrow.print(plan_tables(planned)[0])
    assert "…" not in narrow.export_text()  # the names of kinds are long
    warned = f"epsilon of embeddings is {planned.privacy_loss['epsilon']:,.0f} at delta 1e-05"
    assert any(text.startswith(warned) for text in planned.warnings)
    told = federation.train(loud, TRAINING).summary["warnings"]
    assert any(text.startswith(warned) and "no promise in practice" in text for text in told)
    assert any("pin the others by `identities`" in text for text in told)
    partly = pbm_vfl(16, 0.25, held_out=FixedPoint())  # its epsilon of all is none
    for told in (
        plan(federation, partly, TRAINING).warnings,
        federation.train(partly, TRAINING).summary["warnings"],
    ):
        assert any(text.startswith("epsilon of embeddings, where there was noise") for text in told)
    assert not any("promise" in text for text in plan(federation, NOISY, TRAINING).warnings)


# --- where it is shown --------------------------------------------------------------------------


def text_of(*shown):
    console = Console(width=200, record=True)
    for each in shown:
        console.print(each)
    return console.export_text()


def test_epsilon_is_in_tables_and_on_the_page(tmp_path):
    federation = problem()
    private = federation.train(NOISY, TRAINING, DRIVER, out=tmp_path / "run")
    plain = federation.train(svfl(fusion=Sum()), TRAINING, DRIVER)
    assert "epsilon" not in text_of(*comparison_tables({"plain": plain}))
    together = text_of(*comparison_tables({"plain": plain, "private": private}))
    epsilon = f"{private.summary['privacy_loss']['epsilon']:.3g}"
    assert epsilon in together
    assert "epsilon, a party" in together
    assert together.count("no bound") == 2
    assert "epsilon at delta 1e-05" in together
    runs = {"plain": plain, "private": private}
    (frontier,) = (f for f in comparison_figures(runs) if f.title == "Quality against epsilon")
    bare, noisy = (trace.x[0] for trace in frontier.plot.data)
    assert bare > noisy == private.summary["privacy_loss"]["epsilon"]
    assert frontier.plot.layout.xaxis.ticktext[-1] == "no bound"
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Epsilon against rounds" in page
    assert "Epsilon of a whole sample" in page
    assert epsilon in page
    write_page(plain, tmp_path / "plain.html")
    assert "Epsilon against" not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    assert load_run(tmp_path / "run").summary == private.summary
    assert epsilon_line(private.summary).startswith(
        f"epsilon towards the label holder {epsilon}, epsilon towards a party"
    )


# --- files --------------------------------------------------------------------------------------

FILE = {
    "data": {"name": "mnist5k", "train_rows": 200, "test_rows": 50},
    "model": {"bottom": {"widths": [4]}, "top": {"widths": []}},
    "method": {"name": "pbm_vfl", "trials": 4, "budget": {"epsilon": 40, "delta": 1e-5}},
    "training": {"epochs": 3, "batch_size": 100},
}


def test_a_file_says_all_that_python_does():
    method = parse_config(FILE).method.build()
    assert method == pbm_vfl(trials=4, budget=Budget(40, 1e-5))
    fuller = FILE["method"] | {
        **{"beta": 0.1, "bound": 2, "local_steps": 2, "fusion": "mean", "threshold": 2},
        **{"held_out": {"mechanism": "fixed_point", "bits": 12}, "overlap": True},
        **{"derivative": {"codec": "float", "format": 16}},
    }
    config = parse_config(FILE | {"method": fuller})
    assert parse_config(config.as_dict()) == config
    assert config.method.build().uplink.held_out == FixedPoint(12)
    composed = parse_config(
        {
            "method": {
                "fusion": "sum",
                "uplink": {
                    "uplink": "masked",
                    "mechanism": {"mechanism": "poisson_binomial", "trials": 4, "beta": 0.1},
                    "identities": {"bank": "ab" * 32},
                },
            }
        }
    )
    assert composed.method.build().uplink.mechanism == PoissonBinomial(4, 0.1)
    assert parse_config(composed.as_dict()) == composed
    schema = json.dumps(json_schema(), allow_nan=False)
    for name in ("pbm_vfl", "masked", "poisson_binomial", "fixed_point", "differential_privacy"):
        assert name in schema


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ({"beta": 0.5}, r"method: beta must be a number above 0 and at most 0.25"),
        ({"trials": 2.5}, r"method\.trials"),
        ({"budget": {"epsilon": -1, "delta": 0.1}}, r"method\.budget: epsilon is -1"),
        ({"budget": {"epsilon": 1}}, r"method\.budget\.delta"),
        ({"fusion": "concat"}, r"fusion of pbm_vfl is Mean\(\), Sum\(\) or None"),
        ({"held_out": "gaussian"}, r"method\.held_out"),
    ],
)
def test_a_wrong_setting_is_refused_at_its_key(method, why):
    with pytest.raises(ConfigurationError, match=why):
        parse_config(FILE | {"method": {"name": "pbm_vfl"} | method}).method.build()


def test_any_bottom_can_be_kept_within_a_bound(tmp_path):
    section = FILE["model"] | {"bottom": {"widths": [4], "activation": "identity"}, "bound": 2}
    config = parse_config(FILE | {"model": section, "method": FILE["method"] | {"bound": 2}})
    federation = config.build_federation()
    last = federation.parties[0].bottom[-1]
    assert isinstance(last, Bounded)
    assert float(last(torch.tensor(1e9))) == 2
    assert config.train(federation=federation).summary["completed"]
    with pytest.raises(ConfigurationError, match="positive"):
        Bounded(0)


def test_commands_run_plan_resume_and_compare(tmp_path, monkeypatch, capsys):
    import yaml

    def command(*words):
        monkeypatch.setattr("sys.argv", ["colonnade", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        assert not left.value.code, capsys.readouterr()
        return capsys.readouterr().out

    file = tmp_path / "pbm.yaml"
    file.write_text(yaml.safe_dump(FILE), encoding="utf-8")
    planned = json.loads(command("plan", file, "--json"))
    shown = command("plan", file)
    assert "epsilon of a whole sample" in shown
    assert " of 40" in shown
    said = command("run", file, "--out", tmp_path / "run")
    assert "epsilon towards the label holder" in said
    summary = load_run(tmp_path / "run").summary
    assert summary["privacy_loss"] == planned["privacy_loss"]
    assert summary["rounds"] == planned["rounds"]
    assert summary["bytes_framed"] == planned["bytes_framed"]
    command("run", file, "--out", tmp_path / "run", "--resume", "--quiet")
    assert load_run(tmp_path / "run").summary["privacy_loss"] == planned["privacy_loss"]
    assert "epsilon" in command("compare", tmp_path / "run", "--out", tmp_path / "compared")


# --- estimators and exports ---------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:training ran out", "ignore:this prediction showed")
def test_an_estimator_learns_by_noisy_sums(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    tables = {
        name: pl.DataFrame(x[:, 2 * i : 2 * i + 2], schema=["a", "b"])
        for i, name in enumerate(("bank", "shop", "spa"))
    }
    y = x.sum(axis=1) > 0
    model = VerticalClassifier(
        aligned=True, method=pbm_vfl(64, 0.25), epochs=15, hidden=(8,), top=(8,), validation=0.2
    ).fit(tables, y)
    assert model.score(tables, y) > 0.75
    assert model.run_.summary["privacy_loss"]["epsilon"] > 0
    assert model.prediction(tables).privacy_loss["uses_of_a_row"] == 1
    model.run_.export(tmp_path)
    part = load_part(tmp_path / "bank")
    assert part.details["uplink"] == repr(model.method.uplink)
    assert part.details["fusion"] == "Sum()"
    (tmp_path / "page.html").unlink(missing_ok=True)
    assert "Epsilon against rounds" in model.report(tmp_path / "page.html").read_text("utf-8")


def test_partner_values_of_two_parties_are_refused_with_the_reason():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    tables = {
        name: pl.DataFrame(x[:, 2 * i : 2 * i + 2], schema=["a", "b"])
        for i, name in enumerate(("bank", "shop"))
    }
    model = VerticalClassifier(aligned=True, method=NOISY, epochs=2, hidden=(4,))
    with pytest.raises(ConfigurationError, match="here is shop alone"):
        model.partner_values(tables, x.sum(axis=1) > 0)
