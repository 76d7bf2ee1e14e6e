"""Tables and views as data sets: read strictly, cut among the right parties, and listed.

OpenML is read through scikit-learn's own cache, written here as scikit-learn writes it, so all of
its own code runs but the network's.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from scipy.io import savemat
from sklearn.datasets import fetch_openml
from sklearn.datasets._openml import OpenMLError

from colonnade.datasets import (
    CATALOGUE,
    CREDIT_COLUMNS,
    VerticalDataset,
    available,
    caltech7,
    credit_columns,
    credit_default,
    credit_tables,
    handwritten,
    mnist_anywhere,
    openml,
    openml_table,
    parkinson,
    with_logarithms,
)
from colonnade.datasets.files import data_folder, plain_or_packed
from colonnade.datasets.handwritten import VIEWS
from colonnade.errors import ConfigurationError, DataError
from colonnade.tables import HashSplit, TableTransformer


@pytest.fixture(autouse=True)
def _no_data_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.get_closest_marker("data"):
        monkeypatch.delenv("COLONNADE_DATA", raising=False)


@pytest.fixture
def real() -> Path:
    folder = os.environ.get("COLONNADE_DATA")
    if not folder:
        pytest.skip("COLONNADE_DATA names no folder with the public tables")
    return Path(folder)


# --- folders ------------------------------------------------------------------------------------


def test_the_folder_given_goes_before_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    (tmp_path / "own").mkdir()
    assert data_folder("toys", None) == tmp_path
    assert data_folder("toys", tmp_path / "own") == tmp_path / "own"


def test_the_plain_file_goes_before_the_packed_one(tmp_path: Path) -> None:
    assert plain_or_packed(tmp_path / "a.csv") is None
    (tmp_path / "a.csv.gz").touch()
    assert plain_or_packed(tmp_path / "a.csv") == tmp_path / "a.csv.gz"
    (tmp_path / "a.csv").touch()
    assert plain_or_packed(tmp_path / "a.csv") == tmp_path / "a.csv"


@pytest.mark.parametrize("load", [handwritten, credit_default, credit_tables, caltech7, parkinson])
def test_no_folder_a_wrong_one_and_an_empty_one(load: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none was given.*--data or in the environment variable"):
        load()
    with pytest.raises(DataError, match="nowhere: there is no such folder to read"):
        load(tmp_path / "nowhere")
    with pytest.raises(
        DataError, match=r"which has n(either|one): put .* name another folder"
    ) as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


# --- handwritten digits -------------------------------------------------------------------------


def digit_views() -> dict[str, NDArray[np.float64]]:
    """Views of 2000 rows: the first column is the row's number, the last constant."""
    random = np.random.default_rng(0)
    views = {name: random.normal(size=(2000, width)) for name, width in VIEWS.items()}
    for x in views.values():
        x[:, 0] = np.arange(2000)
        x[:, -1] = 3
    return views


def write_matlab(folder: Path, **change: Any) -> Path:
    """Write the file as it is passed around: views in another order than UCI's, labels from 1."""
    cells = np.empty((1, 6), dtype=object)
    views = digit_views()
    for place, name in enumerate(("pix", "fou", "fac", "zer", "kar", "mor")):
        cells[0, place] = views[name]
    content = {"X": cells, "Y": np.arange(1, 11).repeat(200)[:, None], **change}
    folder.mkdir(exist_ok=True)
    savemat(folder / "handwritten.mat", {k: v for k, v in content.items() if v is not None})
    return folder / "handwritten.mat"


def write_uci(folder: Path, suffix: str = "") -> None:
    folder.mkdir(exist_ok=True)
    for name, x in digit_views().items():
        np.savetxt(folder / f"mfeat-{name}{suffix}", x, fmt="%.6f")


def test_views_are_told_apart_by_their_width(tmp_path: Path) -> None:
    write_matlab(tmp_path)
    found = handwritten(tmp_path, scale="none")
    assert found.parties == ("fou", "fac", "kar", "pix", "zer", "mor")
    for name, x in digit_views().items():
        assert torch.equal(found.features[name], torch.from_numpy(x).float())
    assert found.labels.tolist() == np.arange(10).repeat(200).tolist()
    assert found.classes == 10


