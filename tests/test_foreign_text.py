"""Text of others: a secret in it is not repeated, a query reads alone, nothing in it is a bomb."""

from __future__ import annotations

import json
import sqlite3
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from colonnade import cli
from colonnade.config import parse_config
from colonnade.config.parse import override
from colonnade.config.tables import TableConfig
from colonnade.config.variables import expanded
from colonnade.errors import ConfigurationError, DataError
from colonnade.export import load_part
from colonnade.ledger import Ledger
from colonnade.run_read import load_run
from colonnade.tables import database as tables_database
from colonnade.tables import read_table
from colonnade.tables.urls import parts_of

# Passwords


def said(source, monkeypatch, capsys, **bank):
    """Run with a bank's table; return the exit code and everything that it printed or wrote."""
    parties = {"bank": {"source": source, "table": "clients"} | bank}
    labels = {"source": "labels.csv", "column": "y"}
    data = {"id": "id", "parties": parties, "labels": labels}
    Path("run.yaml").write_text(yaml.safe_dump({"data": data}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["colonnade", "run", "run.yaml", "--out", "out", "-q"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    captured = capsys.readouterr()
    files = [path.read_text("utf-8", "replace") for path in Path("out").rglob("*.*")]
    return left.value.code, "\n".join([captured.out, " ".join(captured.err.split()), *files])


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://h/db?password=hunter2",
        "postgresql://h/db?user=ann&passwd=hunter2",
        "postgresql://h/db?sslpassword=hunter2&sslmode=require",
        "postgresql://h/db?pass%77ord=hunter2",
        "postgresql:///db?PassWord=hunter2",
        "postgresql://ann:hunter2@h/db",
        "postgresql://ann:x@hunter2@h/db",
        "postgresql://ann:$PASSWORD@hunter2@h/db",
        "postgresql://ann:x/hunter2@h/db",
        "postgresql://ann:$PASSWORD-hunter2@h/db",
        "postgresql://ann:${PASSWORD}hunter2@h/db",
        "postgresql://ann:x$hunter2@h/db",
        "postgresql://ann:$hunter2@h/db",  # a variable that is not set, or a password
        "postgresql://h/db?password=$hunter2",
        "mssql+pyodbc:///?odbc_connect=UID%3Dann%3BPWD%3Dhunter2",
        "postgresql:/ann:hunter2@h/db",
        "snowflake://ann@h/db?token=hunter2",
        "postgresql://ann/:hunter2@h/db",
        "postgresql://ann/hunter2@h/db",
        "postgresql://h/db/hunter2@",
        "postgresql:///:hunter2@h/db",
        "postgresql://h/db#password=hunter2",
        "postgresql://h#password=hunter2/db",
        "postgresql://h/db;PWD=hunter2",
        "postgresql://h/db&pass%77ord=hunter2",
        "postgresql://ann#password=hunter2@h/db",
        "sqlite:///people.db#password=hunter2",
        "host=h user=ann password=hunter2",
        "host=h user=ann password = 'hunter2'",
        "Server=h;UID=ann;PWD=hunter2",
        "ann/hunter2@h:1521/x",
        "ann/$PASSWORD-hunter2@h:1521/x",
        "ann/$hunter2@h:1521/x",
        "ann/x@hunter2@h/x",
        "ann:hunter2@h/x",
        "ann\uff0fhunter2\uff20h/x",
        "postgresql://ann%3Ahunter2@h/db",
        "postgresql://ann\uff1ahunter2@h/db",
        "postgresql://ann%EF%BC%9Ahunter2@h/db",
        "postgresql://h/db?user=ann:hunter2",
        "postgresql://h/db?user=ann%3Ahunter2",
        "postgresql://h/db?us%65r=ann%EF%BC%9Ahunter2",
        "mysql://h/db?username=ann:hunter2",
        "postgresql:///db?host=ann:hunter2@h",
        "postgresql:///db?host=h:5432&host=ann/hunter2@h",
        "postgresql://h/?dbname=ann:hunter2@h",
        "postgresql:///ann/hunter2@h/db",
        "postgresql:///ann%3Ahunter2@h/db",
        "postgresql:///db?host=/ann/hunter2@h/db",
        "postgresql://h/?dbname=postgresql://ann%3Ahunter2@h/db",
    ],
)
def test_a_password_is_neither_kept_nor_shown(source, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSWORD", "hunter2")
    code, everything = said(source, monkeypatch, capsys)
    assert code == 2
    assert "password" in everything
    assert "variable" in everything
    assert "hunter2" not in everything
    assert not Path("out").exists()


@pytest.mark.parametrize("place", ["data", "data.parties.bank", "data.labels", "data.name"])
def test_a_url_in_a_wrong_place_is_not_repeated(place):
    url = "postgresql://ann:hunter2@h/db"
    data = {"parties": {"bank": {"source": "a.csv"}}, "labels": {"source": "b.csv", "column": "y"}}
    whole = {"data": data}
    *above, last = place.split(".")
    section = whole
    for name in above:
        section = section[name]
    section[last] = url
    with pytest.raises(ConfigurationError) as caught:
        parse_config(whole)
    assert "hunter2" not in str(caught.value)
    assert "postgresql://..." in str(caught.value)


LONG_OR_SECRET = [
    "k" * 200_000,
    "postgresql://ann:hunter2@h/db",
    "postgresql://ann:a.hunter2@h/db",
    "postgresql://h/db#password=hunter2",
    "host=h user=ann password=hunter2",
    "ann:hunter2@h/db",
]


@pytest.mark.parametrize("key", LONG_OR_SECRET, ids=lambda key: key[:40])
@pytest.mark.parametrize(
    "place",
    ["", "data", "data.parties", "data.parties.bank", "data.labels", "method", "network.parties"],
)
def test_a_key_is_told_as_a_value_is(place, key):
    data = {"parties": {"bank": {"source": "a.csv"}}, "labels": {"source": "b.csv", "column": "y"}}
    whole = {"data": data, "method": {"name": "svfl"}, "network": {"parties": {}}}
    section = whole
    for name in place.split(".") if place else []:
        section = section[name]
    section[key] = {"source": "c.csv"}
    with pytest.raises(ConfigurationError) as caught:
        parse_config(whole)
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("key", LONG_OR_SECRET, ids=lambda key: key[:40])
@pytest.mark.parametrize("form", ["{}.a=1", "data.{}=1", "data={{name: tables, {}: 1}}", "a.{}=["])
@pytest.mark.parametrize("data", [{}, {"data": 3, "a": 3}, {"data": {}}])
def test_the_path_of_an_override_is_told_as_a_value_is(form, data, key):
    with pytest.raises(ConfigurationError) as caught:
        parse_config(override(data, [form.format(key)]))
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://ann/:hunter2@db.invalid/crm",
        "postgresql://ann/hunter2@db.invalid/crm",
        "postgresql:///:hunter2@db.invalid/crm",
        "postgresql://db.invalid/crm#password=hunter2",
        "postgresql://db.invalid#password=hunter2/crm",
        "postgresql://ann#password=hunter2@db.invalid/crm",
        "host=db.invalid user=ann password=hunter2",
        "ann:hunter2@db.invalid/crm",
        "ann/hunter2@db.invalid:1521/crm",
        "ann/x@hunter2@db.invalid/crm",
        "ann\uff0fhunter2\uff20db.invalid/crm",
        "postgresql://ann%3Ahunter2@db.invalid/crm",
        "postgresql://ann\uff1ahunter2@db.invalid/crm",
        "postgresql://db.invalid/?user=ann:hunter2",
        "postgresql://bob@db.invalid/?user=ann%3Ahunter2",
        "postgresql:///?host=ann:hunter2@db.invalid",
        "postgresql:///?host=/ann/hunter2@db.invalid/crm",
        "postgresql:///ann/hunter2@db.invalid/crm",
        "postgresql+psycopg:///ann%2Fhunter2@db.invalid/crm",
        "postgresql:///?host=db.invalid&host=ann:hunter2@db.invalid",
        "postgresql://db.invalid/?dbname=ann:hunter2@db.invalid",
        "postgresql://db.invalid/?dbname=postgresql://ann:hunter2@db.invalid/crm",
    ],
)
def test_a_password_in_an_odd_place_is_not_shown_where_a_table_is_read(source):
    pytest.importorskip("sqlalchemy")
    with pytest.raises((ConfigurationError, DataError)) as caught:
        read_table(source, table="people" if "://" in source else None)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        read_table(source.removesuffix("/crm"), query="select 1", table="people")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "run", "--table", "{}"],
        ["predict", "run", "--table=bank:{}"],
        ["predict", "run", "--without", "{}"],
        ["predict", "run", "--rows", "{}"],
        ["predict", "run", "--out", "{}"],
        ["predict", "run", "bank={}"],
        ["serve", "run", "{}"],
        ["serve", "--token", "{}"],
        ["plan", "{}"],
        ["run", "{}", "--out", "{}"],
        ["align", "{}"],
        ["export", "run", "--to={}"],
        ["check-site", "{}"],
        ["datasets", "{}"],
        ["schema", "{}"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    "url",
    ["postgresql://ann:hunter2@127.0.0.1:1/crm", "https://h.invalid/people.csv?token=hunter2"],
)
def test_a_password_that_stands_where_no_table_goes_is_not_shown(
    tmp_path, monkeypatch, capsys, arguments, url
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["colonnade", *(each.format(url) for each in arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    told = capsys.readouterr()
    assert "hunter2" not in told.out + told.err
    assert left.value.code == 2
    assert not [*tmp_path.iterdir()]


def test_a_path_with_an_at_is_told_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"there is no file data/x@y\.csv"):
        read_table("data/x@y.csv")
    Path("data").mkdir()
    Path("data/x@y.csv").write_text("id,age\n1,2\n")
    assert read_table("data/x@y.csv").height == 1
    Path("data/x@y.txt").write_text("id,age\n1,2\n")
    with pytest.raises(DataError, match=r"^data/x@y\.txt is not called like a table"):
        read_table("data/x@y.txt")


def test_pydantic_does_not_repeat_it_either():
    with pytest.raises(ValueError, match="has a password") as caught:
        TableConfig(source="postgresql://ann:hunter2@h/db", table="t")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("password", ["p@ss", "a/b", "$HOME", "x:y?z#&=%40", "@$ {}", "täst", "+"])
def test_variables_are_encoded_where_they_are_put(password, monkeypatch):
    sql = pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("PASSWORD", password)
    monkeypatch.setenv("ANN", f"an@n:{password}")
    monkeypatch.setenv("BANK", "postgresql://ann:p%40ss@h:99/db")
    monkeypatch.setenv("HERE", "/srv/a b")

    url = sql.make_url(expanded("postgresql://ann:${PASSWORD}@h:99/db?sslpassword=$PASSWORD&a=b"))
    assert (url.username, url.password, url.host, url.port) == ("ann", password, "h", 99)
    assert (url.database, dict(url.query)) == ("db", {"sslpassword": password, "a": "b"})
    both = sql.make_url(expanded("postgresql://$ANN@h/db"))
    assert (both.username, both.password, both.host) == ("an@n", password, "h")
    whole = sql.make_url(expanded("$BANK"))
    assert (whole.password, whole.host) == ("p@ss", "h")
    assert expanded("sqlite:///$HERE/x.db") == "sqlite:////srv/a b/x.db"
    assert expanded("$HERE/x.csv") == "/srv/a b/x.csv"


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:///a@b:c/people.db",
        "postgresql://h",
        "postgresql://@h/db?",
        "postgresql://:@[::1]:5432/db?a=b&c&d=",
        "postgresql+psycopg://ann:p%40ss@h/db?a=b%20c&a=d",
    ],
)
def test_parts_are_sqlalchemys(text):
    sql = pytest.importorskip("sqlalchemy")
    parts, url = parts_of(text), sql.make_url(text)
    assert parts is not None
    assert parts.scheme == url.drivername
    assert (parts.user or "", bool(parts.secret)) == (url.username or "", bool(url.password))
    assert sql.make_url(str(parts)) == url


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://ann@h/db?sslkey=/srv/client.key&passfile=/home/ann/.pgpass",
        "postgresql://ann:${PASSWORD}@h/db?sslpassword=$PASSWORD",
        "postgresql://ann%40srv@h/db",
        "postgresql:///db?host=h:5432,[::1]:5433&host=fe80::1&user=ann%40srv",
        "postgresql:///db?host=@socket&application_name=a:b@c",
        "sqlite:////srv/a:b@c/people.db",
        "$BANK",
        "C:/people.csv",
        "people@home.csv",
        "data/x@y.csv",
        "/srv/a@b/people.tsv.gz",
        "a:b@c/people.parquet",
        "duckdb:////srv/a@b/people.db",
        "key=3/tokens/year=2024/people.parquet",
        "/srv/password=3/people.csv",
    ],
)
def test_what_is_no_secret_is_taken(source):
    assert TableConfig(source=source).source == source


