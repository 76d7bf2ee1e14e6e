"""On which rows a model is evaluated, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from colonnade.effects import Purpose
from colonnade.links import Rows
from colonnade.training import EarlyStopping
from colonnade.uplinks.contract import Moment

__all__ = ["EvaluationPlan", "HeldOut"]


@dataclass(frozen=True)
class HeldOut:
    """Rows that are evaluated on and not trained on.

    Parameters
    ----------
    name
        What their metrics are called after: ``validation`` or ``test``.
    pieces
        Their row numbers, in pieces that travel as one message each; none for no evaluation.
    first_part
        The number of the first piece, which tells the messages of two evaluations of one round
        apart.
    """

    name: str
    pieces: Sequence[Rows] = ()
    first_part: int = 0

    def __bool__(self) -> bool:
        return bool(self.pieces)

    @property
    def rows(self) -> Rows:
        """All row numbers."""
        return np.concatenate(self.pieces)

    @property
    def row_sets(self) -> tuple[Rows, ...]:
        """All row numbers, as one set."""
        return (self.rows,)

    def rows_at(self, moment: Moment) -> Rows:
        """Return the piece that travels at a moment."""
        return self.pieces[moment.part - self.first_part]

    def moments(self, round: int, purpose: Purpose) -> list[tuple[Rows, Moment]]:
        """Return each piece with its place in the protocol."""
        return [
            (rows, Moment(round, purpose, part))
            for part, rows in enumerate(self.pieces, start=self.first_part)
        ]


@dataclass(frozen=True)
class EvaluationPlan:
    """On which rows the model is evaluated, after which rounds, and what follows from it.

    Parameters
    ----------
    watched
        The rows that are evaluated on as training goes.
    final
        The rows that the finished model is evaluated on, once.
    every
        Rounds between evaluations; the last round is always followed by one.
    rounds
        Rounds of the whole training.
    stopping
        Whether the evaluations may end training and decide which model counts.
    """

    watched: HeldOut
    final: HeldOut = field(default_factory=lambda: HeldOut("test"))
    every: int = 1
    rounds: int = 1
    stopping: EarlyStopping | None = None

    def alone(self) -> HeldOut | None:
        """Return the rows of which one travels alone; None where none does."""
        for held_out in (self.watched, self.final):
            if any(len(piece) == 1 for piece in held_out.pieces):
                return held_out
        return None

    def due(self, done: int) -> bool:
        """Whether the model is evaluated when ``done`` rounds are done."""
        return bool(self.watched) and (done % self.every == 0 or done == self.rounds)
