"""Each paper's tables and figures as experiments that run."""

from colonnade.experiments.catalogue import EXPERIMENTS
from colonnade.experiments.experiment import (
    Experiment,
    Findings,
    Results,
    Scale,
    Trial,
)
from colonnade.experiments.files import QUICK, files_of, write_findings
from colonnade.experiments.reproducing import reproduce

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
