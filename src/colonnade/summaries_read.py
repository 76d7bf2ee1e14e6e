"""What the account of a run must hold that somebody sends, before reports are made of it.

A digest says that a file is what its writer meant, and not who wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import polars as pl

__all__ = ["check_history", "check_summary"]


class _Activity(msgspec.Struct):
    """What an organisation did with its time."""

    organisation: str
    activity: str
    seconds: float


class _Summary(msgspec.Struct):
    """What reports read of a summary; what older versions had not may be missing."""

    method: str
    metric: str
    greater_is_better: bool | int
    completed: bool
    rounds: int
    parties: list[str]
    label_holder: str
    best: float | None
    bytes_up: int
    bytes_down: int
    bytes_evaluation: int
    privacy: dict[str, str]
    warnings: list[str]
    best_round: int | None = None
    bytes_between: int = 0
    bytes_setup: int = 0
    bytes_lost: int = 0
    bytes_discarded: int = 0
    seconds_virtual: float | None = None
    activities: list[_Activity] = []
    local_updates: dict[str, int] = {}
    held_back: dict[str, float | None] = {}
    privacy_loss: dict[str, Any] | None = None
    privacy_loss_of_labels: dict[str, Any] | None = None


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
    """Raise ``ValueError`` unless a history has rounds, epochs and, but for who reported, numbers.

    >>> check_history(pl.DataFrame({"round": [1], "epoch": [0.5], "train_loss": ["low"]}))
    Traceback (most recent call last):
    ValueError: its column 'train_loss' holds String, not numbers
    """
    if missing := [name for name in ("round", "epoch") if name not in history.columns]:
        raise ValueError(f"it has no column {missing[0]}")
    for name, kind in history.drop("organisation", strict=False).schema.items():
        if not kind.is_numeric() and history[name].null_count() < len(history):
            raise ValueError(f"its column {name!r} holds {kind}, not numbers")
