"""A site: where an organisation's own data and runs are, which nobody else is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import lexists
from pathlib import Path
from typing import Any

import pydantic
from pydantic import Field

from colonnade.alignment import Kept, read_alignment
from colonnade.assembly import Blueprint, label_holder_of, party_of
from colonnade.checks import check_device, embedding_width
from colonnade.config.parse import parse_section, read_file
from colonnade.config.run import blueprint_of
from colonnade.config.sections import Name, Section
from colonnade.config.tables import LabelTableConfig, PartyTableConfig, TableConfig
from colonnade.deployment.confided import confided
from colonnade.deployment.job import JobConfig
from colonnade.drawing import drawing
from colonnade.errors import ConfigurationError
from colonnade.objectives import Objective, Regression
from colonnade.organisations import LabelHolder, Loss, Party
from colonnade.serving import ServeConfig
from colonnade.tables import OwnTables, own_tables

__all__ = [
    "POLICY",
    "NewPeopleConfig",
    "OwnPart",
    "SiteConfig",
    "answers_at",
    "blueprint_at",
    "check_site",
    "kept_of",
    "load_site",
    "new_people",
    "notes_of",
    "own_part",
]

POLICY = "policy.yaml"
"""What a site's policy is called, beside its ``site.yaml``."""


class NewPeopleConfig(Section):
    """Those who are predicted."""

    table: TableConfig = Field(
        description="their rows, of the columns of the table that was trained on; of a label "
        "holder without columns: their ids"
    )
    alignment: Path = Field(
        Path("aligned-new"), description="the folder with what it keeps of their alignment"
    )
    means: dict[Name, Path] = Field(
        {},
        description="of the label holder: the file mean.json of each party that has left and let "
        "its mean stand for it",
    )


class SiteConfig(Section):
    """What an organisation keeps to itself: where its data are, and where runs are kept."""

    organisation: Name = Field(description="its name in the runs that it takes part in")
    id: str = Field(
        description="the column that says whom a row is about, in each of its tables: a job that "
        "would compare another with what the others have is refused"
    )
    table: PartyTableConfig | None = Field(
        None, description="its columns; a label holder may have none"
    )
    labels: LabelTableConfig | None = Field(None, description="of the label holder: the labels")
    folder: Path | None = Field(
        None, description="where its files are; by default that of this file"
    )
    alignment: Path = Field(
        Path("aligned"), description="the folder with what it keeps of an alignment"
    )
    runs: Path = Field(Path("runs"), description="the folder in which runs are kept")
    new: NewPeopleConfig | None = Field(None, description="those who are predicted")
    serve: ServeConfig | None = Field(
        None,
        description="of the label holder: where predictions are served, and to whom; by default "
        "no job may serve any",
    )
    policy: Path | None = Field(
        None,
        description="what it lets a job do; by default policy.yaml beside this file, where one is",
    )
    device: str | None = Field(
        None, description="where its models compute, as torch names it; by default as the job says"
    )

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of every job that it takes part in, a sentence each."""
        if self.policy is not None:
            return ()
        return (f"{self.organisation!r} has no policy.yaml, so its site lets every job run",)

    @pydantic.model_validator(mode="after")
    def _has_something(self) -> SiteConfig:
        if self.table is None and self.labels is None:
            raise ValueError("say table: or labels:, what the organisation brings")
        return self


def load_site(path: Path) -> SiteConfig:
    """Read what an organisation keeps to itself; paths in it are relative to its own folder.

    Raises
    ------
    ConfigurationError
        If the file is missing, is not YAML, or says something else.
    """
    site = parse_section(SiteConfig, read_file(path), str(path))
    own = path.absolute().parent
    usual = own / POLICY
    places: dict[str, Any] = {
        "folder": own / (site.folder or ""),
        "alignment": own / site.alignment,
        "runs": own / site.runs,
        # A link to nothing is a policy that cannot be read, and not none.
        "policy": own / (site.policy or usual) if site.policy or lexists(usual) else None,
    }
    if site.serve is not None:
        places["serve"] = site.serve.within(own)
    if site.new is not None:
        means = {name: own / file for name, file in site.new.means.items()}
        to = {"alignment": own / site.new.alignment, "means": means}
        places["new"] = site.new.model_copy(update=to)
    return site.model_copy(update=places)


@dataclass(frozen=True, eq=False)
class OwnPart:
    """What an organisation brings to a run: its rows of the people whom all know, and models.

    Parameters
    ----------
    job
        What all are told.
    name
        The organisation.
    kept
        What it keeps of the alignment.
    tables
        Its rows.
    party
        Its columns and bottom model; None at a label holder that has labels alone.
    blueprint
        What models it makes.
    """

    job: JobConfig
    name: str
    kept: Kept
    tables: OwnTables
    party: Party | None
    blueprint: Blueprint

    @property
    def is_label_holder(self) -> bool:
        """Whether it has the labels."""
        return self.name == self.job.label_holder.name

    @property
    @confided()
    def width(self) -> int | None:
        """The width of its embeddings; None without columns."""
        if self.party is None:
            return None
        return embedding_width(self.name, self.party.bottom, self.party.features)

    def loss(self) -> tuple[Loss, Mapping[str, Any]]:
        """Return the label holder's loss, and what it knows of the labels of all training rows."""
        assert self.tables.labels is not None
        objective = self.blueprint.objective
        learned = objective.learned(self.tables.labels[self.tables.train])
        return objective.loss(learned), learned

    def label_holder(self, widths: list[int]) -> LabelHolder:
        """Return the label holder, where everybody's embeddings have these widths."""
        assert self.tables.labels is not None
        labels, train = self.tables.labels, self.tables.train
        self.blueprint.fusion.width(widths)  # what all bring, and so all may hear of
        with confided():
            return label_holder_of(labels, train, widths, self.party, self.blueprint)


