"""What a mechanism may be given: numbers, none beyond the bound that its promise rests on."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colonnade.annotated import is_number, is_whole
from colonnade.errors import ConfigurationError, Diverged, LocalProtocolError
from colonnade.kernels.scalar import extremes

__all__ = [
    "check_bound",
    "check_normal",
    "check_range",
    "check_whole",
    "matrix",
    "refuse_nonfinite",
    "within",
]

_FLOAT32 = np.finfo(np.float32)


def check_bound(bound: float) -> None:
    """Raise ``ConfigurationError`` unless a bound is a positive number that embeddings can have."""
    check_normal("bound", bound)


def check_normal(name: str, value: float) -> None:
    """Raise ``ConfigurationError`` unless a positive number has all its digits in float32."""
    low, high = (float(end) for end in (_FLOAT32.tiny, _FLOAT32.max))
    if not (is_number(value) and low <= value <= high):
        raise ConfigurationError(
            f"{name} must be a positive, finite number, not {value!r:.40}: embeddings are float32, "
            f"so give one from {low:.3g} to {high:.3g}"
        )


def check_whole(name: str, value: int, least: int, most: int) -> None:
    """Raise ``ConfigurationError`` unless a setting is a whole number of a range."""
    if not is_whole(value) or not least <= value <= most:
        raise ConfigurationError(
            f"{name} must be a whole number from {least} to {most}, not {value!r}"
        )


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise ``ConfigurationError`` unless a setting is above ``least``, and ``most`` or below."""
    if not (is_number(value) and least < value <= most):
        raise ConfigurationError(
            f"{name} must be a number above {least:g} and at most {most:g}, not {value!r}"
        )


def within(x: Tensor, bound: float) -> NDArray[np.float32]:
    """Return the values of embeddings ``[rows, width]``, one after another.

    A value may be the bound rounded to float32, which is what a bottom that ends in
    ``bound * tanh`` can reach.

    Raises
    ------
    Diverged
        If a value is not finite.
    ConfigurationError
        If a value is beyond the bound.
    """
    matrix(x)
    values: NDArray[np.float32] = x.detach().to(device="cpu", dtype=torch.float32).numpy()
    flat = np.ascontiguousarray(values).reshape(-1)
    if len(flat) == 0:
        return flat
    low, high = (float(end) for end in extremes(flat))
    if not (math.isfinite(low) and math.isfinite(high)):
        refuse_nonfinite(x)
    if max(abs(low), abs(high)) > np.float32(bound):
        # All others are told of it, so it says no component of what is protected.
        raise ConfigurationError(
            f"an embedding has a component beyond the bound {bound:g} that its protection rests "
            "on; let the bottom model end in tanh, times the bound where that is "
            f"not 1 (models.Bounded({bound:g}); in a file model.bound: {bound:g}, or for an mlp "
            "and the bound 1 model.bottom.activation: tanh), or raise the mechanism's bound"
        )
    return flat


def matrix(x: Tensor) -> None:
    """Raise ``LocalProtocolError`` unless ``x`` is ``[rows, width]``."""
    if x.dim() != 2:
        raise LocalProtocolError(
            f"a mechanism takes a matrix [rows, width], but was given shape {list(x.shape)}"
        )


def refuse_nonfinite(x: Tensor) -> None:
    """Raise ``Diverged`` that names the first component of a matrix that is not finite, if any."""
    places = (~torch.isfinite(x)).nonzero()
    if len(places):
        row, column = places[0].tolist()
        raise Diverged(
            f"component {column} of row {row} is {float(x[row, column])}, "
            "which cannot be protected; training has diverged, try a smaller learning rate"
        )
