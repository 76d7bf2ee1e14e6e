"""Columns of a history as words."""

from __future__ import annotations

__all__ = ["words"]


def words(column: str) -> str:
    """Return a column's name as words.

    >>> words("validation_log_loss"), words("test_auc"), words("test_top_5_accuracy")
    ('validation log-loss', 'test AUC', 'test top-5 accuracy')
    """
    text = column.replace("log_loss", "log-loss").replace("_", " ").replace("top 5", "top-5")
    capitals = {"auc": "AUC", "rmse": "RMSE", "f1": "F1"}
    return " ".join(capitals.get(word, word) for word in text.split())
