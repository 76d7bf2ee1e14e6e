"""What a site would bring to a job, tried by its own people before anybody submits it."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.deployment.aligning import AligningTogether
from colonnade.deployment.job import JobConfig
from colonnade.deployment.policy import load_policy
from colonnade.deployment.site import SiteConfig, notes_of
from colonnade.deployment.trained_part import trained_part
from colonnade.deployment.training import TrainingTogether
from colonnade.run_folder import RunFolder

__all__ = ["checked"]


def checked(job: JobConfig, site: SiteConfig) -> Iterator[str]:
    """Yield what a site would bring to a job, a sentence each; nothing leaves it.

    What hangs on the others is not known here: whether they have the same people, and how much
    leaves by what all agree on. The policy's limits of that are compared when the job runs.

    Parameters
    ----------
    job
        What all are told.
    site
        What the organisation keeps to itself.

    Raises
    ------
    ColonnadeError
        As the site would refuse the job, or fail in it.
    """
    name = site.organisation
    policy = load_policy(site.policy)
    policy.check_job(job, name)
    yield from notes_of(job, site)
    if later := policy.compared_later:
        yield f"what its policy says of {', '.join(later)} is compared when the job runs"
    match job.task:
        case "align" | "align_new":
            for table, rows in AligningTogether(job, site).ids().rows.items():
                yield f"{name!r} has {rows:,} ids in {table!r}, none of them missing or twice"
        case "train":
            together = TrainingTogether(job, site, "")
            part = together.part
            yield f"{name!r} has a row of each of the {len(part.tables.ids):,} people in common"
            if part.width is not None:
                yield f"its columns become embeddings of {part.width} numbers"
            if part.tables.classes is not None:
                yield f"its labels are {', '.join(map(str, part.tables.classes))}"
            if part.is_label_holder:
                job.method.build().exchange.check_covers(*part.loss())
            together.rehearse()
        case "predict" | "serve":
            trained = trained_part(job, site, RunFolder(site.runs / job.run))
            yield f"{name!r} has its part of the run, and a row of each of {trained.rows:,} people"
