"""The account of privacy: against enumeration, closed forms and defining inequalities."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from math import erf, exp, inf, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from colonnade.checkpoints import decode_state, encode_state
from colonnade.errors import CheckpointError, ConfigurationError, LocalProtocolError
from colonnade.kernels.binomial_sums import hockey_sticks_of_sums, log_of_sum
from colonnade.privacy import (
    BinomialSum,
    Budget,
    GaussianNoise,
    RowUses,
    Spending,
    Unprotected,
    asymptotic_renyi,
    binomial_sum,
    gaussian_multiplier,
)
from colonnade.privacy.accountant import ORDERS
from colonnade.privacy.gaussian_noise import gaussian_epsilon, gaussian_log_delta

ALPHAS = np.array([1.05, 1.5, 2.0, 5.0, 20.0, 200.0])
SMALL = [
    (1, 1, 0.25),
    (1, 2, 0.1),
    (1, 3, 0.25),
    (2, 2, 0.2),
    (2, 3, 0.25),
    (3, 2, 0.05),
    (4, 1, 0.1),
]


def law_of_sum(trials, probabilities):
    """Return the law of the sum of independent Binomial(trials, p), by plain convolution."""
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, binom.pmf(np.arange(trials + 1), trials, p))
    return law


def divergences(p, q, orders=ALPHAS):
    """Return Renyi divergences by their definition."""
    p, q, a = np.log(p), np.log(q), np.asarray(orders)[:, None]
    exponents = a * p + (1 - a) * q
    most = exponents.max(axis=1, keepdims=True)
    return (most[:, 0] + np.log(np.exp(exponents - most).sum(axis=1))) / (a[:, 0] - 1)


def stick(p, q, epsilon):
    return np.maximum(0, p - exp(epsilon) * q).sum()


def configurations(trials, terms, values):
    """Yield laws of the sum with two values of one party's probability, whatever the others'."""
    for others in itertools.combinations_with_replacement(values, terms - 1):
        for one, other in itertools.permutations(values, 2):
            yield law_of_sum(trials, (one, *others)), law_of_sum(trials, (other, *others))


# What one sum discloses of one party's value


@pytest.mark.parametrize(("trials", "terms", "beta"), SMALL)
def test_the_curve_is_that_of_all_extreme_configurations(trials, terms, beta):
    found = BinomialSum(trials, beta, terms).renyi(ALPHAS)
    ends = (0.5 - beta, 0.5 + beta)
    worst = np.max([divergences(p, q) for p, q in configurations(trials, terms, ends)], axis=0)
    np.testing.assert_allclose(found, worst, rtol=1e-9)


@pytest.mark.parametrize(("trials", "terms", "beta"), SMALL)
def test_the_bound_is_that_of_all_coins_with_ends_of_their_own(trials, terms, beta):
    """The relaxation that is proven: every coin, also of the party that changes, is at an end."""
    low, high = 0.5 - beta, 0.5 + beta
    worst = np.zeros(len(ALPHAS))
    for likely in range((terms - 1) * trials + 1):
        others = (high,) * likely + (low,) * ((terms - 1) * trials - likely)
        for one, other in itertools.permutations(range(trials + 1), 2):
            p = law_of_sum(1, (*others, *(high,) * one, *(low,) * (trials - one)))
            q = law_of_sum(1, (*others, *(high,) * other, *(low,) * (trials - other)))
            worst = np.maximum(worst, divergences(p, q))
    np.testing.assert_allclose(BinomialSum(trials, beta, terms).renyi(ALPHAS), worst, rtol=1e-9)


@pytest.mark.parametrize(("trials", "terms", "beta"), [*SMALL, (2, 4, 0.25), (4, 3, 0.15)])
def test_no_interior_configuration_exceeds_the_curve(trials, terms, beta):
    found = BinomialSum(trials, beta, terms).renyi(ALPHAS)
    for p, q in configurations(trials, terms, np.linspace(0.5 - beta, 0.5 + beta, 5)):
        assert (divergences(p, q) <= found * (1 + 1e-9)).all()


@pytest.mark.parametrize(("trials", "terms", "beta"), SMALL)
def test_no_interior_configuration_exceeds_the_profile(trials, terms, beta):
    """Delta at every epsilon, also a negative one, which matters as soon as uses are composed."""
    epsilons = np.linspace(-1.5, 3, 31)
    found = hockey_sticks_of_sums(trials, (terms - 1) * trials, beta, epsilons)
    ends, worst = (0.5 - beta, 0.5 + beta), np.zeros(len(epsilons))
    for p, q in configurations(trials, terms, np.linspace(*ends, 5)):
        sticks = np.array([stick(p, q, e) for e in epsilons])
        worst = np.maximum(worst, sticks)
        assert (sticks <= found + 1e-13).all()
    if trials == 1:
        np.testing.assert_allclose(found, worst, atol=1e-13)


def test_either_direction_is_covered_and_they_differ():
    """With the others' coins fixed, the two directions differ: the bound is the larger one."""
    low, high = 0.25, 0.75
    p, q = law_of_sum(2, (high, high, high)), law_of_sum(2, (low, high, high))
    one, other = divergences(p, q), divergences(q, p)
    assert (one > other * 1.05)[:4].all()
    np.testing.assert_allclose(BinomialSum(2, 0.25, 3).renyi(ALPHAS), np.maximum(one, other))
    # All coins of the others unlikely: it is the other direction that is the worst.
    p, q = law_of_sum(2, (high, low, low)), law_of_sum(2, (low, low, low))
    np.testing.assert_allclose(BinomialSum(2, 0.25, 3).renyi(ALPHAS), divergences(q, p))


