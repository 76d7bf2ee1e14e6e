"""What a table says is what was written: no cell is read as another because of its neighbours."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.config import load_trained, parse_config
from colonnade.config.tables import PartyTableConfig
from colonnade.errors import ConfigurationError, DataError, DataWarning
from colonnade.estimators import VerticalClassifier
from colonnade.prediction import Prediction
from colonnade.tables import LastRows, TableTransformer, encode_labels, read_table, vertical_tables
from colonnade.tables.numerals import settled


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(content, **settings):
    Path("t.csv").write_text(content, encoding="utf-8")
    return read_table("t.csv", **settings)


# New rows, whose types are found anew

CODES = ["250.00", "401.10", "12E4", "V12"]


def diagnoses(codes):
    return "id,code,n\n" + "".join(f"p{i},{code},{i % 7}\n" for i, code in enumerate(codes))


@pytest.mark.parametrize("many", [False, True], ids=["choices", "hashed"])
@pytest.mark.parametrize("named", [False, True])
def test_a_prediction_does_not_hang_on_which_other_rows_there_are(many, named):
    own = [f"{i}.{i % 10}0" for i in range(10)] + [f"A{i}" for i in range(20)] if many else []
    codes = [*CODES, *own] * 20
    Path("clinic.csv").write_text(diagnoses(codes))
    rows = "".join(f"p{i},{i % 2}\n" for i in range(len(codes)))
    Path("shop.csv").write_text("id,n\n" + rows)
    Path("y.csv").write_text("id,y\n" + rows)
    clinic = {"source": "clinic.csv"}
    if named:
        clinic["features"] = {"categorical": ["code"]}
    data = {
        "id": "id",
        "parties": {"clinic": clinic, "shop": {"source": "shop.csv"}},
        "labels": {"source": "y.csv", "column": "y"},
    }
    parse_config({"data": data, "training": {"epochs": 3}}).train("run")
    trained = load_trained("run")
    digits = ["250.00", "401.10", "12E4"] * 4
    Path("alone.csv").write_text(diagnoses(digits))
    Path("beside.csv").write_text(diagnoses([*digits, "V12"]))
    alone = trained.predict_tables({"clinic": "alone.csv"}, "drop")
    beside = trained.predict_tables({"clinic": "beside.csv"}, "drop")
    assert torch.equal(alone.scores, beside.scores[: len(alone.scores)])


def test_a_fraction_among_codes_says_nothing_of_whole_numbers():
    transformer = TableTransformer().learn({"code": ["2.5", "3", "V12"]})
    assert transformer.transform({"code": [3]}).sum() == 1


def test_of_numbers_nobody_knows_what_was_written():
    transformer = TableTransformer().fit({"code": CODES})
    assert transformer.text_columns == ("code",)
    for values in ([250.0, 401.1], [True, False]):
        with pytest.raises(DataError, match=r"'code' was text .* make text of it, .*text=\["):
            transformer.transform({"code": values})
        again = TableTransformer.from_state(transformer.state())
        with pytest.raises(DataError, match="column 'code' was text in training and holds"):
            again.transform({"code": values})
    whole = TableTransformer().fit({"code": ["5", "7", "V12"]})
    typed, text = ({"code": values} for values in ([5, 7], ["5", "7"]))
    assert torch.equal(whole.transform(typed), whole.transform(text))


def test_numbers_and_truths_that_a_text_among_them_made_text_are_known_again():
    for seen, later in (
        ([1.5, 2.0, 3.25], ["1.50", "2.0", "3.250", "V"]),
        ([True, False, True], ["True", "FALSE", "true", "V"]),
        ([7, 8, 9], ["7", "8", "9", "V"]),
    ):
        transformer = TableTransformer(categorical=["code"]).learn({"code": seen})
        with pytest.warns(DataWarning, match="1 of 4 values"):
            found = transformer.transform({"code": later})
        assert torch.equal(found[:3], transformer.transform({"code": seen}))
        assert not found[3].any()


def test_a_state_of_an_earlier_version_is_taken_as_it_was():
    state = TableTransformer().fit({"code": CODES}).state()
    del state["columns"][0]["written"]
    with pytest.warns(DataWarning, match="did not occur"):
        assert TableTransformer.from_state(state).transform({"code": [250.0]}).sum() == 0


def test_numbers_with_a_fraction_that_are_categories_are_told_of():
    with pytest.warns(DataWarning, match=r"1\.10 and 1\.1 are one category"):
        TableTransformer(categorical=["v"]).fit({"v": [1.1, 1.2, 2.0]})
    table = read("v\n1.1\n1.10\n", text=["v"])
    assert TableTransformer().fit(table).feature_names_ == ("v=1.1", "v=1.10")


# Cells of a text file


def test_text_stays_as_it_is_written():
    table = read("a,b\n1.10,NA\n001,2\n", text=["a", "b"])
    assert table.to_dict(as_series=False) == {"a": ["1.10", "001"], "b": ["NA", "2"]}
    with pytest.raises(DataError, match="has no column 'c'"):
        read("a,b\n1,2\n", text=["c"])


@pytest.mark.parametrize("cells", ["1.234|12,5|7", " 1.234|12,5", "1.234| 5", "0,5|-1.5"])
def test_a_point_is_refused_where_the_comma_is_decimal(cells):
    rows = "".join(f"{i};{cell}\n" for i, cell in enumerate(cells.split("|")))
    with pytest.raises(DataError, match="numbers with a decimal point, and decimal=','"):
        read(f"id;x\n{rows}", separator=";", decimal=",")


def test_marks_between_thousands_are_no_fractions():
    cells = "".join(f"{i};1.{100 + i},5\n" for i in range(40))
    table = read(f"id;x\n{cells}", separator=";", decimal=",")
    with pytest.raises(DataError, match="seems to be a number with marks between thousands"):
        TableTransformer(ignore=["id"]).fit(table)


@pytest.mark.parametrize("cell", ["", '""', '" "', "  "])
def test_an_empty_cell_is_missing_however_it_is_quoted(cell):
    table = read(f'id,t,n\n1,"yes",2\n2,{cell},{cell}\n3,"no",4\n')
    assert table["t"].to_list() == ["yes", None, "no"]
    assert table["n"].to_list() == [2, None, 4]
    labels = read(f'id,y\n1,"yes"\n2,{cell}\n3,"no"\n')
    with pytest.raises(DataError, match="the label of row 1 is missing"):
        encode_labels(labels["y"])
    ids = read(f"id,n\n1,1\n{cell},2\n", id="id")
    with pytest.raises(DataError, match="'a' has no id in row 1"):
        vertical_tables({"a": ids}, {"id": [1], "y": [0]}, id="id")


@pytest.mark.parametrize("space", [" {}", "{} ", '" {}"', "  {}  "])
def test_spaces_around_digits_change_nothing(space):
    def column(*cells):
        return read("id,x\n" + "".join(f"1,{space.format(each)}\n" for each in cells))["x"]

    zips = column("00501", "10001")
    assert [each.strip() for each in zips] == ["00501", "10001"]
    accounts = [f"9934567890123456789{i}" for i in range(3)]
    assert [each.strip() for each in column(*accounts)] == accounts
    assert column("41", "NA", "7").to_list() == [41, None, 7]


def test_long_numbers_among_fractions_stay_text():
    assert settled(pl.Series(["9007199254740993", "1.5"])).dtype == pl.String
    assert settled(pl.Series(["9007199254740993", "15"])).to_list() == [9007199254740993, 15]


def test_missing_ones_before_all_numbers_are_missing():
    cells = ["NA"] * 300 + ["1.5", "2"]
    assert read("x\n" + "\n".join(cells) + "\n")["x"].to_list() == [None] * 300 + [1.5, 2.0]
    days = ["NA"] * 300 + ["2024-01-31"]
    assert read("x\n" + "\n".join(days) + "\n")["x"].dtype == pl.Date


def test_a_name_of_missing_ones_may_have_spaces_around_it():
    table = read("id,x,t\n1, -99, none\n2, 5, a\n", missing=["-99", "none"])
    assert table["x"].to_list() == [None, 5]
    assert table["t"].to_list() == [None, " a"]


@given(st.lists(st.from_regex(r"\A ?[+-]?[0-9]{1,22}(\.[0-9]{1,3})? ?\Z"), min_size=1))
def test_what_becomes_a_number_can_be_written_again(cells):
    found = settled(pl.Series(cells))
    if found.dtype.is_integer():
        assert [int(each) for each in cells] == found.to_list()
        assert not any(each.strip().lstrip("+-").startswith("0") and int(each) for each in cells)
    elif found.dtype.is_float():
        assert [float(each) for each in cells] == found.to_list()


# Frames of pandas


def test_categories_of_numbers_are_categories():
    frame = pd.DataFrame({"zip": pd.Categorical([1, 20, 300, 1, None])})
    names = TableTransformer().fit(frame).feature_names_
    assert names == ("zip=1", "zip=20", "zip=300", "zip is missing")
    cut = pd.DataFrame({"age": pd.cut([1.0, 50.0, 99.0], [0, 30, 60, 100])})
    assert TableTransformer().fit(cut).feature_names_[0] == "age=(0, 30]"
    truth = pd.DataFrame({"m": pd.Categorical([True, False])})
    assert TableTransformer().fit(truth).feature_names_ == ("m=false", "m=true")


def test_labels_that_are_categories_of_numbers_are_the_numbers():
    y = pd.Series(pd.Categorical([0, 1, 1, 0]), name="y")
    assert encode_labels(y).classes == (0, 1)
    ids = range(80)
    x = pd.DataFrame({"id": ids, "a": np.arange(80.0)})
    table = pd.DataFrame({"id": ids, "y": pd.Categorical([0, 1] * 40)})
    assert vertical_tables({"p": x}, table, id="id", task="classification").classes == (0, 1)


@pytest.mark.parametrize("kind", ["Int64", "UInt64"])
def test_long_numbers_beside_a_missing_one_keep_their_digits(kind):
    accounts = [2**60 + i for i in range(6)]
    frame = pd.DataFrame({"a": pd.array([*accounts, None], dtype=kind)})
    transformer = TableTransformer(categorical=["a"]).fit(frame)
    assert transformer.feature_names_[:-1] == tuple(f"a={each}" for each in accounts)
    with pytest.raises(DataError, match=r"beyond 2\^53"):
        TableTransformer().fit(frame)


# Predictions


def test_ids_are_written_whatever_their_column_is_called():
    scores = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    for key in ("predicted", "probability of u"):
        frame = Prediction(scores, None, pl.Series(["ann", "bob"])).frame(key, ["u", "v"])
        assert frame[f"{key} (id)"].to_list() == ["ann", "bob"]
        assert frame.width == 4
        assert np.isclose(frame["probability of u"][0], 1 / (1 + np.e))


@pytest.mark.parametrize(
    ("cell", "where"),
    [
        ('5" pipe', "within a cell"),
        ('a"b"c', "within a cell"),
        ('"ab"c', "that ends a cell, and more behind it"),
        ('"ab" ', "that ends a cell, and more behind it"),
        ('"q"x"y"', "that ends a cell, and more behind it"),
        ('"q"x"y\n7,"', "that ends a cell, and more behind it"),
    ],
)
def test_a_quotation_mark_that_is_not_written_twice_is_told(cell, where):
    with pytest.raises(DataError, match=rf"t\.csv: row 1 \(line 3\) has a quotation mark {where};"):
        read(f"id,a\n1,x\n2,{cell}\n3,y\n")
    assert read('id,a\n1,"5"" pipe"\n2,"a""b""c"\n')["a"].to_list() == ['5" pipe', 'a"b"c']


def test_no_quotation_mark_hides_rows_or_makes_numbers_of_codes():
    rows = "".join(f"{i},{i},1\n" for i in range(100)).replace("60,60", '60,60"')
    with pytest.raises(DataError, match=r"t\.csv: line 1 has a quotation mark within a cell"):
        read(f'id,disc 3",y\n{rows}')  # polars makes 39 rows of these
    with pytest.raises(DataError, match=r"row 0 \(line 2\) has a quotation mark within a cell"):
        read('id,a,b\n"x",5" w,u\n"s ""t"" r",k,b5"\n"x","s ""t"" r",m\n')  # and two of three
    codes = read('id,"3""x5"""\n1,007\n2,012\n')
    assert codes['3"x5"'].to_list() == ["007", "012"]


