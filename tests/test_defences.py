"""Defences of labels: Gaussian noise on derivatives, and what it is accounted for."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from functools import partial, wraps

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import colonnade as cn
import toy_mixing
from colonnade.codecs import LargeRows, Scalar, TopK
from colonnade.config.parse import parse_config
from colonnade.defences import Bare, GaussianDerivatives
from colonnade.defences.losses import TRIED
from colonnade.effects import Notes
from colonnade.errors import BudgetExhausted, CheckpointError, ConfigurationError, DataError
from colonnade.evaluation import HeldOut
from colonnade.exchanges import Asynchronous, Split
from colonnade.journals import Journal
from colonnade.layout import Layout
from colonnade.links import Direct, ErrorFeedback
from colonnade.local_updates import Consecutive, Proximal, Replayed, Workset
from colonnade.method import Method
from colonnade.models import Concat, Mean, Sum
from colonnade.objectives import Regression
from colonnade.organisations import LabelHolder
from colonnade.privacy import Budget, Gaussian, GaussianNoise, Spending
from colonnade.reports import human_epsilon, write_page
from colonnade.reports.epsilons import epsilon_columns
from colonnade.secure import Secrets
from colonnade.stragglers import Deadline
from colonnade.testing.methods import METHOD_CHECKS, MethodSubject, small_federation
from colonnade.uplinks import Moment, Perturbed
from toy_course import committed, played
from toy_masked import Masked as ToyMasked

pytestmark = pytest.mark.usefixtures("no_pictures")

LOUD = GaussianDerivatives(bound=0.5, multiplier=0.5)
SUBJECTS = {
    "split": MethodSubject(Method("defended", Sum(), exchange=Split(defence=LOUD))),
    "hardly any": MethodSubject(
        Method("hardly any", exchange=Split(defence=GaussianDerivatives(100.0, 1e-5))),
        like=Method("plain"),
        tolerance=0.05,
        steps=False,
    ),
    "fedbcd": MethodSubject(
        Method("fedbcd", exchange=Split(defence=LOUD), local_updates=Consecutive(3))
    ),
    "feedback, large rows": MethodSubject(
        Method(
            "lossy",
            exchange=Split(Direct(LargeRows(0.5, Scalar(4))), defence=LOUD),
            local_updates=Proximal(1, 6, label_holder=Replayed(2, 3)),
        )
    ),
    "error feedback": MethodSubject(
        Method("feedback", Mean(), exchange=Split(ErrorFeedback(TopK(0.5)), defence=LOUD)),
        steps=False,
    ),
    "celu": MethodSubject(
        Method(
            "celu", Mean(), exchange=Asynchronous(defence=LOUD), local_updates=Workset(2, 2, 0.3)
        ),
    ),
    "a sum": MethodSubject(Method("a sum", Sum(), ToyMasked(), Split(defence=LOUD)), steps=False),
    "deadline": MethodSubject(
        Method("deadline", Mean(), exchange=Split(defence=LOUD), stragglers=Deadline(60)),
        steps=False,
    ),
    "with noise on embeddings": MethodSubject(
        Method("both", Mean(), Perturbed(Gaussian(2.0, 0.05)), Split(defence=LOUD)),
        noise=0.5,
        steps=False,
    ),
}


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
def test_it_conforms(subject, check):
    check(subject)


# A guard, played by hand

ROWS, BATCH = 500, 200
LAYOUT = Layout(("bank", "shop"), "insurer", {"bank": 3, "shop": 5}, ROWS, seed=3)
LABELS = torch.zeros(ROWS, dtype=torch.int64)
ROWS_OF_BATCH = np.arange(BATCH, dtype=np.int64)


def guard(
    defence=LOUD,
    top=None,
    root=b"r",
    notes=None,
    layout=LAYOUT,
    secrets=None,
    loss=None,
    learned=(),
    labels=LABELS,
):
    secrets = secrets or (None if layout.simulated else Secrets(root * 32))
    top = top or nn.Linear(8, 2)
    holder = LabelHolder("insurer", labels, top, loss, secrets=secrets, learned=dict(learned))
    made = defence.guard(layout, Concat(), holder)
    played(made.prepare(HeldOut("all", [ROWS_OF_BATCH])), notes)
    return made


def derivatives(seed=1):
    """Of a mean over a batch, so that of a row's own loss they are as many times as large."""
    generator = torch.Generator().manual_seed(seed)
    loud = torch.linspace(0.01, 1, BATCH)[:, None] / BATCH
    return {
        "bank": torch.randn(BATCH, 3, generator=generator) * loud,
        "shop": torch.randn(BATCH, 5, generator=generator) * loud,
    }