@pytest.mark.parametrize(("subfolder", "suffix"), [("", ""), ("mfeat", ".gz")])
def test_the_files_of_uci_say_the_same(tmp_path: Path, subfolder: str, suffix: str) -> None:
    write_matlab(tmp_path / "matlab")
    write_uci(tmp_path / subfolder, suffix)
    one, other = handwritten(tmp_path / "matlab"), handwritten(tmp_path)
    assert one.parties == other.parties
    for name in one.parties:
        torch.testing.assert_close(one.features[name], other.features[name], rtol=0, atol=1e-4)
    assert torch.equal(one.labels, other.labels)
    assert np.array_equal(one.test, other.test)


def test_columns_are_standardised_by_training_rows(tmp_path: Path) -> None:
    write_matlab(tmp_path)
    plain, scaled = handwritten(tmp_path, scale="none"), handwritten(tmp_path)
    for name in scaled.parties:
        training = scaled.features[name][scaled.train].double()
        torch.testing.assert_close(training[:, :-1].mean(0), torch.zeros(VIEWS[name] - 1).double())
        torch.testing.assert_close(
            training[:, :-1].std(0, correction=0), torch.ones(VIEWS[name] - 1).double()
        )
        assert not scaled.features[name][:, -1].any()  # it never varies
    # Test rows go through the same line as training rows.
    x, y = (data.features["mor"][:, 0].double().numpy() for data in (plain, scaled))
    slope, offset = np.polyfit(x[plain.train], y[plain.train], 1)
    np.testing.assert_allclose(y[plain.test], slope * x[plain.test] + offset, atol=1e-5)


@pytest.mark.parametrize(("share", "tests"), [(0.2, 40), (0.005, 1), (0.5, 100), (0.995, 199)])
def test_each_digit_has_its_share_of_tests_and_the_digits_take_turns(
    tmp_path: Path, share: float, tests: int
) -> None:
    write_matlab(tmp_path)
    found = handwritten(tmp_path, test=share)
    assert np.bincount(found.labels[found.test]).tolist() == [tests] * 10
    assert np.bincount(found.labels[found.train]).tolist() == [200 - tests] * 10
    for rows in (found.train, found.test):
        assert found.labels[rows][:10].tolist() == list(range(10))
    assert sorted([*found.train, *found.test]) == list(range(2000))


def test_the_test_rows_are_always_the_same_and_change_with_the_seed(tmp_path: Path) -> None:
    write_matlab(tmp_path)
    first, again, other = (handwritten(tmp_path, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)
    # Frozen: published results must not move.
    assert first.test[:10].tolist() == [96, 397, 463, 656, 815, 1110, 1396, 1519, 1681, 1827]


@pytest.mark.parametrize("share", [0, 1, -0.1, 0.0001, 0.9999, float("nan")])
def test_a_share_that_leaves_nobody_is_refused(tmp_path: Path, share: float) -> None:
    write_matlab(tmp_path)
    with pytest.raises(ConfigurationError, match="test must be a share"):
        handwritten(tmp_path, test=share)


def cells_of(*widths: int) -> NDArray[Any]:
    cells = np.empty((1, len(widths)), dtype=object)
    for place, width in enumerate(widths):
        cells[0, place] = np.zeros((2000, width))
    return cells


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": None}, "no variable X"),
        ({"Y": None}, "no variable Y"),
        ({"X": np.zeros((2000, 5))}, r"X holds 0 arrays of \[\] columns; expected the views"),
        ({"X": cells_of(76, 216, 64, 240, 47)}, "X holds 5 arrays"),
        ({"X": cells_of(76, 216, 64, 240, 47, 7)}, "expected the views of"),
        ({"X": cells_of(76, 216, 64, 240, 47, 6, 6)}, "X holds 7 arrays"),
        ({"Y": np.arange(10).repeat(200)}, "each of 1 to 10, which stand for the digits 0 to 9"),
        ({"Y": np.arange(1, 11).repeat(199)}, "Y holds 1990 labels"),
    ],
)
def test_a_matlab_file_of_something_else_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = write_matlab(tmp_path, **change)
    with pytest.raises(DataError, match=message) as caught:
        handwritten(tmp_path)
    assert str(path) in str(caught.value)


def test_values_that_are_not_finite_and_missing_rows_are_refused(tmp_path: Path) -> None:
    cells = cells_of(*VIEWS.values())
    cells[0, 2][7, 5] = np.inf
    write_matlab(tmp_path, X=cells)
    with pytest.raises(DataError, match="kar holds inf in row 7, column 5; expected numbers up to"):
        handwritten(tmp_path)
    cells[0, 2] = cells[0, 2][:1999]
    write_matlab(tmp_path, X=cells)
    with pytest.raises(DataError, match="kar has 1999 rows of float64; expected 2000 of numbers"):
        handwritten(tmp_path)


