"""An organisation that predicts with others: from new people's rows to what each is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from colonnade.batches import pieces
from colonnade.deployment import meeting
from colonnade.deployment.engagement import Folders
from colonnade.deployment.with_trained_parts import WithTrainedParts
from colonnade.drivers import RunRecord
from colonnade.evaluation import HeldOut
from colonnade.fallbacks import lost_by
from colonnade.faults import explained
from colonnade.flows import Flow
from colonnade.ledger import Ledger
from colonnade.outputs import SIGNATURE, replacing
from colonnade.prediction import ROWS_TOGETHER, Prediction
from colonnade.roles import PredictLabelHolder, PredictParty
from colonnade.run_read import load_run

__all__ = ["PREDICTIONS", "PredictingTogether"]

PREDICTIONS = "predictions"
"""The folder of a run that has one for each prediction, called by its number."""


class PredictingTogether(WithTrainedParts):
    """An organisation in a prediction of all people whom all know."""

    def agree(self, everybody: meeting.Everybody) -> str:
        """See ``Engagement``."""
        agreed = super().agree(everybody)
        rows = np.arange(self.layout.rows, dtype=np.int64)
        self._new = HeldOut("new", pieces(rows, ROWS_TOGETHER))
        return agreed

    @property
    def flows(self) -> list[Flow]:
        """Embeddings of rows."""
        return self.rows_flows()

    @property
    def pieces(self) -> int:
        """In how many all rows are."""
        return len(self._new.pieces)

    @contextmanager
    def folders(self) -> Iterator[Folders]:
        """See ``Engagement``: but for the result, and what left, nothing is kept."""
        yield Folders()

    @cached_property
    def noted_in(self) -> Path:
        """See ``Engagement``: it is called by the number of the prediction."""
        folder = self.folder.path / PREDICTIONS / str(self.number)
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def cast(self) -> PredictParty | PredictLabelHolder:
        """See ``Engagement``: what it discloses is counted, before it leaves."""
        self.count_one()
        layout, uplink, new = self.layout, self.uplink, self._new
        if not self.part.is_label_holder:
            return PredictParty(layout, self.owned(), uplink, new)
        top, own, fusion = self.judging()
        return PredictLabelHolder(layout, top, own, uplink, fusion, new)

    def conclude(self, role: Any, ledger: Ledger, record: RunRecord | None) -> None:
        """See ``Engagement``: the label holder alone learns what is predicted."""
        if isinstance(role, PredictLabelHolder):
            assert role.predictions is not None
            with explained(self.noted_in):
                self._tell(role.predictions, ledger, self.noted_in)

    def _tell(self, scores: Tensor, ledger: Ledger, folder: Path) -> None:
        """Write what is predicted of new people, and what is lost without those who have left."""
        part, job = self.part, self.job
        new = len(part.people.ids)
        prediction = Prediction(scores[:new], ledger, part.people.ids)
        frame = prediction.frame(job.rows.id, part.classes, job.objective.threshold)
        with replacing(folder / "predictions.csv") as partial, partial.open("wb") as file:
            frame.write_csv(file)
        told = {"by": SIGNATURE, "rows": new, "without": dict(job.fallbacks), "lost": None}
        if part.known is not None:
            assert part.known.labels is not None
            lost = lost_by(
                load_run(self.folder.path).summary,
                part.blueprint.objective.metrics(),
                scores[new:],
                part.known.labels,
                best_counts=job.training.build(len(part.known.ids)).early_stopping is not None,
            )
            told["lost"] = asdict(lost)
        with replacing(folder / "summary.json") as partial:
            partial.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
