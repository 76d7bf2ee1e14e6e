"""Tables are read as they are written, and what is wrong with a source is said in one sentence."""

from __future__ import annotations

import builtins
import datetime
import gzip
import inspect
import os
import re
import socket
import sqlite3
import tracemalloc
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import ConfigurationError, DataError, DataWarning
from colonnade.tables import StoredTable, TableTransformer, as_frame, read_table
from colonnade.tables.database import read_database
from colonnade.tables.frames import as_series, index_of
from colonnade.tables.names import listed
from colonnade.tables.table import FrameTable, SelectedRows, as_table, keyed, whole

PEOPLE = pl.DataFrame({"id": [7, 9], "age": [41, None], "city": ["Rome", "Oslo"]})
TEXT = "id,age,city\n7,41,Rome\n9,,Oslo\n"


def text_file(folder: Path, text: str | bytes, name: str = "people.csv") -> Path:
    path = folder / name
    body = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
    return path


def refusal(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_table(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- text files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["people.csv", "people.tsv", "PEOPLE.CSV", "a.csv.gz", "a.tsv.gz"])
def test_text_files(tmp_path: Path, name: str) -> None:
    text = TEXT.replace(",", "\t") if ".tsv" in name else TEXT
    path = text_file(tmp_path, text, name)
    assert read_table(path, id="id").equals(PEOPLE)
    assert read_table(str(path)).equals(PEOPLE)


def test_only_the_wanted_columns_the_id_first(tmp_path: Path) -> None:
    path = text_file(tmp_path, TEXT)
    assert read_table(path, id="city", columns=["id"]).equals(PEOPLE.select("city", "id"))
    assert read_table(path, columns=["city", "age"]).equals(PEOPLE.select("city", "age"))
    assert read_table(path, id="age").columns == ["age", "id", "city"]
    assert read_table(path, id="id", columns=["id", "age"]).columns == ["id", "age"]
    assert read_table(path, id="id", columns=[]).columns == ["id"]


def test_a_late_fraction_makes_a_column_of_floats(tmp_path: Path) -> None:
    rows = [f"{i},{i}" for i in range(20_000)] + ["20000,0.5"]
    frame = read_table(text_file(tmp_path, "id,x\n" + "\n".join(rows)), id="id")
    assert frame.schema == {"id": pl.Int64, "x": pl.Float64}
    assert frame["x"][-2:].to_list() == [19_999.0, 0.5]


def test_late_text_makes_a_column_of_text(tmp_path: Path) -> None:
    rows = [f"{i},{i}" for i in range(20_000)] + ["20000,none"]
    path = text_file(tmp_path, "id,x\n" + "\n".join(rows))
    assert read_table(path)["x"].dtype == pl.String
    assert read_table(path, missing=["none"])["x"].to_list() == [*range(20_000), None]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["7", "-3", "0"], [7, -3, 0]),
        (["7", "12"], [7, 12]),
        (["007", "12"], ["007", "12"]),
        (["7", "A12"], ["7", "A12"]),
        (["7.0", "12"], ["7.0", "12"]),
        (["-0", "1"], ["-0", "1"]),
        ([str(2**63), "1"], [str(2**63), "1"]),
        (["2020-01-01", "x"], ["2020-01-01", "x"]),
        (["", "5"], [None, 5]),
        (["", "05"], [None, "05"]),
    ],
)
def test_ids_become_numbers_only_if_nothing_is_lost(
    tmp_path: Path, written: list[str], expected: list[object]
) -> None:
    path = text_file(tmp_path, "who,x\n" + "".join(f"{id},1\n" for id in written))
    assert read_table(path, id="who")["who"].to_list() == expected


def test_empty_cells_and_named_ones_are_missing(tmp_path: Path) -> None:
    path = text_file(tmp_path, "a,b\nNA,x\n1,?\n,NA\n")
    frame = read_table(path, missing=("NA", "?"))
    assert frame.to_dict(as_series=False) == {"a": [None, 1, None], "b": ["x", None, None]}


def test_quotes_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    path = text_file(tmp_path, b'\xef\xbb\xbf"a,1",b\r\n5,"x, ""y""\nz"\r\n')
    assert read_table(path).to_dict(as_series=False) == {"a,1": [5], "b": ['x, "y"\nz']}