@pytest.mark.parametrize("planted", ["beta doubled", "others unlikely, one direction"])
def test_mistakes_are_caught(planted):
    """What the two tests above would say of an account that is wrong in the usual ways."""
    trials, terms, beta = 2, 3, 0.1
    ends = (0.5 - beta, 0.5 + beta)
    worst = np.max([divergences(p, q) for p, q in configurations(trials, terms, ends)], axis=0)
    if planted == "beta doubled":
        wrong = BinomialSum(trials, 2 * beta, terms).renyi(ALPHAS)
    else:
        p, q = log_of_sum(trials, trials * terms, beta), log_of_sum(0, trials * terms, beta)
        wrong = divergences(np.exp(p), np.exp(q))
    assert (abs(wrong / worst - 1) > 1e-3).all()


def test_one_term_is_a_binomial_against_a_binomial():
    high, low = 0.7, 0.3
    one = np.log(high**ALPHAS * low ** (1 - ALPHAS) + low**ALPHAS * high ** (1 - ALPHAS)) / (
        ALPHAS - 1
    )
    np.testing.assert_allclose(BinomialSum(16, 0.2, 1).renyi(ALPHAS), 16 * one, rtol=1e-10)
    sample = BinomialSum(16, 0.2, 7, components=3, adjacency="sample")
    np.testing.assert_allclose(sample.renyi(ALPHAS), 3 * 7 * 16 * one, rtol=1e-10)


def test_no_sample_discloses_more_than_its_coins_one_by_one():
    values = np.linspace(0.3, 0.7, 4)
    found = BinomialSum(2, 0.2, 3, adjacency="sample").renyi(ALPHAS)
    for one in itertools.combinations_with_replacement(values, 3):
        for other in itertools.combinations_with_replacement(values, 3):
            assert (divergences(law_of_sum(2, one), law_of_sum(2, other)) <= found + 1e-9).all()


def test_figures_that_were_known():
    """Per component, b = 16, beta = .1, alpha = 2."""

    def of(terms, adjacency):
        return float(BinomialSum(16, 0.1, terms, adjacency=adjacency).renyi([2.0])[0])

    assert round(of(4, "party"), 2) == 0.68
    assert round(of(28, "party"), 3) == 0.096
    assert round(of(4, "sample"), 1) == 9.9
    assert round(of(28, "sample")) == 69


