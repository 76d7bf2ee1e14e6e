"""The public interface: what is refused and in which words, and what a run leaves behind."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from torch import Tensor, nn

from colonnade.codecs import Codec, Scalar
from colonnade.drivers import Driver, Processes, Simulate
from colonnade.errors import CheckpointError, ConfigurationError, DataError, Diverged
from colonnade.federation import Federation
from colonnade.methods import svfl
from colonnade.metrics import ACCURACY, MACRO_F1, Metric, accuracy
from colonnade.models import Max, Mean, Sum
from colonnade.organisations import LabelHolder, Party
from colonnade.training import Training, Watcher

ROWS = 20
TRAINING = Training(epochs=2, batch_size=6)
SUMMARY = {
    "method",
    "metric",
    "best",
    "final",
    "rounds",
    "local_updates",
    "bytes_up",
    "bytes_down",
    "bytes_framed",
    "seconds_virtual",
    "seconds_cpu",
    "seconds_wall",
    "privacy",
    "warnings",
}
SEAL = {"format", "digests", "digest"}


def columns(count: int, seed: int = 0) -> Tensor:
    return torch.randn(ROWS, count, generator=torch.Generator().manual_seed(seed))


def linear(inputs: int, outputs: int) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(10 * inputs + outputs)
        return nn.Linear(inputs, outputs)


def federation(
    *,
    bank: Any = None,
    shop: Any = None,
    holder: Any = None,
    **settings: Any,
) -> Federation:
    """A bank with 3 columns, a shop with 2, an insurer with 3 classes; settings change a part."""
    parties = [
        Party(**({"name": "bank", "features": columns(3), "bottom": linear(3, 4)} | (bank or {}))),
        Party(**({"name": "shop", "features": columns(2), "bottom": linear(2, 4)} | (shop or {}))),
    ]
    labels = {"name": "insurer", "labels": torch.arange(ROWS) % 3, "top": linear(8, 3)}
    rows: dict[str, Any] = {"train_rows": range(14), "test_rows": range(14, ROWS)}
    return Federation(parties, LabelHolder(**(labels | (holder or {}))), **(rows | settings))


def with_value(values: Tensor, place: tuple[int, ...], value: float) -> Tensor:
    values = values.clone()
    values[place] = value
    return values


class Returns(nn.Module):
    """A model that returns whatever a function makes of its input."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


# What is refused

REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    # names
    "two parties of one name": (
        {"shop": {"name": "bank"}},
        ConfigurationError,
        "two organisations are called 'bank'",
    ),
    "a party called as the label holder": (
        {"holder": {"name": "bank"}},
        ConfigurationError,
        "two organisations are called 'bank'",
    ),
    **{
        f"a name {name!r}": (
            {"bank": {"name": name}},
            ConfigurationError,
            f"an organisation cannot be called {name!r}",
        )
        for name in ("a/b", "a\\b", "..", ".hidden", "", "a\0b")
    },
    # features
    "too few rows": (
        {"bank": {"features": columns(3)[:19]}},
        DataError,
        "'bank' has 19 rows of features, but there are 20 labels",
    ),
    "nan": (
        {"bank": {"features": with_value(columns(3), (7, 2), math.nan)}},
        DataError,
        "features of 'bank' hold nan in row 7, column 2; fill or drop missing values",
    ),
    "inf": (
        {"shop": {"features": with_value(columns(2), (0, 1), -math.inf)}},
        DataError,
        "features of 'shop' hold -inf in row 0, column 1",
    ),
    "nan in a named column": (
        {"bank": {"features": {"age": with_value(columns(1)[:, 0], (5,), math.nan)}}},
        DataError,
        "age of 'bank' hold nan in row 5; fill",
    ),
    "a named column too long": (
        {"bank": {"features": {"x": columns(3), "age": torch.zeros(21)}}},
        DataError,
        "'bank' has 21 rows of age, but there are 20 labels",
    ),
    "a numpy array": (
        {"bank": {"features": np.zeros((ROWS, 3), np.float32)}},
        DataError,
        "the features of 'bank' must be a tensor, or tensors by name, not a ndarray",
    ),
    "a numpy array by name": (
        {"bank": {"features": {"age": np.zeros(ROWS)}}},
        DataError,
        "age of 'bank' must be a tensor [rows, ...], not a ndarray",
    ),
    "a single number": (
        {"bank": {"features": torch.tensor(1.0)}},
        DataError,
        "features of 'bank' must be a tensor [rows, ...], not float32 of shape []",
    ),
    "nan of the label holder": (
        {"holder": {"features": with_value(columns(1), (3, 0), math.nan), "bottom": linear(1, 4)}},
        DataError,
        "features of 'insurer' hold nan in row 3, column 0",
    ),
    # labels
    "a label too high": (
        {"holder": {"labels": torch.arange(ROWS) % 4}},
        DataError,
        "the label of row 3 is 3, but the top model of 'insurer' has outputs for the classes 0 to ",
    ),
    "a negative label": (
        {"holder": {"labels": with_value(torch.arange(ROWS) % 3, (11,), -1)}},
        DataError,
        "the label of row 11 is -1",
    ),
    "a label too high for a loss of one's own": (
        {
            "holder": {
                "labels": with_value(torch.arange(ROWS) % 3, (12,), 7),
                "loss": nn.CrossEntropyLoss(),
            }
        },
        ConfigurationError,
        "of the rows 0 and 12: Target 7 is out of bounds",
    ),
    "no label": (
        {
            "bank": {"features": torch.zeros(0, 3)},
            "shop": {"features": torch.zeros(0, 2)},
            "holder": {"labels": torch.zeros(0, dtype=torch.int64)},
        },
        DataError,
        "the labels of 'insurer' must be a tensor with a row or more, not int64 of shape [0]",
    ),
    "labels as a list": (
        {"holder": {"labels": [0, 1] * 10}},
        DataError,
        "the labels of 'insurer' must be a tensor with a row or more, not a list",
    ),
    "a label that is nan": (
        {"holder": {"labels": with_value(torch.zeros(ROWS), (4,), math.nan)}},
        DataError,
        "labels of 'insurer' hold nan in row 4",
    ),
    "float labels with cross entropy": (
        {"holder": {"labels": torch.zeros(ROWS), "loss": nn.functional.cross_entropy}},
        ConfigurationError,
        "the loss of 'insurer' does not take predictions of shape [2, 3] and the labels, "
        "float32 of shape [20], of the rows 0 and 0: ",
    ),
    "numbers for a top of several outputs": (
        {"holder": {"labels": torch.zeros(ROWS)}},
        ConfigurationError,
        "the loss of 'insurer' does not take predictions of shape [2, 3] and the labels, "
        "float32 of shape [20], ",
    ),
    "32-bit classes": (
        {"holder": {"labels": torch.zeros(ROWS, dtype=torch.int32)}},
        DataError,
        "the labels of 'insurer' are int32 of shape [20], but a row's label is one class, int64",
    ),
    "a loss for each row": (
        {"holder": {"loss": partial(nn.functional.cross_entropy, reduction="none")}},
        ConfigurationError,
        "the loss of 'insurer' must return one number, the mean of a batch, but it returned "
        "float32 of shape [2]",
    ),
    # bottoms
    "a bottom for other features": (
        {"bank": {"bottom": linear(5, 4)}},
        ConfigurationError,
        "the bottom model of 'bank' does not take its features: mat1 and mat2 shapes cannot be "
        "multiplied (2x3 and 5x4)",
    ),
    "features of another precision": (
        {"bank": {"features": columns(3).double()}},
        ConfigurationError,
        "the bottom model of 'bank' does not take its features: mat1 and mat2 must have the same",
    ),
    "a bottom that flattens rows": (
        {"bank": {"bottom": nn.Flatten(0)}},
        ConfigurationError,
        "the bottom model of 'bank' must return embeddings of shape [rows, width], but for 2 rows "
        "it returned float32 of shape [6]",
    ),
    "a bottom that joins rows": (
        {"bank": {"bottom": Returns(lambda x: x.sum(0, keepdim=True))}},
        ConfigurationError,
        "but for 2 rows it returned float32 of shape [1, 3]",
    ),
    "a bottom that returns no tensor": (
        {"bank": {"bottom": Returns(lambda x: [x])}},
        ConfigurationError,
        "but for 2 rows it returned a list",
    ),
    "a bottom that wants names": (
        {"bank": {"bottom": Returns(lambda x: x["age"])}},
        ConfigurationError,
        "the bottom model of 'bank' does not take its features: ",
    ),
    "a bottom that wants another name": (
        {"bank": {"features": {"age": columns(1)}, "bottom": Returns(lambda x: x["income"])}},
        ConfigurationError,
        "the bottom model of 'bank' does not take its features: 'income'",
    ),
    "a bottom that is a function": (
        {"bank": {"bottom": lambda x: x}},
        ConfigurationError,
        "the bottom model of 'bank' must be a torch.nn.Module, not a function",
    ),
    # tops
    "a top of another width": (
        {"holder": {"top": linear(7, 3)}},
        ConfigurationError,
        "the top model of 'insurer' does not take fused embeddings of width 8 (bank: 4 + shop: 4)",
    ),
    "a top that joins rows": (
        {"holder": {"top": Returns(lambda x: x.sum(0))}},
        ConfigurationError,
        "the top model of 'insurer' must return predictions of shape [rows, ...], but for 2 rows "
        "it returned float32 of shape [8]",
    ),
    "a top that returns no tensor": (
        {"holder": {"top": Returns(lambda x: (x, x))}},
        ConfigurationError,
        "but for 2 rows it returned a tuple",
    ),
    "a top that is a function": (
        {"holder": {"top": lambda x: x}},
        ConfigurationError,
        "the top model of 'insurer' must be a torch.nn.Module, not a function",
    ),
    # the label holder's own columns
    "features without a bottom": (
        {"holder": {"features": columns(1)}},
        ConfigurationError,
        "label holder 'insurer' needs both features and a bottom model, or neither: it has no "
        "bottom",
    ),
    "a bottom without features": (
        {"holder": {"bottom": linear(1, 4)}},
        ConfigurationError,
        "it has no features",
    ),
    # rows
    "a row too high": (
        {"train_rows": [3, 20]},
        ConfigurationError,
        "train_rows must be row numbers from 0 to 19, the rows of the labels, "
        "but number 1 of them is 20",
    ),
    "a row below 0": (
        {"test_rows": [-1]},
        ConfigurationError,
        "test_rows must be row numbers from 0 to 19, the rows of the labels, but number 0 of them",
    ),
    "a mask": (
        {"train_rows": np.ones(ROWS, dtype=bool)},
        ConfigurationError,
        "train_rows must be whole numbers in one dimension, not bool of shape [20]; "
        "of a mask, take numpy.flatnonzero",
    ),
    "rows that are no whole numbers": (
        {"train_rows": [0.0, 1.5]},
        ConfigurationError,
        "train_rows must be whole numbers in one dimension, not float64 of shape [2]",
    ),
    "rows in a matrix": (
        {"train_rows": [[0, 1]]},
        ConfigurationError,
        "train_rows must be whole numbers in one dimension, not int64 of shape [1, 2]",
    ),
    "no row to train on": ({"train_rows": []}, ConfigurationError, "no row to train on"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_named_and_nothing_written(tmp_path: Path, case: str) -> None:
    changes, error, message = REFUSED[case]
    with pytest.raises(error, match=re.escape(message)) as caught:
        federation(**changes).train(training=TRAINING, out=tmp_path / "out")
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_federation_needs_a_party() -> None:
    holder = LabelHolder(
        "insurer", torch.arange(ROWS) % 3, linear(4, 3), None, columns(2), linear(2, 4)
    )
    with pytest.raises(ConfigurationError, match="needs a party besides the label holder"):
        Federation([], holder)


@pytest.mark.parametrize("fusion", [Sum(), Mean(), Max()], ids=lambda f: type(f).__name__.lower())
def test_embeddings_that_cannot_be_combined(tmp_path: Path, fusion: Any) -> None:
    unequal = federation(bank={"bottom": linear(3, 5)}, holder={"top": linear(4, 3)})
    name = type(fusion).__name__.lower()
    with pytest.raises(
        ConfigurationError, match=f"fusion {name} needs embeddings of equal width, but .* 5, 4 wide"
    ):
        unequal.train(svfl(fusion=fusion), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number, 1 or more, not 0"),
        ({"epochs": 1.5}, "epochs of Training is a whole number or 'auto', not 1.5"),
        ({"epochs": None}, "epochs of Training is a whole number or 'auto', not None"),
        ({"batch_size": -1}, "batch_size must be a whole number, 1 or more, not -1"),
        ({"epochs": 10**20}, r"epochs must be a whole number below 2\^63, not 10{20}$"),
        ({"evaluate_every": 2**63}, r"evaluate_every must be a whole number below 2\^63, not 92"),
        ({"batch_size": 10**5000}, r"batch_size must be a whole number below 2\^63"),
        ({"threads": 10**20}, "threads are 1024 at most, not 10{20}$"),
        ({"threads": 0}, "threads must be"),
        ({"threads": 10**6}, "threads are 1024 at most, not 1000000"),
        ({"evaluation_rows": 0}, "evaluation_rows must be"),
        ({"evaluate_every": 0}, "evaluate_every must be"),
        ({"checkpoint_every": "often"}, "checkpoint_every of .*, not 'often'"),
        (
            {"seed": 2**63},
            r"the seed must be a whole number from -2\^63 to 2\^63 - 1, not 9223372036854775808",
        ),
        ({"seed": 0.5}, "seed of Training is a whole number, not 0.5"),
    ],
)
def test_training_settings_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Training(**settings)


