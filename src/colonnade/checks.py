"""Whether what the user brought can be trained on: labels, features, bottom models.

Each check happens before anything is written, and its error names the organisation and the place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.annotated import check_kind
from colonnade.checkpoints import encode_state
from colonnade.errors import CheckpointError, ConfigurationError, DataError
from colonnade.faults import blamed
from colonnade.links import Rows
from colonnade.models import (
    Features,
    Learner,
    all_finite,
    check_module,
    check_steady,
    shown,
    take,
    tried,
)
from colonnade.organisations import Loss
from colonnade.telling import first_line

__all__ = [
    "check_class_names",
    "check_classes",
    "check_codes",
    "check_device",
    "check_features",
    "check_labels",
    "check_labels_usual",
    "check_lets_through",
    "check_loss",
    "check_saved",
    "class_names",
    "embedding_width",
    "extreme_rows",
]

_DIFFERENTIABLE = "compute it without argmax, rounding, detach() or item()"
_ROW_BY_ROW = (
    nn.MSELoss,
    nn.L1Loss,
    nn.SmoothL1Loss,
    nn.HuberLoss,
    nn.PoissonNLLLoss,
)
_ROW_BY_ROW_FUNCTIONS: tuple[Any, ...] = (
    nn.functional.mse_loss,
    nn.functional.l1_loss,
    nn.functional.smooth_l1_loss,
    nn.functional.huber_loss,
    nn.functional.poisson_nll_loss,
)
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_MOST_CODES = 2**26
_AT_ONCE = 2**20  # values among which the wrong one is searched at a time: that needs memory


def check_saved(name: str, learner: Learner) -> None:
    """Raise ``ConfigurationError`` if what a model or what trains it remembers is not saved."""
    state = learner.state_dict()
    for part, whose in _PARTS.items():
        try:
            encode_state({key: _emptied(value) for key, value in state[part].items()})
        except CheckpointError as error:
            raise ConfigurationError(
                f"the {whose} of {name!r} cannot go into a checkpoint or to another process: "
                f"{error}"
            ) from None


_PARTS = {"module": "model", "optimiser": "optimiser", "scheduler": "scheduler"}


def _emptied(value: Any) -> Any:
    """Return a tensor of the same kind without values, of which there may be many."""
    if isinstance(value, Tensor) and value.layout is torch.strided:
        return value.new_empty(0)
    return value


def extreme_rows(labels: Tensor) -> Rows:
    """Return the rows of the smallest and of the largest label."""
    flat = labels.flatten(1).amax(1) if labels.dim() > 1 else labels
    return np.array([int(flat.argmin()), int(flat.argmax())], dtype=np.int64)


def check_labels(name: str, labels: object) -> None:
    """Raise ``DataError`` unless labels are a tensor of finite values with a row or more."""
    if isinstance(labels, Tensor):
        _check_dense("the labels", name, labels)
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


def check_labels_usual(name: str, labels: Tensor, loss: bool, metrics: bool) -> None:
    """Raise ``DataError`` unless the loss and the metrics that labels have by default take them.

    Parameters
    ----------
    name
        Whose they are.
    labels
        Of all rows.
    loss, metrics
        Whether somebody brings them, so that labels may be whatever these take.

    Examples
    --------
    >>> check_labels_usual("bank", torch.tensor([0, 2]), loss=False, metrics=False)
    >>> check_labels_usual("bank", torch.rand(9, 3), loss=True, metrics=True)
    >>> check_labels_usual("bank", torch.rand(9, 3), loss=True, metrics=False)
    Traceback (most recent call last):
    colonnade.errors.DataError: the labels of 'bank' are float32 of shape [9, 3], but a row's label is one class, int64 of shape [rows], or one number, float32 of shape [rows]: of others, as soft or multi-label targets, bring a loss (LabelHolder) and metrics (Federation)
    """  # noqa: E501 - a message is one line
    is_class = labels.dtype is torch.int64 and labels.dim() == 1
    is_number = labels.is_floating_point() and labels.numel() == len(labels)
    if is_class or is_number or (metrics and (loss or labels.is_floating_point())):
        return
    raise DataError(
        f"the labels of {name!r} are {shown(labels)}, but a row's label is one class, int64 of "
        "shape [rows], or one number, float32 of shape [rows]: of others, as soft or multi-label "
        "targets, bring a loss (LabelHolder) and metrics (Federation)"
    )


def check_features(name: str, features: Features, rows: int, others: str = "labels") -> None:
    """Raise ``DataError`` unless features are dense tensors of ``rows`` rows, all finite.

    Parameters
    ----------
    name
        Whose they are.
    features
        As a bottom model takes them.
    rows
        How many rows there are.
    others
        What else has so many, for a message.
    """
    columns: object = {"features": features} if isinstance(features, Tensor) else features
    if not isinstance(columns, Mapping):
        raise DataError(
            f"the features of {name!r} must be a tensor, or tensors by name, not {shown(columns)}"
        )
    for column, values in columns.items():
        if isinstance(values, Tensor):
            _check_dense(column, name, values)
        if not isinstance(values, Tensor) or values.dim() == 0:
            raise DataError(
                f"{column} of {name!r} must be a tensor [rows, ...], not {shown(values)}"
            )
        if len(values) != rows:
            raise DataError(
                f"{name!r} has {len(values)} rows of {column}, but there are {rows} {others}"
            )
        if values.is_floating_point():
            _check_finite(column, name, values)


def _check_dense(what: str, name: str, values: Tensor) -> None:
    if values.is_nested or values.layout is not torch.strided:
        layout = str(values.layout).removeprefix("torch.")
        found = f"is {'nested' if values.is_nested else layout}: pad it, or take its to_dense()"
    elif values.device.type != "cpu":
        found = f"is on {str(values.device)!r}; it is models that compute elsewhere (device=...)"
    else:
        return
    raise DataError(f"{what} of {name!r} must be a dense tensor on the CPU, but it {found}")


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
                + "; fill or drop missing values"
            )


_NO_DEVICE = (RuntimeError, AssertionError, TypeError, ValueError, ImportError)
"""What torch raises of a device, for which it has no one error."""


def check_device(name: str, device: str | torch.device) -> None:
    """Raise ``ConfigurationError`` unless torch can compute on the device here."""
    try:
        torch.zeros(1, device=torch.device(device)).cpu()  # of which "meta" keeps no numbers
    except _NO_DEVICE as error:
        raise ConfigurationError(
            f"the models of {name!r} cannot compute on {str(device)!r}: {first_line(error)}"
        ) from None


def embedding_width(name: str, bottom: nn.Module, features: Features) -> int:
    """Return the width of a bottom model's embeddings, by trying it on two rows."""
    check_module(f"the bottom model of {name!r}", bottom)
    rows = take(features, np.zeros(2, dtype=np.int64))
    with blamed(f"the bottom model of {name!r} does not take its features"):
        output = tried(bottom, rows)
    if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != 2:
        raise ConfigurationError(
            f"the bottom model of {name!r} must return embeddings of shape [rows, width], "
            f"but for 2 rows it returned {shown(output)}"
        )
    if output.layout is not torch.strided:
        raise ConfigurationError(
            f"the bottom model of {name!r} must return a dense tensor, but returned one of the "
            f"layout {str(output.layout).removeprefix('torch.')}: let it return its to_dense()"
        )
    if not output.shape[1]:
        raise ConfigurationError(
            f"the bottom model of {name!r} must return a component or more for a row, but for 2 "
            f"rows it returned {shown(output)}: give it an output"
        )
    if output.is_complex():
        raise ConfigurationError(
            f"the bottom model of {name!r} must return real numbers, but returned {shown(output)}: "
            "put real and imaginary parts side by side"
        )
    check_steady(f"the bottom model of {name!r}", bottom, rows)
    return int(output.shape[1])