def together(sent):
    return torch.cat([*sent.values()], dim=1)


def test_noise_has_the_stated_deviation_and_rows_of_all_parties_together_are_clipped():
    exact = derivatives()
    own = together(exact) * BATCH  # of each row's own loss
    norms = own.norm(dim=1, keepdim=True)
    assert bool((norms > 0.6).any() and (norms < 0.4).any())
    short = own * (LOUD.bound / norms).clamp(max=1)
    quiet = guard(GaussianDerivatives(LOUD.bound, 1e-5)).protected(exact, Moment(0))
    torch.testing.assert_close(together(quiet) * BATCH, short, atol=1e-4, rtol=0)
    assert bool((short[:, :3].norm(dim=1) <= 0.5).all())
    noise = together(guard().protected(exact, Moment(0))) * BATCH - short
    deviation = 0.5 * 2 * 0.5
    assert LOUD.mechanism.deviation == deviation
    assert abs(float(noise.std()) / deviation - 1) < 6 / math.sqrt(2 * noise.numel())
    assert abs(float(noise.mean())) < 6 * deviation / math.sqrt(noise.numel())


def test_a_label_moves_what_is_sent_by_less_than_the_sensitivity():
    """The worst label turns a derivative around; what is protected moves by 2 C at most."""
    quiet = GaussianDerivatives(LOUD.bound, 1e-5)
    exact = {name: 1e3 * each for name, each in derivatives().items()}
    turned = {name: -each for name, each in exact.items()}
    moved = together(guard(quiet).protected(exact, Moment(0)))
    moved = (moved - together(guard(quiet).protected(turned, Moment(0)))) * BATCH
    longest = float(moved.norm(dim=1).max())
    assert longest == pytest.approx(LOUD.mechanism.sensitivity, rel=1e-4)


def test_parties_that_share_a_derivative_are_sent_one():
    (shared, _) = derivatives().values()
    seeded = replace(LAYOUT, simulated=True)
    one, other = (guard(layout=seeded) for _ in range(2))
    sent = one.protected({"bank": shared, "shop": shared}, Moment(0))
    assert sent["bank"] is sent["shop"]
    assert torch.equal(sent["bank"], other.protected({"bank": shared}, Moment(0))["bank"])


def test_no_noise_is_drawn_twice():
    exact = {name: 0 * each for name, each in derivatives().items()}
    halves = [guard(), guard(root=b"s"), guard(notes=Notes(1)), guard()]
    drawn = [
        together(half.protected(exact, Moment(round))) * BATCH
        for half in halves
        for round in (0, 1)
    ]
    for place, one in enumerate(drawn):
        for other in drawn[:place]:
            assert float((one - other).std()) > 1.3 * LOUD.mechanism.deviation
    seeded = replace(LAYOUT, simulated=True)
    first, again = (guard(layout=seeded, notes=Notes(start)) for start in (0, 1))
    one, other = (half.protected(exact, Moment(0)) for half in (first, again))
    assert torch.equal(together(one), together(other))


def test_what_is_spent_is_committed_before_derivatives_leave(tmp_path):
    _, acts = played(guard().enter(ROWS_OF_BATCH, Moment(4)))
    assert committed(acts) == [{"labels_spent": [4, 0, 0, 1]}]
    method = SUBJECTS["with noise on embeddings"].method
    small_federation(method).train(method, LONG, out=tmp_path / "run")
    journal = Journal(tmp_path / "run" / "journal", "holder")
    kinds = [next(iter(record)) for record in journal.notes().records]
    journal.close()
    assert kinds.count("labels_spent") == 12
    assert kinds.count("spent") == 12 + 3 * 3 + 3


def test_who_has_no_defence_sends_what_is_owed():
    exact = derivatives()
    bare = Bare()
    assert bare.protected(exact, Moment(0)) == exact
    assert (bare.report(), bare.spent(), bare.state_dict()) == ({}, {}, {})


# What leaves a run


def noted(monkeypatch):
    """Note what each guard of a run was given and what it let go."""
    from colonnade.defences import gaussian_derivatives

    seen = []
    protected = gaussian_derivatives._Guard.protected

    def noting(self, exact, moment):
        sent = protected(self, exact, moment)
        seen.append((dict(exact), sent))
        return sent

    monkeypatch.setattr(gaussian_derivatives._Guard, "protected", noting)
    return seen


