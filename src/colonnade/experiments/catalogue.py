"""The experiments by the names that the command takes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from colonnade.experiments.celu_ablation import CELU_ABLATION
from colonnade.experiments.celu_rates import CELU_RATES
from colonnade.experiments.celu_time import CELU_TIME
from colonnade.experiments.cvfl_bits import CVFL_BITS
from colonnade.experiments.cvfl_parties import CVFL_PARTIES
from colonnade.experiments.cvfl_schedule import CVFL_SCHEDULE
from colonnade.experiments.cvfl_steps import CVFL_ALGORITHMS, CVFL_LATENCY
from colonnade.experiments.efvfl_minibatch import EFVFL_LOCAL_UPDATES, EFVFL_PRIVATE_LABELS
from colonnade.experiments.efvfl_mnist import EFVFL_CONVERGENCE, EFVFL_MNIST
from colonnade.experiments.experiment import Experiment
from colonnade.experiments.fedvs_coding import FEDVS_COLLUSION, FEDVS_PARTITION
from colonnade.experiments.fedvs_networks import FEDVS_NETWORKS
from colonnade.experiments.fedvs_rates import FEDVS_RATES
from colonnade.experiments.fedvs_stragglers import FEDVS_MOTIVATION, FEDVS_STRAGGLERS
from colonnade.experiments.lean import LEAN_MNIST
from colonnade.experiments.pbm_tradeoff import PBM_PARTIES, PBM_TRADEOFF
from colonnade.experiments.untuned import DEFAULTS, DEFAULTS_CHOSEN

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            EFVFL_MNIST,
            EFVFL_CONVERGENCE,
            EFVFL_PRIVATE_LABELS,
            EFVFL_LOCAL_UPDATES,
            CVFL_BITS,
            CVFL_LATENCY,
            CVFL_ALGORITHMS,
            CVFL_PARTIES,
            CVFL_SCHEDULE,
            CELU_RATES,
            CELU_ABLATION,
            CELU_TIME,
            LEAN_MNIST,
            PBM_TRADEOFF,
            PBM_PARTIES,
            FEDVS_RATES,
            FEDVS_MOTIVATION,
            FEDVS_STRAGGLERS,
            FEDVS_PARTITION,
            FEDVS_COLLUSION,
            FEDVS_NETWORKS,
            DEFAULTS,
            DEFAULTS_CHOSEN,
        )
    }
)