def test_dates_are_read_as_dates(tmp_path: Path) -> None:
    """So a transformer can refuse them, and does not hash them as if they were categories."""
    path = text_file(tmp_path, "born\n1980-02-03\n1990-12-31\n")
    assert read_table(path)["born"].to_list() == [
        datetime.date(1980, 2, 3),
        datetime.date(1990, 12, 31),
    ]


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans()),
        min_size=1,
        max_size=20,
    )
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, float, bool]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "people.csv"
    frame = pl.DataFrame(rows, schema=["id", "x", "yes"], orient="row")
    frame.write_csv(path)
    assert read_table(path, id="id").cast({"x": pl.Float64}).equals(frame)


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (TEXT, {"columns": ["agee"]}, "no column 'agee'; did you mean 'age'?"),
        (TEXT, {"columns": ["AGE"]}, "no column 'AGE'; did you mean 'age'?"),
        (TEXT, {"id": "zzz"}, "no column 'zzz'; it has 'id', 'age', 'city'"),
        (TEXT, {"columns": ["age", "city", "age"]}, "columns names column 'age' twice"),
        ("a,b,a\n1,2,3\n", {}, "names column 'a' twice"),
        ("a,b,a\n1,2,3\n", {"columns": ["b"]}, "names column 'a' twice"),
        ("a,\n1,2\n", {}, "has no name for column 1"),
        ("a,b\n", {}, "has a header and no rows"),
        ("", {}, "is empty"),
        ("\n", {}, "is empty"),
        ("a,b\n1,2\n3,4,5\n", {}, "row 1 (line 3) has 3 cells, and there are 2 columns"),
        ("a,b\n1,2\n3\n", {}, "row 1 (line 3) has 1 cell, and there are 2 columns"),
        ("a,b\n1,2\n\n3,4\n", {}, "row 1 (line 3) is empty, and there are 2 columns"),
        ('a,b\n"1\n,",2\n3\n', {}, "row 1 (line 4) has 1 cell"),
        ("a,b,c\n1,2,3\n4,5", {"columns": ["a"]}, "row 1 (line 3) has 2 cells"),
        (b"a,b\n1,\xff\xfe\n", {}, "cannot be read as a table"),
        (b"a,\xff\xfe\n1,2\n", {}, "cannot be read as a table"),
        ("a;b\n1;2\n", {"columns": ["b"]}, "separated by ';': say separator=';'"),
    ],
)
def test_text_that_is_no_table(
    tmp_path: Path, text: str | bytes, arguments: dict[str, Any], message: str
) -> None:
    assert message in refusal(text_file(tmp_path, text), **arguments)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_a_first_line_without_end_is_not_kept(tmp_path: Path, name: str) -> None:
    opened: Any = gzip.open if name.endswith(".gz") else open
    with opened(tmp_path / name, "wb") as file:
        for _ in range(2**7):
            file.write(bytes(2**20))
    tracemalloc.start()
    try:
        said = refusal(tmp_path / name)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "goes on for more than 16,777,216 characters, so it is no line of names" in said
    assert most < 2**27


@pytest.mark.parametrize("at", [12, 30_000], ids=["the first line", "a row"])
def test_a_packed_table_that_is_damaged_is_told(tmp_path: Path, at: int) -> None:
    text = "id,age\n" + "".join(f"{row},{row % 83}\n" for row in range(20_000))
    packed = bytearray(gzip.compress(text.encode(), mtime=0))
    packed[at : at + 40] = bytes([255]) * 40
    (tmp_path / "people.csv.gz").write_bytes(packed)
    said = refusal(tmp_path / "people.csv.gz")
    assert "people.csv.gz cannot be read as a table: Error -3 while decompressing data" in said


def test_a_long_name_is_shown_as_far_as_it_is_of_use(tmp_path: Path) -> None:
    said = refusal(text_file(tmp_path, bytes(1000) + b",age\n1,2\n"), id="id")
    assert "has no column 'id'; it has '\\x00" in said
    assert said.endswith(" ..., 'age'")
    assert len(said) < len(str(tmp_path)) + 300


def test_another_separator(tmp_path: Path) -> None:
    path = text_file(tmp_path, TEXT.replace(",", ";"))
    assert read_table(path, id="id", separator=";").equals(PEOPLE)
    with pytest.raises(ConfigurationError, match="one ASCII character"):
        read_table(path, separator=";;")
    with pytest.raises(ConfigurationError, match=r"must be one ASCII character .*, not ''$"):
        read_table(path, separator="")  # which was the default


def test_a_file_without_a_line_of_names(tmp_path: Path) -> None:
    path = text_file(tmp_path, TEXT.split("\n", 1)[1])
    names = ["id", "age", "city"]
    assert read_table(path, id="id", names=names).equals(PEOPLE)
    assert read_table(path, id="city", columns=["id"], names=names).equals(
        PEOPLE.select("city", "id")
    )
    assert "3 columns in its first line, but 2 names are given" in refusal(path, names=["a", "b"])
    assert "names names column 'a' twice" in refusal(path, names=["a", "b", "a"])


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "there is no file" in refusal(tmp_path / "absent.csv")
    assert "there is no file" in refusal(tmp_path / "absent.parquet")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert "is not a file" in refusal(folder)
    assert "is not called like a table" in refusal(tmp_path / "people.xlsx")
    broken = text_file(tmp_path, TEXT, "broken.csv.gz")
    broken.write_bytes(broken.read_bytes()[:-12])
    assert "cannot be read" in refusal(broken)
    broken.write_text(TEXT)
    assert "cannot be read" in refusal(broken)


