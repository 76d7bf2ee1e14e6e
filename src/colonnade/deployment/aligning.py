"""An organisation that aligns with others: from its ids to those that all have."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

from colonnade import __version__
from colonnade.alignment import Organisation, Seat, refuse_nobody, write_alignment
from colonnade.config.aligning import own_ids
from colonnade.config.tables import TableConfig
from colonnade.deployment import meeting
from colonnade.deployment.engagement import Folders
from colonnade.deployment.folders import numbered
from colonnade.deployment.job import JobConfig
from colonnade.deployment.leaving import Leaving
from colonnade.deployment.site import SiteConfig, check_site, new_people
from colonnade.drivers import RunRecord
from colonnade.effects import Role
from colonnade.flows import Limits
from colonnade.ledger import Ledger
from colonnade.roles.align import Meeting
from colonnade.tables.own_ids import OwnIds
from colonnade.tables.together import LABELS

__all__ = ["ALIGNMENTS", "AligningTogether"]

ALIGNMENTS = "alignments"
"""The folder beside an alignment that has one for each that was begun, with what left for it."""


class AligningTogether:
    """An organisation in an alignment; one that was stopped begins anew, with other keys.

    Parameters
    ----------
    job
        What all are told.
    site
        What the organisation keeps to itself.
    """

    every = 0

    def __init__(self, job: JobConfig, site: SiteConfig) -> None:
        self.job, self.site, name = job, site, site.organisation
        part = check_site(job, site)
        form = job.rows.form()
        told = "" if form is None else repr(form)
        tables: dict[str, TableConfig] = {}
        if job.of_new_people:
            tables[part or name] = new_people(site).table
        else:
            tables |= {} if part is None or site.table is None else {part: site.table}
            tables |= {} if site.labels is None else {LABELS: site.labels}
        read = partial(own_ids, name, tables, job.rows.id, form, site.folder)
        self._meeting = Meeting(tuple(job.present), job.label_holder.name, told)
        self._seat = Seat(self._meeting, Organisation(name, job.rows.id, read))

    def ids(self) -> OwnIds:
        """Read the organisation's ids."""
        return self._seat.organisation.read()

    def brings(self) -> meeting.Brings:
        """See ``Engagement``: nothing is told of ids, not even how many, before roles play."""
        return meeting.Brings(meeting.PROTOCOL, __version__, self.job.digest, 0, "", None, None)

    def top(self, everybody: meeting.Everybody) -> meeting.Top:
        """See ``Engagement``: there is no model."""
        return meeting.Top(0)

    def agree(self, everybody: meeting.Everybody) -> str:
        """See ``Engagement``."""
        return hashlib.blake2b(repr(self._meeting).encode(), digest_size=16).hexdigest()

    @property
    def leaving(self) -> Leaving:
        """See ``Engagement``: how much hangs on how many ids there are."""
        flows = self.limits.flows
        assert flows is not None
        own = self.site.organisation
        return Leaving(frozenset(kind for sender, _, kind, _ in flows if sender == own))

    def leaving_again(self, sent: Ledger) -> Leaving:
        """See ``Engagement``: one that was stopped begins anew, and is counted as another."""
        return self.leaving

    @property
    def limits(self) -> Limits:
        """See ``Engagement``."""
        return self._meeting.limits()

    @contextmanager
    def folders(self) -> Iterator[Folders]:
        """See ``Engagement``: but for the result, and what left, nothing is kept."""
        yield Folders()

    @cached_property
    def noted_in(self) -> Path:
        """See ``Engagement``: beside the result."""
        return numbered(self._kept_in / ALIGNMENTS)

    @property
    def _kept_in(self) -> Path:
        """Where the result is kept."""
        return new_people(self.site).alignment if self.job.of_new_people else self.site.alignment

    def cast(self) -> Role:
        """See ``Engagement``."""
        return self._seat.cast()

    def conclude(self, role: Role, ledger: Ledger, record: RunRecord | None) -> None:
        """See ``Engagement``."""
        kept = self._seat.kept(role)
        refuse_nobody(self._meeting, len(kept.ids))
        write_alignment(kept, self._kept_in)
