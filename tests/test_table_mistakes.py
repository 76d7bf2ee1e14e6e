"""Everyday mistakes with tables: refused or told, in one sentence with the remedy."""

from __future__ import annotations

import json
import sqlite3
import sys
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import cli
from colonnade.config import load_config
from colonnade.errors import ConfigurationError, DataError, DataWarning, InvalidInput
from colonnade.estimators import VerticalClassifier
from colonnade.tables import (
    HashSplit,
    IdForm,
    IdSplit,
    StoredTable,
    TableTransformer,
    align,
    read_table,
    vertical_tables,
)
from colonnade.tables.frames import as_series, index_of
from colonnade.tables.labels import encode_labels

PEOPLE = 200
RANDOM = np.random.default_rng(3)
BANK = pl.DataFrame({"customer": range(1000, 1000 + PEOPLE), "income": RANDOM.normal(size=PEOPLE)})
SHOP = pl.DataFrame(
    {"customer": RANDOM.permutation(BANK["customer"]), "spent": RANDOM.normal(size=PEOPLE)}
)
LABELS = BANK.select("customer", buys=(pl.col("income") > 0).cast(pl.Int64))
QUICK: dict[str, Any] = {"epochs": 2, "batch_size": 40, "hidden": (4,)}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def refusal(function: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        function(*arguments, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def csv(folder: Path, text: str) -> Path:
    path = folder / "people.csv"
    path.write_text(text, encoding="utf-8")
    return path


# --- a row without an id ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        [1000, np.nan, 1002],
        pd.array([1000, None, 1002], dtype="Float64"),
        pd.Categorical([1000.0, None, 1002.0]),
        pd.Categorical([1000, None, 1002]),
        pl.Series([1000.0, None, 1002.0]),
    ],
)
def test_whole_numbers_that_are_floats_for_one_is_missing_are_told_by_its_row(ids: Any) -> None:
    lacking = pd.DataFrame({"customer": ids, "age": [41.0, 37.0, 52.0]})
    whole = pd.DataFrame({"customer": [1000, 1001, 1002], "buys": ["no", "yes", "no"]})
    bank = {"customer": whole["customer"], "age": lacking["age"]}
    said = "has no id in row 1 (column 'customer'); give every row an id, or drop the row"
    assert refusal(vertical_tables, {"bank": lacking}, whole, id="customer") == f"'bank' {said}"
    answers = lacking.rename(columns={"age": "buys"})
    assert refusal(vertical_tables, {"bank": bank}, answers, id="customer").endswith(said)


@pytest.mark.parametrize("ids", [[1000.5, np.nan], [np.nan, np.inf], [np.nan, 1e300], [7.0, 8.0]])
def test_floats_that_are_no_whole_numbers_with_one_missing_are_no_ids(ids: list[float]) -> None:
    table = pd.DataFrame({"customer": ids, "age": [41.0, 37.0]})
    assert "holds Float64, and ids must be" in refusal(align, {"bank": table}, id="customer")


# --- a frame where a column is expected ---------------------------------------------------------

KINDS_OF_FRAME = (pd.DataFrame, pl.DataFrame, pl.LazyFrame)


@pytest.mark.parametrize("frame", KINDS_OF_FRAME)
def test_a_frame_of_one_column_is_that_column(frame: Any) -> None:
    column = as_series(frame({"id": [7, 8]}))
    assert (column.name, column.to_list()) == ("id", [7, 8])
    assert encode_labels(frame({"y": ["no", "yes"]})).classes == ("no", "yes")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_people_may_be_named_in_a_frame_of_one_column(frame: Any) -> None:
    train, validation, test = IdSplit(test=frame({"id": [8]})).rows(pl.Series([7, 8, 9]))
    assert [*map(list, (train, validation, test))] == [[0, 2], [], [1]]


def test_people_may_be_named_by_an_index_of_several_levels() -> None:
    index = pd.MultiIndex.from_tuples([(7, "a"), (8, "b"), (9, "c")], names=["house", "member"])
    ids = index_of(pd.DataFrame({"age": [41, 37, 52]}, index=index))
    assert ids is not None
    assert [*map(list, IdSplit(test=index[1:]).rows(ids))] == [[0], [], [1, 2]]


@pytest.mark.parametrize("frame", KINDS_OF_FRAME)
def test_of_a_frame_of_several_columns_one_must_be_given(frame: Any) -> None:
    said = refusal(as_series, frame({"id": [7], "age": [41]}))
    assert said == "the column is a frame of 2 columns, and must be one; give one: frame['id']"
    assert refusal(as_series, frame({})) == "the column is a frame of 0 columns, and must be one"


# --- numbers that others have not ---------------------------------------------------------------


def test_numbers_beyond_64_bits_are_told_and_long_ones_taken() -> None:
    beyond = np.array([2**63 + 1, 5] * 20, dtype=np.uint64)
    told = refusal(encode_labels, beyond)
    assert told.startswith("the label of row 0 is 9223372036854775809, which is beyond 64 bits")
    assert encode_labels(beyond.astype(str)).classes == ("5", "9223372036854775809")
    long = np.array([0, 1] * 20, dtype=np.longdouble)
    assert encode_labels(long).classes == (0, 1)
    assert as_series(long / 2).to_list() == [0.0, 0.5] * 20


# --- which rows belong together -----------------------------------------------------------------


def test_a_forgotten_id_is_named() -> None:
    tables = {"bank": BANK, "shop": SHOP}
    for fit in (vertical_tables, VerticalClassifier(**QUICK).fit):
        message = refusal(fit, tables, LABELS["buys"])
        assert "row i of 'bank' and 'shop'" in message
        assert "say id='customer'" in message
        assert "or aligned=True" in message


@pytest.mark.parametrize("first", [0, 1])
def test_a_count_that_was_written_with_a_table_is_no_likely_id(first: int) -> None:
    count = pl.Series("Unnamed: 0", range(first, PEOPLE + first))
    tables = {"bank": BANK.drop("customer"), "shop": SHOP.drop("customer")}
    counted = {name: table.insert_column(0, count) for name, table in tables.items()}
    message = refusal(vertical_tables, counted, LABELS["buys"])
    assert "name the column of ids by id=..." in message
    assert "Unnamed" not in message