@pytest.mark.parametrize(
    "source",
    ["{}.csv", "{}.csv.gz", "{}.parquet", "sqlite:///{}.db"],
    ids=["csv", "gz", "parquet", "db"],
)
@pytest.mark.parametrize("characters", [300, 5000])
def test_a_name_that_is_too_long_is_told_in_words(source: str, characters: int) -> None:
    table = "people" if "://" in source else None
    assert "cannot be read: File name too long" in refusal(
        source.format("x" * characters), table=table
    )


def test_a_name_with_a_star_is_no_pattern(tmp_path: Path) -> None:
    text_file(tmp_path, TEXT, "a.csv")
    assert "there is no file" in refusal(tmp_path / "*.csv")
    starred = text_file(tmp_path, TEXT, "[*].csv")
    assert read_table(starred).equals(PEOPLE)
    PEOPLE.write_parquet(tmp_path / "[*].parquet")
    assert read_table(tmp_path / "[*].parquet").equals(PEOPLE)


def test_arguments_that_do_not_fit(tmp_path: Path) -> None:
    path = text_file(tmp_path, TEXT)
    with pytest.raises(ConfigurationError, match="are for databases"):
        read_table(path, table="people")
    with pytest.raises(ConfigurationError, match="are for text files"):
        read_table(tmp_path / "people.parquet", missing=["NA"])
    with pytest.raises(ConfigurationError, match="list of names"):
        read_table(path, columns="age")
    with pytest.raises(ConfigurationError, match="columns are empty"):
        read_table(path, columns=[])


# --- Parquet ------------------------------------------------------------------------------------


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    PEOPLE.write_parquet(path)
    assert read_table(path).equals(PEOPLE)
    assert read_table(path, id="city").columns == ["city", "id", "age"]
    assert read_table(path, id="id", columns=["city"]).equals(PEOPLE.select("id", "city"))
    assert "no column 'town'" in refusal(path, columns=["town"])
    PEOPLE.head(0).write_parquet(path)
    assert "has no rows" in refusal(path)
    path.write_text(TEXT)
    assert "cannot be read as a Parquet file" in refusal(path)


