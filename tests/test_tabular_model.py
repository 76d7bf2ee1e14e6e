"""The tabular bottom: an embedding for each category, beside the numbers, before a perceptron."""

from __future__ import annotations

import copy
from typing import Any

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from colonnade.errors import ConfigurationError, DataError
from colonnade.models import Tabular
from colonnade.models.tabular import category_width
from colonnade.tables import TableTransformer


def rows(numeric: int = 2, codes: tuple[int, ...] = (1, 3), count: int = 4) -> dict[str, Tensor]:
    return {
        "numeric": torch.arange(float(count * numeric)).reshape(count, numeric),
        "categorical": torch.tensor([codes] * count),
    }


def test_it_is_the_perceptron_of_numbers_and_embeddings() -> None:
    torch.manual_seed(0)
    bottom = Tabular(2, [3, 5], [7, 4], activation="tanh", embedding=2)
    first, second = bottom.embeddings
    x = rows()
    by_hand = torch.cat(
        [x["numeric"], first.weight[x["categorical"][:, 0]], second.weight[x["categorical"][:, 1]]],
        dim=1,
    )
    for layer in bottom.layers:
        by_hand = layer(by_hand)
    assert torch.equal(bottom(x), by_hand)
    assert bottom(x).shape == (4, 4)
    assert bottom.layers[0].in_features == 2 + 2 + 2


def test_only_numbers_is_a_perceptron_and_only_categories_will_do() -> None:
    torch.manual_seed(0)
    numbers = Tabular(2, [], [4])
    x = rows()
    assert torch.equal(numbers({"numeric": x["numeric"]}), numbers.layers(x["numeric"]))
    codes = Tabular(0, [3, 5], [4])
    assert codes({"categorical": x["categorical"]}).shape == (4, 4)


def test_only_the_codes_of_a_batch_learn() -> None:
    torch.manual_seed(0)
    bottom = Tabular(2, [3, 5], [4], activation="tanh")
    bottom(rows(codes=(1, 3))).sum().backward()
    for table, code in zip(bottom.embeddings, (1, 3), strict=True):
        moved = table.weight.grad.abs().sum(1) > 0
        assert moved.nonzero().flatten().tolist() == [code]


def test_dropout_acts_in_training_alone() -> None:
    torch.manual_seed(0)
    bottom = Tabular(2, [3, 5], [64, 4], dropout=0.5)
    assert any(isinstance(layer, nn.Dropout) for layer in bottom.layers)
    assert not torch.equal(bottom(rows()), bottom(rows()))
    bottom.eval()
    assert torch.equal(bottom(rows()), bottom(rows()))


@given(st.integers(1, 10**9))
def test_width_of_an_embedding_grows_with_the_codes_up_to_50(cardinality: int) -> None:
    width = category_width(cardinality)
    assert 2 <= width <= 50
    assert width <= category_width(cardinality + 1)
    assert width == 50 or width - 1 < 1.6 * cardinality**0.56 <= width


def test_widths_of_embeddings_by_default_and_as_given() -> None:
    assert [t.embedding_dim for t in Tabular(0, [2, 10, 10_000], [1]).embeddings] == [3, 6, 50]
    assert [t.embedding_dim for t in Tabular(0, [2, 10], [1], embedding=4).embeddings] == [4, 4]


def test_it_takes_what_the_table_transformer_makes() -> None:
    table = pl.DataFrame({"age": [30, 40, None, 60], "city": ["Rome", "Oslo", "Rome", None]})
    transformer = TableTransformer(output="dict", unseen="zeros").fit(table)
    features = transformer.transform(table)
    bottom = Tabular(features["numeric"].shape[1], transformer.cardinalities_, [8])
    assert bottom(features).shape == (4, 8)
    unseen = transformer.transform({"age": [50], "city": ["Bern"]})
    assert bottom(unseen).shape == (1, 8)


def test_its_state_goes_to_another() -> None:
    torch.manual_seed(0)
    one, other = Tabular(2, [3, 5], [4]), Tabular(2, [3, 5], [4])
    assert not torch.equal(one(rows()), other(rows()))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(rows()), other(rows()))
    assert torch.equal(copy.deepcopy(one)(rows()), one(rows()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"numeric": -1}, "needs 0 or more numbers"),
        ({"cardinalities": [3, 0]}, r"cardinalities of 1 or more, not 2 and \[3, 0\]"),
        ({"numeric": 0, "cardinalities": []}, "needs a column"),
        ({"embedding": 0}, "embeddings must be 1 or more, not 0"),
        ({"widths": []}, "needs layers"),
        ({"activation": "step"}, "activation 'step' is unknown"),
        ({"dropout": 1.0}, "dropout must be"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Tabular(**{"numeric": 2, "cardinalities": [3], "widths": [4], **arguments})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numeric": None}, "no 'numeric', for which the model has 2 columns; they have 'categ"),
        ({"categorical": None}, "no 'categorical', for which the model has 2 columns"),
        ({"numeric": torch.zeros(4, 3)}, r"shape \[rows, 2\], not float32 of shape \[4, 3\]"),
        ({"numeric": torch.zeros(4, 2).long()}, "'numeric' must be floats"),
        ({"categorical": torch.zeros(4, 2)}, "'categorical' must be whole numbers"),
        ({"categorical": torch.zeros(4).long()}, r"not int64 of shape \[4\]"),
        (
            {"categorical": torch.tensor([[0, 0], [2, 5]])},
            "categorical column 1 has the code 5 in row 1 of the batch; expected 0 to 4",
        ),
        ({"categorical": torch.tensor([[-1, 0]] * 4)}, "column 0 has the code -1 in row 0"),
    ],
)
def test_features_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    features = {name: x for name, x in (rows() | change).items() if x is not None}
    with pytest.raises(DataError, match=message):
        Tabular(2, [3, 5], [4])(features)


def test_a_plain_tensor_is_refused() -> None:
    with pytest.raises(DataError, match="takes tensors by name, not a Tensor"):
        Tabular(2, [3], [4])(torch.zeros(4, 3))
