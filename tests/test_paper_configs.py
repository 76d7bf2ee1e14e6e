"""The papers' experiments as configurations: each trains, on tiny files of the official format."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from colonnade import cli
from colonnade.config import json_schema, load_config, parse_config
from colonnade.datasets import CATALOGUE
from colonnade.errors import ConfigurationError, DataError
from colonnade.models import Cnn, Lstm, Mvcnn, Polynomial, ResNet18
from test_image_datasets import (
    LAYOUTS,
    cifar10_files,
    cifar100_files,
    put,
    write_emnist,
    write_imagenet,
    write_modelnet,
)
from test_mimic import NOTHING, write_csv, write_task
from test_undivided_datasets import write_caltech, write_speech

PAPERS = sorted((Path(__file__).parent.parent / "examples" / "papers").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLONNADE_DATA", raising=False)


# --- tiny files of the official formats -------------------------------------------------------


def write_mimic(folder: Path, rows: int = 10) -> None:
    """Write stays that died the more likely, the faster their hearts beat."""
    stays = {
        f"{number}.csv": (number % 2, [("1.5", {"Heart Rate": str(60 + 50 * (number % 2))})])
        for number in range(rows)
    }
    write_task(folder / "in-hospital-mortality", stays, {"a.csv": (1, NOTHING), **stays})


WRITE: dict[str, Callable[[Path], object]] = {
    "cifar10": lambda folder: put(folder, cifar10_files()),
    "cifar100": lambda folder: put(folder, cifar100_files()),
    "modelnet10": lambda folder: write_modelnet(folder, LAYOUTS["no folder"]),
    "imagenet": lambda folder: write_imagenet(folder, classes=5),
    "mimic3_mortality": write_mimic,
    "emnist": lambda folder: write_emnist(folder, "balanced", [*range(20)], size=28),
    "caltech7": write_caltech,
    "parkinson": write_speech,
}

SMALL = {
    "cifar10": ["model.bottom.width=2"],
    "cifar100": ["model.bottom.width=2"],
    "modelnet10": ["data.size=16", "model.bottom.outputs=4", "model.bottom.grid=1"],
    "imagenet": ["data.classes=5", "data.size=16", "model.bottom.width=2"],
    "mimic3_mortality": ["model.bottom.hidden=4"],
    "emnist": ["model.bottom.width=4", "method.segments=1"],
    "caltech7": ["model.bottom.width=4"],
    "parkinson": ["model.bottom.width=4", "method.segments=1"],
}


def small(name: str, folder: Path) -> list[str]:
    """Return overrides that make little work of a configuration, on tiny files in a folder."""
    WRITE[name](folder)
    return [
        *SMALL[name],
        *(f"data.folder={folder}", "training.epochs=1", "training.batch_size=6"),
        *("data.train_rows=9", "data.test_rows=2"),
    ]


# --- the configurations -----------------------------------------------------------------------


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_a_papers_experiment_trains(path: Path, tmp_path: Path) -> None:
    config = load_config(path, small(load_config(path).data.name, tmp_path))
    federation = config.build_federation()
    before = federation.parties[0].bottom.state_dict()
    before = {key: value.clone() for key, value in before.items()}
    run = config.train(federation=federation)
    assert run.summary["rounds"] == 2
    assert run.summary["method"] == config.method.name
    assert all(map(math.isfinite, run.history["train_loss"].to_list()))
    after = run.models[federation.parties[0].name]["bottom"].state_dict()
    assert any(not torch.equal(value, before[key]) for key, value in after.items())


def variations(path: Path) -> list[list[str]]:
    """Return what a configuration's comment says can be set, line by line."""
    found: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"#(   |     )((?:'[^']*'|[a-z_.0-9]+=\S+)(?: \S+)*)(?:  .*)?", line)
        if match and "=" in match[2]:
            settings = shlex.split(match[2])
            if match[1] == "     ":
                found[-1] += settings
            else:
                found.append(settings)
    return found


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_what_can_be_varied_is_a_configuration_too(path: Path) -> None:
    written = load_config(path)
    found = variations(path)
    assert len(found) >= 4
    for settings in found:
        assert load_config(path, settings) != written, settings


