"""Features of new rows that no model takes are refused before anything is sent."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn

from colonnade.drivers import Simulate
from colonnade.errors import ConfigurationError, DataError
from colonnade.federation import Federation
from colonnade.ledger import Ledger
from colonnade.organisations import LabelHolder, Party
from colonnade.prediction import Prediction
from colonnade.training import Training


class Numbers(nn.Module):
    """A linear model of features by name, of any kind of number."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 3)

    def forward(self, columns: dict[str, Tensor]) -> Tensor:
        return self.linear(columns["n"].float())


class Silent(Simulate):
    """A driver that nobody is to start."""

    def run(self, roles, assignment):
        raise AssertionError("something started")


@pytest.fixture(scope="module")
def run():
    torch.manual_seed(0)
    parties = [
        Party("bank", torch.randn(20, 3), nn.Linear(3, 4)),
        Party("shop", {"n": torch.randn(20, 2)}, Numbers()),
    ]
    holder = LabelHolder("insurer", torch.arange(20) % 2, nn.Linear(7, 2))
    return Federation(parties, holder).train(training=Training(epochs=1, batch_size=10))


def features(**changes):
    return {"bank": torch.zeros(4, 3), "shop": {"n": torch.zeros(4, 2)}} | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"bank": torch.zeros(4, 5)},
            "the bottom model of 'bank' does not take its features: mat1",
        ),
        ({"bank": torch.zeros(4, 3).double()}, "model of 'bank' does not take its features: mat1"),
        ({"bank": torch.zeros(4, 3).long()}, "model of 'bank' does not take its features"),
        ({"bank": torch.zeros(4, 2, 3)}, "'bank' must return embeddings of shape"),
        ({"shop": {"m": torch.zeros(4, 2)}}, "the bottom model of 'shop' does not take its feat"),
        ({"shop": {}}, "'shop' was trained on tensors"),
    ],
)
def test_features_of_another_form_are_told_as_in_training(run, changes, words):
    with pytest.raises(ConfigurationError, match=words):
        run.predict(features(**changes), Silent())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shop": {"n": torch.zeros(5, 2)}}, "'shop' has 5 rows of n, but there are 4 of 'bank'$"),
        ({"bank": torch.tensor(1.0)}, r"features of 'bank' must be a tensor \[rows, \.\.\.\]"),
        ({"bank": torch.full((4, 3), torch.nan)}, "column 0; fill or drop missing values$"),
    ],
)
def test_rows_that_cannot_be_are_told_without_what_there_is_not(run, changes, words):
    with pytest.raises(DataError, match=words):
        run.predict(features(**changes), Silent())


@pytest.mark.parametrize("tables", [None, [torch.zeros(4, 3)], torch.zeros(4, 3)])
def test_a_prediction_is_of_columns_by_name(run, tables):
    with pytest.raises(ConfigurationError, match="needs the columns of bank, shop, by name in a d"):
        run.predict(tables)


def test_truth_values_are_called_as_the_cells_are_written():
    frame = Prediction(torch.zeros(1, 2), Ledger(), pl.Series([7])).frame("id", [False, True])
    assert frame.write_csv().splitlines() == [
        "id,predicted,probability of false,probability of true",
        "7,false,0.5,0.5",
    ]


def test_a_column_of_ids_has_a_name_of_its_own_beside_what_is_predicted():
    for name, columns, found in (
        ("who", ["predicted"], "who"),
        ("predicted", ["predicted"], "predicted (id)"),
        ("yes", ["yes", "yes (id)"], "yes (id) (id)"),
    ):
        prediction = Prediction(torch.zeros(1, 2), Ledger(), pl.Series(name, [7]))
        frame = prediction.by_id({column: np.zeros(1) for column in columns})
        assert frame.columns == [found, *columns]
        assert frame[found].to_list() == [7]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rows_per_message": 1.5}, "rows_per_message must be a whole number, 1 or more, not 1.5"),
        ({"rows_per_message": "7"}, "rows_per_message must be a whole number, 1 or more, not '7'"),
        ({"rows_per_message": True}, "must be a whole number, 1 or more, not True"),
        ({"rows_per_message": 0}, "must be a whole number, 1 or more, not 0"),
        ({"without": None}, r"such as {'shop': 'zeros'}, not None$"),
        (
            {"without": ["bank"]},
            r"stands for each, such as {'shop': 'zeros'}, not \['bank'\]$",
        ),
        ({"driver": "simulate"}, "driver is 'simulate', but a driver is a value: say"),
    ],
)
def test_arguments_of_another_kind_are_told_before_a_prediction_begins(run, arguments, words):
    def begin():
        raise AssertionError("nothing is to begin")

    with pytest.raises(ConfigurationError, match=words):
        run.predictor.predict_uncounted(features(), **arguments, begin=begin)
    with pytest.raises(ConfigurationError, match=words):
        run.predict(features(), **arguments)
    assert len(run.predict(features(), rows_per_message=np.int64(3)).scores) == 4


def test_a_form_that_a_model_takes_is_taken(run):
    whole = run.predict(features(shop={"n": torch.ones(4, 2).long()}))
    assert torch.equal(whole.scores, run.predict(features(shop={"n": torch.ones(4, 2)})).scores)
