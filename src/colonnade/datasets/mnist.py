"""MNIST and Fashion-MNIST, from a folder that holds the four official files of each.

MNIST: LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document
recognition", Proc. IEEE 86(11), 1998. Fashion-MNIST: Xiao, Rasul and Vollgraf, arXiv:1708.07747.

Both give their files the same four names, so one folder can hold both only if something tells
them apart: a subfolder, or a prefix. A file that says which data set it belongs to is taken
before one that does not, and the four files always come from one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder, plain_or_packed
from colonnade.datasets.idx import read_idx
from colonnade.datasets.partition import PartitionName, partitioned
from colonnade.datasets.pixels import Normalise, as_floats
from colonnade.errors import DataError

__all__ = [
    "fashion_mnist",
    "fashion_mnist_files",
    "from_images",
    "mnist",
    "mnist_files",
    "read_images",
]

_CLASSES = 10
_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class _Source:
    """How the files of one data set are told from those of another."""

    name: str
    prefix: str
    subfolders: tuple[str, ...]
    opening: bytes  # the labels of the first eight training images

    def places(self, folder: Path) -> list[tuple[Path, str]]:
        """Return the (folder, prefix) pairs where the files may be, the most telling first."""
        inside = [folder / subfolder for subfolder in self.subfolders]
        return [
            (place, prefix)
            for prefix, places in ((self.prefix, [folder, *inside]), ("", [*inside, folder]))
            for place in places
        ]


_MNIST = _Source("MNIST", "mnist-", ("mnist",), bytes([5, 0, 4, 1, 9, 2, 1, 3]))
_FASHION = _Source(
    "Fashion-MNIST", "fashion-", ("fashion-mnist", "fashion"), bytes([9, 0, 0, 3, 0, 2, 7, 2])
)


def mnist(
    folder: str | Path | None = None,
    *,
    partition: PartitionName = "quadrants",
    parties: int = 4,
    flatten: bool = True,
    normalise: tuple[float, float] | None = None,
) -> VerticalDataset:
    """Load MNIST: 60000 handwritten digits to train on and 10000 to test on.

    Parameters
    ----------
    folder
        Where the files are: ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``,
        ``t10k-images-idx3-ubyte`` and ``t10k-labels-idx1-ubyte``, each plain or ``.gz``, in the
        folder or in its subfolder ``mnist``, optionally with the prefix ``mnist-``. By default
        the folder that the environment variable ``COLONNADE_DATA`` names.
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
        The training rows first, each part in the order of its files.

    Raises
    ------
    DataError
        If there is no folder, a file is missing, or a file does not hold what it should.
    ConfigurationError
        If the partition or the normalisation cannot be.

    Examples
    --------
    ::

        dataset = mnist("data", partition="strips", parties=28)
        dataset.features["party_1"].shape  # [70000, 28]
    """
    return _load(_MNIST, folder, partition, parties, flatten, normalise)


def fashion_mnist(
    folder: str | Path | None = None,
    *,
    partition: PartitionName = "quadrants",
    parties: int = 4,
    flatten: bool = True,
    normalise: tuple[float, float] | None = None,
) -> VerticalDataset:
    """Load Fashion-MNIST: 60000 pictures of clothes to train on and 10000 to test on.

    Parameters
    ----------
    folder
        As for ``mnist``, but with the subfolder ``fashion-mnist`` or ``fashion`` and the prefix
        ``fashion-``.
    partition, parties, flatten
        As for ``mnist``.
    normalise
        As for ``mnist``, such as ``(0.2860, 0.3530)``.

    Returns
    -------
    VerticalDataset
        The training rows first, each part in the order of its files.

    Raises
    ------
    DataError
        If there is no folder, a file is missing, or a file does not hold what it should.
    ConfigurationError
        If the partition or the normalisation cannot be.

    Examples
    --------
    ::

        dataset = fashion_mnist("data")
        dataset.features["party_1"].shape  # [70000, 196]
    """
    return _load(_FASHION, folder, partition, parties, flatten, normalise)


def mnist_files(folder: str | Path | None = None) -> list[Path]:
    """Return the four files that ``mnist`` would read.

    Raises
    ------
    DataError
        If there is no folder, or a file is missing.
    """
    return _files(_MNIST, folder)


def fashion_mnist_files(folder: str | Path | None = None) -> list[Path]:
    """Return the four files that ``fashion_mnist`` would read.

    Raises
    ------
    DataError
        If there is no folder, or a file is missing.
    """
    return _files(_FASHION, folder)


def from_images(
    name: str,
    images: NDArray[np.uint8],
    labels: NDArray[Any],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    *,
    partition: PartitionName,
    parties: int,
    flatten: bool,
    normalise: Normalise | None,
    notes: str,
    classes: int = _CLASSES,
) -> VerticalDataset:
    """Make a vertical data set out of images.

    Parameters
    ----------
    name, train, test, notes, classes
        As for ``VerticalDataset``.
    images
        Shape ``[N, H, W]`` or ``[N, C, H, W]``, 0 is dark and 255 bright.
    labels
        Shape ``[N]``, any integers 0 to ``classes`` - 1.
    partition, parties, flatten, normalise
        As for ``mnist``.

    Raises
    ------
    DataError
        If images, labels and rows do not fit together.
    ConfigurationError
        If the partition or the normalisation cannot be.

    Examples
    --------
    >>> from_images(
    ...     "squares", np.zeros((3, 4, 4), np.uint8), np.array([0, 1, 2]),
    ...     np.array([0, 1]), np.array([2]),
    ...     partition="strips", parties=2, flatten=False, normalise=None, notes="",
    ... ).features["party_2"].shape
    torch.Size([3, 1, 4, 2])
    """
    pixels = torch.from_numpy(images if images.ndim == 4 else images[:, None])
    # Cut first: a byte a pixel is a quarter of the memory.
    parts = partitioned(pixels, partition, parties, flatten=False)
    numbers = {party: as_floats(part, normalise) for party, part in parts.items()}
    return VerticalDataset(
        name=name,
        features={party: part.flatten(1) if flatten else part for party, part in numbers.items()},
        labels=torch.from_numpy(labels.astype(np.int64)),
        classes=classes,
        train=train,
        test=test,
        notes=notes,
    )


def read_images(
    images_path: Path, labels_path: Path, values: range = range(_CLASSES)
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the images ``[N, H, W]`` and the labels ``[N]`` of two idx files that belong together.

    Raises
    ------
    DataError
        If a file does not hold what it should, or a label is none of ``values``.
    """
    images, labels = read_idx(images_path), read_idx(labels_path)
    for path, found, dimensions, what in (
        (images_path, images, 3, "images [N, H, W]"),
        (labels_path, labels, 1, "labels [N]"),
    ):
        if found.dtype != np.uint8 or found.ndim != dimensions:
            raise DataError(
                f"{path}: expected {what} of unsigned bytes, found {found.dtype} of shape "
                f"{list(found.shape)}"
            )
    if len(images) != len(labels):
        raise DataError(
            f"{labels_path}: {len(labels)} labels, but {images_path.name} has {len(images)} images"
        )
    strange = (labels < values.start) | (labels >= values.stop)
    if strange.any():
        row = int(np.argmax(strange))
        raise DataError(
            f"{labels_path}: label {row} is {labels[row]}; expected {values.start} to "
            f"{values.stop - 1}"
        )
    return images, labels