WRONG_KINDS = {
    "parties is a list, each Party(name, features, bottom), not None": {"parties": None},
    "parties is a list, each Party(name, features, bottom), not ['a']": {"parties": ["a"]},
    "parties is a list, each Party(name, features, bottom), not {'a': 1}": {"parties": {"a": 1}},
    "label_holder is LabelHolder(name, labels, top), not 'r'": {"label_holder": "r"},
    "label_holder is LabelHolder(name, labels, top), not None": {"label_holder": None},
    "people is a dict from a text to anything or None, not 3": {"people": 3},
    "warnings is a list, each a text, not None": {"warnings": None},
    "warnings is a list, each a text, not 'x'": {"warnings": "x"},
    "classes is a list or None, not 3": {"classes": 3},
    "classes is a list or None, not 'x'": {"classes": "x"},
    "classes has 0 more than once": {"classes": [0, 0, 1]},
    "metrics must be a list of metrics, not array": {"metrics": np.array([[0, 1]])},
}


@pytest.mark.parametrize("said", WRONG_KINDS)
def test_what_is_of_another_kind_is_refused_before_anything_starts(said: str) -> None:
    whole = federation()
    given: dict[str, Any] = {"parties": whole.parties, "label_holder": whole.label_holder}
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        Federation(**(given | WRONG_KINDS[said]))


