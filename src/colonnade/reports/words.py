"""Columns of a history and of a ledger as words."""

from __future__ import annotations

import polars as pl

from colonnade.ledger import Ledger

__all__ = ["purposes_told", "words"]


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
