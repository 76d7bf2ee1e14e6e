"""New rows of which a column has no value, whatever it says that it holds."""

from __future__ import annotations

import warnings
from pathlib import Path

import polars as pl
import pytest
import torch

from colonnade.errors import DataError, DataWarning
from colonnade.tables import TableTransformer, read_table

LEARNED = {
    "numbers": (TableTransformer(), [1.0, 2.0, 4.0]),
    "truth values": (TableTransformer(), [True, False, None]),
    "text": (TableTransformer(), ["a", "b", "007"]),
    "text and missing ones": (TableTransformer(), ["a", "b", None]),
    "numbers as categories": (TableTransformer(categorical=["c"]), [1, 2, None]),
    "hashed": (TableTransformer(one_hot_up_to=1), ["a", "b", "007", None]),
    "codes": (TableTransformer(output="dict"), ["a", "b", None]),
    "dates": (TableTransformer(dates=["c"]), ["2024-01-31", "2024-02-02", None]),
}
TYPES = [
    *(pl.Null, pl.String, pl.Float32, pl.Float64, pl.Int64, pl.UInt8, pl.Boolean, pl.Date),
    *(pl.Datetime("us"), pl.Categorical, pl.Decimal(9, 2), pl.List(pl.Int64)),
]


def fitted(kind):
    transformer, values = LEARNED[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of codes with a zero in front
        return transformer.fit(pl.DataFrame({"c": values}, strict=False))


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def features(transformer, values):
    return transformer.features_and_notes(pl.DataFrame({"c": values}))[0]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("kind", LEARNED)
def test_a_column_without_a_value_is_of_missing_ones_whatever_its_type(kind, dtype):
    transformer = fitted(kind)
    own = pl.DataFrame({"c": LEARNED[kind][1]}, strict=False)["c"]
    expected = features(transformer, pl.Series([None, None], dtype=own.dtype))
    assert same(features(transformer, pl.Series([None, None], dtype=dtype)), expected)


@pytest.mark.parametrize("kind", LEARNED)
def test_a_column_of_nan_is_of_missing_ones(kind):
    transformer = fitted(kind)
    missing = features(transformer, pl.Series([None], dtype=pl.String))
    assert same(features(transformer, pl.Series([float("nan")])), missing)


@pytest.mark.parametrize("name", ["NA", " n/a ", "", "null"])
@pytest.mark.parametrize("kind", ["numbers", "truth values", "numbers as categories", "dates"])
def test_names_of_missing_values_are_missing_where_training_had_no_text(kind, name):
    transformer = fitted(kind)
    missing = features(transformer, pl.Series([None], dtype=pl.String))
    assert same(features(transformer, [name]), missing)


def test_a_name_of_a_missing_value_is_a_category_where_training_had_text():
    transformer = TableTransformer().fit({"country": ["FR", "NA", None]})
    assert transformer.transform({"country": ["NA"]}).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("cell", ["", "NA"])
def test_a_person_whose_number_is_missing_is_predicted_alone_as_among_others(
    tmp_path, monkeypatch, cell
):
    monkeypatch.chdir(tmp_path)
    transformer = TableTransformer().fit({"income": [1.0, None, 5.0]})
    Path("alone.csv").write_text(f"ID,income\n7,{cell}\n")
    Path("two.csv").write_text(f"ID,income\n7,{cell}\n8,5\n")
    alone, two = (transformer.transform(read_table(f"{n}.csv", id="ID")) for n in ("alone", "two"))
    assert torch.equal(alone, two[:1])


def test_ten_rows_without_a_number_are_told_of():
    transformer = TableTransformer().fit({"income": [1.0, None, 5.0]})
    with pytest.warns(DataWarning, match="column 'income' has no value in any of 10 rows"):
        transformer.transform({"income": ["NA"] * 10})


@pytest.mark.parametrize("learned", [[1.0, 2.0], [True, False]])
def test_names_of_missing_values_are_refused_where_missing_ones_are(learned):
    transformer = TableTransformer(missing="error").fit({"c": learned})
    with pytest.raises(DataError, match="row 0, column 'c': the value is missing"):
        transformer.transform({"c": ["NA"]})


def test_text_that_is_no_number_is_named_and_not_the_missing_one_before_it():
    transformer = TableTransformer().fit({"income": [1.0, 5.0]})
    with pytest.raises(DataError, match="row 1, column 'income': found the text 'much'"):
        transformer.transform({"income": ["NA", "much"]})
