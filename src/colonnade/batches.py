"""Which rows are trained on in which round: a pure function of the seed.

All organisations must train on the same rows in the same round, and none may have to send the
others a list. The order of an epoch is a counter-based permutation, so every organisation computes
the same batch for any round without having computed those before it.
"""

from __future__ import annotations

from copy import copy
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
        self._order: tuple[int, Rows] = (-1, self._rows)  # of the groups, in an epoch
        self._group = 1  # rows that stand together
        self._groups_in_batch = self.batch_size = min(batch_size, len(rows))
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
        if self._order[0] != epoch:
            groups = -(-len(self._rows) // self._group)
            order = permutation(StreamKey(self._seed, "", "batches", epoch), groups)
            self._order = (epoch, order)
        groups_in_batch = self._groups_in_batch
        chosen = self._order[1][index * groups_in_batch : (index + 1) * groups_in_batch]
        places = (chosen[:, None] * self._group + np.arange(self._group)).reshape(-1)
        rows: Rows = self._rows[places[places < len(self._rows)]]
        return rows

    def in_groups(self, size: int) -> BatchPlan:
        """Return the plan in which rows that stand together are trained on together.

        Each ``size`` consecutive ones of the rows given are a group; groups are shuffled, and a
        batch has as many whole ones as fit into the batch size, or one.

        >>> plan = BatchPlan(np.arange(10), batch_size=5, epochs=1, seed=0).in_groups(2)
        >>> plan.batch_size, plan.rounds, sorted(len(plan.rows(r)) for r in range(plan.rounds))
        (4, 3, [2, 4, 4])
        """
        grouped, groups = copy(self), -(-len(self._rows) // size)
        in_batch = min(max(1, self.batch_size // size), groups)
        grouped._group, grouped._groups_in_batch = size, in_batch
        grouped.batch_size = min(in_batch * size, len(self._rows))
        epochs = self.rounds // self.rounds_per_epoch
        grouped.rounds_per_epoch = -(-groups // in_batch)
        grouped.rounds = epochs * grouped.rounds_per_epoch
        grouped._order = (-1, self._rows)
        return grouped

    @property
    def sizes(self) -> frozenset[int]:
        """How many rows a batch may have.

        >>> sorted(BatchPlan(np.arange(10), batch_size=4, epochs=2, seed=0).sizes)
        [2, 4]
        >>> sorted(BatchPlan(np.arange(9), batch_size=4, epochs=1, seed=0).in_groups(2).sizes)
        [1, 2, 3, 4]
        """
        whole, groups = self._groups_in_batch, -(-len(self._rows) // self._group)
        counts = (
            {whole} if self.rounds < self.rounds_per_epoch else {whole, groups % whole or whole}
        )
        short = groups * self._group - len(self._rows)  # of the group that ends the rows
        return frozenset(count * self._group - less for count in counts for less in {0, short})

    def fewest_rows(self, every: int) -> int:
        """Return how many rows so many rounds train on, at least, or what rounds end training.

        >>> plan = BatchPlan(np.arange(10), batch_size=4, epochs=2, seed=0)
        >>> [plan.fewest_rows(every) for every in (1, 2, 3, 4, 9)]
        [2, 6, 10, 6, 20]
        """
        whole, rest = divmod(self.rounds, every)
        firsts = np.arange(min(whole, self.rounds_per_epoch) + 1)  # others are as one of these
        starts = every * np.append(firsts[firsts < whole], whole if rest else whole - 1)
        ends = np.minimum(starts + every, self.rounds)
        trained = self._trained_before(ends) - self._trained_before(starts)
        short = -len(self._rows) % self._group  # of the group that ends the rows, in any batch
        return int((trained - short * (ends % self.rounds_per_epoch != 0)).min())

    def _trained_before(self, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many rows batches before a round have, those that are whole come first."""
        epochs, begun = np.divmod(rounds, self.rounds_per_epoch)
        in_epoch = np.minimum(begun * self.batch_size, len(self._rows))
        told: NDArray[np.int64] = epochs * len(self._rows) + in_epoch
        return told

    def schedule_due(self, done: int) -> bool:
        """Whether schedulers take a step when ``done`` rounds are done."""
        return self._schedule_every == "round" or done % self.rounds_per_epoch == 0

    @property
    def schedule_steps(self) -> int:
        """How many steps schedulers take in all.

        >>> BatchPlan(np.arange(10), batch_size=4, epochs=2, seed=0).schedule_steps
        2
        """
        every_round = self._schedule_every == "round"
        return self.rounds if every_round else self.rounds // self.rounds_per_epoch


def pieces(rows: Rows, size: int) -> list[Rows]:
    """Cut row numbers into consecutive pieces of at most ``size``, in order.

    >>> [len(piece) for piece in pieces(np.arange(10), 4)]
    [4, 4, 2]
    """
    return [rows[start : start + size] for start in range(0, len(rows), size)]
