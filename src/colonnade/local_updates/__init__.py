"""Local updates: which steps an organisation takes without an exchange. One policy a file."""

from colonnade.local_updates.consecutive import Consecutive
from colonnade.local_updates.contract import (
    HolderBatch,
    HolderStep,
    HolderSteps,
    LocalStep,
    LocalUpdates,
    PartyBatch,
    PartyStep,
    PartySteps,
)
from colonnade.local_updates.proximal import Places, Proximal
from colonnade.local_updates.replayed import Replayed
from colonnade.local_updates.workset import Workset

__all__ = [
    "Consecutive",
    "HolderBatch",
    "HolderStep",
    "HolderSteps",
    "LocalStep",
    "LocalUpdates",
    "PartyBatch",
    "PartyStep",
    "PartySteps",
    "Places",
    "Proximal",
    "Replayed",
    "Workset",
]
