"""ImageNet, or some of its classes: folders of pictures, scaled and cut among parties.

Deng et al., "ImageNet: a large-scale hierarchical image database", CVPR 2009; the pictures of
ILSVRC 2012, image-net.org, in folders by class:

::

    train/<class>/*.JPEG
    val/<class>/*.JPEG

A class is called by its WordNet id, such as n01440764. (The official pictures for validation lie in
one folder, and have to be sorted into the classes first.) ImageNet-100 is any hundred classes: name
them when results are to be compared.

This was tested on generated files of that format, and was not run on the real data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder
from colonnade.datasets.mnist import from_images
from colonnade.datasets.partition import PartitionName
from colonnade.datasets.pictures import (
    Channels,
    check_size,
    in_turns,
    pictures_of,
    read_picture,
    subfolders,
)
from colonnade.datasets.pixels import Normalise, check_normalise
from colonnade.errors import ConfigurationError, DataError
from colonnade.tables.names import listed

__all__ = ["imagenet", "imagenet_files"]

_SUBFOLDERS = ("imagenet", "imagenet100", "")
_SPLITS = ("train", "val")
_CHANNELS: Channels = 3


def imagenet(
    folder: str | Path | None = None,
    *,
    classes: int | Sequence[str] = 100,
    size: int = 64,
    partition: PartitionName = "quadrants",
    parties: int = 4,
    flatten: bool = False,
    normalise: Normalise | None = None,
) -> VerticalDataset:
    """Load classes of ImageNet, to test on the pictures for validation.

    The data set is held in memory, 12 ``size``^2 bytes for each picture: 126000 pictures of 64 x 64
    pixels are 6.2 GB, of 224 x 224 pixels 76 GB.

    Parameters
    ----------
    folder
        Where the folders ``train`` and ``val`` are, or its subfolder ``imagenet`` or
        ``imagenet100``. By default the folder that the environment variable ``COLONNADE_DATA``
        names.
    classes
        The names of the classes' folders in the order of their labels, or how many: the first
        ones of ``train``, sorted by name.
    size
        Height and width of pictures: the largest square in a picture's middle is scaled to it.
    partition, parties
        Who sees which pixels: ``"quadrants"`` of 4 parties, or vertical ``"strips"``.
    flatten
        Whether a party's features have the shape ``[N, values]`` or ``[N, 3, height, width]``.
    normalise
        Pixels are scaled to [0, 1]; if a mean and a standard deviation on that scale are given,
        such as ``((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))``, the former is then subtracted
        and the latter divided by. Each is one number, or one for each colour.

    Returns
    -------
    VerticalDataset
        The training rows first; in each part, sorted by name, the classes take turns.

    Raises
    ------
    DataError
        If there is no folder, a class is missing, or a picture cannot be read.
    ConfigurationError
        If the classes, the size, the partition or the normalisation cannot be.

    Examples
    --------
    ::

        dataset = imagenet("data", classes=["n01440764", "n01443537"], size=32)
        dataset.features["party_1"].shape  # [2700, 3, 16, 16]
    """
    check_size(size, _CHANNELS)
    check_normalise(normalise, _CHANNELS)
    folders = imagenet_files(folder, classes)
    count = len(folders) // len(_SPLITS)
    parts = [
        in_turns([pictures_of(place) for place in places])
        for places in (folders[:count], folders[count:])
    ]
    rows = [row for part in parts for row in part]
    images = np.empty((len(rows), _CHANNELS, size, size), dtype=np.uint8)
    for row, (_, path) in enumerate(rows):
        images[row] = read_picture(path, _CHANNELS, size)
    order = np.arange(len(rows), dtype=np.int64)
    return from_images(
        f"ImageNet-{count}",
        images,
        np.array([label for label, _ in rows]),
        train=order[: len(parts[0])],
        test=order[len(parts[0]) :],
        partition=partition,
        parties=parties,
        flatten=flatten,
        normalise=normalise,
        notes=f"{count} classes of ImageNet, {folders[0].name} to {folders[count - 1].name}, of "
        f"{size} x {size} pixels; tested on the pictures for validation",
        classes=count,
    )


def imagenet_files(
    folder: str | Path | None = None, classes: int | Sequence[str] = 100
) -> list[Path]:
    """Return the folders that ``imagenet`` would read: of each class in train, then in val.

    Raises
    ------
    DataError
        If there is no folder, or there are fewer classes.
    ConfigurationError
        If fewer than two classes are asked for, or one twice.
    """
    _check_classes(classes)
    root = data_folder("ImageNet", folder, "its pictures")
    place = next(
        (
            root / subfolder
            for subfolder in _SUBFOLDERS
            if all((root / subfolder / split).is_dir() for split in _SPLITS)
        ),
        None,
    )
    if place is None:
        raise DataError(
            f"expected the folders imagenet/train and imagenet/val in {root}, with a folder of "
            "pictures for each class: put them there, or name another folder with --data or "
            "COLONNADE_DATA"
        )
    names = [path.name for path in subfolders(place / _SPLITS[0])]
    if isinstance(classes, int) and len(names) < classes:
        raise DataError(
            f"{place / _SPLITS[0]} has folders of {len(names)} classes; expected {classes}, so set "
            "classes to fewer or fetch the others"
        )
    chosen = names[:classes] if isinstance(classes, int) else classes
    found = [place / split / name for split in _SPLITS for name in chosen]
    missing = [str(path.relative_to(place)) for path in found if not path.is_dir()]
    if missing:
        raise DataError(f"{place} has no folder {listed(missing)}; every class needs one in both")
    return found


def _check_classes(classes: int | Sequence[str]) -> None:
    if isinstance(classes, str):
        raise ConfigurationError(f"classes must be a list of names, not the name {classes!r}")
    if isinstance(classes, int):
        if classes < 2:
            raise ConfigurationError(f"classes must be 2 or more, not {classes}")
    elif len(classes) < 2 or len(set(classes)) != len(classes):
        raise ConfigurationError(
            f"classes must name 2 or more, each once, not {listed(classes) or 'none'}"
        )