def test_a_password_that_cuts_a_url_in_two_is_not_shown():
    pytest.importorskip("sqlalchemy")
    with pytest.raises(ConfigurationError, match=r"more than one @, .* %40") as caught:
        read_table("postgresql://ann:hun@ter2@h/db", table="people")
    assert "ter2" not in str(caught.value)


# Queries


@pytest.fixture
def database(tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy")
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("people.db")) as connection, connection:
        connection.execute("create table people (id, age)")
        connection.execute("insert into people values (1, 41)")
        connection.execute("create virtual table notes using fts5(text)")
        connection.execute("insert into notes values ('in Rome')")
    return tmp_path


@pytest.mark.parametrize(
    "query",
    [
        "vacuum into 'copy.db'",
        "attach database 'new.db' as n",
        "attach database 'file:new.db?mode=rwc' as n",
        "vacuum",
        "pragma journal_mode = wal",
        "pragma temp_store_directory = '.'",
        "create temp table t as select 1",
        "select load_extension('x')",
        "begin",
        "insert into people values (2, 3) returning id",
        "update sqlite_master set sql = '' returning name",
        "drop table people",
    ],
)
def test_a_query_reads_alone(database, query):
    before = {path.name: path.read_bytes() for path in database.iterdir()}
    with pytest.raises(DataError, match=r"does more than read|cannot be read: ") as caught:
        read_table("sqlite:///people.db", query=query)
    assert len(str(caught.value)) < 100
    assert {path.name: path.read_bytes() for path in database.iterdir()} == before