def test_what_polars_stumbles_over_is_damaged_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panic was quoted: results that are unwrapped, errors that are joined."""
    path = tmp_path / "table.parquet"
    pl.DataFrame({"x": [1.0]}).write_parquet(path)

    def stumbles(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("called `Result::unwrap()` on an `Err` value")

    monkeypatch.setattr(pl, "scan_parquet", stumbles)
    with pytest.raises(
        DataError, match=r"table.parquet cannot be read as a Parquet file: damaged$"
    ):
        StoredTable(path)


def test_a_stored_table_is_read_a_piece_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    frame = pl.DataFrame({"id": range(1000), "x": np.arange(1000) / 7})
    frame.write_parquet(path, row_group_size=128)
    table = StoredTable(path)
    assert (table.height, list(table.schema)) == (1000, ["id", "x"])
    assert table.column("x").equals(frame["x"])
    batches = list(table.batches(["x"], 300))
    assert [batch.frame.height for batch in batches] == [300, 300, 300, 100]
    assert pl.concat(batch.frame for batch in batches).equals(frame.select("x"))
    assert np.concatenate([batch.places for batch in batches]).tolist() == list(range(1000))


def test_a_stored_table_must_not_change(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    PEOPLE.write_parquet(path)
    table = StoredTable(path)
    pl.concat([PEOPLE, PEOPLE]).write_parquet(path)
    with pytest.raises(DataError, match="has changed while it was in use"):
        table.column("age")


def test_a_parquet_file_that_is_gone_has_changed(tmp_path):
    pl.DataFrame({"x": [3, 4]}).write_parquet(tmp_path / "t.parquet")
    table = StoredTable(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").unlink()
    with pytest.raises(DataError, match="has changed while it was in use"):
        table.column("x")


@pytest.mark.parametrize("after", ["ID,x\n1,2\n3,4\n5,6\n", "ID,x\n7,8\n9,8\n"])
def test_a_text_file_that_changes_while_it_is_read_is_told_as_that(tmp_path, monkeypatch, after):
    """It was said to lack quotation marks, or taken although its rows were of two files."""
    path = tmp_path / "t.csv"
    path.write_text("ID,x\n1,2\n3,4\n")
    os.utime(path, (0, 0))
    read = pl.read_csv

    def changing(*given, **how):
        path.write_text(after)
        return read(*given, **how)

    monkeypatch.setattr(pl, "read_csv", changing)
    with pytest.raises(DataError, match="has changed while it was read; begin again when it is at"):
        read_table(path)


# --- databases ----------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a folder with ? and % and #" / "people.db"
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute('create table people (id integer, age real, "the city; --" text)')
        connection.executemany("insert into people values (?, ?, ?)", PEOPLE.rows())
        connection.execute("create view grown as select id, age from people where age > 18")
        connection.execute('create table "Select" ("from" integer, "x""y" text)')
        connection.execute("""insert into "Select" values (1, 'a')""")
        connection.execute("create table empty (id integer)")
        connection.execute("create table mixed (id integer, x)")
        connection.executemany("insert into mixed values (?, ?)", [(1, None), (2, 3), (3, "four")])
    connection.close()
    return path


def url(path: Path) -> str:
    return "sqlite:///" + str(path).replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def test_sqlite(database: Path) -> None:
    frame = read_table(url(database), table="people", id="id")
    assert frame.rows() == PEOPLE.rows()
    assert frame.schema == {"id": pl.Int64, "age": pl.Float64, "the city; --": pl.String}
    assert read_table(url(database), table="grown").rows() == [(7, 41.0)]
    strange = read_table(url(database), table="Select", columns=['x"y', "from"])
    assert strange.rows(named=True) == [{'x"y': "a", "from": 1}]


def test_only_the_wanted_columns_of_a_table_are_selected(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = sqlite3_connect(*args, **kwargs)
        connection.set_trace_callback(seen.append)
        return connection

    sqlite3_connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    frame = read_table(url(database), table="people", id="id", columns=["the city; --"])
    assert frame.columns == ["id", "the city; --"]
    selects = [text for text in seen if "FROM" in text and '"people"' in text and "SELECT" in text]
    assert [" ".join(text.split()) for text in selects if "pragma" not in text.lower()] == [
        'SELECT "people"."id", "people"."the city; --" FROM "people"'
    ]


def test_queries_are_taken_verbatim(database: Path) -> None:
    text = "select id, '12:30 :x %s %(y)s' as note, age from people order by id desc -- ; a note"
    frame = read_table(url(database), query=text, id="id")
    assert frame["note"].to_list() == 2 * ["12:30 :x %s %(y)s"]
    assert frame["id"].to_list() == [9, 7]
    assert read_table(url(database), query=text, columns=["age"]).columns == ["age"]


def test_a_database_is_only_read(database: Path, tmp_path: Path) -> None:
    assert "there is no file" in refusal(f"sqlite:///{tmp_path}/absent.db", table="people")
    assert not (tmp_path / "absent.db").exists()
    before = database.read_bytes()
    assert "does more than read" in refusal(url(database), query="delete from people")
    assert "does more than read" in refusal(url(database), query="delete from people returning id")
    assert database.read_bytes() == before


def test_a_locked_sqlite_file(database: Path) -> None:
    writer = sqlite3.connect(database, isolation_level=None)
    try:
        writer.execute("begin exclusive")
        message = refusal(url(database), table="people")
        assert message.startswith(str(database))
        assert "is locked by another program" in message
        writer.execute("rollback")
        assert read_table(url(database), table="people").height == 2
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "peple"}, "has no table 'peple'; it has 'Select', 'empty', 'mixed', 'people'"),
        ({"table": "people; drop table people"}, "has no table 'people; drop table people'"),
        ({"table": "other.people"}, "has no table 'other.people'"),
        ({"table": "people", "columns": ["agee"]}, "no column 'agee'; did you mean 'age'?"),
        ({"table": "people", "id": "ident"}, "has no column 'ident'"),
        ({"query": "select id from people", "columns": ["age"]}, "has no column 'age'"),
        ({"query": "select nobody from people"}, "no such column: nobody"),
        ({"query": "selec"}, "syntax error"),
        ({"query": "select id, age as id from people"}, "names column 'id' twice"),
        ({"query": "select id from people where id > 100"}, "has no rows"),
        ({"table": "empty"}, "has no rows"),
        ({"table": "mixed"}, "holds 3 in row 1 and 'four' in row 2"),
        ({"query": "pragma query_only = 1"}, "does more than read"),
    ],
)
def test_what_a_database_does_not_have(
    database: Path, arguments: dict[str, Any], message: str
) -> None:
    assert message in refusal(url(database), **arguments)
    assert read_table(url(database), table="people").height == 2


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = text_file(tmp_path, TEXT * 100, "people.db")
    assert "file is not a database" in refusal(f"sqlite:///{path}", table="people")
    assert "is not a file" in refusal(f"sqlite:///{tmp_path}", table="people")


def test_whole_numbers_and_floats_mix_also_across_parts(tmp_path: Path) -> None:
    path = tmp_path / "many.db"
    rows = [(None,)] * 9000 + [(1,)] * 9000 + [(0.5,)] * 9000
    with sqlite3.connect(path) as connection:
        connection.execute("create table many (x)")
        connection.executemany("insert into many values (?)", rows)
    connection.close()
    frame = read_table(f"sqlite:///{path}", table="many")
    assert frame.schema == {"x": pl.Float64}
    assert frame["x"].to_list() == [value for (value,) in rows]


@pytest.mark.parametrize(
    ("address", "arguments", "message"),
    [
        ("sqlite:///x.db", {}, "needs table='...' or query='...', one of them"),
        ("sqlite:///x.db", {"table": "a", "query": "b"}, "not both"),
        ("sqlite://", {"table": "a"}, "must name its file"),
        ("://x", {"table": "a"}, "cannot be understood"),
        ("postgresql://ann:hunter22@db:port/crm", {"table": "a"}, "cannot be understood"),
        ("nosuch://ann:hunter22@db/crm", {"table": "a"}, "no driver for 'nosuch'"),
        *(
            (
                f"{scheme}://ann:hunter22@db/crm?plugin=hunter22",
                {"table": "a"},
                "has the option 'plugin', which is code to run",
            )
            for scheme in ("sqlite", "postgresql", "postgresql+psycopg2", "mysql+pymysql", "mysql")
        ),
        (
            "postgresql://ann:hunter22@db/crm?port=hunter22",
            {"table": "a"},
            "an option of the URL of the database 'crm' at db is not what its driver takes",
        ),
    ],
)
def test_urls_that_cannot_be_used(address: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_table(address, **arguments)
    assert message in str(caught.value)
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("read", [read_table, StoredTable])
@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://h/b.csv?sig=hunter22", "from this computer alone, not from https://: copy it"),
        ("HTTPS://ann:hunter22@h/b.parquet", "from this computer alone, not from HTTPS://: copy"),
        ("s3://ann:hunter22@bucket/b.parquet", "from this computer alone, not from s3://: copy it"),
        ("file:///srv/b.csv", "files are named by their paths, without file://"),
    ],
)
def test_a_file_elsewhere_is_no_database(read: Any, address: str, message: str) -> None:
    """A table or query was asked for, or the URL was shown, signature and all."""
    with pytest.raises(ConfigurationError) as caught:
        read(address)
    assert message in str(caught.value)
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("read", [read_table, StoredTable])
@pytest.mark.parametrize("end", [".csv", ".parquet"])
def test_a_password_in_a_url_without_a_scheme_is_not_shown(read: Any, end: str) -> None:
    with pytest.raises(DataError, match=r"^there is no file //ann:\.\.\.$"):
        read(f"//ann:hunter22@h/b{end}")


def test_arguments_of_the_driver_are_no_options_of_a_url() -> None:
    """What is no text fails in Python's words, or makes another transaction of the one."""
    psycopg = pytest.importorskip("psycopg")
    named = {*inspect.signature(psycopg.Connection.connect.__func__).parameters, "self"}
    for name in named - {"kwargs"}:
        with pytest.raises(ConfigurationError) as caught:
            read_table(f"postgresql://ann@127.0.0.1:1/crm?{name}=1", table="people")
        assert f"has the option {name!r}, which is none of PostgreSQL's; " in str(caught.value)


