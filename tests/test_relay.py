"""Relay and local updates: against the algorithms written out once more, and in bytes by hand."""

from __future__ import annotations

import copy
import random
import re
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from colonnade.codecs import QSGD, Float, ProductQuantised, Scalar, TopK
from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.exchanges import Asynchronous, EventDriven, Relay, Split
from colonnade.federation import Federation
from colonnade.kernels.philox import permutation
from colonnade.links import Direct, ErrorFeedback
from colonnade.local_updates import Consecutive, Replayed
from colonnade.methods import Method, cvfl, efvfl, fedbcd, svfl
from colonnade.models import Concat, Max, Mean, Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.planning import plan
from colonnade.roles.relay import RelayLabelHolder
from colonnade.roles.relayed_embeddings import CodesReceiver, bundled, unbundled
from colonnade.streams import StreamKey
from colonnade.training import Training
from colonnade.uplinks import Moment, Plain

ROWS, BATCH, WIDTH, CLASSES, RATE = 96, 16, 4, 3, 0.2
TRAINING = Training(epochs=3, batch_size=BATCH)


def problem(fusion, holder_has_features=True, parties=3):
    generator = torch.Generator().manual_seed(3)
    sgd = partial(torch.optim.SGD, lr=RATE)

    def columns(count):
        return torch.randn(ROWS, count, generator=generator)

    def layer(inputs, outputs):
        torch.manual_seed(100 * inputs + outputs)
        return nn.Linear(inputs, outputs)

    def bottom(inputs):
        return nn.Sequential(layer(inputs, WIDTH), nn.Tanh())

    everyone = parties + holder_has_features
    top = nn.Sequential(layer(fusion.width([WIDTH] * everyone), 5), nn.Tanh(), layer(5, CLASSES))
    own = {"features": columns(2), "bottom": bottom(2)} if holder_has_features else {}
    labels = torch.randint(CLASSES, (ROWS,), generator=generator)
    members = [Party(f"p{i}", columns(3 + i), bottom(3 + i), sgd) for i in range(parties)]
    return Federation(members, LabelHolder("holder", labels, top, optimiser=sgd, **own))


