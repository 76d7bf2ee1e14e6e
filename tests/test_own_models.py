"""Models, labels, metrics, names as people bring them: they work, or one sentence says why not."""

from __future__ import annotations

import errno
import json
import math
import random
import re
import threading
import warnings
import weakref
from dataclasses import replace
from functools import partial, wraps
from multiprocessing.reduction import ForkingPickler
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import spectral_norm

from colonnade import methods
from colonnade.agreement import PartySeat
from colonnade.assembly import Layers, ModuleBottom
from colonnade.batches import BatchPlan
from colonnade.codecs import Scalar, TopK
from colonnade.costs import Delayed, Modelled
from colonnade.delays import Constant
from colonnade.drivers import Processes, Simulate
from colonnade.drivers.handed import packed
from colonnade.effects import KINDS_OF_WORK
from colonnade.errors import ConfigurationError, DataError, Diverged, RoleFailed, Unwritten
from colonnade.estimators import VerticalClassifier
from colonnade.export import load_part
from colonnade.federation import Federation
from colonnade.layout import Layout, check_names
from colonnade.local_updates import Consecutive, Proximal
from colonnade.metrics import ACCURACY, AUC, Metric
from colonnade.models import Learner, copied, optimising
from colonnade.models.lookbacks import looking_at_itself
from colonnade.notes import notes_of_optimiser
from colonnade.organisations import LabelHolder, Party
from colonnade.planning import plan
from colonnade.roles.blame import largest_embedding
from colonnade.run_read import load_run
from colonnade.secure import Field
from colonnade.stragglers import Deadline
from colonnade.streams import StreamKey
from colonnade.training import EarlyStopping, Training
from colonnade.uplinks import Coded

pytestmark = pytest.mark.usefixtures("no_pictures")

ROWS = 34
METHODS = {
    "svfl": methods.svfl(),
    "local steps": methods.fedbcd(3),
    "shared labels": methods.fedbcd(2, labels="shared"),
    "error feedback": methods.efvfl(TopK(0.5), Scalar(4)),
    "workset": methods.celu(),
    "own pace": methods.vafl(),
    "parts of batches": methods.lean(),
    "masked": methods.pbm_vfl(local_steps=2),
    "noise": methods.wait_dp(),
}
TRAINING = Training(epochs=2, batch_size=10, secrets="seed")


def linear(inputs=4, outputs=4):
    with torch.random.fork_rng():
        torch.manual_seed(7 * inputs + outputs)
        return nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh())


def frozen():
    module = linear()
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return module


class Returns(nn.Module):
    """A model without parameters that returns what a function makes of its input."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def federation(
    bank=None, shop=None, top=None, own=None, labels=None, rows=22, metrics=None, names=None
):
    """A bank, a shop and an insurer; ``rows`` to train on, 6 to validate by, 6 to test by."""
    x = torch.randn(ROWS, 8, generator=torch.Generator().manual_seed(1)).tanh()
    bank_name, shop_name, holder = names or ("bank", "shop", "insurer")
    columns = {} if own is None else {"features": x[:, 2:6], "bottom": own}
    return Federation(
        [
            Party(bank_name, x[:, :4], linear() if bank is None else bank),
            Party(shop_name, x[:, 4:], linear() if shop is None else shop),
        ],
        LabelHolder(
            holder,
            torch.arange(ROWS) % 3 if labels is None else labels,
            linear(8, 3) if top is None else top,
            **columns,
        ),
        range(rows),
        range(ROWS - 6, ROWS),
        metrics,
        range(ROWS - 12, ROWS - 6),
    )


def width(method, organisations=2):
    """Return how wide embeddings of 4 are, fused."""
    return method.fusion.width([4] * organisations)


# Models of which nothing is trained


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=["simulate", "processes"])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_models_without_anything_to_train_are_trained_with(method, driver):
    f = federation(
        bank=nn.Identity(),
        shop=frozen(),
        own=frozen() if method.name != "celu" else None,
        top=linear(width(method, 2 + (method.name != "celu")), 3),
    )
    before = f.parties[1].bottom.state_dict()
    run = f.train(method, TRAINING, driver)
    assert run.summary["completed"]
    assert all(
        torch.equal(value, run.models["shop"]["bottom"].state_dict()[key])
        for key, value in before.items()
    )


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_nobody_has_anything_to_train(method):
    top = Returns(lambda x: x[:, :3])
    run = federation(nn.Identity(), nn.Identity(), top).train(method, TRAINING)
    assert run.summary["completed"]


TYPES = {
    "codes": lambda x: (3 * x).long(),
    "signs": lambda x: x > 0,
    "double": torch.Tensor.double,
    "half": torch.Tensor.half,
}


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["svfl", "error feedback", "shared labels"])
def test_embeddings_of_any_real_type_are_those_in_float32(type, name):
    method, make = METHODS[name], TYPES[type]
    histories = []
    for function in (make, lambda x: make(x).float()):
        bottom, top = Returns(function), linear(width(method, 3), 3)
        run = federation(bottom, own=bottom, top=top).train(method, TRAINING)
        histories.append(run.history.drop("seconds"))
    assert histories[0].equals(histories[1])


def test_a_learner_returns_float32():
    learner = Learner(Returns(lambda x: x > 0))
    assert learner(torch.tensor([[1.0, -1.0]]), training=True).tolist() == [[1.0, 0.0]]


def test_complex_embeddings_are_refused():
    with pytest.raises(
        ConfigurationError, match=r"'bank' must return real numbers, but.*complex64"
    ):
        federation(Returns(lambda x: x.to(torch.complex64)))


# What is no model yet


@pytest.mark.parametrize(
    ("thing", "what"),
    [
        (partial(nn.Linear, 4, 4), "a partial"),
        (nn.Linear, "the class Linear"),
        (linear, "a function"),
        ("mlp", "a str"),
    ],
)
def test_what_makes_a_module_is_none(thing, what):
    with pytest.raises(
        ConfigurationError, match=f"^the bottom model of 'bank' must .*, not {what}"
    ):
        federation(thing)
    with pytest.raises(ConfigurationError, match=f"^the top model of 'insurer' must .* not {what}"):
        federation(top=thing).train(training=TRAINING)
    people = {name: pl.DataFrame({name: range(60)}) for name in ("bank", "shop")}
    for settings, whose in (({"bottoms": {"bank": thing}}, "bottom model of 'bank'"),
                            ({"top": thing}, "top model")):  # fmt: skip
        model = VerticalClassifier(aligned=True, epochs=1, **settings)
        with pytest.raises(
            ConfigurationError, match=f"^the {whose} is {what}, but must be a torch"
        ):
            model.fit(people, [0, 1] * 30)


def test_a_class_that_describes_bottoms_is_none_either():
    people = {name: pl.DataFrame({name: range(60)}) for name in ("bank", "shop")}
    with pytest.raises(ConfigurationError, match="'bank' is the class Layers, but must"):
        VerticalClassifier(aligned=True, bottoms={"bank": Layers}).fit(people, [0, 1] * 30)
    made = ModuleBottom(partial(nn.Linear, 1, 4), "my model", {})  # the remedy that is named
    model = VerticalClassifier(aligned=True, epochs=1, bottoms={"bank": made}, validation=0)
    assert model.fit(people, [0, 1] * 30).run_.summary["completed"]


def test_a_lazy_module_is_to_be_called_before():
    with pytest.raises(ConfigurationError, match="'bank' does not know yet of which shape its '"):
        federation(nn.LazyLinear(4))
    with pytest.raises(ConfigurationError, match="'insurer' does not know yet of which shape"):
        federation(top=nn.LazyLinear(3)).train(training=TRAINING)
    lazy = nn.LazyLinear(4)
    lazy(torch.zeros(2, 4))
    assert federation(lazy).train(training=TRAINING).summary["completed"]


# One row alone


def normalised(inputs=4, outputs=4):
    return nn.Sequential(*linear(inputs, outputs), nn.BatchNorm1d(outputs))


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=["simulate", "processes"])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_a_row_that_is_left_alone_is_told_before_anything_starts(method, driver, tmp_path):
    """Noise that is accounted for keeps batch normalisation out of bottoms anyway."""
    out = tmp_path / "run"
    if method.name not in ("pbm_vfl", "wait_dp"):
        bottom = federation(normalised(), rows=21)
        sentence = "'bank' does not take one row alone .*: of 21 training rows in batches of 10 one"
        with pytest.raises(ConfigurationError, match=sentence):
            bottom.train(method, TRAINING, driver, out=out)
    top = normalised(width(method), 3)
    with pytest.raises(ConfigurationError, match="top model of 'insurer' does not take one row"):
        federation(top=top, rows=21).train(method, TRAINING, driver, out=out)
    assert not out.exists()


def test_the_label_holders_own_model_meets_a_row_alone_too():
    with pytest.raises(ConfigurationError, match="bottom model of 'insurer' does not take one row"):
        federation(own=normalised(), top=linear(12, 3), rows=21).train(training=TRAINING)


@pytest.mark.parametrize("rows", [20, 22])
def test_batch_normalisation_is_trained_where_no_row_is_alone(rows):
    run = federation(normalised(), normalised(), normalised(8, 3), rows=rows).train(
        training=TRAINING
    )
    assert run.summary["completed"]


def test_a_model_that_takes_one_row_may_have_it():
    """It is tried and not judged: pictures are normalised over their pixels."""
    bottom = nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Dropout(0.5)
    )
    run = federation(bottom, rows=21).train(training=TRAINING)
    assert run.summary["completed"]


def test_trying_changes_nothing_of_a_run():
    """A row of 21 is tried in training, where this model draws and remembers."""
    bottom = nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Dropout(0.5)
    )
    f = federation(bottom, rows=21)
    agreement = f.agreement(METHODS["svfl"], TRAINING)
    seat = PartySeat(f.parties[0])
    before = {key: value.clone() for key, value in bottom.state_dict().items()}
    first = f.train(training=TRAINING)
    agreement.method.exchange.party(agreement, seat)
    again = f.train(training=TRAINING)
    assert first.history.drop("seconds").equals(again.history.drop("seconds"))
    assert all(torch.equal(value, before[key]) for key, value in bottom.state_dict().items())


def test_a_row_may_be_alone_in_a_local_step():
    """Of 20 rows in parts of 19 one is left; the batches are large enough."""
    policy = methods.lean(rows=9)
    with pytest.raises(ConfigurationError, match=r"a local step takes the one row .* batch of 10"):
        federation(normalised(), rows=20).train(policy, TRAINING)
    top = normalised(8, 3)  # which takes its steps on whole batches
    assert federation(top=top, rows=20).train(policy, TRAINING).summary["completed"]


@pytest.mark.parametrize(
    ("rows", "batch", "size", "sizes"),
    [
        (21, 10, 1, {10, 1}),
        (20, 10, 1, {10}),
        (5, 10, 1, {5}),
        (9, 1, 1, {1}),
        (21, 10, 2, {10, 9, 1, 2}),
        (22, 10, 2, {10, 2}),
    ],
)
def test_batches_have_the_sizes_that_are_told(rows, batch, size, sizes):
    plan = BatchPlan(torch.arange(rows).numpy(), batch, epochs=60, seed=3).in_groups(size)
    assert {len(plan.rows(round)) for round in range(plan.rounds)} == plan.sizes == sizes


@pytest.mark.parametrize("batch", range(1, 40))
def test_the_smallest_step_is_told(batch):
    assert Consecutive(2).least_rows(batch) == batch
    for rows in (1, 7, 40):
        policy = Proximal(passes=2, rows=rows)
        parts = policy.parts(batch, StreamKey(0, "bank", "parts", 0))
        assert policy.least_rows(batch) == min(map(len, parts))


@pytest.mark.parametrize("model", ["bottom", "top"])
def test_what_squeezes_is_told_where_a_row_is_evaluated_alone(model):
    squeezes = nn.Sequential(linear(4 if model == "bottom" else 8, 4), Returns(torch.squeeze))
    f = federation(**({"bank": squeezes} if model == "bottom" else {"top": squeezes}))
    alone = Training(epochs=1, batch_size=10, evaluation_rows=5)  # of 6
    with pytest.raises(
        ConfigurationError, match=r"must return .* of 6 validation rows, of which a"
    ):
        f.train(training=alone)
    assert f.train(training=TRAINING).summary["completed"]


@pytest.mark.parametrize("model", ["bank", "own", "top"])
def test_a_plan_tells_of_it_as_a_run_does(model):
    """A plan is played by hollow models, which take any row."""
    width = {"own": (12, 3)}.get(model, (8, 3))
    models = {"top": linear(*width), model: normalised(*(width if model == "top" else (4, 4)))}
    driver = Simulate(costs=Modelled(otherwise=0.0))
    with pytest.raises(ConfigurationError, match="does not take one row alone"):
        plan(federation(**models, rows=21), training=TRAINING, driver=driver)
    assert plan(federation(**models, rows=22), training=TRAINING, driver=driver).rounds == 6


def test_a_party_elsewhere_is_told_too():
    f = federation(normalised(), rows=21)
    agreement = f.agreement(methods.svfl(), TRAINING)
    with pytest.raises(ConfigurationError, match="'bank' does not take one row alone"):
        agreement.method.exchange.party(agreement, PartySeat(f.parties[0]))


# Embeddings that cannot be sent


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (torch.Tensor.to_sparse, r"'bank' must return a dense tensor, .* sparse_coo: let"),
        (lambda x: x[:, :0], r"'bank' must return a component or more .* \[2, 0\]: give"),
    ],
)
def test_embeddings_are_dense_and_have_a_component(function, message):
    with pytest.raises(ConfigurationError, match=message):
        federation(Returns(function))


# Optimisers and schedulers


def learning(**how):
    """A federation of which every organisation trains as ``how`` says."""
    f = federation(own=linear(), top=linear(12, 3))
    f.parties = tuple(replace(party, **how) for party in f.parties)
    f.label_holder = replace(f.label_holder, **how)
    return f


class Own(torch.optim.SGD):
    """An optimiser of somebody's own."""

    def step(self, closure):
        return closure()