def check_codes(name: str, bottom: nn.Module, features: Features, used: Rows) -> None:
    """Raise ``ConfigurationError`` if a bottom model does not take all whole numbers of its features.

    A table of embeddings takes no code beyond its end. So the least and the greatest of each column
    are tried, side by side; of a row that is used, if these are refused. Tables of more than 2^26
    numbers are not looked through.

    Examples
    --------
    >>> codes = torch.tensor([0, 1, 7, 2])
    >>> check_codes("bank", nn.Embedding(5, 3), codes, np.array([0, 1, 3]))
    >>> check_codes("bank", nn.Embedding(5, 3), codes, np.arange(4))
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: the bottom model of 'bank' does not take row 2 of its features: index out of range in self; give tables of embeddings a row for each code
    """  # noqa: E501 - a message is one line
    columns = {"": features} if isinstance(features, Tensor) else features
    whole = [key for key, each in columns.items() if each.dtype in _WHOLE and each.numel()]
    if not whole or sum(columns[key].numel() for key in whole) > _MOST_CODES:
        return
    rows = take(columns, np.zeros(2, dtype=np.int64))
    rows |= {key: torch.stack([columns[key].amin(0), columns[key].amax(0)]) for key in whole}
    if _refusal(bottom, rows if isinstance(features, Mapping) else rows[""]) is None:
        return
    for key in whole:
        flat = columns[key][torch.from_numpy(used)].reshape(len(used), -1)
        for row in used[torch.cat([flat.argmin(0), flat.argmax(0)]).numpy()]:
            error = _refusal(bottom, take(features, np.array([row, row])))
            if error is not None:
                raise ConfigurationError(
                    f"the bottom model of {name!r} does not take row {row} of its features: "
                    f"{first_line(error)}; give tables of embeddings a row for each code"
                ) from error


