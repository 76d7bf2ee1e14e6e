"""Views of the same things in one file of MATLAB, as data sets of several views are passed around.

The file has a cell array ``X``, a matrix ``[rows, columns]`` for each view, and labels ``Y``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DataError
from colonnade.telling import first_line

__all__ = ["checked_view", "matlab_views"]

_LARGEST = 1e15  # whose squares a float32 holds, for means and deviations


def matlab_views(
    path: Path, widths: Mapping[str, int]
) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Return the views of a file by name, and its labels ``[N]``, as they are.

    Views are told apart by how many columns they have, whatever their order in the file.

    Parameters
    ----------
    path
        The file.
    widths
        How many columns each view has, all different.

    Raises
    ------
    DataError
        If the file cannot be read, has no X or Y, or X holds other views.
    """
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=["X", "Y"])
    except Exception as error:  # a damaged file can end its reader in many ways
        line = first_line(error)
        raise DataError(f"{path} cannot be read as a file of MATLAB: {line}") from error
    for name in ("X", "Y"):
        if name not in content:
            raise DataError(
                f"{path} has no variable {name}; expected a cell array X of views and labels Y"
            )
    cells = content["X"]
    arrays = list(cells.ravel()) if cells.dtype == object else []
    by_width = {x.shape[1]: x for x in arrays if isinstance(x, np.ndarray) and x.ndim == 2}
    if sorted(by_width) != sorted(widths.values()) or len(arrays) != len(widths):
        raise DataError(
            f"{path}: X holds {len(arrays)} arrays of {sorted(by_width)} columns; expected the "
            f"views of {sorted(widths.values())}"
        )
    labels = np.ravel(content["Y"]) if isinstance(content["Y"], np.ndarray) else np.empty(0, "O")
    if labels.dtype.kind not in "fiu":
        raise DataError(f"{path}: Y holds {labels.dtype}; expected a label for each row, a number")
    return {name: by_width[width] for name, width in widths.items()}, labels


def checked_view(path: Path, name: str, values: NDArray[Any], rows: int) -> NDArray[np.float64]:
    """Return a view as float64, if it has so many rows of finite numbers.

    Raises
    ------
    DataError
        If it has not.
    """
    if len(values) != rows or values.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: {name} has {len(values)} rows of {values.dtype}; expected {rows} of numbers"
        )
    numbers = values.astype(np.float64)
    wrong = ~(np.abs(numbers) <= _LARGEST)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise DataError(
            f"{path}: {name} holds {numbers[row, column]} in row {row}, column {column}; "
            f"expected numbers up to {_LARGEST:g}, so fetch the file again"
        )
    return numbers
