"""Organisations whose trained parts meet again: what predicting and serving predictions share."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property

from colonnade import __version__
from colonnade.deployment import meeting
from colonnade.deployment.job import JobConfig
from colonnade.deployment.leaving import Leaving, leaving_by
from colonnade.deployment.site import SiteConfig, new_people
from colonnade.deployment.trained_part import TrainedPart, trained_part
from colonnade.errors import DataError
from colonnade.export import read_mean
from colonnade.fallbacks import completed, constants_of
from colonnade.flows import Flow, Limits
from colonnade.layout import Layout
from colonnade.ledger import Ledger
from colonnade.models import Fusion, Learner, parameter_count, terms_of
from colonnade.organisations import Party
from colonnade.prediction import ROWS_TOGETHER
from colonnade.predictions_counted import PredictionCount, Times
from colonnade.predictions_told import disclosed_together
from colonnade.run_folder import RunFolder
from colonnade.stragglers import Wait
from colonnade.wire import Purpose

__all__ = ["WithTrainedParts"]


class WithTrainedParts(ABC):
    """An organisation with its part of a trained model, and rows of new people.

    One that was stopped begins anew, and what it disclosed is counted again.

    Parameters
    ----------
    job
        What all are told.
    site
        What the organisation keeps to itself.
    """

    every = 0

    def __init__(self, job: JobConfig, site: SiteConfig) -> None:
        self.job, self.site, self.name = job, site, site.organisation
        self.folder = RunFolder(site.runs / job.run)
        method = job.method.build()
        self.uplink, self._fusion = method.uplink.of_new_rows(), method.fusion
        self.count = PredictionCount(self.folder.path, self.folder.parts / self.name)
        self._counted = Times()

    @property
    def number(self) -> int:
        """How often the run has predicted, this time included; 0 before that is counted."""
        return self._counted.total()

    def count_one(self) -> None:
        """Count a prediction that is about to be made, on disk when this returns."""
        self._counted = self.count.add(len(self.layout.parties))

    @cached_property
    def part(self) -> TrainedPart:
        """What the organisation brings: its part of the model, and new people's rows."""
        return trained_part(self.job, self.site, self.folder)

    @property
    @abstractmethod
    def flows(self) -> list[Flow]:
        """The messages that were agreed on."""

    @property
    @abstractmethod
    def pieces(self) -> int:
        """In how many pieces rows travel in a round."""

    def brings(self) -> meeting.Brings:
        """See ``Engagement``."""
        part = self.part
        terms = {} if part.party is None else terms_of({self.name: part.party.bottom})
        return meeting.Brings(
            meeting.PROTOCOL,
            __version__,
            self.job.digest,
            part.rows,
            part.digest,
            part.width,
            terms.get(self.name),
            part.training or "",
        )

    def top(self, everybody: meeting.Everybody) -> meeting.Top:
        """See ``Engagement``."""
        widths = self._widths_of(self._layout_of(everybody))
        return meeting.Top(parameter_count(self.part.top([*widths.values()])))

    def agree(self, everybody: meeting.Everybody) -> str:
        """See ``Engagement``."""
        self.layout = layout = self._layout_of(everybody)
        self.uplink.check(self._fusion, Wait())
        if self.part.is_label_holder:
            self._widths = self._widths_of(layout)
            self._whole = self._completed(self._widths)
        agreed = repr(
            (layout, self.uplink, self._fusion, self.job.fallbacks, everybody.top, ROWS_TOGETHER)
        )
        return hashlib.blake2b(agreed.encode(), digest_size=16).hexdigest()

    @property
    def limits(self) -> Limits:
        """See ``Engagement``."""
        return Limits.of(self.flows, self.pieces)

    @property
    def leaving(self) -> Leaving:
        """See ``Engagement``: a row is taken to be in all predictions of the run."""
        times = {Purpose.PREDICTION: self.pieces, Purpose.SETUP: 1}
        counted = self._counted or self.count.times() + Times([len(self.layout.parties)])
        spent = disclosed_together(self.uplink, self.layout, counted, len(self.job.parties))
        return Leaving(*leaving_by(self.flows, self.name, times), spent)

    def leaving_again(self, sent: Ledger) -> Leaving:
        """See ``Engagement``: one that was stopped begins anew, and is counted as another."""
        return self.leaving

    def owned(self) -> Party:
        """Return a party's columns of new people, and its trained bottom model."""
        assert self.part.party is not None
        return self.part.party

    def judging(self) -> tuple[Learner, Party | None, Fusion]:
        """Return the label holder's top model, its own columns, and how all meet."""
        part = self.part
        top = Learner(part.top([*self._widths.values()]), device=part.device)
        return top, part.party, self._whole

    def rows_flows(self) -> list[Flow]:
        """Return the messages by which rows' embeddings travel."""
        rows = min(self.layout.rows, ROWS_TOGETHER)
        return [*self.uplink.flows(self.layout, rows, Purpose.PREDICTION)]

    def _widths_of(self, layout: Layout) -> Mapping[str, int]:
        """Return how wide the embeddings are that the top model takes, also of who has left."""
        if not self.job.fallbacks:
            return layout.widths
        told, trained = layout.widths, self.part.widths
        if told != {name: trained[name] for name in told if name in trained}:
            raise DataError(f"embeddings are {told} wide, and were {trained} in training")
        return trained

    def _completed(self, widths: Mapping[str, int]) -> Fusion:
        """Return the fusion, with what stands for those who have left."""
        which = self.part.training
        files = new_people(self.site).means
        means = {name: read_mean(file, name, which) for name, file in files.items()}
        return completed(self._fusion, constants_of(self.job.fallbacks, widths, means))

    def _layout_of(self, everybody: meeting.Everybody) -> Layout:
        """Return the layout, in the job's order whatever was told."""
        job = self.job
        return Layout(
            tuple(job.present),
            job.label_holder.name,
            everybody.widths_of(job.everybody),
            self.part.rows,
            job.training.seed,
            terms=everybody.terms,
        )
