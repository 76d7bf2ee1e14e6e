"""A history's columns, a ledger's purposes, and who was left out, as words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from colonnade.effects import HELD_BACK
from colonnade.ledger import Ledger

__all__ = [
    "activity",
    "broken",
    "is_score",
    "judged",
    "left_out",
    "pieces",
    "purposes_told",
    "quantity",
    "words",
]


def words(column: str) -> str:
    """Return a column's name as words.

    >>> words("validation_log_loss"), words("test_auc"), words("test_top_5_accuracy")
    ('validation log-loss', 'test AUC', 'test top-5 accuracy')
    """
    text = column.replace("log_loss", "log-loss").replace("_", " ").replace("top 5", "top-5")
    capitals = {"auc": "AUC", "rmse": "RMSE", "f1": "F1"}
    return " ".join(capitals.get(word, word) for word in text.split())


def quantity(column: str) -> str:
    """Return a column's name as words, with its unit if it has one.

    >>> quantity("validation_log_loss"), quantity("test_rmse"), quantity("test_auc")
    ('validation log-loss (nats)', "test RMSE (label's unit)", 'test AUC')
    """
    units = {"log_loss": " (nats)", "rmse": " (label's unit)"}
    unit = next((unit for end, unit in units.items() if column.endswith(end)), "")
    return words(column) + unit


def activity(kind: str) -> str:
    """Return what an organisation did, as words; a part of waiting says that it is one.

    >>> activity("local_step"), activity("held back")
    ('local step', 'wait, held back')
    """
    return f"wait, {kind}" if kind == HELD_BACK else words(kind)


def is_score(metric: str) -> bool:
    """Return whether a metric is a share of rows, or of pairs of rows, from 0 to 1.

    >>> is_score("test_top_5_accuracy"), is_score("validation_log_loss")
    (True, False)
    """
    name = metric.removeprefix("validation_").removeprefix("test_")
    return name in ("accuracy", "auc", "f1", "macro_f1") or name.startswith("top_")


def pieces(name: str) -> list[str]:
    """Return the parts of a name between which a line may end.

    >>> pieces("North-West_Bank Ltd.")
    ['North-', 'West_', 'Bank ', 'Ltd.']
    """
    return re.findall(r"[^-_./ ]*[-_./ ]+|[^-_./ ]+", name)


def broken(name: str, width: int) -> list[str]:
    """Return a name as lines of at most so many characters.

    >>> broken("North-West_Bank", 11), broken("Nordwestdeutsche", 11)
    (['North-West_', 'Bank'], ['Nordwestdeu', 'tsche'])
    """
    lines = [""]
    for piece in pieces(name):
        if len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        parts = [piece[start : start + width] for start in range(0, len(piece), width)]
        lines[-1] += parts[0]
        lines += parts[1:]
    return [line.rstrip() for line in lines if line.strip()] or [name]


def purposes_told(ledger: Ledger) -> pl.DataFrame:
    """Return a ledger's frame in which the purpose also says what was lost to a crash."""
    told = pl.col("purpose") + pl.when("lost").then(pl.lit(", lost")).otherwise(pl.lit(""))
    return ledger.frame().with_columns(purpose=told)


def judged(summary: Mapping[str, Any]) -> str | None:
    """Return which of two classes F1 is about; None where there is no F1, or nothing to tell.

    >>> judged({"classes": ["good", "poor"], "test": {"auc": 0.9, "f1": 0.8}})
    "F1 is about 'poor', the second of the classes 'good' and 'poor'"
    """
    classes: Sequence[Any] = summary.get("classes") or ()
    told = len(classes) == 2 and all(isinstance(each, str) for each in classes)
    if not told or "f1" not in (summary.get("test") or {}):
        return None
    first, second = classes
    return f"F1 is about {second!r}, the second of the classes {first!r} and {second!r}"


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
    where = ", ".join(f"{name} ({count:,})" for name, count in people["absent"].items() if count)
    everybody = rows + people["left_out"]
    return (
        f"left out: {people['left_out']:,} of {everybody:,} people with a label, "
        f"who have no row at {where}"
    )