class Stubborn(torch.optim.lr_scheduler.LRScheduler):
    """A scheduler of somebody's own that takes no step once training begins."""

    def get_lr(self):
        if self.last_epoch:
            raise ArithmeticError("no rate is left\nat all")
        return self.base_lrs


MINE = nn.Linear(3, 4)  # as a model that one has, of which a run trains a copy


def of_another(_):
    return torch.optim.lr_scheduler.StepLR(torch.optim.SGD(MINE.parameters()), step_size=1)


class Groupless:
    """What takes steps and can be kept, and says of no parameters."""

    def __init__(self, _):
        pass

    def step(self):
        pass

    def zero_grad(self, set_to_none=True):
        pass

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def fails(made_of):
    raise ValueError(f"nothing can be made\nof {made_of}")


LEARNING = {
    "plateau": (
        {"scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau},
        "^the scheduler ReduceLROnPlateau of 'bank' wants a metric .*: take one .* as StepLR, ",
    ),
    "closure": (
        {"optimiser": torch.optim.LBFGS},
        "^the optimiser LBFGS of 'bank' wants to evaluate the loss anew .*, as Adam or SGD",
    ),
    "own closure": ({"optimiser": Own}, "^the optimiser Own of 'bank' wants to evaluate the loss"),
    "rate": (
        {"optimiser": partial(torch.optim.Adam, lr=1e39)},
        "^the optimiser Adam of 'bank' cannot take a step: value cannot .* a smaller learning rate",
    ),
    "optimiser that raises": (
        {"optimiser": fails},
        r"^the optimiser of 'bank' cannot be made: nothing can be made; give .* lr=1e-3\) does",
    ),
    "negative rate": (
        {"optimiser": partial(torch.optim.Adam, lr=-1.0)},
        "^the optimiser of 'bank' cannot be made: Invalid learning rate: -1.0; give",
    ),
    "optimiser itself": (
        {"optimiser": torch.optim.SGD(nn.Linear(1, 1).parameters())},
        "^the optimiser of 'bank' cannot be made: 'SGD' object is not callable; give",
    ),
    "another's parameters": (
        {"optimiser": lambda parameters: torch.optim.Adam(MINE.parameters())},
        "^the optimiser Adam of 'bank' has .*none of the parameters .*: use what is handed over",
    ),
    "no parameters": (
        {"optimiser": Groupless},
        "^the optimiser Groupless of 'bank' has .*none of the parameters .*: use what is",
    ),
    "another's scheduler": (
        {"scheduler": of_another},
        "^the scheduler StepLR of 'bank' is of another optimiser .*: use what is handed over",
    ),
    "no optimiser": ({"optimiser": list}, "^the optimiser of 'bank' is a list; give"),
    "a class": ({"optimiser": lambda p: Own}, "^the optimiser of 'bank' is the class Own; give"),
    "scheduler that raises": (
        {"scheduler": fails},
        r"^the scheduler of 'bank' cannot be made: nothing can be made; give .*step_size=10\) does",
    ),
    "scheduler that fails": (
        {"scheduler": Stubborn},
        "^the scheduler Stubborn of 'bank' cannot take a step: no rate is left; take one",
    ),
}


@pytest.mark.parametrize("how", LEARNING)
def test_what_cannot_train_is_told_before_anything_starts(tmp_path, how):
    settings, message = LEARNING[how]
    f, out = learning(**settings), tmp_path / "run"
    with pytest.raises(ConfigurationError, match=message) as caught:
        f.train(training=TRAINING, out=out)
    assert "\n" not in str(caught.value)
    assert not out.exists()
    with pytest.raises(ConfigurationError, match=message):
        plan(f, training=TRAINING)
    with pytest.raises(ConfigurationError, match=message):
        f.parties[0].learner()  # which a party elsewhere has
    with pytest.raises(ConfigurationError, match=message.replace("bank", "insurer")):
        f.label_holder.learners()


NO_FOLDER = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")
BY_THE_DISK = {
    "folder": (NO_FOLDER, "no temporary folder can be written; make room, or set TMPDIR"),
    "full": (
        OSError(errno.ENOSPC, "No space left on device"),
        "a file cannot be written: No space left on device; make room",
    ),
}


def refused_by(error):
    def make(*_):
        raise error

    return make


@pytest.mark.parametrize("fault", BY_THE_DISK)
@pytest.mark.parametrize("what", ["optimiser", "scheduler"])
def test_what_the_disk_refuses_is_no_fault_of_what_cannot_be_made(what, fault):
    error, message = BY_THE_DISK[fault]
    with pytest.raises(Unwritten) as caught:
        learning(**{what: refused_by(error)}).train(training=TRAINING)
    assert str(caught.value) == f"the {what} of 'bank' cannot be made: {message}"


@pytest.mark.parametrize("fault", BY_THE_DISK)
def test_what_the_disk_refuses_is_no_fault_of_a_model(fault):
    error, message = BY_THE_DISK[fault]
    model = Returns(refused_by(error))
    with pytest.raises(
        Unwritten, match=f"^the bottom model of 'bank' does not take .*: {message}$"
    ):
        federation(bank=model)
    with pytest.raises(
        Unwritten, match=f"^the top model of 'insurer' does not take .*: {message}$"
    ):
        federation(top=model).train(training=TRAINING)


@pytest.mark.parametrize("fault", BY_THE_DISK)
def test_what_the_disk_refuses_is_no_fault_of_what_makes_a_model(fault):
    error, message = BY_THE_DISK[fault]
    people = {name: pl.DataFrame({name: range(60)}) for name in ("bank", "shop")}
    mine = ModuleBottom(refused_by(error), "mine", {})
    with pytest.raises(Unwritten, match=f"^the bottom model of 'bank' cannot be made: {message}$"):
        VerticalClassifier(aligned=True, bottoms={"bank": mine}).fit(people, [0, 1] * 30)


def test_a_file_of_ones_own_that_is_missing_is_still_ones_own_fault():
    missing = FileNotFoundError(errno.ENOENT, "No such file or directory", "rates.json")
    with pytest.raises(ConfigurationError, match=r"made: .*'rates\.json'; give what makes one"):
        learning(optimiser=refused_by(missing)).train(training=TRAINING)


def test_the_top_models_optimiser_is_told_of_too():
    f = federation()
    f.label_holder = replace(f.label_holder, optimiser=torch.optim.LBFGS)
    with pytest.raises(ConfigurationError, match="optimiser LBFGS of 'insurer' wants to evaluate"):
        f.train(training=TRAINING)


def test_an_optimiser_of_sparse_gradients_that_raises_is_told():
    bottom = nn.EmbeddingBag(9, 4, sparse=True)
    with pytest.raises(ConfigurationError, match="'bank' cannot be made: nothing can be made; "):
        Federation(
            [Party("bank", torch.zeros(9, 2, dtype=torch.long), bottom, fails)],
            LabelHolder("insurer", torch.arange(9) % 3, linear(4, 3)),
        )


SHORT = {
    "cycle": partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=2),
    "list": partial(torch.optim.lr_scheduler.LambdaLR, lr_lambda=lambda step: [1, 0.5, 0.1][step]),
}


@pytest.mark.parametrize("how", SHORT)
def test_a_scheduler_of_fewer_steps_than_training_has_is_told_before_anything_starts(tmp_path, how):
    f = learning(scheduler=SHORT[how])
    assert f.train(training=TRAINING).summary["completed"]
    longer = replace(TRAINING, epochs=4)
    message = "^the scheduler .*LR of 'bank' fails at step 3 of the 4 that training has: .*; make"
    with pytest.raises(ConfigurationError, match=message):
        f.train(training=longer, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigurationError, match=message):
        plan(f, training=longer)
    f.parties = federation().parties
    with pytest.raises(ConfigurationError, match=message.replace("bank", "insurer")):
        f.train(training=longer)


@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step")
@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_a_scheduler_that_fails_very_late_names_its_owner(driver, monkeypatch):
    monkeypatch.setattr(optimising, "_MOST", 2)
    with pytest.raises(RoleFailed, match=r"^(bank|shop|insurer) failed in round 9: IndexE"):
        learning(scheduler=SHORT["list"]).train(training=replace(TRAINING, epochs=4), driver=driver)


@pytest.mark.parametrize(
    "how",
    [
        {"optimiser": torch.optim.Rprop},
        {"optimiser": partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True)},
        {"scheduler": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=9)},
        {"scheduler": partial(torch.optim.lr_scheduler.LambdaLR, lr_lambda=lambda n: 0.9**n)},
        {
            "optimiser": lambda parameters: torch.optim.AdamW(
                [{"params": [p], "weight_decay": 0.1 * (p.dim() > 1)} for p in parameters]
            )
        },
    ],
)
def test_any_other_optimiser_and_scheduler_trains(how):
    assert learning(**how).train(training=TRAINING).summary["completed"]


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_a_rate_that_is_a_tensor_is_every_learners_own(tmp_path, driver):
    rate = torch.tensor(0.01)
    f = learning(
        optimiser=partial(torch.optim.Adam, lr=rate),
        scheduler=partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.5),
    )
    whole = f.train(training=TRAINING, driver=driver)
    assert whole.history["learning_rate"].to_list() == pytest.approx([0.005, 0.0025])
    assert float(rate) == pytest.approx(0.01)
    f.train(training=TRAINING, driver=driver, out=tmp_path, stop_before=4)
    rest = f.train(training=TRAINING, driver=driver, out=tmp_path, resume=True)
    assert rest.history.drop("seconds").equals(whole.history.drop("seconds"))


