"""Roles: each organisation's part of a protocol, free of I/O and clocks."""

from colonnade.roles.evaluate import EvaluationPlan
from colonnade.roles.split import SplitLabelHolder, SplitParty

__all__ = ["EvaluationPlan", "SplitLabelHolder", "SplitParty"]
