"""What an organisation brings to a prediction: its trained part, and new people's rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn

from colonnade.alignment import Kept
from colonnade.assembly import Blueprint, judge_of, party_of
from colonnade.config.parse import parse_section
from colonnade.config.tables import LabelTableConfig, TableConfig
from colonnade.config.trained import transformer_of
from colonnade.deployment.confided import confided
from colonnade.deployment.job import JobConfig
from colonnade.deployment.site import (
    SiteConfig,
    answers_at,
    blueprint_at,
    check_site,
    kept_of,
    new_people,
)
from colonnade.errors import ColonnadeError, ConfigurationError, DataError
from colonnade.export import Part, blank, load_part
from colonnade.models import Features
from colonnade.organisations import Party
from colonnade.run_folder import RunFolder
from colonnade.run_read import load_configuration
from colonnade.tables import own_tables
from colonnade.tables.new_rows import features_of_people
from colonnade.tables.notes import tell
from colonnade.telling import first_line

__all__ = ["Known", "TrainedPart", "trained_part"]


@dataclass(frozen=True, eq=False)
class Known:
    """People of whom it is known what is to be predicted: the validation rows of the training.

    Parameters
    ----------
    ids
        Who they are.
    labels
        What is known of them; None at all but the label holder.
    """

    ids: pl.Series
    labels: Tensor | None


@dataclass(frozen=True, eq=False)
class TrainedPart:
    """An organisation's part of what predicts.

    Parameters
    ----------
    people
        Who is predicted, as all know them.
    known
        Who is predicted besides, after them: those by whom it is measured what is lost without
        parties that have left. None where nothing has to be measured, or by nobody.
    part
        What training has written.
    party
        Its rows of all these people and its bottom model; None at a label holder that has labels
        alone.
    blueprint
        What models it makes.
    is_label_holder
        Whether it learns what is predicted.
    """

    people: Kept
    known: Known | None
    part: Part
    party: Party | None
    blueprint: Blueprint
    is_label_holder: bool

    @property
    def rows(self) -> int:
        """How many are predicted, with those who are known."""
        return len(self.people.ids) + (0 if self.known is None else len(self.known.ids))

    @property
    def digest(self) -> str:
        """What tells all these people, in their order, from any others."""
        if self.known is None:
            return self.people.digest
        both = replace(self.people, ids=self.known.ids).digest + self.people.digest
        return hashlib.sha256(both.encode()).hexdigest()

    @property
    def widths(self) -> dict[str, int]:
        """How wide everybody's embeddings are, those that have left too; the label holder knows.

        Raises
        ------
        DataError
            If the part is of a version that did not write them.
        """
        widths: dict[str, int] | None = self.part.details.get("widths")
        if widths is None:
            raise DataError(
                f"the part of {self.part.organisation!r} does not say how wide embeddings are, so "
                "nothing can stand for them: it was trained by an earlier version"
            )
        return widths

    @property
    def training(self) -> str | None:
        """Which training it is of; None of a part that does not say so."""
        training: str | None = self.part.details.get("training")
        return training

    @property
    def width(self) -> int | None:
        """The width of its embeddings; None without columns."""
        width: int | None = self.part.said("embedding_width")
        return width

    @property
    def device(self) -> str:
        """Where its models compute."""
        return self.blueprint.device

    @property
    def classes(self) -> Sequence[Any] | None:
        """What each class stands for; None of numbers, and where nobody knows."""
        classes: Sequence[Any] | None = self.part.classes
        return classes

    def top(self, widths: Sequence[int]) -> nn.Module:
        """Return the top model, where everybody's embeddings have these widths."""
        labels = torch.tensor([0.0, 1.0])
        if self.classes is not None:
            labels = torch.arange(len(self.classes))
        self.blueprint.fusion.width(widths)  # what all bring, and so all may hear of
        with confided():
            # What a loss knows of labels is not used any more, and what the top does was trained.
            _, top = judge_of(self.blueprint.objective.learned(labels), widths, self.blueprint)
            return self.part.load_into(top, "top")