def test_trying_an_optimiser_changes_nothing():
    """Neither a model nor what was warned of before."""
    f = learning(scheduler=partial(torch.optim.lr_scheduler.StepLR, step_size=1))
    before = {name: v.clone() for name, v in f.parties[0].bottom.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f.check(methods.svfl())
    after = f.parties[0].bottom.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(p.grad is None for p in f.parties[0].bottom.parameters())


# What has no derivative


def with_loss(loss, top=None):
    f = federation(top=top)
    f.label_holder, f.loss = replace(f.label_holder, loss=loss), loss
    return f


class Broken(torch.autograd.Function):
    """Has a derivative that cannot be computed."""

    @staticmethod
    def forward(ctx, x):
        return x.mean()

    @staticmethod
    def backward(ctx, slope):
        raise ArithmeticError("no slope\nhere")


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda p, y: p.argmax(1).float().mean(), "has no derivative"),
        (lambda p, y: p.detach().mean(), "has no derivative"),
        (lambda p, y: torch.tensor(p.mean().item()), "has no derivative"),
        (lambda p, y: torch.ones((), requires_grad=True) * 2, "has no derivative"),
        (lambda p, y: Broken.apply(p), "cannot be differentiated: no slope; compute it"),
    ],
    ids=["argmax", "detach", "item", "constant", "broken"],
)
def test_a_loss_without_a_derivative_is_told_before_anything_starts(tmp_path, loss, message):
    with pytest.raises(ConfigurationError, match=f"^the loss of 'insurer' {message}") as caught:
        with_loss(loss).train(training=TRAINING, out=tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_top_model_without_a_derivative_is_told():
    for function in (lambda x: x.detach()[:, :3], lambda x: (x[:, :3] > 0).long()):
        with pytest.raises(ConfigurationError, match="top model of 'insurer' has no derivative"):
            federation(top=Returns(function)).train(training=TRAINING)


def test_a_top_model_that_rounds_in_evaluation_alone_is_trained():
    class Rounds(nn.Module):
        def forward(self, x):
            return x if self.training else x.detach().round()

    top = nn.Sequential(Rounds(), linear(8, 3), Rounds())
    assert federation(top=top).train(training=TRAINING).summary["completed"]


def test_a_loss_may_change_its_predictions_and_differentiate_by_itself():
    def loss(predictions, labels):
        own = nn.functional.cross_entropy(predictions, labels)
        (slope,) = torch.autograd.grad(own, predictions, create_graph=True)
        return nn.functional.cross_entropy(predictions.mul_(2), labels) + slope.square().sum()

    assert with_loss(loss, nn.Linear(8, 3)).train(training=TRAINING).summary["completed"]


# Numbers that are absurd, and finite


AT_ONCE = Simulate(costs=Modelled(otherwise=0.0))
SHOP_LATE = Simulate(costs=Delayed(Modelled(otherwise=1e-3), {"shop": Constant(9.0)}))


def absurd(number):
    """A bottom model one component of whose embeddings is absurd."""
    return Returns(lambda x: torch.cat([x[:, :3], torch.full((len(x), 1), number)], dim=1))


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=["simulate", "processes"])
def test_a_loss_that_is_no_number_names_who_sent_the_largest(driver):
    top = nn.Linear(8, 3)
    nn.init.constant_(top.weight, 0.5)
    nn.init.constant_(top.weight[1], -0.5)
    f = federation(shop=absurd(-3.2e38), top=top)
    sentence = (
        r"^at insurer, in round 0: the loss is (nan|inf); try a smaller learning rate; the largest "
        r"component that came is 3.2e\+38, of 'shop': see first what it computes"
    )
    with pytest.raises(Diverged, match=sentence):
        f.train(training=TRAINING, driver=driver)


@pytest.mark.parametrize(
    "method",
    [methods.svfl(), methods.fedbcd(3), methods.cvfl(Scalar(4)), methods.celu(), methods.vafl()],
    ids=lambda method: method.name,
)
def test_every_exchange_names_who_sent_the_largest(method):
    top = nn.Linear(width(method), 3)
    torch.nn.init.constant_(top.weight, 1e9)
    with pytest.raises(
        Diverged, match=r"the largest component that came is 3(\.05)?e\+37, of 'shop'"
    ):
        federation(shop=absurd(3e37), top=top).train(method, TRAINING, SHOP_LATE)


def test_numbers_of_every_day_name_nobody():
    top = nn.Linear(8, 3)
    torch.nn.init.constant_(top.weight, 3e38)
    with pytest.raises(Diverged, match=r"smaller learning rate$"):
        federation(top=top).train(training=TRAINING)


def test_a_derivative_that_is_no_number_names_who_sent_the_largest():
    f = with_loss(lambda p, y: (p * 0).sqrt().mean(), nn.Linear(8, 3))
    f.parties = (f.parties[0], replace(f.parties[1], bottom=absurd(3e30)))
    sentence = "^at insurer, in round 0: component .* is nan, which cannot .*, of 'shop': see first"
    with pytest.raises(Diverged, match=sentence):
        f.train(training=TRAINING)


@pytest.mark.parametrize("name", ["svfl", "workset", "own pace"])
@pytest.mark.parametrize("epochs", [1, 2], ids=["evaluation", "training"])
def test_an_embedding_that_is_no_number_names_who_sent_derivatives(name, epochs):
    method = METHODS[name]
    deep = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    f = with_loss(lambda p, y: 1e37 * p.mean(), nn.Linear(width(method), 3))
    sgd = partial(torch.optim.SGD, lr=1.0)
    f.parties = (replace(f.parties[0], bottom=deep, optimiser=sgd), f.parties[1])
    sentence = (
        r"^at bank, in round 1: component .* cannot be encoded; .*; the last derivatives from "
        r"'insurer' come to [0-9.]+e\+3\d in a component: see first what it computes$"
    )
    with pytest.raises(Diverged, match=sentence):
        f.train(method, Training(epochs=epochs, batch_size=10 if epochs > 1 else 22), AT_ONCE)


def test_of_a_sum_all_who_are_in_it_are_named():
    total = torch.tensor([[1.0, 2e6]])
    told = largest_embedding({"bank": total, "shop": total, "club": torch.ones(1)})
    assert "2e+06, of the sum of 'bank' and 'shop': see first what they compute" in told
    assert largest_embedding({}) == ""


def new_rows(rows=3):
    return {name: torch.ones(rows, 4) for name in ("bank", "shop")}


def test_a_prediction_that_is_no_number_is_refused_and_names_who_sent_the_largest():
    run = federation(top=nn.Linear(8, 3)).train(training=TRAINING)
    absurd_from = Returns(lambda x: torch.where(x[:, :1] > 1, 3e38, torch.ones(len(x), 4)))
    run.models["shop"]["bottom"] = absurd_from
    torch.nn.init.constant_(run.models["insurer"]["top"].weight, 9.0)
    assert run.predict(new_rows()).scores.isfinite().all()
    features = new_rows()
    features["shop"][1] = 2.0
    sentence = (
        "^what the top model of 'insurer' says of row 1 is no finite number, so nothing is "
        r"predicted; the largest component that came is 3e\+38, of 'shop': see first what it"
    )
    for rows in (1, 1024):
        with pytest.raises(Diverged, match=sentence):
            run.predict(features, rows_per_message=rows)


def test_what_the_label_holders_own_bottom_makes_no_number_of_is_told_as_its_own():
    run = federation(own=linear(), top=nn.Linear(12, 3)).train(training=TRAINING)
    run.models["insurer"]["bottom"] = Returns(lambda x: 9 * x)
    features = new_rows() | {"insurer": torch.ones(3, 4)}
    features["insurer"][1, 2] = -1e38
    sentence = "^what the bottom model of 'insurer' says of row 1 is no finite number, so nothing"
    with pytest.raises(Diverged, match=sentence):
        run.predict(features)


def test_a_new_row_that_is_too_large_is_told_by_its_own_numbers():
    run = federation().train(training=TRAINING)
    run.models["bank"]["bottom"] = Returns(lambda x: 9 * x)
    features = new_rows()
    features["bank"][1, 2] = -1e38
    sentence = (
        "^at bank, in round 0: component 2 of row 1 of those embedded together is -inf, so nothing "
        "is predicted: see that row's features, and what the bottom model makes of them$"
    )
    with pytest.raises(Diverged, match=sentence):
        run.predict(features)


# Metrics


def metric(value, greater_is_better=True):
    return Metric("mine", greater_is_better, lambda scores, targets: value)


NO_NUMBERS = [math.nan, math.inf, -math.inf, torch.tensor(math.nan)]


@pytest.mark.parametrize("by", ["loss", "metric"])
@pytest.mark.parametrize("value", [*NO_NUMBERS, 1e301, -1e301])
@pytest.mark.parametrize("greater_is_better", [True, False])
def test_a_metric_that_is_no_number_loses_no_run(tmp_path, by, value, greater_is_better):
    training = Training(epochs=5, batch_size=10, early_stopping=EarlyStopping(2, by=by))
    f = federation(metrics=[metric(value, greater_is_better), ACCURACY])
    run = f.train(training=training, out=tmp_path / "run")
    assert run.summary["completed"]
    assert run.summary["best"] is run.summary["final"] is run.summary["test"]["mine"] is None
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["best"] is None
    assert load_run(tmp_path / "run").summary["best_round"] == run.summary["best_round"]
    if by == "metric":  # the first model is the best until there is a number
        assert (run.summary["best_round"], run.summary["stopped_early"]) == (3, True)


class OfColumn(nn.MSELoss):
    def forward(self, input, target):
        return super().forward(input[:, 0], target)


BROADCASTING = [nn.MSELoss(), nn.PoissonNLLLoss(), partial(nn.functional.huber_loss, delta=2.0)]


@pytest.mark.parametrize("loss", BROADCASTING)
def test_a_loss_of_torch_that_compares_each_row_with_all_is_refused(tmp_path, loss):
    """Of ``[2, 1]`` and ``[2]`` torch makes ``[2, 2]``, whose mean is of four differences."""
    x = torch.rand(ROWS, 3, generator=torch.Generator().manual_seed(0))

    def regression(top, loss=loss):
        holder = LabelHolder("h", x.sum(1), top, loss=loss)
        return Federation([Party("p", x, nn.Linear(3, 4))], holder, range(20), range(20, ROWS))

    with pytest.raises(ConfigurationError, match=r"\[rows, 1\] and labels \[rows\], and torch"):
        regression(nn.Linear(4, 1)).train(training=TRAINING, out=tmp_path / "run")
    flat = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
    for good in (regression(flat), regression(nn.Linear(4, 1), OfColumn())):
        assert good.train(training=TRAINING, report=False).summary["completed"]


