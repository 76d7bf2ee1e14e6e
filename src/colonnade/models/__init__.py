"""Models by name, fusion, and a model together with its optimiser."""

from colonnade.models.fusion import Additive, Concat, Fusion, Max, Mean, Sum
from colonnade.models.learner import (
    Features,
    Learner,
    OptimiserFactory,
    SchedulerFactory,
    parameter_count,
    parameter_vector,
    put_parameters,
    take,
)
from colonnade.models.lstm import Lstm
from colonnade.models.mlp import mlp
from colonnade.models.mvcnn import Mvcnn
from colonnade.models.resnet import ResNet18
from colonnade.models.sparse import Sparse
from colonnade.models.tabular import Tabular

__all__ = [
    "Additive",
    "Concat",
    "Features",
    "Fusion",
    "Learner",
    "Lstm",
    "Max",
    "Mean",
    "Mvcnn",
    "OptimiserFactory",
    "ResNet18",
    "SchedulerFactory",
    "Sparse",
    "Sum",
    "Tabular",
    "mlp",
    "parameter_count",
    "parameter_vector",
    "put_parameters",
    "take",
]
