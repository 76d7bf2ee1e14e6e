"""Mechanisms that make what is released private, and the exact account of what that costs."""

from colonnade.privacy.fixed_point import FixedPoint
from colonnade.privacy.gaussian import Gaussian
from colonnade.privacy.poisson_binomial import PoissonBinomial
from colonnade.privacy.summand import Summand

__all__ = ["FixedPoint", "Gaussian", "PoissonBinomial", "Summand"]
