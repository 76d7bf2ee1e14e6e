"""The perturbed uplink: noise that each party adds to its own clipped embeddings."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade.codecs import Scalar, TopK
from colonnade.config.parse import parse_config
from colonnade.defences import GaussianDerivatives
from colonnade.deployment.leaving import leaving_in_training
from colonnade.disclosures import privacy_statement, privacy_warnings
from colonnade.effects import Notes, Purpose
from colonnade.errors import BudgetExhausted, ConfigurationError, LocalProtocolError
from colonnade.evaluation import HeldOut
from colonnade.exchanges import Asynchronous, Relay, Split
from colonnade.layout import Layout
from colonnade.links import Direct, ErrorFeedback, LearnedEntropy
from colonnade.local_updates import Consecutive, Proximal, Replayed, Workset
from colonnade.method import Method
from colonnade.methods import wait_dp
from colonnade.models import Learner, Mean, Sum
from colonnade.organisations import Party
from colonnade.planning import plan
from colonnade.privacy import (
    Budget,
    Clipped,
    FixedPoint,
    Gaussian,
    GaussianNoise,
    PoissonBinomial,
    Spending,
    clipped,
)
from colonnade.reports import comparison_table
from colonnade.secure import Secrets
from colonnade.stragglers import Deadline, Wait
from colonnade.testing.methods import METHOD_CHECKS, TRAINING, MethodSubject, small_federation
from colonnade.uplinks import Masked, Moment, Perturbed, Plain
from toy_course import committed, played, sent
from toy_exchange import Doubled
from toy_masked import Masked as ToyMasked
from toy_mixing import APART, MIXING, Of, without_numbers

pytestmark = pytest.mark.usefixtures("no_pictures")

GAUSSIAN = Gaussian(bound=2.0, multiplier=0.05)
NOISY = Perturbed(GAUSSIAN)
BARE = Perturbed(Clipped(1e4))

SUBJECTS = {
    "wait_dp": MethodSubject(wait_dp(), noise=0.8, steps=False),
    "little noise": MethodSubject(Method("noisy", Sum(), NOISY), noise=0.5),
    "clipped at what nothing reaches": MethodSubject(
        Method("bare", Sum(), BARE), like=Method("plain", Sum()), tolerance=1e-6, steps=False
    ),
    "held out exactly": MethodSubject(
        Method("held out", Mean(), Perturbed(GAUSSIAN, held_out=Clipped(2.0))), steps=False
    ),
    "quantised": MethodSubject(
        Method("quantised", uplink=Perturbed(GAUSSIAN, Plain(Direct(Scalar(6))))),
        noise=0.5,
        steps=False,
    ),
    "learned entropy": MethodSubject(
        Method(
            "learned",
            uplink=Perturbed(GAUSSIAN, Plain(LearnedEntropy(Scalar(5, -4.0, 4.0, dither=False)))),
        ),
        noise=0.5,
        steps=False,
    ),
    "error feedback": MethodSubject(
        Method("feedback", Mean(), Perturbed(GAUSSIAN, Plain(ErrorFeedback(TopK(0.5))))),
        noise=0.5,
        steps=False,
    ),
    "fedbcd": MethodSubject(
        Method("fedbcd", Sum(), NOISY, local_updates=Consecutive(3)), noise=0.5
    ),
    "proximal, replayed": MethodSubject(
        Method("proximal", uplink=NOISY, local_updates=Proximal(1, 6, label_holder=Replayed(2, 3))),
        noise=0.5,
    ),
    "celu": MethodSubject(
        Method("celu", Mean(), NOISY, Asynchronous(), Workset(2, 2, 0.3)), noise=0.5
    ),
    "deadline": MethodSubject(
        Method("deadline", Mean(), NOISY, stragglers=Deadline(60)), noise=0.5, steps=False
    ),
    "stale": MethodSubject(
        Method("stale", uplink=NOISY, stragglers=Deadline(60, "stale")), noise=0.5, steps=False
    ),
    "correction": MethodSubject(
        Method("correction", uplink=NOISY, exchange=Split(correction=0.1)), noise=0.5, steps=False
    ),
}


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
def test_it_conforms(subject, check):
    check(subject)


# One half, played by hand

ROWS, WIDTH = 400, 6
LAYOUT = Layout(("bank", "shop"), "insurer", {"bank": WIDTH, "shop": WIDTH}, ROWS, seed=3)
FEATURES = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
FEATURES *= torch.linspace(0.1, 3, ROWS)[:, None]  # rows within the bound, and beyond it
EVERYBODY = np.arange(ROWS, dtype=np.int64)
PBM = PoissonBinomial(trials=4, beta=0.1)
TEST, NEW = Purpose.EVALUATION, Purpose.PREDICTION


def uploader(uplink=NOISY, root=b"r", notes=None, name="bank", layout=LAYOUT, secrets=None):
    """A party's half that has begun, with secrets of its own."""
    secrets = secrets or (None if layout.simulated else Secrets(root * 32))
    half = uplink.uploader(layout, Party(name, FEATURES, nn.Identity(), secrets=secrets))
    played(half.prepare(HeldOut("all", [EVERYBODY])), notes)
    return half