def test_an_experiment_runs_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(path for path in PAPERS if path.stem == "efvfl-cifar100")
    settings = small("cifar100", tmp_path / "data")
    command = ["colonnade", "run", str(path), "--quiet", "--out", str(tmp_path / "run")]
    monkeypatch.setattr("sys.argv", [*command, *(x for s in settings for x in ("--set", s))])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code, capsys.readouterr()
    assert (tmp_path / "run" / "report.html").exists()


def test_private_labels_and_direct_compression_train_as_well(tmp_path: Path) -> None:
    path = next(path for path in PAPERS if path.stem == "efvfl-cifar100")
    settings = small("cifar100", tmp_path)
    for more in (["method.labels=private"], ["method.name=cvfl", "method.top=float"]):
        run = load_config(path, [*settings, *more]).train()
        assert math.isfinite(run.history["train_loss"][-1])


# --- sections of data -------------------------------------------------------------------------

DATA: list[dict[str, Any]] = [
    {"name": "emnist", "split": "letters", "partition": "strips", "parties": 6},
    {"name": "cifar10", "normalise": [0.5, 0.25], "validation": 0.1},
    {"name": "cifar100", "labels": "coarse", "normalise": [[0.1, 0.2, 0.3], 1]},
    {"name": "modelnet10", "parties": 12, "size": 32, "channels": 1, "normalise": [[0.5], [0.5]]},
    {"name": "imagenet", "classes": ["n1", "n2"], "size": 8},
    {"name": "imagenet", "classes": 10},
    {"name": "mimic3_mortality", "parties": 2, "standardise": False, "test_rows": 5},
    {"name": "mnist", "partition": "strips", "parties": 28, "flatten": False},
    {"name": "handwritten", "scale": "unit", "test": 0.4, "train_rows": 5},
    {"name": "caltech7", "scale": "none", "test": 0.5},
    {"name": "parkinson", "scale": "unit", "test": 0.5, "parties": 3},
    {"name": "credit_default", "scale": "unit", "parties": 11},
]


@pytest.mark.parametrize("section", [*DATA, *({"name": name} for name in WRITE)], ids=str)
def test_a_section_of_data_comes_back_whole(section: dict[str, Any]) -> None:
    config = parse_config({"data": section})
    assert parse_config(config.as_dict()) == config
    assert parse_config(yaml.safe_load(yaml.safe_dump(config.as_dict()))) == config
    assert config.data.name == section["name"]


def test_every_public_data_set_is_a_section() -> None:
    needed = {"openml": {"dataset": "x", "parties": {"a": ["b"]}}}
    for name in CATALOGUE:
        assert parse_config({"data": {"name": name} | needed.get(name, {})}).data.name == name
    assert str(json_schema()).count("mimic3_mortality") >= 1


@pytest.mark.parametrize("name", WRITE)
def test_a_section_of_data_loads(name: str, tmp_path: Path) -> None:
    WRITE[name](tmp_path)
    more = {"imagenet": {"classes": 5, "size": 8}, "modelnet10": {"size": 8}}.get(name, {})
    section = {"name": name, "folder": str(tmp_path), "train_rows": 8, "test_rows": 2}
    data = parse_config({"data": section | more | {"validation": 0.25}}).data.load()
    assert [len(rows) for rows in (data.train, data.validation, data.test)] == [6, 2, 2]
    shapes = {"modelnet10": 5, "mimic3_mortality": 3, "caltech7": 2, "parkinson": 2}
    assert {x.dim() for x in data.features.values()} == {shapes.get(name, 4)}


