"""A whole run: its sections, and what they build."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pydantic
from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from colonnade import defaults
from colonnade.assembly import Blueprint, VerticalData, assemble
from colonnade.config.choices import ours
from colonnade.config.data import DataConfig
from colonnade.config.method import MethodConfig
from colonnade.config.models import (
    LabelHolderConfig,
    ModelConfig,
    ObjectiveConfig,
    OptimiserConfig,
)
from colonnade.config.public import ImagesConfig
from colonnade.config.sections import Count, CountOrAuto, Number, Section
from colonnade.config.world import CostConfig, NetworkConfig
from colonnade.drivers import Driver, Processes, Simulate
from colonnade.errors import ConfigurationError
from colonnade.federation import Federation
from colonnade.objectives import Objective
from colonnade.planning import Plan, plan
from colonnade.runs import Run
from colonnade.training import MOST_THREADS, EarlyStopping, Training, Watcher

__all__ = ["RunConfig", "TrainingConfig", "blueprint_of"]


class EarlyStoppingConfig(Section):
    """When to end training before its last epoch; see ``EarlyStopping``."""

    patience: Count | None = Field(
        defaults.PATIENCE, description="evaluations without improvement; null for ever"
    )
    min_delta: Number = Field(0.0, ge=0, lt=math.inf)
    by: Literal["loss", "metric"] = Field(
        "loss", description="what is watched: training's loss, or the deciding metric"
    )


def _stopping(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
    """Let the word and null pass; whatever else is said is refused as a section would be."""
    return value if value in ("auto", None) else EarlyStoppingConfig.model_validate(value)


_Stopping = Annotated[EarlyStoppingConfig | Literal["auto"] | None, WrapValidator(_stopping)]


class TrainingConfig(Section):
    """How long, and in which steps; see ``Training``."""

    epochs: CountOrAuto = Field("auto", description="auto: about 3000 rounds, 15 to 100 epochs")
    batch_size: CountOrAuto = Field("auto", description="auto: 16 to 512, by the training rows")
    seed: int = Field(0, ge=-(2**63), lt=2**63, strict=True)
    threads: Count = Field(1, le=MOST_THREADS)
    evaluate_every: Count | None = Field(None, description="rounds; an epoch by default")
    evaluation_rows: Count = 1024
    checkpoint_every: Count | None = Field(None, description="rounds; an epoch by default")
    schedule_every: Literal["epoch", "round"] = Field(
        "epoch", description="when schedulers take a step; by round their epochs are rounds"
    )
    early_stopping: _Stopping = Field(
        "auto",
        description="ends training by the validation rows, and goes back to the best model; "
        "auto: where there are such rows; null for never",
    )

    secrets: Literal["system", "seed"] = Field(
        "system",
        description="source of keys, masks and private noise; seed declares a simulation, which "
        "repeats and protects nothing",
    )

    def build(self, validation_rows: int = 0) -> Training:
        """Return the training settings, where there are so many validation rows."""
        rule = self.early_stopping
        if rule == "auto":
            rule = EarlyStoppingConfig() if validation_rows else None
        stopping = rule and EarlyStopping(**rule.model_dump())
        return Training(**self.model_dump() | {"early_stopping": stopping})


class _Described(Protocol):
    """What a configuration says of models and how they learn, whatever the data."""

    @property
    def model(self) -> ModelConfig: ...
    @property
    def optimiser(self) -> OptimiserConfig: ...
    @property
    def label_holder(self) -> LabelHolderConfig: ...
    @property
    def method(self) -> Any: ...
    @property
    def training(self) -> TrainingConfig: ...


def blueprint_of(
    said: _Described, objective: Objective, train_rows: int, left_out: Collection[str] = ()
) -> Blueprint:
    """Return what models a configuration describes.

    Parameters
    ----------
    said
        The configuration.
    objective
        What is predicted.
    train_rows
        How many rows are trained on.
    left_out
        Parties that are described and do not take part.
    """
    bottom, bottoms = said.model.bottom_models()
    epochs = said.training.build().epochs_for(train_rows)
    return Blueprint(
        objective,
        said.label_holder.name,
        said.label_holder.holds,
        bottom,
        {name: own for name, own in bottoms.items() if name not in left_out},
        said.model.top.build(),
        said.method.build().fusion,
        said.optimiser.build(),
        said.optimiser.build_scheduler(epochs),
        said.model.device,
        said.training.seed,
    )


class RunConfig(Section):
    """Everything that decides a run."""

    data: DataConfig = ImagesConfig()
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    label_holder: LabelHolderConfig = LabelHolderConfig()
    method: MethodConfig = ours("methods", "svfl")
    training: TrainingConfig = TrainingConfig()
    driver: Literal["simulate", "processes"] = "simulate"
    network: NetworkConfig = NetworkConfig()
    costs: CostConfig = CostConfig()

    @pydantic.model_validator(mode="after")
    def _is_timed_by_its_driver(self) -> RunConfig:
        """Refuse a modelled network and costs where all time is real."""
        if self.driver != "processes":
            return self
        for section, said in (("network", self.network), ("costs", self.costs)):
            usual = dict(type(said)())
            for key, value in said:
                if value != usual[key] and (section, key) != ("network", "queue"):
                    raise ValueError(
                        f"{section}.{key}: driver: processes takes real time, over this machine's "
                        "own sockets, and of these sections network.queue alone; leave it out, or "
                        "say driver: simulate"
                    )
        return self

    def build_driver(self) -> Driver:
        """Return the driver."""
        if self.driver == "processes":
            return Processes(self.network.queue)
        left_out = self.data.leave_out
        return Simulate(
            self.network.network(self.label_holder.name, left_out),
            self.costs.build(self.training.seed, left_out),
        )

    def build_federation(self, data: VerticalData | None = None) -> Federation:
        """Load the data and make the models, each organisation's from its own seed.

        Parameters
        ----------
        data
            What ``self.data.load()`` returned, to save loading it once more, or data of its form.

        Raises
        ------
        ConfigurationError, DataError
            If data, models and names do not fit together.
        """
        data = self.data.load() if data is None else data
        holder, classes = self.label_holder, data.classes
        self._check_names(set(data.features) - {holder.holds} | {holder.name})
        many = len(classes) if isinstance(classes, tuple) else classes
        objective, left_out = self.objective.build(many), self.data.leave_out
        return assemble(data, blueprint_of(self, objective, len(data.train), left_out))

    def without(self, party: str | None, seed: int) -> RunConfig:
        """Return this run without a party (None: with everybody), from another seed."""
        changed: dict[str, Any] = {"training": self.training.model_copy(update={"seed": seed})}
        if party is not None:
            left_out = [*self.data.leave_out, party]
            changed["data"] = self.data.model_copy(update={"leave_out": left_out})
        return self.model_copy(update=changed)

    def plan(self, federation: Federation | None = None) -> Plan:
        """Return what the run will cost, before any training."""
        federation = federation or self.build_federation()
        return plan(
            federation,
            self.method.build(),
            self.training.build(len(federation.validation_rows)),
            self.build_driver(),
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
        federation = federation or self.build_federation()
        return federation.train(
            self.method.build(),
            self.training.build(len(federation.validation_rows)),
            self.build_driver(),
            out=out,
            resume=resume,
            watcher=watcher,
            config=self.as_dict(),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the complete configuration as plain values, defaults included."""
        return self.model_dump(mode="json")

    def _check_names(self, names: set[str]) -> None:
        """Refuse settings for organisations that are not in the run."""
        named: dict[str, Mapping[str, object]] = {
            "network.parties": self.network.parties,
            "network.gateways": self.network.gateways,
            "costs.slowdown": self.costs.slowdown,
            "costs.delays": self.costs.delays,
        }
        for path, mapping in named.items():
            for name in mapping:
                if name not in names and name not in self.data.leave_out:
                    raise ConfigurationError(
                        f"{path}.{name}: there is no such organisation; "
                        f"there are {', '.join(sorted(names))}"
                    )