def test_classes_are_plain_values_however_they_are_given(tmp_path: Path) -> None:
    for kind in (np.array, torch.tensor, lambda plain: [*np.array(plain)]):
        run = federation(classes=kind([3, 7, 9])).train(out=tmp_path / kind.__name__)
        assert run.summary["classes"] == [3, 7, 9]
    with pytest.raises(ConfigurationError, match=r"classes has \{1\}: a class"):
        federation(classes=[{1}, 2, 3])


def test_there_are_as_many_classes_as_the_top_model_has_outputs(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"classes has 1000 names, but .* for 3 classes"):
        federation(classes=range(1000)).train(out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("who", "brought", "message"),
    [
        ("bank", {"secrets": "x"}, r"secrets of 'bank' is Secrets.* or None, not 'x'"),
        ("bank", {"transformer": 3}, "the transformer of 'bank' is a fitted one, with .* not 3"),
        ("bank", {"device": 10**30}, "the models of 'bank' cannot compute on '10000"),
        ("bank", {"device": "meta"}, "the models of 'bank' cannot compute on 'meta': .* no data"),
        ("holder", {"device": "hpu"}, "the models of 'insurer' cannot compute on 'hpu': "),
        ("holder", {"secrets": 1}, "secrets of 'insurer' is"),
        ("holder", {"transformer": "x"}, "the transformer of 'insurer' is a fitted one"),
        ("holder", {"learned": "x"}, "learned of 'insurer' is a dict"),
    ],
)
def test_what_an_organisation_brings_is_looked_at(
    who: str, brought: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        federation(**{who: brought})


# What is accepted


def test_one_row_is_enough() -> None:
    run = Federation(
        [Party("bank", torch.ones(1, 3), linear(3, 4))],
        LabelHolder("insurer", torch.tensor([2]), linear(4, 3)),
    ).train()
    assert run.summary["rounds"] == 1


def test_rows_are_copied() -> None:
    rows = np.arange(5)
    made = federation(train_rows=rows)
    rows[:] = 19
    assert made.train_rows.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("rows", [range(3), [0, 1, 2], np.arange(3, dtype=np.uint8), (0, 1, 2)])
def test_row_numbers_may_come_in_any_form(rows: Any) -> None:
    made = federation(train_rows=rows)
    assert made.train_rows.dtype == np.int64
    assert made.train_rows.tolist() == [0, 1, 2]


class Table(nn.Module):
    """A bottom for columns by name."""

    def __init__(self) -> None:
        super().__init__()
        self.shop = nn.Embedding(5, 2)
        self.linear = linear(4, 4)

    def forward(self, x: dict[str, Tensor]) -> Tensor:
        joined: Tensor = self.linear(torch.cat([self.shop(x["shop"]), x["prices"]], 1))
        return joined


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda d: d.label)
def test_columns_by_name(driver: Driver) -> None:
    features = {"shop": torch.arange(ROWS) % 5, "prices": columns(2)}
    made = federation(bank={"features": features, "bottom": Table()})
    run = made.train(training=TRAINING, driver=driver)
    assert run.summary["completed"]
    trained = run.models["bank"]["bottom"].state_dict()
    start = made.parties[0].bottom.state_dict()
    assert not torch.equal(trained["shop.weight"], start["shop.weight"])


