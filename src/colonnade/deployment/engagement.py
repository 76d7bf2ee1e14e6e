"""What an organisation does in a job, as far as its ``Guest`` must know."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from colonnade.checkpoints import Checkpoint, CheckpointStore
from colonnade.deployment import meeting
from colonnade.deployment.leaving import Leaving
from colonnade.drivers import RunRecord
from colonnade.effects import Role
from colonnade.flows import Limits
from colonnade.ledger import Ledger

__all__ = ["Engagement", "Folders"]


@dataclass(frozen=True)
class Folders:
    """Where a role keeps what outlives its process.

    Parameters
    ----------
    store
        Its own checkpoints; None where it keeps none, and begins anew when it was stopped.
    held
        Those that it could go on from, by their rounds.
    journals, departures
        See ``Assignment``.
    has_begun
        Whether the run had begun here before.
    forgets
        Whether what it has sent is on disk alone, among the departures: there is no end to it.
    """

    store: CheckpointStore | None = None
    held: Mapping[int, Checkpoint] = field(default_factory=dict)
    journals: Path | None = None
    departures: Path | None = None
    has_begun: bool = False
    forgets: bool = False


class Engagement(Protocol):
    """What an organisation does in a job; it is asked in the order of its methods."""

    def brings(self) -> meeting.Brings:
        """Return what all are told of what it brings."""
        ...

    def top(self, everybody: meeting.Everybody) -> meeting.Top:
        """Return what the label holder alone can say, when it knows of all."""
        ...

    def agree(self, everybody: meeting.Everybody) -> str:
        """Agree with all; return the digest of what was agreed on."""
        ...

    @property
    def leaving(self) -> Leaving:
        """What leaves the organisation by what was agreed on."""
        ...

    def leaving_again(self, sent: Ledger) -> Leaving:
        """Return the same where this has been sent before, some of it in vain, before a crash."""
        ...

    @property
    def every(self) -> int:
        """After how many rounds there are checkpoints; 0 for none."""
        ...

    @property
    def limits(self) -> Limits:
        """What is accepted of the others."""
        ...

    def folders(self) -> AbstractContextManager[Folders]:
        """Keep others out of its folders while the role plays; return them."""
        ...

    def cast(self) -> Role:
        """Return the role."""
        ...

    @property
    def noted_in(self) -> Path | None:
        """The folder where what a role sends that keeps no checkpoints is noted, once it is cast.

        As each message leaves, and in ``ledger.csv`` when it has ended, however that was.
        """
        ...

    def conclude(self, role: Role, ledger: Ledger, record: RunRecord | None) -> None:
        """Keep what came of it: the role has played, and this is what it has sent."""
        ...
