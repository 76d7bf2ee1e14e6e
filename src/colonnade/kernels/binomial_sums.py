"""How far apart two sums of coins are, where some coins changed from unlikely to likely.

Of ``total`` independent coins ``high`` fall heads with probability h = 1/2 + beta, the others with
l = 1/2 - beta. The number of heads G(high) has the generating function f(z) = (l + h z)^high
(h + l z)^(total - high), and from (h + l z)(l + h z) f' = (high h (h + l z) + ...) f follows, with
m = total - high,

    h l (x + 1) G_{x+1} = (m l^2 + high h^2 - (h^2 + l^2) x) G_x + h l (total - x + 1) G_{x-1}.

All terms are positive up to the x where the bracket changes its sign, and beyond it where one
counts tails instead: so running inwards from both ends, whose probabilities are known, never
subtracts, and each ratio of neighbours is exact to a few units of its last place. Logarithms of the
ratios are added up with compensation (Kahan, 1965).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["hockey_sticks_of_sums", "log_of_sum", "renyi_of_sums"]

_SMALL = 30.0  # exponents whose differences from 1 are added up as they are
_NOTHING = -60.0  # logarithm of what changes no sum
_RESCALE = 200.0


@njit(cache=True, nogil=True)
def _inwards(first, last, low, high, beta, out, step):  # type: ignore[no-untyped-def]
    """Fill ``out`` from one end: ``high`` coins of h and ``low`` of l fall on the side counted."""
    h, l = 0.5 + beta, 0.5 - beta  # noqa: E741
    total = low + high
    value, lost, ratio = out[first], 0.0, 1.0
    for x in range(abs(last - first)):
        above = low * l * l + high * h * h - (h * h + l * l) * x
        if x:
            above += h * l * (total - x + 1) / ratio
        ratio = above / (h * l * (x + 1))
        term = np.log(ratio) - lost
        following = value + term
        lost = (following - value) - term
        value = following
        out[first + step * (x + 1)] = value


@njit(cache=True, nogil=True)
def _log_of_sum(high, total, beta, out):  # type: ignore[no-untyped-def]
    h, l = np.log(0.5 + beta), np.log(0.5 - beta)  # noqa: E741
    low = total - high
    out[0] = high * l + low * h
    out[total] = high * h + low * l
    hh, ll = (0.5 + beta) ** 2, (0.5 - beta) ** 2
    meet = min(total - 1, int((low * ll + high * hh) / (hh + ll)))
    _inwards(0, meet, low, high, beta, out, 1)
    _inwards(total, meet + 1, high, low, beta, out, -1)


@njit(cache=True, nogil=True)
def _renyi(trials, others, beta, orders, worst):  # type: ignore[no-untyped-def]
    total = trials + others
    p, q = np.empty(total + 1), np.empty(total + 1)
    for likely in range(others + 1):
        _log_of_sum(likely + trials, total, beta, p)
        _log_of_sum(likely, total, beta, q)
        largest = p[total] - q[total]
        mode, at = np.argmax(p), total
        for i in range(len(orders)):
            power = orders[i] - 1.0
            # p grows up to its mode, as sums of coins are log-concave, and the loss everywhere: so
            # what is left of the first term that changes nothing changes nothing either.
            if power * largest < _SMALL:
                beyond = 0.0  # E_P exp(power loss) - 1, of terms that cancel little
                for x in range(mode, total + 1):
                    exponent = power * (p[x] - q[x])
                    if p[x] + max(0.0, exponent) > _NOTHING:
                        beyond += np.exp(p[x]) * np.expm1(exponent)
                for x in range(mode - 1, -1, -1):
                    exponent = power * (p[x] - q[x])
                    if p[x] + max(0.0, exponent) <= _NOTHING:
                        break
                    beyond += np.exp(p[x]) * np.expm1(exponent)
                divergence = np.log1p(max(0.0, beyond)) / power
            else:
                most, mass = p[at] + power * (p[at] - q[at]), 0.0
                for x in range(mode, total + 1):
                    exponent = p[x] + power * (p[x] - q[x])
                    if exponent > most:
                        mass *= np.exp(most - exponent)
                        most, at = exponent, x
                    if exponent - most > _NOTHING:
                        mass += np.exp(exponent - most)
                for x in range(mode - 1, -1, -1):
                    exponent = p[x] + power * (p[x] - q[x])
                    if exponent - most <= _NOTHING:
                        break
                    mass += np.exp(exponent - most)
                divergence = (most + np.log(mass)) / power
            worst[i] = max(worst[i], divergence)


@njit(cache=True, nogil=True)
def _hockey_sticks(trials, others, beta, epsilons, worst):  # type: ignore[no-untyped-def]
    total = trials + others
    p, q = np.empty(total + 1), np.empty(total + 1)
    for likely in range(others + 1):
        _log_of_sum(likely + trials, total, beta, p)
        _log_of_sum(likely, total, beta, q)
        # The loss p - q grows with x, so what exceeds epsilon is a tail: grown as epsilon falls.
        x, tail, scaled, scale = total, 0.0, 0.0, epsilons[-1]
        for i in range(len(epsilons) - 1, -1, -1):
            epsilon = epsilons[i]
            if scale - epsilon > _RESCALE:
                scaled, scale = scaled * np.exp(epsilon - scale), epsilon
            while x >= 0 and p[x] - q[x] > epsilon:
                mass = np.exp(p[x])
                tail += mass
                scaled += mass * np.exp(scale - (p[x] - q[x]))
                x -= 1
            worst[i] = max(worst[i], tail - scaled * np.exp(epsilon - scale))


def log_of_sum(high: int, total: int, beta: float) -> NDArray[np.float64]:
    """Return the logarithms of the probabilities of 0 to ``total`` heads.

    >>> np.round(np.exp(log_of_sum(1, 2, 0.25)), 4).tolist()  # one coin of 3/4, one of 1/4
    [0.1875, 0.625, 0.1875]
    """
    out = np.empty(total + 1)
    _log_of_sum(high, total, beta, out)
    return out


def renyi_of_sums(
    trials: int, others: int, beta: float, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the largest Renyi divergence of each order, in nats, over what others hold.

    It is max over k <= others of D(G(k + trials) || G(k)), of trials + others coins.
    """
    worst = np.zeros(len(orders))
    _renyi(trials, others, beta, orders, worst)
    return worst


def hockey_sticks_of_sums(
    trials: int, others: int, beta: float, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return max over k of sum_x max(0, G(k + trials)_x - exp(epsilon) G(k)_x), for each epsilon.

    ``epsilons`` ascend.
    """
    worst = np.maximum(0.0, -np.expm1(np.minimum(epsilons, 0.0)))
    _hockey_sticks(trials, others, beta, epsilons, worst)
    return np.minimum(worst, 1.0)
