"""Mechanisms that make what is released private, and the exact account of what that costs."""

from colonnade.privacy.accountant import Epsilon, Spending
from colonnade.privacy.asymptotic import asymptotic_renyi
from colonnade.privacy.binomial_sum import BinomialSum
from colonnade.privacy.budget import Budget
from colonnade.privacy.events import Adjacency, Event, Unprotected
from colonnade.privacy.gaussian_noise import GaussianNoise, gaussian_multiplier
from colonnade.privacy.row_uses import RowUses

__all__ = [
    "Adjacency",
    "BinomialSum",
    "Budget",
    "Epsilon",
    "Event",
    "GaussianNoise",
    "RowUses",
    "Spending",
    "Unprotected",
    "asymptotic_renyi",
    "gaussian_multiplier",
]
