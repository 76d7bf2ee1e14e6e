"""What the account of a run must hold that somebody sends, before reports are made of it.

A digest says that a file is what its writer meant, and not who wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import polars as pl

from colonnade.local_reports import local_columns
from colonnade.metrics import LARGEST

__all__ = ["check_history", "check_others_history", "check_summary"]


_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]  # neither nan nor inf
_Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]


class _Activity(msgspec.Struct):
    """What an organisation did with its time."""

    organisation: str
    purpose: str
    activity: str
    count: _Count
    seconds: _Amount
    seconds_cpu: _Amount


class _Clock(msgspec.Struct):
    """How seconds came about."""

    network: str
    compute: str


class _People(msgspec.Struct):
    """Who was left out."""

    left_out: _Count
    absent: dict[str, _Count]


class _Loss(msgspec.Struct):
    """An account of privacy, whose further epsilons are up to who keeps it."""

    epsilon: _Amount | None
    delta: _Amount
    budget: _Amount | None
    uses_of_a_row: _Count
    epsilon_with_noise: _Amount | None = None
    epsilon_towards_a_party: _Amount | None = None
    epsilon_of_a_whole_sample: _Amount | None = None


class _Summary(msgspec.Struct):
    """What reports read of a summary; what older versions had not may be missing."""

    method: str
    metric: str
    greater_is_better: bool | int
    completed: bool
    rounds: _Count
    parties: list[str]
    label_holder: str
    best: _Number | None
    final: _Number | None
    rows_train: _Count
    rows_validation: _Count
    rows_test: _Count
    bytes_up: _Count
    bytes_down: _Count
    bytes_evaluation: _Count
    bytes_framed: _Count
    seconds_training: _Amount
    seconds_virtual: _Amount | None
    clock: _Clock
    driver: str
    seed: int
    privacy: dict[str, str]
    warnings: list[str]
    best_round: _Count | None = None
    kept_round: _Count | None = None
    test: dict[str, _Number | None] | None = None
    stopped_early: bool = False
    people: _People | None = None
    classes: list[Any] | None = None
    bytes_between: _Count = 0
    bytes_setup: _Count = 0
    bytes_lost: _Count = 0
    bytes_discarded: _Count = 0
    messages_lost: _Count = 0
    messages_discarded: _Count = 0
    seconds_evaluation: _Amount = 0.0
    activities: list[_Activity] = []
    local_updates: dict[str, _Count] = {}
    held_back: dict[str, _Amount] = {}
    rounding_error: dict[str, _Amount] = {}
    privacy_loss: _Loss | None = None
    privacy_loss_of_labels: _Loss | None = None
    network: dict[str, str] | None = None
    versions: dict[str, str] = {}
    rows_digest: str | None = None


def check_summary(summary: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` where a summary lacks what reports read, or has it of another kind.

    >>> check_summary({"method": "svfl"})
    Traceback (most recent call last):
    ValueError: Object missing required field `metric`
    """
    try:
        msgspec.convert(dict(summary), _Summary)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def check_history(history: pl.DataFrame) -> None:
    """Raise ``ValueError`` unless a label holder's reports have what is read of each.

    A run that was interrupted before it was evaluated has none.

    >>> check_history(pl.DataFrame({"round": [1], "epoch": [0.5], "train_loss": ["low"]}))
    Traceback (most recent call last):
    ValueError: its column 'train_loss' holds String, not numbers
    """
    _check_numbers(history)
    if len(history):
        between = {"bytes_between"} & set(history.columns)
        for name in ("round", "bytes_up", "bytes_down", *between):
            _check_filled(history, name)
            if not history[name].dtype.is_integer():
                kind = history[name].dtype
                raise ValueError(f"its column {name!r} holds {kind}, no whole numbers")
        _check_filled(history, "epoch")
    if local_columns(history):
        _check_filled(history, "organisation")


def check_others_history(history: pl.DataFrame) -> None:
    """Raise ``ValueError`` unless reports of other organisations say whose they are.

    Of numbers is what they tell of local steps; else one name may be of several kinds.

    >>> check_others_history(pl.DataFrame({"round": [1], "local_steps": [5]}))
    Traceback (most recent call last):
    ValueError: it has no column organisation
    """
    _check_numbers(history.select(pl.col("^(epoch|local_.*)$")))
    _check_filled(history, "organisation")


def _check_filled(history: pl.DataFrame, name: str) -> None:
    if name not in history.columns:
        raise ValueError(f"it has no column {name}")
    if history[name].null_count():
        raise ValueError(f"its column {name!r} has gaps")


def _check_numbers(history: pl.DataFrame) -> None:
    for name, kind in history.drop("organisation", strict=False).schema.items():
        if not kind.is_numeric():
            raise ValueError(f"its column {name!r} holds {kind}, not numbers")