def test_a_database_that_is_down() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        port = taken.getsockname()[1]
        address = f"postgresql://ann:hunter22@127.0.0.1:{port}/crm?sslpassword=s3cret"
        message = refusal(address, table="people")
    assert f"the database 'crm' at 127.0.0.1:{port} cannot be read" in message
    assert "refused" in message
    assert "hunter22" not in message
    assert "s3cret" not in message


def test_a_host_that_does_not_exist() -> None:
    message = refusal("postgres://ann:hunter22@db.invalid/crm", table="people")
    assert "the database 'crm' at db.invalid cannot be read" in message
    assert "hunter22" not in message


def test_without_sqlalchemy(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "sqlalchemy":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r"pip install 'colonnade\[sql\]'"):
        read_database("sqlite:///people.db", table="people")


# --- frames -------------------------------------------------------------------------------------


def test_polars_frames_are_not_copied() -> None:
    assert as_frame(PEOPLE) is PEOPLE
    assert as_frame(PEOPLE.lazy()).equals(PEOPLE)
    assert as_frame(PEOPLE, ["city", "id"]).columns == ["city", "id"]
    assert as_frame(PEOPLE.lazy(), ["city"]).columns == ["city"]


def test_pandas_frames() -> None:
    frame = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "float": [1.5, np.nan, 3.0],
            "text": ["a", None, "c"],
            "object": pd.Series(["a", np.nan, None], dtype=object),
            "category": pd.Categorical(["x", None, "y"]),
            "numbers": pd.Categorical([1, None, 2]),
            "nullable": pd.Series([1, None, 3], dtype="Int64"),
            "truth": pd.Series([True, None, False], dtype="boolean"),
            "plain truth": [True, False, True],
            "when": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
            5: np.array([1, 2, 3], dtype=np.float32),
        }
    ).set_index(np.array([5, 5, 5]))
    found = as_frame(frame)
    assert found.columns == [*map(str, frame.columns)]
    assert found["float"].to_list() == [1.5, None, 3.0]
    assert found["text"].to_list() == ["a", None, "c"]
    assert found["object"].to_list() == ["a", None, None]
    assert found["category"].to_list() == ["x", None, "y"]
    assert found["numbers"].to_list() == ["1", None, "2"]
    assert as_series(frame["numbers"]).to_list() == [1.0, None, 2.0]
    assert found["nullable"].to_list() == [1, None, 3]
    assert found["truth"].to_list() == [True, None, False]
    assert found["plain truth"].dtype == pl.Boolean
    assert found["when"].null_count() == 1
    assert found["5"].dtype == pl.Float32
    assert as_frame(frame, ["text", "5"]).columns == ["text", "5"]