def test_a_metric_returns_a_number(tmp_path):
    assert metric(torch.tensor(0.5))(torch.zeros(2), torch.zeros(2)) == 0.5
    assert math.isnan(metric(torch.tensor(math.nan))(torch.zeros(2), torch.zeros(2)))
    for value in (None, "good", torch.zeros(2)):
        with pytest.raises(ConfigurationError, match="'mine' must return a number, but returned"):
            federation(metrics=[metric(value)]).train(training=TRAINING, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s, y: 1 / 0, "cannot be computed of 6 rows: division by zero; let it return nan"),
        (lambda s, y: {}["x"], "cannot be computed of 6 rows: 'x'; let it return nan"),
        (lambda s, y: 10**400, r"must return a number that a float holds, but returned 10+ \.\.\."),
        (lambda s, y: 10**5000, "must return a number that a float holds, but returned a int"),
        (5, "cannot be computed of 6 rows: 'int' object is not callable"),
    ],
)
def test_a_metric_that_raises_is_told_before_anything_starts(tmp_path, function, message):
    wrong = Metric("mine", True, function)
    with pytest.raises(ConfigurationError, match=f"^the metric 'mine' {message}") as caught:
        federation(metrics=[wrong]).train(training=TRAINING, out=tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_metric_of_colonnades_own_says_itself_what_is_wrong():
    f = federation(metrics=[AUC], labels=torch.zeros(ROWS, dtype=torch.long))
    with pytest.raises(DataError, match="AUC is not defined: no row among 6 is of class 1"):
        f.train(training=TRAINING)


@pytest.mark.parametrize(
    "name", ["", " ", "a\ud800", "a\nb", "a\x1b[0m", 5, None, b"mine"], ids=ascii
)
def test_a_metric_is_called_by_text_that_can_be_printed(name):
    with pytest.raises(ConfigurationError, match="a metric cannot be called ") as caught:
        Metric(name, True, lambda scores, truth: 0.0)
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patience": "3"}, "patience of EarlyStopping is a whole number or None, not '3'"),
        ({"patience": 2.5}, "patience of .* not 2.5"),
        ({"patience": True}, "patience of .* not True"),
        ({"min_delta": "0.1"}, "min_delta of EarlyStopping is a number, not '0.1'"),
    ],
)
def test_rules_that_are_no_numbers_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        EarlyStopping(**settings)


def test_training_takes_rules_and_whole_numbers():
    with pytest.raises(
        ConfigurationError, match=r"early_stopping .* is EarlyStopping\(...\) or None"
    ):
        Training(early_stopping=3)
    for name in ("epochs", "seed"):
        with pytest.raises(ConfigurationError, match="whole number"):
            Training(**{name: True})


# Features

PLACES = {
    "coo": (torch.Tensor.to_sparse, "is sparse_coo: pad it, or take its to_dense"),
    "csr": (torch.Tensor.to_sparse_csr, "is sparse_csr: pad it, or take its to_dense"),
    "nested": (lambda x: torch.nested.nested_tensor(list(x)), "is nested: pad it, or take its"),
    "meta": (lambda x: x.to("meta"), "is on 'meta'; it is models that compute elsewhere"),
}


@pytest.mark.filterwarnings("ignore:.*beta state:UserWarning", "ignore:.*prototype stage")
@pytest.mark.parametrize("place", PLACES)
def test_features_and_labels_are_dense_and_on_the_cpu(place):
    change, message = PLACES[place]
    f = federation()
    bank, holder = f.parties[0], f.label_holder
    for features in (change(bank.features), {"features": change(bank.features)}):
        with pytest.raises(DataError, match=f"^features of 'bank' must be a .*, but it {message}"):
            Federation([replace(bank, features=features)], holder)
    labels = change(torch.zeros(ROWS, 1))
    with pytest.raises(DataError, match=f"^the labels of 'insurer' must .*, but it {message}"):
        Federation([bank], replace(holder, labels=labels))


class Codes(nn.Module):
    """Embeds two columns of codes, of which there are 10 and 5."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(10, 4), nn.Embedding(5, 4)])

    def forward(self, codes):
        if isinstance(codes, dict):
            codes = torch.stack([codes["one"], codes["other"]], dim=1)
        return sum(table(codes[:, i]) for i, table in enumerate(self.tables))


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("beyond", [7, -1])
def test_a_code_that_a_table_of_embeddings_lacks_is_told_with_its_row(by_name, beyond):
    codes = torch.stack([torch.arange(ROWS) % 10, torch.arange(ROWS) % 5], dim=1)
    codes[20, 1] = beyond
    features = {"one": codes[:, 0], "other": codes[:, 1]} if by_name else codes
    party, holder = Party("bank", features, Codes()), federation(top=linear(4, 3)).label_holder
    message = "^the bottom model of 'bank' does not take row 20 of its features: index out of range"
    with pytest.raises(ConfigurationError, match=message):
        Federation([party], holder)
    run = Federation([party], holder, range(20)).train(training=TRAINING)  # which nobody looks up
    assert run.summary["completed"]


def test_rows_that_go_together_are_not_mixed():
    """The least and the greatest of two columns may never be in one row, and be refused there."""

    def forward(codes):
        assert torch.equal(codes[:, 0], 9 - codes[:, 1])
        return codes.float().repeat(1, 2) / 10

    codes = torch.arange(ROWS) % 10
    party = Party("bank", torch.stack([codes, 9 - codes], dim=1), Returns(forward))
    holder = federation(top=linear(4, 3)).label_holder
    assert Federation([party], holder).train(training=TRAINING).summary["completed"]


# Labels


@pytest.mark.parametrize("name", ["svfl", "shared labels", "masked"])
def test_labels_of_one_class_are_trained_on(name):
    method = METHODS[name]
    f = federation(labels=torch.zeros(ROWS, dtype=torch.long), top=linear(width(method), 3))
    run = f.train(method, Training(epochs=3, batch_size=10, secrets="seed"))
    assert run.summary["completed"]


def test_one_number_a_row_and_cross_entropy_learn_nothing():
    """Labels that are all 0 would fit: it is the only class, and its loss always 0."""
    f = federation(labels=torch.zeros(ROWS, dtype=torch.long), top=linear(8, 1))
    with pytest.raises(ConfigurationError, match="'insurer' returns one number for a row, and by"):
        f.train(training=TRAINING)


@pytest.mark.parametrize("labels", [torch.arange(ROWS) > 9, torch.ones(ROWS) * 1j])
def test_labels_are_classes_or_numbers(labels):
    with pytest.raises(DataError, match=r"labels of 'insurer' are .*: |.*must be classes 0, 1"):
        federation(labels=labels)


TARGETS = torch.nn.functional.one_hot(torch.arange(ROWS) % 3, 3)


@pytest.mark.parametrize(
    ("labels", "loss"),
    [
        (TARGETS.float(), nn.functional.binary_cross_entropy_with_logits),
        (TARGETS * 0.9, nn.functional.cross_entropy),
        (TARGETS * 0.9, None),
        (TARGETS, None),
        (TARGETS[:, :1], None),
        (TARGETS[:, 0].int(), None),
        (TARGETS[:, 0].to(torch.uint8), None),
    ],
    ids=["multi-label", "soft", "without a loss", "one-hot", "a column", "int32", "uint8"],
)
def test_labels_of_other_kinds_need_a_loss_and_metrics_of_them(labels, loss):
    usual = federation()
    holder = replace(usual.label_holder, labels=labels, loss=loss)
    rows = range(22), range(28, ROWS)
    message = r"labels of 'insurer' are .*, but a row's label is one class, int64 of shape \[rows\]"
    with pytest.raises(DataError, match=message):
        Federation(usual.parties, holder, *rows)
    own = replace(
        holder, loss=loss or (lambda p, y: (p - y.view(len(y), -1).float()).square().mean())
    )
    metric = Metric("error", False, own.loss)
    run = Federation(usual.parties, own, *rows, [metric]).train(training=TRAINING)
    assert run.summary["completed"]
    assert Federation(usual.parties, own).train(training=TRAINING).summary["completed"]


# Names


@pytest.mark.parametrize("name", ["5", "Müller & Söhne", "银行", "a:b", "x" * 200])
@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=["simulate", "processes"])
def test_names_of_any_alphabet_have_files(tmp_path, name, driver):
    out = tmp_path / "run"
    f = federation(names=(name, "shop", "insurer"), top=linear(4, 3))
    training = Training(epochs=2, batch_size=10)
    f.train(methods.pbm_vfl(), training, driver, out=out, stop_before=2)
    run = f.train(methods.pbm_vfl(), training, driver, out=out, resume=True)
    assert run.summary["completed"]
    assert name in load_run(out).summary["parties"]
    run.export(tmp_path / "parts")


REFUSED = {
    "": "a name is not empty",
    " ": "a name is not empty",
    "bank ": "begins and ends with no space",
    "..": "files are called by it",
    ".hidden": "begins with no dot",
    "a/b": "has no slash",
    "a\\b": "has no slash",
    "x" * 201: r"x'\.\.\.: it takes 201 bytes, and files can be called by 200",
    "é" * 101: "it takes 202 bytes",
    "a\ud800b": r"it has the character '\\ud800', which cannot be printed",
    "a\nb": r"it has the character '\\n'",
    "a\0b": r"it has the character '\\x00'",
    "ba\u200bnk": r"it has the character '\\u200b'",
    5: "called 5: a name is text, not a int",
    None: "called None: a name is text",
}


@pytest.mark.parametrize("name", REFUSED, ids=map(ascii, REFUSED))
def test_names_that_cannot_be_are_told_in_a_sentence(name):
    people = {n: pl.DataFrame({"age": range(60)}) for n in (name, "shop")}
    for places in ((name, "shop", "insurer"), ("bank", "shop", name)):
        with pytest.raises(ConfigurationError, match=REFUSED[name]) as caught:
            federation(names=places)
        assert "\n" not in str(caught.value)
        str(caught.value).encode()  # it can be written to a terminal
        with pytest.raises(ConfigurationError, match=REFUSED[name]):
            Layout(places[:2], places[2], dict.fromkeys(places[:2], 3), 10, 0)
    with pytest.raises(ConfigurationError, match=REFUSED[name]):
        VerticalClassifier(aligned=True, label_holder="insurer").fit(people, [0, 1] * 30)


@pytest.mark.parametrize("pair", [("bank", "Bank"), ("caf\u00e9", "cafe\u0301"), ("ß", "SS")])
def test_names_that_some_computers_take_for_one(pair):
    with pytest.raises(ConfigurationError, match=r"two organisations are called .* and .* for one"):
        federation(names=(*pair, "insurer"))
    with pytest.raises(ConfigurationError, match=r"two organisations are called .* and .* for one"):
        federation(names=(pair[0], "shop", pair[1]))
    check_names([pair[0], "shop"])


# Settings


def test_a_deadline_is_a_number_of_seconds():
    with pytest.raises(ConfigurationError, match="a deadline must be 0 to 1e6 s, not '500 ms'"):
        Deadline("500 ms")


@pytest.mark.parametrize("kind", ["answer", "seal", "", 5])
def test_a_share_of_a_delay_is_of_work_that_there_is(kind):
    """Of other work nothing would be longer: nobody would be late, and nobody told."""
    with pytest.raises(ConfigurationError, match=f"no work {kind!r}; there are forward, encode"):
        Delayed(Modelled(otherwise=0.0), {"bank": Constant(1.0)}, shares={kind: 1.0})
    for known in KINDS_OF_WORK:
        Delayed(Modelled(otherwise=0.0), {"bank": Constant(1.0)}, shares={known: 1.0})


@pytest.mark.parametrize("bits", [31.0, 61.0, True, 32, "31", None])
def test_a_field_has_31_or_61_bits(bits):
    for make in (Field, lambda bits: Coded(field_bits=bits)):
        with pytest.raises(ConfigurationError, match="but it is of 31"):
            make(bits)


class Holding(nn.Module):
    """Holds something besides its weights."""

    def __init__(self, buffer=None, extra=None):
        super().__init__()
        self.linear = linear(4, 4)
        self.extra = extra
        if buffer is not None:
            self.register_buffer("buffer", buffer)

    def get_extra_state(self):
        return self.extra

    def set_extra_state(self, state):
        self.extra = state

    def forward(self, x):
        return self.linear(x)


class Spread(nn.Module):
    """Computes with a sparse matrix that it saves."""

    def __init__(self):
        super().__init__()
        self.linear = linear(4, 4)
        self.register_buffer("between", torch.eye(4).to_sparse())

    def forward(self, x):
        return torch.sparse.mm(self.between, self.linear(x).T).T


def layer():
    torch.manual_seed(3)
    return nn.Linear(4, 4)


COMPUTED = {
    "weight_norm": lambda: nn.utils.weight_norm(layer()),
    "prune": lambda: nn.Sequential(prune.l1_unstructured(layer(), "weight", 0.5)),
    "a sparse buffer": Spread,
    "parametrizations": lambda: spectral_norm(layer()),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
@pytest.mark.parametrize("kind", COMPUTED)
def test_a_model_with_what_torch_computes_anew_is_trained_and_goes_on(kind, driver, tmp_path):
    made = COMPUTED[kind]
    whole = federation(made()).train(training=TRAINING, driver=driver)
    federation(made()).train(training=TRAINING, driver=driver, out=tmp_path, stop_before=2)
    rest = federation(made()).train(training=TRAINING, driver=driver, out=tmp_path, resume=True)
    assert rest.history.drop("seconds").equals(whole.history.drop("seconds"))
    states = [run.models["bank"]["bottom"].state_dict() for run in (whole, rest)]
    for name, value in states[0].items():
        assert torch.equal(value.to_dense(), states[1][name].to_dense())


class Spectral(nn.Linear):
    """Has what only a polynomial needs; its weight is another each time that it is looked at."""

    def powers(self, x):
        return x


def test_no_model_is_looked_at_in_a_way_that_changes_it():
    """A run was sometimes refused as another's, and trained from where the last one had looked."""
    bottom = spectral_norm(Spectral(4, 4))
    before = copied(bottom).state_dict()
    federation(bottom).train(training=TRAINING)
    assert all(map(torch.equal, before.values(), bottom.state_dict().values()))


