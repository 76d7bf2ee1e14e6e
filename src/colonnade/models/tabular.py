"""A bottom model of tables whose categories have embeddings of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError
from colonnade.models.codes import check_codes, check_columns, entry
from colonnade.models.mlp import mlp

__all__ = ["Tabular", "category_width"]

_WIDEST = 50


class Tabular(nn.Module):
    """Numbers as they are and an embedding for each category, then a multi-layer perceptron.

    With the numbers x and the codes c_1, c_2, ... of a row,

        h = mlp([x, E_1[c_1], E_2[c_2], ...]),

    where E_j is the table of embeddings of categorical column j, one learned vector for each code.

    Parameters
    ----------
    numeric
        Columns of numbers; may be 0.
    cardinalities
        For each categorical column, how many codes there are: ``cardinalities_`` of a
        ``TableTransformer`` with ``output="dict"``. May be empty.
    widths
        Outputs of each layer of the perceptron.
    activation
        Follows every layer: identity, relu, sigmoid, tanh or gelu.
    embedding
        The width of every embedding; by default ``category_width`` of each column's cardinality.
    dropout
        Probability that a component is dropped after each activation but the last.

    Raises
    ------
    ConfigurationError
        If there is no column at all, no layer, or a number is out of range.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> bottom = Tabular(numeric=2, cardinalities=[3, 1000], widths=[16, 8])
    >>> [tuple(table.weight.shape) for table in bottom.embeddings]
    [(3, 3), (1000, 50)]
    >>> rows = {"numeric": torch.zeros(4, 2), "categorical": torch.tensor([[2, 999]] * 4)}
    >>> bottom(rows).shape
    torch.Size([4, 8])
    """

    @check_arguments
    def __init__(
        self,
        numeric: int,
        cardinalities: Sequence[int],
        widths: Sequence[int],
        activation: str = "relu",
        embedding: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_columns(numeric, cardinalities)
        if embedding is not None and embedding < 1:
            raise ConfigurationError(f"the width of embeddings must be 1 or more, not {embedding}")
        self.numeric = numeric
        self.cardinalities = tuple(cardinalities)
        self.embeddings = nn.ModuleList(
            nn.Embedding(cardinality, embedding or category_width(cardinality))
            for cardinality in cardinalities
        )
        inputs = numeric + sum(table.embedding_dim for table in self._tables())
        self.layers = mlp(inputs, widths, activation, dropout=dropout)

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        """Return embeddings ``[B, widths[-1]]``.

        Parameters
        ----------
        features
            "numeric", float32 ``[B, numeric]``, and "categorical", int64 ``[B, categories]``; a
            model without columns of a kind does not need that entry.

        Raises
        ------
        DataError
            If an entry is missing or of another shape or type, or a code is none of its column.
        """
        parts = []
        if self.numeric:
            parts.append(entry(features, "numeric", self.numeric, floating=True))
        if self.cardinalities:
            codes = entry(features, "categorical", len(self.cardinalities), floating=False)
            check_codes(codes, self.cardinalities)
            parts += [table(codes[:, j]) for j, table in enumerate(self._tables())]
        output: Tensor = self.layers(torch.cat(parts, dim=1))
        return output

    def _tables(self) -> list[nn.Embedding]:
        return [table for table in self.embeddings if isinstance(table, nn.Embedding)]


def category_width(cardinality: int) -> int:
    """Return how wide the embedding of a column with so many codes is, unless one says.

    ``min(50, ceil(1.6 cardinality ^ 0.56))``, the rule of thumb of fastai (Howard and Gugger,
    "fastai: a layered API for deep learning", Information 11(2), 2020), rounded up.

    >>> [category_width(cardinality) for cardinality in (1, 2, 10, 100, 10_000)]
    [2, 3, 6, 22, 50]
    """
    return min(_WIDEST, math.ceil(1.6 * math.pow(cardinality, 0.56)))