@pytest.mark.parametrize(
    "query",
    [
        "with recursive n(i) as (select 1 union select i + 1 from n where i < 5) select * from n",
        "select group_concat(age), row_number() over () as k from people group by id",
        "select * from notes where notes match 'rome'",
        "select * from json_each('[1, 2]')",
        "select name from pragma_table_info('people')",
        "pragma table_info(people)",
    ],
)
def test_what_reads_is_allowed(database, query):
    assert read_table("sqlite:///people.db", query=query).height >= 1
    assert read_table("sqlite:///people.db", table="notes").height == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "select '\ud800'"},
        {"table": "people\udcff"},
        {"table": "people", "columns": ["age\ud800"]},
        {"table": "people", "id": "id\ud800"},
        {"source": "sqlite:///people\udcff.db", "table": "people"},
        {"source": "people.csv", "missing": ["\ud800"]},
        {"source": "people.csv", "names": ["\ud800", "age"]},
    ],
)
def test_a_lone_surrogate_is_refused(database, asked):
    Path("people.csv").write_text("id,age\n1,2\n")
    with pytest.raises(ConfigurationError, match="has a lone surrogate, which is no character"):
        read_table(**{"source": "sqlite:///people.db"} | asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"table": 3},
        {"table": b"people"},
        {"query": 3},
        {"table": "people", "id": 3},
        {"table": "people", "columns": [3]},
        {"source": "people.csv", "names": [1, 2]},
        {"source": "people.csv", "missing": [None]},
        {"source": "people.csv", "missing": "NA"},
        {"source": "people.csv", "separator": "\n"},
        {"source": "people.csv", "separator": "\r"},
        {"source": "people.csv", "separator": '"'},
        {"source": 3},
        {"source": ""},
    ],
)
def test_what_is_no_text_is_refused(database, asked):
    Path("people.csv").write_text("id,age\n1,2\n")
    with pytest.raises(ConfigurationError, match=r"must be|is read from a file or the URL"):
        read_table(**{"source": "sqlite:///people.db"} | asked)


