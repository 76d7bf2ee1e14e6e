"""Data that nobody has divided: shares of each class, columns on one scale, views and speech."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.io import savemat
from scipy.sparse import csc_matrix

from colonnade.datasets import CALTECH_VIEWS, CATALOGUE, available, caltech7, parkinson
from colonnade.datasets.scaling import scaled
from colonnade.datasets.stratified import stratified
from colonnade.errors import ConfigurationError, DataError


@pytest.fixture(autouse=True)
def _no_data_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.get_closest_marker("data"):
        monkeypatch.delenv("COLONNADE_DATA", raising=False)


# --- training rows and test rows ----------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(2, 30), min_size=1, max_size=5),
    times=st.integers(1, 3),
    test=st.floats(0.05, 0.95),
    seed=st.integers(0, 5),
)
def test_every_class_gives_its_share_of_people_with_all_their_rows(
    sizes: list[int], times: int, test: float, seed: int
) -> None:
    per_person = np.repeat(np.arange(len(sizes)), sizes)
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(per_person)), times))
    labels = per_person[order]
    counts = [round(test * size) for size in sizes]
    if not all(0 < count < size for count, size in zip(counts, sizes, strict=True)):
        with pytest.raises(ConfigurationError, match=r"^test must be a share"):
            stratified("toy", labels, test, seed, order)
        return
    train, tested = stratified("toy", labels, test, seed, order)
    assert sorted([*train, *tested]) == list(range(len(labels)))
    assert not set(order[train]) & set(order[tested])
    for number, count in enumerate(counts):
        assert len(np.unique(order[tested][labels[tested] == number])) == count


def test_the_first_rows_of_any_number_are_a_fair_sample() -> None:
    labels = np.repeat([0, 1, 2], [60, 30, 300])
    for rows in stratified("toy", labels, 0.5, 0):
        for first in range(1, len(rows)):
            found = np.bincount(labels[rows[:first]], minlength=3)
            assert (np.abs(found - first * np.array([60, 30, 300]) / 390) <= 1.5).all()


def test_the_rows_of_a_person_stay_together() -> None:
    people = np.array([7, 7, 7, 5, 5, 5, 9, 9, 9])
    train, tested = stratified("toy", np.zeros(9, dtype=np.int64), 1 / 3, 0, people)
    assert [len(set(people[rows])) for rows in (train, tested)] == [2, 1]
    assert [len(set(people[train[first : first + 3]])) for first in (0, 3)] == [1, 1]


def test_a_division_depends_on_seed_and_name_alone() -> None:
    labels = np.arange(200) % 2
    first, again = (stratified("toy", labels, 0.3, 0) for _ in range(2))
    assert all(map(np.array_equal, first, again))
    for name, seed in (("toy", 1), ("other", 0)):
        assert not np.array_equal(stratified(name, labels, 0.3, seed)[1], first[1])


@pytest.mark.parametrize("share", [0, 1, -0.1, 0.001, float("nan")])
def test_a_share_that_leaves_nobody_is_refused(share: float) -> None:
    with pytest.raises(ConfigurationError, match=r"^test must be a share .* class 0 has 3$"):
        stratified("toy", np.repeat([0, 1], [3, 500]), share, 0)


def test_somebody_of_two_classes_is_refused() -> None:
    with pytest.raises(DataError, match="toy: rows about 4 are of different classes"):
        stratified("toy", np.array([0, 1, 1]), 0.5, 0, np.array([4, 3, 4]))


# --- scales -------------------------------------------------------------------------------------


def test_scales_are_what_training_rows_say() -> None:
    values = np.random.default_rng(0).normal(3, 2, (50, 4))
    values[:40, 2] = 5  # constant but for a test row
    values[45, 2] = 6
    rows = np.arange(40)
    keep = [0, 1, 3]
    standard, unit = scaled(values, rows, "standard"), scaled(values, rows, "unit")
    np.testing.assert_allclose(standard[:40, keep].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(standard[:40, keep].std(0), 1)
    assert unit[:40, keep].min(0).tolist() == [0, 0, 0]
    assert unit[:40, keep].max(0).tolist() == [1, 1, 1]
    for found in (standard, unit):
        assert not found[:, 2].any()
        for column in keep:
            slope, offset = np.polyfit(values[rows, column], found[rows, column], 1)
            line = slope * values[:, column] + offset
            np.testing.assert_allclose(found[:, column], line, atol=1e-12)
    assert scaled(values, rows, "none") is values


@pytest.mark.parametrize("load", [caltech7, parkinson])
def test_a_scale_that_is_none_is_named(load: Any) -> None:
    with pytest.raises(ConfigurationError, match="there is no scale 'log'; expected one of 'stand"):
        load(scale="log")


# --- pictures of seven things -------------------------------------------------------------------

SIZES = (9, 12, 3, 3, 4, 3, 3)


def write_caltech(folder: Path, **change: Any) -> Path:
    """Write a small file of the format, its views in another order than in the loader."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(1, 8), SIZES)
    cells = np.empty((1, 6), dtype=object)
    for place, width in enumerate(reversed(CALTECH_VIEWS.values())):
        cells[0, place] = random.normal(size=(len(labels), width))
        cells[0, place][:, 0] = np.arange(len(labels))
    content = {"X": cells, "Y": labels[:, None].astype(np.float64), **change}
    folder.mkdir(exist_ok=True)
    path = folder / "Caltech101-7.mat"
    savemat(path, {k: v for k, v in content.items() if v is not None}, do_compression=True)
    return path


