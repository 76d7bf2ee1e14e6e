"""Configuration: YAML to objects and back; the only place where a string picks a class.

A configuration is validated whole before anything is made or written: an unknown key, a wrong type
or an impossible value is a ``ConfigurationError`` that names the field by its path. Codecs, fusions
and the like are their own configuration: the fields of the frozen class are the keys of its
section, and what the class refuses is refused at that section.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

import pydantic
import torch
import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from colonnade import methods
from colonnade.channels import Channel, Network
from colonnade.codecs import Float, Scalar
from colonnade.costs import CostModel, Measured, Modelled
from colonnade.datasets import PartitionName, VerticalDataset, fashion_mnist, mnist, mnist5k
from colonnade.drivers import Driver, Processes, Simulate
from colonnade.errors import ConfigurationError
from colonnade.federation import Federation, LabelHolder, Party, Training, Watcher
from colonnade.models import Concat, Max, Mean, OptimiserFactory, Sum, mlp
from colonnade.runs import Run
from colonnade.streams import StreamKey

__all__ = ["RunConfig", "load_config", "override", "parse_config"]

_DATASETS = {"mnist5k": mnist5k, "mnist": mnist, "fashion_mnist": fashion_mnist}
_OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}

# Numbers with units

_QUANTITY = re.compile(r"\s*([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)\s*")


def _quantity(**units: float) -> Any:
    """Return the type of a number that may be written with a unit, such as ``300 Mbit/s``."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        match = _QUANTITY.fullmatch(value)
        if match is None or match[2] not in units:
            raise ValueError(f"{value!r} is not a number with a unit ({', '.join(units)})")
        return float(match[1]) * units[match[2]]

    return BeforeValidator(read)


_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
_Bandwidth = Annotated[float, Field(gt=0), _quantity(**_RATES)]
_Seconds = Annotated[float, Field(ge=0, lt=math.inf), _quantity(us=1e-6, ms=1e-3, s=1.0, min=60.0)]
_Name = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
_Count = Annotated[int, Field(ge=1, strict=True)]  # strict: yes is not 1


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


# Sections whose fields are those of a class


class _Chosen(_Section):
    """A section that stands for a value of ``made_by``."""

    def build(self) -> Any:
        """Return the value."""
        raise AssertionError("every section made by _choice has its own")  # pragma: no cover

    @pydantic.model_validator(mode="after")
    def _accepted(self) -> _Chosen:
        try:
            self.build()
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return self


def _section(key: str, name: str, cls: Callable[..., Any]) -> Any:
    """Return the section type of a frozen dataclass: its fields, and ``key: name``."""
    hints = get_type_hints(cls)

    def build(self: _Chosen) -> Any:
        return cls(**{f.name: getattr(self, f.name) for f in fields(cls)})  # type: ignore[arg-type]  # a dataclass

    content: dict[str, Any] = {key: (Literal[name], name)}
    for f in fields(cls):  # type: ignore[arg-type]  # a dataclass
        hint = pydantic.StrictInt if hints[f.name] is int else hints[f.name]
        content[f.name] = (hint, ... if f.default is MISSING else f.default)
    section = pydantic.create_model(f"{name.title()}Section", __base__=_Chosen, **content)
    section.build = build  # type: ignore[method-assign]  # each section builds its own class
    return section


def _choice(key: str, **classes: Callable[..., Any]) -> Any:
    """Return the type of a section that ``key`` tells from others; a bare name will do for one."""
    sections = tuple(_section(key, name, cls) for name, cls in classes.items())
    union: Any = reduce(or_, sections)
    named = BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)
    return Annotated[union, Field(discriminator=key), named]


if TYPE_CHECKING:
    _Codec: TypeAlias = _Chosen
    _Fusion: TypeAlias = _Chosen
else:
    _Codec = _choice("codec", float=Float, scalar=Scalar)
    _Fusion = _choice("fusion", concat=Concat, sum=Sum, mean=Mean, max=Max)


_FLOAT: Any = "float"
_CONCAT: Any = "concat"


# The sections of a run


class DataConfig(_Section):
    """Which data, cut how among whom."""

    name: Literal["mnist5k", "mnist", "fashion_mnist"] = "mnist5k"
    folder: Path | None = Field(None, description="holds the files; else COLONNADE_DATA")
    partition: PartitionName = "quadrants"
    parties: _Count = 4
    normalise: tuple[pydantic.FiniteFloat, pydantic.FiniteFloat] | None = None
    train_rows: _Count | None = Field(None, description="use only the first ones")
    test_rows: _Count | None = Field(None, description="use only the first ones")

    def load(self) -> VerticalDataset:
        """Read the data set."""
        dataset = _DATASETS[self.name](
            self.folder,
            partition=self.partition,
            parties=self.parties,
            normalise=self.normalise,
        )
        if self.train_rows is None and self.test_rows is None:
            return dataset
        return dataset.head(self.train_rows, self.test_rows)


