"""Mechanisms draw what they say: exact samplers, unbiased estimates, noise on a grid.

Keys are fixed, so nothing here fails by chance. The level of every statistical test is 1e-9 for a
p-value, and 6 standard errors for a mean, each below one in 5e8: with other keys the whole file,
about 900 such numbers, would fail with a chance below 1e-5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from colonnade.errors import (
    ConfigurationError,
    Diverged,
    LocalProtocolError,
    RemoteProtocolError,
)
from colonnade.kernels.binomial import DIGITS, HALF, binomial, chances
from colonnade.privacy import FixedPoint, Gaussian, PoissonBinomial, Spending, Summand
from colonnade.privacy import normal as normals
from colonnade.secure import Keystream

LEVEL, DEVIATIONS = 1e-9, 6.0

Fill = Callable[[NDArray[Any]], None]
Sampler = Callable[[NDArray[np.uint32], int, Fill], NDArray[np.uint16]]

TRIALS = [1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 256]
QUARTER, THREE_QUARTERS = 1 << 30, 3 << 30
CHANCES = [
    *(QUARTER, THREE_QUARTERS, 1 << 31),  # what beta = 1/4 reaches, and no signal
    *(QUARTER + 1, THREE_QUARTERS - 1, (1 << 31) - 1, (1 << 31) + 1),
    *(0x55555555, 0xAAAAAAAA, 0x83FFFFFF, 0x84000000, 0x7BFFFFFF),  # digits run out after six
]


def stream(name: str) -> Keystream:
    return Keystream(name.encode().rjust(16)[-16:])


# Binomial draws, by statistics


def misfit(counts: NDArray[np.uint16], trials: int, chance: int) -> float:
    """The p-value of a chi-square test of draws against Binomial(trials, chance / 2^32)."""
    observed = np.bincount(counts, minlength=trials + 1)
    if len(observed) > trials + 1:
        return 0.0
    expected = stats.binom.pmf(np.arange(trials + 1), trials, chance / 2**DIGITS) * len(counts)
    return grouped(observed, expected)


def grouped(observed: NDArray[Any], expected: NDArray[Any]) -> float:
    """Chi-square's p-value, cells in which less than 10 are expected taken together."""
    rare = expected < 10
    seen = np.append(observed[~rare], observed[rare].sum())
    hoped = np.append(expected[~rare], expected[rare].sum())
    if hoped[-1] < 10:
        seen[0], hoped[0] = seen[0] + seen[-1], hoped[0] + hoped[-1]
        seen, hoped = seen[:-1], hoped[:-1]
    statistic = float(((seen - hoped) ** 2 / hoped).sum())
    return float(stats.chi2.sf(statistic, len(seen) - 1))


def worst_fit(sampler: Sampler, trials: int, draws: int = 1 << 20) -> float:
    """The smallest p-value over all edge chances, which take turns within one message."""
    chance = np.tile(np.array(CHANCES, dtype=np.uint32), draws)
    counts = sampler(chance, trials, stream(f"fit {trials}").fill).reshape(draws, -1)
    return min(misfit(counts[:, j], trials, p) for j, p in enumerate(CHANCES))


def worst_pairs(sampler: Sampler, draws: int = 1 << 20) -> float:
    """The smallest p-value of chi-square tests of pairs of draws, so far apart, for independence.

    Distances are those of neighbours, words, blocks and chunks.
    """
    trials, chance = 3, 0x60000000
    counts = sampler(np.full(draws, chance, np.uint32), trials, stream("pairs").fill)
    pmf = stats.binom.pmf(np.arange(trials + 1), trials, chance / 2**DIGITS)
    found = []
    for apart in (1, 2, 4, 8, 64, 1023, 1024, 1025, 6144, 16384, 32768):
        cells = counts[:-apart].astype(np.int64) * (trials + 1) + counts[apart:]
        observed = np.bincount(cells, minlength=(trials + 1) ** 2)
        found.append(grouped(observed, np.outer(pmf, pmf).reshape(-1) * len(cells)))
    return min(found)


@pytest.mark.parametrize("trials", TRIALS)
def test_draws_are_binomial_for_every_edge(trials: int):
    assert worst_fit(binomial, trials) > LEVEL


def test_many_trials_are_binomial_too():
    assert worst_fit(binomial, 1000, draws=1 << 15) > LEVEL


def test_draws_are_independent_of_each_other():
    assert worst_pairs(binomial) > LEVEL


