"""The event-driven exchange: each party's embeddings are answered when they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from colonnade.agreement import Agreement, Composition, Exchange, HolderSeat, PartySeat
from colonnade.annotated import check_fields
from colonnade.disclosures import Disclosure
from colonnade.errors import ConfigurationError
from colonnade.flows import FixedSize, Flow
from colonnade.layout import Layout
from colonnade.links import Direct, Link
from colonnade.roles.event_driven import OVER, EventDrivenLabelHolder, EventDrivenParty
from colonnade.roles.split import DERIVATIVE
from colonnade.roles.store import Store
from colonnade.uplinks import Relayable
from colonnade.wire import Purpose

__all__ = ["EventDriven"]


@dataclass(frozen=True)
class EventDriven(Exchange):
    """Embeddings up and derivatives down, party by party: nobody waits for anybody.

    The label holder keeps the newest embedding of every training row of every party, which each
    sends once before the first step. When a party's embeddings of a batch come, it overwrites those
    rows, steps its models, and sends that party its derivative. A slow party sets nobody's pace;
    where all are as fast, this is ``Split``. An epoch is a pass of the fastest party over the rows;
    the history tells in how many rounds each party had no answer, and how old the embeddings of the
    others were.

    Evaluations are of the whole model and wait for everybody. How often a slower party steps
    depends on time, so a run repeats to the bit under a replay, or on a virtual clock with modelled
    costs.

    It takes no local steps, no straggler policy but ``Wait()``, as there are no rounds to miss, and
    an uplink that shows the label holder each party's embeddings: error feedback too, since the
    messages of a party come in order and each is taken.

    Parameters
    ----------
    downlink
        How derivatives reach the parties, by default exactly.

    Examples
    --------
    >>> EventDriven().own_pace, EventDriven().uploads(rounds=12, epoch=4)
    (True, 16)
    """

    downlink: Link = field(default_factory=Direct)

    def __post_init__(self) -> None:
        check_fields(EventDriven, self)

    @property
    def own_pace(self) -> bool:
        """Each party's."""
        return True

    def uploads(self, rounds: int, epoch: int) -> int:
        """Return once a round, and once of all rows before the first step."""
        return rounds + epoch

    def bytes_remembered(self, layout: Layout) -> Mapping[str, int]:
        """Return the size of the label holder's store."""
        return {layout.label_holder: Store.bytes_for(layout)}

    def check(self, method: Composition) -> None:
        """Refuse an uplink that hides embeddings or counts their uses, and whom to wait for."""
        if not isinstance(method.uplink, Relayable):
            raise ConfigurationError(
                "the event-driven exchange keeps each party's embeddings and fuses one that came "
                f"with the others' older ones, but {type(method.uplink).__name__} does not show "
                "the label holder each embedding, or counts rounds in which all add noise: take "
                "the split exchange"
            )
        if method.stragglers.drops:
            raise ConfigurationError(
                "in the event-driven exchange nobody is waited for, and nothing comes too late: "
                f"leave {type(method.stragglers).__name__} out, or take the split exchange"
            )

    def flows(self, agreement: Agreement) -> tuple[Flow, ...]:
        """Return a derivative for each party, and the word that a round is over."""
        layout, rows = agreement.layout, agreement.batches.batch_size
        holder, training = layout.label_holder, Purpose.TRAINING
        derivatives = (
            Flow(holder, (party,), DERIVATIVE, training, self.downlink, rows, width, layout.rows)
            for party, width in layout.party_widths.items()
        )
        return (*derivatives, Flow(holder, layout.parties, OVER, training, FixedSize(0), 0, 0, 0))

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return that labels stay where they are, what tells of them, and what is kept."""
        return (
            Disclosure(
                "labels",
                "stay with the label holder; derivatives, predictions and when training stops "
                "early still tell of them",
            ),
            Disclosure(
                "newest embeddings",
                "of every training row, kept by the label holder while training lasts",
            ),
        )

    def with_links(self, change: Callable[[Link], Link]) -> EventDriven:
        """Return it with another downlink."""
        return replace(self, downlink=change(self.downlink))

    def party(self, agreement: Agreement, seat: PartySeat) -> EventDrivenParty:
        """Return the role of a party."""
        return EventDrivenParty(agreement, seat, self.downlink)

    def label_holder(self, agreement: Agreement, seat: HolderSeat) -> EventDrivenLabelHolder:
        """Return the label holder's role."""
        return EventDrivenLabelHolder(agreement, seat, self.downlink)
