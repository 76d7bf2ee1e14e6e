"""Proximal steps: their places, and a round against plain torch, step by step."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade.batches import BatchPlan
from colonnade.errors import ConfigurationError
from colonnade.local_updates import Consecutive, Proximal, Replayed
from colonnade.streams import StreamKey

pytestmark = pytest.mark.usefixtures("no_pictures")

KEY = StreamKey(0, "bank", "parts", 0)


def test_each_pass_visits_every_row_once() -> None:
    parts = [*Proximal(passes=3, rows=8).parts(20, KEY)]
    assert [len(part) for part in parts] == [8, 8, 4] * 3
    passes = [np.concatenate(parts[start : start + 3]) for start in (0, 3, 6)]
    assert all(sorted(each.tolist()) == list(range(20)) for each in passes)
    assert passes[0].tolist() != passes[1].tolist()


def test_no_list_is_made_of_many_passes() -> None:
    parts = Proximal(passes=2**60, rows=8).parts(20, KEY)
    assert [len(next(parts)) for _ in range(4)] == [8, 8, 4, 8]


def test_a_round_is_the_exact_step_and_steps_held_near_it() -> None:
    torch.manual_seed(0)
    x, labels = torch.randn(12, 3), torch.arange(12) % 2
    bottom, top = nn.Linear(3, 2), nn.Linear(2, 2)
    policy = Proximal(passes=2, rows=5, pull=0.7, label_holder=Consecutive())

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.3)

    federation = cn.Federation(
        [cn.Party("bank", x, copy.deepcopy(bottom), sgd)],
        cn.LabelHolder("insurer", labels, copy.deepcopy(top), optimiser=sgd),
        np.arange(12),
    )
    training = cn.Training(epochs=1, batch_size=12, seed=4)
    method = cn.Method("proximal", exchange=cn.Split(), local_updates=policy)
    run = federation.train(method, training)

    rows = _batch(12, 4)
    exact = bottom(x[rows])
    sent = exact.detach().requires_grad_()
    nn.functional.cross_entropy(top(sent), labels[rows]).backward()
    optimiser = sgd(bottom.parameters())
    exact.backward(sent.grad)
    optimiser.step()
    for part in policy.parts(12, StreamKey(4, "bank", "parts", 0)):
        z = bottom(x[rows][part])
        loss = (12 * sent.grad[part] * z).sum() + 0.7 / 2 * (z - sent.detach()[part]).square().sum()
        optimiser.zero_grad()
        (loss / len(part)).backward()
        optimiser.step()
    assert run.summary["local_updates"] == {"bank": 6, "insurer": 0}
    trained = run.models["bank"]["bottom"]
    assert torch.allclose(trained.weight, bottom.weight, atol=1e-6)
    assert torch.allclose(trained.bias, bottom.bias, atol=1e-6)


def _batch(rows: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(BatchPlan(np.arange(rows), rows, 1, seed).rows(0))


def test_large_batches_train_like_small_ones() -> None:
    torch.manual_seed(1)
    x = torch.randn(2048, 8)
    labels = ((x[:, 0] * x[:, 1] > 0) ^ (x[:, 2] > 0)).long()

    def accuracy(updates: cn.Consecutive | Proximal) -> float:
        torch.manual_seed(2)

        def adam(parameters):
            return torch.optim.Adam(parameters, lr=0.01)

        bottom = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        federation = cn.Federation(
            [cn.Party("bank", x, bottom, adam)],
            cn.LabelHolder("insurer", labels, nn.Linear(32, 2), optimiser=adam),
            np.arange(1536),
            np.arange(1536, 2048),
        )
        method = cn.Method("steps", local_updates=updates)
        return federation.train(method, cn.Training(epochs=12, batch_size=256)).summary["best"]

    assert accuracy(Proximal(2, 32, 0.05, Replayed(16, 8))) > accuracy(Consecutive()) + 0.05


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="passes of proximal steps are 1 or more"):
        Proximal(passes=0)
    with pytest.raises(ConfigurationError, match="take Consecutive"):
        Proximal(pull=0)
    assert Proximal(pull=2.0**23).pull == 2**23
    with pytest.raises(ConfigurationError, match="goes on alone"):
        Proximal(label_holder=Consecutive(3))
    alone = Proximal(label_holder=Consecutive())
    with pytest.raises(ConfigurationError, match="Proximal lets parties go on along"):
        cn.Method("x", exchange=cn.Relay("shared"), local_updates=alone)


@pytest.mark.parametrize("pull", [2.0**23 + 1, 1e39, 1e308])
def test_a_pull_that_outweighs_all_derivatives_is_refused_before_the_start(pull: float) -> None:
    """Training began, became no number, and a smaller learning rate was advised."""
    for make in (Proximal, cn.methods.lean):
        with pytest.raises(
            ConfigurationError, match=r"^the pull of .* 2\^23 at most, not .*0\.03$"
        ):
            make(pull=pull)
