"""CELU-VFL's workset: its laws under any schedule, its steps against plain torch, its overlap."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import colonnade as cn
from colonnade.batches import BatchPlan
from colonnade.effects import KINDS_OF_WAITING, Expect, Receive, Send
from colonnade.errors import ConfigurationError
from colonnade.flows import FixedSize, Flow
from colonnade.local_updates.contract import PartyBatch
from colonnade.local_updates.rotation import Rotation
from colonnade.local_updates.staleness import Cosines, cosines
from colonnade.methods import celu, fedbcd, svfl
from colonnade.streams import StreamKey, work_seed
from colonnade.testing.methods import small_federation
from colonnade.training import Training

pytestmark = pytest.mark.usefixtures("no_pictures")

FREE = cn.Simulate(costs=cn.Modelled(otherwise=0.0))
TRAINING = Training(epochs=2, batch_size=16, evaluation_rows=7, seed=5)


# --- the rotation ---------------------------------------------------------------------------------

# True inserts the batch of the next round, False asks for a step; rounds may be left out.
SCHEDULES = st.lists(st.tuples(st.booleans(), st.integers(1, 3)), max_size=80)


@settings(max_examples=300)
@given(st.integers(1, 5), st.integers(1, 5), st.booleans(), SCHEDULES)
def test_batches_take_turns(
    capacity: int, reuses: int, bursts: bool, schedule: Sequence[tuple[bool, int]]
) -> None:
    rotation: Rotation[int] = Rotation(capacity, reuses, bursts)
    taken: list[int] = []  # the round of the batch of each local step
    inserted: list[int] = []
    round, since, bubbles = -1, 0, 0
    for insertion, ahead in schedule:
        if insertion:
            round += ahead
            rotation.insert(round, round)
            inserted.append(round)
            since = 0
            continue
        alive = [
            each for each in inserted if each > round - capacity and taken.count(each) < reuses
        ]
        resting = taken[max(0, len(taken) - capacity + 1) :]
        free = [each for each in alive if each not in resting]
        found = rotation.draw()
        if since >= reuses and not bursts:
            assert found is None
        elif not free:
            assert found is None
            bubbles += bool(alive)
        else:
            # The least used, of these the oldest.
            assert found == min(free, key=lambda each: (taken.count(each), each))
            taken.append(found)
            since += 1
        assert rotation.bubbles == bubbles
    assert rotation.steps == len(taken)
    assert len(rotation) <= capacity


@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(1, 4), SCHEDULES, SCHEDULES)
def test_a_rotation_goes_on_where_it_was(
    capacity: int, reuses: int, before: Any, after: Any
) -> None:
    def play(rotation: Rotation[int], schedule: Any, round: int) -> tuple[list[int | None], int]:
        found = []
        for insertion, ahead in schedule:
            if insertion:
                round += ahead
                rotation.insert(round, round)
            else:
                found.append(rotation.draw())
        return found, round

    whole: Rotation[int] = Rotation(capacity, reuses)
    _, round = play(whole, before, -1)
    rest: Rotation[int] = Rotation(capacity, reuses)
    rest.load_state_dict(whole.state_dict(str), int)
    assert play(whole, after, round) == play(rest, after, round)
    assert whole.state_dict(str) == rest.state_dict(str)


def test_how_many_steps_followed_the_last_insertion_is_saved() -> None:
    """W = 2, R = 1: after one step there is none until the next insertion, resumed or not."""
    whole: Rotation[int] = Rotation(2, 1)
    for round in (0, 1):
        whole.insert(round, round)
    assert whole.draw() == 0
    rest: Rotation[int] = Rotation(2, 1)
    rest.load_state_dict(whole.state_dict(str), int)
    assert whole.draw() is rest.draw() is None
    assert whole.held_back
    assert rest.held_back


def test_nothing_is_held_back_where_no_batch_is_left() -> None:
    rotation: Rotation[int] = Rotation(1, 2)
    rotation.insert(0, 0)
    assert rotation.draw() == rotation.draw() == 0
    assert rotation.draw() is None
    assert not rotation.held_back


def test_uses_are_those_that_there_were() -> None:
    """A batch that grows too old may have been used less than R times."""
    half = cn.Workset(capacity=1, reuses=5, min_cosine=None).party_steps()
    rows, values = np.arange(2), torch.ones(2, 3)
    for round, uses in enumerate((2, 4, 0)):
        half.add(PartyBatch(round, rows, values, values))
        steps = half.steps(StreamKey(0, "bank", "training", round))
        for _ in range(uses):
            next(steps)
    assert half.report() == {"bubbles": 0, "uses_per_batch": 3.0}
    assert half.report() == {"bubbles": 0}


# --- staleness ------------------------------------------------------------------------------------


def test_cosines_of_any_length_of_rows() -> None:
    one = torch.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 0.0], [1e-20, 0.0], [-3.0, -3.0]])
    other = torch.tensor([[5.0, 5.0], [0.0, 7.0], [1.0, 1.0], [1e-15, 0.0], [1.0, 1.0]])
    found = cosines(one, other)
    assert torch.allclose(found, torch.tensor([1.0, 0.0, 0.0, 1.0, -1.0]), atol=1e-6)
    turned = torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]])
    for length in (1e-37, 1e-24, 1.0, 1e24, 1e37):
        assert cosines(turned[0] * length, turned[1] * length).item() == pytest.approx(0.96)
    assert cosines(other, one).tolist() == found.tolist()


def test_weights_are_cosines_and_their_spread_is_told_once() -> None:
    angles = torch.linspace(0, torch.pi, 1001)
    fresh = torch.stack([angles.cos(), angles.sin()], dim=1)
    stale = torch.tensor([[2.0, 0.0]]).expand_as(fresh)
    weighed = Cosines(least=0.5)
    weights = weighed.weights(fresh, stale)
    assert torch.allclose(weights[:333], angles[:333].cos(), atol=1e-6)
    assert not weights[334:].any()
    told = weighed.report()
    for percent in (10, 50, 90):
        expected = np.quantile(angles.cos().numpy(), percent / 100)
        assert abs(told[f"cosine_p{percent}"] - expected) < 0.006
    assert abs(told["rows_too_stale"] - 2 / 3) < 0.002
    assert weighed.report() == {}
    weighed.weights(stale, stale)
    assert weighed.report()["rows_too_stale"] == 0  # none of those since the last report


# --- equalities -----------------------------------------------------------------------------------


def states(run: cn.Run) -> list[Tensor]:
    return [
        value
        for parts in run.models.values()
        for module in parts.values()
        for value in module.state_dict().values()
    ]


def same(one: cn.Run, other: cn.Run) -> bool:
    mine, theirs = states(one), states(other)
    assert len(mine) == len(theirs) > 0
    return all(map(torch.equal, mine, theirs))


def train(method: cn.Method, features: bool = True, driver: Any = FREE, **more: Any) -> cn.Run:
    federation = small_federation(method, features)
    return federation.train(method, TRAINING, driver, report=False, **more)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("overlap", [True, False])
def test_without_local_steps_it_is_vanilla(features: bool, overlap: bool) -> None:
    mine = train(celu(reuses=0, overlap=overlap), features)
    vanilla = train(svfl(), features)
    assert same(mine, vanilla)
    assert mine.ledger.without_time() == vanilla.ledger.without_time()
    # On a clock, too: with nothing to do meanwhile everybody waits as ever.
    wide = cn.Simulate(
        cn.Network(cn.Channel(bandwidth=1e6, latency=0.02)), cn.Modelled(otherwise=0.001)
    )
    timed = [train(method, features, wide) for method in (celu(reuses=0), svfl())]
    assert timed[0].summary["seconds_virtual"] == timed[1].summary["seconds_virtual"]


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("reuses", [1, 4])
def test_one_batch_unweighted_and_without_overlap_is_fedbcd(features: bool, reuses: int) -> None:
    mine = train(celu(1, reuses, None, overlap=False), features)
    other = train(fedbcd(reuses + 1), features)
    assert same(mine, other)
    assert mine.summary["local_updates"] == other.summary["local_updates"]
    assert not same(mine, train(celu(1, reuses, 0.0, overlap=False), features))


def test_any_steps_may_be_taken_while_messages_are_under_way() -> None:
    """With no time to spare nothing is done; with enough of it, all that the policy has."""
    policy = cn.Proximal(passes=1, rows=8, label_holder=cn.Replayed(3, batches=4))
    method = cn.Method("mine", exchange=cn.Asynchronous(), local_updates=policy)
    slow = cn.Simulate(cn.Network(cn.Channel(latency=60.0)), cn.Modelled(otherwise=0.001))
    run = train(method, driver=slow)
    rounds = run.summary["rounds"]
    # Two parts of each batch of 16 or 12, and none after the last exchange; the label holder's come
    # while it waits for what it evaluates, too.
    assert run.summary["local_updates"] == {
        "party_0": 2 * (rounds - 1),
        "party_1": 2 * (rounds - 1),
        "party_2": 2 * (rounds - 1),
        "holder": 3 * (rounds - 1),
    }
    assert same(train(method), train(svfl()))  # FREE: whatever is sent is there at once


class Collected:
    present = ("bank", "shop", "clinic")

    def fuse(self, own: Any) -> Any: ...

    def differentiable(self, own: Any) -> Any: ...

    def state_dict(self) -> dict[str, Any]:
        return {}


def test_a_derivative_that_all_parties_share_is_kept_once() -> None:
    generator = torch.Generator().manual_seed(1)
    common, other, fresh = (torch.randn(8, 3, generator=generator) for _ in range(3))
    rows = np.arange(8)

    def kept_and_weights(*derivatives: Tensor) -> tuple[int, Tensor]:
        half = cn.Workset(2, 2, -1.0).holder_steps()
        sent = dict(zip(Collected.present, derivatives, strict=True))
        half.add(cn.local_updates.HolderBatch(0, rows, Collected(), sent))
        [[_, packed, *_]] = half.state_dict()["rotation"]["entries"]
        (step,) = half.steps(StreamKey(0, "holder", "test", 0))
        assert step.weights is not None
        now = dict.fromkeys(Collected.present, fresh)
        return len(packed["derivatives"]), step.weights(now)

    once, weights = kept_and_weights(common, common, common)
    each, expected = kept_and_weights(common, common.clone(), common.clone())
    assert (once, each) == (1, 3)
    assert torch.allclose(weights, expected, atol=1e-6)
    # Where some share one, it weighs as often as it came.
    assert kept_and_weights(common, common, other)[0] == 3


# --- against plain torch --------------------------------------------------------------------------


def adagrad(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(parameters, lr=0.3)


@pytest.mark.parametrize("lossy", [False, True])
def test_steps_are_those_of_the_paper(lossy: bool) -> None:
    """Two parties and a label holder with columns, W = 2, R = 2, weights, no overlap.

    With a codec derivatives are taken at what arrived, but a party knows what it has sent: how
    stale a row is it sees by that.
    """
    torch.manual_seed(0)
    rows, least, rounds = 24, 0.3, 6
    x, own_x = {"bank": torch.randn(rows, 3), "shop": torch.randn(rows, 2)}, torch.randn(rows, 2)
    labels = torch.arange(rows) % 3
    bottoms = {name: nn.Sequential(nn.Linear(v.shape[1], 4), nn.Tanh()) for name, v in x.items()}
    own, top = nn.Linear(2, 4), nn.Linear(12, 3)
    federation = cn.Federation(
        [cn.Party(name, v, copy.deepcopy(bottoms[name]), adagrad) for name, v in x.items()],
        cn.LabelHolder(
            "insurer",
            labels,
            copy.deepcopy(top),
            features=own_x,
            bottom=copy.deepcopy(own),
            optimiser=adagrad,
        ),
        np.arange(rows),
    )
    training = cn.Training(epochs=3, batch_size=12, seed=4)
    codec = cn.codecs.TopK(0.5, "row") if lossy else None
    run = federation.train(celu(2, 2, least, codec, overlap=False), training, FREE)

    def arrived(sent: Tensor) -> Tensor:
        if not lossy:
            return sent.detach()
        largest = sent.detach().abs().topk(2).indices
        return torch.zeros(sent.shape).scatter(1, largest, sent.detach().gather(1, largest))

    plan = BatchPlan(np.arange(rows), 12, 3, 4)
    steps = {name: adagrad(bottom.parameters()) for name, bottom in bottoms.items()}
    holder = adagrad([*top.parameters()]), adagrad([*own.parameters()])

    def step(*optimisers: torch.optim.Optimizer) -> None:
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()

    def weighted(fresh: Tensor, stale: Tensor) -> Tensor:
        found = nn.functional.cosine_similarity(fresh, stale, eps=1e-30)
        return torch.where(found < least, 0.0, found)

    cache: list[dict[str, Any]] = []
    taken: list[int] = []
    for round in range(rounds):
        batch = torch.from_numpy(plan.rows(round))
        z = {name: bottom(x[name][batch]) for name, bottom in bottoms.items()}
        leaves = {name: arrived(value).requires_grad_() for name, value in z.items()}
        outputs = top(torch.cat([*leaves.values(), own(own_x[batch])], 1))
        nn.functional.cross_entropy(outputs, labels[batch]).backward()
        step(*holder)
        d = {name: leaf.grad for name, leaf in leaves.items()}
        for name, value in z.items():
            value.backward(d[name])
            step(steps[name])
        cache.append({"round": round, "batch": batch, "z": z, "d": d})
        for _ in range(2):
            alive = [e for e in cache if e["round"] > round - 2 and taken.count(e["round"]) < 2]
            free = [entry for entry in alive if entry["round"] not in taken[-1:]]
            if not free:
                break
            entry = min(free, key=lambda each: taken.count(each["round"]))
            taken.append(entry["round"])
            batch, z, d = entry["batch"], entry["z"], entry["d"]
            for name, bottom in bottoms.items():
                fresh = bottom(x[name][batch])
                weights = weighted(fresh.detach(), z[name].detach())
                fresh.backward(weights[:, None] * d[name])
                step(steps[name])
            leaves = {name: arrived(value).requires_grad_() for name, value in z.items()}
            outputs = top(torch.cat([*leaves.values(), own(own_x[batch])], 1))
            losses = nn.functional.cross_entropy(outputs, labels[batch], reduction="none")
            found = torch.autograd.grad(losses.mean(), [*leaves.values()], retain_graph=True)
            weights = weighted(torch.cat(found, 1), torch.cat([*d.values()], 1))
            (weights * losses).mean().backward()
            step(*holder)

    assert run.summary["local_updates"] == dict.fromkeys(("bank", "shop", "insurer"), len(taken))
    trained = {
        "bank": run.models["bank"]["bottom"],
        "shop": run.models["shop"]["bottom"],
        "own": run.models["insurer"]["bottom"],
        "top": run.models["insurer"]["top"],
    }
    for name, module in (bottoms | {"own": own, "top": top}).items():
        for mine, expected in zip(trained[name].parameters(), module.parameters(), strict=True):
            assert torch.allclose(mine, expected, atol=2e-6), name


def test_overlapped_steps_are_those_of_the_paper() -> None:
    """Messages take so long that all local steps fit between them, and cost next to nothing.

    A party sends, takes its steps, and only then the exact one at embeddings that it computes anew;
    the label holder takes its steps before the exact one of the next round. What is remembered of a
    batch, and compared with, is what was sent.
    """
    torch.manual_seed(1)
    rows, capacity, reuses, least, rounds = 40, 3, 2, 0.4, 12
    x = {"bank": torch.randn(rows, 5), "shop": torch.randn(rows, 4)}
    labels = (x["bank"][:, 0] * x["shop"][:, 0] > 0).long()
    bottoms = {name: nn.Sequential(nn.Linear(v.shape[1], 6), nn.Tanh()) for name, v in x.items()}
    top = nn.Sequential(nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 2))
    federation = cn.Federation(
        [cn.Party(name, v, copy.deepcopy(bottoms[name]), adagrad) for name, v in x.items()],
        cn.LabelHolder("insurer", labels, copy.deepcopy(top), optimiser=adagrad),
        np.arange(rows),
    )
    wide = cn.Simulate(cn.Network(cn.Channel(latency=1.0)), cn.Modelled(otherwise=1e-6))
    training = cn.Training(epochs=3, batch_size=10, seed=4, evaluate_every=100)
    run = federation.train(celu(capacity, reuses, least), training, wide)

    plan = BatchPlan(np.arange(rows), 10, 3, 4)
    batches = [torch.from_numpy(plan.rows(round)) for round in range(rounds)]
    steps = {name: adagrad(bottom.parameters()) for name, bottom in bottoms.items()}
    holder = adagrad(top.parameters())

    def step(optimiser: torch.optim.Optimizer) -> None:
        optimiser.step()
        optimiser.zero_grad()

    def weighted(fresh: Tensor, stale: Tensor) -> Tensor:
        found = nn.functional.cosine_similarity(fresh, stale, eps=1e-30)
        return torch.where(found < least, 0.0, found)

    turns = {name: Rotation[dict[str, Any]](capacity, reuses) for name in (*x, "insurer")}

    def party_steps(name: str) -> None:
        while (entry := turns[name].draw()) is not None:
            fresh = bottoms[name](x[name][entry["batch"]])
            weights = weighted(fresh.detach(), entry["z"][name])
            fresh.backward(weights[:, None] * entry["d"][name])
            step(steps[name])

    def holder_steps() -> None:
        while (entry := turns["insurer"].draw()) is not None:
            leaves = [value.clone().requires_grad_() for value in entry["z"].values()]
            outputs = top(torch.cat(leaves, 1))
            losses = nn.functional.cross_entropy(outputs, labels[entry["batch"]], reduction="none")
            found = torch.autograd.grad(losses.mean(), leaves, retain_graph=True)
            weights = weighted(torch.cat(found, 1), torch.cat([*entry["d"].values()], 1))
            (weights * losses).mean().backward()
            step(holder)

    for round, batch in enumerate(batches):
        z = {name: bottom(x[name][batch]).detach() for name, bottom in bottoms.items()}
        if round:
            for name in x:
                party_steps(name)
            holder_steps()
        leaves = {name: value.clone().requires_grad_() for name, value in z.items()}
        nn.functional.cross_entropy(top(torch.cat([*leaves.values()], 1)), labels[batch]).backward()
        step(holder)
        d = {name: leaf.grad for name, leaf in leaves.items()}
        entry = {"batch": batch, "z": z, "d": d}
        for name, bottom in bottoms.items():
            bottom(x[name][batch]).backward(d[name])
            step(steps[name])
        for turn in turns.values():
            turn.insert(round, entry)

    assert run.summary["local_updates"] == {name: turn.steps for name, turn in turns.items()}
    for name, module in (bottoms | {"insurer": top}).items():
        trained = run.models[name]["top" if name == "insurer" else "bottom"]
        for mine, expected in zip(trained.parameters(), module.parameters(), strict=True):
            assert torch.allclose(mine, expected, atol=2e-6), name


class Drawing(nn.Module):
    """Passes on what it is given, and notes what it draws in training, as dropout draws.

    It is tried on two rows before, which are no batch.
    """

    drawn: ClassVar[dict[str, set[float]]] = {}

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.drawn[name] = set()

    def forward(self, values: Tensor) -> Tensor:
        if self.training and len(values) > 2:
            self.drawn[self.name].add(float(torch.rand(1)))
        return values


@pytest.mark.parametrize("overlap", [True, False])
def test_every_step_draws_anew(overlap: bool) -> None:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(1))
    top = nn.Sequential(Drawing("insurer"), nn.Linear(2, 2))
    federation = cn.Federation(
        [cn.Party("bank", x, nn.Sequential(nn.Linear(3, 2), Drawing("bank")))],
        cn.LabelHolder("insurer", torch.arange(60) % 2, top),
        np.arange(60),
    )
    wide = cn.Simulate(cn.Network(cn.Channel(latency=1.0)), cn.Modelled(otherwise=1e-6))
    training = cn.Training(epochs=2, batch_size=20, evaluate_every=100)
    run = federation.train(celu(3, 4, 0.0, overlap=overlap), training, wide)
    for name, drawn in Drawing.drawn.items():
        taken = run.summary["local_updates"][name]
        assert taken > 2 * run.summary["rounds"]
        # A party that embeds a batch again for its exact step draws what it drew the first time.
        assert len(drawn) == taken + run.summary["rounds"], name


# --- overlap --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("latency", "begun"), [(0.0, 0), (0.0124, 3), (0.02, 4), (1.0, 5)])
def test_local_steps_fill_the_time_of_a_round_trip(latency: float, begun: int) -> None:
    """A party with steps of 10 ms waits 2 latencies: it begins as many as fit, at most R.

    To embed 8 rows takes 16 ms: before each message, and anew where there were local steps.
    """
    prices = {"local_step": 0.010 / 8, "forward": 0.016 / 8}
    costs = cn.Modelled(seconds_per_row=prices, slowdown={"registry": 0.0}, otherwise=0.0)
    driver = cn.Simulate(cn.Network(cn.Channel(latency=latency)), costs)
    generator = torch.Generator().manual_seed(1)
    federation = cn.Federation(
        [cn.Party("bank", torch.randn(80, 3, generator=generator), nn.Linear(3, 2), adagrad)],
        cn.LabelHolder("registry", torch.arange(80) % 2, nn.Linear(2, 2), optimiser=adagrad),
        np.arange(80),
    )
    method = celu(capacity=1, reuses=5, min_cosine=None)
    run = federation.train(method, cn.Training(epochs=1, batch_size=8), driver)
    assert run.summary["rounds"] == 10
    assert run.summary["local_updates"]["bank"] == 9 * begun  # there is nothing to do in round 0
    round_trip = max(2 * latency, begun * 0.010)  # a step that has begun is finished
    # The label holder is done when it has answered the tenth message, sent after nine round trips,
    # of which the first has no steps.
    embedded = 10 + 8 * (begun > 0)
    assert run.summary["seconds_training"] == pytest.approx(
        3 * latency + 8 * round_trip + embedded * 0.016
    )


LOOKED_AT: dict[str, cn.Method] = {
    "svfl": svfl(),
    "fedbcd": fedbcd(4),
    "relay": cn.methods.cvfl(cn.codecs.Scalar(4), 3, cn.Concat(), "shared"),
    "celu": celu(5, 5, 0.5),
    "celu, bursts": celu(3, 4, None, bursts=True),
    "celu, compressed": celu(5, 5, 0.5, cn.codecs.Scalar(8), cn.codecs.Scalar(8)),
    "replayed": cn.Method("r", exchange=cn.Asynchronous(), local_updates=cn.Replayed(2, 3)),
}
UNLIKE = cn.Modelled(
    {"local_step": 0.030, "backward": 0.030, "forward": 0.010, "top": 0.020},
    slowdown={"party_1": 1.7},
    otherwise=0.002,
)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("method", LOOKED_AT.values(), ids=list(LOOKED_AT))
def test_a_training_takes_as_long_however_often_it_is_looked_at(
    method: cn.Method, features: bool
) -> None:
    network = cn.Network(cn.Channel(bandwidth=1e5, latency=0.03))
    driver = cn.Simulate(network, UNLIKE, untimed=frozenset({cn.Purpose.EVALUATION}))
    federation = small_federation(method, features)
    found = []
    for every in (1000, 5, 1):
        training = Training(epochs=4, batch_size=16, evaluation_rows=7, evaluate_every=every)
        run = federation.train(method, training, driver, report=False)
        steps = run.summary["local_updates"]
        clocks = [run.summary[f"seconds_{what}"] for what in ("virtual", "training", "evaluation")]
        found.append((clocks, steps))
    assert all(each == found[0] for each in found)
    assert run.summary["seconds_evaluation"] == 0
    assert run.summary["clock"]["untimed"] == "evaluation"


@pytest.mark.parametrize("bursts", [True, False])
def test_idle_time_is_called_by_its_reason(bursts: bool) -> None:
    """W = 3, R = 2: the second and third step after an insertion are held back, unless bursts."""
    driver = cn.Simulate(cn.Network(cn.Channel(latency=1.0)), cn.Modelled(otherwise=0.001))
    run = train(celu(3, 2, None, bursts=bursts), driver=driver)
    idle = {
        (each["organisation"], each["activity"]): each["seconds"]
        for each in run.summary["activities"]
        if each["purpose"] == "training" and each["activity"] in KINDS_OF_WAITING
    }
    for name in ("party_0", "holder"):
        held_back = idle.get((name, "held back"), 0.0)
        share = run.summary["held_back"].get(name, 0.0)
        assert (share > 0.5) is not bursts
        if bursts:
            assert held_back == 0
        else:
            assert held_back > 0.5 * idle[name, "wait"]


def test_what_an_evaluation_is_waited_for_is_called_by_its_reason() -> None:
    """R = 2: after two steps none may be taken, however long held-out embeddings are under way."""
    slow = cn.Simulate(cn.Network(cn.Channel(bandwidth=1e4)), cn.Modelled(otherwise=0.001))
    training = Training(epochs=2, batch_size=16, evaluation_rows=7, evaluate_every=1)
    method = celu(3, 2, None)
    run = small_federation(method).train(method, training, slow, report=False)
    idle = {
        each["activity"]: each["seconds"]
        for each in run.summary["activities"]
        if each["organisation"] == "holder" and each["purpose"] == "evaluation"
    }
    assert idle["held back"] > idle["wait"]  # that of the end, after which there is no step


class _Confirmed:
    """A half of an uplink that goes on after a message of its own."""

    def __init__(self, half: Any, others: Sequence[str], first: bool) -> None:
        self._half, self._others, self._first = half, others, first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._half, name)

    async def upload(self, bottom: Any, rows: Any, moment: Any, saliency: Any = None) -> Tensor:
        embedding: Tensor = await self._half.upload(bottom, rows, moment, saliency)
        await self._answered(moment)
        return embedding

    async def collect(self, rows: Any, moment: Any) -> Any:
        collected = await self._half.collect(rows, moment)
        await self._answered(moment)
        return collected

    async def _answered(self, moment: Any) -> None:
        for first in (self._first, not self._first):
            kind = "question" if first is self._first else "answer"
            if first:
                for other in self._others:
                    await Send(other, kind, moment.round, bytes([moment.part]), moment.purpose)
            else:
                await Receive(Expect(kind, moment.round, tuple(self._others), moment.purpose))


class TwoPhases(cn.Plain):
    """Plain, but the label holder asks back before it takes what it got."""

    @property
    def interactive(self) -> bool:
        return True

    def flows(self, layout: Any, rows: int, purpose: Any) -> Any:
        holder, size = layout.label_holder, FixedSize(1)
        asked = [
            flow
            for party in layout.parties
            for flow in (
                Flow(holder, (party,), "question", purpose, size, 0, 0, 0),
                Flow(party, (holder,), "answer", purpose, size, 0, 0, 0),
            )
        ]
        return (*super().flows(layout, rows, purpose), *asked)

    def uploader(self, layout: Any, party: Any) -> Any:
        return _Confirmed(super().uploader(layout, party), [layout.label_holder], False)

    def collector(self, layout: Any, fusion: Any, stragglers: Any) -> Any:
        return _Confirmed(super().collector(layout, fusion, stragglers), layout.parties, True)


@pytest.mark.parametrize("features", [True, False])
def test_local_steps_fill_every_wait_of_an_uplink(features: bool) -> None:
    slow = cn.Simulate(cn.Network(cn.Channel(latency=0.1)), cn.Modelled(otherwise=0.01))
    vanilla = cn.Method("two", uplink=TwoPhases())
    assert same(train(vanilla, features), train(svfl(), features))
    asynchronous = cn.Method("two", uplink=TwoPhases(), exchange=cn.Asynchronous())
    assert same(train(asynchronous, features), train(svfl(), features))
    steps = {}
    for name, uplink in (("one", cn.Plain()), ("two", TwoPhases())):
        method = cn.Method(
            name,
            uplink=uplink,
            exchange=cn.Asynchronous(),
            local_updates=cn.Workset(1, 50, None),
        )
        run = train(method, features, slow)
        steps[name] = run.summary["local_updates"]
        again = train(method, features, cn.Replay(run.record.trace))
        assert same(run, again)
    # Round trips are two in place of one, and both are filled.
    assert all(steps["two"][name] > 1.6 * steps["one"][name] for name in steps["one"])


@pytest.mark.parametrize(
    "method",
    [
        fedbcd(3),
        cn.methods.cvfl(cn.codecs.Scalar(4), 3, cn.Concat(), "shared"),
        cn.Method("p", local_updates=cn.Proximal(1, 8, label_holder=cn.Replayed(2, 3))),
        celu(2, 2, 0.5, overlap=False),
    ],
    ids=["fedbcd", "relay", "proximal", "celu"],
)
@pytest.mark.parametrize("held_out", [True, False])
def test_everybodys_local_steps_are_in_the_history(method: cn.Method, held_out: bool) -> None:
    federation = small_federation(method)
    if not held_out:
        federation = cn.Federation(
            federation.parties, federation.label_holder, federation.train_rows
        )
    run = federation.train(method, TRAINING, FREE, report=False)
    told = run.reported("local_steps").group_by("organisation").agg(pl.sum("local_steps"))
    assert dict(told.iter_rows()) == run.summary["local_updates"]
    assert min(run.summary["local_updates"].values()) > 0


def test_steps_while_held_out_embeddings_are_awaited_draw_what_no_other_step_drew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They count on from the steps of their round, so that dropout has no mask twice."""
    seeds = []

    def noted(*moment: Any) -> Any:
        seeds.append(moment)
        return work_seed(*moment)

    monkeypatch.setattr("colonnade.drivers.driver.work_seed", noted)
    wide = cn.Simulate(cn.Network(cn.Channel(latency=1.0)), cn.Modelled(otherwise=0.001))
    method = celu(3, 2, None)
    training = Training(epochs=4, batch_size=16, evaluate_every=2)
    run = small_federation(method).train(method, training, wide, report=False)
    local = [moment for moment in seeds if moment[1] == "holder" and moment[4] >= 2]
    assert len(local) == len(set(local)) == run.summary["local_updates"]["holder"]
    # Some rounds have steps before their exact one and after it.
    assert max(Counter(round for *_, round, _ in local).values()) > method.local_updates.reuses


