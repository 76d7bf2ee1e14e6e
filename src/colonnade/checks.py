"""Whether what the user brought can be trained on: labels, features, bottom models.

Each check happens before anything is written, and its error names the organisation and the place.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.errors import ConfigurationError, DataError
from colonnade.links import Rows
from colonnade.models import (
    Features,
    all_finite,
    check_module,
    shown,
    take,
    tried,
)
from colonnade.telling import first_line

__all__ = [
    "check_device",
    "check_features",
    "check_labels",
    "embedding_width",
    "extreme_rows",
]

_AT_ONCE = 2**20  # values among which the wrong one is searched at a time: that needs memory


def extreme_rows(labels: Tensor) -> Rows:
    """Return the rows of the smallest and of the largest label."""
    flat = labels.flatten(1).amax(1) if labels.dim() > 1 else labels
    return np.array([int(flat.argmin()), int(flat.argmax())], dtype=np.int64)


def check_labels(name: str, labels: object) -> None:
    """Raise ``DataError`` unless labels are a tensor of finite values with a row or more."""
    if not isinstance(labels, Tensor) or labels.dim() == 0 or labels.numel() == 0:
        raise DataError(
            f"the labels of {name!r} must be a tensor with a row or more, not {shown(labels)}"
        )
    if labels.dtype is torch.bool or labels.is_complex():
        raise DataError(
            f"the labels of {name!r} are {shown(labels)}, but must be classes 0, 1, ... as int64 "
            "(labels.long()) or numbers as float32"
        )
    if labels.is_floating_point():
        _check_finite("labels", name, labels)


def check_features(name: str, features: Features, rows: int) -> None:
    """Raise ``DataError`` unless features are tensors of ``rows`` rows, all finite."""
    columns: object = {"features": features} if isinstance(features, Tensor) else features
    if not isinstance(columns, Mapping):
        raise DataError(
            f"the features of {name!r} must be a tensor, or tensors by name, not {shown(columns)}"
        )
    for column, values in columns.items():
        if not isinstance(values, Tensor) or values.dim() == 0:
            raise DataError(
                f"{column} of {name!r} must be a tensor [rows, ...], not {shown(values)}"
            )
        if len(values) != rows:
            raise DataError(
                f"{name!r} has {len(values)} rows of {column}, but there are {rows} labels"
            )
        if values.is_floating_point():
            _check_finite(column, name, values)


def _check_finite(what: str, name: str, values: Tensor) -> None:
    if all_finite(values):
        return
    at_once = max(1, _AT_ONCE * len(values) // max(1, values.numel()))
    for first in range(0, len(values), at_once):
        some = values[first : first + at_once]
        finite = torch.isfinite(some)
        if not finite.all():
            row, *rest = (~finite).nonzero()[0].tolist()
            raise DataError(
                f"{what} of {name!r} hold {float(some[(row, *rest)])} in row {first + row}"
                + (f", column {rest[0]}" if rest else "")
                + "; fill or drop missing values before training"
            )


def check_device(name: str, device: str | torch.device) -> None:
    """Raise ``ConfigurationError`` unless torch can compute on the device here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch has no one error for it
        raise ConfigurationError(
            f"the models of {name!r} cannot compute on {str(device)!r}: {first_line(error)}"
        ) from None


def embedding_width(name: str, bottom: nn.Module, features: Features) -> int:
    """Return the width of a bottom model's embeddings, by trying it on two rows."""
    check_module(f"the bottom model of {name!r}", bottom)
    try:
        output = tried(bottom, take(features, np.zeros(2, dtype=np.int64)))
    except Exception as error:  # a user's module may raise anything
        raise ConfigurationError(
            f"the bottom model of {name!r} does not take its features: {first_line(error)}"
        ) from error
    if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != 2:
        raise ConfigurationError(
            f"the bottom model of {name!r} must return embeddings of shape [rows, width], "
            f"but for 2 rows it returned {shown(output)}"
        )
    if output.is_complex():
        raise ConfigurationError(
            f"the bottom model of {name!r} must return real numbers, but returned {shown(output)}: "
            "put real and imaginary parts side by side"
        )
    return int(output.shape[1])
