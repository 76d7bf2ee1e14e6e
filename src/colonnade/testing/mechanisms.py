"""What every mechanism must do, a summand or a perturbation, with its event: a short kit.

Each function in ``MECHANISM_CHECKS`` takes a ``MechanismSubject`` and asserts one part of what
uplinks and accounts rely on (``colonnade.privacy.summand``, ``perturbation``, ``events``). With
pytest, each is a test of its own::

    from colonnade.testing.mechanisms import MECHANISM_CHECKS, MechanismSubject

    @pytest.mark.parametrize("check", MECHANISM_CHECKS)
    def test_my_mechanism_conforms(check):
        check(MechanismSubject(MyMechanism(3)))

or, without, ``check_mechanism(MechanismSubject(MyMechanism(3)))``. A claim that stands in a game is
not proven by it: that an event bounds what its mechanism discloses is for a proof beside it. The
kit for methods tells how a run with the mechanism goes on from a checkpoint.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import ConfigurationError, Diverged, RemoteProtocolError
from colonnade.privacy import Event, Game, Perturbation, Spending, SumGame, Summand, play
from colonnade.secure import Keystream, Secrets

__all__ = [
    "MECHANISM_CHECKS",
    "MechanismSubject",
    "check_mechanism",
    "draws_from_its_stream_alone",
    "estimates_within_its_error",
    "has_an_event_that_composes",
    "is_a_frozen_value",
    "keeps_its_claim_in_a_game",
    "keeps_to_its_range",
    "refuses_what_it_cannot_hide",
]

if not __debug__:
    raise ImportError("the kit asserts, and python -O leaves assertions out: run it without -O")

_ORDERS = [1.01, 1.5, 2.0, 3.0, 8.0, 32.0, 256.0]
_ROWS = 20_000
_GAMES = 20_000
_DELTA = 1e-5


@dataclass(frozen=True)
class MechanismSubject:
    """A mechanism, and what a test must know of it.

    Parameters
    ----------
    mechanism
        The mechanism.
    terms
        Of how many parties a sum is, or values are seen; 2 or more.

    Examples
    --------
    >>> from colonnade.privacy import PoissonBinomial
    >>> check_mechanism(MechanismSubject(PoissonBinomial(trials=16, beta=0.1)))
    """

    mechanism: Summand | Perturbation
    terms: int = 3

    def event(self) -> Event:
        """Return what one use of a row is."""
        if isinstance(self.mechanism, Perturbation):
            return self.mechanism.event(self.terms)
        return self.mechanism.event(self.terms, 2)

    def release(self, x: Tensor, noise: Keystream) -> Tensor:
        """Return what one party's message says of ``x``."""
        if isinstance(self.mechanism, Perturbation):
            return self.mechanism.perturb(x, noise)
        return self.mechanism.estimate(self.mechanism.counts(x, noise), 1)

    def games(self) -> tuple[Game, ...]:
        """Return the games that try it."""
        if isinstance(self.mechanism, Perturbation):
            return self.mechanism.games()
        return (SumGame(self.mechanism, self.terms),) if _is_bounded(self.event()) else ()


def _stream(number: int = 0) -> Keystream:
    return Secrets.insecure(number).begin("kit", incarnation=0).keystream("noise")


def _is_bounded(event: Event) -> bool:
    return math.isfinite(Spending({event: 1}).epsilon(_DELTA).value)


@contextmanager
def _raises(kind: type[Exception], what: str) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what}: nothing raised {kind.__name__}")


def is_a_frozen_value(subject: MechanismSubject) -> None:
    """Check that copies are equal, and their events: accounts and resumed runs compare them."""
    one, other = subject, copy.deepcopy(subject)
    pairs: list[tuple[Any, Any]] = [
        (one.mechanism, other.mechanism),
        (one.event(), other.event()),
    ]
    for value, again in pairs:
        assert dataclasses.is_dataclass(value), f"{type(value).__name__} is no dataclass"
        assert value == again, f"a copy of {value} is another"
        assert hash(value) == hash(again), f"a copy of {value} has another hash"
        for field in dataclasses.fields(value):
            with _raises(dataclasses.FrozenInstanceError, f"{field.name} was set"):
                setattr(value, field.name, None)


def has_an_event_that_composes(subject: MechanismSubject) -> None:
    """Check that curves are no less than 0, grow with the order, and with who knows more."""
    event = subject.event()
    curve = np.asarray(event.renyi([*_ORDERS, math.inf]))
    assert curve.shape == (len(_ORDERS) + 1,)
    assert not np.isnan(curve).any()
    assert (curve >= 0).all(), "a Renyi divergence is below 0"
    assert (curve[1:] >= curve[:-1] * (1 - 1e-9)).all(), "the curve falls with the order"
    assert event.draws >= 1
    assert event.seen_by(0) == event
    for more in (event.seen_by(1), event.under("sample")):
        assert (more.renyi(_ORDERS) >= curve[:-1] * (1 - 1e-9)).all(), f"{more} discloses less"
    assert event.under(event.adjacency) == event
    once, often = (Spending({event: uses}).epsilon(_DELTA).value for uses in (1, 5))
    assert 0 <= once <= often
    assert _is_bounded(event) == math.isfinite(once)


