"""Feature reconstruction: the label holder learns features back from what reaches it.

It knows the features of some rows, as after a leak or of its own staff, and what it saw of them;
from these it learns a decoder, and applies it to the rows of which it has only what it saw. What it
knows anyway, labels and own columns, goes into the decoder as well, and chance is what a decoder
makes of that alone: else a correlation of features with labels would pass for a leak.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.neural_network import MLPRegressor
from torch import Tensor

from colonnade.audits.finding import Finding, shares
from colonnade.models import Features

__all__ = ["Known", "columns_of", "reconstruct"]

Matrix = NDArray[np.float64]

_STRENGTHS = np.logspace(-2, 5, 8)
_WIDEST = 1024  # columns that a network decodes; more take long
_MOST_CATEGORIES = 64
_HIDDEN = (128,)
_HELD_BACK = 5  # of the known rows every fifth tells which decoder is better


@dataclass(frozen=True, eq=False)
class Known:
    """What the label holder knows besides, and of which rows it knows the features.

    Parameters
    ----------
    anyway
        Labels and own columns as numbers, ``[rows, n]``.
    known
        Row numbers of which it knows the features.
    """

    anyway: Matrix
    known: NDArray[np.int64]

    @property
    def others(self) -> NDArray[np.int64]:
        """All other rows."""
        return np.setdiff1d(np.arange(len(self.anyway)), self.known)


def columns_of(features: Features) -> Matrix:
    """Return features as numbers, ``[rows, columns]``: categories as indicators."""
    parts = [features] if isinstance(features, Tensor) else list(features.values())
    found = []
    for part in parts:
        flat = part.detach().cpu().reshape(len(part), -1)
        if flat.is_floating_point():
            found.append(flat.double().numpy())
            continue
        for codes in flat.numpy().T:
            common = np.unique(codes, return_counts=True)
            often = common[0][np.argsort(-common[1])][:_MOST_CATEGORIES]
            found.append((codes[:, None] == often[None, :]).astype(np.float64))
    return np.concatenate(found, axis=1)


def reconstruct(
    heard: Tensor,
    features: Features,
    knows: Known,
    random: np.random.Generator,
    by: str = "label holder",
    of: str = "party",
) -> Finding | None:
    """Try to learn one party's features back; None where they hold nothing but constants.

    Success is R2, the share of the variance of its columns that is explained, each column counted
    alike: 1 where all are known, 0 for the best constant.

    Parameters
    ----------
    heard
        What reached the label holder, ``[rows, E]``.
    features
        The truth, of the same rows.
    knows
        The auxiliary knowledge.
    random
        Of the decoder's start, and of the interval.
    by, of
        Names.
    """
    known, others = knows.known, knows.others
    truth = _standardised(columns_of(features), known)
    if not truth.shape[1]:
        return None
    anyway = _standardised(knows.anyway, known)
    seen = np.concatenate([_standardised(heard.double().numpy(), known), anyway], axis=1)
    seed = int(random.integers(2**31))
    guessed = _decoded(seen, truth, known, others, seed)
    by_chance = _decoded(anyway, truth, known, others, seed)
    rest = truth[others]
    centre = rest.mean(axis=0)
    wholes = ((rest - centre) ** 2).sum(axis=1)
    parts, chance = (wholes - ((rest - guess) ** 2).sum(axis=1) for guess in (guessed, by_chance))
    against = "labels and own columns alone"
    if chance.sum() < 0:
        chance, against = np.zeros_like(wholes), "the best constant"
    success, level, gain = shares(parts, chance, wholes, random)
    return Finding(
        "features from embeddings",
        by,
        of,
        "R2",
        success,
        level,
        gain,
        against,
        len(others),
    )


def _decoded(
    seen: Matrix, truth: Matrix, known: NDArray[np.int64], others: NDArray[np.int64], seed: int
) -> Matrix:
    """Return what the better of two decoders makes of the other rows."""
    if not seen.shape[1]:
        return np.zeros((len(others), truth.shape[1]))
    decoders = [RidgeCV(_STRENGTHS)]
    if truth.shape[1] <= _WIDEST:
        decoders.append(
            MLPRegressor(
                hidden_layer_sizes=_HIDDEN,
                alpha=1e-2,
                learning_rate_init=3e-3,
                max_iter=150,
                random_state=seed,
            )
        )
    held_back, learned = known[::_HELD_BACK], np.delete(known, np.s_[::_HELD_BACK])
    errors = [
        np.square(_guess(decoder, seen, truth, learned, held_back) - truth[held_back]).mean()
        for decoder in decoders
    ]
    return _guess(decoders[int(np.argmin(errors))], seen, truth, known, others)


def _guess(
    decoder: Any,
    seen: Matrix,
    truth: Matrix,
    learned: NDArray[np.int64],
    asked: NDArray[np.int64],
) -> Matrix:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # as many steps as it is given
        # A vector where there is one column, which scikit-learn asks for.
        decoder.fit(seen[learned], truth[learned] if truth.shape[1] > 1 else truth[learned, 0])
    guess = np.asarray(decoder.predict(seen[asked]), dtype=np.float64)
    return guess.reshape(len(asked), truth.shape[1])


def _standardised(values: Matrix, known: NDArray[np.int64]) -> Matrix:
    """Return columns as their known rows say, without those that are constant there."""
    mean, deviation = values[known].mean(axis=0), values[known].std(axis=0)
    vary = deviation > 1e-6 * (1 + np.abs(mean))
    kept: Matrix = (values[:, vary] - mean[vary]) / deviation[vary]
    return kept.clip(-_FARTHEST, _FARTHEST)


_FARTHEST = 10.0  # deviations: a column that the known rows hardly know does not decide