def _refusal(module: nn.Module, inputs: Any) -> Exception | None:
    try:
        tried(module, inputs)
    except Exception as error:  # a user's module may raise anything
        return error
    return None


def check_classes(name: str, labels: Tensor, outputs: int) -> None:
    """Raise unless a top model with so many outputs has one for the class of each label.

    Raises
    ------
    ConfigurationError
        If it has one output alone.
    DataError
        If a label is another class.
    """
    if outputs < 2:
        raise ConfigurationError(
            f"the top model of {name!r} returns one number for a row, and by cross entropy of one "
            "class there is nothing to learn: let it return one for each class, or give the label "
            "holder a loss of one number"
        )
    wrong = ((labels < 0) | (labels >= outputs)).nonzero()
    if len(wrong):
        row = int(wrong[0, 0])
        raise DataError(
            f"the label of row {row} is {int(labels[row])}, but the top model of {name!r} has "
            f"outputs for the classes 0 to {outputs - 1}"
        )


def class_names(classes: Any) -> tuple[Any, ...] | None:
    """Return what classes stand for as plain values, if anybody says it.

    Raises
    ------
    ConfigurationError
        Unless they are listed, none twice, each a text, a number or a truth value.

    Examples
    --------
    >>> class_names(np.array([3, 7]))
    (3, 7)
    >>> class_names(["no", "yes", "no"])
    Traceback (most recent call last):
    colonnade.errors.ConfigurationError: classes has 'no' more than once, and a prediction could \
be of either: give each class a name of its own
    """
    if classes is None:
        return None
    if isinstance(classes, (Tensor, np.ndarray)) and classes.ndim == 1:
        classes = classes.tolist()
    check_kind("classes", classes, Sequence[Any] | None)
    plain = tuple(each.item() if isinstance(each, np.generic) else each for each in classes)
    for each in plain:
        if not isinstance(each, (str, int, float)):
            raise ConfigurationError(
                f"classes has {each!r:.60}: a class stands for a text, a number or a truth value"
            )
    times = Counter(map(str, plain))
    again = [each for each in plain if times[str(each)] > 1]
    if again:
        raise ConfigurationError(
            f"classes has {again[0]!r:.60} more than once, and a prediction could be of either: "
            "give each class a name of its own"
        )
    return plain