@pytest.mark.parametrize("keep", [0, 100, 200, 5000])
def test_a_matlab_file_cut_short_is_refused(tmp_path: Path, keep: int) -> None:
    path = write_matlab(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"handwritten\.mat"):
        handwritten(tmp_path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "mfeat-zer has 0 columns|mfeat-zer has 1 columns; expected 47"),
        ("1 2 3\n", "mfeat-zer has 3 columns; expected 47"),
        ("1 2 3\n1 2\n", "mfeat-zer cannot be read as a table of numbers"),
        ("1 two 3\n", "mfeat-zer cannot be read as a table of numbers"),
        (" ".join(["1"] * 47) + "\n", "zer has 1 rows of float64; expected 2000"),
    ],
)
def test_a_file_of_uci_with_something_else_is_refused(
    tmp_path: Path, body: str, message: str
) -> None:
    write_uci(tmp_path)
    (tmp_path / "mfeat-zer").write_text(body)
    with pytest.raises(DataError, match=message):
        handwritten(tmp_path)


def test_a_file_of_uci_that_is_missing_is_named(tmp_path: Path) -> None:
    write_uci(tmp_path)
    (tmp_path / "mfeat-kar").unlink()
    with pytest.raises(DataError, match="but not mfeat-kar; put all six"):
        handwritten(tmp_path)


# --- credit card clients ------------------------------------------------------------------------

LABEL = "default.payment.next.month"


def clients(rows: int = 30_000) -> pl.DataFrame:
    """A table of clients with a category that occurs once, in a row of the test part."""
    number = np.arange(1, rows + 1)
    rare = HashSplit().rows(pl.Series(number))[2][0]
    columns: dict[str, Any] = {"ID": number}
    for names in CREDIT_COLUMNS.values():
        for place, name in enumerate(names):
            columns[name] = number // (place + 1) % 4
    for name in columns:
        if name.startswith(("LIMIT", "BILL", "PAY_AMT")):
            columns[name] = columns[name] * 1000 - 500
    columns["PAY_6"] = np.where(np.arange(rows) == rare, 8, columns["PAY_6"])
    columns[LABEL] = number % 5 == 0
    return pl.DataFrame(columns).with_columns(pl.col(LABEL).cast(pl.Int64))


