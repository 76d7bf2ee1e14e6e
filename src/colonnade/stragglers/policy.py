"""What a straggler policy decides: which embeddings suffice, and what stands for the others.

A policy is a frozen value and part of a ``Method``. The label holder's half of an uplink asks it
what to wait for in training (``sufficing``, where the uplink itself needs some), and hands it what
has come; the exchange tells a party whose embedding
was not waited for, so that this party takes no step in the round. Evaluations and predictions are
of the whole model: they wait for everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from colonnade.effects import Expect
from colonnade.layout import Layout
from colonnade.links import Rows

__all__ = ["Absences", "Stragglers", "sufficing"]


class Absences(Protocol):
    """What the label holder does about embeddings that have not come; it may remember earlier ones.

    It may be stateful; a ``Stragglers`` makes one for each run.
    """

    def filled(self, arrived: Mapping[str, Tensor], rows: Rows) -> dict[str, Tensor]:
        """Return the embeddings that are fused, in party order.

        Parameters
        ----------
        arrived
            The embeddings of ``rows`` that came, each ``[len(rows), width]``, by party; one or
            more.
        rows
            Row numbers.
        """
        ...

    def report(self) -> Mapping[str, float]:
        """Return what goes into the history beside each evaluation, such as how much was stale."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered between rounds."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        ...


@runtime_checkable
class Stragglers(Protocol):
    """For whom a round waits."""

    @property
    def drops(self) -> bool:
        """Whether a message may come too late and be lost; links that need each are refused."""
        ...

    @property
    def leaves_out(self) -> bool:
        """Whether fewer embeddings than there are parties may be fused."""
        ...

    def expect(self, everything: Expect) -> Expect:
        """Return what suffices of an ``Expect`` for all messages there can be; one at least.

        Its sources may be fewer than the parties: under a secure sum, those who are members of it.
        """
        ...

    def absences(self, layout: Layout) -> Absences:
        """Return what is done about the embeddings that have not come."""
        ...

    def bytes_remembered(self, layout: Layout) -> int:
        """Return what the label holder keeps of embeddings that came, for those that will not."""
        ...


def sufficing(policy: Stragglers, everything: Expect, least: int) -> Expect:
    """Return what suffices by a policy, where an uplink can do nothing with fewer than ``least``.

    A secure sum needs as many as its threshold, an interpolation as many as its degree. All are
    waited for where there are no more than that.
    """
    suffices = policy.expect(everything)
    if suffices.quorum is None and suffices.within is None:
        return suffices
    quorum = max(suffices.quorum or 1, least)
    return suffices._replace(quorum=min(quorum, len(suffices.sources)))
