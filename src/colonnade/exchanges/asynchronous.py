"""The asynchronous exchange: as split, with local steps while messages are under way."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.agreement import Agreement, HolderSeat, PartySeat
from colonnade.exchanges.split import Split
from colonnade.local_updates import LocalStep
from colonnade.roles.asynchronous import AsynchronousLabelHolder, AsynchronousParty

__all__ = ["Asynchronous"]


@dataclass(frozen=True)
class Asynchronous(Split):
    """Embeddings up, derivatives down, and local steps while they are under way.

    What travels, and who learns what, is as of ``Split``. But each organisation takes the steps
    that its policy of local updates has for it, such as ``Workset``'s, while it waits, as many as
    there is time for. So the course of a run depends on time: it repeats to the bit under a replay,
    or on a virtual clock with modelled costs.

    Parameters
    ----------
    downlink, correction, defence
        As of ``Split``.

    Examples
    --------
    >>> sorted(step.name for step in Asynchronous().takes_steps)
    ['STALE_DERIVATIVES', 'STALE_EMBEDDINGS']
    """

    @property
    def takes_steps(self) -> frozenset[LocalStep]:
        """Those on batches that are remembered; there is none to repeat before a message."""
        return frozenset({LocalStep.STALE_DERIVATIVES, LocalStep.STALE_EMBEDDINGS})

    @property
    def timed(self) -> bool:
        """It does."""
        return True

    def party(self, agreement: Agreement, seat: PartySeat) -> AsynchronousParty:
        """Return the role of a party."""
        return AsynchronousParty(agreement, seat, self.downlink, self.correction)

    def label_holder(self, agreement: Agreement, seat: HolderSeat) -> AsynchronousLabelHolder:
        """Return the label holder's role."""
        guard = self.guard(agreement, seat)
        return AsynchronousLabelHolder(agreement, seat, self.downlink, guard)
