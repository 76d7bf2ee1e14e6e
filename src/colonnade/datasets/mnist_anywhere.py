"""MNIST from the official files, or, where those are not at hand, from OpenML."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.mnist import from_images, mnist
from colonnade.datasets.openml import openml_table
from colonnade.datasets.partition import PartitionName
from colonnade.errors import DataError

__all__ = ["mnist_anywhere"]

_SIDE = 28


def mnist_anywhere(
    folder: str | Path | None = None,
    *,
    partition: PartitionName = "quadrants",
    parties: int = 4,
    normalise: tuple[float, float] | None = None,
) -> VerticalDataset:
    """Load MNIST from a folder; if none is given and none has it, OpenML's ``mnist_784``.

    OpenML keeps the images in their official order, the last seventh being those to test on.

    Parameters
    ----------
    folder, partition, parties, normalise
        As for ``mnist``; pixels are flat.

    Raises
    ------
    DataError
        If a folder is given that does not hold it, or it can be had from neither.

    Examples
    --------
    ::

        dataset = mnist_anywhere()
        dataset.notes  # where it is from
    """
    try:
        return mnist(folder, partition=partition, parties=parties, normalise=normalise)
    except DataError as error:
        if folder is not None:
            raise
        missing = str(error)
    try:
        frame, target = openml_table("mnist_784", 1)
    except DataError as error:
        raise DataError(f"{missing}; and {error}") from None
    pixels = frame.drop(target).to_numpy()
    if pixels.shape[1] != _SIDE**2 or not (pixels == np.clip(np.rint(pixels), 0, 255)).all():
        raise DataError("OpenML's 'mnist_784' does not hold images of 28 x 28 pixels")
    train = len(pixels) * 6 // 7
    rows = np.arange(len(pixels), dtype=np.int64)
    return from_images(
        "mnist",
        pixels.astype(np.uint8).reshape(-1, _SIDE, _SIDE),
        frame[target].cast(int).to_numpy(),
        rows[:train],
        rows[train:],
        partition=partition,
        parties=parties,
        flatten=True,
        normalise=normalise,
        notes="MNIST from OpenML (mnist_784, version 1)",
    )
