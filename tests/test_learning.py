"""Models that cannot be trained by what they return: told before, or by who has them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from colonnade import methods
from colonnade.drivers import Processes, Simulate
from colonnade.errors import ConfigurationError
from colonnade.federation import Federation
from colonnade.models.learning import check_bottom_learns
from colonnade.organisations import LabelHolder, Party
from colonnade.planning import plan
from colonnade.training import Training

pytestmark = pytest.mark.usefixtures("no_pictures")

TRAINING = Training(epochs=2, batch_size=7)
X = torch.randn(28, 4, generator=torch.Generator().manual_seed(1))


class Own(nn.Module):
    """A model of somebody's own: a function of a layer and its input."""

    def __init__(self, forward, inputs=4, outputs=4):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)
        self.computed = forward
        self.kept = None
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += self.training
        return self.computed(self, x)


def test_a_model_that_has_no_length_is_tried() -> None:
    check_bottom_learns("bank", torch.compile(nn.Linear(4, 3), backend="eager"), X[:2], 3)


class Frozen(nn.Sequential):
    """A model of length 0, from whose embeddings no derivative reaches its parameters."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x * self.weight.detach()


def test_a_model_of_length_0_is_tried() -> None:
    with pytest.raises(ConfigurationError, match="no derivative reaches any of them"):
        check_bottom_learns("bank", Frozen(), X[:2], 4)


def in_inference(self, x):
    with torch.inference_mode():
        return self.layer(x)


def recurrent(self, x):
    self.kept = self.layer(x) + (0 if self.kept is None or len(self.kept) != len(x) else self.kept)
    return self.kept


def late(change):
    """Return what is as it should be in training but for the third batch on."""

    def forward(self, x):
        z = self.layer(x).tanh()
        return change(z) if self.calls > 2 else z

    return forward


def tanh():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh())


def federation(bottom=None, top=None, own=None):
    torch.manual_seed(0)
    columns = {} if own is None else {"features": X, "bottom": own}
    return Federation(
        [Party("bank", X, bottom or tanh()), Party("shop", X, tanh())],
        LabelHolder("insurer", torch.arange(28) % 2, top or nn.Linear(8, 2), **columns),
        range(21),
        range(21, 28),
    )


NO_DERIVATIVE = "'bank' has parameters to train, and no derivative reaches any of them from its emb"
SHAPE = r"'bank' must return embeddings of shape \[2, 4\] for 2 rows in training, but it returned "
UNTRAINED = {
    "detached": (lambda self, x: self.layer(x).detach(), NO_DERIVATIVE),
    "inference": (in_inference, NO_DERIVATIVE),
    "checkpoint": (lambda self, x: checkpoint(self.layer, x, use_reentrant=True), NO_DERIVATIVE),
    "numpy": (lambda self, x: torch.from_numpy(self.layer(x).detach().numpy()), NO_DERIVATIVE),
    "only of its input": (lambda self, x: x.clone().requires_grad_() * 2, NO_DERIVATIVE),
    "tuple": (
        lambda self, x: (self.layer(x), x) if self.training else self.layer(x),
        SHAPE + "a tu",
    ),
    "narrow": (
        lambda self, x: self.layer(x)[:, : 2 if self.training else None],
        SHAPE + r"float32 of shape \[2, 2\]$",
    ),
    "recurrent": (
        recurrent,
        "'bank' cannot be differentiated a second time: Trying to backward .* let it detach",
    ),
}


@pytest.mark.filterwarnings("ignore:.*None of the inputs have requires_grad")
@pytest.mark.parametrize("how", UNTRAINED)
def test_a_bottom_that_cannot_be_trained_is_told_before_anything_starts(tmp_path, how):
    forward, message = UNTRAINED[how]
    f = federation(Own(forward))
    message = f"^the bottom model of {message}"
    with pytest.raises(ConfigurationError, match=message) as caught:
        f.train(training=TRAINING, out=tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigurationError, match=message):
        plan(f, training=TRAINING)
    with pytest.raises(ConfigurationError, match=message):
        f.parties[0].learner(width=4)  # which a party elsewhere has
    with pytest.raises(ConfigurationError, match=message.replace("bank", "insurer")):
        federation(top=nn.Linear(12, 2), own=Own(forward)).train(training=TRAINING)


def test_a_bottom_of_another_width_than_was_agreed_is_told():
    assert federation().parties[0].learner(4).width == 4
    with pytest.raises(ConfigurationError, match=r"\[2, 5\] for 2 rows in training, but it"):
        federation().parties[0].learner(5)


@pytest.mark.filterwarnings("ignore:.*None of the inputs have requires_grad")
@pytest.mark.parametrize("how", [name for name in UNTRAINED if name not in ("tuple", "narrow")])
def test_a_bottom_without_parameters_to_train_needs_no_derivative(how):
    own = Own(recurrent_detached if how == "recurrent" else UNTRAINED[how][0])
    assert federation(own.requires_grad_(False)).train(training=TRAINING).summary["completed"]


def recurrent_detached(self, x):
    state = recurrent(self, x)
    self.kept = self.kept.detach()
    return state


@pytest.mark.parametrize("as_it_is", [lambda x: x.clone().requires_grad_(), nn.Parameter])
def test_features_are_data_though_they_could_be_differentiated(as_it_is):
    usual, f = federation(), federation()
    features = as_it_is(X)
    f.parties = (replace(f.parties[0], features=features), f.parties[1])
    histories = [each.train(training=TRAINING).history.drop("seconds") for each in (usual, f)]
    assert histories[0].equals(histories[1])
    assert features.grad is None


def test_some_parameters_may_have_no_derivative():
    def partly(self, x):
        return self.layer(x) + self.other(x).detach()

    bottom = Own(partly)
    bottom.other = nn.Linear(4, 4)
    run = federation(bottom).train(training=TRAINING)
    assert not torch.equal(run.models["bank"]["bottom"].layer.weight, bottom.layer.weight)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda self, x: (self.layer(x),) if self.training else self.layer(x), "must return pred"),
        (lambda self, x: self.layer(x)[: 1 if self.training else None], "must return predictions"),
        (recurrent, "cannot be differentiated a second time"),
    ],
    ids=["tuple", "a row less", "recurrent"],
)
def test_a_top_that_cannot_be_trained_is_told_before_anything_starts(tmp_path, forward, message):
    with pytest.raises(ConfigurationError, match=f"^the top model of 'insurer' {message}"):
        federation(top=Own(forward, 8, 2)).train(training=TRAINING, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


LATE = {
    "narrow": (lambda z: z[:, :3], r"embeddings of shape \[7, 4\], as was agreed, .* \[7, 3\]"),
    "a row less": (lambda z: z[1:], r"embeddings of shape \[7, 4\], as was agreed, .* \[6, 4\]"),
    "tuple": (lambda z: (z,), "a tensor, but it returned a tuple"),
}


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
@pytest.mark.parametrize("how", LATE)
def test_embeddings_that_are_others_than_agreed_are_told_by_who_makes_them(how, driver):
    change, message = LATE[how]
    with pytest.raises(ConfigurationError, match=f"^at bank: .*{message}"):
        federation(Own(late(change))).train(training=TRAINING, driver=driver)


@pytest.mark.parametrize("method", [methods.pbm_vfl(), methods.wait_dp(), methods.vafl()])
def test_under_any_uplink_who_makes_them_tells(method):
    f = federation(Own(late(LATE["narrow"][0])))
    top = nn.Linear(method.fusion.width([4, 4]), 2)
    f.label_holder = replace(f.label_holder, top=top)
    with pytest.raises(ConfigurationError, match=r"^at bank: the bottom model must return embed"):
        f.train(method, replace(TRAINING, secrets="seed"))