def _load(
    source: _Source,
    folder: str | Path | None,
    partition: PartitionName,
    parties: int,
    flatten: bool,
    normalise: tuple[float, float] | None,
) -> VerticalDataset:
    paths = _files(source, folder)
    place = paths[0].parent
    train_images, train_labels = read_images(paths[0], paths[1])
    test_images, test_labels = read_images(paths[2], paths[3])
    if train_images.shape[1:] != test_images.shape[1:]:
        raise DataError(
            f"{place}: training images of {_by(train_images)} pixels, but test images of "
            f"{_by(test_images)}; take all four files from one source"
        )
    for other in (_MNIST, _FASHION):
        if other is not source and train_labels[:8].tobytes() == other.opening:
            raise DataError(
                f"{place}: these are the files of {other.name}, not of {source.name}; "
                f"put the files of {source.name} into a subfolder {source.subfolders[0]}"
            )
    order = np.arange(len(train_labels) + len(test_labels), dtype=np.int64)
    return from_images(
        source.name,
        np.concatenate([train_images, test_images]),
        np.concatenate([train_labels, test_labels]),
        train=order[: len(train_labels)],
        test=order[len(train_labels) :],
        partition=partition,
        parties=parties,
        flatten=flatten,
        normalise=normalise,
        notes="official idx files; official training and test split",
    )


def _files(source: _Source, folder: str | Path | None) -> list[Path]:
    """Return the four files, in the order of ``_FILES``, all from one place."""
    place, prefix = _find(source, data_folder(source.name, folder, "its idx files"))
    return [_file(source, place, prefix + name) for name in _FILES]


def _find(source: _Source, folder: Path) -> tuple[Path, str]:
    """Return the first place where there is any of the files; the others must be there too."""
    for place, prefix in source.places(folder):
        if any(plain_or_packed(place / (prefix + name)) for name in _FILES):
            return place, prefix
    return folder, ""


def _file(source: _Source, place: Path, name: str) -> Path:
    path = plain_or_packed(place / name)
    if path is None:
        raise DataError(
            f"expected the file {name} or {name}.gz of {source.name} in {place}, which has "
            "neither: put the four official idx files there, or name another folder with --data "
            "or COLONNADE_DATA"
        )
    return path


def _by(images: NDArray[np.uint8]) -> str:
    return f"{images.shape[1]} x {images.shape[2]}"
