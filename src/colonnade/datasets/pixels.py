"""From bytes 0 to 255 to the numbers that a model is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from colonnade.errors import ConfigurationError

__all__ = ["Normalise", "as_floats", "check_normalise"]

Normalise: TypeAlias = tuple[float | Sequence[float], float | Sequence[float]]
"""A mean and a standard deviation of pixels in [0, 1], for all channels or one for each."""


def as_floats(pixels: Tensor, normalise: Normalise | None) -> Tensor:
    """Return (x / 255 - mean) / deviation in float32.

    Parameters
    ----------
    pixels
        Bytes of shape ``[..., C, H, W]``.
    normalise
        The mean and the deviation; 0 and 1 when not given.

    Raises
    ------
    ConfigurationError
        If the mean and the deviation are not finite, of other than one number or ``C``, or a
        deviation is not positive.

    Examples
    --------
    >>> as_floats(torch.tensor([[[[0, 255]]]], dtype=torch.uint8), (0.5, 0.25))
    tensor([[[[-2.,  2.]]]])
    """
    mean, deviation = check_normalise(normalise, channels=pixels.shape[-3])
    return pixels.float().div_(255).sub_(mean).div_(deviation)


def check_normalise(normalise: Normalise | None, channels: int) -> tuple[Tensor, Tensor]:
    """Return the mean and the deviation of each channel, ``[C, 1, 1]``, or of all, ``[1, 1, 1]``.

    Raises
    ------
    ConfigurationError
        If these are not what ``as_floats`` can use.
    """
    mean, deviation = (_numbers(values) for values in normalise or (0.0, 1.0))
    finite = all(map(math.isfinite, (*mean, *deviation)))
    fits = {len(mean), len(deviation)} <= {1, channels}
    if not (finite and fits and min(deviation) > 0):
        raise ConfigurationError(
            "normalise must be a mean and a positive standard deviation, each one number or one "
            f"for each channel ({channels} here), not {normalise}"
        )
    return _by_channel(mean), _by_channel(deviation)


def _numbers(values: float | Sequence[float]) -> tuple[float, ...]:
    return tuple(values) if isinstance(values, Sequence) else (values,)


def _by_channel(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).reshape(-1, 1, 1)