def test_a_name_may_have_a_quote(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text('id,"size ""L"""\n1,2\n3,4\n')
    assert read_table(path).to_dict(as_series=False) == {"id": [1, 3], 'size "L"': [2, 4]}
    assert read_table(path, id="id", columns=['size "L"']).columns == ["id", 'size "L"']


@pytest.mark.parametrize("asked", [{"query": "select 1\0"}, {"table": "people\0"}])
def test_a_null_character_is_told_in_one_sentence(database, asked):
    with pytest.raises((ConfigurationError, DataError)):
        read_table("sqlite:///people.db", **asked)


def test_a_query_or_view_without_end_is_ended(database, monkeypatch):
    monkeypatch.setattr(tables_database, "_MOST_STEPS", 10**7)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    with pytest.raises(DataError, match=r"people\.db has not ended after 10,000,000 steps"):
        read_table("sqlite:///people.db", query=endless)
    with closing(sqlite3.connect("people.db")) as connection:
        connection.execute(f"create view endless as {endless}")
    with pytest.raises(DataError, match=r"the view in people\.db has not ended after"):
        read_table("sqlite:///people.db", table="endless")
    assert read_table("sqlite:///people.db", table="people").height == 1


LONG = "hex(zeroblob(50000))"


@pytest.mark.parametrize("row", ["i", LONG, f"i, {LONG}, null"])
def test_rows_without_end_do_not_fill_the_memory(database, monkeypatch, row):
    monkeypatch.setattr(tables_database, "_MOST_BYTES", 2**20)
    monkeypatch.setattr(tables_database, "_TIMES", 1)
    endless = f"with recursive n(i) as (select 1 union all select i + 1 from n) select {row} from n"
    tracemalloc.start()  # which sees the rows, and what is Python's of the columns
    try:
        with pytest.raises(DataError, match="takes more than 1,048,576 bytes of memory, and may"):
            read_table("sqlite:///people.db", query=endless)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**26


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select "


@pytest.mark.parametrize(
    "query",
    [
        f"{ENDLESS} i, randomblob(5000) as b from n order by b",
        f"{ENDLESS} i, randomblob(5000) as b from n union select 1, 2",
        f"{ENDLESS} count(distinct randomblob(5000)) as id from n",
    ],
)
def test_what_is_sorted_without_end_does_not_fill_the_disk(database, monkeypatch, query):
    monkeypatch.setattr(tables_database, "_MOST_BYTES", 2**22)
    monkeypatch.setattr(tables_database, "_TIMES", 1)
    with pytest.raises(DataError, match=r"people\.db sorts or compares more than 4,194,304 bytes"):
        read_table("sqlite:///people.db", query=query)


def test_a_long_sort_that_ends_is_read(database):
    with closing(sqlite3.connect("people.db")) as connection, connection:
        connection.execute("create table long (id, text)")
        rows = ((number * 7919 % 20011, "x" * 400) for number in range(20000))
        connection.executemany("insert into long values (?, ?)", rows)
    frame = read_table("sqlite:///people.db", query="select * from long order by id")
    assert frame.height == 20000
    assert frame["id"].is_sorted()


def test_a_value_without_end_is_not_made(database):
    with pytest.raises(DataError, match="makes, a value of more than 16,777,216 bytes, or 16,384"):
        read_table("sqlite:///people.db", query="select hex(zeroblob(490000000)) a")


@pytest.mark.parametrize("driver", ["mysql+pymysql", "postgresql+psycopg2", "oracle", "nosuch"])
def test_no_query_where_nobody_can_hold_it_to_reading(driver):
    pytest.importorskip("sqlalchemy")
    with pytest.raises(ConfigurationError, match=r"a query could write, .*: name a table or"):
        read_table(f"{driver}://ann@h/db", query="select 1")


# What is deep, or multiplies

LEDGER = (
    "sender,receiver,kind,purpose,round,sequence,body_bytes,framed_bytes,discarded,lost,seconds\n"
)
ROW = "bank,shop,embedding,training,0,0,10,12,false,false,1.5\n"
BOMB = "a0: &a0 [x]\n" + "\n".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)
)


