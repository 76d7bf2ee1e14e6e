"""Audits: bounds hold and catch what is broken; attacks find what is there, and no more."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from colonnade.agreement import Agreement
from colonnade.audits import (
    AUDIT_FILES,
    Audit,
    Finding,
    Scope,
    attack_sheets,
    audit,
    overview_sheets,
    write_audits,
)
from colonnade.audits.audit import _accounted
from colonnade.audits.completion import complete
from colonnade.audits.finding import Interval, area, of_share
from colonnade.audits.labels import Told, infer_labels
from colonnade.audits.listening import heard_of
from colonnade.audits.reconstruction import Known, columns_of, reconstruct
from colonnade.audits.recording import Derivatives, Recording
from colonnade.batches import BatchPlan
from colonnade.codecs import Scalar, TopK
from colonnade.defences import GaussianDerivatives
from colonnade.defences import gaussian_derivatives as guards
from colonnade.drivers import Simulate
from colonnade.errors import ConfigurationError, Unwritten
from colonnade.exchanges import Split
from colonnade.federation import Federation
from colonnade.layout import Layout
from colonnade.methods import Method, celu, cvfl, efvfl, svfl, wait_dp
from colonnade.models import Features, Sum, mlp
from colonnade.organisations import LabelHolder, Party
from colonnade.privacy import (
    NEAR,
    Budget,
    Clipped,
    FixedPoint,
    Gaussian,
    GaussianGame,
    PoissonBinomial,
    Spending,
    SumGame,
    epsilon_at_least,
    play,
)
from colonnade.privacy.gaussian_noise import GaussianNoise
from colonnade.secure import Keystream
from colonnade.training import Training
from colonnade.uplinks import Masked, Perturbed
from test_cli import TINY, colonnade, write

__all__ = ["colonnade"]  # a fixture


def stream(number: int = 0) -> Keystream:
    return Keystream(number.to_bytes(16, "little"))


# Games


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_bound_covers_randomised_response(epsilon):
    """Its epsilon is known exactly; a bound of 95 % exceeds it in 5 % of all audits at most."""
    random, truth = np.random.default_rng(1), exp(epsilon) / (1 + exp(epsilon))
    bounds = np.array(
        [
            epsilon_at_least(random.random(2000) > truth, random.random(2000) < truth)
            for _ in range(400)
        ]
    )
    assert (bounds > epsilon).mean() < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
    assert np.median(bounds) > epsilon - 0.35


@pytest.mark.parametrize("delta", [1e-3, NEAR])
def test_the_bound_covers_gaussian_noise(delta):
    random = np.random.default_rng(2)
    truth = Spending({GaussianNoise(1.0): 1}).epsilon(delta).value
    bounds = [
        epsilon_at_least(random.normal(size=4000), random.normal(1, size=4000), delta)
        for _ in range(150)
    ]
    assert np.mean(np.array(bounds) > truth) < 0.05 + 3 * (0.05 * 0.95 / 150) ** 0.5
    assert np.median(bounds) > 0.4 * truth


def test_a_bound_is_of_either_direction_and_of_either_side():
    """What is seen in one world alone, at either end, in few of the games."""
    random = np.random.default_rng(3)
    here, there = random.random(40_000), random.random(40_000)
    for end in (-1.0, 2.0):
        odd = np.where(random.random(40_000) < 0.004, end, here)
        assert epsilon_at_least(odd, there) > 1.5
        assert epsilon_at_least(there, odd) > 1.5
    assert epsilon_at_least(here, there) < 0.05
    assert epsilon_at_least(np.where(here < 0.004, 2.0, here), there, delta=0.01) < 0.05


class TwiceTheBeta(PoissonBinomial):
    """It claims its beta, and draws with another."""

    def counts(self, x, noise):
        return PoissonBinomial(self.trials, 2 * self.beta, self.bound).counts(x, noise)


class HalfTheNoise(Gaussian):
    """It claims its multiplier, and draws with half of it."""

    def perturb(self, x, noise):
        return Gaussian(self.bound, self.multiplier / 2).perturb(x, noise)


# Claims of about 0.5 to 3 for a delta of 1e-5
SUMS = [(3, 0.05, 5), (4, 0.05, 4), (16, 0.05, 4), (16, 0.1, 12), (8, 0.1, 4), (16, 0.05, 2)]
NOISE = [6.0, 4.0, 2.0, 1.5]


@pytest.mark.parametrize(("trials", "beta", "terms"), SUMS)
def test_sums_keep_their_claim_and_doubled_beta_is_caught(trials, beta, terms):
    assert_told_apart(
        SumGame(PoissonBinomial(trials, beta), terms), SumGame(TwiceTheBeta(trials, beta), terms)
    )


@pytest.mark.parametrize("multiplier", NOISE)
def test_gaussian_noise_keeps_its_claim_and_half_of_it_is_caught(multiplier):
    assert_told_apart(
        GaussianGame(Gaussian(1.0, multiplier)), GaussianGame(HalfTheNoise(1.0, multiplier))
    )


def assert_told_apart(sound, broken):
    small, near = play(sound, stream())
    assert small.delta == 1e-5
    assert 0.4 < small.claim < 3.1
    assert small.holds
    assert near.holds
    assert small.tightness > 0.2
    assert near.tightness > 0.6
    assert small.games == 100_000
    assert small.confidence == 0.95
    for seed in range(3):
        caught = play(broken, stream(seed))
        assert [played.claim for played in caught] == [small.claim, near.claim]
        assert not all(played.holds for played in caught)


def test_a_game_repeats_with_its_stream_and_refuses_too_few_plays():
    game = GaussianGame(Gaussian(2.0, 1.5))
    assert play(game, stream(1), games=2000) == play(game, stream(1), games=2000)
    assert play(game, stream(1), games=2000) != play(game, stream(2), games=2000)
    with pytest.raises(ConfigurationError, match="99 games of a world bound nothing: play 100"):
        play(game, stream(), games=99)
    with pytest.raises(ConfigurationError, match="delta is 1"):
        play(game, stream(), [1.0])


LAYOUT = Layout(("bank", "shop"), "insurer", {"bank": 3, "shop": 5}, rows=100, seed=3)


class NoNoise(guards._Guard):
    """It lets derivatives go as they are."""

    def protected(self, derivatives, moment):
        return dict(derivatives)


class HalfOfIt(guards._Guard):
    """It draws with half of the multiplier."""

    def __init__(self, defence, layout, holder):
        half = replace(defence, multiplier=defence.multiplier / 2)
        super().__init__(half, layout, holder)


class EachByItself(guards._Guard):
    """It clips what different parties are sent each to the whole bound."""

    def protected(self, derivatives, moment):
        different = {id(each): party for party, each in derivatives.items()}
        sent = {
            key: super(EachByItself, self).protected(
                {party: derivatives[party]}, replace(moment, part=part)
            )[party]
            for part, (key, party) in enumerate(different.items())
        }
        return {party: sent[id(each)] for party, each in derivatives.items()}


def label_game(guard, multiplier=1.5):
    @dataclass(frozen=True)
    class Defended(GaussianDerivatives):
        def guard(self, layout, fusion, holder):
            return guard(self, layout, holder)

    (game,) = Split(defence=Defended(0.5, multiplier)).games(LAYOUT)
    return game


@pytest.mark.parametrize("multiplier", [1.5, 4.0])
def test_a_defence_of_labels_keeps_its_claim_and_broken_guards_are_caught(multiplier):
    sound = label_game(guards._Guard, multiplier)
    assert sound.protects == "labels"
    assert sound.claim == GaussianNoise(multiplier)
    assert play(sound, stream(1), games=500) == play(sound, stream(1), games=500)
    small, near = play(sound, stream())
    assert small.holds
    assert near.holds
    assert near.tightness > 0.6
    for broken in (NoNoise, HalfOfIt, EachByItself):
        assert not all(each.holds for each in play(label_game(broken, multiplier), stream()))


def test_labels_have_a_row_of_their_own_in_an_audit(tmp_path):
    games = replace(SMALL, attacks=False)
    defence = GaussianDerivatives(0.5, 2.0, Budget(100.0, 1e-4))
    both = Method("both", Sum(), pbm().uplink, Split(defence=defence))
    found = audit(federation(), both, training(), scope=games)
    assert [(each.game.protects, each.delta) for each in found.played] == [
        *(("embeddings", delta) for delta in (1e-5, NEAR)),
        *(("labels", delta) for delta in (1e-4, NEAR)),
    ]
    assert found.holds
    assert found.notes == ()
    (sheet,) = overview_sheets({"both": found})
    assert [row[0] for row in sheet.rows] == ["embeddings"] * 2 + ["labels"] * 2
    assert [game["of"] for game in found.as_dict()["games"]][2:] == ["labels"] * 2
    write_audits({"both": found}, tmp_path, "colonnade audit both.yaml")
    assert "labels" in (tmp_path / "games.csv").read_text(encoding="utf-8")


def test_a_claim_that_no_game_tries_is_told():
    class Mute(GaussianDerivatives):
        def games(self, layout):
            return ()

    mute = Method("mute", Sum(), exchange=Split(defence=Mute(0.5, 2.0)))
    found = audit(federation(), mute, training(), scope=replace(SMALL, attacks=False))
    assert found.notes == ("an epsilon of labels is claimed, but no game tries it",)


def test_an_uplink_says_which_games_try_it():
    layout = federation().agreement(pbm(), training()).layout
    assert svfl().uplink.games(layout) == ()
    assert Masked(FixedPoint(bits=12)).games(layout) == ()  # nothing is claimed of it
    noisy, held_out = PoissonBinomial(16, 0.1), PoissonBinomial(8, 0.1)
    gaussian = wait_dp(epsilon=2.0).uplink
    assert gaussian.games(layout) == (GaussianGame(gaussian.noise),)
    bare = replace(gaussian, held_out=Clipped(1.0))
    assert bare.games(layout) == (GaussianGame(gaussian.noise),)  # of the other nothing is claimed
    assert Masked(noisy).games(layout) == (SumGame(noisy, 3),)
    both = Masked(noisy, held_out=held_out)
    assert both.games(layout) == (SumGame(noisy, 3), SumGame(held_out, 3))


# Figures


def test_areas_and_shares_have_intervals_that_cover():
    random = np.random.default_rng(5)
    missed, off = 0, 0
    for _ in range(300):
        positive = random.random(200) < 0.3
        scores = random.normal(size=200) + positive
        found = area(scores, positive)
        missed += not found.low <= 0.760 <= found.high  # Phi(1 / sqrt 2)
        share = of_share(float((random.random(100) < 0.9).mean()), 100)
        off += not share.low <= 0.9 <= share.high
    assert missed < 27
    assert off < 27
    assert of_share(1.0, 100).low < 0.97


@pytest.mark.parametrize(("rare", "rows"), [(2, 20), (5, 100), (5, 800), (10, 400)])
def test_few_rows_of_a_class_make_no_success_of_luck(rare, rows):
    """With DeLong's interval alone, 4 to 12 % of these were told as successes."""
    random, lucky = np.random.default_rng(8), 0
    positive = np.arange(rows) < rare
    for _ in range(2000):
        lucky += area(random.normal(size=rows), positive).low > 0.5
    assert lucky < 71  # of 2000, 2.5 % and three deviations


