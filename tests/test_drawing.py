"""Threads that try models while others make theirs."""

from __future__ import annotations

import threading
import traceback
import warnings
from functools import partial

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

from colonnade import Federation, LabelHolder, Party, Training, drawing, methods, plan
from colonnade.assembly import _seeded
from colonnade.audits import audit
from colonnade.drivers import Processes, Simulate, processes
from colonnade.drivers.driver import perform
from colonnade.effects import Work
from colonnade.errors import ConfigurationError
from colonnade.estimators import VerticalClassifier
from colonnade.metrics import Metric
from colonnade.models import Sum
from colonnade.training import EarlyStopping
from toy_drawing import (
    AsItComputes,
    AsItIsAsked,
    AsItIsCopied,
    AsItIsTrained,
    AsItLoads,
    AsItMoves,
    AsItSaves,
    Loading,
    Saving,
)


def made():
    return _seeded("bottom", 3, "bank", "bottom", lambda: nn.Linear(200, 200)).weight


def test_a_model_starts_alike_whatever_other_threads_try():
    expected, over = made(), threading.Event()
    x, labels = torch.randn(8, 2), torch.arange(8) % 2
    bank = Party("bank", x, nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
    federation = Federation([bank], LabelHolder("shop", labels, top=nn.Linear(2, 2)))

    def trying():
        while not over.is_set():
            federation.check(methods.svfl())

    other = threading.Thread(target=trying)
    other.start()
    try:
        assert all(torch.equal(made(), expected) for _ in range(300))
    finally:
        over.set()
        other.join()


def fitted():
    table, labels = pl.DataFrame(np.random.default_rng(3).normal(size=(80, 4))), np.arange(80) % 2
    parties = {"bank": ["column_0", "column_1"], "shop": ["column_2", "column_3"]}
    VerticalClassifier(parties=parties, dropout=0.2, epochs=1).fit(table, labels)


CALLS = {
    "a federation": lambda federation, run: Federation(
        federation.parties, federation.label_holder, range(20), range(30, 40), None, range(20, 30)
    ),
    "a plan": lambda federation, run: plan(federation, methods.svfl(), ONCE),
    "training": lambda federation, run: federation.train(None, ONCE, report=False),
    "training into a folder": lambda federation, run: federation.train(
        None, ONCE, out="another", report=False
    ),
    "a resume": lambda federation, run: federation.train(
        None, ONCE, out="run", resume=True, report=False
    ),
    "processes": lambda federation, run: federation.train(None, ONCE, Processes(), report=False),
    "predictions": lambda federation, run: run.predict(
        {party.name: party.features for party in federation.parties}
    ),
    "an audit": lambda federation, run: audit(federation, methods.svfl(), ONCE),
    "an export": lambda federation, run: run.export("parts"),
    "an estimator": lambda federation, run: fitted(),
}
ONCE = Training(epochs=1, batch_size=10, early_stopping=EarlyStopping(patience=None))
DRAWERS = {
    "as it computes": (partial(nn.Dropout, 0.3), torch.optim.SGD),
    "as it is trained": (AsItIsTrained, torch.optim.SGD),
    "as it moves": (AsItMoves, torch.optim.SGD),
    "as it is copied": (AsItIsCopied, torch.optim.SGD),
    "as it loads": (AsItLoads, Loading),
    "as it saves": (AsItSaves, Saving),
    "as it is asked": (partial(AsItIsAsked, 2, 2), torch.optim.SGD),
}


@pytest.mark.parametrize("drawer", DRAWERS)
@pytest.mark.parametrize("call", CALLS)
def test_what_a_user_draws_is_what_it_would_have_been(call, drawer, tmp_path, monkeypatch):
    """Each call left torch's generator in one state: who simulated drew the same ever after."""
    module, optimiser = DRAWERS[drawer]
    how = {"optimiser": partial(optimiser, lr=0.1)}
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    parties = [
        Party(name, x[:, at : at + 2], nn.Sequential(nn.Linear(2, 2), module()), **how)
        for name, at in (("bank", 0), ("shop", 2))
    ]
    top = AsItIsAsked(4, 2) if drawer == "as it is asked" else nn.Linear(4, 2)
    holder = LabelHolder("insurer", (x.sum(1) > 0).long(), top, **how)
    federation = Federation(parties, holder, range(20), range(30, 40), None, range(20, 30))
    monkeypatch.chdir(tmp_path)
    run = federation.train(None, ONCE, report=False, out="run", stop_before=2)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    CALLS[call](federation, run)
    assert torch.equal(torch.rand(3), expected)


def test_who_listens_for_requests_keeps_nobody_from_work():
    came, over = threading.Event(), threading.Event()

    def listened():
        came.set()
        return over.wait(20)

    listen = Work("listen", listened, 0)
    other = threading.Thread(target=perform, args=(listen, "shop", 0))
    other.start()
    try:
        assert came.wait(20)
        done, _ = perform(Work("forward", other.is_alive, 0), "bank", 0)
        assert done, "the work was done when nobody listened any more"
    finally:
        over.set()
        other.join()


alone = []  # where something of somebody's was called that held nothing


def noted():
    if not drawing._turns.is_mine:
        alone.append("".join(traceback.format_stack(limit=12)))


def watching(kind, *methods):
    """Return a class that notes where these are called while other threads may draw."""

    def watched(name):
        def method(self, *given, **named):
            noted()
            return getattr(super(made, self), name)(*given, **named)

        return method

    made = type(f"Watched{kind.__name__}", (kind,), {name: watched(name) for name in methods})
    return made


STATE = ("__init__", "state_dict", "load_state_dict")
Model = watching(nn.Identity, "forward", "train", "_save_to_state_dict", "_load_from_state_dict")
Loss = watching(nn.CrossEntropyLoss, "forward")
Optimiser = watching(torch.optim.Adam, *STATE, "step", "zero_grad")
Scheduler = watching(torch.optim.lr_scheduler.StepLR, *STATE, "step")


def measured(scores, labels):
    noted()
    return float((scores.argmax(1) == labels).float().mean())


def watched():
    """Return a federation in which all that somebody may bring is watched."""
    x, labels = torch.randn(60, 4), torch.arange(60) % 2
    how = {"optimiser": Optimiser, "scheduler": partial(Scheduler, step_size=1)}
    parties = [Party(n, x, nn.Sequential(nn.Linear(4, 4), Model(), nn.Tanh()), **how) for n in "ab"]
    top = nn.Sequential(Model(), nn.Linear(8, 2))
    holder = LabelHolder("c", labels, top=top, loss=Loss(), **how)
    metrics = [Metric("right", True, measured)]
    alone.clear()
    return Federation(parties, holder, range(30), range(30, 45), metrics, range(45, 60))


METHODS = [
    methods.svfl(),
    methods.wait_dp(),
    methods.celu(3, 3),
    methods.fedbcd(3),
    methods.vafl(),
]


@pytest.mark.filterwarnings("ignore::colonnade.errors.PrivacyWarning")
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_nothing_of_somebodys_is_called_while_others_may_draw(method, tmp_path):
    federation, out = watched(), tmp_path / "run"
    rule = EarlyStopping(patience=1, min_delta=1.0)
    training = Training(epochs=4, batch_size=10, checkpoint_every=2, early_stopping=rule)
    federation.check(method)
    federation.train(method, training, out=out, stop_before=3, report=False)
    run = federation.train(method, training, out=out, resume=True, report=False)
    assert run.summary["rounds"] == 6, "it did not stop early"
    run.predict({name: torch.randn(3, 4) for name in "ab"})
    assert not alone, alone[0]


def test_nor_of_what_is_made_for_somebody(monkeypatch):
    """By an estimator, or as a file says."""
    forward = nn.Dropout.forward
    monkeypatch.setattr(nn.Dropout, "forward", lambda own, x: (noted(), forward(own, x))[1])
    alone.clear()
    x, labels = pl.DataFrame(np.random.default_rng(3).normal(size=(80, 4))), np.arange(80) % 2
    classifier = VerticalClassifier(
        parties={"bank": ["column_0", "column_1"], "shop": ["column_2", "column_3"]},
        dropout=0.2,
        epochs=1,
    )
    classifier.fit(x, labels).predict(x)
    assert not alone, alone[0]


def test_trainings_in_processes_leave_warnings_as_they_were_whoever_checks_meanwhile():
    before = [*warnings.filters]
    train = partial(watched().train, methods.svfl(), Training(epochs=1, batch_size=30))
    threads = [
        threading.Thread(target=lambda made=made: [train(made()) for _ in range(15)])
        for made in (Processes, Simulate, Processes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


def test_nor_as_a_run_is_planned_or_audited():
    federation, training = watched(), Training(epochs=1, batch_size=10)
    plan(federation, methods.svfl(), training)
    audit(federation, methods.svfl(), training)
    assert not alone, alone[0]


class Jittering(torch.optim.SGD):
    def step(self, closure=None):
        for group in self.param_groups:
            for weights in group["params"]:
                weights.grad += 0.1 * torch.randn_like(weights)
        return super().step(closure)


class Wandering(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [
            group["lr"] * float(1 + 0.1 * torch.rand(())) for group in self.optimizer.param_groups
        ]


def guessed(scores, labels):
    return float((scores.argmax(1) == labels).float().mean() + torch.rand(()))


def trained(seed, driver=None):
    """Train by what draws wherever it can; return all that came of it."""
    generator = torch.Generator().manual_seed(seed)
    x, labels = torch.randn(40, 4, generator=generator), torch.arange(40) % 2
    how = {"optimiser": partial(Jittering, lr=0.1), "scheduler": Wandering}
    layers = [torch.nn.utils.skip_init(nn.Linear, *shape) for shape in ((4, 3), (3, 2))]
    for layer in layers:
        nn.init.constant_(layer.weight, 0.1)
        nn.init.zeros_(layer.bias)
    bank = Party("bank", x, nn.Sequential(layers[0], nn.Dropout(0.2)), **how)
    shop = LabelHolder("shop", labels, top=nn.Sequential(nn.Dropout(0.2), layers[1]), **how)
    metrics = [Metric("guessed", True, guessed)]
    federation = Federation([bank], shop, range(30), range(30, 40), metrics)
    run = federation.train(methods.svfl(), Training(epochs=3, batch_size=10, seed=seed), driver)
    weights = [p for models in run.models.values() for m in models.values() for p in m.parameters()]
    return torch.cat([p.detach().flatten() for p in weights]), run.history["test_guessed"].to_list()


def same(run, other):
    return torch.equal(run[0], other[0]) and run[1] == other[1]


def test_trainings_in_threads_have_the_bits_that_each_has_alone_whatever_draws():
    alone, together = [trained(seed) for seed in range(4)], {}

    def again(seed):
        for _ in range(3):
            together.setdefault(seed, []).append(trained(seed))

    threads = [threading.Thread(target=again, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, expected in enumerate(alone):
        assert len(together[seed]) == 3
        assert all(same(run, expected) for run in together[seed])


def test_no_process_begins_while_another_thread_draws(monkeypatch):
    """Torch's generator has a lock of its own, which the process would wait for without end."""
    alone.clear()
    usual = processes.deaf

    def deaf():
        noted()
        return usual()

    monkeypatch.setattr(processes, "deaf", deaf)
    trained(1, Processes())
    assert not alone, alone[0]


def test_what_draws_draws_alike_under_every_driver():
    assert same(trained(1), trained(1, Processes()))


ELSEWHERE = [AsItComputes, AsItIsTrained, AsItMoves, AsItIsCopied, AsItLoads, AsItSaves]


def trained_after(drawn, module, driver=None, **named):
    """Train bottoms that end in a module after so many numbers were drawn; return all its bits."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 4, generator=generator)
    torch.manual_seed(5)
    parties = [
        Party(name, x[:, at : at + 2], nn.Sequential(nn.Linear(2, 2), module()))
        for name, at in (("bank", 0), ("shop", 2))
    ]
    holder = LabelHolder("insurer", (x.sum(1) > 0).long(), nn.Linear(4, 2))
    federation = Federation(parties, holder, range(20), range(30, 40), None, range(20, 30))
    torch.rand(drawn)
    best = EarlyStopping(patience=None)
    training = Training(epochs=2, batch_size=10, seed=1, early_stopping=best)
    run = federation.train(None, training, driver, report=False, **named)
    states = [m.state_dict() for models in run.models.values() for m in models.values()]
    losses = torch.tensor(run.history["train_loss"].to_list())
    return torch.cat([losses, *(v.flatten() for state in states for v in state.values())])


@pytest.mark.parametrize("module", ELSEWHERE, ids=lambda module: module.__name__)
def test_a_run_is_the_same_whatever_was_drawn_before_and_wherever_its_models_draw(module, tmp_path):
    """It hung on that where they draw as they are copied, moved or put into training."""
    expected = trained_after(1, module)
    assert torch.equal(trained_after(2, module), expected)
    assert torch.equal(trained_after(3, module, Processes()), expected)
    trained_after(4, module, out=tmp_path, stop_before=3)
    assert torch.equal(trained_after(5, module, out=tmp_path, resume=True), expected)


def test_a_shared_top_that_draws_as_it_loads_goes_on_to_the_same_bits(tmp_path):
    """Parties' copies had loaded nothing before a run went on."""
    x, labels = torch.randn(40, 4), torch.arange(40) % 2
    parties = [
        Party(name, x[:, at : at + 2], nn.Linear(2, 2)) for name, at in (("bank", 0), ("clinic", 2))
    ]
    top = nn.Sequential(nn.Linear(2, 2), AsItLoads())
    federation = Federation(parties, LabelHolder("shop", labels, top))
    method = methods.fedbcd(2, fusion=Sum(), labels="shared")
    train = partial(federation.train, method, Training(epochs=2, batch_size=10), report=False)
    train(out=tmp_path, stop_before=5)
    rest, whole = train(out=tmp_path, resume=True), train()
    assert rest.history.drop("seconds").equals(whole.history.drop("seconds"))


def test_two_parties_draw_otherwise_as_their_models_are_put_into_training():
    x, labels = torch.ones(40, 2), torch.arange(40) % 2
    parties = [Party(name, x, AsItIsTrained()) for name in ("bank", "shop")]
    federation = Federation(parties, LabelHolder("insurer", labels, nn.Linear(4, 2)))
    models = federation.train(training=Training(epochs=1, batch_size=20)).models
    assert not torch.equal(models["bank"]["bottom"].kept, models["shop"]["bottom"].kept)


@pytest.mark.parametrize("module", [AsItIsTrained, AsItMoves])
def test_a_prediction_is_the_same_whatever_was_drawn_before(module):
    x, labels = torch.ones(40, 2), torch.arange(40) % 2
    bank = Party("bank", x, nn.Sequential(nn.Linear(2, 2), module()))
    once = Training(epochs=1, batch_size=20)
    run = Federation([bank], LabelHolder("shop", labels, nn.Linear(2, 2))).train(training=once)
    expected = run.predict({"bank": x}).scores
    torch.rand(1)
    assert torch.equal(run.predict({"bank": x}).scores, expected)


def test_a_model_that_cannot_load_what_it_saves_is_told_before_training():
    """It was when a run went on, or came back from its processes."""

    class Refuses(nn.Linear):
        def _load_from_state_dict(self, *given, **named):
            raise ValueError("it takes nothing")

    labels = torch.arange(8) % 2
    parties = [Party("bank", torch.randn(8, 2), Refuses(2, 2))]
    federation = Federation(parties, LabelHolder("shop", labels, nn.Linear(2, 2)))
    why = "the bottom model of 'bank' cannot load what it saves: it takes nothing"
    with pytest.raises(ConfigurationError, match=why):
        federation.train()