def test_a_copy_has_hooks_and_tables_of_its_own():
    model = nn.Sequential(nn.Linear(2, 2))
    model.seen = model.also = {}
    other = copied(model)
    other[0].register_forward_hook(lambda *_: None)
    other.seen["x"] = 1
    assert other.also == {"x": 1}
    assert not model.seen
    assert not model[0]._forward_hooks


@pytest.mark.filterwarnings("ignore:.*beta state:UserWarning", "ignore:.*deprecated")
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: torch.jit.script(linear(4, 4)), "is compiled by torch.jit, .*: give the module"),
        (lambda: Holding(torch.eye(4).to_sparse_csr()), "cannot be copied, and each run trains a"),
        (lambda: Holding(extra={1}), "cannot go into a checkpoint .* a set, which cannot be saved"),
        (
            lambda: Holding(torch.zeros(2, dtype=torch.complex128)),
            r"cannot go into a checkpoint .* a tensor \(complex128, strided\) that cannot",
        ),
    ],
    ids=["jit", "csr", "state", "complex"],
)
def test_a_model_that_cannot_be_copied_or_saved_is_told_before_anything_starts(
    made, message, tmp_path
):
    with pytest.raises(ConfigurationError, match=f"model of 'bank' {message}"):
        federation(made()).train(training=TRAINING, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_layer_that_the_label_holders_models_share_is_told(tmp_path):
    layer = nn.Linear(4, 4)
    top = nn.Sequential(linear(12, 4), layer, linear(4, 3))
    f, out = federation(top=top, own=nn.Sequential(layer)), tmp_path / "run"
    message = (
        r"of 'insurer' share a parameter \('0.weight' of the one, '1.weight' of the other\), a"
    )
    with pytest.raises(ConfigurationError, match=f"^the bottom and the top model {message}"):
        f.train(training=TRAINING, out=out)
    assert not out.exists()
    with pytest.raises(ConfigurationError, match=message):
        f.label_holder.learners()  # which one elsewhere has
    layer.requires_grad_(False)
    assert f.train(training=TRAINING).summary["completed"]


class Lazy(nn.Module):
    def __init__(self, grows=False):
        super().__init__()
        self.linear = linear(4, 4)
        self.grows = grows
        if grows:
            self.register_buffer("seen", torch.zeros(0))

    def forward(self, x):
        if self.grows:
            self.seen = torch.zeros(len(self.seen) + 1)
        elif not hasattr(self, "mask"):
            self.register_buffer("mask", torch.ones(4))
        return self.linear(x)


@pytest.mark.parametrize(("grows", "name"), [(False, "mask"), (True, "seen")])
def test_a_model_that_makes_what_it_saves_as_it_computes_is_told(grows, name):
    message = rf"'bank' makes or resizes what it saves when it computes \({name}\): make it before"
    with pytest.raises(ConfigurationError, match=message):
        federation(Lazy(grows)).train(training=TRAINING)


class Elsewhere(nn.Module):
    """Keeps something where no checkpoint looks for it."""

    def __init__(self, what):
        super().__init__()
        self.linear = linear(4, 4)
        self.what = what
        self.calls = 0
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x):
        match self.what:
            case "calls":
                self.calls += 1
            case "generator":
                torch.rand(1, generator=self.generator)
            case "numpy":
                np.random.rand()
            case "python":
                random.random()
            case "class":
                self.told[0] += 1
        return self.linear(x)

    told: ClassVar[list[int]] = [0]


def hooked(counts):
    """A layer whose hook counts, in a closure or in itself."""
    seen = 0

    def counted(layer, given, come):
        nonlocal seen
        seen += 1
        return come * seen

    layer = linear(4, 4)
    layer.register_forward_hook(Counted() if counts == "itself" else counted)
    return layer


class Counted:
    def __init__(self):
        self.seen = 0

    def __call__(self, *_):
        self.seen += 1


@pytest.mark.parametrize("counts", ["itself", "closure"])
def test_what_a_hook_keeps_that_no_checkpoint_has_is_told(counts):
    told = federation(nn.Sequential(hooked(counts))).train(training=TRAINING).summary["warnings"]
    note = r"'bank' changes what it does not save when it computes \(0\.forward_hooks\)"
    assert any(re.search(note, each) for each in told)


@pytest.mark.parametrize(
    ("what", "note"),
    [
        ("calls", r"'bank' changes what it does not save when it computes \(calls\)"),
        ("generator", r"'bank' changes what it does not save when it computes \(generator\)"),
        ("numpy", "'bank' draws from a generator of Python's or numpy's, which no run seeds"),
        ("python", "'bank' draws from a generator of Python's or numpy's, which no run seeds"),
        ("class", r"'bank' changes what it does not save when it computes \(__class__\)"),
        ("nothing", None),
    ],
)
def test_what_a_model_keeps_that_no_checkpoint_has_is_told(what, note):
    told = federation(Elsewhere(what)).train(training=TRAINING).summary["warnings"]
    found = [each for each in told if ("'bank'" in each and "computes" in each) or "draws" in each]
    assert len(found) == (note is not None)
    assert note is None or re.search(note, found[0])


class Versioned(nn.Module):
    """Takes what its first version saved, which saved half."""

    _version = 2

    def __init__(self):
        super().__init__()
        self.linear = linear(4, 4)
        self.register_buffer("factor", torch.ones(()))

    def _load_from_state_dict(self, state, prefix, noted, *others):
        if (noted.get("version") or 1) < 2:
            state[f"{prefix}factor"] = 2 * state[f"{prefix}factor"]
        super()._load_from_state_dict(state, prefix, noted, *others)

    def forward(self, x):
        return self.factor * self.linear(x)


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_nobody_takes_what_a_model_saved_for_that_of_an_older_version(driver, tmp_path):
    training = Training(epochs=2, batch_size=10, early_stopping=EarlyStopping(patience=1))
    go_on = partial(
        federation(bank=nn.Sequential(Versioned())).train,
        training=training,
        driver=driver,
        out=tmp_path,
        resume=True,
        report=False,
    )
    go_on(stop_before=3)
    run = go_on()
    assert float(run.models["bank"]["bottom"][0].factor) == 1.0
    taken = load_part(tmp_path / "parts" / "bank").load_into(nn.Sequential(Versioned()))
    assert float(taken[0].factor) == 1.0


def test_the_best_of_a_model_is_kept_with_whatever_else_it_saves():
    training = Training(epochs=2, batch_size=10, early_stopping=EarlyStopping(patience=1))
    run = federation(bank=Holding(extra={"seen": [1]})).train(training=training)
    assert run.models["bank"]["bottom"].extra == {"seen": [1]}


class Slows(torch.optim.SGD):
    """Divides its rate by the number of its step, which it keeps in an attribute or saves."""

    def __init__(self, parameters, saves):
        super().__init__(parameters, lr=0.1)
        self.saves, self.steps = saves, 0

    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            group["lr"] = 0.1 / self.steps
        return super().step(closure)

    def state_dict(self):
        return super().state_dict() | ({"steps": self.steps} if self.saves else {})

    def load_state_dict(self, state):
        self.steps = state.pop("steps", 0)
        super().load_state_dict(state)


@pytest.mark.parametrize("saves", [False, True])
def test_what_an_optimiser_keeps_that_no_checkpoint_has_is_told(tmp_path, saves):
    f = learning(optimiser=partial(Slows, saves=saves))
    whole = f.train(training=TRAINING)
    told = [each for each in whole.summary["warnings"] if "when it takes a step" in each]
    assert len(told) == (0 if saves else 3)  # the label holder's once, for both of its models
    assert all("optimiser Slows of" in each and "(steps)" in each for each in told)
    f.train(training=TRAINING, out=tmp_path, stop_before=4)
    rest = f.train(training=TRAINING, out=tmp_path, resume=True)
    assert rest.history.drop("seconds").equals(whole.history.drop("seconds")) == saves


class Around(torch.optim.Optimizer):
    """An optimiser around another one, whose groups are its own."""

    def __init__(self, parameters):
        self.inner = torch.optim.SGD(parameters, lr=0.1)
        super().__init__(self.inner.param_groups, {})

    def step(self, closure=None):
        return self.inner.step(closure)


def told_of_optimisers(f):
    warned = f.train(training=TRAINING).summary["warnings"]
    return [each for each in warned if each.startswith("the optimiser ")]


@pytest.mark.parametrize(
    "optimiser",
    [lambda parameters: torch.optim.SGD(parameters[:1]), Around],
    ids=["a part", "around another"],
)
def test_an_optimiser_of_a_part_or_around_another_trains_and_nothing_is_told(optimiser):
    assert not told_of_optimisers(learning(optimiser=optimiser))


def test_a_rate_that_an_optimiser_around_another_does_not_load_is_told():
    def halved(optimiser):
        return torch.optim.lr_scheduler.StepLR(optimiser.inner, step_size=1)

    told = told_of_optimisers(learning(optimiser=Around, scheduler=halved))
    assert any("(inner)" in each for each in told)


def test_an_optimiser_with_foreign_parameters_besides_is_told_of():
    """As where its second group is of the module that one has, of which a copy is trained."""

    def two_groups(parameters):
        return torch.optim.SGD([{"params": parameters[:1]}, {"params": MINE.parameters()}])

    told = told_of_optimisers(learning(optimiser=two_groups))
    assert len(told) == 3  # the label holder's once, for both of its models
    assert all("has parameters besides that no step trains" in each for each in told)


