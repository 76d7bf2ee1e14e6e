"""Prediction for new rows: the trained parts play one evaluation without labels.

The embeddings travel through the same uplink as in training, so what protects them there protects
them here; the messages carry the purpose PREDICTION. Only the label holder learns the predictions.
What the top model says that is no finite number is no prediction: a class for it would be a lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from colonnade.effects import Boundary, Purpose, Work
from colonnade.errors import Diverged
from colonnade.evaluation import HeldOut
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import Fusion, Learner, all_finite, take
from colonnade.organisations import Party
from colonnade.roles.blame import largest_embedding
from colonnade.roles.evaluate import TopAnswer, asked_top, upload
from colonnade.stragglers import Wait
from colonnade.uplinks import Moment, Uplink

__all__ = ["PredictLabelHolder", "PredictParty", "TrainedLabelHolder", "TrainedParty"]


class _Trained:
    """An organisation whose models are trained: they stay as they are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.round = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the round."""
        return {"round": self.round}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the round."""
        self.round = state["round"]


class _Trying(Learner):
    """A bottom model that refuses rows of which it makes no finite numbers."""

    def __call__(self, inputs: Any, training: bool) -> Tensor:
        embedding = super().__call__(inputs, training)
        if not all_finite(embedding):
            row, column = (~torch.isfinite(embedding)).nonzero()[0].tolist()
            raise Diverged(
                f"component {column} of row {row} of those embedded together is "
                f"{float(embedding[row, column])}, so nothing is predicted: see that row's "
                "features, and what the bottom model makes of them"
            )
        return embedding


class TrainedParty(_Trained):
    """A party whose bottom model is trained.

    Parameters
    ----------
    layout
        Who takes part, and how many rows are new.
    own
        Its columns of the new rows, and its trained bottom model.
    uplink
        How its embeddings travel.
    """

    def __init__(self, layout: Layout, own: Party, uplink: Uplink) -> None:
        super().__init__(own.name)
        self._peers = (layout.label_holder, *uplink.peers(layout, own.name))
        self._bottom = _Trying(own.bottom, device=own.device, width=layout.widths[self.name])
        self._uplink = uplink.uploader(layout, own)

    @property
    def peers(self) -> Sequence[str]:
        """The label holder, and whom the uplink needs."""
        return self._peers

    async def _send(self, rows: HeldOut) -> None:
        """Send the embeddings of some rows."""
        await upload(self._uplink, self._bottom, rows, self.round, Purpose.PREDICTION)


class PredictParty(TrainedParty):
    """A party when new rows are predicted.

    Parameters
    ----------
    layout, own, uplink
        See ``TrainedParty``.
    new
        Which rows, in pieces.
    """

    def __init__(self, layout: Layout, own: Party, uplink: Uplink, new: HeldOut) -> None:
        super().__init__(layout, own, uplink)
        self._new = new

    async def run(self) -> None:
        """Send the embeddings of the new rows."""
        await self._uplink.prepare(self._new)
        await Boundary(self.round)
        await self._send(self._new)
        self.round += 1


class TrainedLabelHolder(_Trained):
    """A label holder whose models are trained.

    Parameters
    ----------
    layout
        Who takes part, and how many rows are new.
    top
        The trained top model.
    own
        Its own columns of the new rows and its trained bottom model; None without columns.
    uplink, fusion
        How embeddings reach the top model.
    """

    def __init__(
        self,
        layout: Layout,
        top: Learner,
        own: Party | None,
        uplink: Uplink,
        fusion: Fusion,
    ) -> None:
        super().__init__(layout.label_holder)
        self._top = top
        self._features = None if own is None else own.features
        self._bottom = (
            None if own is None else Learner(own.bottom, device=own.device, width=layout.own_width)
        )
        # Every row is predicted, so everybody is waited for.
        self._uplink = uplink.collector(layout, fusion, Wait())
        self._parties = layout.parties

    @property
    def peers(self) -> Sequence[str]:
        """Every party."""
        return self._parties

    def spent(self) -> Mapping[str, Any]:
        """Return what was lost of privacy, as the uplink tells."""
        return self._uplink.spent()

    def state_dict(self) -> dict[str, Any]:
        """Return the round, and what the uplink has counted."""
        return super().state_dict() | {"uplink": self._uplink.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        self._uplink.load_state_dict(state["uplink"])

    async def _asked_top(self, rows: Rows, moment: Moment) -> TopAnswer:
        """Receive the embeddings of some rows, and return what the top model says of them."""
        return await asked_top(self._uplink, self._own, self._top, rows, moment)

    def _why_none(self, found: TopAnswer, rows: Rows) -> Diverged | None:
        """Return an error that says of which row there is no prediction, if there is one."""
        model, numbers, whose = "top", found.outputs, ""
        if found.own is not None and not all_finite(found.own):
            model, numbers = "bottom", found.own
        elif all_finite(numbers):
            return None
        else:
            whose = largest_embedding(found.collected.differentiable(found.own).leaves)
        wrong = (~torch.isfinite(numbers.reshape(len(rows), -1))).any(dim=1).numpy()
        return Diverged(
            f"what the {model} model of {self.name!r} says of row {rows[wrong][0]} is no finite "
            f"number, so nothing is predicted{whose}"
        )

    async def _own(self, rows: Rows, moment: Moment) -> Tensor | None:
        bottom, features = self._bottom, self._features
        if bottom is None or features is None:
            return None
        return await Work(
            "forward",
            lambda: bottom(take(features, rows), training=False),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )


class PredictLabelHolder(TrainedLabelHolder):
    """The label holder when new rows are predicted.

    Parameters
    ----------
    layout, top, own, uplink, fusion
        See ``TrainedLabelHolder``.
    new
        Which rows, in pieces.
    """

    def __init__(
        self,
        layout: Layout,
        top: Learner,
        own: Party | None,
        uplink: Uplink,
        fusion: Fusion,
        new: HeldOut,
    ) -> None:
        super().__init__(layout, top, own, uplink, fusion)
        self.predictions: Tensor | None = None
        self._new = new

    async def run(self) -> None:
        """Receive the embeddings of the new rows, and keep the top model's outputs.

        Raises
        ------
        Diverged
            If one of them is no finite number.
        """
        await self._uplink.prepare(self._new)
        await Boundary(self.round)
        pieces = []
        for rows, moment in self._new.moments(self.round, Purpose.PREDICTION):
            found = await self._asked_top(rows, moment)
            if why := self._why_none(found, rows):
                raise why
            pieces.append(found.outputs)
        self.predictions = torch.cat(pieces)
        self.round += 1

    def state_dict(self) -> dict[str, Any]:
        """Return what a trained label holder remembers, and the predictions."""
        return super().state_dict() | {"predictions": self.predictions}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state)
        self.predictions = state["predictions"]