@pytest.mark.parametrize("terms", [4, 28])
def test_small_beta_reaches_the_constant_of_the_asymptotic(terms):
    event = BinomialSum(16, 0.01, terms)
    figure = asymptotic_renyi(
        rounds=1, batch=1, trials=16, beta=0.01, order=2.0, parties=terms, rows=1
    )
    assert event.renyi([2.0])[0] / figure == pytest.approx(8, rel=0.01)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 6), st.floats(0.001, 0.25))
def test_the_curve_grows_with_order_and_falls_with_terms(trials, terms, beta):
    curve = BinomialSum(trials, beta, terms).renyi([*ORDERS, inf])
    assert (np.diff(curve) >= -1e-9 * curve[1:]).all()
    assert (curve > 0).all()
    assert curve[-1] == pytest.approx(trials * log((0.5 + beta) / (0.5 - beta)))
    more = BinomialSum(trials, beta, terms + 1).renyi([*ORDERS, inf])
    assert (more <= curve * (1 + 1e-9)).all()
    np.testing.assert_array_equal(
        BinomialSum(trials, beta, terms, components=5).renyi(ORDERS), 5 * curve[:-1]
    )


@pytest.mark.parametrize(("high", "total", "beta"), [(0, 40, 0.25), (40, 40, 0.2), (13, 60, 0.01)])
def test_probabilities_of_sums_are_exact(high, total, beta):
    law = law_of_sum(1, (0.5 + beta,) * high + (0.5 - beta,) * (total - high))
    np.testing.assert_allclose(np.exp(log_of_sum(high, total, beta)), law, rtol=1e-12)


def test_large_sums_keep_their_mass_and_mean():
    for high in (0, 2000, 8000):
        law = np.exp(log_of_sum(high, 8000, 0.25))
        assert law.sum() == pytest.approx(1, abs=1e-11)
        assert law @ np.arange(8001) == pytest.approx(0.75 * high + 0.25 * (8000 - high))


def test_what_cannot_be_is_refused():
    for beta in (0, -0.1, 0.26, nan):
        with pytest.raises(ConfigurationError, match="beta"):
            BinomialSum(4, beta, 4)
    for changed in ({"trials": 0}, {"terms": -1}, {"components": 1.5}, {"trials": True}):
        with pytest.raises(ConfigurationError, match="whole number"):
            BinomialSum(**{"trials": 4, "beta": 0.1, "terms": 4} | changed)
    with pytest.raises(ConfigurationError, match="'party' or 'sample'"):
        BinomialSum(4, 0.1, 4, adjacency="row")
    with pytest.raises(ConfigurationError, match="above 1"):
        BinomialSum(4, 0.1, 4).renyi([1.0])
    for multiplier in (-1.0, nan):
        with pytest.raises(ConfigurationError, match="multiplier"):
            GaussianNoise(multiplier)


@pytest.mark.parametrize(("trials", "terms"), [(32, 4), (33, 4), (5, 70), (1, 70)])
@pytest.mark.parametrize("adjacency", ["party", "sample"])
@pytest.mark.parametrize("beta", [0.02, 0.25])
def test_many_coins_are_bounded_in_groups(trials, terms, adjacency, beta, monkeypatch):
    """By a little more than what enumeration finds, and never by less."""
    event, orders = BinomialSum(trials, beta, terms, 3, adjacency), np.array([1.1, 2.0, 30.0, inf])
    exact, at_all = event.renyi(orders), event.losses(2, 0.01).get_epsilon_for_delta(1e-5)
    monkeypatch.setattr(binomial_sum, "_MOST_COINS", 64)
    assert len(event._groups) in (1, 2)
    assert event.draws > 3 or trials == 1
    bound = event.renyi(orders)
    assert np.all(bound >= exact * (1 - 1e-12))
    assert np.all(bound <= exact * (1.02 if trials > 5 else 1.6))
    losses = event.losses(2, 0.01).get_epsilon_for_delta(1e-5)
    assert at_all - 1e-9 <= losses <= at_all * (1.03 if trials > 5 else 1.6)