@pytest.mark.parametrize("many", [False, True], ids=["choices", "hashed"])
def test_codes_and_numbers_are_never_taken_for_each_other(many):
    codes = [f"{i:05}" for i in range(100, 130 if many else 110)]
    transformer = TableTransformer(categorical=["zip"]).learn({"zip": codes})
    whole = {"zip": [int(each) for each in codes]}
    with pytest.raises(DataError, match="of 7 nobody knows whether 007 was written"):
        transformer.transform(whole)
    with pytest.raises(DataError, match="of 7 nobody knows whether 007 was written"):
        TableTransformer.from_state(transformer.state()).transform(whole)
    numbers = TableTransformer(categorical=["zip"]).learn(whole)
    with pytest.raises(DataError, match=r"held numbers in training, and holds '00[0-9]*' here"):
        numbers.transform({"zip": codes})
    written = {"zip": [f" +{each}" if each % 2 else f"{each}.0" for each in whole["zip"]]}
    assert torch.equal(numbers.transform(written), numbers.transform(whole))


def test_rows_that_are_found_by_an_id_have_no_order():
    table = pl.DataFrame({"id": range(50), "a": range(50)})
    answers = {"id": [*range(50)], "y": [0, 1] * 25}
    with pytest.raises(ConfigurationError, match="rows that are found by an id have none"):
        vertical_tables({"p": table}, answers, id="id", split=LastRows())
    data = vertical_tables({"p": table.drop("id")}, answers["y"], aligned=True, split=LastRows())
    assert data.test.tolist() == [*range(40, 50)]


