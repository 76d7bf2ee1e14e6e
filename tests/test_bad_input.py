"""Bad input: one sentence that names the place, exit code 2, and nothing written."""

from __future__ import annotations

import sys
from functools import partial

import pytest
import torch
import yaml
from torch import nn

from colonnade import cli
from colonnade.config import load_config, override, parse_config
from colonnade.errors import CheckpointError, ConfigurationError, DataError, Diverged, InvalidInput
from colonnade.federation import Federation, LabelHolder, Party, Training
from colonnade.methods import svfl
from colonnade.models import Sum

SMALL = {
    "data": {"train_rows": 200, "test_rows": 100},
    "model": {"bottom": {"widths": [8]}},
    "training": {"epochs": 2, "batch_size": 50},
}


def colonnade(monkeypatch, capsys, *arguments):
    """Run the command in this process; return exit code, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["colonnade", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    printed = capsys.readouterr()
    return left.value.code or 0, printed.out, printed.err


WRONG = {
    "training.epoch: unknown key; there are epochs": {"training": {"epoch": 3}},
    "trainin: unknown key; there are data, model": {"trainin": {}},
    "method.embedding.bit: unknown key; there are codec, bits": {
        "method": {"embedding": {"codec": "scalar", "bit": 3}}
    },
    "network.parties.bank.ups: unknown key; there are up, down": {
        "network": {"parties": {"bank": {"ups": {}}}}
    },
    "training.epochs: input should be a valid integer": {"training": {"epochs": "many"}},
    "training.epochs: input should be greater than or equal to 1, not 0": {
        "training": {"epochs": 0}
    },
    "training: input should be a valid dictionary": {"training": 3},
    "method.embedding: bits must be a whole number from 1 to 8, not 9": {
        "method": {"embedding": {"codec": "scalar", "bits": 9}}
    },
    "method.embedding: low must be below high": {
        "method": {"embedding": {"codec": "scalar", "bits": 4, "low": 1, "high": 0}}
    },
    "method.derivative: names none of 'float', 'scalar'": {"method": {"derivative": "floaty"}},
    "method.fusion: names none of": {"method": {"fusion": {"fusion": "median"}}},
    "network.bandwidth: '3 parsec' is not a number with a unit": {
        "network": {"bandwidth": "3 parsec"}
    },
    "optimiser: adam has no momentum": {"optimiser": {"momentum": 0.9}},
    "costs: measured costs take no seconds": {"costs": {"seconds": {"forward": 1}}},
    "driver: input should be 'simulate' or 'processes', not 'magic'": {"driver": "magic"},
    "network.parties.bank: there is no such organisation": {"network": {"parties": {"bank": {}}}},
    "costs.slowdown.bank: there is no such organisation": {"costs": {"slowdown": {"bank": 2}}},
    "label_holder.holds: there is no part 'party_9'": {"label_holder": {"holds": "party_9"}},
    "can be cut into 1 to 28 strips, not 40": {"data": {"partition": "strips", "parties": 40}},
}


@pytest.mark.parametrize("message", WRONG)
def test_the_command_names_the_place_and_writes_nothing(monkeypatch, capsys, tmp_path, message):
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(WRONG[message]))
    code, _, err = colonnade(monkeypatch, capsys, "run", file, "--out", tmp_path / "out")
    assert code == 2
    assert message in err
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"a: [1, 2", "is not valid YAML (line 1)"),
        (b"\xff\xfe\x00", "is not valid YAML"),
        (b"[1, 2]", "expected keys and values"),
    ],
)
def test_a_file_that_is_no_configuration(monkeypatch, capsys, tmp_path, content, message):
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)
    code, _, err = colonnade(monkeypatch, capsys, "run", file, "--out", tmp_path / "out")
    assert code == 2
    assert message in err
    assert str(file) in err
    assert not (tmp_path / "out").exists()


def test_missing_data_are_named(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    file = tmp_path / "config.yaml"
    file.write_text("data: {name: mnist}")
    for extra, message in (
        ((), "--data"),
        (("--data", tmp_path), "train-images-idx3-ubyte"),
        (("--data", tmp_path / "gone"), "no such folder"),
    ):
        code, _, err = colonnade(
            monkeypatch, capsys, "run", file, "--out", tmp_path / "out", *extra
        )
        assert code == 2
        assert message in err
        assert not (tmp_path / "out").exists()


def test_overrides_that_make_no_sense():
    for text in ("epochs", "=3", "training.epochs.x=3", "training.epochs=[1"):
        with pytest.raises(ConfigurationError, match="--set"):
            override({"training": {"epochs": 1}}, [text])


def test_a_configuration_comes_back_from_its_file(tmp_path):
    config = parse_config(
        SMALL
        | {
            "method": {"embedding": {"codec": "scalar", "bits": 3}, "fusion": "mean"},
            "network": {
                "bandwidth": "3 Mbit/s",
                "parties": {"party_1": {"up": {"latency": "5 ms"}}},
            },
        }
    )
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config.as_dict()))
    assert load_config(file) == config
    assert config.build_driver().network.pairs["party_1", "label_holder"].latency == 0.005


# Through the Python interface


def federation(**changes):
    """Two parties of 3 and 2 columns, 20 rows, 3 classes; ``changes`` replace a part."""
    torch.manual_seed(0)
    parts = {
        "x": torch.randn(20, 3),
        "y": torch.arange(20) % 3,
        "bottom": nn.Linear(3, 4),
        "top": nn.Linear(8, 3),
        "names": ("bank", "shop", "insurer"),
        "holder": {},
        "rows": {},
    } | changes
    bank, shop, insurer = parts["names"]
    return Federation(
        [
            Party(bank, parts["x"], parts["bottom"]),
            Party(shop, torch.randn(20, 2), nn.Linear(2, 4)),
        ],
        LabelHolder(insurer, parts["y"], parts["top"], **parts["holder"]),
        **parts["rows"],
    )


def with_value(value):
    x = torch.randn(20, 3)
    x[7, 2] = value
    return x


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"x": with_value(float("nan"))}, DataError, "'bank' hold nan in row 7, column 2"),
        ({"x": with_value(float("inf"))}, DataError, "'bank' hold inf in row 7, column 2"),
        ({"x": torch.randn(19, 3)}, DataError, "'bank' has 19 rows .* there are 20 labels"),
        ({"bottom": nn.Linear(5, 4)}, ConfigurationError, "bottom model of 'bank' does not take"),
        ({"bottom": nn.Flatten(0)}, ConfigurationError, r"'bank' must return .* of shape \[6\]"),
        ({"y": torch.arange(20) % 4}, DataError, "label of row 3 is 3, .* classes 0 to 2"),
        ({"y": torch.arange(20) % 3 - 1}, DataError, "label of row 0 is -1"),
        ({"top": nn.Linear(7, 3)}, ConfigurationError, "width 8 .*bank: 4.*shop: 4"),
        ({"names": ("bank", "bank", "x")}, ConfigurationError, "two organisations .* 'bank'"),
        ({"names": ("a/b", "shop", "x")}, ConfigurationError, "cannot be called 'a/b'"),
        ({"holder": {"bottom": nn.Linear(1, 1)}}, ConfigurationError, "it has no features"),
        ({"rows": {"train_rows": [3, 20]}}, ConfigurationError, "row numbers from 0 to 19"),
        ({"rows": {"train_rows": []}}, ConfigurationError, "no row to train on"),
    ],
)
def test_a_federation_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path, changes, error, message
):
    with pytest.raises(error, match=message):
        federation(**changes).train(out=tmp_path / "out")
    assert issubclass(error, InvalidInput)
    assert not (tmp_path / "out").exists()


def test_widths_that_cannot_be_added():
    with pytest.raises(ConfigurationError, match="equal width"):
        federation(bottom=nn.Linear(3, 5)).train(svfl(fusion=Sum()))


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path):
    out = tmp_path / "out"
    federation().train(out=out)
    before = (out / "summary.json").read_bytes()
    with pytest.raises(ConfigurationError, match="already holds a run"):
        federation().train(out=out)
    with pytest.raises(CheckpointError, match="another configuration"):
        federation().train(training=Training(epochs=2), out=out, resume=True)
    assert (out / "summary.json").read_bytes() == before


def test_training_that_diverges_says_so():
    party = Party("bank", torch.randn(20, 3), nn.Linear(3, 4), partial(torch.optim.SGD, lr=1e30))
    holder = LabelHolder("insurer", torch.randn(20, 1), nn.Linear(4, 1))
    with pytest.raises(Diverged, match="smaller learning rate"):
        Federation([party], holder).train(training=Training(epochs=20, batch_size=5))


# The command, when all is well


def test_a_run_leaves_a_folder_that_repeats_it(monkeypatch, capsys, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(SMALL | {"label_holder": {"holds": "party_4"}}))
    first, second = tmp_path / "first", tmp_path / "second"
    code, out, _ = colonnade(
        monkeypatch, capsys, "run", file, "--out", first, "--set", "training.seed=3"
    )
    assert code == 0
    assert "no protection is on" in out
    names = {path.name for path in first.iterdir()}
    assert names == {
        "checkpoint",
        "config.yaml",
        "history.csv",
        "ledger.csv",
        "run.png",
        "summary.json",
    }
    assert (first / "run.png").read_bytes().startswith(b"\x89PNG")
    code, _, _ = colonnade(
        monkeypatch,
        capsys,
        "run",
        first / "config.yaml",
        "--out",
        second,
        "--set",
        "driver=processes",
    )
    assert code == 0
    for name, column in (("history.csv", "seconds"), ("ledger.csv", "seconds")):
        import polars as pl

        tables = [pl.read_csv(folder / name).drop(column) for folder in (first, second)]
        assert tables[0].equals(tables[1])
    code, _, err = colonnade(monkeypatch, capsys, "run", file, "--out", first)
    assert code == 2
    assert "already holds a run" in err
    code, _, _ = colonnade(
        monkeypatch, capsys, "run", first / "config.yaml", "--out", first, "--resume"
    )
    assert code == 0