def test_as_many_coins_as_a_mechanism_throws_are_accounted_for():
    one, all_of_them = BinomialSum(4, 0.25, 4).renyi([2.0]), BinomialSum(4096, 0.25, 4).renyi([2.0])
    assert all_of_them == pytest.approx(1024 * one, rel=0.1)
    assert Spending({BinomialSum(4096, 0.25, 4): 10}).epsilon(1e-5).value < 7920


def test_who_colludes_takes_values_off():
    event = BinomialSum(4, 0.1, 3, components=2)
    assert event.seen_by(0) == event
    assert event.seen_by(2) == BinomialSum(4, 0.1, 1, components=2)
    for colluding in (3, -1):
        with pytest.raises(ConfigurationError, match="be left: account for 0 to 2"):
            event.seen_by(colluding)
    assert (event.seen_by(1).renyi(ORDERS) > event.renyi(ORDERS)).all()
    whole = event.under("sample")
    assert (whole.seen_by(1).renyi(ORDERS) < whole.renyi(ORDERS)).all()
    spent = Spending({event: 3, GaussianNoise(2.0, terms=3): 1})
    assert spent.seen_by(1) == Spending({event.seen_by(1): 3, GaussianNoise(2.0, terms=2): 1})
    assert spent.under("sample").under("party") == spent


# Gaussian noise


def test_gaussian_noise_has_the_closed_form():
    np.testing.assert_allclose(GaussianNoise(2.5).renyi(ALPHAS), ALPHAS / (2 * 2.5**2))
    whole = GaussianNoise(2.5, terms=4, adjacency="sample")
    np.testing.assert_allclose(whole.renyi(ALPHAS), 4 * ALPHAS / (2 * 2.5**2))
    assert GaussianNoise(0.0).renyi([2, inf]).tolist() == [inf, inf]
    assert GaussianNoise(inf).renyi([2, inf]).tolist() == [0, 0]


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_the_smallest_multiplier_satisfies_its_inequality_and_no_smaller_does(epsilon, delta):
    def spent(m):
        u, v = epsilon * m - 1 / (2 * m), epsilon * m + 1 / (2 * m)
        return exp(norm.logcdf(-u)) - exp(epsilon + norm.logcdf(-v))

    found = gaussian_multiplier(epsilon, delta)
    assert spent(found) <= delta * (1 + 1e-6) + 1e-15
    assert spent(found * (1 - 1e-3)) > delta * (1 + 1e-6)
    assert gaussian_epsilon(1 / found, delta) <= epsilon
    assert gaussian_multiplier(epsilon, delta, uses=9) == pytest.approx(3 * found)


def test_gaussian_delta_against_closed_forms_and_far_tails():
    assert exp(gaussian_log_delta(1.5, 0.0)) == pytest.approx(erf(1.5 / 2 / sqrt(2)))
    assert gaussian_log_delta(0.01, 1.0) == pytest.approx(-5014.234761483739)  # mpmath, 400 digits
    assert gaussian_log_delta(40, 900) == pytest.approx(-5.150334925593307)
    assert (gaussian_log_delta(0.0, 1.0), gaussian_log_delta(inf, 1.0)) == (-inf, 0.0)


def test_a_calibration_that_is_none_is_refused():
    for epsilon, delta in [(-1, 1e-5), (inf, 1e-5), (nan, 1e-5), (1, 0), (1, 1), (1, nan)]:
        with pytest.raises(ConfigurationError, match="no noise is calibrated"):
            gaussian_multiplier(epsilon, delta)
    with pytest.raises(ConfigurationError, match="uses is 0"):
        gaussian_multiplier(1.0, 1e-5, uses=0)


# Many uses


