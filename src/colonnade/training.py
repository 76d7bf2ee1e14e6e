"""How long and in which steps to train, and who watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from colonnade.drivers.account import Values
from colonnade.errors import ConfigurationError
from colonnade.roles import EarlyStopping

__all__ = ["Training", "Watcher"]


@dataclass(frozen=True)
class Training:
    """How long and in which steps to train.

    Parameters
    ----------
    epochs
        Passes over the training rows.
    batch_size
        Rows in a batch.
    seed
        Decides batches, dropout, dither: everything random that is not secret.
    threads
        Threads within a torch operation. The last bits of a result depend on it.
    evaluate_every
        Rounds between evaluations on held-out rows; an epoch by default.
    evaluation_rows
        Held-out rows that travel in one message.
    checkpoint_every
        Rounds between checkpoints; an epoch by default. Kept only when the run has a folder.
    schedule_every
        When learning-rate schedulers take a step: each ``"epoch"`` or each ``"round"``.
    early_stopping
        Whether to end when the first metric no longer improves, and to go back to the best model;
        needs validation rows. None trains all epochs and keeps the last model.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Examples
    --------
    >>> Training(epochs=50, early_stopping=EarlyStopping(patience=3)).batch_size
    128
    """

    epochs: int = 1
    batch_size: int = 128
    seed: int = 0
    threads: int = 1
    evaluate_every: int | None = None
    evaluation_rows: int = 1024
    checkpoint_every: int | None = None
    schedule_every: Literal["epoch", "round"] = "epoch"
    early_stopping: EarlyStopping | None = None

    def __post_init__(self) -> None:
        lowest = {"epochs": 1, "batch_size": 1, "threads": 1, "evaluation_rows": 1}
        lowest |= {"evaluate_every": 1, "checkpoint_every": 1}
        for name, least in lowest.items():
            value = getattr(self, name)
            optional = name in ("evaluate_every", "checkpoint_every")
            if not _whole(value, least, 2**63) and not (optional and value is None):
                raise ConfigurationError(
                    f"training.{name} must be a whole number, {least} or more, not {value!r}"
                )
        if self.schedule_every not in ("epoch", "round"):
            raise ConfigurationError(
                f"training.schedule_every is epoch or round, not {self.schedule_every!r}"
            )
        if not _whole(self.seed, -(2**63), 2**63):
            raise ConfigurationError(
                f"training.seed must be a whole number of 64 bits, not {self.seed!r}"
            )


@dataclass(frozen=True)
class Watcher:
    """Who is told how a run goes, and may end it.

    Parameters
    ----------
    on_begin
        Called with the first and the last round before the roles start.
    on_round
        Called with a role's name whenever it enters a round, the round, and the bytes of all bodies
        that the role has sent until then.
    on_report
        Called with the values of each evaluation.
    interrupted
        Asked between rounds; once true, the run stops at the next boundary and can be resumed.
    """

    on_begin: Callable[[int, int], None] = lambda first, last: None
    on_round: Callable[[str, int, int], None] = lambda role, round, sent: None
    on_report: Callable[[Values], None] = lambda values: None
    interrupted: Callable[[], bool] = lambda: False


def _whole(value: object, least: int, beyond: int) -> bool:
    return isinstance(value, int) and least <= value < beyond
