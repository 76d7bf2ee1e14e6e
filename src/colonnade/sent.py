"""What training had sent: up to the label holder, down from it, and between other organisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

__all__ = ["SENT", "bytes_between", "bytes_sent", "sent_until"]

SENT = ("bytes_up", "bytes_down", "bytes_between")
"""Bytes of bodies by direction, as summaries and histories name them."""


def bytes_between(summary: Mapping[str, Any]) -> int:
    """Return what parties had sent each other; a summary of an older version does not tell."""
    return int(summary.get("bytes_between", 0))


def bytes_sent(summary: Mapping[str, Any]) -> int:
    """Return the bytes of all bodies that were sent for training, from a summary.

    >>> bytes_sent({"bytes_up": 100, "bytes_down": 50, "bytes_between": 7})
    157
    """
    return int(sum(summary.get(way, 0) for way in SENT))


def sent_until(history: pl.DataFrame) -> pl.Series | None:
    """Return the bytes of all bodies that training had sent until each row of a history.

    It is None where the history does not tell.

    >>> sent_until(pl.DataFrame({"bytes_up": [1, 2], "bytes_down": [3, 4]})).to_list()
    [4, 6]
    """
    there = [way for way in SENT if way in history.columns]
    return history.select(pl.sum_horizontal(there)).to_series() if there else None
