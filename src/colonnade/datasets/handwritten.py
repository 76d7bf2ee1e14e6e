"""Six views of 2000 handwritten digits: UCI's multiple features data set.

Duin, "Multiple Features", UCI Machine Learning Repository, 1998, doi:10.24432/C5HC70. Digits from
a collection of Dutch utility maps, 200 of each, described in six ways. Parties have the names of
UCI's files:

====  =======  ============================================
name  columns  what
====  =======  ============================================
fou   76       Fourier coefficients of the character shapes
fac   216      profile correlations
kar   64       Karhunen-Loève coefficients
pix   240      averages of 2 x 3 windows of pixels
zer   47       Zernike moments
mor   6        morphological features
====  =======  ============================================
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder, plain_or_packed
from colonnade.datasets.matlab import checked_view, matlab_views
from colonnade.datasets.scaling import check_scale, scaled
from colonnade.datasets.stratified import stratified
from colonnade.errors import DataError
from colonnade.quiet import warning_otherwise
from colonnade.tables.numeric import Scale
from colonnade.telling import first_line

__all__ = ["VIEWS", "handwritten", "handwritten_files"]

VIEWS = {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47, "mor": 6}
"""The six views, in UCI's order, and how many columns each has."""

_NAME = "handwritten digits"
_MATLAB = "handwritten.mat"
_SUBFOLDERS = ("", "mfeat", "handwritten")
_CLASSES = 10
_OF_EACH = 200
_ROWS = _CLASSES * _OF_EACH


def handwritten(
    folder: str | Path | None = None,
    *,
    scale: Scale = "standard",
    test: float = 0.2,
    seed: int = 0,
) -> VerticalDataset:
    """Load six views of handwritten digits, one for each party.

    Of each digit the same number of rows is for testing, chosen by a permutation that is the same
    everywhere. Training rows and test rows are listed with the digits taking turns, so the first
    ones of any number are a fair sample.

    Parameters
    ----------
    folder
        Where the files are: either ``handwritten.mat``, or UCI's ``mfeat-fou``, ``mfeat-fac``,
        ``mfeat-kar``, ``mfeat-pix``, ``mfeat-zer`` and ``mfeat-mor``, each plain or ``.gz``, in
        the folder or in its subfolder ``mfeat`` or ``handwritten``. By default the folder that
        the environment variable ``COLONNADE_DATA`` names.
    scale
        ``"standard"``: each column to mean 0 and variance 1 over the training rows; ``"unit"``: to
        [0, 1] over them, as polynomial networks want it; ``"none"``: as it is. A column that is
        constant in the training rows becomes 0.
    test
        The share of test rows; 0.4 in the experiments of FedVS.
    seed
        Another seed, another choice of test rows.

    Returns
    -------
    VerticalDataset
        2000 rows in the order of the files, 200 of each digit.

    Raises
    ------
    DataError
        If there is no folder, a file is missing, or a file does not hold what it should.
    ConfigurationError
        If there is no such scale, or the share leaves no row of each digit for training or for
        testing.

    Examples
    --------
    ::

        digits = handwritten("data")
        digits  # VerticalDataset('handwritten', 6 parties, 1600 + 400 rows, 10 classes)
        digits.features["zer"].shape  # [2000, 47]
    """
    check_scale(scale)
    files = handwritten_files(folder)
    views, labels = _from_matlab(files[0]) if len(files) == 1 else _from_text(files)
    train_rows, test_rows = stratified("handwritten", labels, test, seed)
    views = {name: scaled(x, train_rows, scale) for name, x in views.items()}
    return VerticalDataset(
        name="handwritten",
        features={name: torch.from_numpy(x.astype(np.float32)) for name, x in views.items()},
        labels=torch.from_numpy(labels),
        classes=_CLASSES,
        train=train_rows,
        test=test_rows,
        notes="UCI multiple features; there is no official split into training and test rows",
    )


def handwritten_files(folder: str | Path | None = None) -> list[Path]:
    """Return the files that ``handwritten`` would read: the one of MATLAB, or UCI's six.

    Raises
    ------
    DataError
        If there is no folder, or a file is missing.
    """
    root = data_folder(_NAME, folder)
    names = [f"mfeat-{view}" for view in VIEWS]
    for place in (root / sub for sub in _SUBFOLDERS):
        if (place / _MATLAB).is_file():
            return [place / _MATLAB]
        found = {name: plain_or_packed(place / name) for name in names}
        missing = [name for name, path in found.items() if path is None]
        if len(missing) < len(names):
            if missing:
                raise DataError(
                    f"{place} has files of the {_NAME}, but not {', '.join(missing)}; "
                    "put all six of UCI's files there"
                )
            return [path for path in found.values() if path is not None]
    raise DataError(
        f"expected the file {_MATLAB}, or UCI's mfeat-fou and its five sisters, in {root}, which "
        "has neither: put them there, or name another folder with --data or COLONNADE_DATA"
    )


def _from_matlab(path: Path) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the views and the digits of a file whose labels Y are from 1."""
    found, labels = matlab_views(path, VIEWS)
    views = {name: checked_view(path, name, x, _ROWS) for name, x in found.items()}
    digits = np.arange(1, _CLASSES + 1)
    if len(labels) != _ROWS or not np.array_equal(np.sort(labels), digits.repeat(_OF_EACH)):
        raise DataError(
            f"{path}: Y holds {len(labels)} labels; expected each of 1 to {_CLASSES}, which stand "
            f"for the digits 0 to {_CLASSES - 1}, {_OF_EACH} times"
        )
    return views, labels.astype(np.int64) - 1


def _from_text(files: list[Path]) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the views of UCI's files, whose rows are 200 zeros, 200 ones, and so on."""
    views = {}
    for (name, width), path in zip(VIEWS.items(), files, strict=True):
        try:
            with warning_otherwise():
                warnings.simplefilter("ignore", UserWarning)  # an empty file is refused below
                values = np.loadtxt(path, dtype=np.float64, ndmin=2)
        except (ValueError, OSError, EOFError) as error:
            line = first_line(error)
            raise DataError(f"{path} cannot be read as a table of numbers: {line}") from error
        if values.shape[1] != width:
            raise DataError(f"{path} has {values.shape[1]} columns; expected {width}")
        views[name] = checked_view(path, name, values, _ROWS)
    return views, np.arange(_CLASSES, dtype=np.int64).repeat(_OF_EACH)
