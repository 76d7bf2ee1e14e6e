"""Six views of 1474 pictures of seven things: Caltech101-7.

Fei-Fei, Fergus and Perona, "Learning generative visual models from few training examples", CVPR
workshop 2004, made Caltech 101. Of seven of its classes, Li, Nie, Huang and Huang, "Large-scale
multi-view spectral clustering via bipartite graph", AAAI 2015, computed six descriptions, which are
passed around as one file of MATLAB: a cell array ``X`` of the views, ``[rows, columns]`` each, and
labels ``Y`` from 1 to 7.

========  =======  ====================================
party     columns  what
========  =======  ====================================
gabor     48       Gabor filters
wm        40       wavelet moments
centrist  254      census transform histograms
hog       1984     histograms of oriented gradients
gist      512      spatial envelope
lbp       928      local binary patterns
========  =======  ====================================

Classes are of very different sizes: in the published file 435 faces, 798 motorbikes, and 52, 34,
35, 64 and 56 dollar bills, Garfields, Snoopys, stop signs and Windsor chairs.

This was tested on generated files of that format, and was not run on the real data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder
from colonnade.datasets.matlab import checked_view, matlab_views
from colonnade.datasets.scaling import check_scale, scaled
from colonnade.datasets.stratified import stratified
from colonnade.errors import DataError
from colonnade.tables.numeric import Scale

__all__ = ["CALTECH_VIEWS", "caltech7", "caltech7_files"]

CALTECH_VIEWS = {"gabor": 48, "wm": 40, "centrist": 254, "hog": 1984, "gist": 512, "lbp": 928}
"""The six views, in the file's order, and how many columns each has."""

_FILE = "Caltech101-7.mat"
_SUBFOLDERS = ("", "caltech", "caltech7")
_CLASSES = 7


def caltech7(
    folder: str | Path | None = None,
    *,
    scale: Scale = "standard",
    test: float = 0.2,
    seed: int = 0,
) -> VerticalDataset:
    """Load six views of seven things, one for each party.

    Of each class the same share of rows is for testing, chosen by a permutation that is the same
    everywhere. Training rows and test rows are listed with the classes taking turns, so the first
    ones of any number are a fair sample.

    Parameters
    ----------
    folder
        Where ``Caltech101-7.mat`` is, or its subfolder ``caltech`` or ``caltech7``. By default the
        folder that the environment variable ``COLONNADE_DATA`` names.
    scale
        ``"standard"``: each column to mean 0 and variance 1 over the training rows; ``"unit"``: to
        [0, 1] over them, as polynomial networks want it; ``"none"``: as it is. A column that is
        constant in the training rows becomes 0.
    test
        The share of test rows.
    seed
        Another seed, another choice of test rows.

    Returns
    -------
    VerticalDataset
        The rows in the order of the file.

    Raises
    ------
    DataError
        If there is no folder or file, or it does not hold what it should.
    ConfigurationError
        If there is no such scale, or the share leaves no row of a class for training or for
        testing.

    Examples
    --------
    ::

        things = caltech7("data")
        things  # VerticalDataset('Caltech101-7', 6 parties, 1178 + 296 rows, 7 classes)
        things.features["gist"].shape  # [1474, 512]
    """
    check_scale(scale)
    (path,) = caltech7_files(folder)
    views, numbers = matlab_views(path, CALTECH_VIEWS)
    found = np.unique(numbers)
    if not np.array_equal(found, np.arange(1, _CLASSES + 1)):
        raise DataError(
            f"{path}: Y holds {len(found)} different labels; expected each of 1 to {_CLASSES}"
        )
    labels = numbers.astype(np.int64) - 1
    train, tested = stratified("caltech7", labels, test, seed)
    features = {
        name: scaled(checked_view(path, name, values, len(labels)), train, scale)
        for name, values in views.items()
    }
    return VerticalDataset(
        name="Caltech101-7",
        features={name: torch.from_numpy(x.astype(np.float32)) for name, x in features.items()},
        labels=torch.from_numpy(labels),
        classes=_CLASSES,
        train=train,
        test=tested,
        notes="Caltech101-7, six views; there is no official split into training and test rows",
    )


def caltech7_files(folder: str | Path | None = None) -> list[Path]:
    """Return the file that ``caltech7`` would read, alone in a list.

    Raises
    ------
    DataError
        If there is no folder, or no such file in it.
    """
    root = data_folder("Caltech101-7", folder)
    for place in (root / sub for sub in _SUBFOLDERS):
        if (place / _FILE).is_file():
            return [place / _FILE]
    raise DataError(
        f"expected the file {_FILE} in {root}, which has none: put it there, or name another "
        "folder with --data or COLONNADE_DATA"
    )
