"""Configuration: complete, reversible, and refused with the path to what is wrong."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from colonnade.channels import Channel
from colonnade.codecs import Float, Scalar
from colonnade.config import RunConfig, load_config, override, parse_config
from colonnade.config import public as public_config
from colonnade.costs import Measured, Modelled
from colonnade.datasets import VerticalDataset
from colonnade.delays import Constant, Exponential
from colonnade.drivers import Processes, Simulate
from colonnade.errors import ConfigurationError
from colonnade.models import Concat, DotProduct, Max, Mean, Sum
from colonnade.yaml_text import read_yaml

FULL: dict[str, Any] = {
    "data": {
        "name": "fashion_mnist",
        "folder": "some/where",
        "partition": "strips",
        "parties": 3,
        "normalise": [0.25, 2],
        "train_rows": 10,
        "test_rows": 5,
    },
    "model": {
        "bottom": {"widths": [7, 5], "activation": "gelu", "dropout": 0.25},
        "top": {"widths": [6], "activation": "tanh"},
        "sparsity": 0.25,
    },
    "optimiser": {"name": "sgd", "lr": 0.5, "momentum": 0.9, "weight_decay": 0.01},
    "label_holder": {"name": "insurer", "holds": "party_2"},
    "method": {
        "embedding": {"codec": "scalar", "bits": 3, "low": -1, "high": 1, "dither": False},
        "derivative": {"codec": "float", "format": "bf16"},
        "fusion": {"fusion": "mean"},
    },
    "training": {
        "epochs": 2,
        "batch_size": 4,
        "seed": -(2**63),
        "threads": 2,
        "evaluate_every": 3,
        "evaluation_rows": 2,
        "checkpoint_every": 4,
    },
    "driver": "simulate",
    "network": {
        "bandwidth": math.inf,
        "latency": "1.5 ms",
        "parties": {
            "party_1": {"up": {"bandwidth": "20 Mbit/s"}, "down": {"latency": "2 min"}},
            "party_3": {},
        },
        "queue": 8,
    },
    "costs": {
        "kind": "modelled",
        "seconds": {"forward": "2 ms"},
        "seconds_per_row": {"top": 1e-6},
        "slowdown": {"party_1": 2},
        "otherwise": "10 ms",
    },
}


def refused(data: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_config(data, "some.yaml")
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix("some.yaml: ")


# What is accepted


def test_nothing_at_all_is_a_configuration_of_defaults() -> None:
    assert parse_config({}) == parse_config(None) == RunConfig()
    assert RunConfig().build_driver() == Simulate()
    method = RunConfig().method.build()
    assert (method.fusion, method.uplink.link.codec, method.exchange.downlink.codec) == (
        Concat(),
        Float(32),
        Float(32),
    )


@pytest.mark.parametrize("data", [{}, FULL], ids=["defaults", "everything"])
def test_a_configuration_comes_back_whole(tmp_path: Path, data: dict[str, Any]) -> None:
    config = parse_config(data)
    plain = config.as_dict()
    assert parse_config(plain) == config
    assert parse_config(plain).as_dict() == plain
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(plain), encoding="utf-8")
    if "folder" in data.get("data", {}):  # relative to the file
        section = config.data.model_copy(update={"folder": tmp_path / config.data.folder})
        config = config.model_copy(update={"data": section})
    assert load_config(file) == config


def test_the_plain_values_name_every_key() -> None:
    """What a folder keeps reproduces its run even after a default has changed."""
    model: Any = RunConfig

    def check(model: Any, plain: dict[str, Any]) -> None:
        assert set(plain) == set(type(model).model_fields)
        for name, value in model:
            if isinstance(value, BaseModel):
                check(value, plain[name])

    config = model()
    check(config, config.as_dict())


def test_infinite_bandwidth_is_written_and_read() -> None:
    text = yaml.safe_dump(parse_config({"network": {"bandwidth": math.inf}}).as_dict())
    assert parse_config(yaml.safe_load(text)).network.bandwidth == math.inf


@pytest.mark.parametrize(
    ("written", "bandwidth"),
    [
        (5e6, 5e6),
        ("300 bit/s", 300.0),
        ("20 kbit/s", 2e4),
        ("20Mbit/s", 2e7),
        (" 1e-1 Gbit/s ", 1e8),
        ("2.5 Mbit/s", 2.5e6),
        ("3. Mbit/s", 3e6),
        (math.inf, math.inf),
    ],
)
def test_bandwidths_have_units(written: Any, bandwidth: float) -> None:
    config = parse_config({"network": {"bandwidth": written}})
    assert config.network.bandwidth == bandwidth


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(2, 2.0), ("250 us", 2.5e-4), ("10 ms", 0.01), ("3 s", 3.0), ("1 min", 60.0)],
)
def test_durations_have_units(written: Any, seconds: float) -> None:
    config = parse_config({"network": {"latency": written}})
    assert config.network.latency == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    ("section", "codec"),
    [
        ("float", Float(32)),
        ({"codec": "float"}, Float(32)),
        ({"codec": "float", "format": 16}, Float(16)),
        ({"codec": "float", "format": "bf16"}, Float("bf16")),
        ({"codec": "scalar", "bits": 4}, Scalar(4)),
        ({"codec": "scalar", "bits": 1, "dither": False}, Scalar(1, dither=False)),
        ({"codec": "scalar", "bits": 8, "low": -2, "high": 0.5}, Scalar(8, -2.0, 0.5)),
    ],
)
def test_codecs_are_built(section: Any, codec: object) -> None:
    method = parse_config({"method": {"embedding": section}}).method.build()
    assert (method.uplink.link.codec, method.exchange.downlink.codec) == (codec, Float(32))
    method = parse_config({"method": {"derivative": section}}).method.build()
    assert (method.uplink.link.codec, method.exchange.downlink.codec) == (Float(32), codec)


@pytest.mark.parametrize(
    ("name", "fusion"),
    [
        ("concat", Concat()),
        ("sum", Sum()),
        ("mean", Mean()),
        ("max", Max()),
        ("dot_product", DotProduct()),
    ],
)
def test_fusions_are_built(name: str, fusion: object) -> None:
    for section in (name, {"fusion": name}):
        assert parse_config({"method": {"fusion": section}}).method.build().fusion == fusion


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "adagrad", "rmsprop"])
def test_optimisers_take_their_settings(name: str) -> None:
    section = {"name": name, "lr": 0.25, "weight_decay": 0.5}
    if name in ("sgd", "rmsprop"):
        section["momentum"] = 0.75
    optimiser = parse_config({"optimiser": section}).optimiser.build()(
        [torch.nn.Parameter(torch.zeros(1))]
    )
    assert type(optimiser).__name__.lower() == name
    given = {key: value for key, value in section.items() if key != "name"}
    assert given.items() <= optimiser.defaults.items()


def test_settings_of_the_optimiser_left_out_are_torchs() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = parse_config({"optimiser": {"lr": 0.1}}).optimiser.build()([parameter])
    assert optimiser.defaults == torch.optim.Adam([parameter], lr=0.1).defaults


def test_drivers_costs_and_training_are_built() -> None:
    config = parse_config(FULL)
    real = parse_config({"driver": "processes", "network": {"queue": 8}})
    assert real.build_driver() == Processes(8)
    assert config.costs.build() == Modelled(
        {"forward": 0.002}, {"top": 1e-6}, {"party_1": 2.0}, otherwise=0.01
    )
    assert config.training.build().seed == -(2**63)
    measured = parse_config({"costs": {"slowdown": {"party_1": 3}}})
    assert measured.costs.build() == Measured({"party_1": 3.0})
    seal = {"kind": "modelled", "seconds": {"seal": 0.1}, "otherwise": 1}  # of a part of one's own
    assert parse_config({"costs": seal}).costs.build() == Modelled({"seal": 0.1}, otherwise=1.0)


def test_a_connection_of_a_party_is_its_own_in_the_right_direction() -> None:
    config = parse_config(
        {
            "label_holder": {"name": "insurer"},
            "network": {
                "bandwidth": "1 Mbit/s",
                "latency": "1 ms",
                "queue": 5,
                "parties": {
                    "party_1": {"up": {"bandwidth": "2 Mbit/s", "latency": "3 ms"}},
                    "party_2": {"down": {"bandwidth": "4 Mbit/s"}},
                    "party_3": {},
                },
            },
        }
    )
    driver = config.build_driver()
    assert isinstance(driver, Simulate)
    network, default = driver.network, Channel(1e6, 0.001)
    assert network.queue == 5
    assert network.channel("party_1", "insurer") == Channel(2e6, 0.003)
    assert network.channel("insurer", "party_1") == default
    assert network.channel("party_2", "insurer") == default
    assert network.channel("insurer", "party_2") == Channel(4e6, 0.001)
    assert network.channel("party_3", "insurer") == default
    assert network.channel("insurer", "party_4") == default


# What is refused

REFUSED: list[tuple[Any, str]] = [
    # unknown keys, at every level
    (
        {"trainin": {}},
        "trainin: unknown key; there are data, model, objective, optimiser, label_holder, ",
    ),
    ({"data": {"nme": 1}}, "data.nme: unknown key; there are folder, leave_out, name, partition, "),
    (
        {"model": {"middle": {}}},
        "model.middle: unknown key; there are bottom, bottoms, top, sparsity, bound, device",
    ),
    (
        {"model": {"bottom": {"width": 3}}},
        "model.bottom.width: unknown key; there are model, widths, ",
    ),
    ({"optimiser": {"rate": 1}}, "optimiser.rate: unknown key; there are name, lr, "),
    ({"label_holder": {"x": 1}}, "label_holder.x: unknown key; there are name, holds"),
    ({"method": {"code": 1}}, "method.code: unknown key; there are name, embedding, derivative, "),
    (
        {"method": {"embedding": {"codec": "scalar", "bits": 4, "dithr": True}}},
        "method.embedding.dithr: unknown key; there are codec, bits, low, high, dither",
    ),
    (
        {"method": {"derivative": {"codec": "float", "bits": 4}}},
        "method.derivative.bits: unknown key; there are codec, format",
    ),
    ({"method": {"fusion": {"fusion": "sum", "x": 1}}}, "method.fusion.x: unknown key; there are "),
    ({"training": {"epoch": 3}}, "training.epoch: unknown key; there are epochs, "),
    ({"network": {"delay": 3}}, "network.delay: unknown key; there are bandwidth, latency, jitte"),
    (
        {"network": {"parties": {"bank": {"sideways": {}}}}},
        "network.parties.bank.sideways: unknown key; there are up, down",
    ),
    (
        {"network": {"parties": {"up": {"up": {"bandwith": 3}}}}},
        "network.parties.up.up.bandwith: unknown key; there are bandwidth, latency",
    ),
    ({"costs": {"second": {}}}, "costs.second: unknown key; there are kind, seconds, "),
    (
        {"costs": {"kind": "modelled", "seconds": {"forwrad": 1}}},
        "costs.seconds.forwrad: there is no work 'forwrad', but 'forward'; there are forward, ",
    ),
    (
        {"costs": {"kind": "modelled", "seconds_per_row": {"local_steps": 1}}},
        "costs.seconds_per_row.local_steps: there is no work 'local_steps', but 'local_step'; ",
    ),
    (
        {"costs": {"kind": "modelled", "seconds": {"forward": 1, "local_step": 1}}},
        "costs: modelled costs name no price of encode, decode, top, update, backward, metrics, "
        "coded; ",
    ),
    ({"costs": {"otherwise": 1}}, "costs: measured costs take no seconds; say kind: modelled"),
    # an unknown key is said before what is missing because of it
    (
        {"method": {"embedding": {"codec": "scalar", "bit": 4}}},
        "method.embedding.bit: unknown key; there are codec, bits, low, high, dither; 'bits' is "
        "near (and 1 more)",
    ),
    # choices
    ({"method": {"embedding": "zip"}}, "method.embedding: 'zip' names none of 'float', 'scalar'"),
    (
        {"method": {"embedding": {"codec": 3}}},
        "method.embedding: 3 names none of 'float', 'scalar'",
    ),
    ({"method": {"embedding": {"bits": 3}}}, "method.embedding: the key 'codec' is missing"),
    ({"method": {"fusion": {}}}, "method.fusion: the key 'fusion' is missing"),
    (
        {"method": {"fusion": "median"}},
        "method.fusion: 'median' names none of 'concat', 'sum', 'mean', 'max'",
    ),
    (
        {"method": {"name": "fedavg"}},
        "method: 'fedavg' names none of 'svfl', 'fedbcd', 'cvfl', 'efvfl', 'celu', 'vafl', 'lean', "
        "'pbm_vfl', 'wait_dp', 'fedvs'; 'fedvs' is near; a composition of your own has one of the "
        "keys uplink, exchange, local_updates",
    ),
    (
        {"data": {"name": "cifar"}},
        "data: 'cifar' names none of 'mnist5k', 'mnist', 'fashion_mnist', ",
    ),
    ({"data": {"partition": "rings"}}, "data.partition: input should be 'quadrants' or 'strips'"),
    ({"optimiser": {"name": "lion"}}, "optimiser.name: input should be 'sgd', 'adam', "),
    ({"model": {"top": {"activation": "elu"}}}, "model.top.activation: input should be 'identity'"),
    ({"driver": "magic"}, "driver: input should be 'simulate' or 'processes', not 'magic'"),
    # types
    ({"training": {"epochs": "many"}}, "training.epochs: input should be a valid integer, not 'm"),
    ({"training": {"epochs": 2.5}}, "training.epochs: input should be a valid integer, not 2.5"),
    ({"training": {"epochs": True}}, "training.epochs: input should be a valid integer, not True"),
    ({"training": {"epochs": None}}, "training.epochs: input should be a valid integer"),
    ({"training": {"epochs": [1]}}, "training.epochs: input should be a valid integer"),
    ({"optimiser": {"lr": "fast"}}, "optimiser.lr: input should be a valid number, "),
    ({"model": {"bottom": {"widths": 64}}}, "model.bottom.widths: input should be a valid list"),
    ({"model": {"bottom": {"widths": [8, "x"]}}}, "model.bottom.widths.1: input should be a valid"),
    ({"data": {"normalise": [0.5]}}, "data.normalise.1: is required"),
    ({"data": {"normalise": [math.nan, 1]}}, "data.normalise.0: input should be a finite number"),
    ({"data": {"folder": 3}}, "data.folder: input is not a valid path"),
    ({"training": 3}, "training: input should be a valid dictionary of keys and values, not 3"),
    ({"training": None}, "training: input should be a valid dictionary"),
    ({"network": {"parties": ["bank"]}}, "network.parties: input should be a valid dictionary"),
    (
        {"method": {"embedding": 5}},
        "method.embedding: expected a name or keys and values, not 5",
    ),
    ({1: 2}, "1: keys should be strings, not 1"),
    ({"training": {1: 2}}, "training.1: keys should be strings, not 1"),
    ([], "expected keys and values, found []"),
    ("text", "expected keys and values, found 'text'"),
    # ranges
    (
        {"method": {"embedding": {"codec": "scalar", "bits": 9}}},
        "method.embedding: bits must be a whole number from 1 to 8, not 9",
    ),
    (
        {"method": {"embedding": {"codec": "scalar", "bits": 0}}},
        "method.embedding: bits must be a whole number from 1 to 8, not 0",
    ),
    ({"method": {"embedding": "scalar"}}, "method.embedding.bits: is required"),
    (
        {"method": {"embedding": {"codec": "float", "format": 8}}},
        "method.embedding.format: input should be 16, 32 or 'bf16', not 8",
    ),
    ({"training": {"epochs": 0}}, "training.epochs: input should be greater than or equal to 1"),
    ({"training": {"seed": 2**63}}, "training.seed: input should be less than 9223372036854775808"),
    ({"network": {"queue": 0}}, "network.queue: input should be greater than or equal to 1, not 0"),
    ({"optimiser": {"lr": 0}}, "optimiser.lr: input should be greater than 0"),
    ({"optimiser": {"lr": math.inf}}, "optimiser.lr: input should be less than inf"),
    ({"optimiser": {"lr": math.nan}}, "optimiser.lr: input should be "),
    ({"model": {"bottom": {"dropout": 1}}}, "model.bottom.dropout: input should be less than 1"),
    ({"model": {"bottom": {"widths": [0]}}}, "model.bottom.widths.0: input should be greater"),
    ({"model": {"bottom": {"widths": []}}}, "model.bottom: widths should name a layer or more"),
    ({"costs": {"slowdown": {"a": -1}}}, "costs.slowdown.a: input should be greater than or equal"),
    # units
    (
        {"network": {"bandwidth": "3 parsec"}},
        "network.bandwidth: '3 parsec' is not a number with a unit (bit/s, kbit/s, Mbit/s, Gbit/s)",
    ),
    ({"network": {"bandwidth": "20"}}, "network.bandwidth: '20' is not a number with a unit"),
    ({"network": {"bandwidth": "1.2.3 Mbit/s"}}, "network.bandwidth: '1.2.3 Mbit/s' is not a num"),
    (
        {"network": {"bandwidth": "8 Mbps"}},
        "network.bandwidth: '8 Mbps' is not a number with a unit (bit/s, kbit/s, Mbit/s, "
        "Gbit/s); say '8 Mbit/s'",
    ),
    (
        {"network": {"bandwidth": "8 MBit/s"}},
        "network.bandwidth: '8 MBit/s' is not a number with a unit (bit/s, kbit/s, Mbit/s, "
        "Gbit/s); say '8 Mbit/s'",
    ),
    (
        {"network": {"bandwidth": "1.5 MB/s"}},
        "network.bandwidth: '1.5 MB/s' is not a number with a unit (bit/s, kbit/s, Mbit/s, "
        "Gbit/s); a byte has 8 bits: say '12 Mbit/s'",
    ),
    (
        {"network": {"bandwidth": 0}},
        "network.bandwidth: input should be greater than or",
    ),
    (
        {"network": {"bandwidth": math.nan}},
        "network.bandwidth: input should be greater than or",
    ),
    ({"network": {"latency": "3 h"}}, "network.latency: '3 h' is not a number with a unit (us, ms"),
    ({"network": {"latency": -1}}, "network.latency: input should be greater than or equal to 0"),
    (
        {"network": {"latency": math.inf}},
        "network.latency: input should be less than or equal",
    ),
    (
        {"network": {"parties": {"bank": {"down": {"latency": "soon"}}}}},
        "network.parties.bank.down.latency: 'soon' is not a number with a unit",
    ),
    ({"training": {"threads": 10**6}}, "training.threads: input should be less than or equal to 1"),
    # names
    (
        {"label_holder": {"name": "a/b"}},
        "label_holder.name: a name is made of letters a to z, digits and . _ -, not 'a/b'",
    ),
    (
        {"label_holder": {"name": "épicerie"}},
        "label_holder.name: a name is made of letters a to z, digits and . _ -, not 'épicerie'",
    ),
    ({"label_holder": {"name": ""}}, "label_holder.name: a name is made of letters a to z, digits"),
    ({"label_holder": {"name": "x" * 65}}, "label_holder.name: string should have at most 64 "),
    ({"network": {"parties": {"../b": {}}}}, "network.parties.../b: a name is made of letters"),
    # combinations
    (
        {"method": {"embedding": {"codec": "scalar", "bits": 4, "low": 1, "high": 1}}},
        "method.embedding: low must be below high, both finite as float32, not 1.0, 1.0",
    ),
    (
        {"method": {"embedding": {"codec": "scalar", "bits": 4, "high": 1}}},
        "method.embedding: low and high must be given together, or neither",
    ),
    ({"optimiser": {"momentum": 0.9}}, "optimiser: adam has no momentum"),
    ({"costs": {"seconds": {"top": 1}}}, "costs: measured costs take no seconds; say kind: model"),
    # several at once
    (
        {"optimiser": {"lr": -1}, "model": {"bottm": {}}, "driver": 3},
        "model.bottm: unknown key; there are bottom, bottoms, top, sparsity, bound, device; "
        "'bottom' is near (and 2 more)",
    ),
]


@pytest.mark.parametrize(("data", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_wrong_is_named_with_its_path(data: Any, message: str) -> None:
    assert refused(data).startswith(message)


def parsed_or_refused(data: Any) -> RunConfig | str:
    try:
        return parse_config(data)
    except ConfigurationError as error:
        return str(error)


FIELDS = ["data", "model", "optimiser", "label_holder", "method", "training", "network", "costs"]
keys = st.sampled_from(
    [*FIELDS, "driver", "codec", "fusion", "bits", "embedding", "parties", "up", "seconds", "lr"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["scalar", "float", "sum", "modelled", "10 ms", "1e999 s", "."])
    | st.dates()
    | st.binary(max_size=3)
)
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(keys | st.text(max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(keys, junk, max_size=3) | junk)
def test_junk_gives_a_configuration_or_a_configuration_error(data: Any) -> None:
    outcome = parsed_or_refused(data)
    if isinstance(outcome, str):
        assert outcome.startswith("configuration: ")
    else:
        assert parse_config(outcome.as_dict()) == outcome


def mutations(data: Any) -> st.SearchStrategy[Any]:
    """Return a valid configuration with one value, somewhere, that is junk."""

    def places(value: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        inside = value.items() if isinstance(value, dict) else ()
        return [path, *(place for k, v in inside for place in places(v, (*path, k)))]

    def put(value: Any, path: tuple[str, ...], new: Any) -> Any:
        if not path:
            return new
        return value | {path[0]: put(value[path[0]], path[1:], new)}

    return st.builds(
        lambda path, new: put(data, path, new), st.sampled_from(places(data, ())), junk
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(mutations(FULL))
def test_one_wrong_value_gives_a_configuration_or_a_configuration_error(data: Any) -> None:
    outcome = parsed_or_refused(data)
    if isinstance(outcome, str):
        assert outcome.startswith("configuration: ")
    else:
        assert parse_config(outcome.as_dict()) == outcome


# Files


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(ConfigurationError, match=r"none\.yaml cannot be read: No such file"):
        load_config(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"training:\n  epochs: [1, 2\nseed: 3", r"is not valid YAML \(line 3\)$"),
        (b"training:\n\tepochs: 1", r"is not valid YAML \(line 2\)$"),
        (b"\xff\xfe\x80", r"is not valid YAML \(not text in UTF-8\)$"),
        (b"a: \x00", "is not valid YAML$"),
        (b"a: !!timestamp 2024-99-99", "is not valid YAML$"),
        (b"a: !!timestamp noon", "is not valid YAML$"),
        (b"a: !!timestamp {=: noon}", "is not valid YAML$"),
        (b"training: {epochs: !!bool maybe}", "is not valid YAML$"),
        (b"training: {epochs: !!int ''}", "is not valid YAML$"),
        (b"a: !!int 1:30", "line 1: '1:30' is no number, as !!int says$"),
        (b"a: !!float 1:59" + b":59" * 100_000, r"line 1: '1:59.* is no number, as !!float says$"),
        (b'a: "\\UFFFFFFFF"', "is not valid YAML$"),
        (b"a: !!python/object:os.system {}", r"is not valid YAML \(line 1\)$"),
        (b"[" * 5000, "line 1: nested more than 32 levels deep$"),
        (b"a: &a\n  b: *a", "line 2: an alias stands for what it is a part of$"),
        (b"a: 1\n" * (2**20 // 5 + 1), "more than 1,048,576 characters in it; is it a table?"),
        (b"[1, 2]", r"expected keys and values, found \[1, 2\]$"),
        (b"[]", r"expected keys and values, found \[\]$"),
        (b"just words", "expected keys and values, found 'just words'$"),
        (b"0", "expected keys and values, found 0$"),
        (b"training: {epoch: 3}", r"wrong\.yaml: training\.epoch: unknown key"),
    ],
)
def test_a_file_that_is_no_configuration(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_config(path, ["training.seed=1"])
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_what_a_file_leaves_out_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "least.yaml"
    path.write_text("data: mnist5k\n", encoding="utf-8")
    assert load_config(path) == RunConfig()
    assert load_config(path, ["training.epochs=3"]).training.epochs == 3


def bombs(size: int, deep: int) -> dict[str, str]:
    """Return texts that are short and mean much."""
    inside = ", ".join(["x"] * size)
    merges = "\n".join(
        f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, deep)
    )
    return {
        "aliases": f"a: &x [{inside}]\nb: [{', '.join(['*x'] * size)}]",
        "aliases in a list": f"- &x [{inside}]\n- [{', '.join(['*x'] * size)}]",
        "merges": f"a0: &a0 {{b: 1, c: 2}}\n{merges}",
    }


@pytest.mark.parametrize(("size", "deep"), [(1100, 7), (30000, 20)])
@pytest.mark.parametrize("kind", bombs(1, 1))
def test_short_texts_that_mean_very_much(tmp_path: Path, size: int, deep: int, kind: str) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(bombs(size, deep)[kind], encoding="utf-8")
    began = time.process_time()
    with pytest.raises(ConfigurationError, match=r"bomb\.yaml: .*more than 1[0,]+ (values|keys)"):
        load_config(path)
    assert time.process_time() - began < 20  # of seconds, where it was for ever


@pytest.mark.parametrize(
    "text",
    [
        "- x\n" * 10**6,
        "- x\n" * (2**20 // 4),
        f"[{'a,' * (2**19 - 2)}a]",
        "".join(f"k{i}: 1\n" for i in range(300_000)),
        "".join(f"k{i}: 1\n" for i in range(100_000)),
    ],
    ids=["a list too long", "a list", "in brackets", "keys too long", "keys"],
)
def test_a_long_text_is_refused_soon(tmp_path: Path, text: str) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(text, encoding="utf-8")
    began = time.process_time()
    with pytest.raises(ConfigurationError, match=r"long\.yaml: .*more than 1[0-9,]+ (val|char)"):
        load_config(path)
    assert time.process_time() - began < 8  # 2 as a rule, where it was a minute


def test_a_run_reads_what_it_wrote_of_a_long_configuration() -> None:
    names = [f"column_{i}" for i in range(90_000)]
    text = "numeric:\n" + "".join(f"- {name}\n" for name in names)
    assert len(text) > 2**20
    with pytest.raises(ConfigurationError, match="more than 1,048,576 characters"):
        read_yaml(text)
    assert read_yaml(text, times=4) == {"numeric": names}


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60)),
        "? [" + "[" * 90 + "]" * 90 + "]\n: 1\n",
    ],
)
def test_what_aliases_stand_for_is_counted_before_it_is_there(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^line \d+: (more than|nested more than)"):
        read_yaml(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {epochs: 1}\ntraining: {epochs: 2}", "line 2: the key 'training' is there tw"),
        ("training: {epochs: 1, epochs: 1}", "line 1: the key 'epochs' is there twice"),
        ("training: {<<: [3]}", "line 1: << takes keys and values"),
    ],
)
def test_keys_are_there_once(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"twice\.yaml: {message}"):
        load_config(path)
    with pytest.raises(
        ConfigurationError, match=r"^--set a=\{b: 1, b: 2\}: line 1: the key 'b' is"
    ):
        override({}, ["a={b: 1, b: 2}"])


def test_what_is_merged_gives_way_to_own_keys(tmp_path: Path) -> None:
    path = tmp_path / "merged.yaml"
    path.write_text(
        "network: {parties: {a: &y {up: {latency: 1}}, b: {<<: *y, down: {latency: 2}},"
        " c: {<<: [{up: {latency: 3}}, *y], down: {latency: 4}}}}\n",
        encoding="utf-8",
    )
    parties = load_config(path).network.parties
    assert parties["b"].up == parties["a"].up
    assert (parties["c"].up.latency, parties["c"].down.latency) == (3, 4)  # type: ignore[union-attr]


# --set


def test_overrides_change_files(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("training: {epochs: 1, seed: 5}", encoding="utf-8")
    config = load_config(
        path,
        ["training.epochs=3", "method.embedding={codec: scalar, bits: 2}", "optimiser.lr=1e-2"],
    )
    assert (config.training.epochs, config.training.seed, config.optimiser.lr) == (3, 5, 0.01)
    assert config.method.embedding.build() == Scalar(2)
    with pytest.raises(ConfigurationError, match=r"config\.yaml: training\.epoch: unknown key"):
        load_config(path, ["training.epoch=3"])


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["a=1"], {"a": 1}),
        (["a.b.c=x"], {"a": {"b": {"c": "x"}}}),
        (["a.b=1", "a.c=2", "a.b=3"], {"a": {"b": 3, "c": 2}}),
        (["a=[1, 2.5]"], {"a": [1, 2.5]}),
        (["a={b: true}", "a.c=null"], {"a": {"b": True, "c": None}}),
        (["a="], {"a": None}),
        (["a=b=c"], {"a": "b=c"}),
        (["a=.inf"], {"a": math.inf}),
        (['a="1"'], {"a": "1"}),
        (
            ["a=[yes, Off, 007, 1:30, 2024-01-31]"],
            {"a": ["yes", "Off", "007", "1:30", "2024-01-31"]},
        ),
        (["a=[-1_000, 0x1F, 0b11, 0, .5, 1.e+3]"], {"a": [-1000, 31, 3, 0, 0.5, 1000.0]}),
    ],
)
def test_overrides_are_read_as_yaml(overrides: list[str], expected: Any) -> None:
    assert override({}, overrides) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs", r"epochs: expected path\.to\.key=value"),
        ("=3", r"=3: expected path\.to\.key=value"),
        ("training.=3", r"expected path\.to\.key=value"),
        ("training.epochs.x=3", r"training\.epochs is not a section"),
        ("training.epochs.x.y=3", r"training\.epochs\.x is not a section"),
        ("training.epochs=[1", r"'\[1' is not a valid value"),
        ("training.epochs=!!int 3.5", "'!!int 3.5' is not a valid value"),
        ("training.epochs=!!bool maybe", "'!!bool maybe' is not a valid value"),
    ],
)
def test_overrides_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^--set .*{message}"):
        override({"training": {"epochs": 1}}, [text])


# The federation


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> VerticalDataset:
    """Three parties of 4, 3 and 2 columns, in place of the digits."""
    generator = torch.Generator().manual_seed(0)
    dataset = VerticalDataset(
        "toy",
        {f"party_{i}": torch.randn(30, 5 - i, generator=generator) for i in (1, 2, 3)},
        torch.arange(30) % 3,
        classes=3,
        train=torch.arange(20).numpy(),
        test=torch.arange(20, 30).numpy(),
    )
    monkeypatch.setattr(public_config, "_IMAGES", {"mnist5k": lambda *_, **__: dataset})
    return dataset


def build(**sections: Any) -> Any:
    small = {"model": {"bottom": {"widths": [6, 5]}, "top": {"widths": [4]}}}
    return parse_config(small | sections).build_federation()


def states(federation: Any) -> dict[str, dict[str, torch.Tensor]]:
    bottoms = {party.name: party.bottom.state_dict() for party in federation.parties}
    return bottoms | {"top": federation.label_holder.top.state_dict()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[key]) for key, value in one.items())


def test_the_federation_has_the_parties_of_the_data(data: VerticalDataset) -> None:
    federation = build()
    assert [party.name for party in federation.parties] == ["party_1", "party_2", "party_3"]
    for party in federation.parties:
        assert torch.equal(party.features, data.features[party.name])
    assert federation.widths == {"party_1": 5, "party_2": 5, "party_3": 5}
    assert federation.label_holder.top[0].in_features == 15
    assert federation.label_holder.top[-1].out_features == 3
    assert federation.label_holder.features is None


def test_sparsity_is_a_layer_behind_every_bottom_model(data: VerticalDataset) -> None:
    small = {"bottom": {"widths": [6, 5]}, "bottoms": {"party_2": {"widths": [4]}}}
    plain, sparse = (build(model=small | {"sparsity": s}) for s in (0.0, 0.5))
    assert sparse.widths == plain.widths == {"party_1": 5, "party_2": 4, "party_3": 5}
    for one, other in zip(plain.parties, sparse.parties, strict=True):
        inner, penalty = other.bottom
        assert penalty.strength == 0.5
        assert same(one.bottom.state_dict(), inner.state_dict())
    with pytest.raises(ConfigurationError, match=r"model.sparsity: .*greater than or equal to 0"):
        build(model={"sparsity": -1})


def test_the_first_rows_only(data: VerticalDataset) -> None:
    federation = build(data={"train_rows": 7, "test_rows": 2})
    assert (len(federation.train_rows), len(federation.test_rows)) == (7, 2)
    with pytest.raises(ConfigurationError, match="first 21 train rows; expected 1 to 20"):
        build(data={"train_rows": 21})


def test_a_label_holder_can_hold_a_part(data: VerticalDataset) -> None:
    federation = build(label_holder={"name": "insurer", "holds": "party_2"})
    assert [party.name for party in federation.parties] == ["party_1", "party_3"]
    holder = federation.label_holder
    assert holder.name == "insurer"
    assert torch.equal(holder.features, data.features["party_2"])
    assert holder.bottom[0].in_features == 3
    assert list(federation.widths) == ["party_1", "party_3", "insurer"]
    assert holder.top[0].in_features == 15


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"label_holder": {"holds": "party_9"}},
            r"^label_holder\.holds: there is no part 'party_9' of the data; there are party_1, ",
        ),
        (
            {"network": {"parties": {"bank": {}}}},
            r"^network\.parties\.bank: there is no such organisation; there are label_holder, ",
        ),
        (
            {"costs": {"slowdown": {"bank": 2}}},
            r"^costs\.slowdown\.bank: there is no such organisation",
        ),
        (
            {"label_holder": {"holds": "party_1"}, "costs": {"slowdown": {"party_1": 2}}},
            r"^costs\.slowdown\.party_1: there is no such organisation; "
            "there are label_holder, party_2, party_3$",
        ),
        ({"label_holder": {"name": "party_1"}}, "two organisations are called 'party_1'"),
    ],
)
def test_names_that_do_not_fit_the_data(
    data: VerticalDataset, sections: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(**sections)


def test_the_label_holder_may_be_slow_too(data: VerticalDataset) -> None:
    assert build(costs={"slowdown": {"label_holder": 2.0}}).rows == 30


def test_models_start_from_the_seed_and_their_place_alone(data: VerticalDataset) -> None:
    first = states(build())
    torch.manual_seed(12345)
    before = torch.get_rng_state()
    assert all(same(value, first[name]) for name, value in states(build()).items())
    assert torch.equal(torch.get_rng_state(), before)

    # Another party more or less, another width of the top: the bottoms stay as they were.
    other = states(build(label_holder={"holds": "party_1"}))
    assert all(same(other[name], first[name]) for name in ("party_2", "party_3"))

    reseeded = states(build(training={"seed": 1}))
    assert not any(same(reseeded[name], first[name]) for name in first)


def test_organisations_start_differently(data: VerticalDataset) -> None:
    for values in data.features.values():
        values.resize_(30, 2)
    starts = states(build())
    weights = [starts[f"party_{i}"]["0.weight"] for i in (1, 2, 3)]
    assert weights[0].shape == weights[1].shape
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


@pytest.mark.parametrize(("fusion", "width"), [("concat", 15), ("sum", 5), ("mean", 5), ("max", 5)])
def test_the_top_takes_what_the_fusion_gives(
    data: VerticalDataset, fusion: str, width: int
) -> None:
    assert build(method={"fusion": fusion}).label_holder.top[0].in_features == width


def test_delays_are_durations_with_units():
    delays = {
        "party_1": {"delay": "exponential", "mean": "100 ms"},
        "party_2": {"delay": "constant", "each": "0.1 s"},
        "party_3": {"delay": "constant", "each": 2},
        "party_4": {"delay": "constant", "each": "1e-3"},
    }
    built = parse_config({"data": "mnist5k", "costs": {"delays": delays}}).costs.build()
    assert dict(built.delays) == {
        "party_1": Exponential(0.1),
        "party_2": Constant(0.1),
        "party_3": Constant(2.0),
        "party_4": Constant(0.001),
    }
    for each in ("soon", "3 h", True, -1):
        with pytest.raises(ConfigurationError, match=r"costs\.delays\.party_1"):
            parse_config({"costs": {"delays": {"party_1": {"delay": "constant", "each": each}}}})
