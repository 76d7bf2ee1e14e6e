"""Columns of numbers brought to one scale, by what the training rows say."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ConfigurationError
from colonnade.tables.numeric import Scale

__all__ = ["check_scale", "scaled"]


def scaled(values: NDArray[Any], rows: NDArray[np.int64], scale: Scale) -> NDArray[Any]:
    """Return columns on a scale that training rows decide; a column constant there becomes 0.

    Parameters
    ----------
    values
        Numbers, ``[N, columns]``.
    rows
        The training rows.
    scale
        ``"standard"``: to mean 0 and variance 1 over the training rows. ``"unit"``: to [0, 1] over
        them; other rows may lie beyond. ``"none"``: as they are.

    Raises
    ------
    ConfigurationError
        If there is no such scale.

    Examples
    --------
    >>> scaled(np.array([[2.0, 5.0], [6.0, 5.0], [8.0, 7.0]]), np.array([0, 1]), "unit").tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.5, 0.0]]
    """
    check_scale(scale)
    if scale == "none":
        return values
    training = values[rows]
    low, high = training.min(0), training.max(0)
    varies = low < high
    zero, one = (training.mean(0), training.std(0)) if scale == "standard" else (low, high - low)
    return np.where(varies, (values - zero) / np.where(varies, one, 1), 0)


def check_scale(scale: str) -> None:
    """Raise ``ConfigurationError`` unless there is such a scale."""
    if scale not in get_args(Scale):
        raise ConfigurationError(
            f"there is no scale {scale!r}; expected one of {', '.join(map(repr, get_args(Scale)))}"
        )
