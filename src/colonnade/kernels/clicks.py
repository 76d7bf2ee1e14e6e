"""Made-up clicks: rows of counts, categories and labels, each a pure function of (seed, row).

Categories are ranks with Zipf's frequencies: u uniform in [0, 1) gives the rank floor((n + 1)^u) of
n. Each side of a row has four hidden factors h, of mean 0 and unit variance: sums of factors of its
categories, columns of few categories having more to say, or nearly normal draws, seen through noisy
counts. A row is clicked with the probability

    sigmoid(bias + a h_0 + b h'_0 + c (h_1 h'_1 + h_2 h'_2 + h_3 h'_3)),

so each side alone knows something, and what lies between them only both: of a product of factors
of mean 0 neither side knows anything. There is no call of a library function here, so rows are the
same to the bit everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from colonnade.kernels.philox import fill_words

__all__ = [
    "CATEGORY_HEX",
    "CATEGORY_WHOLE",
    "CLICK",
    "COUNT",
    "FACTORS",
    "HOUR",
    "ROW",
    "TELLING",
    "draw_clicks",
    "raw_factors",
    "write_clicks",
]

CLICK, COUNT, CATEGORY_HEX, CATEGORY_WHOLE, HOUR, ROW = range(6)
"""What a column of the text holds."""

TELLING = 64
"""Ranks that have factors of their own: what some hundred thousand rows can teach."""

FACTORS = 4
"""Hidden factors of a side."""

_LOG2_E = 1.4426950408889634
_LN_2 = 0.6931471805599453
_HALVES = np.array([2.0**n for n in range(-64, 65)])
_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_WORD16 = np.uint64(0xFFFF)
_ROWS_AN_HOUR = 168_000  # of Avazu's: 40 million in ten days
_HOURS = 240


@njit(inline="always")
def _exp2(x):  # type: ignore[no-untyped-def]  # numba infers the types
    """Return 2^x for x from -64 to 64, by a Taylor series around a whole number."""
    whole: Any = np.int64(np.floor(x + 0.5))
    y = (x - whole) * _LN_2
    term, total = 1.0, 1.0
    for n in range(1, 12):
        term = term * y / n
        total += term
    return total * _HALVES[min(max(whole, -64), 64) + 64]


@njit(inline="always")
def _mixed(field, value, purpose):  # type: ignore[no-untyped-def]
    """Return 64 bits of a value of a field: SplitMix64 (Steele, Lea and Flood, 2014)."""
    z = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    z += np.uint64(field * 8 + purpose) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(inline="always")
def _sixteenth(word, which):  # type: ignore[no-untyped-def]
    return np.float64((word >> np.uint64(16 * which)) & _WORD16) / 65536.0


@njit(cache=True, nogil=True)
def raw_factors(factors):  # type: ignore[no-untyped-def]
    """Fill ``factors`` with numbers from -1/2 to 1/2 of [column, rank up to TELLING, factor]."""
    for field in range(len(factors)):
        for value in range(TELLING + 1):
            word = _mixed(field, value, 1)
            for d in range(FACTORS):
                factors[field, value, d] = _sixteenth(word, d) - 0.5


@njit(cache=True, nogil=True)
def draw_clicks(  # type: ignore[no-untyped-def]
    first,
    upper,
    key,
    log2_sizes,
    sizes,
    heads,
    missing_values,
    sides,
    factors,
    hours,
    middles,
    widths,
    lowest,
    missing_counts,
    effects,
    words,
    values,
    counts,
    gone,
    labels,
):
    """Draw rows ``first`` onwards into ``values``, ``counts``, ``gone`` and ``labels``.

    ``words`` has room for the random words of one row. ``hours`` is the field that is the hour, or
    -1. Rank 0 is a missing value. ``factors`` is of [column, rank, factor], its last rank for all
    that are rarer.
    """
    fields, numbers = len(sizes), len(middles)
    hidden = np.zeros((2, FACTORS))
    for row in range(len(labels)):
        at = np.uint64(first + row)
        fill_words(words, at * np.uint64(len(words) // 2), upper, key)
        hidden[:] = 0.0
        for j in range(fields):
            word = words[j]
            chance = np.float64(word & _LOW) / 4294967296.0
            if chance < missing_values[j]:
                value = 0
            elif chance < missing_values[j] + heads[j]:
                value = 1
            else:
                u = np.float64(word >> _32) / 4294967296.0
                value = min(int(_exp2(u * log2_sizes[j])), sizes[j])
            if j == hours:
                value = (first + row) // _ROWS_AN_HOUR % 24 + 1
            values[row, j] = value
            rank = min(value, TELLING + 1)
            for d in range(FACTORS):
                hidden[sides[j], d] += factors[j, rank, d]
        if numbers:
            for d in range(FACTORS):
                word = words[fields + d]
                total = 0.0
                for k in range(4):
                    total += _sixteenth(word, k)
                hidden[1, d] = (total - 2.0) * 1.7320508075688772
        for i in range(numbers):
            word = words[fields + FACTORS + i]
            noise = (_sixteenth(word, 2) + _sixteenth(word, 3) - 1.0) * 2.449489742783178
            seen = hidden[1, i % FACTORS]
            if (i // FACTORS) % 2:
                seen = -seen
            x = middles[i] + widths[i] * (0.9 * seen + 0.43588989435406733 * noise)
            counts[row, i] = np.int64(_exp2(min(x, 15.0) * _LOG2_E)) + lowest[i]
            gone[row, i] = (
                np.float64(word & np.uint64(0xFFFFFFFF)) / 4294967296.0 < missing_counts[i]
            )
        logit = effects[0] + effects[1] * hidden[0, 0] + effects[2] * hidden[1, 0]
        for d in range(1, FACTORS):
            logit += effects[3] * hidden[0, d] * hidden[1, d]
        u = np.float64(words[len(words) - 1] >> np.uint64(11)) / 9007199254740992.0
        labels[row] = u * (1.0 + _exp2(-logit * _LOG2_E)) < 1.0


@njit(inline="always")
def _write_whole(text, at, value):  # type: ignore[no-untyped-def]
    if value < 0:
        text[at] = 45
        at += 1
        value = -value
    digits = 1
    rest = value // 10
    while rest:
        digits += 1
        rest //= 10
    for i in range(digits):
        text[at + digits - 1 - i] = 48 + value % 10
        value //= 10
    return at + digits


@njit(cache=True, nogil=True)
def write_clicks(  # type: ignore[no-untyped-def]
    first, kinds, places, separator, values, counts, gone, labels, text
):
    """Write rows as text, each a line, and return how many bytes they take."""
    at = 0
    for row in range(len(labels)):
        for column in range(len(kinds)):
            if column:
                text[at] = separator
                at += 1
            kind, place = kinds[column], places[column]
            if kind == CLICK:
                text[at] = 48 + labels[row]
                at += 1
            elif kind == COUNT:
                if not gone[row, place]:
                    at = _write_whole(text, at, counts[row, place])
            elif kind == CATEGORY_WHOLE:
                if values[row, place]:
                    at = _write_whole(text, at, values[row, place] - 1)
            elif kind == CATEGORY_HEX:
                if values[row, place]:
                    word = _mixed(place, values[row, place], 2) >> _32
                    for i in range(8):
                        digit = (word >> np.uint64(28 - 4 * i)) & np.uint64(15)
                        text[at + i] = digit + np.uint64(48 if digit < 10 else 87)
                    at += 8
            elif kind == HOUR:
                hour = ((first + row) // _ROWS_AN_HOUR) % _HOURS
                at = _write_whole(text, at, 14_102_100 + hour // 24 * 100 + hour % 24)
            elif kind == ROW:
                at = _write_whole(text, at, 10_000_000_000 + first + row)
        text[at] = 10
        at += 1
    return at
