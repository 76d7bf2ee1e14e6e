"""What a policy of local updates is: which steps organisations take without an exchange.

An exchange costs the wire; a step costs only computing. Between two exchanges an organisation may
go on with what it has. What that is depends on the exchange, so a policy says which kinds of steps
it has, an exchange which it takes, and what it does not take is refused. Steps that repeat the one
of the round are a number. The others come from two halves, which a policy makes for each run: a
party's goes on along derivatives that the party was sent, the label holder's with embeddings that
it was sent. A half is handed each batch after its exact step (``add``), may remember some, and says
which steps to take now (``steps``); the role takes them, all at once or as many as there is time
for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from colonnade.links import Rows
from colonnade.streams import StreamKey
from colonnade.uplinks import Collected

__all__ = [
    "HolderBatch",
    "HolderStep",
    "HolderSteps",
    "LocalStep",
    "LocalUpdates",
    "PartyBatch",
    "PartyStep",
    "PartySteps",
]


class LocalStep(Enum):
    """Kinds of local steps, by what an organisation goes on with."""

    REPEATED = "every organisation repeats its step on the batch of the round"
    STALE_DERIVATIVES = "a party goes on along derivatives that it was sent"
    STALE_EMBEDDINGS = "the label holder goes on with embeddings that it was sent"


@dataclass(frozen=True, eq=False)
class PartyBatch:
    """What a party has of a batch whose exact step it took.

    Parameters
    ----------
    round
        Of the exact step.
    rows
        Row numbers.
    sent
        The embeddings that it sent, before any codec, ``[B, E]``.
    derivative
        The derivative there, ``[B, E]``.
    """

    round: int
    rows: Rows
    sent: Tensor
    derivative: Tensor


@dataclass(frozen=True, eq=False)
class PartyStep:
    """A step of a party.

    Parameters
    ----------
    rows
        The rows that it embeds anew.
    direction
        From these embeddings to what it backpropagates in place of a derivative there.
    """

    rows: Rows
    direction: Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class HolderBatch:
    """What the label holder has of a batch whose exact step it took.

    Parameters
    ----------
    round
        Of the exact step.
    rows
        Row numbers.
    collected
        What the parties sent of them.
    derivatives
        Of each party that was owed one, the exact derivative, ``[B, E]``.
    """

    round: int
    rows: Rows
    collected: Collected
    derivatives: Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class HolderStep:
    """A step of the label holder.

    Parameters
    ----------
    rows
        The rows of which it takes its own part anew.
    collected
        The parties' part.
    weights
        From each party's derivative of these rows now to what each row counts in the loss, ``[B]``;
        None for all alike, which spares computing the derivatives.
    """

    rows: Rows
    collected: Collected
    weights: Callable[[Mapping[str, Tensor]], Tensor] | None = None


class _Half(Protocol):
    """What both halves have."""

    @property
    def memory(self) -> int:
        """How many batches it remembers at most from one round to the next."""
        return 0

    @property
    def held_back(self) -> bool:
        """Whether a batch is left that could serve for a step, were there no bound on steps."""
        return False

    def report(self) -> Mapping[str, float]:
        """Return what is to be known of the steps since the last report, for the history.

        How many there were is known without. What is called ``bubbles`` here is ``local_bubbles``
        there. Over a run whole numbers are added, as counts; of others the mean is taken.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered between rounds."""
        return {}


class PartySteps(_Half, Protocol):
    """A party's half: its steps along derivatives.

    One that inherits from this class takes none and remembers nothing.
    """

    def add(self, batch: PartyBatch) -> None:
        """Take note of a batch whose exact step was taken."""
        return

    def steps(self, key: StreamKey) -> Iterable[PartyStep]:
        """Return the steps to take now; each is taken before the next is asked for.

        Asked again before the next batch is added, it returns those that are left. ``key`` is for
        what is drawn.
        """
        return ()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        return


class HolderSteps(_Half, Protocol):
    """The label holder's half: its steps on embeddings.

    One that inherits from this class takes none and remembers nothing.
    """

    @property
    def keeps_derivatives(self) -> bool:
        """Whether it remembers the derivatives of a batch beside what the parties sent."""
        return False

    def add(self, batch: HolderBatch) -> None:
        """Take note of a batch whose exact step was taken."""
        return

    def steps(self, key: StreamKey) -> Iterable[HolderStep]:
        """Return the steps to take now; each is taken before the next is asked for.

        Asked again before the next batch is added, it returns those that are left. ``key`` is for
        what is drawn.
        """
        return ()

    def load_state_dict(
        self, state: Mapping[str, Any], recalled: Callable[[Mapping[str, Any]], Collected]
    ) -> None:
        """Restore what ``state_dict`` returned.

        ``recalled`` makes a ``Collected`` of its ``state_dict``.
        """
        return


@runtime_checkable
class LocalUpdates(Protocol):
    """Which steps follow the exchange of a round; a frozen value.

    One that inherits from this class answers for each kind of step that it has none.
    """

    @property
    @abstractmethod
    def kinds(self) -> frozenset[LocalStep]:
        """The kinds of steps that it has: of each a step or more, of others none."""
        ...

    @property
    def repeats(self) -> int:
        """Of ``REPEATED`` steps, how many follow the exact one."""
        return 0

    def least_rows(self, batch: int) -> int:
        """Return the rows of the smallest step of a party that follows a batch of so many.

        What takes steps on parts of a batch says so here; ``colonnade.testing.methods`` compares it
        with the steps that are taken.
        """
        return batch

    def party_steps(self) -> PartySteps:
        """Make a party's half, whose steps are along ``STALE_DERIVATIVES``."""
        return _NoPartySteps()

    def holder_steps(self) -> HolderSteps:
        """Make the label holder's half, whose steps are on ``STALE_EMBEDDINGS``."""
        return _NoHolderSteps()


class _NoPartySteps(PartySteps):
    pass


class _NoHolderSteps(HolderSteps):
    pass
