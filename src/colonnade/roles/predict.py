"""Prediction for new rows: the trained parts play one evaluation without labels.

The embeddings travel through the same uplink as in training, so what protects them there protects
them here; the messages carry the purpose PREDICTION. Only the label holder learns the predictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from colonnade.effects import Boundary, Purpose, Work
from colonnade.links import Rows
from colonnade.models import Features, Learner, take
from colonnade.roles.evaluate import HeldOut, outputs, upload
from colonnade.uplinks import Collector, Moment, Uploader

__all__ = ["PredictLabelHolder", "PredictParty"]


class PredictParty:
    """A party when new rows are predicted.

    Parameters
    ----------
    name, label_holder
        Its own name, and that of the label holder.
    bottom
        Its trained bottom model.
    features
        Its columns of the new rows.
    new
        Which rows, in pieces.
    uplink
        Its half of the uplink.
    """

    def __init__(
        self,
        name: str,
        label_holder: str,
        bottom: Learner,
        features: Features,
        new: HeldOut,
        uplink: Uploader,
    ) -> None:
        self.name = name
        self.round = 0
        self._label_holder = label_holder
        self._bottom = bottom
        self._features = features
        self._new = new
        self._uplink = uplink

    @property
    def peers(self) -> Sequence[str]:
        """The label holder alone."""
        return (self._label_holder,)

    async def run(self) -> None:
        """Send the embeddings of the new rows."""
        await Boundary(self.round)
        await upload(
            self._uplink, self._bottom, self._features, self._new, self.round, Purpose.PREDICTION
        )
        self.round += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the round: nothing else changes."""
        return {"round": self.round}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the round."""
        self.round = state["round"]


class PredictLabelHolder:
    """The label holder when new rows are predicted.

    Parameters
    ----------
    name
        Its name.
    top
        The trained top model.
    bottom, features
        Its own trained bottom model and its columns of the new rows; both None without columns.
    new
        Which rows, in pieces.
    uplink
        Its half of the uplink.
    parties
        The names of the parties.
    """

    def __init__(
        self,
        name: str,
        top: Learner,
        bottom: Learner | None,
        features: Features | None,
        new: HeldOut,
        uplink: Collector,
        parties: Sequence[str],
    ) -> None:
        self.name = name
        self.round = 0
        self.predictions: Tensor | None = None
        self._top = top
        self._bottom = bottom
        self._features = features
        self._new = new
        self._uplink = uplink
        self._parties = tuple(parties)

    @property
    def peers(self) -> Sequence[str]:
        """Every party."""
        return self._parties

    async def run(self) -> None:
        """Receive the embeddings of the new rows, and keep the top model's outputs."""
        await Boundary(self.round)
        own = None if self._bottom is None else self._own
        self.predictions = await outputs(
            self._uplink, own, self._top, self._new, self.round, Purpose.PREDICTION
        )
        self.round += 1

    async def _own(self, rows: Rows, moment: Moment) -> Tensor:
        bottom, features = self._bottom, self._features
        assert bottom is not None
        assert features is not None
        return await Work(
            "forward",
            lambda: bottom(take(features, rows), training=False),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the round and the predictions."""
        return {"round": self.round, "predictions": self.predictions}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.round = state["round"]
        self.predictions = state["predictions"]