def test_options_reach_the_loaders(tmp_path: Path) -> None:
    write_emnist(tmp_path, "letters", [1, 26, 2, 3])
    section = {"name": "emnist", "folder": str(tmp_path), "split": "letters"}
    data = parse_config({"data": section | {"partition": "strips", "parties": 6}}).data.load()
    assert (data.classes, data.features["party_6"].shape) == (26, (4, 1, 6, 1))

    put(tmp_path, cifar100_files())
    section = {"name": "cifar100", "folder": str(tmp_path), "labels": "coarse"}
    plain = parse_config({"data": section}).data.load()
    assert plain.classes == 20
    levels = [[0.1, 0.2, 0.3], [1.0, 2.0, 4.0]]
    scaled = parse_config({"data": section | {"normalise": levels}}).data.load()
    mean, deviation = (torch.tensor(each).reshape(3, 1, 1) for each in levels)
    for party, pixels in plain.features.items():
        torch.testing.assert_close(scaled.features[party], (pixels - mean) / deviation)

    write_modelnet(tmp_path, LAYOUTS["no folder"])
    section = {"name": "modelnet10", "folder": str(tmp_path), "parties": 6, "size": 5}
    data = parse_config({"data": section | {"channels": 1}}).data.load()
    assert data.features["party_6"].shape == (20, 2, 1, 5, 5)

    write_imagenet(tmp_path)
    section = {"name": "imagenet", "folder": str(tmp_path), "size": 6}
    data = parse_config({"data": section | {"classes": ["n00000003", "n00000001"]}}).data.load()
    assert (data.classes, data.features["party_1"].shape) == (2, (6, 3, 3, 3))

    write_mimic(tmp_path)
    section = {"name": "mimic3_mortality", "folder": str(tmp_path), "parties": 2}
    data = parse_config({"data": section | {"standardise": False}}).data.load()
    assert data.features["party_1"].shape == (21, 48, 38)
    assert data.features["party_2"].max() == 170


def test_rows_for_validation_are_not_set_aside_twice(tmp_path: Path) -> None:
    write_mimic(tmp_path)
    task = tmp_path / "in-hospital-mortality"
    write_csv(task / "val_listfile.csv", ["stay", "y_true"], [["1.csv", "1"], ["4.csv", "0"]])
    section = {"name": "mimic3_mortality", "folder": str(tmp_path)}
    assert parse_config({"data": section}).data.load().validation.tolist() == [1, 4]
    with pytest.raises(
        ConfigurationError, match=r"^data\.validation: .* has 2 rows for validation"
    ):
        parse_config({"data": section | {"validation": 0.5}}).data.load()


# --- sections of models -----------------------------------------------------------------------

BOTTOMS: list[Any] = [
    {"model": "resnet18", "outputs": 7, "width": 2},
    {"model": "resnet18", "outputs": 7, "width": 2, "norm": "group"},
    {"model": "mvcnn", "outputs": 7, "grid": 2},
    {"model": "lstm", "hidden": 3, "outputs": 7, "layers": 2, "dropout": 0.5},
    {"model": "lstm", "hidden": 7},
    {"model": "mlp", "widths": [7], "activation": "tanh"},
    {"model": "polynomial", "width": 7, "degree": 3},
    {"model": "cnn", "outputs": 7, "channels": [2, 3, 4]},
    {"model": "wide_and_deep", "widths": [7], "embedding": 3, "wide": 0, "sparse_gradients": True},
    *("mlp", "polynomial", "cnn", "resnet18", "mvcnn", "lstm", "wide_and_deep"),
]


@pytest.mark.parametrize("section", BOTTOMS, ids=str)
def test_a_bottom_comes_back_whole(section: Any) -> None:
    config = parse_config({"model": {"bottom": section, "bottoms": {"party_2": section}}})
    assert parse_config(config.as_dict()) == config
    assert config.model.bottom == config.model.bottoms["party_2"]
    assert config.model.bottom.build() == config.model.bottoms["party_2"].build()


def test_a_bottom_without_a_name_is_a_perceptron() -> None:
    bare, named = {"widths": [3], "dropout": 0.5}, {"model": "mlp", "widths": [3], "dropout": 0.5}
    assert parse_config({"model": {"bottom": bare}}) == parse_config({"model": {"bottom": named}})


def federation(folder: Path, name: str, bottom: Any, **model: Any) -> Any:
    WRITE[name](folder)
    data = {"name": name, "folder": str(folder)} | (
        {"size": 15} if name == "modelnet10" else {"classes": 5} if name == "imagenet" else {}
    )
    return parse_config({"data": data, "model": {"bottom": bottom} | model}).build_federation()


@pytest.mark.parametrize(
    ("name", "bottom", "kind", "inputs"),
    [
        ("cifar10", {"model": "resnet18", "outputs": 7, "width": 2}, ResNet18, 3),
        ("modelnet10", {"model": "mvcnn", "outputs": 7, "grid": 1}, Mvcnn, 3),
        ("mimic3_mortality", {"model": "lstm", "hidden": 3, "outputs": 7}, Lstm, 19),
        ("mimic3_mortality", {"model": "lstm", "hidden": 7}, Lstm, 19),
        ("cifar10", {"model": "cnn", "outputs": 7, "channels": [2]}, Cnn, (3, 16, 16)),
    ],
)
def test_a_bottom_is_made_for_its_partys_features(
    tmp_path: Path, name: str, bottom: Any, kind: Any, inputs: int
) -> None:
    made = federation(tmp_path, name, bottom)
    assert set(made.widths.values()) == {7}
    for party in made.parties:
        assert isinstance(party.bottom, kind)
        assert party.bottom.inputs == inputs


