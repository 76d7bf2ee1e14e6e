"""Local updates: how many steps an organisation takes for one exchange.

An exchange costs the wire; a step costs only computing. Between two exchanges an organisation may
go on with what it has: its own fresh embedding, and what it last heard of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from colonnade.errors import ConfigurationError
from colonnade.kernels.philox import permutation
from colonnade.streams import StreamKey

__all__ = ["Consecutive", "LocalUpdates", "Replayed"]


@runtime_checkable
class LocalUpdates(Protocol):
    """Which steps follow the exchange of a round; a frozen value."""

    @property
    def repeats(self) -> int:
        """Steps that every organisation takes on the batch of the round beyond the exact one."""
        ...

    @property
    def memory(self) -> int:
        """How many batches, this round's among them, the label holder keeps for later rounds."""
        ...

    def drawn(self, batches: int, key: StreamKey) -> Sequence[int]:
        """Return the batches that the label holder goes on with, one for each step of its own.

        They are numbered from 0, the oldest that it has, to ``batches`` - 1, that of the round.
        """
        ...


@dataclass(frozen=True)
class Consecutive:
    """Q steps on the batch of the round, the exact one included, all before the next exchange.

    FedBCD (Liu et al., IEEE TSP 2022) and C-VFL's Algorithm 1. One step is none beyond the exact.

    Parameters
    ----------
    steps
        Q, at least 1.

    Raises
    ------
    ConfigurationError
        If there is no step.

    Examples
    --------
    >>> Consecutive(steps=5)
    Consecutive(steps=5)
    """

    steps: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            raise ConfigurationError(f"local steps are 1 or more a round, not {self.steps!r}")

    @property
    def repeats(self) -> int:
        """All steps but the exact one."""
        return self.steps - 1

    @property
    def memory(self) -> int:
        """None: each round has a batch of its own."""
        return 0

    def drawn(self, batches: int, key: StreamKey) -> Sequence[int]:
        """Return the batch of the round, again and again."""
        return [batches - 1] * self.repeats


@dataclass(frozen=True)
class Replayed:
    """One exact step for everybody, and more for the label holder, on embeddings it has already.

    After the step of a round it takes ``steps`` more of its own models, on batches that it draws
    from the last ``batches``, with their embeddings as received. Nobody sends or waits for it.

    Parameters
    ----------
    steps
        How many more steps a round.
    batches
        How many batches it remembers.

    Raises
    ------
    ConfigurationError
        If one of them is below 1.

    Examples
    --------
    >>> Replayed(steps=8).batches
    64
    """

    steps: int = 8
    batches: int = 64

    def __post_init__(self) -> None:
        for name in ("steps", "batches"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} to replay are 1 or more, not {value!r}")

    @property
    def repeats(self) -> int:
        """None: only the label holder goes on."""
        return 0

    @property
    def memory(self) -> int:
        """So many batches."""
        return self.batches

    def drawn(self, batches: int, key: StreamKey) -> Sequence[int]:
        """Return batches in an order drawn from ``key``, each as often as the others, or almost."""
        order = permutation(key, batches)
        return [int(order[step % batches]) for step in range(self.steps)]
