"""Models by name, fusion, and a model together with its optimiser."""

from colonnade.models.bounded import Bounded
from colonnade.models.cnn import Cnn
from colonnade.models.copies import copied
from colonnade.models.draws import MANY_DRAWS, drawing_alike, without_dropout
from colonnade.models.finite import all_finite
from colonnade.models.fusion import Additive, Concat, DotProduct, Fusion, Max, Mean, Sum
from colonnade.models.gradients import check_gradients, sparse_parameters
from colonnade.models.hooks import unhooked
from colonnade.models.learner import (
    Features,
    Learner,
    OptimiserFactory,
    SchedulerFactory,
    load_own_state,
    parameter_count,
    parameter_vector,
    put_parameters,
    put_state,
    state_of,
    take,
    trained_parameters,
    versions_of,
)
from colonnade.models.learning import check_bottom_learns, check_top_learns
from colonnade.models.lookbacks import looking_at_no_weights
from colonnade.models.lstm import Lstm
from colonnade.models.mlp import mlp
from colonnade.models.modes import evaluating, put_into_training
from colonnade.models.mvcnn import Mvcnn
from colonnade.models.optimising import (
    check_optimiser,
    check_schedule,
    go_on_alike,
    stepped_and_new,
)
from colonnade.models.polynomial import (
    LinearInPowers,
    Polynomial,
    computes_otherwise,
    is_linear_in_powers,
    terms_of,
)
from colonnade.models.resnet import ResNet18, group_norm
from colonnade.models.rows_apart import alike, check_rows_apart, half_of
from colonnade.models.sparse import Sparse
from colonnade.models.tabular import Tabular
from colonnade.models.trial import check_module, check_one_row, check_steady, shown, tried
from colonnade.models.wide_and_deep import WideAndDeep

__all__ = [
    "MANY_DRAWS",
    "Additive",
    "Bounded",
    "Cnn",
    "Concat",
    "DotProduct",
    "Features",
    "Fusion",
    "Learner",
    "LinearInPowers",
    "Lstm",
    "Max",
    "Mean",
    "Mvcnn",
    "OptimiserFactory",
    "Polynomial",
    "ResNet18",
    "SchedulerFactory",
    "Sparse",
    "Sum",
    "Tabular",
    "WideAndDeep",
    "alike",
    "all_finite",
    "check_bottom_learns",
    "check_gradients",
    "check_module",
    "check_one_row",
    "check_optimiser",
    "check_rows_apart",
    "check_schedule",
    "check_steady",
    "check_top_learns",
    "computes_otherwise",
    "copied",
    "drawing_alike",
    "evaluating",
    "go_on_alike",
    "group_norm",
    "half_of",
    "is_linear_in_powers",
    "load_own_state",
    "looking_at_no_weights",
    "mlp",
    "parameter_count",
    "parameter_vector",
    "put_into_training",
    "put_parameters",
    "put_state",
    "shown",
    "sparse_parameters",
    "state_of",
    "stepped_and_new",
    "take",
    "terms_of",
    "trained_parameters",
    "tried",
    "unhooked",
    "versions_of",
    "without_dropout",
]
