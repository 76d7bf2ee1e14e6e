"""How long and in which steps to train, and who watches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from colonnade import defaults
from colonnade.annotated import check_fields, check_kind, is_number
from colonnade.errors import ConfigurationError
from colonnade.streams import is_seed
from colonnade.telling import shown

__all__ = [
    "MOST_THREADS",
    "EarlyStopping",
    "Training",
    "Watcher",
    "check_seed",
    "checked_training",
]

MOST_THREADS = 1024
"""Of a torch operation: so many that a system refuses them end the process without a word."""

Values = Mapping[str, float | int | str]


@dataclass(frozen=True)
class EarlyStopping:
    """End training when the model no longer improves, and go back to the best one.

    Parameters
    ----------
    patience
        Evaluations without improvement after which training ends; None never ends it, but the best
        model is still the one that counts.
    min_delta
        By how much the value must improve to count as better, in its own unit.
    by
        What says how good a model is on the validation rows: ``"loss"``, what training minimises,
        or ``"metric"``, the deciding metric. The loss is smooth, so few rows tell more by it.

    Raises
    ------
    ConfigurationError
        If ``patience`` is no whole number from 1 on, ``min_delta`` negative, or ``by`` neither of
        the two.

    Examples
    --------
    >>> EarlyStopping(patience=3)
    EarlyStopping(patience=3, min_delta=0.0, by='loss')
    """

    patience: int | None = defaults.PATIENCE
    min_delta: float = 0.0
    by: Literal["loss", "metric"] = "loss"

    def __post_init__(self) -> None:
        check_fields(EarlyStopping, self)
        if self.patience is not None and self.patience < 1:
            raise ConfigurationError(
                f"patience must be 1 evaluation or more, a whole number, not {self.patience!r}"
            )
        if self.patience is not None:
            _check_below("patience", self.patience)
        if not (is_number(self.min_delta) and 0 <= self.min_delta < math.inf):
            raise ConfigurationError(f"min_delta must be 0 or more, not {self.min_delta!r}")


@dataclass(frozen=True)
class Training:
    """How long and in which steps to train.

    Parameters
    ----------
    epochs
        Passes over the training rows; ``"auto"`` for about 3000 rounds, see ``defaults.epochs``.
    batch_size
        Rows in a batch; ``"auto"`` by the number of training rows, see ``defaults.batch_size``.
    seed
        Decides batches, dropout, dither: everything random that is not secret.
    threads
        Threads within a torch operation, 1024 at most. The last bits of a result depend on it.
    evaluate_every
        Rounds between evaluations on held-out rows; an epoch by default.
    evaluation_rows
        Held-out rows that travel in one message.
    checkpoint_every
        Rounds between checkpoints; an epoch by default. Kept only when the run has a folder.
    schedule_every
        When learning-rate schedulers take a step: each ``"epoch"`` or each ``"round"``.
    early_stopping
        Whether to end when the model no longer improves, and to go back to the best one; needs
        validation rows. None trains all epochs and keeps the last model.
    secrets
        Where keys, masks and private noise come from: each organisation's own source at its
        ``"system"``, or, in what is thereby declared a simulation, the run's ``"seed"``: it repeats
        to the bit, and nothing is secret from who knows the seed.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Examples
    --------
    >>> Training(epochs=50, early_stopping=EarlyStopping(patience=3)).batch_size
    128
    """

    epochs: int | Literal["auto"] = 1
    batch_size: int | Literal["auto"] = 128
    seed: int = 0
    threads: int = 1
    evaluate_every: int | None = None
    evaluation_rows: int = 1024
    checkpoint_every: int | None = None
    schedule_every: Literal["epoch", "round"] = "epoch"
    early_stopping: EarlyStopping | None = None
    secrets: Literal["system", "seed"] = "system"

    def __post_init__(self) -> None:
        check_fields(Training, self)
        if self.threads > MOST_THREADS:
            raise ConfigurationError(
                f"threads are {MOST_THREADS} at most, not {shown(self.threads)}"
            )
        for name in _COUNTS:
            value = getattr(self, name)
            if value not in ("auto", None):  # where it may be
                _check_count(name, value)
        check_seed(self.seed)

    def batch_size_for(self, rows: int) -> int:
        """Return how many of so many training rows make a batch."""
        return defaults.batch_size(rows) if self.batch_size == "auto" else self.batch_size

    def epochs_for(self, rows: int) -> int:
        """Return how often so many training rows are passed over, at most."""
        if self.epochs != "auto":
            return self.epochs
        return defaults.epochs(-(-rows // self.batch_size_for(rows)))

    def for_rows(self, rows: int) -> Training:
        """Return this training of so many rows, with numbers in place of ``"auto"``.

        >>> training = Training(epochs="auto", batch_size="auto").for_rows(1000)
        >>> training.epochs, training.batch_size
        (94, 32)
        """
        return replace(self, epochs=self.epochs_for(rows), batch_size=self.batch_size_for(rows))


def checked_training(value: object) -> Training:
    """Return a training as it is, and the usual one in place of None.

    Raises
    ------
    ConfigurationError
        If it is none, such as a number of epochs.

    Examples
    --------
    >>> checked_training(5)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: training is Training(...) or None, not 5
    """
    check_kind("training", value, Training | None)
    return value if isinstance(value, Training) else Training()


def check_seed(seed: int) -> None:
    """Raise ``ConfigurationError`` unless streams of random numbers can have this seed.

    Examples
    --------
    >>> check_seed(2**63)
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the seed must be a whole number from -2^63 to 2^63 - 1, \
not 9223372036854775808
    """
    if not is_seed(seed):
        raise ConfigurationError(
            f"the seed must be a whole number from -2^63 to 2^63 - 1, not {shown(seed)}"
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


_COUNTS = (
    *("epochs", "batch_size", "threads"),
    *("evaluate_every", "evaluation_rows", "checkpoint_every"),
)
_BEYOND = 2**63


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise ConfigurationError(f"{name} must be a whole number, 1 or more, not {shown(value)}")
    _check_below(name, value)


def _check_below(name: str, value: int) -> None:
    if value >= _BEYOND:
        raise ConfigurationError(f"{name} must be a whole number below 2^63, not {shown(value)}")