def test_a_count_of_rows_contradicts_no_index() -> None:
    joined = {"bank": indexed(BANK), "shop": indexed(SHOP)}
    counted = {name: table.assign(row=range(PEOPLE)) for name, table in joined.items()}
    labels = pd.Series(LABELS["buys"].to_list(), joined["bank"].index)
    assert vertical_tables(counted, labels).ids is not None


@pytest.mark.parametrize("kind", ["polars", "pandas", "dicts"])
def test_nothing_says_that_rows_belong_together(kind: str) -> None:
    tables: dict[str, Any] = {"bank": BANK.drop("customer"), "shop": SHOP.drop("customer")}
    if kind == "pandas":
        tables = {name: pd.DataFrame(t.to_dict(as_series=False)) for name, t in tables.items()}
    if kind == "dicts":
        tables = {name: t.to_dict() for name, t in tables.items()}
    assert "name the column of ids by id=..." in refusal(vertical_tables, tables, LABELS["buys"])
    found = vertical_tables(tables, LABELS["buys"], aligned=True)
    assert found.aligned
    assert found.ids is None
    model = VerticalClassifier(aligned=True, **QUICK).fit(tables, LABELS["buys"])
    assert model.predict(tables).shape == (PEOPLE,)
    assert "not both" in refusal(vertical_tables, tables, LABELS, id="customer", aligned=True)


def test_one_table_goes_with_its_labels() -> None:
    bank = BANK.drop("customer")
    assert len(vertical_tables({"bank": bank}, LABELS["buys"].to_list()).labels) == PEOPLE
    both = BANK.with_columns(spent=pl.Series(range(PEOPLE)))
    model = VerticalClassifier(parties={"a": ["income"], "b": ["spent"]}, **QUICK)
    assert model.fit(both, LABELS["buys"].to_list()).predict(both).shape == (PEOPLE,)