@pytest.mark.parametrize("name", ["cifar10", "modelnet10", "mimic3_mortality", "caltech7"])
def test_a_perceptron_and_a_polynomial_network_take_anything(tmp_path: Path, name: str) -> None:
    assert set(federation(tmp_path, name, {"widths": [7]}).widths.values()) == {7}
    made = federation(tmp_path, name, {"model": "polynomial", "width": 7, "degree": 3})
    assert set(made.widths.values()) == {7}
    for party in made.parties:
        assert isinstance(party.bottom, Polynomial)  # with nothing around it
        assert party.bottom.degree == 3
        assert party.bottom.weight.shape[1] == party.features[0].numel() + 1


def test_a_party_may_have_another_kind_of_bottom(tmp_path: Path) -> None:
    other = {"party_3": {"model": "resnet18", "outputs": 5, "width": 2}}
    made = federation(tmp_path, "cifar10", {"widths": [7]}, bottoms=other)
    assert list(made.widths.values()) == [7, 7, 5, 7]


def test_bottoms_start_from_the_seed_and_their_place_alone(tmp_path: Path) -> None:
    bottom = {"model": "resnet18", "outputs": 7, "width": 2}
    one = federation(tmp_path, "cifar10", bottom).parties
    other = federation(tmp_path, "cifar10", {"widths": [3]}, bottoms={"party_2": bottom}).parties
    for key, value in one[1].bottom.state_dict().items():
        assert torch.equal(value, other[1].bottom.state_dict()[key])
    assert not torch.equal(one[0].bottom.embed.weight, one[1].bottom.embed.weight)


