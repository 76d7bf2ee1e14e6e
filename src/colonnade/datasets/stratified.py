"""Training rows and test rows of data that nobody has divided: the same share of every class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ConfigurationError, DataError
from colonnade.kernels.philox import permutation
from colonnade.streams import StreamKey

__all__ = ["stratified"]


def stratified(
    name: str,
    labels: NDArray[np.int64],
    test: float,
    seed: int,
    people: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training rows and test rows, to which every class gives its share of people.

    Who is for testing is decided by a permutation that is the same everywhere. In either list the
    classes take turns, the larger the more often, so the first rows of any number are a fair
    sample.

    Parameters
    ----------
    name
        The data set's: another name, other permutations.
    labels
        Classes ``0 ... classes - 1``, ``[N]``.
    test
        The share of each class's people, to the nearest whole number.
    seed
        Another seed, another choice.
    people
        Whom each row is about, ``[N]``: all rows of one are for training, or all for testing. By
        default each row is about somebody else.

    Raises
    ------
    ConfigurationError
        If the share leaves nobody of a class for training or for testing.
    DataError
        If somebody is of two classes.

    Examples
    --------
    >>> train, test = stratified("toy", np.array([0, 0, 0, 0, 1, 1]), test=0.5, seed=0)
    >>> train, test
    (array([2, 5, 3]), array([1, 4, 0]))
    """
    if people is None:
        people = np.arange(len(labels), dtype=np.int64)
    _check_people(name, labels, people)
    parts: tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]] = ([], [])
    for number in range(int(labels.max()) + 1):
        own = np.flatnonzero(labels == number)
        found, first = np.unique(people[own], return_index=True)
        found = found[np.argsort(first)]  # as they occur
        count = round(test * len(found)) if 0 < test < 1 else 0
        if not 0 < count < len(found):
            raise ConfigurationError(
                "test must be a share that leaves somebody of each class for training and somebody "
                f"for testing, not {test}, where class {number} has {len(found)}"
            )
        order = found[permutation(StreamKey(seed, "", f"{name}/split", 0, number), len(found))]
        for part, chosen in zip(parts, (order[count:], order[:count]), strict=True):
            part.append(_rows_of(chosen, people, own))
    train, tested = map(_taking_turns, parts)
    return train, tested


def _rows_of(
    chosen: NDArray[np.int64], people: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return which of the rows are about the people chosen, in the order of these people."""
    turn = {int(person): place for place, person in enumerate(chosen)}
    kept = [row for row in rows.tolist() if int(people[row]) in turn]
    return np.array(sorted(kept, key=lambda row: turn[int(people[row])]), dtype=np.int64)


def _taking_turns(classes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return all rows, each list's spread evenly over the whole."""
    places = np.concatenate([(np.arange(len(rows)) + 0.5) / len(rows) for rows in classes])
    return np.concatenate(classes)[np.argsort(places, kind="stable")]


def _check_people(name: str, labels: NDArray[np.int64], people: NDArray[np.int64]) -> None:
    pairs = np.unique(np.stack([people, labels], axis=1), axis=0)
    twice = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0])
    if len(twice):
        raise DataError(
            f"{name}: rows about {pairs[twice[0], 0]} are of different classes; expected one class "
            "a person"
        )
