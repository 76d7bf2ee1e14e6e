"""Parts by name: all of ours come back whole, packages add theirs, and nobody's name is taken."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import methods
from colonnade.codecs import QSGD, Entropy, Float, Scalar, TopK
from colonnade.config import json_schema, parse_config
from colonnade.config.choices import section, unusable, usable, written
from colonnade.config.registry import GROUPS, find, names
from colonnade.errors import ConfigurationError
from colonnade.exchanges import Relay, Split
from colonnade.links import Direct, ErrorFeedback
from colonnade.local_updates import Consecutive, Replayed
from colonnade.methods import Method
from colonnade.models import Concat, Mean, Sum
from colonnade.surrogates import Disk, Memory
from colonnade.testing import codecs as codecs_kit
from colonnade.uplinks import Plain

# What has to be said of ours that have no default for it.
NEEDED: dict[tuple[str, str], dict[str, Any]] = {
    ("codecs", "scalar"): {"bits": 3},
    ("codecs", "lattice"): {"bits": 2},
    ("codecs", "lloyd_max"): {"bits": 2},
    ("codecs", "qsgd"): {"levels": 3},
    ("codecs", "product"): {"subvectors": 2, "centroids": 4},
    ("codecs", "entropy"): {"quantiser": {"codec": "scalar", "bits": 2}},
    ("codecs", "top_k"): {"ratio": 0.5, "values": {"codec": "qsgd", "levels": 7}},
    ("codecs", "by_round"): {"codecs": ["float", {"codec": "scalar", "bits": 2}], "rounds": [0, 5]},
    ("links", "error_feedback"): {"codec": {"codec": "top_k", "ratio": 0.1}},
    ("links", "learned_entropy"): {"quantiser": {"codec": "scalar", "bits": 4}},
    ("uplinks", "masked"): {
        "mechanism": {"mechanism": "poisson_binomial", "trials": 16, "beta": 0.25},
        "identities": {"bank": "ab" * 32},
        "budget": {"epsilon": 5, "delta": 1e-5},
    },
    ("mechanisms", "poisson_binomial"): {"trials": 4, "beta": 0.1},
    ("mechanisms", "calibrated"): {
        **{"epsilon": 5.0, "delta": 1e-5, "uses": 3},
        **{"parties": 2, "width": 4, "trials": 4},
    },
    ("budgets", "differential_privacy"): {"epsilon": 5, "delta": 1e-5},
    ("uplinks", "perturbed"): {"noise": {"noise": "gaussian", "bound": 1.0, "multiplier": 2.0}},
    ("noises", "gaussian"): {"bound": 1.0, "multiplier": 2.0},
    ("noises", "calibrated"): {"bound": 1.0, "epsilon": 5.0, "delta": 1e-5},
    ("noises", "clipped"): {"bound": 1.0},
    ("defences", "gaussian"): {"bound": 1.0, "multiplier": 2.0},
    ("defences", "calibrated"): {"bound": 1.0, "epsilon": 5.0, "delta": 1e-5},
    ("exchanges", "relay"): {"labels": "shared"},
    ("storages", "disk"): {"folder": "surrogates"},
    ("methods", "fedbcd"): {"local_steps": 3},
    ("methods", "cvfl"): {"embedding": {"codec": "scalar", "bits": 2}},
    ("methods", "efvfl"): {"embedding": {"codec": "top_k", "ratio": 0.1}},
    ("stragglers", "deadline"): {"seconds": 0.5},
    ("stragglers", "fastest"): {"count": 2},
    ("delays", "constant"): {"each": 0.5},
    ("delays", "exponential"): {"mean": 0.1},
    ("delays", "trace"): {"path": str(Path(__file__).parent.parent / "examples" / "delays.csv")},
}
ALL = [(group, name) for group in GROUPS for name in GROUPS[group].ours]


def method(content: Any) -> Method:
    """Return a method from a configuration, which comes back whole on the way."""
    config = parse_config({"method": content})
    plain = yaml.safe_load(yaml.safe_dump(config.as_dict()))
    again = parse_config(plain)
    assert again == config
    assert again.as_dict() == config.as_dict()
    assert again.method.build() == config.method.build()
    return config.method.build()


def refused(content: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_config({"method": content})
    return str(caught.value).removeprefix("configuration: ")


# Ours


@pytest.mark.parametrize(("group", "name"), ALL)
def test_a_part_comes_back_whole(group: str, name: str) -> None:
    of = section(find(GROUPS[group], name))
    made = of.model_validate({GROUPS[group].key: name} | NEEDED.get((group, name), {}))
    plain = yaml.safe_load(yaml.safe_dump(made.model_dump(mode="json")))
    assert set(plain) == set(of.model_fields)
    assert of.model_validate(plain) == made
    assert of.model_validate(plain).build() == made.build()
    said = written(made.build())
    if isinstance(GROUPS[group].ours[name], type) and group not in ("models", "tops"):
        assert said == made


@pytest.mark.parametrize(("group", "name"), ALL)
def test_every_setting_is_described(group: str, name: str) -> None:
    of = section(find(GROUPS[group], name))
    assert of.__doc__
    for key, field in of.model_fields.items():
        assert field.description or key == GROUPS[group].key, key


METHODS: list[tuple[Any, Method]] = [
    ("lean", methods.lean()),
    ({"name": "lean", "step": 2, "below": 0.5}, methods.lean(2.0, 0.5)),
    ({"embedding": {"codec": "scalar", "bits": 2}}, methods.svfl(Scalar(2))),
    ({"name": "svfl", "correction": 0.5}, methods.svfl(correction=0.5)),
    ({"name": "fedbcd", "local_steps": 4, "fusion": "sum"}, methods.fedbcd(4, Sum())),
    (
        {"name": "cvfl", "embedding": {"codec": "scalar", "bits": 2}, "derivative": "float"},
        methods.cvfl(Scalar(2), derivative_codec=Float()),
    ),
    (
        {
            "name": "efvfl",
            "embedding": {"codec": "qsgd", "levels": 3},
            "labels": "shared",
            "top": {"codec": "qsgd", "levels": 7},
            "others": "total",
            "fusion": "mean",
            "surrogates": {"storage": "memory", "dtype": "float16"},
        },
        methods.efvfl(
            QSGD(3), None, Mean(), "shared", top_codec=QSGD(7), others="total",
            storage=Memory("float16"),
        ),
    ),
    # compositions
    ({"exchange": "split"}, Method("custom")),
    ({"uplink": "plain", "name": "custom"}, Method("custom")),
    (
        {
            "name": "both-ways",
            "fusion": "mean",
            "uplink": {
                "uplink": "plain",
                "link": {
                    "link": "error_feedback",
                    "codec": {"codec": "top_k", "ratio": 0.05},
                    "storage": {"storage": "disk", "folder": "s"},
                },
                "held_out": {"link": "direct", "codec": {"codec": "float", "format": 16}},
            },
            "exchange": {
                "exchange": "split",
                "downlink": {"link": "error_feedback", "codec": {"codec": "qsgd", "levels": 3}},
                "correction": 0.25,
            },
            "local_updates": {"local_updates": "replayed", "steps": 2, "batches": 5},
        },
        Method(
            "both-ways",
            Mean(),
            Plain(ErrorFeedback(TopK(0.05), Disk(Path("s"))), Direct(Float(16))),
            Split(ErrorFeedback(QSGD(3)), 0.25),
            Replayed(2, 5),
        ),
    ),
    (
        {
            "uplink": {"uplink": "plain", "link": {"codec": "scalar", "bits": 4}},
            "exchange": {"exchange": "relay", "labels": "shared", "top": "float"},
            "local_updates": {"local_updates": "consecutive", "steps": 3},
        },
        Method(
            "custom", Concat(), Plain(Direct(Scalar(4))), Relay("shared"), Consecutive(3)
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), METHODS, ids=lambda value: str(value)[:40])
def test_a_method_is_what_python_makes(content: Any, expected: Method) -> None:
    assert method(content) == expected


def test_null_takes_a_key_back() -> None:
    assert method({"name": "fedbcd", "local_steps": 2, "embedding": None}) == methods.fedbcd(2)
    assert method({"name": None, "exchange": "split"}) == Method("custom")


REFUSED: list[tuple[Any, str]] = [
    (
        {"name": "svfl", "local_steps": 3},
        "method.local_steps: unknown key; there are name, embedding, derivative, fusion, correc",
    ),
    ({"name": "lean", "exchange": "split"}, "method: 'lean' is a method there is, and a compo"),
    ({"name": "efvfl"}, "method.embedding: is required"),
    (
        {"name": "efvlf"},
        "method: 'efvlf' names none of 'svfl', 'fedbcd', 'cvfl', 'efvfl', 'celu', 'vafl', 'lean', "
        "'pbm_vfl', 'wait_dp', 'fedvs'; 'efvfl' is near",
    ),
    ({"name": "mine", "fusion": "sum"}, "method: 'mine' names none of 'svfl'"),
    ({"name": ["svfl"]}, "method: ['svfl'] names none of 'svfl'"),
    (3, "method: expected a name or keys and values, not 3"),
    ({"name": "lean", "replayed": True}, "method.replayed: input should be a valid integer, not T"),
    ({"name": "lean", "replayed": 0}, "method: steps to replay are 1 or more, not 0"),
    ({"name": "svfl", "correction": -1}, "method: correction must be 0 or more, not -1"),
    (
        {"name": "cvfl", "embedding": "float", "local_steps": 2},
        "method: C-VFL's Algorithm 2, with private labels, takes one step a round",
    ),
    ({"exchange": "relay"}, "method.exchange: the relay exchange shows every party the labels"),
    (
        {
            "exchange": {"exchange": "relay", "labels": "shared"},
            "local_updates": {"local_updates": "replayed"},
        },
        "method: replaying is for exchanges in which",
    ),
    (
        {"exchange": {"exchange": "split", "downlink": {"link": "error_feedback", "codec": "float",
                                                        "storage": "tape"}}},
        "method.exchange.downlink.storage: 'tape' names none of 'memory', 'disk'",
    ),
    (
        {"uplink": {"uplink": "plain", "link": "error_feedback"}},
        "method.uplink.link.codec: is required",
    ),
    (
        {"uplink": {"link": {"codec": "scalar", "bits": 4}}},
        "method.uplink: the key 'uplink' is missing, which says what it is",
    ),
    (
        {"uplink": {"uplink": "plain", "link": {"link": "error_feedback", "codec":
                                                {"codec": "scalar", "bits": 4}}}},
        "method.uplink.link: error feedback needs a codec that contracts",
    ),
    ({"straglers": "wait"}, "method.straglers: unknown key; there are name, embedding, derivative, "
     "fusion, correction; 'stragglers' is near"),
    ({"name": "lean", "stp": 2}, "method.stp: unknown key; there are name, step, below"),
    ({"name": "svfl", "local_updates": "replayed"}, "method: 'svfl' is a method there is, and a "
     "composition, which has the key 'local_updates', may not carry a method's name"),
    ({"embedding": {"link": "error_feedback"}}, "method.embedding: a codec is expected here, and "
     "'error_feedback' is a link; a link belongs into a composition, as in uplink: {uplink: plain"),
    ({"embedding": {"link": "error_feedback", "codec": {"codec": "top_k", "ratio": 0.1}}},
     "method.embedding: a codec is expected here, and 'error_feedback' is a link"),
    ({"name": "celu", "local_steps": 5}, "method.local_steps: unknown key; there are name, "
     "capacity, reuses, min_cosine, embedding, derivative, fusion, overlap, bursts; 'reuses' is "
     "what says how many local steps there are"),
    ({"name": "fedbcd", "reuses": 5}, "method.reuses: unknown key; there are name, local_steps, "
     "fusion, labels; 'local_steps' is what says how many local steps there are"),
    ({"embedding": "direct"}, "method.embedding: a codec is expected here, and 'direct' is a link"),
    ({"name": "svfl", "correction": True}, "method.correction: input should be a valid number"),
    ({"name": "svfl", "correction": "2"}, "method.correction: input should be a valid number"),
    ({"exchange": "split", "name": "../x"}, "method.name: a name is made of letters"),
    ({"exchange": "split", "steps": 3}, "method.steps: unknown key; there are name, fusion, upli"),
    (
        {"embedding": {"codec": "entropy", "quantiser": "float"}},
        "method.embedding: entropy coding needs a codec with symbols",
    ),
    (
        {"embedding": {"codec": "by_round", "rounds": [0],
                       "codecs": [{"codec": "scalar", "x": 1}]}},
        "method.embedding.codecs.0.x: unknown key; there are codec, bits",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_is_wrong_is_named_with_its_path(content: Any, message: str) -> None:
    assert refused(content).startswith(message)


CODECS = st.recursive(
    st.builds(Float, st.sampled_from([16, 32, "bf16"]))
    | st.builds(Scalar, st.integers(1, 8), dither=st.booleans())
    | st.builds(lambda bits: Entropy(Scalar(bits)), st.integers(1, 8))
    | st.builds(QSGD, st.integers(1, 127), st.sampled_from(["l2", "max"])),
    lambda inner: st.builds(TopK, st.floats(0.01, 1), values=inner),
    max_leaves=3,
)


@settings(max_examples=60)
@given(CODECS)
def test_a_codec_is_written_and_read(codec: Any) -> None:
    content = written(codec).model_dump(mode="json")
    assert method({"embedding": content}) == methods.svfl(codec)
    assert method({"uplink": {"uplink": "plain", "link": content}}).uplink == Plain(Direct(codec))


# Hostile files


def test_what_never_ends_is_refused() -> None:
    deep: Any = "float"
    for _ in range(100):
        deep = {"codec": "top_k", "ratio": 0.5, "values": deep}
    assert refused({"embedding": deep}) == "nested more than 32 levels deep"
    round_and_round = yaml.safe_load("&x {codec: top_k, ratio: 0.5, values: *x}")
    assert refused({"embedding": round_and_round}) == "nested more than 32 levels deep"
    many: Any = "float"
    for _ in range(9):
        many = {"codec": "by_round", "rounds": list(range(10)), "codecs": [many] * 10}
    assert refused({"embedding": many}) == "more than 100,000 values"


# Packages

ACME = '''
from dataclasses import dataclass, field
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from colonnade.codecs import Codec, Float
from colonnade.links import Direct, Link
from colonnade.exchanges import Exchange, Split
from colonnade.methods import Method
from colonnade.models import Fusion
from colonnade.uplinks import Plain


@dataclass(frozen=True)
class Halved(Float):
    """Half of every number.

    Parameters
    ----------
    times
        How often.
    inner
        What encodes the rest.
    """

    times: Annotated[int, Field(ge=1)] = 1
    inner: Codec = field(default_factory=Float)

    def __post_init__(self) -> None:
        if self.times > 9:
            raise ValueError("nine times at most")


class Unknown:
    """Nothing that a registry knows."""

    def __eq__(self, other):
        return isinstance(other, Unknown)


def twice(codec: Codec, fusion: Fusion | None = None, answer: Exchange | None = None) -> Method:
    """Send it through a codec of theirs."""
    return Method("twice", *([fusion] if fusion else []), uplink=Plain(Direct(codec)),
                  exchange=answer or Split())


def net(inputs: int, *, hidden: int = 3, activation: str = "tanh") -> nn.Module:
    """Two layers.

    Parameters
    ----------
    inputs
        Columns.
    hidden
        How wide.
    """
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh())


def head(inputs: int, outputs: int, bias: bool = True) -> nn.Module:
    """One layer."""
    return nn.Linear(inputs, outputs, bias=bias)


def untyped(size):
    """Say nothing of size."""


def fails(size: int = 1) -> Method:
    """Fail."""
    raise KeyError("oh")


def no_method(size: int = 1) -> Method:
    """Make no method."""
    return size


def uplinked(uplink: int = 1) -> Method:
    """Have an argument that only a composition has."""


def custom() -> Method:
    """Be called like any composition."""


def private(build: int = 1) -> Method:
    """Have an argument that a section cannot have."""


number = 3
'''

POINTS = """
[colonnade.codecs]
halved = acme_parts:Halved
large_rows = acme_parts:Halved
gone = acme_parts:Gone
absent = acme_absent:Gone
number = acme_parts:number
[colonnade.methods]
twice = acme_parts:twice
untyped = acme_parts:untyped
fails = acme_parts:fails
no_method = acme_parts:no_method
private = acme_parts:private
uplinked = acme_parts:uplinked
custom = acme_parts:custom
[colonnade.links]
float = acme_parts:halved
[colonnade.models]
net = acme_parts:net
[colonnade.tops]
head = acme_parts:head
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package, as pip would: its module, and what it says of itself."""
    install(tmp_path, "acme-parts", POINTS)
    (tmp_path / "acme_parts.py").write_text(ACME, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_parts", raising=False)
    return tmp_path


def install(folder: Path, name: str, points: str) -> None:
    info = folder / f"{name.replace('-', '_')}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(points)


def test_a_packages_codec_is_a_codec(acme: Path) -> None:
    inner = {"codec": "top_k", "ratio": 0.5}
    made = method({"embedding": {"codec": "halved", "times": 2, "inner": inner}})
    codec: Any = made.uplink.link.codec  # type: ignore[attr-defined]  # a direct link
    assert (type(codec).__name__, codec.times, codec.inner) == ("Halved", 2, TopK(0.5))
    assert method({"embedding": {"codec": "top_k", "ratio": 0.5, "values": "halved"}})
    at = "method.embedding"
    assert refused({"embedding": {"codec": "halved", "times": 0}}).startswith(f"{at}.times: input")
    assert refused({"embedding": {"codec": "halved", "times": 10}}) == f"{at}: nine times at most"
    assert refused({"embedding": {"codec": "halved", "inner": "zip"}}).startswith(
        f"{at}.inner: 'zip' na"
    )
    assert "'by_round', 'halved'" in refused({"embedding": "zip"})


def test_a_packages_method_is_a_method(acme: Path) -> None:
    made = method({"name": "twice", "embedding": "halved", "fusion": "mean", "answer": "split"})
    assert (made.name, made.fusion) == ("twice", Mean())
    assert refused({"name": "twice", "codec": "float"}).startswith(
        "method.codec: unknown key; there are name, embedding, fusion, answer"
    )


def test_a_packages_models_are_made_for_their_features(acme: Path) -> None:
    config = parse_config(
        {
            "data": {"train_rows": 20, "test_rows": 10},
            "model": {
                "bottom": {"model": "net", "hidden": 5},
                "top": {"model": "head", "bias": False},
            },
        }
    )
    assert parse_config(config.as_dict()) == config
    made = config.build_federation()
    assert set(made.widths.values()) == {5}
    assert (
        made.label_holder.top[0].bias is None
        if hasattr(made.label_holder.top, "__getitem__")
        else made.label_holder.top.bias is None
    )
    again = config.build_federation()
    assert all(
        (a == b).all()
        for a, b in zip(
            made.parties[0].bottom.parameters(), again.parties[0].bottom.parameters(), strict=True
        )
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"embedding": "large_rows"}, "method.embedding: colonnade and acme-parts 1.5 both have a "
         "codec called 'large_rows'"),
        ({"embedding": "gone"}, "method.embedding: the codec 'gone' of acme-parts 1.5 "
         "(acme_parts:Gone) cannot be imported: AttributeError"),
        ({"embedding": "absent"}, "method.embedding: the codec 'absent' of acme-parts 1.5 "
         "(acme_absent:Gone) cannot be imported: ModuleNotFoundError"),
        ({"embedding": "number"}, "method.embedding: the codec 'number' of acme-parts 1.5 "
         "(acme_parts:number) is neither a class nor a function, but 3"),
        ("untyped", "method: the method 'untyped' of acme-parts 1.5 does not say of which type"),
        ("fails", "method: the method 'fails' of acme-parts 1.5 failed: KeyError: 'oh'"),
        ("no_method", "method: the method 'no_method' of acme-parts 1.5 makes no Method, but 1"),
        ("uplinked", "method: the method 'uplinked' of acme-parts 1.5 has a setting 'uplink'"),
        ("custom", "method: the method 'custom' of acme-parts 1.5 is called like a composition"),
        ({"name": "twice", "exchange": "split"}, "method: 'twice' is a method there is, and a co"),
        ({"uplink": {"uplink": "plain", "link": "float"}}, "method.uplink.link: there is a link and"
         " a codec called 'float', so it is not clear which is meant; say {link: float} or {codec"),
        ("private", "method: the method 'private' of acme-parts 1.5 has an argument 'build'"),
    ],
)  # fmt: skip
def test_what_a_package_got_wrong_names_the_package(acme: Path, content: Any, message: str) -> None:
    assert refused(content).startswith(message)


def test_a_composition_needs_no_name_whatever_packages_have(acme: Path) -> None:
    assert method({"exchange": "split"}) == Method("custom")
    plain = {"uplink": {"uplink": "plain", "link": {"codec": "float"}}}
    assert method(plain).uplink == Plain(Direct(Float()))


def test_the_schema_demands_what_the_command_does() -> None:
    schema = json_schema()["$defs"]
    assert schema["ScalarCodec"]["required"] == ["bits", "codec"]
    assert schema["FedbcdMethod"]["required"] == ["local_steps", "name"]
    assert "required" not in schema["SvflMethod"]
    assert "required" not in schema["MlpConfig"]
    assert {"$ref": "#/$defs/codecs"} in schema["links"]["anyOf"]
    json.dumps(json_schema(), allow_nan=False)


def test_numbers_are_numbers() -> None:
    assert parse_config({"optimiser": {"lr": "1e-3"}}).optimiser.lr == 0.001  # YAML's 1e-3
    assert parse_config({"optimiser": {"lr": 1}}).optimiser.lr == 1.0
    wrong: list[Any] = [
        {"optimiser": {"lr": True}},
        {"optimiser": {"lr": "2"}},
        {"model": {"sparsity": True}},
        {"network": {"latency": True}},
        {"costs": {"slowdown": {"a": "2"}}},
        {"data": {"validation": "0.5"}},
    ]
    for each in wrong:
        with pytest.raises(ConfigurationError, match="should be a valid number"):
            parse_config(each)


def test_what_is_not_asked_for_does_no_harm(acme: Path) -> None:
    """Not even a package that takes our names; and nothing of it is imported."""
    assert parse_config({}).method.build() == methods.svfl()
    assert parse_config({"method": {"embedding": {"codec": "scalar", "bits": 2}}})
    assert "acme_parts" not in sys.modules


def test_lists_leave_out_what_cannot_be_used_and_say_why(acme: Path) -> None:
    codecs = {part.name: part.origin for part in usable(GROUPS["codecs"])}
    assert codecs["scalar"] == "colonnade"
    assert codecs["halved"] == "acme-parts 1.5"
    assert not {"large_rows", "gone", "number"} & set(codecs)
    assert len(unusable(GROUPS["codecs"])) == 4
    schema = json_schema()["$defs"]
    assert schema["HalvedCodec"]["properties"]["times"]["minimum"] == 1
    assert {"$ref": "#/$defs/TwiceMethod"} in schema["methods"]["anyOf"]


def test_two_packages_with_one_name(acme: Path) -> None:
    install(acme, "other-parts", "[colonnade.codecs]\nhalved = other_parts:Halved\n")
    sys.path.append(str(acme / "nowhere"))  # a path that nobody has looked through yet
    try:
        message = refused({"embedding": "halved"})
    finally:
        sys.path.pop()
    assert "1.5 both have a codec called 'halved'" in message
    assert "acme-parts" in message
    assert "other-parts" in message


def test_without_packages_there_are_only_ours() -> None:
    for group in GROUPS.values():
        assert names(group) == tuple(group.ours)
        assert unusable(group) == []


# The package of the documentation

EXAMPLE = Path(__file__).parent.parent / "examples" / "package"


def test_the_page_names_every_group_of_entry_points() -> None:
    page = (EXAMPLE.parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
    table = page.partition("| entry points |")[2].partition("\n\n")[0]
    named = re.findall(r"`(?:colonnade\.)?(\w+)`", "".join(re.findall(r"^\|[^|]*", table, re.M)))
    assert sorted(named) == sorted(GROUPS)


@pytest.mark.parametrize("values", [{}, {"values": Scalar(8)}], ids=["float", "scalar"])
@pytest.mark.parametrize("check", codecs_kit.CHECKS, ids=lambda check: check.__name__)
def test_the_packages_codec_conforms(
    check: Callable[[codecs_kit.Subject], None],
    values: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    acme = importlib.import_module("acme")
    monkeypatch.delitem(sys.modules, "acme")
    check(codecs_kit.Subject(acme.Clipped(2.0, **values)))


def test_the_packages_example_is_what_the_page_says_and_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (EXAMPLE.parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
    code = (EXAMPLE / "acme.py").read_text(encoding="utf-8")
    assert f"```py\n{code}```" in page
    project = (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    assert project.partition("[build-system]")[0].rstrip() in page
    points = tomllib.loads(project)["project"]["entry-points"]
    install(
        tmp_path,
        "acme",
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
            for group, named in points.items()
        ),
    )
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(tmp_path))
    small = {
        "data": {"train_rows": 40, "test_rows": 10},
        "training": {"epochs": 1, "batch_size": 20},
    }
    [written_there] = re.findall(r"```yml\n(.*?)```", page, re.DOTALL)
    for content in (yaml.safe_load(written_there), {"method": {"name": "clipped", "limit": 2}}):
        config = parse_config(small | content)
        assert parse_config(yaml.safe_load(yaml.safe_dump(config.as_dict()))) == config
        assert config.train().summary["rounds"] == 2
    assert refused({"embedding": {"codec": "clipped", "limit": 0}}) == (
        "method.embedding: limit must be above 0, not 0.0"
    )