def keeps_to_its_range(subject: MechanismSubject) -> None:
    """Check shapes and types; of a summand what counts are, of a perturbation that it clips."""
    mechanism, bound = subject.mechanism, subject.mechanism.bound
    assert 0 < bound < math.inf
    x = bound * torch.tensor([[1.0, -1.0, 0.0, 0.3]]).expand(500, 4).contiguous()
    if isinstance(mechanism, Perturbation):
        released = mechanism.perturb(x, _stream())
        assert released.dtype == torch.float32
        assert released.shape == x.shape
        assert mechanism.perturb(torch.zeros(0, 4), _stream()).shape == (0, 4)
        longer = mechanism.perturb(1000 * x, _stream()) - mechanism.perturb(10 * x, _stream())
        assert float(longer.norm(dim=1).max()) <= 1e-2 * bound, "rows are not clipped"
        return
    assert 1 <= mechanism.highest <= 65535
    counts = mechanism.counts(x, _stream())
    assert counts.dtype == np.uint16
    assert counts.shape == tuple(x.shape)
    assert int(counts.max()) <= mechanism.highest, "a count is beyond the highest"
    estimate = mechanism.estimate(counts, 1)
    assert estimate.dtype == torch.float32
    assert estimate.shape == x.shape
    assert mechanism.counts(torch.zeros(0, 4), _stream()).shape == (0, 4)


def draws_from_its_stream_alone(subject: MechanismSubject) -> None:
    """Check that a release follows from values and stream, and leaves values as they are."""
    x = subject.mechanism.bound * torch.linspace(-0.5, 0.5, 60).reshape(20, 3)
    before = x.clone()
    one, same = (subject.release(x, _stream()) for _ in range(2))
    assert torch.equal(one, same), "one stream gives two releases"
    assert torch.equal(x, before), "a release changed its input"
    if _is_bounded(subject.event()):
        assert not torch.equal(one, subject.release(x, _stream(1))), "two streams give one release"


def estimates_within_its_error(subject: MechanismSubject) -> None:
    """Check of a summand that estimates are of the sum, and their error as it says, at 5 sigma."""
    mechanism, terms = subject.mechanism, subject.terms
    if isinstance(mechanism, Perturbation):
        return
    exact = mechanism.bound * torch.tensor([0.0, 0.3, -0.7, 1.0, -1.0])
    counts = [
        mechanism.counts(exact.expand(_ROWS, -1).contiguous(), _stream(party))
        for party in range(terms)
    ]
    total = np.stack(counts).sum(axis=0, dtype=np.uint32)
    errors = mechanism.estimate(total, terms).double() - terms * exact.double()
    most = mechanism.squared_error(terms)
    spread = errors.std(dim=0)
    off = errors.mean(dim=0).abs()
    rounding = torch.where(spread > 1e-3 * mechanism.bound, 1e-4 * mechanism.bound, most**0.5)
    assert (off <= 5 * spread / _ROWS**0.5 + rounding).all(), "estimates are biased"
    allowed = most * (1 + 10 / _ROWS**0.5) + 1e-12
    assert (errors.square().mean(dim=0) <= allowed).all(), "the error is larger than it says"


def refuses_what_it_cannot_hide(subject: MechanismSubject) -> None:
    """Check that what is not finite is refused; of a summand what is beyond bound and sum, too."""
    mechanism = subject.mechanism
    for wrong in (math.nan, math.inf):
        with _raises(Diverged, f"{wrong} was released"):
            subject.release(torch.tensor([[0.0, wrong]]), _stream())
    if isinstance(mechanism, Perturbation):
        return
    with _raises(ConfigurationError, "a value beyond the bound was released"):
        mechanism.counts(torch.tensor([[-1.5 * mechanism.bound]]), _stream())
    total = np.array([[subject.terms * mechanism.highest + 1]], dtype=np.uint32)
    with _raises(RemoteProtocolError, "a sum that no counts have was taken"):
        mechanism.estimate(total, subject.terms)


def keeps_its_claim_in_a_game(subject: MechanismSubject) -> None:
    """Check that what is claimed is tried by a game, and not refuted."""
    games = subject.games()
    assert games or not _is_bounded(subject.event()), "an epsilon is claimed, but no game tries it"
    for number, game in enumerate(games):
        for played in play(game, _stream(number), games=_GAMES, confidence=0.999):
            assert played.holds, (
                f"epsilon is {played.bound:.3g} at least, claimed {played.claim:.3g}"
            )


MECHANISM_CHECKS: tuple[Callable[[MechanismSubject], None], ...] = (
    is_a_frozen_value,
    has_an_event_that_composes,
    keeps_to_its_range,
    draws_from_its_stream_alone,
    estimates_within_its_error,
    refuses_what_it_cannot_hide,
    keeps_its_claim_in_a_game,
)
"""All parts of the contract."""


def check_mechanism(subject: MechanismSubject) -> None:
    """Check all of it; raises ``AssertionError`` where something is not as it should be."""
    for check in MECHANISM_CHECKS:
        check(subject)
