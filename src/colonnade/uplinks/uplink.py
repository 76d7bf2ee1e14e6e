"""What an uplink is: two halves that together bring the parties' embeddings to the top model.

The party's half evaluates the bottom model on the rows of a batch and sends what the uplink sends;
the label holder's half receives and fuses. A uplink may reveal every embedding to the label holder,
or only their sum, or an interpolation of them; the roles do not know which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from colonnade.effects import Purpose
from colonnade.links import Rows
from colonnade.models import Features, Fusion, Learner
from colonnade.streams import StreamKey

__all__ = ["Collector", "Fused", "Moment", "Uploader"]


@dataclass(frozen=True, slots=True)
class Moment:
    """When in a protocol something happens.

    Parameters
    ----------
    round
        The round.
    purpose
        Training, or evaluation or prediction on other rows.
    part
        Which piece, where rows travel in several.
    """

    round: int
    purpose: Purpose = Purpose.TRAINING
    part: int = 0

    def key(self, seed: int, origin: str, kind: str) -> StreamKey:
        """Return the stream of randomness for a message of ``kind`` that ``origin`` encodes now."""
        return StreamKey(seed, origin, f"{self.purpose.label}/{kind}", self.round, self.part)


@dataclass(slots=True)
class Fused:
    """The top model's input, and the tensors whose gradients the parties are owed.

    Parameters
    ----------
    value
        The input of the top model, ``[B, width]``.
    received
        For each party, the leaf of the graph that stands for its contribution.
    bodies
        The messages that brought them, as received.
    """

    value: Tensor
    received: Mapping[str, Tensor]
    bodies: Mapping[str, bytes]

    def constants(self) -> tuple[Tensor, ...]:
        """Return what was received, in party order, without a graph."""
        return tuple(leaf.detach() for leaf in self.received.values())

    def derivatives(self) -> dict[str, Tensor]:
        """Return, after backward, each party's derivative: d loss / d embedding, ``[B, E]``."""
        derivatives = {}
        for party, leaf in self.received.items():
            assert leaf.grad is not None
            derivatives[party] = leaf.grad
        return derivatives


class Uploader(Protocol):
    """The party's half."""

    async def upload(
        self,
        bottom: Learner,
        features: Features,
        rows: Rows,
        moment: Moment,
        saliency: Tensor | None = None,
    ) -> Tensor:
        """Evaluate the bottom model on ``rows``, send, and return the exact embedding.

        When training, the returned tensor carries the graph to backpropagate through. ``saliency``
        says how much each component matters, where that is known: codecs may choose by it.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what this half remembers between messages."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...


class Collector(Protocol):
    """The label holder's half."""

    @property
    def fusion(self) -> Fusion:
        """How embeddings are combined."""
        ...

    async def collect(self, rows: Rows, own: Tensor | None, moment: Moment) -> Fused:
        """Receive the embeddings of ``rows`` and fuse them with the label holder's own, if any."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what this half remembers between messages."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...
