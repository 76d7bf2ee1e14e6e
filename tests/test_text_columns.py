"""Columns of text that are numbers, dates or ids: refused or told of, not hashed in silence."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from colonnade.errors import DataError, DataWarning
from colonnade.tables import TableTransformer, encode_labels, read_table, vertical_tables

RANDOM = np.random.default_rng(0)
ROWS = 2000
AMOUNTS = (1500 + 700 * RANDOM.normal(size=ROWS)).clip(1)


def refusal(values: list[Any], **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        TableTransformer(**settings).fit({"x": values})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def told(values: list[Any], **settings: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        TableTransformer(**settings).fit({"x": values})
    assert all(issubclass(one.category, DataWarning) for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("write", ["{:.0f}", "{:.2f}"])
def test_one_zero_in_front_does_not_make_codes_of_numbers(tmp_path: Path, write: str) -> None:
    written = [write.format(amount) for amount in AMOUNTS]
    written[7] = "0123"
    path = tmp_path / "people.csv"
    path.write_text("x\n" + "\n".join(written) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"row 7, column 'x': '0123' has a zero in front, as 1 of"):
        TableTransformer().fit(read_table(path))
    assert "take it away if they are numbers" in refusal(written)
    assert not told(written, categorical=["x"])


@pytest.mark.parametrize(
    "codes",
    [
        [f"{i:05}" for i in RANDOM.integers(500, 99999, ROWS)],  # one length
        [f"{i:05}"[: 5 - i % 2] for i in RANDOM.integers(500, 99999, ROWS)],  # many zeros
        [f"{i:03}" for i in range(40)],
        ["K1A 0B1", "00501", *(f"{i}" for i in range(10000, 10040))],
    ],
)
def test_codes_stay_text(codes: list[str]) -> None:
    assert not told(codes * 3)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: f"{x:,.2f}".replace(",", " "),
        lambda x: f"{x:,.2f}".replace(",", "'"),
        lambda x: f"{x:,.2f}".replace(",", "\u00a0"),
        lambda x: f"{x:,.2f}",
        lambda x: f"{x:,.2f}".translate({44: ".", 46: ","}),
        lambda x: f"CHF {x:.2f}",
        lambda x: f"€{x:.0f}",
        lambda x: f"{x / 100:.0f} %",
        lambda x: f"{x:.0f}kg",
        lambda x: f"{x:.1f} m²",
        lambda x: f"ca. {x:.0f}",
    ],
)
def test_numbers_in_other_writings(write: Any) -> None:
    written = [write(amount) for amount in AMOUNTS]
    message = refusal(written)
    assert "make plain numbers of the column, or, if it is text, name it in categorical" in message
    assert "row " in message
    assert not told(written, categorical=["x"])


@pytest.mark.parametrize(
    "write", ["%d.%m.%Y", "%d/%m/%y", "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d %b %Y", "%B %d, %Y"]
)
def test_dates_as_text(write: str) -> None:
    days = pl.date_range(pl.date(1980, 1, 1), pl.date(1980, 12, 1), "1d", eager=True)
    written = days.cast(pl.Datetime).dt.strftime(write).to_list()
    message = refusal(written)
    assert f"row 0, column 'x': {written[0]!r} is a date or time written as text" in message
    assert not told(written, categorical=["x"])
    assert not told(written[:9] * 30)  # few are categories


def test_what_may_be_text_is_told() -> None:
    whole = [f"{amount:.0f}" for amount in AMOUNTS]
    assert "are whole numbers written as text" in told(whole)[0]
    partly = [f"k{x}" if i % 7 == 0 else x for i, x in enumerate(whole)]
    (message,) = told(partly)
    assert f"such as {partly[0]!r} in row 0" in message
    names = [f"Ann {'i' * i}" for i in range(ROWS)]
    (message,) = told(names)
    assert "2000 of 2000 values are different" in message
    assert "Ann" not in message  # it is kept, and told on pages
    for values in (whole, partly, names):
        assert not told(values, categorical=["x"])
        assert not told([*values[:9]] * 30)


@pytest.mark.parametrize(
    "values",
    [
        [f"city-{i}" for i in range(60)],
        [f"E{i // 10}.{i % 10}" for i in range(100)],
        [f"{i:08x}" for i in RANDOM.integers(2**28, 2**32, 90)],
        [f"{i} Main St." for i in range(3)] + [f"Road {i}" for i in range(60)],
        [f"1.{i}.{i % 3}" for i in range(50)],
        [f"10.0.{i}.7" for i in range(50)],
        [f"+41 44 {i} 67 89" for i in range(100, 150)],
        [f"{i}{'abc'[i % 3]}" for i in range(60)],
    ],
)
def test_ordinary_text_is_quiet(values: list[str]) -> None:
    assert not told(values * 3)


def test_what_is_told_says_whose_column() -> None:
    ids = range(ROWS)
    bank = pl.DataFrame({"id": ids, "income": [f"{amount:.0f}" for amount in AMOUNTS]})
    labels = pl.DataFrame({"id": ids, "y": [i % 2 for i in ids]})
    with pytest.warns(DataWarning, match="^'bank': column 'income': all ") as caught:
        found = vertical_tables({"bank": bank}, labels, id="id")
    assert len(caught) == 1
    assert len(found.warnings) == 1
    assert not found.without_rows().warnings


@pytest.mark.parametrize("cell", ["*", "#", "%", "& x", "x, y", "' '", "  ", "é", '"'])
def test_the_remedy_is_yaml(cell: str) -> None:
    message = refusal([*(f"{i}.5" for i in range(60)), cell])
    remedy = message.split("YAML: ")[1].split(") if it stands")[0]
    assert yaml.safe_load(remedy) == {"missing": [cell]}


def test_classes_and_categories_that_differ_in_case_or_spaces() -> None:
    ids = range(60)
    bank = pl.DataFrame({"id": ids, "town": [["Bern", "bern ", "Rome"][i % 3] for i in ids]})
    labels = pl.DataFrame({"id": ids, "y": [["ja", "nein", "nein "][i // 2 % 3] for i in ids]})
    with pytest.warns(DataWarning) as caught:
        found = vertical_tables({"bank": bank}, labels, id="id")
    assert len(caught) == 2
    assert "the labels: 1 of 3 different values are like another one" in found.warnings[0]
    assert "'bank': column 'town': 1 of 3" in found.warnings[1]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize("row", [1, 9000])
def test_a_file_that_is_not_utf_8(tmp_path: Path, encoding: str, row: int) -> None:
    lines = ["town,age", *(f"{'Zürich' if i == row else 'Bern'},{i}" for i in range(10_000))]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines), encoding=encoding)
    with pytest.raises(DataError, match="it is not written in UTF-8; save it as UTF-8"):
        read_table(path)


def test_what_labels_want_is_said_of_estimators() -> None:
    for labels, advice in (
        (["1,5", "2,5"] * 30, "read the table with decimal=','.*VerticalClassifier"),
        (["a", "b"] * 30, "convert them, or learn classes.*VerticalClassifier"),
    ):
        with pytest.raises(DataError, match=advice):
            encode_labels(labels, "regression")
    with pytest.raises(DataError, match="VerticalRegressor"):
        encode_labels([i + 0.5 for i in range(60)], "classification")
