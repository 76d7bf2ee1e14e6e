"""EMNIST: handwritten digits and letters, from the official idx files.

Cohen, Afshar, Tapson and van Schaik, "EMNIST: extending MNIST to handwritten letters", IJCNN 2017.
Six splits of NIST's Special Database 19:

========  =======  =============================================================================
split     classes  what
========  =======  =============================================================================
byclass   62       digits, capital and small letters
bymerge   47       as byclass, with the capital and the small form of 15 letters as one class
balanced  47       as bymerge, with as many images of each class
letters   26       capital and small letters together
digits    10       digits, as many of each
mnist     10       digits, as many as in MNIST
========  =======  =============================================================================

The files hold every image with its rows as columns, and the letters labelled from 1; here images
are upright, and labels begin at 0.

This was tested on generated files of that format, and was not run on the real data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder, plain_or_packed
from colonnade.datasets.mnist import from_images, read_images
from colonnade.datasets.partition import PartitionName
from colonnade.datasets.pixels import Normalise, check_normalise
from colonnade.errors import ConfigurationError, DataError

__all__ = ["EmnistSplit", "emnist", "emnist_files"]

EmnistSplit: TypeAlias = Literal["balanced", "byclass", "bymerge", "digits", "letters", "mnist"]
"""The six splits."""

_LABELS = {
    "balanced": range(47),
    "byclass": range(62),
    "bymerge": range(47),
    "digits": range(10),
    "letters": range(1, 27),
    "mnist": range(10),
}
_SUBFOLDERS = ("", "emnist", "gzip", "emnist/gzip")  # NIST's archive has them in gzip


def emnist(
    folder: str | Path | None = None,
    *,
    split: EmnistSplit = "balanced",
    partition: PartitionName = "quadrants",
    parties: int = 4,
    flatten: bool = True,
    normalise: Normalise | None = None,
) -> VerticalDataset:
    """Load one split of EMNIST.

    Parameters
    ----------
    folder
        Where the files are: ``emnist-<split>-train-images-idx3-ubyte``, ``-train-labels-idx1-``,
        ``-test-images-idx3-`` and ``-test-labels-idx1-``, each plain or ``.gz``, in the folder or
        in its subfolder ``emnist``, ``gzip`` or ``emnist/gzip``. By default the folder that the
        environment variable ``COLONNADE_DATA`` names.
    split
        Which of the six.
    partition, parties
        Who sees which pixels: ``"quadrants"`` of 4 parties, or vertical ``"strips"`` of up to 28.
    flatten
        Whether a party's features have the shape ``[N, pixels]`` or ``[N, 1, height, width]``.
    normalise
        Pixels are scaled to [0, 1]; if a mean and a standard deviation on that scale are given,
        the former is then subtracted and the latter divided by.

    Returns
    -------
    VerticalDataset
        The training rows first, each part in the order of its files.

    Raises
    ------
    DataError
        If there is no folder, a file is missing, or a file does not hold what it should.
    ConfigurationError
        If there is no such split, or the partition or the normalisation cannot be.

    Examples
    --------
    ::

        dataset = emnist("data", split="letters")
        dataset  # VerticalDataset('EMNIST letters', 4 parties, 124800 + 20800 rows, 26 classes)
    """
    check_normalise(normalise, channels=1)
    train_images, train_labels, test_images, test_labels = emnist_files(folder, split)
    values = _LABELS[split]
    train, test = (
        read_images(train_images, train_labels, values),
        read_images(test_images, test_labels, values),
    )
    if train[0].shape[1:] != test[0].shape[1:]:
        raise DataError(
            f"{test_images}: images of {test[0].shape[2]} x {test[0].shape[1]} pixels, but those "
            f"to train on have {train[0].shape[2]} x {train[0].shape[1]}; take all four files from "
            "one source"
        )
    order = np.arange(len(train[1]) + len(test[1]), dtype=np.int64)
    return from_images(
        f"EMNIST {split}",
        np.concatenate([train[0], test[0]]).transpose(0, 2, 1),
        np.concatenate([train[1], test[1]]).astype(np.int64) - values.start,
        train=order[: len(train[1])],
        test=order[len(train[1]) :],
        partition=partition,
        parties=parties,
        flatten=flatten,
        normalise=normalise,
        notes="official idx files; official training and test split",
        classes=len(values),
    )


def emnist_files(folder: str | Path | None = None, split: EmnistSplit = "balanced") -> list[Path]:
    """Return the four files that ``emnist`` would read.

    Raises
    ------
    DataError
        If there is no folder, or a file is missing.
    ConfigurationError
        If there is no such split.
    """
    if split not in _LABELS:
        raise ConfigurationError(
            f"there is no split {split!r} of EMNIST; expected one of "
            f"{', '.join(map(repr, get_args(EmnistSplit)))}"
        )
    root = data_folder("EMNIST", folder, "its idx files")
    names = [
        f"emnist-{split}-{part}-{kind}-ubyte"
        for part in ("train", "test")
        for kind in ("images-idx3", "labels-idx1")
    ]
    for place in (root / subfolder for subfolder in _SUBFOLDERS):
        paths = {name: plain_or_packed(place / name) for name in names}
        found = [path for path in paths.values() if path is not None]
        if len(found) == len(names):
            return found
        if found:
            missing = [name for name, path in paths.items() if path is None]
            raise DataError(
                f"{place} has files of the split {split!r} of EMNIST, but not "
                f"{', '.join(missing)}; put all four there, each plain or .gz"
            )
    raise DataError(
        f"expected {names[0]} and its three sisters, plain or .gz, in {root}, which has none: put "
        "EMNIST's idx files there, or name another folder with --data or COLONNADE_DATA"
    )
