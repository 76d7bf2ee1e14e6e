"""Tables become features of the same people, learned from training rows, and nothing leaks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from colonnade.errors import ConfigurationError, DataError, DataWarning, InvalidInput
from colonnade.tables import (
    HashSplit,
    IdSplit,
    StoredTable,
    TableTransformer,
    VerticalTables,
    own_tables,
    read_table,
    vertical_tables,
)

PEOPLE = 120
RANDOM = np.random.default_rng(0)
BANK = pl.DataFrame({"id": range(PEOPLE), "income": RANDOM.normal(size=PEOPLE)})
SHOP = pl.DataFrame(
    {
        "visits": RANDOM.integers(0, 9, PEOPLE),
        "id": range(20, 20 + PEOPLE),
        "city": ["Rome", "Oslo", "Bern"] * (PEOPLE // 3),
    }
)
ANSWERS = pl.DataFrame({"id": range(PEOPLE), "bought": ["yes", "no"] * (PEOPLE // 2)})


def made(**changes: Any) -> VerticalTables:
    arguments: dict[str, Any] = {"tables": {"bank": BANK, "shop": SHOP}, "labels": ANSWERS}
    arguments |= {"id": "id"} | changes
    return vertical_tables(arguments.pop("tables"), arguments.pop("labels"), **arguments)


def refusal(**changes: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        made(**changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def same(one: VerticalTables, other: VerticalTables) -> bool:
    """Whether two results are the same bits."""
    assert one.parties == other.parties
    return (
        all(torch.equal(one.features[party], other.features[party]) for party in one.parties)
        and torch.equal(one.labels, other.labels)
        and [part.tolist() for part in (one.train, one.validation, one.test)]
        == [part.tolist() for part in (other.train, other.validation, other.test)]
        and [t.state() for t in one.transformers.values()]
        == [t.state() for t in other.transformers.values()]
    )


# --- training -----------------------------------------------------------------------------------


def test_everything() -> None:
    found = made()
    assert found.ids is not None
    assert (found.ids.name, found.ids.to_list()) == ("id", list(range(20, PEOPLE)))
    assert found.left_out == {"bank": 20, "shop": 20, "labels": 20}
    assert found.columns == {"bank": ("income",), "shop": ("visits", "city")}
    assert found.parties == ("bank", "shop")
    assert found.classes == ("no", "yes")
    assert found.labels.tolist() == [1 - i % 2 for i in range(20, PEOPLE)]
    assert found.labels.dtype == torch.int64
    rows = np.concatenate([found.train, found.validation, found.test])
    assert sorted(rows.tolist()) == list(range(100))
    for mine, theirs in zip(
        (found.train, found.validation, found.test), HashSplit().rows(found.ids), strict=True
    ):
        assert mine.dtype == np.int64
        assert (mine == theirs).all()
    assert {party: tuple(x.shape) for party, x in found.features.items()} == {
        "bank": (100, 1),
        "shop": (100, 4),
    }
    shown = f"{len(found.train)} + {len(found.validation)} + {len(found.test)} rows"
    assert repr(found) == f"VerticalTables(2 parties, {shown}, 2 classes)"


def test_row_i_is_the_same_person_everywhere() -> None:
    """Columns that tell the id, in tables of different orders."""
    order = np.random.default_rng(1).permutation(PEOPLE)
    bank = pl.DataFrame({"id": order, "x": order})
    shop = pl.DataFrame({"id": order[::-1], "x": order[::-1] * 2})
    labels = pl.DataFrame({"id": range(PEOPLE), "y": np.arange(PEOPLE) / 7})
    plain = TableTransformer(scale="none")
    found = made(tables={"bank": bank, "shop": shop}, labels=labels, transformers=plain)
    people = torch.arange(PEOPLE).float()
    assert torch.equal(found.features["bank"][:, 0], people)
    assert torch.equal(found.features["shop"][:, 0], 2 * people)
    assert torch.equal(found.labels, torch.arange(PEOPLE).div(7))
    assert found.classes is None


def test_the_order_of_rows_and_columns_does_not_matter() -> None:
    shuffled = [frame.sample(fraction=1, shuffle=True, seed=3) for frame in (BANK, SHOP, ANSWERS)]
    assert same(made(), made(tables={"bank": shuffled[0], "shop": shuffled[1]}, labels=shuffled[2]))


def test_every_kind_of_table_gives_the_same_bits(tmp_path: Path) -> None:
    expected = made()
    for name, frame in (("bank", BANK), ("shop", SHOP), ("labels", ANSWERS)):
        frame.sample(fraction=1, shuffle=True, seed=1).write_parquet(tmp_path / f"{name}.parquet")
    stored = {name: StoredTable(tmp_path / f"{name}.parquet") for name in ("bank", "shop")}
    assert same(expected, made(tables=stored))
    assert same(expected, made(labels=StoredTable(tmp_path / "labels.parquet")))
    assert same(expected, made(tables={"bank": BANK.lazy(), "shop": SHOP.to_dict()}))
    pandas = {
        name: pd.DataFrame(frame.to_dict(as_series=False))
        for name, frame in (("bank", BANK), ("shop", SHOP), ("labels", ANSWERS))
    }
    labels = pandas.pop("labels")
    assert same(expected, made(tables=pandas, labels=labels))


def test_transformers_learn_from_training_rows_only() -> None:
    """What held-out people are like changes no training row and no transformer."""
    before = made()
    held_out = np.concatenate([before.validation, before.test])
    assert before.ids is not None
    strangers = before.ids[held_out].implode()
    wild = BANK.with_columns(
        pl.when(pl.col("id").is_in(strangers)).then(1e6).otherwise(pl.col("income")).alias("income")
    )
    after = made(tables={"bank": wild, "shop": SHOP})
    assert after.transformers["bank"].state() == before.transformers["bank"].state()
    train = torch.from_numpy(before.train)
    assert torch.equal(after.features["bank"][train], before.features["bank"][train])
    assert not torch.equal(after.features["bank"], before.features["bank"])
    assert float(before.features["bank"][train].mean()) == pytest.approx(0, abs=1e-6)


def test_each_party_has_its_own_transformer() -> None:
    shared = TableTransformer(scale="none")
    found = made(transformers=shared)
    assert found.transformers["bank"].transformer is not found.transformers["shop"].transformer
    assert not hasattr(shared, "feature_names_")
    mixed = made(transformers={"bank": StandardScaler()})
    assert mixed.transformers["bank"].state() is None
    torch.testing.assert_close(mixed.features["bank"], made().features["bank"])
    assert torch.equal(mixed.features["shop"], made().features["shop"])
    both = made(transformers={"shop": TableTransformer(output="dict")})
    assert set(both.features["shop"]) == {"numeric", "categorical"}


def test_aligned_already() -> None:
    tables = {"bank": BANK.drop("id"), "shop": SHOP.drop("id")}
    for labels in (
        ANSWERS["bought"],
        ANSWERS["bought"].to_list(),
        pd.Series(ANSWERS["bought"].to_list()),
        ANSWERS.drop("id"),
        {"bought": ANSWERS["bought"]},
    ):
        found = made(tables=tables, labels=labels, id=None, aligned=True)
        assert found.ids is None
        assert found.labels.tolist() == [1 - i % 2 for i in range(PEOPLE)]
        expected = HashSplit().rows(pl.Series(range(PEOPLE)))
        assert (found.test == expected[2]).all()
        assert set(found.left_out.values()) == {0}


def test_lists_of_ids() -> None:
    found = made(split=IdSplit(test=[30, 21], validation=[50]))
    assert (found.test.tolist(), found.validation.tolist()) == ([1, 10], [30])
    assert len(found.train) == 97


def test_regression() -> None:
    labels = ANSWERS.select("id", y=pl.col("id") / 7)
    found = made(labels=labels)
    assert found.classes is None
    assert found.labels.dtype == torch.float32
    assert "regression" in repr(found)
    whole = ANSWERS.select("id", y=pl.col("id"))
    assert "task='regression' (YAML: data: {task: ...})" in refusal(labels=whole)
    assert made(labels=whole, task="regression").labels[0] == 20


def test_one_of_several_columns_of_labels() -> None:
    labels = ANSWERS.with_columns(other=pl.col("id") % 3)
    assert (
        "not 2 ('bought', 'other'); keep the one to predict, or name it by label_column="
        in refusal(labels=labels)
    )
    found = made(labels=labels, label_column="other")
    assert found.classes == (0, 1, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tables": {}}, "tables are empty"),
        ({"tables": {"labels": BANK}}, "a party cannot be called 'labels'"),
        (
            {"tables": {"bank": BANK.with_columns(bought=1), "shop": SHOP}},
            "the table of 'bank' has the column 'bought', which is what is to be predicted",
        ),
        ({"tables": {"bank": BANK.select("id")}}, "'bank' has no column but the id"),
        ({"tables": {"bank": BANK, "shop": "people.csv"}}, "read by read_table"),
        ({"id": "Id"}, "no column 'Id'; did you mean 'id'?"),
        ({"labels": ANSWERS["bought"]}, "labels must be a table with the column 'id'"),
        ({"labels": ANSWERS.select("id")}, "one column beside the id, not 0"),
        ({"label_column": "bougth"}, "no column 'bougth'; did you mean 'bought'?"),
        ({"label_column": "id"}, "label_column is 'id', the column of ids"),
        (
            {"labels": ANSWERS.with_columns(pl.lit("yes").alias("bought"))},
            "all 100 labels are 'yes'",
        ),
        ({"id": None}, "the label"),
        ({"transformers": {"bnak": TableTransformer()}}, "transformers name 'bnak'"),
        ({"transformers": {"bank": "standard"}}, "'bank': a transformer must have fit and"),
        (
            {"transformers": {"shop": StandardScaler()}},
            "'shop': StandardScaler cannot fit the table",
        ),
        ({"split": IdSplit(test=[5])}, "1 ids for test are not among the 100 people"),
        ({"split": 3}, "split is HashSplit(...), IdSplit(...), LastRows(...), RowSplit(...) or"),
        ({"task": "guess"}, "task must be"),
    ],
)
def test_what_cannot_be_trained_on(changes: dict[str, Any], message: str) -> None:
    if changes == {"id": None}:
        message = "the table of labels must have one column"
    assert message in refusal(**changes)


def test_one_organisations_tables_are_divided_by_what_divides() -> None:
    with pytest.raises(ConfigurationError, match=r"^split is HashSplit\(.* or None, not 3$"):
        own_tables({"bank": BANK}, None, BANK["id"], id="id", split=3)  # type: ignore[arg-type]


def test_a_label_that_is_missing() -> None:
    labels = ANSWERS.with_columns(
        pl.when(pl.col("id") == 33).then(None).otherwise(pl.col("bought")).alias("bought")
    ).reverse()
    assert f"the label of row {PEOPLE - 1 - 33} (id 33) is missing" in refusal(labels=labels)
    unneeded = ANSWERS.with_columns(
        pl.when(pl.col("id") == 5).then(None).otherwise(pl.col("bought")).alias("bought")
    )
    assert same(made(labels=unneeded), made())  # the shop does not know 5


def test_a_class_that_nobody_trains_on() -> None:
    labels = ANSWERS.with_columns(
        pl.when(pl.col("id") == 33).then(pl.lit("maybe")).otherwise("bought").alias("bought")
    )
    split = IdSplit(test=[33])
    assert "no training row is of class 'maybe'" in refusal(labels=labels, split=split)
    assert made(labels=labels, split=IdSplit(test=[34])).classes == ("maybe", "no", "yes")


def test_errors_name_the_party_and_its_own_row() -> None:
    wrong = SHOP.with_columns(
        pl.when(pl.col("id") == 77).then(float("inf")).otherwise("visits").alias("visits")
    )
    message = refusal(tables={"bank": BANK, "shop": wrong})
    assert message.startswith("'shop': row 57, column 'visits': the value is inf")
    twice = pl.concat([SHOP, SHOP.head(1)])
    assert "'shop' has the id 20 in row 0 and again in row 120" in refusal(
        tables={"bank": BANK, "shop": twice}
    )


def test_tables_of_different_lengths_without_ids() -> None:
    tables = {"bank": BANK.drop("id"), "shop": SHOP.drop("id").head(7)}
    message = refusal(tables=tables, labels=ANSWERS["bought"], id=None, aligned=True)
    assert message.startswith("'bank' has 120 rows and 'shop' has 7; without ids row i must be")
    assert "has 120 rows and 'labels' has 5" in refusal(
        tables={"bank": BANK.drop("id")}, labels=ANSWERS["bought"].head(5), id=None
    )


# --- prediction ---------------------------------------------------------------------------------


def test_new_rows_come_in_the_order_of_the_first_table() -> None:
    found = made()
    assert found.ids is not None
    wanted = pl.Series([90, 30, 31])
    bank = BANK[wanted]
    shop = SHOP.filter(pl.col("id").is_in(wanted.implode()))
    for tables, order in (
        ({"bank": bank, "shop": shop}, [90, 30, 31]),
        ({"shop": shop, "bank": bank}, [30, 31, 90]),
    ):
        ids, features = found.transform(tables)
        assert ids is not None
        assert (ids.name, ids.to_list()) == ("id", order)
        assert tuple(features) == ("bank", "shop")
        rows = torch.tensor([found.ids.index_of(id) for id in order])
        for party, values in features.items():
            assert torch.equal(values, found.features[party][rows])


def test_new_rows_under_another_name_of_the_id() -> None:
    found = made()
    renamed = {"bank": BANK.rename({"id": "who"})[20:], "shop": SHOP.rename({"id": "who"})[:100]}
    ids, features = found.transform(renamed, id="who")
    assert ids is not None
    assert ids.name == "who"
    assert torch.equal(features["shop"], found.features["shop"])


def test_new_rows_without_ids() -> None:
    tables = {"bank": BANK.drop("id"), "shop": SHOP.drop("id")}
    found = made(tables=tables, labels=ANSWERS["bought"], id=None, aligned=True)
    ids, features = found.transform({name: frame.tail(3) for name, frame in tables.items()})
    assert ids is None
    assert torch.equal(features["shop"], found.features["shop"][-3:])
    with pytest.raises(DataError, match="'bank' has 1 rows and 'shop' has 2"):
        found.transform({"bank": tables["bank"].head(1), "shop": tables["shop"].head(2)})


def test_new_rows_need_every_party() -> None:
    found = made()
    bank, shop = BANK[20:], SHOP[:100]
    for tables, message in (
        (
            {"bank": bank, "shop": shop.filter(pl.col("id") != 44)},
            "'shop' has no row for the id 44",
        ),
        (
            {"bank": bank.filter(pl.col("id") > 25), "shop": shop},
            r"'bank' has no row.*20.*absent \(6 at 'bank'\)",
        ),
        ({"bank": bank[:1], "shop": shop[1:2]}, "no id occurs in all tables"),
        ({"bank": bank, "shop": shop.drop("city")}, "the table of 'shop' has no column 'city'"),
        ({"bank": bank, "shop": pl.concat([shop, shop])}, "'shop' has the id 20 in row 0"),
        ({"bank": bank, "shop": shop.cast({"id": pl.String})}, "those of 'shop' are text"),
    ):
        with pytest.raises(DataError, match=message):
            found.transform(tables)
    with pytest.raises(ConfigurationError, match="tables lack 'shop'"):
        found.transform({"bank": bank})
    with pytest.raises(ConfigurationError, match="tables name 'zoo'"):
        found.transform({"bank": bank, "shop": shop, "zoo": bank})


# --- real data ----------------------------------------------------------------------------------


@pytest.mark.data
def test_credit_card_clients_are_better_known_together() -> None:
    """A linear model of both parties' columns ranks held-out clients better than of either's."""
    folder = os.environ.get("COLONNADE_DATA")
    if not folder:
        pytest.skip("COLONNADE_DATA names no folder with the public tables")
    path = Path(folder) / "UCI_Credit_Card.csv.gz"
    clients = read_table(path, id="ID")
    late = [f"PAY_{i}" for i in (0, 2, 3, 4, 5, 6)]
    label = "default.payment.next.month"
    own = ["LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"]
    found = vertical_tables(
        {
            "bank": clients.select("ID", *own).sample(fraction=1, shuffle=True, seed=0),
            "shop": clients.select("ID", *late).sample(fraction=0.9, shuffle=True, seed=1),
        },
        read_table(path, id="ID", columns=[label]),
        id="ID",
        transformers={"bank": TableTransformer(categorical=["SEX", "EDUCATION", "MARRIAGE"])},
    )
    assert found.left_out == {"bank": 3000, "shop": 0, "labels": 3000}
    assert found.classes == (0, 1)

    def area(*parties: str) -> float:
        x = torch.cat([found.features[party] for party in parties], dim=1).double().numpy()
        y = found.labels.numpy()
        model = LogisticRegression(max_iter=1000).fit(x[found.train], y[found.train])
        return float(roc_auc_score(y[found.test], model.decision_function(x[found.test])))

    assert area("bank", "shop") > max(area("bank") + 0.05, area("shop"))
    assert 0.65 < area("bank", "shop") < 0.8


def test_labels_that_are_rounded_are_told_of() -> None:
    frame = pl.DataFrame({"id": range(60), "n": range(60)})
    amounts = pl.DataFrame({"id": range(60), "y": [1e9 + i % 5 for i in range(60)]})
    with pytest.warns(DataWarning, match="rounds them by up to 4, and their standard deviation is"):
        found = vertical_tables({"bank": frame}, amounts, id="id", task="regression")
    assert len(found.warnings) == 1
    with pytest.warns(DataWarning, match="the labels are kept as float32"):
        own = own_tables({}, amounts, frame["id"], id="id", task="regression")
    assert own.warnings == found.warnings
    assert own_tables({"bank": frame}, None, frame["id"], id="id").warnings == ()