def test_steps_fill_the_wait_for_all_pieces_of_an_evaluation() -> None:
    """However many messages the held-out embeddings come in, steps go on until the last one."""
    slow = cn.Simulate(cn.Network(cn.Channel(bandwidth=1e4)), cn.Modelled(otherwise=0.001))
    method = cn.Method("r", exchange=cn.Asynchronous(), local_updates=cn.Replayed(10_000, 3))
    federation, taken = small_federation(method), []
    for rows in (15, 4):  # of 15 held-out ones: in one message, or in four
        training = Training(epochs=1, batch_size=16, evaluation_rows=rows, evaluate_every=1)
        run = federation.train(method, training, slow, report=False)
        taken.append(run.summary["local_updates"]["holder"])
    whole, pieces = taken
    assert whole <= pieces < 1.3 * whole  # each message has an envelope, which takes time, too


def test_everybody_says_what_was_done_meanwhile() -> None:
    wide = cn.Simulate(
        cn.Network(cn.Channel(bandwidth=1e6, latency=0.02)), cn.Modelled(otherwise=0.004)
    )
    run = train(celu(3, 2, 0.5), driver=wide)
    both = [run.history, *(run.others_history.filter(organisation=f"party_{i}") for i in range(3))]
    for history in both:
        assert len(history) == 2
        name = history["organisation"][0] if "organisation" in history.columns else "holder"
        # Those after the last evaluation are none: training has ended.
        assert history["local_steps"].sum() == run.summary["local_updates"][name] > 0
        assert history["local_cosine_p10"].is_between(-1, 1).all()
        assert (history["local_cosine_p10"] <= history["local_cosine_p90"]).all()
        assert history["local_uses_per_batch"].drop_nulls().is_between(0, 2).all()
        assert (history["local_bubbles"] >= 0).all()
    assert "local_steps" not in train(svfl()).history.columns


