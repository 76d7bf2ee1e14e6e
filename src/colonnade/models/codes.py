"""Columns of numbers and of codes, as models of tables take them, and what they refuse of them.

Features come by name: "numeric", float32 ``[B, n]``, and "categorical", whole numbers ``[B, k]``,
of which column j has codes from 0 to its cardinality - 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from colonnade.errors import ConfigurationError, DataError

__all__ = ["OneTable", "check_codes", "check_columns", "entry"]


class OneTable(nn.Module):
    """Rows of codes in one table, where the codes of all columns stand one after another.

    Code c of column j has the row

        cardinality_1 + ... + cardinality_{j-1} + c,

    so that one lookup finds what all columns need, however many there are.

    Parameters
    ----------
    cardinalities
        For each column, how many codes there are.

    Examples
    --------
    >>> place = OneTable([3, 1000])
    >>> place.rows
    1003
    >>> place(torch.tensor([[2, 0], [0, 999]]))
    tensor([[   2,    3],
            [   0, 1002]])
    """

    first: Tensor

    def __init__(self, cardinalities: Sequence[int]) -> None:
        super().__init__()
        self.cardinalities = tuple(cardinalities)
        self.rows = sum(cardinalities)
        first = [0, *accumulate(cardinalities)][: len(cardinalities)]
        self.register_buffer("first", torch.tensor(first, dtype=torch.int64), persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        """Return rows, int64 ``[B, k]``, of codes ``[B, k]``.

        Raises
        ------
        DataError
            If a code is none of its column.
        """
        check_codes(codes, self.cardinalities)
        return codes + self.first

    def extra_repr(self) -> str:
        """Return what is shown of it."""
        return f"{len(self.cardinalities)} columns, {self.rows} rows"


def check_columns(numeric: int, cardinalities: Sequence[int]) -> None:
    """Raise ``ConfigurationError`` unless there is a column, and every one of codes has a code."""
    if numeric < 0 or (cardinalities and min(cardinalities) < 1):
        raise ConfigurationError(
            "a tabular model needs 0 or more numbers and cardinalities of 1 or more, "
            f"not {numeric} and {list(cardinalities)}"
        )
    if numeric == 0 and not cardinalities:
        raise ConfigurationError("a tabular model needs a column; it has 0 numbers and no code")


def check_codes(codes: Tensor, cardinalities: Sequence[int]) -> None:
    """Raise ``DataError`` unless every code ``[B, k]`` is one of its column's."""
    if torch.compiler.is_compiling() or not len(codes):
        return  # a program cannot raise an error of ours
    most = codes.new_tensor(cardinalities)
    if int(codes.amin()) >= 0 and not bool((codes.amax(0) >= most).any()):
        return
    row, column = ((codes < 0) | (codes >= most)).nonzero()[0].tolist()
    raise DataError(
        f"categorical column {column} has the code {int(codes[row, column])} in row {row} "
        f"of the batch; expected 0 to {cardinalities[column] - 1}, so give the model "
        "the cardinalities of the transformer that made the codes"
    )


def entry(features: Mapping[str, Tensor], name: str, width: int, floating: bool) -> Tensor:
    """Return an entry of the features, which must be of this width and kind.

    Raises
    ------
    DataError
        If it is missing, or of another shape or type.
    """
    if not isinstance(features, Mapping):
        raise DataError(
            f"a tabular model takes tensors by name, not a {type(features).__name__}; "
            "make the features by TableTransformer(output='dict')"
        )
    if name not in features:
        raise DataError(
            f"the features have no {name!r}, for which the model has {width} columns; "
            f"they have {', '.join(map(repr, features)) or 'nothing'}"
        )
    values = features[name]
    kind = values.is_floating_point() if floating else values.dtype in (torch.int64, torch.int32)
    if not kind or values.dim() != 2 or values.shape[1] != width:
        raise DataError(
            f"{name!r} must be {'floats' if floating else 'whole numbers'} of shape "
            f"[rows, {width}], not {str(values.dtype).removeprefix('torch.')} of shape "
            f"{list(values.shape)}"
        )
    return values