class Master(torch.optim.SGD):
    """An optimiser of copies in double precision, as mixed precision has them."""

    def __init__(self, parameters):
        self.handed = list(parameters)
        super().__init__([nn.Parameter(p.detach().double()) for p in self.handed], lr=0.1)

    def step(self, closure=None):
        copies = self.param_groups[0]["params"]
        for own, handed in zip(copies, self.handed, strict=True):
            own.grad = handed.grad.double()
        super().step(closure)
        for own, handed in zip(copies, self.handed, strict=True):
            handed.data.copy_(own.data)

    def zero_grad(self, set_to_none=True):
        for handed in self.handed:
            handed.grad = None


class Halves:
    """A scheduler of somebody's own, which says of no optimiser that it is of it."""

    optimizer = None

    def __init__(self, optimiser):
        self.of = optimiser

    def step(self):
        self.of.param_groups[0]["lr"] /= 2

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize(
    "how", [{"optimiser": Master}, {"scheduler": Halves}], ids=["copies", "a scheduler"]
)
def test_what_changes_what_it_was_handed_in_a_way_of_its_own_trains(how):
    x, labels = torch.randn(40, 2), torch.arange(40) % 2
    bank = Party("bank", x, nn.Linear(2, 2), **how)
    f = Federation([bank], LabelHolder("shop", labels, nn.Linear(2, 2)))
    run = f.train(training=TRAINING)
    assert not torch.equal(run.models["bank"]["bottom"].weight, bank.bottom.weight)
    assert not [each for each in run.summary["warnings"] if "besides that no step" in each]


class Exchanges(nn.Linear):
    """Has other parameters whenever it loads."""

    def load_state_dict(self, state, strict=True, assign=False):
        return super().load_state_dict(state, strict, assign=True)


class Freezes(nn.Linear):
    """Trains less once it has loaded."""

    def load_state_dict(self, state, strict=True, assign=False):
        super().load_state_dict(state, strict, assign)
        self.bias.requires_grad_(False)


class Saves(nn.Linear):
    def get_extra_state(self):
        raise RuntimeError("not now")


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Exchanges, "has other parameters once it has loaded what it saves, and no optimiser"),
        (Freezes, "freezes parameters as it loads what it saves, or no longer does, so a run"),
        (Saves, "cannot be saved: not now"),
    ],
)
def test_a_model_that_nothing_could_train_or_keep_is_told_before_training(module, why):
    """The first was never trained, and its history looked as if it was."""
    with pytest.raises(ConfigurationError, match=f"the bottom model of 'bank' {why}"):
        trained_by(module)


def trained_by(module):
    """Train a small bottom, and return what is warned of."""
    x, labels = torch.randn(40, 2), torch.arange(40) % 2
    holder = LabelHolder("shop", labels, nn.Linear(2, 2))
    run = Federation([Party("bank", x, module(2, 2))], holder).train(training=TRAINING)
    return run.summary["warnings"]


class Adapter(nn.Linear):
    """Saves a part of what it trains."""

    def __init__(self, *shape):
        super().__init__(*shape)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return super().forward(x) * self.scale

    def state_dict(self, *given, **named):
        return {"scale": self.scale.detach()}

    def load_state_dict(self, state, strict=True, assign=False):
        return super().load_state_dict(state, False, assign)


def frozen_but_for_its_scale(*shape):
    made = Adapter(*shape)
    made.weight.requires_grad_(False)
    made.bias.requires_grad_(False)
    return made


def test_what_a_model_trains_and_does_not_save_is_told():
    """It was as it was handed over after a resume, and in a model that a process gave back."""
    told = "trains what it does not save (weight, bias)"
    assert any(told in each for each in trained_by(Adapter))
    assert not any("does not save" in each for each in trained_by(frozen_but_for_its_scale))


def clipped(parameters):
    parameters = list(parameters)
    optimiser = torch.optim.SGD(parameters)

    def clip(*_):
        nn.utils.clip_grad_norm_(parameters, 0.1)

    optimiser.register_step_pre_hook(clip)
    return optimiser


@pytest.mark.parametrize(
    "optimiser",
    [
        clipped,
        torch.optim.Adadelta,
        partial(torch.optim.Adagrad, fused=True),
        partial(torch.optim.AdamW, lr=torch.tensor(0.1), amsgrad=True),
        torch.optim.ASGD,
        partial(torch.optim.RMSprop, momentum=0.9, centered=True),
        partial(torch.optim.SGD, momentum=0.9, fused=True),
        lambda parameters: torch.optim.NAdam([{"params": [p]} for p in parameters]),
    ],
)
def test_optimisers_of_torch_save_all_that_they_keep(optimiser):
    assert not notes_of_optimiser("bank", linear(), optimiser)


class Running(nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.mean = factor

    def forward(self, predictions, labels):
        loss = nn.functional.cross_entropy(predictions, labels)
        self.mean = 0.9 * self.mean + float(loss.detach())
        return loss / self.mean


def test_a_loss_that_changes_is_told():
    usual = federation()
    for loss, told in ((Running(), True), (nn.CrossEntropyLoss(), False)):
        made = Federation(usual.parties, replace(usual.label_holder, loss=loss))
        warnings = made.train(training=TRAINING).summary["warnings"]
        assert any("the loss of 'insurer' changes as it is" in each for each in warnings) == told


STEPS, BEGUN = 0, {"n": 0}


def smoothed(predictions, labels, by):
    return nn.functional.cross_entropy(predictions, labels, label_smoothing=max(0, 0.3 - 0.02 * by))


def by_global(predictions, labels):
    global STEPS
    STEPS += 1
    return smoothed(predictions, labels, STEPS)


def by_dict(predictions, labels):
    BEGUN["n"] += 1
    return smoothed(predictions, labels, BEGUN["n"])


def by_attribute(predictions, labels):
    by_attribute.n += 1
    return smoothed(predictions, labels, by_attribute.n)


by_attribute.n = 0


def by_closure():
    n = 0

    def scheduled(predictions, labels):
        nonlocal n
        n += 1
        return smoothed(predictions, labels, n)

    return scheduled


def decorated(loss):
    @wraps(loss)
    def around(*given):
        return loss(*given)

    return around


class Calls:
    def __call__(self, predictions, labels):
        return by_global(predictions, labels)

    def method(self, predictions, labels):
        return by_dict(predictions, labels)


SEEN = []


def focal(predictions, labels):
    each = nn.functional.cross_entropy(predictions, labels, reduction="none")
    return ((1 - torch.exp(-each)) ** 2 * each).mean()


def noting(predictions, labels):
    loss = focal(predictions, labels)
    SEEN.append(loss.item())
    return loss


KEEP = {
    "a global": by_global,
    "a dict": by_dict,
    "its attribute": by_attribute,
    "a closure": by_closure(),
    "beneath a decorator": decorated(by_closure()),
    "beneath a partial": partial(by_closure()),
    "beneath an object": Calls(),
    "beneath a method": Calls().method,
}
KEEP_NOTHING = {
    "torch's": nn.functional.cross_entropy,
    "weights": partial(nn.functional.cross_entropy, weight=torch.ones(3)),
    "a lambda": lambda p, y: nn.functional.cross_entropy(p, y),
    "focal": decorated(focal),
    "noting": noting,
}


@pytest.mark.parametrize("where", [*KEEP, *KEEP_NOTHING])
def test_what_a_function_keeps_as_a_loss_is_told_wherever_that_is(where):
    usual = federation()
    loss = (KEEP | KEEP_NOTHING)[where]
    made = Federation(usual.parties, replace(usual.label_holder, loss=loss))
    warnings = made.train(training=Training(epochs=1, batch_size=20)).summary["warnings"]
    told = [each for each in warnings if "the loss of 'insurer' changes as it is" in each]
    assert len(told) == (where in KEEP)


def test_a_loss_is_computed_once_before_training():
    usual = federation()
    made = Federation(usual.parties, replace(usual.label_holder, loss=noting))
    SEEN.clear()
    made.check(methods.svfl())
    assert len(SEEN) == 1


class Balanced(nn.Module):
    """Weighs classes by how often they came until now, which it keeps in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.ones(3))

    def forward(self, predictions, labels):
        self.seen += torch.bincount(labels, minlength=3)
        return nn.functional.cross_entropy(predictions, labels, self.seen.mean() / self.seen)


class Weighs:
    """The same, and no module."""

    def __init__(self):
        self.loss = Balanced()

    def __call__(self, predictions, labels):
        return self.loss(predictions, labels)


@pytest.mark.parametrize("name", ["svfl", "shared labels"])
@pytest.mark.parametrize("kind", [Balanced, Weighs])
def test_every_role_of_every_run_has_a_loss_of_its_own(kind, name):
    usual, loss = federation(), kind()
    f = Federation(usual.parties, replace(usual.label_holder, loss=loss))
    histories = [
        f.train(METHODS[name], TRAINING, driver).history.drop("seconds")
        for driver in (Simulate(), Simulate(), Processes())
    ]
    assert histories[0].equals(histories[1])
    assert histories[0].equals(histories[2])
    assert torch.equal(getattr(loss, "loss", loss).seen, torch.ones(3))


def test_a_loss_that_cannot_be_copied_is_told():
    loss = Weighs()
    loss.lock = threading.Lock()
    usual = federation()
    with pytest.raises(ConfigurationError, match="loss of 'insurer' cannot be copied, and each"):
        Federation(usual.parties, replace(usual.label_holder, loss=loss)).train(training=TRAINING)


def test_a_loss_with_parameters_is_told():
    loss = nn.Sequential(nn.Linear(3, 3))
    usual = federation()
    with pytest.raises(ConfigurationError, match="the loss of 'insurer' has parameters of its own"):
        Federation(usual.parties, replace(usual.label_holder, loss=loss)).train(training=TRAINING)


class Remembers(torch.optim.SGD):
    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1)
        self.param_groups[0]["clip"] = lambda gradient: gradient


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_what_an_optimiser_remembers_can_be_saved(driver):
    usual = federation()
    party = replace(usual.parties[0], optimiser=Remembers)
    made = Federation([party, *usual.parties[1:]], usual.label_holder)
    message = r"the optimiser of 'bank' cannot go into a checkpoint .*: a state holds a function"
    with pytest.raises(ConfigurationError, match=message):
        made.train(training=TRAINING, driver=driver)


class Slow(torch.optim.SGD):
    """Look-ahead: each fifth step goes half the way from where it was at the last one."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1)
        (group,) = self.param_groups
        group["steps"] = 0
        self.slow = [p.detach().clone() for p in group["params"]]

    def step(self, closure=None):
        super().step(closure)
        (group,) = self.param_groups
        group["steps"] += 1
        if group["steps"] % 5 == 0:
            for p, slow in zip(group["params"], self.slow, strict=True):
                slow.lerp_(p.detach(), 0.5)
                p.data.copy_(slow)


class Forgets:
    """A scheduler that saves nothing of what it counts."""

    def __init__(self, optimiser):
        self.optimiser, self.steps = optimiser, 0

    def step(self):
        self.steps += 1
        self.optimiser.param_groups[0]["lr"] = 0.1 / (1 + self.steps)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Unfreezes(torch.optim.lr_scheduler.LRScheduler):
    """One that makes a second group, which a new one has not."""

    def get_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch=None):
        super().step()
        if self.last_epoch == 2:
            last = self.optimizer.param_groups[0]["params"].pop()
            self.optimizer.add_param_group({"params": [last], "lr": 0.01})


class AddsUp(torch.optim.SGD):
    """One of copies, which it puts back after some batches."""

    def __init__(self, parameters):
        self.handed_over = list(parameters)
        super().__init__([p.detach().clone() for p in self.handed_over], lr=0.1)
        self.steps = 0

    def step(self, closure=None):
        self.steps += 1
        (group,) = self.param_groups
        for copy, p in zip(group["params"], self.handed_over, strict=True):
            copy.grad = p.grad if copy.grad is None else copy.grad + p.grad
        if self.steps % 4 == 0:
            super().step()
            for copy, p in zip(group["params"], self.handed_over, strict=True):
                p.data.copy_(copy)
                copy.grad = None


