"""Straggler policies: for whom a round waits. One policy a file."""

from colonnade.stragglers.absent import Absent
from colonnade.stragglers.deadline import Deadline
from colonnade.stragglers.fastest import Fastest
from colonnade.stragglers.missing import LATE, MISSING, Missing
from colonnade.stragglers.policy import Absences, Stragglers, sufficing
from colonnade.stragglers.wait import Wait

__all__ = [
    "LATE",
    "MISSING",
    "Absences",
    "Absent",
    "Deadline",
    "Fastest",
    "Missing",
    "Stragglers",
    "Wait",
    "sufficing",
]
