"""A history's columns, a ledger's purposes, and who was left out, as words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from colonnade.ledger import Ledger

__all__ = ["left_out", "purposes_told", "words"]


def words(column: str) -> str:
    """Return a column's name as words.

    >>> words("validation_log_loss"), words("test_auc"), words("test_top_5_accuracy")
    ('validation log-loss', 'test AUC', 'test top-5 accuracy')
    """
    text = column.replace("log_loss", "log-loss").replace("_", " ").replace("top 5", "top-5")
    capitals = {"auc": "AUC", "rmse": "RMSE", "f1": "F1"}
    return " ".join(capitals.get(word, word) for word in text.split())


def purposes_told(ledger: Ledger) -> pl.DataFrame:
    """Return a ledger's frame in which the purpose also says what was lost to a crash."""
    told = pl.col("purpose") + pl.when("lost").then(pl.lit(", lost")).otherwise(pl.lit(""))
    return ledger.frame().with_columns(purpose=told)


def left_out(summary: Mapping[str, Any]) -> str | None:
    """Return how many people with a label took no part for want of a row; None where all did.

    >>> people = {"left_out": 14, "absent": {"bank": 12, "shop": 0, "spa": 2}}
    >>> left_out({"rows_train": 50, "rows_validation": 6, "rows_test": 10, "people": people})
    'left out: 14 of 80 people with a label, who have no row at bank (12), spa (2)'
    """
    people = summary.get("people")
    if not people or not people["left_out"]:
        return None
    rows = sum(summary[f"rows_{part}"] for part in ("train", "validation", "test"))
    where = ", ".join(f"{name} ({count})" for name, count in people["absent"].items() if count)
    everybody = rows + people["left_out"]
    return (
        f"left out: {people['left_out']} of {everybody} people with a label, "
        f"who have no row at {where}"
    )