def test_a_modelled_run_repeats_and_a_real_one_is_replayed() -> None:
    method = celu(3, 3, 0.2, cn.codecs.Scalar(4), cn.codecs.Scalar(6))
    wide = cn.Simulate(
        cn.Network(cn.Channel(bandwidth=1e6, latency=0.02)), cn.Modelled(otherwise=0.003)
    )
    once, again = (train(method, driver=wide) for _ in range(2))
    assert same(once, again)
    assert once.summary["seconds_virtual"] == again.summary["seconds_virtual"]
    real = train(method, driver=cn.Processes())
    assert real.record is not None
    assert same(train(method, driver=cn.Replay(real.record.trace)), real)
    measured = train(method, driver=cn.Simulate(cn.Network(cn.Channel(latency=0.02))))
    assert measured.record is not None
    assert same(train(method, driver=cn.Replay(measured.record.trace)), measured)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"capacity": 0}, "the capacity of a workset is a whole number, 1 or more, not 0"),
        ({"capacity": -3}, "the capacity of a workset is a whole number, 1 or more, not -3"),
        ({"reuses": -1}, "the reuses of a workset is a whole number, 0 or more, not -1"),
        ({"reuses": 2.5}, "reuses of .* is a whole number, not 2.5"),
        ({"min_cosine": 1.5}, "min_cosine is a cosine, from -1 to 1, or None, not 1.5"),
        ({"min_cosine": float("nan")}, "min_cosine is a cosine"),
        ({"min_cosine": 60}, "of 60 degrees it is 0.5"),
        ({"min_cosine": "0.5"}, "min_cosine of .* is a number or None, not '0.5'"),
        ({"min_cosine": True}, "min_cosine of .* is a number or None, not True"),
        ({"bursts": "no"}, "bursts of .* is True or False, not 'no'"),
    ],
)
def test_bad_values_are_refused(wrong: dict[str, Any], message: str) -> None:
    for make in (partial(cn.Workset), partial(celu)):
        with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
            make(**wrong)


def test_repeated_steps_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"Asynchronous does not: say Workset\(1, R, None\)"
    ):
        cn.Method("mine", exchange=cn.Asynchronous(), local_updates=cn.Consecutive(3))


def test_it_is_a_section_of_a_configuration() -> None:
    from colonnade.config import parse_config

    data = {"data": {"name": "mnist5k"}}
    named = parse_config({**data, "method": {"name": "celu", "reuses": 3, "min_cosine": None}}, "f")
    assert named.method.build().local_updates == cn.Workset(5, 3, None)
    composed = parse_config(
        {
            **data,
            "method": {
                "exchange": {"exchange": "asynchronous"},
                "local_updates": {"local_updates": "workset", "capacity": 3},
            },
        },
        "f",
    )
    method = composed.method.build()
    assert isinstance(method.exchange, cn.Asynchronous)
    assert method.local_updates == cn.Workset(3)