# Attacks where it is known what there is


def split(rows=600, known=60):
    random = np.random.default_rng(0)
    return random, Known(random.normal(size=(rows, 2)), np.arange(known))


def test_features_are_found_in_a_bottom_that_is_the_identity():
    random, knows = split()
    x = torch.randn(600, 4, generator=torch.Generator().manual_seed(0))
    finding = reconstruct(x, x, knows, random)
    assert finding is not None
    assert finding.succeeded
    assert finding.success.low > 0.95
    assert finding.chance < 0.1
    assert finding.rows == 540


def test_features_are_not_found_in_embeddings_of_noise():
    random, knows = split()
    generator = torch.Generator().manual_seed(1)
    x, z = torch.randn(2, 600, 4, generator=generator)
    finding = reconstruct(z, x, knows, random)
    assert finding is not None
    assert not finding.succeeded
    assert finding.success.value < 0.05
    assert finding.against == "the best constant"


def test_what_labels_tell_of_features_is_no_leak_of_embeddings():
    random = np.random.default_rng(0)
    labels = random.integers(2, size=600).astype(np.float64)
    x = torch.from_numpy(labels[:, None] + 0.3 * random.normal(size=(600, 3)))
    finding = reconstruct(
        torch.from_numpy(random.normal(size=(600, 4))),
        x,
        Known(labels[:, None], np.arange(60)),
        random,
    )
    assert finding is not None
    assert finding.chance > 0.6
    assert not finding.succeeded
    assert finding.against == "labels and own columns alone"


