"""The methods that are besieged, one for each way that messages travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import torch

from colonnade.agreement import Composition
from colonnade.codecs import Entropy, LloydMax, Scalar, TopK
from colonnade.exchanges import Split
from colonnade.federation import Federation
from colonnade.links import Direct
from colonnade.method import Method
from colonnade.methods import celu, cvfl, efvfl, fedbcd, fedvs, lean, pbm_vfl, svfl, vafl, wait_dp
from colonnade.models import Bounded, Concat, Mean, Polynomial, Sum
from colonnade.organisations import Party
from colonnade.stragglers import Deadline, Fastest
from colonnade.testing.methods import TRAINING, small_federation
from colonnade.uplinks import Plain

__all__ = ["METHODS", "TRAINING", "federation_of", "polynomials"]

Maker = Callable[[Composition], Federation]


def _bounded(method: Composition) -> Federation:
    """Return the kit's federation, whose embeddings keep to [-1, 1]."""
    base = small_federation(method)
    parties = [
        replace(party, bottom=torch.nn.Sequential(party.bottom, Bounded(1.0)))
        for party in base.parties
    ]
    return _with(base, parties, without_features=True)


def polynomials(method: Composition, parties: int = 3) -> Federation:
    """Return parties with polynomial networks, and the kit's label holder."""
    base = small_federation(replace(method, fusion=Sum()))
    generator, everybody = torch.Generator().manual_seed(3), []
    for number in range(parties):
        x = torch.randn(base.rows, 2 + number, generator=generator)
        with torch.random.fork_rng(devices=()):
            torch.default_generator.manual_seed(number)
            bottom = Polynomial(2 + number, 4, degree=2)
        everybody.append(Party(f"party_{number}", x, bottom, partial(torch.optim.SGD, lr=0.1)))
    return _with(base, everybody)


def _with(base: Federation, parties: list[Party], *, without_features: bool = False) -> Federation:
    holder = base.label_holder
    if without_features:
        holder = replace(holder, features=None, bottom=None)
    return Federation(parties, holder, base.train_rows, base.test_rows, None, base.validation_rows)


METHODS: Mapping[str, tuple[Method, Maker]] = MappingProxyType(
    {
        "svfl": (svfl(), small_federation),
        "quantised both ways": (svfl(Scalar(3), Scalar(8)), small_federation),
        "entropy coded": (
            Method("entropy", Concat(), Plain(Direct(Entropy(LloydMax(3))))),
            small_federation,
        ),
        "fedbcd": (fedbcd(3), small_federation),
        "cvfl, codes": (cvfl(Scalar(4), 2, Concat(), "shared"), small_federation),
        "cvfl, total": (cvfl(Scalar(4), 2, Sum(), "shared", others="total"), small_federation),
        "efvfl": (efvfl(TopK(0.3)), small_federation),
        "lean": (lean(), small_federation),
        "celu": (celu(reuses=2), small_federation),
        "vafl": (vafl(), small_federation),
        "deadline": (Method("deadline", Mean(), stragglers=Deadline(0.5)), small_federation),
        "fastest": (Method("fastest", Mean(), stragglers=Fastest(2)), small_federation),
        "wait_dp": (wait_dp(), small_federation),
        "pbm_vfl": (pbm_vfl(), _bounded),
        "fedvs": (fedvs(fusion=Sum()), polynomials),
        "split": (Method("split", Sum(), exchange=Split()), small_federation),
    }
)


def federation_of(name: str) -> tuple[Method, Federation]:
    """Return a method and a federation that it can train, small and made up."""
    method, make = METHODS[name]
    return method, make(method)
