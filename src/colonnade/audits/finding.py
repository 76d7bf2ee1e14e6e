"""What one attack achieved, beside what is achieved without what it attacked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

__all__ = ["Finding", "Interval", "area", "of_share", "shares"]

CONFIDENCE = 0.95
_RESAMPLED = 1000


@dataclass(frozen=True)
class Interval:
    """A figure, and the interval that has the true one with a confidence of 95 %.

    Parameters
    ----------
    value
        The figure.
    low, high
        The interval's ends.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Finding:
    """What one attack achieved.

    Parameters
    ----------
    attack
        Its name.
    by, of
        Who attacks, and whose data or which labels.
    measure
        What success is measured by.
    success
        What was achieved.
    chance
        What is achieved without what was attacked.
    gain
        Success less chance, on the same rows.
    against
        What chance is.
    rows
        On how many rows it was measured.

    Examples
    --------
    >>> found = Finding(
    ...     "features",
    ...     "lab",
    ...     "bank",
    ...     "R2",
    ...     Interval(0.4, 0.38, 0.42),
    ...     0.1,
    ...     Interval(0.3, 0.28, 0.32),
    ...     "what the label holder knows anyway",
    ...     900,
    ... )
    >>> found.succeeded
    True
    """

    attack: str
    by: str
    of: str
    measure: str
    success: Interval
    chance: float
    gain: Interval
    against: str
    rows: int

    @property
    def succeeded(self) -> bool:
        """Whether it was better than chance, by more than chance explains."""
        return self.gain.low > 0

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self) | {"succeeded": self.succeeded}


def shares(
    parts: NDArray[np.float64],
    chance: NDArray[np.float64],
    wholes: NDArray[np.float64],
    random: np.random.Generator,
) -> tuple[Interval, float, Interval]:
    """Return sum(parts) / sum(wholes), the same of chance, and the difference.

    Rows are drawn anew, again and again, so intervals are of other rows like these; what an attack
    learned from, and how it was trained, is given.

    Parameters
    ----------
    parts, chance, wholes
        By row, ``[rows]``.
    random
        Draws the rows.
    """
    rows = len(parts)
    weights = np.empty((_RESAMPLED, rows))  # how often each row is drawn
    for again in weights:
        again[:] = np.bincount(random.integers(rows, size=rows), minlength=rows)
    below = np.maximum(weights @ wholes, 1e-300)
    total = max(float(wholes.sum()), 1e-300)

    def interval(values: NDArray[np.float64]) -> Interval:
        low, high = np.quantile((weights @ values) / below, _ENDS)
        return Interval(float(values.sum()) / total, float(low), float(high))

    return interval(parts), float(chance.sum()) / total, interval(parts - chance)


_ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)


def of_share(share: float, rows: int) -> Interval:
    """Return a share of rows, with Wilson's interval, which does not vanish at 0 and 1.

    >>> print(of_share(1.0, 100))
    1.000 (0.963 to 1.000)
    """
    square = float(norm.ppf(_ENDS[1])) ** 2 / rows
    centre = (share + square / 2) / (1 + square)
    off = sqrt(square * (share * (1 - share) + square / 4)) / (1 + square)
    return Interval(share, max(0.0, centre - off), min(1.0, centre + off))


def area(scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> Interval:
    """Return the area under the ROC curve, with DeLong's interval, or that of guessing if wider.

    DeLong's is too narrow where few are positive, or few negative, and would call luck a success.
    Guessing has the variance (m + n + 1) / (12 m n), of m and n rows (Mann and Whitney).

    >>> area(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])).value
    0.75
    """
    high, low = scores[positive], scores[~positive]
    ranks = rankdata(np.concatenate([high, low]))
    above = (ranks[: len(high)] - rankdata(high)) / len(low)  # of each positive: negatives below
    below = 1 - (ranks[len(high) :] - rankdata(low)) / len(high)
    value = float(above.mean())
    of_guessing = (len(scores) + 1) / (12 * len(high) * len(low))
    variance = max(_variance(above) + _variance(below), of_guessing)
    off = float(norm.ppf(_ENDS[1])) * sqrt(variance)
    return Interval(value, max(0.0, value - off), min(1.0, value + off))


def _variance(values: NDArray[np.float64]) -> float:
    """Return that of the mean."""
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.25
