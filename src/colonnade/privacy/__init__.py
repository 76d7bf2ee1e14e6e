"""Mechanisms that make what is released private, and the exact account of what that costs."""

from colonnade.privacy.accountant import Epsilon, Spending, is_bounded
from colonnade.privacy.asymptotic import asymptotic_renyi
from colonnade.privacy.binomial_sum import BinomialSum
from colonnade.privacy.budget import UNLIMITED, Budget, check_budget
from colonnade.privacy.clipping import Clipped, clipped
from colonnade.privacy.events import Adjacency, Event, Unprotected
from colonnade.privacy.fixed_point import FixedPoint
from colonnade.privacy.games import NEAR, Game, Played, check_games, epsilon_at_least, play
from colonnade.privacy.gaussian import Gaussian
from colonnade.privacy.gaussian_game import GaussianGame
from colonnade.privacy.gaussian_noise import GaussianNoise, gaussian_multiplier
from colonnade.privacy.perturbation import Perturbation
from colonnade.privacy.poisson_binomial import PoissonBinomial
from colonnade.privacy.row_uses import RowUses, View
from colonnade.privacy.sum_game import SumGame
from colonnade.privacy.summand import Summand, warm_up

__all__ = [
    "NEAR",
    "UNLIMITED",
    "Adjacency",
    "BinomialSum",
    "Budget",
    "Clipped",
    "Epsilon",
    "Event",
    "FixedPoint",
    "Game",
    "Gaussian",
    "GaussianGame",
    "GaussianNoise",
    "Perturbation",
    "Played",
    "PoissonBinomial",
    "RowUses",
    "Spending",
    "SumGame",
    "Summand",
    "Unprotected",
    "View",
    "asymptotic_renyi",
    "check_budget",
    "check_games",
    "clipped",
    "epsilon_at_least",
    "gaussian_multiplier",
    "is_bounded",
    "play",
    "warm_up",
]
