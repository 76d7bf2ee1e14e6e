"""The relay exchange: every party is sent the labels, all embeddings and the top model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from colonnade.agreement import Agreement, Composition, Exchange, HolderSeat, PartySeat
from colonnade.annotated import check_fields
from colonnade.disclosures import Disclosure
from colonnade.errors import ConfigurationError
from colonnade.flows import Bundle, Flow
from colonnade.layout import Layout
from colonnade.links import Direct, Link
from colonnade.local_updates import LocalStep
from colonnade.models import Additive
from colonnade.roles.relay import TOP, RelayLabelHolder, RelayParty
from colonnade.roles.relayed_embeddings import (
    BUNDLE_OVERHEAD,
    CODES,
    EMBEDDING,
    TOTAL,
    CodesReceiver,
    CodesSender,
    EmbeddingsReceiver,
    TotalReceiver,
    TotalSender,
)
from colonnade.roles.shared_labels import labels_flow
from colonnade.uplinks import Relayable, Uplink
from colonnade.wire import Purpose

__all__ = ["Relay"]


@dataclass(frozen=True)
class Relay(Exchange):
    """Embeddings up, everybody's embeddings and the top model down; every party learns the labels.

    Those of the training rows are sent to every party before the first round (purpose ``setup``).

    Parameters
    ----------
    labels
        ``"shared"``: to be said, since it tells every party what the others hold dear.
    top
        How the top model's parameters reach the parties, by default exactly.
    others
        What a party hears of the others: their ``"codes"``, forwarded byte for byte, or the
        ``"total"`` of all embeddings, for fusion by sum or mean (EF-VFL's appendix D, scheme 3).

    Raises
    ------
    ConfigurationError
        If the labels are not said to be shared.

    Examples
    --------
    >>> Relay(labels="shared", others="total").others
    'total'
    >>> Relay()
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the relay exchange shows every party the labels, the top \
model and the other parties' embeddings; say labels='shared' if that is meant, or take the split \
exchange
    """

    labels: Literal["private", "shared"] = "private"
    top: Link = field(default_factory=Direct)
    others: Literal["codes", "total"] = "codes"

    def __post_init__(self) -> None:
        check_fields(Relay, self)
        if self.labels != "shared":
            raise ConfigurationError(
                "the relay exchange shows every party the labels, the top model and the other "
                "parties' embeddings; say labels='shared' if that is meant, or take the split "
                "exchange"
            )

    @property
    def takes_steps(self) -> frozenset[LocalStep]:
        """Repeated ones: everybody has what it needs to follow a gradient of its own."""
        return frozenset({LocalStep.REPEATED})

    def check(self, method: Composition) -> None:
        """Refuse an uplink that hides embeddings, and a total where fusion needs each of them."""
        if not isinstance(method.uplink, Relayable):
            raise ConfigurationError(
                "the relay exchange passes on what each party sent, and the label holder's own "
                f"embeddings as they are, but {type(method.uplink).__name__} does not show the "
                "label holder each embedding, or gives noise to the parties' alone: take the split "
                "exchange"
            )
        if self.others == "total" and not isinstance(method.fusion, Additive):
            raise ConfigurationError(
                "the total of all embeddings is all that fusion by sum or mean needs, but "
                f"{type(method.fusion).__name__} needs each of them: say others='codes'"
            )

    def flows(self, agreement: Agreement) -> tuple[Flow, ...]:
        """Return the labels, the top model, and what tells parties of each other's embeddings."""
        layout, rows = agreement.layout, agreement.batches.batch_size
        holder, parties, relayable = layout.label_holder, layout.parties, _relayable(agreement)
        training, table = Purpose.TRAINING, layout.rows
        top = Flow(holder, parties, TOP, training, self.top, 1, agreement.parameters, 1)
        flows = [labels_flow(agreement), top]
        if self.others == "codes":
            for party in parties:
                others = [name for name in parties if name != party]
                bundle = Bundle(relayable.heard(layout, others), BUNDLE_OVERHEAD)
                flows.append(
                    Flow(holder, (party,), CODES, Purpose.RELAY, bundle, rows, 0, table, True)
                )
        else:
            width = max(layout.widths.values())
            flows.append(Flow(holder, parties, TOTAL, training, Direct(), rows, width, table))
        if layout.own_width is not None:
            ((link, width),) = relayable.heard(layout, [holder])
            # Within a total it is as if it had been sent, so that all fuse the same.
            receivers = parties if self.others == "codes" else ()
            flows.append(Flow(holder, receivers, EMBEDDING, training, link, rows, width, table))
        return tuple(flows)

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return that every party learns all but the others' columns."""
        known, every = "known to every party", "every party"
        whole = self.others == "codes"
        others = f"{'those' if whole else 'the sum of those'} of the other organisations"
        seen = "the others' embeddings" if whole else "the sum of the others' embeddings"
        return (
            Disclosure("labels", known, to=every, sees="the labels"),
            Disclosure("top model", known, to=every, sees="the top model"),
            Disclosure("embeddings", f"every party sees {others}", to=every, sees=seen),
        )

    def with_links(self, change: Callable[[Link], Link]) -> Relay:
        """Return it with another link for the top model."""
        return replace(self, top=change(self.top))

    def party(self, agreement: Agreement, seat: PartySeat) -> RelayParty:
        """Return the role of a party, which will be sent the labels."""
        if seat.shared is None:
            raise ConfigurationError(
                f"{seat.own.name!r} needs the loss and the form of the top model, since the relay "
                "exchange shares the labels: give its PartySeat shared=Shared(loss, top)"
            )
        others = self._receiver(agreement, seat.own.name)
        return RelayParty(agreement, seat, seat.shared, self.top, others)

    def label_holder(self, agreement: Agreement, seat: HolderSeat) -> RelayLabelHolder:
        """Return the label holder's role."""
        layout = agreement.layout
        own = layout.own_width
        link = None if own is None else _relayable(agreement).speaker(layout)
        sender = CodesSender if self.others == "codes" else TotalSender
        others = sender(layout.label_holder, link, layout.seed)
        return RelayLabelHolder(agreement, seat, self.top, others)

    def _receiver(self, agreement: Agreement, name: str) -> EmbeddingsReceiver:
        layout, fusion = agreement.layout, agreement.method.fusion
        holder, widths = layout.label_holder, layout.widths
        if self.others == "total":
            assert isinstance(fusion, Additive)
            return TotalReceiver(holder, widths[name], len(widths), fusion, layout.seed)
        relayable = _relayable(agreement)
        links = {
            other: relayable.listener(layout, name, other) for other in widths if other != name
        }
        return CodesReceiver(holder, links, list(widths).index(name), fusion, layout.seed)


def _relayable(agreement: Agreement) -> Relayable:
    uplink: Uplink | Relayable = agreement.method.uplink
    assert isinstance(uplink, Relayable)  # as check demands
    return uplink
