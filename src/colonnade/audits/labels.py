"""Label inference: a party learns labels from the derivatives that it is sent.

A row's derivative is large where the model is wrong about it, and of two classes one is rarer and
more often wrong: its *norm* tells (Li et al., "Label leakage and protection in two-party split
learning", ICLR 2022). Its *direction* tells more: the derivatives of two classes point to opposite
sides, those of more classes fall into groups. The party knows the labels of a few rows, which name
the sides and the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from colonnade.audits.finding import Finding, Interval, area, of_share, shares

__all__ = ["Told", "infer_labels"]

_TINY = 1e-30
_FEWEST = 20  # rows whose labels are told


@dataclass(frozen=True, eq=False)
class Told:
    """What one party was told, and the truth.

    Parameters
    ----------
    derivatives
        Of each row, ``[rows, E]``.
    labels
        The class of each row.
    known
        Row numbers of which the party knows the class.
    when
        In words, when it was told so.
    """

    derivatives: NDArray[np.float64]
    labels: NDArray[np.int64]
    known: NDArray[np.int64]
    when: str


def infer_labels(told: Told, random: np.random.Generator, by: str = "party") -> list[Finding]:
    """Try to tell labels from derivatives; nothing where known or other rows are of one class.

    Nothing is tried, either, where fewer than 20 rows are left whose labels are not known.

    Of two classes success is the area under the ROC curve, of more the share of rows whose class is
    told, beside that of the most frequent class.

    Parameters
    ----------
    told
        What the party was told.
    random
        Of the groups' starts, and of the intervals.
    by
        Whose attack it is.
    """
    norms = np.linalg.norm(told.derivatives, axis=1)
    directions = told.derivatives / np.maximum(norms, _TINY)[:, None]
    others = np.setdiff1d(np.arange(len(norms)), told.known)
    classes, known = np.unique(told.labels[told.known]), told.labels[told.known]
    if len(classes) < 2 or len(others) < _FEWEST or len(np.unique(told.labels[others])) < 2:
        return []
    means = np.stack([directions[told.known[known == c]].mean(axis=0) for c in classes])
    if len(np.unique(told.labels)) == 2:
        positive = told.labels == classes[1]
        rarer = np.sign(
            np.median(norms[told.known[known == classes[1]]])
            - np.median(norms[told.known[known == classes[0]]])
        )
        scores = {
            "norm of derivatives": (rarer or 1.0) * norms,
            "direction of derivatives": directions @ (means[1] - means[0]),
        }
        return [
            _of_area(f"{name}, {told.when}", by, area(score[others], positive[others]), len(others))
            for name, score in scores.items()
        ]
    groups = KMeans(
        len(np.unique(told.labels)), n_init=3, random_state=int(random.integers(2**31))
    ).fit_predict(directions)
    guesses = {
        "direction of derivatives": classes[np.argmax(directions @ means.T, axis=1)],
        "groups of directions": _named(groups, told.known, known)[groups],
    }
    return [
        shared_classes(
            f"{name}, {told.when}", by, [guess[others]], told.labels[others], None, random
        )
        for name, guess in guesses.items()
    ]


def shared_classes(
    attack: str,
    by: str,
    guesses: Sequence[NDArray[np.int64]],
    labels: NDArray[np.int64],
    without: Sequence[NDArray[np.int64]] | None,
    random: np.random.Generator,
) -> Finding:
    """Return in how many rows a guess is right, over several guesses.

    Parameters
    ----------
    attack, by
        Names.
    guesses
        Several of each row, ``[rows]``.
    labels
        The truth.
    without
        Guesses without what is attacked; None for none. Chance is the better of them and of the
        most frequent class.
    random
        Of the interval.
    """
    values, counts = np.unique(labels, return_counts=True)
    frequent = (labels == values[np.argmax(counts)]).astype(np.float64)
    chance, against = frequent, "the most frequent class"
    if without is not None:
        untrained = _right(without, labels)
        if untrained.sum() > frequent.sum():
            chance, against = untrained, "the same on the untrained bottom model"
    right, rows = _right(guesses, labels), len(labels)
    success, level, gain = shares(right, chance, np.ones(rows), random)
    success = of_share(success.value, rows)
    return Finding(attack, by, "labels", "accuracy", success, level, gain, against, rows)


def _right(guesses: Sequence[NDArray[np.int64]], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    right: NDArray[np.float64] = np.mean([guess == labels for guess in guesses], axis=0)
    return right


def _of_area(attack: str, by: str, success: Interval, rows: int) -> Finding:
    gain = Interval(success.value - 0.5, success.low - 0.5, success.high - 0.5)
    return Finding(attack, by, "labels", "AUC", success, 0.5, gain, "guessing", rows)


def _named(
    groups: NDArray[np.int32], known: NDArray[np.int64], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each group the class that most of its known rows have; else of all known."""

    def most(of: NDArray[np.int64]) -> int:
        values, counts = np.unique(of, return_counts=True)
        return int(values[np.argmax(counts)])

    everywhere = most(labels)
    return np.array(
        [
            most(labels[groups[known] == group]) if (groups[known] == group).any() else everywhere
            for group in range(int(groups.max()) + 1)
        ]
    )