def write_clients(folder: Path, frame: pl.DataFrame, suffix: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"UCI_Credit_Card.csv{suffix}"
    body = frame.write_csv().encode()
    path.write_bytes(gzip.compress(body, mtime=0) if suffix else body)
    return path


def test_every_column_of_the_clients_belongs_to_one_company() -> None:
    every = [name for names in CREDIT_COLUMNS.values() for name in names]
    assert len(every) == len(set(every)) == 23
    assert list(CREDIT_COLUMNS) == ["bank", "bureau", "processor"]


@pytest.mark.parametrize(("subfolder", "suffix"), [("", ""), ("credit", ".gz")])
def test_the_companies_tables(tmp_path: Path, subfolder: str, suffix: str) -> None:
    whole = clients()
    write_clients(tmp_path / subfolder, whole, suffix)
    tables, labels = credit_tables(tmp_path)
    assert {company: tuple(t.columns) for company, t in tables.items()} == {
        company: ("ID", *names) for company, names in CREDIT_COLUMNS.items()
    }
    joined = labels
    for table in tables.values():
        joined = joined.join(table, on="ID")
    assert joined.select(whole.columns).equals(whole)


def test_clients_as_features(tmp_path: Path) -> None:
    write_clients(tmp_path, clients())
    found = credit_default(tmp_path, split=HashSplit(validation=0.2, test=0.1, seed=3))
    assert found.parties == ("bank", "bureau", "processor")
    assert found.classes == (0, 1)
    expected = HashSplit(validation=0.2, test=0.1, seed=3).rows(clients()["ID"])
    for rows, part in zip((found.train, found.validation, found.test), expected, strict=True):
        assert np.array_equal(rows, part)
    names = {party: found.transformers[party].feature_names for party in found.parties}
    assert {"LIMIT_BAL", "log BILL_AMT6", "AGE", "SEX=1", "MARRIAGE=0"} <= set(names["bank"])
    assert all("=" in name for name in names["bureau"])
    assert "log PAY_AMT1" in names["processor"]
    assert not any("AGE" in name and "log" in name for name in names["bank"])


def test_a_status_unseen_in_training_is_all_zeros(tmp_path: Path) -> None:
    write_clients(tmp_path, clients())
    found = credit_default(tmp_path)
    names = found.transformers["bureau"].feature_names
    assert "PAY_6=8" not in names
    own = [place for place, name in enumerate(names) if name.startswith("PAY_6=")]
    sums = found.features["bureau"][:, own].sum(1)
    rare = int((sums == 0).nonzero())
    assert rare == found.test[0]
    assert found.ids[rare] == clients().filter(pl.col("PAY_6") == 8)["ID"][0]


def test_a_company_may_have_a_transformer_of_its_own(tmp_path: Path) -> None:
    write_clients(tmp_path, clients())
    numbers = TableTransformer(scale="none", ignore=["PAY_2"])
    found = credit_default(tmp_path, transformers={"bureau": numbers})
    assert found.transformers["bureau"].feature_names == (
        "PAY_0",
        "PAY_3",
        "PAY_4",
        "PAY_5",
        "PAY_6",
    )
    assert found.features["bank"].shape[1] > 11
    with pytest.raises(ConfigurationError, match="name 'broker'; there are 'bank', 'bur"):
        credit_default(tmp_path, transformers={"broker": numbers})


def test_any_number_of_parties_share_the_columns_of_the_clients(tmp_path: Path) -> None:
    every = sorted(name for names in CREDIT_COLUMNS.values() for name in names)
    for parties in range(1, 24):
        shared = credit_columns(parties)
        assert list(shared) == [f"party_{number}" for number in range(1, parties + 1)]
        assert sorted(name for names in shared.values() for name in names) == every
        widths = [len(names) for names in shared.values()]
        assert max(widths) - min(widths) <= 1
        assert widths == sorted(widths, reverse=True)
    with pytest.raises(ConfigurationError, match="among 1 to 23 parties, not 24"):
        credit_columns(24)
    with pytest.raises(ConfigurationError, match="among 1 to 23 parties, not 0"):
        credit_default(tmp_path, parties=0)

    whole = clients()
    write_clients(tmp_path, whole)
    tables, labels = credit_tables(tmp_path, parties=11)
    in_order = [name for table in tables.values() for name in table.columns[1:]]
    assert in_order[:3] + in_order[10:13] == [
        *("LIMIT_BAL", "SEX", "EDUCATION"),
        *("PAY_6", "BILL_AMT1", "BILL_AMT2"),
    ]
    assert labels.columns == ["ID", LABEL]

    found = credit_default(tmp_path, parties=11, scale="unit")
    assert found.parties == tuple(credit_columns(11))
    assert {"LIMIT_BAL", "log LIMIT_BAL", "SEX=1"} <= set(
        found.transformers["party_1"].feature_names
    )
    for party in found.parties:
        training = found.features[party][found.train]
        assert (training.min(), training.max()) == (0, 1)
    with pytest.raises(ConfigurationError, match="name 'bank'; there are 'party_1', 'party_2'"):
        credit_default(tmp_path, parties=2, transformers={"bank": TableTransformer()})


def test_new_clients_go_through_logarithms_first(tmp_path: Path) -> None:
    write_clients(tmp_path, clients())
    found = credit_default(tmp_path)
    tables, _ = credit_tables(tmp_path)
    new = {company: with_logarithms(table.head(3)) for company, table in tables.items()}
    _, features = found.transform(new)
    for party in found.parties:
        assert torch.equal(features[party], found.features[party][:3])


def test_logarithms_keep_sign_and_order() -> None:
    amounts = pl.DataFrame({"BILL_AMT1": [-1000, -1, 0, 1, 1_000_000], "AGE": [1, 2, 3, 4, 5]})
    log = with_logarithms(amounts)["log BILL_AMT1"].to_numpy()
    np.testing.assert_allclose(np.sign(log) * np.expm1(np.abs(log)), amounts["BILL_AMT1"])
    assert with_logarithms(amounts).columns == ["BILL_AMT1", "AGE", "log BILL_AMT1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop("PAY_4"), "has no column 'PAY_4'"),
        (lambda frame: frame.drop("ID"), "has no column 'ID'"),
        (lambda frame: frame.head(10), "has 10 rows; expected 30000 clients"),
        (
            lambda frame: frame.with_columns(AGE=pl.lit("old")),
            "column 'AGE' holds String with 0 missing values",
        ),
        (
            lambda frame: frame.with_columns(AGE=pl.when(pl.col("ID") > 1).then("AGE")),
            "column 'AGE' holds Int64 with 1 missing values",
        ),
        (
            lambda frame: frame.with_columns(pl.col(LABEL) + 1),
            f"column '{LABEL}' holds 2; expected 0, 1",
        ),
    ],
)
def test_another_table_of_clients_is_refused(
    tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    path = write_clients(tmp_path, change(clients()))
    with pytest.raises(DataError, match=message) as caught:
        credit_default(tmp_path)
    assert str(path) in str(caught.value)


# --- OpenML -------------------------------------------------------------------------------------

ARFF = """@RELATION toy
@ATTRIBUTE row INTEGER
@ATTRIBUTE age REAL
@ATTRIBUTE city {Rome,'New York',Oslo}
@ATTRIBUTE member {no,yes}
@ATTRIBUTE income REAL
@ATTRIBUTE class {bad,good}
@DATA
"""
CITIES = ("Rome", "New York", "Oslo")
KINDS = {
    "row": "numeric",
    "age": "numeric",
    "city": "nominal",
    "member": "nominal",
    "income": "numeric",
    "class": "nominal",
}


def toy_lines(rows: int = 60) -> list[str]:
    """Row 1 has no age, row 2 no city."""
    return [
        ",".join(
            [
                str(i),
                "?" if i == 1 else f"{20 + i}",
                "?" if i == 2 else f"'{CITIES[i % 3]}'",
                ("no", "yes")[i % 2],
                f"{i * 10}.5",
                ("bad", "good")[i % 2],
            ]
        )
        for i in range(rows)
    ]


def write_openml(
    folder: Path,
    name: str = "toy",
    *,
    targets: Sequence[str] = ("class",),
    kinds: Mapping[str, str] = KINDS,
    header: str = ARFF,
    lines: Sequence[str] | None = None,
    version: int | None = None,
    kind: str = "ARFF",
) -> None:
    """Write what scikit-learn keeps of a data set: four answers of the server, and the file."""
    lines = toy_lines() if lines is None else lines
    body = (header + "\n".join(lines) + "\n").encode()
    features = [
        {
            "index": str(index),
            "name": column,
            "data_type": data_type,
            "is_target": str(column in targets).lower(),
            "is_ignore": "false",
            "is_row_identifier": str(column == "row").lower(),
            "number_of_missing_values": str(int(column in ("age", "city"))),
        }
        for index, (column, data_type) in enumerate(kinds.items())
    ]
    found = {"did": 7, "name": name, "version": version or 1, "status": "active"}
    description = {
        "id": "7",
        "name": name,
        "version": "1",
        "description": "A toy.",
        "format": kind,
        "status": "active",
        "url": "https://api.openml.org/data/v1/download/70/toy.arff",
        "md5_checksum": hashlib.md5(body, usedforsecurity=False).hexdigest(),
    }
    which = "status/active" if version is None else f"data_version/{version}"
    quality = [{"name": "NumberOfInstances", "value": str(len(lines))}]
    answers = {
        f"list/data_name/{name}/limit/2/{which}" + ("/" if version is None else ""): {
            "data": {"dataset": [found]}
        },
        "7": {"data_set_description": description},
        "features/7": {"data_features": {"feature": features}},
        "qualities/7": {"data_qualities": {"quality": quality}},
    }
    files = {f"api/v1/json/data/{k}": json.dumps(v).encode() for k, v in answers.items()}
    files["data/v1/download/70/toy.arff"] = body
    for path, content in files.items():
        place = Path(f"{folder}/openml/openml.org/{path}.gz")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(gzip.compress(content, mtime=0))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test never leaves the machine, nor waits, nor sees the user's own cache."""

    def refuse(request: Any) -> Any:
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", refuse)
    monkeypatch.setattr("sklearn.datasets._openml.time.sleep", lambda seconds: None)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "scikit-learn"))


