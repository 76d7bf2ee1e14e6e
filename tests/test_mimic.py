"""MIMIC-III: events at any time become hourly steps, as the benchmark makes them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from colonnade.datasets import CATALOGUE, available, mimic3_mortality
from colonnade.datasets.mimic import _VARIABLES as VARIABLES
from colonnade.errors import ConfigurationError, DataError

NAMES = [variable.name for variable in VARIABLES]
HEADER = ["Hours", *NAMES]
Event = Mapping[str, str]

# Where each variable's columns are, written out: 2 + 1 + 1 + 8 + 12 + 13 + 12 + 10 and 17 masks.
STARTS = dict(zip(NAMES, [0, 2, 3, 4, 12, 24, 37, *range(49, 59)], strict=True))
MASK = {name: 59 + number for number, name in enumerate(NAMES)}


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLONNADE_DATA", raising=False)


def write_csv(path: Path, header: list[str], rows: list[list[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return path


def write_stay(path: Path, events: list[tuple[str, Event]], header: list[str] = HEADER) -> Path:
    rows = [[hours, *(event.get(name, "") for name in header[1:])] for hours, event in events]
    return write_csv(path, header, rows)


def write_task(
    folder: Path,
    train: dict[str, tuple[int, list[tuple[str, Event]]]],
    test: dict[str, tuple[int, list[tuple[str, Event]]]],
) -> Path:
    for split, stays in (("train", train), ("test", test)):
        listed = [[name, str(died)] for name, (died, _) in stays.items()]
        write_csv(folder / split / "listfile.csv", ["stay", "y_true"], listed)
        for name, (_, events) in stays.items():
            write_stay(folder / split / name, events)
    return folder


NOTHING: list[tuple[str, Event]] = [("0.5", {})]


def one(folder: Path, events: list[tuple[str, Event]]) -> NDArray[Any]:
    """Return the columns [48, 76] of one stay, not standardised."""
    write_task(folder, {"a.csv": (0, events)}, {"b.csv": (1, NOTHING)})
    dataset = mimic3_mortality(folder, parties=1, standardise=False)
    assert dataset.features["party_1"].shape == (2, 48, 76)
    return dataset.features["party_1"][0].numpy()


# --- steps ------------------------------------------------------------------------------------


def test_before_anything_is_measured_all_is_normal(tmp_path: Path) -> None:
    found = one(tmp_path, NOTHING)
    expected = np.zeros(76, np.float32)
    for name, value in {
        "Diastolic blood pressure": 59, "Fraction inspired oxygen": 0.21, "Glucose": 128,
        "Heart Rate": 86, "Height": 170, "Mean blood pressure": 77, "Oxygen saturation": 98,
        "Respiratory rate": 19, "Systolic blood pressure": 118, "Temperature": 36.6, "Weight": 81,
        "pH": 7.4,
    }.items():  # fmt: skip
        expected[STARTS[name]] = value
    # 0.0; "4 Spontaneously", 4th of 8; "6 Obeys Commands", 10th of 12; 15, 5th of 13;
    # "5 Oriented", 7th of 12.
    expected[[0, 4 + 3, 12 + 9, 24 + 4, 37 + 6]] = 1
    np.testing.assert_array_equal(found, np.tile(expected, (48, 1)))


@pytest.mark.parametrize(
    ("hours", "step"),
    [
        ("0.0", 0),
        ("0.01", 0),
        ("1.0", 0),
        ("1.0000005", 0),
        ("1.01", 1),
        ("2.0", 1),
        ("47.5", 47),
        ("48.0", 47),
        ("48.000001", 47),
    ],
)
def test_an_hour_belongs_to_the_step_that_it_ends(tmp_path: Path, hours: str, step: int) -> None:
    found = one(tmp_path, [(hours, {"Heart Rate": "120"})])
    assert found[:, MASK["Heart Rate"]].nonzero()[0].tolist() == [step]
    assert found[:, STARTS["Heart Rate"]].tolist() == [86.0] * step + [120.0] * (48 - step)
    assert found[:, 59:].sum() == 1


def test_what_is_after_two_days_is_left_out(tmp_path: Path) -> None:
    found = one(tmp_path, [("48.1", {"Heart Rate": "120"}), ("50", {"pH": "no number"})])
    assert not found[:, 59:].any()


def test_of_values_in_one_hour_the_last_counts_and_stays(tmp_path: Path) -> None:
    events = [
        ("3.2", {"Glucose": "90", "pH": "7.2"}),
        ("3.2", {"Glucose": "95"}),
        ("3.9", {"Glucose": "100"}),
        ("6.5", {"Glucose": "110"}),
    ]
    found = one(tmp_path, events)
    glucose = found[:, STARTS["Glucose"]]
    assert glucose.tolist() == [128.0] * 3 + [100.0] * 3 + [110.0] * 42
    assert found[:, MASK["Glucose"]].nonzero()[0].tolist() == [3, 6]
    np.testing.assert_allclose(found[:, STARTS["pH"]], [7.4] * 3 + [7.2] * 45, rtol=1e-6)


def test_a_category_has_a_column_and_another_one_takes_its_place(tmp_path: Path) -> None:
    eye = "Glascow coma scale eye opening"
    found = one(tmp_path, [("1.5", {eye: "None"}), ("2.5", {eye: "To Pain"})])
    columns = found[:, 4:12]
    assert (columns.sum(1) == 1).all()
    assert columns.argmax(1).tolist() == [3, 4] + [0] * 46


def test_every_category_has_a_column_of_its_own(tmp_path: Path) -> None:
    for variable in VARIABLES:
        if variable.categories:
            events = [(f"{i}.5", {variable.name: x}) for i, x in enumerate(variable.categories)]
            width = len(events)
            start = STARTS[variable.name]
            block = one(tmp_path, events)[:width, start : start + width]
            np.testing.assert_array_equal(block, np.eye(width))
    assert sum(len(variable.categories) or 1 for variable in VARIABLES) == 59


def test_a_number_as_a_category_may_be_written_in_two_ways(tmp_path: Path) -> None:
    total, refill = "Glascow coma scale total", "Capillary refill rate"
    found = one(tmp_path, [("0.5", {total: "3.0", refill: "1"})])
    assert found[0, 24 + 6] == 1
    assert found[0, :2].tolist() == [0, 1]


def test_columns_may_come_in_any_order(tmp_path: Path) -> None:
    write_task(tmp_path, {"a.csv": (0, NOTHING)}, {"b.csv": (1, NOTHING)})
    events: list[tuple[str, Event]] = [("2.5", {"Weight": "70", "Height": "180"})]
    write_stay(tmp_path / "train" / "a.csv", events, ["Hours", *reversed(NAMES)])
    found = mimic3_mortality(tmp_path, parties=1, standardise=False).features["party_1"][0]
    assert found[40, STARTS["Weight"]] == 70
    assert found[40, STARTS["Height"]] == 180


numbers = st.floats(-1e3, 1e3).map(lambda x: f"{x:.3f}")
events = st.lists(
    st.tuples(st.floats(0, 60), st.sampled_from(["Glucose", "Heart Rate", "pH"]), numbers),
    max_size=30,
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=events)
def test_steps_are_what_the_rules_say_of_each_hour(
    tmp_path: Path, rows: list[tuple[float, str, str]]
) -> None:
    found = one(tmp_path, [(f"{h:.6f}", {name: x}) for h, name, x in rows] or NOTHING)
    normal = {"Glucose": 128.0, "Heart Rate": 86.0, "pH": 7.4}
    for name, start in normal.items():
        mine = [(round(h, 6), float(x)) for h, other, x in rows if other == name]
        for step in range(48):
            until = [x for h, x in mine if h <= step + 1 + 1e-6]
            within = [h for h, _ in mine if (h > step + 1e-6 or step == 0) and h <= step + 1 + 1e-6]
            assert found[step, STARTS[name]] == np.float32(until[-1] if until else start)
            assert found[step, MASK[name]] == bool(within)


# --- the data set -----------------------------------------------------------------------------


def stays(count: int, first: int = 0) -> dict[str, tuple[int, list[tuple[str, Event]]]]:
    return {
        f"{i}_episode1_timeseries.csv": (
            i % 2,
            [("0.5", {"Heart Rate": str(60 + 7 * i), "Height": "180"}), ("9", {"pH": f"7.{i}"})],
        )
        for i in range(first, first + count)
    }


@pytest.mark.parametrize("place", ["", "in-hospital-mortality", "mimic3/in-hospital-mortality"])
def test_four_parties_have_nineteen_columns_each(tmp_path: Path, place: str) -> None:
    write_task(tmp_path / place, stays(4), stays(2, first=4))
    dataset = mimic3_mortality(tmp_path)
    assert repr(dataset) == (
        "VerticalDataset('MIMIC-III mortality', 4 parties, 4 + 2 rows, 2 classes)"
    )
    assert {x.shape for x in dataset.features.values()} == {(6, 48, 19)}
    assert dataset.labels.tolist() == [0, 1, 0, 1, 0, 1]
    alone = mimic3_mortality(tmp_path, parties=1).features["party_1"]
    assert torch.equal(torch.cat(list(dataset.features.values()), 2), alone)
    assert available("mimic3_mortality", tmp_path) is None
    assert CATALOGUE["mimic3_mortality"].columns == alone[0].numel()


def test_columns_that_cannot_be_shared_out_equally(tmp_path: Path) -> None:
    write_task(tmp_path, stays(2), stays(1, first=2))
    widths = [x.shape[2] for x in mimic3_mortality(tmp_path, parties=5).features.values()]
    assert widths == [16, 15, 15, 15, 15]
    for parties in (0, 77):
        with pytest.raises(ConfigurationError, match=f"1 to 76 parties, not {parties}"):
            mimic3_mortality(tmp_path, parties=parties)


def test_numbers_are_scaled_by_training_rows_and_nothing_else_is(tmp_path: Path) -> None:
    write_task(tmp_path, stays(5), stays(3, first=5))
    names = list(stays(5))
    write_csv(tmp_path / "val_listfile.csv", ["stay", "y_true"], [[names[1], "1"]])
    plain = mimic3_mortality(tmp_path, parties=1, standardise=False)
    dataset = mimic3_mortality(tmp_path, parties=1)
    assert dataset.train.tolist() == [0, 2, 3, 4]
    assert dataset.validation.tolist() == [1]
    assert dataset.test.tolist() == [5, 6, 7]
    x, raw = dataset.features["party_1"].double(), plain.features["party_1"].double()
    for name in ("Heart Rate", "pH"):
        column, before = x[..., STARTS[name]], raw[..., STARTS[name]]
        training = before[dataset.train]
        by_hand = (before - training.mean()) / training.std(correction=0)
        torch.testing.assert_close(column, by_hand, rtol=1e-4, atol=1e-4)
    for name in ("Height", "Weight"):
        assert not x[..., STARTS[name]].any()
    rest = [*range(2), *range(4, 49), *range(59, 76)]
    assert torch.equal(x[..., rest], raw[..., rest])
    assert set(x[..., rest].unique().tolist()) == {0.0, 1.0}


# --- files that are not what they should be ---------------------------------------------------


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "nowhere", tmp_path):
        with pytest.raises(DataError) as caught:
            mimic3_mortality(folder)
        assert available("mimic3_mortality", folder) == str(caught.value)
    assert "expected in-hospital-mortality/train/listfile.csv of MIMIC-III in" in str(caught.value)
    place = write_task(tmp_path / "in-hospital-mortality", stays(2), stays(1, first=2))
    (place / "test" / "listfile.csv").unlink()
    with pytest.raises(DataError, match=r"of MIMIC-III, but not test/listfile\.csv; write both"):
        mimic3_mortality(tmp_path)


def test_a_stay_without_a_file_is_named(tmp_path: Path) -> None:
    write_task(tmp_path, stays(2), stays(1, first=2))
    (tmp_path / "train" / "1_episode1_timeseries.csv").unlink()
    with pytest.raises(DataError, match=r"1_episode1_timeseries\.csv: cannot be read \(No such"):
        mimic3_mortality(tmp_path)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "has 1 lines; expected names of columns and a row"),
        ([["../b.csv", "0"]], r"line 2: the stay '\.\./b\.csv' is not the name of a file"),
        ([["", "0"]], "line 2: the stay '' is not the name of a file"),
        ([["a.csv", "2"]], "line 2: y_true is '2'; expected 0 or 1"),
        ([["a.csv", "0"], ["a.csv", "0"]], "line 3: names the stay 'a.csv' again"),
        ([["a.csv"]], "line 2: 1 values; expected 2, one for each"),
    ],
)
def test_a_list_that_is_wrong_is_refused(tmp_path: Path, rows: list[list[str]], why: str) -> None:
    write_task(tmp_path, stays(2), stays(1, first=2))
    path = write_csv(tmp_path / "train" / "listfile.csv", ["stay", "y_true"], rows)
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}.*{why}"):
        mimic3_mortality(tmp_path)


def test_lists_without_a_column_and_of_strangers_are_refused(tmp_path: Path) -> None:
    write_task(tmp_path, stays(2), stays(1, first=2))
    write_csv(tmp_path / "val_listfile.csv", ["stay", "y_true"], [["x.csv", "0"]])
    with pytest.raises(DataError, match=r"names 'x\.csv', which train/listfile\.csv does not"):
        mimic3_mortality(tmp_path)
    write_csv(tmp_path / "train" / "listfile.csv", ["stay", "y_tru"], [["a.csv", "0"]])
    with pytest.raises(DataError, match="has no column 'y_true'; did you mean 'y_tru'"):
        mimic3_mortality(tmp_path)


@pytest.mark.parametrize(
    ("hours", "event", "why"),
    [
        ("x", {}, "line 2: Hours is 'x'; expected a number"),
        ("", {}, "line 2: Hours is ''"),
        ("nan", {}, "line 2: Hours is 'nan'"),
        ("inf", {}, "line 2: Hours is 'inf'"),
        ("-0.5", {}, "line 2: Hours is '-0.5'"),
        ("1", {"Glucose": "high"}, "line 2: Glucose is 'high'; expected a finite number"),
        ("1", {"Glucose": "nan"}, "line 2: Glucose is 'nan'"),
        ("1", {"pH": "1e999"}, "line 2: pH is '1e999'"),
        ("1", {"Glascow coma scale total": "16"}, "is '16'; expected one of '11', '10'"),
        ("1", {"Glascow coma scale total": "nan"}, "is 'nan'; expected one of"),
        ("1", {"Glascow coma scale eye opening": "none"}, "is 'none'; expected one of 'To Pain'"),
    ],
)
def test_an_event_that_is_wrong_is_refused(
    tmp_path: Path, hours: str, event: Event, why: str
) -> None:
    with pytest.raises(DataError, match=f"a.csv.*{re.escape(why)}"):
        one(tmp_path, [(hours, event)])


def test_hours_that_run_back_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv, line 3: Hours is '1\.0'; expected"):
        one(tmp_path, [("1.5", {}), ("1.0", {})])


def test_a_file_cut_short_is_refused_or_ends_earlier(tmp_path: Path) -> None:
    """Text does not say where it ends: what is cut at the end of a line cannot be noticed."""
    write_task(tmp_path, {"a.csv": (0, NOTHING)}, {"b.csv": (1, NOTHING)})
    rows: list[tuple[str, Event]] = [("1.5", {"Glucose": "90"}), ("2.5", {"Glucose": "95"})]
    path = write_stay(tmp_path / "train" / "a.csv", rows)
    body = path.read_bytes()
    for size in range(0, len(body), 7):
        path.write_bytes(body[:size])
        with pytest.raises(DataError, match=re.escape(str(path))):
            mimic3_mortality(tmp_path)


@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b'"Hours', b"", b"Hours\n1\n"])
def test_what_is_no_series_is_refused(tmp_path: Path, body: bytes) -> None:
    write_task(tmp_path, {"a.csv": (0, NOTHING)}, {"b.csv": (1, NOTHING)})
    path = tmp_path / "train" / "a.csv"
    path.write_bytes(body)
    with pytest.raises(DataError, match=re.escape(str(path))):
        mimic3_mortality(tmp_path)
