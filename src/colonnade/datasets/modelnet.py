"""ModelNet10: pictures of ten kinds of furniture from all sides.

Wu et al., "3D ShapeNets: a deep representation for volumetric shapes", CVPR 2015;
modelnet.cs.princeton.edu. Models of objects have been rendered from twelve sides (Su, Maji,
Kalogerakis and Learned-Miller, "Multi-view convolutional neural networks for 3D shape recognition",
ICCV 2015). The pictures come in folders by class and split, with a folder for each object or
without:

::

    <class>/<train or test>/<object>/<view>.png
    <class>/<train or test>/<object>_<view>.png

A view is the number that its file's name ends with.

This was tested on generated files of that format, and was not run on the real data.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder
from colonnade.datasets.pictures import (
    Channels,
    check_size,
    in_turns,
    pictures_of,
    read_picture,
    subfolders,
)
from colonnade.datasets.pixels import Normalise, as_floats, check_normalise
from colonnade.errors import ConfigurationError, DataError

__all__ = ["MODELNET10_CLASSES", "modelnet10", "modelnet10_files"]

MODELNET10_CLASSES = (
    "bathtub",
    "bed",
    "chair",
    "desk",
    "dresser",
    "monitor",
    "night_stand",
    "sofa",
    "table",
    "toilet",
)
"""The ten classes, in the order of their labels."""

_SUBFOLDERS = ("modelnet10", "ModelNet10", "")
_SPLITS = ("train", "test")
_VIEW = re.compile(r"(.*?)[_.-]?v?([0-9]+)$", re.DOTALL)


def modelnet10(
    folder: str | Path | None = None,
    *,
    parties: int = 4,
    size: int = 64,
    channels: Channels = 3,
    normalise: Normalise | None = None,
) -> VerticalDataset:
    """Load ModelNet10, the views of each object shared out among the parties.

    A data set is held in memory, 4 bytes for each of N views ``channels`` ``size``^2 values.

    Parameters
    ----------
    folder
        Where the folders ``bathtub`` to ``toilet`` are, or its subfolder ``modelnet10`` or
        ``ModelNet10``; folders of other classes, as of ModelNet40, are left alone. By default the
        folder that the environment variable ``COLONNADE_DATA`` names.
    parties
        Each has as many views, in their order: of twelve, ``party_1`` of 4 has the first three.
    size
        Height and width that pictures are scaled to.
    channels
        1 for grey or 3 for colours.
    normalise
        Pixels are scaled to [0, 1]; if a mean and a standard deviation on that scale are given,
        the former is then subtracted and the latter divided by. Each is one number, or one for
        each colour.

    Returns
    -------
    VerticalDataset
        A party's features have the shape ``[N, views, channels, size, size]``. The training rows
        come first; in each part, sorted by name, the classes take turns.

    Raises
    ------
    DataError
        If there is no folder, a class is missing, an object has other views than the first one,
        or a picture cannot be read.
    ConfigurationError
        If the views cannot be shared out, or a number is out of range.

    Examples
    --------
    ::

        dataset = modelnet10("data", parties=12)
        dataset.features["party_1"].shape  # [N, 1, 3, 64, 64]
    """
    check_size(size, channels)
    check_normalise(normalise, channels)
    place = modelnet10_files(folder)[0].parent
    parts = [
        in_turns([_objects(place / name / split) for name in MODELNET10_CLASSES])
        for split in _SPLITS
    ]
    rows = [row for part in parts for row in part]
    views = _number_of_views([files for _, files in rows])
    if parties < 1 or views % parties:
        raise ConfigurationError(
            f"{views} views cannot be shared out equally among {parties} parties; "
            f"choose a number of parties that divides {views}"
        )
    pixels = np.empty((len(rows), views, channels, size, size), dtype=np.uint8)
    for row, (_, files) in enumerate(rows):
        for view, path in enumerate(files.values()):
            pixels[row, view] = read_picture(path, channels, size)
    shares = torch.from_numpy(pixels).tensor_split(parties, dim=1)
    order = np.arange(len(rows), dtype=np.int64)
    return VerticalDataset(
        name="ModelNet10",
        features={
            f"party_{number}": as_floats(share, normalise).contiguous()
            for number, share in enumerate(shares, start=1)
        },
        labels=torch.tensor([label for label, _ in rows]),
        classes=len(MODELNET10_CLASSES),
        train=order[: len(parts[0])],
        test=order[len(parts[0]) :],
        notes=f"{views} views of each object, scaled to {size} x {size} pixels; the training and "
        "test split of the folders",
    )


def modelnet10_files(folder: str | Path | None = None) -> list[Path]:
    """Return the ten folders that ``modelnet10`` would read.

    Raises
    ------
    DataError
        If there is no folder, or a class is missing.
    """
    root = data_folder("ModelNet10", folder, "its pictures")
    for place in (root / subfolder for subfolder in _SUBFOLDERS):
        missing = [
            f"{name}/{split}"
            for name in MODELNET10_CLASSES
            for split in _SPLITS
            if not (place / name / split).is_dir()
        ]
        if not missing:
            return [place / name for name in MODELNET10_CLASSES]
        if len(missing) < len(MODELNET10_CLASSES) * len(_SPLITS):
            raise DataError(
                f"{place} has folders of ModelNet10, but not {', '.join(missing)}; put all ten "
                "classes there"
            )
    raise DataError(
        f"expected pictures of ModelNet10 in modelnet10/{MODELNET10_CLASSES[0]}/{_SPLITS[0]} and "
        f"its sisters in {root}, which has none: put them there, or name another folder with "
        "--data or COLONNADE_DATA"
    )


def _objects(folder: Path) -> list[dict[int, Path]]:
    """Return for each object of a class, sorted by name, its views by their numbers."""
    inside = subfolders(folder)
    if inside:
        found = [pictures_of(place) for place in inside]
        return [_numbered(files) for files in found]
    objects: dict[str, list[Path]] = {}
    for path in pictures_of(folder):
        match = _VIEW.match(path.stem)
        objects.setdefault(match[1] if match else path.stem, []).append(path)
    return [_numbered(files) for _, files in sorted(objects.items())]


def _numbered(files: list[Path]) -> dict[int, Path]:
    views: dict[int, Path] = {}
    for path in files:
        match = _VIEW.match(path.stem)
        if match is None:
            raise DataError(f"{path}: its name does not end with the number of a view")
        if int(match[2]) in views:
            raise DataError(
                f"{path} and {views[int(match[2])].name} are both view {int(match[2])} of an "
                "object; keep one"
            )
        views[int(match[2])] = path
    return dict(sorted(views.items()))


def _number_of_views(objects: list[dict[int, Path]]) -> int:
    """Return how many views every object has, which must be the same ones."""
    expected = list(objects[0])
    for views in objects:
        if list(views) != expected:
            raise DataError(
                f"{next(iter(views.values()))}: an object with the views "
                f"{', '.join(map(str, views))}, but the first one has "
                f"{', '.join(map(str, expected))}; all must have the same"
            )
    return len(expected)