def values(bodies):
    (body,) = bodies
    return torch.frombuffer(bytearray(body), dtype=torch.float32).view(-1, WIDTH)


def released(half, moment=Moment(0), rows=EVERYBODY):  # noqa: B008 - frozen
    """What left the party of these rows."""
    _, acts = played(half.upload(Learner(nn.Identity()), rows, moment))
    return values(sent(acts))


def test_what_leaves_is_the_clipped_embedding_with_noise_of_the_stated_deviation():
    noise = released(uploader()) - clipped(FEATURES, GAUSSIAN.bound)
    count, deviation = noise.numel(), GAUSSIAN.deviation
    assert deviation == 0.05 * 2 * 2.0
    assert abs(float(noise.mean())) < 6 * deviation / math.sqrt(count)
    assert abs(float(noise.std()) / deviation - 1) < 6 / math.sqrt(2 * count)


def test_rows_are_clipped_to_the_bound_and_shorter_ones_kept():
    short = clipped(FEATURES, 2.0)
    lengths = FEATURES.norm(dim=1)
    assert bool((short.norm(dim=1) <= 2.0).all())
    assert bool((lengths > 2.5).any() and (lengths < 1.5).any())
    torch.testing.assert_close(short[lengths < 2].float(), FEATURES[lengths < 2])


def test_gradients_through_the_clip_are_finite_differences():
    weight = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(2)).double()
    rows = FEATURES[::40].double()
    direction = torch.randn(len(rows), WIDTH, generator=torch.Generator().manual_seed(3)).double()

    def along(weight):
        return (clipped(rows @ weight, 2.0) * direction).sum()

    assert torch.autograd.gradcheck(along, weight.requires_grad_())


def test_a_party_steps_along_the_clipped_embedding_that_it_keeps_to_itself():
    bottom = nn.Linear(WIDTH, WIDTH, bias=False)
    half = uploader()
    exact, acts = played(half.upload(Learner(bottom), EVERYBODY, Moment(0)))
    again = NOISY.embedder(Learner(bottom))(FEATURES, training=True)
    assert torch.equal(exact, again)
    derivative = torch.ones_like(exact)
    (one,) = torch.autograd.grad(exact, bottom.weight, derivative)
    (other,) = torch.autograd.grad(
        clipped(bottom(FEATURES), 2.0).float(), bottom.weight, derivative
    )
    torch.testing.assert_close(one, other)
    assert torch.equal(half.delivered(), values(sent(acts)))
    assert not torch.equal(half.delivered(), exact)