def exact_epsilon(coins, beta, delta):
    """Return epsilon of ``coins`` coins of which all change: the sum is all there is to see."""
    x = np.arange(coins + 1)
    mass, losses = (
        binom.pmf(x, coins, 0.5 + beta),
        (2 * x - coins) * log((0.5 + beta) / (0.5 - beta)),
    )
    low, high = 0.0, float(losses[-1])
    for _ in range(100):
        middle = (low + high) / 2
        more = losses > middle
        spent = (mass[more] * -np.expm1(middle - losses[more])).sum()
        low, high = (middle, high) if spent > delta else (low, middle)
    return high


@pytest.mark.parametrize(("coins", "beta"), [(16, 0.1), (1280, 0.05), (2000, 0.01)])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 0.01])
def test_losses_compose_to_the_exact_epsilon_from_above(coins, beta, delta):
    exact = exact_epsilon(coins, beta, delta)
    for spent in (
        Spending({BinomialSum(1, beta, 1): coins}),
        Spending({BinomialSum(1, beta, 1, components=coins // 16): 16}),
        Spending({BinomialSum(4, beta, 4, components=coins // 16, adjacency="sample"): 1}),
    ):
        found = spent.epsilon(delta)
        assert exact - 1e-9 <= found.losses <= exact * 1.002 + 1e-4
        assert found.renyi >= exact


@pytest.mark.parametrize(("trials", "terms", "beta"), [(4, 4, 0.1), (16, 4, 0.1), (8, 12, 0.25)])
def test_epsilon_lies_between_one_configuration_and_renyi(trials, terms, beta):
    """Below it is what is disclosed with the others' coins all likely, of one use and of two."""
    delta = 1e-4
    p = np.exp(log_of_sum(trials * terms, trials * terms, beta))
    q = np.exp(log_of_sum(trials * (terms - 1), trials * terms, beta))
    event = BinomialSum(trials, beta, terms)
    for uses, first, second in [(1, p, q), (2, np.outer(p, p).ravel(), np.outer(q, q).ravel())]:
        found = Spending({event: uses}).epsilon(delta)
        assert stick(first, second, found.value * (1 + 1e-9)) <= delta
        assert stick(first, second, found.value * 0.97) > delta
        assert found.losses < found.renyi
        assert found.by == "losses"
        assert found.value == found.losses


def test_others_may_hold_different_values_at_each_use():
    """Two uses with different configurations of the others, in either direction: still covered."""
    trials, terms, beta, delta = 2, 3, 0.25, 1e-3
    found = Spending({BinomialSum(trials, beta, terms): 2}).epsilon(delta).value
    ends = (0.25, 0.75)
    pairs = list(configurations(trials, terms, ends))
    worst = max(
        stick(np.outer(p, r).ravel(), np.outer(q, s).ravel(), found)
        for (p, q), (r, s) in itertools.product(pairs, pairs)
    )
    assert worst <= delta


def test_spending_adds_up():
    a, b = BinomialSum(4, 0.1, 4), BinomialSum(4, 0.1, 3, components=2)
    one, two = Spending({a: 2}), Spending({a: 1, b: 3})
    assert one + two == Spending({a: 3, b: 3}) == sum([one, two], Spending())
    assert hash(one + two) == hash(two + one)
    assert 2 * two == Spending({a: 2, b: 6}) == two * 2
    assert Spending({a: 0}) == Spending()
    assert not Spending({a: 0})
    assert pickle.loads(pickle.dumps(two)) == two
    np.testing.assert_allclose((one + two).renyi(ORDERS), one.renyi(ORDERS) + two.renyi(ORDERS))
    components = Spending({BinomialSum(4, 0.1, 4, components=6): 1})
    assert components.epsilon(1e-5).value == pytest.approx(Spending({a: 6}).epsilon(1e-5).value)
    with pytest.raises(ConfigurationError, match="each adjacency by itself"):
        one + one.under("sample")
    with pytest.raises(ConfigurationError, match="at least 0"):
        Spending({a: -1})


def test_epsilon_grows_with_uses_and_falls_with_delta():
    event = BinomialSum(4, 0.1, 4, components=4)
    by_uses = [Spending({event: n}).epsilon(1e-5).value for n in (1, 2, 3, 10, 100)]
    assert by_uses == sorted(by_uses)
    by_delta = [Spending({event: 3}).epsilon(d).value for d in (0, 1e-12, 1e-5, 0.1, 0.999)]
    assert by_delta == sorted(by_delta, reverse=True)


def test_gaussians_alone_are_exact_and_together_with_sums_are_covered():
    noise, sums = GaussianNoise(4.0), BinomialSum(4, 0.05, 4)
    found = Spending({noise: 3, GaussianNoise(6.0): 2}).epsilon(1e-5)
    assert found.losses == pytest.approx(gaussian_epsilon(sqrt(3 / 16 + 2 / 36), 1e-5))
    both = Spending({noise: 3, sums: 2}).epsilon(1e-5)
    assert both.value > Spending({noise: 3}).epsilon(1e-5).value
    assert both.losses < both.renyi


def test_edges():
    event = BinomialSum(4, 0.1, 4)
    assert Spending().epsilon(0).value == Spending().epsilon(1e-5).value == 0
    assert Spending({Unprotected(): 1}).epsilon(1e-5).value == inf
    assert Spending({Unprotected(): 1, event: 2}).epsilon(0.5).value == inf
    assert Spending({GaussianNoise(0.0): 1}).epsilon(1e-5).value == inf
    assert Spending({GaussianNoise(inf): 10}).epsilon(0).value == 0
    assert Spending({GaussianNoise(1.0): 1}).epsilon(0).value == inf
    assert Spending({GaussianNoise(inf): 1, event: 1}).epsilon(1e-5).losses is not None
    # Sums are bounded: they have an epsilon without a delta, which is what no delta can exceed.
    pure = Spending({event: 3}).epsilon(0)
    assert (pure.value, pure.order) == (pytest.approx(3 * 4 * log(0.6 / 0.4)), inf)
    assert Spending({event: 3}).epsilon(1e-300).value <= pure.value
    for delta in (-0.1, 1.0, nan):
        with pytest.raises(ConfigurationError, match="delta"):
            Spending({event: 1}).epsilon(delta)
    many = Spending({BinomialSum(16, 0.25, 2, components=256): 10**9}).epsilon(1e-5)
    assert many.losses is None
    assert 0 < many.value < inf


@settings(max_examples=12)
@given(st.floats(1e-4, 0.25), st.integers(1, 10**7), st.floats(0, 0.9), st.integers(1, 64))
@example(0.15234375, 49, 0.25, 61)  # of which a loss has so small a mass that a quotient overflows
def test_epsilon_is_never_no_number(beta, uses, delta, components):
    found = Spending({BinomialSum(2, beta, 2, components): uses}).epsilon(delta)
    assert 0 <= found.value < inf
    assert 0 <= found.renyi < inf


# Rows, and budgets

EVENTS = [BinomialSum(2, 0.1, 4), BinomialSum(2, 0.1, 3), GaussianNoise(8.0)]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 5), max_size=8)), max_size=12),
    st.lists(st.integers(0, 5), max_size=6),
)
def test_uses_of_rows_are_those_of_a_plain_loop(added, asked):
    uses, plain = RowUses(6), [Counter() for _ in range(6)]
    for event, rows in added:
        uses.add(EVENTS[event], np.array(rows, dtype=np.int64))
        for row in rows:
            plain[row][EVENTS[event]] += 1
    spent = [Spending(dict(counter)) for counter in plain]
    assert [uses.spending(row) for row in range(6)] == spent
    of_asked = [spent[row] for row in asked] or [Spending()]

    def contains(more, less):
        return all(more.uses.get(event, 0) >= count for event, count in less)

    maximal = {a for a in of_asked if not any(contains(b, a) and a != b for b in of_asked)}
    worst = uses.worst(asked)
    assert all(contains(worst, one) for one in of_asked)
    assert worst in maximal or len(maximal) > 1
    highest = max(one.epsilon(1e-5).value for one in of_asked)
    most, found = uses.largest(1e-5, asked)
    if len(maximal) <= 4:
        assert most in of_asked
        assert found == most.epsilon(1e-5)
        assert found.value == highest
    assert highest <= found.value <= worst.epsilon_by_renyi(1e-5).renyi + 1e-9
    assert worst.epsilon(1e-5).value >= highest - 1e-9

    again = RowUses(6)
    again.load_state_dict(decode_state(encode_state(uses.state_dict())), uses.events)
    assert [again.spending(row) for row in range(6)] == spent


def test_counts_widen_when_they_have_to():
    uses, event = RowUses(3), EVENTS[0]
    for _ in range(300):
        uses.add(event, [1])
    assert uses.worst() == Spending({event: 300})
    uses.add(event, np.full(70_000, 2))
    assert [uses.spending(row) for row in range(3)] == [
        Spending(),
        Spending({event: 300}),
        Spending({event: 70_000}),
    ]
    assert RowUses(2).worst() == Spending() == RowUses(2).worst([1])


def test_many_rows_that_differ_have_a_bound_together():
    uses = RowUses(40)
    for row in range(40):
        for event, count in ((EVENTS[0], row), (EVENTS[1], 39 - row)):
            for _ in range(count):
                uses.add(event, [row])
    assert uses.worst() == Spending({EVENTS[0]: 39, EVENTS[1]: 39})
    bound = uses.epsilon(1e-5)
    rows = [uses.spending(row) for row in range(40)]
    assert max(spent.epsilon(1e-5).value for spent in rows) <= bound.value
    assert bound.value == max(spent.epsilon_by_renyi(1e-5).renyi for spent in rows[4:])
    assert bound.value < uses.worst().epsilon(1e-5).value


def test_what_many_rows_spent_takes_few_distributions(monkeypatch):
    """As with contributors that change: each row has had other terms."""
    tried = []
    losses = Spending._by_losses
    monkeypatch.setattr(Spending, "_by_losses", lambda *a: tried.append(1) or losses(*a))
    uses, random = RowUses(400), np.random.default_rng(0)
    for _ in range(8):
        for terms in range(4, 9):
            uses.add(BinomialSum(2, 0.03, terms), random.permutation(400)[:300])
    found = uses.epsilon(1e-6).value
    assert 1 <= len(tried) <= 5
    by_renyi = max(uses.spending(row).epsilon_by_renyi(1e-6).renyi for row in range(400))
    assert found == pytest.approx(by_renyi, rel=0.1)
    assert found <= by_renyi


def test_rows_without_a_bound_are_told_apart():
    uses = RowUses(3)
    assert uses.bounded(1e-5).rows == 3
    uses.add(EVENTS[0], [0, 1])
    uses.add(Unprotected(), [1])
    assert uses.epsilon(1e-5).value == inf
    assert uses.bounded(1e-5).rows == 2
    assert uses.bounded(1e-5).largest(1e-5)[0] == Spending({EVENTS[0]: 1})


@pytest.mark.parametrize("view", [lambda s: s, lambda s: s.seen_by(1), lambda s: s.under("sample")])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_the_largest_is_that_of_rows_one_by_one(view, delta):
    spent = [
        Spending({BinomialSum(4, 0.1, 4): 3}),
        Spending({BinomialSum(4, 0.1, 4): 1, BinomialSum(4, 0.1, 2): 2}),
        Spending({BinomialSum(4, 0.1, 4): 1, BinomialSum(4, 0.1, 2): 1}),
    ]
    uses = RowUses.of(spent)
    assert [uses.spending(row) for row in range(3)] == spent
    most, found = uses.largest(delta, view=view)
    assert most in map(view, spent)
    assert found == most.epsilon(delta)
    assert found == max((view(each).epsilon(delta) for each in spent), key=lambda e: e.value)
    assert {*uses.spendings(delta)} == {*spent[:2]}  # the third row was used less than the second


def test_rows_and_states_that_do_not_fit_are_refused():
    uses = RowUses(3)
    for rows in ([3], [-1], [0.5]):
        with pytest.raises(LocalProtocolError, match="0 to 2"):
            uses.add(EVENTS[0], rows)
    uses.add(EVENTS[0], [0])
    with pytest.raises(CheckpointError, match="of 3 rows"):
        RowUses(4).load_state_dict(uses.state_dict(), uses.events)


@pytest.mark.parametrize("event", [BinomialSum(4, 0.05, 4, components=4), GaussianNoise(5.0)])
def test_a_budget_is_used_up_and_never_exceeded(event):
    budget, spent = Budget(3.0, 1e-5), Spending({event: 2})
    uses = budget.uses(event, spent)
    assert uses > 0
    assert budget.uses(event) == uses + 2
    assert budget.affords(spent + Spending({event: uses}))
    assert not budget.affords(spent + Spending({event: uses + 1}))
    assert (spent + Spending({event: uses})).epsilon(1e-5).value <= 3.0
    by_renyi = Spending({event: uses}).epsilon_by_renyi(1e-5).renyi
    assert by_renyi > Spending({event: uses}).epsilon(1e-5).value


def test_budgets_at_their_edges():
    assert Budget(8.0, 1e-5).uses(GaussianNoise(gaussian_multiplier(8.0, 1e-5, uses=37))) == 37
    assert Budget(8.0, 1e-5).uses(Unprotected()) == 0
    assert Budget(inf, 1e-5).affords(Spending({Unprotected(): 1}))
    assert Budget(0.0, 1e-5).uses(BinomialSum(64, 0.25, 1)) == 0
    assert Budget(0.0, 0.0).affords(Spending())
    assert Budget(1.0, 0.0).uses(BinomialSum(1, 0.1, 4)) == int(1 / log(0.6 / 0.4))
    assert Budget(1.0, 1e-5).uses(GaussianNoise(inf)) == 2**40
    over = Spending({BinomialSum(64, 0.25, 1): 1})
    assert Budget(1.0, 1e-5).uses(BinomialSum(1, 0.01, 4), over) == 0
    for epsilon, delta in [(-1.0, 1e-5), (nan, 1e-5), (1.0, 1.0), (1.0, nan)]:
        with pytest.raises(ConfigurationError, match="give a number"):
            Budget(epsilon, delta)


@pytest.mark.parametrize("wrong", ["5", None, True, [1]])
def test_what_is_no_number_is_refused_in_a_sentence(wrong):
    for make in (
        lambda: Budget(wrong, 1e-5),
        lambda: Budget(1.0, wrong),
        lambda: Spending().epsilon(wrong),
        lambda: GaussianNoise(wrong),
        lambda: gaussian_multiplier(wrong, 1e-5),
        lambda: gaussian_multiplier(1.0, wrong),
        lambda: BinomialSum(4, wrong, 4),
    ):
        with pytest.raises(ConfigurationError, match="give a"):
            make()


def test_noise_of_any_size_has_an_epsilon():
    assert Spending({GaussianNoise(1e-200): 3}).epsilon(1e-5).value == inf
    assert Spending({GaussianNoise(1e200): 3}).epsilon(1e-5).value < 1e-9
    assert GaussianNoise(1e200).renyi([2.0, inf]).tolist() == [0.0, inf]


def test_uses_beyond_counting_are_refused():
    with pytest.raises(ConfigurationError, match=r"at least 0 and below 2\^64"):
        Spending({EVENTS[0]: 10**400})
    with pytest.raises(ConfigurationError, match=r"below 2\^64"):
        gaussian_multiplier(1.0, 1e-5, uses=10**400)
    assert Spending({GaussianNoise(1e6): 2**60}).epsilon(1e-5).value > 0


def test_the_papers_figure():
    figure = asymptotic_renyi(
        rounds=600, batch=100, trials=16, beta=0.1, order=2, parties=4, rows=6000
    )
    assert figure == pytest.approx(10 * 16 * 0.01 * 2 / 4)