def test_a_table_of_openml(tmp_path: Path) -> None:
    write_openml(tmp_path)
    frame, target = openml_table("toy", folder=tmp_path)
    assert target == "class"
    assert frame.columns == ["age", "city", "member", "income", "class"]  # not the row's number
    assert frame["age"].to_list()[:4] == [20, None, 22, 23]
    assert frame["city"].to_list()[:5] == ["Rome", "New York", None, "Rome", "New York"]
    assert frame["member"].to_list()[:3] == ["no", "yes", "no"]
    assert frame["class"].to_list()[:3] == ["bad", "good", "bad"]
    assert frame["income"].to_list()[:2] == [0.5, 10.5]
    assert [str(dtype) for dtype in frame.dtypes] == [
        "Float64",
        "String",
        "String",
        "Float64",
        "String",
    ]


def test_the_cache_is_also_found_by_the_environment_and_where_scikit_learn_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_openml(tmp_path / "named")
    write_openml(tmp_path / "scikit-learn", lines=toy_lines(30))
    assert len(openml_table("toy")[0]) == 30
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path / "empty"))
    assert len(openml_table("toy")[0]) == 30
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path / "named"))
    assert len(openml_table("toy")[0]) == 60


def test_a_version_and_names_in_capitals(tmp_path: Path) -> None:
    write_openml(tmp_path, version=3)
    assert openml_table("Toy", 3, folder=tmp_path)[1] == "class"
    with pytest.raises(DataError, match="'toy', version 4 could not be fetched"):
        openml_table("toy", 4, folder=tmp_path)


