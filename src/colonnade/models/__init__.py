"""Models by name, fusion, and a model together with its optimiser."""

from colonnade.models.fusion import Concat, Fusion, Max, Mean, Sum
from colonnade.models.learner import Features, Learner, OptimiserFactory, SchedulerFactory, take
from colonnade.models.mlp import mlp
from colonnade.models.tabular import Tabular

__all__ = [
    "Concat",
    "Features",
    "Fusion",
    "Learner",
    "Max",
    "Mean",
    "OptimiserFactory",
    "SchedulerFactory",
    "Sum",
    "Tabular",
    "mlp",
    "take",
]