def test_labels_with_ids_may_be_in_any_order():
    bank = pd.DataFrame({"id": range(60), "a": np.arange(60.0)})
    y = pd.DataFrame({"id": range(60), "y": [0, 1] * 30}).sort_values("id", ascending=False)
    model = VerticalClassifier(id="id", epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same = model.fit({"bank": bank}, y).score({"bank": bank}, y)
        assert same == model.score({"bank": bank}, y.reset_index(drop=True))
    with pytest.raises(DataError, match="label in row 0 has the index '59', but that row of"):
        VerticalClassifier(parties={"bank": ["a"]}).fit(bank, y["y"])


def test_how_text_is_written_is_no_setting_of_another_kind_of_source():
    own = PartyTableConfig(source="a.csv", separator=";", decimal=",", missing=["none"])
    pl.DataFrame({"id": [1], "n": [1.5]}).write_parquet("b.parquet")
    read = own.at("b.parquet").read("id", None, None)
    assert read.frame().rows() == [(1, 1.5)]
    assert own.at("c.csv").missing == ["none"]
    assert own.at("sqlite:///c.db").decimal is None


@pytest.mark.parametrize("seen", [range(38), [i / 2 for i in range(38)], [True, False]])
def test_categories_of_numbers_are_known_again_however_they_come(seen):
    frame = pd.DataFrame({"code": pd.Categorical([*seen])})
    transformer = TableTransformer().fit(frame)
    expected = transformer.transform(frame)
    assert transformer.text_columns == ()
    for later in ([*seen], np.array([*seen], dtype=float) if len(seen) > 2 else [*seen]):
        assert torch.equal(transformer.transform({"code": later}), expected)
    written = [f"{each:.1f}" if len(seen) > 2 else str(each) for each in seen]
    assert torch.equal(transformer.transform({"code": written}), expected)


def test_decimal_commas_are_told_where_training_had_numbers():
    transformer = TableTransformer(categorical=["code"]).learn({"code": range(40)})
    with pytest.raises(DataError, match="seems to be one with a decimal comma; read the table"):
        transformer.transform({"code": ["5,0", "7,0"]})