def test_categories_are_attacked_as_indicators_and_constants_are_not_attacked():
    codes = torch.tensor([[0, 5], [1, 5], [0, 7]])
    features: Features = {"numeric": torch.zeros(3, 1), "categorical": codes}
    assert columns_of(features).tolist() == [[0, 1, 0, 1, 0], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]
    random, knows = split()
    assert reconstruct(torch.randn(600, 2), torch.ones(600, 2), knows, random) is None


def told(classes, rows=600, leak=0.0, larger=1.0):
    """Derivatives of which a part is the class's own direction, larger for class 1."""
    random = np.random.default_rng(classes)
    labels = random.integers(classes, size=rows)
    sides = np.eye(8)[:classes] - np.eye(8)[:classes].mean(axis=0)
    noted = leak * sides[labels] + 0.05 * random.normal(size=(rows, 8))
    noted *= np.where(labels == 1, larger, 1.0)[:, None]
    known = np.concatenate([np.flatnonzero(labels == c)[:4] for c in range(classes)])
    return Told(noted, labels, known, "then"), random


@pytest.mark.parametrize("classes", [2, 5])
def test_labels_are_inferred_where_derivatives_give_them_away(classes):
    found = infer_labels(*told(classes, leak=1.0, larger=3.0))
    assert [finding.measure for finding in found] == ["AUC" if classes == 2 else "accuracy"] * 2
    for finding in found:
        assert finding.succeeded, finding
        assert finding.success.value > 0.95, finding