SGD = partial(torch.optim.SGD, lr=0.1)


def test_a_scheduler_of_torchs_is_told_of_nothing():
    """Torch's own mark of a step was told as lost."""
    scheduler = partial(torch.optim.lr_scheduler.StepLR, step_size=2)
    assert not told_of_optimisers(learning(optimiser=SGD, scheduler=scheduler))


class InOrder(nn.Linear):
    """Holds what says of no module where it is from."""

    def __init__(self, *shape):
        super().__init__(*shape)
        self.memory_format = torch.channels_last


def test_a_model_may_hold_constants_of_torchs():
    assert not any("memory_format" in each for each in trained_by(InOrder))


def test_an_optimiser_may_wait_for_some_batches():
    """One that trained was said to have none of the parameters."""
    assert any("does not save" in each for each in told_of_optimisers(learning(optimiser=AddsUp)))


class AddsUpGradients(torch.optim.SGD):
    """Lets torch add up the gradients of some batches."""

    def step(self, closure=None):
        self.param_groups[0]["calls"] = self.param_groups[0].get("calls", 0) + 1
        if self.param_groups[0]["calls"] % 4 == 0:
            super().step(closure)
            super().zero_grad()

    def zero_grad(self, set_to_none=True):
        pass


class Clips(torch.optim.SGD):
    """Clips by hooks, whose handles it keeps."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr=lr)
        of_all = [p for group in self.param_groups for p in group["params"]]
        self.clip_hooks = [p.register_hook(lambda slope: slope.clamp(-1, 1)) for p in of_all]


class Slotted:
    """Another optimiser, in no attribute that has a name."""

    __slots__ = ("inner",)

    def __init__(self, parameters, lr):
        self.inner = torch.optim.SGD(parameters, lr=lr)

    param_groups = property(lambda self: self.inner.param_groups)

    def step(self):
        self.inner.step()

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)

    def state_dict(self):
        return self.inner.state_dict()

    def load_state_dict(self, state):
        self.inner.load_state_dict(state)


class Several(torch.optim.SGD):
    """Has an optimiser for each parameter, and saves what each has."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr=lr)
        self.each = [torch.optim.Adam([p], lr) for p in self.param_groups[0]["params"]]

    def step(self, closure=None):
        for own in self.each:
            own.step()

    def state_dict(self):
        return super().state_dict() | {"each": [own.state_dict() for own in self.each]}

    def load_state_dict(self, state):
        super().load_state_dict({key: own for key, own in state.items() if key != "each"})
        for own, saved in zip(self.each, state["each"], strict=True):
            own.load_state_dict(saved)


class Noisy(torch.optim.SGD):
    """Stochastic gradient Langevin dynamics."""

    def step(self, closure=None):
        super().step(closure)
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                p.add_(0.01 * torch.randn_like(p))


@pytest.mark.parametrize("optimiser", [AddsUpGradients, Noisy, Clips, Slotted, Several])
@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_an_optimiser_goes_on_with_all_that_it_has_left_and_is_not_told_of(
    optimiser, driver, tmp_path
):
    """Gradients were in no checkpoint, who draws was told of, and who keeps handles ended a run."""
    made, training = learning(optimiser=partial(optimiser, lr=0.1)), replace(TRAINING, epochs=4)
    whole = made.train(training=training, driver=driver)
    made.train(training=training, driver=driver, out=tmp_path, stop_before=6)
    rest = made.train(training=training, driver=driver, out=tmp_path, resume=True)
    models = [run.models["bank"]["bottom"] for run in (whole, rest)]
    assert all(map(torch.equal, *(model.parameters() for model in models)))
    assert not told_of_optimisers(made)


class Table(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.table = nn.Embedding(7, 4, sparse=sparse)

    def forward(self, x):
        return self.table(x.abs().mul(7).long() % 7).sum(1)


def test_sparse_gradients_are_saved_as_they_are(tmp_path):
    """What was there twice was added up, in another order than the optimiser does."""
    base, adds_up = federation(), partial(AddsUpGradients, lr=0.5)
    bank = replace(base.parties[0], bottom=Table(sparse=True), optimiser=adds_up)
    made = Federation([bank, base.parties[1]], base.label_holder)
    training = replace(TRAINING, epochs=4)
    whole = made.train(training=training)
    made.train(training=training, out=tmp_path, stop_before=6)
    rest = made.train(training=training, out=tmp_path, resume=True)
    tables = [run.models["bank"]["bottom"].table.weight for run in (whole, rest)]
    assert torch.equal(*tables)


def in_backward(parameters, lr):
    """Takes steps as gradients come, by hooks, with what nobody saves."""
    parameters = list(parameters)
    own = {p: torch.optim.Adam([p], lr=lr) for p in parameters}

    def step(p):
        own[p].step()
        own[p].zero_grad()

    for p in parameters:
        p.register_post_accumulate_grad_hook(step)
    return torch.optim.SGD(parameters, lr=0.0)


@pytest.mark.parametrize("optimiser", [partial(in_backward, lr=0.1), lambda ps: amplifying(ps)])
def test_what_is_left_in_hooks_of_an_optimisers_is_told(optimiser):
    """They were tried with one derivative, which all means of are, or with none."""
    told = told_of_optimisers(learning(optimiser=optimiser))
    assert any("goes on otherwise" in each for each in told)


class Amplified:
    """Adds a mean of derivatives, which begins with the first."""

    def __call__(self, slope):
        self.mean = 0.9 * getattr(self, "mean", slope) + 0.1 * slope
        return slope + 2 * self.mean


def amplifying(parameters):
    parameters = list(parameters)
    for p in parameters:
        p.register_hook(Amplified())
    return SGD(parameters)


class Scaled(nn.Module):
    """A layer with a factor, at which a hook of the layer looks in some way."""

    def __init__(self, how):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.factor = nn.Parameter(torch.full((4,), 2.0))
        hooks = {
            "a closure": lambda _, given, output: output * self.factor,
            "a default": lambda _, given, output, own=self.factor: output * own,
            "another function": lambda *called: self.times(*called),
            "what wraps a method": wraps(self.times)(lambda *called: self.times(*called)),
            "a method": self.times,
            "a partial function": partial(times, self),
        }
        self.layer.register_forward_hook(hooks[how])

    def times(self, _, given, output):
        return output * self.factor

    def forward(self, x):
        return self.layer(x)


def times(own, _, given, output):
    return output * own.factor


LOOKS_BACK = ["a closure", "a default", "another function", "what wraps a method"]


@pytest.mark.parametrize("how", LOOKS_BACK)
def test_a_hook_that_a_copy_would_share_and_that_looks_at_the_model_is_refused(how):
    """What it looked at was of the model that was handed in, and was trained by nobody."""
    with pytest.raises(
        ConfigurationError, match=r"of 'bank' looks at 'factor' of the .* trains a copy"
    ):
        federation(Scaled(how))


@pytest.mark.parametrize("how", ["a method", "a partial function"])
def test_a_hook_that_goes_with_a_copy_looks_at_the_copy(how):
    bottom = Scaled(how)
    trained = federation(bottom).train(training=TRAINING).models["bank"]["bottom"]
    assert not torch.equal(trained.factor, bottom.factor)
    assert torch.equal(trained(torch.ones(1, 4)), trained.layer(torch.ones(1, 4)))
    assert bottom.factor.grad is None


GLOBAL = linear()


class Tower(nn.Module):
    """A head upon another part, which forward finds in some way."""

    def __init__(self, how):
        super().__init__()
        self.backbone = backbone = GLOBAL if how == "a global name" else linear()
        self.head = nn.Linear(4, 4)
        self.finds = {
            "a global name": lambda: GLOBAL,
            "a closure": lambda: backbone,
            "a weak reference": weakref.ref(backbone),
            "a function of torch.jit": lambda: lambda x: scripted(x, backbone[0].weight),
        }[how]

    def forward(self, x):
        return self.head(self.finds()(x))


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight


with warnings.catch_warnings(action="ignore"):  # what is scripted goes out of use
    scripted = torch.jit.script(product)


@pytest.mark.parametrize(
    "how", ["a global name", "a closure", "a weak reference", "a function of torch.jit"]
)
def test_a_model_that_looks_in_part_at_what_was_handed_in_is_refused(how):
    """That part was trained by nobody, and nothing said so."""
    with pytest.raises(ConfigurationError, match=r"looks at '.*' of the model that is handed in"):
        federation(Tower(how)).train(training=TRAINING)


class Dropping(nn.Module):
    def __init__(self, by_closure):
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)
        drop, act = self.drop, nn.Tanh()
        self.act = lambda x: act(drop(x) if by_closure else x)

    def forward(self, x):
        return self.act(self.layer(self.drop(x)))


def test_parts_that_know_whether_they_train_are_those_of_the_copy():
    """Evaluation dropped out, as that of the copy alone was put into evaluation."""
    with pytest.raises(ConfigurationError, match=r"looks at 'drop' of the model"):
        federation(Dropping(True))
    federation(Dropping(False)).train(training=TRAINING)


class Asking(nn.Module):
    """Drops out what a function does that asks some module whether it is trained."""

    def __init__(self, by_closure):
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 4), (lambda x: self.dropped(x)) if by_closure else None

    def dropped(self, x):
        return nn.functional.dropout(x, 0.5, self.training)

    def forward(self, x):
        return self.layer((self.drop or self.dropped)(x))


@pytest.mark.parametrize("by_closure", [True, False])
def test_a_model_that_draws_in_evaluation_is_told(by_closure):
    """Dropout stayed on in evaluation, as a lambda asked the model that nobody had put into it."""
    warned = federation(Asking(by_closure)).train(training=TRAINING).summary["warnings"]
    assert [each for each in warned if "draws numbers in evaluation" in each] == [
        "the bottom model of 'bank' draws numbers in evaluation, and what is measured and "
        "predicted may hang on them: where that is not meant, as with dropout, give it "
        "self.training, and take that self in a method, as a lambda has the model that was handed "
        "in, of which each run trains a copy"
    ] * by_closure


def test_a_compiled_model_looks_at_itself():
    bottom = torch.compile(linear(), backend="eager")
    trained = federation(bottom).train(training=TRAINING).models["bank"]["bottom"]
    assert not torch.equal(next(trained.parameters()), next(bottom.parameters()))


def test_what_is_compiled_is_compiled_again_once_models_were_tried_in_two_threads():
    """The later of two put back what it had found: that nothing is compiled, for all that came."""
    torch.compile(nn.Identity(), backend="eager")  # which loads the compiler
    stance = torch._dynamo.eval_frame._stance
    inside = threading.Event()

    def try_another():
        with looking_at_itself("the model", nn.Linear(2, 2), nn.Linear(2, 2)):
            inside.set()

    other = threading.Thread(target=try_another)
    with looking_at_itself("the model", nn.Linear(2, 2), nn.Linear(2, 2)):
        other.start()
        assert not inside.wait(0.1)
    other.join()
    assert inside.is_set()
    assert torch._dynamo.eval_frame._stance == stance


def test_a_model_may_serve_in_another_thread_as_it_is_tried():
    """A module of its own, seen to compute there, was taken for a look back."""
    module, own = Dropping(False), Dropping(False)
    with looking_at_itself("the model", module, own):
        other = threading.Thread(target=lambda: module(torch.ones(2, 4)))
        other.start()
        other.join()
    refused = pytest.raises(ConfigurationError, match="the model looks at 'drop'")
    with refused, looking_at_itself("the model", module, own):
        module.drop(torch.ones(2, 4))