class Reference:
    """Everything in one place, step by step as the papers write it, on plain tensors.

    Surrogates stay at 0 without feedback, so that one line does for both.
    """

    def __init__(self, federation, method):
        self.method = method
        self.members = list(federation.parties)
        holder = federation.label_holder
        if holder.bottom is not None:
            self.members.append(holder.as_party())
        self.holder = holder
        self.bottoms = [copy.deepcopy(member.bottom) for member in self.members]
        self.top = copy.deepcopy(holder.top)
        self.known = [torch.zeros(ROWS, WIDTH) for _ in self.members]
        self.known_top = torch.zeros(1, sum(p.numel() for p in self.top.parameters()))

    def train(self):
        for round in range(TRAINING.epochs * ROWS // BATCH):
            epoch, index = divmod(round, ROWS // BATCH)
            order = permutation(StreamKey(0, "", "batches", epoch), ROWS)
            self.play(round, torch.from_numpy(order[index * BATCH : (index + 1) * BATCH]))
        return self

    def sent(self, link, x, known, name, kind, round):
        """Return what the receivers take for x."""
        key = StreamKey(0, name, f"training/{kind}", round)
        base = known if isinstance(link, ErrorFeedback) else torch.zeros_like(x)
        shape = tuple(x.shape)
        return base + link.codec.decode(link.codec.encode(x - base, key), shape, key)

    def play(self, round, rows):
        raise NotImplementedError

    def step(self, module, loss):
        parameters = list(module.parameters())
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.data -= RATE * g

    def loss(self, top, embeddings, rows):
        predictions = top(self.method.fusion(embeddings))
        return nn.functional.cross_entropy(predictions, self.holder.labels[rows])

    def is_exact(self, m):
        return self.members[m].name == "holder"


class RelayReference(Reference):
    """C-VFL's and EF-VFL's Algorithms 1."""

    def play(self, round, rows):
        uplink, exchange = self.method.uplink.link, self.method.exchange
        received = []
        for m, (member, bottom) in enumerate(zip(self.members, self.bottoms, strict=True)):
            z = bottom(member.features[rows]).detach()
            y = self.sent(uplink, z, self.known[m][rows], member.name, "embedding", round)
            self.known[m][rows] = y
            received.append(y)
        theta = torch.cat([p.detach().flatten() for p in self.top.parameters()])[None]
        self.known_top = self.sent(exchange.top, theta, self.known_top, "holder", "top", round)
        stale_top, start = copy.deepcopy(self.top), 0
        for p in stale_top.parameters():
            p.data = self.known_top[0, start : start + p.numel()].view_as(p)
            start += p.numel()
        for _ in range(self.method.local_updates.steps):
            holder_steps = []
            for m, (member, bottom) in enumerate(zip(self.members, self.bottoms, strict=True)):
                fresh = bottom(member.features[rows])
                embeddings = [*received[:m], fresh, *received[m + 1 :]]
                if self.is_exact(m):  # the label holder has one loss for top and bottom
                    holder_steps.append((bottom, self.loss(self.top, embeddings, rows)))
                else:
                    self.step(bottom, self.loss(stale_top, embeddings, rows))
            if holder_steps:
                ((bottom, loss),) = holder_steps
                self.step(nn.ModuleList([bottom, self.top]), loss)
            else:
                self.step(self.top, self.loss(self.top, received, rows))


class SplitReference(Reference):
    """FedBCD(Q) in split form: fresh embeddings with stale derivatives, fresh top with stale z."""

    def play(self, round, rows):
        fresh = [b(m.features[rows]) for m, b in zip(self.members, self.bottoms, strict=True)]
        received = [z.detach().requires_grad_() for z in fresh]
        derivatives = torch.autograd.grad(self.loss(self.top, received, rows), received)
        for _ in range(self.method.local_updates.steps):
            for m, (member, bottom) in enumerate(zip(self.members, self.bottoms, strict=True)):
                z = bottom(member.features[rows])
                if self.is_exact(m):
                    stale = [y.detach() for y in received]
                    loss = self.loss(self.top, [*stale[:m], z, *stale[m + 1 :]], rows)
                    self.step(nn.ModuleList([bottom, self.top]), loss)
                else:
                    self.step(bottom, (z * derivatives[m]).sum())
            if not self.is_exact(len(self.members) - 1):
                self.step(self.top, self.loss(self.top, [y.detach() for y in received], rows))


def assert_as_the_reference(method, holder_has_features):
    federation = problem(method.fusion, holder_has_features)
    make = RelayReference if isinstance(method.exchange, Relay) else SplitReference
    reference = make(federation, method).train()
    run = federation.train(method, TRAINING)
    modules = [run.models[member.name]["bottom"] for member in reference.members]
    modules.append(run.models["holder"]["top"])
    for mine, expected in zip(modules, [*reference.bottoms, reference.top], strict=True):
        for value, other in zip(mine.parameters(), expected.parameters(), strict=True):
            assert torch.norm(value - other) <= 1e-5 * torch.norm(other)
    return run


FUSIONS = [Concat(), Sum(), Mean(), Max()]


@pytest.mark.parametrize("fusion", FUSIONS, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("labels", ["private", "shared"])
@pytest.mark.parametrize("holder_has_features", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_fedbcd_is_its_description(steps, holder_has_features, labels, fusion):
    run = assert_as_the_reference(fedbcd(steps, fusion, labels), holder_has_features)
    assert set(run.summary["local_updates"].values()) == {(steps - 1) * run.summary["rounds"]}


@pytest.mark.parametrize("codec", [Scalar(4), Float(16), TopK(0.5), QSGD(3)], ids=str)
@pytest.mark.parametrize("holder_has_features", [False, True])
def test_cvfl_is_its_description(holder_has_features, codec):
    assert_as_the_reference(cvfl(codec, 3, Concat(), "shared"), holder_has_features)


@pytest.mark.parametrize("codec", [TopK(0.1), QSGD(1)], ids=str)
@pytest.mark.parametrize("top", [None, TopK(0.2)])
@pytest.mark.parametrize("holder_has_features", [False, True])
def test_efvfl_is_its_description(holder_has_features, top, codec):
    method = efvfl(codec, None, Mean(), "shared", 2, top_codec=top)
    assert_as_the_reference(method, holder_has_features)


METHODS = {
    "exact": partial(fedbcd, 3),
    "direct": partial(cvfl, Scalar(3), 3),
    "feedback": partial(efvfl, TopK(0.2), local_steps=3),
}


@pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("fusion", [Sum(), Mean()], ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("holder_has_features", [False, True])
def test_the_total_of_all_embeddings_is_as_good_as_each_of_them(make, fusion, holder_has_features):
    federation = problem(fusion, holder_has_features)
    codes = make(fusion=fusion, labels="shared")
    total = Method(
        "total",
        fusion,
        codes.uplink,
        Relay("shared", codes.exchange.top, "total"),
        codes.local_updates,
    )
    one, other = (federation.train(method, TRAINING) for method in (codes, total))
    for name, parts in one.models.items():
        for part, module in parts.items():
            for key, value in module.state_dict().items():
                again = other.models[name][part].state_dict()[key]
                assert torch.norm(value - again) <= 1e-4 * torch.norm(value), (name, part, key)
    sent = other.ledger.frame().filter(kind="total")
    assert sent["body_bytes"].unique().to_list() == [4 * BATCH * WIDTH]
    assert one.summary["bytes_up"] == other.summary["bytes_up"]


@pytest.mark.parametrize("holder_has_features", [False, True])
def test_codes_are_forwarded_as_they_came(holder_has_features):
    federation = problem(Concat(), holder_has_features)
    method = cvfl(TopK(0.3), 2, labels="shared", top_codec=Float(16))
    run = federation.train(method, TRAINING)
    parameters = sum(p.numel() for p in federation.label_holder.top.parameters())
    by_round = run.ledger.frame().partition_by("round", as_dict=True)
    for (round,), ledger in by_round.items():
        up = {
            row["sender"]: row["body_bytes"]
            for row in ledger.filter(kind="embedding").to_dicts()
            if row["receiver"] == "holder"
        }
        relayed = ledger.filter(kind="codes")
        assert set(relayed["purpose"]) == {"relay"}
        for row in relayed.to_dicts():
            others = sum(4 + size for name, size in up.items() if name != row["receiver"])
            assert row["body_bytes"] == others, round
        assert ledger.filter(kind="top")["body_bytes"].to_list() == [2 * parameters] * 3
        own = ledger.filter(kind="embedding", sender="holder")
        assert len(own) == 3 * holder_has_features
        assert set(own["purpose"]) <= {"training"}
    down = run.ledger.bytes(lambda e: e.sender == "holder" and e.purpose.trains)
    assert run.summary["bytes_down"] == down == run.history["bytes_down"][-1]


def test_what_relay_discloses_is_said():
    run = problem(Concat()).train(fedbcd(2, labels="shared"), Training())
    assert run.summary["privacy"]["labels"] == "known to every party"
    assert run.summary["privacy"]["top model"] == "known to every party"
    warning = run.summary["warnings"][0]
    assert "every party sees the labels, the top model and the others' embeddings" in warning
    assert "the label holder sees every party's embeddings" in warning


@pytest.mark.parametrize("others", ["codes", "total"])
@pytest.mark.parametrize("holder_has_features", [False, True])
def test_memory_of_surrogates_is_planned(others, holder_has_features):
    method = efvfl(TopK(0.1), None, Sum(), "shared", others=others, top_codec=TopK(0.1))
    federation = problem(Sum(), holder_has_features)
    memory = plan(federation, method, TRAINING).memory
    table, top = (
        4 * ROWS * WIDTH,
        4 * sum(p.numel() for p in federation.label_holder.top.parameters()),
    )
    everyone = 3 + holder_has_features
    seen_by_party = everyone if others == "codes" else 1
    assert memory["p0"].surrogates == seen_by_party * table + top
    assert memory["holder"].surrogates == everyone * table + top


def test_a_party_alone_hears_of_nobody():
    run = problem(Concat(), holder_has_features=False, parties=1).train(
        fedbcd(2, labels="shared"), TRAINING
    )
    assert run.ledger.frame().filter(kind="codes")["body_bytes"].sum() == 0


# Saliency


class Watching(nn.Module):
    """Notes which columns of its input are not 0, in training."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __deepcopy__(self, memo):
        return self  # a federation trains a copy, which must note in the same place

    def forward(self, z):
        if torch.is_grad_enabled():
            self.seen.append((z != 0).any(dim=0).nonzero().flatten().tolist())
        return z


@pytest.mark.parametrize("labels", ["private", "shared"])
def test_columns_are_chosen_by_what_they_matter(labels):
    """The largest component of the embedding matters least, the second most."""
    bottom, layer, watching = nn.Linear(4, 4, bias=False), nn.Linear(4, 2), Watching()
    bottom.weight.data = torch.diag(torch.tensor([9.0, 1.0, 1.0, 1.0]))
    layer.weight.data = torch.tensor([[0.0, 3.0, 0.5, 0.2], [0.0, -3.0, -0.5, -0.2]])
    hardly = partial(torch.optim.SGD, lr=1e-9)
    x = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(1))
    federation = Federation(
        [Party("bank", x, bottom, hardly)],
        LabelHolder(
            "insurer",
            torch.zeros(ROWS, dtype=torch.int64),
            nn.Sequential(watching, layer),
            optimiser=hardly,
        ),
    )
    codec = TopK(0.25, scope="columns", by="saliency")
    top = {"top_codec": Float()} if labels == "shared" else {}
    federation.train(cvfl(codec, labels=labels, **top), Training(batch_size=32))
    chosen = [columns for columns in watching.seen if len(columns) == 1]
    assert chosen == [[0], [1], [1]]  # the first batch goes by magnitude


# What is refused

REFUSED = {
    "say labels='shared' if that is meant": lambda: Relay(),
    "others of Relay is 'codes' or 'total', not 'sums'": lambda: Relay("shared", others="sums"),
    "labels of fedbcd is 'private' or 'shared', not 'secret'": lambda: fedbcd(2, labels="secret"),
    "C-VFL's Algorithm 2, with private labels, takes one step a round, not 3": lambda: cvfl(
        Scalar(4), 3
    ),
    "EF-VFL's Algorithm 2, with private labels, takes one step a round, not 2": lambda: efvfl(
        TopK(0.1), local_steps=2
    ),
    "cvfl with shared labels sends no derivatives": lambda: cvfl(
        Scalar(4), labels="shared", derivative_codec=Scalar(4)
    ),
    "efvfl with private labels sends the parties derivatives alone": lambda: efvfl(
        TopK(0.1), top_codec=TopK(0.1)
    ),
    "cvfl with private labels sends the parties derivatives alone": lambda: cvfl(
        Scalar(4), others="total"
    ),
    "Asynchronous(...), EventDriven(...), Relay(...) or Split(...), not Direct(": lambda: Method(
        "own", exchange=Direct()
    ),
    "Concat needs each of them": lambda: cvfl(Scalar(4), labels="shared", others="total"),
    "Max needs each of them": lambda: efvfl(TopK(0.1), None, Max(), "shared", others="total"),
    "replaying is for exchanges in which": lambda: Method(
        "own", exchange=Relay("shared"), local_updates=Replayed()
    ),
    "correction must be 0 or more, not -1": lambda: Split(correction=-1),
    "batches to replay are 1 or more, not 0": lambda: Replayed(batches=0),
    "local steps are 1 or more a round, not 0": lambda: fedbcd(0),
    "steps of Consecutive is a whole number, not 1.5": lambda: Consecutive(1.5),
    "error feedback needs a codec that contracts": lambda: efvfl(Scalar(4)),
    "error feedback needs": lambda: efvfl(TopK(0.1), labels="shared", top_codec=Scalar(4)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_refused_with_the_reason(message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        REFUSED[message]()


def test_local_steps_over_feedback_can_be_composed():
    method = Method(
        "own", Concat(), Plain(ErrorFeedback(TopK(0.3))), Split(Direct()), Consecutive(3)
    )
    run = problem(Concat()).train(method, TRAINING)
    assert set(run.summary["local_updates"].values()) == {2 * run.summary["rounds"]}


@pytest.mark.parametrize("holder_has_features", [False, True])
def test_replaying_is_its_description(holder_has_features):
    """The label holder alone goes on, on batches as they were received, with its own fresh part."""
    federation = problem(Concat(), holder_has_features)
    method = Method("own", local_updates=Replayed(steps=3, batches=2))
    reference = ReplayedReference(federation, method).train()
    run = federation.train(method, TRAINING)
    modules = [run.models[member.name]["bottom"] for member in reference.members]
    modules.append(run.models["holder"]["top"])
    for mine, expected in zip(modules, [*reference.bottoms, reference.top], strict=True):
        for value, other in zip(mine.parameters(), expected.parameters(), strict=True):
            assert torch.norm(value - other) <= 1e-5 * torch.norm(other)
    assert run.summary["local_updates"].pop("holder") == 3 * run.summary["rounds"]
    assert set(run.summary["local_updates"].values()) == {0}


class ReplayedReference(SplitReference):
    """One exact step for all, then steps of the label holder on its last two batches."""

    remembered: tuple = ()

    def play(self, round, rows):
        received = [b(m.features[rows]).detach() for m, b in self.pairs()]
        exact = copy.copy(self)
        exact.method = Method("exact")
        SplitReference.play(exact, round, rows)
        self.remembered = (*self.remembered, (rows, received))[-2:]
        count = len(self.remembered)
        order = permutation(StreamKey(0, "holder", "replayed", round), count)
        for step in range(3):
            some, stale = self.remembered[order[step % count]]
            if self.is_exact(len(self.members) - 1):
                own = self.bottoms[-1](self.members[-1].features[some])
                loss = self.loss(self.top, [*stale[:-1], own], some)
                self.step(nn.ModuleList([self.bottoms[-1], self.top]), loss)
            else:
                self.step(self.top, self.loss(self.top, stale, some))

    def pairs(self):
        return zip(self.members, self.bottoms, strict=True)


@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_derivatives_are_corrected_for_lossy_embeddings(strength):
    """One batch, one step, by hand: d + lambda (z - C(z)) (FedLite)."""
    federation = problem(Concat(), holder_has_features=False, parties=1)
    codec, rows = ProductQuantised(2, 4), torch.arange(ROWS)
    run = federation.train(svfl(codec, correction=strength), Training(batch_size=ROWS))
    party, (bottom, top) = (
        federation.parties[0],
        (
            copy.deepcopy(federation.parties[0].bottom),
            copy.deepcopy(federation.label_holder.top),
        ),
    )
    rows = torch.from_numpy(permutation(StreamKey(0, "", "batches", 0), ROWS))
    z = bottom(party.features[rows])
    key = StreamKey(0, "p0", "training/embedding", 0)
    sent = codec.decode(codec.encode(z.detach(), key), (ROWS, WIDTH), key).requires_grad_()
    nn.functional.cross_entropy(top(sent), federation.label_holder.labels[rows]).backward()
    z.backward(sent.grad + strength * (z.detach() - sent.detach()))
    for p, trained in zip(
        bottom.parameters(), run.models["p0"]["bottom"].parameters(), strict=True
    ):
        assert torch.allclose(trained, p.detach() - RATE * p.grad, atol=1e-6)


def test_bundles_hold_what_they_say():
    source = random.Random(1)
    bodies = [source.randbytes(n) for n in (0, 5, 300)]
    bundle = bundled(bodies)
    assert unbundled(bundle, 3) == bodies
    for wrong in (bundle[:-1], bundle + b"\0", b"", bundle[:2]):
        with pytest.raises(RemoteProtocolError):
            unbundled(wrong, 3)
    with pytest.raises(RemoteProtocolError):
        unbundled(bundle, 2)
    for _ in range(2000):
        changed = bytearray(bundle)
        changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
        try:
            parts = unbundled(bytes(changed), 3)
        except RemoteProtocolError:
            continue
        assert len(parts) == 3
        assert sum(map(len, parts)) == np.sum([len(body) for body in bodies])


# What is refused is told by its sender's name


@dataclass(frozen=True)
class Spoilt(Direct):
    """Brings exact numbers, but one body of ``origin`` has no numbers in it."""

    origin: str = "p1"

    def sender(self, rows, width, name):
        return Spoiler(self, super().sender(rows, width, name))


class Spoiler:
    def __init__(self, link, whole):
        self.link, self.whole = link, whole
        self.delivered = whole.delivered
        self.state_dict, self.load_state_dict = whole.state_dict, whole.load_state_dict

    def send(self, x, rows, key, saliency=None):
        body = self.whole.send(x, rows, key, saliency)
        spoilt = key.origin == self.link.origin and key.round == 2
        return b"\xff" * len(body) if spoilt else body


HOLDER = Spoilt(origin="holder")
SENT = "what '{}' sent in round 2 is refused: a body in float format 32 holds a value that is not"


@pytest.mark.parametrize(
    ("uplink", "exchange", "sender"),
    [
        (Spoilt(), Split(), "p1"),
        (Direct(), Split(HOLDER), "holder"),
        (Direct(), Asynchronous(HOLDER), "holder"),
        (Spoilt(), EventDriven(), "p1"),
        (Direct(), EventDriven(HOLDER), "holder"),
        (Spoilt(), Relay("shared"), "p1"),
        (Direct(), Relay("shared", top=HOLDER), "holder"),
        (HOLDER, Relay("shared"), "holder"),
    ],
)
def test_what_is_not_finite_is_told_by_who_sent_it(uplink, exchange, sender):
    federation, fusion = problem(Concat()), Concat()
    with pytest.raises(RemoteProtocolError, match=f"^{SENT.format(sender)}"):
        federation.train(Method("spoilt", fusion, Plain(uplink), exchange), TRAINING)


class Absurd(Spoiler):
    """Sends what is absurd, and finite, in one round."""

    def send(self, x, rows, key, saliency=None):
        absurd = key.origin == self.link.origin and key.round == 2
        return self.whole.send(torch.full_like(x, 1e38) if absurd else x, rows, key, saliency)


@dataclass(frozen=True)
class AbsurdLink(Spoilt):
    def sender(self, rows, width, name):
        return Absurd(self, Direct().sender(rows, width, name))


def test_a_party_names_who_sent_an_absurd_top_model(monkeypatch):
    federation, fusion = problem(Sum()), Sum()
    # What the label holder makes of its own numbers is not looked at.
    monkeypatch.setattr(RelayLabelHolder, "_step", lambda *what, **more: None)
    exchange = Relay("shared", top=AbsurdLink(origin="holder"))
    sentence = (
        r"^at p\d, in round 3: component .* cannot be encoded; training has diverged, .*; the "
        r"largest number in the top model from 'holder' is 1e\+38: see first what it sends$"
    )
    with pytest.raises(Diverged, match=sentence):
        federation.train(Method("absurd", fusion, Plain(), exchange), TRAINING)


def test_what_was_passed_on_is_told_by_both_names():
    receiver = CodesReceiver("holder", {"p1": Direct().receiver(1, 1, "p1")}, 0, Concat(), 0)
    said = "what 'p1' sent, and 'holder' passed on, in round 7 is refused: a body of 3 bytes"
    with pytest.raises(RemoteProtocolError, match=said):
        receiver._decode({"p1": b"abc"}, np.arange(1), Moment(7))


def test_a_top_model_without_parameters_is_relayed():
    given = problem(Sum())
    holder = replace(given.label_holder, top=nn.Softmax(1))
    method = Method("bare", Sum(), Plain(), Relay("shared"))
    run = Federation(given.parties, holder).train(method, TRAINING, report=False)
    assert run.summary["completed"]
