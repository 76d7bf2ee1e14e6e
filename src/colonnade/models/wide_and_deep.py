"""A bottom model of clicks: categories of large cardinality, beside numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError
from colonnade.models.codes import OneTable, check_columns, entry
from colonnade.models.mlp import mlp

__all__ = ["WideAndDeep"]

_SPREAD = 0.01  # of embeddings at the start: a code that is rare stays near nothing


class WideAndDeep(nn.Module):
    r"""A perceptron of numbers and embeddings, beside a linear model of the same columns.

    With the numbers x and the codes c_1, ..., c_k of a row,

    .. math:: h = \Bigl[\, \mathrm{mlp}\bigl([x, E[c_1], \ldots, E[c_k]]\bigr), \;
        W x + b + \sum_{j=1}^{k} V[c_j] \,\Bigr],

    the deep outputs and then the wide ones (Cheng et al., "Wide & deep learning for recommender
    systems", DLRS 2016). E has a vector and V a row of ``wide`` numbers for each code of each
    column; both are one table for all columns. A linear top model upon ``Concat`` makes of it their
    sum, as in the paper.

    Without wide outputs it is a deep tower: as CELU-VFL's WDL has it, and with ``DotProduct`` in
    place of ``Concat`` a deep structured semantic model (Huang et al., "Learning deep structured
    semantic models for web search using clickthrough data", CIKM 2013).

    Parameters
    ----------
    numeric
        Columns of numbers; may be 0.
    cardinalities
        For each categorical column, how many codes there are. May be empty.
    widths
        Outputs of each layer of the perceptron.
    activation
        Follows every layer but the last: identity, relu, sigmoid, tanh or gelu.
    embedding
        The width of every embedding.
    wide
        Outputs of the linear model; may be 0.
    dropout
        Probability that a component is dropped after each activation.
    sparse_gradients
        Whether the tables' gradients hold the codes of a batch alone. A step then costs what the
        batch has and not what the tables have; but only few optimisers take such gradients: Adagrad
        and SGD, without momentum or weight decay.

    Raises
    ------
    ConfigurationError
        If there is no column at all, no layer, or a number is out of range.

    Examples
    --------
    >>> bottom = WideAndDeep(numeric=2, cardinalities=[3, 1000], widths=[16, 8], wide=1)
    >>> tuple(bottom.embeddings.weight.shape)
    (1003, 16)
    >>> rows = {"numeric": torch.zeros(4, 2), "categorical": torch.tensor([[2, 999]] * 4)}
    >>> bottom(rows).shape
    torch.Size([4, 9])
    """

    @check_arguments
    def __init__(
        self,
        numeric: int,
        cardinalities: Sequence[int],
        widths: Sequence[int] = (256, 256),
        activation: str = "relu",
        embedding: int = 16,
        wide: int = 1,
        dropout: float = 0.0,
        sparse_gradients: bool = False,
    ) -> None:
        super().__init__()
        check_columns(numeric, cardinalities)
        if embedding < 1 or wide < 0:
            raise ConfigurationError(
                "the width of embeddings must be 1 or more and the wide outputs 0 or more, "
                f"not {embedding} and {wide}"
            )
        self.numeric, self.wide = numeric, wide
        self.place = OneTable(cardinalities)
        if cardinalities:
            self.embeddings = nn.Embedding(self.place.rows, embedding, sparse=sparse_gradients)
            nn.init.normal_(self.embeddings.weight, std=_SPREAD)
        if cardinalities and wide:
            self.wide_codes = nn.EmbeddingBag(
                self.place.rows, wide, mode="sum", sparse=sparse_gradients
            )
            nn.init.zeros_(self.wide_codes.weight)
        if numeric and wide:
            self.wide_numbers = nn.Linear(numeric, wide)
        inputs = numeric + len(cardinalities) * embedding
        self.layers = mlp(inputs, widths, activation, last="identity", dropout=dropout)

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        """Return embeddings ``[B, widths[-1] + wide]``.

        Parameters
        ----------
        features
            "numeric", float32 ``[B, numeric]``, and "categorical", int32 or int64
            ``[B, categories]``; a model without columns of a kind does not need that entry.

        Raises
        ------
        DataError
            If an entry is missing or of another shape or type, or a code is none of its column.
        """
        deep, wide = [], []
        if self.numeric:
            numbers = entry(features, "numeric", self.numeric, floating=True)
            deep.append(numbers)
            if self.wide:
                wide.append(self.wide_numbers(numbers))
        if columns := len(self.place.cardinalities):
            places = self.place(entry(features, "categorical", columns, floating=False))
            deep.append(self.embeddings(places).flatten(1))
            if self.wide:
                wide.append(self.wide_codes(places))
        output: Tensor = self.layers(torch.cat(deep, dim=1))
        return torch.cat([output, sum(wide[1:], wide[0])], dim=1) if wide else output
