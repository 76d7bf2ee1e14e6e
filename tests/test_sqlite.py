"""SQLite's files as other programs leave them: in use, locked, logged ahead, damaged."""

from __future__ import annotations

import math
import os
import pwd
import re
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from colonnade.errors import DataError
from colonnade.tables import read_table, sqlite_bounds
from colonnade.tables.fetched import pieces
from colonnade.tables.gathered import Gathered
from colonnade.tables.sqlite_trims import add_trims

ROWS = [(1, "Rome"), (2, "Oslo")]


def refusal(path: Path, **kwargs: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_table(f"sqlite:///{path}", **kwargs)
    message = str(caught.value)
    assert message.count("\n") == 0
    return message


def rows_of(path: Path) -> list[Any]:
    return read_table(f"sqlite:///{path}", table="towns").rows()


@contextmanager
def database(path: Path, *statements: str) -> Iterator[sqlite3.Connection]:
    """Open a database of towns that commits each statement."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("create table towns (id integer, town text)")
        connection.executemany("insert into towns values (?, ?)", ROWS)
        yield connection


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be somebody whom the permissions of files bind."""
    whom = os.geteuid()
    if whom == 0:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(whom)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all may enter, and only its owner may write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_write_ahead_log_that_is_in_use(tmp_path: Path) -> None:
    """What was committed is read, also where it is in the log alone; nobody waits for anybody."""
    path = tmp_path / "towns.db"
    with database(path, "pragma journal_mode = wal") as writer:
        writer.execute("begin immediate")
        writer.execute("insert into towns values (3, 'Bern')")
        before = path.read_bytes()
        assert rows_of(path) == ROWS
        writer.execute("commit")
        assert rows_of(path) == [*ROWS, (3, "Bern")]
        assert path.read_bytes() == before


def test_a_write_ahead_log_that_a_killed_writer_left(tmp_path: Path) -> None:
    path, left = tmp_path / "towns.db", tmp_path / "left.db"
    with database(path, "pragma journal_mode = wal"):
        shutil.copy(path, left)
        shutil.copy(f"{path}-wal", f"{left}-wal")
    before = left.read_bytes()
    assert rows_of(left) == ROWS
    assert left.read_bytes() == before


def test_a_journal_that_a_killed_writer_left(tmp_path: Path) -> None:
    """Half of what it wrote is in the file; who only reads cannot take it back."""
    path, left = tmp_path / "towns.db", tmp_path / "left.db"
    with database(path, "pragma cache_size = 1") as writer:
        writer.executemany("insert into towns values (?, ?)", [(i, "x" * 500) for i in range(99)])
        writer.execute("begin")
        writer.execute("update towns set town = 'y' || town")
        for end in ("", "-journal"):
            shutil.copy(f"{path}{end}", f"{left}{end}")
        writer.execute("rollback")
    before = left.read_bytes()
    for asked in ({"table": "towns"}, {"query": "select * from towns"}):
        message = refusal(left, **asked)
        assert "a program that wrote to it was stopped in the midst of it" in message
    assert left.read_bytes() == before
    with closing(sqlite3.connect(left)) as program:
        program.execute("select * from towns").fetchall()
    assert len(rows_of(left)) == 101


def test_a_file_that_may_only_be_read(open_folder: Path) -> None:
    path, ahead = open_folder / "towns.db", open_folder / "ahead.db"
    with database(path), database(ahead, "pragma journal_mode = wal"):
        pass
    for each in (path, ahead):
        each.chmod(0o444)
    open_folder.chmod(0o555)
    assert rows_of(path) == ROWS  # and what this needs is imported
    with unprivileged():
        assert rows_of(path) == ROWS
        assert read_table(f"sqlite:///{path}", query="select * from towns").rows() == ROWS
        message = refusal(ahead, table="towns")
    assert "it has a write-ahead log, for which a reader, too, writes files beside it" in message
    path.chmod(0)
    with unprivileged():
        assert "unable to open database file" in refusal(path, table="towns")


@pytest.mark.parametrize("locked", ["immediate", "exclusive"])
def test_a_writer_keeps_readers_out_at_the_end_alone(tmp_path: Path, locked: str) -> None:
    path = tmp_path / "towns.db"
    with database(path) as writer:
        writer.execute(f"begin {locked}")
        writer.execute("insert into towns values (3, 'Bern')")
        if locked == "immediate":
            assert rows_of(path) == ROWS
        else:
            assert "is locked by another program that writes to it" in refusal(path, table="towns")
        writer.execute("commit")
        assert len(rows_of(path)) == 3


@pytest.mark.parametrize(
    "call",
    [
        "fts3_tokenizer('simple')",  # tells an address of the process
        "hex(fts3_tokenizer('simple', x'4141414141414141'))",  # would go to that address
        "load_extension('/tmp/any.so')",
        "readfile('/etc/hostname')",
        "sqlite_compileoption_get(0)",
    ],
)
def test_a_query_calls_no_function_but_those_that_compute(tmp_path: Path, call: str) -> None:
    path = tmp_path / "towns.db"
    with database(path):
        pass
    said = refusal(path, query=f"select {call} from towns")
    assert "does more than read; expected a select" in said or "no such function" in said
    read = read_table(
        f"sqlite:///{path}", query="select upper(town) as t, json_array(1, abs(-2)) as j from towns"
    )
    assert read["j"].to_list() == ["[1,2]"] * len(read)


@pytest.mark.parametrize("call", ["json_group_array(a.id)", "json_pretty(a.town, a.town)"])
def test_no_json_is_made_of_many_rows_or_of_white_space(tmp_path: Path, call: str) -> None:
    """Two gigabytes were taken before SQLite looked how long it was."""
    path = tmp_path / "towns.db"
    with database(path):
        pass
    said = refusal(path, query=f"select {call} as j from towns a, towns b, towns c")
    assert re.search(r"a select that does not call json_\w+$|no such function: json_pretty", said)


def test_a_row_of_many_long_values_is_refused_before_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "towns.db"
    with database(path):
        pass
    wide = ", ".join(f"zeroblob({2**23}) as c{number}" for number in range(1500))
    assert "in a row of many columns" in refusal(path, query=f"select {wide}")
    narrow = wide.replace(str(2**23), "9")
    assert read_table(f"sqlite:///{path}", query=f"select {narrow}").width == 1500
    with closing(sqlite3.connect(path)) as made:
        made.execute(f"create view wide as select {wide}")
    assert "in a row of many columns" in refusal(path, table="wide")
    assert read_table(f"sqlite:///{path}", table="wide", columns=["c7"]).width == 1


@pytest.mark.parametrize("select", ["*", "*, c7 ->> '$' as d"])
def test_a_wide_row_is_sorted(tmp_path: Path, select: str) -> None:
    """SQLite holds a whole row that it sorts to the bound of one value."""
    path = tmp_path / "towns.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute(f"create table people ({', '.join(f'c{n}' for n in range(1000))})")
        row = ["1" if number == 7 else "y" * 1200 for number in range(1000)]
        made.execute(f"insert into people values ({', '.join('?' * 1000)})", row)
        made.commit()
    query = f"select {select} from people order by c1"
    assert read_table(f"sqlite:///{path}", query=query)["c1"].to_list() == ["y" * 1200]


@pytest.mark.parametrize("query", ["query plan select 1", "explain select 1", "; select 1"])
def test_what_is_no_query_is_told_in_words(tmp_path: Path, query: str) -> None:
    path = tmp_path / "towns.db"
    with database(path):
        pass
    assert "syntax error" in refusal(path, query=query)


def test_of_long_rows_one_is_held_at_a_time() -> None:
    held, taken = [], []

    def rows():
        for _ in range(9):
            taken.append(len(held))
            yield (b"x" * 2**24,)

    for piece in pieces(rows()):
        held.append(len(piece))
    assert held == [1] * 9
    assert taken == [*range(9)]


SLOW = [
    "instr(a, b || 'x')",
    "replace(a, b || 'x', '')",
    "a like '%' || substr(a, 1, 500) || 'x'",
    "a glob '*' || substr(a, 1, 500) || 'x'",
    "json_patch(a, b)",
]


@pytest.mark.parametrize("call", SLOW)
def test_what_takes_long_for_long_values_gets_none(tmp_path: Path, call: str) -> None:
    """Within one call nothing ends it; what takes no longer than the value is long may go on."""
    path = tmp_path / "towns.db"
    with database(path) as made:
        made.execute("create table notes (id integer, a text, b text)")
        made.execute("insert into notes values (1, ?, ?)", ("y" * 2**19, "y" * 2**18))
        made.execute(f"create view slow as select {call} as found from notes")
    why = "more than 16,777,216 bytes, or 16,384 to 1,048,576 beside functions that take long or"
    assert why in refusal(path, query=f"select {call} as found from notes")
    assert why in refusal(path, table="slow")
    url = f"sqlite:///{path}"
    assert len(read_table(url, table="notes")["a"][0]) == 2**19
    assert read_table(url, query="select length(a) as n, trim(b, 'x') from notes")["n"][0] == 2**19
    assert read_table(url, query="select instr('ab', 'b') as n from notes")["n"][0] == 2


def test_a_pattern_is_short(tmp_path: Path) -> None:
    path = tmp_path / "towns.db"
    with database(path):
        pass
    query = "select * from towns where town like '%{}'"
    assert "pattern too complex" in refusal(path, query=query.format("y" * 512))
    assert "has no rows" in refusal(path, query=query.format("y" * 511))


TRIMMED = (*("", "x", "xyx", "abcxy", "  a ", "éa😀é", "a\0b\0", "100", "1.50"), None, 100, -5, 0)
TRIMMED += (1.5, -0.0, 1e20, 1e-7, math.inf, 2**53 + 0.0, b"", b"xay", b"\xc3\xa9a", 2**63 - 1)


@pytest.mark.parametrize("name", ["trim", "ltrim", "rtrim"])
def test_a_trim_is_sqlites(name: str) -> None:
    with closing(sqlite3.connect(":memory:")) as own, closing(sqlite3.connect(":memory:")) as ours:
        add_trims(ours)
        for text in TRIMMED:
            for characters in TRIMMED:
                values = (text, characters)
                query = f"select {name}(?1, ?2), typeof({name}(?1, ?2)), {name}(?1)"
                found = ours.execute(query, values).fetchone()
                assert found == own.execute(query, values).fetchone(), values


@pytest.mark.parametrize("value", ["hex(zeroblob(1000))", "zeroblob(2000)"])
def test_a_trim_takes_few_characters(tmp_path: Path, value: str) -> None:
    path = tmp_path / "towns.db"
    with database(path):
        pass
    told = refusal(path, query=f"select trim(town, {value}) as t from towns")
    assert "trims by more than a thousand characters" in told
    told = refusal(path, query="select trim(zeroblob(100000), 'x') as t from towns")
    assert "a thousand" in told


@pytest.mark.parametrize("call", ["printf('%.*c', 900000000, 'a')", "FORMAT('%05d', id)"])
def test_nothing_formats(tmp_path: Path, call: str) -> None:
    """Within one call nothing ends it, and what it takes hangs on no length."""
    path = tmp_path / "towns.db"
    with database(path) as connection:
        connection.execute(f"create view v as select {call} as t from towns")
    for how in ({"query": f"select {call} as t from towns"}, {"table": "v"}):
        assert "calls printf or format" in refusal(path, **how)


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"


def test_what_works_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "towns.db"
    with database(path):
        pass
    worked = iter(range(10**6))
    monkeypatch.setattr(sqlite_bounds, "thread_time", lambda: 100.0 * next(worked))
    assert "or an hour of work; if it has an end, store" in refusal(path, query=ENDLESS)
    assert next(worked) < 50


def test_ctrl_c_ends_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes between two steps, where SQLite makes an error of it."""
    path = tmp_path / "towns.db"
    with database(path):
        pass
    own, asked = sqlite_bounds.thread_time, iter(range(10**6))

    def interrupted() -> float:
        if next(asked) == 5:
            signal.raise_signal(signal.SIGINT)
        return own()

    monkeypatch.setattr(sqlite_bounds, "thread_time", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            read_table(f"sqlite:///{path}", query=ENDLESS)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_query_that_writes_in_its_end(tmp_path: Path) -> None:
    path = tmp_path / "towns.db"
    with database(path):
        pass
    before = path.read_bytes()
    for query in (
        "with x as (select 3) insert into towns select *, 'x' from x returning id",
        "with x as (select 3) update towns set town = 'x' returning id",
        "with x as (select 3) delete from towns returning id",
    ):
        assert "does more than read; expected a select" in refusal(path, query=query)
    assert path.read_bytes() == before


def test_types(tmp_path: Path) -> None:
    """A column's declared type binds nobody, so values say what it holds."""
    path = tmp_path / "types.db"
    with database(path) as made:
        made.execute(
            "create table t (a integer, b text, c blob, d boolean, e date, f decimal(5, 2), "
            "g real, h, n)"
        )
        made.execute(
            f"insert into t values ({2**63 - 1}, 'é😀', x'00ff', true, '2020-01-31', 1.5, 9e999, "
            "7, null)"
        )
        made.execute(f"insert into t values (-{2**63}, '', null, false, null, 2, 0.1, 2.5, null)")
        made.execute("create table s (a integer, b as (a * 2), c as (a * 3) stored)")
        made.execute("insert into s (a) values (2)")
        made.execute("create table keyed (id integer primary key, x) without rowid")
        made.execute("insert into keyed values (5, 6)")
        made.execute(f"create view v as select count(*) as n, {2**63} as big from towns")
    frame = read_table(f"sqlite:///{path}", table="t")
    assert frame.to_dict(as_series=False) == {
        "a": [2**63 - 1, -(2**63)],
        "b": ["é😀", ""],
        "c": [b"\x00\xff", None],
        "d": [1, 0],
        "e": ["2020-01-31", None],
        "f": [1.5, 2.0],
        "g": [math.inf, 0.1],
        "h": [7.0, 2.5],
        "n": [None, None],
    }
    assert frame.schema["a"] == pl.Int64
    assert frame.schema["f"] == frame.schema["h"] == pl.Float64
    assert read_table(f"sqlite:///{path}", table="s").rows() == [(2, 4, 6)]
    assert read_table(f"sqlite:///{path}", table="keyed").rows() == [(5, 6)]
    assert read_table(f"sqlite:///{path}", table="v").rows() == [(2, 2.0**63)]


def test_views_of_what_is_gone(tmp_path: Path) -> None:
    with database(tmp_path / "towns.db") as made:
        made.execute("create view gone as select * from nosuch")
    assert "no such table: main.nosuch" in refusal(tmp_path / "towns.db", table="gone")


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "towns.db"
    with database(path, "pragma encoding = 'UTF-16'") as made:
        made.execute("insert into towns values (3, 'Zürich 😀')")
    assert rows_of(path)[2] == (3, "Zürich 😀")
    other = tmp_path / "other.db"
    with database(other) as made:
        made.execute("insert into towns values (3, cast(x'5afc' as text))")
    assert "Could not decode to UTF-8 column 'town'" in refusal(other, table="towns")
    query = "select cast(town as blob) as town from towns where id = 3"
    assert read_table(f"sqlite:///{other}", query=query)["town"].to_list() == [b"Z\xfc"]


def test_numbers_that_floating_point_would_merge(tmp_path: Path) -> None:
    path = tmp_path / "banks.db"
    with database(path) as made:
        made.execute("create table accounts (number numeric(20, 2))")
        made.executemany("insert into accounts values (?)", [(2**53 + 1,), (2**53,), (1.5,)])
    frame = read_table(f"sqlite:///{path}", table="accounts")
    assert frame["number"].to_list() == [2**53 + 1, 2**53, Decimal("1.5")]
    column = Gathered("number", "accounts")
    for part in ([2**53 + 1], [None], [1.5], [Decimal(2**53), None]):
        column.add(part)
    assert column.series().to_list() == [2**53 + 1, None, Decimal("1.5"), 2**53, None]
    column = Gathered("number", "accounts")
    for part in ([Decimal(3)], [Decimal(2**64)], [None]):
        column.add(part)
    assert column.series().to_list() == [3, 2**64, None]


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "towns.db"
    with database(path) as made:
        made.executemany("insert into towns values (?, ?)", [(i, "x" * 500) for i in range(99)])
    whole = path.read_bytes()
    path.write_bytes(whole[:20_000])
    assert "database disk image is malformed" in refusal(path, table="towns")
    path.write_bytes(whole[:12_288] + b"\xff" * 12_288 + whole[24_576:])
    assert "database disk image is malformed" in refusal(path, table="towns")
    path.write_bytes(b"")
    assert "has no table 'towns'" in refusal(path, table="towns")