def indexed(frame: pl.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(frame.to_dict(as_series=False)).set_index("customer")


def test_tables_of_pandas_are_joined_by_their_index() -> None:
    """Whatever their orders: as by the ids that the index holds."""
    bank, shop = indexed(BANK), indexed(SHOP)
    labels = pd.Series(LABELS["buys"].to_list(), bank.index, name="buys")
    plain = TableTransformer(scale="none")
    found = vertical_tables({"bank": bank, "shop": shop}, labels, transformers=plain)
    by_id = vertical_tables({"bank": BANK, "shop": SHOP}, LABELS, id="customer", transformers=plain)
    assert found.ids is not None
    assert by_id.ids is not None
    assert found.ids.to_list() == by_id.ids.to_list()
    assert torch.equal(found.features["shop"], by_id.features["shop"])
    assert (found.test == by_id.test).all()
    ids, features = found.transform({"shop": shop[:9], "bank": bank.loc[shop.index[:9]]})
    assert ids is not None
    assert ids.to_list() == shop.index[:9].to_list()
    assert torch.equal(
        features["shop"].flatten(), torch.tensor(shop["spent"][:9].to_numpy()).float()
    )
    model = VerticalClassifier(**QUICK).fit({"bank": bank, "shop": shop}, labels)
    turned = {"bank": bank.iloc[::-1], "shop": shop}
    assert np.allclose(
        model.predict_proba(turned)[::-1], model.predict_proba({"bank": bank, "shop": shop})
    )
    expected = model.score({"bank": bank, "shop": shop}, labels)
    assert model.score(turned, labels[::-1]) == expected


def test_ids_that_are_categories_of_pandas_are_the_numbers_that_they_stand_for() -> None:
    plain = TableTransformer(scale="none")
    by_id = vertical_tables({"bank": BANK, "shop": SHOP}, LABELS, id="customer", transformers=plain)
    bank = indexed(BANK).reset_index()
    bank["customer"] = bank["customer"].astype("category")
    found = vertical_tables({"bank": bank, "shop": SHOP}, LABELS, id="customer", transformers=plain)
    assert torch.equal(found.features["bank"], by_id.features["bank"])
    few = SHOP.filter(pl.col("customer").is_in(bank["customer"][:5].to_list()))
    ids, _ = found.transform({"bank": bank[:5], "shop": few})
    assert ids is not None
    assert ids.to_list() == bank["customer"][:5].to_list()
    both = bank.assign(spent=range(PEOPLE))
    divided = VerticalClassifier(
        parties={"a": ["income"], "b": ["spent"]}, id="customer", **QUICK
    ).fit(both, LABELS)
    assert divided.predict(both).shape == (PEOPLE,)
    assert divided.score(both, LABELS) == divided.score(both, LABELS["buys"].to_list())


def test_a_category_that_is_missing_is_nobodys_id() -> None:
    bank = indexed(BANK).reset_index()
    bank["customer"] = bank["customer"].where(bank.index > 0).astype("category")
    assert "'bank' has no id in row 0" in refusal(
        vertical_tables, {"bank": bank, "shop": SHOP}, LABELS, id="customer"
    )


def levels(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose index has the customer and a year in two levels."""
    pairs = [(customer, 2000 + int(customer) % 3) for customer in frame.index]
    return frame.set_axis(pd.MultiIndex.from_tuples(pairs, names=["customer", "year"]))


def test_an_index_of_several_levels_joins_as_any_other() -> None:
    bank, shop = levels(indexed(BANK)), levels(indexed(SHOP))
    labels = pd.Series(LABELS["buys"].to_list(), bank.index, name="buys")
    plain = TableTransformer(scale="none")
    found = vertical_tables({"bank": bank, "shop": shop}, labels, transformers=plain)
    by_id = vertical_tables({"bank": BANK, "shop": SHOP}, LABELS, id="customer", transformers=plain)
    assert torch.equal(found.features["shop"], by_id.features["shop"])
    model = VerticalClassifier(**QUICK).fit({"bank": bank, "shop": shop}, labels)
    turned = {"bank": bank.iloc[::-1], "shop": shop}
    assert model.score(turned, labels[::-1]) == model.score({"bank": bank, "shop": shop}, labels)
    assert "different indices" in refusal(
        vertical_tables, {"bank": bank, "shop": shop[1:]}, labels.to_list()
    )


def test_an_index_of_several_levels_is_passed_over_as_any_other() -> None:
    """Where rows are aligned, or one table is divided by columns, or labels alone have one."""
    bank, labels = indexed(BANK).reset_index(drop=True), LABELS["buys"].to_list()
    alone = levels(indexed(BANK))
    marked = pd.Series(labels, alone.index)
    both = alone.assign(spent=range(PEOPLE))
    divided = VerticalClassifier(parties={"a": ["income"], "b": ["spent"]}, **QUICK)
    assert divided.fit(both, marked).predict(both).shape == (PEOPLE,)
    tables = {"bank": alone, "shop": bank}
    together = VerticalClassifier(aligned=True, **QUICK).fit(tables, labels)
    expected = together.predict_proba({"bank": bank, "shop": bank})
    assert (together.predict_proba(tables) == expected).all()
    assert len(vertical_tables({"bank": bank}, marked).labels) == PEOPLE


@pytest.mark.parametrize("names", [[None, None], ["region", None]])
@pytest.mark.parametrize("kind", [int, float, str])
def test_counts_of_rows_within_groups_join_nothing(names: list[str | None], kind: Any) -> None:
    def grouped(table: pl.DataFrame) -> pd.DataFrame:
        rows = pd.DataFrame(table.drop("customer").to_dict(as_series=False))
        halves = [rows[:150], rows[150:].reset_index(drop=True)]
        halves = [half.set_axis(half.index.astype(kind)) for half in halves]
        return pd.concat(halves, keys=["jan", "feb"]).rename_axis(names)

    tables, buys = {"bank": grouped(BANK), "shop": grouped(SHOP)}, LABELS["buys"].to_list()
    assert "nothing says" in refusal(vertical_tables, tables, buys)
    called = {name: table.rename_axis(["month", "customer"]) for name, table in tables.items()}
    assert vertical_tables(called, buys).ids is not None


def test_an_index_without_a_row_is_a_count() -> None:
    assert index_of(pd.DataFrame(index=pd.MultiIndex.from_arrays([[], []]))) is None
    assert index_of(pd.DataFrame(index=pd.Index([], dtype=object))) is None


def test_an_index_of_several_levels_that_lacks_one() -> None:
    bank = indexed(BANK)
    years = [None, *range(1, PEOPLE)]
    bank.index = pd.MultiIndex.from_arrays([bank.index, years], names=["customer", "year"])
    message = refusal(vertical_tables, {"bank": bank}, LABELS["buys"].to_list())
    assert "'bank': the index has no value in row 0" in message


def test_an_index_that_does_not_say_whose_rows_are() -> None:
    bank, shop = indexed(BANK), indexed(SHOP)
    labels = LABELS["buys"].to_list()

    def message(**changes: Any) -> str:
        return refusal(vertical_tables, {"bank": bank, "shop": shop} | changes, labels)

    assert "'bank' and 'shop' have different indices, of which '1000'" in message(
        shop=shop.drop(1000)
    )
    assert "names 1000 twice" in message(bank=bank.rename({1001: 1000}))
    assert "give them as a pandas Series with that index" in message()
    assert "nothing says" in message(shop=shop.reset_index(drop=True))
    shuffled = {
        n: t.reset_index(drop=True).sample(frac=1) for n, t in (("bank", bank), ("shop", shop))
    }
    assert "nothing says" in message(**shuffled)
    # Put into one order by chance, whose ids tell otherwise.
    wrong = {
        name: t.reset_index().set_index(bank.index + 1)
        for name, t in (("bank", bank), ("shop", shop))
    }
    assert "rows belong together whose 'customer' differs; say id='customer'" in message(**wrong)


def renamed(bank: Any, shop: Any) -> str:
    """Return why tables are refused whose indices are these."""
    tables = {"bank": indexed(BANK).set_axis(bank), "shop": indexed(SHOP).set_axis(shop)}
    return refusal(vertical_tables, tables, pd.Series(LABELS["buys"].to_list(), bank))


def test_indices_of_two_names_join_nothing() -> None:
    numbers = range(1000, 1000 + PEOPLE)
    customers, receipts = (pd.Index(numbers, name=name) for name in ("customer", "receipt"))
    assert "'bank' is called customer and that of 'shop' receipt" in renamed(customers, receipts)
    pairs = pd.MultiIndex.from_product([range(PEOPLE // 4), range(4)], names=["house", "member"])
    assert "reorder_levels" in renamed(pairs, pairs.set_names(["member", "house"]))


@pytest.mark.parametrize("kind", [int, float, str, "uint64"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_count_of_rows_joins_nothing_of_whatever_kind_it_is(kind: Any, first: int) -> None:
    count = pd.Index(np.arange(first, PEOPLE + first)).astype(kind)
    shuffled = count[np.random.default_rng(0).permutation(PEOPLE)]
    assert "nothing says" in renamed(shuffled[::-1], shuffled)
    assert "the index of 'shop' is whole numbers" in renamed(count.rename("ID"), shuffled)
    assert "nothing says" in renamed(count, shuffled)
    labels = pd.Series(LABELS["buys"].to_list(), shuffled[::-1])
    bank = {"bank": indexed(BANK).set_axis(shuffled)}
    assert "numbers of rows in different orders" in refusal(vertical_tables, bank, labels)


PLACED: dict[str, Any] = {
    "shuffled labels": (lambda x: x, lambda y: y.sample(frac=1, random_state=0)),
    "shuffled table": (lambda x: x.sample(frac=1, random_state=0), lambda y: y),
    "other people": (lambda x: x.iloc[5:], lambda y: y.iloc[:-5]),
}


@pytest.mark.parametrize("shape", ["array", "table"])
@pytest.mark.parametrize("how", PLACED)
def test_labels_of_pandas_in_another_order_are_not_taken_by_their_place(
    how: str, shape: str
) -> None:
    bank, buys = (pd.DataFrame(each.to_dict(as_series=False)) for each in (BANK, LABELS))
    of_table, of_labels = PLACED[how]
    table, labels = of_table(bank), of_labels(buys["buys"] if shape == "array" else buys[["buys"]])
    said = refusal(vertical_tables, {"bank": table}, labels)
    assert "order the labels as the table (y.loc[X.index])" in said
    vertical_tables({"bank": table}, labels.to_numpy().reshape(-1))
    vertical_tables({"bank": table}, labels, aligned=True)


LEFT: dict[str, Any] = {
    "split": lambda t: t.iloc[np.random.default_rng(0).permutation(PEOPLE)[:150]],
    "mask": lambda t: t[np.arange(PEOPLE) % 3 > 0],
    "sample": lambda t: t.sample(100, random_state=0),
    "drop": lambda t: t.drop([3]),
    "concat": lambda t: pd.concat([t[:50], t[150:]]),
}


@pytest.mark.parametrize("kind", [int, float, str])
@pytest.mark.parametrize("how", LEFT)
def test_what_is_left_of_a_count_of_rows_joins_nothing(how: str, kind: Any) -> None:
    """It says of rows of one table which they are, and nothing of another's."""
    labels = pd.Series(LABELS["buys"].to_list())
    whole = {"bank": indexed(BANK), "shop": indexed(SHOP)}
    kept = {n: LEFT[how](t.reset_index(drop=True)) for n, t in whole.items()}
    kept = {n: t.set_axis(t.index.astype(kind)) for n, t in kept.items()}
    chosen = LEFT[how](labels)
    chosen.index = chosen.index.astype(kind)
    said = refusal(vertical_tables, kept, chosen)
    assert "name the column of ids by id=..., or aligned=True" in said
    assert "the index of 'bank', 'shop' is whole numbers without a name" in said
    assert len(vertical_tables(kept, chosen, aligned=True).labels) == len(chosen)


def test_whole_numbers_with_a_name_join_and_without_one_predict_nothing() -> None:
    tables = {"bank": indexed(BANK), "shop": indexed(SHOP)}
    labels = pd.Series(LABELS["buys"].to_list(), tables["bank"].index)
    model = VerticalClassifier(**QUICK).fit(tables, labels)
    assert 0 <= model.score(tables, labels) <= 1
    nameless = {name: table.rename_axis(None) for name, table in tables.items()}
    for use in (model.predict, model.data_.transform, model.fit):
        assert "nothing says" in refusal(use, nameless, *([labels] if use == model.fit else []))
    assert "nothing says" in refusal(model.score, nameless, labels)


def test_new_rows_of_which_nothing_says_whose_they_are_are_told_what_helps() -> None:
    tables = {"bank": indexed(BANK), "shop": indexed(SHOP).loc[BANK["customer"].to_list()]}
    labels = pd.Series(LABELS["buys"].to_list(), tables["bank"].index)
    model = VerticalClassifier(**QUICK).fit(tables, labels)
    expected = model.predict(tables)
    counted = {name: table.reset_index(drop=True) for name, table in tables.items()}
    said = refusal(model.predict, counted)
    assert "give all tables of new rows an index of one name (rename_axis)" in said
    assert "set_params(aligned=True)" in said
    named = {name: table.rename_axis("row") for name, table in counted.items()}
    assert (model.predict(named) == expected).all()
    assert (model.set_params(aligned=True).predict(counted) == expected).all()
    assert model.score(counted, labels.to_numpy()) == (expected == labels.to_numpy()).mean()


HELD = {
    "unsigned": (lambda i: i, lambda i: i.astype("uint64")),
    "zones": (lambda i: at(i), lambda i: at(i).tz_convert("Europe/Rome")),
    "units": (lambda i: bare(i).as_unit("ns"), lambda i: bare(i).as_unit("s")),
}


def at(index: Any) -> Any:
    return pd.to_datetime(index, unit="h", utc=True)


def bare(index: Any) -> Any:
    return at(index).tz_localize(None)


@pytest.mark.parametrize("how", HELD)
def test_indices_that_mean_the_same_join_however_they_are_held(how: str) -> None:
    bank, shop = indexed(BANK), indexed(SHOP)

    def found(one: Any, other: Any) -> Any:
        tables = {"bank": bank.set_axis(one), "shop": shop.set_axis(other)}
        labels = pd.Series(LABELS["buys"].to_list(), one)
        return vertical_tables(tables, labels, transformers=TableTransformer(scale="none"))

    of_bank, of_shop = HELD[how]
    features = found(of_bank(bank.index), of_shop(shop.index)).features
    assert torch.equal(features["shop"], found(bank.index, shop.index).features["shop"])


def test_who_says_aligned_and_is_not_is_told() -> None:
    with pytest.warns(DataWarning, match=r"'customer', which looks like an id.*say id='customer'"):
        found = vertical_tables({"bank": BANK, "shop": SHOP}, LABELS["buys"], aligned=True)
    assert "looks like an id" in found.warnings[0]


def test_a_configuration_without_an_id(tmp_path: Path) -> None:
    for name, table in (("bank", BANK), ("shop", SHOP), ("labels", LABELS)):
        table.write_csv(tmp_path / f"{name}.csv")
    data: dict[str, Any] = {
        "parties": {"bank": {"source": "bank.csv"}, "shop": {"source": "shop.csv"}},
        "labels": {"source": "labels.csv", "column": "buys"},
    }
    path = tmp_path / "run.yaml"

    def load(**changes: Any) -> Any:
        path.write_text(yaml.safe_dump({"data": data | changes}), encoding="utf-8")
        return load_config(path).data.load()

    assert "say id: customer, which looks like it, or aligned: true" in refusal(load)
    assert len(load(id="customer").labels) == PEOPLE
    for name in ("bank", "shop"):
        data["parties"][name]["columns"] = ["income" if name == "bank" else "spent"]
    assert "say id: and its column, or aligned: true" in refusal(load)
    assert load(aligned=True).ids is None


def test_a_series_of_labels_whose_index_is_the_id_is_a_table_of_labels() -> None:
    ids = pd.Index(LABELS["customer"].to_list(), name="customer")
    labels = pd.Series(LABELS["buys"].to_list(), ids, name="buys").iloc[::-1]
    found = vertical_tables({"bank": BANK, "shop": SHOP}, labels, id="customer")
    expected = vertical_tables({"bank": BANK, "shop": SHOP}, LABELS, id="customer")
    assert torch.equal(found.labels, expected.labels)


# --- divisions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [HashSplit(0.0, 0.2), HashSplit(0.1, 0.2), HashSplit(0.3, 0.5)])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_whom_a_seed_has_divided_it_divides_again(first: HashSplit, share: float) -> None:
    """LAW: the shares are as asked for, also among people who were divided by the same seed."""
    ids = pl.Series(range(20_000))
    rest = ids[first.rows(ids)[0]]
    _, validation, _ = HashSplit(share, 0.0, purpose="fit").rows(rest)
    assert abs(len(validation) - share * len(rest)) < 5 * (len(rest) * share * (1 - share)) ** 0.5
    if not first.validation:
        again = HashSplit(share, 0.0).rows(rest)[1]
        assert abs(len(again) - share * len(rest)) < 5 * (len(rest) * share) ** 0.5


def test_an_estimator_has_validation_rows_among_those_that_were_kept() -> None:
    people = 2000
    x = np.random.default_rng(0).normal(size=people)
    bank = pl.DataFrame({"id": range(people), "x": x})
    labels = bank.select("id", y=(pl.col("x") > 0).cast(pl.Int64))
    held = vertical_tables({"bank": bank}, labels, id="id", split=HashSplit(0.0, 0.2))
    assert held.ids is not None
    kept = held.ids[held.train].implode()
    tables = {"bank": bank.filter(pl.col("id").is_in(kept))}
    model = VerticalClassifier(id="id", **QUICK).fit(tables, labels)
    assert abs(model.run_.summary["rows_validation"] - 160) < 60


# --- cells --------------------------------------------------------------------------------------


def transformed(path: Path, **reading: Any) -> TableTransformer:
    return TableTransformer().fit(read_table(path, **reading))


@pytest.mark.parametrize("cell", ["old", "12 000", "1.2.3", "?"])
def test_a_cell_that_is_no_number_is_named(tmp_path: Path, cell: str) -> None:
    ages = [f"{20 + i / 2}" for i in range(60)]
    path = csv(tmp_path, "id,age\n" + "".join(f"{i},{a}\n" for i, a in enumerate([*ages, cell])))
    message = refusal(transformed, path)
    assert f"row 60, column 'age': {cell!r} is no number" in message
    assert f'missing=[{cell!r}] (YAML: missing: ["{cell}"])' in message
    assert "name the column in categorical" in message
    assert transformed(path, missing=[cell]).feature_names_[0] == "id"
    text = TableTransformer(categorical=["age"]).fit(read_table(path))
    assert "age#0" in text.feature_names_


def test_it_is_found_among_rows_that_nobody_trains_on() -> None:
    table = BANK.with_columns(
        income=pl.when(pl.col("customer") == 1007).then(pl.lit("old")).otherwise("income")
    )
    people = vertical_tables({"shop": SHOP}, LABELS, id="customer")
    assert people.ids is not None
    where = people.ids.to_list().index(1007)
    message = refusal(
        vertical_tables,
        {"bank": table, "shop": SHOP},
        LABELS,
        id="customer",
        split=HashSplit(
            0.1,
            0.2,
            seed=next(s for s in range(99) if where in HashSplit(seed=s).rows(people.ids)[2]),
        ),
    )
    assert message.startswith("'bank': row 7, column 'income': 'old' is no number")


@pytest.mark.parametrize("marker", ["NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", ""])
def test_usual_names_of_missing_numbers(tmp_path: Path, marker: str) -> None:
    path = csv(tmp_path, f"a,b,c\n1,x,1.5\n{marker},{marker},2\n3,y,{marker}\n 4,z,1e3\n")
    frame = read_table(path)
    assert frame["a"].dtype == pl.Int64
    assert frame["a"].to_list() == [1, None, 3, 4]
    assert frame["b"].to_list() == ["x", marker or None, "y", "z"]
    assert frame["c"].fill_nan(None).to_list() == [1.5, 2.0, None, 1000.0]


def test_decimal_commas(tmp_path: Path) -> None:
    path = csv(tmp_path, "x;y\n1,5;a\n-2,25;b\n3;c\nNA;d\n")
    assert (
        "row 0, column 'x': '1,5' seems to be a number with a decimal comma; read the table "
        "with decimal=',' (YAML: decimal: ',')" in refusal(transformed, path, separator=";")
    )
    frame = read_table(path, separator=";", decimal=",")
    assert frame["x"].to_list() == [1.5, -2.25, 3.0, None]
    thousands = csv(tmp_path, "x;y\n1,500;a\n22,250;b\n3;c\n")
    assert "take the comma out if it separates thousands" in refusal(
        transformed, thousands, separator=";"
    )
    points = csv(tmp_path, "x;y\n1.5;1,5\n2.5;2,5\n")
    assert "'x' of" in refusal(read_table, points, separator=";", decimal=",")
    assert "decimal must be" in refusal(read_table, points, decimal=";")
    one = csv(tmp_path, "x\n" + "".join(f"{i}.5\n" for i in range(60)) + '"1,5"\n')
    assert "row 60, column 'x': '1,5' seems to be a number with" in refusal(transformed, one)


def test_numbers_written_as_text() -> None:
    halves = pl.Series([f"{i}.5" for i in range(40)])
    assert "'0.5' is a number written as text" in refusal(TableTransformer().fit, {"x": halves})
    assert TableTransformer(categorical=["x"]).fit({"x": halves}).feature_names_[0] == "x#0"
    codes = pl.Series([f"{i:03}" for i in range(40)] + ["none"])
    assert TableTransformer().fit({"x": codes}).feature_names_[0] == "x#0"


def test_codes_keep_their_zeros(tmp_path: Path) -> None:
    path = csv(
        tmp_path,
        'id,zip,share,born,depth,mixed\n1,00501,0.5,1980-02-03,-07,1\n2,10001,00.5,1990-12-31,12,"09"\n',
    )
    frame = read_table(path, id="id")
    assert frame["zip"].to_list() == ["00501", "10001"]
    assert frame["share"].to_list() == [0.5, 0.5]
    assert frame["born"].dtype == pl.Date
    assert frame["depth"].to_list() == ["-07", "12"]
    assert frame["mixed"].to_list() == ["1", "09"]
    assert frame["id"].to_list() == [1, 2]


def test_whole_numbers_that_floating_point_would_merge(tmp_path: Path) -> None:
    path = csv(tmp_path, f"account,token\n{2**53},{10**19}\n{2**53 + 1},{10**19 + 1}\n7,1\n")
    frame = read_table(path)
    assert frame["account"].to_list() == [2**53, 2**53 + 1, 7]
    assert frame["token"].to_list() == [str(10**19), str(10**19 + 1), "1"]
    message = refusal(TableTransformer().fit, frame)
    assert f"row 1, column 'account': {2**53 + 1} is beyond 2^53" in message
    assert "name the column in categorical or ignore" in message
    for named in ("categorical", "ignore", "numeric"):
        TableTransformer(**{named: ["account"]}).fit(frame)
    transformer = TableTransformer().fit({"account": [2**53, -(2**53), 0]})
    assert transformer.transform({"account": [2**53]}).shape == (1, 1)
    for beyond in (pl.Series([7, 2**60 + 1]).cast(pl.Decimal(20, 0)), [Decimal(7), Decimal(2**70)]):
        for refuses in (TableTransformer().fit, transformer.transform):
            message = refusal(refuses, {"account": beyond})
            assert message.startswith(f"row 1, column 'account': {int(beyond[1])} is beyond 2^53")
    message = refusal(transformer.transform, {"account": [7, 2**63 - 1]})
    assert message.startswith(f"row 1, column 'account': {2**63 - 1} is beyond 2^53, where")
    numeric = TableTransformer(numeric=["account"]).fit({"account": [1, 2]})
    assert numeric.transform({"account": [2**60]}).shape == (1, 1)


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.text('a0",\n é', max_size=4), min_size=2, max_size=2), min_size=1, max_size=8
    ),
    st.integers(0, 7),
    st.booleans(),
)
def test_a_row_with_other_cells_than_columns_is_found(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], which: int, longer: bool
) -> None:
    """As it is written, quotes and line ends within cells and all; whole tables are read."""
    folder = tmp_path_factory.mktemp("csv")

    def line(cells: list[str]) -> str:
        return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"

    whole = read_table(csv(folder, "a,b\n" + "".join(map(line, rows))))
    assert whole.height == len(rows)
    which %= len(rows)
    rows[which] = [*rows[which], "x"] if longer else rows[which][:1]
    message = refusal(read_table, csv(folder, "a,b\n" + "".join(map(line, rows))))
    assert f"row {which} (line " in message
    assert f"has {3 if longer else 1} cell" in message