def test_the_norm_alone_tells_labels():
    norm, direction = infer_labels(*told(2, leak=0.0, larger=3.0))
    assert norm.attack == "norm of derivatives, then"
    assert norm.success.value > 0.95
    assert not direction.succeeded


@pytest.mark.parametrize("classes", [2, 5])
def test_random_labels_are_not_inferred(classes):
    for finding in infer_labels(*told(classes)):
        assert not finding.succeeded, finding


def test_nothing_is_inferred_from_labels_of_one_class():
    one, random = told(2, leak=1.0)
    assert infer_labels(replace(one, known=one.known[:4]), random) == []
    nobody = (np.zeros((9, 2)), np.zeros((9, 2)))
    truth = np.zeros(9, np.int64), np.zeros(9, np.int64)
    assert complete(nobody, nobody, truth, [np.arange(4)], random) is None


@pytest.mark.parametrize("tells", [True, False])
def test_a_model_is_completed_where_its_bottom_tells_classes_apart(tells):
    random = np.random.default_rng(4)
    labels = random.integers(3, size=600)
    noise = random.normal(size=(600, 6))
    trained = 3 * np.eye(6)[labels] + noise if tells else noise
    untrained = random.normal(size=(600, 6))
    finding = complete(
        (trained[:300], trained[300:]),
        (untrained[:300], untrained[300:]),
        (labels[:300], labels[300:]),
        [np.arange(30), np.arange(30, 60)],
        random,
    )
    assert finding is not None
    assert finding.succeeded is tells
    assert (finding.success.value > 0.8) is tells


# Whole audits


