"""An organisation that predicts with others: from new people's rows to what each is given."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from colonnade import __version__
from colonnade.batches import pieces
from colonnade.deployment import meeting
from colonnade.deployment.engagement import Folders
from colonnade.deployment.job import JobConfig
from colonnade.deployment.leaving import Leaving, leaving_by
from colonnade.deployment.site import SiteConfig, new_people
from colonnade.deployment.trained_part import TrainedPart, trained_part
from colonnade.drivers import RunRecord
from colonnade.errors import DataError
from colonnade.evaluation import HeldOut
from colonnade.export import read_mean
from colonnade.fallbacks import completed, constants_of, lost_by
from colonnade.faults import explained
from colonnade.flows import Flow, Limits
from colonnade.layout import Layout
from colonnade.ledger import Ledger
from colonnade.models import Fusion, Learner, parameter_count, terms_of
from colonnade.outputs import SIGNATURE, replacing
from colonnade.prediction import Prediction, without_budget
from colonnade.predictions_counted import PredictionCount
from colonnade.roles import PredictLabelHolder, PredictParty
from colonnade.run_folder import RunFolder, load_run
from colonnade.stragglers import Wait
from colonnade.wire import Purpose

__all__ = ["PREDICTIONS", "PredictingTogether"]

PREDICTIONS = "predictions"
"""The folder of a run that has one for each prediction, called by its number."""

_TOGETHER = 1024  # rows that travel in one message


class PredictingTogether:
    """An organisation in a prediction; one that was stopped begins anew, and is counted again.

    Parameters
    ----------
    job
        What all are told.
    site
        What the organisation keeps to itself.
    """

    every = 0
    wants_record = False

    def __init__(self, job: JobConfig, site: SiteConfig) -> None:
        self.job, self.site, self.name = job, site, site.organisation
        self._folder = RunFolder(site.runs / job.run)
        method = job.method.build()
        self._uplink, self._fusion = method.uplink.of_new_rows(), method.fusion
        self._count = PredictionCount(self._folder.path, self._folder.parts / self.name)
        self._number = 0

    @cached_property
    def part(self) -> TrainedPart:
        """What the organisation brings: its part of the model, and new people's rows."""
        return trained_part(self.job, self.site, self._folder)

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
        )

    def top(self, everybody: meeting.Everybody) -> meeting.Top:
        """See ``Engagement``."""
        widths = self._widths_of(self._layout_of(everybody))
        return meeting.Top(parameter_count(self.part.top([*widths.values()])))

    def agree(self, everybody: meeting.Everybody) -> str:
        """See ``Engagement``."""
        self._layout = layout = self._layout_of(everybody)
        self._uplink.check(self._fusion, Wait())
        if self.part.is_label_holder:
            self._widths = self._widths_of(layout)
            self._whole = self._completed(self._widths)
        rows = np.arange(layout.rows, dtype=np.int64)
        self._new = HeldOut("new", pieces(rows, _TOGETHER))
        agreed = repr(
            (layout, self._uplink, self._fusion, self.job.fallbacks, everybody.top, _TOGETHER)
        )
        return hashlib.blake2b(agreed.encode(), digest_size=16).hexdigest()

    @property
    def limits(self) -> Limits:
        """See ``Engagement``."""
        return Limits.of(self._flows, len(self._new.pieces))

    @property
    def leaving(self) -> Leaving:
        """See ``Engagement``: a row is taken to be in all predictions of the run."""
        times = {Purpose.PREDICTION: len(self._new.pieces), Purpose.SETUP: 1}
        uses = {Purpose.PREDICTION: self._number or self._count.times() + 1}
        spent = without_budget(self._uplink.spending(self._layout, uses))
        return Leaving(*leaving_by(self._flows, self.name, times), spent)

    @contextmanager
    def folders(self) -> Iterator[Folders]:
        """See ``Engagement``: nothing but the result is kept."""
        yield Folders()

    def cast(self) -> PredictParty | PredictLabelHolder:
        """See ``Engagement``: what it discloses is counted, before it leaves."""
        self._number = self._count.add(0)
        part, layout, new = self.part, self._layout, self._new
        if not part.is_label_holder:
            assert part.party is not None
            return PredictParty(layout, part.party, self._uplink, new)
        top = Learner(part.top([*self._widths.values()]), device=part.device)
        return PredictLabelHolder(layout, top, part.party, self._uplink, self._whole, new)

    def conclude(self, role: Any, ledger: Ledger, record: RunRecord | None) -> None:
        """See ``Engagement``: the label holder alone learns what is predicted."""
        folder = self._folder.path / PREDICTIONS / str(self._number)
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(folder / "ledger.csv") as partial:
                ledger.write_csv(partial)
            if isinstance(role, PredictLabelHolder):
                assert role.predictions is not None
                self._tell(role.predictions, ledger, folder)

    def _tell(self, scores: Tensor, ledger: Ledger, folder: Path) -> None:
        """Write what is predicted of new people, and what is lost without those who have left."""
        part, job = self.part, self.job
        new = len(part.people.ids)
        prediction = Prediction(scores[:new], ledger, part.people.ids)
        frame = prediction.frame(job.rows.id, part.classes, job.objective.threshold)
        with replacing(folder / "predictions.csv") as partial:
            frame.write_csv(partial)
        told = {"by": SIGNATURE, "rows": new, "without": dict(job.fallbacks), "lost": None}
        if part.known is not None:
            assert part.known.labels is not None
            lost = lost_by(
                load_run(self._folder.path).summary,
                part.blueprint.objective.metrics(),
                scores[new:],
                part.known.labels,
                best_counts=job.training.build(len(part.known.ids)).early_stopping is not None,
            )
            told["lost"] = asdict(lost)
        with replacing(folder / "summary.json") as partial:
            partial.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")

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
        means = {name: read_mean(file, name) for name, file in new_people(self.site).means.items()}
        return completed(self._fusion, constants_of(self.job.fallbacks, widths, means))

    @property
    def _flows(self) -> list[Flow]:
        rows = min(self._layout.rows, _TOGETHER)
        return [*self._uplink.flows(self._layout, rows, Purpose.PREDICTION)]

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
