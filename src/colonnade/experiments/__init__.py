"""Each paper's tables and figures as experiments that run."""

from colonnade.experiments.catalogue import EXPERIMENTS
from colonnade.experiments.experiment import (
    Experiment,
    Findings,
    Results,
    Scale,
    Trial,
    reproduce,
)
from colonnade.experiments.files import QUICK, files_of, write_findings

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
