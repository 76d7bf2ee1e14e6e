"""What is told of columns: the remedy in the user's own words, and how each was read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import yaml

from colonnade.errors import ConfigurationError, DataError, DataWarning
from colonnade.estimators import VerticalClassifier, VerticalRegressor
from colonnade.tables import TableTransformer, vertical_tables

ROWS = 120
RANDOM = np.random.default_rng(5)
BANK = {"income": RANDOM.normal(size=ROWS)}
LABELS = [row % 2 for row in range(ROWS)]
QUICK: dict[str, Any] = {
    "aligned": True,
    "epochs": 1,
    "batch_size": 40,
    "hidden": (4,),
    "top": (),
    "patience": None,
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

WRITINGS = {
    "text among numbers": ["old", *map(str, range(ROWS - 1))],
    "a rare zero in front": ["07", *map(str, range(1000, 999 + ROWS))],
    "decimal commas": [f"{row},5" for row in range(ROWS)],
    "numbers as text": [f"{row}.5" for row in range(ROWS)],
    "dates as text": [f"2024-01-{1 + row % 28:02} 10:{row % 60:02}" for row in range(ROWS)],
    "units": [f"{row} kg" for row in range(ROWS)],
    "beyond 2^53": [2**53 + row for row in range(ROWS)],
    "dates": pl.Series([0, 1] * (ROWS // 2)).cast(pl.Date),
    "nothing": pl.Series([None] * ROWS, dtype=pl.Float64),
}


@pytest.mark.parametrize("cells", WRITINGS.values(), ids=WRITINGS)
def test_the_remedy_that_an_error_names_is_one(cells: Any) -> None:
    tables = {"bank": BANK, "shop": {"spent": RANDOM.normal(size=ROWS), "what": cells}}
    with pytest.raises(DataError) as caught:
        VerticalClassifier(**QUICK).fit(tables, LABELS)
    message = str(caught.value)
    assert message.startswith("'shop': ")
    python = re.search(r"(TableTransformer\(.+?\)) in transformers", message)
    in_yaml = re.search(r"\(YAML: features: (.+)\)$", message)
    assert python
    assert in_yaml
    advised = eval(python[1], {"TableTransformer": TableTransformer})
    assert advised.get_params() == TableTransformer(**yaml.safe_load(in_yaml[1])).get_params()
    VerticalClassifier(**QUICK, transformers={"shop": advised}).fit(tables, LABELS)


def test_values_of_several_kinds_are_told_with_their_owner() -> None:
    with pytest.raises(DataError, match=r"^'shop': column 'spent' mixes values of the kinds"):
        VerticalClassifier(**QUICK).fit({"shop": {"spent": [3, "four"] * 60}}, LABELS)


@pytest.mark.parametrize("parameter", ["epochs", "batch_size"])
def test_an_estimators_parameter_is_called_as_it_calls_it(parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{parameter} must be a whole number, 1 or"):
        VerticalClassifier(**{**QUICK, parameter: 0}).fit({"bank": BANK}, LABELS)


def test_a_column_without_any_value_is_told_of_new_rows() -> None:
    gaps = pl.Series([None, *RANDOM.normal(size=ROWS - 1)])
    model = VerticalClassifier(**QUICK).fit(
        {"bank": {"age": RANDOM.normal(size=ROWS), "x": gaps}}, LABELS
    )
    some = {"age": [None, *[0.5] * 19], "x": [None, *[1.5] * 19]}
    assert model.predict({"bank": some}).shape == (20,)
    none = {"age": [float("nan")] * 20, "x": [None] * 20}
    with pytest.warns(DataWarning) as told:
        model.predict({"bank": none})
    assert [str(each.message).split(", so")[0] for each in told] == [
        "'bank': column 'age' has no value in any of 20 rows",
        "'bank': column 'x' has no value in any of 20 rows",
    ]


def test_r2_of_a_constant_truth_is_scikit_learns() -> None:
    model = VerticalRegressor(**QUICK).fit({"bank": BANK}, BANK["income"])
    assert model.score({"bank": BANK}, [3.0] * ROWS) == 0.0


def test_how_columns_were_read() -> None:
    shop = {
        "town": ["Rome", "Oslo", None] * 40,
        "code": [f"c{row % 30}" for row in range(ROWS)],
        "note": ["x"] * ROWS,
    }
    data = vertical_tables(
        {"bank": BANK, "shop": shop},
        LABELS,
        aligned=True,
        transformers={"shop": TableTransformer(ignore=["note"])},
    )
    read = data.describe()
    assert read.rows() == [
        ("bank", "income", "number", 1),
        ("shop", "town", "2 categories and missing ones", 3),
        ("shop", "code", "categories, hashed into 32", 32),
        ("shop", "note", "ignored", 0),
    ]
    for party, features in data.features.items():
        assert isinstance(features, torch.Tensor)
        width = read.filter(party=party)["features"].sum()
        assert features.shape[1] == width
    model = VerticalClassifier(**QUICK).fit({"bank": BANK}, LABELS)
    assert model.data_.describe().rows() == [("bank", "income", "number", 1)]