@pytest.mark.parametrize("subfolder", ["", "caltech", "caltech7"])
def test_each_party_has_a_view(tmp_path: Path, subfolder: str) -> None:
    write_caltech(tmp_path / subfolder)
    assert available("caltech7", tmp_path) is None
    found = caltech7(tmp_path, scale="none", test=0.5)
    assert {name: x.shape for name, x in found.features.items()} == {
        name: (sum(SIZES), width) for name, width in CALTECH_VIEWS.items()
    }
    for view in found.features.values():
        assert view[:, 0].tolist() == list(range(sum(SIZES)))
    assert found.labels.tolist() == np.repeat(range(7), SIZES).tolist()
    assert np.bincount(found.labels[found.test]).tolist() == [round(n / 2) for n in SIZES]


def test_views_are_scaled_by_training_rows(tmp_path: Path) -> None:
    write_caltech(tmp_path)
    found = caltech7(tmp_path, scale="unit", test=0.5)
    for view in found.features.values():
        training = view[found.train]
        assert (training.min(), training.max()) == (0, 1)
    standard = caltech7(tmp_path, test=0.5).features["wm"][found.train].double()
    torch.testing.assert_close(standard.std(0, correction=0), torch.ones(40).double())


def test_caltech7_is_what_the_catalogue_says() -> None:
    info = CATALOGUE["caltech7"]
    assert (info.rows, info.columns) == (435 + 798 + 52 + 34 + 35 + 64 + 56, 3766)
    assert info.parties == "gabor, wm, centrist, hog, gist, lbp"


def sparse_views() -> NDArray[Any]:
    cells = np.empty((1, 6), dtype=object)
    for place, width in enumerate(CALTECH_VIEWS.values()):
        cells[0, place] = csc_matrix((sum(SIZES), width))
    return cells


def with_view(value: float) -> NDArray[Any]:
    cells = np.empty((1, 6), dtype=object)
    for place, width in enumerate(CALTECH_VIEWS.values()):
        cells[0, place] = np.zeros((sum(SIZES), width))
    cells[0, 1][2, 3] = value
    return cells


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": None}, "no variable X"),
        ({"Y": None}, "no variable Y"),
        (
            {"X": np.zeros((35, 5))},
            r"X holds 0 arrays of \[\] columns; expected the views of \[40,",
        ),
        ({"X": with_view(np.nan)}, "wm holds nan in row 2, column 3"),
        ({"X": with_view(1e200)}, r"wm holds 1e\+200 in row 2, column 3; expected numbers up to"),
        ({"X": sparse_views()}, "X holds 6 arrays of"),
        ({"Y": np.ones(sum(SIZES)) * 1j}, "Y holds complex128; expected a label for each row"),
        ({"Y": np.repeat(np.arange(7), SIZES)}, "Y holds 7 different labels; expected each of 1"),
        ({"Y": np.ones(sum(SIZES))}, "Y holds 1 different labels"),
        ({"Y": np.repeat(np.arange(1, 8), 3)}, "gabor has 37 rows of float64; expected 21"),
    ],
)
def test_another_file_of_views_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = write_caltech(tmp_path, **change)
    with pytest.raises(DataError, match=message) as caught:
        caltech7(tmp_path, test=0.5)
    assert str(path) in str(caught.value)


def test_a_file_that_is_none_of_matlab_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Caltech101-7.mat").write_bytes(b"views")
    with pytest.raises(DataError, match="cannot be read as a file of MATLAB"):
        caltech7(tmp_path)


# --- speech -------------------------------------------------------------------------------------

NAMES = ["gender", "PPE", "DFA", *(f"tqwt_{number}" for number in range(20))]


def speech_lines(people: int = 20) -> tuple[list[str], NDArray[np.float64]]:
    """UCI's form: three lines of each person, of whom one in four is healthy."""
    values = np.random.default_rng(0).normal(size=(3 * people, len(NAMES)))
    values[:, 0] = np.repeat(np.arange(people) % 2, 3)
    lines = [",,Baseline Features,," + "," * 20, ",".join(["id", *NAMES, "class"])]
    lines += [
        f"{row // 3},{','.join(map(repr, values[row].tolist()))},{int(row // 3 % 4 > 0)}"
        for row in range(3 * people)
    ]
    return lines, values