def test_no_exact_value_leaves():
    """No row of any body is near its exact embedding, or near itself in another body."""
    half = uploader()
    bodies = []
    for moment in (Moment(0), Moment(1), Moment(1, TEST), Moment(1, TEST, 1), Moment(0, NEW)):
        exact, acts = played(half.upload(Learner(nn.Identity()), EVERYBODY, moment))
        told = values(sent(acts))
        bodies.append(told)
        for kept in (exact.detach(), FEATURES, clipped(FEATURES, 2.0).float()):
            assert float((told - kept).norm(dim=1).min()) > 0.2 * GAUSSIAN.deviation
    for place, one in enumerate(bodies):
        for other in bodies[:place]:
            assert float((one - other).std()) > 1.3 * GAUSSIAN.deviation


MOMENTS = [Moment(0), Moment(1), Moment(0, TEST), Moment(0, TEST, 1), Moment(0, NEW)]


def test_no_noise_is_drawn_twice():
    """Not by another moment, party, purpose or start, nor by another run with the same root."""
    halves = {
        "bank": uploader(),
        "shop": uploader(name="shop", root=b"s"),
        "again": uploader(notes=Notes(1)),
        "another run": uploader(),
    }
    drawn = {
        (who, moment): released(half, moment) for who, half in halves.items() for moment in MOMENTS
    }
    different = [*drawn.values()]
    for place, one in enumerate(different):
        for other in different[:place]:
            assert float((one - other).std()) > 1.3 * GAUSSIAN.deviation
            assert not (one == other).all(dim=1).any()


def test_a_simulation_has_the_same_noise_at_every_start_and_a_real_run_has_not():
    seeded = replace(LAYOUT, simulated=True)

    def first(layout, start):
        return released(uploader(layout=layout, notes=Notes(start)))

    assert torch.equal(first(seeded, 0), first(seeded, 1))
    assert not torch.equal(first(LAYOUT, 0), first(LAYOUT, 1))


def test_who_shares_a_root_draws_apart():
    """Two parties with one object, and two runs that a party takes part in at a time."""
    one = Secrets.system()
    halves = [uploader(name=name, secrets=one) for name in ("bank", "shop", "bank")]
    drawn = [released(half) for half in halves]
    for place, other in enumerate(drawn):
        for mine in drawn[:place]:
            assert float((mine - other).std()) > 1.3 * GAUSSIAN.deviation


@pytest.mark.filterwarnings("ignore:this prediction showed")
def test_seeded_noise_is_for_declared_simulations_in_training_and_prediction():
    federation = small_federation(METHOD)
    seeded = Secrets.insecure(5)
    parties = [replace(party, secrets=seeded) for party in federation.parties]
    given = cn.Federation(
        parties, federation.label_holder, federation.train_rows, federation.test_rows
    )
    with pytest.raises(ConfigurationError, match="'party_0' are made of a seed"):
        given.train(METHOD, replace(TRAINING, secrets="system"))
    run = given.train(METHOD, TRAINING)  # a declared simulation of this seed
    rows = {p.name: p.features[:3] for p in [*parties, federation.label_holder.as_party()]}
    assert not torch.equal(run.predict(rows).scores, run.predict(rows).scores)
    careless = replace(run.predictor, secrets={"party_0": seeded})
    with pytest.raises(ConfigurationError, match="'party_0' are made of a seed"):
        careless.predict_uncounted(rows)


def test_what_is_spent_is_committed_before_it_leaves():
    _, acts = played(uploader().upload(Learner(nn.Identity()), EVERYBODY, Moment(4, TEST, 2)))
    assert [type(act).__name__ for act in acts] == ["Commit", "Send"]
    assert committed(acts) == [{"spent": [4, int(TEST), 2, 1]}]