def trained_part(job: JobConfig, site: SiteConfig, folder: RunFolder) -> TrainedPart:
    """Read what an organisation brings to a prediction.

    Raises
    ------
    ConfigurationError
        If the site says nothing of new people, or the run there was not this job's.
    DataError
        If the run, the part, the table or the alignment cannot be read or used.
    """
    table, new = check_site(job, site), new_people(site)
    _refuse_another(job, folder)
    name = site.organisation
    part = load_part(folder.parts / name)
    if part.organisation != name:
        raise DataError(f"{folder.parts / name} holds the part of {part.organisation!r}")
    kept = kept_of(job, site, new.alignment, job.everybody)
    # What is lost is measured by a prediction, once, and not whenever somebody is asked for.
    measured = job.fallbacks and job.task == "predict"
    known = _known(job, site, part) if measured else None
    with confided(), _of_the_job(part):
        blueprint = blueprint_at(site, job, part.classes, 1)
    party = None
    if table is not None:
        party = _party(table, part, kept, known, job, site, blueprint)
    return TrainedPart(kept, known, part, party, blueprint, name == job.label_holder.name)


def _known(job: JobConfig, site: SiteConfig, part: Part) -> Known | None:
    """Return the validation rows' people, and what is known of them at the label holder."""
    trained = kept_of(job, site, site.alignment, job.trainers)
    _, validation, _ = job.rows.split.build().rows(trained.ids)
    if not len(validation):
        return None
    labels = None
    if site.labels is not None:
        labels = _labels(job, site, site.labels, part, trained)[torch.from_numpy(validation)]
    return Known(trained.ids[validation], labels)


@confided()
def _labels(
    job: JobConfig, site: SiteConfig, labels: LabelTableConfig, part: Part, trained: Kept
) -> Tensor:
    """Return the labels of all who were aligned for the training."""
    own = own_tables(
        {},
        answers_at(job, labels, site.folder),
        trained.ids,
        id=job.rows.id,
        normalise=job.rows.form(),
        split=job.rows.split.build(),
        task=job.rows.task,
        label_column=labels.column,
    )
    assert own.labels is not None
    if (own.classes and [*own.classes]) != part.classes:
        raise DataError(f"the labels of {site.organisation!r} are not those it trained on")
    return own.labels


@confided()
def _party(
    table: str,
    part: Part,
    kept: Kept,
    known: Known | None,
    job: JobConfig,
    site: SiteConfig,
    blueprint: Blueprint,
) -> Party:
    own = site.table
    assert own is not None
    with _of_the_job(part):
        transformer = transformer_of(table, part)
    if transformer is None:
        raise DataError(f"the part of {part.organisation!r} does not say what makes its features")

    def features_of(source: TableConfig, people: pl.Series) -> Features:
        read = source.read(job.rows.id, own.columns, site.folder, transformer.text_columns)
        form = job.rows.form()
        features, notes = features_of_people(
            table, read, transformer, people, id=job.rows.id, normalise=form
        )
        tell(notes)
        return features

    features = features_of(new_people(site).table, kept.ids)
    if known is not None:
        features = _joined(features, features_of(own, known.ids))
    with _of_the_job(part):
        example: Features = blank(part.said("features"))
        party = party_of(table, example, transformer, blueprint)
        part.load_into(party.bottom)
    return Party(site.organisation, features, party.bottom, device=blueprint.device)


@contextmanager
def _of_the_job(part: Part) -> Iterator[None]:
    """Raise ``DataError`` where a part does not do: what a digest is right of may be anything."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ColonnadeError) and not isinstance(error, DataError):
            raise
        raise DataError(
            f"the part of {part.organisation!r} is not that of the job: {first_line(error)}"
        ) from error


def _joined(first: Features, second: Features) -> Features:
    """Return the rows of both."""
    if isinstance(first, Tensor):
        assert isinstance(second, Tensor)
        return torch.cat([first, second])
    assert not isinstance(second, Tensor)
    return {name: torch.cat([values, second[name]]) for name, values in first.items()}


def _refuse_another(job: JobConfig, folder: RunFolder) -> None:
    """Raise ``ConfigurationError`` unless the run in a folder was trained by this job."""
    said = load_configuration(folder.path).get("job")
    known = parse_section(JobConfig, said, str(folder.path / "config.yaml"))
    if not known.has_trained(job):
        raise ConfigurationError(
            f"{folder.path} holds a run of another job than the one that is to predict; submit "
            "the prediction that was written with the job it was trained by"
        )