def test_pandas_frames_with_a_name_twice() -> None:
    for names in (["a", "a"], [1, "1"]):
        with pytest.raises(DataError, match=f"names column '{names[1]}' twice"):
            as_frame(pd.DataFrame([[1, 2]], columns=names))


def test_matrices_and_mappings() -> None:
    matrix = np.array([[1, 2], [3, 4]])
    assert as_frame(matrix).to_dict(as_series=False) == {"0": [1, 3], "1": [2, 4]}
    assert as_frame(torch.from_numpy(matrix)).equals(as_frame(matrix))
    assert as_frame(np.asfortranarray(matrix)).equals(as_frame(matrix))
    assert as_frame({"a": (1, 2.5), "b": torch.ones(2)}).to_dict(as_series=False) == {
        "a": [1.0, 2.5],
        "b": [1.0, 1.0],
    }
    assert as_frame({"a": np.array([1.0, np.nan], dtype=np.float16)})["a"].to_list() == [1.0, None]
    assert as_series(range(3), "n").to_list() == [0, 1, 2]
    assert as_series(pd.Series([1, 2], name="y")).name == "y"


@pytest.mark.parametrize(
    "values",
    [
        [7, 8, 9],
        [True, False, True],
        [0.5, 1.5, 2.5],
        ["a", "b", "c"],
        np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]"),
        np.array(["a", object(), "c"], dtype=object),  # nobody looks under a mask
    ],
)
def test_what_is_masked_is_missing(values: Any) -> None:
    masked = np.ma.masked_array(values, mask=[False, True, False])
    known = as_series(np.asarray(values)[[0, 2]]).to_list()
    found = as_series(masked, "x")
    assert found.name == "x"
    assert found.to_list() == [known[0], None, known[1]]
    assert as_series(list(masked)).to_list() == [known[0], None, known[1]]
    assert as_series(np.ma.masked_all(2, dtype=np.int64)).to_list() == [None, None]
    assert as_series(np.ma.masked_array([7, 8])).to_list() == [7, 8]


def test_a_masked_matrix() -> None:
    matrix = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    assert as_frame(matrix).to_dict(as_series=False) == {"0": [1, 3], "1": [None, 4]}


@pytest.mark.parametrize("unit", ["[Y]", "[M]", "[W]", "[D]", "[s]", "[us]", "[ns]", "[ps]", ""])
def test_durations_are_no_numbers(unit: str) -> None:
    spans = np.arange(3).astype(f"timedelta64{unit}")
    for values in (spans, list(spans), np.ma.masked_array(spans)):
        assert isinstance(as_series(values).dtype, pl.Duration)
    column = pd.Series(pd.to_timedelta([1, 2], unit="h")).astype("timedelta64[ns]")
    assert isinstance(as_series(column).dtype, pl.Duration)


def test_times_of_numpy_in_a_list_are_no_numbers() -> None:
    times = [np.datetime64("2020-01-01T05:00", unit) for unit in ("ns", "us", "s")]
    assert as_series(times).to_list() == [datetime.datetime(2020, 1, 1, 5)] * 3
    assert as_series([np.datetime64(10**10, "Y")]).dtype.is_temporal()