def check_site(job: JobConfig, site: SiteConfig) -> str | None:
    """Return what the site's own columns are called in a job; None where it has none.

    Raises
    ------
    ConfigurationError
        If the job is of others, or the site does not have what it takes.
    """
    name, holder = site.organisation, job.label_holder
    if name not in job.everybody:
        raise ConfigurationError(
            f"this site is of {name!r}, and the job is of {', '.join(job.everybody)}"
        )
    if job.rows.id != site.id:
        raise ConfigurationError(
            f"{name!r} does not compare its column {job.rows.id!r} with what others have: the id: "
            "of its site.yaml is another"
        )
    is_holder = name == holder.name
    if is_holder != (site.labels is not None):
        lacks = "has no labels" if is_holder else "has labels, and another is to have them"
        raise ConfigurationError(f"{name!r} {lacks}: say labels: at {holder.name!r} alone")
    part = holder.holds if is_holder else name
    if (part is None) != (site.table is None):
        has = "columns of its own, and the job knows of none" if site.table else "no columns"
        raise ConfigurationError(f"{name!r} has {has}; say table: where the job counts on it")
    return part


def notes_of(job: JobConfig, site: SiteConfig) -> tuple[str, ...]:
    """Return what a site should know of a job that it takes part in, a sentence each."""
    holder = job.label_holder.name
    if job.label_holder_at == "site" or site.organisation == holder:
        return site.notes
    return (
        *site.notes,
        f"the role of {holder!r} is played at the server: whoever runs that sees what is sent to "
        f"{holder!r}",
    )


def own_part(job: JobConfig, site: SiteConfig) -> OwnPart:
    """Read what an organisation brings to a job.

    Raises
    ------
    ConfigurationError
        If the job is of others, or the site does not have what it takes.
    DataError
        If a table, or the alignment, cannot be read or used.
    """
    part = check_site(job, site)
    name = site.organisation
    kept = kept_of(job, site, site.alignment, job.trainers)
    with confided():
        tables = {} if part is None or site.table is None else {part: site.table}
        own = own_tables(
            {
                name: each.read_for_training(job.rows.id, site.folder)
                for name, each in tables.items()
            },
            None if site.labels is None else answers_at(job, site.labels, site.folder),
            kept.ids,
            id=job.rows.id,
            normalise=job.rows.form(),
            split=job.rows.split.build(),
            transformers={table: each.features.build() for table, each in tables.items()},
            task=job.rows.task,
            label_column=None if site.labels is None else site.labels.column,
        )
        blueprint = blueprint_at(site, job, own.classes, len(own.train))
        party = None
        if part is not None:
            with drawing():
                party = party_of(part, own.features[part], own.transformers[part], blueprint)
        return OwnPart(job, name, kept, own, party, blueprint)


def answers_at(job: JobConfig, labels: LabelTableConfig, folder: Path | None) -> Any:
    """Return the table of labels, with ids."""
    return labels.read(job.rows.id, [labels.column], folder)


def blueprint_at(
    site: SiteConfig, job: JobConfig, classes: Sequence[Any] | None, rows: int
) -> Blueprint:
    """Return what models an organisation makes.

    Parameters
    ----------
    site, job
        What it keeps to itself, and what all are told.
    classes
        What the label holder predicts; None of numbers.
    rows
        To train on.
    """
    # A party makes no top model, and so asks for no objective.
    objective: Objective = Regression()
    if site.organisation == job.label_holder.name:
        objective = job.objective.build(None if classes is None else len(classes))
    blueprint = blueprint_of(_on_device(job, site), objective, rows)
    check_device(site.organisation, blueprint.device)
    return blueprint


def _on_device(job: JobConfig, site: SiteConfig) -> JobConfig:
    if site.device is None:
        return job
    return job.model_copy(update={"model": job.model.model_copy(update={"device": site.device})})


def new_people(site: SiteConfig) -> NewPeopleConfig:
    """Return where those are who are predicted.

    Raises
    ------
    ConfigurationError
        If the site does not say it.
    """
    if site.new is None:
        raise ConfigurationError(
            f"{site.organisation!r} does not say who is to be predicted: say new: {{table: ...}} "
            "in its site.yaml"
        )
    return site.new


def kept_of(job: JobConfig, site: SiteConfig, folder: Path, everybody: Sequence[str]) -> Kept:
    """Return what the site keeps of an alignment of these organisations in a folder.

    Raises
    ------
    ConfigurationError
        If there is none, or it is of other ids or organisations than the job.
    """
    kept = read_alignment(folder).get(site.organisation)
    if kept is None:
        raise ConfigurationError(
            f"{folder} holds no alignment of {site.organisation!r}; align first"
        )
    # All are told of these, so they name no organisation and no column of another alignment.
    form = job.rows.form()
    if (kept.id, kept.form) != (job.rows.id, "" if form is None else repr(form)):
        raise ConfigurationError(
            f"{folder} is of ids in another column than the job's {job.rows.id!r}, or made alike "
            "in another way; align again"
        )
    if sorted(kept.everybody) != sorted(everybody):
        raise ConfigurationError(
            f"{folder} is of other organisations than the job's, {', '.join(everybody)}; align "
            "again"
        )
    return kept
