"""Tables larger than memory: encoded as a slow reader would, whatever the file's form and block."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import re
import tracemalloc
from contextlib import suppress
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colonnade.assembly import Blueprint, VerticalData, assemble
from colonnade.config.streamed import StreamedConfig
from colonnade.datasets import CRITEO_NAMES, avazu, criteo
from colonnade.errors import ConfigurationError, DataError, DataWarning
from colonnade.export import load_part
from colonnade.kernels.cells import beginning_of_hashes
from colonnade.objectives import Classification
from colonnade.streamed import Columns, RowEncoder, streamed_rows
from colonnade.streamed.form import Form
from colonnade.streamed.rows import rows_in
from colonnade.streamed.sources import Source
from colonnade.streamed.store import stored, written
from colonnade.tables import HashSplit, LastRows, RowSplit
from colonnade.training import Training
from colonnade.yaml_text import read_yaml

pytestmark = pytest.mark.filterwarnings("ignore::colonnade.errors.DataWarning")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def real():
    folder = os.environ.get("COLONNADE_DATA")
    if not folder:
        pytest.skip("COLONNADE_DATA names no folder with the click logs")
    return Path(folder)


# A slow encoder, from the documentation


def slow_code(cell: bytes, column: str, buckets: int) -> int:
    if not cell:
        return 0
    cell = slow_form(cell)
    h = beginning_of_hashes(column)
    for byte in cell:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD % 2**64
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 % 2**64
    h ^= h >> 33
    return 1 + ((h >> 32) * (buckets - 1) >> 32)


def slow_form(cell: bytes) -> bytes:
    if cell.lower() in (b"true", b"false"):
        return b"1" if cell.lower() == b"true" else b"0"
    whole = re.sub(rb"\A([+-]?[0-9]+)\.0*\Z", rb"\1", cell)
    return b"0" if whole == b"-0" else whole


def slow_number(cell: str) -> float:
    value = float(cell or 0)
    return math.copysign(math.log1p(abs(value)), value)


def encoded(path, form, names=None, separator=None, block=2**16):
    parts = [
        (rows.numbers.copy(), rows.codes.copy(), rows.labels.copy())
        for rows in Source(path, names, separator, block).encoded(form)
    ]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def test_the_hash_stays_what_it_is():
    # Stores and models outlive a version: these may never change.
    assert [slow_code(cell, "C1", 2**14) for cell in (b"", b"68fd1e64", b"x")] == [0, 12498, 12170]
    form = Form({"a": Columns(categorical=["C1"])})
    Path("golden.csv").write_text('C1\n68fd1e64\nx\n""\n')
    assert encoded(Path("golden.csv"), form)[1].ravel().tolist() == [12498, 12170, 0]


def test_real_criteo_rows_are_encoded_as_by_a_slow_reader(real, tmp_path):
    data = criteo(real, files=["criteo_8000.tsv.gz"], store=tmp_path / "store")
    with gzip.open(real / "criteo_8000.tsv.gz") as file:
        rows = [line.rstrip(b"\n").split(b"\t") for line in file]
    counts, categories = data.features["counts"]["numeric"], data.features["categories"]
    assert data.labels.tolist() == [int(row[0]) for row in rows]
    assert counts.tolist() == [
        [np.float32(slow_number(cell.decode())) for cell in row[1:14]] for row in rows
    ]
    assert categories["categorical"].tolist() == [
        [
            slow_code(cell, name, 2**14)
            for cell, name in zip(row[14:], CRITEO_NAMES[14:], strict=True)
        ]
        for row in rows
    ]
    assert len(data.train) + len(data.validation) + len(data.test) == len(rows) == 8000


def test_real_avazu_rows_are_encoded_as_by_a_slow_reader(real, tmp_path):
    data = avazu(real, files=["avazu_8999.csv.gz"], buckets=1000, store=tmp_path / "store")
    with gzip.open(real / "avazu_8999.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert data.labels.tolist() == [int(row["click"]) for row in rows]
    for party, encoder in data.transformers.items():
        columns = encoder.form.parties[party].categorical
        expected = [
            [
                slow_code((row[name][-2:] if name == "hour" else row[name]).encode(), name, 1000)
                for name in columns
            ]
            for row in rows
        ]
        assert data.features[party]["categorical"].tolist() == expected
        assert encoder.cardinalities == (1000,) * len(columns)
    assert [len(values["categorical"][0]) for values in data.features.values()] == [14, 8]


@pytest.mark.parametrize("log", ["criteo", "avazu"])
def test_text_packed_or_not_and_parquet_make_the_same_store(real, tmp_path, log):
    name = {"criteo": "criteo_8000.tsv.gz", "avazu": "avazu_8999.csv.gz"}[log]
    load = {"criteo": criteo, "avazu": avazu}[log]
    packed = (real / name).read_bytes()
    plain = gzip.decompress(packed)
    (tmp_path / "rows.txt").write_bytes(plain)
    (tmp_path / "rows.txt.gz").write_bytes(packed)
    frame = pl.read_csv(
        plain,
        separator="\t" if log == "criteo" else ",",
        has_header=log == "avazu",
        new_columns=CRITEO_NAMES if log == "criteo" else None,
        infer_schema_length=None,
    )
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    stores = []
    for file in ("rows.txt", "rows.txt.gz", "rows.parquet"):
        data = load(tmp_path, files=[file], store=tmp_path / f"store of {file}")
        files = sorted(data.folder.glob("*.[fi]*"))
        stores.append({file.name: file.read_bytes() for file in files})
    assert stores[0] == stores[1] == stores[2]
    assert len(stores[0]) == 3


# Any table

CELL = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=6)
WHOLE = st.integers(-(10**15), 10**15).map(str)
FRACTION = st.decimals(-1000, 1000, places=4).map(str)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["no", "yes"]),
        st.one_of(st.just(""), WHOLE, FRACTION, st.sampled_from(["1e3", "-2.5E-2", "+.5", "7."])),
        CELL,
        st.one_of(st.just("NA"), WHOLE),
        CELL,
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS, block=st.integers(200, 300), ends=st.sampled_from(["\n", "\r\n"]))
def test_any_table_is_encoded_as_by_a_slow_reader_whatever_the_block(rows, block, ends):
    header = ("bought", "price", "town", "visits", 'nobody\'s, "own"')
    written = StringIO()
    writer = csv.writer(written, lineterminator=ends)
    writer.writerows([header, *rows])
    Path("any.csv").write_bytes(written.getvalue().encode())
    form = Form(
        {"shop": Columns(["visits", "price"]), "town": Columns((), [header[4], "town"], 97)},
        "bought",
        ("no", "yes"),
        ("NA",),
    )
    numbers, codes, labels = encoded(Path("any.csv"), form, block=block)
    assert labels.tolist() == [row[0] == "yes" for row in rows]
    expected = [[slow_number(row[3].replace("NA", "")), slow_number(row[1])] for row in rows]
    assert numbers.tolist() == np.array(expected, dtype=np.float32).tolist()
    for j, at in ((0, 4), (1, 2)):
        cells = ["" if row[at] == "NA" else row[at] for row in rows]
        wanted = [slow_code(cell.encode(), header[at], 97) for cell in cells]
        assert codes[:, j].tolist() == wanted
    frame = pl.DataFrame(dict(zip(header, zip(*rows, strict=True), strict=True)))
    frame.write_parquet("any.parquet", row_group_size=7)
    again = encoded(Path("any.parquet"), form)
    for one, other in zip((numbers, codes, labels), again, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("1e-30", 1e-30),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("0.000000000000000000000000000001", 1e-30),
        ("3.4e38", 3.4e38),
        ("-0", 0.0),
        ("1e-400", 0.0),
    ],
)
def test_numbers_are_read_to_the_precision_of_float32(text, value):
    Path("numbers.csv").write_text(f"x\n{text}\n")
    form = Form({"a": Columns(["x"], scale="none")})
    assert encoded(Path("numbers.csv"), form)[0].item() == np.float32(value)


def test_a_column_of_its_own_scale_and_of_as_many_codes_as_it_says():
    Path("t.csv").write_text("y,x,c\n1,2.5,a\n0,-3,b\n")
    form = Form({"a": Columns(["x"], ["c"], {"c": 2}, scale="none")}, "y")
    numbers, codes, _ = encoded(Path("t.csv"), form)
    assert numbers.ravel().tolist() == [2.5, -3.0]
    assert codes.ravel().tolist() == [1, 1]


def test_several_files_one_after_the_other():
    for day in (0, 1):
        Path(f"day_{day}.csv").write_text("y,x\n" + f"{day},{day}\n" * 3)
    data = streamed_rows(
        ["day_0.csv", "day_1.csv"], {"a": Columns(["x"])}, "y", split=HashSplit(0, 0)
    )
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"split": 3}, r"split is HashSplit\(\.\.\.\), .* or None, not 3"),
        ({"parties": {"a": 1}}, "parties is a dict from a text to Columns.*"),
        ({"label": b"y"}, "label is a text, not b'y'"),
        ({"names": 3}, "names is a list, each a text or None, not 3"),
        ({"separator": 3}, "separator is a text or None, not 3"),
        ({"classes": 3}, "classes must be a list of texts, as the file writes them, not 3"),
        ({"told": 3}, "told is a function or None, not 3"),
    ],
)
def test_what_is_of_another_kind_is_refused_before_anything_is_read(changes, said):
    """A number as a split failed raw when all rows were encoded, and others as they were read."""
    arguments = {"files": "none.csv", "parties": {"a": Columns(["x"])}, "label": "y"}
    with pytest.raises(ConfigurationError, match=f"^{said}$"):
        streamed_rows(**arguments | changes)


# What is wrong with a row

GOOD = "1,5,Rome\n"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1,5\n", r"bad.csv: row 2 \(line 5\) has 2 cells, and there are 3 columns; correct"),
        ("1,5,a,b\n", r"row 2 \(line 5\) has 4 cells, and there are 3 columns"),
        ("x\n", r"row 2 \(line 5\) has 1 cell, and"),
        ("\n", r"row 2 \(line 5\) is empty, and there are 3 columns"),
        ("2,5,a\n", r"row 2 \(line 5\) has '2' in 'y', the column of labels; expected '0' or '1'"),
        (",5,a\n", r"row 2 \(line 5\) has '' in 'y'"),
        ("1,five,a\n", r"row 2 \(line 5\) has 'five' in 'x', which is no number; correct it"),
        ("1,nan,a\n", r"has 'nan' in 'x', which is no number"),
        ("1,inf,a\n", r"has 'inf' in 'x', which is no number"),
        ("1,1e99,a\n", r"has '1e99' in 'x', which is no number"),
        ("1,1e,a\n", r"has '1e' in 'x'"),
        ("1, 5,a\n", r"has ' 5' in 'x'"),
        ("1,-,a\n", r"has '-' in 'x'"),
        ('1,"5 ",a\n', r"has '5 ' in 'x'"),
        ("1,\xff\n", r"row 2 \(line 5\) has 2 cells"),
        ('1,5,"Rome\n', r"row 2 \(line 5\) has a quote in 'town' that is never closed"),
    ],
)
def test_a_wrong_row_is_named_by_its_number_and_line(row, said, tmp_path):
    first = '1,5,"Ro\nme"\n'  # a cell of two lines
    for packed in (False, True):
        path = tmp_path / ("bad.csv.gz" if packed else "bad.csv")
        after = "" if "quote" in said else GOOD
        content = ("y,x,town\n" + first + GOOD + row + after).encode("latin-1")
        path.write_bytes(gzip.compress(content) if packed else content)
        with pytest.raises(DataError, match=said.replace("bad.csv:", f"{path.name}:")):
            streamed_rows(path, {"a": Columns(["x"], ["town"])}, "y", store=tmp_path / "store")
        assert not (tmp_path / "store").exists()
        assert not list(tmp_path.glob("*writing*"))


def test_quotes_that_take_in_many_rows_are_told():
    towns = ['"Rome' if row in (20, 30) else "Rome" for row in range(60)]
    Path("torn.csv").write_text(
        "y,x,town\n" + "".join(f"{row % 2},5,{town}\n" for row, town in enumerate(towns))
    )
    with pytest.warns(DataWarning, match=r"torn\.csv: a row that begins in line 22 has 10 line"):
        assert len(streamed_rows("torn.csv", {"a": Columns(["x"], ["town"])}, "y").labels) == 50


def test_a_line_without_end_is_no_row():
    Path("long.csv").write_text("y,x\n" + "1" * 5000)
    form = Form({"a": Columns(["x"])}, "y")
    with pytest.raises(DataError, match=r"row 0 \(line 2\) goes on for more than 1,000 bytes"):
        list(Source(Path("long.csv"), block=1000).encoded(form))


@pytest.mark.parametrize("cut", [5, 40, -9])
def test_a_packed_file_that_is_cut_off_says_so(tmp_path, cut):
    whole = gzip.compress(b"y,x\n" + b"1,5\n0,7\n" * 500)
    Path("cut.csv.gz").write_bytes(whole[:cut])
    with pytest.raises(DataError, match=r"cut.csv.gz .*(cut off or damaged|is empty)"):
        streamed_rows("cut.csv.gz", {"a": Columns(["x"])}, "y")
    assert not list((tmp_path / "cache").rglob("*.f32"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; expected a line of column names"),
        (b'y,"x\n1",n\n1,2,3\n', "first line of t.csv has a quote that is not closed in it; close"),
        (b"y,x\n", "there is no row to encode"),
        (b"\ny,x\n1,2\n", "first line of t.csv is empty; .*: take the line out, or say in names"),
        (b"y,x\r1,2\r", "lines of t.csv end with CR alone"),
        (b"y,x\r1,2\r" * 2**20, "lines of t.csv end with CR alone"),
        (b"y;x\n1;2\n", "has no column .*; name what is between cells in separator: ';'"),
        (b"\xff\xfe,x\n1,2\n", "cannot be read as names of columns"),
        (b"y,x,x\n1,2,3\n", "names column 'x' twice"),
        (b"y,z\n1,2\n", "has no column 'x'; .* of 2, the first are 'y', 'z'"),
        (b"y" * 2**21, "first line of t.csv goes on for more than"),
    ],
)
def test_a_file_that_is_no_table_is_refused(content, said):
    Path("t.csv").write_bytes(content)
    with pytest.raises(DataError, match=said):
        streamed_rows("t.csv", {"a": Columns(["x"])}, "y")


@settings(max_examples=150)
@given(st.binary(max_size=300), st.sampled_from(["h.csv", "h.csv.gz", "h.parquet"]), st.booleans())
def test_hostile_bytes_raise_a_data_error_or_are_rows(content, name, pack):
    Path(name).write_bytes(gzip.compress(content) if pack else content)
    form = Form({"a": Columns(["x"], ["c"])}, "y")
    with suppress(DataError):
        for rows in Source(Path(name), ["y", "x", "c"], block=128).encoded(form):
            assert np.isfinite(rows.numbers).all()
            assert set(rows.labels.tolist()) <= {0, 1}
            assert rows.codes.min() >= 0


def test_a_column_that_is_neither_text_nor_number_is_refused():
    pl.DataFrame({"y": [1], "x": [2], "day": ["2024-01-01"]}).with_columns(
        pl.col("day").str.to_date()
    ).write_parquet("t.parquet")
    with pytest.raises(DataError, match="column 'day' holds Date; expected text, whole numbers"):
        streamed_rows("t.parquet", {"a": Columns(["x"], ["day"])}, "y")


@pytest.mark.parametrize("row", [0, 1, 70, 40_000])
@pytest.mark.parametrize("name", ["l.csv", "l.csv.gz"])
def test_text_that_is_not_utf8_is_refused_by_its_row(row, name):
    rows = [f'{i % 2},"Z\u00fcrich\n{i}"\n'.encode() for i in range(40_001)]
    rows[row] = "1,Gen\u00e8ve\n".encode("latin-1")
    content = b"y,town\n" + b"".join(rows)
    Path(name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    said = rf"{name}: row {row} \(line {2 + 2 * row}\) is not written in UTF-8; save the file as"
    with pytest.raises(DataError, match=said):
        streamed_rows(name, {"a": Columns((), ["town"])}, "y")


# The store

TABLE = "y,x,c\n" + "".join(f"{i % 2},{i},c{i % 7}\n" for i in range(300))
PARTIES = {"shop": Columns(["x"]), "bank": Columns(categorical=["c"], buckets=50)}


def make(**changes):
    if not Path("t.csv").exists():
        Path("t.csv").write_text(TABLE)
    given = {"parties": PARTIES, "label": "y", "store": "store"} | changes
    return streamed_rows("t.csv", **given)


def test_a_store_is_made_once_and_anew_where_its_file_has_changed():
    calls = []
    first = make(told=lambda done, all: calls.append((done, all)))
    assert calls[-1] == (len(TABLE), len(TABLE))
    stamp = Path("store/manifest.json").stat().st_mtime_ns
    again = make(told=lambda done, all: pytest.fail("it was encoded again"))
    assert Path("store/manifest.json").stat().st_mtime_ns == stamp
    assert torch.equal(first.labels, again.labels)
    Path("t.csv").write_text(TABLE + "1,5,c0\n")
    assert len(make().labels) == 301
    assert len(make(parties={"shop": Columns(["x"])}).features) == 1
    assert sorted(file.name for file in Path("store").iterdir()) == [
        "0-numeric.f32",
        "labels.i64",
        "manifest.json",
    ]
    assert len(first.labels) == 300, "what is mapped stays"
    assert int(first.labels.sum()) == 150


def append(file):
    with file.open("a") as more:
        more.write("1,7,c9\n")


def put_in_its_place(file):
    status = file.stat()
    Path("new").write_text(TABLE.replace("c1", "c9"))
    os.utime("new", ns=(status.st_atime_ns, status.st_mtime_ns))
    Path("new").rename(file)


@pytest.mark.parametrize("change", [append, put_in_its_place, Path.unlink])
def test_a_file_that_changes_while_it_is_read_is_refused(change):
    def told(done, all):
        if done == all and Path("t.csv").exists():
            change(Path("t.csv"))

    with pytest.raises(DataError, match=r"t.csv has changed while it was read; begin again when"):
        make(told=told)
    assert not list(Path().glob("store*"))


def test_a_file_of_the_same_name_in_another_folder_is_another_file():
    codes = []
    for folder in ("one", "two"):
        Path(folder).mkdir()
        Path(folder, "t.csv").write_text("y,c\n" + f"0,{folder}\n1,{folder}\n" * 50)
        os.utime(Path(folder, "t.csv"), (10**9, 10**9))
        parties = {"a": Columns((), ["c"])}
        rows = streamed_rows(Path(folder, "t.csv"), parties, "y", store="same")
        codes.append(int(rows.features["a"]["categorical"][0, 0]))
    assert codes == [slow_code(name, "c", 2**14) for name in (b"one", b"two")]


def test_rows_stay_those_of_one_store_when_another_takes_its_place():
    Path("t.csv").write_text(TABLE)
    form = Form(PARTIES, "y")
    read = Source(Path("t.csv")).encoded
    first = written(Path("store"), {"data": "one"}, form, read(form))
    found = stored(Path("store"), {"data": "one"}, form)
    other = Form({"shop": Columns((), ["x"]), "bank": Columns((), ["c"], 50)}, "y", ["1", "0"])
    written(Path("store"), {"data": "two"}, other, read(other))
    for store in (first, found):
        rows = rows_in(store, "t.csv")
        assert rows.labels.tolist() == [i % 2 for i in range(300)]
        assert rows.features["shop"]["numeric"][:3, 0].tolist() == [
            0.0,
            np.float32(math.log(2)),
            np.float32(math.log(3)),
        ]
    assert sorted(file.name for file in Path().iterdir()) == ["store", "t.csv"]


def test_a_store_that_is_replaced_while_it_is_opened_is_not_taken(monkeypatch):
    make()
    form = Form(PARTIES, "y")
    identity = json.loads(Path("store/manifest.json").read_text())["identity"]
    assert stored(Path("store"), identity, form) is not None
    plain = np.memmap

    def late(path, *given, **named):
        if Path(path).name == "0-numeric.f32" and not Path("gone").exists():
            Path("store").rename("gone")
            make(classes=["1", "0"])
        return plain(path, *given, **named)

    monkeypatch.setattr(np, "memmap", late)
    assert stored(Path("store"), identity, form) is None


def test_a_store_is_in_the_cache_unless_a_place_is_named(tmp_path):
    data = make(store=None)
    assert data.folder.parent == tmp_path / "cache" / "colonnade"
    assert data.folder.name.startswith("t-")
    assert make(store=None).folder == data.folder
    assert make(store=None, parties={"a": Columns(["x"])}).folder != data.folder


def test_nothing_is_written_over_but_a_store():
    Path("store").mkdir()
    Path("store/thesis.txt").write_text("three years of work")
    with pytest.raises(ConfigurationError, match="store is there already and holds no rows that"):
        make()
    assert [file.name for file in Path("store").iterdir()] == ["thesis.txt"]
    Path("store/thesis.txt").rename("thesis.txt")
    make()
    Path("thesis.txt").rename("store/thesis.txt")
    Path("t.csv").write_text(TABLE + "1,5,c0\n")
    with pytest.raises(ConfigurationError, match=r"holds 'thesis.txt' beside a store"):
        make()
    assert Path("store/thesis.txt").read_text() == "three years of work"


def test_a_damaged_store_is_made_anew():
    make()
    whole = Path("store/labels.i64").read_bytes()
    Path("store/labels.i64").write_bytes(whole[:-8])
    assert int(make().labels.sum()) == 150
    manifest = json.loads(Path("store/manifest.json").read_text())
    Path("store/manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    assert len(make().labels) == 300


def test_what_an_interrupted_writer_left_is_taken_away():
    Path("store.writing").mkdir()
    Path("store.writing/labels.i64").write_bytes(b"half")
    make()
    assert not Path("store.writing").exists()

    def stop(done, all):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(store="other", told=stop)
    assert not Path("other").exists()
    assert not Path("other.writing").exists()
    Path("other.writing").mkdir()
    Path("other.writing/mine.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"holds 'mine.txt', which is not Colonnade's"):
        make(store="other")
    assert Path("other.writing/mine.txt").exists()


def test_a_stranger_beside_a_store_does_not_keep_the_next_writer_waiting():
    Path("store.writing").mkdir()
    Path("store.writing/mine.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="not Colonnade's"):
        make()
    Path("store.writing/mine.txt").unlink()

    def told(done, all):
        Path("store.writing/mine.txt").write_text("mine")
        raise KeyboardInterrupt

    with pytest.raises(ConfigurationError, match="not Colonnade's"):
        make(told=told)
    Path("store.writing/mine.txt").unlink()
    lock = os.open("store.writing", os.O_RDONLY)
    pytest.importorskip("fcntl").flock(lock, 2 | 4)  # LOCK_EX, LOCK_NB: nobody holds it
    os.close(lock)
    assert len(make().labels) == 300


def test_what_is_left_beside_a_whole_store_is_taken_away_unless_a_writer_is_at_work():
    make()
    Path("store.writing").mkdir()
    Path("store.writing/labels.i64").write_bytes(b"half")
    fcntl = pytest.importorskip("fcntl")
    held = os.open("store.writing", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    make()
    assert Path("store.writing/labels.i64").exists()
    os.close(held)
    make()
    assert not Path("store.writing").exists()
    Path("store").rename("store.replaced")  # a writer that was killed between two renamings
    make()
    make(parties={"shop": Columns(["x"])})
    assert [file.name for file in Path().glob("store*")] == ["store"]


def test_a_link_is_followed_and_a_place_that_cannot_be_replaced_is_refused(monkeypatch):
    Path("far").mkdir()
    Path("store").symlink_to("far/rows")
    assert make().folder == Path("far/rows").resolve()
    make(parties={"shop": Columns(["x"])})
    assert Path("store").is_symlink()
    assert [file.name for file in Path("far").iterdir()] == ["rows"]
    Path("empty").mkdir()
    monkeypatch.chdir("empty")
    Path("t.csv").symlink_to("../t.csv")
    for place in (".", "/"):
        with pytest.raises(ConfigurationError, match=r"store cannot be .*; name a folder in it"):
            make(store=place)
    with pytest.raises(ConfigurationError, match=r"store cannot be .*; name another folder"):
        make(store="x" * 300)
    for place in ("", "a\0b", 3):
        with pytest.raises(ConfigurationError, match="store is the path of a folder, not"):
            make(store=place)


@pytest.mark.parametrize("files", [5, None, [[1]], {}])
def test_a_manifest_that_says_nonsense_of_its_files_is_no_traceback(files):
    make()
    manifest = json.loads(Path("store/manifest.json").read_text())
    Path("store/manifest.json").write_text(json.dumps(manifest | {"files": files}))
    with pytest.raises(ConfigurationError, match=r"store holds '0-numeric.f32' beside a store"):
        make(parties={"shop": Columns(["x"])})
    Path("store/manifest.json").write_text("[" * 200_000)
    with pytest.raises(ConfigurationError, match="holds no rows that Colonnade encoded"):
        make()


def test_a_manifest_that_is_a_link_to_nothing_is_not_waited_for():
    Path("store").mkdir()
    Path("store/manifest.json").symlink_to("nowhere")
    with pytest.raises(ConfigurationError, match="holds no rows that Colonnade encoded"):
        make()


@pytest.mark.parametrize("label", [7, -1, 2**40])
def test_labels_that_are_no_class_are_damage(label):
    make()
    labels = np.memmap("store/labels.i64", "<i8", "r+")
    labels[-1] = label
    labels.flush()
    with pytest.raises(DataError, match="holds a label that is no class, so it is damaged"):
        make()


def test_a_wide_table_finds_its_own_store():
    names = [f"gene_{i:05}" for i in range(12_000)]
    Path("w.csv").write_text(",".join(["y", *names]) + ("\n1" + ",1" * 12_000) + "\n")
    form = Form({"lab": Columns((), names)}, "y")
    identity = {"data": "wide", "form": form.as_dict()}
    written(Path("store"), identity, form, Source(Path("w.csv")).encoded(form))
    assert Path("store/manifest.json").stat().st_size < 2**19
    long = {"data": "wide", "form": form.as_dict() | {"more": "x" * 2**20}}
    written(Path("store"), long, form, Source(Path("w.csv")).encoded(form))
    found = stored(Path("store"), long, form)
    assert found is not None
    assert found.rows == 1


def test_a_file_or_store_that_may_not_be_read_says_so(monkeypatch):
    make()

    def forbidden(*given, **named):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", forbidden)
        with pytest.raises(ConfigurationError, match="cannot be read: Permission denied; name"):
            make()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", forbidden)
        with pytest.raises(DataError, match=r"t.csv cannot be read: Permission denied; have it"):
            list(Source(Path("t.csv")).encoded(Form(PARTIES, "y")))
    with pytest.raises(DataError, match=r"cannot be read: .* too long"):
        Source(Path("x" * 300))


def test_a_place_that_cannot_be_written_is_said():
    Path("file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot be written: .*; name another place in"):
        make(store="file/store")


def test_memory_does_not_grow_with_the_file():
    form = Form({"a": Columns(["x"], ["c"])}, "y")
    peaks = []
    for rows in (1000, 20_000, 200_000):
        Path("many.csv").write_text("y,x,c\n" + "1,12345,some category\n" * rows)
        blocks = Source(Path("many.csv"), block=2**16).encoded(form)
        tracemalloc.start()
        assert written(Path(f"store of {rows}"), {}, form, blocks).rows == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] + 2**16 < 2**22  # of 4.4 MB


# Rows, and what becomes of them


def test_rows_are_what_a_federation_takes_and_new_rows_are_predicted_as_stored_ones():
    data: VerticalData = make(split=LastRows(test=0.2))
    assert data.test.tolist() == list(range(240, 300))
    assert not data.labels.is_pinned()
    federation = assemble(data, Blueprint(Classification(2), holds="shop"))
    run = federation.train(training=Training(epochs=2, batch_size=64))
    assert run.summary["rows_train"] == 240
    frame = pl.read_csv("t.csv")
    tables = {"bank": frame[240:], "label_holder": frame[240:]}
    stored = {
        "bank": {"categorical": data.features["bank"]["categorical"][240:].clone()},
        "label_holder": {"numeric": data.features["shop"]["numeric"][240:].clone()},
    }
    assert torch.equal(run.predict(tables).scores, run.predict(stored).scores)


def test_new_rows_of_pandas_have_the_codes_of_the_file():
    pandas = pytest.importorskip("pandas")
    Path("n.csv").write_text("y,c,x\n1,7,1.5\n0,,\n")
    form = Form({"a": Columns(["x"], ["c"], 100)}, "y")
    data = streamed_rows("n.csv", form.parties, "y", split=HashSplit(0, 0))
    frame = pandas.read_csv("n.csv")  # 7.0 and NaN
    features = data.transformers["a"].transform(frame)
    assert torch.equal(features["categorical"], data.features["a"]["categorical"].clone())
    assert torch.equal(features["numeric"], data.features["a"]["numeric"].clone())
    with pytest.raises(DataError, match="has no column 'c'"):
        data.transformers["a"].transform(frame[["x"]])
    with pytest.raises(DataError, match=r"the table of 'a': row 0 has 'two' in 'x'"):
        data.transformers["a"].transform({"x": ["two"], "c": ["7"]})
    with pytest.raises(DataError, match="the table of 'a' has no rows"):
        data.transformers["a"].transform(frame[:0])


def test_a_cell_has_one_code_whoever_writes_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    count = 300
    frame = pandas.DataFrame(
        {
            "y": [i % 2 for i in range(count)],
            "shop": [None if i % 10 == 0 else i % 7 - 3 for i in range(count)],
            "half": [None if i % 10 == 0 else i % 7 / 2 for i in range(count)],
            "vip": [i % 3 == 0 for i in range(count)],
        }
    )
    frame.to_csv("m.csv", index=False)  # 3.0 and True
    pl.from_pandas(frame).write_parquet("m.parquet")
    columns = {"a": Columns(["shop"], ["half", "vip"], 10**6), "b": Columns((), ["shop2"], 10**6)}
    for file in ("m.csv", "m.parquet"):
        table = pl.read_csv(file) if file == "m.csv" else pl.read_parquet(file)
        table = table.with_columns(shop2=pl.col("shop"))
        table.write_csv("both.csv") if file == "m.csv" else table.write_parquet("both.parquet")
    text, packed = (
        streamed_rows(f"both.{end}", columns, "y", store=tmp_path / end)
        for end in ("csv", "parquet")
    )
    frame["shop2"] = frame["shop"]
    whole = frame.assign(shop2=frame["shop2"].astype("Int64"), vip=frame["vip"].astype(int))
    for party in columns:
        own = text.features[party]["categorical"]
        assert torch.equal(own, packed.features[party]["categorical"])
        for new in (frame, pandas.read_csv("both.csv"), whole, frame[290:]):
            rows = torch.tensor(new.index.to_numpy())
            found = text.transformers[party].transform(new)["categorical"]
            assert torch.equal(found, own[rows])
        first = text.transformers[party].transform(frame[295:296])["categorical"]
        assert torch.equal(first, own[295:296]), "alone, as among others"


def test_categories_do_not_depend_on_their_neighbours_in_a_parquet_file():
    values = [float(i % 5) for i in range(40_000)]
    values[-1] = 2.5
    table = pl.DataFrame({"c": values, "p": [-1.0 if i % 3 else 2.5 for i in range(40_000)]})
    table.write_parquet("f.parquet", row_group_size=10_000)
    form = Form({"a": Columns(["p"], ["c"], 10**6, scale="none")}, missing=["-1"])
    numbers, codes, _ = encoded(Path("f.parquet"), form)
    assert set(codes[3:-1:5, 0].tolist()) == {slow_code(b"3", "c", 10**6)}
    assert set(numbers[:, 0].tolist()) == {0.0, 2.5}
    table.write_csv("f.csv")  # -1.0
    assert encoded(Path("f.csv"), form)[0].tolist() == numbers.tolist()


SPELLED = ["007", "-01", "+5", "2.50", "1e3", ".5", "00.0", "0.0000001", "-0.00000999"]
SPELLED += ["0.1234567890123456789", "0.10000000000000001", "18150123348479.187"]


@pytest.mark.parametrize("cell", SPELLED)
def test_numbers_do_not_stand_for_numerals_that_are_spelled_in_another_way(cell, tmp_path):
    Path("z.csv").write_text("y,zip,n\n" + f"0,{cell},5\n1,8000,6.0\n" * 50)
    data = streamed_rows("z.csv", {"a": Columns((), ["zip", "n"], 1000)}, "y", store="z")
    encoder = RowEncoder.from_state(data.transformers["a"].state())
    again = streamed_rows("z.csv", {"a": Columns((), ["zip", "n"], 1000)}, "y", store="z")
    assert encoder.state() == again.transformers["a"].state()
    with pytest.raises(DataError, match=r"column 'zip' holds numbers, .* read it as text \(dtype"):
        encoder.transform({"zip": [7, 8000], "n": [5, 6]})
    codes = encoder.transform(pl.read_csv("z.csv", schema_overrides={"zip": pl.String}))
    assert torch.equal(codes["categorical"], data.features["a"]["categorical"].clone())
    encoder.transform({"zip": np.array([np.nan]), "n": [5]})
    with pytest.raises(DataError, match="column 'n' holds numbers with a point that are too large"):
        encoder.transform({"zip": ["5"], "n": [2.0**53]})


def test_a_parquet_file_among_others_may_have_no_rows(tmp_path):
    table = pl.DataFrame({"y": [0, 1] * 4, "x": [1.5] * 8})
    table.clear().write_parquet("none.parquet")
    table.write_csv("some.csv")
    parties = {"a": Columns(["x"])}
    data = streamed_rows(["none.parquet", "some.csv"], parties, "y", split=RowSplit(0, 0))
    assert len(data.labels) == 8
    with pytest.raises(DataError, match="there is no row to encode; the files have none"):
        streamed_rows("none.parquet", parties, "y")


DECIMALS = ["0.00001", "-0.5", "0.30000000000000004", "0.9999999999999999", "1234567890123456.5"]
DECIMALS += ["18150123348479.188", "1.0000000000000002", "0.000012345678901234568"]


def test_decimals_that_doubles_are_written_as_have_the_codes_of_numbers(tmp_path):
    Path("z.csv").write_text("y,c\n" + "".join(f"{i % 2},{c}\n" for i, c in enumerate(DECIMALS)))
    data = streamed_rows("z.csv", {"a": Columns((), ["c"], 2**31 - 1)}, "y", split=RowSplit(0, 0))
    codes = data.transformers["a"].transform({"c": np.array(DECIMALS, dtype=float)})["categorical"]
    assert torch.equal(codes, data.features["a"]["categorical"].clone())


def test_classes_in_yaml_may_be_true_and_false():
    given = {"files": ["t.csv"], "label": "y", "parties": {"a": {"numeric": ["x"]}}}
    section = StreamedConfig(**given, classes=[False, True], missing=[-1, "2.50"])
    assert section.classes == ["False", "True"]
    assert section.missing == ["-1", "2.50"]
    with pytest.raises(ValueError, match=r"2\.5 is a number here; write it in quotes"):
        StreamedConfig(**given, missing=[2.50])


def test_classes_in_yaml_are_as_the_file_writes_them():
    Path("b.csv").write_text("y,x\n" + "no,1\nyes,2\nNA,3\n" * 50)
    text = "{label: y, parties: {a: {numeric: [x]}}, classes: [yes, no, NA]}"
    files = [str(Path("b.csv").absolute())]
    data = StreamedConfig(**read_yaml(text), files=files, store="b").load()
    assert data.labels.tolist() == [1, 0, 2] * 50


def test_labels_are_true_and_false_or_one_and_zero():
    Path("b.csv").write_text("y,x\n" + "True,1\nfalse,2\n" * 50)
    for classes in (["False", "True"], ["0", "1"], ["0.0", "1.0"]):
        data = streamed_rows("b.csv", {"a": Columns(["x"])}, "y", classes=classes, store="b")
        assert data.labels.tolist() == [1, 0] * 50
    with pytest.raises(ConfigurationError, match="two or more different texts"):
        Form({"a": Columns(["x"])}, "y", ["1", "True"])


def test_an_exported_part_says_how_rows_are_encoded(tmp_path):
    data = make(split=LastRows(test=0.2))
    federation = assemble(data, Blueprint(Classification(2), holds="shop"))
    run = federation.train(training=Training(epochs=1, batch_size=64))
    run.export(tmp_path / "parts")
    details = load_part(tmp_path / "parts" / "bank").details
    encoder = RowEncoder.from_state(details["transformer"])
    frame = pl.read_csv("t.csv")
    expected = data.features["bank"]["categorical"].clone()
    assert torch.equal(encoder.transform(frame)["categorical"], expected)
    assert encoder.cardinalities == (50,)
    for wrong in ({}, {"encoder": "x", "version": 1}, details["transformer"] | {"parties": {}}):
        with pytest.raises(DataError, match="this is not the state of an encoder of rows"):
            RowEncoder.from_state(wrong)


def test_a_class_that_no_training_row_has_is_refused():
    with pytest.raises(DataError, match=r"no training row of t.csv is of class '2'"):
        make(classes=["0", "1", "2"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"parties": {}}, "there is no party"),
        ({"parties": {"a": Columns(["x"]), "b": Columns(["x"])}}, "column of 'a' and of 'b'"),
        ({"parties": {"a": Columns(["x", "y"])}}, "'y' is a column of 'a' and the label"),
        ({"classes": ["1"]}, "classes must be two or more"),
        ({"classes": "01"}, "classes must be a list of texts"),
        ({"classes": ["", "1"]}, "an empty cell is a missing label"),
        ({"separator": '"'}, "separator must be one ASCII character, no quote"),
        ({"separator": ", "}, "separator must be one ASCII character"),
        ({"separator": ""}, "separator must be one ASCII character"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, said):
    with pytest.raises(ConfigurationError, match=said):
        make(**changes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "there is no column"),
        ({"numeric": "x"}, "numeric must be a list"),
        ({"categorical": ["c"], "buckets": 1}, "buckets must be 2 to 2147483647"),
        ({"categorical": ["c"], "buckets": {"d": 5}}, "buckets name 'd', which is no categorical"),
        ({"categorical": ["c", "d"], "buckets": {"d": 5}}, "buckets say nothing of 'c'"),
        ({"categorical": ["c"], "endings": {"c": 0}}, "endings must be 1 character or more"),
        ({"numeric": ["c"], "endings": {"c": 1}}, "endings name 'c', which is no categorical"),
        ({"numeric": ["x"], "scale": "cube"}, "scale must be 'log' or 'none'"),
    ],
)
def test_columns_that_cannot_be_are_refused(given, said):
    with pytest.raises(ConfigurationError, match=said):
        Columns(**given)


# Division by row numbers


def test_rows_are_divided_by_hash_or_by_order():
    many = pl.int_range(100_000, eager=True)
    train, validation, test = RowSplit(0.1, 0.2, seed=3).rows(many)
    assert sorted([*train, *validation, *test]) == list(range(100_000))
    assert abs(len(test) - 20_000) < 500
    assert abs(len(validation) - 10_000) < 400
    fewer = RowSplit(0.1, 0.2, seed=3).rows(many[:1000])
    assert fewer[2].tolist() == test[test < 1000].tolist()
    assert RowSplit(0.1, 0.2, seed=4).rows(many)[2].tolist() != test.tolist()
    parts = LastRows(0.1, 0.2).rows(many)
    assert np.concatenate(parts).tolist() == list(range(100_000))
    assert [len(part) for part in parts] == [70_000, 10_000, 20_000]
    divided = LastRows(test=0.2, others=RowSplit(0.1, 0.05)).rows(many)
    assert set(range(80_000, 100_000)) < set(divided[2].tolist())
    assert sorted(np.concatenate(divided)) == list(range(100_000))
    for wrong in (lambda: RowSplit(0.5, 0.5), lambda: LastRows(1.0), lambda: RowSplit(seed=2**63)):
        with pytest.raises(ConfigurationError):
            wrong()
    with pytest.raises(ConfigurationError, match="say one of the two"):
        LastRows(0.1, 0.2, RowSplit())
    with pytest.raises(DataError, match="none of 2 people is for validation"):
        LastRows(0.1, 0.2).rows(many[:2])