def regression(outputs: Callable[[Tensor], Tensor], labels: Tensor, **settings: Any) -> Federation:
    torch.manual_seed(3)
    top = nn.Sequential(linear(4, 1), Returns(outputs))
    sgd = partial(torch.optim.SGD, lr=0.1)
    holder = LabelHolder("insurer", labels, top, optimiser=sgd, **settings)
    party = Party("bank", columns(3), linear(3, 4), sgd)
    return Federation([party], holder, train_rows=range(14), test_rows=range(14, ROWS))


@pytest.mark.parametrize("shape", [(ROWS,), (ROWS, 1)], ids=["[N]", "[N, 1]"])
@pytest.mark.parametrize("flat", [True, False])
def test_numbers_are_predicted_by_least_squares(shape: tuple[int, ...], flat: bool) -> None:
    """Whether predictions and labels are [N] or [N, 1]: row is compared with row."""
    labels = columns(3) @ torch.tensor([1.0, -2.0, 0.5])
    made = regression((lambda x: x[:, 0]) if flat else (lambda x: x), labels.reshape(shape))
    run = made.train(training=Training(epochs=200, batch_size=14))
    assert run.summary["metric"] == "test_rmse"
    assert run.summary["best"] == min(run.history["test_rmse"])
    assert run.summary["final"] < 0.05 < run.history["test_rmse"][0]
    assert run.history["train_loss"][-1] < 1e-3


def test_a_loss_of_ones_own() -> None:
    labels = columns(3) @ torch.tensor([1.0, -2.0, 0.5])

    def absolute(predictions: Tensor, labels: Tensor) -> Tensor:
        return (predictions[:, 0] - labels).abs().mean()

    made = regression(lambda x: x, labels, loss=absolute)
    run = made.train(training=Training(batch_size=14))
    with torch.no_grad():
        predictions = made.label_holder.top(made.parties[0].bottom(columns(3)[:14]))
    expected = float(absolute(predictions, labels[:14]))
    assert run.history["train_loss"][0] == pytest.approx(expected, rel=1e-5)