def test_another_target_and_some_columns(tmp_path: Path) -> None:
    write_openml(tmp_path)
    frame, target = openml_table("toy", target="income", columns=["class", "age"], folder=tmp_path)
    assert (target, frame.columns) == ("income", ["class", "age", "income"])
    assert frame["class"].to_list()[:2] == ["bad", "good"]
    with pytest.raises(DataError, match="has no column 'agee'; did you mean 'age'"):
        openml_table("toy", columns=["agee"], folder=tmp_path)
    with pytest.raises(DataError, match="columns names column 'age' twice"):
        openml_table("toy", columns=["age", "age"], folder=tmp_path)
    with pytest.raises(DataError, match="OpenML's 'toy' has no column 'wealth' to predict"):
        openml_table("toy", target="wealth", folder=tmp_path)


@pytest.mark.parametrize(
    ("targets", "message"),
    [((), "names no target for 'toy'"), (("class", "member"), "the targets 'member', 'class'")],
)
def test_the_target_must_be_one(tmp_path: Path, targets: tuple[str, ...], message: str) -> None:
    write_openml(tmp_path, targets=targets)
    with pytest.raises(DataError, match=f"{message}.*; say which column to predict by target=..."):
        openml_table("toy", folder=tmp_path)


def test_columns_are_divided_among_parties(tmp_path: Path) -> None:
    write_openml(tmp_path)
    found = openml(
        "toy",
        {"shop": ["member", "age"], "town": ["city", "age"]},
        folder=tmp_path,
        split=HashSplit(validation=0.2, test=0.2, seed=2),
    )
    assert found.parties == ("shop", "town")
    assert found.columns == {"shop": ("member", "age"), "town": ("city", "age")}
    assert found.classes == ("bad", "good")
    assert found.labels.tolist()[:4] == [0, 1, 0, 1]
    assert found.ids is None
    assert len(found.train) + len(found.validation) + len(found.test) == 60
    assert "city=New York" in found.transformers["town"].feature_names


def test_numbers_of_openml_can_be_predicted(tmp_path: Path) -> None:
    write_openml(tmp_path)
    parties = {"shop": ["age", "class"]}
    found = openml("toy", parties, target="income", folder=tmp_path)
    assert found.classes is None
    assert found.labels[:2].tolist() == [0.5, 10.5]


@pytest.mark.parametrize(
    ("parties", "error", "message"),
    [
        ({}, ConfigurationError, "parties are empty"),
        ({"shop": []}, ConfigurationError, "party 'shop' of 'toy' needs a list of columns"),
        ({"shop": "age"}, ConfigurationError, "needs a list of columns, not 'age'"),
        ({"shop": ["class"]}, ConfigurationError, "'class', which is what is to be predicted"),
        ({"shop": ["age", "age"]}, DataError, "names column 'age' twice"),
        ({"shop": ["Age"]}, DataError, "OpenML's 'toy' has no column 'Age'; did you mean 'age'"),
    ],
)
def test_parties_that_cannot_be_are_refused(
    tmp_path: Path, parties: Any, error: type[Exception], message: str
) -> None:
    write_openml(tmp_path)
    with pytest.raises(error, match=message):
        openml("toy", parties, folder=tmp_path)


def test_without_network_and_cache_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        openml("adult", {"shop": ["age"]}, folder=tmp_path)
    message = str(caught.value)
    assert message.startswith("'adult' could not be fetched from OpenML (no route to host)")
    assert "a folder with the subfolder 'openml'" in message
    assert "\n" not in message


