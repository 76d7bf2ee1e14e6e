"""A job: what all organisations of a run are told, and nothing of where their data are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import pydantic
import yaml
from pydantic import Field

from colonnade.config.choices import ours
from colonnade.config.method import MethodConfig
from colonnade.config.models import (
    LabelHolderConfig,
    ModelConfig,
    ObjectiveConfig,
    OptimiserConfig,
)
from colonnade.config.parse import parse_section, read_file
from colonnade.config.run import RunConfig, TrainingConfig
from colonnade.config.sections import Name, Section
from colonnade.config.tables import IdsConfig, SplitConfig, TablesConfig
from colonnade.deployment.kept_here import BESIDE
from colonnade.deployment.paths_in_jobs import named_places, placed
from colonnade.errors import ConfigurationError
from colonnade.fallbacks import NOBODY, Fallback, Fallbacks, check_fallbacks
from colonnade.layout import check_names
from colonnade.tables import IdForm

__all__ = ["OF_EMBEDDINGS", "OF_NEW_PEOPLE", "JobConfig", "Task", "job_of", "load_job"]

Task = Literal["align", "train", "align_new", "predict", "serve"]
"""What organisations do together, in this order; new people are those who are predicted."""

OF_NEW_PEOPLE: tuple[Task, ...] = ("align_new", "predict", "serve")
"""What is done about those."""

_SERVER = "server"

OF_EMBEDDINGS: tuple[Task, ...] = ("train", "predict", "serve")
"""That by which embeddings leave."""


class RowsConfig(Section):
    """Whom rows are about, and who of them is for what; the same at every organisation."""

    id: str = Field(description="the column that says whom a row is about, in every table")
    ids: IdsConfig | None = Field(
        None, description="how ids are made alike that different hands have written"
    )
    split: SplitConfig = SplitConfig()
    task: Literal["auto", "classification", "regression"] = "auto"

    def form(self) -> IdForm | None:
        """Return the form in which ids are compared; None as they are written."""
        return None if self.ids is None else self.ids.build()


class JobConfig(Section):
    """What all organisations of a run are told."""

    task: Task = Field("train", description="what is done together")
    fallbacks: dict[Name, Fallback] = Field(
        {},
        description="parties that have left since they trained, and what stands for the embeddings "
        "of each where new people are predicted",
    )
    run: Name = Field(description="what every organisation calls the folder of the run")
    parties: list[Name] = Field(min_length=1, description="in party order")
    label_holder: LabelHolderConfig = LabelHolderConfig()
    label_holder_at: Literal["site", "server"] = Field(
        "site", description="server: the label holder runs the server, and needs no site beside it"
    )
    rows: RowsConfig
    model: ModelConfig = ModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    method: MethodConfig = ours("methods", "svfl")
    training: TrainingConfig = TrainingConfig()

    @pydantic.model_validator(mode="after")
    def _names_fit(self) -> JobConfig:
        try:
            check_names(self.trainers)
            _check_sites(self.trainers)
            check_fallbacks(self.fallbacks, self.parties)
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        if self.run.endswith(BESIDE):
            raise ValueError(f"no run is called {self.run!r}, as files beside another run's folder")
        if self.fallbacks and not self.of_new_people:
            raise ValueError("fallbacks are for new people alone: who has left does not train")
        return self

    @pydantic.model_validator(mode="after")
    def _names_no_place(self) -> JobConfig:
        path = next(named_places(self), None)
        if path is not None:
            raise ValueError(
                f"{path}: a job names no file or folder, since each site says for itself where it "
                "keeps what; leave it out"
            )
        return self

    @property
    def trainers(self) -> list[str]:
        """The names of all organisations of the run, the label holder last."""
        return [*self.parties, self.label_holder.name]

    @property
    def present(self) -> list[str]:
        """The parties that take part in this job, in party order: all but those that have left."""
        return [name for name in self.parties if name not in self.fallbacks]

    @property
    def everybody(self) -> list[str]:
        """The names of all organisations that take part in this job, the label holder last."""
        return [*self.present, self.label_holder.name]

    @property
    def sites(self) -> list[str]:
        """Whose roles are played at sites; the label holder's may be at the server."""
        return self.present if self.label_holder_at == "server" else self.everybody

    @property
    def of_new_people(self) -> bool:
        """Whether it is about those who are predicted."""
        return self.task in OF_NEW_PEOPLE

    @property
    def recorded(self) -> bool:
        """Whether the label holder is told at the end what came of the whole run."""
        return self.task == "train"

    def has_trained(self, other: JobConfig) -> bool:
        """Whether the models of a run with this job are those that ``other`` predicts by."""
        beside = {key: getattr(other, key) for key in ("task", "label_holder_at", "fallbacks")}
        return self.model_copy(update=beside) == other

    @property
    def digest(self) -> str:
        """What tells this job from another: organisations compare it before they begin."""
        told = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()

    def as_yaml(self) -> str:
        """Return it as the text of a file."""
        return yaml.safe_dump(self.as_dict(), sort_keys=False, allow_unicode=True)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, defaults included."""
        return self.model_dump(mode="json")


def _check_sites(names: list[str]) -> None:
    """Raise ``ConfigurationError`` for a name under which the engine knows another process."""
    for name in names:
        if name.lower() == _SERVER or "." in name:
            raise ConfigurationError(
                f"no organisation in a job is called {name!r}: the engine calls its server "
                f"{_SERVER!r}, and a process within another by names with dots between"
            )


def job_of(
    config: RunConfig,
    run: str,
    task: Task = "train",
    label_holder_at: Literal["site", "server"] = "site",
    without: Fallbacks = NOBODY,
) -> JobConfig:
    """Return a job of the run that a configuration describes.

    Sources of data stay behind, and the folder of surrogates on a disk: each organisation says for
    itself where its own are, and keeps surrogates in its folder of the run.

    Parameters
    ----------
    config
        What describes it.
    run
        What every organisation calls it.
    task
        What is done together.
    label_holder_at
        Whether the label holder has a site, or runs the server.
    without
        Parties that have left, which is of matter to new people alone.

    Raises
    ------
    ConfigurationError
        If the data are not tables of organisations, with ids, a part names another file, or who is
        left out, or the label holder's own table, is not there.
    """
    data = config.data
    if not isinstance(data, TablesConfig) or data.id is None:
        raise ConfigurationError(
            "data: organisations train on tables of their own, whose rows are found by an id: "
            "data: {id: ..., parties: ..., labels: ...}"
        )
    elsewhere = config.model_copy(update={"method": placed(config.method, None)})
    said = elsewhere.model_dump(mode="json")
    holds = config.label_holder.holds
    rows = {key: said["data"][key] for key in ("id", "ids", "split", "task")}
    shared = ("label_holder", "model", "objective", "optimiser", "method", "training")
    job = {"task": task, "run": run, "parties": [*data.of_parties(holds)], "rows": rows}
    job["label_holder_at"] = label_holder_at
    job |= {key: said[key] for key in shared}
    bottoms = {n: own for n, own in said["model"]["bottoms"].items() if n not in data.leave_out}
    job["model"] = said["model"] | {"bottoms": bottoms}
    job["fallbacks"] = dict(without) if task in OF_NEW_PEOPLE else {}
    return parse_section(JobConfig, job, "the job")


def load_job(path: Path) -> JobConfig:
    """Read a job.

    Raises
    ------
    ConfigurationError
        If the file is missing, is not YAML, or is no job.
    """
    return parse_section(JobConfig, read_file(path), str(path))