class MlpConfig(_Section):
    """A multi-layer perceptron."""

    widths: list[_Count] = [128]
    activation: Literal["identity", "relu", "sigmoid", "tanh", "gelu"] = "relu"
    dropout: float = Field(0.0, ge=0, lt=1)


def _has_layers(value: MlpConfig) -> MlpConfig:
    if not value.widths:
        raise ValueError("widths should name a layer or more, not []")
    return value


class ModelConfig(_Section):
    """Each party's bottom model, and the label holder's top model without its output layer."""

    bottom: Annotated[MlpConfig, AfterValidator(_has_layers)] = MlpConfig()
    top: MlpConfig = MlpConfig(widths=[])


class OptimiserConfig(_Section):
    """The optimiser that every organisation uses; settings left out are torch's."""

    name: Literal["sgd", "adam", "adamw", "adagrad", "rmsprop"] = "adam"
    lr: float = Field(1e-3, gt=0, lt=math.inf)
    momentum: float | None = Field(None, ge=0, lt=math.inf)
    weight_decay: float | None = Field(None, ge=0, lt=math.inf)

    @pydantic.model_validator(mode="after")
    def _fits(self) -> OptimiserConfig:
        if self.momentum is not None and self.name not in ("sgd", "rmsprop"):
            raise ValueError(f"{self.name} has no momentum")
        return self

    def build(self) -> OptimiserFactory:
        """Return what makes the optimiser of some parameters."""
        settings = self.model_dump(exclude={"name"}, exclude_none=True)
        return partial(_OPTIMISERS[self.name], **settings)


class LabelHolderConfig(_Section):
    """Who has the labels."""

    name: _Name = "label_holder"
    holds: _Name | None = Field(
        None, description="a part of the data that is its own, not a party's"
    )


class MethodConfig(_Section):
    """The method, and how its messages are encoded."""

    name: Literal["svfl"] = "svfl"
    embedding: _Codec = _FLOAT
    derivative: _Codec = _FLOAT
    fusion: _Fusion = _CONCAT

    def build(self) -> methods.Method:
        """Return the method."""
        return methods.svfl(self.embedding.build(), self.derivative.build(), self.fusion.build())


class TrainingConfig(_Section):
    """How long, and in which steps; see ``Training``."""

    epochs: _Count = 5
    batch_size: _Count = 128
    seed: int = Field(0, ge=-(2**63), lt=2**63, strict=True)
    threads: _Count = 1
    evaluate_every: _Count | None = Field(None, description="rounds; an epoch by default")
    evaluation_rows: _Count = 1024
    checkpoint_every: _Count | None = Field(None, description="rounds; an epoch by default")

    def build(self) -> Training:
        """Return the training settings."""
        return Training(**self.model_dump())


class ChannelConfig(_Section):
    """One direction of a connection."""

    bandwidth: _Bandwidth = math.inf
    latency: _Seconds = 0.0

    def build(self) -> Channel:
        """Return the channel."""
        return Channel(self.bandwidth, self.latency)


class ConnectionConfig(_Section):
    """A party's connection to the label holder; what is left out is as for everybody."""

    up: ChannelConfig | None = None
    down: ChannelConfig | None = None


class NetworkConfig(ChannelConfig):
    """The modelled network: what holds for everybody, and who differs."""

    parties: dict[_Name, ConnectionConfig] = {}
    queue: _Count = 64

    def network(self, label_holder: str) -> Network:
        """Return the network around ``label_holder``."""
        pairs = {}
        for party, connection in self.parties.items():
            if connection.up is not None:
                pairs[party, label_holder] = connection.up.build()
            if connection.down is not None:
                pairs[label_holder, party] = connection.down.build()
        return Network(self.build(), pairs, self.queue)


_WORK = ("forward", "encode", "decode", "top", "update", "backward", "metrics")


def _known_work(kind: str) -> str:
    if kind not in _WORK:
        raise ValueError(f"there is no such work; there are {', '.join(_WORK)}")
    return kind


_Work = Annotated[str, AfterValidator(_known_work)]


