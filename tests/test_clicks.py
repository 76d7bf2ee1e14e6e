"""Models of clicks: many categories in one table, with sparse gradients, in split training."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn

import colonnade as cn
from colonnade.agreement import Composition
from colonnade.assembly import Layers, WideAndDeepBottom
from colonnade.batches import BatchPlan
from colonnade.codecs import QSGD, Scalar
from colonnade.config import parse_config
from colonnade.errors import ConfigurationError, DataError
from colonnade.experiments.gradient import loss_and_gradient
from colonnade.method import Method
from colonnade.methods import celu, cvfl, efvfl, fedbcd, svfl
from colonnade.models import WideAndDeep, sparse_parameters, take
from colonnade.testing.methods import METHOD_CHECKS, MethodSubject

pytestmark = pytest.mark.usefixtures("no_pictures")

ADAGRAD = partial(torch.optim.Adagrad, lr=0.05)


def rows(count: int = 4, codes: tuple[int, ...] = (1, 3)) -> dict[str, Tensor]:
    numbers = torch.arange(float(count * 2)).reshape(count, 2)
    return {"numeric": numbers, "categorical": torch.tensor([codes] * count)}


# --- the model ------------------------------------------------------------------------------------


def test_it_is_what_one_computes_by_hand() -> None:
    bottom = WideAndDeep(1, [2, 3], [2, 1], embedding=1, wide=1)
    with torch.no_grad():
        bottom.embeddings.weight.copy_(torch.tensor([[1.0], [2.0], [10.0], [20.0], [30.0]]))
        bottom.wide_codes.weight.copy_(torch.tensor([[0.1], [0.2], [1.0], [2.0], [3.0]]))
        bottom.wide_numbers.weight.fill_(5.0)
        bottom.wide_numbers.bias.fill_(0.5)
        first, _, last = bottom.layers
        first.weight.copy_(torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, -1.0]]))
        first.bias.copy_(torch.tensor([0.0, 3.0]))
        last.weight.copy_(torch.tensor([[-1.0, 100.0]]))
        last.bias.fill_(1.0)
    x = {
        "numeric": torch.tensor([[4.0], [30.0]]),
        "categorical": torch.tensor([[1, 2], [0, 0]]),
    }
    # Row 0: 4 + 2 + 30 = 36 and max(0, 4 - 30 + 3) = 0; row 1: 30 + 1 + 10 = 41 and 30 - 10 + 3.
    deep = [1.0 - 36.0, 1.0 - 41.0 + 100.0 * 23.0]
    wide = [5.0 * 4.0 + 0.5 + 0.2 + 3.0, 5.0 * 30.0 + 0.5 + 0.1 + 1.0]
    torch.testing.assert_close(bottom(x), torch.tensor([deep, wide]).T)


def test_the_linear_model_starts_at_its_numbers_and_may_be_left_out() -> None:
    torch.manual_seed(0)
    both = WideAndDeep(2, [3, 5], [7, 4], wide=2)
    torch.manual_seed(0)
    deep = WideAndDeep(2, [3, 5], [7, 4], wide=0)
    assert both(rows()).shape == (4, 6)
    assert deep(rows()).shape == (4, 4)
    assert {name.split(".")[0] for name in deep.state_dict()} == {"embeddings", "layers"}
    assert not both.wide_codes.weight.any()
    numbers = WideAndDeep(2, [], [4])
    assert numbers({"numeric": torch.ones(3, 2)}).shape == (3, 5)
    codes = WideAndDeep(0, [3, 5], [4])
    assert codes({"categorical": torch.tensor([[0, 4]])}).shape == (1, 5)


def test_int32_codes_are_the_same_codes() -> None:
    bottom = WideAndDeep(2, [3, 5], [4])
    x = rows()
    narrow = x | {"categorical": x["categorical"].int()}
    assert torch.equal(bottom(narrow), bottom(x))
    assert bottom({name: values[:0] for name, values in x.items()}).shape == (0, 5)


def test_columns_do_not_share_codes() -> None:
    bottom = WideAndDeep(0, [3, 5], [4], sparse_gradients=True)
    bottom({"categorical": torch.tensor([[2, 0]])}).sum().backward()
    for table in (bottom.embeddings.weight, bottom.wide_codes.weight):
        gradient = table.grad
        assert gradient is not None
        assert gradient.is_sparse
        assert sorted(gradient._indices().flatten().tolist()) == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"numeric": -1}, "needs 0 or more numbers"),
        ({"cardinalities": [3, 0]}, r"cardinalities of 1 or more, not 2 and \[3, 0\]"),
        ({"numeric": 0, "cardinalities": []}, "needs a column"),
        ({"embedding": 0}, "embeddings must be 1 or more and .* not 0 and 1"),
        ({"wide": -1}, "wide outputs 0 or more, not 16 and -1"),
        ({"widths": []}, "needs layers"),
        ({"activation": "step", "widths": [4, 4]}, "activation 'step' is unknown"),
        ({"dropout": 1.0}, "dropout must be"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        WideAndDeep(**{"numeric": 2, "cardinalities": [3], "widths": [4], **arguments})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numeric": None}, "no 'numeric', for which the model has 2 columns"),
        ({"categorical": torch.zeros(4, 2)}, "'categorical' must be whole numbers"),
        ({"categorical": torch.zeros(4, 2).short()}, "whole numbers .* not int16"),
        (
            {"categorical": torch.tensor([[0, 0], [2, 5]])},
            "categorical column 1 has the code 5 in row 1 of the batch; expected 0 to 4",
        ),
        ({"categorical": torch.tensor([[0, 0], [3, 0]])}, "column 0 has the code 3 in row 1"),
        ({"categorical": torch.tensor([[0, -1]] * 4)}, "column 1 has the code -1 in row 0"),
    ],
)
def test_features_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    features = {name: x for name, x in (rows() | change).items() if x is not None}
    with pytest.raises(DataError, match=message):
        WideAndDeep(2, [3, 5], [4])(features)


# --- sparse gradients -----------------------------------------------------------------------------


def trained(sparse: bool, optimiser: Callable[..., torch.optim.Optimizer], steps: int) -> Any:
    torch.manual_seed(1)
    bottom = WideAndDeep(1, [40, 7], [6, 3], embedding=4, sparse_gradients=sparse)
    trainer = optimiser(bottom.parameters())
    generator = torch.Generator().manual_seed(2)
    first = {}
    for step in range(steps):
        codes = torch.randint(7, (32, 2), generator=generator) * torch.tensor([5, 1])
        x = {"numeric": torch.randn(32, 1, generator=generator), "categorical": codes}
        target = torch.randn(32, 4, generator=generator)
        trainer.zero_grad()
        (bottom(x) - target).square().mean().backward()
        if step == 0:
            first = {name: p.grad.clone() for name, p in bottom.named_parameters()}
        trainer.step()
    return bottom, trainer, first


@pytest.mark.parametrize(
    "optimiser", [ADAGRAD, partial(torch.optim.SGD, lr=0.1)], ids=["adagrad", "sgd"]
)
def test_sparse_gradients_are_the_dense_ones_and_train_the_same(optimiser: Any) -> None:
    """To the last ulp each, not to the bit: bags add, and Adagrad divides, in another order."""
    sparse, of_sparse, first = trained(True, optimiser, 1)
    dense, _, other = trained(False, optimiser, 1)
    for name, gradient in first.items():
        whole = gradient.to_dense() if gradient.is_sparse else gradient
        torch.testing.assert_close(whole, other[name], rtol=3e-7, atol=1e-9, msg=name)
        assert "wide" in name or torch.equal(whole, other[name]), name
    for (name, mine), expected in zip(sparse.named_parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=3e-7, atol=1e-9, msg=name)
    sparse, of_sparse, _ = trained(True, optimiser, 60)
    dense, of_dense, _ = trained(False, optimiser, 60)
    for (name, mine), expected in zip(sparse.named_parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5, msg=name)
    if optimiser is ADAGRAD:
        mine, expected = (
            trainer.state[bottom.embeddings.weight]["sum"]
            for bottom, trainer in ((sparse, of_sparse), (dense, of_dense))
        )
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-9)
        assert (mine == 0).all(1).sum() == 40 - 7  # codes that never came


def test_a_step_costs_what_the_batch_has() -> None:
    """In the same run, on the same machine: a table of a million rows, and 64 rows of a batch."""
    seconds = {}
    x = {"categorical": torch.randint(500_000, (64, 2))}
    for sparse in (True, False):
        bottom = WideAndDeep(0, [500_000] * 2, [4], embedding=8, sparse_gradients=sparse)
        trainer = ADAGRAD(bottom.parameters())
        taken = []
        for _ in range(4):
            start = time.process_time()
            bottom(x).sum().backward()
            trainer.step()
            trainer.zero_grad()
            taken.append(time.process_time() - start)
        seconds[sparse] = min(taken[1:])
    assert seconds[True] < seconds[False] / 5


TAKEN = {
    "adagrad": ADAGRAD,
    "sgd": partial(torch.optim.SGD, lr=0.1),
    "adagrad that decays": partial(torch.optim.Adagrad, lr=0.1, lr_decay=0.1),
}
REFUSED = {
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "RMSprop": torch.optim.RMSprop,
    "SparseAdam": torch.optim.SparseAdam,  # which does not take the layers' dense gradients
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "SGD with decay": partial(torch.optim.SGD, lr=0.1, weight_decay=0.1),
    "Adagrad with decay": partial(torch.optim.Adagrad, weight_decay=0.1),
}


@pytest.mark.parametrize("optimiser", TAKEN.values(), ids=TAKEN)
def test_optimisers_that_take_sparse_gradients(optimiser: Any) -> None:
    bottom = WideAndDeep(2, [3, 5], [4], sparse_gradients=True)
    cn.Party("bank", rows(), bottom, optimiser).learner()


@pytest.mark.parametrize(("name", "optimiser"), REFUSED.items(), ids=REFUSED)
def test_optimisers_that_do_not_are_refused_before_anything(name: str, optimiser: Any) -> None:
    bottom = WideAndDeep(2, [3, 5], [4], sparse_gradients=True)
    said = (
        f"the optimiser {name.split()[0]} of 'bank' does not take the sparse gradients .* take "
        "Adagrad or SGD, without momentum or weight decay, or .* sparse_gradients=False"
    )
    party = cn.Party("bank", rows(), bottom, optimiser)
    with pytest.raises(ConfigurationError, match=said):
        party.learner()
    insurer = cn.LabelHolder("insurer", torch.arange(4) % 2, nn.Linear(5, 2))
    with pytest.raises(ConfigurationError, match=said):
        cn.Federation([party], insurer)
    own = {"features": rows(), "bottom": bottom, "optimiser": optimiser}
    holder = cn.LabelHolder("bank", torch.arange(4) % 2, nn.Linear(8, 2), **own)
    with pytest.raises(ConfigurationError, match=said):
        cn.Federation([cn.Party("shop", torch.zeros(4, 3), nn.Linear(3, 3))], holder)
    with pytest.raises(ConfigurationError, match=said):
        holder.learners()
    if name != "SparseAdam":
        cn.Party("bank", rows(), WideAndDeep(2, [3, 5], [4]), optimiser).learner()


def test_an_optimiser_that_cannot_train_the_top_is_refused_before_training() -> None:
    class Top(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.EmbeddingBag(1, 2, sparse=True)

        def forward(self, x: Tensor) -> Tensor:
            looked_up: Tensor = self.table(torch.zeros(len(x), 1, dtype=torch.int64))
            return looked_up + x.sum(1, keepdim=True)

    party = cn.Party("shop", torch.zeros(4, 3), nn.Linear(3, 3))
    holder = cn.LabelHolder("bank", torch.arange(4) % 2, Top())
    with pytest.raises(ConfigurationError, match="the optimiser Adam of 'bank' does not take"):
        cn.Federation([party], holder).check(svfl())


def test_sparse_adam_takes_a_table_alone() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 2, sparse=True)

        def forward(self, codes: Tensor) -> Tensor:
            looked_up: Tensor = self.table(codes)
            return looked_up

    bag = Bag()
    assert sparse_parameters(bag) == [bag.table.weight]
    party = cn.Party("bank", torch.arange(20) % 5, bag, torch.optim.SparseAdam)
    holder = cn.LabelHolder("insurer", torch.arange(20) % 2, nn.Linear(2, 2))
    federation = cn.Federation([party], holder)
    assert cn.plan(federation, svfl(), cn.Training(batch_size=10)).memory["bank"].optimiser == 80
    federation.train(training=cn.Training(batch_size=10))


def test_a_frozen_table_has_no_gradients() -> None:
    bottom = WideAndDeep(2, [3, 5], [4], sparse_gradients=True)
    bottom.embeddings.requires_grad_(False)
    bottom.wide_codes.requires_grad_(False)
    assert sparse_parameters(bottom) == []
    cn.Party("bank", rows(), bottom).learner()  # by Adam


# --- in split training ----------------------------------------------------------------------------

ROWS, CODES = 90, {"ads": [4, 9, 60], "news": [3, 11]}


def made(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.random.manual_seed(seed)
        return make()


def clicks(
    method: Composition, holder_has_features: bool = True, sparse: bool = True, wide: int = 0
) -> cn.Federation:
    """Two parties with codes, one of them with numbers too, and a label holder with numbers."""
    generator = torch.Generator().manual_seed(3)

    def features(codes: list[int], numbers: int) -> dict[str, Tensor]:
        columns = [torch.randint(most, (ROWS,), generator=generator) for most in codes]
        found = {"categorical": torch.stack(columns, 1).int()} if codes else {}
        if numbers:
            found["numeric"] = torch.randn(ROWS, numbers, generator=generator)
        return found

    def bottom(seed: int, codes: list[int], numbers: int) -> nn.Module:
        make = partial(
            WideAndDeep, numbers, codes, [8, 4], "relu", 3, wide, 0.0, sparse_gradients=sparse
        )
        return made(seed, make)

    parties = [
        cn.Party(name, features(codes, i), bottom(i, codes, i), ADAGRAD)
        for i, (name, codes) in enumerate(CODES.items())
    ]
    widths = [4 + wide] * (2 + holder_has_features)
    holder = cn.LabelHolder(
        "holder",
        torch.randint(2, (ROWS,), generator=generator),
        made(9, lambda: nn.Linear(method.fusion.width(widths), 2)),
        features=features([], 2) if holder_has_features else None,
        bottom=bottom(7, [], 2) if holder_has_features else None,
        optimiser=ADAGRAD,
    )
    return cn.Federation(parties, holder, range(60), range(60, 75), None, range(75, ROWS))


FREE = cn.Simulate(costs=cn.Modelled(otherwise=0.0))


@pytest.mark.parametrize("holder_has_features", [True, False])
@pytest.mark.parametrize(
    ("fusion", "wide"), [(cn.Concat(), 1), (cn.Concat(), 0), (cn.DotProduct(), 0)], ids=str
)
def test_split_training_is_the_joined_models(
    fusion: Any, wide: int, holder_has_features: bool
) -> None:
    method = svfl(fusion=fusion)
    federation = clicks(method, holder_has_features, wide=wide)
    training = cn.Training(epochs=3, batch_size=16)
    run = federation.train(method, training, FREE)

    holder = federation.label_holder.as_party()
    members = [*federation.parties, *([holder] if holder else [])]
    bottoms = nn.ModuleList(copy.deepcopy(member.bottom) for member in members)
    top = copy.deepcopy(federation.label_holder.top)
    trainer = ADAGRAD([*bottoms.parameters(), *top.parameters()])
    batches = BatchPlan(np.arange(60), 16, 3, 0)
    assert batches.rounds == run.summary["rounds"] == 12
    for round in range(batches.rounds):
        batch = batches.rows(round)
        embeddings = [
            bottom(take(member.features, batch))
            for bottom, member in zip(bottoms, members, strict=True)
        ]
        labels = federation.label_holder.labels[torch.from_numpy(batch)]
        trainer.zero_grad()
        nn.functional.cross_entropy(top(fusion(embeddings)), labels).backward()
        trainer.step()
    mine = [run.models[member.name]["bottom"] for member in members] + [run.models["holder"]["top"]]
    for one, other in zip(mine, [*bottoms, top], strict=True):
        for value, expected in zip(one.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)


PROXIMAL = Method("proximal", cn.DotProduct(), local_updates=cn.Proximal(2, 4))
SUBJECTS = {
    "wide and deep": MethodSubject(svfl(), federation=partial(clicks, wide=1)),
    "celu, towers": MethodSubject(
        Method(
            "celu",
            cn.DotProduct(),
            cn.Plain(cn.ErrorFeedback(QSGD(15))),
            cn.Asynchronous(cn.Direct(Scalar(8))),
            cn.Workset(3, 3, 0.5),
        ),
        federation=clicks,
    ),
    "relay, towers": MethodSubject(
        cvfl(Scalar(4), 2, cn.DotProduct(), "shared"), federation=clicks
    ),
}


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_methods_train_sparse_tables(
    check: Callable[[MethodSubject], None], subject: MethodSubject
) -> None:
    check(subject)


@pytest.mark.parametrize(
    "method",
    [celu(capacity=3, reuses=3), fedbcd(3), fedbcd(2, labels="shared"), efvfl(QSGD(15)), PROXIMAL],
    ids=lambda method: method.name,
)
def test_dense_tables_train_alike(method: Method) -> None:
    """Not to the bit: Adagrad rounds in another order."""
    training = cn.Training(epochs=2, batch_size=16)
    driver = cn.Simulate(cn.Network(cn.Channel(latency=0.01)), cn.Modelled(otherwise=0.002))
    sparse, dense = (
        clicks(method, sparse=sparse).train(method, training, driver) for sparse in (True, False)
    )
    assert sparse.ledger.without_time() == dense.ledger.without_time()
    for name, parts in sparse.models.items():
        for part, module in parts.items():
            expected = dense.models[name][part].state_dict()
            for key, value in module.state_dict().items():
                torch.testing.assert_close(value, expected[key], rtol=1e-2, atol=1e-3)


def test_the_joined_gradient_is_that_of_dense_tables() -> None:
    method = svfl(fusion=cn.DotProduct())
    found = []
    for sparse in (True, False):
        federation = clicks(method, sparse=sparse)
        members = {party.name: {"bottom": party.bottom} for party in federation.parties}
        holder = federation.label_holder
        assert holder.bottom is not None
        models: Mapping[str, Any] = members | {
            "holder": {"bottom": holder.bottom, "top": holder.top}
        }
        found.append(loss_and_gradient(federation, method, models))
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[0]["gradient"] > 0


def test_a_plan_counts_tables_and_what_a_batch_touches() -> None:
    method, training = svfl(), cn.Training(epochs=2, batch_size=16)
    layers = 4 * (9 * 8 + 8 + 8 * 4 + 4)  # of "ads", whose three embeddings are 3 wide
    table = 4 * 3 * (4 + 9 + 60)
    memory = {
        sparse: cn.plan(clicks(method, sparse=sparse), method, training).memory["ads"]
        for sparse in (True, False)
    }
    assert memory[False].parameters == 2 * (layers + table)
    # A row of the gradient for each of 3 codes of 16 rows: three numbers, and where they belong.
    assert memory[True].parameters == 2 * layers + table + 16 * 3 * (3 * 4 + 8)
    for use in memory.values():
        assert use.optimiser == pytest.approx(layers + table, abs=64)  # and numbers of steps
        assert use.features == ROWS * 3 * 4


def test_a_trained_part_is_exported_as_a_program(tmp_path: Path) -> None:
    run = clicks(svfl(), wide=1).train(training=cn.Training(batch_size=16))
    run.export(tmp_path, programs=True)
    program = torch.export.load(tmp_path / "news" / "bottom.pt2").module()
    x = take(clicks(svfl()).parties[1].features, np.arange(7))
    bottom = run.models["news"]["bottom"].eval()
    torch.testing.assert_close(program(x), bottom(x))


# --- from descriptions ----------------------------------------------------------------------------


def test_a_bottom_has_to_know_the_categories() -> None:
    with pytest.raises(ConfigurationError, match="each of 2 columns has, and is told of 0"):
        WideAndDeepBottom().bottom(rows())
    with pytest.raises(ConfigurationError, match="mlp has to know how many categories each of 2"):
        Layers().bottom(rows())
    with pytest.raises(ConfigurationError, match=r"features by name, .* not float32 of shape"):
        WideAndDeepBottom().bottom(torch.zeros(4, 2))
    bottom = WideAndDeepBottom((5, 3), embedding=2, wide=0).bottom(rows(), [3, 5])
    assert isinstance(bottom, WideAndDeep)
    assert bottom(rows()).shape == (4, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    people = range(400)
    device = [f"model {(i * 7919) % 150}" for i in people]
    pl.DataFrame({"id": people, "device": device}).write_csv(tmp_path / "network.csv")
    shop = {"id": people, "shown": [(i * 31) % 17 for i in people]}
    pl.DataFrame(shop).write_csv(tmp_path / "shop.csv")
    clicked = [int(int(d.split()[1]) % 3 == 0) for d in device]
    pl.DataFrame({"id": people, "clicked": clicked}).write_csv(tmp_path / "labels.csv")
    return tmp_path


def described(folder: Path, **changes: Any) -> Any:
    features = {"features": {"output": "dict", "one_hot_up_to": 1000, "unseen": "zeros"}}
    data = {
        "name": "tables",
        "folder": str(folder),
        "id": "id",
        "parties": {
            "network": {"source": "network.csv"} | features,
            "shop": {"source": "shop.csv"} | features,
        },
        "labels": {"source": "labels.csv", "column": "clicked"},
    }
    bottom = {"model": "wide_and_deep", "widths": [8], "embedding": 4, "wide": 0}
    settings = {
        "data": data,
        "model": {"bottom": bottom | {"sparse_gradients": True}, "top": {"widths": []}},
        "optimiser": {"name": "adagrad", "lr": 0.1},
        "method": {"name": "celu", "fusion": "dot_product", "capacity": 3, "reuses": 2},
        "label_holder": {"holds": "shop"},
        "costs": {"kind": "modelled", "otherwise": 0.001},
        "training": {"epochs": 12, "batch_size": 32, "early_stopping": None},
    }
    return parse_config(settings | changes)


def test_a_file_describes_towers(folder: Path) -> None:
    config = described(folder)
    assert parse_config(config.as_dict()) == config
    federation = config.build_federation()
    bottom = federation.parties[0].bottom
    assert isinstance(bottom, WideAndDeep)
    assert len(sparse_parameters(bottom)) == 1
    assert federation.label_holder.top[0].in_features == 1
    assert config.plan(federation).memory["network"].parameters > 150 * 4 * 4
    run = config.train(federation=federation)
    assert run.summary["best"] > 0.9
    new = {"network": pl.DataFrame({"device": ["model 3"]}), "label_holder": None}
    new["label_holder"] = pl.DataFrame({"shown": [3]})
    assert run.predict(new).scores.shape == (1, 2)


def test_a_run_from_a_file_goes_on_to_the_same_bits(folder: Path) -> None:
    config = described(folder, training={"epochs": 4, "batch_size": 32, "early_stopping": None})
    whole = config.train()
    out = folder / "run"
    method, training = config.method.build(), config.training.build()
    federation = config.build_federation()
    federation.train(method, training, config.build_driver(), out=out, stop_before=17)
    rest = config.build_federation().train(
        method, training, config.build_driver(), out=out, resume=True
    )
    for name, parts in whole.models.items():
        for part, module in parts.items():
            for key, value in module.state_dict().items():
                assert torch.equal(value, rest.models[name][part].state_dict()[key]), (name, key)
    assert math.isfinite(rest.history["train_loss"][-1])


def test_a_file_whose_optimiser_does_not_fit_is_refused_before_training(folder: Path) -> None:
    config = described(folder, optimiser={"name": "adam"})
    with pytest.raises(ConfigurationError, match="the optimiser Adam of 'network' does not take"):
        config.build_federation()
    momentum = {"name": "sgd", "momentum": 0.9}
    with pytest.raises(ConfigurationError, match="the optimiser SGD of 'network' does not take"):
        described(folder, optimiser=momentum).build_federation()