def test_decimals() -> None:
    decimals = [Decimal("NaN"), Decimal("sNaN"), None, Decimal("2.5"), Decimal(3)]
    assert as_series(decimals).to_list() == [None, None, None, 2.5, 3.0]
    assert as_series(pd.Series(decimals)).to_list() == [None, None, None, 2.5, 3.0]
    assert as_series([Decimal("3.0"), Decimal(4)]).to_list() == [3.0, 4.0]
    assert as_series([Decimal(2**62 + 1), Decimal("3E2")]).to_list() == [2**62 + 1, 300]
    assert as_series([Decimal(2**70 + 1), Decimal(2**70)]).to_list() == [2**70 + 1, 2**70]
    accounts = [Decimal(2**53 + 1), Decimal(2**53)]
    assert as_series([Decimal(f"{each}.00") for each in accounts]).to_list() == accounts
    assert as_series([*accounts, Decimal("0.5")]).to_list() == [*accounts, Decimal("0.5")]
    assert as_series([*map(int, accounts), 0.5]).to_list() == [*accounts, Decimal("0.5")]
    for beyond in (Decimal("1E40"), Decimal("Infinity")):
        with pytest.raises(DataError, match="values that no column can hold"):
            as_series([*accounts, beyond])
    # As decimals of 38 digits in all, polars has the large one as missing.
    assert as_series([Decimal("1e37"), Decimal("0.12")]).to_list() == [1e37, 0.12]
    for beyond in ("Infinity", "1e400", "1e999999"):
        assert as_series([Decimal(beyond), Decimal("1e-400")]).to_list() == [float("inf"), 0.0]
        with pytest.raises(DataError, match="row 1, column 'x': the value is inf"):
            TableTransformer().fit({"x": [Decimal(1), Decimal(beyond)]})


def test_tensors_of_other_kinds() -> None:
    whole = torch.arange(3)
    assert as_series(whole.float().to(torch.float8_e4m3fn)).to_list() == [0, 1, 2]
    assert as_series((whole * (1 + 1j)).conj().imag).to_list() == [0, -1, -2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("people.csv", "a file or database is read by read_table"),
        (5, "not a int"),
        (np.zeros(3), r"the shape \[N, columns\], not \[3\]"),
        ({"a": [1, 2], "b": [1]}, "column 'b' has 1 values, but column 'a' has 2"),
        ({"a": 5}, "column 'a' must be an array of values, not a int"),
        ({"a": "text"}, "column 'a' must be an array of values, not a str"),
        ({"a": [1, "x"]}, "column 'a' mixes values of the kinds int and str"),
        (
            {"a": [type(f"k{i}", (), {})() for i in range(9)]},
            "k0 and k1 and k2 and k3 and k4 and o",
        ),
        ({"a": [[1], [2]]}, "one value a row, not sequences"),
        ({"a": np.zeros((2, 2))}, r"column 'a' must have the shape \[N\], not \[2, 2\]"),
        ({"a": [object()]}, "column 'a' holds values"),
        ({"a": [2**200]}, "column 'a' holds values that no column can hold"),
        ({"a": ["x", "\ud800"]}, "column 'a' holds text with a lone surrogate"),
        ({"\ud800": [1]}, r"called '\\ud800', with a lone surrogate"),
        (pd.DataFrame({"\ud800": [1.5]}), r"called '\\ud800', with a lone surrogate"),
        ({"a": [10**400, 1.5]}, "column 'a' holds values that no column can hold: int too large"),
        ({"a": np.zeros(2, dtype="i4,f4")}, "one value a row, not records"),
        ({"a": np.ma.masked_all(2, dtype="i4,f4")}, "one value a row, not records"),
        ({"a": np.ma.masked_all((2, 2))}, r"column 'a' must have the shape \[N\], not \[2, 2\]"),
        ({"a": torch.zeros(2, device="meta")}, "column 'a' is a tensor that has no numbers"),
        (torch.zeros(2, 2, device="meta"), "the matrix is a tensor that has no numbers"),
        ({"a": torch.arange(2).mul(1j).conj()}, "column 'a' holds values of the kind complex"),
        ({}, "the table has no columns"),
        ({"a": [1], 1: [2], "1": [3]}, "names column '1' twice"),
    ],
)
def test_what_is_no_table(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_frame(data)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["a", "b"])])
def test_categories_of_polars_in_a_dict_stay_what_they_are(kind: Any) -> None:
    town = pl.Series(["b", None, "a"], dtype=kind)
    assert as_frame({"town": town})["town"].equals(town)