class CostConfig(_Section):
    """What work costs on the virtual clock."""

    kind: Literal["measured", "modelled"] = "measured"
    seconds: dict[_Work, _Seconds] = {}
    seconds_per_row: dict[_Work, _Seconds] = {}
    slowdown: dict[_Name, Annotated[float, Field(ge=0, lt=math.inf)]] = {}

    @pydantic.model_validator(mode="after")
    def _fits(self) -> CostConfig:
        if self.kind == "measured" and (self.seconds or self.seconds_per_row):
            raise ValueError("measured costs take no seconds; say kind: modelled")
        return self

    def build(self) -> CostModel:
        """Return the cost model."""
        if self.kind == "measured":
            return Measured(self.slowdown)
        return Modelled(self.seconds, self.seconds_per_row, self.slowdown)


class RunConfig(_Section):
    """Everything that decides a run."""

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    label_holder: LabelHolderConfig = LabelHolderConfig()
    method: MethodConfig = MethodConfig()
    training: TrainingConfig = TrainingConfig()
    driver: Literal["simulate", "processes"] = "simulate"
    network: NetworkConfig = NetworkConfig()
    costs: CostConfig = CostConfig()

    def build_driver(self) -> Driver:
        """Return the driver."""
        if self.driver == "processes":
            return Processes(self.network.queue)
        return Simulate(self.network.network(self.label_holder.name), self.costs.build())

    def build_federation(self) -> Federation:
        """Load the data and make the models, each organisation's from its own seed.

        Raises
        ------
        ConfigurationError, DataError
            If data, models and names do not fit together.
        """
        dataset = self.data.load()
        holder = self.label_holder
        features = dict(dataset.features)
        own = None if holder.holds is None else features.pop(holder.holds, None)
        if holder.holds is not None and own is None:
            raise ConfigurationError(
                f"label_holder.holds: there is no part {holder.holds!r} of the data; "
                f"there are {', '.join(dataset.features)}"
            )
        self._check_names({*features, holder.name})
        optimiser = self.optimiser.build()
        fusion = self.method.fusion.build()
        widths = [self.model.bottom.widths[-1]] * (len(features) + (own is not None))
        top = self.model.top
        return Federation(
            [
                Party(name, columns, self._bottom(name, columns.shape[1]), optimiser)
                for name, columns in features.items()
            ],
            LabelHolder(
                holder.name,
                dataset.labels,
                self._seeded(
                    holder.name,
                    "top",
                    partial(
                        mlp,
                        fusion.width(widths),
                        [*top.widths, dataset.classes],
                        top.activation,
                        last="identity",
                        dropout=top.dropout,
                    ),
                ),
                features=own,
                bottom=None if own is None else self._bottom(holder.name, own.shape[1]),
                optimiser=optimiser,
            ),
            train_rows=dataset.train,
            test_rows=dataset.test,
        )

    def train(
        self,
        out: Path | None = None,
        *,
        resume: bool = False,
        watcher: Watcher | None = None,
        federation: Federation | None = None,
    ) -> Run:
        """Carry out the run; ``federation`` saves loading the data once more."""
        return (federation or self.build_federation()).train(
            self.method.build(),
            self.training.build(),
            self.build_driver(),
            out=out,
            resume=resume,
            watcher=watcher,
            config=self.as_dict(),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the complete configuration as plain values, defaults included."""
        return self.model_dump(mode="json")

    def _bottom(self, name: str, inputs: int) -> torch.nn.Module:
        bottom = self.model.bottom
        make = partial(mlp, inputs, bottom.widths, bottom.activation, dropout=bottom.dropout)
        return self._seeded(name, "bottom", make)

    def _seeded(self, name: str, part: str, make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        """Make a module whose start depends on the seed and its place alone."""
        with torch.random.fork_rng(devices=[]):
            key = StreamKey(self.training.seed, name, f"initialisation/{part}", 0)
            torch.manual_seed(key.torch_seed())
            return make()

    def _check_names(self, names: set[str]) -> None:
        """Refuse settings for organisations that are not in the run."""
        named: dict[str, Mapping[str, object]] = {
            "network.parties": self.network.parties,
            "costs.slowdown": self.costs.slowdown,
        }
        for path, mapping in named.items():
            for name in mapping:
                if name not in names:
                    raise ConfigurationError(
                        f"{path}.{name}: there is no such organisation; "
                        f"there are {', '.join(sorted(names))}"
                    )


def parse_config(data: Any, source: str = "configuration") -> RunConfig:
    """Validate a configuration given as plain values.

    Raises
    ------
    ConfigurationError
        Naming ``source``, the path to the first wrong field, and what is wrong with it.

    Examples
    --------
    >>> parse_config({"method": {"embedding": {"codec": "scalar", "bits": 4}}}).method.build().name
    'svfl'
    >>> parse_config({"training": {"epoch": 3}})
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: configuration: training.epoch: unknown key; \
there are epochs, batch_size, seed, threads, evaluate_every, evaluation_rows, checkpoint_every
    """
    if data is None:
        data = {}
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{source}: expected keys and values, found {data!r}")
    try:
        return RunConfig.model_validate(data)
    except pydantic.ValidationError as error:
        # An unknown key first: it is likely why another one is missing.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        path = ".".join(_trail(first["loc"])[0])
        more = error.error_count() - 1
        raise ConfigurationError(
            f"{source}: {path}: {_said(first)}" + (f" (and {more} more)" if more else "")
        ) from None


def _said(error: Any) -> str:
    """Return what is wrong with a field, in a few words."""
    if error["type"] == "extra_forbidden":
        return f"unknown key; there are {', '.join(_trail(error['loc'][:-1])[1])}"
    if error["type"] == "missing":
        return "is required"
    if error["type"] == "union_tag_not_found":
        return f"the key {error['ctx']['discriminator']} is missing, which says what it is"
    if error["type"] == "union_tag_invalid":
        return f"names none of {error['ctx']['expected_tags']}"
    if error["type"] == "string_pattern_mismatch":
        return f"a name is made of letters, digits and . _ -, not {error['input']!r}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        message = "input should be a valid dictionary of keys and values"
    value = error.get("input")
    if isinstance(value, (str, int, float, bool)) and repr(value) not in message:
        message += f", not {value!r}"
    return message[:1].lower() + message[1:]


def _trail(location: tuple[int | str, ...]) -> tuple[list[str], list[str]]:
    """Return the path to a field as a user writes it, and the keys of the section it leads to."""
    path: list[str] = []
    section: type[BaseModel] | None = RunConfig
    entries: type[BaseModel] | None = None
    alternatives: dict[str, type[BaseModel]] = {}
    for part in map(str, location):
        if part == "[key]":  # pydantic's note that it is the name of an entry that is wrong
            continue
        if part in alternatives:  # pydantic's note of which alternative it took: no key
            section, alternatives = alternatives[part], {}
            continue
        path.append(part)
        if entries is not None:  # the name of an entry, chosen by the user
            section, entries = entries, None
            continue
        field = section.model_fields.get(part) if section is not None else None
        annotation = None if field is None else field.annotation
        members = _sections(annotation)
        section = members[0] if len(members) == 1 else None
        if get_origin(annotation) is dict:
            section, entries = None, section
        alternatives = {_tag(member): member for member in members[1:] and members}
    return path, list(section.model_fields) if section is not None else []


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the section types that an annotation names."""
    return [
        member
        for member in (annotation, *get_args(annotation))
        if isinstance(member, type) and issubclass(member, BaseModel)
    ]


def _tag(section: type[BaseModel]) -> str:
    """Return the name that chooses this section among its alternatives: its first field's."""
    return str(next(iter(section.model_fields.values())).default)


# PyYAML lets through what Python says of the date 2024-99-99, and of too deep a nesting.
_NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)