def test_codes_are_made_of_noisy_values_alone():
    """Other exact embeddings that come to the same noisy ones have the same bytes."""
    link = Direct(TopK(0.5, scope="columns", by="saliency"))
    half = uploader(Perturbed(GAUSSIAN, Plain(link)))
    loud = torch.arange(WIDTH).float()
    bodies = []
    for saliency in (None, loud, -loud.flip(0)):
        same = replace(LAYOUT, simulated=True)
        fresh = uploader(Perturbed(GAUSSIAN, Plain(link)), layout=same)
        course = fresh.upload(Learner(nn.Identity()), EVERYBODY, Moment(0), saliency)
        bodies += sent(played(course)[1])
    assert len(set(bodies)) == 1
    assert half.delivered is not None


@dataclass(frozen=True)
class Twice(Plain):
    """Evaluates the bottom twice for a message."""

    def uploader(self, layout, party):
        return TwiceUploader(party)


class TwiceUploader:
    def __init__(self, party):
        self.party = party

    async def prepare(self, timetable):
        pass

    async def upload(self, bottom, rows, moment, saliency=None):
        return bottom(self.party.features, True) - bottom(self.party.features, True)


def test_noise_is_drawn_once_for_a_message():
    half = uploader(Perturbed(GAUSSIAN, Twice()))
    with pytest.raises(LocalProtocolError, match="evaluated the bottom twice"):
        played(half.upload(Learner(nn.Identity()), EVERYBODY, Moment(0)))


# What it can be composed with


