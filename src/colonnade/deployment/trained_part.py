"""What an organisation brings to a prediction: its trained part, and new people's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from colonnade.alignment import Kept
from colonnade.assembly import Blueprint, judge_of, party_of
from colonnade.config.parse import parse_section
from colonnade.config.trained import transformer_of
from colonnade.deployment.job import JobConfig
from colonnade.deployment.site import SiteConfig, blueprint_at, check_site, kept_of, new_people
from colonnade.errors import ColonnadeError, ConfigurationError, DataError
from colonnade.export import Part, blank, load_part
from colonnade.models import Features
from colonnade.organisations import Party
from colonnade.run_folder import RunFolder
from colonnade.tables.new_rows import features_of_people
from colonnade.tables.notes import tell
from colonnade.telling import first_line

__all__ = ["TrainedPart", "trained_part"]


@dataclass(frozen=True, eq=False)
class TrainedPart:
    """An organisation's part of what predicts.

    Parameters
    ----------
    people
        Who is predicted, as all know them.
    part
        What training has written.
    party
        Its rows of these people and its bottom model; None at a label holder that has labels alone.
    blueprint
        What models it makes.
    is_label_holder
        Whether it learns what is predicted.
    """

    people: Kept
    part: Part
    party: Party | None
    blueprint: Blueprint
    is_label_holder: bool

    @property
    def width(self) -> int | None:
        """The width of its embeddings; None without columns."""
        width: int | None = self.part.details["embedding_width"]
        return width

    @property
    def device(self) -> str:
        """Where its models compute."""
        return self.blueprint.device

    @property
    def classes(self) -> Sequence[Any] | None:
        """What each class stands for; None of numbers, and where nobody knows."""
        classes: Sequence[Any] | None = self.part.details["classes"]
        return classes

    def top(self, widths: Sequence[int]) -> nn.Module:
        """Return the top model, where everybody's embeddings have these widths."""
        labels = torch.tensor([0.0, 1.0])
        if self.classes is not None:
            labels = torch.arange(len(self.classes))
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
    kept = kept_of(job, site, new.alignment)
    blueprint = blueprint_at(site, job, part.details["classes"], 1)
    party = None
    if table is not None:
        party = _party(table, part, kept, job, site, blueprint)
    return TrainedPart(kept, part, party, blueprint, name == job.label_holder.name)


def _party(
    table: str, part: Part, kept: Kept, job: JobConfig, site: SiteConfig, blueprint: Blueprint
) -> Party:
    transformer = transformer_of(table, part)
    assert site.table is not None
    read = new_people(site).table.read(job.rows.id, site.table.columns, site.folder)
    form = job.rows.form()
    features, notes = features_of_people(
        table, read, transformer, kept.ids, id=job.rows.id, normalise=form
    )
    tell(notes)
    try:
        example: Features = blank(part.details["features"])
        party = party_of(table, example, transformer, blueprint)
        part.load_into(party.bottom)
    except ColonnadeError:
        raise
    except Exception as error:  # what a digest is right of may be anything
        raise DataError(
            f"the part of {part.organisation!r} is not that of the job: {first_line(error)}"
        ) from error
    return Party(site.organisation, features, party.bottom, device=blueprint.device)


def _refuse_another(job: JobConfig, folder: RunFolder) -> None:
    """Raise ``ConfigurationError`` unless the run in a folder was trained by this job."""
    said = folder.configuration().get("job")
    known = parse_section(JobConfig, said, str(folder.path / "config.yaml"))
    if not known.has_trained(job):
        raise ConfigurationError(
            f"{folder.path} holds a run of another job than the one that is to predict; submit "
            "the prediction that was written with the job it was trained by"
        )
