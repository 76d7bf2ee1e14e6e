"""Dates: read in one writing, counted in days, the same bits however they came."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from colonnade.config import parse_config
from colonnade.errors import ConfigurationError, DataError
from colonnade.tables import TableTransformer, read_table
from colonnade.tables.dates import as_dates, days

EPOCH = dt.datetime(1970, 1, 1)
WRITTEN = ["2024-01-31", "1969-12-31", "NA", "0001-01-01", "9999-12-31"]
DAYS = [19753.0, -1.0, None, -719162.0, 2932896.0]


def counted(values):
    return days("since", pl.Series(values), str).to_list()


def test_days_are_counted_from_1970():
    assert counted(WRITTEN) == DAYS
    typed = [None if each == "NA" else dt.date.fromisoformat(each) for each in WRITTEN]
    assert counted(typed) == DAYS
    assert counted([None, None]) == [None, None]
    assert counted(["", "NA"]) == [None, None]


@given(st.lists(st.datetimes(), min_size=1))
@example([dt.datetime(1969, 12, 31, 5)])  # which polars' division had one bit beside
def test_a_time_is_a_part_of_its_day(times):
    expected = [
        (t - EPOCH).days + (t - EPOCH - dt.timedelta((t - EPOCH).days)) / dt.timedelta(1)
        for t in times
    ]
    assert counted(times) == expected
    assert counted([t.isoformat(" ", "microseconds") for t in times]) == expected
    assert counted([t.isoformat("T", "microseconds") + "Z" for t in times]) == expected


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_every_unit_gives_the_same_bits(unit):
    times = [dt.datetime(2024, 1, 31, 10, 30, 15, 123000), dt.datetime(1901, 2, 3, 23, 59, 59)]
    times += [dt.datetime(1969, 12, 31, 5) + dt.timedelta(0, 977 * n) for n in range(100)]
    found = days("since", pl.Series(times, dtype=pl.Datetime(unit)), str)
    assert found.to_list() == counted(times)


def test_a_time_with_a_zone_is_that_of_utc():
    assert counted(["1970-01-02T00:00+02:00", "1970-01-01 12:00:00-1200", "1970-01-02T00:00Z"]) == [
        1 - 2 / 24,
        1.0,
        1.0,
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("03/01/2024", "31.01.2024", "31-01-2024", "2024/01/31", "2024-1-31", "24-01-31"),
        *(
            "2024-01-31 10:30:60",
            "2024-02-30",
            "2024-13-01",
            "2024-01-31 24:00",
            "2024-01-31 10",
            "2024-01",
            "10:30",
        ),
        *("2024-01-31T10:30+25:00", "20240131", "-2024-01-31", "2024-01-31x", "٢٠٢٤-01-31"),
    ],
)
def test_nothing_else_is_a_date(text):
    assert as_dates(pl.Series(["2024-01-31", text])).to_list() == ["2024-01-31", text]
    with pytest.raises(DataError, match=r"^1, column 'since': .* is no date as 2024-01-31 is one"):
        counted(["2024-01-31", text])


def test_dates_and_times_may_mix_in_text():
    assert counted(["2024-01-31", "2024-01-31 06:00", "NA", "2024-01-31T18:00:00Z"]) == [
        19753.0,
        19753.25,
        None,
        19753.75,
    ]


def test_a_time_alone_is_predicted_where_training_had_dates_alone():
    transformer = TableTransformer(dates=["since"], scale="none").fit({"since": ["1970-01-03"]})
    new = {"since": ["1970-01-04 06:00", "1970-01-04", "1970-01-04 06:00+06:00"]}
    assert transformer.transform(new).flatten().tolist() == [3.25, 3.0, 3.0]


def test_of_a_mixture_the_one_is_named_that_nothing_reads():
    with pytest.raises(DataError, match=r"^2, column 'since': '31.01.2024' is no date as"):
        counted(["2024-01-31", "2024-01-31 10:30", "31.01.2024", "2024-01-31 10:30Z"])


def test_other_kinds_are_no_dates():
    for values in ([1, 2], [dt.time(10)], [dt.timedelta(1)], [True]):
        with pytest.raises(DataError, match=r"named in dates, and holds \w+.*; make dates of"):
            counted(values)


FRAMES = {
    "text": lambda text: pl.DataFrame({"since": text, "n": [1, 2, 3]}),
    "dates": lambda text: pl.DataFrame({"since": pl.Series(text).str.to_date(), "n": [1, 2, 3]}),
    "pandas": lambda text: pd.DataFrame({"since": pd.to_datetime(text), "n": [1, 2, 3]}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_the_transformer_takes_them_however_they_come(kind):
    text = ["1970-01-01", None, "1970-01-03"]
    transformer = TableTransformer(dates=["since"], scale="none").fit(FRAMES[kind](text))
    features = torch.tensor([[0.0, 1, 0], [1, 2, 1], [2, 3, 0]])
    assert transformer.feature_names_ == ("since", "n", "since is missing")
    assert torch.equal(transformer.transform(FRAMES["text"](text)), features)
    again = TableTransformer.from_state(transformer.state())
    assert torch.equal(again.transform(FRAMES["dates"](text)), features)
    kind = "days since 1970; missing ones are filled in with 1"
    assert next(iter(again.read())) == ("since", kind, 2)


def test_the_state_of_an_earlier_version_has_no_dates():
    state = TableTransformer().fit({"n": [1, 2]}).state()
    del state["parameters"]["dates"]
    assert TableTransformer.from_state(state).dates == []


def test_a_column_is_named_once():
    both = TableTransformer(dates=["since"], ignore=["since"])
    with pytest.raises(ConfigurationError, match="named in ignore and in dates; name it once"):
        both.fit({"since": ["2024-01-31"]})
    with pytest.raises(DataError, match="no column 'born'"):
        TableTransformer(dates=["born"]).fit({"since": ["2024-01-31"]})


def test_a_file_has_them_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(
        "since,us,at\n2024-01-31,03/01/2024,2024-01-31 10:30\n,12/01/2024,NA\n"
    )
    table = read_table("a.csv")
    assert table.dtypes == [pl.Date, pl.String, pl.Datetime("us")]
    assert table["us"].to_list() == ["03/01/2024", "12/01/2024"]


def test_a_run_learns_from_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(f"p{i}", dt.date(2000, 1, 1) + dt.timedelta(37 * i), i) for i in range(120)]
    since = "".join(f"{name},{day}\n" for name, day, _ in rows)
    Path("bank.csv").write_text("id,since\n" + since)
    Path("shop.csv").write_text("id,n\n" + "".join(f"{name},{i % 3}\n" for name, _, i in rows))
    Path("y.csv").write_text("id,y\n" + "".join(f"{name},{int(i > 60)}\n" for name, _, i in rows))
    data = {
        "id": "id",
        "parties": {"bank": {"source": "bank.csv"}, "shop": {"source": "shop.csv"}},
        "labels": {"source": "y.csv", "column": "y"},
    }
    with pytest.raises(DataError, match=r"name it in dates.*features: \{dates: \[\"since\"\]\}"):
        parse_config({"data": data}).data.load()
    data["parties"]["bank"]["features"] = {"dates": ["since"]}
    run = parse_config({"data": data, "training": {"epochs": 40}}).train("run")
    assert run.summary["test"]["auc"] > 0.95
