"""Mistakes about whose rows are whose: told of, or put right, where they can be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from colonnade import cli
from colonnade.errors import ConfigurationError, DataError, DataWarning
from colonnade.estimators import VerticalClassifier
from colonnade.tables import IdForm, align, vertical_tables
from colonnade.tables.in_order import check_indices_in_order

ROWS = 200
RANDOM = np.random.default_rng(3)
WHO = [f"P{i:04}" for i in range(ROWS)]
INCOME, SPENT = RANDOM.normal(size=(2, ROWS))
BUYS = (INCOME > 0).astype(int)
QUICK: dict[str, Any] = {"epochs": 2, "batch_size": 40, "hidden": (4,)}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def bank(who: Any = WHO, name: str | None = "who") -> pd.DataFrame:
    return pd.DataFrame({"income": INCOME}, pd.Index(who, name=name))


def shop(who: Any = WHO, name: str | None = "who") -> pd.DataFrame:
    return pd.DataFrame({"spent": SPENT}, pd.Index(who, name=name))


@pytest.mark.parametrize("name", ["who", None])
def test_aligned_tables_whose_index_says_otherwise(name: str | None) -> None:
    turned = WHO[::-1]
    with pytest.warns(DataWarning, match=r"the index of 'bank' and 'shop' differs in row 0"):
        vertical_tables({"bank": bank(name=name), "shop": shop(turned, name)}, BUYS, aligned=True)
    labels = pd.Series(BUYS, pd.Index(turned, name=name))
    with pytest.warns(DataWarning, match=r"the index of 'bank' and 'labels' differs"):
        vertical_tables({"bank": bank(name=name), "shop": shop(name=name)}, labels, aligned=True)
    # Numbers of rows, the same people, and ids of each company's own.
    for other in (shop(range(5, 5 + ROWS), None), shop(name=name), shop(turned, "customer")):
        vertical_tables({"bank": bank(name=name), "shop": other}, BUYS, aligned=True)


def test_an_aligned_estimator_tells_of_indices_that_say_otherwise() -> None:
    counted = {"bank": bank(range(ROWS), None), "shop": shop(range(ROWS), None)}
    model = VerticalClassifier(aligned=True, **QUICK).fit(counted, BUYS)
    turned = counted | {"shop": counted["shop"][::-1]}
    apart = "row 0 of 'bank' has the index '0', but that row of '{}' has '199', though they are"
    with pytest.warns(DataWarning, match=apart.format("shop")):
        model.predict(turned)
    with pytest.warns(DataWarning, match=apart.format("labels")):
        model.score(counted, pd.Series(BUYS)[::-1])
    named = {"bank": bank(), "shop": shop()}
    with pytest.warns(DataWarning, match="the index of 'bank' and 'labels' differs in row 0"):
        model.score(named, pd.Series(BUYS, pd.Index(WHO[::-1], name="who")))
    # The same order, and a count of other rows.
    model.score(counted, pd.Series(BUYS))
    model.score(counted, pd.Series(BUYS, range(5, 5 + ROWS)))


def test_aligned_tables_whose_texts_say_otherwise() -> None:
    tables = {
        "bank": pl.DataFrame({"mail": [f"{one}@here" for one in WHO], "income": INCOME}),
        "shop": pl.DataFrame({"mail": [f"{one}@there" for one in WHO], "spent": SPENT}),
    }
    with pytest.warns(DataWarning) as told:
        vertical_tables(tables, BUYS, aligned=True)
    assert "'mail', which looks like an id, with other values" in str(told[0].message)
    same = tables | {
        "shop": pl.DataFrame({"mail": [f" {one}@HERE" for one in WHO], "spent": SPENT})
    }
    with pytest.warns(DataWarning) as told:
        vertical_tables(same, BUYS, aligned=True)
    assert all("values are different" in str(one.message) for one in told)


def test_indices_of_other_people_do_not_lead_to_aligned() -> None:
    others = [f"P{i:04}" for i in range(50, 50 + ROWS)]
    with pytest.raises(DataError, match=r"is in one only; say id='who', by which") as caught:
        vertical_tables({"bank": bank(), "shop": shop(others)}, BUYS)
    assert "aligned" not in str(caught.value)
    labels = pd.Series(BUYS, pd.Index(WHO, name="who"), name="buys")
    model = VerticalClassifier(id="who", **QUICK)
    with pytest.warns(DataWarning, match="50 of 200 people with a label are left out"):
        model.fit({"bank": bank(), "shop": shop(others)}, labels)


def test_an_index_that_is_called_as_the_id_is() -> None:
    labels = pd.DataFrame({"buys": BUYS}, pd.Index(WHO, name="who"))
    tables = {"bank": bank(), "shop": shop(WHO[::-1]).reset_index()}
    found = vertical_tables(tables, labels, id="who")
    assert found.columns == {"bank": ("income",), "shop": ("spent",)}
    model = VerticalClassifier(id="who", **QUICK).fit(tables, labels)
    flat = {name: table.reset_index() for name, table in tables.items() if name == "bank"}
    assert (model.predict(tables) == model.predict(tables | flat)).all()
    assert 0 <= model.score(tables, labels["buys"]) <= 1
    with_labels = {"bank": bank().assign(buys=BUYS), "shop": shop()}
    again = VerticalClassifier(id="who", **QUICK).fit(with_labels, "buys")
    assert again.label_holder_ == "bank"
    assert align(tables, "who").ids.to_list() == sorted(WHO)
    one = bank().assign(spent=SPENT, buys=BUYS)
    model = VerticalClassifier(parties={"a": ["income"], "b": ["spent"]}, id="who", **QUICK)
    model.fit(one, "buys")
    with pytest.raises(DataError, match=r"the table of 'bank' has no column 'whom'; did you mean"):
        VerticalClassifier(id="whom", **QUICK).fit(
            {n: t.reset_index() for n, t in with_labels.items()}, "buys"
        )


def test_labels_in_a_column_of_no_party() -> None:
    one = pl.DataFrame({"income": INCOME, "spent": SPENT, "buys": BUYS})
    model = VerticalClassifier(parties={"a": ["income"], "b": ["spent"]}, **QUICK)
    model.fit(one, "buys")
    assert model.label_holder_ == "label_holder"
    assert model.score(one, "buys") == model.score(one, BUYS)
    with pytest.raises(DataError, match=r"'buy' is in no table; did you mean 'buys'\?"):
        model.fit(one, "buy")


def test_many_people_who_are_left_out_are_told_of() -> None:
    tables = {
        "bank": pl.DataFrame({"who": WHO, "income": INCOME}),
        "shop": pl.DataFrame({"who": WHO, "spent": SPENT}).head(60),
    }
    labels = pl.DataFrame({"who": WHO, "buys": BUYS})
    model = VerticalClassifier(id="who", **QUICK)
    with pytest.warns(DataWarning, match=r"140 of 200 people.* no row of them at 'shop' \(140\)"):
        model.fit(tables, labels)
    assert any("140 of 200" in one for one in model.run_.summary["warnings"])
    model.fit(tables | {"shop": pl.DataFrame({"who": WHO, "spent": SPENT}).head(170)}, labels)


def test_an_id_of_spaces_in_a_frame_is_a_person_unless_ids_have_a_form() -> None:
    ids = pl.DataFrame({"who": ["a", " ", "b"]})
    tables = {"bank": ids.with_columns(x=pl.lit(1)), "shop": ids.with_columns(y=pl.lit(2))}
    assert " " in align(tables, "who").ids.to_list()
    with pytest.raises(DataError, match=r"'bank' has no id in row 1 \(column 'who'\)"):
        align(tables, "who", IdForm())


def test_ids_of_other_kinds_are_told_the_form_that_finds_them() -> None:
    numbers = pl.DataFrame({"who": range(ROWS), "income": INCOME})
    zeros = pl.DataFrame({"who": [f"{i:06}" for i in range(ROWS)], "spent": SPENT})
    with pytest.raises(DataError, match=r"say normalise=IdForm\(pad=6\) \(YAML: ids: {pad: 6}\)"):
        align({"bank": numbers, "shop": zeros}, "who")
    found = align({"bank": numbers, "shop": zeros}, "who", IdForm(pad=6))
    assert len(found.ids) == ROWS
    points = pl.DataFrame({"who": [f"{i}.0" for i in range(ROWS)], "spent": SPENT})
    text = numbers.cast({"who": pl.String})
    for other in (numbers, text):
        with pytest.raises(DataError, match=r"'shop' have '.0' behind them.*astype\('Int64'\)"):
            align({"bank": other, "shop": points}, "who")


def test_a_table_of_labels_without_its_id() -> None:
    labels = pl.DataFrame({"who": WHO, "buys": BUYS})
    bank = pl.DataFrame({"who": WHO, "income": INCOME})
    with pytest.raises(ConfigurationError, match=r"or say id=\.\.\. if another one is the ids"):
        vertical_tables({"bank": bank}, labels)


def test_plan_says_who_is_left_out_and_whose_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    who = list(range(ROWS))
    pl.DataFrame({"who": who, "income": INCOME}).write_csv(tmp_path / "bank.csv")
    pl.DataFrame({"who": who, "buys": BUYS}).tail(150).write_csv(tmp_path / "labels.csv")
    pl.DataFrame({"who": who, "spent": SPENT}).head(120).write_csv(tmp_path / "shop.csv")
    config = tmp_path / "run.yaml"
    config.write_text(
        "data:\n  id: who\n  parties: {bank: {source: bank.csv}, shop: {source: shop.csv}}\n"
        "  labels: {source: labels.csv, column: buys}\n",
        encoding="utf-8",
    )
    cli.app(["plan", str(config)], standalone_mode=False)
    told = capsys.readouterr().out
    assert "left out: 80 of 150 people with a label, who have no row at shop (80)" in told
    assert "names no data" not in told
    assert "…" not in told
    config.write_text("training: {epochs: 1}\n", encoding="utf-8")
    cli.app(["plan", str(config)], standalone_mode=False)
    assert "names no data, so this is about mnist5k" in " ".join(capsys.readouterr().out.split())


TURNED = [1, 0, *range(2, ROWS)]


@pytest.mark.parametrize("normalise", [None, IdForm()])
def test_a_run_refuses_tables_whose_ids_are_in_two_orders(normalise: IdForm | None) -> None:
    one = pl.DataFrame({"who": WHO, "income": INCOME})
    other = pl.DataFrame({"who": WHO, "spent": SPENT})
    model = VerticalClassifier(id="who", normalise=normalise, **QUICK)
    model.fit({"bank": one, "shop": other}, pl.DataFrame({"who": WHO, "buys": BUYS}))

    def scores(table: Any) -> Any:
        return model.run_.predict({"bank": one, "shop": table}).scores

    expected = scores(other)
    message = (
        r"^row 0 of 'bank' has the id '[Pp]0000', but that row of 'shop' has '[Pp]0001', and a run "
        r"predicts row i of all tables as one person; bring the tables in one order, or predict by"
    )
    for turned in (other[TURNED], shop().iloc[TURNED]):
        with pytest.raises(DataError, match=message):
            scores(turned)
    with pytest.raises(DataError, match="'shop' has 1 rows of features, but there are 200 of"):
        scores(other[:1])
    for same in (other.drop("who"), shop()):
        assert scores(same).equal(expected)
    lower = other.with_columns(pl.col("who").str.to_lowercase())
    if normalise is None:
        with pytest.raises(DataError, match=r"the id 'P0000', but that row of 'shop' has 'p0000'"):
            scores(lower)
    else:
        assert scores(lower).equal(expected)


def test_ids_in_one_order_outweigh_indices_that_are_left_of_other_work() -> None:
    frames = {"bank": bank().reset_index(), "shop": shop().reset_index().set_axis(TURNED)}
    labels = pl.DataFrame({"who": WHO, "buys": BUYS})
    run = VerticalClassifier(id="who", **QUICK).fit(frames, labels).run_
    assert len(run.predict(frames).scores) == ROWS


def test_a_run_refuses_tables_of_pandas_whose_indices_are_in_two_orders() -> None:
    frames = {"bank": bank(), "shop": shop()}
    run = VerticalClassifier(**QUICK).fit(frames, BUYS).run_
    expected = run.predict(frames).scores
    with pytest.raises(DataError, match=r"row 0 .* 'P0000', .*\['shop'\]\.loc\[tables\['bank'\]"):
        run.predict(frames | {"shop": shop().iloc[TURNED]})
    counted = {name: frame.reset_index(drop=True) for name, frame in frames.items()}
    with pytest.raises(DataError, match=r"row 0 of 'bank' has the index '0', .* 'shop' has '1'"):
        run.predict(counted | {"shop": counted["shop"].iloc[TURNED]})
    holed = shop([None, *WHO[:0:-1]])
    counts = shop(range(1, ROWS + 1), None)
    plain = pl.DataFrame({"spent": SPENT})
    for other in (counted["shop"], plain, shop(WHO[::-1], "customer"), holed, counts):
        assert run.predict(frames | {"shop": other}).scores.equal(expected)


def indexed(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": range(3)}, pd.Index(values) if isinstance(values, list) else values)


DAYS = pd.date_range("2024-01-31", periods=3, tz="UTC")
PAIRS = pd.MultiIndex.from_tuples([(0, "a"), (1, "b"), (2, "c")])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([0, 1, 2], [1, 2, 3], id="counts from 0 and 1"),
        pytest.param(["0", "1", "2"], [1, 2, 3], id="counts as text and as numbers"),
        pytest.param([7, 5, 6], ["7", "5", "6"], id="numbers and their text"),
        pytest.param(pd.Index([7, 5, 6], name="who"), [7.0, 5.0, 6.0], id="whole floats"),
        pytest.param(DAYS, DAYS.tz_convert("Asia/Tokyo"), id="one time in two zones"),
        pytest.param(PAIRS, [7, 5, 6], id="levels and none"),
        pytest.param([7.0, float("nan"), 6.0], [7, 6, 5], id="a value is missing"),
        pytest.param(["a", None, "b"], ["b", "a", "c"], id="a text is missing"),
        pytest.param(PAIRS, PAIRS.set_codes([0, -1, 1], level=1), id="a level is missing"),
    ],
)
def test_indices_that_say_nothing_of_each_other_or_the_same_are_let_through(
    one: Any, other: Any
) -> None:
    for tables in ((one, other), (other, one)):
        check_indices_in_order(dict(zip("ab", map(indexed, tables), strict=True)))


@pytest.mark.parametrize(
    ("one", "other", "helps"),
    [
        ([7, 5, 6], [5, 6, 7], True),
        ([7, 5, 6], [5, 6, 8], False),
        ([7, 7, 6], [6, 7, 7], False),
        ([7, 5, 6], ["5", "6", "7"], False),
        (PAIRS, PAIRS[::-1], True),
    ],
)
def test_an_order_by_the_other_index_is_advised_where_it_can_be_had(
    one: Any, other: Any, helps: bool
) -> None:
    with pytest.raises(DataError, match=r"^row 0 of 'a' .* in one order(?: \(.*\))?, pre") as told:
        check_indices_in_order({"a": indexed(one), "b": indexed(other)})
    assert ("tables['b'].loc[tables['a'].index]" in str(told.value)) == helps
