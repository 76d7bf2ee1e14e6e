"""The plain uplink: every party's embedding goes to the label holder through a link.

The label holder sees each party's embedding (as the codec leaves it). Nothing hides it: embeddings
betray data, and the summary of a run says that this protection is off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from colonnade.annotated import check_fields
from colonnade.disclosures import HELD_OUT, Disclosure
from colonnade.effects import Arrivals, Expect, Purpose, Receive, Send, Work
from colonnade.errors import ConfigurationError, LocalProtocolError
from colonnade.flows import Flow
from colonnade.layout import Layout
from colonnade.links import Delivery, Direct, Link, LinkReceiver, LinkSender, Rows
from colonnade.models import Fusion, take
from colonnade.organisations import Party
from colonnade.stragglers import Stragglers
from colonnade.uplinks.contract import Embedder, Fused, Moment, Timetable, Uplink
from colonnade.wire import Message, reading

__all__ = ["Plain"]

KIND = "embedding"


@dataclass(frozen=True)
class Plain(Uplink):
    """Embeddings in the clear to the label holder, through ``link``.

    Parameters
    ----------
    link
        How embeddings travel, by default exactly.
    held_out
        How those of rows travel that are not trained on. By default as ``link`` says: one that
        remembers nothing takes them too, learned entropy coding leaves them to ``Entropy``, and
        under error feedback, which knows nothing of these rows, they travel exactly.

    Raises
    ------
    ConfigurationError
        If ``held_out`` is a link that remembers.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> four_bits = Plain(Direct(Scalar(bits=4)))
    """

    link: Link = field(default_factory=Direct)
    held_out: Link | None = None

    def __post_init__(self) -> None:
        check_fields(Plain, self)
        if self.held_out is not None and self.held_out.held_out() != self.held_out:
            raise ConfigurationError(
                f"rows that are held out travel one by one and now and then, so {self.held_out} "
                "cannot remember them: take a link that remembers nothing"
            )

    @property
    def delivery(self) -> Delivery:
        """As the link of training; nothing that is held out is lost."""
        return self.link.delivery

    def flows(self, layout: Layout, rows: int, purpose: Purpose) -> tuple[Flow, ...]:
        """Return a message of each party to the label holder."""
        return tuple(
            Flow(
                party,
                (layout.label_holder,),
                KIND,
                purpose,
                self._through(purpose),
                rows,
                width,
                layout.rows,
            )
            for party, width in layout.party_widths.items()
        )

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return that nothing hides embeddings from the label holder, and if links differ."""
        seen = Disclosure(
            "embeddings",
            "seen by the label holder as the codec leaves them",
            to="the label holder",
            sees="every party's embeddings",
        )
        held_out = self._through(Purpose.EVALUATION)
        if held_out == self.link:
            return (seen,)
        return (
            seen,
            Disclosure(HELD_OUT, f"evaluated and predicted as {held_out} leaves them"),
        )

    def with_links(self, change: Callable[[Link], Link]) -> Plain:
        """Return it with both links changed."""
        held_out = change(self._through(Purpose.EVALUATION))
        return replace(self, link=change(self.link), held_out=held_out)

    def of_new_rows(self) -> Plain:
        """Return the uplink with the link of held-out rows alone."""
        return replace(self, link=self._through(Purpose.PREDICTION), held_out=None)

    def uploader(self, layout: Layout, party: Party) -> _Uploader:
        """Make the half of ``party``."""
        training, held_out = (
            self._through(purpose).sender(
                layout.rows,
                layout.widths[party.name],
                f"parties/{party.name}/embedding/{purpose.label}",
            )
            for purpose in (Purpose.TRAINING, Purpose.EVALUATION)
        )
        return _Uploader(layout, party, training, held_out)

    def collector(self, layout: Layout, fusion: Fusion, stragglers: Stragglers) -> _Collector:
        """Make the label holder's half."""
        training, held_out = (
            {
                party: self._through(purpose).receiver(
                    layout.rows, width, f"label-holder/{party}/embedding/{purpose.label}"
                )
                for party, width in layout.party_widths.items()
            }
            for purpose in (Purpose.TRAINING, Purpose.EVALUATION)
        )
        return _Collector(layout, training, held_out, fusion, stragglers)

    # Passing on: what the relay exchange asks for

    def speaker(self, layout: Layout) -> LinkSender:
        """Return the end of the label holder's own embedding, which goes to all parties."""
        own = layout.own_width
        assert own is not None
        return self.link.sender(layout.rows, own, "label-holder/embedding")

    def listener(self, layout: Layout, party: str, speaker: str) -> LinkReceiver:
        """Return the end at ``party`` of what ``speaker`` sent in training."""
        place = f"parties/{party}/{speaker}/embedding"
        return self.link.receiver(layout.rows, layout.widths[speaker], place)

    def heard(self, layout: Layout, speakers: Sequence[str]) -> tuple[tuple[Link, int], ...]:
        """Return the link of each speaker's training messages, and the width of its rows."""
        return tuple((self.link, layout.widths[speaker]) for speaker in speakers)

    def _through(self, purpose: Purpose) -> Link:
        if purpose is Purpose.TRAINING:
            return self.link
        return self.held_out or self.link.held_out()


