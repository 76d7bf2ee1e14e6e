"""Schedules under which a compressor's error diminishes as C-VFL's Theorem 4.4 asks."""

from __future__ import annotations

import math
from collections.abc import Callable

from colonnade.codecs.by_round import ByRound
from colonnade.codecs.codec import Codec
from colonnade.codecs.float import Float
from colonnade.codecs.lattice import Lattice, pitches
from colonnade.codecs.scalar import Scalar
from colonnade.codecs.top_k import TopK
from colonnade.errors import ConfigurationError

__all__ = ["diminishing"]

_MOST_BITS = 8  # of a quantiser; a half has 11 significant ones
_HALF_BITS = 11


def diminishing(
    kind: str,
    error: float,
    batch: int,
    width: int,
    low: float,
    high: float,
    rounds: int,
    dither: bool = True,
) -> ByRound:
    r"""Return the coarsest codec of each round whose squared error on a batch is <= c / sqrt(t).

    Castiglia et al., "Compressed-VFL", ICML 2022, Theorem 4.4 and Table 1, with the steps that
    these codecs have. For B rows of P components between ``low`` and ``high``, in rounds t = 1, 2,
    ...:

    - scalar: B P step^2 / 12 <= c / sqrt(t), where step = (high - low) / (2^b - 1);
    - lattice: B P (5/72) pitch^2 <= c / sqrt(t);
    - top_k: B (1 - k/P) max ||h||^2 <= c / sqrt(t), where max ||h||^2 = P max(low^2, high^2).

    Parameters
    ----------
    kind
        ``"scalar"``, ``"lattice"`` or ``"top_k"`` (of each row).
    error
        c, the squared error of a batch in round 1.
    batch, width
        B and P.
    low, high
        The range of the embeddings, which must be bounded.
    rounds
        How long the schedule is.
    dither
        Of the quantisers.

    Returns
    -------
    ByRound
        Where more than 8 bits are asked for, ``Float(16)``; where more than 11, ``Float(32)``.

    Raises
    ------
    ConfigurationError
        If a number is out of range, or there is no such kind.

    Examples
    --------
    >>> schedule = diminishing("scalar", 20.0, batch=128, width=16, low=0, high=1, rounds=3000)
    >>> [(start, codec.bits) for start, codec in zip(schedule.rounds, schedule.codecs)]
    [(0, 2), (1, 3), (32, 4), (695, 5)]
    """
    if not (0 < error < math.inf and batch >= 1 and width >= 1 and rounds >= 1 and low < high):
        raise ConfigurationError(
            "a diminishing error needs a positive error, batch, width and rounds, and a range"
        )
    makers = {
        "scalar": lambda share: _of_bits(
            share * 12, lambda b: 2.0**b - 1, lambda b: Scalar(b, low, high, dither)
        ),
        "lattice": lambda share: _of_bits(
            share * 72 / 5, pitches, lambda b: Lattice(b, low, high, dither)
        ),
        "top_k": lambda share: _of_share(share * (high - low) ** 2, width, max(low**2, high**2)),
    }
    if kind not in makers:
        raise ConfigurationError(f"a schedule is scalar, lattice or top_k, not {kind!r}")
    codecs: dict[int, Codec] = {}
    last: Codec | None = None
    for round in range(rounds):
        allowed = error / math.sqrt(round + 1) / (batch * width)  # of a component
        codec = makers[kind](allowed / (high - low) ** 2)
        if codec != last:
            codecs[round] = last = codec
    return ByRound(tuple(codecs.values()), tuple(codecs))


def _of_bits(
    allowed: float, steps: Callable[[int], float], quantiser: Callable[[int], Codec]
) -> Codec:
    """Return the quantiser of fewest bits whose squared step, of the range, is allowed."""
    for bits in range(1, _MOST_BITS + 1):
        if steps(bits) ** -2 <= allowed:
            return quantiser(bits)
    return Float(16) if allowed >= 4.0**-_HALF_BITS else Float(32)


def _of_share(allowed: float, width: int, square: float) -> Codec:
    """Return the top-k of least k that leaves out no more of ||h||^2 than is allowed."""
    kept = max(1, math.ceil(width * (1 - allowed / square)))
    return TopK(min(kept, width) / width, "row")
