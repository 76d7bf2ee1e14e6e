"""Symbols of rows by an arithmetic coder, whose probabilities a model learns from those before.

A symbol is told by its rank k, 0 the most frequent so far: for i = 0, 1, ... a binary decision
whether k > i, as far as the first no. The model of a decision is a logistic regression on the
ranks of the columns before it in the row,

    p = sigma(b[c, i] + sum_{c' < c} w[c, i, c'] min(k[c'], 3)),

and after each decision d takes a step down the gradient of its code length, (d - p) times the
input. Ranks above ``LEVELS`` share a model. Both ends take the same steps, so nothing of the model
is ever sent. (Mixing of contexts: Mahoney, "Adaptive weighing of context models for lossless data
compression", 2005; arithmetic coding: Witten, Neal and Cleary, CACM 1987.)

Everything is computed in whole numbers, so that both ends agree to the bit: weights in units of
2^-16, probabilities in 2^-16, the logistic function from a table.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["LEVELS", "decode", "encode", "fresh", "squash_table"]

LEVELS = 4
_MOST = 3  # of a rank, as an input
_UNIT = 12  # bits of the logit that the table does not tell apart
_HALF_TABLE = 192  # entries on either side of 0: logits from -12 to 12, 1/16 apart
_LEAST = 24  # of 65536: what any decision has at least
_BIAS_RATE, _RATE = 5, 6  # a step is 2^-rate
_LIMIT = 1 << 20  # logits beyond 16 say no more
_TOP = np.int64(0xFFFFFFFF)
_GROWN = np.int64(0xFF000000)


def squash_table() -> NDArray[np.int64]:
    """Return round(65536 sigma(i / 16)) for i from -192 to 192, within what a decision may have."""
    logits = np.arange(-_HALF_TABLE, _HALF_TABLE + 1) / 16
    exact = 65536 / (1 + np.exp(-logits))
    return np.clip(np.round(exact), _LEAST, 65536 - _LEAST).astype(np.int64)


_SQUASH = squash_table()


def fresh(columns: int) -> NDArray[np.int32]:
    """Return the model before any symbol: ``[columns, LEVELS, columns + 1]``, the bias last."""
    model = np.zeros((columns, LEVELS, columns + 1), dtype=np.int32)
    model[:, :, -1] = -(1 << 16)
    return model


@njit(inline="always")
def _logit(weights, inputs, places, known):  # type: ignore[no-untyped-def]  # numba infers the types
    total = np.int64(weights[-1])
    for i in range(known):
        total += np.int64(weights[places[i]]) * inputs[i]
    return total


@njit(inline="always")
def _probability(logit, squash):  # type: ignore[no-untyped-def]
    """Return 65536 times the probability of a yes, interpolated in the table."""
    bounded = min(max(logit + (np.int64(_HALF_TABLE) << _UNIT), 0), (2 * _HALF_TABLE << _UNIT) - 1)
    place, rest = bounded >> _UNIT, bounded & ((1 << _UNIT) - 1)
    return squash[place] + (((squash[place + 1] - squash[place]) * rest) >> _UNIT)


@njit(inline="always")
def _middle(low, high, p):  # type: ignore[no-untyped-def]
    """Return the last number of a yes within [low, high], where it has p of 65536."""
    span = high - low
    return low + (span >> 16) * p + (((span & 0xFFFF) * p) >> 16)


@njit(inline="always")
def _learn(weights, inputs, places, known, error):  # type: ignore[no-untyped-def]
    """Take a step; the error, in 2^-16, is the gradient of the code length at the logit."""
    bias = np.int64(weights[-1]) + (error >> _BIAS_RATE)
    weights[-1] = min(max(bias, -_LIMIT), _LIMIT)
    for i in range(known):
        weight = np.int64(weights[places[i]]) + ((error * inputs[i]) >> _RATE)
        weights[places[i]] = min(max(weight, -_LIMIT), _LIMIT)


@njit(inline="always")
def _shortest(low, high):  # type: ignore[no-untyped-def]
    """Return the number within [low, high] that ends in the most zeros: they are not sent."""
    if low == 0:
        return low
    number = high
    for shift in (24, 16, 8, 0):
        number = (high >> shift) << shift
        if number >= low:
            break
    return number


@njit(cache=True, nogil=True)
def _encode(ranks, alphabet, model, squash, body):  # type: ignore[no-untyped-def]
    """Write the decisions into ``body``, of zeros; return whether all but zeros fitted."""
    rows, columns = ranks.shape
    low, high, end = np.int64(0), _TOP, 0
    inputs, places = np.empty(columns, np.int64), np.empty(columns, np.int64)
    fits = True
    for row in range(rows):
        known = 0
        for column in range(columns):
            rank = np.int64(ranks[row, column])
            for level in range(min(rank + 1, alphabet - 1)):
                weights = model[column, min(level, LEVELS - 1)]
                p = _probability(_logit(weights, inputs, places, known), squash)
                yes = level < rank
                _learn(weights, inputs, places, known, ((1 << 16) if yes else 0) - p)
                middle = _middle(low, high, p)
                if yes:
                    high = middle
                else:
                    low = middle + 1
                while ((low ^ high) & _GROWN) == 0:
                    if end < len(body):
                        body[end] = high >> 24
                    elif high >> 24:
                        fits = False
                    end += 1
                    low = (low << 8) & _TOP
                    high = ((high << 8) & _TOP) | 0xFF
            if rank:
                inputs[known], places[known] = min(rank, _MOST), column
                known += 1
    number = _shortest(low, high)
    for place in (24, 16, 8, 0):
        byte = (number >> place) & 0xFF
        if end < len(body):
            body[end] = byte
        elif byte:
            fits = False
        end += 1
    return fits


@njit(cache=True, nogil=True)
def _decode(body, alphabet, model, squash, ranks):  # type: ignore[no-untyped-def]
    """Fill ``ranks``; return whether ``body``, without zeros at its end, is their code.

    What an encoder would have written before its last number are the bytes that were shifted out,
    for those are where ``low`` and ``high``, and the code between them, agree.
    """
    rows, columns = ranks.shape
    low, high, code, end = np.int64(0), _TOP, np.int64(0), 0
    for _ in range(4):
        code = (code << 8) | (np.int64(body[end]) if end < len(body) else 0)
        end += 1
    inputs, places = np.empty(columns, np.int64), np.empty(columns, np.int64)
    for row in range(rows):
        known = 0
        for column in range(columns):
            rank = np.int64(0)
            while rank < alphabet - 1:
                weights = model[column, min(rank, LEVELS - 1)]
                p = _probability(_logit(weights, inputs, places, known), squash)
                middle = _middle(low, high, p)
                yes = code <= middle
                _learn(weights, inputs, places, known, ((1 << 16) if yes else 0) - p)
                if yes:
                    high = middle
                else:
                    low = middle + 1
                while ((low ^ high) & _GROWN) == 0:
                    low = (low << 8) & _TOP
                    high = ((high << 8) & _TOP) | 0xFF
                    byte = np.int64(body[end]) if end < len(body) else 0
                    code = ((code << 8) & _TOP) | byte
                    end += 1
                if not yes:
                    break
                rank += 1
            ranks[row, column] = rank
            if rank:
                inputs[known], places[known] = min(rank, _MOST), column
                known += 1
    return _shortest(low, high) == code and len(body) <= end


def encode(
    ranks: NDArray[np.uint16], alphabet: int, model: NDArray[np.int32], most: int
) -> bytes | None:
    """Return the code of ``ranks``, ``[rows, columns]``, and let the model learn them.

    Parameters
    ----------
    ranks
        Each below ``alphabet``.
    model
        As ``fresh`` made it and earlier calls left it.
    most
        The bytes that it may take, without zeros at its end; None is returned where it takes more.
    """
    body = np.zeros(most, dtype=np.uint8)
    fits = _encode(ranks, alphabet, model, _SQUASH, body)
    return body.tobytes().rstrip(b"\0") if fits else None


def decode(
    body: bytes, shape: tuple[int, int], alphabet: int, model: NDArray[np.int32]
) -> NDArray[np.uint16] | None:
    """Return the ranks of a body, ``[rows, columns]``, and let the model learn them.

    Any bytes decode to some ranks, as if zeros followed them for ever, but only one body is their
    code: None is returned for the others.
    """
    if body.endswith(b"\0"):
        return None
    ranks = np.empty(shape, dtype=np.uint16)
    is_code = _decode(np.frombuffer(body, dtype=np.uint8), alphabet, model, _SQUASH, ranks)
    return ranks if is_code else None