# --- ids that nearly match ----------------------------------------------------------------------

WRITINGS = {
    "spaces": (lambda i: f" id{i} ", IdForm()),
    "case": (lambda i: f"ID{i}", IdForm(strip=False)),
    "widthless": (lambda i: f"id{i}\u200b", IdForm(casefold=False)),
    "full width": (lambda i: f"ｉｄ{i}", IdForm()),
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_ids_that_differ_in_writing_are_told(writing: str) -> None:
    written, form = WRITINGS[writing]
    bank = pl.DataFrame({"id": [f"id{i}" for i in range(300)], "x": range(300)})
    shop = pl.DataFrame(
        {"id": [written(i) if i >= 30 else f"id{i}" for i in range(300)], "y": range(300)}
    )
    with pytest.warns(DataWarning, match=r"270 ids of 'bank' and 'shop'.*normalise=IdForm\(\)"):
        found = align({"bank": bank, "shop": shop}, "id")
    assert len(found.ids) == 30
    assert len(align({"bank": bank, "shop": shop}, "id", form).ids) == 300
    few = pl.DataFrame(
        {"id": [written(i) if i >= 297 else f"id{i}" for i in range(300)], "y": range(300)}
    )
    assert len(align({"bank": bank, "shop": few}, "id").ids) == 297  # 1 % and without a word


def test_padded_ids() -> None:
    bank = pl.DataFrame({"id": [f"{i:06}" for i in range(50)], "x": range(50)})
    shop = pl.DataFrame({"id": [str(i) for i in range(50)], "y": range(50)})
    message = refusal(align, {"bank": bank, "shop": shop}, "id")
    assert message.startswith("no id occurs in all tables")
    assert "normalise=IdForm(pad=6) (YAML: ids: {pad: 6})" in message
    for other in (shop, shop.cast({"id": pl.Int64})):
        assert len(align({"bank": bank, "shop": other}, "id", IdForm(pad=6)).ids) == 50


def test_padded_ids_of_some_people_are_told() -> None:
    """Where the others are found all the same: 2700 of 3000 were lost without a word."""
    bank = pl.DataFrame({"id": [f"{i:06}" for i in range(3000)], "x": range(3000)})
    shop = pl.DataFrame(
        {"id": [f"{i:06}" if i < 300 else str(i) for i in range(3000)], "y": range(3000)}
    )
    tables = {"bank": bank, "shop": shop}
    labels = bank.select("id", buys=pl.col("x") % 2)
    remedy = r"2700 ids of 'labels' and 'shop'.*normalise=IdForm\(pad=6\) \(YAML: ids: {pad: 6}\)"
    with pytest.warns(DataWarning, match=remedy):
        found = vertical_tables(tables, labels, id="id")
    assert len(found.labels) == 300
    assert len(vertical_tables(tables, labels, id="id", normalise=IdForm(pad=6)).labels) == 3000


def test_normalised_ids_go_through_fit_predict_and_score() -> None:
    def wild(ids: pl.Series) -> pl.Series:
        return pl.Series("customer", [f" {i:08}" for i in ids])

    shop = SHOP.with_columns(wild(SHOP["customer"]))
    model = VerticalClassifier(id="customer", normalise=IdForm(pad=8), **QUICK)
    model.fit({"bank": BANK, "shop": shop}, LABELS)
    plain = VerticalClassifier(id="customer", **QUICK).fit({"bank": BANK, "shop": SHOP}, LABELS)
    assert model.predict({"bank": BANK, "shop": shop}).shape == (PEOPLE,)
    assert model.score({"shop": shop, "bank": BANK}, LABELS) > 0.3
    assert plain.run_.summary["rows_train"] > 100


def test_one_person_written_twice_is_refused() -> None:
    bank = pl.DataFrame({"id": ["ann", "Ann "], "x": [1, 2]})
    assert "'bank' has the id 'ann' in row 0 and again in row 1" in refusal(
        align, {"bank": bank}, "id", IdForm()
    )
    assert "pad must be" in refusal(IdForm, pad=0)


# --- who was left out ---------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    BANK[12:].write_csv(tmp_path / "bank.csv")
    SHOP.sort("customer")[:-5].write_csv(tmp_path / "shop.csv")
    LABELS.write_csv(tmp_path / "labels.csv")
    data = {
        "id": "customer",
        "parties": {"bank": {"source": "bank.csv"}, "shop": {"source": "shop.csv"}},
        "labels": {"source": "labels.csv", "column": "buys"},
    }
    config = {"data": data, "model": {"bottom": {"widths": [4]}}, "training": {"epochs": 1}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return tmp_path


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["colonnade", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return int(left.value.code or 0)


def test_people_left_out_are_counted_by_company(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert command(monkeypatch, "run", files / "run.yaml", "--out", files / "out") == 0
    said = "eft out: 17 of 200 people with a label, who have no row at bank (12), shop (5)"
    assert said in capsys.readouterr().out
    summary = json.loads((files / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["people"] == {"left_out": 17, "absent": {"bank": 12, "shop": 5}}
    assert said in (files / "out" / "report.html").read_text(encoding="utf-8")


def test_new_people_whom_a_company_lacks() -> None:
    found = vertical_tables({"bank": BANK, "shop": SHOP}, LABELS, id="customer")
    assert found.absent == {"bank": 0, "shop": 0}
    bank, shop = BANK[7:], SHOP[:-3]
    tables = {"shop": shop, "bank": bank}
    gone = len(set(SHOP["customer"][-3:]) - set(BANK["customer"][:7]))
    lost = len(set(BANK["customer"][:7]) - set(SHOP["customer"][-3:]))
    assert f"({gone} at 'shop' and {lost} at 'bank')" in refusal(found.transform, tables)
    ids, features = found.transform(tables, absent="drop")
    assert ids is not None
    kept = [i for i in shop["customer"] if i in set(bank["customer"])]
    assert ids.to_list() == kept
    assert len(features["bank"]) == len(kept)


# --- categories that no training row has --------------------------------------------------------


def test_an_unseen_category_is_told_once_and_counts_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    towns = ["Bern" if i == 5 else "Rome" if i % 2 else "Oslo" for i in range(PEOPLE)]
    bank = BANK.with_columns(town=pl.Series(towns))
    seed = next(s for s in range(99) if 5 in HashSplit(seed=s).rows(BANK["customer"])[2])
    split = HashSplit(seed=seed)
    with pytest.warns(DataWarning) as told:
        found = vertical_tables({"bank": bank, "shop": SHOP}, LABELS, id="customer", split=split)
    assert len(told) == 1
    message = str(told[0].message)
    assert "'bank': column 'town': 1 of 200 values (0.5 %)" in message
    assert "'Bern' in row 5" in message
    assert found.warnings == (message.replace(", such as 'Bern' in row 5,", ""),)
    assert not found.features["bank"][5, 1:].any()
    strict = TableTransformer(unseen="error")
    assert "'Bern' did not occur" in refusal(
        vertical_tables, {"bank": bank}, LABELS, id="customer", split=split, transformers=strict
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = TableTransformer(unseen="zeros")
        vertical_tables({"bank": bank}, LABELS, id="customer", split=split, transformers=quiet)
    bank.write_csv(tmp_path / "bank.csv")
    LABELS.write_csv(tmp_path / "labels.csv")
    data = {
        "id": "customer",
        "parties": {"bank": {"source": "bank.csv"}},
        "labels": {"source": "labels.csv", "column": "buys"},
        "split": {"seed": seed},
    }
    config = {"data": data, "training": {"epochs": 1}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "300")
    assert command(monkeypatch, "run", tmp_path / "run.yaml", "--out", tmp_path / "out") == 0
    printed = capsys.readouterr()
    assert printed.err.count("warning: 'bank': column 'town'") == 1
    assert "'town'" not in printed.out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert [text for text in summary["warnings"] if "'town'" in text] == list(found.warnings)


# --- configurations -----------------------------------------------------------------------------


def test_paths_are_relative_to_the_file(
    files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    monkeypatch.delenv("COLONNADE_DATA", raising=False)
    config = load_config(files / "run.yaml")
    assert len(config.data.load().labels) == PEOPLE - 17
    # A run's own copy, in another folder, finds them too.
    (elsewhere / "copy.yaml").write_text(yaml.safe_dump(config.as_dict()), encoding="utf-8")
    assert load_config(elsewhere / "copy.yaml").data.folder == files
    # What is said in the shell is meant from there; and what is not there may be elsewhere.
    (elsewhere / "own").mkdir()
    assert load_config(files / "run.yaml", ["data.folder=own"]).data.folder == elsewhere / "own"
    text = (files / "run.yaml").read_text(encoding="utf-8")
    (elsewhere / "own" / "run.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("COLONNADE_DATA", str(files))
    assert len(load_config(elsewhere / "own" / "run.yaml").data.load().labels) == PEOPLE - 17


@pytest.fixture
def elsewhere(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder where a command is given: not that of the files, and a database, of a run."""
    with sqlite3.connect(files / "bank.db") as database:
        database.execute("create table clients (customer integer, income real)")
        database.executemany("insert into clients values (?, ?)", BANK.rows())
    database.close()
    (files / "other").mkdir()
    monkeypatch.chdir(files / "other")
    return files / "other"


def test_a_database_is_beside_the_file(files: Path, elsewhere: Path) -> None:
    overrides = ["data.parties.bank={source: 'sqlite:///bank.db', table: clients}"]
    assert load_config(files / "run.yaml", overrides).data.load().absent == {"bank": 0, "shop": 5}


@pytest.mark.parametrize("source", ["sqlite:///bank.db", "sqlite:///$HERE/bank.db"])
def test_a_database_may_come_first_wherever_other_data_are(
    files: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    config = yaml.safe_load((files / "run.yaml").read_text(encoding="utf-8"))
    config["data"]["parties"]["bank"] = {"source": source, "table": "clients"}
    (files / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    monkeypatch.setenv("HERE", ".")
    monkeypatch.setenv("COLONNADE_DATA", str(elsewhere))
    assert load_config(files / "run.yaml").data.load().absent == {"bank": 0, "shop": 5}


@pytest.mark.parametrize("text", ["", "\n# nothing yet\n", "{}"])
def test_an_empty_configuration_says_what_the_least_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        ConfigurationError, match=r"run\.yaml is empty.*'data: mnist5k'.*tables\.md"
    ):
        load_config(path)
    assert load_config(path, ["data=mnist5k"]).data.name == "mnist5k"


def test_markers_commas_and_ids_in_a_configuration(tmp_path: Path) -> None:
    rows = "".join(
        f" {c:06} ;{i / 8}\n".replace(".", ",")
        for c, i in zip(BANK["customer"], range(PEOPLE), strict=True)
    )
    csv(tmp_path, "customer;income\n" + rows.replace(";0,5\n", ";gone\n"))
    LABELS.write_csv(tmp_path / "labels.csv")
    party = {"source": "people.csv", "separator": ";", "decimal": ",", "missing": ["gone"]}
    data: dict[str, Any] = {
        "id": "customer",
        "ids": {"pad": 6},
        "parties": {"bank": party},
        "labels": {"source": "labels.csv", "column": "buys"},
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"data": data}), encoding="utf-8")
    found = load_config(path).data.load()
    assert len(found.labels) == PEOPLE
    assert found.transformers["bank"].feature_names in (
        ("income",),
        ("income", "income is missing"),
    )


def test_a_stored_table_has_no_markers(tmp_path: Path) -> None:
    BANK.write_parquet(tmp_path / "bank.parquet")
    with pytest.raises(ConfigurationError, match="are for text files"):
        read_table(tmp_path / "bank.parquet", decimal=",")
    with pytest.raises(DataError, match="nothing says"):
        vertical_tables({"a": BANK.lazy(), "b": SHOP.lazy()}, LABELS["buys"])


def test_digits_of_another_alphabet_are_text_where_that_is_said(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,z\n1,\u0661\u0662\n2,\u0661\n")
    assert r"if it is text, say text=['z']" in refusal(read_table, path)
    assert read_table(path, text=["z"])["z"].to_list() == ["\u0661\u0662", "\u0661"]


@pytest.mark.parametrize("wrong", [3, "customer"])
@pytest.mark.parametrize("what", ["columns", "names", "missing", "text"])
def test_what_is_a_list_is_refused_where_it_is_none(tmp_path: Path, what: str, wrong: Any) -> None:
    BANK.write_csv(tmp_path / "bank.csv")
    told = f"{what} must be a list of (names|texts), not {wrong!r}"
    with pytest.raises(ConfigurationError, match=told):
        read_table(tmp_path / "bank.csv", **{what: wrong})


NUMBERS = {
    "few": [str(k % 12) for k in range(PEOPLE)],
    "fractions": [f"{k % 12}.5" for k in range(PEOPLE)],
    "many": [f"{k}.5" for k in range(PEOPLE)],
}


def made_of(visits: list[str], folder: Path, others: list[str], stores: bool = False) -> Any:
    """Return data of PEOPLE, whose visits a file has, with rows of others behind theirs."""
    rows = [f"{key},{cell}" for key, cell in zip(BANK["customer"], visits, strict=True)]
    rows += [f'{9000 + k},"{cell}"' for k, cell in enumerate(others)]
    table: Any = read_table(csv(folder, "\n".join(["customer,visits", *rows])))
    if stores:
        table.write_parquet(folder / "people.parquet")
        table = StoredTable(folder / "people.parquet")
    return vertical_tables({"a": table, "shop": SHOP}, LABELS, id="customer")


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("visits", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("cell", ["old", "see below", "1,5", "9" * 30])
def test_a_row_that_is_left_out_does_not_make_categories_of_numbers(
    tmp_path: Path, visits: list[str], cell: str, stores: bool
) -> None:
    assert made_of(visits, tmp_path, ["7"], stores).describe().row(0)[2] == "number"
    told = refusal(made_of, visits, tmp_path, ["7", cell, "8"], stores)
    assert told.startswith(f"'a': row {PEOPLE + 1}, column 'visits': {cell!r} makes text of the")
    assert "is left out" in told
    assert f"missing=[{cell!r}]" in told
    assert "categorical=" in told


@pytest.mark.parametrize("others", [["V1", "V2"], ["007"]], ids=["text", "a code"])
def test_where_rows_that_are_left_out_have_text_or_codes_that_is_told(
    tmp_path: Path, others: list[str]
) -> None:
    with pytest.warns(DataWarning, match=rf"row {PEOPLE + 1}, .* although that row is left out"):
        data = made_of(NUMBERS["few"], tmp_path, ["7", *others])
    assert data.describe().row(0)[2] == "12 categories"
    assert not any(others[0] in note for note in data.warnings)  # it is somebody's


def test_who_is_left_out_changes_nothing_where_others_have_text(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        words = [f"w{k % 12}" for k in range(PEOPLE)]
        assert made_of(words, tmp_path, ["7", "x"]).describe().row(0)[2] == "12 categories"
        codes = [f"{k % 12:03}" for k in range(PEOPLE)]
        assert made_of(codes, tmp_path, ["7", "x"]).describe().row(0)[2] == "12 categories"
