"""Top models, losses and metrics that write into what they are given: with the bits of a copy."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from colonnade import methods
from colonnade.codecs import TopK
from colonnade.costs import Modelled
from colonnade.drivers import Simulate
from colonnade.federation import Federation
from colonnade.metrics import Metric
from colonnade.models import DotProduct, Max, Mean, Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.training import Training

pytestmark = pytest.mark.usefixtures("no_pictures")

X = torch.randn(28, 8, generator=torch.Generator().manual_seed(1))
METHODS = {
    "svfl": methods.svfl(),
    "local steps": methods.fedbcd(3),
    "shared labels": methods.fedbcd(3, labels="shared"),
    "error feedback": methods.efvfl(TopK(0.5), labels="shared"),
    "workset": methods.celu(),
    "own pace": methods.vafl(),
    "masked": methods.pbm_vfl(),
    **{
        type(fusion).__name__: replace(methods.fedbcd(3), fusion=fusion)
        for fusion in (Sum(), Mean(), Max(), DotProduct())
    },
}


class Writes(nn.Module):
    """A layer after an activation that may be computed in place, and one before another."""

    def __init__(self, width, in_place):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.layer = nn.Linear(width, 2)
        self.in_place = in_place

    def forward(self, x):
        x = nn.functional.leaky_relu(x, 0.5, inplace=self.in_place)
        return self.layer(x).sigmoid()  # whose derivative is computed of what it returns


def loss(in_place):
    def margin(predictions, labels):
        predictions = predictions if in_place else predictions.clone()
        predictions[torch.arange(len(labels)), labels] -= 0.5
        return nn.functional.cross_entropy(predictions, labels)

    return margin


def erases(predictions, labels):
    mean = float(predictions[:, 0].mean() + labels.float().mean())
    predictions.zero_()
    labels.zero_()
    return mean


def train(method, parties, top=False, within_loss=False):
    torch.manual_seed(0)
    bottoms = [nn.Sequential(nn.Linear(8, 4), nn.Tanh()) for _ in range(parties)]
    top = Writes(method.fusion.width([4] * parties), top)
    f = Federation(
        [Party(f"party {n}", X, bottom) for n, bottom in enumerate(bottoms)],
        LabelHolder("insurer", torch.arange(28) % 2, top, loss(within_loss)),
        range(21),
        range(21, 28),
        [Metric(name, True, erases) for name in ("one", "other")],
    )
    training = Training(epochs=2, batch_size=7, secrets="seed")
    return f.train(method, training, Simulate(costs=Modelled(otherwise=0.001)))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("parties", [1, 2])
def test_who_writes_into_what_it_is_given_learns_the_same(name, parties):
    if parties == 1 and name in ("DotProduct", "masked"):  # which want two
        return
    method = METHODS[name]
    usual = train(method, parties)
    for where in ({"top": True}, {"within_loss": True}):
        run = train(method, parties, **where)
        assert run.history.equals(usual.history)
        state = run.models["insurer"]["top"].state_dict()
        for key, value in usual.models["insurer"]["top"].state_dict().items():
            assert torch.equal(value, state[key])


def test_metrics_are_given_copies():
    history = train(METHODS["svfl"], 2).history
    assert history["test_one"].to_list() == history["test_other"].to_list() != [0.0, 0.0]