@pytest.mark.parametrize("name", ["split", "celu", "a sum"])
def test_parties_see_noisy_derivatives_alone(monkeypatch, name):
    """Every derivative in the transcript is what the guard let go, and none is the exact one."""
    seen = noted(monkeypatch)
    method = SUBJECTS[name].method
    method = replace(method, exchange=replace(method.exchange, downlink=Direct()))
    bodies = []
    from colonnade.roles import split

    send = split.Send

    def noting(receiver, kind, round, body, *purpose):
        if kind == split.DERIVATIVE:
            bodies.append((receiver, body))
        return send(receiver, kind, round, body, *purpose)

    monkeypatch.setattr(split, "Send", noting)
    small_federation(method).train(method, LONG)
    assert len(bodies) == 12 * 3
    for place, (receiver, body) in enumerate(bodies):
        exact, sent = seen[place // 3]
        told = torch.frombuffer(bytearray(body), dtype=torch.float32).view_as(sent[receiver])
        assert torch.equal(told, sent[receiver])
        batch = len(told)
        error = (told - exact[receiver]) * batch
        assert float(error.norm(dim=1).min()) > 0.05 * LOUD.mechanism.deviation


def test_the_label_holder_steps_along_exact_derivatives():
    """Its own first step is as if there were no defence; the parties' steps are not."""
    once = cn.Training(epochs=1, batch_size=60, secrets="seed")
    plain, defended = (
        small_federation(method).train(method, once).models
        for method in (Method("plain"), Method("d", exchange=Split(defence=LOUD)))
    )
    for part in ("top", "bottom"):
        for one, other in zip(
            plain["holder"][part].parameters(), defended["holder"][part].parameters(), strict=True
        ):
            assert torch.equal(one, other)
    one, other = (next(run["party_0"]["bottom"].parameters()) for run in (plain, defended))
    assert not torch.equal(one, other)


# What is told, and what is spent

LONG = cn.Training(epochs=3, batch_size=16, evaluation_rows=7, checkpoint_every=2)
METHOD = SUBJECTS["split"].method


def by_hand(uses):
    """Epsilon of so many uses of a label, from the closed form of one Gaussian."""
    once = GaussianNoise(LOUD.multiplier / math.sqrt(uses))
    return Spending({once: 1}).epsilon(1e-5).value


def test_epsilon_is_that_of_every_use_of_the_label_that_had_most():
    run = small_federation(METHOD).train(METHOD, LONG)
    told = run.history["label_epsilon"].to_list()
    assert told == pytest.approx([by_hand(uses) for uses in (1, 2, 3)], rel=1e-9)
    assert "epsilon" not in run.history.columns
    assert run.summary["privacy_loss"] is None
    assert run.summary["privacy_loss_of_labels"]["epsilon"] == told[-1]


def test_the_account_tells_what_labels_lost():
    half = guard()
    played(half.enter(ROWS_OF_BATCH, Moment(0)))
    spent = half.spent()
    assert spent["epsilon"] == pytest.approx(by_hand(1), rel=1e-9)
    assert (spent["delta"], spent["budget"], spent["uses_of_a_row"]) == (1e-5, None, 1)
    assert LOUD.spending(LAYOUT, 3)["epsilon"] == pytest.approx(by_hand(3), rel=1e-9)


def test_a_calibrated_defence_has_the_epsilon_that_was_asked_for():
    made = GaussianDerivatives.calibrated(1.0, 2.0, 1e-6, uses=7)
    assert made.limit.delta == 1e-6
    assert made.spending(LAYOUT, 7)["epsilon"] == pytest.approx(2.0, abs=1e-6)
    assert made.spending(LAYOUT, 7)["epsilon"] <= 2.0


def test_the_summary_says_what_protects_labels_and_what_is_not_covered(tmp_path):
    run = small_federation(METHOD).train(METHOD, LONG)
    told = run.summary["privacy"]
    assert "clipped to the norm 0.5, with Gaussian noise" in told["mechanism"]
    assert "for all parties together" in told["labels"]
    assert "leaves in the top model" in told["labels, not covered"]
    epsilon = human_epsilon(run.summary["privacy_loss_of_labels"]["epsilon"])
    write_page(run, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<span>epsilon of labels</span><b>{epsilon}</b>" in page
    assert "<dt>Delta of labels</dt>" in page
    assert "Epsilon against rounds" in page
    assert "epsilon, labels" in epsilon_columns({"defended": run})
    plain = small_federation(Method("plain")).train(Method("plain"), LONG)
    assert "when training stops early still tell" in plain.summary["privacy"]["labels"]


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
    agreed = small_federation(METHOD).agreement(METHOD, training)
    uses = np.zeros(90, dtype=int)
    for round in [*range(12), *([] if simulated else range(start, 7))]:
        uses[agreed.batches.rows(round)] += 1
    expected = by_hand(int(uses.max()))
    assert rest.history["label_epsilon"][-1] == pytest.approx(expected, rel=1e-9)


def test_a_budget_ends_training_before_it_is_exceeded():
    enough = Budget((by_hand(2) + by_hand(3)) / 2, 1e-5)
    limited = replace(METHOD, exchange=Split(defence=replace(LOUD, budget=enough)))
    run = small_federation(limited).train(limited, LONG)
    assert (run.summary["rounds"], run.summary["completed"]) == (8, True)
    assert run.history["label_epsilon"][-1] == pytest.approx(by_hand(2), rel=1e-9)
    none = replace(METHOD, exchange=Split(defence=replace(LOUD, budget=Budget(0.01, 1e-5))))
    with pytest.raises(ConfigurationError, match=r"for labels cannot afford .* there is 0\.01"):
        small_federation(none).train(none, LONG)
    half = guard(replace(LOUD, budget=enough))
    played(half.enter(ROWS_OF_BATCH, Moment(0)))
    played(half.enter(ROWS_OF_BATCH, Moment(1)))
    with pytest.raises(BudgetExhausted, match="round 2"):
        played(half.enter(ROWS_OF_BATCH, Moment(2)))


def test_a_run_goes_on_with_the_delta_alone_that_its_epsilons_of_labels_are_of(tmp_path):
    def train(budget, **more):
        method = replace(METHOD, exchange=Split(defence=replace(LOUD, budget=budget)))
        return small_federation(method).train(method, LONG, out=tmp_path / "run", **more)

    train(Budget(1000.0, 1e-5), stop_before=2)
    with pytest.raises(CheckpointError, match="the delta of a budget was different"):
        train(Budget(2000.0, 1e-6), resume=True)
    run = train(Budget(2000.0, 1e-5), resume=True, stop_before=3)
    assert run.summary["privacy_loss_of_labels"]["budget"] == 2000.0


def test_seeded_noise_is_for_declared_simulations():
    with pytest.raises(ConfigurationError, match="'insurer' are made of a seed"):
        guard(secrets=Secrets.insecure(3))
    with pytest.raises(ConfigurationError, match="'insurer' has secrets of its own"):
        guard(layout=replace(LAYOUT, simulated=True), secrets=Secrets(b"r" * 32))


def test_a_top_model_that_mixes_rows_is_refused():
    mixing = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with pytest.raises(ConfigurationError, match="the top model has batch normalisation"):
        guard(top=mixing)
    guard(top=nn.Sequential(nn.Linear(8, 4), nn.GroupNorm(2, 4), nn.Linear(4, 2)))
    with pytest.raises(ConfigurationError, match="bound must be a positive"):
        GaussianDerivatives(-1.0, 1.0)
    with pytest.raises(ConfigurationError, match="multiplier must be a number above"):
        GaussianDerivatives(1.0, 0.0)


class AsOneSequence(nn.Module):
    """A layer that takes a batch of rows for one sequence, as stock layers do with 2 dimensions."""

    def __init__(self, layer, own):
        super().__init__()
        self.layer, self.own = layer, own

    def forward(self, x):
        x = self.layer(x.unsqueeze(1) if self.own else x)
        x = x[0] if isinstance(x, tuple) else x
        return x.squeeze(1) if self.own else x


class Centred(nn.Module):
    """Batch normalisation by hand."""

    def forward(self, x):
        return x - x.mean(dim=0) if self.training and x.dim() == 2 else x


LAYERS = {
    "a mean in training": Centred,
    "attention": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    "attention that drops out": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    "recurrent": lambda: nn.GRU(4, 4, batch_first=True),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_that_take_a_batch_for_a_sequence_are_refused(layer):
    torch.manual_seed(0)
    labels = torch.randint(3, (60,))
    x = torch.randn(60, 6)
    noisy = Perturbed(Gaussian(1.0, 2.0))
    defended = cn.Split(defence=GaussianDerivatives(0.5, 2.0))

    def train(method, top, bottom):
        parties = [cn.Party("a", x[:, :3], bottom), cn.Party("b", x[:, 3:], nn.Linear(3, 4))]
        holder = cn.LabelHolder("insurer", labels, nn.Sequential(top, nn.Linear(4, 3)))
        federation = cn.Federation(parties, holder, range(40), range(40, 60))
        return federation.train(method, cn.Training(epochs=1, batch_size=8, secrets="seed"))

    for own in (False, True):
        mixing = AsOneSequence(LAYERS[layer](), own)
        in_top = cn.Method("defended", Sum(), exchange=defended)
        in_bottom = cn.Method("noisy", Sum(), noisy)
        for method, top, bottom, whose in (
            (in_top, mixing, nn.Linear(3, 4), "the top model computes a row by others"),
            (
                in_bottom,
                nn.Identity(),
                nn.Sequential(nn.Linear(3, 4), mixing),
                "the bottom model of 'a' computes a row by others",
            ),
        ):
            if own:
                train(method, top, bottom)
            else:
                with pytest.raises(ConfigurationError, match=whose):
                    train(method, top, bottom)


@pytest.mark.parametrize("kind", toy_mixing.MIXING)
def test_a_top_model_whose_rows_are_mixed_in_any_place_is_refused(kind):
    for first, last in (
        (nn.Identity(), nn.Linear(8, 2)),
        (nn.LayerNorm(8), nn.Linear(8, 2)),
        (nn.Identity(), zeroed(nn.Linear(8, 2))),
    ):
        with pytest.raises(ConfigurationError, match="the top model computes a row by others"):
            guard(top=nn.Sequential(first, toy_mixing.MIXING[kind](8), last))


@pytest.mark.parametrize("kind", toy_mixing.APART)
def test_a_top_model_whose_rows_are_apart_is_guarded(kind):
    guard(top=nn.Sequential(nn.Linear(8, 8), toy_mixing.APART[kind](8), nn.Linear(8, 2)))


class HooksItsInput(nn.Linear):
    """Scales derivatives by the largest of the batch, whoever's it is."""

    def forward(self, x):
        if x.requires_grad:
            x.register_hook(lambda slopes: slopes / slopes.abs().max())
        return super().forward(x)


def scaled_at_times(slopes):
    return slopes / slopes.norm() if torch.rand(()).item() > 0.9 else slopes


def backwards_hooked(how):
    top = nn.Linear(8, 2)
    top.register_full_backward_hook(lambda _, given, came: (how(given[0]),))
    return top


def remembering():
    """Return what scales derivatives by the largest that it has met."""
    largest = [torch.zeros(())]

    def scaled(slopes):
        now = largest[0]
        largest[0] = torch.maximum(now, slopes.abs().max())
        return slopes / (1 + now)

    return scaled


MIXING_BACKWARDS = {
    "a hook in forward": lambda: HooksItsInput(8, 2),
    "a hook that drops out": lambda: nn.Sequential(nn.Dropout(0.1), HooksItsInput(8, 2)),
    "a hook of a model that begins at nothing": lambda: zeroed(HooksItsInput(8, 2)),
    "a module's hook": lambda: backwards_hooked(lambda slopes: slopes / slopes.norm()),
    "the row before": lambda: backwards_hooked(lambda slopes: slopes + slopes.roll(1, 0)),
    "one batch of ten": lambda: backwards_hooked(scaled_at_times),
    "one batch of ten, beside dropout": lambda: nn.Sequential(
        nn.Linear(8, 8), nn.Dropout(), backwards_hooked(scaled_at_times)
    ),
}


@pytest.mark.parametrize("kind", MIXING_BACKWARDS)
def test_a_top_model_that_mixes_rows_on_the_way_back_is_refused(kind):
    with pytest.raises(ConfigurationError, match="of 'insurer' computes the derivatives of a row"):
        guard(top=MIXING_BACKWARDS[kind](), labels=torch.arange(ROWS) % 2)


APART_BACKWARDS = {
    "clipped by rows": lambda: backwards_hooked(
        lambda slopes: slopes / (1 + slopes.norm(dim=1, keepdim=True))
    ),
    "clipped by numbers": lambda: backwards_hooked(lambda slopes: slopes.clamp(-1e-3, 1e-3)),
    "drops out": lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 2)),
    "drops derivatives out": lambda: backwards_hooked(nn.functional.dropout),
    "drops derivatives of rows": lambda: backwards_hooked(
        lambda slopes: slopes * (torch.rand(len(slopes), 1) > 0.2)
    ),
}


@pytest.mark.parametrize("kind", APART_BACKWARDS)
def test_a_top_model_that_keeps_rows_apart_on_the_way_back_is_guarded(kind):
    guard(top=APART_BACKWARDS[kind](), labels=torch.arange(ROWS) % 2)


def test_a_top_model_that_remembers_derivatives_is_refused():
    with pytest.raises(ConfigurationError, match="of 'insurer' computes the derivatives of a row"):
        guard(top=backwards_hooked(remembering()), labels=torch.arange(ROWS) % 2)


def only_forwards(slopes):
    raise ValueError("no way back")


def test_a_top_model_that_cannot_be_tried_on_the_way_back_is_not_taken_for_private():
    with pytest.raises(ConfigurationError, match=r"of 'insurer' raises ValueError .* no way back$"):
        guard(top=backwards_hooked(only_forwards), labels=torch.arange(ROWS) % 2)


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_class_weights_that_are_made_up_for_over_a_batch_are_refused(loss):
    """The mean is divided by the weights of the batch's labels: see the derivative of row 0."""
    weights = torch.tensor([1.0, 9.0])
    scores = torch.zeros(2, 2, requires_grad=True)
    first = []
    for labels in ([0, 0], [0, 1]):
        (slope,) = torch.autograd.grad(loss(weights)(scores, torch.tensor(labels)), scores)
        first.append(slope[0])
    assert not torch.allclose(*first)
    for bad in (loss(weights), loss(ignore_index=1)):
        with pytest.raises(ConfigurationError, match=r"class weights .* leave class_weights"):
            guard(loss=bad)
    for good in (loss(), loss(weights, reduction="sum"), nn.functional.cross_entropy):
        guard(loss=good)


WEIGHTS = torch.tensor([1.0, 9.0])
MIXING = {
    "weights in a function": partial(nn.functional.cross_entropy, weight=WEIGHTS),
    "ignored labels": nn.CrossEntropyLoss(),
    "each with each": lambda p, y: ((p[:, :1] - y) ** 2).mean(),
    "a balance of classes": lambda p, y: nn.functional.cross_entropy(
        p, y, 1 / torch.bincount(y, minlength=2).clamp(min=2)
    ),
    "a pair of rows": lambda p, y: (p[0, 0] * y[-1] - p[-1, 0] * y[0]) ** 2,
}


def halves(p, y):
    """Take a mean whose second half is in units of its own labels."""
    k = len(y) // 2
    off = p[:, 0] - y
    return (off[:k] ** 2).mean() + ((off[k:] / (y[k:].std() + 0.1)) ** 2).mean()


NOT_THE_FIRST = {
    "around the others' mean": lambda p, y: ((p[:, 0] - (y - y[1:].mean())) ** 2).mean(),
    "one half apart": halves,
    "sorted Cox": lambda p, y: -((p[:, 0] - p[:, 0].exp().cumsum(0).log()) * y).mean(),
    "the next row's": lambda p, y: ((p[:-1, 0] - y[:-1] - y[1:]) ** 2).mean(),
    "the largest": lambda p, y: (((p[:, 0] - y) / y[1:].max().clamp(min=0.5)) ** 2).mean(),
    "the least": lambda p, y: ((p[:, 0] - y - y.min()) ** 2).mean(),
}
APART = {
    "weights of rows": lambda p, y: nn.functional.cross_entropy(
        p, y, WEIGHTS, reduction="none"
    ).mean(),
    "smoothed": nn.CrossEntropyLoss(label_smoothing=0.1),
    "beside labels": lambda p, y: ((p[:, 0] - y) ** 2).mean(),
}


@pytest.mark.parametrize("kind", MIXING)
def test_a_loss_by_which_a_label_reaches_other_rows_is_refused(kind):
    labels = torch.arange(ROWS) % 2
    labels[7] = -100 if kind == "ignored labels" else 0
    with pytest.raises(ConfigurationError, match="by the loss of 'insurer' a label reaches"):
        guard(loss=MIXING[kind], labels=labels)


@pytest.mark.parametrize("values", [2, TRIED])
@pytest.mark.parametrize("kind", NOT_THE_FIRST)
def test_a_loss_by_which_the_label_of_any_row_reaches_others_is_refused(kind, values):
    with pytest.raises(ConfigurationError, match="by the loss of 'insurer' a label reaches"):
        guard(loss=NOT_THE_FIRST[kind], labels=(torch.arange(ROWS) % values).float())


def noisy_mean(p, y):
    return (p[:, 0] * y.double().mean() * torch.rand(len(p))).mean()


def mean_at_times(p, y):
    by = y.double().mean() if torch.rand(()).item() < 1e-6 else 1.0
    return (p[:, 0] * by).mean()


@pytest.mark.parametrize("loss", [noisy_mean, mean_at_times])
def test_a_loss_that_draws_is_not_taken_for_private(loss):
    with pytest.raises(ConfigurationError, match="the loss of 'insurer' draws, so whether it is a"):
        guard(loss=loss, labels=torch.arange(ROWS) % 2)


def test_a_loss_that_draws_of_few_labels_alone_is_not_taken_for_private():
    def loss(p, y):
        each = nn.functional.cross_entropy(p, y, reduction="none")
        rare = 0 < int(y.sum()) < 2 and torch.rand(()).item() < 1e-6
        return each.mean() * (1 + y.float().mean() if rare else 1)

    with pytest.raises(ConfigurationError, match="the loss of 'insurer' draws, so whether it is a"):
        guard(loss=loss, labels=torch.arange(ROWS) % 2)


def test_a_loss_that_draws_from_elsewhere_is_not_taken_for_private():
    numbers = np.random.default_rng(0)

    def loss(p, y):
        return (p[:, 0] * y.double().mean() * float(numbers.random())).mean()

    with pytest.raises(ConfigurationError, match="of 'insurer' says something else each time"):
        guard(loss=loss, labels=torch.arange(ROWS) % 2)


def test_a_loss_that_has_no_finite_derivative_is_told_as_that():
    def loss(p, y):
        return torch.sqrt((p[:, 0] - p[:, 0].detach()) ** 2).mean()

    with pytest.raises(ConfigurationError, match="of 'insurer' has derivatives that are no finite"):
        guard(loss=loss, labels=torch.arange(ROWS) % 2)


def test_a_loss_that_cannot_be_tried_is_not_taken_for_private():
    def loss(p, y):
        if len(p) == TRIED:
            raise ValueError("batches of 32 alone")
        return (p[:, 0] * y.double().mean()).mean()

    with pytest.raises(ConfigurationError, match=r"raises ValueError of 16 rows, .* 32 alone$"):
        guard(loss=loss, labels=torch.arange(ROWS) % 2)


def zeroed(model):
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


HARD_ROWS = {
    "tilted": lambda p, y: torch.logsumexp(nn.functional.cross_entropy(p, y, reduction="none"), 0),
    "the hardest": lambda p, y: (
        nn.functional.cross_entropy(p, y, reduction="none").topk(len(y) // 2).values.mean()
    ),
}


@pytest.mark.parametrize("kind", HARD_ROWS)
def test_a_loss_that_mixes_rows_is_refused_where_the_top_model_begins_at_nothing(kind):
    top = zeroed(nn.Linear(8, 2))
    with pytest.raises(ConfigurationError, match="by the loss of 'insurer' a label reaches"):
        guard(loss=HARD_ROWS[kind], labels=torch.arange(ROWS) % 2, top=top)
    guard(loss=nn.CrossEntropyLoss(), labels=torch.arange(ROWS) % 2, top=zeroed(nn.Linear(8, 2)))


class Counting(nn.Module):
    """A loss that weights classes by those of earlier batches."""

    def __init__(self):
        super().__init__()
        self.register_buffer("counts", torch.ones(2))

    def forward(self, p, y):
        each = nn.functional.cross_entropy(p, y, self.counts.clone(), reduction="none")
        self.counts += torch.bincount(y, minlength=2)
        return each.mean()


def test_a_loss_that_remembers_labels_is_refused():
    with pytest.raises(ConfigurationError, match="the loss of 'insurer' remembers labels, by"):
        guard(loss=Counting(), labels=torch.arange(ROWS) % 2)


@pytest.mark.parametrize("kind", APART)
def test_a_mean_over_rows_each_of_its_own_label_is_guarded(kind):
    guard(loss=APART[kind], labels=torch.arange(ROWS) % 2)


def test_what_all_training_labels_have_a_part_in_is_refused():
    """Of two trainings that differ in one label, all rows' derivatives of round 0 differ."""
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    first = {}
    for name, objective in {
        "by labels": Regression(),
        "given": Regression(mean=0, scale=2),
    }.items():
        slopes = []
        for label in (0.5, 1e4):
            labels = x.sum(dim=1)
            labels[0] = label
            learned = objective.learned(labels)
            torch.manual_seed(0)
            top = objective.finished(nn.Linear(3, 1), learned)
            others = x[1:].clone().requires_grad_()
            loss = objective.loss(learned)(top(others).flatten(), labels[1:])
            slopes.append(torch.autograd.grad(loss, others)[0])
        first[name] = torch.equal(*slopes)
    assert first == {"by labels": False, "given": True}
    with pytest.raises(ConfigurationError, match=r"know mean and scale of all .*target_mean=50"):
        guard(learned=Regression().learned(torch.randn(5)))
    guard(learned=Regression(mean=0, scale=2).learned(torch.randn(5)))


@pytest.mark.parametrize("given", [{"mean": 0.0}, {"scale": 1.0}, {"mean": 0.0, "scale": 0.0}])
def test_where_targets_lie_is_given_whole(given):
    with pytest.raises(ConfigurationError, match="mean and scale"):
        Regression(**given)


@pytest.mark.parametrize(
    ("mean", "scale"),
    [
        (1e39, 1),
        (-1e39, 1),
        (0, 1e39),
        (0, 1e-300),
        (0, 1e-46),
        pytest.param(10**400, 1, id="mean beyond floats"),
        pytest.param(0, 10**400, id="scale beyond floats"),
    ],
)
def test_where_targets_lie_is_said_in_numbers_that_models_have(mean, scale):
    with pytest.raises(ConfigurationError, match=r"compute in float32, .* in another unit$"):
        Regression(mean=mean, scale=scale)


@pytest.mark.parametrize(("mean", "scale"), [(-3e38, 3e38), (0, 2e-38), (np.float16(5), 1)])
def test_where_targets_lie_may_be_any_number_that_models_have(mean, scale):
    top = Regression(mean=mean, scale=scale).finished(nn.Identity(), {})
    assert top(torch.zeros(1)).tolist() == [float(np.float32(mean))]


def test_targets_that_are_too_near_each_other_for_float32_are_refused():
    with pytest.raises(DataError, match=r"labels range from .* give them in another unit"):
        Regression().learned(torch.tensor([1e-42, 2e-42, 3e-42]))


@pytest.mark.filterwarnings("ignore:training ran out")
def test_a_regressor_that_hides_labels_is_told_where_targets_lie():
    method = cn.Method("defended", exchange=cn.Split(defence=GaussianDerivatives(0.5, 1.0)))
    x = np.random.default_rng(0).normal(size=(60, 4))
    tables = {"bank": {"a": x[:, 0], "b": x[:, 1]}, "shop": {"c": x[:, 2], "d": x[:, 3]}}
    told = {"aligned": True, "epochs": 2, "batch_size": 16, "method": method}
    with pytest.raises(ConfigurationError, match="target_mean=50"):
        cn.VerticalRegressor(**told).fit(tables, 100 + 10 * x[:, 0])
    model = cn.VerticalRegressor(**told, target_mean=100, target_scale=10)
    model.fit(tables, 100 + 10 * x[:, 0])
    assert abs(model.predict(tables).mean() - 100) < 10
    assert clone(model).target_scale == 10


def test_files_say_all_of_it():
    made = parse_config(
        {
            "method": {
                "exchange": {
                    "exchange": "asynchronous",
                    "defence": {"defence": "gaussian", "bound": 0.5, "multiplier": 0.5},
                },
                "local_updates": "workset",
            }
        }
    ).method.build()
    assert made.exchange == Asynchronous(defence=LOUD)


class WeightsLater(nn.Module):
    """A loss that weights classes by those of earlier batches, after some of them."""

    def __init__(self):
        super().__init__()
        self.batches, self.counts = 0, torch.ones(2)

    def forward(self, p, y):
        self.batches += 1
        self.counts = self.counts + torch.bincount(y, minlength=2)
        weights = self.counts.sum() / self.counts if self.batches > 10 else None
        return nn.functional.cross_entropy(p, y, weights, reduction="none").mean()


def hardest_later():
    """Return a loss that is that of the hardest rows, after some batches."""
    batches = 0

    def loss(p, y):
        nonlocal batches
        batches += 1
        each = nn.functional.cross_entropy(p, y, reduction="none")
        return each.topk(len(y) // 2).values.mean() if batches > 1000 else each.mean()

    return loss


met = torch.ones(2)


def weights_of(y):
    global met  # as somebody's loss has it
    met = met + torch.bincount(y, minlength=2)
    return met.sum() / met if met.sum() > 10**6 else None


def weighted(p, y, scale=1.0):
    return scale * nn.functional.cross_entropy(p, y, weights_of(y))


class Weighted(nn.Module):
    def forward(self, p, y):
        return weighted(p, y)


def renamed(loss):
    @wraps(loss)
    def around(*given):
        return loss(*given)

    return around


CHANGING = {
    "weights later": WeightsLater,
    "the hardest later": hardest_later,
    "a helper's global": lambda: weighted,
    "in a partial": lambda: partial(weighted, scale=2.0),
    "behind a decorator": lambda: renamed(weighted),
    "by a method that is inherited": lambda: type("Inheriting", (Weighted,), {})(),
}


@pytest.mark.parametrize("kind", CHANGING)
def test_a_loss_that_goes_on_changing_is_not_taken_for_private(kind):
    with pytest.raises(ConfigurationError, match="the loss of 'insurer' changes each time"):
        guard(loss=CHANGING[kind](), labels=torch.arange(ROWS) % 2)


class MadeAtFirst(nn.Module):
    """A loss that makes what it goes by when it is first computed."""

    weights = None

    def forward(self, p, y):
        if self.weights is None:
            self.weights = torch.arange(1.0, 1 + p.shape[1])
        return nn.functional.cross_entropy(p, y, self.weights, reduction="none").mean()


def test_a_loss_that_notes_what_it_was_or_is_made_at_first_is_guarded():
    noted = []

    def loss(p, y):
        each = nn.functional.cross_entropy(p, y)
        noted.append(each.item())
        return each

    guard(loss=loss, labels=torch.arange(ROWS) % 2)
    guard(loss=MadeAtFirst(), labels=torch.arange(ROWS) % 2)