def test_what_it_cannot_live_with_is_refused_with_the_reason():
    for make, why in (
        (lambda: Perturbed(GAUSSIAN, ToyMasked()), "Masked does not show them"),
        (lambda: Perturbed(GAUSSIAN, NOISY), "Perturbed does not show them"),
        (lambda: Perturbed(GAUSSIAN, held_out=Clipped(1.0)), "norm 2 in training and to 1"),
        (
            lambda: Method("x", Sum(), NOISY, Relay("shared")),
            "gives noise to the parties' alone: take the split exchange",
        ),
        (
            lambda: Method(
                "x",
                Mean(),
                Perturbed(GAUSSIAN, Plain(ErrorFeedback(TopK(0.5)))),
                stragglers=Deadline(1),
            ),
            "needs every message in order",
        ),
        (lambda: Gaussian(0.0, 1.0), "bound must be a positive"),
        (lambda: Gaussian.calibrated(1.0, 5.0, 0.0), "no noise is calibrated"),
        (lambda: wait_dp(bound=-1), "bound must be a positive"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            make()


class Frozen(nn.Sequential):
    """Its norm keeps to the statistics that it came with, also where the rest is trained."""

    def train(self, mode=True):
        return super().train(False)


@pytest.mark.parametrize(
    "uplink", [NOISY, Perturbed(Clipped(1.0), held_out=Gaussian(1.0, 1.0)), Masked(PBM)], ids=str
)
def test_a_bottom_that_mixes_rows_is_refused_where_an_account_of_rows_is_kept(uplink):
    def make(*layers, kind=nn.Sequential, through=uplink):
        bottom = kind(nn.Linear(WIDTH, WIDTH), *layers)
        return through.uploader(LAYOUT, Party("bank", FEATURES, bottom))

    for mixing in (nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH, track_running_stats=False)):
        with pytest.raises(ConfigurationError, match=r"'bank' has batch norm.* \(1\).*GroupNorm"):
            make(mixing)
    make(nn.LayerNorm(WIDTH), nn.GroupNorm(2, WIDTH))
    make(nn.BatchNorm1d(WIDTH), kind=Frozen)
    for bare in (Plain(), Perturbed(Clipped(1.0)), Masked(FixedPoint(16))):
        make(nn.BatchNorm1d(WIDTH), through=bare)


@pytest.mark.parametrize("kind", MIXING)
def test_a_bottom_whose_rows_are_mixed_in_any_place_is_refused(kind):
    bottom = nn.Sequential(nn.Linear(WIDTH, WIDTH), MIXING[kind](WIDTH))
    with pytest.raises(ConfigurationError, match="of 'bank' computes a row by others"):
        NOISY.uploader(LAYOUT, Party("bank", FEATURES, bottom))


@pytest.mark.parametrize("kind", [*APART, "no numbers"])
def test_a_bottom_whose_rows_are_apart_has_its_account(kind):
    last = Of(without_numbers) if kind == "no numbers" else APART[kind](WIDTH)
    bottom = nn.Sequential(nn.Linear(WIDTH, WIDTH), last)
    before = [each.clone() for each in bottom.parameters()]
    NOISY.uploader(LAYOUT, Party("bank", FEATURES, bottom))
    assert all(map(torch.equal, before, bottom.parameters()))


@pytest.mark.parametrize("rows", [2, 3, 12, 40])
def test_of_few_rows_each_is_tried_beside_each_other(rows):
    x = torch.arange(float(rows * WIDTH)).view(rows, WIDTH).sin()

    def make(one, other):
        def add(h):
            return h.index_add(0, torch.tensor([one]), h[other : other + 1])

        return NOISY.uploader(LAYOUT, Party("bank", x, Of(add)))

    for one, other in permutations(range(0, min(rows, 32), 1 + rows // 8), 2):
        with pytest.raises(ConfigurationError, match="computes a row by others"):
            make(one, other)


EQUAL_AT_FIRST = torch.cat([torch.zeros(40, WIDTH), FEATURES.sin()])


@pytest.mark.parametrize(
    "x",
    [EQUAL_AT_FIRST, (EQUAL_AT_FIRST > 0).float(), torch.zeros(40, WIDTH), torch.ones(1, WIDTH)],
    ids=["sorted", "of two values", "equal", "one"],
)
def test_rows_that_are_mixed_do_not_hide_among_equal_ones(x):
    with pytest.raises(ConfigurationError, match="of 'bank' computes a row by others"):
        NOISY.uploader(LAYOUT, Party("bank", x, Of(lambda h: h - h.mean(dim=0))))
    NOISY.uploader(LAYOUT, Party("bank", x, nn.Linear(WIDTH, WIDTH)))


def test_a_bottom_that_takes_no_changed_rows_is_tried_on_its_own():
    def lookup(h):
        if not torch.equal(h, h.round()):
            raise ValueError("whole numbers alone")
        return torch.eye(2)[h[:, 0].long()].repeat(1, WIDTH // 2)

    x = (torch.arange(40) % 2).float()[:, None]
    NOISY.uploader(LAYOUT, Party("bank", x, Of(lookup)))


def unlike_each_other(h):
    if len(h.unique(dim=0)) < len(h):
        raise ValueError("no row twice")
    return h


def of_fifty(h):
    return h - h.view(50, -1, WIDTH).mean(dim=0)


@pytest.mark.parametrize("how", [unlike_each_other, of_fifty])
def test_a_bottom_that_raises_of_its_own_rows_is_not_taken_for_private(how):
    x = torch.arange(50.0 * WIDTH).view(50, WIDTH)
    with pytest.raises(ConfigurationError, match=r"'bank' raises \w+ of 32 of its rows, .* length"):
        NOISY.uploader(LAYOUT, Party("bank", x, Of(how)))


def test_a_bottom_that_draws_from_elsewhere_is_not_taken_for_private():
    numbers = np.random.default_rng(0)

    def noisy(h):
        return h + float(numbers.random())

    with pytest.raises(ConfigurationError, match=r"'bank' makes something else .* torch's gen"):
        NOISY.uploader(LAYOUT, Party("bank", FEATURES, Of(noisy)))


def test_a_trial_draws_nothing_that_others_would_miss():
    before = torch.get_rng_state()
    NOISY.uploader(LAYOUT, Party("bank", FEATURES, nn.Sequential(Of(torch.rand_like))))
    assert torch.equal(before, torch.get_rng_state())


def test_a_plan_and_new_rows_see_the_links_beneath():
    uplink = Perturbed(GAUSSIAN, Plain(Direct(Scalar(4))), held_out=Clipped(2.0))
    changed = uplink.with_links(lambda link: Direct(Scalar(2)))
    assert changed.through.link == Direct(Scalar(2))
    assert changed.noise == GAUSSIAN
    new = uplink.of_new_rows()
    assert (new.noise, new.held_out) == (Clipped(2.0), None)
    assert new.through == Plain(Direct(Scalar(4))).of_new_rows()


# What is told


def test_the_summary_says_what_protects_embeddings_and_what_is_not_covered():
    run = small_federation(wait_dp()).train(wait_dp(), TRAINING)
    told = run.summary["privacy"]
    said = "clipped to the norm 1, with Gaussian noise of the standard deviation 1.784"
    assert said in told["mechanism"]
    assert said in told["embeddings"]
    assert "shapes the embeddings of other rows" in told["not covered"]
    assert "labels" not in told["not covered"]  # of which their exchange tells, with a defence
    assert not any("embedding" in warning for warning in run.summary["warnings"])


def test_noise_of_a_simulation_protects_nothing_and_every_table_says_so():
    labels = Split(defence=GaussianDerivatives(1.0, 1.0))
    said = []
    for method in (Method("x", Sum(), NOISY), Method("y", exchange=labels)):
        run = small_federation(method).train(method, TRAINING)
        said.append(run.summary["privacy"]["secrets"])
        assert "whoever knows the seed sees all that" in str(run.summary["warnings"])
        assert f"one: {said[-1]}" in comparison_table({"one": run}).caption
    both = Method("x", Sum(), NOISY, labels)
    real, declared = (
        both.disclosures(replace(LAYOUT, simulated=simulated)) for simulated in (False, True)
    )
    assert said == 2 * [privacy_statement(declared)["secrets"]]  # said once of both
    assert str(privacy_warnings(declared)).count("whoever knows") == 1
    assert "each organisation's own source" in privacy_statement(real)["secrets"]
    assert not privacy_warnings(real)
    bare = Method("z", Sum(), Perturbed(Clipped(2.0)))
    assert "drawn" not in privacy_statement(bare.disclosures(LAYOUT))["embeddings"]
    assert "secrets" not in privacy_statement(bare.disclosures(LAYOUT))


def test_rows_that_are_seen_without_noise_are_warned_of():
    method = Method("x", Sum(), Perturbed(GAUSSIAN, held_out=Clipped(2.0)))
    run = small_federation(method).train(method, TRAINING)
    assert "without noise" in run.summary["privacy"]["held-out embeddings"]
    assert any("embeddings without noise that are eval" in w for w in run.summary["warnings"])
    link = Plain(ErrorFeedback(TopK(0.3)))  # held-out rows travel otherwise, with the same noise
    said = Method("x", Sum(), Perturbed(GAUSSIAN, link)).disclosures(LAYOUT)
    assert str(GAUSSIAN) in privacy_statement(said)["held-out embeddings"]
    bare = Method("x", Sum(), Perturbed(Clipped(2.0)))
    run = small_federation(bare).train(bare, TRAINING)
    assert run.summary["privacy"]["mechanism"] == "none"
    assert any("every party's embeddings" in w for w in run.summary["warnings"])


# What is spent

LONG = cn.Training(epochs=3, batch_size=16, evaluation_rows=7, checkpoint_every=2)
METHOD = Method("noisy", Sum(), NOISY)


def by_hand(rounds, evaluations, adjacency="party"):
    """Epsilon of the rows that were used most, from the closed form of Gaussians alone."""
    federation = small_federation(METHOD)
    agreed = federation.agreement(METHOD, LONG)
    uses = np.zeros(federation.rows, dtype=int)
    for round in rounds:
        uses[agreed.batches.rows(round)] += 1
    uses[federation.validation_rows] += evaluations
    uses[federation.test_rows] += 1
    releases = int(uses.max()) * (3 if adjacency == "sample" else 1)
    return Spending({GaussianNoise(GAUSSIAN.multiplier / math.sqrt(releases)): 1}).epsilon(1e-5)


def test_epsilon_is_that_of_every_release_of_the_row_that_had_most():
    run = small_federation(METHOD).train(METHOD, LONG)
    last = run.history["epsilon"][-1]
    assert last == pytest.approx(by_hand(range(12), 3).value, rel=1e-9)
    assert run.history["epsilon"].is_sorted()
    assert run.summary["privacy_loss"]["epsilon"] == last
    for party in ("party_0", "party_1", "party_2"):
        told = run.others_history.filter(organisation=party)["epsilon"]
        assert told.to_list()[-1] == last


def test_the_uses_that_are_told_are_those_of_a_row_that_left_most_often_without_noise():
    method = Method("exact", Sum(), Perturbed(Gaussian(1.0, 2.0), held_out=Clipped(1.0)))
    often = replace(TRAINING, evaluate_every=1)
    told = small_federation(method).train(method, often).summary["privacy_loss"]
    planned = plan(small_federation(method), method, often).privacy_loss
    assert (told["epsilon"], planned["epsilon"]) == (None, None)
    assert told["uses_of_a_row"] == planned["uses_of_a_row"] == 8


def test_the_account_of_a_run_tells_of_one_party_and_of_all():
    collector = NOISY.collector(LAYOUT, Sum(), cn.Wait())
    played(collector.prepare(HeldOut("all", [EVERYBODY])))
    collector._account.enter(EVERYBODY, Moment(0))
    spent = collector.spent()
    once = Spending({GaussianNoise(0.05): 1}).epsilon(1e-5).value
    both = Spending({GaussianNoise(0.05): 2}).epsilon(1e-5).value
    assert spent["epsilon"] == pytest.approx(once, rel=1e-9)
    assert spent["epsilon_of_a_whole_sample"] == pytest.approx(both, rel=1e-9)
    assert (spent["delta"], spent["budget"], spent["uses_of_a_row"]) == (1e-5, None, 1)
    uses = {Purpose.TRAINING: 2, Purpose.EVALUATION: 1}
    assert NOISY.spending(LAYOUT, uses, Wait())["epsilon"] == pytest.approx(both, rel=1e-9)


def test_wait_dp_is_private_in_each_release_and_says_what_all_come_to():
    method = wait_dp()
    once = Spending({method.uplink.noise.event(): 1}).epsilon(1e-5).value
    assert once == pytest.approx(5.0, abs=1e-6)
    run = small_federation(method).train(method, LONG)
    assert run.history["epsilon"][-1] > 9
    together = wait_dp(uses=6)
    assert small_federation(together).train(together, LONG).history["epsilon"][-1] <= 5.0


@pytest.mark.parametrize("simulated", [False, True])
def test_what_a_crash_repeats_is_spent_twice_but_in_a_simulation(tmp_path, simulated):
    training = replace(LONG, secrets="seed") if simulated else LONG
    whole = small_federation(METHOD).train(METHOD, training)
    small_federation(METHOD).train(METHOD, training, out=tmp_path / "run", stop_before=7)
    newest, before = sorted((tmp_path / "run" / "checkpoint").glob("round-*"), reverse=True)[:2]
    start = int(before.name.removeprefix("round-"))
    shutil.rmtree(newest)
    (tmp_path / "run" / "checkpoint" / "latest").unlink(missing_ok=True)
    rest = small_federation(METHOD).train(METHOD, training, out=tmp_path / "run", resume=True)
    one, other = (run.models["party_0"]["bottom"].state_dict() for run in (whole, rest))
    assert all(torch.equal(one[key], other[key]) for key in one) is simulated
    rounds, evaluations = [*range(7), *range(start, 12)], 3 + sum(start < at <= 7 for at in (4, 8))
    if simulated:
        rounds, evaluations = [*range(12)], 3
    expected = by_hand(rounds, evaluations).value
    assert rest.history["epsilon"][-1] == pytest.approx(expected, rel=1e-9)
    told = rest.others_history.filter(organisation="party_1")["epsilon"]
    assert told.to_list()[-1] == pytest.approx(expected, rel=1e-9)


def test_a_budget_ends_training_before_it_is_exceeded(tmp_path):
    epsilons = small_federation(METHOD).train(METHOD, LONG).history["epsilon"].to_list()
    enough = Budget((epsilons[1] + epsilons[2]) / 2, 1e-5)
    limited = replace(METHOD, uplink=replace(NOISY, budget=enough))
    run = small_federation(limited).train(limited, LONG)
    assert (run.summary["rounds"], run.summary["completed"]) == (8, True)
    assert run.history["epsilon"][-1] <= enough.epsilon
    for budget, why in ((Budget(0.01, 1e-5), "that costs"), (Budget(9.0, 0), "at a delta of 0, ")):
        none = replace(METHOD, uplink=replace(NOISY, budget=budget))
        with pytest.raises(ConfigurationError, match=f"cannot afford one round of training.*{why}"):
            small_federation(none).train(none, LONG)


def test_a_budget_affords_fewer_rounds_to_an_exchange_that_sends_twice():
    enough = Budget(by_hand([0] * 4, 0).value * 1.001, 1e-5)
    twice = Method("twice", Sum(), replace(NOISY, budget=enough), Doubled())
    training = replace(LONG, evaluate_every=99)
    agreement = small_federation(twice).agreement(twice, training)
    run = small_federation(twice).train(twice, training)
    assert (run.summary["rounds"], run.summary["completed"]) == (8, True)
    told = leaving_in_training(agreement, "party_0").of_embeddings
    assert told["uses_of_a_row"] == run.summary["privacy_loss"]["uses_of_a_row"] == 4
    again = leaving_in_training(agreement, "party_0", {Purpose.TRAINING: 1}).of_embeddings
    assert again["uses_of_a_row"] == 6


def test_an_account_refuses_what_exceeds_its_budget():
    half = uploader(replace(NOISY, budget=Budget(by_hand([0], 0).value * 1.001, 1e-5)))
    played(half.upload(Learner(nn.Identity()), EVERYBODY[:5], Moment(0)))
    with pytest.raises(BudgetExhausted, match=r"round 1.*each release counts"):
        played(half.upload(Learner(nn.Identity()), EVERYBODY[:5], Moment(1)))


def test_runs_draw_anew_but_where_they_are_declared_simulations():
    def bottoms(training):
        run = small_federation(METHOD).train(METHOD, training)
        return run.models["party_0"]["bottom"].state_dict()["0.weight"]

    assert not torch.equal(bottoms(LONG), bottoms(LONG))
    seeded = replace(LONG, secrets="seed")
    assert torch.equal(bottoms(seeded), bottoms(seeded))


# Configuration


def test_files_say_all_of_it():
    def method(text):
        return parse_config({"method": text}).method.build()

    assert method({"name": "wait_dp", "epsilon": 2.0}) == wait_dp(epsilon=2.0)
    made = method(
        {
            "uplink": {
                "uplink": "perturbed",
                "noise": {"noise": "calibrated", "bound": 1.0, "epsilon": 5.0, "delta": 1e-5},
                "through": {
                    "uplink": "plain",
                    "link": {"link": "direct", "codec": {"codec": "scalar", "bits": 4}},
                },
                "held_out": {"noise": "clipped", "bound": 1.0},
                "budget": {"epsilon": 50.0, "delta": 1e-5},
            }
        }
    )
    assert made.uplink == Perturbed(
        Gaussian.calibrated(1.0, 5.0, 1e-5),
        Plain(Direct(Scalar(4))),
        Clipped(1.0),
        Budget(50.0, 1e-5),
    )
