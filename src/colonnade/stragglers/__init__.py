"""Straggler policies: for whom a round waits. One policy a file."""

from colonnade.stragglers.policy import Absences, Stragglers, sufficing
from colonnade.stragglers.wait import Wait

__all__ = ["Absences", "Stragglers", "Wait", "sufficing"]