@pytest.mark.parametrize("made", [dict, pd.DataFrame, pl.DataFrame])
def test_a_column_that_is_called_nothing_keeps_its_name(made: Any) -> None:
    data = made({"age": [41, 37], "": [7, 8], "column_1": [1, 2]})
    found = as_frame(data)
    assert found.columns == ["age", "", "column_1"]
    assert whole(SelectedRows(as_table(data), np.array([1]))).row(0) == (37, 8, 2)
    ids = pl.Series("id", ["ann", "bob"])
    assert [*keyed(FrameTable(found, ids), "id").schema] == ["id", "age", "", "column_1"]


def test_an_index_that_is_no_text() -> None:
    for index in (pd.Index(["x", "\ud800"]), pd.Index(["x", "y"], name="\ud800")):
        with pytest.raises(DataError, match="lone surrogate, half a character"):
            index_of(pd.Series([1, 2], index))


def test_columns_that_a_frame_lacks() -> None:
    for data in (PEOPLE, PEOPLE.lazy(), {"age": [1]}):
        with pytest.raises(DataError, match="no column 'agee'; did you mean 'age'"):
            as_frame(data, ["agee"])
        with pytest.raises(DataError, match="names column 'age' twice"):
            as_frame(data, ["age", "age"])


def test_long_lists_are_cut() -> None:
    assert re.fullmatch(r"('\d+', ){7}'\d+' and 92 more", listed(map(str, range(100))))


# --- real data ----------------------------------------------------------------------------------


@pytest.fixture
def data_folder() -> Path:
    folder = os.environ.get("COLONNADE_DATA")
    if not folder:
        pytest.skip("COLONNADE_DATA names no folder with the public tables")
    return Path(folder)


@pytest.mark.data
def test_credit_card_clients(data_folder: Path) -> None:
    """Yeh and Lien, 2009: 30000 clients, of whom 6636 did not pay."""
    frame = read_table(data_folder / "UCI_Credit_Card.csv.gz", id="ID")
    assert frame.shape == (30_000, 25)
    assert frame["ID"].to_list() == list(range(1, 30_001))
    assert frame["default.payment.next.month"].sum() == 6636
    assert all(dtype.is_numeric() for dtype in frame.dtypes)


@pytest.mark.data
def test_ids_of_more_than_64_bits(data_folder: Path) -> None:
    """Avazu's ids are unsigned, and some are beyond int64, so all are text."""
    frame = read_table(data_folder / "avazu_8999.csv.gz", id="id", columns=["click", "C1"])
    assert frame.shape == (8999, 3)
    assert frame["id"].dtype == pl.String
    assert frame["id"].n_unique() == 8999


@pytest.mark.data
def test_a_real_file_without_a_line_of_names(data_folder: Path) -> None:
    """Criteo's: a label, 13 counts and 26 categories, many of them missing."""
    names = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
    frame = read_table(data_folder / "criteo_8000.tsv.gz", names=names)
    assert frame.columns == names
    assert set(frame["label"]) == {0, 1}
    assert all(dtype.is_integer() for dtype in frame.dtypes[:14])
    assert all(dtype == pl.String for dtype in frame.dtypes[14:])
    assert sum(frame.null_count().row(0)) > 1000


@pytest.mark.parametrize("text", [b"id,age\r0,1\r1,2\r", b"id\r0\r1", b'id,age\r"0",1\r'])
@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_line_ends_of_old_macintosh_programs_are_named(tmp_path: Path, text, name) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    with pytest.raises(DataError, match=r"end in CR alone, .*; save it with line ends of LF or CR"):
        read_table(path, id="id")
    whole = text.replace(b"\r", b"\r\n")
    path.write_bytes(gzip.compress(whole) if name.endswith("gz") else whole)
    assert read_table(path, id="id").height == whole.count(b"\n") - (not whole.endswith(b"1"))


def test_rows_that_two_stray_quotes_take_are_told(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    rows = [f"{row},name {row},{row}" for row in range(3000)]
    path.write_text("\n".join(["id,name,age", *rows]) + "\n")
    assert read_table(path, id="id").height == 3000
    rows[10], rows[2000] = '10,"name 10,10', '2000,name 2000",2000'
    path.write_text("\n".join(["id,name,age", *rows]) + "\n")
    with pytest.warns(DataWarning, match=r"begins in line 12 goes on for 1990 more lines") as told:
        assert read_table(path, id="id").height == 1010
    assert len(told) == 1
    for lines, warned in ((10, 0), (11, 1)):
        path.write_text('id,note\n1,"' + "a\n" * lines + '"\n2,b\n')
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            assert read_table(path, id="id").height == 2
        assert len(notes) == warned
