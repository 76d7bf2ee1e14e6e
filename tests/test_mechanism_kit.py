"""The kit for mechanisms: ours pass it, and what is wrong is caught by the check that is for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from colonnade.privacy import (
    BinomialSum,
    Clipped,
    FixedPoint,
    Gaussian,
    GaussianNoise,
    PoissonBinomial,
)
from colonnade.testing import mechanisms as kit
from colonnade.testing.mechanisms import MECHANISM_CHECKS, MechanismSubject

OURS = [
    PoissonBinomial(16, 0.1),
    PoissonBinomial(256, 0.05, bound=3.0),
    FixedPoint(2),
    FixedPoint(12, bound=0.1),
    Gaussian(1.0, 1.5),
    Gaussian(5.0, 0.3),
    Clipped(2.0),
]


@pytest.mark.parametrize("check", MECHANISM_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("mechanism", OURS, ids=repr)
def test_ours_conform(mechanism, check):
    check(MechanismSubject(mechanism))


class TwiceTheBeta(PoissonBinomial):
    def counts(self, x, noise):
        return PoissonBinomial(self.trials, 2 * self.beta, self.bound).counts(x, noise)


class Shifted(FixedPoint):
    def estimate(self, total, terms):
        return super().estimate(total, terms) + 0.1


class Careless(FixedPoint):
    def counts(self, x, noise):
        return super().counts(x.nan_to_num().clamp(-self.bound, self.bound), noise)


class BeyondTheHighest(FixedPoint):
    def counts(self, x, noise):
        return super().counts(x, noise) + np.uint16(1)


class Silent(Gaussian):
    def games(self):
        return ()


class Unclipped(Gaussian):
    def perturb(self, x, noise):
        return x + super().perturb(torch.zeros_like(x), noise)


class ByAnotherStream(Gaussian):
    def perturb(self, x, noise):
        return super().perturb(x, kit._stream(9))


class EventsApart(Gaussian):
    def event(self, terms=1):
        return Apart(self.multiplier, terms)


@dataclass(frozen=True, eq=False)
class Apart(GaussianNoise):
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Falling(GaussianNoise):
    def renyi(self, orders):
        return 1 / np.asarray(orders)


class Negative(BinomialSum):
    def renyi(self, orders):
        return super().renyi(orders) - 1.0


class WithFalling(Gaussian):
    def event(self, terms=1):
        return Falling(self.multiplier, terms)


class WithNegative(PoissonBinomial):
    def event(self, terms, components):
        return Negative(self.trials, self.beta, terms, components)


@pytest.mark.parametrize(
    ("mechanism", "check", "words"),
    [
        (TwiceTheBeta(16, 0.1), kit.keeps_its_claim_in_a_game, "at least, claimed"),
        (TwiceTheBeta(16, 0.1), kit.estimates_within_its_error, "estimates are biased"),
        (Shifted(12), kit.estimates_within_its_error, "estimates are biased"),
        (Careless(12), kit.refuses_what_it_cannot_hide, "nan was released"),
        (BeyondTheHighest(12), kit.keeps_to_its_range, "beyond the highest"),
        (Silent(1.0, 2.0), kit.keeps_its_claim_in_a_game, "no game tries it"),
        (Unclipped(1.0, 2.0), kit.keeps_to_its_range, "rows are not clipped"),
        (ByAnotherStream(1.0, 2.0), kit.draws_from_its_stream_alone, "two streams"),
        (EventsApart(1.0, 2.0), kit.is_a_frozen_value, "is another"),
        (WithFalling(1.0, 2.0), kit.has_an_event_that_composes, "falls with the order"),
        (WithNegative(16, 0.1), kit.has_an_event_that_composes, "below 0"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "bound") else None,
)
def test_what_is_wrong_is_caught(mechanism, check, words):
    with pytest.raises(AssertionError, match=words):
        check(MechanismSubject(mechanism))