def load_config(path: Path, overrides: list[str] | None = None) -> RunConfig:
    """Read a YAML file, apply overrides such as ``training.epochs=3``, and validate.

    Raises
    ------
    ConfigurationError
        If the file is missing, is not YAML, or does not validate.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not valid YAML (not text in UTF-8)") from None
    except _NOT_YAML as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where else ""
        raise ConfigurationError(f"{path} is not valid YAML{line}") from None
    data = {} if data is None else data
    if isinstance(data, dict):
        data = override(data, overrides or [])
    return parse_config(data, str(path))


def override(data: Any, overrides: list[str]) -> Any:
    """Set ``a.b=value`` in nested plain values; the value is read as YAML.

    >>> override({"training": {"epochs": 1}}, ["training.epochs=3", "data.parties=2"])
    {'training': {'epochs': 3}, 'data': {'parties': 2}}
    """
    for text in overrides:
        path, equals, value = text.partition("=")
        *parents, last = path.strip().split(".")
        if not equals or not last:
            raise ConfigurationError(f"--set {text}: expected path.to.key=value")
        section = data
        for parent in parents:
            if not isinstance(section, dict):
                break
            section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            raise ConfigurationError(f"--set {text}: {'.'.join(parents)} is not a section")
        try:
            section[last] = yaml.safe_load(value)
        except _NOT_YAML:
            raise ConfigurationError(f"--set {text}: {value!r} is not a valid value") from None
    return data
