"""Local updates: how many steps an organisation takes for one exchange.

An exchange costs the wire; a step costs only computing. Between two exchanges an organisation may
go on with what it has: its own fresh embedding, and what it last heard of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ConfigurationError
from colonnade.kernels.philox import permutation
from colonnade.streams import StreamKey

__all__ = ["Consecutive", "LocalUpdates", "Places", "Proximal", "Replayed"]

Places = NDArray[np.int64]
"""Places of rows within a batch, from 0."""


@runtime_checkable
class LocalUpdates(Protocol):
    """Which steps follow the exchange of a round; a frozen value."""

    @property
    def repeats(self) -> int:
        """Steps that every organisation takes on the batch of the round beyond the exact one."""
        ...

    @property
    def pull(self) -> float:
        """How strongly a party's further steps hold embeddings where the exact step found them."""
        ...

    def parts(self, rows: int, key: StreamKey) -> Sequence[Places]:
        """Return on which of a batch's ``rows`` rows a party takes each of its further steps."""
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
    def pull(self) -> float:
        """None: the derivative is taken as it came."""
        return 0.0

    def parts(self, rows: int, key: StreamKey) -> Sequence[Places]:
        """Return the whole batch, again and again."""
        return [np.arange(rows)] * self.repeats

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
    def pull(self) -> float:
        """None: no party goes on."""
        return 0.0

    def parts(self, rows: int, key: StreamKey) -> Sequence[Places]:
        """Return nothing: no party goes on."""
        return []

    @property
    def memory(self) -> int:
        """So many batches."""
        return self.batches

    def drawn(self, batches: int, key: StreamKey) -> Sequence[int]:
        """Return batches in an order drawn from ``key``, each as often as the others, or almost."""
        order = permutation(key, batches)
        return [int(order[step % batches]) for step in range(self.steps)]


@dataclass(frozen=True)
class Proximal:
    r"""Many small steps of each party for one derivative, held near where it was taken.

    A derivative says where to go from z_i^0, the embeddings that were sent; a repeated one
    (``Consecutive``) is trusted however far they have gone since. Here a party takes, after the
    exact step, ``passes`` times one step for each part S of ``rows`` rows of the batch, down the
    gradient of

    .. math:: \frac{1}{|S|} \sum_{i \in S} \left( \langle B d_i, z_i \rangle
        + \frac{\lambda}{2} \lVert z_i - z_i^0 \rVert^2 \right),

    with B d_i the derivative of row i's own loss. So few large batches train like many small ones,
    for the same bytes and fewer messages.

    Parameters
    ----------
    passes
        Times that a party goes through the batch after the exact step.
    rows
        Rows of each of its steps.
    pull
        lambda, above 0: about the curvature of a row's loss in its embedding.
    label_holder
        What the label holder goes on with meanwhile, by default its last batches.

    Raises
    ------
    ConfigurationError
        If a value is out of range, or the label holder's steps are not its alone.

    Examples
    --------
    >>> policy = Proximal(passes=2, rows=32)
    >>> len(policy.parts(256, StreamKey(0, "bank", "example", 0)))
    16
    """

    passes: int = 2
    rows: int = 32
    pull: float = 0.03
    label_holder: LocalUpdates = field(default_factory=Replayed)

    def __post_init__(self) -> None:
        for name in ("passes", "rows"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} of proximal steps are 1 or more, not {value!r}")
        if not 0 < self.pull < math.inf:
            raise ConfigurationError(
                f"the pull of proximal steps is above 0, not {self.pull!r}: without any, take "
                "Consecutive(...)"
            )
        if self.label_holder.repeats or self.label_holder.pull:
            raise ConfigurationError(
                f"beside proximal steps the label holder goes on alone, by Replayed(...), or not "
                f"at all, by Consecutive(): not by {self.label_holder!r}"
            )

    @property
    def repeats(self) -> int:
        """None on the whole batch."""
        return 0

    def parts(self, rows: int, key: StreamKey) -> Sequence[Places]:
        """Return the batch in parts, in an order drawn from ``key``, again in each pass."""
        parts: list[Places] = []
        for number in range(self.passes):
            order = permutation(replace(key, part=number), rows)
            parts += [order[start : start + self.rows] for start in range(0, rows, self.rows)]
        return parts

    @property
    def memory(self) -> int:
        """As the label holder's."""
        return self.label_holder.memory

    def drawn(self, batches: int, key: StreamKey) -> Sequence[int]:
        """As the label holder's."""
        return self.label_holder.drawn(batches, key)