def test_a_data_set_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**settings: Any) -> Any:
        raise OpenMLError(f"No active dataset {settings['name']} found.")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)
    with pytest.raises(DataError, match="OpenML's 'toyy' cannot be read: No active dataset toyy"):
        openml_table("toyy")


@pytest.mark.filterwarnings("ignore:Invalid cache:RuntimeWarning")
def test_a_file_that_is_damaged_is_not_believed(tmp_path: Path) -> None:
    write_openml(tmp_path)
    path = tmp_path / "openml/openml.org/data/v1/download/70/toy.arff.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"21", b"12")))
    with pytest.raises(DataError, match="toy"):
        openml_table("toy", folder=tmp_path)


def test_sparse_data_are_refused(tmp_path: Path) -> None:
    write_openml(
        tmp_path,
        kinds={"a": "numeric", "class": "nominal"},
        header="@RELATION toy\n@ATTRIBUTE a REAL\n@ATTRIBUTE class {bad,good}\n@DATA\n",
        lines=["{0 1.5,1 bad}", "{1 good}"],
        kind="Sparse_ARFF",
    )
    with pytest.raises(DataError, match="'toy' is sparse, and tables here are dense"):
        openml_table("toy", folder=tmp_path)


TEXT = {
    "kinds": {"name": "string", "age": "numeric", "class": "nominal"},
    "header": (
        "@RELATION toy\n@ATTRIBUTE name STRING\n@ATTRIBUTE age REAL\n"
        "@ATTRIBUTE class {bad,good}\n@DATA\n"
    ),
    "lines": [f"'Ann {i}',{i}.5,{('bad', 'good')[i % 2]}" for i in range(6)],
}


def test_free_text_needs_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_openml(tmp_path, **TEXT)

    def without_pandas(**settings: Any) -> Any:
        if settings["as_frame"]:
            raise ImportError("no pandas")
        return fetch_openml(**settings)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", without_pandas)
    with pytest.raises(ConfigurationError, match=r"columns of free text.*install pandas"):
        openml_table("toy", folder=tmp_path)


def test_free_text_with_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    write_openml(tmp_path, **TEXT)
    frame, target = openml_table("toy", folder=tmp_path)
    assert target == "class"
    assert frame["name"].to_list()[:2] == ["Ann 0", "Ann 1"]
    assert frame["age"].to_list()[:2] == [0.5, 1.5]
    assert frame["class"].cast(pl.String).to_list()[:2] == ["bad", "good"]


def test_the_network_s_own_warnings_are_left_out_and_others_pass(tmp_path: Path) -> None:
    write_openml(tmp_path)
    path = tmp_path / "openml/openml.org/api/v1/json/data/7.gz"
    description = json.loads(gzip.decompress(path.read_bytes()))
    description["data_set_description"]["warning"] = "rows are shuffled"
    path.write_bytes(gzip.compress(json.dumps(description).encode()))
    with pytest.warns(UserWarning, match="rows are shuffled"):
        openml_table("toy", folder=tmp_path)


# --- the catalogue ------------------------------------------------------------------------------


IN_FOLDERS = ("modelnet10", "imagenet", "mimic3_mortality")


def test_the_catalogue_names_what_configurations_name() -> None:
    assert list(CATALOGUE) == [
        "mnist5k",
        "mnist",
        "fashion_mnist",
        "emnist",
        "cifar10",
        "cifar100",
        "modelnet10",
        "imagenet",
        "mimic3_mortality",
        "credit_default",
        "criteo",
        "avazu",
        "synthetic_clicks",
        "handwritten",
        "caltech7",
        "parkinson",
        "openml",
    ]
    for name, info in CATALOGUE.items():
        assert info.name == name == info.load.__name__
        assert "folder" in inspect.signature(info.load).parameters
    with pytest.raises(FrozenInstanceError):
        CATALOGUE["mnist"].rows = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        CATALOGUE["mine"] = CATALOGUE["mnist"]  # type: ignore[index]


def test_what_is_missing_is_what_the_loader_would_say(tmp_path: Path) -> None:
    for name in (
        "mnist",
        "fashion_mnist",
        "credit_default",
        "handwritten",
        "caltech7",
        "parkinson",
    ):
        for folder in (None, tmp_path / "nowhere", tmp_path):
            why = available(name, folder)
            with pytest.raises(DataError) as caught:
                CATALOGUE[name].load(folder)
            assert why == str(caught.value)


