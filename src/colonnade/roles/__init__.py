"""Roles: each organisation's part of a protocol, free of I/O and clocks."""

from colonnade.roles.predict import PredictLabelHolder, PredictParty
from colonnade.roles.relay import RelayLabelHolder, RelayParty
from colonnade.roles.rounds import TrainingLabelHolder, TrainingParty
from colonnade.roles.serve import ServeLabelHolder, ServeParty
from colonnade.roles.split import SplitLabelHolder, SplitParty

__all__ = [
    "PredictLabelHolder",
    "PredictParty",
    "RelayLabelHolder",
    "RelayParty",
    "ServeLabelHolder",
    "ServeParty",
    "SplitLabelHolder",
    "SplitParty",
    "TrainingLabelHolder",
    "TrainingParty",
]
