"""Roles: each organisation's part of a protocol, free of I/O and clocks."""

from colonnade.roles.evaluate import EvaluationPlan, HeldOut
from colonnade.roles.predict import PredictLabelHolder, PredictParty
from colonnade.roles.split import SplitLabelHolder, SplitParty
from colonnade.roles.stopping import EarlyStopping

__all__ = [
    "EarlyStopping",
    "EvaluationPlan",
    "HeldOut",
    "PredictLabelHolder",
    "PredictParty",
    "SplitLabelHolder",
    "SplitParty",
]