def federation(classes=2, held_out=200, own=False, labels=None):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 6, generator=generator)
    y = (x @ torch.randn(6, classes, generator=generator)).argmax(dim=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parties = [
            Party(name, x[:, 2 * i : 2 * i + 2], mlp(2, [8], "tanh"))
            for i, name in enumerate(["bank", "shop", "school"])
        ]
        top = nn.Linear(8, classes if labels is None else 1)
        columns = {"features": x[:, :1], "bottom": mlp(1, [8], "tanh")} if own else {}
    holder = LabelHolder("hospital", y if labels is None else labels, top, **columns)
    return Federation(parties, holder, np.arange(600 - held_out), np.arange(600 - held_out, 600))


def training(**others):
    return Training(epochs=3, batch_size=50, **{"secrets": "seed", **others})


def pbm(**settings):
    return Method("pbm", Sum(), Masked(PoissonBinomial(16, 0.05), **settings))


SMALL = Scope(games=20_000)
METHODS = {
    "vanilla": svfl(fusion=Sum()),
    "cvfl": cvfl(Scalar(4), fusion=Sum()),
    "efvfl": efvfl(TopK(0.2), fusion=Sum()),
    "celu": celu(fusion=Sum()),
    "pbm": pbm(),
    "gaussian": wait_dp(epsilon=2.0, fusion=Sum()),
}


NOISY = {"pbm", "gaussian"}


def names(found: Audit):
    return {finding.attack.split(",")[0] for finding in found.findings}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_audited(method):
    steps: list[str] = []
    found = audit(federation(), METHODS[method], training(), scope=SMALL, told=steps.append)
    assert names(found) == {
        "features from embeddings",
        "norm of derivatives",
        "direction of derivatives",
        "model completion",
    }
    assert len(found.findings) == 3 * (1 + 2 * 3 + 1 + (method in NOISY))
    assert {finding.by for finding in found.findings} == {"hospital", "bank", "shop", "school"}
    assert steps[-3:] == ["features from embeddings", "labels from derivatives", "model completion"]
    best = found.strongest("direction")
    assert best is not None
    assert best.success.value > 0.9
    features = found.strongest("features")
    assert features is not None
    assert (features.success.value > 0.5) == (method not in NOISY)
    assert bool(found.played) == (method in NOISY)
    assert found.holds
    assert json.loads(json.dumps(found.as_dict()))["attacks"]


def test_an_audit_of_a_simulation_repeats_and_another_does_not():
    one, other = (audit(federation(), pbm(), training(), scope=SMALL) for _ in range(2))
    assert one.as_dict() == other.as_dict()
    games = replace(SMALL, attacks=False)
    secret = [audit(federation(), pbm(), training(secrets="system"), scope=games) for _ in "12"]
    assert secret[0].as_dict() != secret[1].as_dict()


class Drawing(nn.Module):
    """A bottom that draws in evaluation too."""

    def __init__(self):
        super().__init__()
        self.within = mlp(2, [8], "tanh")

    def forward(self, x):
        return self.within(x) + torch.randn(len(x), 8)


def test_an_audit_repeats_where_bottoms_and_others_draw():
    def audited(told):
        plain = federation()
        torch.manual_seed(0)
        parties = [replace(party, bottom=Drawing()) for party in plain.parties]
        asked = Federation(parties, plain.label_holder, plain.train_rows, plain.test_rows)
        scope = replace(SMALL, games=0)
        return audit(asked, METHODS["vanilla"], training(), scope=scope, told=told).as_dict()

    assert audited(lambda doing: None) == audited(lambda doing: torch.rand(1))


def test_a_run_takes_the_same_course_while_it_is_recorded():
    plain = federation().train(METHODS["efvfl"], training())
    recorder = Recording(Simulate(), federation().agreement(svfl(), training()).batches)
    watched = federation().train(METHODS["efvfl"], training(), recorder)
    for name, parts in plain.models.items():
        for part, module in parts.items():
            for key, value in module.state_dict().items():
                assert torch.equal(value, watched.models[name][part].state_dict()[key])
    assert plain.ledger.without_time() == watched.ledger.without_time()
    heard = recorder.heard["bank"]
    assert [round for round, _ in heard.first] == list(range(8))
    assert [round for round, _ in heard.last] == list(range(16, 24))
    assert heard.first[0][1].shape == (50, 8)


def test_what_is_recorded_is_what_the_party_was_sent():
    """With exact links: the loss's gradient with respect to the sum of embeddings."""
    made = federation()
    agreement = made.agreement(svfl(fusion=Sum()), training())
    recorder = Recording(Simulate(), agreement.batches)
    made.train(svfl(fusion=Sum()), training(), recorder)
    rows = torch.from_numpy(agreement.batches.rows(0))
    with torch.no_grad():
        total = sum(party.bottom(party.features[rows]) for party in made.parties)
    total.requires_grad_()
    made.loss(made.label_holder.top(total), made.label_holder.labels[rows]).backward()
    for party in made.parties:
        assert torch.allclose(recorder.heard[party.name].first[0][1], total.grad, atol=1e-7)


def agreement_of(method) -> tuple[Federation, Agreement]:
    made = federation()
    return made, made.agreement(method, training())


def test_the_label_holder_hears_of_sums_the_sum_and_else_each_embedding():
    rows = np.arange(400, 600)
    heard = {}
    for name in ("vanilla", "pbm"):
        made, agreement = agreement_of(METHODS[name])
        bottoms = {party.name: party.bottom for party in made.parties}
        heard[name] = heard_of(agreement, made.parties, bottoms, rows)
    with torch.no_grad():
        exact = {p.name: p.bottom(p.features[400:]) for p in made.parties}
    for name, embedding in exact.items():
        assert torch.allclose(heard["vanilla"][name], embedding, atol=1e-6)
    assert torch.equal(heard["pbm"]["bank"], heard["pbm"]["shop"])
    error = (heard["pbm"]["bank"] - sum(exact.values())).square().mean()
    most = PoissonBinomial(16, 0.05).squared_error(3)
    assert 0.8 * most < error < 1.1 * most


def test_the_mean_of_what_a_row_was_told_is_that_of_its_own_losses():
    plan = BatchPlan(np.arange(10, 20), batch_size=4, epochs=3, seed=0).until(7)
    noted = Derivatives(plan)
    own = {}
    for round in range(7):
        rows = plan.rows(round)
        if round == 1:
            continue  # this party was not waited for
        values = torch.randn(len(rows), 2, generator=torch.Generator().manual_seed(round))
        noted.note(round, values / len(rows))
        for row, value in zip(rows.tolist(), values, strict=True):
            own.setdefault(row, []).append(value)
    rows, mean = noted.mean()
    assert rows.tolist() == sorted(own)
    expected = torch.stack([torch.stack(own[row]).mean(dim=0) for row in sorted(own)])
    torch.testing.assert_close(mean, expected.double(), atol=1e-6, rtol=0)


def test_an_attacker_averages_the_noise_of_a_row_that_is_sent_often():
    quiet = Method("quiet", Sum(), Perturbed(Gaussian(4.0, 0.15)))
    few = Training(epochs=10, batch_size=400, secrets="seed")
    found = audit(federation(), quiet, few, scope=Scope(games=0))
    once, often = (f.success.value for f in found.findings if f.of == "bank")
    assert often > once + 0.1
    best = found.strongest("features from embeddings")
    assert best is not None
    assert best.attack == "features from embeddings, seen 10 times"


def test_known_rows_that_leave_hardly_any_other_are_refused_or_told():
    made = federation()
    with pytest.raises(ConfigurationError, match=r"leaves 1 of 200 held-out rows to attack: say 0"):
        audit(made, METHODS["vanilla"], training(), scope=Scope(games=0, known_features=0.995))
    one = Training(epochs=1, batch_size=200, secrets="seed")
    found = audit(made, METHODS["vanilla"], one, scope=Scope(games=0, known_labels=10**6))
    assert names(found) == {"features from embeddings", "model completion"}
    for party in ("bank", "shop", "school"):
        assert any(note.startswith(f"{party} infers no labels: of known") for note in found.notes)


def test_what_is_not_tried_is_said():
    shared = audit(federation(), cvfl(Scalar(4), fusion=Sum(), labels="shared"), training())
    assert "the labels are shared with all parties: there is nothing to infer" in shared.notes
    assert "embeddings travel without noise: there is no epsilon to test" in shared.notes
    assert names(shared) == {"features from embeddings"}
    few = audit(federation(held_out=49), METHODS["vanilla"], training(), scope=SMALL)
    assert any(note.startswith("49 rows are held out, and attacks on") for note in few.notes)
    numbers = federation(labels=torch.randn(600, generator=torch.Generator().manual_seed(0)))
    found = audit(numbers, METHODS["vanilla"], training(), scope=SMALL)
    assert names(found) == {"features from embeddings"}
    assert any(note.startswith("labels are numbers") for note in found.notes)


def test_what_nothing_bounds_is_told_of_accounts():
    claimed = {"epsilon": 2.0, "delta": 1e-5}
    bare = {"epsilon": None, "delta": 1e-5, "epsilon_with_noise": 3.5}
    told = SimpleNamespace(summary={"privacy_loss": bare, "privacy_loss_of_labels": claimed})
    embeddings, labels = _accounted(told)
    assert embeddings.endswith("without noise, and epsilon 3.5 at delta 1e-05 of the others")
    assert labels.startswith("the run's account of labels says epsilon 2 at delta 1e-05")
    told.summary = {"privacy_loss": {**bare, "epsilon_with_noise": None}}
    (nothing,) = _accounted(told)
    assert "nothing bounds what is known of a row" in nothing
    told.summary = {"privacy_loss": None, "privacy_loss_of_labels": {}}
    assert _accounted(told) == []


def test_the_claims_are_for_the_delta_of_the_budget():
    games = replace(SMALL, attacks=False)
    found = audit(federation(), pbm(budget=Budget(1e6, 1e-4)), training(), scope=games)
    assert [played.delta for played in found.played] == [1e-4, NEAR]
    own = replace(games, delta=1e-3)
    found = audit(federation(), pbm(), training(), scope=own)
    assert [played.delta for played in found.played] == [1e-3, NEAR]
    assert found.run is None
    assert found.findings == ()


def test_a_label_holder_with_columns_knows_them_anyway():
    found = audit(federation(own=True), METHODS["vanilla"], training(), scope=SMALL)
    chance = {finding.of: finding.chance for finding in found.findings}
    assert chance["bank"] > 0.2  # one of its two columns is the label holder's, too
    assert chance["shop"] < 0.1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"known_features": 1.0}, "say a number between 0 and 1"),
        ({"known_labels": 1}, "an audit takes 2 known_labels, 50 rows and a seed of 0"),
        ({"rows": 10}, "or more of each, not 40, 10 and 0"),
        ({"games": 10**12}, "1000000000000 games of a world are more than are kept in memory"),
        ({"games": -1}, "-1 games of a world bound nothing"),
        ({"delta": 2.0}, r"delta is 2\.0, but it is the probability"),
        ({"delta": float("nan"), "games": 0}, "delta is nan, but it is the probability"),
        ({"games": 0, "attacks": False}, "nothing to do without games and without attacks"),
    ],
)
def test_a_scope_that_is_none_is_refused(settings, words):
    with pytest.raises(ConfigurationError, match=words):
        Scope(**settings)


