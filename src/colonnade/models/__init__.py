"""Models by name, fusion, and a model together with its optimiser."""

from colonnade.models.fusion import Concat, Fusion, Max, Mean, Sum
from colonnade.models.learner import Features, Learner, OptimiserFactory, take
from colonnade.models.mlp import mlp

__all__ = [
    "Concat",
    "Features",
    "Fusion",
    "Learner",
    "Max",
    "Mean",
    "OptimiserFactory",
    "Sum",
    "mlp",
    "take",
]
