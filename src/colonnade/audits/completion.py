"""Model completion: a party puts a head of its own on the bottom model that it has trained.

Training with the label holder's derivatives has made the bottom tell classes apart, and the party
keeps it: with few labels it learns a head, and predicts the others by itself (Fu et al., "Label
inference attacks against vertical federated learning", USENIX Security 2022). Here the head is a
logistic regression; their semi-supervised one does better still.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colonnade.audits.finding import Finding
from colonnade.audits.labels import shared_classes

__all__ = ["complete"]

Matrix = NDArray[np.float64]


def complete(
    trained: tuple[Matrix, Matrix],
    untrained: tuple[Matrix, Matrix],
    labels: tuple[NDArray[np.int64], NDArray[np.int64]],
    draws: Sequence[NDArray[np.int64]],
    random: np.random.Generator,
    by: str = "party",
) -> Finding | None:
    """Try it; None where the known rows are of one class.

    Parameters
    ----------
    trained, untrained
        Embeddings by the party's bottom model, and as it was before training: of rows some of which
        the party knows the labels of, and of held-out rows.
    labels
        Of the same.
    draws
        Which of the former the party knows, several times: the results are averaged.
    random
        Of the interval.
    by
        Whose attack it is.
    """
    draws = [draw for draw in draws if len(np.unique(labels[0][draw])) > 1]
    if not draws:
        return None
    guesses, without = (
        [_head(pair[0][draw], labels[0][draw], pair[1]) for draw in draws]
        for pair in (trained, untrained)
    )
    return shared_classes("model completion", by, guesses, labels[1], without, random)


def _head(seen: Matrix, labels: NDArray[np.int64], asked: Matrix) -> NDArray[np.int64]:
    head = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    guess: NDArray[np.int64] = head.fit(seen, labels).predict(asked)
    return guess
