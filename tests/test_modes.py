"""Parts of models that are to stay in evaluation mode: they do, in training and after a resume."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from colonnade.drivers import Processes, Simulate
from colonnade.errors import ConfigurationError
from colonnade.federation import Federation
from colonnade.models import Learner
from colonnade.organisations import LabelHolder, Party
from colonnade.training import Training

pytestmark = pytest.mark.usefixtures("no_pictures")

TRAINING = Training(epochs=3, batch_size=7)
DRIVERS = [Simulate(), Processes()]
X = torch.randn(28, 4, generator=torch.Generator().manual_seed(1))


class Pretrained(nn.Module):
    """A frozen backbone with a head to train; ``how`` keeps the backbone in evaluation mode."""

    def __init__(self, how):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.back = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
            self.head = nn.Linear(4, 4)
        self.how = how
        self.back.requires_grad_(False)
        if how == "at once":
            self.back.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.how == "whenever it is trained":
            self.back.eval()  # and returns nothing, as it may

    def forward(self, x):
        return self.head(self.back(x))


def federation(bottom):
    torch.manual_seed(0)
    return Federation(
        [Party("bank", X, bottom), Party("shop", X, nn.Linear(4, 4))],
        LabelHolder("insurer", torch.arange(28) % 2, nn.Linear(8, 2)),
        range(21),
        range(21, 28),
    )


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.label)
@pytest.mark.parametrize("how", ["at once", "whenever it is trained"])
def test_a_backbone_stays_in_evaluation(tmp_path, how, driver):
    whole = federation(Pretrained(how)).train(training=TRAINING, driver=driver)
    bottom = whole.models["bank"]["bottom"]
    assert torch.equal(bottom.back[1].running_mean, torch.zeros(4))
    assert [part.training for part in bottom.modules()] == [True, *[False] * 4, True]
    go = {"training": TRAINING, "driver": driver, "out": tmp_path}
    federation(Pretrained(how)).train(**go, stop_before=6)
    rest = federation(Pretrained(how)).train(**go, resume=True)
    assert rest.history.drop("seconds").equals(whole.history.drop("seconds"))


def test_what_is_left_in_training_is_trained_and_evaluated_as_ever():
    run = federation(Pretrained("not at all")).train(training=TRAINING)
    assert not torch.equal(run.models["bank"]["bottom"].back[1].running_mean, torch.zeros(4))
    dropping = Learner(nn.Dropout(0.5))
    assert torch.equal(dropping(X, training=False), X)
    assert not torch.equal(dropping(X, training=True), X)


def test_batch_normalisation_in_evaluation_takes_a_row_alone():
    for how, taken in (("at once", True), ("not at all", False)):
        f = federation(Pretrained(how))
        alone = Training(epochs=1, batch_size=10)  # of 21
        if taken:
            assert f.train(training=alone).summary["completed"]
        else:
            with pytest.raises(ConfigurationError, match="'bank' does not take one row alone"):
                f.train(training=alone)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_whole_model_in_evaluation_is_told_of(frozen):
    bottom = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval().requires_grad_(not frozen)
    run = federation(bottom).train(training=TRAINING)
    told = [each for each in run.summary["warnings"] if "handed over in evaluation" in each]
    assert len(told) == (not frozen)
    assert torch.equal(run.models["bank"]["bottom"][1].running_mean, torch.zeros(4))