def check_class_names(classes: Sequence[Any] | None, outputs: int) -> None:
    """Raise ``ConfigurationError`` unless there is a class for each output of the top model.

    >>> check_class_names(["no", "yes"], outputs=2)
    """
    if classes is not None and outputs != len(classes):
        raise ConfigurationError(
            f"classes has {len(classes)} names, but the top model has outputs for {outputs} "
            "classes: give one name for each"
        )


def check_lets_through(name: str, top: nn.Module, rows: int, width: int) -> None:
    """Raise ``ConfigurationError`` if no derivative flows through a top model to its input.

    One that rounds in evaluation alone, as some do, is tried in training too.
    """
    whose = f"the top model of {name!r}"
    fused = torch.zeros(rows, width, requires_grad=True)
    try:
        _check_slope(whose, tried(top, fused.clone(), graph=True).float().sum(), fused)
    except ConfigurationError:
        try:
            output = tried(top, fused.clone(), training=True)
        except Exception:  # it may take no batch of so few rows; what it does of more is not known
            return
        _check_slope(whose, output.float().sum(), fused)


def check_loss(name: str, loss: Loss, output: Tensor, labels: Tensor, rows: Rows) -> None:
    """Raise ``ConfigurationError`` unless a loss can be taken of predictions, and differentiated.

    Parameters
    ----------
    name
        Whose it is.
    loss
        From predictions and labels to their mean loss; a copy, if it is an object, as it is tried.
    output
        Predictions for some rows.
    labels
        Of all rows.
    rows
        Which these are.
    """
    if isinstance(loss, nn.Module) and any(p.requires_grad for p in loss.parameters()):
        raise ConfigurationError(
            f"the loss of {name!r} has parameters of its own, which nobody would train: put what "
            "is learned into the top model, or freeze them by requires_grad_(False)"
        )
    _check_row_by_row(name, loss, output, labels)
    predictions = output.detach().requires_grad_()
    with torch.enable_grad():
        try:
            value = loss(predictions.clone(), labels[torch.from_numpy(rows)])
        except Exception as error:  # a user's function may raise anything
            raise ConfigurationError(
                f"the loss of {name!r} does not take predictions of shape {list(output.shape)} "
                f"and the labels, {shown(labels)}, of the rows {' and '.join(map(str, rows))}: "
                f"{first_line(error)}"
            ) from error
    if not isinstance(value, Tensor) or value.dim() != 0:
        raise ConfigurationError(
            f"the loss of {name!r} must return one number, the mean of a batch, but it returned "
            f"{shown(value)}"
        )
    _check_slope(f"the loss of {name!r}", value, predictions)


def _check_row_by_row(name: str, loss: Loss, output: Tensor, labels: Tensor) -> None:
    """Refuse what torch would compare each with each, as ``[rows, 1]`` and ``[rows]``."""
    while isinstance(loss, partial):
        loss = loss.func
    of_torch = type(loss) in _ROW_BY_ROW or loss in _ROW_BY_ROW_FUNCTIONS
    if of_torch and output.dim() != labels.dim():
        raise ConfigurationError(
            f"predictions are {_of_rows(output)} and labels {_of_rows(labels)}, and torch would "
            f"compare each row's prediction with the labels of all: let the loss of {name!r} bring "
            "them into one shape, such as lambda p, y: mse_loss(p.reshape(y.shape), y), or leave "
            "it out, where squared error is meant"
        )


def _of_rows(values: Tensor) -> str:
    return f"[{', '.join(['rows', *map(str, values.shape[1:])])}]"


def _check_slope(whose: str, value: Tensor, of: Tensor) -> None:
    """Raise ``ConfigurationError`` unless a value of a user's function has a derivative."""
    try:
        found = value.requires_grad and torch.autograd.grad(value, of, allow_unused=True)[0]
    except Exception as error:  # as may its derivative
        raise ConfigurationError(
            f"{whose} cannot be differentiated: {first_line(error)}; {_DIFFERENTIABLE}"
        ) from error
    if not isinstance(found, Tensor):
        raise ConfigurationError(
            f"{whose} has no derivative with respect to its input, so nobody would learn anything "
            f"through it; {_DIFFERENTIABLE}"
        )