def doubled(chance: NDArray[np.uint32], trials: int, fill: Fill) -> NDArray[np.uint16]:
    away = 2 * (chance.astype(np.int64) - int(HALF))
    return binomial((away + int(HALF)).clip(0, 2**32 - 1).astype(np.uint32), trials, fill)


def without_digit(chance: NDArray[np.uint32], trials: int, fill: Fill) -> NDArray[np.uint16]:
    return binomial(chance & ~np.uint32(1 << (DIGITS - 8)), trials, fill)


def with_used_words(chance: NDArray[np.uint32], trials: int, fill: Fill) -> NDArray[np.uint16]:
    piece = np.empty(1 << 12, dtype=np.uint8)
    fill(piece)

    def again(words: NDArray[Any]) -> None:
        view = words.reshape(-1).view(np.uint8)
        view[:] = np.resize(piece, len(view))

    return binomial(chance, trials, again)


def short_of_a_lane(chance: NDArray[np.uint32], trials: int, fill: Fill) -> NDArray[np.uint16]:
    return binomial(chance, trials - 1, fill)


@pytest.mark.parametrize("broken", [doubled, without_digit, short_of_a_lane])
def test_the_fit_catches_a_broken_sampler(broken: Sampler):
    assert worst_fit(broken, 16) < LEVEL


def test_pairs_catch_words_that_are_used_again():
    assert worst_pairs(with_used_words) < LEVEL


# Binomial draws, by counting

TOGETHER, BLOCK = 6, 1024  # what the kernel does with random bytes, as it is laid out


