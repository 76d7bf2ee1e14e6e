"""The split exchange: derivatives come back; labels and top model stay with the label holder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from colonnade.agreement import Agreement, Exchange, HolderSeat, PartySeat
from colonnade.annotated import check_fields
from colonnade.defences import Bare, Defence, Guard
from colonnade.disclosures import Disclosure
from colonnade.errors import ConfigurationError
from colonnade.flows import FixedSize, Flow
from colonnade.layout import Layout
from colonnade.links import Direct, Link
from colonnade.local_updates import LocalStep
from colonnade.organisations import Loss
from colonnade.privacy import Game
from colonnade.roles.split import DERIVATIVE, SKIPPED, SplitLabelHolder, SplitParty
from colonnade.wire import Purpose

__all__ = ["Split"]


@dataclass(frozen=True)
class Split(Exchange):
    """Embeddings up, derivatives down; labels and top model stay private.

    Parameters
    ----------
    downlink
        How derivatives reach the parties, by default exactly.
    correction
        Where the label holder got C(z) for z: lambda, by which a party corrects the derivative that
        was taken at C(z), d + lambda (z - C(z)) (FedLite; Wang et al., 2022). The party corrects,
        since it alone knows z.
    defence
        What becomes of derivatives before they leave the label holder, so that they tell less of
        labels; by default nothing.

    Raises
    ------
    ConfigurationError
        If ``correction`` is negative or not finite.

    Examples
    --------
    >>> from colonnade.codecs import Scalar
    >>> Split(downlink=Direct(Scalar(bits=4))).labels
    'private'
    """

    downlink: Link = field(default_factory=Direct)
    correction: float = 0.0
    defence: Defence | None = None

    def __post_init__(self) -> None:
        check_fields(Split, self)
        if not 0 <= self.correction < math.inf:
            raise ConfigurationError(f"correction must be 0 or more, not {self.correction!r}")

    @property
    def takes_steps(self) -> frozenset[LocalStep]:
        """All: a party goes on with the derivative that it got, the label holder by itself."""
        return frozenset(LocalStep)

    @property
    def takes_absences(self) -> bool:
        """A party that was not waited for gets no derivative."""
        return True

    def affords(self, layout: Layout, uses: int) -> bool:
        """As the defence answers."""
        return self.defence is None or self.defence.affords(layout, uses)

    def spending(self, layout: Layout, uses: int) -> Mapping[str, Any]:
        """As the defence answers."""
        return {} if self.defence is None else self.defence.spending(layout, uses)

    def unlimited(self) -> Split:
        """Return it with a defence without a budget, where it has one."""
        if self.defence is None:
            return self
        return replace(self, defence=self.defence.unlimited())

    def games(self, layout: Layout) -> tuple[Game, ...]:
        """As the defence answers."""
        return () if self.defence is None else self.defence.games(layout)

    def check_covers(self, loss: Loss, learned: Mapping[str, Any]) -> None:
        """As the defence answers."""
        if self.defence is not None:
            self.defence.check_covers(loss, learned)

    def flows(self, agreement: Agreement) -> tuple[Flow, ...]:
        """Return a derivative for each party, or the word that there is none."""
        layout, rows = agreement.layout, agreement.batches.batch_size
        holder, training = layout.label_holder, Purpose.TRAINING
        flows = [
            Flow(holder, (party,), DERIVATIVE, training, self.downlink, rows, width, layout.rows)
            for party, width in layout.party_widths.items()
        ]
        if agreement.method.stragglers.drops:
            flows.append(Flow(holder, layout.parties, SKIPPED, training, FixedSize(0), 0, 0, 0))
        return tuple(flows)

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return that labels stay where they are, and what tells of them."""
        if self.defence is not None:
            return self.defence.disclosures(layout)
        return (
            Disclosure(
                "labels",
                "stay with the label holder; derivatives, predictions and when training stops "
                "early still tell of them",
            ),
        )

    def with_links(self, change: Callable[[Link], Link]) -> Split:
        """Return it with another downlink."""
        return replace(self, downlink=change(self.downlink))

    def party(self, agreement: Agreement, seat: PartySeat) -> SplitParty:
        """Return the role of a party."""
        return SplitParty(agreement, seat, self.downlink, self.correction)

    def label_holder(self, agreement: Agreement, seat: HolderSeat) -> SplitLabelHolder:
        """Return the label holder's role."""
        return SplitLabelHolder(agreement, seat, self.downlink, self.guard(agreement, seat))

    def guard(self, agreement: Agreement, seat: HolderSeat) -> Guard:
        """Return what derivatives pass before they leave."""
        if self.defence is None:
            return Bare()
        return self.defence.guard(agreement.layout, agreement.method.fusion, seat.own)
