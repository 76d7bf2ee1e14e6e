"""A column may be called what polars takes for a pattern, such as ``*``: it is a name all the same.

Each table has the column that the pattern would find beside the one that is called so.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import colonnade as cn
from colonnade.streamed import Columns, streamed_rows
from colonnade.tables import (
    HashSplit,
    IdSplit,
    StoredTable,
    TableTransformer,
    align,
    as_frame,
    encode_labels,
    read_table,
    vertical_tables,
)

pytestmark = pytest.mark.filterwarnings("ignore::colonnade.errors.DataWarning")

PATTERNS = ("*", "^a$", "^.*$", "^a|b$", "^(a$", "^$")
each_pattern = pytest.mark.parametrize("name", PATTERNS)

ROWS = 60
PEOPLE = [f"p{row:02}" for row in range(ROWS)]


def columns(name: str) -> dict[str, list[Any]]:
    """Return columns none of which is another, in any row."""
    return {"a": [1, 2, 3], name: [10, 20, 30], "b": [4, 5, 6]}


@each_pattern
def test_a_text_file(tmp_path: Path, name: str) -> None:
    table = columns(name)
    path = tmp_path / "people.csv"
    rows = zip(*table.values(), strict=True)
    path.write_text("\n".join([",".join(table), *(",".join(map(str, row)) for row in rows)]) + "\n")
    assert read_table(path).to_dict(as_series=False) == table
    assert read_table(path, columns=[name, "a"]).to_dict(as_series=False) == {
        name: [10, 20, 30],
        "a": [1, 2, 3],
    }
    assert read_table(path, id=name)[name].to_list() == [10, 20, 30]
    assert read_table(path, columns=["b"], id=name).columns == [name, "b"]
    given = read_table(path, names=["x", name, "a"])
    assert given[name].to_list() == [name, "10", "20", "30"]


@each_pattern
def test_cells_of_text_become_what_they_say(tmp_path: Path, name: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"{name},id\nNA,1\n2.5,2\n,3\n")
    assert read_table(path, id="id")[name].to_list() == [None, 2.5, None]
    path.write_text(f"{name},id\n99999999999999999999,1\n2,2\n")
    assert read_table(path)[name].to_list() == ["99999999999999999999", "2"]


@each_pattern
def test_a_parquet_file(tmp_path: Path, name: str) -> None:
    table, path = columns(name), tmp_path / "people.parquet"
    pl.DataFrame(table).write_parquet(path)
    assert read_table(path).to_dict(as_series=False) == table
    assert read_table(path, columns=[name]).to_dict(as_series=False) == {name: [10, 20, 30]}
    stored = StoredTable(path, columns=["b", name])
    assert stored.column(name).to_list() == [10, 20, 30]
    (batch,) = stored.batches([name, "b"], 8)
    assert batch.frame.rows() == [(10, 4), (20, 5), (30, 6)]


@each_pattern
def test_a_database(tmp_path: Path, name: str) -> None:
    with sqlite3.connect(tmp_path / "people.db") as database:
        database.execute(f'create table people (a, "{name}", b)')
        database.execute("insert into people values (1, 10, 4)")
    database.close()
    read = read_table(f"sqlite:///{tmp_path / 'people.db'}", table="people", columns=[name])
    assert read.to_dict(as_series=False) == {name: [10]}


@each_pattern
@pytest.mark.parametrize("make", [dict, pl.DataFrame, pl.LazyFrame, pd.DataFrame])
def test_a_frame(make: Any, name: str) -> None:
    table = make(columns(name))
    assert as_frame(table).to_dict(as_series=False) == columns(name)
    assert as_frame(table, [name]).to_dict(as_series=False) == {name: [10, 20, 30]}
    gaps = make({"a": [1.0, 2.0], name: [0.5, None]})
    assert as_frame(gaps, [name]).rows() == [(0.5,), (None,)]


@each_pattern
def test_ids(name: str) -> None:
    bank = pl.DataFrame({"a": [1, 2, 3], name: ["u", "v", "w"]})
    shop = pl.DataFrame({name: ["w", "u", "x"], "b": [7, 8, 9]})
    found = align({"bank": bank, "shop": shop}, id=name)
    assert found.ids.to_list() == ["u", "w"]
    assert {who: frame.to_dict(as_series=False) for who, frame in found.frames.items()} == {
        "bank": {"a": [1, 3]},
        "shop": {"b": [8, 7]},
    }


@each_pattern
def test_labels(name: str) -> None:
    found = encode_labels(pl.Series(name, [2.0, 0.0, 2.0]))
    assert found.values.tolist() == [1, 0, 1]


@each_pattern
@pytest.mark.parametrize("output", ["tensor", "dict"])
@pytest.mark.parametrize("one_hot_up_to", [0, 8])
def test_features(name: str, output: Any, one_hot_up_to: int) -> None:
    numbers = {"a": [1.0, 2.0, 4.0], name: [5.0, None, 7.0]}
    texts = {"a": ["u", "v", "u"], name: ["x", None, "y"]}
    for table in (numbers, texts):
        made = []
        for called in (name, "plain"):
            renamed = {"a": table["a"], called: table[name]}
            transformer = TableTransformer(output=output, one_hot_up_to=one_hot_up_to)
            made.append(transformer.fit(renamed).transform(renamed))
        assert str(made[0]) == str(made[1])


def frames(of: str, id: str, label: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two organisations' columns, and the labels; people are in another order in each."""
    bank = {id: PEOPLE, "a": np.arange(ROWS) % 7.0, of: np.arange(ROWS) % 5.0}
    shop = {id: PEOPLE[::-1], "c": ["u", None, "v"] * (ROWS // 3)}
    return {"bank": bank, "shop": shop}, {id: PEOPLE, label: ["no", "yes"] * (ROWS // 2)}


@pytest.mark.parametrize("name", PATTERNS[:3])
@pytest.mark.parametrize("place", range(3), ids=["feature", "id", "label"])
@pytest.mark.parametrize("make", [pl.DataFrame, pl.LazyFrame, pd.DataFrame])
def test_an_estimator(tmp_path: Path, make: Any, place: int, name: str) -> None:
    def predicted(of: str, id: str, label: str) -> Any:
        parts, answers = frames(of, id, label)
        tables = {party: make(part) for party, part in parts.items()}
        labels = make(answers)
        model = cn.VerticalClassifier(id=id, epochs=1, hidden=(2,), validation=0.2, patience=None)
        model.fit(tables, labels)
        assert model.data_.ids is not None
        assert model.data_.ids.name == id
        return model.predict_proba(tables), model.score(tables, labels)

    plain = ["x", "id", "y"]
    odd, score = predicted(*[*plain[:place], name, *plain[place + 1 :]])
    expected, its = predicted(*plain)
    assert np.array_equal(odd, expected)
    assert score == its


@each_pattern
def test_an_index(name: str) -> None:
    parts, answers = frames("x", name, "y")
    tables = {party: pd.DataFrame(part).set_index(name) for party, part in parts.items()}
    labels = pd.DataFrame(answers).set_index(name)
    found = vertical_tables(tables, labels["y"])
    assert found.ids is not None
    assert found.ids.to_list() == PEOPLE
    with pytest.warns(cn.errors.DataWarning, match="differs in row 0, though they are said"):
        vertical_tables(tables, labels["y"], aligned=True)
    by_name = vertical_tables(tables, labels, id=name)
    assert by_name.ids is not None
    assert sorted(by_name.ids) == PEOPLE


@each_pattern
def test_lists_of_ids(name: str) -> None:
    parts, answers = frames("x", name, "y")
    chosen = IdSplit(validation=pl.Series(name, PEOPLE[:9]).to_list(), test=PEOPLE[9:12])
    tables = {party: pl.DataFrame(part) for party, part in parts.items()}
    found = vertical_tables(tables, pl.DataFrame(answers), id=name, split=chosen)
    assert (len(found.validation), len(found.test)) == (9, 3)


@each_pattern
def test_a_table_that_is_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    table = {name: range(40), "a": [7] * 40, "c": ["u", "v"] * 20, "y": [0, 1] * 20}
    pl.DataFrame(table).write_parquet(tmp_path / "clicks.parquet")
    pl.DataFrame(table).write_csv(tmp_path / "clicks.csv")
    parties = {"site": Columns(numeric=(name, "a")), "shop": Columns(categorical=("c",))}
    read = [
        streamed_rows(tmp_path / file, parties, "y", split=HashSplit(0.2))
        for file in ("clicks.parquet", "clicks.csv")
    ]
    of_parquet, of_text = (np.asarray(each.features["site"]["numeric"]) for each in read)
    assert np.array_equal(of_parquet, of_text)
    assert len(np.unique(of_parquet[:, 0])) == 40