def test_the_first_metric_decides() -> None:
    run = federation(metrics=[MACRO_F1, ACCURACY]).train(training=TRAINING)
    assert run.summary["metric"] == "test_macro_f1"
    assert {"test_macro_f1", "test_accuracy"} <= set(run.history.columns)
    assert run.summary["best"] == max(run.history["test_macro_f1"])


# Training leaves the federation as it was


def test_what_was_passed_in_is_not_changed() -> None:
    made = federation(holder={"features": columns(1), "bottom": linear(1, 4), "top": linear(12, 3)})
    holder = made.label_holder
    assert holder.bottom is not None
    modules = [*(party.bottom for party in made.parties), holder.top, holder.bottom]
    before = [{k: v.clone() for k, v in m.state_dict().items()} for m in modules]
    modes = [module.training for module in modules]
    run = made.train(training=TRAINING)
    for module, state in zip(modules, before, strict=True):
        for key, value in module.state_dict().items():
            assert torch.equal(value, state[key])
        assert all(parameter.grad is None for parameter in module.parameters())
    assert [module.training for module in modules] == modes
    assert not torch.equal(run.models["bank"]["bottom"].weight, before[0]["weight"])  # type: ignore[arg-type]
    assert not torch.equal(run.models["insurer"]["bottom"].weight, before[-1]["weight"])  # type: ignore[arg-type]


def test_a_federation_can_be_trained_again_from_the_same_start() -> None:
    made = federation()
    one = made.train(svfl(Scalar(3)), TRAINING)
    made.train(training=TRAINING)  # another run in between leaves no trace
    other = made.train(svfl(Scalar(3)), TRAINING)
    for name, parts in one.models.items():
        for part, module in parts.items():
            for key, value in module.state_dict().items():
                assert torch.equal(value, other.models[name][part].state_dict()[key])
    assert one.history.drop("seconds").equals(other.history.drop("seconds"))
    assert one.ledger.without_time() == other.ledger.without_time()


def test_training_leaves_torchs_threads_alone() -> None:
    before = torch.get_num_threads()
    federation().train(training=Training(threads=before + 1))
    assert torch.get_num_threads() == before


# The summary and the folder


