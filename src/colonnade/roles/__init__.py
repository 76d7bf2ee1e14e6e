"""Roles: each organisation's part of a protocol, free of I/O and clocks."""

from colonnade.roles.evaluate import EvaluationPlan, HeldOut
from colonnade.roles.others import CodesReceiver, CodesSender, TotalReceiver, TotalSender
from colonnade.roles.predict import PredictLabelHolder, PredictParty
from colonnade.roles.relay import RelayLabelHolder, RelayParty
from colonnade.roles.rounds import TrainingLabelHolder, TrainingParty
from colonnade.roles.split import SplitLabelHolder, SplitParty
from colonnade.roles.stopping import EarlyStopping

__all__ = [
    "CodesReceiver",
    "CodesSender",
    "EarlyStopping",
    "EvaluationPlan",
    "HeldOut",
    "PredictLabelHolder",
    "PredictParty",
    "RelayLabelHolder",
    "RelayParty",
    "SplitLabelHolder",
    "SplitParty",
    "TotalReceiver",
    "TotalSender",
    "TrainingLabelHolder",
    "TrainingParty",
]