def test_what_is_there_is_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert available("mnist5k") is None
    assert available("openml", tmp_path) == available("openml")
    assert "needs a network" in str(available("openml"))
    # The others' files are of no fixed name: there are many of them.
    names = [name for name in CATALOGUE if name not in IN_FOLDERS]
    for name in names:
        for file in CATALOGUE[name].files[:4]:
            (tmp_path / file).touch()
    write_openml(tmp_path)
    assert {name: available(name, tmp_path) for name in names} == dict.fromkeys(names)
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    assert {name: available(name) for name in names} == dict.fromkeys(names)


def test_a_name_that_is_not_in_the_catalogue() -> None:
    with pytest.raises(ConfigurationError, match="no public data set 'mnsit'; there are mnist5k,"):
        available("mnsit")


def write_mnist_784(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    kinds = {f"pixel{i + 1}": "numeric" for i in range(784)} | {"class": "nominal"}
    header = "@relation mnist\n"
    header += "".join(f"@attribute pixel{i + 1} real\n" for i in range(784))
    header += "@attribute class {" + ",".join(map(str, range(10))) + "}\n@data\n"
    lines = [
        ",".join([*map(str, image.reshape(-1)), str(label)])
        for image, label in zip(images, labels, strict=True)
    ]
    write_openml(folder, "mnist_784", kinds=kinds, header=header, lines=lines, version=1)


def test_mnist_comes_from_openml_where_there_are_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    images, labels = random.integers(0, 256, (14, 28, 28)), np.arange(14) % 10
    write_mnist_784(tmp_path, images, labels)
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    dataset = mnist_anywhere(normalise=(0.5, 0.25))
    assert (len(dataset.train), len(dataset.test)) == (12, 2)
    assert dataset.labels.tolist() == labels.tolist()
    first = (torch.from_numpy(images[:, :14, :14].reshape(14, -1)) / 255 - 0.5) / 0.25
    assert torch.allclose(dataset.features["party_1"], first.float(), atol=1e-5)
    assert "OpenML" in dataset.notes
    with pytest.raises(DataError, match="train-images"):
        mnist_anywhere(tmp_path)  # a folder that is named must have it


# --- real data ----------------------------------------------------------------------------------


@pytest.mark.data
def test_the_catalogue_is_right_about_real_files(real: Path) -> None:
    for name in ("credit_default", "handwritten"):
        info = CATALOGUE[name]
        assert available(name, real) is None
        found = info.load(real)
        assert len(found.labels) == info.rows
        assert info.parties.startswith(", ".join(found.parties))
        if isinstance(found, VerticalDataset):
            assert sum(x.shape[1] for x in found.features.values()) == info.columns
            assert found.classes == info.classes
        else:
            assert found.classes is not None
            assert len(found.classes) == info.classes


@pytest.mark.data
def test_real_digits_look_like_their_labels(real: Path) -> None:
    """Of each view but the smallest, the nearest class mean is right two times in three."""
    found = handwritten(real)
    train, test = torch.from_numpy(found.train), torch.from_numpy(found.test)
    for view in ("fou", "fac", "kar", "pix", "zer"):
        x, y = found.features[view], found.labels
        means = torch.stack([x[train][y[train] == digit].mean(0) for digit in range(10)])
        nearest = torch.cdist(x[test], means).argmin(1)
        assert (nearest == y[test]).float().mean() > 2 / 3, view


@pytest.mark.data
def test_a_real_zero_is_a_ring(real: Path) -> None:
    """Labels start with the digit 0: its middle is empty, that of an 8 or a 1 is not."""
    pixels = handwritten(real, scale="none").features["pix"].reshape(10, 200, 16, 15)
    middle = pixels[:, :, 7:9, 6:9].mean((1, 2, 3))
    assert middle.argmin() == 0
    assert middle[0] < middle[1] / 4


@pytest.mark.data
def test_real_clients(real: Path) -> None:
    found = credit_default(real)
    assert [len(rows) for rows in (found.train, found.validation, found.test)] == [
        20907,
        3079,
        6014,
    ]
    assert int(found.labels.sum()) == 6636
    assert {party: x.shape[1] for party, x in found.features.items()} == {
        "bank": 28,
        "bureau": 63,
        "processor": 12,
    }
    assert found.left_out == dict.fromkeys(("bank", "bureau", "processor", "labels"), 0)