def planted(throws: NDArray[Any], rest: NDArray[np.uint32] | int) -> Fill:
    """A source that gives the words of all lanes, ``[draws, digits]``, then those of open lanes."""
    blocks = -(-len(throws) // BLOCK)
    padded = np.zeros((blocks * BLOCK, TOGETHER), throws.dtype)
    padded[: len(throws)] = throws
    first = np.ascontiguousarray(padded.reshape(blocks, BLOCK, TOGETHER).transpose(0, 2, 1))
    asked = 0

    def fill(words: NDArray[Any]) -> None:
        nonlocal asked
        words[:] = first.reshape(-1).view(words.dtype) if asked == 0 else rest
        asked += 1

    return fill


def all_throws(lanes: int) -> NDArray[np.uint8]:
    """Every way in which six digits of so many lanes can fall, ``[ways, digits]``."""
    ways = np.arange(1 << (lanes * TOGETHER))
    digits = [(ways >> (lanes * digit)) & ((1 << lanes) - 1) for digit in range(TOGETHER)]
    return np.stack(digits, axis=1).astype(np.uint8)


def won_and_open(chance: int, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many lanes win at once, and how many are open, for each of all throws."""
    pieces = np.split(all_throws(lanes), 8 ** max(0, lanes - 2))  # a message has one chunk
    won, either = [], []
    for throws in pieces:
        p = np.full(len(throws), chance, np.uint32)
        won.append(binomial(p, lanes, planted(throws, 0xFFFFFFFF)))
        either.append(binomial(p | np.uint32(1), lanes, planted(throws, 0)))
    wins = np.concatenate(won).astype(np.int64)
    return wins, np.concatenate(either) - wins


@pytest.mark.parametrize("chance", [*CHANCES, 0, 1, 2**32 - 1, 12345678, 0xDEADBEEF])
def test_all_throws_of_a_lane_give_the_chance_to_the_last_digit(chance: int):
    won, still_open = won_and_open(chance, lanes=1)
    rest = (chance << TOGETHER) % 2**DIGITS  # of 2^32 words for an open lane, so many win
    assert still_open.sum() == 1
    assert int(won.sum()) * 2**DIGITS + rest == chance << TOGETHER

    # An open lane wins just with the words below the digits that are left.
    edges = np.array([0, max(rest - 1, 0), rest, min(rest + 1, 2**32 - 1), 2**32 - 1], np.uint32)
    throw = all_throws(1)[still_open == 1]
    throws, p = np.repeat(throw, len(edges), axis=0), np.full(len(edges), chance, np.uint32)
    assert binomial(p, 1, planted(throws, edges)).tolist() == (edges < rest).tolist()


@pytest.mark.parametrize("chance", CHANCES)
@pytest.mark.parametrize("lanes", [2, 3])
def test_all_throws_of_several_lanes_are_those_of_independent_ones(lanes: int, chance: int):
    won, still_open = won_and_open(chance, lanes)
    below = chance >> (DIGITS - TOGETHER)
    for wins in range(lanes + 1):
        for opened in range(lanes + 1 - wins):
            ways = math.comb(lanes, wins) * math.comb(lanes - wins, opened)
            lost = lanes - wins - opened
            exact = ways * below**wins * (2**TOGETHER - 1 - below) ** lost
            assert np.count_nonzero((won == wins) & (still_open == opened)) == exact


@pytest.mark.parametrize("trials", [5, 8, 9, 16, 17, 20, 32, 33, 63, 64])
def test_every_lane_of_a_word_compares_its_own_bits(trials: int):
    width = next(width for width in (8, 16, 32, 64) if width >= trials)
    random = np.random.default_rng(trials)
    throws = random.integers(0, 2**width, (1500, TOGETHER), np.dtype(f"u{width // 8}"))
    p = random.integers(QUARTER, THREE_QUARTERS, 1500, np.uint32) | np.uint32(1)
    lanes = np.arange(trials).astype(throws.dtype)
    bits = (throws[:, :, None] >> lanes) & throws.dtype.type(1)
    values = (bits.astype(np.int64) << np.arange(TOGETHER)[::-1, None]).sum(axis=1)
    top = (p >> np.uint32(DIGITS - TOGETHER)).astype(np.int64)[:, None]
    for rest, wins in ((0xFFFFFFFF, values < top), (0, values <= top)):
        assert (binomial(p, trials, planted(throws, rest)) == wins.sum(axis=1)).all()


@pytest.mark.parametrize("trials", [1, 16, 100])
@pytest.mark.parametrize("draws", [0, 1, 5, 1024, 1025, 33000])
def test_any_number_of_draws_is_taken(draws: int, trials: int):
    counts = binomial(np.full(draws, 1 << 31, np.uint32), trials, stream("some").fill)
    assert counts.shape == (draws,)
    assert counts.max(initial=0) <= trials


def test_random_bytes_are_6_and_a_half_bits_a_trial():
    noise = stream("bytes")
    binomial(np.full(1 << 18, THREE_QUARTERS, np.uint32), 16, noise.fill)
    assert noise.position * 8 / 16 / 2**18 == pytest.approx(6.5, abs=0.01)


# Chances


@settings(max_examples=300)
@given(
    st.floats(-1, 1, width=32),
    st.floats(1e-3, 0.25),
    st.sampled_from([1.0, 0.1, 2.5, 1e-3, 1e6]),
)
def test_chances_are_rounded_towards_one_half(share: float, beta: float, bound: float):
    x = np.array([share * bound, bound, -bound], dtype=np.float32)
    most = math.floor(beta * 2**DIGITS)
    assert Fraction(most, 2**DIGITS) <= Fraction(beta)
    drawn = chances(x, beta / bound * 2**DIGITS, most).astype(np.int64) - int(HALF)
    for value, away in zip(x.tolist(), drawn.tolist(), strict=True):
        exact = Fraction(beta) * Fraction(value) / Fraction(bound) * 2**DIGITS
        assert abs(away) <= min(abs(exact) * (1 + Fraction(1, 2**50)), most)
        assert abs(away - exact) < 1 + abs(exact) / 2**22  # float32 may be beyond the bound
        assert away * value >= 0


@pytest.mark.parametrize("beta", [0.25, 0.15, 0.1, 0.05, 1 / 3 / 4])
def test_no_chance_leaves_the_interval_of_the_account(beta: float):
    seen: list[NDArray[np.uint32]] = []
    mechanism = PoissonBinomial(4, beta, bound=0.1)  # float32 rounds 0.1 up
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "colonnade.privacy.poisson_binomial.binomial",
            lambda chance, trials, fill: (seen.append(chance), np.zeros(2, np.uint16))[1],
        )
        mechanism.counts(torch.tensor([[0.1, -0.1]]), stream("edge"))
    for chance in seen[0].tolist():
        assert abs(Fraction(chance, 2**DIGITS) - Fraction(1, 2)) <= Fraction(beta)


# Poisson binomial


@pytest.mark.parametrize("trials", [1, 4, 16, 65, 256])
@pytest.mark.parametrize("beta", [0.05, 0.25])
def test_estimates_are_unbiased_with_the_variance_of_theory(trials: int, beta: float):
    rows, bound = 200_000, 2.0
    mechanism = PoissonBinomial(trials, beta, bound)
    parties = torch.tensor(
        [[2.0, -2.0, 0.0, 1.4, -0.3], [2.0, 2.0, 0.0, -0.7, 0.1], [2.0, -1.0, 0.0, 0.2, 1.9]]
    )
    name = f"{trials} {beta}"
    counts = [
        mechanism.counts(row.expand(rows, -1), stream(f"{party} {name}"))
        for party, row in enumerate(parties)
    ]
    total = np.sum(counts, axis=0, dtype=np.uint32)
    estimates = mechanism.estimate(total, len(parties)).double()
    exact = parties.double()
    shares = ((beta * exact / bound) ** 2).sum(dim=0)
    variance = (bound / (beta * trials)) ** 2 * trials * (len(parties) / 4 - shares)
    assert (variance <= mechanism.squared_error(3) * (1 + 1e-12)).all()

    errors = estimates - exact.sum(dim=0)
    assert (errors.mean(dim=0).abs() < DEVIATIONS * (variance / rows).sqrt()).all()
    # The excess kurtosis of a sum of coins is 0 or below but for unlikely ones: 2 / rows suffices.
    off = (errors.square().mean(dim=0) / variance - 1).abs()
    assert (off < DEVIATIONS * math.sqrt(2 / rows)).all()


def test_the_same_keystream_gives_the_same_counts():
    x = torch.rand(100, 33, generator=torch.Generator().manual_seed(0)) * 2 - 1
    mechanism = PoissonBinomial(16, 0.2)
    once, again, other = (mechanism.counts(x, stream(name)) for name in ("a", "a", "b"))
    assert (once == again).all()
    assert (once != other).any()
    assert once.shape == (100, 33)
    assert once.dtype == np.uint16


def test_counts_are_of_the_values_however_they_lie_in_memory():
    x = torch.rand(40, 30, generator=torch.Generator().manual_seed(0)) * 2 - 1
    mechanism = PoissonBinomial(16, 0.2)
    counts = mechanism.counts(x.T.contiguous().T.requires_grad_(), stream("a"))
    assert (counts == mechanism.counts(x, stream("a"))).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trials": 0, "beta": 0.1}, "trials must be a whole number from 1 to 65535, not 0"),
        ({"trials": 2.5, "beta": 0.1}, "trials must be a whole number"),
        ({"trials": True, "beta": 0.1}, "trials must be a whole number"),
        ({"trials": 4, "beta": 0.0}, "beta must be a number above 0 and at most 0.25, not 0.0"),
        ({"trials": 4, "beta": 0.26}, "at most 0.25, not 0.26"),
        ({"trials": 4, "beta": float("nan")}, "at most 0.25, not nan"),
        ({"trials": 4, "beta": "much"}, "at most 0.25, not 'much'"),
        ({"trials": 4, "beta": 0.1, "bound": 0}, "bound must be a positive, finite number, not 0"),
        ({"trials": 4, "beta": 0.1, "bound": math.inf}, "bound must be a positive, finite number"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        PoissonBinomial(**settings)


# What every summand does

SUMMANDS: list[Summand] = [
    PoissonBinomial(16, 0.25),
    PoissonBinomial(256, 0.05, bound=3.0),
    FixedPoint(2),
    FixedPoint(16),
    FixedPoint(8, bound=0.1),
]


@pytest.mark.parametrize("summand", SUMMANDS, ids=str)
def test_values_beyond_the_bound_are_refused_with_the_remedy(summand: Any):
    x = torch.zeros(3, 4)
    x[1, 2] = -1.5 * summand.bound
    with pytest.raises(ConfigurationError, match=r"a component beyond the bound .*end in tanh"):
        summand.counts(x, stream("refused"))
    summand.counts(torch.full((1, 1), summand.bound), stream("taken"))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("summand", SUMMANDS, ids=str)
def test_values_that_are_not_finite_are_refused_by_name(summand: Any, value: float):
    x = torch.zeros(3, 4)
    x[2, 1] = value
    noise = stream("refused")
    with pytest.raises(Diverged, match=f"component 1 of row 2 is {value}"):
        summand.counts(x, noise)
    assert noise.position == 0


@pytest.mark.parametrize("summand", SUMMANDS, ids=str)
def test_sums_that_no_counts_have_are_refused(summand: Summand):
    most = np.array([[3 * summand.highest]], dtype=np.uint32)
    summand.estimate(most, 3)
    with pytest.raises(RemoteProtocolError, match="a sum of 3 counts is too large"):
        summand.estimate(most + np.uint32(1), 3)
    with pytest.raises(LocalProtocolError):
        summand.estimate(most, 0)


@pytest.mark.parametrize("summand", SUMMANDS, ids=str)
def test_empty_messages_pass_and_what_is_no_matrix_does_not(summand: Summand):
    counts = summand.counts(torch.zeros(0, 4), stream("none"))
    assert counts.shape == (0, 4)
    assert summand.estimate(counts, 2).shape == (0, 4)
    with pytest.raises(LocalProtocolError, match="takes a matrix"):
        summand.counts(torch.zeros(4), stream("none"))


# Fixed point


@pytest.mark.parametrize("bits", [2, 5, 16])
@pytest.mark.parametrize("bound", [1.0, 0.1, 30.0])
def test_fixed_point_is_off_by_half_a_level_a_party_at_most(bits: int, bound: float):
    summand = FixedPoint(bits, bound)
    generator = torch.Generator().manual_seed(bits)
    parties = [(torch.rand(50, 20, generator=generator) * 2 - 1) * bound for _ in range(5)]
    parties[0][0, :3] = torch.tensor([bound, -bound, 0.0])
    noise = stream("fixed")
    total = np.sum([summand.counts(x, noise) for x in parties], axis=0, dtype=np.uint32)
    assert noise.position == 0
    error = (summand.estimate(total, 5).double() - sum(x.double() for x in parties)).abs()
    assert error.max() <= math.sqrt(summand.squared_error(5)) + 5 * bound * 2**-22


def test_fixed_point_keeps_zero_and_takes_the_bits_that_it_says():
    summand = FixedPoint(8)
    counts = summand.counts(torch.tensor([[0.0, 1.0, -1.0]]), stream("zero"))
    assert summand.estimate(counts, 1).tolist() == [[0.0, 1.0, -1.0]]
    assert counts.max() == summand.highest == 2**8 - 2
    with pytest.raises(ConfigurationError, match="bits must be a whole number from 2 to 16"):
        FixedPoint(1)


# Gaussian


@functools.cache
def noise_of_a_million() -> NDArray[np.float64]:
    mechanism = Gaussian(bound=3.0, multiplier=0.5)
    released = mechanism.perturb(torch.zeros(4096, 255), stream("noise"))
    values: NDArray[np.float64] = released.double().numpy() / mechanism.deviation
    return values


def test_noise_is_normal_with_the_deviation_of_the_sensitivity():
    mechanism = Gaussian(bound=3.0, multiplier=0.5)
    assert (mechanism.sensitivity, mechanism.deviation) == (6.0, 3.0)
    z = noise_of_a_million().reshape(-1)
    assert stats.kstest(z, "norm").pvalue > LEVEL
    edges = np.concatenate([[-np.inf], np.linspace(-4.5, 4.5, 181), [np.inf]])
    observed = np.histogram(z, edges)[0]
    assert grouped(observed, np.diff(stats.norm.cdf(edges)) * len(z)) > LEVEL


@pytest.mark.parametrize("apart", [1, 2, 255, 8192, 16384])
def test_noise_is_independent_from_component_to_component(apart: int):
    z = noise_of_a_million().reshape(-1)
    for first, second in ((z, z), (z**2 - 1, z**2 - 1), (z, z**2 - 1)):
        products = first[:-apart] * second[apart:]
        assert abs(products.mean()) < DEVIATIONS * products.std() / math.sqrt(len(products))


@pytest.mark.parametrize("wrong", [2.0, 1.02])
def test_the_noise_test_catches_a_wrong_deviation(wrong: float):
    assert stats.kstest(noise_of_a_million().reshape(-1) * wrong, "norm").pvalue < LEVEL


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 7.7])
def test_all_that_is_released_lies_on_one_grid(multiplier: float):
    mechanism = Gaussian(bound=1.0, multiplier=multiplier)
    step = 2.0 ** (math.floor(math.log2(mechanism.deviation)) - 20)
    x = torch.randn(64, 33, generator=torch.Generator().manual_seed(0))
    points = mechanism.perturb(x, stream("grid")).double() / step
    assert (points == points.round()).all()
    assert (points % 2 == 1).any()
    assert points.abs().max() < 2**24  # so float32 holds them as they are


def without_noise(mechanism: Gaussian, x: torch.Tensor) -> torch.Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "colonnade.privacy.gaussian.rounded_normal",
            lambda count, deviation, noise: torch.zeros(count, dtype=torch.float64),
        )
        return mechanism.perturb(x, stream("none"))


@pytest.mark.parametrize("bound", [1.0, 0.1, 5.0])
def test_rows_are_clipped_and_none_is_longer_than_the_bound(bound: float):
    mechanism = Gaussian(bound, multiplier=1.0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(500, 256, generator=generator) * torch.logspace(-6, 6, 500)[:, None]
    x[0] = 0
    x[1] = bound / 16  # of norm C
    rows = without_noise(mechanism, x).double()
    norms = rows.norm(dim=1)
    assert (norms <= bound).all()
    short = x.double().norm(dim=1) < bound
    step = mechanism.deviation * 2**-20
    assert (rows - x)[short].abs().max() <= step
    assert (norms[~short] > bound * (1 - 2**-14)).all()
    cosine = torch.nn.functional.cosine_similarity(rows[~short], x.double()[~short])
    assert (cosine > 1 - 1e-6).all()


def test_no_gradient_flows_through_what_is_released():
    x = torch.ones(2, 3, requires_grad=True)
    released = Gaussian(bound=1.0, multiplier=0.01).perturb(x, stream("gradient"))
    assert not released.requires_grad
    assert torch.equal(x, torch.ones(2, 3))


def test_the_same_keystream_gives_the_same_noise():
    x = torch.rand(70, 257, generator=torch.Generator().manual_seed(0))
    mechanism = Gaussian(1.0, 2.0)
    once, again, other = (mechanism.perturb(x, stream(name)) for name in ("a", "a", "b"))
    assert torch.equal(once, again)
    assert (once != other).float().mean() > 0.99
    assert once.dtype == torch.float32
    assert mechanism.perturb(torch.zeros(0, 3), stream("a")).shape == (0, 3)


@pytest.mark.parametrize("count", [1, 2, 3, 16384, 16385, 40000])
def test_any_number_of_normal_draws_is_taken(count: int):
    noise = stream("normal")
    drawn = normals.rounded_normal(count, 1000.0, noise)
    assert drawn.shape == (count,)
    assert noise.position == 16 * -(-count // 2)
    assert torch.equal(drawn, drawn.round())


def test_the_longest_and_shortest_draws_are_finite():
    class Ends:
        def __init__(self, byte: int) -> None:
            self.byte = byte

        def fill(self, words: NDArray[Any]) -> None:
            words.view(np.uint8)[...] = self.byte

    longest: Sequence[float] = normals.rounded_normal(2, 1.0 * 2**20, Ends(0)).tolist()
    assert max(map(abs, longest)) == round(math.sqrt(130 * math.log(2)) * 2**20)
    assert normals.rounded_normal(2, 2.0**20, Ends(255)).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("bound", "multiplier", "message"),
    [
        (0.0, 1.0, "bound must be a positive, finite number, not 0.0"),
        (1.0, 0.0, "multiplier must be a number above 1e-06 and at most 1e"),
        (1.0, math.nan, "multiplier must be a number above 1e-06"),
        (1.0, -1.0, "multiplier must be a number above 1e-06"),
    ],
)
def test_impossible_noise_is_refused(bound: float, multiplier: float, message: str):
    with pytest.raises(ConfigurationError, match=message):
        Gaussian(bound, multiplier)


def test_rows_that_are_not_finite_are_refused_by_name():
    with pytest.raises(Diverged, match="component 1 of row 0 is nan"):
        Gaussian(1.0, 1.0).perturb(torch.tensor([[0.0, math.nan]]), stream("refused"))
    with pytest.raises(LocalProtocolError, match="takes a matrix"):
        Gaussian(1.0, 1.0).perturb(torch.zeros(3), stream("refused"))


def test_a_calibrated_mechanism_is_the_loudest_that_keeps_to_its_epsilon():
    asked = {"epsilon": 2.0, "delta": 1e-5, "uses": 5, "parties": 3, "width": 4, "trials": 4}
    found = PoissonBinomial.calibrated(**asked, bound=2.0)
    assert (found.trials, found.bound) == (4, 2.0)
    louder = PoissonBinomial(4, found.beta + 1e-5)
    quiet, loud = (
        Spending({each.event(3, 4): 5}).epsilon_by_renyi(1e-5).renyi for each in (found, louder)
    )
    assert quiet <= 2.0 < loud
    assert Spending({found.event(3, 4): 5}).epsilon(1e-5).value <= 2.0
    assert PoissonBinomial.calibrated(**(asked | {"epsilon": 1e3})).beta == 0.25
    with pytest.raises(ConfigurationError, match="no beta is small enough for 5 uses"):
        PoissonBinomial.calibrated(**(asked | {"epsilon": 0.0}))
