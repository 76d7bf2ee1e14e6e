"""Features depend on training rows alone, are those of scikit-learn's own parts, and are finite."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from colonnade.errors import ConfigurationError, DataError
from colonnade.tables import StoredTable, TableTransformer, encode_labels, fitted, vertical_tables
from colonnade.tables.categorical import fit_category
from colonnade.tables.table import SelectedRows, as_table

TRAIN = pl.DataFrame(
    {
        "age": [30, None, 50, 40],
        "city": ["Rome", "Oslo", None, "Rome"],
        "member": [True, False, True, True],
        "income": [1.5, 2.5, 3.5, 2.5],
    }
)


def features(transformer: TableTransformer, frame: Any) -> torch.Tensor:
    found = transformer.transform(frame)
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float32
    assert found.shape == (found.shape[0], len(transformer.feature_names_))
    return found


def refusal(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(DataError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- exact small cases --------------------------------------------------------------------------


def test_a_small_table() -> None:
    transformer = TableTransformer(scale="none").fit(TRAIN)
    assert transformer.feature_names_ == (
        "age",
        "income",
        "age is missing",
        "city=Oslo",
        "city=Rome",
        "city is missing",
        "member=false",
        "member=true",
    )
    assert features(transformer, TRAIN).tolist() == [
        [30, 1.5, 0, 0, 1, 0, 0, 1],
        [40, 2.5, 1, 1, 0, 0, 1, 0],
        [50, 3.5, 0, 0, 0, 1, 0, 1],
        [40, 2.5, 0, 0, 1, 0, 0, 1],
    ]
    assert list(transformer.get_feature_names_out()) == list(transformer.feature_names_)
    assert list(transformer.feature_names_in_) == TRAIN.columns


def test_only_training_rows_are_learned_from() -> None:
    later = pl.DataFrame(
        {"age": [90, None], "city": ["Oslo", None], "member": [True, None], "income": [0.0, 9.0]}
    )
    transformer = TableTransformer(unseen="zeros").fit(TRAIN)
    alone = features(transformer, later)
    together = features(transformer, pl.concat([TRAIN, later], how="vertical_relaxed"))
    assert torch.equal(together[4:], alone)
    assert alone[1, -2:].tolist() == [0, 0]  # no member was missing in training


def test_dictionary() -> None:
    transformer = TableTransformer(
        output="dict", scale="none", one_hot_up_to=2, unseen="error"
    ).fit(TRAIN)
    found = transformer.transform(TRAIN)
    assert set(found) == {"numeric", "categorical"}
    assert found["numeric"].dtype == torch.float32
    assert found["categorical"].dtype == torch.int64
    assert found["numeric"].tolist() == [[30, 1.5, 0], [40, 2.5, 1], [50, 3.5, 0], [40, 2.5, 0]]
    assert found["categorical"].tolist() == [[1, 1], [0, 0], [2, 1], [1, 1]]
    assert transformer.cardinalities_ == (3, 2)
    assert transformer.feature_names_ == ("age", "income", "age is missing", "city", "member")


def test_dictionary_with_a_code_for_unseen() -> None:
    transformer = TableTransformer(output="dict", unseen="zeros").fit(TRAIN)
    later = {"age": [1, 1], "city": ["Bern", "Oslo"], "member": [None, True], "income": [1, 1]}
    assert transformer.transform(later)["categorical"].tolist() == [[0, 0], [1, 2]]
    assert transformer.cardinalities_ == (4, 3)


@pytest.mark.parametrize("unseen", ["error", "zeros", "warn"])
def test_codes_stay_below_their_cardinality(unseen: Any) -> None:
    train = {"few": list("abab"), "many": list("abcd")}
    transformer = TableTransformer(
        output="dict", one_hot_up_to=2, hash_buckets=3, unseen=unseen
    ).fit(train)
    codes = transformer.transform(train)
    assert set(codes) == {"categorical"}
    first = int(unseen != "error")
    assert transformer.cardinalities_ == (2 + first, 3 + first)
    for column, cardinality in zip(codes["categorical"].T, transformer.cardinalities_, strict=True):
        assert first <= int(column.min())
        assert int(column.max()) < cardinality


def test_hashing_is_frozen() -> None:
    """A model that was trained on hashed columns is useless once they are hashed otherwise."""
    train = {"city": ["Rome", "Oslo", "Łódź", "", None]}
    transformer = TableTransformer(one_hot_up_to=2, hash_buckets=5).fit(train)
    assert transformer.feature_names_ == ("city#0", "city#1", "city#2", "city#3", "city#4")
    assert features(transformer, train).tolist() == [
        [0, 0, 0, -1, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, -1, 0],
        [0, 1, 0, 0, 0],
        [1, 0, 0, 0, 0],
    ]


def test_hashing_knows_what_it_never_saw_and_spreads_it() -> None:
    train = {"x": [f"old {i}" for i in range(20)]}
    transformer = TableTransformer(hash_buckets=8, unseen="error").fit(train)
    found = features(transformer, {"x": [f"new {i}" for i in range(4000)]})
    assert found.abs().sum(1).eq(1).all()
    # Each of 16 places is taken 250 times, within five standard deviations.
    for sign in (1, -1):
        counts = found.eq(sign).sum(0)
        assert (counts - 250).abs().max() < 5 * (4000 * 15 / 256) ** 0.5
    message = refusal(transformer.transform, {"x": ["a", None]})
    assert message.startswith("row 1, column 'x': a missing value did not occur among the training")
    transformer.set_params(unseen="zeros")
    assert features(transformer, {"x": ["a", None]}).abs().sum(1).tolist() == [1, 0]


# --- laws ---------------------------------------------------------------------------------------

values = st.one_of(st.none(), st.floats(-1e6, 1e6, width=32), st.integers(-1000, 1000))


def too_large(expected: Any) -> bool:
    """Return whether float32 has no such number; nearly so is a matter of rounding."""
    largest = float(np.abs(expected).max()) / float(np.finfo(np.float32).max)
    assume(not 0.999 < largest < 1.001)
    return largest > 1


@given(st.lists(values, min_size=1, max_size=30), st.lists(values, min_size=1, max_size=10))
def test_numbers_on_the_unit_interval(train: list[Any], later: list[Any]) -> None:
    """Training values reach from 0 to 1, others go along the same line."""
    there = [float(value) for value in train if value is not None]
    if not there:
        return
    transformer = TableTransformer(scale="unit").fit({"x": pl.Series(train, dtype=pl.Float64)})
    low, high, median = min(there), max(there), float(np.median(there))
    filled = np.array([median if value is None else value for value in later])
    expected = (filled - low) / (high - low) if low < high else np.zeros(len(later))
    if too_large(expected):
        with pytest.raises(DataError, match="is too large"):
            features(transformer, {"x": pl.Series(later, dtype=pl.Float64)})
        return
    found = features(transformer, {"x": pl.Series(later, dtype=pl.Float64)}).numpy()
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6, atol=1e-6)
    again = features(transformer, {"x": pl.Series(there, dtype=pl.Float64)}).numpy()[:, 0]
    assert (again.min(), again.max()) == ((0, 1) if low < high else (0, 0))
    copy = TableTransformer.from_state(transformer.state())
    assert np.array_equal(features(copy, {"x": pl.Series(later, dtype=pl.Float64)}), found)


@given(st.lists(values, min_size=1, max_size=30), st.lists(values, min_size=1, max_size=10))
def test_numbers_are_those_of_scikit_learn(train: list[Any], later: list[Any]) -> None:
    """An imputer with an indicator, then a scaler, in float64; but constant columns become 0."""
    if all(value is None for value in train):
        return
    column = np.array([[np.nan if value is None else value] for value in train])
    after = np.array([[np.nan if value is None else value] for value in later])
    imputer = SimpleImputer(strategy="median").fit(column)
    scaler = StandardScaler().fit(imputer.transform(column))
    filled = column[~np.isnan(column)]
    is_constant = filled.min() == filled.max()
    expected = scaler.transform(imputer.transform(after)) * (not is_constant)
    transformer = TableTransformer().fit({"x": column[:, 0]})
    if too_large(expected):
        with pytest.raises(DataError, match="is too large; training values were around"):
            features(transformer, {"x": after[:, 0]})
        return
    found = features(transformer, {"x": after[:, 0]}).numpy()
    np.testing.assert_allclose(found[:, :1], expected, rtol=1e-6, atol=1e-6)
    if np.isnan(column).any():
        assert (found[:, 1:] == np.isnan(after)).all()
    else:
        assert found.shape[1] == 1


@given(st.lists(st.sampled_from(["a", "b", "c", "", "a=b", None]), min_size=1, max_size=30))
def test_categories_are_those_of_scikit_learn(train: list[str | None]) -> None:
    if all(value is None for value in train):
        return
    transformer = TableTransformer().fit({"x": pl.Series(train, dtype=pl.String)})
    found = features(transformer, {"x": pl.Series(train, dtype=pl.String)})
    column = np.array(train, dtype=object)[:, None]
    names = [*sorted({value for value in train if value is not None}), None]
    names = names if None in train else names[:-1]
    encoder = OneHotEncoder(categories=[np.array(names, dtype=object)], sparse_output=False)
    assert (found.numpy() == encoder.fit_transform(column)).all()


def test_batches_do_not_show() -> None:
    """More rows than a batch, in another order, from memory or from disk: the same bits."""
    rows = 40_000
    random = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "x": random.normal(size=rows),
            "y": random.integers(0, 9, rows),
            "a": random.integers(0, 9, rows).astype(str),
            "b": random.integers(0, 99, rows).astype(str),
        },
        schema_overrides={"b": pl.Categorical},
    )
    order = random.permutation(rows)[:30_000]
    for output in ("tensor", "dict"):
        transformer = TableTransformer(output=output).fit(frame)
        expected = transformer.transform(frame)
        found = transformer.transform(SelectedRows(as_table(frame), order))
        if output == "tensor":
            assert torch.equal(found, expected[order])
            parts = [transformer.transform(frame[i : i + 7000]) for i in range(0, rows, 7000)]
            assert torch.equal(torch.cat(parts), expected)
        else:
            for name in ("numeric", "categorical"):
                assert torch.equal(found[name], expected[name][order])


def test_a_stored_table_gives_the_same_bits(tmp_path: Path) -> None:
    TRAIN.write_parquet(tmp_path / "train.parquet")
    stored = StoredTable(tmp_path / "train.parquet")
    one, other = TableTransformer().fit(TRAIN), TableTransformer().fit(stored)
    assert one.state() == other.state()
    assert torch.equal(features(one, TRAIN), features(other, stored))


def test_columns_are_found_by_name_and_others_ignored() -> None:
    transformer = TableTransformer().fit(TRAIN)
    shuffled = TRAIN.select(
        "income", pl.lit(datetime.date(2020, 1, 1)).alias("new"), "city", "member", "age"
    )
    assert torch.equal(features(transformer, shuffled), features(transformer, TRAIN))
    message = refusal(transformer.transform, TRAIN.drop("age").rename({"city": "City"}))
    assert "no column 'age'" in message
    message = refusal(transformer.transform, TRAIN.rename({"city": "City"}))
    assert message == "the table has no column 'city'; did you mean 'City'?"


def test_kinds_that_say_the_same() -> None:
    """Features depend on values, not on which of several types holds them."""
    transformer = TableTransformer(categorical=["zip"]).fit(
        pl.DataFrame({"x": [1.0, 2.0, None], "zip": [5, 7, None], "city": ["a", "b", None]})
    )
    expected = transformer.transform({"x": [2.0, None], "zip": [7, None], "city": ["b", None]})
    same = [
        {"x": [2, None], "zip": ["7", None], "city": ["b", None]},
        {"x": np.array([2, np.nan], dtype=np.float32), "zip": [7.0, None], "city": ["b", None]},
        {"x": [2.0, float("nan")], "zip": np.array([7, np.nan]), "city": ["b", None]},
        pd.DataFrame({"x": [2, np.nan], "zip": [7, np.nan], "city": pd.Categorical(["b", None])}),
        pl.DataFrame(
            {
                "x": [Decimal("2.0"), None],
                "zip": [Decimal("7.00"), None],
                "city": pl.Series(["b", None], dtype=pl.Categorical),
            }
        ),
        pl.DataFrame(
            {
                "x": [2, None],
                "zip": pl.Series([7, None], dtype=pl.UInt8),
                "city": pl.Series(["b", None], dtype=pl.Enum(["c", "b"])),
            }
        ),
    ]
    for frame in same:
        assert torch.equal(features(transformer, frame), expected)
    nothing = transformer.transform(pl.DataFrame({"x": [None], "zip": [None], "city": [None]}))
    assert torch.equal(nothing, expected[1:])
    fractions = fit_category(pl.Series([0.5, 1e30, -2.0]), "x", 9, 9, True, str)
    assert fractions.values == ("-2", "0.5", str(int(1e30)))


def test_an_empty_table_has_no_features() -> None:
    assert features(TableTransformer().fit(TRAIN), TRAIN.head(0)).shape == (0, 8)


# --- numbers that are hard ----------------------------------------------------------------------


def test_constant_columns_become_zero() -> None:
    tenth = [0.1] * 7 + [None]
    transformer = TableTransformer().fit({"x": tenth, "y": [3] * 8})
    assert not features(transformer, {"x": tenth, "y": [3] * 8})[:, :2].any()
    assert not features(transformer, {"x": [7.0], "y": [-9]})[:, :2].any()


def test_columns_of_great_and_small_numbers() -> None:
    great = np.array([1e150, 2e150, 3e150])
    for column in (
        great,
        1 / great,
        great - 1e149,
        np.array([2**62, 2**62 + 2**20, 2**62 + 2**21]),
    ):
        transformer = TableTransformer(numeric=["x"]).fit({"x": column})
        found = features(transformer, {"x": column})[:, 0].double()
        assert abs(float(found.mean())) < 1e-6
        assert float(found.var(correction=0)) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("train", "later", "message"),
    [
        ([1.0, np.inf], [], "row 1, column 'x': the value is inf; expected finite numbers"),
        ([1.0, 1e308, -1e308], [], "column 'x' ranges from -1e+308 to 1e+308, too far"),
        ([1e-165, 3e-165], [], "column 'x' ranges from 1e-165 to 3e-165, too near"),
        ([5e-324, 0.0], [], "column 'x' ranges from 0 to 4.941e-324, too near"),
        ([1.0, 2.0], [0.0, -np.inf], "row 1, column 'x': the value is -inf"),
        ([1.0, 2.0], [0.0, 1e300], "row 1, column 'x': 1e+300 is too large; training values were"),
        ([1.0, 2.0], ["1", "two"], "row 1, column 'x': found the text 'two' where numbers"),
        ([1.0, 2.0], [None, "1"], "row 1, column 'x': found the text '1' where numbers"),
        ([None, None], [], "column 'x' has no value in any of 2 training rows"),
        ([np.nan, np.nan], [], "column 'x' has no value in any of 2 training rows"),
        ([], [], "the table has no rows to fit on"),
        (["a", "b"], ["b", "c"], "row 1, column 'x': 'c' did not occur among the training rows"),
        (["a", "b"], ["b", None], "row 1, column 'x': a missing value did not occur"),
        ([True, True], [False], "row 0, column 'x': 'false' did not occur"),
    ],
)
def test_values_that_cannot_be_used(train: list[Any], later: list[Any], message: str) -> None:
    if later:
        transformer = TableTransformer(unseen="error").fit({"x": train})
        assert message in refusal(transformer.transform, {"x": later})
    else:
        assert message in refusal(TableTransformer().fit, {"x": train})


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.Series([datetime.date(1980, 1, 1)]), "column 'x' holds Date; make a number of it"),
        (pl.Series([datetime.datetime(1980, 1, 1)]), "column 'x' holds Datetime"),
        (pl.Series([datetime.timedelta(1)]), "column 'x' holds Duration"),
        (pl.Series([[1, 2]]), "column 'x' holds List(Int64); expected numbers, text"),
        (pl.Series([b"12"]), "column 'x' holds Binary"),
        (pl.Series(["a"], dtype=pl.String), "row 0, column 'x': found the text 'a' where numbers"),
        (pl.Series(["a"], dtype=pl.Categorical), "row 0, column 'x': found the text 'a'"),
    ],
)
def test_columns_of_the_wrong_kind(column: pl.Series, message: str) -> None:
    frame = pl.DataFrame({"x": column})
    transformer = TableTransformer().fit({"x": [1, 2]})
    assert message in refusal(transformer.transform, frame)
    if column.dtype not in (pl.String, pl.Categorical):
        assert message in refusal(TableTransformer().fit, frame)
        left = TableTransformer(ignore=["x"]).fit(frame.with_columns(y=1))
        assert left.feature_names_ == ("y",)
    else:
        assert message in refusal(TableTransformer(numeric=["x"]).fit, frame)


def test_missing_values_can_be_refused() -> None:
    transformer = TableTransformer(missing="error").fit({"x": [1, 2], "y": ["a", "b"]})
    message = 'the value is missing; fill it in, or use TableTransformer(missing="median")'
    assert message in refusal(transformer.transform, {"x": [1, None], "y": ["a", "b"]})
    assert "row 1, column 'y'" in refusal(transformer.transform, {"x": [1, 2], "y": ["a", None]})
    for column in ([1, None], ["a", None]):
        assert "row 1, column 'x': the value is missing" in refusal(
            TableTransformer(missing="error").fit, {"x": column}
        )


def test_the_row_of_an_error_is_that_of_the_table_itself() -> None:
    """Not of the batch, nor of the selection."""
    column = np.zeros(50_000)
    column[1] = 1
    transformer = TableTransformer().fit({"x": column})
    column[40_001] = np.inf
    assert refusal(transformer.transform, {"x": column}).startswith("row 40001,")
    chosen = SelectedRows(as_table({"x": column}), np.arange(45_000)[::-1])
    assert refusal(transformer.transform, chosen).startswith("row 40001,")
    assert refusal(TableTransformer().fit, chosen).startswith("row 40001,")


# --- parameters ---------------------------------------------------------------------------------


def test_it_is_a_scikit_learn_estimator() -> None:
    names = ["age"]
    transformer = TableTransformer(numeric=names, one_hot_up_to=3)
    assert transformer.numeric is names
    copy = clone(transformer)
    assert copy.get_params() == transformer.get_params()
    assert not hasattr(copy, "feature_names_")
    copy.set_params(scale="none", ignore=("city",))
    assert (copy.scale, copy.ignore) == ("none", ("city",))
    assert repr(
        copy
    ) == "TableTransformer(ignore=('city',), numeric=['age'], one_hot_up_to=3,\n" + (
        " " * 17 + "scale='none')"
    )
    assert torch.equal(
        TableTransformer().fit_transform(TRAIN), TableTransformer().fit(TRAIN).transform(TRAIN)
    )
    pipeline = make_pipeline(TableTransformer(), StandardScaler()).fit(TRAIN)
    assert pipeline.transform(TRAIN).shape == (4, 8)


def test_named_columns_override_their_type() -> None:
    frame = {"zip": [1, 2], "yes": [True, False], "x": [1, 2], "city": ["a", "b"]}
    transformer = TableTransformer(numeric=["yes"], categorical=["zip"], ignore=["city"]).fit(frame)
    assert transformer.feature_names_ == ("yes", "x", "zip=1", "zip=2")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"scale": "quantile"}, "scale must be 'standard' or 'unit' or 'none', not 'quantile'"),
        ({"missing": "mean"}, "missing must be"),
        ({"unseen": "ignore"}, "unseen must be"),
        ({"output": "frame"}, "output must be"),
        ({"one_hot_up_to": -1}, "one_hot_up_to must be a whole number from 0 to 1048576, not -1"),
        ({"hash_buckets": 0}, "hash_buckets must be a whole number from 1 to 1048576, not 0"),
        ({"hash_buckets": 1.5}, "hash_buckets must be"),
        ({"numeric": "age"}, "numeric must be a list of columns, not 'age'"),
        ({"ignore": None}, "ignore must be a list of columns, not None"),
        ({"numeric": [1]}, "numeric must be a list of names of columns, and 1 is none"),
        ({"numeric": ["age"], "categorical": ["age"]}, "in numeric and in categorical"),
        ({"ignore": ["age", "age"]}, "in ignore and in ignore"),
    ],
)
def test_parameters_that_cannot_be(parameters: dict[str, Any], message: str) -> None:
    transformer = TableTransformer(**parameters)  # not before fit, as scikit-learn wants it
    with pytest.raises(ConfigurationError, match=message):
        transformer.fit(TRAIN)


def test_names_that_are_no_columns() -> None:
    for parameter in ("numeric", "categorical", "ignore"):
        message = refusal(TableTransformer(**{parameter: ["aeg"]}).fit, TRAIN)
        assert message == "the table has no column 'aeg'; did you mean 'age'?"
    assert "no column to make features of" in refusal(
        TableTransformer(ignore=TRAIN.columns).fit, TRAIN
    )


def test_before_fitting() -> None:
    for call in (
        lambda t: t.transform(TRAIN),
        lambda t: t.state(),
        lambda t: t.get_feature_names_out(),
    ):
        with pytest.raises(ConfigurationError, match="call fit first"):
            call(TableTransformer())


# --- state --------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["tensor", "dict"])
def test_state_through_json(output: Any) -> None:
    random = np.random.default_rng(0)
    frame = TRAIN.with_columns(x=random.normal(size=4), many=pl.Series(list("abcd")))
    transformer = TableTransformer(output=output, one_hot_up_to=3, categorical=("age",)).fit(frame)
    text = json.dumps(transformer.state(), allow_nan=False)
    again = TableTransformer.from_state(json.loads(text))
    assert json.dumps(again.state()) == text
    assert again.feature_names_ == transformer.feature_names_
    assert again.cardinalities_ == transformer.cardinalities_
    found, expected = again.transform(frame), transformer.transform(frame)
    for name in ("numeric", "categorical") if output == "dict" else (slice(None),):
        assert torch.equal(found[name], expected[name])


def changed(state: Any, path: tuple[Any, ...], value: Any) -> Any:
    state = json.loads(json.dumps(state))
    at = state
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return state


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), "something else"),
        (("version",), 2),
        (("new",), 1),
        (("columns",), []),
        (("columns", 0, "type"), "code"),
        (("columns", 0, "median"), "forty"),
        (("columns", 0, "mean"), float("nan")),
        (("columns", 0, "deviation"), -1.0),
        (("columns", 0, "deviation"), float("inf")),
        (("columns", 0, "had_missing"), 1),
        (("columns", 0, "name"), "city"),
        (("columns", 1, "values"), ["b", "a"]),
        (("columns", 1, "values"), ["a", "a"]),
        (("columns", 1, "values"), [1]),
        (("columns", 4, "buckets"), 10**12),
        (("parameters", "hash_buckets"), 10**12),
        (("parameters", "unseen"), "whatever"),
        (("parameters", "hash_buckets"), 0),
        (("parameters", "numeric"), "age"),
    ],
)
def test_a_foreign_state(path: tuple[Any, ...], value: Any) -> None:
    frame = TRAIN.with_columns(many=pl.Series(list("abcd")))
    state = TableTransformer(one_hot_up_to=3).fit(frame).state()
    TableTransformer.from_state(state)
    message = refusal(TableTransformer.from_state, changed(state, path, value))
    assert message.startswith("this is not the state of a table transformer")


@pytest.mark.parametrize("state", [None, [], "x", {}, 5])
def test_what_is_no_state_at_all(state: Any) -> None:
    assert "is not the state" in refusal(TableTransformer.from_state, state)


# --- fitted on training rows --------------------------------------------------------------------

NUMBERS = pl.DataFrame({"x": [0.0, 2.0, 100.0, None], "city": ["a", "b", "c", "a"]})


def test_only_the_given_rows_are_learned_from() -> None:
    for transformer, rows in ((TableTransformer(unseen="zeros"), [1, 0]), (mixed(), [0, 1])):
        both = fitted(transformer, NUMBERS, np.array(rows))
        one = fitted(transformer, NUMBERS[rows], np.arange(2))
        assert torch.equal(both.transform(NUMBERS), one.transform(NUMBERS))
        assert both.transform(NUMBERS)[:2, 0].tolist() == [-1, 1]
        assert both.columns == ("x", "city")
    assert not hasattr(transformer, "transformers_"), "the user's own object was fitted"


def mixed(**arguments: Any) -> ColumnTransformer:
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["x"]),
            ("city", OneHotEncoder(handle_unknown="ignore", **arguments), ["city"]),
        ],
        sparse_threshold=1.0 if not arguments else 0.0,
    )


def test_sparse_results_become_dense() -> None:
    dense = fitted(mixed(sparse_output=False), NUMBERS, np.arange(4)).transform(NUMBERS)
    found = fitted(mixed(), NUMBERS, np.arange(4))
    assert torch.equal(found.transform(NUMBERS), dense)
    assert found.feature_names == ("numbers__x", "city__city_a", "city__city_b", "city__city_c")
    assert found.state() is None


def test_results_as_frames() -> None:
    for kind in ("polars", "pandas"):
        transformer = mixed(sparse_output=False).set_output(transform=kind)
        assert fitted(transformer, NUMBERS, np.arange(4)).transform(NUMBERS).shape == (4, 4)


def test_state_of_our_own() -> None:
    found = fitted(TableTransformer(), NUMBERS, np.arange(4), "bank")
    again = TableTransformer.from_state(found.state())
    assert torch.equal(again.transform(NUMBERS), found.transform(NUMBERS))
    assert found.feature_names == again.feature_names_


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (StandardScaler(), "'bank': StandardScaler cannot fit the table: could not convert"),
        (FunctionTransformer(lambda f: f.select("x")), "returned nan in row 3, column 0"),
        (FunctionTransformer(lambda f: f["x"].to_numpy()), r"shape [4] for 4 rows"),
        (FunctionTransformer(lambda f: f.head(2).select("x")), "shape [2, 1] for 4 rows"),
        (FunctionTransformer(lambda f: f.select()), "expected [4, features]"),
        (FunctionTransformer(lambda f: f.select("city")), "values that are no numbers"),
        (FunctionTransformer(lambda f: np.full((len(f), 1), 1e39)), "returned inf in row 0"),
        (FunctionTransformer(lambda f: np.ma.masked_all((len(f), 1))), "a masked array, which is"),
        (FunctionTransformer(lambda f: np.zeros((len(f), 1), "M8[s]")), "returned datetime64[s]"),
        (FunctionTransformer(lambda f: np.zeros((len(f), 1), "m8[s]")), "returned timedelta64[s]"),
        (FunctionTransformer(lambda f: np.full((len(f), 1), 1j)), "returned complex128, which is"),
        (
            FunctionTransformer(lambda f: f.select("x", day=pl.date(2024, 1, 31))),
            "'bank': FunctionTransformer returned Date in column 'day', which is more than numbers",
        ),
        (
            FunctionTransformer(lambda f: torch.zeros(len(f), 1, device="meta")),
            "'bank': FunctionTransformer: what it returned is a tensor that has no numbers to read",
        ),
        (FunctionTransformer(lambda f: f.iloc[:, 0]), "if it needs pandas"),
        (TableTransformer(unseen="error"), "'bank': row 2, column 'city': 'c' did not occur"),
        (CountVectorizer(), "CountVectorizer cannot"),
    ],
)
def test_transformers_that_fail(transformer: Any, message: str) -> None:
    def both() -> None:
        fitted(transformer, NUMBERS, np.array([0, 1]), "bank").transform(NUMBERS)

    assert message in refusal(both)


def test_categories_of_numbers_where_training_had_numbers_are_to_become_such() -> None:
    learned = fitted(TableTransformer(), pl.DataFrame({"x": [1, 2, 3]}), np.arange(3))
    said = refusal(learned.transform, pd.DataFrame({"x": pd.Categorical([1, 3])}))
    assert "found the text '1' where numbers were expected; make numbers of it (astype" in said


@pytest.mark.parametrize("form", [torch.Tensor.bfloat16, torch.Tensor.to_sparse])
def test_tensors_that_numpy_has_not_are_taken_from_a_transformer(form: Any) -> None:
    half = FunctionTransformer(lambda f: form(torch.full((len(f), 1), 0.5)))
    found = fitted(half, NUMBERS, np.arange(4), "bank").transform(NUMBERS)
    assert torch.equal(found, torch.full((4, 1), 0.5))


def test_what_is_no_transformer() -> None:
    for wrong in ("standard", StandardScaler, torch.nn.Linear(1, 1)):
        with pytest.raises(ConfigurationError, match="'bank': a transformer must have fit and"):
            fitted(wrong, NUMBERS, np.arange(4), "bank")
    assert "no training rows" in refusal(fitted, TableTransformer(), NUMBERS, np.arange(0))
    message = refusal(
        fitted(TableTransformer(), NUMBERS, np.arange(4), "bank").transform, {"x": [1]}
    )
    assert message.startswith("the table of 'bank' has no column 'city'")


# --- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "codes", "classes"),
    [
        (["no", "yes", "no"], [0, 1, 0], ("no", "yes")),
        ([True, False], [1, 0], (False, True)),
        ([5, -1, 5], [1, 0, 1], (-1, 5)),
        (np.array([1.0, 0.0]), [1, 0], (0, 1)),
        (torch.tensor([3, 1, 2]), [2, 0, 1], (1, 2, 3)),
        (pl.Series(["b", "a"], dtype=pl.Categorical), [1, 0], ("a", "b")),
        (pd.Series(["b", "a"]), [1, 0], ("a", "b")),
    ],
)
def test_classes(labels: Any, codes: list[int], classes: tuple[Any, ...]) -> None:
    for task in ("auto", "classification"):
        found = encode_labels(labels, task)
        assert found.values.dtype == torch.int64
        assert found.values.tolist() == codes
        assert found.classes == classes
        assert [type(one) for one in found.classes] == [type(one) for one in classes]
    again = encode_labels(labels, classes=classes)
    assert again.values.tolist() == codes


def test_numbers() -> None:
    for labels, task in (([0.5, 2], "auto"), ([1, 2], "regression"), (range(21), "regression")):
        found = encode_labels(labels, task)
        assert found.values.dtype == torch.float32
        assert found.values.tolist() == list(labels)
        assert found.classes is None
    assert encode_labels(np.arange(21.0)).classes is None
    assert len(encode_labels(range(21), "classification").classes or ()) == 21


@pytest.mark.parametrize(
    "labels",
    [
        16777217.0 + 2 * np.arange(150),
        [1e9 - 2, 1e9 + 2, 1e9],
        np.float64(1.7e9) + np.linspace(0, 900, 40),
    ],
)
def test_numbers_that_float32_rounds_into_others_are_told_of(labels: Any) -> None:
    (note,) = encode_labels(labels, "regression").notes
    assert "the labels are kept as float32, which rounds them by up to" in note
    moved = np.asarray(labels) - np.mean(labels)
    assert encode_labels(moved, "regression").notes == ()


@pytest.mark.parametrize(
    "labels",
    [
        [0.1, 0.2],
        [1e9, 1e9],
        [16777217, 16777217],
        np.random.default_rng(0).lognormal(10, 4, 10**5),
        1.7e9 + np.linspace(0, 3e7, 40),
    ],
)
def test_numbers_that_are_hardly_rounded_are_not_told_of(labels: Any) -> None:
    assert encode_labels(labels, "regression").notes == ()


@pytest.mark.parametrize("unit", [1e-42, 1e-60, 1e-200])
def test_numbers_too_near_each_other_for_float32_are_not_learned(unit: float) -> None:
    labels, table = [1 * unit, 2 * unit, 3.5 * unit], {"a": [1, 2, 3]}
    said = refusal(vertical_tables, {"bank": table}, labels, aligned=True, task="regression")
    assert said.startswith(f"the labels range from {unit:.4g} to ")
    assert said.endswith("give them in another unit")
    assert encode_labels([unit, unit], "regression").values.std() == 0


def test_whole_numbers_that_may_be_either() -> None:
    with pytest.raises(ConfigurationError, match="21 different values; say task='classification'"):
        encode_labels(range(21))
    with pytest.raises(ConfigurationError, match="task must be"):
        encode_labels([1, 2], "ranking")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "arguments", "message"),
    [
        ([1, None], {}, "the label of row 1 is missing"),
        ([1.0, np.nan], {}, "the label of row 1 is missing"),
        ([], {}, "there are no labels"),
        (["a", "a"], {}, "all 2 labels are 'a'"),
        ([1.5, np.inf], {}, "the label of row 1 is inf"),
        ([1.5, 1e300], {}, "the label of row 1 is 1e+300"),
        (["a", "b"], {"task": "regression"}, "regression needs numbers"),
        (np.arange(30) / 7, {"task": "classification"}, "30 different values"),
        (["a", "c"], {"classes": ("a", "b")}, "the label of row 1 is 'c'; expected 'a', 'b'"),
        (
            [datetime.date(2020, 1, 1)] * 2,
            {},
            "the labels hold Date; expected text, truth values, whole numbers or floats; make one",
        ),
    ],
)
def test_labels_that_cannot_be_used(labels: Any, arguments: dict[str, Any], message: str) -> None:
    assert message in refusal(encode_labels, labels, **arguments)