def a_run(**files):
    """Write what a run's folder has; return the folder."""
    summary = {"method": "svfl", "metric": "accuracy", "rounds": 1}
    content = {
        "config.yaml": "training: {epochs: 1}\n",
        "history.csv": "round,epoch,bytes_up,bytes_down\n1,1.0,100,0\n",
        "ledger.csv": LEDGER + ROW,
        "summary.json": json.dumps(summary),
    }
    folder = Path("run")
    folder.mkdir()
    for name, text in (content | files).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("config.yaml", BOMB, r"line \d+: more than 400,000 values"),
        ("config.yaml", "[" * 10**5, "line 1: nested more than 32 levels deep"),
        ("config.yaml", "- training", "it holds no keys and values"),
        ("summary.json", "[" * 10**5, "recursion"),
        ("ledger.csv", LEDGER + ROW + ROW.replace("training", ""), "row 2 describes no message"),
        ("ledger.csv", LEDGER + ROW.replace("training", "pastime"), "row 1 describes no message"),
        ("ledger.csv", LEDGER + ROW.replace("bank", ""), "row 1 describes no message"),
        ("ledger.csv", LEDGER + ROW.replace("1.5", "inf"), "row 1 describes no message"),
        ("ledger.csv", LEDGER + ROW.replace("1.5", "nan"), "row 1 describes no message"),
    ],
)
def test_a_run_that_somebody_else_wrote(tmp_path, monkeypatch, name, text, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=rf"^run/{name} is damaged.*: .*{message}"):
        load_run(a_run(**{name: text}))


