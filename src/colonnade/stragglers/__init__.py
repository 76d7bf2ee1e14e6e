"""Straggler policies: for whom a round waits. One policy a file."""

from colonnade.stragglers.policy import Absences, Stragglers
from colonnade.stragglers.wait import Wait

__all__ = ["Absences", "Stragglers", "Wait"]
