"""Each paper's tables and figures as experiments that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.experiments.experiment import (
    Experiment,
    Findings,
    Results,
    Scale,
    Trial,
)
from colonnade.experiments.files import QUICK, files_of, write_findings
from colonnade.experiments.reproducing import reproduce

if TYPE_CHECKING:
    from colonnade.experiments.catalogue import EXPERIMENTS

__all__ = [
    "EXPERIMENTS",
    "QUICK",
    "Experiment",
    "Findings",
    "Results",
    "Scale",
    "Trial",
    "files_of",
    "reproduce",
    "write_findings",
]


def __getattr__(name: str) -> Any:
    if name != "EXPERIMENTS":
        raise AttributeError(f"module 'colonnade.experiments' has no attribute {name!r}")
    # Only now: what some of them need takes long to import, and a process needs those of one.
    from colonnade.experiments.catalogue import EXPERIMENTS

    return EXPERIMENTS
