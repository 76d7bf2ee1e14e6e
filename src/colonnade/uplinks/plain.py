"""The plain uplink: every party's embedding goes to the label holder through a link.

The label holder sees each party's embedding (as the codec leaves it). Nothing hides it: embeddings
betray data, and the summary of a run says that this protection is off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from colonnade.effects import Arrivals, Expect, Purpose, Receive, Send, Work
from colonnade.links import Delivery, Direct, Link, LinkReceiver, LinkSender, Rows
from colonnade.models import Features, Fusion, Learner, take
from colonnade.uplinks.uplink import Fused, Moment

__all__ = ["Plain", "PlainCollector", "PlainUploader"]

KIND = "embedding"


@dataclass(frozen=True)
class Plain:
    """Embeddings in the clear to the label holder, through ``link``.

    Parameters
    ----------
    link
        How embeddings travel, by default exactly.
    held_out
        How those of rows travel that are not trained on. By default through a link like ``link``;
        but exactly where that one remembers each row, as error feedback does: of held-out rows
        there is nothing to remember.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> four_bits = Plain(Direct(Scalar(bits=4)))
    """

    link: Link = field(default_factory=Direct)
    held_out: Link | None = None

    @property
    def links(self) -> tuple[Link, Link]:
        """The link of training, and that of rows that are not trained on."""
        stateless = self.link.delivery is Delivery.ANY
        return self.link, self.held_out or (self.link if stateless else Direct())

    def of_new_rows(self) -> Plain:
        """Return the uplink of rows that were never trained on."""
        return Plain(self.links[1])

    def uploader(
        self, party: str, label_holder: str, rows: int, width: int, seed: int
    ) -> PlainUploader:
        """Make the half of ``party`` for a table of ``rows`` rows and embeddings ``width`` wide."""
        training, held_out = (
            link.sender(rows, width, f"parties/{party}/embedding/{purpose}")
            for link, purpose in zip(self.links, ("training", "evaluation"), strict=True)
        )
        return PlainUploader(party, label_holder, training, held_out, seed)

    def collector(
        self, widths: Mapping[str, int], rows: int, fusion: Fusion, seed: int
    ) -> PlainCollector:
        """Make the label holder's half for parties with embeddings of these ``widths``."""
        training, held_out = (
            {
                party: link.receiver(rows, width, f"label-holder/{party}/embedding/{purpose}")
                for party, width in widths.items()
            }
            for link, purpose in zip(self.links, ("training", "evaluation"), strict=True)
        )
        return PlainCollector(training, held_out, fusion, seed)


class PlainUploader:
    """The party's half of ``Plain``."""

    def __init__(
        self, party: str, label_holder: str, link: LinkSender, held_out: LinkSender, seed: int
    ) -> None:
        self._party = party
        self._label_holder = label_holder
        self._link = link
        self._held_out = held_out
        self._seed = seed

    async def upload(
        self,
        bottom: Learner,
        features: Features,
        rows: Rows,
        moment: Moment,
        saliency: Tensor | None = None,
    ) -> Tensor:
        """Evaluate the bottom model on ``rows``, send its embedding, and return it."""
        training = moment.purpose is Purpose.TRAINING
        embedding = await Work(
            "forward",
            lambda: bottom(take(features, rows), training),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )
        key = moment.key(self._seed, self._party, KIND)
        link = self._link if training else self._held_out
        body = await Work(
            "encode",
            lambda: link.send(embedding.detach(), rows, key, saliency),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )
        if training:
            self._sent = body, rows, key
        await Send(self._label_holder, KIND, moment.round, body, moment.purpose)
        return embedding

    def delivered(self) -> Tensor:
        """Return what the label holder takes for the embedding of the batch that was just sent."""
        return self._link.delivered(*self._sent)

    def state_dict(self) -> dict[str, Any]:
        """Return the link's state."""
        return {"link": self._link.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the link's state."""
        self._link.load_state_dict(state["link"])


class PlainCollector:
    """The label holder's half of ``Plain``."""

    def __init__(
        self,
        links: Mapping[str, LinkReceiver],
        held_out: Mapping[str, LinkReceiver],
        fusion: Fusion,
        seed: int,
    ) -> None:
        self._links = links
        self._held_out = held_out
        self.fusion = fusion
        self._seed = seed

    async def collect(self, rows: Rows, own: Tensor | None, moment: Moment) -> Fused:
        """Receive every party's embedding of ``rows``, and fuse them, the own one last."""
        arrivals = await Receive(Expect(KIND, moment.round, tuple(self._links), moment.purpose))
        return await Work(
            "decode",
            lambda: self._fuse(arrivals, rows, own, moment),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )

    def _fuse(self, arrivals: Arrivals, rows: Rows, own: Tensor | None, moment: Moment) -> Fused:
        training = moment.purpose is Purpose.TRAINING
        links = self._links if training else self._held_out
        received = {}
        for message in arrivals:
            key = moment.key(self._seed, message.sender, KIND)
            embedding = links[message.sender].receive(message.body, rows, key)
            received[message.sender] = embedding.requires_grad_(training)
        embeddings: Sequence[Tensor] = [*received.values(), *([] if own is None else [own])]
        bodies = {message.sender: message.body for message in arrivals}
        return Fused(self.fusion(embeddings), received, bodies)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of each party's link."""
        return {party: link.state_dict() for party, link in self._links.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of each party's link."""
        for party, link in self._links.items():
            link.load_state_dict(state[party])
