"""Which rows are trained on in which round: a pure function of the seed.

All organisations must train on the same rows in the same round, and none may have to send the
others a list. The order of an epoch is a counter-based permutation, so every organisation computes
the same batch for any round without having computed those before it.
"""

from __future__ import annotations

from copy import copy
from typing import Literal

import numpy as np

from colonnade.errors import ConfigurationError
from colonnade.kernels.philox import permutation
from colonnade.links import Rows
from colonnade.streams import StreamKey

__all__ = ["BatchPlan", "pieces"]


class BatchPlan:
    """Shuffled mini-batches, every row once an epoch; the last batch of an epoch may be smaller.

    Parameters
    ----------
    rows
        The row numbers to train on.
    batch_size
        Rows in a batch, at least 1; more than there are rows means full batches.
    epochs
        Passes over the rows.
    seed
        The run's seed.
    schedule_every
        After what learning-rate schedulers take a step: each ``"epoch"``, or each ``"round"``.

    Raises
    ------
    ConfigurationError
        If there is no row to train on, or a number is below 1.

    Examples
    --------
    >>> plan = BatchPlan(np.arange(10), batch_size=4, epochs=2, seed=0)
    >>> plan.rounds, [len(plan.rows(r)) for r in range(3)]
    (6, [4, 4, 2])
    >>> sorted(int(i) for r in range(3, 6) for i in plan.rows(r)) == list(range(10))
    True
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        epochs: int,
        seed: int,
        schedule_every: Literal["epoch", "round"] = "epoch",
    ) -> None:
        if len(rows) == 0:
            raise ConfigurationError("there is no row to train on")
        if batch_size < 1:
            raise ConfigurationError(f"batch_size must be at least 1, not {batch_size}")
        if epochs < 1:
            raise ConfigurationError(f"epochs must be at least 1, not {epochs}")
        self._rows = np.ascontiguousarray(rows, dtype=np.int64)
        self._seed = seed
        self._schedule_every = schedule_every
        self._shuffled: tuple[int, Rows] = (-1, self._rows)
        self.batch_size = min(batch_size, len(rows))
        self.rounds_per_epoch = -(-len(rows) // batch_size)
        self.rounds = epochs * self.rounds_per_epoch

    def until(self, rounds: int) -> BatchPlan:
        """Return the plan that ends after so many rounds, if it does not end before.

        >>> plan = BatchPlan(np.arange(10), batch_size=4, epochs=2, seed=0)
        >>> plan.until(4).rounds, plan.until(99).rounds
        (4, 6)
        """
        shorter = copy(self)
        shorter.rounds = min(rounds, self.rounds)
        return shorter

    def rows(self, round: int) -> Rows:
        """Return the row numbers of the batch of ``round``."""
        epoch, index = divmod(round, self.rounds_per_epoch)
        if self._shuffled[0] != epoch:
            order = permutation(StreamKey(self._seed, "", "batches", epoch), len(self._rows))
            self._shuffled = (epoch, self._rows[order])
        return self._shuffled[1][index * self.batch_size : (index + 1) * self.batch_size]

    def schedule_due(self, done: int) -> bool:
        """Whether schedulers take a step when ``done`` rounds are done."""
        return self._schedule_every == "round" or done % self.rounds_per_epoch == 0


def pieces(rows: Rows, size: int) -> list[Rows]:
    """Cut row numbers into consecutive pieces of at most ``size``, in order.

    >>> [len(piece) for piece in pieces(np.arange(10), 4)]
    [4, 4, 2]
    """
    return [rows[start : start + size] for start in range(0, len(rows), size)]