class Halving:
    """A scheduler that has a step, and nothing else."""

    def __init__(self, optimiser):
        self.optimiser = optimiser

    def step(self):
        for group in self.optimiser.param_groups:
            group["lr"] *= 0.5


class Unkept:
    """An optimiser that trains, and says nothing of its state."""

    def __init__(self, parameters):
        self.param_groups = [{"params": [*parameters], "lr": 0.1}]

    def step(self):
        return None

    def zero_grad(self, set_to_none=True):
        return None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scheduler": Halving}, "the scheduler Halving of 'bank' has no state_dict and no load"),
        ({"optimiser": Unkept}, "the optimiser Unkept of 'bank' has no state_dict and no load"),
    ],
)
def test_what_trains_and_cannot_be_kept_is_refused_in_words(given, said):
    """It was an AttributeError."""
    with pytest.raises(ConfigurationError, match=said):
        learning(**given).train(training=TRAINING)


@pytest.mark.parametrize("draw", [np.random.rand, random.random])
def test_a_loss_that_draws_what_no_run_seeds_is_told(draw):
    base = federation()

    def loss(predictions, labels):
        return nn.functional.cross_entropy(predictions * (1 + float(draw())), labels)

    rows = base.train_rows, base.test_rows, None, base.validation_rows
    holder = replace(base.label_holder, loss=loss)
    run = Federation(base.parties, holder, *rows).train(training=TRAINING)
    assert any("the loss of 'insurer' draws" in each for each in run.summary["warnings"])


def test_metrics_have_names_of_their_own():
    """One of two was told, with the direction of the other, and stopped training by the worst."""
    twice = [ACCURACY, replace(AUC, name="accuracy")]
    with pytest.raises(ConfigurationError, match="two metrics are called 'accuracy'"):
        federation(metrics=twice)
    by_loss = replace(TRAINING, early_stopping=EarlyStopping())
    base = federation(metrics=[replace(ACCURACY, name="loss")])
    with pytest.raises(ConfigurationError, match="a metric is called so too: call that otherwise"):
        base.train(training=by_loss)
    base.train(training=replace(by_loss, early_stopping=EarlyStopping(by="metric")))


def decayed(top, predictions, labels):
    return predictions.mean() + top.weight.square().mean()


class Judging(nn.Linear):
    """A top model that has the loss, which looks at no weight."""

    def __init__(self):
        super().__init__(8, 2)
        self.criterion = nn.CrossEntropyLoss()

    def loss(self, predictions, labels):
        return self.criterion(predictions, labels)


def test_a_loss_may_be_a_method_of_the_top_model():
    base, top = federation(), Judging()
    judged = replace(base.label_holder, labels=base.label_holder.labels % 2, top=top, loss=top.loss)
    rows = base.train_rows, base.test_rows, None, base.validation_rows
    Federation(base.parties, judged, *rows).train(training=TRAINING)


def test_a_metric_that_looks_at_the_model_that_is_handed_in_is_refused():
    """It was that of weights that no training changed, in every evaluation."""
    base = federation()
    norm = Metric("norm", False, lambda scores, y: float(base.parties[0].bottom[0].weight.norm()))
    with pytest.raises(ConfigurationError, match=r"a metric looks at '0.weight' of the model"):
        federation(base.parties[0].bottom, metrics=(norm,)).train(training=TRAINING)


def test_a_loss_may_ask_where_and_of_which_form_weights_are():
    top = nn.Linear(8, 2)
    base = federation(top=top, labels=torch.arange(ROWS) % 2)

    def loss(predictions, labels):
        weight = torch.ones(top.weight.shape[0]).to(top.weight.device, top.weight.dtype)
        return nn.functional.cross_entropy(predictions, labels, weight)

    rows = base.train_rows, base.test_rows, None, base.validation_rows
    holder = replace(base.label_holder, loss=loss)
    Federation(base.parties, holder, *rows).train(training=TRAINING)


@pytest.mark.parametrize("by_closure", [True, False])
def test_a_loss_that_looks_at_weights_that_are_handed_in_is_refused(by_closure):
    """It was computed of weights that no training changed, and nothing said so."""
    top = nn.Linear(8, 2)
    base = federation(top=top, labels=torch.arange(ROWS) % 2)
    loss = (lambda *given: decayed(top, *given)) if by_closure else partial(decayed, top)
    holder = replace(base.label_holder, loss=loss)
    rows = base.train_rows, base.test_rows, None, base.validation_rows
    with pytest.raises(ConfigurationError, match=r"the loss of .* looks at 'weight' of the model"):
        Federation(base.parties, holder, *rows).train(training=TRAINING)
    top.requires_grad_(False)  # of which any copy is the same
    Federation(base.parties, holder, *rows).train(training=TRAINING)


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_a_models_parameters_are_refused(kind):
    """A mask that holds weights fast was dropped in silence, as torch copies no hooks."""
    bottom = linear()
    getattr(bottom[0].weight, kind)(abs)
    with pytest.raises(ConfigurationError, match=r"a hook on the derivative of '0\.weight'"):
        federation(bottom)


def holding_fast(parameters):
    parameters = list(parameters)
    parameters[0].register_hook(partial(torch.mul, torch.tensor([[0.0], [1.0], [1.0], [1.0]])))
    return SGD(parameters)


def optimised(bottom, optimiser):
    """A federation of which the bank trains a bottom so."""
    made = federation(bottom)
    made.parties = (replace(made.parties[0], optimiser=optimiser), *made.parties[1:])
    return made


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_an_optimisers_function_may_register_them_and_a_run_returns_none(driver):
    bottom = linear()
    start = bottom[0].weight.detach().clone()
    training = replace(TRAINING, epochs=1)
    run = optimised(bottom, holding_fast).train(training=training, driver=driver)
    trained = run.models["bank"]["bottom"]
    assert (trained[0].weight - start).any(1).tolist() == [False, True, True, True]
    optimised(trained, holding_fast).train(training=training)  # as it has no hook left


def freezing(parameters):
    parameters = list(parameters)
    parameters[0].requires_grad_(False)
    return torch.optim.SGD(parameters, lr=0.1)


def shaped(parameters):
    parameters = list(parameters)
    parameters[0].register_hook(lambda slope: slope + 0 * slope.flatten()[8])
    return torch.optim.SGD(parameters, lr=0.1)


@pytest.mark.parametrize("optimiser", [freezing, shaped])
def test_an_optimiser_may_freeze_what_it_is_handed_and_hook_a_shape(optimiser):
    assert not told_of_optimisers(learning(optimiser=optimiser))


def test_parameters_are_copied_and_handed_over_with_their_attributes():
    bottom = linear()
    bottom[0].weight.decays, bottom[0].bias.requires_grad = False, False
    for other in (copied(bottom), ForkingPickler.loads(packed(bottom))):
        assert (other[0].weight.decays, other[0].bias.requires_grad) == (False, False)


class Exact(torch.optim.SGD):
    """One of copies of more digits, in its state, which torch casts to those of the weights."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                exact = self.state[p].setdefault("exact", p.detach().double())
                exact -= group["lr"] * p.grad.double()
                p.data.copy_(exact)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"optimiser": Master}, "goes on otherwise once it has loaded what it saves"),
        ({"optimiser": Slow}, r"does not save when it takes a step \(slow\)"),
        (
            {"optimiser": partial(Exact, lr=0.1)},
            "goes on otherwise once it has loaded .* as it is",
        ),
        ({"optimiser": SGD, "scheduler": Forgets}, "goes on otherwise once it has loaded"),
        ({"optimiser": SGD, "scheduler": Unfreezes}, "cannot load what it saves .* interrupted"),
    ],
    ids=["master copies", "look-ahead", "copies in its state", "a scheduler", "a group more"],
)
def test_what_an_optimiser_or_scheduler_is_without_after_a_resume_is_told(how, told):
    assert any(re.search(told, each) for each in told_of_optimisers(learning(**how)))


class Teacher(nn.Linear):
    """One with a mean of what it was, which is the same until it is trained."""

    def __init__(self, *shape):
        super().__init__(*shape)
        self.teacher = [self.weight.detach().clone()]

    def forward(self, x):
        if self.training:
            self.teacher = [self.teacher[0].lerp(self.weight.detach(), 0.1)]
        return super().forward(x) + 0.1 * x @ self.teacher[0].T


class Tires(nn.Linear):
    """Trains less from the third batch on."""

    def __init__(self, *shape):
        super().__init__(*shape)
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.count += 1
        self.weight.requires_grad_(bool(self.count < 3))
        return super().forward(x)


def test_that_a_model_trains_less_later_is_told():
    """What it trained was in no checkpoint, and a resumed run was another one."""
    assert any("(weight.requires_grad)" in each for each in trained_by(Tires))


class Fourth(nn.Linear):
    """One that changes at each fourth call."""

    scale, calls = 1.0, 0

    def __init__(self, *shape):
        super().__init__(*shape)
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.training:
            self.count += 1
            self.scale *= 0.7 if self.count % 4 == 0 else 1.0
        return super().forward(x) * self.scale


class InHalf(nn.Linear):
    def state_dict(self, *given, **named):
        return {name: value.half() for name, value in super().state_dict(*given, **named).items()}


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Teacher, r"changes what it does not save when it computes \(teacher\)"),
        (Fourth, r"changes what it does not save when it computes \(scale\)"),
        (InHalf, r"trains what it does not save \(weight, bias\), or not as it is"),
    ],
)
def test_what_a_model_is_without_after_a_resume_is_told_if_training_alone_shows_it(model, told):
    assert any(re.search(told, each) for each in trained_by(model))


class Stripped(nn.Module):
    """Saves another's state without its prefix."""

    def __init__(self, *shape):
        super().__init__()
        self.module = nn.Linear(*shape)

    def forward(self, x):
        return self.module(x)

    def state_dict(self, *given, **named):
        return {name: value.clone() for name, value in self.module.state_dict().items()}

    def load_state_dict(self, state, strict=True, assign=False):
        return self.module.load_state_dict(state)


class Extra(nn.Linear):
    calls = 0

    def get_extra_state(self):
        return self.calls

    def set_extra_state(self, state):
        self.calls = state

    def forward(self, x):
        self.calls += self.training
        return super().forward(x) * (1 + 0.01 * self.calls)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    "model", [Stripped, Extra, lambda *shape: nn.utils.weight_norm(nn.Linear(*shape))]
)
def test_nothing_is_told_of_what_is_saved_under_another_name_or_computed_anew(model):
    assert not any("does not save" in each for each in trained_by(model))


class ExchangesInForward(nn.Linear):
    def forward(self, x):
        if self.training:
            self.weight = nn.Parameter(self.weight.detach().clone())
            self.bias = nn.Parameter(self.bias.detach().clone())
        return super().forward(x)


def test_a_model_that_exchanges_its_parameters_as_it_computes_is_refused():
    with pytest.raises(ConfigurationError, match="has other parameters once it has computed"):
        trained_by(ExchangesInForward)


def test_an_optimiser_without_defaults_is_taken():
    class Bare:
        def __init__(self, parameters):
            self.inner = torch.optim.SGD(parameters, lr=0.1)
            self.param_groups, self.state = self.inner.param_groups, self.inner.state
            self.step, self.zero_grad = self.inner.step, self.inner.zero_grad
            self.state_dict = self.inner.state_dict
            self.load_state_dict = self.inner.load_state_dict

    assert learning(optimiser=Bare).train(training=TRAINING).summary["completed"]