def test_a_ledger_without_times_is_read(tmp_path):
    path = tmp_path / "ledger.csv"
    path.write_text(LEDGER + ROW.replace("1.5", ""), encoding="utf-8")
    assert [entry.nanoseconds for entry in Ledger.read_csv(path)] == [None]


@pytest.mark.parametrize("text", ["[" * 10**5, "[]", '{"format": 1, "parts": 3}'])
def test_a_part_that_somebody_else_wrote(tmp_path, text):
    (tmp_path / "part.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"is damaged|has the format"):
        load_part(tmp_path)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_table_whose_lines_end_in_cr_alone(tmp_path, end):
    path = tmp_path / "people.csv"
    path.write_bytes(b"id,age\r" + b"1,41\r" * 10**5 + end)
    with pytest.raises(DataError, match="end in CR alone") as caught:
        read_table(path, id="id")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("number", ["0x" + "f" * 5000, "0b" + "1" * 9999])
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_too_long_to_be_written_is_refused_by_its_path(number, sign):
    data = override({}, [f"training.epochs={sign}{number}"])
    with pytest.raises(ConfigurationError, match=r"^it: training\.epochs: .* more than 300 digits"):
        parse_config(data, "it")


def test_a_key_too_long_to_be_written_is_refused_by_its_path():
    with pytest.raises(ConfigurationError, match=r"^it: data: .* more than 300 digits"):
        parse_config({"data": {10**5000: 1}}, "it")


def test_an_override_is_cut_short(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text("data: mnist5k\n", encoding="utf-8")
    for value in ("[" * 10**4, "{a: 1" * 10**4, "é" * 10**5 + ": ["):
        monkeypatch.setattr(sys, "argv", ["colonnade", "run", "run.yaml", "--set", f"data={value}"])
        with pytest.raises(SystemExit, match="2"):
            cli.main()
        assert len(capsys.readouterr().err) < 700
