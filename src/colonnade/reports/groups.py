"""Runs that can be compared: those that are judged by the same metric on the same kind of rows."""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.runs import Run

__all__ = ["by_metric", "data_notes", "is_classifier"]


_OF_CLASSES = {"accuracy", "auc", "f1", "log_loss", "macro_f1"}


def by_metric(runs: Mapping[str, Run]) -> dict[str, dict[str, Run]]:
    """Return the runs by their deciding metric, in the order in which metrics first occur.

    An accuracy and an AUC say nothing about each other, nor do those of validation and test rows.
    """
    groups: dict[str, dict[str, Run]] = {}
    for name, run in runs.items():
        groups.setdefault(str(run.summary["metric"]), {})[name] = run
    return groups


def is_classifier(run: Run) -> bool:
    """Return whether a run is known to learn classes, so that its losses are in nats."""
    metrics = {c.removeprefix("validation_").removeprefix("test_") for c in run.history.columns}
    return bool(metrics & _OF_CLASSES) or any(name.startswith("top_") for name in metrics)


def data_notes(runs: Mapping[str, Run]) -> list[str]:
    """Return what runs warn of their data, as that they are synthetic, each once."""
    said = [text for run in runs.values() for text in run.summary.get("warnings", ())]
    return list(dict.fromkeys(text for text in said if text.startswith("the data are ")))