@pytest.mark.parametrize(
    ("name", "bottom", "message"),
    [
        (
            "mimic3_mortality",
            "resnet18",
            r"^the bottom model of 'party_1': resnet18 takes features of shape \[rows, channels, "
            r"height, width\], not float32 of shape \[21, 48, 19\]$",
        ),
        (
            "cifar10",
            "mvcnn",
            r"^the bottom model of 'party_1': mvcnn takes features of shape \[rows, views, "
            r"channels, height, width\], not float32 of shape \[12, 3, 16, 16\]$",
        ),
        (
            "cifar10",
            "lstm",
            r"^the bottom model of 'party_1': lstm takes features of shape \[rows, times, "
            r"components\], not float32 of shape \[12, 3, 16, 16\]$",
        ),
    ],
)
def test_a_bottom_that_does_not_fit_the_features(
    tmp_path: Path, name: str, bottom: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        federation(tmp_path, name, bottom)


def test_a_table_has_no_pixels(tmp_path: Path) -> None:
    people = "\n".join(f"{n},{n % 3},{'ab'[n % 2]}" for n in range(40))
    (tmp_path / "bank.csv").write_text(f"id,x,z\n{people}\n", encoding="utf-8")
    (tmp_path / "answers.csv").write_text(f"id,w,y\n{people}\n", encoding="utf-8")
    for output, found in (("dict", "a dict"), ("tensor", r"float32 of shape \[40, \d\]")):
        data = {
            "id": "id",
            "parties": {
                "bank": {
                    "source": str(tmp_path / "bank.csv"),
                    "columns": ["x", "z"],
                    "features": {"output": output},
                }
            },
            "labels": {"source": str(tmp_path / "answers.csv"), "column": "y"},
        }
        for bottom in ("resnet18", "mvcnn", "lstm", "cnn"):
            with pytest.raises(ConfigurationError, match=f"'bank': {bottom} takes .* not {found}"):
                parse_config({"data": data, "model": {"bottom": bottom}}).build_federation()
        if output == "dict":
            with pytest.raises(
                ConfigurationError, match="'bank': polynomial takes a tensor, not a"
            ):
                parse_config({"data": data, "model": {"bottom": "polynomial"}}).build_federation()


def test_pictures_too_small_for_the_network_are_named(tmp_path: Path) -> None:
    WRITE["modelnet10"](tmp_path)
    data = {"name": "modelnet10", "folder": str(tmp_path), "size": 14}
    with pytest.raises(ConfigurationError, match=r"'party_1' does not take its .* 15 x 15"):
        parse_config({"data": data, "model": {"bottom": "mvcnn"}}).build_federation()


# --- what is refused --------------------------------------------------------------------------

REFUSED: list[tuple[Any, str]] = [
    ({"data": {"name": "cifar10", "labels": "fine"}}, "data.labels: unknown key; there are folder"),
    ({"data": {"name": "mimic3_mortality", "size": 3}}, "data.size: unknown key; there are folder"),
    ({"data": {"name": "emnist", "split": "latin"}}, "data.split: input should be 'balanced', "),
    ({"data": {"name": "cifar100", "labels": "both"}}, "data.labels: input should be 'fine' or "),
    ({"data": {"name": "modelnet10", "channels": 2}}, "data.channels: input should be 1 or 3, not"),
    (
        {"data": {"name": "imagenet", "classes": 1}},
        "data.classes: input should be a number of 2 or",
    ),
    ({"data": {"name": "imagenet", "classes": True}}, "data.classes: input should be a number of"),
    ({"data": {"name": "imagenet", "classes": "n1"}}, "data.classes: input should be a number of "),
    (
        {"data": {"name": "imagenet", "classes": [1, 2]}},
        "data.classes: input should be a number of",
    ),
    ({"data": {"name": "imagenet", "size": 0}}, "data.size: input should be greater than or equal"),
    ({"data": {"name": "cifar10", "normalise": [0.5]}}, "data.normalise.1: is required"),
    (
        {"data": {"name": "cifar10", "normalise": [[0.5, "x", 0.5], 1]}},
        "data.normalise.0.1: input should be a valid number",
    ),
    (
        {"data": {"name": "cifar10", "normalise": [[0.5, 0.5], 1]}},
        "data: normalise must be a mean and a positive standard deviation, each one number or one "
        "for each channel (3 here), not ([0.5, 0.5], [1.0])",
    ),
    (
        {"data": {"name": "modelnet10", "channels": 1, "normalise": [[0.5, 0.5, 0.5], 1]}},
        "data: normalise must be a mean and a positive standard deviation, each one number or one "
        "for each channel (1 here)",
    ),
    (
        {"data": {"name": "imagenet", "normalise": [0.5, 0]}},
        "data: normalise must be a mean and a ",
    ),
    (
        {"model": {"bottom": {"model": "vgg"}}},
        "model.bottom: 'vgg' names none of 'mlp', 'polynomial', 'cnn', 'resnet18', 'mvcnn', "
        "'lstm', 'wide_and_deep'",
    ),
    (
        {"model": {"bottom": {"model": "resnet18", "widths": [3]}}},
        "model.bottom.widths: unknown key; there are model, outputs, width",
    ),
    (
        {"model": {"bottom": {"model": "resnet18", "outputs": 0}}},
        "model.bottom.outputs: input shou",
    ),
    (
        {"model": {"bottom": {"model": "lstm", "dropout": 0.5}}},
        "model.bottom: dropout acts between two layers, and this has one",
    ),
    (
        {"model": {"bottom": {"model": "polynomial", "degree": 0}}},
        "model.bottom.degree: input should be greater than or equal to 1",
    ),
    (
        {"model": {"bottom": {"model": "cnn", "channels": []}}},
        "model.bottom.channels: list should have at least 1 item",
    ),
    (
        {"data": {"name": "parkinson", "scale": "log"}},
        "data.scale: input should be 'standard', 'unit' or 'none'",
    ),
    ({"model": {"top": {"model": "resnet18"}}}, "model.top: 'resnet18' names none of 'mlp'"),
]


@pytest.mark.parametrize(("data", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_wrong_is_named_with_its_path(data: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_config(data)
    assert str(caught.value).removeprefix("configuration: ").startswith(message)


@pytest.mark.parametrize("name", WRITE)
def test_files_that_are_not_there_are_named(name: str, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        config = parse_config({"data": {"name": name, "folder": str(folder)}})
        with pytest.raises(DataError, match=re.escape(str(folder))):
            config.build_federation()