def test_a_refuted_claim_is_told(tmp_path):
    broken = Method("broken", Sum(), Masked(TwiceTheBeta(16, 0.05)))
    found = audit(federation(), broken, training(), scope=Scope(attacks=False))
    assert not found.holds
    (sheet,) = overview_sheets({"broken": found})
    assert [row[-1] for row in sheet.rows] == ["BROKEN", "BROKEN"]
    write_audits({"broken": found}, tmp_path, "colonnade audit broken.yaml")
    assert "BROKEN" in (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "TwiceTheBeta" in (tmp_path / "games.csv").read_text(encoding="utf-8")


def test_who_sees_exact_rows_gains_nothing_by_seeing_them_again():
    exact = Method("exact", Sum(), Masked(PoissonBinomial(16, 0.05), FixedPoint(16)))
    two = Training(epochs=2, batch_size=400, secrets="seed")
    found = audit(federation(), exact, two, scope=Scope(games=0))
    assert [f.of for f in found.findings if f.attack.startswith("features")] == [
        *("bank", "shop", "school"),
    ]


def test_a_table_fits_a_narrow_terminal_without_cutting_a_word():
    one = Finding(
        *("features from embeddings, seen 10 times", "insurer", "bank", "R2"),
        *(Interval(0.5, 0.4, 0.6), 0.1, Interval(0.4, 0.3, 0.5), "nothing", 900),
    )
    mechanism = Gaussian(1.0, 2.0)
    played = play(GaussianGame(mechanism), stream(), games=100)
    found = Audit("mine", Scope(), played, (one,), (), None)
    told = io.StringIO()
    for sheet in [*overview_sheets({"mine": found}), *attack_sheets({"mine": found})]:
        Console(file=told, width=80).print(sheet)
    assert "…" not in told.getvalue()
    assert "0.50 (0.40 to 0.60)*" in told.getvalue()
    assert max(map(len, told.getvalue().splitlines())) <= 80


# The command


def test_help_names_what_can_be_given(colonnade):
    code, out, _ = colonnade("audit", "--help")
    assert code == 0
    for word in ("YAML", "--only", "--known-features", "--known-labels", "--out", "--json"):
        assert word in out


def test_the_command_audits_a_file_and_the_folder_of_its_run(colonnade, tmp_path):
    tiny = write(tmp_path / "tiny.yaml", TINY)
    code, out, err = colonnade("audit", tiny, "--out", "audited")
    assert code == 0, err
    assert "proves nothing" in " ".join(out.split())
    assert "label_holder" in Path("audited", "attacks.csv").read_text(encoding="utf-8")
    page = Path("audited", "audit.html").read_text(encoding="utf-8")
    assert page.index("The strongest of each attack") < page.index("An attack that fails proves")
    assert "Bytes are lengths" not in page
    assert out.index("The strongest of each attack") < out.index("what attacks achieve")
    assert "tiny.yaml: labels from derivatives" in err
    assert colonnade("run", tiny, "--out", "done", "--quiet").code == 0
    code, out, _ = colonnade("audit", "done", "--json", "--out", "audited", "--only", "attacks")
    line = json.loads(out)
    assert code == 0
    assert line["run"] == "done"
    assert len(line["attacks"]) == 4 * (1 + 2 + 1)  # of one epoch
    assert line["notes"][-1].startswith("training was repeated for the audit, and ended as the run")


def test_the_command_puts_several_side_by_side(colonnade, tmp_path):
    one = write(tmp_path / "one.yaml", TINY)
    two = write(tmp_path / "two.yaml", TINY | {"method": {"name": "fedbcd", "local_steps": 2}})
    code, out, err = colonnade("audit", one, two, "--rows", 100)
    assert code == 0, err
    assert "The strongest of each attack" in out
    assert "one.yaml" in out
    assert "two.yaml" in out


def test_an_audit_that_cannot_be_written_is_shown(colonnade, tmp_path, monkeypatch):
    def full(*_):
        raise Unwritten("audited cannot be written: No space left on device; make room")

    monkeypatch.setattr("colonnade.audits.write_audits", full)
    tiny = write(tmp_path / "tiny.yaml", TINY)
    code, out, err = colonnade("audit", tiny, "--only", "attacks", "--out", "audited")
    assert code == 3
    assert "The strongest of each attack" in out
    assert "Everything is in" not in out
    assert "make room" in err


def test_an_audit_that_nobody_reads_to_its_end_is_written(colonnade, tmp_path, monkeypatch):
    def left(*_, **__):
        raise SystemExit(1)  # as rich does where a pipe has no reader

    monkeypatch.setattr("colonnade.progress.out.print", left)
    tiny = write(tmp_path / "tiny.yaml", TINY)
    assert colonnade("audit", tiny, "--only", "attacks", "--out", "audited").code == 1
    assert {path.name for path in Path("audited").iterdir()} == set(AUDIT_FILES)


def test_digits_are_audited_without_a_configuration(colonnade):
    code, out, err = colonnade("audit", "--only", "games", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0, err
    assert [[game["of"] for game in line["games"]][:1] for line in lines] == [
        *([[]] * 3),
        *([["embeddings"]] * 2),
        ["labels"],
    ]


def test_the_command_exits_with_3_where_a_claim_is_refuted(colonnade, monkeypatch):
    drawn = PoissonBinomial.counts

    def counts(self, x, noise):
        return drawn(PoissonBinomial(self.trials, 2 * self.beta), x, noise)

    monkeypatch.setattr(PoissonBinomial, "counts", counts)
    code, out, err = colonnade("audit", "--only", "games")
    assert code == 4
    assert "BROKEN" in out
    assert "a mechanism discloses more than is claimed of it" in err


def test_mistakes_are_told_in_a_sentence(colonnade, tmp_path):
    federation().train(svfl(fusion=Sum()), training(), out=tmp_path / "python", report=False)
    for arguments, words in [
        ([tmp_path / "python"], "was described in Python, so its models are not in its folder"),
        ([tmp_path / "nowhere"], "cannot be read"),
        ([tmp_path], "holds no run that can be read"),
        (["--set", "a.b=c"], "--set changes a configuration: name one"),
        ([tmp_path / "python", "--set", "a.b=c"], "the run in .* is over: copy its config.yaml"),
        (["--delta", "nan"], "delta is nan, but it is the probability"),
        (["--known-features", 2], "say a number between 0 and 1"),
    ]:
        code, _, err = colonnade("audit", *arguments)
        assert code == 2
        assert err.startswith("error: ")
        assert re.search(words, " ".join(err.split())), err


def test_the_claim_of_a_sum_is_that_of_its_account():
    game = SumGame(PoissonBinomial(1, 0.25), 1)  # randomised response
    assert game.claim.renyi([float("inf")])[0] == pytest.approx(log(3))
    (played,) = play(game, stream(), [0.0])
    assert played.claim == pytest.approx(log(3))
    assert 0.95 < played.tightness <= 1