def strict(text: str) -> Any:
    """Read JSON as the standard has it, without NaN and Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda d: d.label)
def test_a_run_leaves_a_folder(tmp_path: Path, driver: Driver) -> None:
    out = tmp_path / "some" / "where"
    run = federation().train(svfl(Scalar(2)), TRAINING, driver, out=out)
    assert run.folder == out
    assert {path.name for path in out.iterdir()} == {
        "checkpoint",
        "config.yaml",
        "departures",
        "history.csv",
        "journal",
        "ledger.csv",
        "parts",
        "report.html",
        "run.png",
        "summary.json",
    }
    summary = strict((out / "summary.json").read_text(encoding="utf-8"))
    assert {name: summary[name] for name in summary if name not in SEAL} == run.summary
    assert set(summary) >= SUMMARY
    assert (summary["method"], summary["metric"]) == ("svfl", "test_accuracy")
    assert (summary["rounds"], summary["completed"]) == (6, True)
    assert set(summary["local_updates"].values()) == {0}
    assert summary["warnings"]
    assert {"mechanism", "labels", "embeddings", "alignment"} <= set(summary["privacy"])
    assert (summary["seconds_virtual"] is None) == isinstance(driver, Processes)
    assert (out / "run.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")

    history = pl.read_csv(out / "history.csv")
    assert history.columns == run.history.columns
    assert history.rows() == run.history.rows()
    assert history["round"].to_list() == [3, 6]
    assert history["epoch"].to_list() == [1, 2]
    assert history["bytes_up"][-1] == summary["bytes_up"]
    assert history["bytes_down"][-1] == summary["bytes_down"]
    assert summary["final"] == history["test_accuracy"][-1]
    assert summary["best"] == max(history["test_accuracy"])

    ledger = pl.read_csv(out / "ledger.csv")
    frame = run.ledger.frame()
    assert ledger.drop("seconds").equals(frame.drop("nanoseconds"))
    assert ledger["framed_bytes"].sum() == summary["bytes_framed"]
    up = ledger.filter((pl.col("purpose") == "training") & (pl.col("receiver") == "insurer"))
    assert up["body_bytes"].sum() == summary["bytes_up"]
    down = ledger.filter(pl.col("sender") == "insurer")
    assert down["body_bytes"].sum() == summary["bytes_down"]
    held_out = ledger.filter(pl.col("purpose") == "evaluation")
    assert held_out["body_bytes"].sum() == summary["bytes_evaluation"]
    assert len(ledger) == summary["messages"]
    assert isinstance(yaml.safe_load((out / "config.yaml").read_text(encoding="utf-8")), dict)


def test_a_run_without_test_rows_has_no_score(tmp_path: Path) -> None:
    run = federation(test_rows=None).train(training=TRAINING, out=tmp_path / "run")
    summary = strict((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert (summary["best"], summary["final"], summary["bytes_evaluation"]) == (None, None, 0)
    assert "not evaluated" in repr(run)


@pytest.mark.parametrize("greater_is_better", [True, False])
@pytest.mark.parametrize(
    ("values", "best", "final"),
    [
        ([0.5, math.nan, 0.5], 0.5, 0.5),
        ([math.nan, 0.25, math.nan], 0.25, None),
        ([0.25, 0.25, math.inf], 0.25, None),
        ([math.nan, math.nan, math.nan], None, None),
    ],
)
def test_a_summary_is_json_even_if_a_metric_is_no_number(
    tmp_path: Path,
    values: list[float],
    best: float | None,
    final: float | None,
    greater_is_better: bool,
) -> None:
    remaining = iter([0.0, *values])  # one before training, to see whether it can be computed
    metric = Metric("strange", greater_is_better, lambda outputs, labels: next(remaining))
    made = federation(metrics=[metric])
    run = made.train(training=Training(epochs=3, batch_size=6), out=tmp_path / "run")
    summary = strict((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert (summary["best"], summary["final"]) == (best, final)
    assert (run.summary["best"], run.summary["final"]) == (best, final)
    history = run.history["test_strange"].to_list()
    assert [str(value) for value in history] == [str(value) for value in values]


def test_a_folder_that_holds_a_run_is_left_alone(tmp_path: Path) -> None:
    made = federation()
    made.train(training=TRAINING, out=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(
        ConfigurationError, match=r"already holds a run \(config\.yaml, .*; resume it, or choose"
    ):
        made.train(training=TRAINING, out=tmp_path)
    with pytest.raises(CheckpointError, match="another configuration"):
        made.train(training=Training(epochs=3, batch_size=6), out=tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="another configuration"):
        made.train(svfl(Scalar(4)), TRAINING, out=tmp_path, resume=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.yaml", "holds no run, but config.yaml, which a run would write over"),
        ("checkpoint", "holds no run, but checkpoint, which a run would write over"),
        ("history.csv", "holds no run, but history.csv, which a run would write over"),
        ("journal", "holds no run, but journal, which a run would write over"),
    ],
)
def test_any_part_of_a_run_protects_a_folder(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigurationError, match=message):
        federation().train(training=TRAINING, out=tmp_path)


def test_a_folder_with_other_things_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    federation().train(training=TRAINING, out=str(tmp_path))
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("resume", [False, True])
def test_a_file_is_no_folder(tmp_path: Path, inside: bool, resume: bool) -> None:
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    out = file / "run" if inside else file
    with pytest.raises(
        ConfigurationError, match=f"the folder {re.escape(str(out))} cannot be written: "
    ):
        federation().train(training=TRAINING, out=out, resume=resume)
    assert file.read_text(encoding="utf-8") == "mine"


def test_resuming_what_never_began_starts(tmp_path: Path) -> None:
    run = federation().train(training=TRAINING, out=tmp_path / "run", resume=True)
    assert run.summary["completed"]


def test_resuming_what_is_finished_gives_the_same_again(tmp_path: Path) -> None:
    made = federation()
    first = made.train(training=TRAINING, out=tmp_path)
    begun: list[tuple[int, int]] = []
    again = made.train(
        training=TRAINING,
        out=tmp_path,
        resume=True,
        watcher=Watcher(on_begin=lambda *rounds: begun.append(rounds)),
    )
    assert begun == [(6, 6)]
    assert again.history.equals(first.history)
    assert again.ledger.frame().equals(first.ledger.frame())


def test_a_watcher_hears_everything() -> None:
    heard: list[Any] = []
    federation().train(
        training=TRAINING,
        watcher=Watcher(
            on_begin=lambda first, last: heard.append(("begin", first, last)),
            on_round=lambda role, round, sent_bytes: heard.append((role, round)),
            on_report=lambda values: heard.append(values["round"]),
        ),
    )
    assert heard[0] == ("begin", 0, 6)
    for role in ("bank", "shop", "insurer"):
        rounds = [item[1] for item in heard if isinstance(item, tuple) and item[0] == role]
        assert rounds == [0, 1, 2, 3, 4, 5, 6]
    assert [item for item in heard if isinstance(item, int)] == [3, 6]


# Divergence

_CANNOT = (
    r"in round 1: component \d of row \d is -?(nan|inf), which cannot be encoded; training has "
    "diverged, try a smaller learning rate"
)


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda d: d.label)
@pytest.mark.parametrize(
    ("codec", "rate", "message"),
    [
        (None, 1e30, f"at bank, {_CANNOT}"),
        (Scalar(4), 1e30, f"at bank, {_CANNOT}"),
        (None, 0.0, r"at insurer, in round 1: the loss is (nan|inf); try a smaller learning rate"),
    ],
    ids=["float32", "scalar", "top"],
)
def test_training_that_diverges_says_where_and_when_it_did(
    tmp_path: Path, driver: Driver, codec: Codec | None, rate: float, message: str
) -> None:
    wild = partial(torch.optim.SGD, lr=1e30)
    # Two layers: after one step their product is beyond float32.
    bottom, own = nn.Sequential(linear(3, 4), linear(4, 4)), partial(torch.optim.SGD, lr=rate)
    party, method = Party("bank", columns(3), bottom, own), svfl(codec)
    holder = LabelHolder("insurer", columns(1)[:, 0], linear(4, 1), optimiser=wild)
    with pytest.raises(Diverged, match=f"^{message}"):
        Federation([party], holder).train(
            method, Training(epochs=20, batch_size=5), driver, out=tmp_path / "run"
        )


def test_a_run_does_not_go_on_with_other_data(tmp_path: Path) -> None:
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    rows = range(15)

    def train(x: Tensor, y: Tensor, rows: range, resume: bool = True) -> None:
        party = Party("bank", x, seeded_linear(3, 2))
        holder = LabelHolder("insurer", y, seeded_linear(2, 2))
        Federation([party], holder, train_rows=rows).train(out=tmp_path / "run", resume=resume)

    def seeded_linear(inputs: int, outputs: int) -> nn.Linear:
        torch.manual_seed(0)
        return nn.Linear(inputs, outputs)

    train(x, y, rows, resume=False)
    train(x, y, rows)
    for other in ((x + 1e-6, y, rows), (x, 1 - y, rows), (x, y, range(1, 16))):
        with pytest.raises(CheckpointError, match="another configuration"):
            train(*other)


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        ([accuracy], r"the function 'accuracy' is no metric: say colonnade\.metrics\.ACCURACY"),
        ([ACCURACY, "auc"], r"'auc' is no metric: say colonnade\.metrics\.AUC"),
        ([partial(accuracy)], r"is no metric: give what colonnade\.metrics has, such as ACCURACY"),
        (ACCURACY, "metrics must be a list of metrics, not Metric"),
        (5, "metrics must be a list of metrics, not 5"),
    ],
)
def test_what_is_no_metric_is_refused_before_anything_starts(metrics: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        federation(metrics=metrics)
