"""The experiments by the names that the command takes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from colonnade.experiments.efvfl_mnist import EFVFL_CONVERGENCE, EFVFL_MNIST
from colonnade.experiments.experiment import Experiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {experiment.name: experiment for experiment in (EFVFL_MNIST, EFVFL_CONVERGENCE)}
)