class _Uploader:
    """The party's half of ``Plain``."""

    def __init__(
        self, layout: Layout, party: Party, link: LinkSender, held_out: LinkSender
    ) -> None:
        self._layout = layout
        self._party = party
        self._link = link
        self._held_out = held_out

    async def prepare(self, timetable: Timetable) -> None:
        """Nothing has to be prepared."""

    async def upload(
        self, bottom: Embedder, rows: Rows, moment: Moment, saliency: Tensor | None = None
    ) -> Tensor:
        training = moment.purpose is Purpose.TRAINING
        embedding = await Work(
            "forward",
            lambda: bottom(take(self._party.features, rows), training),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )
        key = moment.key(self._layout.seed, self._party.name, KIND)
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
        to = self._layout.label_holder
        await Send(to, KIND, moment.round, body, moment.purpose, moment.part)
        return embedding

    def delivered(self) -> Tensor:
        return self._link.delivered(*self._sent)

    def report(self) -> Mapping[str, float]:
        return {}

    def spent(self) -> Mapping[str, Any]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {"link": self._link.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._link.load_state_dict(state["link"])


class _Collector:
    """The label holder's half of ``Plain``."""

    def __init__(
        self,
        layout: Layout,
        links: Mapping[str, LinkReceiver],
        held_out: Mapping[str, LinkReceiver],
        fusion: Fusion,
        stragglers: Stragglers,
    ) -> None:
        self._seed = layout.seed
        self._parties = layout.parties
        self._links = links
        self._held_out = held_out
        self._fusion = fusion
        self._stragglers = stragglers
        self._absences = stragglers.absences(layout)

    async def prepare(self, timetable: Timetable) -> None:
        """Nothing has to be prepared."""

    def expect(self, moment: Moment) -> Expect:
        everything = Expect(KIND, moment.round, self._parties, moment.purpose, part=moment.part)
        training = moment.purpose is Purpose.TRAINING
        return self._stragglers.expect(everything) if training else everything

    async def collect(self, rows: Rows, moment: Moment) -> _Collected:
        arrivals = await Receive(self.expect(moment))
        return await Work(
            "decode",
            lambda: self._decoded(arrivals, rows, moment),
            moment.round,
            moment.purpose,
            rows=len(rows),
        )

    def _decoded(self, arrivals: Arrivals, rows: Rows, moment: Moment) -> _Collected:
        if not arrivals:
            raise LocalProtocolError(
                f"{self._stragglers} waited for nobody in round {moment.round}"
            )
        training = moment.purpose is Purpose.TRAINING
        links = self._links if training else self._held_out
        embeddings = {
            message.sender: self._read(links[message.sender], message, rows, moment)
            for message in arrivals
        }
        fused = self._absences.filled(embeddings, rows) if training else embeddings
        bodies = {message.sender: message.body for message in arrivals}
        return _Collected(self._fusion, fused, tuple(embeddings), bodies)

    def _read(self, link: LinkReceiver, message: Message, rows: Rows, moment: Moment) -> Tensor:
        key = moment.key(self._seed, message.sender, KIND)
        with reading(message.sender, moment.round):
            return link.receive(message.body, rows, key)

    def recalled(self, state: Mapping[str, Any]) -> _Collected:
        return _Collected(self._fusion, state["embeddings"], tuple(state["present"]), {})

    def report(self) -> Mapping[str, float]:
        return self._absences.report()

    def spent(self) -> Mapping[str, Any]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {
            "links": {party: link.state_dict() for party, link in self._links.items()},
            "absences": self._absences.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for party, link in self._links.items():
            link.load_state_dict(state["links"][party])
        self._absences.load_state_dict(state["absences"])


@dataclass(frozen=True, eq=False)
class _Collected:
    """Embeddings as received, or what stands for them, in party order.

    Bodies are of use in their own round alone, so a checkpoint has none.
    """

    fusion: Fusion
    embeddings: Mapping[str, Tensor]
    present: tuple[str, ...]
    bodies: Mapping[str, bytes]

    def fuse(self, own: Tensor | None) -> Tensor:
        return self._fused(self.embeddings, own)

    def differentiable(self, own: Tensor | None) -> Fused:
        leaves = {party: self.embeddings[party].detach().requires_grad_() for party in self.present}
        return Fused(self._fused({**self.embeddings, **leaves}, own), leaves)

    def total(self) -> Tensor:
        return reduce(torch.add, self.embeddings.values())

    def _fused(self, embeddings: Mapping[str, Tensor], own: Tensor | None) -> Tensor:
        return self.fusion([*embeddings.values(), *([] if own is None else [own])])

    def state_dict(self) -> dict[str, Any]:
        return {"embeddings": dict(self.embeddings), "present": self.present}