def write_speech(folder: Path, lines: list[str] | None = None, suffix: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"pd_speech_features.csv{suffix}"
    body = ("\n".join(lines or speech_lines()[0]) + "\n").encode()
    path.write_bytes(gzip.compress(body, mtime=0) if suffix else body)
    return path


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("subfolder", ["", "parkinson"])
def test_parties_share_the_columns_of_speech(tmp_path: Path, subfolder: str, suffix: str) -> None:
    lines, values = speech_lines()
    write_speech(tmp_path / subfolder, lines, suffix)
    assert available("parkinson", tmp_path) is None
    found = parkinson(tmp_path, scale="none")
    assert list(found.features) == [f"party_{number}" for number in range(1, 11)]
    assert [x.shape[1] for x in found.features.values()] == [3, 3, 3, *[2] * 7]
    assert torch.equal(torch.cat([*found.features.values()], 1), torch.from_numpy(values).float())
    assert found.labels.tolist() == [int(row // 3 % 4 > 0) for row in range(60)]
    # Nobody is both trained and tested on.
    assert len(found.test) == 3 * (round(0.3 * 15) + round(0.3 * 5))
    assert not {row // 3 for row in found.train} & {row // 3 for row in found.test}
    assert "a row for each time" in found.notes


def test_a_line_of_names_alone_will_do(tmp_path: Path) -> None:
    write_speech(tmp_path / "one")
    write_speech(tmp_path / "other", speech_lines()[0][1:])
    one, other = (parkinson(tmp_path / name) for name in ("one", "other"))
    assert all(map(torch.equal, one.features.values(), other.features.values()))
    assert np.array_equal(one.test, other.test)


@pytest.mark.parametrize("name", ["pd_speech.csv", "pd_speech_252x752.csv"])
def test_speech_averaged_over_the_times(tmp_path: Path, name: str) -> None:
    rows = [f"{i},{i % 2},{i}.5,{('PD', 'control')[i % 4 == 0]}" for i in range(1, 21)]
    (tmp_path / name).write_text("rownames,gender,PPE,class\n" + "\n".join(rows))
    found = parkinson(tmp_path, parties=2, scale="none")
    assert found.features["party_2"][:, 0].tolist() == [i + 0.5 for i in range(1, 21)]
    assert found.labels.tolist() == [int(i % 4 > 0) for i in range(1, 21)]
    assert "averaged" in found.notes
    write_speech(tmp_path)  # UCI's goes before it
    assert len(parkinson(tmp_path).labels) == 60


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (2, "0,1,2", "line 3: 3 values; expected 25, one for each column"),
        (5, ",".join(["1"] * 24 + ["2"]), "line 6: class is '2'; expected 0 or 1, or control"),
        (5, ",".join(["1", "x", *["1"] * 23]), "line 6: gender is 'x'; expected a finite number"),
        (5, ",".join(["1", "1", "inf", *["1"] * 22]), "line 6: PPE is 'inf'"),
        (1, ",".join(["who", *NAMES, "class"]), "no table of Parkinson speech; expected a column"),
        (1, ",".join(["id", *NAMES, "status"]), "no table of Parkinson speech"),
        (5, '1,"1', "is not comma-separated text"),
        (5, ",".join(["0", *["1"] * 23, "1"]), "rows about 0 are of different classes"),
    ],
)
def test_another_table_of_speech_is_refused(
    tmp_path: Path, line: int, text: str, message: str
) -> None:
    lines, _ = speech_lines()
    lines[line] = text
    write_speech(tmp_path, lines)
    with pytest.raises(DataError, match=message):
        parkinson(tmp_path)


def test_a_damaged_file_of_speech_is_named(tmp_path: Path) -> None:
    path = write_speech(tmp_path, suffix=".gz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"pd_speech_features\.csv\.gz cannot be read"):
        parkinson(tmp_path)
    (tmp_path / "pd_speech_features.csv").write_text(",,\n")
    with pytest.raises(DataError, match="no table of Parkinson speech"):
        parkinson(tmp_path)


@pytest.mark.parametrize("parties", [0, 24])
def test_more_parties_than_columns_are_refused(tmp_path: Path, parties: int) -> None:
    write_speech(tmp_path)
    with pytest.raises(ConfigurationError, match=f"among 1 to 23 parties, not {parties}"):
        parkinson(tmp_path, parties=parties)


@pytest.mark.data
def test_real_speech() -> None:
    folder = os.environ.get("COLONNADE_DATA")
    if not folder:
        pytest.skip("COLONNADE_DATA names no folder with the public tables")
    found = parkinson(folder)
    assert (
        repr(found) == "VerticalDataset('Parkinson speech', 10 parties, 177 + 75 rows, 2 classes)"
    )
    assert [x.shape[1] for x in found.features.values()] == [76, *[75] * 9]
    assert int(found.labels.sum()) == 188
    # Frozen: published results must not move.
    assert found.test[:5].tolist() == [67, 245, 202, 80, 182]
