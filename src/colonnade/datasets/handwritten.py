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
from colonnade.errors import ConfigurationError, DataError
from colonnade.kernels.philox import permutation
from colonnade.streams import StreamKey

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
    standardise: bool = True,
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
    standardise
        Whether each column is scaled to mean 0 and variance 1 over the training rows; a column
        that is constant there becomes 0.
    test
        The share of test rows.
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
        If the share leaves no row of each digit for training or for testing.

    Examples
    --------
    ::

        digits = handwritten("data")
        digits  # VerticalDataset('handwritten', 6 parties, 1600 + 400 rows, 10 classes)
        digits.features["zer"].shape  # [2000, 47]
    """
    count = _tests_of_each(test)
    files = handwritten_files(folder)
    views, labels = _from_matlab(files[0]) if len(files) == 1 else _from_text(files)
    train_rows, test_rows = _divided(labels, count, seed)
    if standardise:
        views = {name: _standardised(x, train_rows) for name, x in views.items()}
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
    """Return the views and the digits of a file with a cell array X and labels Y from 1."""
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=["X", "Y"])
    except Exception as error:  # a damaged file can end its reader in many ways
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path} cannot be read as a file of MATLAB: {line}") from error
    for name in ("X", "Y"):
        if name not in content:
            raise DataError(
                f"{path} has no variable {name}; expected a cell array X of views and labels Y"
            )
    cells = content["X"]
    arrays = list(cells.ravel()) if cells.dtype == object else []
    by_width = {x.shape[1]: x for x in arrays if getattr(x, "ndim", 0) == 2}
    if sorted(by_width) != sorted(VIEWS.values()) or len(arrays) != len(VIEWS):
        raise DataError(
            f"{path}: X holds {len(arrays)} arrays of {sorted(by_width)} columns; expected the six "
            f"views of {sorted(VIEWS.values())}"
        )
    views = {name: _checked(path, name, by_width[width]) for name, width in VIEWS.items()}
    labels = np.asarray(content["Y"]).ravel()
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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # an empty file is refused below
                values = np.loadtxt(path, dtype=np.float64, ndmin=2)
        except (ValueError, OSError, EOFError) as error:
            line = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"{path} cannot be read as a table of numbers: {line}") from error
        if values.shape[1] != width:
            raise DataError(f"{path} has {values.shape[1]} columns; expected {width}")
        views[name] = _checked(path, name, values)
    return views, np.arange(_CLASSES, dtype=np.int64).repeat(_OF_EACH)


def _checked(path: Path, name: str, values: NDArray[Any]) -> NDArray[Any]:
    if len(values) != _ROWS or values.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: {name} has {len(values)} rows of {values.dtype}; expected {_ROWS} of numbers"
        )
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        row, column = np.argwhere(~np.isfinite(numbers))[0]
        raise DataError(
            f"{path}: {name} holds {numbers[row, column]} in row {row}, column {column}; "
            "expected finite numbers, so fetch the file again"
        )
    return numbers


def _tests_of_each(share: float) -> int:
    count = round(share * _OF_EACH) if 0 < share < 1 else 0
    if not 0 < count < _OF_EACH:
        raise ConfigurationError(
            f"test must be a share that leaves some of {_OF_EACH} rows of each digit for training "
            f"and some for testing, not {share}"
        )
    return count


def _divided(
    labels: NDArray[np.int64], tests: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training and the test rows, in which the digits take turns."""
    turns = np.empty((_OF_EACH, _CLASSES), dtype=np.int64)
    for digit in range(_CLASSES):
        order = permutation(StreamKey(seed, "", "handwritten/split", 0, digit), _OF_EACH)
        turns[:, digit] = np.flatnonzero(labels == digit)[order]
    return turns[tests:].ravel(), turns[:tests].ravel()


def _standardised(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    training = values[rows]
    varies = training.min(0) < training.max(0)
    scale = np.where(varies, training.std(0), 1)
    return np.where(varies, (values - training.mean(0)) / scale, 0)
